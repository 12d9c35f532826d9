"""Appendix figure on shape bias: shape against texture, by category, of networks trained on pruned data.

Claims: where shape and texture disagree, networks trained without the easy examples decide for the shape slightly more
often than one trained on everything, and networks trained without the hard ones less often.

    paredown reproduce fig_shape_bias

Shape bias is shape decisions / (shape + texture decisions). It is measured on the cue conflicts in the folder `stimuli`
of `--data` whose shape and texture are both of classes the networks know (see `fig_ood` for those, and for what the
folder needs at `--size paper`); without it, on hybrids that have the coarse structure of one test image and the fine
structure of another. The networks are those of `fig_ood`.

Expected: half a minute beside `fig_ood`. Of 210 cue conflicts between classes of CIFAR-10 some 120 are decided for one
of the cues: shape bias 0.70 with everything (0.95 for humans), 0.04 ± 0.06 lower without the easier half and
0.10 ± 0.06 lower without the harder half: too few to tell.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.evaluate import measure_shape_bias
from paredown.laws import Region, judge_mean
from paredown.plots import figure
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.extreme_images import class_name
from paredown.reproduce.judging import POINTS, judge_points
from paredown.reproduce.robustness import NAMES, NEEDS, STYLE, plan, shown_stimuli, students_answers
from paredown.reproduce.setup import Setup
from paredown.reproduce.stimuli import CUE_CONFLICT, Stimuli, read_human_trials
from paredown.standard_errors import share_error, standard_error

__all__ = ["NEEDS", "draw", "judge", "measure", "plan"]

_CHANGE = 0.03  # of the shape bias, that "slightly more often" is about
_MARKERS = {"full": "s", "hard": "o", "easy": "^", "random": "D", "humans": "*"}


def measure(setup: Setup) -> FigureTable:
    """Shape and texture decisions by category, of every network and of all humans together."""
    stimuli = next(entry for entry in shown_stimuli(setup) if entry.textures is not None)
    answered = students_answers(setup)
    known = set(stimuli.shapes)
    table = FigureTable()
    for said in answered:
        _count(table, stimuli, said.decisions[stimuli.dataset], known, **said.student.way)
    folder = setup.dataset("humans").folder
    if folder is not None and stimuli.dataset == CUE_CONFLICT:
        trials = read_human_trials(folder, [stimuli])
        names = trials.image.tolist()
        shapes, textures = (
            [dict(zip(stimuli.names, cue, strict=True))[name] for name in names]
            for cue in (stimuli.shapes, stimuli.textures or [])
        )
        answers = Stimuli(stimuli.dataset, names, stimuli.images[:0], shapes, textures)
        _count(table, answers, trials.response.tolist(), known, strategy="humans", keep_fraction=1.0, seed=0)
    return table


def _count(table: FigureTable, stimuli: Stimuli, decisions: list[str], known: set[str], **way: Any) -> None:
    """A row per category, and one for all of them."""
    textures = np.array(stimuli.textures)
    rows = np.flatnonzero(np.isin(textures, sorted(known)) & (textures != np.array(stimuli.shapes)))
    given, shapes, textures = np.array(decisions)[rows], np.array(stimuli.shapes)[rows], textures[rows]
    for category in ("all", *sorted(set(shapes))):
        mine = np.ones(len(rows), bool) if category == "all" else shapes == category
        bias = measure_shape_bias(given[mine], shapes[mine], textures[mine])
        kind = "all" if category == "all" else "category"
        counts = pick(bias, "trials", "shape_decisions", "texture_decisions")
        table.add(kind, stimuli=stimuli.dataset, **way, category=category, **counts)


def shape_bias(rows: FigureTable) -> NDArray[np.float64]:
    """Of each row; NaN without a decision for either cue."""
    shape, texture = rows["shape_decisions"].astype(float), rows["texture_decisions"].astype(float)
    with np.errstate(invalid="ignore"):
        return shape / (shape + texture)


def _difference(table: FigureTable, strategy: str, keep_fraction: float) -> tuple[float, float]:
    """To training on everything, with a standard error that counts both seeds and the few stimuli.

    All networks see the same stimuli, which makes the binomial part an upper limit.
    """
    rows = table.where(kind="all", strategy=strategy, keep_fraction=keep_fraction)
    full = table.where(kind="all", strategy="full")
    apart = shape_bias(rows) - shape_bias(full)
    stimuli = 0.0
    for group in (rows, full):
        decided = float(np.mean(group["shape_decisions"] + group["texture_decisions"]))
        stimuli += share_error(float(np.mean(shape_bias(group))), decided) ** 2
    return float(apart.mean()), max(standard_error(apart), float(np.sqrt(stimuli)))


def judge(table: FigureTable) -> list[Claim]:
    """The direction of both changes where most is discarded; the noise is that of the seeds or of the few stimuli."""
    overall = table.where(kind="all")
    full = overall.where(strategy="full")
    fraction = min(overall.where(strategy="hard").values("keep_fraction"))
    decided = np.mean(full["shape_decisions"] + full["texture_decisions"])
    humans = overall.where(strategy="humans")
    beside = f", {float(np.mean(shape_bias(humans))):.2f} for humans" if len(humans) else ""
    claims = []
    for strategy, region, word, text in (
        ("hard", Region(low=0.0), "above", "Discarding easy examples raises the shape bias."),
        ("easy", Region(high=0.0), "below", "Discarding hard examples lowers the shape bias."),
    ):
        mean, error = _difference(table, strategy, fraction)
        claims.append(
            judge_points(
                text,
                {f"{fraction:g}": judge_mean(mean, error, len(full), region)},
                rule=word,
                effect=_CHANGE,
                unit=POINTS,
                about=f"shape bias minus that with everything, keep_fraction {fraction:g}, {full['trials'][0]:.0f} "
                f"stimuli ({full.rows[0]['stimuli']}), of which {decided:.0f} are decided for one of the cues",
                note=f"The bias is {100 * float(np.mean(shape_bias(full))):.1f} % with everything{beside}.",
                trials=int(full["trials"][0]),
                difference=mean,
                difference_stderr=error,
            )
        )
    return claims


def draw(table: FigureTable, path: Path) -> None:
    """A point for each category and kind of network; lines are means, shape to the left as in Geirhos et al."""
    categories = table.where(kind="category").values("category")
    kinds = [(row["strategy"], row["keep_fraction"]) for row in table.where(kind="all").rows]
    fractions = {fraction for strategy, fraction in kinds if strategy != "full"}
    least = min(fractions)
    shown = [
        (strategy, fraction)
        for strategy in _MARKERS
        for fraction in [1.0 if strategy in ("full", "humans") else least]
        if (strategy, fraction) in kinds
    ]
    with figure(path, size=(7.6, 0.42 * len(categories) + 2.2)) as (_, axes):
        for number, (strategy, fraction) in enumerate(shown):
            rows = table.where(kind="category", strategy=strategy, keep_fraction=fraction)
            shape, texture = (
                np.array([rows.where(category=category)[f"{cue}_decisions"].sum() for category in categories])
                for cue in ("shape", "texture")
            )
            with np.errstate(invalid="ignore"):  # NaN without a decision for either cue
                share = 1 - shape / (shape + texture)
            places = np.arange(len(categories)) + 0.1 * (number - (len(shown) - 1) / 2)
            label = "humans" if strategy == "humans" else NAMES[strategy]
            label += f", {fraction:.0%} kept" if strategy in ("hard", "easy", "random") else ""
            style = {"color": STYLE[strategy], "marker": _MARKERS[strategy]}
            # Of so many decisions; networks of one kind see the same stimuli, so that one of them counts.
            decided = (shape + texture) / max(1, len(set(rows["seed"])))
            spread = 2 * np.array([share_error(s, n) for s, n in zip(share, decided, strict=True)])
            axes.errorbar(share, places, xerr=spread, fmt="none", ecolor=STYLE[strategy], elinewidth=0.8, alpha=0.6)
            axes.scatter(share, places, s=34, label=label, zorder=3, **style)
            together = table.where(kind="all", strategy=strategy, keep_fraction=fraction)
            axes.axvline(1 - float(np.mean(shape_bias(together))), color=STYLE[strategy], linewidth=1.6)
        counts = table.where(kind="category", strategy="full", seed=min(table["seed"]))
        names = [f"{class_name(c)} ({counts.where(category=c)['trials'][0]:.0f})" for c in categories]
        axes.set_yticks(range(len(categories)), names)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.6, len(categories) - 0.4))
        axes.set_xlabel(
            "share of texture decisions, of those for shape or texture\n(left: shape bias, right: texture bias; "
            "bars: two standard errors)"
        )
        axes.set_title(f"{table.rows[0]['stimuli']}: by category of shape (stimuli); lines: means", loc="left")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
