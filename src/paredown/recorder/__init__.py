"""Watching a training run that the user already has: online statistics per example, and the metrics they give.

`update` turns a batch of logits into a few numbers per example (`observe`), appends them to each example's record
(`history`), and `scores` reads a metric from the records (`recorded`). Memory does not grow with the number of epochs.
"""

from __future__ import annotations

from paredown.recorder.coverage import Coverage
from paredown.recorder.recorded import RECORDED
from paredown.recorder.recorder import Recorder

__all__ = ["RECORDED", "Coverage", "Recorder"]
