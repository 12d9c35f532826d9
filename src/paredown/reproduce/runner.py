"""Figures onto disk: each as a picture, its data and its verdicts, whole or not at all, and made only once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from paredown.errors import PareError, check_known
from paredown.files import check_apart, claim_folder, clear_below, file_digest, locked, write_whole
from paredown.plots import check_available
from paredown.progress import Track, silent
from paredown.records import check_same, read_record, sealed_bytes
from paredown.reproduce.base import SIZES, Claim, Figure
from paredown.reproduce.rehearsal import PlannedTraining, rehearse
from paredown.reproduce.results_page import write_summary
from paredown.reproduce.setup import Setup
from paredown.version import __version__

# In the order of the paper. Each is a module of `figures/` with `measure`, `judge` and `draw`,
# imported when it is made. Those with real data also have `NEEDS`, the data sets they take at each size, and `plan`,
# what they train.
FIGURES: dict[str, Figure] = {
    "fig1a": Figure("Fig. 1A", "test error against alpha_prune with a perfect probe, and the Pareto frontier"),
    "fig1b": Figure("Fig. 1B", "which examples are kept, and what they teach, when data are scarce and when abundant"),
    "fig1c": Figure("Fig. 1C", "keep-hard against keep-easy over alpha_tot and keep_fraction"),
    "fig1d": Figure(
        "Fig. 1D", "keep-hard and keep-easy against random subsets on real data, by size and keep_fraction"
    ),
    "fig1e": Figure("Fig. 1E", "test accuracy over keep_fraction and alpha_prune, with the best keep_fraction"),
    "fig1f": Figure("Fig. 1F", "information gained per example"),
    "fig2": Figure("Fig. 2", "test error against alpha_prune with an imperfect probe"),
    "fig3": Figure("Fig. 3", "test error against the number kept on real data, with exponents and the Pareto frontier"),
    "fig4a": Figure("Fig. 4A", "transfer learning: pruning the data of fine-tuning"),
    "fig4b": Figure("Fig. 4B", "transfer learning: pruning the data of pretraining"),
    "fig_pretrained": Figure("Fig. 4A", "what pruning costs a network that is pretrained, and one that is not"),
    "fig5a": Figure("Fig. 5A", "how far the metrics agree: rank correlations of their scores, clustered"),
    "fig5bc": Figure("Fig. 5B and C, Table 1", "test accuracy after keeping the hardest by every metric"),
    "fig6a": Figure("Fig. 6A", "clusters of the self-supervised metric against classes"),
    "fig6bc": Figure("Fig. 6B and C", "easiest and hardest images of a class by prototypes and memorization"),
    "fig_policy": Figure("appendix", "the optimal pruning policy, from easy to hard"),
    "fig_compute_a": Figure("appendix", "test error against the time to train"),
    "fig_compute_b": Figure("appendix", "learning curves and compute at a fixed number of epochs, by keep_fraction"),
    "fig_scaling_more": Figure(
        "appendix", "scaling with a class balance floor, by self-supervised prototypes and by memorization"
    ),
    "fig_probe_strength": Figure("appendix", "a weak against a strong probe: 4 against 40 epochs"),
    "fig_frontier": Figure("appendix", "functional forms fitted to the Pareto frontier"),
    "fig_frontier_practice": Figure("appendix", "functional forms fitted to a measured Pareto frontier"),
    "fig_extremes": Figure("appendix", "easiest and hardest images of several classes by every metric"),
    "tab_k": Figure("appendix", "the number of clusters of self-supervised prototypes"),
    "tab_ensembles": Figure("appendix", "prototypes from one self-supervised encoder and from an ensemble of five"),
    "fig_imbalance": Figure(
        "appendix", "class balance against the fraction pruned, by metric, on equal and on long-tailed classes"
    ),
    "fig_unbalanced": Figure("appendix", "test accuracy without class balancing, and what balancing adds"),
    "fig_histograms": Figure("appendix", "scores class by class, by metric"),
    "fig_fairness": Figure("appendix", "accuracy class by class after pruning, against the full set"),
    "tab_duration": Figure("appendix", "training longer on less: the matched-iterations factor"),
    "fig_ood": Figure("appendix", "accuracy out of distribution and likeness to humans after pruning"),
    "fig_shape_bias": Figure("appendix", "shape against texture, by category, after pruning"),
    "fig_unbounded": Figure(
        "not in it", "Fig. 3 on initial sets without end: deformed images, true and teacher labels"
    ),
    "fig_noise": Figure("not in it", "when not to keep the hardest: labels that are wrong"),
}


@dataclass(frozen=True)
class FigureResult:
    """One figure on disk."""

    name: str
    settings: dict[str, Any]  # everything the data depend on
    claims: tuple[Claim, ...]  # of the paper, with the verdicts
    seconds: float  # it took
    cpu_seconds: float  # of all cores and processes, without what it found done
    png: Path  # the picture
    csv: Path  # its data
    json: Path  # settings and verdicts
    made: bool  # whether it was made now; False if it was complete already


def reproduce_figures(
    names: Iterable[str],
    *,
    size: str = "cpu",
    out: str | Path = "reproduced",
    data: str | Path | None = None,
    seed: int = 0,
    workers: int | None = None,
    overwrite: bool = False,
    track: Track = silent,
) -> list[FigureResult]:
    """Make figures of the paper: NAME.png, NAME.csv and NAME.json in the folder `out`, and one page, `results.md`.

    A figure that already exists with the same settings is left alone, so a stopped run continues where it left off.
    What figures share, such as trained students, is kept in the folder `parts` beside them.

    Args:
        names: of `FIGURES`.
        size: one of `SIZES`.
        out: folder; made if missing.
        data: a folder with a folder for every data set, see `reproduce.data_folders`. At the size `cpu` what is
            not there is replaced by something that is, in the end by the digits of scikit-learn.
        seed: of simulations and trainings.
        workers: processes; one per core if not given.
        overwrite: make figures again, whatever is there; finished parts are used again.
        track: progress, see `paredown.progress`.

    Raises:
        PareError: for an unknown name, and before anything is made if a figure is there with other settings.
    """
    names, out, given = _checked(names, size), Path(out), None if data is None else Path(data)
    if seed < 0:
        raise PareError(f"seed must be at least 0, got {seed}.")
    if given is not None and not given.is_dir():
        raise PareError(f"{data}: there is no such folder; --data is a folder with a folder for every data set.")
    check_available()
    check_apart(out, [] if given is None else [given])
    with locked(out):
        claim_folder(out, "set of figures", earlier=[f"{name}.json" for name in FIGURES])
        clear_below(out)
        setups = {name: Setup.at_size(size, seed, out / "parts", _needs(name, size), given, workers) for name in names}
        settings = {name: _settings(setup) for name, setup in setups.items()}
        complete = {} if overwrite else {name: _read(name, out, settings[name]) for name in names}
        results = []
        for name in names:
            results.append(complete.get(name) or _make(name, out, settings[name], setups[name], track))
            write_summary(out, FIGURES)
        return results


def rehearse_figures(
    names: Iterable[str], *, size: str = "paper", track: Track = silent
) -> dict[str, list[PlannedTraining]]:
    """Check what figures would train, without their data: settings, and a step of every network on one batch."""
    names = _checked(names, size)
    rehearsed: dict[str, list[PlannedTraining]] = {}
    for name in track(names, "rehearsing", total=len(names)):
        setup = Setup.at_size(size, 0, Path("parts"), _needs(name, size), rehearsal=True)
        figure = import_module(f"paredown.reproduce.figures.{name}")
        if setup.needs:
            rehearsed[name] = rehearse(figure.plan(setup))
    return rehearsed


def _checked(names: Iterable[str], size: str) -> list[str]:
    names = list(dict.fromkeys(names))
    for name in names:
        check_known("figure", name, FIGURES)
    check_known("size", size, SIZES)
    return names


def _needs(name: str, size: str) -> dict[str, tuple[str, ...]]:
    """For every role of a figure's data, the data sets it takes at a size, the best first; none for theory."""
    needs = getattr(import_module(f"paredown.reproduce.figures.{name}"), "NEEDS", {})
    size = "cpu" if size == "overnight" else size
    return {role: tuple(by_size[size]) for role, by_size in needs.items() if size in by_size}


def _settings(setup: Setup) -> dict[str, Any]:
    """All that a figure's data depend on."""
    of_theory = {} if setup.needs else asdict(setup.size)
    found = {f"data ({role})": setup.dataset(role).name for role in setup.needs}
    size = "overnight" if setup.overnight else setup.scale
    return {"size": size, "seed": setup.seed, **of_theory, **found, "version": __version__}


def _files(name: str, out: Path) -> tuple[Path, Path, Path]:
    return out / f"{name}.png", out / f"{name}.csv", out / f"{name}.json"


def _read(name: str, out: Path, settings: dict[str, Any]) -> FigureResult | None:
    """The figure if it is complete; None if it is missing or was left unfinished."""
    png, table, record = _files(name, out)
    saved = read_record(record)
    try:
        assert saved is not None
        found, digests = saved["settings"], saved["files"]
        claims = [Claim.from_record(claim) for claim in saved["claims"]]
        seconds, cpu_seconds = float(saved["seconds"]), float(saved["cpu_seconds"])
    except (AssertionError, ValueError, KeyError, TypeError, AttributeError):
        return None
    advice = "Choose another folder with -o, or make it again with --overwrite."
    check_same(f"{record} was", found, settings, advice=advice)
    if any(not file.exists() or file_digest(file) != digests.get(file.name) for file in (png, table)):
        return None
    return FigureResult(name, found, tuple(claims), seconds, cpu_seconds, png, table, record, made=False)


def _make(name: str, out: Path, settings: dict[str, Any], setup: Setup, track: Track) -> FigureResult:
    figure = import_module(f"paredown.reproduce.figures.{name}")

    def named(items: Any, label: str, total: int | None = None) -> Any:
        return track(items, f"{name}: {label}", total)

    start, cpu = perf_counter(), _cpu_seconds()
    table = figure.measure(replace(setup, track=named))
    claims = tuple(figure.judge(table))
    files = _files(name, out)
    # Put in place from the innermost outwards: the record, which says that all is there, comes last.
    with write_whole(files[2]) as record, write_whole(files[1]) as csv, write_whole(files[0]) as png:
        table.write(csv)
        figure.draw(table, png)
        seconds, cpu_seconds = round(perf_counter() - start, 1), round(_cpu_seconds() - cpu, 1)
        document = {
            "figure": name,
            "shows": FIGURES[name].shows,
            "claims": [claim.record() for claim in claims],
            "settings": settings,
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "files": {files[0].name: file_digest(png), files[1].name: file_digest(csv)},
        }
        record.write_bytes(sealed_bytes(document))
    return FigureResult(name, settings, claims, seconds, cpu_seconds, *files, made=True)


def _cpu_seconds() -> float:
    """Of this process and of those it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
