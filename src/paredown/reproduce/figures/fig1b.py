"""Fig. 1B: which examples to keep when data are scarce and when they are abundant.

Claim: with little data the easy examples, far from the teacher's boundary, make the better student; with much data the
hard ones, near it. The paper draws a sketch; here the examples are real draws, seen in the plane of the teacher and
the student that was trained on the kept ones, and the verdict comes from means over draws.

    paredown reproduce fig1b

Expected: 5 seconds (`--size paper`: 15 seconds). Keeping 40 %, the easy end wins at alpha_tot = 2 (test error 0.19
against 0.38) and the hard end at alpha_tot = 20 (0.024 against 0.033).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paredown.laws.claim_rules import Region, judge_mean
from paredown.perceptron import max_margin
from paredown.plots import COLORS, FRONTIER_COLOR, figure
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.judging import PERCENT, judge_points
from paredown.reproduce.setup import Setup
from paredown.reproduce.theory_checks import add_dots

REGIMES = {"scarce": 2.0, "abundant": 20.0}  # alpha_tot
_STRATEGIES = ("easy", "hard")
_KEEP_FRACTION = 0.4
_FEWER = 0.25  # of log test error, that "better" is about
_COLORS = {"easy": COLORS[0], "hard": COLORS[4]}  # blue and green, as in the paper


def measure(setup: Setup) -> FigureTable:
    """One picture of examples for every regime and end, and the mean errors over draws."""
    table = FigureTable()
    for regime, alpha_tot in REGIMES.items():
        for strategy in _STRATEGIES:
            _add_examples(table, regime, alpha_tot, strategy, setup.size.n_features, setup.seed)
    points = [
        {"alpha_prune": alpha_tot * _KEEP_FRACTION, "keep_fraction": _KEEP_FRACTION, "strategy": strategy}
        for alpha_tot in REGIMES.values()
        for strategy in _STRATEGIES
    ]
    add_dots(table, setup, points)
    for row, regime in zip(table.where(kind="simulation").rows, np.repeat(list(REGIMES), 2), strict=True):
        table.rows[table.rows.index(row)]["regime"] = str(regime)
    return table


def _add_examples(table: FigureTable, regime: str, alpha_tot: float, strategy: str, n_features: int, seed: int) -> None:
    """Draw examples, keep one end, train, and look along the teacher and across it towards the student."""
    rng = np.random.default_rng([seed, int(alpha_tot)])  # both ends see the same examples
    teacher = rng.standard_normal(n_features)
    teacher /= np.linalg.norm(teacher)
    x = rng.standard_normal((round(alpha_tot * n_features), n_features))
    field = x @ teacher
    labels = np.where(field < 0, -1.0, 1.0)
    order = np.argsort(np.abs(field))
    count = round(_KEEP_FRACTION * len(x))
    kept = order[:count] if strategy == "hard" else order[-count:]
    student = max_margin(x[kept], labels[kept]).weights
    across = student - (student @ teacher) * teacher
    across /= np.linalg.norm(across)
    table.add(
        "example",
        regime=regime,
        strategy=strategy,
        along_teacher=field,
        across_teacher=x @ across,
        kept=np.isin(np.arange(len(x)), kept).astype(int),
        angle=float(np.degrees(np.arctan2(student @ across, student @ teacher))),
    )


def judge(table: FigureTable) -> list[Claim]:
    """Easy wins when scarce, hard when abundant, over draws."""
    found, levels = {}, []
    for regime, better in (("scarce", "easy"), ("abundant", "hard")):
        ends: dict[str, Any] = {
            s: table.where(kind="simulation", regime=regime, strategy=s).rows[0] for s in _STRATEGIES
        }
        own, other = ends[better], ends[next(s for s in _STRATEGIES if s != better)]
        apart = float(np.log(own["test_error"] / other["test_error"]))
        spread = float(np.hypot(own["stderr"] / own["test_error"], other["stderr"] / other["test_error"]))
        freedom = int(own["draws"] + other["draws"] - 2)
        name = f"{regime} (alpha_tot {REGIMES[regime]:g}), {better}"
        found[name] = judge_mean(apart, spread, freedom + 1, Region(high=0.0), points=len(REGIMES))
        levels.append(
            f"at alpha_tot {REGIMES[regime]:g} {ends['easy']['test_error']:.4f} with the easy and "
            f"{ends['hard']['test_error']:.4f} with the hard"
        )
    return [
        judge_points(
            "Keep the easy examples when data are scarce and the hard ones when they are abundant.",
            found,
            rule="better than",
            effect=_FEWER,
            unit=PERCENT,
            over="draws",
            about=f"keeping {_KEEP_FRACTION:.0%}, log of the test error of the better end relative to the other",
            note=f"Test errors: {'; '.join(levels)}.",
        )
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Rows: scarce and abundant; columns: easy and hard kept."""
    reach = 3.6
    with figure(path, size=(7.6, 7.6), nrows=2, ncols=2, sharex=True, sharey=True) as (drawn, panels):
        for row, (regime, alpha_tot) in enumerate(REGIMES.items()):
            means = {s: table.where(kind="simulation", regime=regime, strategy=s).rows[0] for s in _STRATEGIES}
            best = min(_STRATEGIES, key=lambda s: means[s]["test_error"])
            for axes, strategy in zip(panels[row], _STRATEGIES, strict=True):
                examples = table.where(kind="example", regime=regime, strategy=strategy)
                _scatter(axes, examples, _COLORS[strategy])
                _boundaries(axes, np.radians(examples["angle"][0]), reach)
                error, wins = means[strategy]["test_error"], strategy == best
                axes.set_title(
                    f"keep {strategy}: test error {error:.3f}" + (" (better)" if wins else ""),
                    fontsize=10,
                    fontweight="bold" if wins else "normal",
                    loc="left",
                )
                axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
                axes.grid(False)
            panels[row][0].set_ylabel(f"{regime} data, $\\alpha_{{\\rm tot}}$ = {alpha_tot:g}\n\nfield of the teacher")
        for axes in panels[1]:
            axes.set_xlabel("field across, towards the student")
        handles, labels = panels[0][1].get_legend_handles_labels()
        easy = panels[0][0].get_legend_handles_labels()[0]
        drawn.legend(
            [handles[0], easy[1], handles[1], *handles[2:]],
            [labels[0], "kept: easy", "kept: hard", *labels[2:]],
            loc="outside lower center",
            ncols=5,
            markerscale=2,
            handletextpad=0.4,
            columnspacing=1.4,
        )


def _scatter(axes: Any, examples: FigureTable, color: str) -> None:
    kept = examples["kept"] == 1
    size = 9 if len(examples) < 1000 else 3
    for some, tone, label, alpha in ((~kept, "#C9C9C9", "pruned", 0.8), (kept, color, "kept", 0.75)):
        for sign, marker in ((1, "o"), (-1, "D")):  # the teacher's two classes
            here = some & (np.sign(examples["along_teacher"]) == sign)
            axes.scatter(
                examples["across_teacher"][here],
                examples["along_teacher"][here],
                s=size,
                marker=marker,
                color=tone,
                alpha=alpha,
                linewidths=0,
                label=label if sign == 1 else None,
            )


def _boundaries(axes: Any, angle: float, reach: float) -> None:
    """The teacher's boundary is horizontal; the student's leans by the angle between them."""
    far = 2 * reach
    axes.plot([-far, far], [0, 0], color="black", linewidth=1.8, label="teacher's boundary")
    across, along = np.sin(angle), np.cos(angle)
    x, y = np.array([-far, far]) * along, np.array([far, -far]) * across
    axes.plot(x, y, color=FRONTIER_COLOR, linewidth=1.8, label="student's boundary")
