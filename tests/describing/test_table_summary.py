from __future__ import annotations

import numpy as np
import pytest

import paredown as pdn
from paredown.describing.table_summary import summarize_table
from paredown.ids import hash_ids
from paredown.scores import Labels, Scores
from paredown.selection.streamed import Limits, open_table

TIGHT = Limits(rows=64, candidates=16, cells=2**8)  # so small that every table is narrowed in several passes


def write(path, values, ids=None, **columns):
    ids = np.arange(len(values)) if ids is None else np.array(ids)
    pdn.write_scores(Scores(values, ids, "mine", **columns), path)
    return open_table(path)


@pytest.mark.parametrize("limits", [None, TIGHT])
@pytest.mark.parametrize(
    "make",
    [
        lambda rng: rng.standard_normal(1000),
        lambda rng: rng.standard_normal(999).astype(np.float32),
        lambda rng: rng.integers(0, 3, 1000).astype(float),  # hundreds of ties at both ends
        lambda rng: np.zeros(400),
        lambda rng: np.r_[np.full(500, -1e300), 1e300, np.zeros(300)],
        lambda rng: rng.standard_normal(3),
    ],
)
def test_a_summary_is_that_of_the_sorted_scores(tmp_path, rng, make, limits) -> None:
    """Against a sort of everything, with ties broken by the hash that `select` breaks them by."""
    values = make(rng)
    ids = rng.permutation(10_000)[: len(values)]
    found = summarize_table(write(tmp_path / "s.parquet", values, ids), extremes=5, limits=limits)
    order = np.lexsort((hash_ids(ids, seed=0), -values))
    number = min(5, len(values))
    assert (found.examples, found.lowest, found.highest) == (len(values), values.min(), values.max())
    assert found.median == np.median(values)
    assert [e.id for e in found.hardest] == ids[order[:number]].tolist()
    assert [e.score for e in found.hardest] == values[order[:number]].tolist()
    assert [e.id for e in found.easiest] == ids[order[::-1][:number]].tolist()
    assert [e.score for e in found.easiest] == values[order[::-1][:number]].tolist()


def test_extremes_are_those_that_select_takes_first(tmp_path, rng) -> None:
    values = rng.integers(0, 2, 100).astype(float)
    ids = [f"photo {row}" for row in range(100)]
    table = write(tmp_path / "s.parquet", values, ids)
    scores = pdn.read_scores(tmp_path / "s.parquet")
    found = summarize_table(table, extremes=7, seed=3)
    for strategy, extremes in (("hard", found.hardest), ("easy", found.easiest)):
        kept = pdn.select(scores, keep_fraction=0.07, strategy=strategy, seed=3, balance=0)
        assert sorted(e.id for e in extremes) == kept.ids.tolist()


def test_classes_and_their_balance(tmp_path, rng) -> None:
    labels = Labels.of(np.repeat(["cat", "dog", "owl"], [10, 20, 40]))
    found = summarize_table(write(tmp_path / "s.parquet", rng.standard_normal(70), labels=labels))
    assert (found.grouped_by, found.groups) == ("label", 3)
    assert found.balance_score == pytest.approx((10 / 20 + 10 / 40 + 20 / 40) / 3)
    plain = summarize_table(write(tmp_path / "t.parquet", rng.standard_normal(70)))
    assert (plain.grouped_by, plain.groups, plain.balance_score) == (None, 0, None)
