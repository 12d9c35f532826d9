"""The formulas of `paredown.metrics` as functions of arrays: their examples, their relatives, and what they refuse."""

from __future__ import annotations

import doctest
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import paredown as pdn
from paredown import metrics
from paredown.errors import PareError

FOLDER = Path(metrics.__file__).parent
FILES = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in ("__init__", "tables"))
FORMULAS = [name for name in metrics.__all__ if name.islower()]


@pytest.mark.parametrize("name", FORMULAS)
def test_examples_in_docstrings(name: str) -> None:
    function = getattr(metrics, name)
    home = import_module(function.__module__)
    (example,) = doctest.DocTestFinder(recurse=False).find(function, name, module=home, globs=vars(home).copy())
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
    assert "igher is harder" in (function.__doc__ or "")


def test_public_names_are_functions_whatever_was_imported_before() -> None:
    """A file named like a function would take its place as soon as something imports it."""
    assert set(FILES).isdisjoint(metrics.__all__)
    code = f"import {', '.join(f'paredown.metrics.{file}' for file in FILES)}\nfrom paredown import metrics\n"
    code += f"for name in {FORMULAS}: assert callable(getattr(metrics, name)), name\n"
    code += "assert dir(metrics) == sorted(metrics.__all__)\n"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_recorder_gives_the_scores_of_the_formulas(rng) -> None:
    logits, labels = rng.normal(scale=3, size=(6, 40, 5)), rng.integers(0, 5, 40)
    features = rng.normal(size=(40, 7))
    rec = pdn.Recorder(40, 5)
    for epoch in range(6):
        rec.update(np.arange(40), logits[epoch], labels, epoch, features=features)
    last = softmax(logits[-1], axis=-1)
    expected = {
        "el2n": metrics.el2n(last, labels),
        "grand": metrics.grand(last, labels, features),
        "forgetting": metrics.forgetting(logits.argmax(axis=2) == labels),
        "margin": metrics.margin(logits[-1], labels),
        "aum": metrics.aum(logits, labels),
        "entropy": metrics.entropy(last),
    }
    for name, scores in expected.items():
        np.testing.assert_allclose(rec.scores(name).values, scores, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(
        metrics.el2n(softmax(logits, axis=-1), labels),
        np.mean([metrics.el2n(softmax(epoch, axis=-1), labels) for epoch in logits], axis=0),
    )


def test_scores_of_prototypes_are_the_distances(digits) -> None:
    scores = pdn.score(digits[0][:200], labels=digits[1][:200], metric="supervised_prototypes")
    unit = digits[0][:200] / np.linalg.norm(digits[0][:200], axis=1, keepdims=True)
    means = np.stack([unit[digits[1][:200] == digit].mean(axis=0) for digit in range(10)])
    own = metrics.prototype_distance(digits[0][:200], means, labels=digits[1][:200])
    np.testing.assert_allclose(scores.values, own, atol=1e-6)
    assert (metrics.prototype_distance(digits[0][:200], means) <= own + 1e-7).all()


def test_scores_of_arrays_are_selected_from() -> None:
    p = np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.99, 0.01]])
    kept = pdn.select(metrics.el2n(p, np.zeros(4, int)), keep_fraction=0.5)
    assert kept.indices.tolist() == [1, 2]


def test_variation_of_held_out_votes() -> None:
    votes = [[0, 1, 2], [0, 1, 0], [1, 1, 1]]
    np.testing.assert_allclose(metrics.variation_ratio(votes), [1 / 3, 0, 2 / 3])
    held_out = metrics.variation_ratio(votes, trained_on=[[0, 0, 1], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(held_out, [0, 0, 1 / 2])


P, LABELS = [[0.5, 0.5], [1.0, 0.0]], [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.el2n([[1.0, 2.0]], [0]), r"must sum to 1 over the classes, not so at row 0; of logits take"),
        (lambda: metrics.el2n([[-1.0, 2.0]], [0]), r"probabilities must not be negative"),
        (lambda: metrics.el2n([0.5, 0.5], LABELS), r"must be numbers \(examples, classes\), got float64 of shape \(2,"),
        (lambda: metrics.el2n([["a", "b"]], [0]), r"probabilities must be numbers"),
        (lambda: metrics.el2n(P, [0, 2]), r"labels must be between 0 and 1, .* not so at row 1: 2"),
        (lambda: metrics.el2n(P, [0.0, 1.0]), r"one class number for each of 2 examples, got float64"),
        (lambda: metrics.el2n(P, [0]), r"one class number for each of 2 examples"),
        (lambda: metrics.grand(P, LABELS, [[1.0]]), r"1 rows of features for 2 examples"),
        (lambda: metrics.margin([[np.nan, 1.0], [0.0, 0.0]], LABELS), r"logits must be finite, not so at row 0"),
        (lambda: metrics.aum([[[0.0, 1.0], [np.inf, 0.0]]], LABELS), r"logits must be finite, not so at row 1"),
        (lambda: metrics.forgetting([[2, 0]]), r"correct must be true or false \(epochs, examples\)"),
        (lambda: metrics.variation_ratio([[0.5]]), r"votes must be class numbers \(members, examples\)"),
        (lambda: metrics.variation_ratio([[0, 1]], trained_on=[[0, 1]]), r"every member trained on row 1"),
        (lambda: metrics.variation_ratio([[0, 1]], trained_on=[[0]]), r"trained_on must be \(1, 2\) like the votes"),
        (lambda: metrics.memorization([[1], [0]], [[1], [1]]), r"row 0 was in all of the 2 training subsets"),
        (lambda: metrics.influence([[1], [0]], [[1], [0]], test_correct=[[1]]), r"for each of the 2 models, got 1"),
        (lambda: metrics.prototype_distance([[0.0, 0.0]], [[1.0, 0.0]]), r"embeddings: .* only zeros"),
        (lambda: metrics.prototype_distance([[1.0]], [[1.0, 0.0]]), r"embeddings have 1 dimensions and centroids 2"),
    ],
)
def test_what_the_formulas_refuse(call, message: str) -> None:
    with pytest.raises(PareError, match=message):
        call()
