"""The main job as a user meets it: the command line, its output, its errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import paredown as pdn
from paredown.errors import PareError
from paredown.scores import Scores
from paredown.scoring.costs import estimate_scoring


@pytest.fixture
def embeddings(tmp_path, digits) -> Path:
    np.save(tmp_path / "emb.npy", digits[0])
    np.save(tmp_path / "labels.npy", digits[1])
    return tmp_path / "emb.npy"


def test_prune_writes_a_manifest_its_provenance_and_a_class_table(paredown, embeddings, tmp_path) -> None:
    result = paredown("prune", embeddings, "--labels", "labels.npy", "--keep-fraction", "0.8", "-o", "out")
    assert result.returncode == 0, result.stderr
    assert "Kept 1,438 of 1,797 examples" in result.stdout
    assert "1,797 examples x 64 dimensions; about" in result.stderr  # the estimate comes first
    assert "rank correlation" in result.stdout
    written = [".paredown", "classes.csv", "manifest.json", "manifest.parquet"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == written
    table = pq.read_table(tmp_path / "out" / "manifest.parquet")
    assert table.num_rows == 1797
    assert table["keep"].to_numpy().sum() == 1438
    provenance = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert provenance["metric"] == "prototypes"
    assert provenance["selection"]["balance"] == 0.5
    assert provenance["source"]["fingerprint"] == pdn.open_source(embeddings).fingerprint()
    rows = list(csv.DictReader((tmp_path / "out" / "classes.csv").read_text().splitlines()))
    assert sum(int(row["kept"]) for row in rows) == 1438
    assert [int(row["examples"]) for row in rows] == np.bincount(np.load(tmp_path / "labels.npy")).tolist()


def test_prune_agrees_with_the_python_functions(paredown, embeddings, tmp_path, digits) -> None:
    result = paredown("prune", embeddings, "--labels", "labels.npy", "--keep-fraction", "0.3", "-o", "out", "--json")
    report = json.loads(result.stdout)  # nothing but JSON on standard output
    scores = pdn.score(digits[0], metric="prototypes", labels=digits[1], seed=0)
    kept = pdn.select(scores, keep_fraction=0.3, balance=0.5)
    assert report["kept"] == len(kept) == 539
    assert report["balance_score"]["after"] == pytest.approx(pdn.balance_score(scores.labels[kept.keep]))
    np.testing.assert_array_equal(pdn.read_manifest(tmp_path / "out")[1], kept.keep)


def test_select_again_from_an_earlier_output(paredown, embeddings, tmp_path) -> None:
    assert paredown("score", embeddings, "--labels", "labels.npy", "-o", "scores.parquet").returncode == 0
    for source in ("scores.parquet", "out"):
        name = "out" if source == "scores.parquet" else "again"
        result = paredown("prune", source, "--keep-fraction", "0.5", "-o", name)
        assert result.returncode == 0, result.stderr
    first, second = (pdn.read_manifest(tmp_path / name)[1] for name in ("out", "again"))
    np.testing.assert_array_equal(first, second)
    direct = paredown("prune", embeddings, "--labels", "labels.npy", "--keep-fraction", "0.5", "-o", "direct")
    assert direct.returncode == 0
    np.testing.assert_array_equal(first, pdn.read_manifest(tmp_path / "direct")[1])


def test_prune_images_says_which_encoder(paredown, image_folder, tmp_path) -> None:
    result = paredown("prune", image_folder, "--keep-fraction", "0.5", "-o", "out", "--encoder", "pixels")
    assert result.returncode == 0, result.stderr
    assert "whitened PCA of 32 x 32 pixels" in result.stdout
    assert "a weak encoder" in result.stdout
    scores, keep = pdn.read_manifest(tmp_path / "out")
    assert keep.sum() == 30
    assert scores.ids[0].startswith("digit-0/")
    assert "whitened PCA" in scores.provenance["source"]["encoder"]


def test_random_needs_no_encoder(paredown, image_folder) -> None:
    result = paredown("prune", image_folder, "--metric", "random", "--keep-fraction", "0.5", "-o", "out")
    assert result.returncode == 0, result.stderr
    assert "PCA" not in result.stdout


def test_unreadable_images(paredown, image_folder, tmp_path) -> None:
    broken = sorted(image_folder.rglob("*.png"))[3]
    broken.write_bytes(broken.read_bytes()[:50])
    result = paredown("prune", image_folder, "-o", "out", "--encoder", "pixels")
    assert result.returncode == 2
    assert f"image {broken.relative_to(image_folder)} cannot be decoded" in result.stderr
    assert "--on-error skip" in result.stderr
    assert not (tmp_path / "out").exists()
    result = paredown("prune", image_folder, "-o", "out", "--encoder", "pixels", "--on-error", "skip")
    assert result.returncode == 0, result.stderr
    assert "Skipped 1:" in result.stdout
    assert broken.name in result.stdout
    assert len(pdn.read_manifest(tmp_path / "out")[0]) == 59


def test_ensemble_of_embeddings(paredown, embeddings, tmp_path, digits) -> None:
    np.save(tmp_path / "other.npy", digits[0] ** 2)
    result = paredown("prune", embeddings, "other.npy", "--balance", "0", "-o", "out", "--json")
    report = json.loads(result.stdout)
    assert len(report["ensemble"]) == 2
    members = [pdn.score(x, sensitivity=False).values for x in (digits[0], digits[0] ** 2)]
    np.testing.assert_allclose(pdn.read_scores(tmp_path / "out" / "manifest.parquet").values, np.mean(members, axis=0))


def test_single_example_class_is_kept_and_reported(paredown, tmp_path, rng) -> None:
    np.save(tmp_path / "emb.npy", rng.standard_normal((50, 4)))
    (tmp_path / "labels.txt").write_text("common\n" * 49 + "rare\n")
    result = paredown("prune", "emb.npy", "--labels", "labels.txt", "--keep-fraction", "0.1", "-o", "out")
    assert result.returncode == 0, result.stderr
    assert "1 class or cluster has a single example: rare" in result.stdout
    assert pdn.read_manifest(tmp_path / "out")[1][49]


BAD = [
    (["prune", "emb.npy", "-o", "out", "--keep-fraction", "0"], r"--keep-fraction must be in (0, 1], got 0"),
    (["prune", "emb.npy", "-o", "out", "--keep-fraction", "1.5"], r"--keep-fraction must be in (0, 1], got 1.5"),
    (["prune", "emb.npy", "-o", "out", "--balance", "1.1"], r"--balance must be in [0, 1], got 1.1"),
    (["prune", "emb.npy", "-o", "out", "--strategy", "hart"], r"unknown strategy 'hart'"),
    (["prune", "emb.npy", "-o", "out", "--metric", "el3n"], r"unknown metric 'el3n'; available: "),
    (
        ["prune", "emb.npy", "-o", "out", "--k", "5000"],
        r"k must be between 1 and the number of examples, 1797;",
    ),
    (["prune", "emb.npy", "-o", "out", "--labels", "short.txt"], r"there are 2 labels for 1797 examples"),
    (["prune", "emb.npy", "-o", "out", "--column", "label"], r"--column takes ROLE=NAME"),
    (["prune", "nan.npy", "-o", "out"], r"nan.npy: embedding row 5 holds NaN or infinite values"),
    (["prune", "zero.npy", "-o", "out"], r"zero.npy: embedding rows 2, 9 hold only zeros"),
    (["prune", "empty.npy", "-o", "out"], r"empty.npy: the source is empty"),
    (["prune", "cut.npy", "-o", "out"], r"cut.npy: truncated"),
    (["prune", "nowhere", "-o", "out"], r"nowhere: there is no such file or folder"),
    (
        ["prune", "emb.npy", "-o", "taken"],
        r"taken already exists; choose another output; paredown did not write it",
    ),
    (["prune", "emb.npy", "-o", "short.txt/out"], r"short.txt is not a folder"),
    (["prune", "emb.npy", "-o", "out", "--metric", "supervised_prototypes"], r"needs labels, but emb.npy has none"),
    (
        ["prune", "emb.npy", "-o", "out", "--encoder", "pixels", "--on-error", "no"],
        r"--on-error must be 'raise' or 'skip'",
    ),
    (["export", "nowhere", "-o", "out"], r"nowhere: there is no such file"),
    (["score", "nan.npy", "-o", "out.parquet"], r"nan.npy: embedding row 5"),
    (["score", "emb.npy", "-o", "out"], r"scores are written as Parquet; name the output out.parquet"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=lambda value: value if isinstance(value, str) else None)
def test_bad_input_is_one_clear_message(paredown, embeddings, tmp_path, digits, arguments, message) -> None:
    (tmp_path / "short.txt").write_text("a\nb\n")
    for name, rows, value in (("nan", [5], np.nan), ("zero", [2, 9], 0)):
        vectors = digits[0].copy()
        vectors[rows] = value
        np.save(tmp_path / f"{name}.npy", vectors)
    np.save(tmp_path / "empty.npy", digits[0][:0])
    (tmp_path / "cut.npy").write_bytes(embeddings.read_bytes()[:-1])
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "precious.txt").write_text("keep me")
    before = sorted(tmp_path.rglob("*"))
    result = paredown(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("error:") == 1
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before  # nothing written, nothing lost


def test_skip_leaves_out_bad_rows(paredown, tmp_path, digits) -> None:
    vectors = digits[0].copy()
    vectors[[2, 9]] = 0
    np.save(tmp_path / "zero.npy", vectors)
    result = paredown("prune", "zero.npy", "-o", "out", "--on-error", "skip")
    assert result.returncode == 0, result.stderr
    assert "Skipped 2:" in result.stdout
    assert len(pdn.read_manifest(tmp_path / "out")[0]) == 1795


def test_overwrite_replaces_the_whole_folder(paredown, embeddings, tmp_path) -> None:
    assert paredown("prune", embeddings, "--labels", "labels.npy", "-o", "out").returncode == 0
    assert (tmp_path / "out" / "classes.csv").exists()
    assert paredown("prune", embeddings, "-o", "out", "--metric", "random", "--overwrite").returncode == 0
    assert not (tmp_path / "out" / "classes.csv").exists()
    assert pdn.read_manifest(tmp_path / "out")[0].metric == "random"


def test_debug_shows_the_traceback(paredown) -> None:
    result = paredown("prune", "nowhere", "-o", "out", "--debug")
    assert result.returncode == 2
    assert "Traceback" in result.stderr


@pytest.mark.parametrize("verb", ["demo", "embed", "score", "prune", "export"])
def test_help_has_an_example(paredown, verb) -> None:
    result = paredown(verb, "--help")
    assert result.returncode == 0
    assert f"Example: paredown {verb}" in " ".join(result.stdout.split())


def test_class_table_by_hand() -> None:
    scores = Scores(np.array([0.1, 0.2, 0.3, 0.4, 0.9]), np.arange(5), labels=pdn.Labels.of(list("aaabb")))
    kept = pdn.select(scores, keep_fraction=0.4, balance=0)
    table, b = kept.class_table(), kept.balance_scores()
    assert table is not None
    assert table.to_pylist()[1] == {
        "class": "b",
        "examples": 2,
        "kept": 2,
        "kept_fraction": 1.0,
        "score_min": 0.4,
        "score_median": 0.9,
        "score_max": 0.9,
    }
    assert b == {"before": pytest.approx(2 / 3), "after": 0.0}


def test_estimate_counts_what_is_there(digits, image_folder, monkeypatch) -> None:
    monkeypatch.setattr("paredown.scoring.costs.peak_memory", lambda: 2**28)
    result = estimate_scoring(pdn.open_source(digits[0]))
    assert (result.examples, result.dim, result.k) == (1797, 64, 21)
    assert "1,797 examples x 64 dimensions; about" in str(result)
    assert result.seconds is not None
    assert result.seconds > 0
    assert estimate_scoring(pdn.open_source(image_folder)).examples == 60
    assert "60 examples; about 256.2 MiB of memory, about 1 s" in str(estimate_scoring(pdn.open_source(image_folder)))


@pytest.mark.parametrize(
    ("metric", "options", "part"),
    [
        ("typicality", {}, 2 * 256 / 1797),  # 256 rows against all, which are compared with each other once
        ("typicality", {"memory": 2 * 4 * 64 * 1000}, 256 / 1000),  # the reference holds 1000 rows
        ("k_center", {"most": 100}, 32 / 100),  # picks
        ("duplicates", {"k": 7}, 256 / 1797),  # a cluster of 256 rows against itself
    ],
)
def test_estimates_of_time_come_from_a_piece_of_the_work(metric, options, part, digits, monkeypatch) -> None:
    source = pdn.open_source(digits[0])
    work = pdn.METRICS[metric].work(source, **options)
    rows = next(source.batches()).vectors
    assert work.piece(rows) == pytest.approx(part)
    clock = iter(range(1000))
    monkeypatch.setattr("paredown.scoring.costs.time.perf_counter", lambda: next(clock))  # all takes a second
    seconds = estimate_scoring(source, metric=metric, **options).seconds
    products = sum(r / min(2048, 1797) * o / min(o, 2048) for r, o in work.products)
    assert seconds == pytest.approx(work.passes + products + 1 / part)


def test_estimate_measures_a_given_encoder(image_folder, monkeypatch) -> None:
    from paredown.embeddings.encoders import load_encoder

    calls = []
    monkeypatch.setattr("paredown.scoring.costs.peak_memory", lambda: 2**28 + 400 * len(calls))

    def eight_numbers(images):
        calls.append(len(images))
        return np.ones((len(images), 8))

    result = estimate_scoring(pdn.open_source(image_folder), encoder=load_encoder(eight_numbers))
    assert calls == [4, 8, 8]  # to load what is loaded once, to measure memory, and to measure time
    assert result.memory == 60 * (4 * 8 + 64) + 100 * (32 - 8)  # four images more took 400 bytes more; a batch has 32
    assert result.process == 2**28 + 1200
    assert result.seconds is not None
    assert result.seconds > 0


def test_pixel_pca_is_white_and_keeps_what_differs(rng) -> None:
    from paredown.embeddings.encoders.pixel_pca import fit_pixel_pca

    pixels = np.clip(rng.normal(128, 20, (500, 3072)) + 60 * rng.standard_normal((500, 1)), 0, 255).astype(np.uint8)
    encoded = fit_pixel_pca(pixels).encode(pixels)
    np.testing.assert_allclose(np.cov(encoded.T), np.eye(encoded.shape[1]), atol=0.02)
    brightness = pixels.mean(axis=1)
    assert abs(np.corrcoef(encoded[:, 0], brightness)[0, 1]) > 0.99  # the leading component is what varies most


def test_greyscale_palette_and_transparent_images_all_embed(tmp_path) -> None:
    for i, mode in enumerate(["L", "RGB", "RGBA", "P", "1", "LA"] * 2):
        Image.new("L", (9, 7), i * 20).convert(mode).save(tmp_path / f"{i}.png")
    Image.new("CMYK", (9, 7), (0, 100, 0, 0)).save(tmp_path / "x.jpg")
    assert len(pdn.score(tmp_path, k=2, sensitivity=False, encoder="pixels")) == 13


def test_a_table_of_scores_is_of_the_metric_that_is_named(paredown, tmp_path) -> None:
    scores = pdn.Scores(np.arange(10.0), np.arange(10), "aum")
    pdn.write_scores(scores, tmp_path / "s.parquet")
    said = "s.parquet holds scores by aum, not by el2n; leave out --metric, or give the data to be scored"
    for memory in ("1GiB", "1B"):
        refused = paredown("prune", "s.parquet", "--metric", "el2n", "--memory", memory, "-o", "out")
        assert refused.returncode == 2
        assert said in " ".join(refused.stderr.split())
        assert not (tmp_path / "out").exists()
    assert paredown("prune", "s.parquet", "--metric", "aum", "-o", "out").returncode == 0
    kept = paredown("prune", "s.parquet", "-o", "other")
    assert kept.returncode == 0
    assert "Manifest, with its provenance, written to other." in kept.stdout
    with pytest.raises(PareError, match="the data of these scores were never named; say where they are with source="):
        pdn.export(tmp_path / "out", to="paths", out=tmp_path / "paths.txt")


@pytest.mark.parametrize("given", ["0.5", True, None])
def test_fractions_are_numbers(given) -> None:
    with pytest.raises(PareError, match=f"keep_fraction must be a number, got {given!r}"):
        pdn.select(np.arange(4.0), keep_fraction=given)
