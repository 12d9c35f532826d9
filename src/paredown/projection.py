"""Embeddings as points in a plane: PaCMAP where it is installed, otherwise the two leading principal components.

At most 20,000 landmarks are laid out; everything else is placed among the landmarks that are nearest to it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, check_known
from paredown.progress import Track, silent
from paredown.threads import one_blas_thread

Method = Literal["auto", "pacmap", "pca"]
LAYOUTS = ("auto", "pacmap", "pca")
LANDMARKS = 20_000
_DIMENSIONS = 50  # that distances are measured in; the others of an embedding are mostly noise
_FEWEST = 30  # rows from which PaCMAP finds neighbours enough
_NEIGHBOURS = 5
_BLOCK = 2_048


@dataclass(frozen=True)
class Projection:
    """A layout of landmarks, and where other rows go."""

    method: Literal["pacmap", "pca"]
    mean: NDArray[np.float64]
    axes: NDArray[np.float64]  # (dim, leading dimensions)
    landmarks: NDArray[np.float32]  # in the leading dimensions
    places: NDArray[np.float32]  # (landmarks, 2)

    def place(self, vectors: NDArray[np.floating], *, track: Track = silent) -> NDArray[np.float32]:
        """Points of further rows: by their components, or at the weighted mean of the five nearest landmarks."""
        low = _reduced(vectors, self.mean, self.axes)
        if self.method == "pca":
            return low[:, :2].copy()
        near = min(_NEIGHBOURS, len(self.landmarks))
        squares = np.vecdot(self.landmarks, self.landmarks)
        found = np.empty((len(low), 2), np.float32)
        blocks = range(0, len(low), _BLOCK)
        for first in track(blocks, "placing points", total=len(blocks)):
            block = low[first : first + _BLOCK]
            apart = squares - 2 * (block @ self.landmarks.T)
            nearest = np.argpartition(apart, near - 1, axis=1)[:, :near]
            distance = np.linalg.norm(block[:, None] - self.landmarks[nearest], axis=2)
            weight = 1 / (distance + 1e-6)
            weight /= weight.sum(axis=1, keepdims=True)
            found[first : first + _BLOCK] = np.einsum("rn,rnd->rd", weight, self.places[nearest])
        return found


def project(
    vectors: NDArray[np.floating], *, seed: int = 0, method: Method = "auto", track: Track = silent
) -> NDArray[np.float32]:
    """Points in a plane, (rows, 2), for vectors that fit in memory; the same for the same rows, seed and library.

    Args:
        vectors: (rows, dimensions).
        seed: decides the landmarks and the layout.
        method: `pacmap`, `pca`, or `auto` for PaCMAP where it is installed.
        track: reports progress.
    """
    rows = np.sort(np.random.default_rng(seed).permutation(len(vectors))[:LANDMARKS])
    fits = (fit_projection(vectors[rows], seed=seed, method=method) for _ in range(1))  # in one step of the bar
    (layout,) = track(fits, f"laying out {len(rows):,} points", total=1)
    if len(rows) == len(vectors):
        return layout.places
    points = np.empty((len(vectors), 2), np.float32)
    points[rows] = layout.places
    others = np.setdiff1d(np.arange(len(vectors)), rows)
    points[others] = layout.place(vectors[others], track=track)
    return points


def fit_projection(landmarks: NDArray[np.floating], *, seed: int = 0, method: Method = "auto") -> Projection:
    """Lay out rows in a plane; `project` and maps of larger sources place the others."""
    check_known("projection", method, LAYOUTS)
    if method == "pacmap" and find_spec("pacmap") is None:
        raise PareError("PaCMAP needs an extra: pip install 'paredown[report]'.")
    with one_blas_thread():
        mean, axes = _principal_axes(landmarks)
        low = _reduced(landmarks, mean, axes)
        few = len(low) < _FEWEST or bool((low == low[0]).all())  # PaCMAP divides by the spread of the rows
        chosen = "pca" if method == "pca" or few or find_spec("pacmap") is None else "pacmap"
        places = low[:, :2].copy() if chosen == "pca" else _pacmap(low, seed)
    return Projection(chosen, mean, axes, low, places)


def _principal_axes(rows: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and leading directions, each turned so that its largest entry is positive; at least two, if need be zero."""
    wide = rows.astype(np.float64)
    mean = wide.mean(axis=0)
    _, axes = np.linalg.eigh((wide - mean).T @ (wide - mean))
    axes = axes[:, ::-1][:, :_DIMENSIONS]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    return mean, np.pad(axes, ((0, 0), (0, max(0, 2 - axes.shape[1]))))


def _reduced(rows: NDArray[np.floating], mean: NDArray[np.float64], axes: NDArray[np.float64]) -> NDArray[np.float32]:
    return ((rows - mean) @ axes).astype(np.float32)


def _pacmap(rows: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    with _quiet():
        import numba
        import pacmap
        from threadpoolctl import threadpool_limits

        before = numba.get_num_threads()
        numba.set_num_threads(1)  # sums of several threads differ in their last bits, and so do graphs of neighbours
        try:
            with threadpool_limits(1):
                layout = pacmap.PaCMAP(n_components=2, random_state=seed % 2**32, apply_pca=False, verbose=False)
                return np.asarray(layout.fit_transform(rows, init="pca"), np.float32)
        finally:
            numba.set_num_threads(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PaCMAP and numba talk about themselves on every channel."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
