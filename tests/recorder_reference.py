"""The recorder's metrics the slow and plain way: from a whole history in memory, one example at a time.

`history` holds, for every epoch and example, what `observe` says of one look at it, or None where it was not seen. All
that the online version does to it (sums, windows, seams, transitions) is done here by lists and Python's own numbers.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np

from paredown.metrics.error_norms import lengths_with_one
from paredown.recorder.observations import observe

UNIT = 2**47
HALF = 2**31


def looks_of(logits, labels, seen, features):
    """Per example its list of (epoch, numbers) from logits [epochs, n, classes] and a mask [epochs, n]."""
    epochs, n, classes = logits.shape
    lengths = lengths_with_one(features.reshape(epochs * n, -1))
    told = observe(logits.reshape(-1, classes), np.tile(labels, epochs), lengths)
    looks = [[] for _ in range(n)]
    for epoch in range(epochs):
        for example in range(n):
            if seen[epoch, example]:
                row = epoch * n + example
                numbers = {name: value[row] for name, value in told._asdict().items()}
                looks[example].append((epoch, numbers))
    return looks


def fixed_mean(values):
    return sum(round(float(v) * UNIT) for v in values) / UNIT / len(values)


def el2n(looks, epoch=None):
    if epoch is None:
        return looks[-1][1]["el2n"]
    if epoch == "mean":
        return fixed_mean([look["el2n"] for _, look in looks])
    return next(look["el2n"] for at, look in reversed(looks) if at == epoch)


def forgetting(looks, most):
    right = [bool(look["correct"]) for _, look in looks]
    if not any(right):
        return float(most)
    return float(sum(before and not after for before, after in pairwise(right)))


def aum(looks):
    margins = [float(look["margin"]) for _, look in looks]
    whole = [round(margin) for margin in margins]
    parts = [round((margin - unit) * UNIT) for margin, unit in zip(margins, whole, strict=True)]
    return -(float(sum(whole)) + sum(parts) / UNIT) / len(looks)


def deviations(values):
    mean = reduce(add, values) / len(values)
    return [(value - mean) * (value - mean) for value in values]


def dyn_unc(looks, window):
    p = [float(look["p_true"]) for _, look in looks]
    windows = [p[start : start + window] for start in range(len(p) - window + 1)]
    spreads = [math.sqrt(reduce(add, deviations(values)) / (window - 1)) for values in windows]
    return sum(round(spread * UNIT) for spread in spreads) / UNIT / len(spreads)


def tdds(looks, window):
    vectors = [look["p"].astype(np.float32).astype(np.float64) for _, look in looks]
    changes = []
    for old, new in pairwise(vectors):
        terms = np.abs(np.log((new + 1e-8) / (old + 1e-8)) * new)
        changes.append(reduce(add, terms.tolist()))
    total, width = 0.0, window - 1
    for age in range(8):  # windows from the last one back
        end = len(changes) - age
        if end >= width:
            total += 0.9 * (1 - 0.9) ** age * math.sqrt(reduce(add, deviations(changes[end - width : end])))
    return total


def confidence(looks):
    return 1.0 - fixed_mean([look["p_true"] for _, look in looks])


def variability(looks):
    units = [round(float(look["p_true"]) * HALF) for _, look in looks]
    spread = len(units) * sum(unit**2 for unit in units) - sum(units) ** 2
    return math.sqrt(float(spread)) / (len(units) * HALF)


def correctness(looks):
    return 1.0 - sum(bool(look["correct"]) for _, look in looks) / len(looks)
