"""What the figures on scaling share: a sweep over sizes and fractions, and what it says about laws.

Section 'Data pruning can beat power law scaling in practice' and the appendix on additional scaling experiments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from paredown.laws import PowerLawVerdict, beats_power_law, curve, fit, pareto_frontier
from paredown.laws.curves import Curve
from paredown.plots import RANDOM_COLOR, fraction_color
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.drawing import draw_frontier, log_axes, percent_bars
from paredown.reproduce.setup import Setup
from paredown.sweeps.summary import compare_with_random

DECIDED = 3.0  # standard errors by which a difference must be off zero for a claim to rest on it


def scaling_sweep(setup: Setup, role: str = "main", **grid: Any) -> dict[str, Any]:
    """The sweep over initial sizes and fractions; figures that differ in the rest of the grid share its runs."""
    data = setup.dataset(role)
    small = data.name == "digits"
    if setup.scale == "paper":
        source = data.images("swav" if data.name == "imagenet" else "auto")
        student = {"recipe": {"imagenet": "resnet50", "svhn": "resnet18_svhn"}.get(data.name, "resnet18")}
        probe = {}  # members and epochs are those of the recipe
        sizes = [round(data.examples * share) for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)]
        fractions = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
        seeds = 1 if data.name == "imagenet" else 4  # the paper trained one model per point there
    else:
        source = data.features()
        student = {"recipe": "mlp", "steps": setup.choose(tiny=60, cpu=400 if small else 1500, paper=0)}
        probe = {"members": setup.choose(tiny=2, cpu=3, paper=0)}
        sizes = [160, 320, 640, 1280] if small else [data.examples // part for part in (64, 16, 4, 1)]
        fractions = [0.25, 0.5, 1.0] if small else [0.125, 0.25, 0.5, 1.0]
        seeds = setup.choose(tiny=2, cpu=4, paper=0)
    common = {"initial_size": sizes, "keep_fraction": fractions, "metric": ["el2n"], "balance": [0.0]}
    grid = {**common, "seed": setup.seeds(seeds), **grid}
    return {"data": source, "grid": grid, "student": student, "probe": probe}


def add_laws(table: FigureTable, results: pa.Table, data: str, *, metric: str = "el2n", balance: float = 0.0) -> None:
    """Add what a sweep says of one way of pruning: mean errors, exponents, the frontier and the laws on it."""
    rows = [row for row in results.to_pylist() if row["status"] == "done"]
    own = [row for row in rows if row["metric"] == metric and row["strategy"] == "hard" and row["balance"] == balance]
    chance = _averaged([row for row in rows if row["metric"] == "random"])
    what = {"data": data, "metric": metric, "balance": balance}
    for row in compare_with_random(results):
        if (row.metric, row.strategy, row.balance) == (metric, "hard", balance):
            names = ("keep_fraction", "initial_size", "kept", "test_error", "stderr", "random_error", "difference", "z")
            table.add("pruned", **what, **pick(row, *names))
    random = _curve(chance)
    stderr = np.nan if random.stderr is None else random.stderr
    table.add("random", **what, kept=random.size, test_error=random.error, stderr=stderr)
    for fraction in sorted({row["keep_fraction"] for row in own} | {1.0}):
        nu = fit(_curve([row for row in own if row["keep_fraction"] == fraction] or chance), "power")["nu"]
        table.add("exponent", **what, keep_fraction=fraction, nu=nu.value, **pick(nu, "low", "high"))
    columns = ("kept", "keep_fraction", "test_error", "seed")
    kept, fraction, error, seed = (np.array([row[name] for row in (*own, *chance)]) for name in columns)
    frontier = pareto_frontier(kept, fraction, error, seed=seed if len(np.unique(seed)) > 1 else None)
    low, high = frontier.curve.limits()
    table.add(
        "frontier",
        **what,
        kept=frontier.kept_size,
        keep_fraction=frontier.keep_fraction,
        test_error=frontier.error,
        low=low,
        high=high,
        random_error=np.exp(np.interp(np.log(frontier.kept_size), np.log(random.size), np.log(random.error))),
    )
    if len(frontier) < 4:
        sentence = f"Cannot tell: the frontier has {len(frontier)} points, and fitting laws takes four."
        table.add("verdict", **what, verdict=PowerLawVerdict.CANNOT_TELL.value, sentence=sentence)
        return
    beats = beats_power_law(frontier.curve, random)
    table.add("verdict", **what, verdict=beats.verdict.value, sentence=beats.sentence, weight=beats.weight)
    for name, contender in beats.frontier.contenders.items():
        at = np.geomspace(frontier.kept_size[0], frontier.kept_size[-1], 30)
        weight, missed = contender.weight, contender.left_out_error
        table.add("law", **what, law=name, aicc=contender.difference, weight=weight, left_out_error=missed)
        table.add("fitted", **what, law=name, kept=at, test_error=contender.fit.predict(at))


def _averaged(chance: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Random subsets as what they are, smaller sets that were not pruned; those of one seed and size are averaged."""
    errors: dict[tuple[int, int], list[float]] = {}
    for row in chance:
        errors.setdefault((row["kept"], row["seed"]), []).append(row["test_error"])
    return [
        {"kept": kept, "seed": seed, "keep_fraction": 1.0, "test_error": float(np.mean(values))}
        for (kept, seed), values in sorted(errors.items())
    ]


def _curve(rows: list[dict[str, Any]]) -> Curve:
    """Error against size.

    Runs count as independent: what the sets of one seed share moves all sizes together, which leaves exponents as they
    are, and drawing whole seeds again gives intervals that are too narrow for as few as four (0.88 instead of 0.95).
    """
    kept, error = (np.array([row[name] for row in rows]) for name in ("kept", "test_error"))
    return curve(kept, error)


# --- verdicts ------------------------------------------------------------------------------------------------------


def judge_exponents(part: FigureTable) -> Claim:
    """Whether the exponent at every fixed fraction is that of random subsets, within both intervals."""
    exponents = part.where(kind="exponent")
    random = exponents.where(keep_fraction=1.0).rows[0]
    pruned = [row for row in exponents.rows if row["keep_fraction"] < 1]
    equal = [row for row in pruned if row["low"] <= random["high"] and random["low"] <= row["high"]]
    told = "; ".join(f"keep_fraction {row['keep_fraction']:g}: {_interval(row)}" for row in pruned)
    return Claim.judged(
        f"{_about(part)}: at a fixed keep_fraction error falls as a power law, with the exponent of random subsets.",
        len(equal) == len(pruned),
        f"Exponents with 95 % intervals: {told}; random subsets: {_interval(random)}.",
    )


def judge_level(part: FigureTable) -> Claim:
    """Whether the frontier lies below the random curve where it keeps less than everything."""
    below = [row for row in part.where(kind="pruned").rows if row["z"] <= -DECIDED]
    frontier = [row for row in part.where(kind="frontier").rows if row["keep_fraction"] < 1]
    best = min(frontier, key=lambda row: row["test_error"] / row["random_error"], default=None)
    told = (
        "no point of the frontier is pruned"
        if best is None
        else f"at {best['kept']:,.0f} kept ({100 * best['keep_fraction']:g} % of the initial set) the frontier has "
        f"{100 * best['test_error']:.2f} % error and random subsets {100 * best['random_error']:.2f} %"
    )
    return Claim.judged(
        f"{_about(part)}: the frontier over fractions lies below the curve of random subsets.",
        bool(below) and best is not None and best["test_error"] < best["random_error"],
        f"{told.capitalize()}; {len(below)} of {len(part.where(kind='pruned'))} pruned points are better than "
        f"random subsets by {DECIDED:g} standard errors or more.",
    )


def beats_held(verdict: PowerLawVerdict) -> bool | None:
    """Whether the claim to beat the power law held; None if the data cannot tell."""
    return None if verdict is PowerLawVerdict.CANNOT_TELL else verdict is PowerLawVerdict.BEATS


def judge_frontier(part: FigureTable) -> Claim:
    """Whether the frontier beats the power law, by exponent and by law."""
    verdict = part.where(kind="verdict").rows[0]
    return Claim.judged(
        f"{_about(part)}: the frontier falls faster than any power law.",
        beats_held(PowerLawVerdict(verdict["verdict"])),
        verdict["sentence"],
    )


def _about(part: FigureTable) -> str:
    row = part.rows[0]
    floor = f", floor {row['balance']:g}" if row["balance"] else ""
    return f"{row['data']}, {row['metric']}{floor}"


def _interval(row: dict[str, Any]) -> str:
    return f"{row['nu']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


# --- the picture ---------------------------------------------------------------------------------------------------


def draw_scaling(axes: Any, part: FigureTable, title: str) -> None:
    """Test error against the number kept: a curve for every fraction, random subsets in grey, the frontier in red."""
    random = part.where(kind="random")
    nu = part.where(kind="exponent", keep_fraction=1.0).rows[0]["nu"]
    bars = {"markersize": 4, "linewidth": 1.4, "label": f"random, $\\nu$ = {nu:.2f}"}
    percent_bars(axes, random, "kept", "test_error", color=RANDOM_COLOR, **bars | {"marker": "."})
    for fraction in sorted(part.where(kind="pruned").values("keep_fraction"), reverse=True):
        points = part.where(kind="pruned", keep_fraction=fraction)
        nu = part.where(kind="exponent", keep_fraction=fraction).rows[0]["nu"]
        bars["label"] = f"hardest {100 * fraction:g} %, $\\nu$ = {nu:.2f}"
        percent_bars(axes, points, "kept", "test_error", color=fraction_color(fraction), **bars)
    frontier = part.where(kind="frontier")
    draw_frontier(axes, frontier["kept"], frontier["test_error"])
    log_axes(axes, xlabel="examples kept")
    axes.set_title(title, loc="left")
    axes.legend(fontsize=8)
