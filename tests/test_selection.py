from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paredown as pdn
from paredown.data import Labels, Scores, id_array
from paredown.errors import PareError
from paredown.selection import STRATEGIES

STRATEGY = st.sampled_from(sorted(STRATEGIES))
FRACTION = st.floats(0.01, 1.0)


@st.composite
def problems(draw):
    """Scores with ties, labels of a few classes."""
    n = draw(st.integers(1, 60))
    scores = np.array(draw(st.lists(st.integers(0, 8), min_size=n, max_size=n))) / 4
    labels = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    return scores, labels


@given(problems(), FRACTION, STRATEGY, st.floats(0, 1), st.floats(0, 1))
def test_size_is_exact(problem, f, strategy, balance, mix_random) -> None:
    scores, labels = problem
    for quota in ("none", "proportional", "equal"):
        kept = pdn.select(
            scores,
            keep_fraction=f,
            strategy=strategy,
            labels=labels,
            balance=balance,
            quota=quota,
            mix_random=mix_random,
        )
        assert len(kept) == len(kept.indices) == len(kept.ids) == max(1, round(f * len(scores)))
        assert np.all(np.diff(kept.indices) > 0)


@given(problems(), FRACTION, STRATEGY, st.floats(0, 1), st.floats(0, 1))
def test_floor_holds_for_every_class(problem, f, strategy, balance, mix_random) -> None:
    scores, labels = problem
    kept = pdn.select(scores, keep_fraction=f, strategy=strategy, labels=labels, balance=balance, mix_random=mix_random)
    counts = np.bincount(labels, minlength=5)
    left = np.bincount(labels[kept.indices], minlength=5)
    floor = balance * f * counts
    assert np.all(left >= np.floor(floor + 1e-9))
    if np.ceil(floor - 1e-9).sum() <= len(kept):  # rounding up fits: then it is rounded up
        assert np.all(left >= np.ceil(floor - 1e-9))
        assert not any("rounded down" in note for note in kept.notes)
    else:
        assert any("rounded down" in note for note in kept.notes)


@given(problems(), FRACTION, STRATEGY, st.floats(0, 1), st.randoms(use_true_random=False))
def test_row_order_does_not_matter(problem, f, strategy, balance, random) -> None:
    scores, labels = problem
    ids = id_array([f"x{i}" for i in range(len(scores))])
    order = list(range(len(scores)))
    random.shuffle(order)
    options = {"keep_fraction": f, "strategy": strategy, "balance": balance, "mix_random": 0.2, "seed": 5}
    one = pdn.select(scores, ids=ids, labels=labels, **options)
    other = pdn.select(scores[order], ids=ids[order], labels=labels[order], **options)
    assert set(one.ids.tolist()) == set(other.ids.tolist())


@given(problems(), st.floats(0.01, 0.99))
def test_easy_is_the_reverse_of_hard(problem, f) -> None:
    scores, _ = problem
    hard = pdn.select(scores, keep_fraction=f, strategy="hard")
    rest = (len(scores) - len(hard)) / len(scores)
    if rest > 0:
        easy = pdn.select(scores, keep_fraction=rest, strategy="easy")
        np.testing.assert_array_equal(easy.keep, ~hard.keep)


@given(problems(), FRACTION, FRACTION, STRATEGY)
def test_nested_in_keep_fraction_without_floor(problem, f, g, strategy) -> None:
    scores, _ = problem
    small, large = sorted((f, g))
    options = {"strategy": strategy, "drop_hardest": 0.0}
    inner = pdn.select(scores, keep_fraction=small, **options)
    outer = pdn.select(scores, keep_fraction=large, **options)
    assert set(inner.indices) <= set(outer.indices)


def test_hard_and_easy_keep_the_right_end() -> None:
    scores = [0.1, 0.9, 0.5, 0.7, 0.3]
    assert pdn.select(scores, keep_fraction=0.4).indices.tolist() == [1, 3]
    assert pdn.select(scores, keep_fraction=0.4, strategy="easy").indices.tolist() == [0, 4]
    assert pdn.select(scores, keep_fraction=0.2, strategy="moderate").indices.tolist() == [2]


def test_window_leaves_out_the_hardest() -> None:
    kept = pdn.select(np.arange(20), keep_fraction=0.5, strategy="window", drop_hardest=0.1)
    assert kept.indices.tolist() == list(range(8, 18))
    everything = pdn.select(np.arange(20), keep_fraction=1.0, strategy="window", drop_hardest=0.1)
    assert len(everything) == 20  # nothing is left out that the size needs


def test_stratified_gives_bins_equal_budgets() -> None:
    # Scores 0..1 heavily crowded near 0, as real scores are; the two outliers above 5 are dropped first.
    scores = np.concatenate([np.linspace(0, 0.02, 900), np.linspace(0.02, 1, 98), [5.0, 6.0]])
    kept = pdn.select(scores, keep_fraction=0.1, strategy="stratified", drop_hardest=0.002)
    assert not kept.keep[-2:].any()
    bins = np.minimum((scores[kept.indices] * 50).astype(int), 49)
    assert np.bincount(bins, minlength=50).tolist() == [2] * 50
    # A bin with too few examples gives all, and the others share what is left.
    uneven = pdn.select([0.0] * 10 + [1.0] * 2, keep_fraction=0.5, strategy="stratified", drop_hardest=0)
    assert np.bincount(np.array([0] * 10 + [1] * 2)[uneven.indices]).tolist() == [4, 2]


def test_floor_by_hand() -> None:
    # Class 1 has all the hardest; a floor of 0.5 at f = 0.5 leaves class 0 a quarter of its own, its hardest.
    scores = np.array([1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18])
    labels = np.repeat([0, 1], 8)
    assert pdn.select(scores, keep_fraction=0.5, labels=labels, balance=0).indices.tolist() == list(range(8, 16))
    kept = pdn.select(scores, keep_fraction=0.5, labels=labels, balance=0.5)
    assert kept.indices.tolist() == [6, 7, 10, 11, 12, 13, 14, 15]
    assert pdn.select(scores, keep_fraction=0.5, labels=labels).indices.tolist() == kept.indices.tolist()  # the default
    full = pdn.select(scores, keep_fraction=0.5, labels=labels, balance=1)
    assert full.indices.tolist() == [4, 5, 6, 7, 12, 13, 14, 15]


def test_quotas() -> None:
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    scores = np.arange(100)
    proportional = pdn.select(scores, keep_fraction=0.5, labels=labels, quota="proportional")
    assert np.bincount(labels[proportional.indices]).tolist() == [30, 15, 5]
    equal = pdn.select(scores, keep_fraction=0.3, labels=labels, quota="equal")
    assert np.bincount(labels[equal.indices]).tolist() == [10, 10, 10]
    short = pdn.select(scores, keep_fraction=0.6, labels=labels, quota="equal")
    assert np.bincount(labels[short.indices]).tolist() == [25, 25, 10]
    assert equal.indices.tolist() == [*range(50, 60), *range(80, 90), *range(90, 100)]  # the hardest of each


def test_random_mix_in() -> None:
    n = 1000
    kept = pdn.select(np.arange(n), keep_fraction=0.2, mix_random=0.25, seed=1)
    assert np.count_nonzero(kept.indices >= n - 150) >= 150
    below = kept.indices[kept.indices < n - 150]
    assert 20 < len(below) <= 50  # most of the random fifty come from the 850 that are left
    assert abs(below.mean() - 425) < 4 * 850 / np.sqrt(12 * len(below))


def test_clusters_serve_where_there_are_no_labels() -> None:
    scores = Scores(np.arange(10.0), np.arange(10), clusters=np.repeat([3, 7], 5))
    assert pdn.select(scores, keep_fraction=0.4).indices.tolist() == [6, 7, 8, 9]
    floored = pdn.select(scores, keep_fraction=0.4, balance=0.5)
    assert floored.indices.tolist() == [4, 7, 8, 9]
    assert floored.recipe["grouped_by"] == "cluster"


def test_select_again_without_scoring_again() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.random(200), rng.integers(0, 5, 200)
    at_half = pdn.select(scores, keep_fraction=0.5, labels=labels, balance=0.7, seed=9)
    again = at_half.at(0.2)
    direct = pdn.select(scores, keep_fraction=0.2, labels=labels, balance=0.7, seed=9)
    np.testing.assert_array_equal(again.indices, direct.indices)


def test_ties_fall_differently_under_another_seed() -> None:
    kept = [tuple(pdn.select(np.zeros(100), keep_fraction=0.5, seed=seed).indices) for seed in range(3)]
    assert len(set(kept)) == 3
    counts = np.mean([pdn.select(np.zeros(50), keep_fraction=0.5, seed=seed).keep for seed in range(400)], axis=0)
    assert np.all(abs(counts - 0.5) < 4.5 * 0.5 / np.sqrt(400))  # no position is favoured


def test_single_and_lost_classes_are_reported() -> None:
    labels = ["common"] * 99 + ["rare"]
    kept = pdn.select(np.arange(100)[::-1], keep_fraction=0.1, labels=labels, balance=0.1)
    assert kept.keep[-1]  # the easiest of all, kept by its floor
    assert any("a single example: rare" in note for note in kept.notes)
    lost = pdn.select(np.arange(100)[::-1], keep_fraction=0.1, labels=["c"] * 90 + ["easy"] * 10, balance=0.0)
    assert lost.notes == ()  # no floor asked for, no groups looked at
    crowded = pdn.select(np.zeros(6), keep_fraction=0.3, labels=list("abcdef"), balance=1)
    assert any("4 classes or clusters keep no example" in note for note in crowded.notes)


def brute_force_b(counts: list[int]) -> float:
    pairs = list(itertools.combinations(counts, 2))
    return float(np.mean([min(p) / max(p) if max(p) else 0.0 for p in pairs]))


@pytest.mark.parametrize(
    ("counts", "b"), [([9, 10], 0.9), ([5, 5, 5], 1.0), ([1, 2, 4], (1 / 2 + 1 / 4 + 1 / 2) / 3), ([7], 1.0)]
)
def test_balance_score_by_hand(counts: list[int], b: float) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    assert pdn.balance_score(labels) == pytest.approx(b, abs=1e-12)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=12).filter(lambda counts: sum(counts) > 0))
def test_balance_score_is_the_mean_over_pairs(counts: list[int]) -> None:
    labels = Labels(np.repeat(np.arange(len(counts)), counts), tuple(map(str, range(len(counts)))))
    assert pdn.balance_score(labels) == pytest.approx(brute_force_b(counts), abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_fraction": 0}, r"keep_fraction must be in \(0, 1\], got 0"),
        ({"keep_fraction": 1.2}, r"keep_fraction must be in \(0, 1\], got 1.2"),
        ({"keep_fraction": float("nan")}, r"keep_fraction must be in \(0, 1\]"),
        ({"balance": -0.1}, r"balance must be in \[0, 1\], got -0.1"),
        ({"balance": 2}, r"balance must be in \[0, 1\], got 2"),
        ({"strategy": "hrad"}, r"unknown strategy 'hrad'; available: easy, .* Did you mean 'hard'\?"),
        ({"quota": "same"}, r"unknown quota 'same'"),
        ({"drop_hardest": 1}, r"drop_hardest must be in \[0, 1\)"),
        ({"mix_random": -1}, r"mix_random must be in \[0, 1\]"),
        ({"seed": -1}, r"seed must not be negative"),
        ({"balance": 0.5}, r"a floor or quota needs labels or clusters"),
        ({"labels": [0, 1]}, r"there are 2 labels for 3 examples"),
        ({"ids": [0, 0, 1]}, r"1 id occurs more than once"),
    ],
)
def test_bad_settings_are_named(options, message) -> None:
    with pytest.raises(PareError, match=message):
        pdn.select([0.1, 0.2, 0.3], **({"keep_fraction": 0.5} | options))


def test_bad_scores_are_named() -> None:
    with pytest.raises(PareError, match=r"scores must be finite; 1 are not, at row 1"):
        pdn.select([0.1, np.nan], keep_fraction=0.5)
    with pytest.raises(PareError, match=r"non-empty one-dimensional"):
        pdn.select([], keep_fraction=0.5)
