"""Appendix figure on other images: accuracy out of distribution, and likeness to humans, after pruning.

Claims: discarding easy examples does not hurt accuracy out of distribution; discarding hard ones does; and networks
trained without the easy examples err no less like humans than a network trained on everything.

    paredown reproduce fig_ood

Images out of distribution are corrupted test images, and cue conflicts, edges and silhouettes (Geirhos et al. 2019),
which `--data FOLDER` has in `stimuli`; the humans' answers to them are in `model_vs_human`. Of their 16 classes
CIFAR-10 has seven, and only stimuli of these are shown (humans had all 16 to choose from). At `--size paper` the
networks know ImageNet's classes: there the folder `stimuli` must also hold `classes.json`, which names the WordNet ids
that belong to each of the 16, as model-vs-human lists them: {"airplane": ["n02690373"], ...}. The other 14 sets of
model-vs-human, which the paper averages over too, are not read.

Expected: 8 minutes of two cores with a small network on CIFAR-10 (`--size paper`: 32 trainings of a ResNet-50 on
ImageNet). It does not show the paper's order: without the easier half accuracy is 2.4 ± 0.7 points lower, without the
harder half 0.9 ± 0.6, and a random half is better than both. Kappa with humans is near 0.07 for all, 0.33 among humans.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.evaluate import ObserverComparison, Trials, compare_observers, join_trials
from paredown.laws import better_than, no_worse_than
from paredown.plots import figure
from paredown.reproduce.base import Claim, FigureTable, means
from paredown.reproduce.judging import PLAIN, judge_points, seeds_of
from paredown.reproduce.robustness import NAMES, NEEDS, STYLE, StudentAnswers, plan, shown_stimuli, students_answers
from paredown.reproduce.setup import Setup
from paredown.reproduce.stimuli import Stimuli, read_human_trials
from paredown.standard_errors import standard_error

__all__ = ["NEEDS", "draw", "judge", "measure", "plan"]

_MARGIN = 0.01  # of accuracy, up to which discarding does not hurt
_LOSS = 0.01  # of accuracy, that "lowers" is about
_KAPPA = 0.03  # of Cohen's kappa, up to which errors are no less consistent
MEASURES = {
    "accuracy": "accuracy out of distribution\n(higher is better)",
    "accuracy_difference": "squared difference of accuracy\nto humans (lower is better)",
    "observed_consistency": "observed consistency\nwith humans (higher is better)",
    "error_consistency": "error consistency with humans,\nCohen's kappa (higher is better)",
}
_DRAWN = {"clean": "accuracy on clean test images\n(higher is better)", **MEASURES}
_MODEL = "model"


def measure(setup: Setup) -> FigureTable:
    """Every network on every set, and means over networks of one kind with differences to those on everything."""
    answered = students_answers(setup)
    stimuli = shown_stimuli(setup)
    folder = setup.dataset("humans").folder
    seen = [] if setup.dataset("stimuli").folder is None else stimuli
    humans = read_human_trials(folder, seen) if folder is not None and seen else None
    table = FigureTable()
    for said in answered:
        way = said.student.way
        table.add("network", **way, dataset="none", accuracy=said.clean)
        for kind, by_severity in said.corrupted.items():
            table.add("network", **way, dataset=kind, accuracy=float(np.mean(by_severity)))
        beside = {} if humans is None else _compare_with_humans(said, seen, humans).by_dataset
        for entry in seen:
            right = np.mean(np.array(said.decisions[entry.dataset]) == np.array(entry.shapes))
            own = {name: value for name, value in beside.get(entry.dataset, {}).items() if name != "accuracy"}
            table.add("network", **way, dataset=entry.dataset, accuracy=float(right), **own)
    if humans is not None:
        for dataset, values in compare_observers(humans).by_dataset.items():
            table.add("humans", dataset=dataset, **values)
    summarise(table)
    return table


def _compare_with_humans(said: StudentAnswers, stimuli: list[Stimuli], humans: Trials) -> ObserverComparison:
    """One network compared with every human, on the images that they answered."""
    own = [
        Trials.of(
            {
                "observer": _MODEL,
                "dataset": entry.dataset,
                "condition": "0",
                "image": entry.names,
                "category": entry.shapes,
                "response": said.decisions[entry.dataset],
            }
        )
        for entry in stimuli
    ]
    return compare_observers(join_trials(*own, humans), _MODEL)


def summarise(table: FigureTable) -> None:
    """Add a row for every kind of network: means over sets and seeds, and how far apart from `full`."""
    found: dict[tuple[str, float], dict[str, dict[int, list[float]]]] = {}
    for row in table.where(kind="network").rows:
        measured = found.setdefault((row["strategy"], row["keep_fraction"]), {})
        for name in MEASURES:
            if name in row and row["dataset"] != "none":
                measured.setdefault(name, {}).setdefault(row["seed"], []).append(row[name])
    for (strategy, fraction), measured in sorted(found.items()):
        cells: dict[str, Any] = {"seeds": len(measured["accuracy"])}
        for name, by_seed in measured.items():
            own, full = (
                np.array([np.mean(values[seed]) for seed in sorted(by_seed)])
                for values in (by_seed, found["full", 1.0][name])
            )
            cells |= {name: own.mean(), f"{name}_stderr": standard_error(own)} | means(**{f"{name}_apart": own - full})
            where = {"strategy": strategy, "keep_fraction": fraction, "measure": name}
            table.add_seeds("seed", **where, columns={"apart": own - full})
        table.add("mean", strategy=strategy, keep_fraction=fraction, **cells)


def judge(table: FigureTable) -> list[Claim]:
    """Differences to training on everything, seed by seed."""
    means, seeds = table.where(kind="mean"), table.where(kind="seed")
    sets = [name for name in table.where(kind="network").values("dataset") if name != "none"]
    full = means.where(strategy="full").rows[0]
    hard, easy = seeds.where(strategy="hard"), seeds.where(strategy="easy")
    fractions = sorted(hard.values("keep_fraction"))

    def apart(part: FigureTable, measure: str) -> dict[float, NDArray[np.float64]]:
        return {f: seeds_of(part, "apart", keep_fraction=f, measure=measure) for f in fractions}

    points: dict[str, Any] = {"points": len(fractions)}
    lost = {f"{f:g}": no_worse_than(-v, _MARGIN, **points) for f, v in apart(hard, "accuracy").items()}
    claims = [
        judge_points(
            "Discarding easy examples does not hurt accuracy out of distribution.",
            lost,
            rule="no worse than",
            effect=_MARGIN,
            about=f"mean accuracy over {len(sets)} sets, {100 * full['accuracy']:.1f} % with everything, lost without "
            "the easiest, by keep_fraction",
            note=f"Random subsets instead: {_told(means.where(strategy='random'), 'accuracy', 100)} points.",
        ),
        judge_points(
            "Discarding hard examples lowers accuracy out of distribution.",
            {f"{fractions[0]:g}": better_than(apart(easy, "accuracy")[fractions[0]])},
            rule="below",
            effect=_LOSS,
            about=f"accuracy without the hardest minus that with everything, keep_fraction {fractions[0]:g}",
        ),
    ]
    if "error_consistency" in full:
        human = np.mean(table.where(kind="humans")["error_consistency"])
        kappa = apart(hard, "error_consistency")
        claims.append(
            judge_points(
                "Without easy examples, errors are no less consistent with those of humans.",
                {f"{f:g}": no_worse_than(-values, _KAPPA, **points) for f, values in kappa.items()},
                rule="no worse than",
                effect=_KAPPA,
                unit=PLAIN,
                about="Cohen's kappa with humans, lost without the easiest, by keep_fraction",
                note=f"It is {full['error_consistency']:.3f} with everything and {human:.3f} among humans.",
            )
        )
    return claims


def _told(rows: FigureTable, name: str, scale: int) -> str:
    digits = 2 if scale > 1 else 3
    return ", ".join(
        f"{scale * row[f'{name}_apart']:+.{digits}f} ± "
        f"{scale * row.get(f'{name}_apart_stderr', np.nan):.{digits}f} at keep_fraction {row['keep_fraction']:g}"
        for row in rows.rows
    )


def draw(table: FigureTable, path: Path) -> None:
    """Bars for each measure that there is, humans first."""
    means = table.where(kind="mean")
    for row in means.rows:
        way = {"strategy": row["strategy"], "keep_fraction": row["keep_fraction"], "dataset": "none"}
        own = table.where(kind="network", **way)["accuracy"]
        row |= {"clean": own.mean(), "clean_stderr": standard_error(own)}
    shown = [name for name in _DRAWN if name in means.rows[0]]
    rows = [row for strategy in STYLE for row in means.where(strategy=strategy).rows[::-1]]
    humans = table.where(kind="humans")
    columns = min(2, len(shown))
    size = (5.6 * columns, 3.9 * (-(-len(shown) // columns)))
    with figure(path, size=size, ncols=columns, nrows=-(-len(shown) // columns), squeeze=False) as (drawn, panels):
        for axes, name in zip(panels.flat, shown, strict=False):
            bars = [(_label(row), row[name], row.get(f"{name}_stderr", np.nan), STYLE[row["strategy"]]) for row in rows]
            if len(humans) and name not in ("accuracy", "clean"):
                bars.insert(0, ("humans", float(np.mean(humans[name])), np.nan, STYLE["humans"]))
            labels, heights, errors, colors = zip(*bars, strict=True)
            places = np.arange(len(bars))
            axes.bar(places, heights, color=colors, width=0.75)
            axes.errorbar(places, heights, yerr=2 * np.array(errors), fmt="none", color="black", capsize=3)
            axes.set_xticks(places, labels, rotation=45, ha="right", rotation_mode="anchor", fontsize=8)
            axes.grid(visible=False, axis="x")
            axes.set_title(_DRAWN[name], loc="left", fontsize=10)
            for place, height, error in zip(places, heights, np.nan_to_num(errors), strict=True):
                axes.text(place, max(height, 0) + 2 * error, f"{height:.3f}", ha="center", va="bottom", fontsize=7)
        for axes in panels.flat[len(shown) :]:
            axes.set_axis_off()
        drawn.supxlabel("error bars: two standard errors over seeds", fontsize=9)


def _label(row: dict[str, Any]) -> str:
    name = NAMES[row["strategy"]]
    return name if row["strategy"] == "full" else f"{name}, {row['keep_fraction']:.0%} kept"
