"""Figures on transfer, out-of-distribution images and examples shown: numbers with known answers, and both verdicts."""

from __future__ import annotations

import base64
import csv
import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import paredown as pdn
from paredown.reproduce import ClaimVerdict, FigureTable
from paredown.reproduce import extreme_images as extremes
from paredown.reproduce.data_folders import Dataset
from paredown.reproduce.figures import fig4a, fig4b, fig6a, fig6bc, fig_extremes, fig_ood, fig_shape_bias
from paredown.reproduce.scaling import bound_points
from paredown.reproduce.setup import Setup, SharedScoring
from paredown.reproduce.stimuli import coarse_classes, hybrids, read_human_trials, read_stimuli
from paredown.reproduce.trained_networks import errors_above_full, open_network, penultimate_features
from paredown.scores import Labels
from paredown.sources import ArrayImages
from paredown.training import Examples, find_recipe, train

CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def held(claims) -> list[bool]:
    return [claim.held for claim in claims]


# --- shared parts --------------------------------------------------------------------------------------------------


def test_jobs_are_done_once_and_a_failure_keeps_the_others(tmp_path) -> None:
    setup = Setup("tiny", 0, tmp_path, workers=1)
    divide = "operator:truediv"
    assert setup.run(divide, [4, 8], common=1, label="dividing") == [0.25, 0.125]
    (file,) = [file for file in tmp_path.glob("jobs-*/*.json") if json.loads(file.read_text())["value"] == 0.25]
    file.write_text('{"value": 7}')
    with pytest.raises(pdn.PareError, match=r"dividing: 1 of 2 failed.*division by zero"):
        setup.run(divide, [4, 0, 2], common=1, label="dividing")
    assert len(list(tmp_path.glob("jobs-*/*.json"))) == 3
    assert setup.run(divide, [4, 2], common=1, label="dividing") == [7, 0.5]  # nothing was computed again


def test_scores_of_features_can_bear_the_ids_of_images(tmp_path) -> None:
    setup = Setup("tiny", 0, tmp_path, {"main": ("digits",)})
    data = setup.dataset(limit=100)
    ids = np.load(data.features_of_images()["ids"])
    assert ids.tolist() == [f"train/{row:06d}" for row in data.rows()]
    source = pdn.open_source(data.location)
    assert set(ids) <= set(source.ids.tolist())
    assert setup.dataset().features_of_images()["source"] == setup.dataset().features()["source"]


@pytest.fixture(scope="module")
def small_network():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    examples = Examples(images, np.arange(40) % 4, ("a", "b", "c", "d"), np.arange(40))
    # In float32, as a processor with bfloat16 would round to three digits.
    changes = {"network_options": {"width": 4}, "batch_size": 20, "precision": "float32"}
    return train(find_recipe("tiny_cnn", image_size=8, **changes), examples, steps=3), examples


def test_a_network_opened_again_says_the_same(small_network, tmp_path) -> None:
    trained, examples = small_network
    trained.save_weights(tmp_path / "weights.pt")
    again = open_network(trained.recipe, tmp_path / "weights.pt", classes=examples.classes, channels=3)
    np.testing.assert_allclose(again.logits(examples), trained.logits(examples), atol=1e-5)


def test_penultimate_features_are_what_the_last_layer_reads(small_network) -> None:
    trained, examples = small_network
    features = penultimate_features(trained, examples)
    weights = {name: value.detach().numpy() for name, value in list(trained.network.named_parameters())[-2:]}
    weight, bias = weights.values()
    np.testing.assert_allclose(features @ weight.T + bias, trained.logits(examples), atol=1e-4)


# --- transfer ------------------------------------------------------------------------------------------------------


def fine_tuned(hard: float) -> FigureTable:
    """Random subsets on a power law, the hardest tenth of the largest set as given."""
    table = FigureTable()
    rng = np.random.default_rng(0)
    for size in (1000, 10_000, 100_000):
        for fraction in (0.1, 0.3, 1.0):
            for seed in range(4):
                kept = round(size * fraction)
                for strategy in ("full",) if fraction == 1 else ("hard", "random"):
                    error = 3 * kept**-0.5 * (1 + 0.01 * rng.standard_normal())
                    error = hard * error if strategy == "hard" else error
                    row = {"initial_size": size, "keep_fraction": fraction, "kept": kept, "seed": seed}
                    table.add("network", data="made up", strategy=strategy, **row, test_error=error)
    return table


def test_where_the_initial_set_limits_fine_tuning_is_marked() -> None:
    """Of the smallest size only a tenth was tried, and of 30,000 only three tenths of the largest set."""
    scaling = fig4a.frontier_of(fine_tuned(hard=0.3))
    frontier, bound = scaling.where(kind="frontier"), bound_points(scaling)
    assert {100: 0.1, 30_000: 0.3}.items() <= dict(zip(*bound.columns("kept", "keep_fraction"), strict=True)).items()
    at = frontier.where(kept=300).rows[0]
    assert at["test_error"] == pytest.approx(0.3 * 3 * 300**-0.5, rel=0.02)
    assert len(bound_points(fig4a.frontier_of(fine_tuned(hard=1.5)))) == 0  # random subsets are the frontier


def test_fine_tuning_on_a_tenth_is_judged_by_the_whole() -> None:
    tenth, steeper = fig4a.judge(fine_tuned(hard=0.3))
    assert tenth.held
    expected = 3 * (0.3 * 10_000**-0.5 - 100_000**-0.5)
    assert tenth.values["difference"] == pytest.approx(expected, abs=3e-4)
    assert not steeper.held  # a lower curve with the same exponent
    tenth, steeper = fig4a.judge(fine_tuned(hard=1.0))
    assert tenth.verdict is ClaimVerdict.CONTRADICTED
    assert not steeper.held


@pytest.mark.parametrize(
    ("half", "verdict"),
    [(0.02, ClaimVerdict.HELD), (0.028, ClaimVerdict.CANNOT_TELL), (0.04, ClaimVerdict.CONTRADICTED)],
)
def test_pretraining_on_half_is_judged_by_seeds(half, verdict) -> None:
    table = FigureTable()
    for seed, shift in enumerate((-0.001, 0.0, 0.001)):
        common = {"data": "a", "target": "b", "tuned_on": 500, "seed": seed}
        table.add("network", **common, strategy="full", keep_fraction=1.0, test_error=0.02 + shift, probe_error=0.1)
        table.add("network", **common, strategy="none", keep_fraction=0.0, test_error=0.09 + 2 * shift)
        for strategy, error in (("hard", half - 3 * shift), ("random", 0.03)):
            table.add("network", **common, strategy=strategy, keep_fraction=0.5, test_error=error, probe_error=0.12)
    (claim,) = fig4b.judge(table)
    assert claim.verdict is verdict
    useless = FigureTable(row | {"test_error": 0.01} if row["strategy"] == "none" else row for row in table.rows)
    (nothing,) = fig4b.judge(useless)
    assert nothing.verdict is ClaimVerdict.NOT_TESTABLE
    unsure = [
        row | {"test_error": 0.03 + 0.03 * (row["seed"] - 1)} if row["strategy"] == "none" else row
        for row in table.rows
    ]
    assert fig4b.judge(FigureTable(unsure))[0].verdict is ClaimVerdict.CANNOT_TELL
    assert (claim.values["pretraining_helps"], nothing.values["pretraining_helps"]) == (True, False)
    assert claim.values["difference"] == pytest.approx(half - 0.02)
    assert claim.values["difference_stderr"] == pytest.approx(0.004 / np.sqrt(3))  # seeds differ by -4 shifts
    np.testing.assert_allclose(errors_above_full(table, "hard", 0.5, "probe_error"), 0.02)


# --- out of distribution -------------------------------------------------------------------------------------------


@pytest.fixture
def stimuli(tmp_path) -> Path:
    """Two images of each kind for cat and boat, and one of a class that CIFAR-10 has not."""
    files = ["edges/cat/cat1.png", "edges/cat/cat2.png", "edges/boat/boat1.png", "edges/oven/oven1.png"]
    files += [file.replace("edges", "filled-silhouettes") for file in files]
    files += [f"style-transfer-preprocessed-512/{name}" for name in ("cat/cat1-boat2.png", "cat/cat1-oven1.png")]
    files += ["style-transfer-preprocessed-512/boat/boat1-cat1.png"]
    for number, name in enumerate(files):
        file = tmp_path / "stimuli" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), (number, 100, 200)).save(file)
    return tmp_path / "stimuli"


def test_only_stimuli_of_known_classes_are_shown(stimuli) -> None:
    groups = coarse_classes(CIFAR10, stimuli)
    assert groups["boat"] == [8]
    assert groups["car"] == [1]
    assert len(groups) == 7
    edges, conflicts = (
        next(entry for entry in read_stimuli(stimuli, list(groups), size=10, channels=3) if entry.dataset == name)
        for name in ("edge", "cue-conflict")
    )
    assert edges.names == ["boat1.png", "cat1.png", "cat2.png"]
    assert edges.shapes == ["boat", "cat", "cat"]
    assert edges.images.shape == (3, 10, 10, 3)
    assert edges.images[1, 0, 0].tolist() == [0, 100, 200]
    assert conflicts.names == ["boat1-cat1.png", "cat1-boat2.png", "cat1-oven1.png"]
    assert conflicts.textures == ["cat", "boat", "oven"]


def test_other_classes_are_named_by_the_user(stimuli) -> None:
    wordnet = ["n02123045", "n02123159", "n04612504"]
    with pytest.raises(pdn.PareError, match=r"put a file classes.json into it"):
        coarse_classes(wordnet, stimuli)
    (stimuli / "classes.json").write_text(json.dumps({"cat": wordnet[:2], "boat": wordnet[2:], "oven": ["n1"]}))
    assert coarse_classes(wordnet, stimuli) == {"cat": [0, 1], "boat": [2]}
    assert coarse_classes(["0", "1"], None) == {"0": [0], "1": [1]}


def test_answers_of_humans_from_both_forms(stimuli, tmp_path) -> None:
    shown = read_stimuli(stimuli, ["cat", "boat"], size=4, channels=3)
    answers = [
        {
            "subj": f"subject-{who}",
            "object_response": said,
            "category": category,
            "imagename": f"0001_edg_s0{who}_0_{end}",
        }
        for who in ("01", "02")
        for said, category, end in (
            ("cat", "cat", "cat_00_cat1.png"),
            ("dog", "cat", "cat_00_cat2.png"),
            ("boat", "boat", "boat_00_boat1.png"),
            ("oven", "oven", "oven_00_oven1.png"),
        )
    ]
    for form in ("parquet", "csv"):
        folder = tmp_path / form
        folder.mkdir()
        if form == "parquet":
            pq.write_table(
                pa.Table.from_pylist([{**row, "dataset": "edge"} for row in answers]), folder / "responses.parquet"
            )
        else:
            for who in ("01", "02"):
                with (folder / f"edge_subject-{who}_session_1.csv").open("w", newline="") as stream:
                    writer = csv.DictWriter(stream, list(answers[0]))
                    writer.writeheader()
                    writer.writerows(row for row in answers if row["subj"].endswith(who))
        trials = read_human_trials(folder, shown)
        assert sorted(set(trials.image)) == ["boat1.png", "cat1.png", "cat2.png"]  # the oven is not shown
        assert len(trials) == 6
        assert trials.correct.sum() == 4
    with pytest.raises(pdn.PareError, match="no human answered"):
        read_human_trials(stimuli, shown)


def test_hybrids_mix_two_classes_and_keep_what_both_share() -> None:
    rng = np.random.default_rng(1)
    image = rng.integers(40, 200, (16, 16, 1), dtype=np.uint8)
    labels = np.arange(6) % 3
    mixed = hybrids(np.stack([image] * 6), labels, ["a", "b", "c"], seed=0)
    np.testing.assert_array_equal(mixed.images, np.stack([image] * 6))  # coarse + fine of the same image is the image
    assert mixed.textures is not None
    assert all(shape != texture for shape, texture in zip(mixed.shapes, mixed.textures, strict=True))
    flat = np.concatenate([np.full((1, 16, 16, 1), 100, np.uint8), np.full((1, 16, 16, 1), 180, np.uint8)])
    assert hybrids(flat, np.array([0, 1]), ["a", "b"], seed=0).images[:, 0, 0, 0].tolist() == [100, 180]


def asked(hard: float, easy: float, kappa: float) -> FigureTable:
    """Three seeds on two sets, one of which humans answered too."""
    table = FigureTable()
    for strategy, fraction, accuracy, consistency in (
        ("full", 1.0, 0.6, 0.2),
        ("hard", 0.5, hard, kappa),
        ("easy", 0.5, easy, 0.1),
        ("random", 0.5, 0.6, 0.2),
    ):
        for seed, shift in enumerate((-0.001, 0.0, 0.001)):
            way = {"strategy": strategy, "keep_fraction": fraction, "seed": seed}
            shift *= {"hard": -1, "easy": 0.5}.get(strategy, 1)
            table.add("network", **way, dataset="none", accuracy=0.99)
            table.add("network", **way, dataset="fog", accuracy=accuracy + shift)
            measures = {
                "accuracy_difference": 0.1,
                "observed_consistency": 0.6,
                "error_consistency": consistency + shift,
            }
            table.add("network", **way, dataset="edge", accuracy=accuracy - 0.2, **measures)
    table.add("humans", dataset="edge", accuracy=0.9, error_consistency=0.3)
    fig_ood.summarise(table)
    return table


def test_means_over_sets_are_compared_seed_by_seed() -> None:
    row = asked(0.5, 0.4, 0.2).where(kind="mean", strategy="hard").rows[0]
    assert row["accuracy"] == pytest.approx(0.4)  # of 0.5 and 0.3; clean images do not count
    assert row["accuracy_apart"] == pytest.approx(-0.1)
    assert row["accuracy_apart_stderr"] == pytest.approx(0.001 / np.sqrt(3))  # shifts of -0.001, 0, 0.001
    assert row["error_consistency"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("hard", "easy", "kappa", "verdicts"),
    [
        (0.63, 0.5, 0.25, [True, True, True]),
        (0.5, 0.6, 0.25, [False, False, True]),
        (0.7, 0.5, 0.1, [True, True, False]),
    ],
)
def test_robustness_is_judged_by_differences_to_everything(hard, easy, kappa, verdicts) -> None:
    assert held(fig_ood.judge(asked(hard, easy, kappa))) == verdicts


def decided(full: int, hard: int, easy: int, *, of: int) -> FigureTable:
    table = FigureTable()
    for strategy, fraction, shape in (("full", 1.0, full), ("hard", 0.5, hard), ("easy", 0.5, easy)):
        for seed in range(3):
            table.add(
                "all",
                stimuli="cue-conflict",
                strategy=strategy,
                keep_fraction=fraction,
                seed=seed,
                category="all",
                trials=2 * of,
                shape_decisions=shape,
                texture_decisions=of - shape,
            )
    return table


def test_shape_bias_needs_enough_stimuli_to_tell() -> None:
    few = fig_shape_bias.judge(decided(20, 25, 15, of=100))
    assert [claim.verdict for claim in few] == [ClaimVerdict.CANNOT_TELL] * 2
    assert all(claim.values["trials"] == 200 for claim in few)
    assert few[0].values["difference"] == pytest.approx(0.05)
    assert few[0].values["difference_stderr"] == pytest.approx(np.sqrt((0.2 * 0.8 + 0.25 * 0.75) / 100))
    assert held(fig_shape_bias.judge(decided(2000, 2500, 1500, of=10_000))) == [True, True]
    assert held(fig_shape_bias.judge(decided(2000, 1500, 2500, of=10_000))) == [False, False]


# --- clusters and examples -----------------------------------------------------------------------------------------


def test_spread_is_the_effective_number_of_clusters() -> None:
    assert fig6a.spread(np.array([5.0, 5, 5, 5, 0])) == pytest.approx(4)
    assert fig6a.spread(np.array([0.0, 3])) == pytest.approx(1)


def test_classes_have_names_without_the_images(tmp_path) -> None:
    """Of embeddings of CIFAR-10 alone the codes are known, and what they stand for."""
    (tmp_path / "given" / "cifar10_features").mkdir(parents=True)
    np.save(tmp_path / "labels.npy", np.array([3, 0, 9]))
    needs = {"main": ("cifar10_features",), "images": ("digits",)}
    setup = Setup("cpu", 0, tmp_path / "parts", needs, tmp_path / "given")
    scoring = SharedScoring({"labels": str(tmp_path / "labels.npy")}, ("prototypes",))
    names, codes = fig6a._classes(setup, scoring, np.array(["2", "0"]))
    assert [names[code] for code in codes] == ["truck", "cat"]


def test_heat_map_of_the_digits_is_a_distribution_in_every_row(tmp_path) -> None:
    needs = {role: by_size["tiny"] for role, by_size in fig6a.NEEDS.items()}
    table = fig6a.measure(Setup("tiny", 0, tmp_path, needs))
    assert len(table.where(kind="seed")) == fig6a.CLUSTERINGS
    cells, classes = table.where(kind="cell"), table.where(kind="class")
    clusters = cells["cluster"].astype(int)
    np.testing.assert_allclose(np.bincount(clusters, cells["probability"]), 1)
    labels = np.load(next(tmp_path.glob("data/digits-*/train_labels.npy")))
    assert classes["examples"].tolist() == np.bincount(labels).tolist()
    assert len(set(clusters)) == 20
    leaders = [cells.where(cluster=c).rows[int(np.argmax(cells.where(cluster=c)["probability"]))] for c in range(20)]
    assert [row["code"] for row in leaders] == sorted(row["code"] for row in leaders)  # a staircase
    aligned = table.where(kind="seed", seed=0).rows[0]["aligned"]
    assert aligned == pytest.approx(np.log(classes["spread"].min() / table.where(kind="chance").rows[0]["spread"]))
    assert fig6a.judge(table)[0].held
    blurred = FigureTable(row | {"aligned": -0.1 * row["seed"]} if row["kind"] == "seed" else row for row in table.rows)
    assert fig6a.judge(blurred)[0].verdict is ClaimVerdict.CONTRADICTED


@pytest.fixture
def scored() -> extremes.ImagesToShow:
    """Twelve grey images, each of one brightness, which is also its score; classes take turns."""
    pixels = np.repeat(np.arange(12, dtype=np.uint8), 16).reshape(12, 4, 4) * 20
    codes = np.arange(12) % 2
    images = ArrayImages(
        pixels, location="x", kind="x", files=(), ids=np.arange(12), labels=Labels.numbered(codes, ["even", "odd"])
    )
    order = np.arange(12)[::-1]  # scores need not be in the order of the images
    scores = pdn.Scores(order.astype(float), ids=np.arange(12), metric="prototypes")
    angles = np.where(order < 6, 0.0, 0.3 * order)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    data = Dataset("digits", None, Path())
    return extremes.ImagesToShow({"prototypes": scores}, order, codes[order], ("even", "odd"), images, vectors, data)


def test_classes_take_turns_with_the_scorings(scored, monkeypatch) -> None:
    turned = scored._replace(
        scores={"prototypes": replace(scored.scores["prototypes"], values=-scored.scores["prototypes"].values)}
    )
    monkeypatch.setattr(extremes.benchmark, "repeats", lambda _: [0, 1])
    monkeypatch.setattr(extremes, "find_images", lambda _setup, _metrics, repeat=0: turned if repeat else scored)
    table = FigureTable()
    extremes.add_each(table, None, ["prototypes"], [0, 1], shown=2)  # type: ignore[arg-type]
    first, second = table.where(kind="image", end="easy", rank=0)["score"]
    assert first == scored.scores["prototypes"].values[scored.codes == 0].min()
    assert second == -scored.scores["prototypes"].values[scored.codes == 1].max()


def test_active_learning_is_among_the_metrics_below_the_papers_size() -> None:
    assert extremes.SHOWN_TITLES["variation_ratio"] == "active learning"


def test_extremes_are_the_right_images_in_order(scored) -> None:
    table = FigureTable()
    extremes.add_extremes(table, scored, [1], shown=2)
    images = table.where(kind="image")
    assert images.where(end="easy")["row"].tolist() == [1, 3]
    assert images.where(end="hard")["row"].tolist() == [11, 9]
    assert images.where(end="hard")["score"].tolist() == [11, 9]
    first = Image.open(BytesIO(base64.b64decode(images.where(end="hard").rows[0]["picture"])))
    assert np.asarray(first).tolist() == [[220] * 4] * 4
    assert extremes.picture(images)[0, 0].tolist() == [20, 20, 20]
    row = table.where(kind="alike").rows[0]
    assert (row["easy"], row["hard"]) == (pytest.approx(1), pytest.approx(np.cos(0.6), abs=1e-6))


def test_likeness_is_judged_over_classes() -> None:
    def of(apart: float) -> FigureTable:
        table = FigureTable()
        for metric in ("prototypes", "memorization"):
            for number, spread in enumerate((-0.02, 0.0, 0.03, 0.01)):
                what = {"data": "made up", "metric": metric, "category": str(number)}
                table.add("alike", **what, examples=10, easy=0.5 + apart + spread, hard=0.5)
        return table

    for figure in (fig6bc, fig_extremes):
        assert held(figure.judge(of(0.2))) == [True]
        assert figure.judge(of(-0.2))[0].verdict is ClaimVerdict.CONTRADICTED
        assert figure.judge(of(0.0))[0].verdict is ClaimVerdict.CANNOT_TELL
    noisy = of(0.2)
    noisy.add("reliability", metric="memorization", reliability=0.1)
    assert len(fig_extremes.judge(noisy)[0].numbers) == 1
    assert "Left out as noise" in fig_extremes.judge(noisy)[0].evidence


def test_pictures_are_embedded_by_any_encoder() -> None:
    pictures = [Image.new("L", (6, 4), 10), Image.new("RGB", (3, 3), (0, 200, 0))]
    brightness = lambda images: np.stack([np.asarray(image).mean(axis=(0, 1)) for image in images])
    vectors = extremes.embed_pictures(pictures, encoder=brightness)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, [[3**-0.5] * 3, [0, 1, 0]], atol=1e-6)
