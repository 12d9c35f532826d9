"""Metrics that train networks: shared trainings, killed runs, and values against exact retraining."""

from __future__ import annotations

import numpy as np
import pytest

import paredown as pdn
from paredown.embeddings.encoders.pixel_pca import WEAK_ENCODER
from paredown.errors import PareError
from paredown.metrics import METRICS, probe_training
from paredown.metrics import subset_training as subsets
from paredown.metrics import watched_training as watching
from paredown.metrics.ddd import diverse_recipes, stratified_folds
from paredown.metrics.disagreement import misclassified
from paredown.metrics.probe_training import load_probes, member_seeds
from paredown.metrics.simple_classifiers import SIMPLE_CLASSIFIERS, judge_folds
from paredown.metrics.subset_estimates import estimate_memorization as memorization
from paredown.scoring import score_all
from paredown.scoring.costs import estimate_training, plan_trainings
from paredown.sources import ArraySource
from paredown.training import devices as torch_runtime
from paredown.training import find_recipe, train
from paredown.training.ensembles import train_ensemble

pytestmark = pytest.mark.usefixtures("one_torch_thread")

QUICK = find_recipe(
    "mlp",
    network_options={"hidden": (16,)},
    learning_rate=0.02,
    batch_size=64,
    epochs=4,
    probe_epochs=2,
    probe_steps=0,
    probe_members=3,
)


@pytest.fixture
def source(digits) -> ArraySource:
    return ArraySource(digits[0][:150], labels=digits[1][:150])


@pytest.fixture
def trainings(monkeypatch) -> list[dict]:
    """Every call of `train_ensemble` that a metric makes."""
    calls: list[dict] = []

    def watched(recipe, examples, **options):
        calls.append({"recipe": recipe, "seeds": list(options["seeds"]), **options})
        return train_ensemble(recipe, examples, **options)

    monkeypatch.setattr(probe_training, "train_ensemble", watched)
    return calls


def test_metrics_of_one_training_share_it(source, trainings) -> None:
    names = ["el2n", "active_learning", "forgetting", "aum", "memorization", "influence_max", "prototypes"]
    options = {"recipe": QUICK, "members": 20, "threads": 1}
    together = score_all(source, metrics=names, k=5, **options)
    assert together["prototypes"].provenance["report"]["k"] == 5
    lengths = [call["epochs"] for call in trainings]
    assert lengths == [2, 2, 4, 4, 4, 4]  # probes for a short and a whole training, models on subsets; in tens
    assert list(together) == names
    for name in ("el2n", "active_learning", "aum"):
        alone = pdn.score(source, metric=name, **options)
        assert alone.values.tobytes() == together[name].values.tobytes()
        assert alone.provenance["report"] == together[name].provenance["report"]
    assert together["el2n"].provenance["options"]["recipe"]["network_options"] == {"hidden": (16,)}


def test_el2n_is_the_mean_over_probes(source) -> None:
    """Against the loop, a recorder and numpy, one network at a time."""
    scores = pdn.score(source, metric="el2n", recipe=QUICK, threads=1, seed=4)
    probes = load_probes(source, QUICK, seed=4, pseudo_labels=False, k=None)
    total = np.zeros(150)
    for seed in member_seeds(4, 0, 3):
        recorder = pdn.Recorder(150, 10)
        train(QUICK, probes.examples, seed=seed, epochs=2, recorder=recorder)
        total += recorder.scores("el2n").values
    by_id = dict(zip(probes.examples.ids.tolist(), total / 3, strict=True))
    np.testing.assert_allclose(scores.values, [by_id[name] for name in scores.ids.tolist()], atol=1e-4)
    report = scores.provenance["report"]
    assert {"recipe": "mlp", "members": 3, "epochs": 2, "models": 3}.items() <= report.items()
    assert report.keys() >= {"split_half", "reliability"}


def test_active_learning_is_the_entropy_of_the_mean(source) -> None:
    scores = pdn.score(source, metric="active_learning", recipe=QUICK, threads=1, seed=4)
    probes = load_probes(source, QUICK, seed=4, pseudo_labels=False, k=None)
    logits = [train(QUICK, probes.examples, seed=s, epochs=2).logits(probes.examples) for s in member_seeds(4, 0, 3)]
    p = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    entropy = -(p.mean(axis=0) * np.log(p.mean(axis=0))).sum(axis=1)
    by_id = dict(zip(probes.examples.ids.tolist(), entropy, strict=True))
    np.testing.assert_allclose(scores.values, [by_id[name] for name in scores.ids.tolist()], atol=1e-4)


@pytest.mark.parametrize("metric", ["el2n", "memorization", "ddd"])
def test_a_killed_run_redoes_one_portion(metric: str, source, trainings, tmp_path, monkeypatch) -> None:
    options = {"recipe": QUICK, "threads": 1, "epochs": 1, "members": 3 if metric == "ddd" else 25}
    expected = pdn.score(source, metric=metric, **options)
    assert len(trainings) == 3
    through = probe_training.train_ensemble
    trainings.clear()

    def dies_in_the_third(*arguments, **named):
        if len(trainings) == 2:
            raise KeyboardInterrupt
        return through(*arguments, **named)

    monkeypatch.setattr(probe_training, "train_ensemble", dies_in_the_third)
    with pytest.raises(KeyboardInterrupt):
        pdn.score(source, metric=metric, checkpoint=tmp_path / "parts", **options)
    monkeypatch.setattr(probe_training, "train_ensemble", through)
    trainings.clear()
    with pytest.raises(PareError, match="other settings: seed was 0 and is now 1"):
        pdn.score(source, metric=metric, checkpoint=tmp_path / "parts", **options | {"seed": 1})
    again = pdn.score(source, metric=metric, checkpoint=tmp_path / "parts", **options)
    assert len(trainings) == 1
    assert again.values.tobytes() == expected.values.tobytes()
    assert not (tmp_path / "parts").exists()


def test_clusters_take_the_place_of_labels(digits) -> None:
    vectors = digits[0][:150]
    with pytest.raises(
        PareError,
        match=r"'el2n' needs labels, but array has none; .* clusters instead with pseudo_labels=True",
    ):
        pdn.score(vectors, metric="el2n")
    scores = pdn.score(vectors, metric="el2n", recipe=QUICK, pseudo_labels=True, k=5, threads=1)
    assert scores.provenance["report"]["pseudo_labels"] == 5
    assert scores.labels is None
    clusters = pdn.score(vectors, metric="prototypes", k=5, sensitivity=False).clusters
    given = pdn.score(vectors, metric="el2n", recipe=QUICK, labels=clusters, threads=1)
    assert given.values.tobytes() == scores.values.tobytes()


def test_memorization_agrees_with_leaving_one_out(rng) -> None:
    """Retraining without each of 20 examples, against models on random subsets: both find the four learnt by heart."""
    cores = np.concatenate([rng.normal([-1, 0], 0.2, (8, 2)), rng.normal([1, 0], 0.2, (8, 2))])
    vectors = np.concatenate([cores, [[-3, 2], [-3, -2], [3, 2], [3, -2]]])  # each beyond the other class
    labels = np.repeat([0, 1, 1, 0], [8, 8, 2, 2])
    recipe = find_recipe("mlp", network_options={"hidden": (64,)}, learning_rate=0.05, batch_size=64, epochs=40)
    source = ArraySource(vectors, labels=labels)
    probes = load_probes(source, recipe, seed=0, pseudo_labels=False, k=None)
    masks = np.tile(~np.eye(20, dtype=bool), (2, 1))  # two networks less each example
    ensemble = train_ensemble(recipe, probes.examples, seeds=range(40), masks=masks)
    exact = memorization(masks, ensemble.correct(probes.examples))[0]
    by_heart = probes.examples.ids >= 16
    np.testing.assert_allclose(exact, by_heart, atol=0.1)
    found = subsets.train_on_subsets(source, metrics=["memorization"], seed=0, recipe=recipe, members=40, threads=1)
    np.testing.assert_allclose(found["memorization"].values, exact, atol=0.4)
    assert found["memorization"].values[by_heart].min() > found["memorization"].values[~by_heart].max() + 0.3


def test_rare_twins_influence_each_other_most(rng) -> None:
    """Two like examples far from their class: each is the only help for the other. On a test set, a third like them."""
    cores = np.concatenate([rng.normal([-1, 0], 0.3, (14, 2)), rng.normal([1, 0], 0.3, (14, 2))])
    vectors = np.concatenate([cores, [[-4.0, 4.0], [-4.1, 4.1]]])
    labels = np.repeat([0, 1], [14, 16])
    recipe = find_recipe("mlp", network_options={"hidden": (32,)}, learning_rate=0.05, batch_size=64, epochs=20)
    options = {"seed": 0, "recipe": recipe, "members": 50, "threads": 1}
    names = ["influence_max", "influence_sum_abs"]
    source = ArraySource(vectors, labels=labels)
    tests = ArraySource(np.array([[-4.0, 3.9], [1.0, 1.0], [-1.0, 0.0]]), labels=np.array([1, 1, 0]))
    left_out, tested = (
        score_all(source, metrics=names, **options),
        score_all(source, metrics=names, test=tests, **options),
    )
    for name in names:
        for scores, where in ((left_out, "examples left out"), (tested, "3 test examples")):
            assert set(np.argsort(scores[name].values)[-2:]) == {28, 29}, (name, where)
            assert scores[name].provenance["report"]["measured_on"] == where


# --- ddd -----------------------------------------------------------------------------------------------------------


def test_ddd_counts_networks_that_did_not_see_the_example(source, trainings) -> None:
    scores = pdn.score(source, metric="ddd", recipe=QUICK, members=4, folds=3, threads=1)
    assert [len(call["seeds"]) for call in trainings] == [3] * 4
    shapes = [call["recipe"].network_options.get("hidden") for call in trainings]
    assert len(set(shapes)) == 4
    for call in trainings:
        assert (call["masks"].sum(axis=0) == 2).all()  # every example left out by exactly one
    wrong = np.zeros(150, int)
    probes = load_probes(source, QUICK, seed=0, pseudo_labels=False, k=None)
    for call in trainings:
        ensemble = train_ensemble(call["recipe"], probes.examples, seeds=call["seeds"], masks=call["masks"])
        judge = (~call["masks"]).argmax(axis=0)
        wrong += ~ensemble.correct(probes.examples)[judge, np.arange(150)]
    by_id = dict(zip(probes.examples.ids.tolist(), wrong, strict=True))
    np.testing.assert_array_equal(np.floor(scores.values), [by_id[name] for name in scores.ids.tolist()])
    assert len(set(scores.values)) > 100  # ties are broken
    np.testing.assert_allclose(np.mean(scores.provenance["report"]["accuracy"]), 1 - wrong.mean() / 4)


def test_mixed_ddd_counts_other_families_too(source, trainings) -> None:
    scores = pdn.score(source, metric="ddd", recipe=QUICK, members=5, folds=3, mixed=True, threads=1)
    assert len(trainings) == 2
    assert scores.provenance["report"]["members"][2:] == ["class_means", "discriminant", "neighbours"]
    probes = load_probes(source, QUICK, seed=0, pseudo_labels=False, k=None)
    examples, fold = probes.examples, stratified_folds(probes.examples.labels, 3)
    wrong = np.zeros(150, int)
    for call in trainings:
        ensemble = train_ensemble(call["recipe"], examples, seeds=call["seeds"], masks=call["masks"])
        wrong += ~ensemble.correct(examples)[fold, np.arange(150)]
    for name in SIMPLE_CLASSIFIERS:
        wrong += misclassified(judge_folds(name, examples.inputs, examples.labels, fold)[None], examples.labels)[0][0]
    by_id = dict(zip(examples.ids.tolist(), wrong, strict=True))
    np.testing.assert_array_equal(np.floor(scores.values), [by_id[name] for name in scores.ids.tolist()])
    options = METRICS["ddd"].options | {"mixed": True, "members": 5}
    assert len(METRICS["ddd"].trains(["ddd"], 1000, **options)) == 2


def test_kinds_of_network_differ() -> None:
    kinds = diverse_recipes(find_recipe("mlp"), 10)
    assert kinds[0].network_options["hidden"] == (128, 128)
    assert len({repr(kind) for kind in kinds}) == 10
    assert kinds[1].network == "linear"
    assert len({repr(kind) for kind in diverse_recipes(find_recipe("tiny_cnn"), 10)}) == 10
    assert diverse_recipes(find_recipe("resnet18"), 2) == [find_recipe("resnet18")] * 2
    assert diverse_recipes(find_recipe("linear"), 12)[10] == find_recipe("linear")


def test_folds_hold_every_class_alike() -> None:
    labels = np.array([0] * 7 + [1] * 5 + [2])
    fold = stratified_folds(labels, 3)
    assert np.ptp(np.bincount(fold)) <= 1
    for code in (0, 1):
        assert np.ptp(np.bincount(fold[labels == code], minlength=3)) <= 1
    with pytest.raises(PareError, match="5 folds need at least as many examples, and there are 3"):
        stratified_folds(labels[:3], 5)


# --- images, costs and mistakes ------------------------------------------------------------------------------------


def test_a_recipe_for_images_trains_on_images(image_folder) -> None:
    recipe = find_recipe("tiny_cnn", network_options={"width": 4}, image_size=8, batch_size=30, precision="float32")
    scores = pdn.score(image_folder, metric="el2n", recipe=recipe, members=2, epochs=1, threads=1)
    assert len(scores) == 60
    assert scores.provenance["source"]["kind"] == "image folder"  # not the embeddings of an encoder
    assert np.ptp(scores.values) > 0
    with pytest.raises(
        PareError, match="'grand' looks at the last layer's inputs, which only the recipes 'mlp' and 'linear'"
    ):
        pdn.score(image_folder, metric="grand", recipe=recipe)
    with pytest.raises(
        PareError, match="takes clusters of embeddings for labels, and recipe 'tiny_cnn' trains on images"
    ):
        pdn.score(image_folder, metric="el2n", recipe=recipe, pseudo_labels=True)


def test_images_are_embedded_for_a_recipe_of_features(image_folder) -> None:
    scores = pdn.score(image_folder, metric="el2n", recipe=QUICK, encoder="pixels", threads=1)
    assert len(scores) == 60
    assert WEAK_ENCODER in scores.provenance["warnings"]
    assert scores.provenance["source"]["encoder_name"] == "pixels"


def test_cost_counts_shared_trainings_once(source, monkeypatch) -> None:
    monkeypatch.setattr("paredown.scoring.costs.peak_memory", lambda: 2**28)
    plan = plan_trainings(["el2n", "grand", "forgetting", "memorization", "influence_max", "ddd"], 20_000)
    assert [(t.metrics, t.models, t.epochs, t.examples) for t in plan[:3]] == [
        (("el2n", "grand"), 10, 5, 20_000),
        (("forgetting",), 10, 20, 20_000),
        (("memorization", "influence_max"), 120, 20, 14_000),
    ]
    assert [(t.metrics, t.models, t.epochs, t.examples) for t in plan[3:]] == [(("ddd",), 5, 20, 16_000)] * 10
    cost = estimate_training(["el2n", "memorization"], source, recipe=QUICK, members=20, threads=1)
    assert cost.models == 40
    assert sum(training.models * training.epochs for training in cost.trainings) == 20 * 2 + 20 * 4
    assert 0 < cost.seconds < 60
    assert cost.memory == 2**28 + 4 * source.dim * len(source)
    assert str(cost).startswith("40 networks x 2 or 4 epochs; about 256")
    with pytest.raises(PareError, match="metric 'prototypes' trains nothing"):
        plan_trainings(["prototypes"], 10)


def test_options_of_shared_metrics() -> None:
    assert METRICS["el2n"].options.keys() == METRICS["forgetting"].options.keys()
    assert {"recipe", "members", "subset", "test"} < METRICS["memorization"].options.keys()
    assert "checkpoint" not in METRICS["ddd"].options
    assert METRICS["el2n"].needs_with({}) == ("embeddings", "labels", "training")
    assert METRICS["el2n"].needs_with({"recipe": "resnet18"}) == ("images", "labels", "training")
    assert METRICS["el2n"].needs_with({"pseudo_labels": True}) == ("embeddings", "training")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "el2n", "recipe": "mpl"}, r"unknown recipe 'mpl'; available: .* Did you mean 'mlp'"),
        ({"metric": "el2n", "members": 0}, r"members must be at least 1, got 0"),
        ({"metric": "el2n", "k": 3}, r"k is the number of clusters that take the place of labels; it needs pseudo"),
        ({"metric": "el2n", "threads": 0}, r"threads must be at least 1, got 0"),
        (
            {"metric": "el2n", "uncertainty": "mutual_information"},
            r"uncertainty is an option of metric 'active_learning'",
        ),
        ({"metric": "active_learning", "uncertainty": "doubt"}, r"unknown uncertainty 'doubt'"),
        ({"metric": "tdds", "epochs": 4}, r"'tdds' looks at windows of 10 epochs, got 4; train longer"),
        (
            {"metric": "memorization", "members": 3},
            r"3 models on subsets of 0.7 of 20 examples leave examples in, or out",
        ),
        ({"metric": "memorization", "subset": 1.0}, r"on a subset between 0 and 1"),
        ({"metric": "memorization", "test": "x.npy"}, r"test is an option of the influence metrics"),
        ({"metric": "influence_max", "test": "x.npy"}, r"x.npy: there is no such file"),
        ({"metric": "ddd", "mixed": True, "members": 3}, r"gives 3 of the members to classifiers of embeddings.*got 3"),
        ({"metric": "ddd", "folds": 1}, r"'ddd' needs at least 1 member, 2 folds and 1 epoch, got 10, 1 and None"),
        ({"metric": "el2n", "labels": [1] * 20}, r"training needs at least two classes, and all examples are of one"),
    ],
)
def test_bad_settings_are_named(options, message, rng) -> None:
    with pytest.raises(PareError, match=message):
        pdn.score(rng.standard_normal((20, 4)), **{"labels": np.arange(20) % 2} | options)


def test_unknown_options_of_several_metrics_are_named(source) -> None:
    with pytest.raises(PareError, match="none of the metrics el2n, random has an option 'kk'"):
        score_all(source, metrics=["el2n", "random"], kk=3)
    with pytest.raises(PareError, match=r"unknown metric 'el3n'.* Did you mean 'el2n'"):
        score_all(source, metrics=["el3n"])


def test_missing_torch_is_named(source, monkeypatch) -> None:
    monkeypatch.setattr(torch_runtime, "find_spec", lambda name: None)
    with pytest.raises(PareError, match=r"needs torch: pip install 'paredown\[train\]'"):
        pdn.score(source, metric="el2n")


def test_small_sets_get_more_epochs_for_as_many_steps() -> None:
    recipe = find_recipe("mlp", batch_size=100, probe_epochs=5, probe_steps=40, epochs=20)
    assert watching.epochs_of("el2n", recipe, 1000, None) == 5  # 50 steps
    assert watching.epochs_of("el2n", recipe, 250, None) == 14  # 3 steps an epoch
    assert watching.epochs_of("forgetting", recipe, 250, None) == 20
    assert watching.epochs_of("el2n", recipe, 250, 2) == 2


def test_k_beside_trained_metrics_is_that_of_the_prototypes(source) -> None:
    found = score_all(source, metrics=["el2n", "prototypes"], k=3, members=2, epochs=1, sensitivity=False)
    assert found["prototypes"].provenance["report"]["k"] == 3
    assert "k" not in found["el2n"].provenance["options"]


def test_of_shared_options_each_metric_takes_its_own() -> None:
    shared = {"k": 5, "epochs": 2, "neighbours": 3}
    assert METRICS["prototypes"].own_options(shared) == {"k": 5}
    assert METRICS["el2n"].own_options(shared) == {"epochs": 2}  # this k is the prototypes'
    shared["pseudo_labels"] = True
    assert METRICS["el2n"].own_options(shared) == {"k": 5, "epochs": 2, "pseudo_labels": True}
    assert METRICS["typicality"].own_options(shared) == {"neighbours": 3}
