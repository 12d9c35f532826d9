from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paredown as pdn
from paredown.errors import PareError
from paredown.ids import hash_ids, id_array
from paredown.scores import Labels, Scores
from paredown.selection import STRATEGIES, SelectionSettings, class_floors, class_quotas
from paredown.selection.floors import common_level
from paredown.selection.strategies import distances, median_of, score_bins

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
            balance=balance if quota == "none" else None,
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
    _, rounded_down = class_floors(counts[counts > 0], balance * f, len(kept))
    assert np.all(left >= np.floor(floor + 1e-9))
    if np.ceil(floor - 1e-9).sum() <= len(kept):  # rounding up fits: then it is rounded up
        assert np.all(left >= np.ceil(floor - 1e-9))
        assert rounded_down == []
    else:
        assert len(rounded_down) == 1
    assert set(rounded_down) <= set(kept.notes)


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


@pytest.mark.parametrize("seed", range(4))
def test_quotas_hold_for_what_is_mixed_in_at_random(seed: int) -> None:
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    kept = pdn.select(np.arange(100), keep_fraction=0.24, labels=labels, quota="equal", mix_random=0.5, seed=seed)
    assert np.bincount(labels[kept.indices]).tolist() == [8, 8, 8]
    assert kept.keep[[*range(56, 60), *range(86, 90), *range(96, 100)]].all()  # four of each by score
    shuffled = np.argsort(hash_ids(np.arange(100), seed=seed + 1))
    others = [row for row in shuffled if row not in (*range(56, 60), *range(86, 90), *range(96, 100))]
    drawn = [row for group in range(3) for row in [row for row in others if labels[row] == group][:4]]
    assert kept.keep[drawn].all()


def test_random_mix_in() -> None:
    n = 1000
    kept = pdn.select(np.arange(n), keep_fraction=0.2, mix_random=0.25, seed=1)
    assert np.count_nonzero(kept.indices >= n - 150) >= 150
    below = kept.indices[kept.indices < n - 150]
    assert 20 < len(below) <= 50  # most of the random fifty come from the 850 that are left
    assert abs(below.mean() - 425) < 4 * 850 / np.sqrt(12 * len(below))


def test_clusters_serve_where_there_are_no_labels() -> None:
    scores = Scores(np.arange(10.0), np.arange(10), clusters=np.repeat([3, 7], 5))
    assert pdn.select(scores, keep_fraction=0.4, balance=0).indices.tolist() == [6, 7, 8, 9]
    floored = pdn.select(scores, keep_fraction=0.4)  # a floor of 0.5 wherever there are groups
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
    ("counts", "b"),
    [([9, 10], 0.9), ([5, 5, 5], 1.0), ([1, 2, 4], (1 / 2 + 1 / 4 + 1 / 2) / 3), ([7], 1.0), ([1, 1], 1)],
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
        ({"keep_fraction": 0}, r"^keep_fraction must be in \(0, 1\], got 0\.$"),
        ({"keep_fraction": 1.2}, r"^keep_fraction must be in \(0, 1\], got 1\.2\.$"),
        ({"keep_fraction": 50}, r"^keep_fraction must be in \(0, 1\], got 50\. Did you mean 0\.5\?$"),
        ({"keep_fraction": float("nan")}, r"^keep_fraction must be in \(0, 1\], got nan\.$"),
        ({"keep_fraction": "half"}, r"^keep_fraction must be a number, got 'half'\.$"),
        ({"keep_fraction": True}, r"^keep_fraction must be a number, got True\.$"),
        ({"balance": -0.1}, r"^balance must be in \[0, 1\], got -0\.1\.$"),
        ({"balance": 20}, r"^balance must be in \[0, 1\], got 20\. Did you mean 0\.2\?$"),
        ({"balance": "half"}, r"^balance must be a number, got 'half'\.$"),
        ({"balance": ""}, r"^balance must be a number, got ''\.$"),
        ({"strategy": "hrad"}, r"^unknown strategy 'hrad'; available: easy, .* Did you mean 'hard'\?$"),
        (
            {"quota": "equal", "balance": 0.5},
            r"^quota='equal' fixes how many examples of each class are kept, so a floor \(balance=0\.5\) has "
            r"no effect; leave out one of them\.$",
        ),
        ({"quota": "same"}, r"^unknown quota 'same'; available: equal, none, proportional\."),
        ({"drop_hardest": 1}, r"^drop_hardest must be in \[0, 1\), got 1\.$"),
        ({"drop_hardest": -0.1}, r"^drop_hardest must be in \[0, 1\), got -0\.1\.$"),
        ({"drop_hardest": 5}, r"^drop_hardest must be in \[0, 1\), got 5\. Did you mean 0\.05\?$"),
        ({"drop_hardest": None}, r"^drop_hardest must be a number, got None\.$"),
        ({"mix_random": -1}, r"^mix_random must be in \[0, 1\], got -1\.$"),
        ({"mix_random": 10}, r"^mix_random must be in \[0, 1\], got 10\. Did you mean 0\.1\?$"),
        ({"mix_random": 1.5}, r"^mix_random must be in \[0, 1\], got 1\.5\.$"),
        ({"mix_random": False}, r"^mix_random must be a number, got False\.$"),
        ({"seed": -1}, r"^seed must not be negative, got -1\.$"),
        (
            {"balance": 0.5},
            r"^a floor or quota needs labels or clusters, and these scores have neither; use balance=0 for no floor\.$",
        ),
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


# --- a plain reference: the definitions word by word, one example at a time -----------------------------------------


def plain_order(values: list[float], ties: list[int], strategy: str, dropped: int) -> list[int]:
    rows = range(len(values))
    hardest = sorted(rows, key=lambda row: (-values[row], ties[row]))
    if strategy == "hard":
        return hardest
    if strategy == "easy":
        return hardest[::-1]
    if strategy == "random":
        return sorted(rows, key=lambda row: ties[row])
    if strategy == "window":
        return hardest[dropped:] + hardest[:dropped]
    if strategy == "moderate":
        return sorted(rows, key=lambda row: (abs(values[row] - np.median(values)), ties[row]))
    rest = hardest[dropped:]
    low, high = values[rest[-1]], values[rest[0]]
    bins: dict[int, list[int]] = {}
    for row in sorted(rest, key=lambda row: ties[row]):
        place = int((values[row] - low) * (50 / (high - low))) if high > low else 0
        bins.setdefault(min(place, 49), []).append(row)
    rounds = [(turn, ties[row], row) for rows_of_bin in bins.values() for turn, row in enumerate(rows_of_bin)]
    return [row for _, _, row in sorted(rounds)] + hardest[:dropped]


def plain_quotas(counts: list[int], n_keep: int, quota: str) -> list[int]:
    if quota == "proportional":
        exact = [Fraction(count * n_keep, sum(counts)) for count in counts]
        given = [math.floor(share) for share in exact]
        left = sorted(range(len(counts)), key=lambda g: (given[g] - exact[g], g))[: n_keep - sum(given)]
        return [number + (g in left) for g, number in enumerate(given)]
    given = [0] * len(counts)
    while sum(given) < n_keep:  # one to each that has more, in order, round by round
        open_ = [g for g in range(len(counts)) if given[g] < counts[g]]
        level = min(given[g] for g in open_)
        for g in [g for g in open_ if given[g] == level][: n_keep - sum(given)]:
            given[g] += 1
    return given


def plain_floors(counts: list[int], fraction: Fraction, n_keep: int) -> list[int]:
    exact = [fraction * count for count in counts]
    up = [math.ceil(share) for share in exact]
    if sum(up) <= n_keep:
        return up
    down = [math.floor(share) for share in exact]
    order = sorted(range(len(counts)), key=lambda g: (down[g] > 0, -(exact[g] - down[g]), g))
    raised = [g for g in order if up[g] > down[g]][: n_keep - sum(down)]
    return [number + (g in raised) for g, number in enumerate(down)]


@given(
    problems(),
    st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0]),
    STRATEGY,
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(["none", "proportional", "equal"]),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.sampled_from([0.0, 0.05, 0.4]),
    st.integers(0, 2),
)
def test_the_plain_reference_keeps_the_same(problem, f, strategy, balance, quota, mix_random, drop, seed) -> None:
    scores, labels = problem
    names = np.array(["b", "a", "d", "c", "e"])[labels]
    n = len(scores)
    kept = pdn.select(
        scores,
        keep_fraction=f,
        strategy=strategy,
        labels=names,
        balance=balance if quota == "none" else None,
        quota=quota,
        mix_random=mix_random,
        drop_hardest=drop,
        seed=seed,
    )
    n_keep = max(1, round(f * n))
    dropped = min(round(drop * n), n - n_keep)
    ties, more = (hash_ids(np.arange(n), seed=seed + add).tolist() for add in (0, 1))
    order = plain_order(scores.tolist(), ties, strategy, dropped)
    shuffled = sorted(range(n), key=lambda row: more[row])
    classes = sorted(set(names.tolist()))
    counts = [names.tolist().count(name) for name in classes]
    chosen: set[int] = set()

    def take(rows: list[int], number: int) -> None:
        chosen.update([row for row in rows if row not in chosen][: max(0, number)])

    def of_class(rows: list[int], name: str) -> list[int]:
        return [row for row in rows if names[row] == name]

    if quota != "none":
        for name, number in zip(classes, plain_quotas(counts, n_keep, quota), strict=True):
            before = len(chosen)
            take(of_class(order, name), number - round(mix_random * number))
            take(of_class(shuffled, name), number - (len(chosen) - before))
    else:
        if balance:
            floors = plain_floors(
                counts, Fraction(balance).limit_denominator() * Fraction(f).limit_denominator(), n_keep
            )
            for name, number in zip(classes, floors, strict=True):
                take(of_class(order, name), number)
        free = n_keep - len(chosen)
        n_random = min(round(mix_random * n_keep), free)
        take(order, free - n_random)
        take(shuffled, n_random)
    assert kept.indices.tolist() == sorted(chosen)


@pytest.mark.parametrize(("n_keep", "quota"), [(n, quota) for n in range(1, 31) for quota in ("proportional", "equal")])
def test_quotas_are_the_plain_ones(n_keep: int, quota: str) -> None:
    counts = [1, 9, 0, 4, 10, 6]
    assert class_quotas(np.array(counts), n_keep, quota).tolist() == plain_quotas(counts, n_keep, quota)


def test_the_common_level_is_the_highest_that_fits() -> None:
    counts = np.array([1, 9, 5])
    levels = [common_level(counts, n_keep) for n_keep in (2, 3, 8, 9, 10, 11, 14, 15)]
    assert levels == [0, 1, 3, 4, 4, 5, 8, 9]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_of_any_range(dtype: type) -> None:
    def bins(*values: float) -> list[int]:
        scores = np.array(values, dtype)
        return score_bins(scores, scores.min(), scores.max()).tolist()

    assert bins(10, 10.5, 11, 11.5, 12) == [0, 12, 25, 37, 49]
    assert bins(3, 3) == [0, 0]
    widest, least = float(np.finfo(dtype).max), float(np.finfo(dtype).smallest_subnormal)
    assert bins(-widest, -widest / 2, 0, widest / 2, widest) == [0, 12, 25, 37, 49]  # whose range overflows
    assert bins(0, least) == [0, 49]  # whose inverse does


def test_medians_and_distances_may_overflow() -> None:
    widest = np.finfo(np.float64).max
    assert median_of(np.array([widest, widest])) == math.inf
    assert distances(np.array([-widest, widest, 0.0]), widest).tolist() == [math.inf, 0.0, widest]


def test_stratified_bins_reach_from_the_lowest_to_the_highest_score() -> None:
    # In 50 bins over 0..50, each of 0..49 has a bin of its own and 50 shares the last one with 49.
    values = np.concatenate([np.arange(51.0), np.full(49, 25.0)])
    kept = pdn.select(values, strategy="stratified", keep_fraction=0.5, drop_hardest=0.0)
    chosen = values[kept.indices]
    assert sorted(set(chosen[chosen != 25.0])) in ([*range(25), *range(26, 50)], [*range(25), *range(26, 49), 50])
    assert np.count_nonzero(chosen == 25.0) == 1
    same = pdn.select(np.full(10, 3.0), strategy="stratified", keep_fraction=0.5)
    assert len(same) == 5


@pytest.mark.parametrize("lost", [5, 6, 7])
def test_lost_classes_are_counted_and_the_first_five_named(lost: int) -> None:
    names = [f"c{number}" for number in range(lost)]
    scores = np.concatenate([np.full(40, 2.0), np.full(2 * lost, 1.0)])
    labels = ["kept"] * 40 + [name for name in names for _ in range(2)]
    kept = pdn.select(scores, labels=labels, balance=0.001, keep_fraction=0.2)
    tail = "" if lost == 5 else f" and {lost - 5} more"
    assert {labels[row] for row in kept.indices} == set(labels)  # the floor fits rounded up
    shown = ", ".join(names[:5])
    without = pdn.select(scores, labels=labels, quota="proportional", keep_fraction=0.02)
    assert f"{lost} classes or clusters keep no example: {shown}{tail}." in without.notes


def test_the_recipe_is_what_was_asked_for() -> None:
    kept = pdn.select(
        np.arange(10),
        labels=list("ab" * 5),
        keep_fraction=0.5,
        strategy="window",
        balance=0.25,
        drop_hardest=0.2,
        mix_random=0.4,
        seed=3,
    )
    assert kept.recipe == {
        "keep_fraction": 0.5,
        "kept": 5,
        "strategy": "window",
        "balance": 0.25,
        "quota": "none",
        "drop_hardest": 0.2,
        "mix_random": 0.4,
        "seed": 3,
        "grouped_by": "label",
    }
    assert pdn.select(np.arange(10), keep_fraction=0.5).recipe["grouped_by"] is None
    assert SelectionSettings(0.5).recipe(10, "label")["grouped_by"] is None  # labels that nothing asked for
    known = Scores(np.arange(4.0), np.arange(4), provenance={"metric": "el2n"})
    again = pdn.select(known, keep_fraction=0.5)
    assert again.provenance() == {"metric": "el2n", "selection": again.recipe, "notes": []}
    with pytest.raises(PareError, match=r"^these scores carry their own ids; give ids only with plain numbers\.$"):
        pdn.select(known, keep_fraction=0.5, ids=[1, 2, 3, 4])
    clustered = Scores(np.arange(4.0), np.arange(4), clusters=np.array([0, 0, 1, 1]))
    assert pdn.select(clustered, keep_fraction=0.5, quota="equal").recipe["grouped_by"] == "cluster"


def test_floors_that_lose_most_by_rounding_down_are_raised_first() -> None:
    # Exact floors of 1.2, 1.8 and 1.5; rounded up they need 6 places.
    floors, notes = class_floors(np.array([12, 18, 15]), 0.1, 4)
    assert floors.tolist() == [1, 2, 1]
    assert notes == [
        "the floor needs 6 examples rounded up but only 4 are kept: 2 of 3 classes or clusters have it rounded down."
    ]
    assert class_floors(np.array([12, 18, 15]), 0.1, 5)[0].tolist() == [1, 2, 2]
    assert class_floors(np.array([15, 24]), 0.1, 4)[0].tolist() == [2, 2]  # 1.5 and 2.4
    # Exactly 2 and 1.5: nothing is left to raise the second.
    assert class_floors(np.array([20, 15]), 0.1, 3)[0].tolist() == [2, 1]
    # A class without examples gets no place.
    assert class_floors(np.array([0, 15, 15]), 0.1, 3)[0].tolist() == [0, 2, 1]
    # A class that would vanish comes before those that lose more, but never takes what another is sure of.
    assert class_floors(np.array([20, 5, 5]), 0.1, 3)[0].tolist() == [2, 1, 0]
    assert class_floors(np.array([1, 18, 15]), 0.1, 3)[0].tolist() == [1, 1, 1]
    floors, notes = class_floors(np.array([12, 18, 15]), 0.1, 6)
    assert (floors.tolist(), notes) == ([2, 2, 2], [])


def test_classes_that_only_a_dictionary_names_are_not_lost() -> None:
    labels = Labels(np.array([0, 0, 2, 2]), ("a", "empty", "b"))
    assert pdn.select(np.arange(4.0), labels=labels, keep_fraction=0.5).notes == ()


def test_floors_rounded_down_are_counted() -> None:
    # Floors of 0.5 each: rounded up they need 4 places, and only 2 are kept, by the first classes.
    kept = pdn.select(np.arange(4.0), labels=list("abcd"), keep_fraction=0.5, balance=1.0)
    assert kept.notes[0] == (
        "the floor needs 4 examples rounded up but only 2 are kept: 2 of 4 classes or clusters have it rounded down."
    )
    assert kept.indices.tolist() == [0, 1]


def test_a_window_that_does_not_fit_is_said(rng) -> None:
    values = rng.random(1000)
    kept = pdn.select(values, keep_fraction=0.98, strategy="window", drop_hardest=0.05)
    assert kept.notes == (
        "only the hardest 2 % are dropped first, not 5 %, because the rest would be fewer than are kept"
        "; keep a smaller fraction, or drop fewer of the hardest.",
    )
    assert pdn.select(values, keep_fraction=0.98, strategy="stratified", drop_hardest=0.05).notes == kept.notes
    assert pdn.select(values, keep_fraction=0.9, strategy="window", drop_hardest=0.05).notes == ()
    assert pdn.select(values, keep_fraction=0.98, strategy="hard", drop_hardest=0.05).notes == ()
