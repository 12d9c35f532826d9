"""Nearest centroid in low precision with torch: int8 and bfloat16 on processors that have them, or a GPU.

What rounding to few bits takes from a row or a centroid is a vector of known length, which bounds what it can take from
a cosine (Cauchy and Schwarz); centroids within the bound are compared in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import LEAST, Rows, lengths, product_error
from paredown.clustering.kernels.exact import Doubts, Look, ProductSearch
from paredown.errors import PareError

_INT8, _INT32 = 127, 2**31 - 1
_FEWEST_ROWS, _FEWEST_DIMS = 17, 16  # that torch's integer product takes, and takes without mistakes
_PRECISE_ROWS = 4_096  # of the centroids in double precision at once
_BFLOAT16 = 2.0**-8  # relative rounding of a bfloat16 number, at most
_TENSOR_FLOAT = 2.0**-10  # relative rounding of the numbers that tensor cores multiply, at most


def import_torch() -> Any:
    """torch, or a clear word on how to get it."""
    try:
        import torch
    except ImportError as error:
        raise PareError("this kernel needs torch: pip install 'paredown[train]'.") from error
    return torch


class Int8Search(ProductSearch):
    """Eight-bit integers: each row scaled by its largest entry, all centroids by one scale."""

    name, cost, preparation = "int8", 0.25, 64.0

    def __init__(self, centroids: Rows) -> None:
        super().__init__(centroids)
        self._torch = import_torch()
        dim = centroids.shape[1]
        self._levels = min(_INT8, int((_INT32 / max(dim, _FEWEST_DIMS)) ** 0.5))  # so that no sum overflows
        self._scale = self._levels / max(float(np.abs(self.centroids).max()), LEAST)
        whole = np.zeros((len(self.centroids), max(dim, _FEWEST_DIMS)), np.int8)
        self._lost = 0.0
        for first in range(0, len(self.centroids), _PRECISE_ROWS):
            exact = self.centroids[first : first + _PRECISE_ROWS].astype(np.float64)
            low = np.rint(exact * self._scale)
            self._lost = max(self._lost, float(np.linalg.norm(exact - low / self._scale, axis=1).max()))
            whole[first : first + _PRECISE_ROWS, :dim] = low
        self._low = self._torch.from_numpy(whole).t()
        # Processors without instructions for it add pairs of products in 16 bits, and clip them.
        extreme = self._torch.full((_FEWEST_ROWS, self._low.shape[0]), self._levels, dtype=self._torch.int8)
        sums = self._torch._int_mm(extreme, extreme.t())
        if not bool((sums == extreme.shape[1] * self._levels**2).all()):
            raise PareError("this processor cannot add products of eight-bit integers exactly; use another kernel.")

    def products(self, rows: Rows, space: Rows | None = None) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        low, error, unit = self.look(rows)
        with self._torch.inference_mode():
            products = self._torch._int_mm(low, self._low).numpy()
        return products[: len(rows)], error * unit

    def look(self, rows: Rows) -> Look:
        """Rows to be multiplied with some of the centroids at a time."""
        largest = np.maximum(np.abs(rows).max(axis=1), np.float32(LEAST))
        scale = (self._levels / largest).astype(np.float32)
        low = rows * scale[:, None]
        np.rint(low, out=low)
        length = lengths(rows)
        lost = 0.5001 * rows.shape[1] ** 0.5 / scale  # at most half a level in every number; measuring it takes longer
        error = (length + lost) * self._lost + (lost + product_error(rows.shape[1]) * length) * self.longest
        padded = self._torch.from_numpy(_padded(low, rows=_FEWEST_ROWS))
        return Look(padded, error * (1 + 1e-6), scale.astype(np.float64) * self._scale)

    def look_at(self, part: slice) -> Look:
        """Centroids themselves, to be multiplied with others: in one unit for all."""
        low = self._low.t()[part]
        count, dim = low.shape
        if count < _FEWEST_ROWS:
            low = self._torch.cat([low, low.new_zeros(_FEWEST_ROWS - count, dim)])
        lost, rounding = self._lost, product_error(self.centroids.shape[1])
        error = (self.longest + lost) * lost + (lost + rounding * self.longest) * self.longest
        return Look(low, np.full(count, error * (1 + 1e-6)), self._scale**2)

    def multiply(self, low: Any, part: slice, space: Rows) -> NDArray[np.int32]:
        """Products with some of the centroids, in `space`."""
        products = space.view(np.int32)
        with self._torch.inference_mode():
            self._torch._int_mm(low, self._low[:, part], out=self._torch.from_numpy(products))
        return products


def _padded(low: NDArray[Any], rows: int) -> NDArray[np.int8]:
    """Whole numbers as int8, with zeros up to the shape that torch takes."""
    padded = np.zeros((max(len(low), rows), max(low.shape[1], _FEWEST_DIMS)), np.int8)
    padded[: len(low), : low.shape[1]] = low
    return padded


class BFloat16Search(ProductSearch):
    """Sixteen-bit floats with the range of float32, added up in float32."""

    name, cost, preparation = "bfloat16", 0.5, 48.0

    def __init__(self, centroids: Rows) -> None:
        super().__init__(centroids)
        self._torch = import_torch()
        exact = self._torch.from_numpy(self.centroids)
        low = exact.to(self._torch.bfloat16)
        self._lost = float(lengths((exact - low.float()).numpy()).max())
        self._low = low.t()

    def products(self, rows: Rows, space: Rows | None = None) -> tuple[Rows, NDArray[np.float64]]:
        with self._torch.inference_mode():
            exact = self._torch.from_numpy(rows)
            low = exact.to(self._torch.bfloat16)
            lost = lengths((exact - low.float()).numpy())
            products = (low @ self._low).float().numpy()
        length = lengths(rows)
        rounding = _BFLOAT16 + 2 * product_error(rows.shape[1])  # of the product, in bfloat16, and the cosine
        return products, 1.01 * ((length + lost) * self._lost + (lost + rounding * length) * self.longest)


class CudaSearch(ProductSearch):
    """Float32 on a GPU, with its tensor cores where torch is allowed to use them."""

    name, cost, preparation = "cuda", 0.01, 16.0

    def __init__(self, centroids: Rows, device: str = "cuda") -> None:
        super().__init__(centroids)
        self._torch, self._device = import_torch(), device
        if device == "cuda" and not self._torch.cuda.is_available():
            raise PareError("kernel 'cuda' needs a GPU that torch can see, and there is none.")
        self._low = self._torch.from_numpy(self.centroids).to(device).t()
        rounding = 1.01 * (2 * _TENSOR_FLOAT + 2 * product_error(centroids.shape[1]))
        self._error = rounding * self.longest

    def products(self, rows: Rows, space: Rows | None = None) -> tuple[Any, NDArray[np.float64]]:
        return self._torch.from_numpy(rows).to(self._device) @ self._low, self._error * lengths(rows)

    def doubts(self, rows: Rows, space: Rows | None = None) -> Doubts:
        """The same on the GPU: all products would take longer to fetch than to compute."""
        with self._torch.inference_mode():
            products, error = self.products(rows)
            lead, leader = products.max(dim=1)
            threshold = lead - self._torch.from_numpy((2.001 * error).astype(np.float32)).to(self._device)
            rivals = products >= threshold[:, None]
            rivals[self._torch.arange(len(rows), device=rivals.device), leader] = False
            row, rival = (found.cpu().numpy() for found in rivals.nonzero(as_tuple=True))
            return Doubts(leader.cpu().numpy(), row, rival)
