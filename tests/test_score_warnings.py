"""Scores that do not separate the examples are warned of, and others are not; in memory and in streams alike."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paredown as pdn
from paredown.score_files import read_scores
from paredown.score_warnings import (
    Magnitudes,
    Tie,
    band_ranks,
    band_warning,
    constant_warning,
    crowding_warning,
    score_warnings,
    tie_warning,
)
from paredown.scores import Labels, Scores
from paredown.selection.streamed import Limits, open_table, select_streamed

TINY = Limits(rows=64, candidates=20, cells=64)


def notes_of(values: Any, **options: Any) -> tuple[str, ...]:
    """The notes of a selection, which are the same in memory and in streams."""
    labels = options.pop("labels", None)
    columns = {"id": np.arange(len(values)), "score": np.asarray(values)} | (
        {} if labels is None else {"label": labels}
    )
    options = {"keep_fraction": 0.5, "balance": 0.0} | options
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=max(100, len(values) // 10))
        kept = pdn.select(read_scores(path), **options)
        for limits in (Limits(), TINY):
            assert select_streamed(open_table(path), limits=limits, **options).notes == kept.notes
    assert kept.provenance()["notes"] == list(kept.notes)
    return kept.notes


# --- ties --------------------------------------------------------------------------------------------------------


def test_ties_that_decide_the_cut_are_warned_of() -> None:
    values = np.concatenate([np.linspace(1, 2, 98), np.zeros(2_902)])
    assert notes_of(values) == (
        "1,402 of the 1,500 kept are tied at score 0 with 1,500 that were dropped: the seed chose among them, and "
        "another seed would choose about 725 others. Use a metric that separates them, or keep another fraction.",
    )
    assert notes_of(5 - values, strategy="easy")[0].startswith("1,402 of the 1,500 kept are tied at score 5 with 1,500")


@pytest.mark.parametrize("strategy", ["hard", "easy", "window"])
def test_continuous_scores_are_not_warned_of(rng: np.random.Generator, strategy: str) -> None:
    labels = rng.integers(0, 5, 3_000)
    for values in (rng.normal(size=3_000), rng.exponential(size=3_000), rng.lognormal(sigma=3, size=3_000)):
        for options in ({}, {"labels": labels, "balance": 0.5}, {"labels": labels, "quota": "equal"}):
            assert notes_of(values, strategy=strategy, keep_fraction=0.2, **options) == ()


def test_a_handful_of_ties_is_not_warned_of(rng: np.random.Generator) -> None:
    values = np.sort(rng.normal(size=100_000))
    values[49_990:50_010] = values[50_000]
    assert notes_of(values) == ()  # 5 of 50,000 would change
    values[48_000:52_000] = values[50_000]
    assert len(notes_of(values)) == 1  # 1,000 of 50,000


def test_ties_away_from_the_cut_do_not_matter(rng: np.random.Generator) -> None:
    values = np.concatenate([rng.uniform(1, 2, 500), np.zeros(500)])
    assert notes_of(values, keep_fraction=0.5) == ()  # the cut falls between the two
    assert notes_of(values, keep_fraction=0.4) == ()
    assert notes_of(values, keep_fraction=1.0) == ()
    assert len(notes_of(values, keep_fraction=0.6)) == 1


def test_ties_are_counted_class_by_class(rng: np.random.Generator) -> None:
    labels = np.repeat(["a", "b", "c"], 1_000)
    values = np.concatenate(
        [np.repeat([0.0, 2.0], [800, 200]), np.repeat([1.0, 3.0], [800, 200]), rng.normal(9, 1, 1_000)]
    )
    (note,) = notes_of(values, labels=labels, quota="equal", keep_fraction=0.5)
    assert note.startswith("600 of the 1,500 kept are tied at the cut with 1,000 that were dropped")
    # Cut over all of them, class b alone is divided: c and the best of a and b go first.
    (note,) = notes_of(values, labels=labels, keep_fraction=0.6)
    assert note.startswith("400 of the 1,800 kept are tied at score 1 with 400 that were dropped")
    # A floor of its own makes class a take some zeros, too.
    (note,) = notes_of(values, labels=labels, keep_fraction=0.6, balance=0.9)
    assert note.startswith("680 of the 1,800 kept are tied at the cut with 920 that were dropped")


def test_ties_among_the_hardest_that_are_dropped(rng: np.random.Generator) -> None:
    values = np.concatenate([np.full(400, 9.0), rng.uniform(0, 1, 600)])
    (note,) = notes_of(values, strategy="window", drop_hardest=0.1, keep_fraction=0.5)
    assert note == (
        "100 of the 100 dropped as the hardest are tied at score 9 with 300 that were not: the seed chose among them, "
        "and another seed would choose about 75 others. Use a metric that separates them, or keep another fraction."
    )
    lower, upper = notes_of(values, strategy="window", drop_hardest=0.1, keep_fraction=0.2)
    assert lower.startswith("200 of the 200 kept are tied at score 9 with 100 that were dropped")  # and 100 too hard
    assert upper.startswith("100 of the 100 dropped as the hardest are tied at score 9 with 300 that were not")


def test_classes_that_are_not_balanced_are_cut_as_one(rng: np.random.Generator) -> None:
    values = np.concatenate([np.full(600, 1.0), rng.uniform(2, 3, 400)])
    labels = np.arange(1_000)  # no class has an equal of its own
    for strategy, dropped in (("hard", 0), ("window", 50)):
        (note,) = notes_of(values, labels=labels, strategy=strategy, drop_hardest=0.05, keep_fraction=0.5)
        inside = 100 + dropped
        assert note.startswith(f"{inside} of the 500 kept are tied at score 1 with {600 - inside} that were dropped")


def test_what_is_dropped_as_the_hardest_is_cut_as_one(rng: np.random.Generator) -> None:
    values = np.concatenate([np.full(400, 9.0), rng.uniform(0, 1, 600)])
    notes = notes_of(values, labels=np.arange(1_000), strategy="window", drop_hardest=0.1, keep_fraction=0.5)
    assert notes[0].startswith("100 of the 100 dropped as the hardest are tied at score 9 with 300 that were not")


def test_all_that_are_kept_may_be_tied() -> None:
    (note,) = notes_of(np.repeat([1.0, 0.0], 500), keep_fraction=0.3)
    assert note.startswith("300 of the 300 kept are tied at score 1 with 200 that were dropped")


def test_moderate_counts_ties_around_the_median() -> None:
    values = np.concatenate([np.linspace(-1, 1, 101), np.full(300, 5.0), np.full(300, -5.0)])
    (note,) = pdn.select(values, strategy="moderate", keep_fraction=0.5).notes
    assert note.startswith("249 of the 350 kept are tied at the cut with 351 that were dropped")


@pytest.mark.parametrize("strategy", ["random", "stratified"])
def test_strategies_that_draw_anyway_say_nothing_of_ties(strategy: str) -> None:
    values = np.concatenate([np.linspace(1, 2, 98), np.zeros(2_902)])
    assert pdn.select(values, strategy=strategy, keep_fraction=0.5).notes == ()


def test_what_is_mixed_in_at_random_is_no_tie(rng: np.random.Generator) -> None:
    values = np.concatenate([rng.uniform(1, 2, 500), np.zeros(500)])
    assert pdn.select(values, keep_fraction=0.6, mix_random=1 / 6).notes == ()  # all 500 by score, 100 at random
    (note,) = pdn.select(values, keep_fraction=0.8, mix_random=0.25).notes
    assert note.startswith("100 of the 600 kept are tied at score 0 with 400 that were dropped")
    labels = np.repeat(["a", "b"], 500)
    assert pdn.select(values, labels=labels, keep_fraction=0.5, quota="equal", mix_random=1.0).notes == ()


@pytest.mark.parametrize(
    ("inside", "outside", "kept", "warned"),
    [
        (20, 20, 1_000, True),  # 10 would change: 1 % of what is kept
        (19, 20, 1_000, False),
        (6, 6, 10, True),  # 3 would change
        (5, 6, 10, False),
        (1_000, 1, 1_000, False),  # all but one of them are in whatever the seed
        (0, 0, 10, False),
    ],
)
def test_the_rule_for_ties(inside: int, outside: int, kept: int, warned: bool) -> None:
    assert (tie_warning(Tie(inside, outside, 0.5), kept) is not None) == warned


def test_ties_of_classes_without_equals_on_both_sides_do_not_count() -> None:
    tie = Tie.of(np.array([3, 4, 0, 7]), np.array([0, 5, 6, 1]), np.array([1.0, 2.0, 3.0, 2.0]))
    assert tie == Tie(11, 6, 2.0)
    assert tie.replaceable == pytest.approx(66 / 17)
    assert Tie.of(np.array([1, 1]), np.array([1, 1]), np.array([1.0, 2.0])).score is None
    assert str(Tie.of(np.array([1, 1]), np.array([1, 1]), np.array([-0.0, -0.0])).score) == "0.0"
    assert Tie(0, 0, None).replaceable == 0


@settings(max_examples=50)
@given(st.data())
def test_streams_say_the_same(data: Any) -> None:
    n = data.draw(st.integers(100, 300))
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    kind = data.draw(st.sampled_from(["few", "crowded", "band", "signed", "outlier", "lognormal", "huge"]))
    values = {
        "few": lambda: rng.integers(0, 4, n) * 0.25,
        "crowded": lambda: np.where(rng.random(n) < 0.8, 1e-7, 1) * rng.random(n),
        "band": lambda: 3 - np.where(rng.random(n) < 0.8, 1e-6, 1) * rng.random(n),
        "signed": lambda: rng.normal(size=n) ** 9,
        "outlier": lambda: np.append(rng.normal(size=n - 1), 1e9),
        "lognormal": lambda: rng.lognormal(sigma=data.draw(st.sampled_from([1, 3, 4, 5])), size=n),
        "huge": lambda: rng.choice([0.0, 1e-300, 1e300, -1e300], n),
    }[kind]()
    labels = rng.integers(0, data.draw(st.sampled_from([1, 3, 40])), n)
    notes_of(
        values.astype(data.draw(st.sampled_from([np.float64, np.float32])) if kind != "huge" else np.float64),
        labels=labels,
        strategy=data.draw(st.sampled_from(["hard", "easy", "window", "random", "moderate"])),
        keep_fraction=data.draw(st.sampled_from([0.05, 0.3, 0.5, 0.9])),
        **data.draw(
            st.sampled_from(
                [{"balance": 0.0}, {"balance": 0.5}, {"balance": 1.0}, {"quota": "equal"}, {"quota": "proportional"}]
            )
        ),
        drop_hardest=data.draw(st.sampled_from([0.05, 0.3])),
    )


# --- constant scores ---------------------------------------------------------------------------------------------


def test_constant_scores_are_warned_of() -> None:
    expected = (
        "all 30 scores are 0.8143, up to rounding: they do not rank the examples, and what is kept is as good as "
        "random. Use another metric or encoder, or more examples."
    )
    assert notes_of(np.full(30, 0.8143)) == (expected,)
    assert notes_of(np.linspace(0.8143, 0.8143 + 8e-6, 30)) == (expected,)
    assert notes_of(np.linspace(0.8143, 0.8143 + 9e-6, 30)) == ()
    assert notes_of(np.zeros(30), strategy="random") == ()  # which uses no scores


@pytest.mark.parametrize(
    ("lowest", "highest", "n", "warned"),
    [
        (0.0, 0.0, 2, True),
        (0.0, 0.0, 1, False),
        (-1.0, -1.0, 2, True),
        (-1.0, -0.999, 2, False),
        (0.0, 1e-30, 2, False),
    ],
)
def test_the_rule_for_constant_scores(lowest: float, highest: float, n: int, warned: bool) -> None:
    assert (constant_warning(lowest, highest, n) is not None) == warned


def test_zero_has_no_sign() -> None:
    said = constant_warning(-0.0, 0.0, 5)
    assert said is not None
    assert said.startswith("all 5 scores are 0, up to rounding")


def test_a_few_whitened_images_are_all_alike(tmp_path: Path, paredown: Any, rng: np.random.Generator) -> None:
    from PIL import Image

    (tmp_path / "images").mkdir()
    for number in range(30):
        pixels = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    keep = ("--keep-fraction", "0.5", "--encoder", "pixels", "--metric", "typicality", "-o", tmp_path / "out")
    done = paredown("prune", tmp_path / "images", *keep)
    scores = read_scores(tmp_path / "out")
    warning = f"all 30 scores are {scores.values.min():.4g}, up to rounding"  # a simplex: as many dimensions as images
    assert warning in " ".join((done.stdout + done.stderr).split())
    assert sum(text.startswith(warning) for text in scores.provenance["warnings"]) == 1
    assert scores.provenance["notes"] == []  # said once


# --- crowded scores ----------------------------------------------------------------------------------------------


def test_scores_of_a_probe_trained_for_too_long(rng: np.random.Generator) -> None:
    values = 10 ** rng.normal(-5.2, 1, 2_000)  # the median is 6e-6
    values[:40] = rng.uniform(0.5, 1.4, 40)
    (note,) = notes_of(values)
    assert note.startswith("three quarters of the scores are 3e-05 or less, while 1 % are ")
    assert note.endswith(
        "they do not separate most of the examples. A probe trained for too long does this; train it for fewer "
        "epochs, or keep only the few hardest examples."
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("small", "warned"), [(1e-2, False), (1.1e-3, False), (0.9e-3, True), (0.0, False)])
def test_the_rule_for_crowded_scores(dtype: Any, small: float, warned: bool) -> None:
    values = np.repeat(np.array([small, 1.0], dtype), [75, 25])
    assert (len(score_warnings(values)) == 1) == warned
    assert (len(score_warnings(-values)) == 1) == warned
    assert score_warnings(values[1:]) == []  # fewer than 100
    assert score_warnings(np.repeat(np.array([small, 1.0], dtype), [74, 26])) == []  # not three quarters


def test_scores_crowd_beside_the_largest_whatever_their_size() -> None:
    for largest in (1e-3, 1.0, 10.0, 1e6):
        assert len(score_warnings(largest * np.repeat([5e-4, 1.0], [75, 25]))) == 1
        assert score_warnings(largest * np.repeat([2e-3, 1.0], [75, 25])) == []


def test_crowded_scores_may_have_some_zeros() -> None:
    for zeros, warned in ((1, True), (74, True), (75, False)):  # three quarters of zeros are left to the ties
        values = np.repeat([0.0, 1e-6, 1.0], [zeros, 80 - zeros, 20])
        said = [warning.split(",")[0] for warning in score_warnings(values)]
        assert said == (["three quarters of the scores are 1e-06 or less"] if warned else [])


@pytest.mark.parametrize(
    ("bins", "may"),
    [
        ({0: 15, 1: 15, 2: 15, 3: 15, 4: 15, 40: 10, 50: 15}, True),  # three quarters in five neighbours
        ({0: 15, 1: 15, 2: 15, 3: 15, 5: 15, 40: 10, 50: 15}, False),  # in six
        ({0: 15, 1: 15, 2: 15, 3: 15, 4: 14, 40: 11, 50: 15}, False),  # not three quarters
        ({0: 25, 10: 5, 20: 10, 46: 35, 50: 15}, False),
        ({-300: 25, -250: 25, -183: 25, 0: 25}, True),  # three quarters below 2 % of the highest
        ({-300: 25, -250: 25, -182: 25, 0: 25}, False),
    ],
)
def test_where_scores_may_crowd(bins: dict[int, int], may: bool) -> None:
    counted = Magnitudes()
    for bin_, number in bins.items():  # 32 bins to an octave, the first from 1 to 33/32
        counted.add(np.full(number, 2.0 ** (bin_ // 32) * (1 + (bin_ % 32 + 0.5) / 32)))
    assert counted.may_crowd() == may


def test_magnitudes_are_quantiles(rng: np.random.Generator) -> None:
    for dtype, width in ((np.float64, 1 / 32), (np.float32, 1 / 256), (np.float16, 1 / 256)):
        values = rng.normal(size=10_001).astype(dtype)
        counted = Magnitudes()
        for part in np.array_split(values, 7):
            counted.add(part)
        for share in (0.01, 0.5, 0.75, 0.99, 1.0):
            exact = np.quantile(np.abs(values), share, method="inverted_cdf")
            assert exact <= counted.quantile(share) <= exact * (1 + width)
    one = Magnitudes()
    one.add(np.ones(1))
    assert one.quantile(1.0) == np.nextafter(1 + 1 / 32, 0)  # the end of its bin


def test_the_extra_pass_is_made_only_where_scores_may_crowd(tmp_path: Path, rng: np.random.Generator) -> None:
    passes: list[str] = []

    def count(items: Any, label: str, total: int | None = None) -> Any:
        passes.append(label)
        return items

    for name, values in (("good", rng.normal(size=5_000)), ("bad", 1e10 + rng.normal(size=5_000) ** 15)):
        pq.write_table(pa.table({"id": np.arange(5_000), "score": values}), tmp_path / f"{name}.parquet")
        select_streamed(open_table(tmp_path / f"{name}.parquet"), keep_fraction=0.5, track=count)
        assert passes.count("counting scores") == (1 if name == "good" else 2)
        passes.clear()


# --- where warnings go -------------------------------------------------------------------------------------------


def test_warnings_reach_the_terminal_and_the_manifest(tmp_path: Path, paredown: Any) -> None:
    values = np.concatenate([np.linspace(1, 2, 98), np.zeros(2_902)])
    pq.write_table(pa.table({"id": np.arange(3_000), "score": values}), tmp_path / "s.parquet")
    for memory in ("1GiB", "1KiB"):
        out = tmp_path / f"out-{memory}"
        done = paredown("prune", tmp_path / "s.parquet", "--keep-fraction", "0.5", "--memory", memory, "-o", out)
        assert "1,402 of the 1,500 kept are tied at score 0" in " ".join(done.stdout.split())
        assert read_scores(out).provenance["notes"][0].startswith("1,402 of the 1,500 kept are tied at score 0")


def test_what_scoring_said_is_not_said_again() -> None:
    values = np.zeros(10)
    scores = Scores(values, np.arange(10), provenance={"warnings": score_warnings(values)})
    assert pdn.select(scores, keep_fraction=0.5).notes == ()
    assert len(pdn.select(Scores(values, np.arange(10)), keep_fraction=0.5).notes) == 1


def test_floors_and_warnings_are_both_noted() -> None:
    kept = pdn.select(np.zeros(9), labels=Labels.of(list("abcdefghi")), keep_fraction=0.3, balance=1.0)
    assert [note.split(" ")[0] for note in kept.notes] == ["all", "the", "9", "6"]


def test_empty_scores_have_nothing_to_warn_of() -> None:
    assert score_warnings(np.empty(0)) == []
    assert crowding_warning(Magnitudes(), 0) is None


# --- scores that crowd in a narrow band ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("at", [1.0, -1.0, 0.5, 30.0])
def test_scores_that_crowd_at_a_value_are_noticed(rng, at, dtype) -> None:
    crowd = at - 1e-5 * rng.random(8_000)
    values = np.concatenate([crowd, rng.uniform(at - 1, at, 2_000)]).astype(dtype)
    (warning,) = score_warnings(rng.permutation(values))
    assert re.match(r"three quarters of the scores are within \de-0[56] of ", warning)
    assert float(warning.split()[9].rstrip(",")) == pytest.approx(at, abs=1e-4)
    assert warning in notes_of(values)


def test_the_rule_for_bands() -> None:
    assert band_warning(2.5, 1e-3, 10.0) == (  # just at the limit
        "three quarters of the scores are within 0.001 of 2.5, while 1 % are 10 or more away from it: they do not "
        "separate most of the examples. A score that saturates does this; use another metric, or train for fewer "
        "epochs."
    )
    assert band_warning(2.5, 1.1e-3, 10.0) is None
    assert band_warning(2.5, 0.0, 10.0) is None
    assert [band_ranks(n) for n in (100, 101, 200)] == [(50, 74, 98), (50, 75, 99), (100, 149, 197)]


def test_a_hundred_scores_are_enough_for_a_band() -> None:
    values = np.concatenate([3 - 1e-6 * np.arange(80), np.linspace(1, 2, 20)])
    assert len(score_warnings(values)) == 1
    assert score_warnings(values[1:]) == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.random(20_000),
        lambda rng: rng.normal(size=20_000),
        lambda rng: 100 + 0.01 * rng.normal(size=20_000),
        lambda rng: rng.exponential(size=20_000),
        lambda rng: 1 - rng.exponential(size=20_000) / 10,
        lambda rng: rng.lognormal(sigma=3, size=20_000),
        lambda rng: rng.standard_cauchy(20_000),
        lambda rng: rng.poisson(0.1, 20_000).astype(float),  # times forgotten
        lambda rng: np.where(rng.random(20_000) < 0.8, 1.0, rng.random(20_000)),  # ties, warned of where they decide
        lambda rng: np.append(rng.normal(size=20_000), 1e12),
        lambda rng: 1 / (1 + np.exp(-3 * rng.normal(size=20_000))),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ordinary_scores_do_not_crowd(rng, draw, dtype) -> None:
    assert score_warnings(draw(rng).astype(dtype)) == []
