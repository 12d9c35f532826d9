"""`paredown score` with metrics that train, several metrics, and scores computed elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest

import paredown as pdn
from paredown.metrics.reliability import Reliability
from paredown.scoring import score_all

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def files(digits, tmp_path) -> None:
    np.save(tmp_path / "x.npy", digits[0][:120])
    np.save(tmp_path / "y.npy", digits[1][:120])


QUICK = ["--recipe", "mlp", "--members", "2", "--epochs", "1"]


def test_several_metrics_share_a_table_and_a_training(paredown, files, digits, tmp_path) -> None:
    command = ["score", "x.npy", "--labels", "y.npy", "--metric", "el2n,aum,prototypes", *QUICK, "--k", "5"]
    result = paredown(*command, "-o", "s.parquet", "--json")
    assert result.returncode == 0, result.stderr
    assert "2 networks x 1 epoch; about" in result.stderr  # what it costs is said first
    said = json.loads(result.stdout)
    assert list(said["metrics"]) == ["el2n", "aum", "prototypes"]
    options = {"recipe": "mlp", "members": 2, "epochs": 1, "k": 5}
    expected = score_all(tmp_path / "x.npy", labels=digits[1][:120], metrics=list(said["metrics"]), **options)
    for metric, scores in expected.items():
        found = pdn.read_scores(tmp_path / "s.parquet", metric=metric)
        np.testing.assert_allclose(found.values, scores.values, atol=1e-5)
    pruned = paredown("prune", "s.parquet", "--metric", "aum", "--keep-fraction", "0.5", "-o", "pruned")
    assert pruned.returncode == 0, pruned.stderr
    manifest, keep = pdn.read_manifest(tmp_path / "pruned")
    assert (manifest.metric, keep.sum()) == ("aum", 60)


def test_clusters_in_place_of_labels(paredown, files) -> None:
    command = ["score", "x.npy", "--metric", "el2n", *QUICK]
    refused = paredown(*command, "-o", "s.parquet")
    assert refused.returncode == 2
    assert "needs labels" in refused.stderr
    assert paredown(*command, "--pseudo-labels", "--k", "4", "-o", "s.parquet").returncode == 0


def test_scores_from_elsewhere(paredown, files, tmp_path) -> None:
    (tmp_path / "theirs.csv").write_text("name,easiness\n" + "".join(f"{row},{row}\n" for row in range(120)))
    unsaid = paredown("score", "--from", "theirs.csv", "-o", "s.parquet")
    assert unsaid.returncode == 2
    assert "--higher-is harder" in unsaid.stderr
    result = paredown(
        "score", "x.npy", "--labels", "y.npy", "--from", "theirs.csv", "--higher-is", "easier", "-o", "s.parquet"
    )
    assert result.returncode == 0, result.stderr
    scores = pdn.read_scores(tmp_path / "s.parquet")
    assert scores.metric == "easiness"
    np.testing.assert_array_equal(scores.values, -np.arange(120.0))
    assert scores.labels is not None
    assert scores.provenance["imported"]["higher_is"] == "easier"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give something to score"),
        ("x.npy --higher-is harder", "give their file with --from"),
        ("x.npy --metric prototypes,density --save-model m.npz", "--save-model works with"),
        ("x.npy --option recipe=mlp --metric el2n", "--recipe mlp"),
        ("x.npy --labels y.npy --metric el2n --recipe mpl", "Did you mean 'mlp'"),
        ("x.npy --labels y.npy --metric el2n --recipe tiny_cnn", "trains on images"),
        ("x.npy --labels y.npy --metric prototypes --recipe mlp", "has no option --recipe"),
    ],
)
def test_mistakes(arguments, message, paredown, files, tmp_path) -> None:
    result = paredown("score", *arguments.split(), "-o", "s.parquet")
    assert result.returncode == 2, result.stdout
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "s.parquet").exists()


def test_pruning_is_by_one_metric(paredown, files) -> None:
    result = paredown("prune", "x.npy", "--metric", "prototypes,density", "-o", "pruned")
    assert result.returncode == 2
    assert "selects by one metric" in result.stderr


def test_the_hardest_and_easiest_examples_and_the_reliability_are_shown(paredown, files, tmp_path) -> None:
    command = ["score", "x.npy", "--labels", "y.npy", "--metric", "el2n", *QUICK, "-o", "s.parquet"]
    shown = paredown(*command).stdout
    said = json.loads(paredown(*command, "--json").stdout)
    values = pdn.read_scores(tmp_path / "s.parquet").values
    order = np.argsort(values)
    assert [example["id"] for example in said["hardest"]] == order[:-4:-1].tolist()
    assert [example["id"] for example in said["easiest"]] == order[:3].tolist()
    assert said["hardest"][0]["score"] == values.max()
    assert f"Hardest: {order[-1]} ({values.max():.4g}), " in shown
    reliability = Reliability.of(said["report"])
    assert reliability is not None
    assert shown.count(f"({reliability})") == 1  # in a warning or by itself


def test_labels_that_the_metric_ignores_are_pointed_out(paredown, files) -> None:
    hint = "--metric supervised_prototypes uses them"
    assert hint in paredown("prune", "x.npy", "--labels", "y.npy", "-o", "with").stdout
    assert hint not in paredown("prune", "x.npy", "-o", "without").stdout
    assert hint not in paredown("prune", "x.npy", "--labels", "y.npy", "--metric", "random", "-o", "random").stdout
    assert paredown("score", "x.npy", "--labels", "y.npy", "-o", "s.parquet").returncode == 0
    said = paredown("prune", "s.parquet", "-o", "again").stdout  # a table cannot be scored by another metric
    assert f"Hint: there are labels; scoring the data again with {hint}, and may rank better." in " ".join(said.split())
    assert paredown("score", "x.npy", "-o", "unlabelled.parquet").returncode == 0
    assert hint not in paredown("prune", "unlabelled.parquet", "-o", "last").stdout


@pytest.mark.parametrize("verb", ["score", "prune"])
def test_a_formula_trains_no_networks(paredown, files, tmp_path, digits, verb) -> None:
    options = ["--metric", "memorization", "--option", "closed_form=true", "-o", "out.parquet"]
    result = paredown(verb, "x.npy", "--labels", "y.npy", *options)
    assert result.returncode == 0, result.stderr
    assert "120 examples: no networks to train; about" in result.stderr
    found = pdn.read_scores(tmp_path / "out.parquet")
    expected = pdn.score(tmp_path / "x.npy", labels=digits[1][:120], metric="memorization", closed_form=True)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-5)


def test_a_command_that_was_refused_stops_no_other(paredown, files, tmp_path, monkeypatch) -> None:
    command = ["score", "x.npy", "--labels", "y.npy", "--metric", "el2n", *QUICK, "-o", "s.parquet"]

    def refuse(*_, **__) -> None:
        raise pdn.PareError("refused in the midst of it")

    with monkeypatch.context() as patch:  # after the checks, before a part is finished
        patch.setattr("paredown.metrics.probe_training.load_examples", refuse)
        refused = paredown(*command, "--option", "threads=1")
    assert "refused in the midst of it" in refused.stderr
    assert sorted(file.name for file in tmp_path.glob(".s.parquet*")) == []
    assert paredown(*command).returncode == 0
