"""A saved model scores as it did when it was fitted, and says no to what it was not fitted to."""

from __future__ import annotations

import json

import numpy as np
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.metrics import METRICS
from paredown.scoring.saved_models import FORMAT_VERSION, FittedModel

ALIKE = {"dyn_unc", "tdds", "influence_max", "influence_sum_abs", "margin", "entropy", "confidence", "variability"}
SAVED = [name for name, entry in METRICS.items() if entry.load is not None and name not in ALIKE]  # to others here


@pytest.fixture(scope="module")
def fitted(digits, tmp_path_factory):
    """A file with prototypes of the digits, and the scores they gave."""
    file = tmp_path_factory.mktemp("models") / "digits.npz"
    return file, pdn.score(digits[0], k=12, sensitivity=False, save_model=file)


@pytest.mark.parametrize("metric", SAVED)
def test_scores_of_a_saved_model_are_the_same_bytes(metric, digits, tmp_path) -> None:
    file, data = tmp_path / "m.npz", {"labels": digits[1][:400]}
    quick = {"members": 10, "epochs": 1} if "training" in METRICS[metric].needs else {}
    first = pdn.score(digits[0][:400], metric=metric, save_model=file, **quick, **data)
    again = pdn.score(digits[0][:400], model=file, **data)
    assert again.metric == metric
    assert again.values.tobytes() == first.values.tobytes()
    assert again.provenance["model"]["fingerprint"] == first.provenance["saved_model"]
    assert again.provenance["report"] == json.loads(json.dumps(first.provenance["report"]))
    copy = tmp_path / "copy.npz"
    pdn.write_model(pdn.read_model(file), copy)
    assert copy.read_bytes() == file.read_bytes()


def test_new_rows_are_scored_without_a_fit(digits, fitted, monkeypatch) -> None:
    model = pdn.read_model(fitted[0])
    monkeypatch.setattr("paredown.clustering.kmeans.KMeans.cluster", None)  # would fail if anything were fitted
    new = digits[0][:50] + 1
    scores = pdn.score(new, model=model)
    unit = new / np.linalg.norm(new, axis=1, keepdims=True)
    np.testing.assert_allclose(scores.values, 1 - (unit @ model.centroids.T).max(axis=1), atol=1e-6)
    record = scores.provenance["model"]
    assert record["fingerprint"] == model.fingerprint
    assert record["options"] == {"k": 12, "sensitivity": False}
    assert record["seed"] == 0
    assert record["source"]["examples"] == 1797


def test_the_fingerprint_follows_the_centroids(digits, fitted, tmp_path) -> None:
    one, same, other = (tmp_path / f"{name}.npz" for name in "abc")
    pdn.score(digits[0], k=12, sensitivity=False, save_model=one)
    pdn.score(digits[0], k=12, sensitivity=False, save_model=same)
    pdn.score(digits[0], k=12, sensitivity=False, seed=1, save_model=other)
    prints = [pdn.read_model(file).fingerprint for file in (fitted[0], one, same, other)]
    assert prints[0] == prints[1] == prints[2] != prints[3]


def test_a_warm_start_begins_where_the_model_ended(digits, fitted, tmp_path) -> None:
    scores = pdn.score(digits[0], start=fitted[0], sensitivity=False, seed=5, save_model=tmp_path / "warm.npz")
    assert scores.provenance["report"]["k"] == 12
    assert scores.provenance["start"]["fingerprint"] == pdn.read_model(fitted[0]).fingerprint
    assert scores.values.mean() <= fitted[1].values.mean() + 1e-6
    ends = pdn.read_model(tmp_path / "warm.npz").centroids
    np.testing.assert_allclose(ends, pdn.read_model(fitted[0]).centroids, atol=0.05)
    budgets = pdn.score(digits[0], metric="density", start=fitted[0])
    assert budgets.provenance["report"]["clusters"] == 12


def test_classes_are_matched_by_name(digits, tmp_path) -> None:
    names = np.array([f"digit {label}" for label in digits[1]])
    whole = pdn.score(digits[0], metric="supervised_prototypes", labels=names, save_model=tmp_path / "m.npz")
    some = np.flatnonzero(digits[1] >= 7)  # of three classes, numbered 0, 1 and 2 here
    part = pdn.score(digits[0][some], labels=names[some], model=tmp_path / "m.npz")
    np.testing.assert_array_equal(part.values, whole.values[some])
    assert part.labels is not None
    assert part.labels.classes == ("digit 7", "digit 8", "digit 9")
    with pytest.raises(PareError, match=r"array has classes that the model was not fitted to: zebra; it knows digit 0"):
        pdn.score(digits[0][:2], labels=["zebra", "digit 1"], model=tmp_path / "m.npz")
    with pytest.raises(PareError, match=r"needs labels, but array has none"):
        pdn.score(digits[0], model=tmp_path / "m.npz")


def test_exact_scores_with_a_screened_model(digits, tmp_path, monkeypatch) -> None:
    from paredown.clustering import kernels

    rows = np.random.default_rng(0).standard_normal((2000, 200)) * (1 + np.arange(200)) ** -1.0
    monkeypatch.setattr(kernels, "torch_kernels", lambda multiplications: ())
    monkeypatch.setattr(kernels, "_WORTHWHILE", 0)
    file = tmp_path / "m.npz"
    screened = pdn.score(rows, k=150, sensitivity=False, save_model=file)
    assert screened.provenance["report"]["kernel"].startswith("screened")
    exact = pdn.score(rows, model=file, kernel="float32")
    assert exact.provenance["report"]["kernel"] == "float32"
    centroids = pdn.read_model(file).centroids
    np.testing.assert_array_equal(exact.clusters, kernels.nearest(_unit(rows), centroids)[0])
    np.testing.assert_array_equal(exact.values, screened.values)
    np.testing.assert_array_equal(exact.clusters, screened.clusters)
    with pytest.raises(PareError, match=r"unknown kernel 'int9'; available: .* Did you mean 'int8'\?"):
        pdn.score(rows, model=file, kernel="int9")


def test_a_kernel_that_is_not_here_is_refused_for_a_model(digits, tmp_path, monkeypatch) -> None:
    from paredown.clustering import kernels

    def no_gpu(centroids, rows):
        raise PareError("there is no GPU")

    monkeypatch.setitem(kernels.KERNELS, "cuda", no_gpu)
    file = tmp_path / "m.npz"
    pdn.score(digits[0], k=10, sensitivity=False, save_model=file)
    with pytest.raises(PareError, match=r"kernel 'cuda' does not run on this machine; leave it out"):
        pdn.score(digits[0], model=file, kernel="cuda")


def test_models_of_earlier_versions_open(tmp_path) -> None:
    """They hold the margin of their search beside its basis."""
    rows = np.random.default_rng(0).standard_normal((300, 120))
    file = tmp_path / "m.npz"
    pdn.score(rows, k=20, kernel="screened", sensitivity=False, save_model=file)
    with np.load(file) as saved:
        arrays = dict(saved)
    assert "margin" not in arrays
    old = tmp_path / "old.npz"
    np.savez(old, **arrays, margin=np.array(0.01, np.float32))
    new, again = pdn.score(rows, model=file), pdn.score(rows, model=old)
    assert again.provenance["report"]["kernel"].startswith("screened in ")
    np.testing.assert_array_equal(new.values, again.values)
    np.testing.assert_array_equal(new.clusters, again.clusters)


def _unit(rows: np.ndarray) -> np.ndarray:
    from paredown.sources import open_source

    return next(open_source(rows).batches()).vectors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 5}, r"fitted with k = 12, and k = 5 was given; leave k out"),
        ({"method": "full"}, r"fitted with method = sample, and method = full was given"),
        ({"metric": "density"}, r"model is of metric 'prototypes', but 'density' was given; leave out metric"),
        ({"neighbours": 3}, r"has no option 'neighbours'; its options: k, method"),
        ({"save_model": "x.npz"}, r"a given model is not fitted again; leave out save_model"),
        ({"start": "same"}, r"a given model is not fitted again; leave out start"),
    ],
)
def test_contradictions_are_named(options, message, digits, fitted) -> None:
    options = {name: fitted[0] if value == "same" else value for name, value in options.items()}
    with pytest.raises(PareError, match=message):
        pdn.score(digits[0], model=fitted[0], **options)
    assert pdn.score(digits[0], model=fitted[0], k=12, memory=2**20) is not None  # what agrees is accepted


def test_what_models_cannot_do_is_said(digits, fitted, tmp_path) -> None:
    with pytest.raises(PareError, match=r"array has embeddings of 63 dimensions, and the model was fitted to 64"):
        pdn.score(digits[0][:, :63], model=fitted[0])
    with pytest.raises(PareError, match=r"embeddings of 63 dimensions, and the model was fitted to 64"):
        pdn.score(digits[0][:, :63], start=fitted[0])
    with pytest.raises(PareError, match=r"centroids to start from are 12 of 64 dimensions, and k = 5"):
        pdn.score(digits[0], start=fitted[0], k=5)
    with pytest.raises(PareError, match=r"'typicality' cannot be saved; those that can: prototypes"):
        pdn.score(digits[0], metric="typicality", save_model=tmp_path / "t.npz")
    with pytest.raises(
        PareError, match=r"'k_center' has no centroids to start .* those that have: prototypes, density"
    ):
        pdn.score(digits[0], metric="k_center", start=fitted[0])
    with pytest.raises(PareError, match=r"already exists"):
        pdn.score(digits[0], save_model=fitted[0])
    np.save(tmp_path / "a.npy", digits[0])
    with pytest.raises(PareError, match=r"a model belongs to one source"):
        pdn.score([tmp_path / "a.npy", tmp_path / "a.npy"], model=fitted[0])
    with pytest.raises(PareError, match=r"these are already scores; leave out start"):
        pdn.prune(fitted[1], keep_fraction=0.5, scoring={"start": fitted[0]})
    with pytest.raises(PareError, match=r"these are already scores; leave out k, or give the data to score"):
        pdn.prune(fitted[1], keep_fraction=0.5, scoring={"k": 5})


def _changed(file, out, **changes):
    with np.load(file) as arrays:
        parts = {name: arrays[name] for name in arrays.files}
    parts.pop(changes.get("less"), None)
    record = json.loads(str(parts.pop("record"))) | changes
    np.savez(out, record=np.array(json.dumps(record)), **parts)
    return out


def test_files_that_are_no_models_are_refused(digits, fitted, tmp_path) -> None:
    with pytest.raises(PareError, match=r"none\.npz: there is no such file"):
        pdn.read_model(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("not a model")
    np.savez(tmp_path / "arrays.npz", centroids=digits[0][:3])
    np.save(tmp_path / "array.npy", digits[0][:3])
    np.savez(tmp_path / "pickled.npz", record=np.array([{}], dtype=object))
    (tmp_path / "cut.npz").write_bytes(fitted[0].read_bytes()[:3000])
    for name in ("text.npz", "arrays.npz", "array.npy", "pickled.npz", "cut.npz"):
        with pytest.raises(
            PareError, match=rf"{name}: (not a (readable )?model of paredown|record: it holds Python objects)"
        ):
            pdn.read_model(tmp_path / name)
    newer = _changed(fitted[0], tmp_path / "newer.npz", format_version=FORMAT_VERSION + 1)
    with pytest.raises(PareError, match=r"format version 2, and this paredown reads up to 1; update paredown"):
        pdn.read_model(newer)
    with pytest.raises(PareError, match=r"metric 'later', which this paredown cannot load"):
        pdn.read_model(_changed(fitted[0], tmp_path / "later.npz", metric="later"))
    with pytest.raises(PareError, match=r"not a readable model \(it lacks 'centroids'\). It is damaged; fit it again"):
        pdn.read_model(_changed(fitted[0], tmp_path / "less.npz", less="centroids"))


def test_a_killed_run_refuses_another_model(digits, fitted, tmp_path, monkeypatch) -> None:
    from paredown.scoring import scoring_job as fitting
    from paredown.sources import base

    monkeypatch.setattr(base, "BLOCK_BYTES", 32 * 64 * 4)
    monkeypatch.setattr(fitting, "_PART_BATCHES", 2)
    whole = pdn.score(digits[0], model=fitted[0], checkpoint=tmp_path / "parts", keep_checkpoint=True)  # as if killed
    assert whole.values.tobytes() == fitted[1].values.tobytes()
    with pytest.raises(PareError, match="unfinished run made with other settings: model was"):
        pdn.score(digits[0], checkpoint=tmp_path / "parts")


# --- the command line ----------------------------------------------------------------------------------------------


def test_models_on_the_command_line(paredown, digits, tmp_path) -> None:
    np.save("emb.npy", digits[0])
    done = paredown("score", "emb.npy", "-o", "s.parquet", "--k", 9, "--save-model", "m.npz")
    assert done.returncode == 0, done.stderr
    done = paredown("prune", "emb.npy", "-o", "pruned", "--model", "m.npz", "--json")
    assert done.returncode == 0, done.stderr
    model = pdn.read_model("m.npz")
    assert isinstance(model, FittedModel)
    assert json.loads(done.stdout)["model"]["fingerprint"] == model.fingerprint
    fitted = pdn.read_scores("s.parquet")
    assert pdn.read_scores("pruned").values.tobytes() == fitted.values.tobytes()
    done = paredown("score", "emb.npy", "-o", "w.parquet", "--warm-start", "m.npz", "--exact", "--json")
    assert json.loads(done.stdout)["report"]["k"] == 9
    assert "Scored with the model" in paredown("score", "emb.npy", "-o", "t.parquet", "--model", "m.npz").stdout
    for given in ("--model m.npz", "--k 5", "--option restarts=3", "--ids x.npy", "--encoder pixels", "--exact"):
        refused = paredown("prune", "s.parquet", "-o", "again", *given.split())
        assert refused.returncode == 2
        assert f"these are already scores; leave out {given.split()[0]}, or" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--exact", "--kernel", "int8"], "--exact means --kernel float32, but --kernel int8 was given"),
        (["--option", "restarts"], "--option is NAME=VALUE, such as restarts=3; got 'restarts'"),
        (["--option", "restart=3"], "metric 'prototypes' has no option 'restart'; its options: k, method,"),
        (["--option", "restarts=many"], "option 'restarts' of metric 'prototypes' is a whole number, got 'many'"),
        (["--option", "sensitivity=maybe"], "is true or false, got 'maybe'"),
        (["--option", "k=3"], "k has an option of its own: --k 3"),
        (["--option", "passes=1", "--option", "passes=2"], "--option passes was given twice"),
        (["--option", "method=half"], "unknown method of k-means 'half'; available: auto, full, hierarchical"),
        (["--model", "emb.npy"], "emb.npy: not a readable model of paredown"),
    ],
)
def test_mistakes_on_the_command_line(arguments, message, paredown, digits) -> None:
    np.save("emb.npy", digits[0][:50])
    done = paredown("score", "emb.npy", "-o", "s.parquet", *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_options_on_the_command_line(paredown, digits) -> None:
    np.save("emb.npy", digits[0][:300])
    chosen = ["restarts=2", "method=full", "passes=none", "sensitivity=no"]
    words = ["--exact", *(word for option in chosen for word in ("--option", option))]
    done = paredown("score", "emb.npy", "-o", "s.parquet", "--k", 4, *words, "--json")
    assert done.returncode == 0, done.stderr
    given = json.loads(done.stdout)["options"]
    expected = {"restarts": 2, "method": "full", "passes": None, "sensitivity": False, "kernel": "float32", "k": 4}
    assert expected.items() <= given.items()
    done = paredown("score", "emb.npy", "-o", "d.parquet", "--metric=density", "--option", "temperature=0.5", "--json")
    assert json.loads(done.stdout)["options"]["temperature"] == 0.5
