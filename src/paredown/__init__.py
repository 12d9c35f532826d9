"""Pare a training set down to the examples worth training on.

The whole system of *Beyond neural scaling laws: beating power law scaling via data pruning* as software. Everything
public is reachable from here; each name is imported when first used, so that `import paredown` stays fast.
"""

from __future__ import annotations

from importlib import import_module

from paredown.version import __version__

TYPE_CHECKING = False  # as type checkers take it; typing would be most of what the command line waits for to be ready
if TYPE_CHECKING:
    from typing import Any

    from paredown import adapters as adapters
    from paredown import clustering as clustering
    from paredown import comparison as comparison
    from paredown import embeddings as embeddings
    from paredown import evaluate as evaluate
    from paredown import exporting as exporting
    from paredown import laws as laws
    from paredown import metrics as metrics
    from paredown import perceptron as perceptron
    from paredown import recorder as recorder
    from paredown import report as report
    from paredown import reproduce as reproduce
    from paredown import scoring as scoring
    from paredown import selection as selection
    from paredown import sources as sources
    from paredown import sweeps as sweeps
    from paredown import theory as theory
    from paredown import training as training
    from paredown.cleaning import clean as clean
    from paredown.comparison import MetricComparison as MetricComparison
    from paredown.comparison import compare as compare
    from paredown.describing import info as info
    from paredown.embeddings import embed as embed
    from paredown.errors import PareError as PareError
    from paredown.exporting import export as export
    from paredown.metrics import METRICS as METRICS
    from paredown.pruning import prune as prune
    from paredown.recorder import RECORDED as RECORDED
    from paredown.recorder import Recorder as Recorder
    from paredown.score_files import read_manifest as read_manifest
    from paredown.score_files import read_scores as read_scores
    from paredown.score_files import write_scores as write_scores
    from paredown.scores import Labels as Labels
    from paredown.scores import Scores as Scores
    from paredown.scoring import score as score
    from paredown.scoring import score_all as score_all
    from paredown.scoring.imported_scores import import_scores as import_scores
    from paredown.scoring.saved_models import FittedModel as FittedModel
    from paredown.scoring.saved_models import read_model as read_model
    from paredown.scoring.saved_models import write_model as write_model
    from paredown.selection import STRATEGIES as STRATEGIES
    from paredown.selection import Selection as Selection
    from paredown.selection import balance_score as balance_score
    from paredown.selection import select as select
    from paredown.sources import open_source as open_source
    from paredown.sweeps import sweep as sweep
    from paredown.verifying import verify as verify

# Where each public name lives; subpackages are their own home.
_NAMES = {
    "cleaning": "clean",
    "comparison": "MetricComparison compare",
    "describing": "info",
    "embeddings": "embed",
    "errors": "PareError",
    "exporting": "export",
    "metrics": "METRICS",
    "pruning": "prune",
    "recorder": "RECORDED Recorder",
    "score_files": "read_manifest read_scores write_scores",
    "scores": "Labels Scores",
    "scoring": "score score_all",
    "scoring.imported_scores": "import_scores",
    "scoring.saved_models": "FittedModel read_model write_model",
    "selection": "STRATEGIES Selection balance_score select",
    "sources": "open_source",
    "sweeps": "sweep",
    "verifying": "verify",
}
_SUBPACKAGES = """adapters clustering comparison embeddings evaluate exporting laws metrics perceptron recorder report
    reproduce scoring selection sources sweeps theory training"""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_HOMES |= {name: name for name in _SUBPACKAGES.split()}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Import a public name the first time it is asked for (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'paredown' has no attribute {name!r}")
    module = import_module(f"paredown.{home}")
    value = module if home == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
