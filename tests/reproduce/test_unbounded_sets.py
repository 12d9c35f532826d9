from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paredown.laws.claim_rules import ClaimVerdict
from paredown.reproduce import rehearse_figures
from paredown.reproduce.base import FigureTable
from paredown.reproduce.figures import fig_unbounded
from paredown.reproduce.runner import reproduce_figures
from paredown.reproduce.setup import Setup
from paredown.reproduce.stacked_networks import PixelScale, StackedNetworks
from paredown.reproduce.unbounded_sets import (
    RANDOM,
    ScoredSet,
    UnboundedSettings,
    cut,
    score_initial_set,
    train_students,
)
from paredown.training import find_recipe

TINY = find_recipe("mlp", network_options={"hidden": (16, 16)}, batch_size=20)


# --- the cut -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.5, 0.25, 1 / 16])
def test_the_cut_takes_what_a_full_sort_takes(fraction: float) -> None:
    scores = np.random.default_rng(0).permutation(5000).astype(np.float32)
    initial = round(200 / fraction)
    order = np.argsort(-scores[:initial])
    out = round(0.02 * initial)
    np.testing.assert_array_equal(cut(scores, 200, fraction, "hard", drop_hardest=0.02), np.sort(order[:200]))
    window = cut(scores, 200, fraction, "window", drop_hardest=0.02)
    np.testing.assert_array_equal(window, np.sort(order[out : out + 200]))


def test_a_random_subset_is_the_beginning() -> None:
    np.testing.assert_array_equal(cut(np.zeros(100, np.float32), 7, 1.0, RANDOM, drop_hardest=0.02), np.arange(7))


# --- networks side by side -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def images() -> tuple[np.ndarray, np.ndarray]:
    """Bright left or bright right, with noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=300)
    pixels = rng.integers(0, 120, (300, 20))
    pixels[:, :10] += 60 * (labels == 0)[:, None]
    pixels[:, 10:] += 60 * (labels == 1)[:, None]
    return pixels.astype(np.uint8), labels


def networks(images: np.ndarray, seeds: list[int]) -> StackedNetworks:
    return StackedNetworks(TINY, 20, 2, PixelScale.of(images), seeds)


def test_members_learn_as_they_would_alone(images) -> None:
    pixels, labels = images
    rows = np.stack([np.arange(0, 100), np.arange(100, 200)])
    together = networks(pixels, [3, 4])
    together.train(pixels, rows, labels[rows], steps=60)
    for member, seed in enumerate((3, 4)):
        alone = networks(pixels, [seed])
        alone.train(pixels, rows[member : member + 1], labels[rows[member : member + 1]], steps=60)
        own = np.concatenate([block[0] for _, block in alone.logits(pixels)])
        both = np.concatenate([block[member] for _, block in together.logits(pixels)])
        np.testing.assert_allclose(both, own, atol=1e-4)
    assert (together.votes(pixels)[:, 200:] == labels[200:]).mean() > 0.85


def test_pixels_are_scaled_by_numbers_that_half_precision_holds() -> None:
    scale = PixelScale.of(np.array([[0, 0, 0, 134]], np.uint8))
    assert scale == PixelScale(34, 64.0)


def test_every_epoch_shows_each_row_once(images) -> None:
    stack = networks(images[0], [1, 2])
    batches = stack._batches(45)  # two batches of 20; the rest waits for another order
    first = np.concatenate([next(batches) for _ in range(2)], axis=1)
    assert all(len(set(order.tolist())) == 40 for order in first)
    assert (first[0] != first[1]).any()
    assert next(stack._batches(7)).shape == (2, 7)


# --- jobs ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> UnboundedSettings:
    folder = tmp_path_factory.mktemp("unbounded")
    setup = Setup("tiny", 0, folder, {"main": ("digits",)})
    return fig_unbounded.settings_of(setup)


def as_job(settings: UnboundedSettings) -> dict[str, Any]:
    return json.loads(json.dumps(asdict(settings)))


def test_labels_are_those_of_the_originals_or_of_the_teacher(settings) -> None:
    told = score_initial_set(as_job(settings), 0)
    scored = ScoredSet(settings, 0).read()
    true, taught = scored["labels"]
    assert true.shape == (settings.initial,)
    assert told["relabelled"] == np.mean(true != taught)
    assert 0 < told["relabelled"] < 0.9
    assert told["teacher_error"] == np.mean(scored["test_labels"][0] != scored["test_labels"][1])
    # A teacher's labels can be learned better than true ones where it is wrong: probes agree with it more often.
    assert told["probe_errors"][1] < 1
    assert np.isfinite(scored["scores"]).all()
    assert (scored["scores"] >= 0).all()
    assert (scored["scores"] <= 2**0.5 + 1e-6).all()


def test_scores_lost_are_made_again_to_the_same_bytes(settings) -> None:
    own = ScoredSet(settings, 1)
    before = own.read()
    own.file.unlink()
    for name, values in own.read().items():
        np.testing.assert_array_equal(values, before[name])


def test_seeds_differ_in_everything(settings) -> None:
    one, other = (ScoredSet(settings, seed).read() for seed in (0, 1))
    assert all((one[name] != other[name]).any() for name in ("labels", "scores", "test_labels"))


def test_a_job_trains_every_arm_for_both_labels(settings) -> None:
    rows = train_students(as_job(settings), [0, 60])
    arms = {(row["labels"], row["strategy"], row["keep_fraction"]) for row in rows}
    ways = [(RANDOM, 1.0), *((way, f) for way in ("hard", "window") for f in (0.5, 0.25))]
    assert arms == {(labels, *way) for labels in ("true", "teacher") for way in ways}
    assert all(0 < row["test_error"] < 1 and row["kept"] == 60 for row in rows)


# --- the figure ----------------------------------------------------------------------------------------------------


def test_the_figure_is_made_and_resumed(tmp_path: Path) -> None:
    (first,) = reproduce_figures(["fig_unbounded"], size="tiny", out=tmp_path / "r", workers=1)
    assert len(first.claims) == 9
    parts = sorted((tmp_path / "r" / "parts").glob("jobs-*/*.json"))
    assert len(parts) == 3 + 9 + 2 * 3  # scorings, students, and some of two durations
    stamps = [part.stat().st_mtime_ns for part in parts]
    table = first.csv.read_bytes()
    (again,) = reproduce_figures(["fig_unbounded"], size="tiny", out=tmp_path / "r", workers=1, overwrite=True)
    assert again.made
    assert again.csv.read_bytes() == table
    assert [part.stat().st_mtime_ns for part in parts] == stamps


def test_overnight_is_as_cpu_but_where_a_figure_says_more() -> None:
    needs = {"main": ("mnist",)}
    small, large = (Setup.at_size(size, 0, Path("parts"), needs, rehearsal=True) for size in ("cpu", "overnight"))
    assert large.scale == "cpu"
    assert large.choose(tiny=1, cpu=2, paper=4) == 2
    assert large.choose(tiny=1, cpu=2, overnight=3, paper=4) == 3
    assert small.choose(tiny=1, cpu=2, overnight=3, paper=4) == 2
    assert fig_unbounded.kept_sizes(large)[-1] > fig_unbounded.kept_sizes(small)[-1]
    for setup in (small, large):
        settings = fig_unbounded.settings_of(setup)
        assert max(fig_unbounded.kept_sizes(setup)) / min(settings.fractions) <= settings.initial
    assert rehearse_figures(["fig4a"], size="overnight") == rehearse_figures(["fig4a"], size="cpu")


def made_up(pruned: Any, *, seeds: int = 4, noise: float = 0.01) -> FigureTable:
    """Students whose random subsets have error 2 n^-0.4 and whose pruned ones `pruned(n, f)`."""
    rng = np.random.default_rng(0)
    rows = []
    for labels in ("true", "teacher"):
        for kept in (1000, 2000, 4000, 8000, 16_000):
            for seed in range(seeds):
                row = {"kind": "student", "data": "made up", "labels": labels, "kept": kept, "seed": seed}
                for way, fraction in [(RANDOM, 1.0), *((w, f) for w in ("hard", "window") for f in (0.5, 0.25, 0.125))]:
                    error = (2 * kept**-0.4 if way == RANDOM else pruned(kept, fraction)) * np.exp(
                        noise * rng.standard_normal()
                    )
                    rows.append({**row, "strategy": way, "keep_fraction": fraction, "test_error": error})
    table = FigureTable(rows)
    fig_unbounded.add_findings(table)
    return table


def verdicts(table: FigureTable) -> tuple[set[ClaimVerdict], set[ClaimVerdict]]:
    claims = fig_unbounded.judge(table)
    return {claim.verdict for claim in claims[:4]}, {claim.verdict for claim in claims[4:]}


def test_a_steeper_frontier_is_found_and_a_lower_one_is_not_taken_for_it() -> None:
    held, contradicted = {ClaimVerdict.HELD}, {ClaimVerdict.CONTRADICTED}
    lower = lambda n, f: 2 * n**-0.4 * {0.5: 0.8, 0.25: 0.7, 0.125: 1.2}[f]
    steeper = lambda n, f: lower(n, f) * (n / 1000) ** -0.2
    flatter = lambda n, f: lower(n, f) * (n / 16_000) ** 0.08
    worse = lambda n, f: 3 * n**-0.4
    assert verdicts(made_up(steeper)) == (held, held)
    slopes, arms = verdicts(made_up(lower))
    assert ClaimVerdict.HELD not in slopes
    assert arms == held
    assert verdicts(made_up(flatter)) == (contradicted, held)
    assert verdicts(made_up(worse)) == ({ClaimVerdict.NOT_TESTABLE}, contradicted)
    assert verdicts(made_up(steeper, seeds=2)) == ({ClaimVerdict.NOT_TESTABLE}, {ClaimVerdict.CANNOT_TELL})


def test_the_evidence_has_the_exponents() -> None:
    table = made_up(lambda n, f: 2 * n**-0.6 * 4 * {0.5: 0.8, 0.25: 0.7, 0.125: 1.2}[f], noise=0.002)
    told = fig_unbounded.judge(table)[0].evidence
    assert "the frontier's exponent is 0.60 and that of random subsets 0.40." in told


def test_every_claim_has_a_rule_and_its_strength() -> None:
    for claim in fig_unbounded.judge(made_up(lambda n, f: 2 * n**-0.6 * 4 * {0.5: 0.8, 0.25: 0.7, 0.125: 1.2}[f])):
        assert claim.held
        assert claim.rule
        assert claim.numbers
        assert claim.strength is not None
        assert claim.strength.power >= 0.8
        assert claim.strength.false_alarms <= 0.09


@pytest.mark.parametrize(
    ("change", "verdict"),
    [(0.01, ClaimVerdict.HELD), (-0.3, ClaimVerdict.CONTRADICTED), (-0.1, ClaimVerdict.CANNOT_TELL)],
)
def test_students_that_still_learn_are_found(change: float, verdict: ClaimVerdict) -> None:
    rng, rows = np.random.default_rng(0), []
    for labels, (way, fraction), seed in product(("true", "teacher"), ((RANDOM, 1.0), ("hard", 0.25)), range(4)):
        for times in (1, 2):
            error = 0.02 * np.exp((times - 1) * change + 0.01 * rng.standard_normal())
            arm = {"labels": labels, "strategy": way, "keep_fraction": fraction, "kept": 100, "seed": seed}
            rows.append({"kind": "longer", "times": times, **arm, "test_error": error})
    (claim,) = fig_unbounded._judge_longer(FigureTable(rows))
    assert claim.verdict is verdict


def test_scores_do_not_depend_on_how_long_students_train(settings) -> None:
    longer = replace(settings, steps=2 * settings.steps, epochs=99, fractions=(0.5,))
    assert ScoredSet(longer, 0).file == ScoredSet(settings, 0).file


def test_sizes_that_the_smallest_fraction_limits_are_marked() -> None:
    """The same sizes count for the report as for the verdict."""
    table = made_up(lambda n, f: 2 * n**-0.4 * (0.9 if n < 5000 or f > 0.2 else 0.5) * f**0.05)
    frontier = table.where(kind="frontier", labels="true", strategy="hard")
    assert frontier["limited"].tolist() == [True] * 5
    assert frontier["counted"].tolist() == [True, True, True, False, False]
