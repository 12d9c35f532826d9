"""The Pareto frontier over keep fractions, from measured runs.

Section 'Data pruning can beat power law scaling in practice': for each kept size, the lowest error over initial sizes
and fractions kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.laws.curves import Curve, column, from_runs, same_length, tabulate_runs
from paredown.laws.forms import Array


class MeasuredRow(NamedTuple):
    """One point of a measured frontier."""

    kept_size: float
    keep_fraction: float
    initial_size: float
    error: float
    lowest_mean: float


@dataclass(frozen=True)
class MeasuredFrontier:
    """The best keep_fraction for each kept size; iterates as rows, smallest size first."""

    keep_fraction: Array  # the fraction with the lowest mean error at each size, over all runs; shape (n,)
    lowest_mean: Array  # that lowest mean, shape (n,); too low, if anything: it is the minimum of noisy numbers
    curve: Curve  # error against kept size for fits: cross-fitted if there are several runs, else `lowest_mean`
    cross_fitted: bool  # whether the fraction was chosen on other runs than those that give the error

    @property
    def kept_size(self) -> Array:
        return self.curve.size

    @property
    def initial_size(self) -> Array:
        return self.kept_size / self.keep_fraction

    @property
    def error(self) -> Array:
        return self.curve.error

    def __len__(self) -> int:
        return len(self.keep_fraction)

    def __iter__(self) -> Iterator[MeasuredRow]:
        columns = (self.kept_size, self.keep_fraction, self.initial_size, self.error, self.lowest_mean)
        return (MeasuredRow(*(float(x) for x in row)) for row in zip(*columns, strict=True))


def pareto_frontier(
    kept_size: ArrayLike,
    keep_fraction: ArrayLike,
    error: ArrayLike,
    *,
    seed: ArrayLike | None = None,
    stderr: ArrayLike | None = None,
    folds: int | None = None,
) -> MeasuredFrontier:
    """The lower envelope of mean error against kept size over keep fractions; one row of input per run.

    The curve of each fraction is a polygon in log-log coordinates through its means. A measured point is on the
    frontier if no other curve lies below it and no smaller size does as well: the frontier falls strictly and lies on
    or below all curves.

    The smallest of several noisy means is too small. With `seed` the errors of the frontier are therefore cross-fitted:
    each run is judged at the fraction that the runs of other seeds found best. On average this errs to the safe side:
    the lowest mean lies below the true frontier, the cross-fitted error on it or above.

    Args:
        kept_size: training examples after pruning.
        keep_fraction: fraction kept, in (0, 1]; kept_size / keep_fraction is the initial size.
        error: test error, above 0.
        seed: the run a row belongs to; two or more for cross-fitting.
        stderr: standard errors, if rows are means and there are no seeds. Nothing is cross-fitted then.
        folds: groups of seeds for cross-fitting; each seed its own if None, 2 for one half against the other.
    """
    sizes, errors = column("kept_size", kept_size), column("error", error)
    fractions = column("keep_fraction", keep_fraction)
    same_length(kept_size=sizes, keep_fraction=fractions, error=errors)
    if (fractions > 1).any():
        raise PareError(f"keep_fraction must be in (0, 1], got {fractions.max():g} in row {fractions.argmax()}.")
    if stderr is not None and seed is not None:
        raise PareError("rows are single runs with a seed or means with a stderr, not both. Leave one of them out.")
    cells, which = np.unique(np.stack([fractions, sizes], axis=-1), axis=0, return_inverse=True)
    which = which.ravel()
    runs, group = _runs(cells, which, errors, seed, folds)
    everything = np.nanmean(runs, axis=1)
    rows = _on_frontier(cells, everything)
    size, fraction, lowest = cells[rows, 1], cells[rows, 0], everything[rows]
    if stderr is not None:
        spread = column("stderr", stderr)
        same_length(kept_size=sizes, stderr=spread)
        if len(cells) < len(sizes):
            f, size_twice = cells[np.bincount(which).argmax()]
            raise PareError(
                f"kept size {size_twice:g} with keep_fraction {f:g} comes more than once, but stderr was given: rows "
                "are either means or single runs. Average them first, or give seed instead of stderr."
            )
        at_cell = np.empty(len(cells))
        at_cell[which] = spread
        return MeasuredFrontier(fraction, lowest, Curve(size, lowest, at_cell[rows], np.inf), False)
    if seed is None or len(np.unique(group)) < 2:
        return MeasuredFrontier(fraction, lowest, from_runs(size, runs[rows]), False)
    judged = np.full((len(rows), runs.shape[1]), np.nan)
    for fold in np.unique(group):
        own = group == fold
        judged[:, own] = _judged(cells, runs, own, size)
    unjudged = np.isnan(judged).all(axis=1)
    if unjudged.any():
        raise PareError(
            f"no run can be judged by others at kept size {size[unjudged][0]:g}: every fraction there needs runs of "
            "two seeds or more. Add runs, or leave seed out."
        )
    return MeasuredFrontier(fraction, lowest, from_runs(size, judged), True)


def _runs(
    cells: Array, which: NDArray[np.intp], errors: Array, seed: ArrayLike | None, folds: int | None
) -> tuple[Array, NDArray[np.intp]]:
    """Errors as a table of cells by seeds, and the fold of each seed."""
    runs, count, names = tabulate_runs(which, errors, seed, error=errors)
    if (count > 1).any():
        cell, run = np.argwhere(count > 1)[0]
        raise PareError(
            f"seed {names[run]} comes {count[cell, run]} times at kept size {cells[cell, 1]:g} and keep_fraction "
            f"{cells[cell, 0]:g}. Give every run of a point a seed of its own."
        )
    if folds is not None and not 2 <= folds <= max(len(names), 2):
        raise PareError(f"folds must be from 2 to the number of seeds, {len(names)}, got {folds}.")
    return runs, np.arange(len(names)) % (folds or len(names))


def _curves(cells: Array, mean: Array, at: Array) -> tuple[Array, Array]:
    """Errors of every fraction at the given sizes, inf outside its measured range, shape (fractions, sizes)."""
    fractions = np.unique(cells[:, 0])
    values = np.full((len(fractions), len(at)), np.inf)
    for row, f in enumerate(fractions):
        mine = (cells[:, 0] == f) & ~np.isnan(mean)
        if mine.any():
            logs = np.interp(np.log(at), np.log(cells[mine, 1]), np.log(mean[mine]), left=np.inf, right=np.inf)
            values[row] = np.exp(logs)
    return fractions, values


def _on_frontier(cells: Array, mean: Array) -> NDArray[np.intp]:
    """The cells on the frontier, smallest size first."""
    _, values = _curves(cells, mean, cells[:, 1])
    lowest = np.flatnonzero(mean <= values.min(axis=0) * (1 + 1e-12))
    order = lowest[np.lexsort([-cells[lowest, 0], mean[lowest], cells[lowest, 1]])]
    before = np.minimum.accumulate(np.append(np.inf, mean[order]))[:-1]
    return order[mean[order] < before]


def _judged(cells: Array, runs: Array, own: NDArray[np.bool_], at: Array) -> Array:
    """Errors of the own runs at each size, at the fraction that the other runs find best; shape (sizes, own runs)."""
    counted = ~np.isnan(runs[:, ~own])
    total, count = np.nansum(runs[:, ~own], axis=1), counted.sum(axis=1)
    others = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    _, values = _curves(cells, others, at)
    chosen = values.argmin(axis=0)
    known = np.isfinite(values.min(axis=0))
    result = np.full((len(at), int(own.sum())), np.nan)
    for run, errors in enumerate(runs[:, own].T):
        _, mine = _curves(cells, errors, at)
        result[:, run] = mine[chosen, np.arange(len(at))]
    return np.where(np.isfinite(result) & known[:, None], result, np.nan)
