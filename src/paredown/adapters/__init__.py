"""Recording inside other people's training loops: torch data sets, Lightning, Hugging Face and scikit-learn.

Nothing is patched: every adapter uses a place that its library offers for this. The libraries are imported when an
adapter is used.
"""

from __future__ import annotations

from paredown.adapters.huggingface_trainer import RecordingMixin
from paredown.adapters.indexed import Indexed, with_indices
from paredown.adapters.lightning import recording_callback
from paredown.adapters.sklearn import fit_recorded

__all__ = ["Indexed", "RecordingMixin", "fit_recorded", "recording_callback", "with_indices"]
