"""Least squares in log error, for many curves over the same sizes at once: the bootstrap needs hundreds of fits.

log error = log a + phi(n), phi = log(exp(-h) + k), k = c / a. The amplitude is an average and drops out, so that a law
has one shape parameter (its rate) or two (rate and k), and a grid over these starts every fit near its best minimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.laws.forms import Array, Law

# Ranges of the searches. The decay of an error over all sizes, in e-folds; and b n of a factorial at the largest n.
_DECAYS = np.geomspace(1e-2, 60.0, 48)
_FACTORIAL_ENDS = np.geomspace(1e-2, 500.0, 400)
# The asymptote: from a thousandth of the rest of the error at the largest size to ten times it at the smallest.
_SMALLEST_SHARE, _LARGEST_SHARE = np.log(1e-3), np.log(10.0)
_SHARES = 24
_STEPS = 60
_GOLDEN = (np.sqrt(5) - 1) / 2


class LeastSquaresFit(NamedTuple):
    """Parameters of each curve and the weighted sum of squared residuals in log error; arrays of shape (curves,)."""

    amplitude: Array
    rate: Array
    asymptote: Array
    loss: Array


def solve(law: Law, size: Array, target: Array, weight: Array) -> LeastSquaresFit:
    """Fit one law to curves of log error, shape (curves, n); weights have that shape or (n,)."""
    if law.drop is not None:
        return _factorial(law, size, target, weight)
    line = _straight_line(law, size, target, weight)
    if not law.asymptote:
        return line
    bent = _with_asymptote(law, size, target, weight)
    better = bent.loss < line.loss * (1 - 1e-9)  # equal where the best asymptote is none
    return LeastSquaresFit(*(np.where(better, new, old) for new, old in zip(bent, line, strict=True)))


def _centre(values: Array, weight: Array) -> tuple[Array, Array]:
    """Deviations from the weighted mean along the last axis, and the mean."""
    mean = (values * weight).sum(axis=-1, keepdims=True) / weight.sum(axis=-1, keepdims=True)
    return values - mean, mean[..., 0]


def _straight_line(law: Law, size: Array, target: Array, weight: Array) -> LeastSquaresFit:
    assert law.coordinate is not None
    x, x_mean = _centre(law.coordinate(size), weight)
    y, y_mean = _centre(target, weight)
    rate = -(y * x * weight).sum(axis=-1) / (x * x * weight).sum(axis=-1)
    loss = ((y + rate[:, None] * x) ** 2 * weight).sum(axis=-1)
    return LeastSquaresFit(np.exp(y_mean + rate * x_mean), rate, np.zeros_like(rate), loss)


def _with_asymptote(law: Law, size: Array, target: Array, weight: Array) -> LeastSquaresFit:
    """Levenberg-Marquardt on the logs of decay and k, from the best point of a grid."""
    assert law.coordinate is not None
    x = law.coordinate(size)
    low, span = x.min(), np.ptp(x)
    u = (x - low) / span
    log_decay = np.repeat(np.log(_DECAYS), _SHARES)
    lowest = -np.repeat(_DECAYS, _SHARES) + _SMALLEST_SHARE
    log_k = lowest + np.tile(np.linspace(0, 1, _SHARES), len(_DECAYS)) * (_LARGEST_SHARE - lowest)
    y, _ = _centre(target, weight)
    start = _best_of_grid(np.logaddexp(-np.exp(log_decay)[:, None] * u, log_k[:, None]), y, weight)
    parameters = np.stack([log_decay[start], log_k[start]], axis=-1)

    def bounded(p: Array) -> Array:
        decay = np.clip(p[:, 0], np.log(_DECAYS[0]), np.log(_DECAYS[-1]))
        share = np.clip(p[:, 1], -np.exp(decay) + _SMALLEST_SHARE, _LARGEST_SHARE)
        return np.stack([decay, share], axis=-1)

    def residuals(p: Array) -> tuple[Array, Array, Array, Array]:
        falling = -np.exp(p[:, :1]) * u
        phi = np.logaddexp(falling, p[:, 1:])
        residual, offset = _centre(target - phi, weight)
        part = np.exp(falling - phi)  # of the error that still falls
        slopes = np.stack([_centre(part * falling, weight)[0], _centre(1 - part, weight)[0]], axis=-2)
        return residual, slopes, offset, (residual**2 * weight).sum(axis=-1)

    damping, settled = np.full(len(target), 1e-3), np.zeros(len(target), dtype=bool)
    residual, slopes, offset, loss = residuals(parameters)
    for _ in range(_STEPS):
        weighted = slopes * np.expand_dims(weight, -2)
        normal = weighted @ slopes.swapaxes(-1, -2)
        diagonal = np.einsum("bii->bi", normal)
        scale = diagonal + 1e-12 * diagonal.max(axis=-1, keepdims=True) + 1e-300
        normal = normal + (damping[:, None] * scale)[:, :, None] * np.eye(2)
        step = np.linalg.solve(normal, weighted @ residual[:, :, None])[:, :, 0]
        tried = bounded(parameters + np.clip(step, -1, 1))
        new = residuals(tried)
        better = new[3] < loss
        parameters = np.where(better[:, None], tried, parameters)
        residual = np.where(better[:, None], new[0], residual)
        slopes = np.where(better[:, None, None], new[1], slopes)
        settled |= np.where(better, loss - new[3] < 1e-10 * loss, damping > 1e3)
        offset, loss = np.where(better, new[2], offset), np.where(better, new[3], loss)
        damping = np.clip(np.where(better, damping / 5, damping * 5), 1e-9, 1e9)
        if settled.all():
            break
    rate = np.exp(parameters[:, 0]) / span
    return LeastSquaresFit(np.exp(offset + rate * low), rate, np.exp(offset + parameters[:, 1]), loss)


def _factorial(law: Law, size: Array, target: Array, weight: Array) -> LeastSquaresFit:
    """Golden-section search of the rate about the best of a grid; the iterated factorial has kinks."""
    drop = law.drop
    assert drop is not None
    y, _ = _centre(target, weight)
    grid = _FACTORIAL_ENDS / size.max()
    start = _best_of_grid(-drop(grid[:, None] * size), y, weight)

    def loss(log_rate: Array) -> Array:
        residual, _ = _centre(target + drop(np.exp(log_rate)[:, None] * size), weight)
        return (residual**2 * weight).sum(axis=-1)

    low, high = np.log(grid[np.maximum(start - 1, 0)]), np.log(grid[np.minimum(start + 1, len(grid) - 1)])
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        lower = loss(left) < loss(right)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    log_rate = (low + high) / 2
    rate = np.exp(log_rate)
    _, offset = _centre(target + drop(rate[:, None] * size), weight)
    return LeastSquaresFit(np.exp(offset), rate, np.zeros_like(rate), loss(log_rate))


def _best_of_grid(shapes: Array, y: Array, weight: Array) -> NDArray[np.intp]:
    """For each curve the row of `shapes` that fits best, the amplitude being free; y is centred."""
    each = np.broadcast_to(weight, y.shape)
    variance = each @ (shapes**2).T - (each @ shapes.T) ** 2 / each.sum(axis=-1, keepdims=True)
    return (variance - 2 * (y * each) @ shapes.T).argmin(axis=-1)
