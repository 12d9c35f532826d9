"""A measured learning curve: mean error against size, and what is known about its noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, t

from paredown.errors import PareError
from paredown.laws.forms import Array
from paredown.standard_errors import standard_error

# A spread estimated from few runs is mostly chance, and a size whose runs happen to agree would pull the whole fit to
# itself. Each size's relative variance is therefore averaged with that of all sizes, which counts as this many runs.
_POOLED_RUNS = 10.0
LEVEL = 0.95
BOOTSTRAP = 400  # draws behind an interval


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % confidence interval; NaN limits where nothing is known about the noise."""

    value: float
    low: float = np.nan
    high: float = np.nan

    def __format__(self, spec: str) -> str:
        spec = spec or ".3g"
        if np.isnan(self.low):
            return format(self.value, spec)
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


@dataclass(frozen=True, repr=False)
class Curve:
    """Mean errors at different sizes, smallest size first; made by `curve`."""

    size: Array  # numbers of examples, shape (n,)
    error: Array  # mean error at each, shape (n,)
    stderr: Array | None = None  # its standard error, or None if unknown
    freedom: float = 0.0  # degrees of freedom behind the standard errors: infinite if they were given, 0 if unknown
    # single errors, shape (n, runs), NaN where a size has fewer; None if only means were given
    runs: Array | None = None
    paired: bool = False  # whether a column of `runs` is one seed whose runs share something

    def __len__(self) -> int:
        return len(self.size)

    def __repr__(self) -> str:
        noise = "unknown noise" if self.stderr is None else f"relative noise {np.median(self.log_stderr):.2g}"
        return f"Curve({len(self)} sizes from {self.size[0]:g} to {self.size[-1]:g}, {noise})"

    @property
    def log_stderr(self) -> Array:
        """Standard errors of log error; all equal to 1 if unknown, which makes every size count the same."""
        return np.ones(len(self)) if self.stderr is None else self.stderr / self.error

    def limits(self, *, draws: int = BOOTSTRAP, seed: int = 0) -> tuple[Array, Array]:
        """The 95 % limits of each mean error, by bootstrap; NaN if nothing is known about the noise."""
        if self.stderr is None:
            return np.full(len(self), np.nan), np.full(len(self), np.nan)
        drawn = np.exp(self.resample(draws, np.random.default_rng(seed)))
        return percentile_limits(drawn, self.freedom)

    def resample(self, draws: int, rng: np.random.Generator, centre: Array | None = None) -> Array:
        """Log errors as other runs might have given them, shape (draws, n), about `centre` (the curve itself).

        With several runs per size these are drawn again with replacement, and their deviations scaled to the standard
        error of the size, which also knows the other sizes; otherwise they are Gaussian with the standard errors.
        """
        centre = np.log(self.error) if centre is None else centre
        deviation = rng.standard_normal((draws, len(self)))
        if self.runs is not None:
            width = self.runs.shape[1]
            shared = rng.integers(0, width, (draws, width))
            for row, values in enumerate(self.runs):
                own = values[~np.isnan(values)]
                picked = shared if self.paired else rng.integers(0, len(own), (draws, len(own)))
                # Means drawn with replacement spread by sqrt((n - 1) / n) of the standard error (Efron 1979).
                spread = standard_error(own) * np.sqrt(1 - 1 / len(own))
                if spread > 0:
                    deviation[:, row] = (own[picked].mean(axis=1) - own.mean()) / spread
        return centre + deviation * self.log_stderr


def curve(
    size: ArrayLike,
    error: ArrayLike,
    *,
    stderr: ArrayLike | None = None,
    seed: ArrayLike | None = None,
    paired: bool = False,
) -> Curve:
    """A learning curve from single runs or from means.

    Args:
        size: number of training examples of each row; rows of equal size are runs of one point and are averaged.
        error: test error of each row, above 0.
        stderr: standard errors of the rows, if they are means already; then no size may come twice.
        seed: which run a row is; only needed with `paired`.
        paired: whether the runs of one seed at different sizes share something (nested subsets, one split of the data),
            so that whole seeds are drawn again. Needs every seed at every size.
    """
    sizes, errors = column("size", size), column("error", error)
    same_length(size=sizes, error=errors)
    different, which = np.unique(sizes, return_inverse=True)
    if stderr is not None:
        spread = column("stderr", stderr, advice=" Leave stderr out where it is not known.")
        same_length(size=sizes, stderr=spread)
        if len(different) < len(sizes):
            twice = different[np.bincount(which).argmax()]
            raise PareError(
                f"size {twice:g} comes more than once, but stderr was given: rows are either means with a stderr "
                "or single runs without. Leave stderr out, or average the rows of each size first."
            )
        order = np.argsort(sizes)
        return Curve(sizes[order], errors[order], spread[order], np.inf)
    if seed is None and paired:
        raise PareError("paired runs need `seed`, the run that each row belongs to.")
    runs = tabulate_runs(which, errors, seed if paired else None, size=errors)
    if paired and (runs.number != 1).any():
        row, run = np.argwhere(runs.number != 1)[0]
        raise PareError(
            f"paired runs need every seed once at every size, got {runs.number[row, run]} rows of seed "
            f"{runs.seeds[run]} at size {different[row]:g}. Leave such seeds out, or use paired=False."
        )
    return from_runs(different, runs.errors, paired=paired)


def from_runs(size: Array, runs: Array, *, paired: bool = False) -> Curve:
    """A curve from a table of single errors, shape (sizes, runs), NaN where there are fewer."""
    count = (~np.isnan(runs)).sum(axis=1)
    mean = np.nanmean(runs, axis=1)
    freedom = int((count - 1).sum())
    if freedom == 0:
        return Curve(size, mean)
    squares = np.nansum((runs / mean[:, None] - 1) ** 2, axis=1)
    pooled = squares.sum() / freedom
    if pooled == 0:  # all runs agree to the last digit: nothing is known about the noise
        return Curve(size, mean)
    variance = (_POOLED_RUNS * pooled + squares) / (_POOLED_RUNS + count - 1)
    known = runs.shape[1] - 1 if paired else freedom
    return Curve(size, mean, mean * np.sqrt(variance / count), float(known), runs, paired)


def percentile_limits(samples: Array, freedom: float) -> tuple[Array, Array]:
    """The 95 % percentile limits of bootstrap samples, widened as Student's t is wider than a Gaussian.

    Without it few runs give intervals that are too narrow (Hesterberg, 'What teachers should know about the bootstrap',
    section on expanded percentile intervals).
    """
    tail = (1 - LEVEL) / 2
    if np.isfinite(freedom):
        tail = float(norm.sf(t.isf(tail, max(freedom, 1))))
    low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
    return low, high


def interval(value: float, samples: Array, freedom: float) -> Estimate:
    """A number with the limits of its bootstrap samples."""
    low, high = percentile_limits(samples, freedom)
    return Estimate(float(value), float(low), float(high))


def column(name: str, values: ArrayLike, *, advice: str = "") -> Array:
    """Finite numbers above zero, or an error that names the row."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise PareError(f"{name} must be numbers, got {values!r:.80}.") from None
    array = np.atleast_1d(array).ravel()
    if not len(array):
        raise PareError(f"{name} is empty.")
    bad = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
    if len(bad):
        advice = advice or (
            " A law of log error needs errors above 0: test on more examples, or leave this size out."
            if name == "error" and array[bad[0]] == 0
            else " Leave the row out."
        )
        raise PareError(f"{name} must be finite and above 0, got {array[bad[0]]:g} in row {bad[0]}.{advice}")
    return array


def same_length(**columns: NDArray[Any]) -> None:
    """One value per row in every column, or an error."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        given = " and ".join(f"{count} of {name}" for name, count in lengths.items())
        raise PareError(f"columns must have one value per row, got {given}.")


class RunTable(NamedTuple):
    """Errors of single runs by point and seed; runs without a seed are numbered at each point."""

    errors: Array  # (points, seeds), NaN where there is none
    number: NDArray[np.int64]  # how many runs of a seed there are at a point
    seeds: NDArray[Any]  # their names


def tabulate_runs(point: NDArray[np.intp], errors: Array, seed: ArrayLike | None, **column: Array) -> RunTable:
    """A table of runs from the point and the error of each; `column` is what seeds must be as many as."""
    if seed is None:
        order = np.argsort(point, kind="stable")
        first = np.searchsorted(point[order], point[order])  # where the runs of the same point begin
        place = np.empty(len(point), dtype=int)
        place[order] = np.arange(len(point)) - first
        seeds = np.arange(place.max() + 1)
    else:
        seeds, place = np.unique(np.asarray(seed).ravel(), return_inverse=True)
        same_length(**column, seed=place)
    count = np.zeros((point.max() + 1, len(seeds)), dtype=int)
    np.add.at(count, (point, place), 1)
    table = np.full(count.shape, np.nan)
    table[point, place] = errors
    return RunTable(table, count, seeds)
