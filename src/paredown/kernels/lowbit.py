"""Nearest centroid in low precision with torch: int8 and bfloat16 on processors that have them, or a GPU.

Low precision only chooses the centroid; the cosine is recomputed in float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.kernels.exact import row_cosines, rows_at_once

__all__ = ["BFloat16Search", "CudaSearch", "Int8Search", "import_torch"]

_INT8 = 127


def import_torch() -> Any:
    """torch, or a clear word on how to get it."""
    try:
        import torch
    except ImportError as error:
        raise PareError("this kernel needs torch: pip install 'paredown[train]'.") from error
    return torch


class _TorchSearch(ABC):
    """What the low-precision searches share: blocks in, exact cosine of the chosen centroid out."""

    name: str

    def __init__(self, centroids: NDArray[np.float32]) -> None:
        self.centroids, self.torch = centroids, import_torch()

    @abstractmethod
    def _products(self, rows: Any) -> Any:
        """Similarities (rows, k) in low precision; only their order in a row counts."""

    def __call__(self, block: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        index = np.empty(len(block), np.int64)
        rows = rows_at_once(len(self.centroids))
        with self.torch.inference_mode():
            for first in range(0, len(block), rows):
                part = self.torch.from_numpy(block[first : first + rows])
                index[first : first + rows] = self._products(part).argmax(dim=1).cpu().numpy()
        return index, row_cosines(block, self.centroids, index)


class Int8Search(_TorchSearch):
    """Eight-bit integers: each row scaled by its largest entry, all centroids by one scale."""

    name = "int8"

    def __init__(self, centroids: NDArray[np.float32]) -> None:
        super().__init__(centroids)
        scaled = self.torch.from_numpy(centroids * (_INT8 / np.abs(centroids).max())).round()
        self._low = scaled.to(self.torch.int8).t()

    def _products(self, rows: Any) -> Any:
        scaled = rows * (_INT8 / rows.abs().amax(dim=1, keepdim=True))
        padding = max(0, 17 - len(rows))  # torch's integer product wants more than 16 rows
        scaled = self.torch.nn.functional.pad(scaled, (0, 0, 0, padding)).round().to(self.torch.int8)
        return self.torch._int_mm(scaled, self._low)[: len(rows)]


class BFloat16Search(_TorchSearch):
    """Sixteen-bit floats with the range of float32."""

    name = "bfloat16"

    def __init__(self, centroids: NDArray[np.float32]) -> None:
        super().__init__(centroids)
        self._low = self.torch.from_numpy(centroids).to(self.torch.bfloat16).t()

    def _products(self, rows: Any) -> Any:
        return rows.to(self.torch.bfloat16) @ self._low


class CudaSearch(_TorchSearch):
    """Float32 on a GPU (with its tensor cores, where torch is allowed to use them)."""

    name = "cuda"

    def __init__(self, centroids: NDArray[np.float32]) -> None:
        super().__init__(centroids)
        if not self.torch.cuda.is_available():
            raise PareError("kernel 'cuda' needs a GPU that torch can see, and there is none.")
        self._low = self.torch.from_numpy(centroids).cuda().t()

    def _products(self, rows: Any) -> Any:
        return rows.cuda() @ self._low
