"""What a sweep says, on hand-made tables: the verdict as a value, the numbers it rests on, and the words for it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from paredown.standard_errors import standard_error
from paredown.sweeps.pruning_verdicts import Effect, PruningVerdict
from paredown.sweeps.summary import (
    ComparisonWithRandom,
    advice,
    compare_with_random,
    curves_by_way,
)

Point = tuple[int, float, list[float]]  # initial size, keep_fraction, differences to random in points, one per seed

RANDOM_ERROR = 0.2


def sweep_of(*points: Point, metric: str = "el2n", strategy: str = "hard", **more: Any) -> pa.Table:
    """A sweep in which pruning at some points differs from random by so many points of test error."""
    rows = []
    for initial_size, keep_fraction, differences in points:
        for seed, difference in enumerate(differences):
            base = {"initial_size": initial_size, "keep_fraction": keep_fraction, "seed": seed, "status": "done"}
            base |= {"matched_iterations": 1.0, "balance": 0.0, "kept": round(initial_size * keep_fraction)} | more
            rows.append({**base, "metric": "random", "strategy": "random", "test_error": RANDOM_ERROR})
            error = RANDOM_ERROR + difference / 100
            rows.append({**base, "metric": metric, "strategy": strategy, "test_error": error})
    return pa.Table.from_pylist(rows)


# Differences in points: mean and spread chosen so that each is decided, or is not, by a wide margin.
HELPS, HURTS, NOTHING = [-1.0, -1.1, -0.9, -1.0], [2.0, 2.1, 1.9, 2.0], [0.5, -0.4, 0.3, -0.2]


def row_of(differences: list[float]) -> ComparisonWithRandom:
    (row,) = compare_with_random(sweep_of((1_000, 0.5, differences)))
    return row


# --- one point ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("differences", [HELPS, HURTS, NOTHING, [1.0, 2.0, 3.0]])
def test_p_values_are_those_of_a_paired_t_test(differences: list[float]) -> None:
    row = row_of(differences)
    expected = stats.ttest_1samp(differences, 0.0)
    assert row.z == pytest.approx(expected.statistic)
    assert row.p_value == pytest.approx(expected.pvalue)


def test_three_standard_errors_of_four_seeds_decide_nothing() -> None:
    spread = np.array([-1.0, -1.0, 1.0, 1.0])
    row = row_of((3 * standard_error(spread) + spread).tolist())
    assert row.z == pytest.approx(3.0)
    assert row.p_value == pytest.approx(0.0577, abs=1e-4)
    assert row.effect is Effect.UNDECIDED


@pytest.mark.parametrize(
    ("differences", "effect"),
    [
        (HELPS, Effect.HELPS),
        (HURTS, Effect.HURTS),
        (NOTHING, Effect.UNDECIDED),
        ([-5.0], Effect.UNDECIDED),  # one seed has no standard error
        ([-5.0, -5.01], Effect.UNDECIDED),  # two seeds: p = 0.0006, and still no
        ([-5.0, -5.01, -4.99], Effect.HELPS),
        ([-5.0, -5.0, -5.0], Effect.UNDECIDED),  # no spread: nobody knows how sure that is
        ([10.0, 10.0, 10.0], Effect.UNDECIDED),  # whose mean is rounded
        ([0.0, 0.0, 0.0], Effect.UNDECIDED),
        ([-1.0, math.nan, -1.1], Effect.UNDECIDED),
    ],
)
def test_what_the_seeds_decide(differences: list[float], effect: Effect) -> None:
    assert row_of(differences).effect is effect


def test_the_level_of_significance() -> None:
    # With three seeds, t = 4.303 is p = 0.05.
    spread = np.array([-1.0, 0.0, 1.0])
    for t, effect in ((4.2, Effect.UNDECIDED), (4.4, Effect.HURTS), (-4.4, Effect.HELPS)):
        assert row_of((t * standard_error(spread) + spread).tolist()).effect is effect


def test_p_values_are_corrected_for_the_number_of_comparisons() -> None:
    """By Holm: with p = 0.01, 0.02 and 0.9 times 3, 2 and 1, none smaller than the one before it."""
    spread = np.array([-1.0, 0.0, 1.0])
    error = standard_error(spread)
    at = [stats.t.isf(p / 2, 2) * error for p in (0.01, 0.02, 0.9)]
    rows = compare_with_random(
        sweep_of(*((n, 0.5, (t + spread).tolist()) for n, t in zip((100, 200, 300), at, strict=True)))
    )
    assert [row.p_value for row in rows] == pytest.approx([0.01, 0.02, 0.9])
    assert [row.corrected_p_value for row in rows] == pytest.approx([0.03, 0.04, 0.9])
    assert [row.effect for row in rows] == [Effect.HURTS, Effect.HURTS, Effect.UNDECIDED]
    few = compare_with_random(sweep_of((100, 0.5, (at[1] + spread).tolist()), (200, 0.5, (at[1] + spread).tolist())))
    assert [row.corrected_p_value for row in few] == pytest.approx([0.04, 0.04])
    many = compare_with_random(sweep_of(*((n, 0.5, (at[1] + spread).tolist()) for n in (100, 200, 300))))
    assert [row.corrected_p_value for row in many] == pytest.approx([0.06] * 3)
    assert all(row.effect is Effect.UNDECIDED for row in many)


def test_where_there_is_no_standard_error() -> None:
    one = row_of([-1.0])
    assert (one.seeds, math.isnan(one.z), math.isnan(one.p_value)) == (1, True, True)
    same = row_of([0.0, 0.0])
    assert (same.difference_stderr, math.isnan(same.z), math.isnan(same.p_value)) == (0.0, True, True)


def test_comparisons_are_made_seed_by_seed() -> None:
    table = sweep_of((1_000, 0.5, [-1.0, -2.0, -6.0]))
    lost = [
        row | ({"status": "failed"} if row["seed"] == 2 and row["metric"] == "random" else {})
        for row in table.to_pylist()
    ]
    (row,) = compare_with_random(pa.Table.from_pylist(lost))
    assert (row.seeds, row.kept, row.initial_size, row.keep_fraction) == (2, 500, 1_000, 0.5)
    assert row.difference == pytest.approx(-0.015)
    assert row.difference_stderr == pytest.approx(0.005)
    assert row.test_error == pytest.approx(0.185)
    assert row.stderr == pytest.approx(0.005)
    assert (row.random_error, row.random_stderr) == (pytest.approx(0.2), 0.0)
    assert compare_with_random(sweep_of((1_000, 1.0, [-1.0]))) == []  # nothing was pruned


def test_differences_that_are_equal_but_for_rounding() -> None:
    rows = sweep_of((1_000, 0.5, [0.0, 0.0, 0.0])).to_pylist()
    for row in rows:
        row["test_error"] = 0.1 * (row["seed"] + 1) + (0.1 if row["metric"] == "el2n" else 0.0)
    (row,) = compare_with_random(pa.Table.from_pylist(rows))
    assert (row.difference, row.difference_stderr, row.effect) == (pytest.approx(0.1), 0.0, Effect.UNDECIDED)


def test_comparisons_are_sorted_by_point_and_way() -> None:
    table = pa.concat_tables(
        [
            sweep_of((2_000, 0.5, HELPS), (1_000, 0.5, HELPS), (1_000, 0.25, HELPS)),
            sweep_of((1_000, 0.25, HELPS), metric="aum"),
        ]
    )
    assert [(row.initial_size, row.keep_fraction, row.metric) for row in compare_with_random(table)] == [
        (1_000, 0.25, "aum"),
        (1_000, 0.25, "el2n"),
        (1_000, 0.5, "el2n"),
        (2_000, 0.5, "el2n"),
    ]


# --- verdicts ----------------------------------------------------------------------------------------------------


def judged(*points: Point, **way: Any) -> tuple[PruningVerdict, tuple[int, float], tuple[int, float] | None, str]:
    """The verdict, the points it shows, and the sentence."""
    (said,) = advice(sweep_of(*points, **way))
    other = None if said.other is None else (said.other.initial_size, said.other.keep_fraction)
    return said.verdict, (said.shown.initial_size, said.shown.keep_fraction), other, str(said)


def test_pays_at_the_smallest_fraction_that_does() -> None:
    assert judged((64_000, 0.5, HELPS), (64_000, 0.25, HELPS), (64_000, 0.1, NOTHING), (1_000, 0.25, NOTHING)) == (
        PruningVerdict.PAYS,
        (64_000, 0.25),
        None,
        "Keeping the hardest by el2n pays: at 25 % of 64,000 the test error is 1.00 ± 0.04 points lower than with a "
        "random 25 % (4 seeds, p = 0.0006 corrected for 4 comparisons).",
    )


def test_pays_there_and_not_everywhere() -> None:
    points: list[Point] = [(64_000, 0.5, HELPS), (1_000, 0.5, HURTS), (4_000, 0.5, HURTS), (64_000, 0.1, NOTHING)]
    assert judged(*points) == (
        PruningVerdict.PAYS_THERE,
        (64_000, 0.5),
        (4_000, 0.5),  # the largest set where it does not
        "Keeping the hardest by el2n pays: at 50 % of 64,000 the test error is 1.00 ± 0.04 points lower than with a "
        "random 50 % (4 seeds, p = 0.0003 corrected for 4 comparisons). It does not pay everywhere: at 50 % of 4,000 "
        "the test error is 2.00 ± 0.04 points higher than with a random 50 % (4 seeds, p < 0.0001 corrected for 4 "
        "comparisons).",
    )


def test_hurts_at_every_fraction() -> None:
    worse = [difference + 1 for difference in HURTS]
    assert judged((64_000, 0.5, HURTS), (64_000, 0.25, worse), (1_000, 0.5, HELPS)) == (
        PruningVerdict.HURTS,
        (64_000, 0.25),
        None,
        "Keeping the hardest by el2n does worse than random subsets of the same size at every fraction: at 25 % of "
        "64,000 the test error is 3.00 ± 0.04 points higher than with a random 25 % (4 seeds, p < 0.0001 corrected for "
        "3 comparisons). That is typical of wrong or ambiguous labels, of probes that are too weak, "
        "or of sets that are too small: look at the hardest "
        "examples, train the probes longer, or keep all.",
    )
    verdict, _, _, sentence = judged((64_000, 0.5, HURTS), strategy="easy")
    assert verdict is PruningVerdict.HURTS
    assert sentence == (  # and nothing of wrong labels, which are among the hardest
        "Keeping the easiest by el2n does worse than random subsets of the same size at every fraction: at 50 % of "
        "64,000 the test error is 2.00 ± 0.04 points higher than with a random 50 % (4 seeds, p < 0.0001)."
    )


def test_hurts_in_part_never_calls_a_loss_undecided() -> None:
    # The loss at 50 % is smaller than what is measured, without certainty, at 25 %.
    small_loss, unsure = [0.10, 0.11, 0.09, 0.10], [0.9, -0.4, 1.3, -0.2]
    assert judged((64_000, 0.5, small_loss), (64_000, 0.25, unsure), (64_000, 0.1, HURTS)) == (
        PruningVerdict.HURTS_IN_PART,
        (64_000, 0.1),  # the worst of the losses
        (64_000, 0.25),
        "Keeping the hardest by el2n does worse than random subsets of the same size at some fractions: at 10 % of "
        "64,000 the test error is 2.00 ± 0.04 points higher than with a random 10 % (4 seeds, p < 0.0001 corrected for "
        "3 comparisons). At others there is no significant difference: at 25 % of 64,000 the test error is "
        "0.40 ± 0.41 points higher than with a "
        "random 25 % (4 seeds, p = 0.41 corrected for 3 comparisons).",
    )


def test_hurts_in_part_shows_the_best_of_what_is_undecided() -> None:
    worse = [difference + 0.2 for difference in NOTHING]
    for points in ([(64_000, 0.1, worse), (64_000, 0.25, NOTHING)], [(64_000, 0.1, NOTHING), (64_000, 0.25, worse)]):
        verdict, shown, other, _ = judged((64_000, 0.5, HURTS), *points)
        best = next(point[1] for point in points if point[2] is NOTHING)
        assert (verdict, shown, other) == (PruningVerdict.HURTS_IN_PART, (64_000, 0.5), (64_000, best))


def test_points_without_a_standard_error_do_not_contradict_the_rest() -> None:
    verdict, shown, other, sentence = judged((64_000, 0.5, HURTS), (64_000, 0.25, [5.0]))
    assert (verdict, shown, other) == (PruningVerdict.HURTS_IN_PART, (64_000, 0.5), (64_000, 0.25))
    assert sentence.endswith(
        "At others there is no significant difference: at 25 % of 64,000 the test error is 5.00 points higher than "
        "with a random 25 % (1 seed)."
    )
    verdict, shown, other, _ = judged((64_000, 0.5, HELPS), (64_000, 0.25, [5.0]))
    assert (verdict, shown, other) == (PruningVerdict.PAYS, (64_000, 0.5), None)


def test_no_significant_difference_shows_the_best() -> None:
    better = [difference - 0.1 for difference in NOTHING]
    assert judged((64_000, 0.5, NOTHING), (64_000, 0.25, better), (1_000, 0.5, HELPS)) == (
        PruningVerdict.UNDECIDED,
        (64_000, 0.25),
        None,
        "Keeping the hardest by el2n shows no significant difference from random subsets: at 25 % of 64,000 the test "
        "error is 0.05 ± 0.21 points lower than with a random 25 % (4 seeds, p = 1 corrected for 3 "
        "comparisons). Run more seeds to decide.",
    )


@pytest.mark.parametrize(
    ("differences", "judged_from", "seeds"),
    [([-5.0], "1 seed", "5.00 points"), ([-5.0, -5.04], "2 seeds", "5.02 ± 0.02 points")],
)
def test_fewer_than_three_seeds_never_decide(differences: list[float], judged_from: str, seeds: str) -> None:
    verdict, shown, other, sentence = judged((64_000, 0.5, differences))
    assert (verdict, shown, other) == (PruningVerdict.TOO_FEW_SEEDS, (64_000, 0.5), None)
    assert sentence.startswith(f"Keeping the hardest by el2n cannot be judged from {judged_from}: at 50 % of 64,000")
    assert sentence.endswith(f"is {seeds} lower than with a random 50 % ({judged_from}). Run at least 3.")


def test_advice_names_the_error_of_the_unpruned_set() -> None:
    pruned = sweep_of((64_000, 0.5, HELPS))
    first = next(row for row in pruned.to_pylist() if row["metric"] == "random")
    whole = [
        first | {"keep_fraction": 1.0, "kept": 64_000, "seed": seed, "status": status, "test_error": error}
        for seed, (status, error) in enumerate([("done", 0.18), ("done", 0.182), ("failed", 0.9)])
    ]
    table = pa.concat_tables([pruned, pa.Table.from_pylist(whole)])
    (row,) = compare_with_random(table)
    assert (row.unpruned_error, row.unpruned_stderr) == (pytest.approx(0.181), pytest.approx(0.001))
    (said,) = advice(table)
    assert str(said) == (
        "Keeping the hardest by el2n pays: at 50 % of 64,000 the test error is 1.00 ± 0.04 points lower than with a "
        "random 50 % (4 seeds, p = 0.00015; 19.00 % pruned, 18.10 % unpruned)."
    )
    (unknown,) = compare_with_random(pruned)
    assert math.isnan(unknown.unpruned_error)
    assert math.isnan(unknown.unpruned_stderr)


def test_one_point_with_seeds_enough_is_undecided_rather_than_too_few() -> None:
    assert judged((64_000, 0.5, [-5.0]), (64_000, 0.25, NOTHING))[0] is PruningVerdict.UNDECIDED
    verdict, _, _, sentence = judged((64_000, 0.5, [0.0, 0.0, 0.0]))  # three are enough to say so
    assert verdict is PruningVerdict.UNDECIDED
    assert "the test error is 0.00 ± 0.00 points higher than" in sentence


def test_every_way_of_pruning_has_its_own_verdict() -> None:
    table = pa.concat_tables(
        [
            sweep_of((1_000, 0.5, HELPS)),
            sweep_of((1_000, 0.5, HURTS), strategy="easy"),
            sweep_of((1_000, 0.5, NOTHING), strategy="moderate"),
            sweep_of((1_000, 0.5, HURTS), balance=0.5),
            sweep_of((1_000, 0.5, HURTS), matched_iterations=0.5),
            sweep_of((1_000, 0.5, HELPS), metric="aum"),
        ]
    )
    found = {
        (said.metric, said.strategy, said.balance, said.matched_iterations): (said.verdict, str(said).split(":")[0])
        for said in advice(table)
    }
    assert found == {
        ("aum", "hard", 0.0, 1.0): (PruningVerdict.PAYS, "Keeping the hardest by aum pays"),
        ("el2n", "hard", 0.0, 1.0): (PruningVerdict.PAYS, "Keeping the hardest by el2n pays"),
        ("el2n", "easy", 0.0, 1.0): (
            PruningVerdict.HURTS,
            "Keeping the easiest by el2n does worse than random subsets of the same size at every fraction",
        ),
        ("el2n", "moderate", 0.0, 1.0): (
            PruningVerdict.UNDECIDED,
            "Keeping examples by el2n with strategy moderate shows no significant difference from random subsets",
        ),
        ("el2n", "hard", 0.5, 1.0): (
            PruningVerdict.HURTS,
            "Keeping the hardest by el2n with a floor of 0.5 does worse than random subsets of the same size at every "
            "fraction",
        ),
        ("el2n", "hard", 0.0, 0.5): (
            PruningVerdict.HURTS,
            "Keeping the hardest by el2n at matched_iterations 0.5 does worse than random subsets of the same size at "
            "every fraction",
        ),
    }


def test_an_empty_sweep_says_nothing() -> None:
    assert advice(sweep_of((1_000, 1.0, [0.0]))) == []


# --- curves ------------------------------------------------------------------------------------------------------


def test_curves_are_by_way_fraction_and_size() -> None:
    table = pa.concat_tables(
        [
            sweep_of((2_000, 0.5, [-1.0, -3.0]), (1_000, 0.5, [-1.0])),
            sweep_of((1_000, 0.5, [2.0]), balance=0.25, matched_iterations=0.5),
        ]
    )
    curves = curves_by_way(table)
    assert list(curves) == ["el2n, hard", "el2n, hard, floor 0.25, matched_iterations 0.5", "random"]
    (small, large) = curves["el2n, hard"][0.5]
    assert small[:2] == (500, pytest.approx(0.19))
    assert math.isnan(small[2])
    assert large == (1_000, pytest.approx(0.18), pytest.approx(0.01))
    assert curves["el2n, hard, floor 0.25, matched_iterations 0.5"][0.5][0][:2] == (500, pytest.approx(0.22))
    assert [point[0] for point in curves["random"][0.5]] == [500, 1_000]


def test_curves_leave_out_what_failed() -> None:
    rows = sweep_of((1_000, 0.5, [-1.0])).to_pylist()
    rows[1]["status"] = "failed"
    assert list(curves_by_way(pa.Table.from_pylist(rows))) == ["random"]
