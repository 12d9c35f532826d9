"""Accuracy class by class: values worked by hand, the test's behaviour under no change, and messages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from paredown import PareError
from paredown.evaluate import compare_classes

LABELS = np.array(list("aaaabb"))
FULL = np.array(list("aaabbb"))  # a: 3 of 4, b: 2 of 2
PRUNED = np.array(list("aabbba"))  # a: 2 of 4, b: 1 of 2


def noisy_runs(rng, difficulty: np.ndarray, seeds: int, shift: np.ndarray | float = 0.0) -> np.ndarray:
    """Predictions 1 (right) or 0 of several seeds, for examples that are right with their own probability."""
    return (rng.random((seeds, len(difficulty))) < np.clip(difficulty - shift, 0, 1)).astype(int)


def test_one_seed_by_hand() -> None:
    found = compare_classes(FULL, PRUNED, LABELS, classes=["a", "b", "c"])
    np.testing.assert_array_equal(found.examples, [4, 2, 0])
    np.testing.assert_allclose(found.full, [0.75, 1, np.nan])
    np.testing.assert_allclose(found.pruned, [0.5, 0.5, np.nan])
    np.testing.assert_allclose(found.difference, [-0.25, -0.5, np.nan])
    # One answer of each class became wrong: sum d = -1, sum d^2 = 1, and two examples that cancel.
    np.testing.assert_allclose(found.stderr**2, [(2 - 1 / 6) / 36, (2 - 1 / 4) / 16, np.nan])
    assert np.isnan(found.stderr_seeds).all()
    assert found.missing == ("c",)
    assert found.gained == found.lost == ()
    assert found.worst.name == "b"
    assert found.worst.difference == -0.5
    assert found.summary()["accuracy_full"] == pytest.approx(5 / 6)
    assert found.summary()["accuracy_pruned"] == pytest.approx(3 / 6)
    assert found.table()["class"].to_pylist() == ["a", "b", "c"]
    assert found.table()["difference"].to_pylist()[:2] == [-0.25, -0.5]


def test_standard_error_over_seeds_by_hand() -> None:
    # Class a: full is right in 3 and 4 of 4, pruned in 2 of 4 twice; class b: always right.
    full = [list("aaabbb"), list("aaaabb")]
    pruned = [list("aabbbb"), list("bbaabb")]
    found = compare_classes(full, pruned, LABELS)
    np.testing.assert_allclose(found.full, [0.875, 1])
    np.testing.assert_allclose(found.difference, [-0.375, 0])
    np.testing.assert_allclose(found.stderr_seeds, [np.sqrt(0.125**2 * 2 / 2), 0])
    assert (found.stderr > found.stderr_seeds).all()
    assert found.seeds == (2, 2)
    assert compare_classes(full, pruned[0], LABELS).seeds == (2, 1)


def test_the_t_test_uses_welch_and_satterthwaite() -> None:
    rng = np.random.default_rng(3)
    labels = np.zeros(40, int)
    full, pruned = noisy_runs(rng, np.full(40, 0.8), 3), noisy_runs(rng, np.full(40, 0.6), 5)
    found = compare_classes(1 - full, 1 - pruned, labels)
    change = pruned.mean(axis=0) - full.mean(axis=0)
    padded = np.concatenate([change, [np.sqrt(0.5), -np.sqrt(0.5)]])  # the two made-up examples
    parts = [padded.var() / len(padded), full.mean(axis=1).var(ddof=1) / 3, pruned.mean(axis=1).var(ddof=1) / 5]
    freedom = sum(parts) ** 2 / sum(part**2 / df for part, df in zip(parts, (41, 2, 4), strict=True))
    assert found.stderr[0] == pytest.approx(np.sqrt(sum(parts)))
    assert found.p_value[0] == pytest.approx(2 * stats.t.sf(abs(padded.mean()) / np.sqrt(sum(parts)), freedom))


def test_three_flipped_examples_prove_nothing() -> None:
    found = compare_classes(["a"] * 3, ["b"] * 3, ["a"] * 3)
    assert found.difference[0] == -1
    assert found.p_value[0] > 0.05
    assert found.lost == ()


def test_without_a_change_few_classes_look_changed() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(400), 25)
    difficulty = rng.beta(4, 1, len(codes))
    right = [noisy_runs(rng, difficulty, 3), noisy_runs(rng, difficulty, 3)]
    found = compare_classes(*(np.where(run, codes, -1) for run in right), codes)
    assert 0 < (found.p_value < 0.05).mean() <= 0.05
    assert found.gained == found.lost == ()
    # Against the full model's own accuracy chance looks like a gain of hard classes; `trend` does not fall for it.
    assert stats.spearmanr(found.full, found.difference)[0] < -0.15
    assert abs(found.trend) < 0.1


def test_real_changes_are_named() -> None:
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(20), 100)
    shift = np.where(codes == 3, 0.4, np.where(codes == 7, -0.3, 0.0))
    difficulty = np.full(len(codes), 0.65)
    full, pruned = noisy_runs(rng, difficulty, 4), noisy_runs(rng, difficulty, 4, shift)
    for correction in ("fdr", "holm"):
        found = compare_classes(np.where(full, codes, -1), np.where(pruned, codes, -1), codes, correction=correction)
        assert found.lost == ("3",)
        assert found.gained == ("7",)
        assert found.worst.name == "3"


def test_corrections_by_hand() -> None:
    from paredown.evaluate.classes import _adjust

    p_value = np.array([0.01, 0.04, np.nan, 0.03])
    np.testing.assert_allclose(_adjust(p_value, "holm"), [0.03, 0.06, np.nan, 0.06])
    np.testing.assert_allclose(_adjust(p_value, "fdr"), [0.03, 0.04, np.nan, 0.04])
    for correction in ("fdr", "holm"):
        np.testing.assert_array_equal(_adjust(np.array([np.nan]), correction), [np.nan])


def test_false_discoveries_are_controlled_as_benjamini_and_hochberg_say(rng: np.random.Generator) -> None:
    from paredown.evaluate.classes import _adjust

    p_value = rng.random(40).round(2)  # with ties
    rows, rank = np.argsort(p_value), np.arange(1, 41)
    by_hand = np.empty(40)
    by_hand[rows] = np.minimum(np.minimum.accumulate((p_value[rows] * 40 / rank)[::-1])[::-1], 1)
    np.testing.assert_allclose(_adjust(p_value, "fdr"), by_hand, rtol=1e-14)


def test_correlations_against_scipy() -> None:
    rng = np.random.default_rng(2)
    codes = np.repeat(np.arange(30), 20)
    ease = np.repeat(rng.random(30), 20)
    right = [noisy_runs(rng, ease, 1), noisy_runs(rng, ease, 1)]
    found = compare_classes(*(np.where(run, codes, -1) for run in right), codes, classes=[f"c{i}" for i in range(31)])
    there = found.examples > 0
    assert found.missing == ("c30",)
    assert found.pearson == pytest.approx(stats.pearsonr(found.full[there], found.pruned[there])[0])
    assert found.spearman == pytest.approx(stats.spearmanr(found.full[there], found.pruned[there])[0])
    assert np.isnan(compare_classes(FULL, FULL, FULL).pearson)  # every class at 1


def test_codes_and_names_agree() -> None:
    names = ["b", "a"]
    place = {"b": 0, "a": 1}
    codes = [np.array([place[name] for name in array]) for array in (FULL, PRUNED, LABELS)]
    by_code, by_name = compare_classes(*codes, classes=names), compare_classes(FULL, PRUNED, LABELS, classes=names)
    assert by_code.classes == ("b", "a")
    np.testing.assert_array_equal(by_code.examples, [2, 4])
    np.testing.assert_array_equal(by_code.difference, by_name.difference)


def test_the_picture_names_what_changed(tmp_path) -> None:
    from paredown.plots import draw_classes, figure

    codes = np.repeat(np.arange(3), 60)
    pruned = np.where(codes == 1, -1, codes)
    found = compare_classes(codes, pruned, codes, classes=["cat", "dog", "owl"])
    with figure(tmp_path / "classes.png") as (_, axes):
        draw_classes(axes, found)
        assert [text.get_text() for text in axes.texts] == ["dog"]
        np.testing.assert_array_equal(axes.collections[0].get_offsets(), [[1, 1], [1, 1]])
    assert (tmp_path / "classes.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            (FULL[:3], PRUNED, LABELS),
            {},
            r"full must hold one predicted class for each of the 6 labels.*got shape \(3,\)",
        ),
        ((FULL, np.zeros((6, 2)), LABELS), {}, "pruned must hold one predicted class"),
        ((FULL, np.zeros(6, int), LABELS), {}, "both be codes or both be names"),
        ((np.zeros(6), np.zeros(6), np.zeros(6, int)), {}, "take the argmax first"),
        ((FULL, PRUNED, LABELS), {"classes": ["a"]}, "labels at rows 4, 5 are none of the 1 classes, e.g. b"),
        ((FULL, PRUNED, LABELS), {"classes": ["a", "b", "a"]}, "named once each"),
        ((FULL, PRUNED, LABELS), {"level": 5}, "level must be between 0 and 1, got 5"),
        ((FULL, PRUNED, LABELS), {"correction": "hlom"}, "unknown correction 'hlom'.*Did you mean 'holm'"),
        ((FULL, PRUNED, LABELS[:0]), {}, "one class per test example"),
    ],
)
def test_mistakes_are_answered(arguments, options, message) -> None:
    with pytest.raises(PareError, match=message):
        compare_classes(*arguments, **options)
