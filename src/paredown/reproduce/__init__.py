"""The paper's figures made again: the picture, its data, and whether each claim behind it held.

One file per figure, with three steps: `measure` fills a table, `judge` compares the claims with the table, and `draw`
paints it. Figures with real data say what they need (`NEEDS`) and what they train (`plan`).
"""

from __future__ import annotations

from paredown.reproduce.base import SIZES as SIZES
from paredown.reproduce.base import Claim as Claim
from paredown.reproduce.base import ClaimVerdict as ClaimVerdict
from paredown.reproduce.base import Figure as Figure
from paredown.reproduce.base import FigureTable as FigureTable
from paredown.reproduce.base import Size as Size
from paredown.reproduce.rehearsal import PlannedTraining as PlannedTraining
from paredown.reproduce.runner import FIGURES as FIGURES
from paredown.reproduce.runner import FigureResult as FigureResult
from paredown.reproduce.runner import rehearse_figures as rehearse_figures
from paredown.reproduce.runner import reproduce_figures as reproduce_figures
from paredown.reproduce.setup import Setup as Setup
