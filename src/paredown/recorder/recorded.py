"""The metrics that a recording gives: one function from the records of a member to a score per example.

Higher is harder for every one of them. A score that an example's observations do not determine is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, check_known
from paredown.metrics.forgetting_events import forgetting_score
from paredown.metrics.margins import mean_margin_score
from paredown.metrics.prediction_arrays import column_sums
from paredown.recorder import history
from paredown.recorder.history import FINE, Layout, Table

_TDDS_DECAY = 0.9


@dataclass(frozen=True)
class RecordedMetric:
    """A metric of a recording: how it is read from the records, what it is and whose."""

    read: Callable[..., NDArray[np.float64]]  # of (table, layout), and of an epoch where one may be chosen
    summary: str
    reference: str
    early: bool = False  # read off networks trained for a short time, by its paper
    windowed: bool = False  # looks at `window` observations together
    of_features: bool = False  # looks at what enters the last layer
    of_one_epoch: bool = False  # may be read at a chosen epoch

    @property
    def needs(self) -> str:
        """What every example needs for a score."""
        if self.of_features:
            return "features in its latest update"
        return "as many observations as the window" if self.windowed else "one observation"


def el2n(table: Table, layout: Layout, epoch: Any = None) -> NDArray[np.float64]:
    """EL2N: at each example's latest observation, at a chosen epoch, or (`"mean"`) averaged over all observations."""
    if epoch is None:
        return table["latest"][:, history.LAST_EL2N].copy()
    if isinstance(epoch, str) and epoch == "mean":
        return _mean(table, history.EL2N)
    if epoch not in layout.el2n_epochs:
        kept = ", ".join(map(str, layout.el2n_epochs)) or "none"
        raise PareError(
            f"EL2N of epoch {epoch!r} was not kept; kept are {kept}, and always the latest epoch (epoch=None) and the "
            f"mean (epoch='mean'). Choose epochs beforehand: Recorder(..., el2n_epochs=({epoch!r},))."
        )
    return table["el2n_at"][:, layout.el2n_epochs.index(epoch)].copy()


def forgetting(table: Table, layout: Layout) -> NDArray[np.float64]:
    """How often an example was learned and lost again, as `paredown.metrics.forgetting` counts it."""
    never = (table["correct"] == 0) & (table["seen"] > 0)
    most = int(table["seen"].max(initial=0))
    return _seen_or_nan(table, forgetting_score(table["forgotten"], never, most))


def aum(table: Table, layout: Layout) -> NDArray[np.float64]:
    """Minus the mean margin over all observations."""
    total = table["sums"][:, history.MARGIN_WHOLE] + table["sums"][:, history.MARGIN_PART] / FINE
    return _seen_or_nan(table, mean_margin_score(total, np.maximum(table["seen"], 1)))


def margin(table: Table, layout: Layout) -> NDArray[np.float64]:
    """Minus the margin at the latest observation."""
    return -table["latest"][:, history.LAST_MARGIN]


def entropy(table: Table, layout: Layout) -> NDArray[np.float64]:
    """The entropy of the softmax at the latest observation, in nats."""
    return table["latest"][:, history.LAST_ENTROPY].copy()


def grand(table: Table, layout: Layout) -> NDArray[np.float64]:
    """The length of the last layer's gradient at the latest observation."""
    values = table["latest"][:, history.LAST_GRAND].copy()
    if np.isnan(values).all() and table["seen"].any():
        raise PareError(
            "grand needs the features that enter the last layer, and none were recorded; "
            "pass them: rec.update(indices, logits, labels, epoch, features=h)."
        )
    return values


def dyn_unc(table: Table, layout: Layout) -> NDArray[np.float64]:
    """The standard deviation of the label's probability in a sliding window, averaged over all full windows.

    As the authors' program: n - 1 in the standard deviation; but the last window counts too.
    """
    windows = table["seen"] - (layout.window - 1)
    total = table["sums"][:, history.SPREAD] / FINE
    return np.where(windows > 0, total / np.maximum(windows, 1), np.nan)


def tdds(table: Table, layout: Layout) -> NDArray[np.float64]:
    """Temporal dual-depth scoring.

    First depth: the change between the softmax of consecutive observations, sum |p' (log p' - log p)|. Second depth:
    the length of the deviations of the changes in a window from their mean, averaged over windows with exponential
    weights 0.9 * 0.1^(age). As the authors' program, except that windows older than eight, which weigh less than 1e-8,
    are left out, so that a fixed number of changes is enough.
    """
    if not layout.tdds:
        raise PareError(
            f"tdds was not recorded: it keeps two softmax vectors per example, by default for up to 100 classes only "
            f"(here {layout.n_classes}). Ask for it beforehand: Recorder(..., tdds=True)."
        )
    changes, width = table["changes"], layout.window - 1
    total = np.zeros(len(table))
    for age in range(history.TDDS_WINDOWS):
        end = changes.shape[1] - age
        inside = np.ascontiguousarray(changes[:, end - width : end].T)
        off = inside - column_sums(inside) / width
        length = np.sqrt(column_sums(np.square(off)))
        full = table["seen"] - 1 - age >= width
        total += np.where(full, _TDDS_DECAY * (1 - _TDDS_DECAY) ** age * length, 0.0)
    return np.where(table["seen"] > width, total, np.nan)


def confidence(table: Table, layout: Layout) -> NDArray[np.float64]:
    """One minus the mean probability of the label."""
    return 1.0 - _mean(table, history.P_TRUE)


def variability(table: Table, layout: Layout) -> NDArray[np.float64]:
    """The standard deviation (n) of the label's probability over all observations, exact in whole numbers."""
    count = table["seen"].astype(object)
    sums = table["sums"].astype(object)
    squares = sums[:, history.SQUARE_HIGH] * 2**31 + sums[:, history.SQUARE_LOW]
    spread = (count * squares - sums[:, history.HALF_P] ** 2).astype(np.float64)
    return _seen_or_nan(table, np.sqrt(spread) / (np.maximum(table["seen"], 1) * history.HALF))


def correctness(table: Table, layout: Layout) -> NDArray[np.float64]:
    """The fraction of observations that were classified wrongly."""
    return _seen_or_nan(table, 1.0 - table["correct"] / np.maximum(table["seen"], 1))


def _mean(table: Table, column: int) -> NDArray[np.float64]:
    return _seen_or_nan(table, table["sums"][:, column] / FINE / np.maximum(table["seen"], 1))


def _seen_or_nan(table: Table, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(table["seen"] > 0, values, np.nan)


_MAPS = "Swayamdipta et al. 2020, dataset cartography"

RECORDED: dict[str, RecordedMetric] = {
    "el2n": RecordedMetric(
        el2n,
        "length of softmax - onehot: at the latest, a chosen or the mean epoch",
        "Paul et al. 2021",
        early=True,
        of_one_epoch=True,
    ),
    "forgetting": RecordedMetric(forgetting, "how often it was learned and lost again", "Toneva et al. 2019"),
    "aum": RecordedMetric(aum, "minus the mean margin of the label's logit", "Pleiss et al. 2020"),
    "margin": RecordedMetric(margin, "minus the latest margin of the label's logit", "Pleiss et al. 2020"),
    "entropy": RecordedMetric(entropy, "entropy of the latest softmax", "Coleman et al. 2020, selection via proxy"),
    "grand": RecordedMetric(
        grand, "length of the last layer's gradient", "Paul et al. 2021", early=True, of_features=True
    ),
    "dyn_unc": RecordedMetric(dyn_unc, "spread of the label's probability in windows", "He et al. 2023", windowed=True),
    "tdds": RecordedMetric(tdds, "spread of the changes of the softmax in windows", "Zhang et al. 2024", windowed=True),
    "confidence": RecordedMetric(confidence, "one minus the mean probability of the label", _MAPS),
    "variability": RecordedMetric(variability, "spread of the label's probability over all epochs", _MAPS),
    "correctness": RecordedMetric(correctness, "fraction of epochs it was classified wrongly", _MAPS),
}


def read_metric(metric: str, tables: dict[int, Table], layout: Layout, epoch: Any) -> NDArray[np.float64]:
    """A metric averaged over the members, in the order of their numbers; NaN where a member cannot tell."""
    check_known("recorded metric", str(metric), RECORDED)
    entry = RECORDED[metric]
    if epoch is not None and not entry.of_one_epoch:
        raise PareError(f"epoch= chooses among the kept EL2N scores; {metric} covers the whole recording.")
    if not tables:
        raise PareError("nothing was recorded yet; call update(indices, logits, labels, epoch) in the training loop.")
    total: NDArray[np.float64] | float = 0.0
    for _, table in sorted(tables.items()):
        total = total + (entry.read(table, layout, epoch) if entry.of_one_epoch else entry.read(table, layout))
    return np.asarray(total / len(tables))


def beyond(values: NDArray[np.float64], unseen: str) -> float:
    """A score beyond all others, for examples that have none; NaN to leave them out."""
    if unseen == "hardest":
        return float(np.nextafter(np.nanmax(values), np.inf))
    if unseen == "easiest":
        return float(np.nextafter(np.nanmin(values), -np.inf))
    return np.nan
