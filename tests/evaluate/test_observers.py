"""The measures of model-vs-human on trials worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from paredown import PareError
from paredown.evaluate import (
    Trials,
    compare_observers,
    join_trials,
    leave_out_conditions,
    map_decisions,
    measure_agreement,
    measure_shape_bias,
)

ANSWERS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


def trials(observer: str, answers: str, dataset: str = "colour", condition: str = "bw") -> Trials:
    """One trial per character; `x` is a wrong answer, anything else a right one."""
    right = [f"class {letter}" for letter in range(len(answers))]
    response = ["wrong" if letter == "x" else name for letter, name in zip(answers, right, strict=True)]
    image = [f"{row}.png" for row in range(len(answers))]
    return Trials.of(
        {
            "observer": observer,
            "dataset": dataset,
            "condition": condition,
            "image": image,
            "category": right,
            "response": response,
        }
    )


def test_agreement_by_hand() -> None:
    # Both right 4, only the first 2, only the second 1, both wrong 3: p = 0.6, q = 0.5.
    first, second = np.array([1] * 6 + [0] * 4, bool), np.array([1] * 4 + [0] * 2 + [1] + [0] * 3, bool)
    found = measure_agreement(first, second)
    assert found.accuracies == (0.6, 0.5)
    assert found.accuracy_difference == pytest.approx(0.01)
    assert found.observed_consistency == pytest.approx(0.7)
    assert found.expected_consistency == pytest.approx(0.5)
    assert found.error_consistency == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("first", "second", "kappa"),
    [("1100", "1100", 1), ("1100", "0011", -1), ("1100", "1010", 0), ("1111", "1111", 1), ("1111", "1110", 0)],
)
def test_kappa_at_its_ends(first, second, kappa) -> None:
    found = measure_agreement([letter == "1" for letter in first], [letter == "1" for letter in second])
    assert found.error_consistency == pytest.approx(kappa)


@settings(max_examples=40)
@given(ANSWERS)
def test_kappa_is_cohens(pairs) -> None:
    first, second = (np.array(column) for column in zip(*pairs, strict=True))
    found = measure_agreement(first, second)
    assert measure_agreement(second, first).error_consistency == pytest.approx(found.error_consistency)
    if (first != second).any():
        known = cohen_kappa_score(first, second)
        assert found.error_consistency == pytest.approx(known, abs=1e-12)


def test_averages_over_conditions_then_pairs_then_data_sets() -> None:
    everything = join_trials(
        trials("net", "oxox", condition="a"),
        trials("net", "oooo", condition="b"),
        trials("ann", "oxxo", condition="a"),  # 2 of 4 agree with net
        trials("ann", "ooox", condition="b"),  # 3 of 4
        trials("bob", "oxox", condition="a"),  # 4 of 4
        trials("bob", "xxxx", condition="b"),  # 0 of 4
        trials("net", "ox", dataset="sketch"),
        trials("cat", "ox", dataset="sketch"),  # 2 of 2
    )
    found = compare_observers(everything, "net")
    assert [pair[2:] for pair in found.pairs] == [("net", "ann"), ("net", "bob")] * 2 + [("net", "cat")]
    assert found.by_dataset["colour"]["observed_consistency"] == pytest.approx(((0.5 + 0.75) / 2 + (1 + 0) / 2) / 2)
    assert found.overall["observed_consistency"] == pytest.approx((0.5625 + 1) / 2)
    # kappa: 0 and 0 with ann (net is always right in b, so that chance explains everything), 1 and 0 with bob.
    assert found.by_dataset["colour"]["error_consistency"] == pytest.approx((0 + 0 + 1 + 0) / 4)
    assert found.by_dataset["colour"]["accuracy_difference"] == pytest.approx((0 + 1 / 16 + 0 + 1) / 4)
    assert found.by_dataset["colour"]["accuracy"] == 6 / 8
    assert found.overall["accuracy"] == (6 / 8 + 1 / 2) / 2
    assert found.table().num_rows == 5
    assert found.table()["accuracy_human"].to_pylist() == [0.5, 0.5, 0.75, 0.0, 0.5]


def test_humans_among_themselves() -> None:
    people = [trials("ann", "oxxo"), trials("bob", "oxox"), trials("cat", "oxxo")]
    everything = join_trials(*people, trials("net", "oooo"))
    found = compare_observers(everything, humans=["ann", "bob", "cat"])
    assert [pair[2:] for pair in found.pairs] == [("ann", "bob"), ("ann", "cat"), ("bob", "cat")]
    assert found.overall["error_consistency"] == pytest.approx((0 + 1 + 0) / 3)
    assert found.overall["accuracy"] == 0.5
    assert compare_observers(join_trials(*people)).overall == found.overall


def test_order_of_trials_does_not_matter(rng) -> None:
    everything = join_trials(trials("net", "oxoxoo"), trials("ann", "oxxoxo"), trials("bob", "ooxoxx"))
    shuffled = everything.take(rng.permutation(len(everything)))
    assert compare_observers(shuffled, "net").overall == compare_observers(everything, "net").overall


def test_conditions_left_out() -> None:
    everything = join_trials(
        *(trials(name, "o" * 10, condition="cr") for name in ("ann", "net")),  # colour's own control
        *(trials(name, "oo" + "x" * 8, condition="bw") for name in ("ann", "net")),  # accuracy of exactly 0.2
        trials("ann", "ooo" + "x" * 7, condition="grey"),
        trials("net", "x" * 10, condition="grey"),
    )
    kept = leave_out_conditions(everything, humans=["ann"])
    assert set(kept.condition.tolist()) == {"grey"}
    assert len(kept) == 20
    assert set(leave_out_conditions(everything, humans=["ann"], controls={}).condition.tolist()) == {"cr", "grey"}
    assert set(leave_out_conditions(everything, controls={}, least_accuracy=0.1).condition.tolist()) == {
        "cr",
        "bw",
        "grey",
    }


def test_mistakes_in_trials_are_answered() -> None:
    one = trials("ann", "oxo")
    with pytest.raises(PareError, match="observer 'bob' has no trials; observers with trials: ann"):
        compare_observers(one, "bob")
    with pytest.raises(PareError, match="no two of the observers"):
        compare_observers(one)
    with pytest.raises(PareError, match=r"observer 'bob' did not answer the same images .*, e.g. '2.png'"):
        compare_observers(join_trials(one, trials("bob", "ox")))
    with pytest.raises(
        PareError, match=r"data set 'colour', condition 'bw': observer 'ann' answered image '0.png' more"
    ):
        compare_observers(join_trials(one, one))
    with pytest.raises(PareError, match="trials lack condition, response; they need"):
        Trials.of({"observer": "a", "dataset": "b", "image": ["c"], "category": ["d"]})
    with pytest.raises(PareError, match="columns of equal length"):
        Trials(*[np.array(["a"])] * 5, np.array(["a", "b"]))
    with pytest.raises(PareError, match=r"same images, got shapes \(2,\) and \(3,\)"):
        measure_agreement([True, False], [True, False, True])
    with pytest.raises(PareError, match="true or false"):
        measure_agreement([3, 4], [3, 5])


def test_shape_bias_by_hand() -> None:
    # stimulus:        1       2      3      4        5      6 (no conflict)
    shapes = np.array(["cat", "cat", "cat", "dog", "dog", "dog"])
    textures = np.array(["dog", "owl", "dog", "cat", "owl", "dog"])
    decisions = np.array(["cat", "cat", "dog", "cat", "cat", "dog"])  # shape, shape, texture, texture, neither
    found = measure_shape_bias(decisions, shapes, textures)
    assert (found.shape_decisions, found.texture_decisions, found.trials) == (2, 2, 5)
    assert found.value == 0.5
    assert found.stderr == pytest.approx(0.25)
    assert found.classes == ("cat", "dog")
    np.testing.assert_allclose(found.by_class, [2 / 3, 0])
    nothing = measure_shape_bias(["x", "x"], ["a", "b"], ["b", "a"])
    assert np.isnan(nothing.value)
    assert np.isnan(nothing.stderr)
    with pytest.raises(PareError, match="needs cue conflicts"):
        measure_shape_bias(["a"], ["a"], ["a"])
    with pytest.raises(PareError, match="one class per stimulus"):
        measure_shape_bias(["a"], ["a", "b"], ["a", "b"])


def test_fine_classes_to_coarse_ones() -> None:
    groups = {"dog": [0, 1, 2], "cat": [3]}
    probabilities = [[0.2, 0.2, 0.2, 0.3], [0.4, 0.3, 0.3, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert map_decisions(probabilities, groups).tolist() == ["cat", "dog", "dog"]  # means 0.2 and 0.3; a tie at last
    assert map_decisions(probabilities, groups, aggregate="sum").tolist() == ["dog", "dog", "dog"]
    with pytest.raises(PareError, match=r"lie in \[0, 1\], got others at row 0; for logits, take softmax"):
        map_decisions([[2.0, -1.0]], {"a": [0]})
    with pytest.raises(PareError, match="class 'cat' needs at least one of the columns 0 to 1, got \\[3\\]"):
        map_decisions([[0.5, 0.5]], {"cat": [3]})
    with pytest.raises(PareError, match="aggregate must be 'mean' or 'sum', got 'max'"):
        map_decisions([[0.5, 0.5]], {"cat": [1]}, aggregate="max")
