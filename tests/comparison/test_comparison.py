"""Comparisons of metrics: examples worked out by hand, and laws that hold for any scores."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import paredown as pdn
from paredown.comparison import KEEP_FRACTIONS, MetricComparison
from paredown.errors import PareError
from paredown.ids import hash_ids, id_array
from paredown.plots import comparison_picture
from paredown.scores import Labels, Scores

IDS = ["a", "b", "c", "d", "e"]
HAND: dict[str, list[float]] = {"x": [1, 2, 3, 4, 5], "y": [2, 1, 4, 3, 5], "z": [5, 4, 3, 2, 1]}


def by_hand(**options: Any) -> MetricComparison:
    return pdn.compare(HAND, **{"ids": IDS, "keep_fractions": (0.2, 0.4, 0.6, 1.0)} | options)


# --- by hand -------------------------------------------------------------------------------------------------------


def test_correlations() -> None:
    """Ranks of x and y differ by one in four places: 1 - 6 * 4 / (5 * 24)."""
    found = by_hand()
    np.testing.assert_allclose(found.spearman, [[1, 0.8, -1], [0.8, 1, -0.8], [-1, -0.8, 1]], atol=1e-15)
    assert found.metrics == ("x", "y", "z")
    assert found.order == (0, 1, 2)  # z is nearer to y, at -0.8, than to x, at -1
    assert pdn.compare({"z": HAND["z"], "x": HAND["x"], "y": HAND["y"]}).order == (0, 2, 1)


def test_overlaps() -> None:
    """Kept by x: e, de, cde; by y: e, ce, cde; by z: a, ab, abc."""
    found = by_hand()
    pairs = {(a, b): found.overlaps[:, a, b].tolist() for a, b in ((0, 1), (0, 2), (1, 2))}
    assert pairs == {(0, 1): [1, 0.5, 1, 1], (0, 2): [0, 0, 1 / 3, 1], (1, 2): [0, 0, 1 / 3, 1]}
    assert found.mean_overlaps.tolist() == pytest.approx([1 / 3, 0.5 / 3, 5 / 9, 1])
    assert found.selection == {"strategy": "hard", "balance": 0.0, "seed": 0}
    easy = by_hand(strategy="easy").overlaps[:, 0, 1]
    assert easy.tolist() == [0, 1, 2 / 3, 1]  # x: a, ab, abc; y: b, ab, abd


def test_overlaps_are_those_of_what_select_keeps(rng: np.random.Generator) -> None:
    """Where nothing is left to the seed, as it is with ties, and inside the bins of `stratified`."""
    labels = rng.integers(0, 3, 200)
    scores = {name: rng.random(200) + 0.3 * labels for name in ("a", "b", "c")}
    for options in ({}, {"balance": 0.9}, {"balance": 0}, {"strategy": "window"}, {"strategy": "moderate"}):
        found = pdn.compare(scores, labels=labels, keep_fractions=(0.3, 0.97), **options)  # type: ignore[arg-type]
        for place, fraction in enumerate(found.keep_fractions):
            kept = [
                pdn.select(values, keep_fraction=fraction, labels=labels, **options).keep  # type: ignore[arg-type]
                for values in scores.values()
            ]
            expected = [[(a & b).sum() / a.sum() for b in kept] for a in kept]
            np.testing.assert_array_equal(found.overlaps[place], expected)


def test_disputed_examples() -> None:
    """Percentiles of e are 1, 1 and 0, whose variance is 2 / 9."""
    found = by_hand(labels=list("pqpqp"))
    assert [example.id for example in found.disputed] == ["e", "a", "b", "d", "c"]
    first, second, *_ = found.disputed
    assert (first.label, first.percentiles) == ("p", (1, 1, 0))
    assert first.spread == pytest.approx(math.sqrt(2 / 9), abs=1e-15)
    assert second.percentiles == (0, 0.25, 1)
    assert second.spread == pytest.approx(np.std([0, 0.25, 1]), abs=1e-15)
    assert [example.id for example in by_hand(top=2).disputed] == ["e", "a"]
    assert by_hand(top=0).disputed == ()
    assert by_hand().disputed[0].label is None


def test_equal_disputes_are_ordered_by_the_hash_of_the_id() -> None:
    ids = np.arange(40)
    up = np.arange(40.0)
    for seed in range(5):
        found = pdn.compare({"up": up, "down": -up}, seed=seed, top=40).disputed
        hashes = hash_ids(id_array(ids), seed=seed)
        expected = sorted(ids.tolist(), key=lambda row: (-abs(2 * row - 39), hashes[row]))
        assert [example.id for example in found] == expected


def test_tied_scores_have_their_mean_percentile() -> None:
    found = pdn.compare({"x": [0, 0, 0, 7], "y": [1, 2, 3, 4]}, top=4)
    assert {example.id: example.percentiles for example in found.disputed} == {
        0: (1 / 3, 0),
        1: (1 / 3, 1 / 3),
        2: (1 / 3, 2 / 3),
        3: (1, 1),
    }


def test_shared_ties_are_no_agreement() -> None:
    """Two metrics that single out ten examples each, and none of the rest, share of the rest what chance gives."""
    n = 4000
    first, second = np.zeros(n), np.zeros(n)
    first[:10], second[-10:] = 1, 1
    found = pdn.compare({"a": first, "b": second, "again": first}, keep_fractions=(0.5,))
    assert found.overlaps[0, 0, 1] == pytest.approx(0.5, abs=5 * math.sqrt(0.25 / 2000))
    assert found.overlaps[0, 0, 2] == 1
    assert "one and the same score (a 3,990, b 3,990, again 3,990)" in " ".join(found.notes)


def test_shared_random_choices_are_no_agreement(rng: np.random.Generator) -> None:
    """`stratified` draws at random inside bins of the score."""
    scores = {"a": rng.random(4000), "b": rng.random(4000)}
    found = pdn.compare(scores, keep_fractions=(0.5,), strategy="stratified")
    assert found.overlaps[0, 0, 1] == pytest.approx(0.5, abs=5 * math.sqrt(0.25 / 2000))


def test_the_floor_is_that_of_select() -> None:
    """Without a floor both keep class q alone; with one of 0.5, class p keeps one of its four, the same one."""
    labels = list("ppppqqqq")
    scores = {"x": [0, 1, 2, 3, 4, 5, 6, 7], "y": [0, 1, 2, 3, 7, 6, 5, 4]}
    found = pdn.compare(scores, labels=labels, keep_fractions=(0.5,))
    assert found.selection["balance"] == 0.5
    assert found.overlaps[0, 0, 1] == 3 / 4  # x: 3, 5, 6, 7 and y: 3, 4, 5, 6
    assert pdn.compare(scores, labels=labels, keep_fractions=(0.5,), balance=0).overlaps[0, 0, 1] == 1


# --- reliability and cost ------------------------------------------------------------------------------------------


def with_report(metric: str, values: list[float], **report: Any) -> Scores:
    return Scores(np.array(values, float), np.arange(len(values)), metric, provenance={"report": report})


def test_correlations_are_corrected_only_where_both_reliabilities_are_known() -> None:
    found = pdn.compare(
        with_report("el2n", HAND["x"], models=4, reliability=0.9),
        with_report("forgetting", HAND["y"], models=4, reliability=0.4),
        with_report("aum", HAND["z"], models=1),
        with_report("margin", HAND["y"], reliability=0.0),
        with_report("grand", HAND["y"], reliability="high"),
    )
    corrected = found.corrected
    assert corrected[0, 1] == corrected[1, 0] == pytest.approx(0.8 / 0.6)  # 0.8 / sqrt(0.9 * 0.4)
    assert np.isfinite(corrected).sum() == 2
    assert [facts.reliability for facts in found.facts] == [0.9, 0.4, None, 0.0, None]
    assert [facts.networks for facts in found.facts] == [4, 4, 1, None, None]


def test_costs_come_from_the_registry_and_the_provenance() -> None:
    found = pdn.compare(
        with_report("ddd", HAND["x"], models=3, folds=5), {"prototypes": HAND["y"], "mine": HAND["z"]}, metrics=None
    )
    ddd, prototypes, mine = found.facts
    assert (ddd.needs, ddd.networks, ddd.usual_networks) == (("embeddings", "labels", "training"), 15, 50)
    assert ddd.cost == pdn.METRICS["ddd"].cost
    assert (prototypes.metric, prototypes.networks, prototypes.usual_networks) == ("prototypes", None, 0)
    assert (mine.metric, mine.needs, mine.cost, mine.usual_networks) == (None, None, None, None)


# --- words ---------------------------------------------------------------------------------------------------------


def test_conclusions_name_the_alike_and_the_one_apart(rng: np.random.Generator) -> None:
    base, noise = rng.standard_normal(500), rng.standard_normal((3, 500))
    alike = {"a": base + 0.1 * noise[0], "b": base + 0.1 * noise[1], "c": base}
    first, second = pdn.compare(alike | {"d": noise[2]}).conclusions
    assert first.startswith("a, b and c rank the examples nearly alike (rank correlation 0.9")
    assert second.startswith("d stands apart: its mean rank correlation with the other metrics is ")
    assert by_hand(metrics=["x", "y"]).conclusions == (
        "The rank correlation of x and y is 0.80: they rank the examples differently.",
    )
    assert by_hand().conclusions == (
        "No two metrics rank the examples nearly alike; x and y come closest (rank correlation 0.80).",
        "z stands apart: its mean rank correlation with the other metrics is -0.90.",
    )


def test_constant_scores_have_no_correlation() -> None:
    found = pdn.compare(HAND | {"flat": [3] * 5})
    assert np.isnan(found.spearman[3]).all()
    assert np.isfinite(found.spearman[:3, :3]).all()
    assert sorted(found.order) == [0, 1, 2, 3]
    assert "flat gives every example the same score: its correlations are undefined." in found.notes
    only = pdn.compare({"flat": [3] * 5, "level": [4] * 5})
    assert only.conclusions == ("No two metrics can be compared: all but one give every example the same score.",)
    assert "alike" not in repr(only)


def test_a_comparison_introduces_itself() -> None:
    found = by_hand()
    assert repr(found) == (
        "<MetricComparison: metrics 3, examples 5, most alike x and y (0.80), least alike x and z (-1.00)>"
    )
    view = pdn.compare({"<script>": HAND["x"], "y": HAND["y"]})._repr_html_()
    assert "<script" not in view
    assert "<td>0.80</td>" in view
    frame = found.to_pandas()
    assert frame.columns.tolist() == [
        *("metric", "other", "spearman", "corrected", "overlap_0.2", "overlap_0.4", "overlap_0.6", "overlap_1")
    ]
    assert frame["spearman"].tolist() == pytest.approx([0.8, -1, -0.8])
    assert found.to_dict()["overlaps"][1] == {
        "keep_fraction": 0.4,
        "chance": 0.4,
        "mean": pytest.approx(1 / 6),
        "pairs": [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]],
    }


# --- inputs --------------------------------------------------------------------------------------------------------


def test_examples_are_matched_by_id() -> None:
    first = Scores(np.array([1.0, 2, 3, 4, 9]), id_array(["a", "b", "c", "d", "only here"]), "first")
    second = Scores(np.array([4.0, 3, 1, 2]), id_array(["d", "c", "a", "b"]), "second")
    third = Scores(np.array([4.0, 3, 1, 2, 0, 0]), id_array(["d", "c", "e", "b", "f", "a"]), "third")
    found = pdn.compare(first, second, third)
    assert found.examples == 4
    assert found.left_out == (1, 0, 2)
    np.testing.assert_allclose(found.spearman, 1)
    assert found.notes == (
        "4 examples have a score by every metric and are compared; left out: 1 of first, 2 of third.",
    )


def test_every_score_column_of_a_table_is_a_metric(tmp_path: Path) -> None:
    columns = {name: np.array(values, np.float32) for name, values in HAND.items()}
    labels = pa.array(list("ppqqq"))
    pq.write_table(pa.table({"id": IDS, "label": labels, **columns}), tmp_path / "theirs.parquet")
    found = pdn.compare(tmp_path / "theirs.parquet")
    assert found.metrics == ("x", "y", "z")
    assert found.spearman[0, 1] == pytest.approx(0.8)
    assert found.disputed[0].label == "q"
    chosen = pdn.compare(tmp_path / "theirs.parquet", metrics=["z", "x"])
    assert chosen.metrics == ("x", "z")


def test_metrics_of_one_name_are_named_by_their_files(tmp_path: Path) -> None:
    scores = Scores(np.arange(5.0), np.arange(5), "el2n")
    for name in ("one/scores", "two/scores", "other"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pdn.write_scores(scores, tmp_path / f"{name}.parquet")
    paths = [tmp_path / f"{name}.parquet" for name in ("one/scores", "two/scores", "other")]
    assert pdn.compare(*paths).metrics == ("el2n (one/scores)", "el2n (two/scores)", "el2n (other)")
    pdn.prune(tmp_path / "other.parquet", keep_fraction=0.4, out=tmp_path / "pruned")
    found = pdn.compare(tmp_path / "other.parquet", tmp_path / "pruned", {"aum": scores})
    assert found.metrics == ("el2n (other)", "el2n (pruned)", "aum")
    assert [facts.metric for facts in found.facts] == ["el2n", "el2n", "el2n"]  # as the provenance has it
    assert pdn.compare(scores, scores).metrics == ("el2n (1)", "el2n (2)")
    assert pdn.compare(*paths, metrics=["el2n (other)", "el2n (one/scores)"]).metrics == (
        "el2n (one/scores)",
        "el2n (other)",
    )


def test_what_score_all_returns_can_be_compared(digits) -> None:
    source = pdn.open_source(digits[0][:200], labels=digits[1][:200])
    scores = pdn.score_all(source, metrics=["prototypes", "supervised_prototypes", "random"])
    found = pdn.compare(scores)
    assert found.metrics == tuple(scores)
    assert found.spearman[0, 1] > 0.5 > abs(found.spearman[0, 2])
    assert found.keep_fractions == KEEP_FRACTIONS


TINY = Scores(np.arange(3.0), np.arange(3), "tiny")


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ([{"x": [1, 2]}], {}, "a comparison needs at least two metrics, got only x"),
        ([], {}, "a comparison needs at least two metrics, got none"),
        ([TINY, Scores(np.zeros(2), np.array([7, 8]), "b")], {}, "no example has a score by all 2 metrics.*tiny: 0, 1"),
        ([TINY, Scores(np.zeros(3), id_array(["0", "1", "2"]), "b")], {}, "no example has a score by all"),
        ([TINY, Scores(np.zeros(2), np.array([2, 8]), "b")], {}, "only one example has a score by all 2 metrics"),
        ([HAND], {"strategy": "hardest"}, "unknown strategy 'hardest'.*Did you mean 'hard'"),
        ([HAND], {"strategy": "random"}, "'random' does not look at the scores"),
        ([HAND], {"keep_fractions": (0.5, 50)}, r"keep_fraction must be in \(0, 1\], got 50. Did you mean 0.5"),
        ([HAND], {"keep_fractions": ()}, "keep_fractions must name at least one fraction"),
        ([HAND], {"balance": 0.5}, "a floor needs labels, and these scores have none; use balance=0"),
        ([HAND], {"balance": 1.5}, r"balance must be in \[0, 1\]"),
        ([HAND], {"top": -1}, "top must be at least 0, got -1"),
        ([HAND], {"metrics": ["x", "w"]}, "unknown metric 'w'; available: x, y, z"),
        ([HAND | {"w": [1, 2]}], {"ids": IDS}, "there are 2 scores for 5 ids"),
        ([HAND | {"w": [[1], [2]]}], {}, "w: scores must be a one-dimensional array of numbers"),
        ([[1, 2, 3]], {}, "cannot compare list; give tables, scores, or arrays by name"),
        ([HAND | {"w": [1, 2, 3, 4, math.nan]}], {}, "scores must be finite"),
    ],
)
def test_mistakes_are_answered(given: list[Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(PareError, match=said):
        pdn.compare(*given, **options)


def test_mistaken_tables_are_answered(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    (tmp_path / "empty").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "names.parquet")
    pq.write_table(pa.table({"id": [1, 2], "a": [1.0, 2.0], "b": [1.0, None]}), tmp_path / "gap.parquet")
    for name, said in {
        "x.npy": "not a table of scores. Give Parquet files",
        "empty": "not a table of scores. Give Parquet files",
        "missing.parquet": "there is no such file",
        "names.parquet": "not a table of scores; it needs an 'id' and a score column, it has id, name",
        "gap.parquet": "gap.parquet, column 'b': scores must be finite; 1 are not, at row 1",
    }.items():
        with pytest.raises(PareError, match=said):
            pdn.compare(tmp_path / name)
    pdn.write_scores(TINY, tmp_path / "tiny.parquet")
    with pytest.raises(PareError, match="is given twice"):
        pdn.compare(tmp_path / "tiny.parquet", tmp_path / "empty" / ".." / "tiny.parquet")


# --- laws ----------------------------------------------------------------------------------------------------------

ROWS = st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=2, max_size=40)


def scores_of(rows: list[tuple[int, ...]], ids: Any = None) -> list[Scores]:
    table = np.array(rows, float)
    names = np.arange(len(table)) if ids is None else ids
    labels = Labels.of((np.asarray(names) % 3).astype(np.int64))
    return [Scores(column, names, name, labels) for name, column in zip("abc", table.T, strict=True)]


@given(ROWS)
def test_a_comparison_is_symmetric_and_of_oneself_is_one(rows: list[tuple[int, ...]]) -> None:
    a, b, c = scores_of(rows)
    found = pdn.compare({"a": a, "b": b, "c": c, "a again": a}, keep_fractions=(0.1, 0.5, 1.0))
    np.testing.assert_array_equal(found.spearman, found.spearman.T)
    np.testing.assert_array_equal(found.overlaps, found.overlaps.transpose(0, 2, 1))
    assert found.spearman[0, 3] == 1 or np.ptp(a.values) == 0
    assert (found.overlaps[:, 0, 3] == 1).all()
    assert (found.overlaps[2] == 1).all()  # everything is kept
    assert ((found.overlaps >= 0) & (found.overlaps <= 1)).all()
    assert sorted(found.order) == [0, 1, 2, 3]
    for example in found.disputed:
        assert all(0 <= share <= 1 for share in example.percentiles)
        assert example.spread == pytest.approx(np.std(example.percentiles))


@given(ROWS, st.randoms())
def test_the_order_of_rows_and_of_tables_does_not_matter(rows: list[tuple[int, ...]], random: Any) -> None:
    places = list(range(len(rows)))
    random.shuffle(places)
    before = pdn.compare(*scores_of(rows))
    a, b, c = scores_of([rows[place] for place in places], np.array(places))
    after, turned = pdn.compare(a, b, c), pdn.compare(c, a, b)
    assert repr(after.to_dict()) == repr(before.to_dict())
    back = [1, 2, 0]
    np.testing.assert_array_equal(turned.spearman[np.ix_(back, back)], before.spearman)
    np.testing.assert_array_equal(turned.overlaps[:, back][:, :, back], before.overlaps)
    assert [example.id for example in turned.disputed] == [example.id for example in before.disputed]


def test_the_picture_cuts_nothing_off(tmp_path: Path, rng: np.random.Generator) -> None:
    names = ["duplicates", "typicality", "prototypes", "supervised_prototypes", "el2n", "forgetting", "random"]
    compared = pdn.compare({name: rng.random(50) for name in names})
    comparison_picture(compared, tmp_path / "compared.png")
    with Image.open(tmp_path / "compared.png") as picture:
        pixels = np.asarray(picture.convert("L"))
    edges = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    assert edges.min() == 255  # a title or a name that reaches the edge goes on beyond it
