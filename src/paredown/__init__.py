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
    from paredown import embeddings as embeddings
    from paredown import evaluate as evaluate
    from paredown import laws as laws
    from paredown import metrics as metrics
    from paredown import perceptron as perceptron
    from paredown import recorder as recorder
    from paredown import reproduce as reproduce
    from paredown import sources as sources
    from paredown import sweeps as sweeps
    from paredown import theory as theory
    from paredown import training as training
    from paredown.cleaning import clean as clean
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

# Public name -> the module it lives in; a name that is its own home is a subpackage.
_HOMES = {
    "FittedModel": "scoring.saved_models",
    "METRICS": "metrics",
    "STRATEGIES": "selection",
    "Labels": "scores",
    "PareError": "errors",
    "RECORDED": "recorder",
    "Recorder": "recorder",
    "Scores": "scores",
    "Selection": "selection",
    "balance_score": "selection",
    "clean": "cleaning",
    "embed": "embeddings",
    "export": "exporting",
    "import_scores": "scoring.imported_scores",
    "info": "describing",
    "open_source": "sources",
    "prune": "pruning",
    "read_manifest": "score_files",
    "read_model": "scoring.saved_models",
    "read_scores": "score_files",
    "score": "scoring",
    "score_all": "scoring",
    "select": "selection",
    "sweep": "sweeps",
    "verify": "verifying",
    "write_model": "scoring.saved_models",
    "write_scores": "score_files",
    "adapters": "adapters",
    "clustering": "clustering",
    "embeddings": "embeddings",
    "evaluate": "evaluate",
    "laws": "laws",
    "metrics": "metrics",
    "perceptron": "perceptron",
    "recorder": "recorder",
    "reproduce": "reproduce",
    "sources": "sources",
    "sweeps": "sweeps",
    "theory": "theory",
    "training": "training",
}

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
