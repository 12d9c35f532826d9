"""Objects introduce themselves: a short line, a notebook view in which nothing is obeyed, and data frames."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

import paredown as pdn
from paredown.display import html_card, shorten
from paredown.errors import PareError
from paredown.score_table import open_table
from paredown.scores import Labels, Scores
from paredown.sources import open_source
from paredown.sweeps.sweeping import SweepResult

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


def hostile_scores() -> Scores:
    labels = Labels.of([HOSTILE, "b", "b"])
    return Scores(np.array([0.5, 1.0, 2.0]), np.array([1, 2, 3]), HOSTILE, labels, np.array([0, 0, 4]))


def test_scores() -> None:
    scores = Scores(np.array([0.25, 1.0, 3.0, 2.0]), np.arange(4), "el2n", Labels.of(list("abba")))
    assert repr(scores) == "<Scores: metric el2n, examples 4, scores 0.25 to 3 (median 1.5), classes 2>"
    assert repr(Scores(np.zeros(0), np.zeros(0, np.int64))) == "<Scores: metric score, examples 0>"


def test_labels_are_class_names_as_an_array() -> None:
    labels = Labels.of(list("cabca"))
    assert np.asarray(labels).tolist() == list("cabca")
    assert np.asarray(labels, dtype=object).tolist() == list("cabca")
    assert np.asarray(Labels.of([3, 1, 3]), dtype=np.int64).tolist() == [3, 1, 3]
    assert repr(labels) == "<Labels: examples 5, classes 3 (a, b, c)>"
    with pytest.raises(ValueError, match="copy"):
        np.array(labels, copy=False)


def test_sources(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 2), np.float32))
    source = open_source(tmp_path / "x.npy", labels=["a", "b", "a"])
    facts = f"kind {source.kind}, location {tmp_path / 'x.npy'}, examples 3, classes 2, dimensions 2"
    assert repr(source) == f"<{type(source).__name__}: {facts}>"


def test_models(rng, tmp_path) -> None:
    pdn.score(rng.standard_normal((50, 4)), k=3, save_model=tmp_path / "model.npz")
    model = pdn.read_model(tmp_path / "model.npz")
    assert repr(model) == (
        f"<FittedModel: metric prototypes, dimensions 4, centroids 3, fingerprint {model.fingerprint}>"
    )


def test_tables_stores_and_metrics(tmp_path, image_folder) -> None:
    pdn.write_scores(Scores(np.arange(4.0), np.arange(4), "el2n", Labels.of(list("abba"))), tmp_path / "s.parquet")
    table = open_table(tmp_path / "s.parquet")
    assert repr(table) == f"<ScoreTable: path {tmp_path / 's.parquet'}, metric el2n, examples 4, grouped by label>"
    store = pdn.embed(image_folder, out=tmp_path / "store", encoder="pixels")
    encoder = "whitened PCA of 32 x 32 pixels, 50 components"
    assert repr(store) == f"<Store: path {tmp_path / 'store'}, examples 60, dimensions 50, encoder {encoder}>"
    assert (
        repr(pdn.METRICS["random"]) == "<Metric: summary a uniform random number: the baseline to beat, needs nothing>"
    )
    assert all(len(repr(entry)) < 200 for entry in pdn.METRICS.values())


def test_a_notebook_shows_names_and_does_not_obey_them() -> None:
    for view in (hostile_scores()._repr_html_(), hostile_scores().labels._repr_html_()):  # type: ignore[union-attr]
        assert "<script" not in view
        assert "&lt;script&gt;" in view
        assert "\x1b" not in view
        assert "\u202e" not in view
    assert "\x1b" not in repr(hostile_scores())
    assert html_card("A & B", {"x": 1}, ["<n>"]) == (
        '<table><caption>A &amp; B</caption><tr><th style="text-align:left">x</th>'
        '<td style="text-align:left">1</td></tr></table><ul><li>&lt;n&gt;</li></ul>'
    )


def test_data_frames(monkeypatch) -> None:
    frame = Scores(np.array([0.5, 1.0]), np.array(["x", "y"]), "aum", Labels.of([7, 8]), np.array([1, 0])).to_pandas()
    assert frame.to_dict("list") == {"id": ["x", "y"], "aum": [0.5, 1.0], "label": ["7", "8"], "cluster": [1, 0]}
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PareError, match=r"to_pandas\(\) needs pandas: pip install pandas"):
        hostile_scores().to_pandas()


def test_sweeps(tmp_path) -> None:
    table = pa.table({"initial_size": [60, 120], "keep_fraction": [0.5, 1.0], "strategy": ["hard", None]})
    table = table.append_column("metric", [["el2n", None]])
    result = SweepResult(tmp_path, table, (), ())
    grid = "initial_size 60, 120, keep_fraction 0.5, 1, strategy hard, metric el2n"
    assert repr(result) == f"<SweepResult: folder {tmp_path}, runs 2, {grid}>"
    assert result.to_pandas()["initial_size"].tolist() == [60, 120]


def test_shorten() -> None:
    assert shorten("ab") == "a, b"
    assert shorten("abcdef", 3) == "a, b, c and 3 more"


def test_tab_shows_every_subpackage() -> None:
    shown = dir(pdn)
    for name in ("metrics", "sources", "embeddings", "training", "clustering", "evaluate", "laws", "theory"):
        assert name in shown
    for name in ("perceptron", "sweeps", "reproduce", "recorder", "adapters"):
        assert name in shown
        assert getattr(pdn, name).__name__ == f"paredown.{name}"
