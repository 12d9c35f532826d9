"""The paper's figures made again: the picture, its data, and whether each claim behind it held.

One file per figure, with three steps: `measure` fills a table, `judge` compares the claims with the table, and `draw`
paints it. Figures with real data say what they need (`NEEDS`) and what they train (`plan`).
"""

from __future__ import annotations

from paredown.reproduce.base import SIZES, Claim, ClaimVerdict, Figure, FigureTable, Size
from paredown.reproduce.rehearsal import PlannedTraining
from paredown.reproduce.runner import FIGURES, FigureResult, rehearse_figures, reproduce_figures
from paredown.reproduce.setup import Setup

__all__ = [
    "FIGURES",
    "SIZES",
    "Claim",
    "ClaimVerdict",
    "Figure",
    "FigureResult",
    "FigureTable",
    "PlannedTraining",
    "Setup",
    "Size",
    "rehearse_figures",
    "reproduce_figures",
]
