"""Cheap mistakes are found before expensive work: before an encoder is loaded, or a source opened or read."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paredown.cli import run as run_module
from paredown.errors import PareError, fraction_hint
from paredown.sources import Source

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def files(tmp_path: Path, image_folder: Path) -> Path:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((30, 4)))
    np.save(tmp_path / "y.npy", np.arange(30) % 3)
    np.save(tmp_path / "short.npy", np.arange(7))
    (tmp_path / "scores.parquet").write_bytes(b"not paredown's")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("someone's")
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "theirs.csv").write_text("id,score\n1,2\n")
    (tmp_path / "sweep.toml").write_text(
        '[data]\nsource = "x.npy"\nlabels = "y.npy"\ntest = "x.npy"\ntest_labels = "y.npy"\n'
    )
    data = 'source = "x.npy"\ntest = "x.npy"\n'
    grid = "[grid]\ninitial_size = [999]\nkeep_fraction = [0.5]\n"
    (tmp_path / "unlabelled.toml").write_text(f"[data]\n{data}{grid}")
    (tmp_path / "large.toml").write_text(f'[data]\n{data}labels = "y.npy"\ntest_labels = "y.npy"\n{grid}')
    return tmp_path


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """No encoder may be loaded, no source read, no picture looked at and no network trained."""

    def reached(*_: Any, **__: Any) -> None:
        raise AssertionError("expensive work was reached")

    for name in (
        "paredown.embeddings.encoders.load_encoder",
        "paredown.embeddings.embedding.load_encoder",
        "paredown.embeddings.encoders.simclr.train_simclr",
        "paredown.scoring.costs.estimate_scoring",
        "paredown.scoring.costs.estimate_training",
        "paredown.sweeps.sweeping.prepare_data",
        "paredown.demo.run_demo",
        "paredown.exporting.export_job.read_manifest",
        "paredown.scoring.imported_scores.import_scores",
        "paredown.reproduce.runner._make",
        "paredown.perceptron.simulation.draw_results",
    ):
        monkeypatch.setattr(name, reached, raising=not name.endswith("draw_results"))
    monkeypatch.setattr("paredown.sources.arrays.NpySource.batches", reached, raising=False)
    monkeypatch.setattr("paredown.sources.image_files.ImageFiles.images", reached, raising=False)


@pytest.fixture
def no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """No source may be opened either."""

    def reached(*_: Any, **__: Any) -> Source:
        raise AssertionError("a source was opened")

    monkeypatch.setattr("paredown.sources.open_source", reached)


SETTINGS = [
    ("prune images -o out --keep-fraction 80", "--keep-fraction must be in (0, 1], got 80. Did you mean 0.8?"),
    ("prune images -o out --keep-fraction 0", "--keep-fraction must be in (0, 1], got 0."),
    ("prune images -o out --strategy hrad", "Did you mean 'hard'?"),
    ("prune images -o out --balance 50", "--balance must be in [0, 1], got 50. Did you mean 0.5?"),
    ("prune images -o out --quota some", "unknown quota 'some'"),
    (
        "prune images -o out --quota equal --balance 0.3",
        "--quota equal fixes how many examples of each class are kept, so a floor (--balance 0.3) has no effect",
    ),
    ("prune images -o out --mix-random 2", "--mix-random must be in [0, 1], got 2."),
    ("prune images -o out --drop-hardest 0.1", "--drop-hardest 0.1 has no effect with --strategy hard; leave out one"),
    ("score images -o s.parquet --metric=", "unknown metric ''; available: "),
    ("prune images -o out --metric prototipes", "Did you mean 'prototypes'?"),
    ("prune images -o out --encoder dinno", "unknown encoder 'dinno'"),
    ("prune images -o out --encoder onnx:none.onnx", "onnx:none.onnx: there is no such file"),
    ("prune images -o out --memory lots", "a size is a number with a unit"),
    ("prune images -o out --option restarts", "--option is NAME=VALUE"),
    ("prune images -o out --option restart=3", "metric 'prototypes' has no option 'restart'"),
    ("prune images -o out --option restarts=x", "option 'restarts' of metric 'prototypes' is a whole number"),
    (
        "prune images -o out --metric el2n --option pseudo_labels=true",
        "pseudo_labels has an option of its own: --pseudo-labels.",
    ),
    ("prune images -o out --option k=5", "k has an option of its own: --k 5."),
    ("prune images -o out --metric el2n --recipe mpl", "Did you mean 'mlp'?"),
    ("prune images -o out --model none.npz", "none.npz"),
    ("prune images -o out --seed -1", "--seed must be a whole number"),
    ("prune images -o taken", "taken already exists"),
    ("prune images -o file/out", "is not a folder"),
    ("prune images -o file --overwrite", "file is a file, but a folder would be written there"),
    ("prune images -o out --keep-fracton 0.5", "--keep-fraction"),
    ("prnue images -o out", "error: no such command 'prnue'. Did you mean 'prune'?"),
    ("prune images", "error: missing option '-o'"),
    ("prune images -o out --keep-fraction half", "--keep-fraction must be a number, got 'half'."),
    ("score images -o s.parquet --k many", "--k must be a whole number, got 'many'."),
    ("score images -o s.parquet --epochs 3", "metric 'prototypes' has no option --epochs; its options: k"),
    ("score images -o s.parquet --pseudo-labels", "metric 'prototypes' has no option --pseudo-labels;"),
    ("embed images -o out --epochs 3", "--epochs 3 is for training an encoder; leave it out, or add --train-encoder"),
    ("embed images -o out --no-flip", "--no-flip is for training an encoder"),
    ("embed images -o out --encoder pixels --image-size 64", "its own size; leave out --image-size 64."),
    ("export x -o out --to hff", "Did you mean 'huggingface'?"),
    ("plan --rows 100 --dim 8 --k 101", "--k must be between 1 and the number of examples, 100; got 101."),
    ("compare x.parquet -o x.pdf", "unsupported file type '.pdf'; supported: .png, .html"),
    ("report x.parquet -o x.pdf", "a report is an HTML file; name it x.html"),
    ("compare x.parquet -o taken.png --strategy hrad", "Did you mean 'hard'?"),
    ("compare x.parquet --keep-fraction 80", "--keep-fraction must be in (0, 1], got 80. Did you mean 0.8?"),
    ("score images -o scores.parquet", "scores.parquet already exists"),
    ("score images -o scores.txt", "name the output scores.parquet"),
    ("score images -o s.parquet --metric el2m", "Did you mean 'el2n'?"),
    ("score images -o s.parquet --metric prototypes,el2m", "unknown metric 'el2m'"),
    ("score images -o s.parquet --metric prototypes,density --option folds=3", "has no option 'folds'"),
    ("score images -o s.parquet --metric prototypes,density --save-model m.npz", "--save-model works with one metric"),
    (
        "score images x.npy -o s.parquet --metric prototypes,density",
        "several sources are scored as an ensemble, by one metric",
    ),
    ("score images -o s.parquet --encoder swaw", "unknown encoder 'swaw'"),
    ("score -o s.parquet", "give something to score"),
    ("score --from theirs.csv -o s.parquet", "Give --higher-is harder"),
    ("score --from theirs.csv --higher-is hard -o s.parquet", "unknown value of --higher-is 'hard'"),
    ("score --from theirs.csv --higher-is harder -o s.parquet --k 5", "these are already scores; leave out --k"),
    ("score images x.npy --from theirs.csv --higher-is harder -o s.parquet", "scores belong to one source"),
    ("embed images -o out --encoder efficientnet", "unknown encoder 'efficientnet'"),
    ("embed images -o out --encoder resnet50:none.pt", "resnet50:none.pt: there is no such file"),
    ("embed images -o out --weights none.pt", "weights from a file go with timm:NAME"),
    ("embed images -o out --encoder timm:resnet18 --weights none.pt", "weights none.pt: there is no such file"),
    ("embed images -o out --image-size 3", "--image-size must be at least 8 pixels, got 3"),
    ("embed images -o out --runtime onix", "unknown runtime 'onix'"),
    ("embed images -o out --dtype int8", "--dtype must be 'float16' or 'float32', got 'int8'"),
    ("embed images -o out --shard-size 0", "--shard-size must be at least 1, got 0"),
    ("embed images -o out --workers 0", "--workers must be at least 1, got 0"),
    ("embed images -o out --train-encoder e.pt", "name it e.pt.onnx"),
    ("embed images -o out --train-encoder e.onnx --epochs 0", "--epochs must be at least 1, got 0"),
    ("embed images -o out --train-encoder e.onnx --encoder dino", "leave out --encoder dino"),
    ("embed images -o file", "file is a file, but a folder would be written there"),
    ("export none -o taken --to images", "taken already exists"),
    ("export none -o out --to imges", "Did you mean 'images'?"),
    ("export none -o out --to images --link soft", "unknown link 'soft'"),
    ("export none -o kept.npy --to ids", "one id per line, but the output is kept.npy; end its name in .txt."),
    ("export none -o kept.txt --to indices", "row numbers, for torch.utils.data.Subset, but the output is kept.txt"),
    ("export none -o kept.tar --to webdataset", "but the output is kept.tar; name a folder."),
    ("sweep sweep.toml -o file", "file is a file, but a folder would be written there"),
    ("sweep sweep.toml -o out --workers 0", "--workers must be at least 1, got 0"),
    ("reproduce fig1a -o out --workers 0", "--workers must be at least 1, got 0"),
    ("reproduce fig1aa -o out", "Did you mean 'fig1a'?"),
    ("reproduce fig1a -o file", "file is a file, but a folder would be written there"),
    ("demo -o file", "file is a file, but a folder would be written there"),
    ("demo --seed -1", "--seed must be at least 0, got -1"),
    ("theory --alpha-tot 10 --keep-fraction 80", "--keep-fraction must be in (0, 1], got 80. Did you mean 0.8?"),
    ("simulate --alpha-prune 2 --keep-fraction 80", "--keep-fraction must be in (0, 1], got 80. Did you mean 0.8?"),
    ("simulate --alpha-prune 2 --seed -1", "--seed must be at least 0, got -1"),
    (
        "simulate --alpha-prune 2 --theta 3 --probe trained",
        "--theta 3.0 was given with --probe trained, whose angle follows from its training. Leave it out and set "
        "--probe-epochs, or use --probe angle.",
    ),
    ("simulate --alpha-prune 2 --strategy window", "--strategy window was given without --window: a window belongs to"),
    (
        "simulate --alpha-prune 2 --strategy window --window .5 1 --keep-fraction .9",
        "of all examples, but --keep-fraction is 0.9",
    ),
    ("simulate --alpha-prune 0.001", "--alpha-prune 0.001 with --n-features 200 keeps no example"),
    ("theory --alpha-tot 3 --window 1 0.5", "--window must have 0 <= a < b, got (1, 0.5)"),
    ("theory --alpha-tot 3 --window .1 .2 --keep-fraction .5", "--keep-fraction is 0.5 but the window holds"),
    ("simulate --alpha-prune 2 --workers 0", "--workers must be at least 1, got 0"),
]
SOURCES = [
    ("prune images -o out --metric el2n --labels short.npy", "7"),
    ("prune x.npy -o out --metric el2n", "metric 'el2n' needs labels, but x.npy has none"),
    ("prune x.npy -o out --k 31", "k must be between 1 and the number of examples, 30; got 31"),
    ("prune images -o out --k 61", "k must be between 1 and the number of examples, 60; got 61"),
    ("prune x.npy -o out --labels short.npy", "7"),
    ("prune x.npy -o out --embeddings store", "these are already embeddings"),
    ("prune images -o out --metric random --embeddings store", "does not use embeddings"),
    ("prune images -o out --save-model file", "file already exists"),
    ("prune images -o out --on-error ignore", "--on-error must be 'raise' or 'skip'"),
    ("prune none.npy -o out", "none.npy: there is no such file"),
    ("score x.npy -o s.parquet --metric prototypes,el2n", "metric 'el2n' needs labels"),
    (
        "score x.npy -o s.parquet --metric el2n --labels y.npy --k 5 --recipe linear",
        "--k is the number of clusters that take the place of labels; it needs --pseudo-labels.",
    ),
    (
        "score x.npy -o s.parquet --metric el2n --pseudo-labels --recipe resnet18",
        "--pseudo-labels takes clusters of embeddings for labels, and recipe 'resnet18' trains on images",
    ),
    ("prune x.npy -o out --metric ddd --labels y.npy --recipe resnet18", "'resnet18' trains on images, and these are"),
    ("score x.npy -o s.parquet --metric influence_max --labels y.npy --option test=t", "t: there is no such file"),
    (
        "score x.npy -o s.parquet --metric influence_max --labels y.npy --option test=x.npy",
        "x.npy: influence is measured on examples with labels, and there are none",
    ),
    (
        "score x.npy -o s.parquet --metric memorization --labels y.npy --option test=x.npy",
        "--option test is an option of the influence metrics",
    ),
    (
        "score x.npy -o s.parquet --metric influence_max --pseudo-labels --option test=x.npy",
        "--option test names examples with labels, and --pseudo-labels means that there are none",
    ),
    (
        "prune x.npy -o out --metric memorization --labels y.npy --members 9 --epochs 2 --option closed_form=true",
        "--members and --epochs would have no effect: --option closed_form=true trains no networks; leave them out",
    ),
    (
        "score x.npy -o s.parquet --metric el2n --labels y.npy --option uncertainty=variation_ratio",
        "--option uncertainty is an option of metric 'active_learning'",
    ),
    (
        "score x.npy -o s.parquet --metric variation_ratio --labels y.npy --members 3",
        "3 models on subsets of 0.7 of 30",
    ),
    ("score x.npy -o s.parquet --k 0", "k must be between 1 and the number of examples, 30; got 0"),
    ("score images -o s.parquet --option restarts=0", "--option restarts must be at least 1, got 0"),
    ("score x.npy -o s.parquet --option passes=-1", "--option passes must be at least 0 with method 'sample', got -1"),
    (
        "score x.npy -o s.parquet --kernel float32 --option probes=3",
        "--option probes is for the approximate search, and --kernel float32 compares with all centroids",
    ),
    ("score x.npy -o s.parquet --option method=some", "unknown method of k-means 'some'"),
    ("score x.npy -o s.parquet --kernel some", "unknown kernel 'some'"),
    ("prune x.npy -o out --metric density --option temperature=0", "--option temperature above 0, got 20 and 0.0"),
    ("prune x.npy -o out --metric typicality --option neighbours=0", "--option neighbours must be at least 1, got 0"),
    ("prune x.npy -o out --metric duplicates --option threshold=3", "--option threshold is a cosine distance between"),
    ("prune x.npy -o out --metric k_center --option most=0", "--option most must be at least 1, got 0"),
    ("score images -o s.parquet --save-model file", "file already exists"),
    ("score images -o s.parquet --labels short.npy", "7"),
    ("embed images -o out --labels short.npy", "7"),
    ("embed x.npy -o out", "these are already embeddings"),
    ("sweep sweep.toml -o out", "grid"),
    ("sweep unlabelled.toml -o out", "x.npy has no labels, and a sweep measures accuracy; give [data] labels."),
    ("sweep large.toml -o out", "[grid] initial_size asks for 999 examples, and x.npy has 30; leave out the larger"),
    ("score x.npy -o s.parquet --column id=name", "x.npy: it has no columns to choose from; leave out --column."),
    ("score mnits:images -o s.parquet", "there is no such file or folder. Did you mean 'mnist:images'?"),
    (
        "score y.npy -o s.parquet --on-error skip",
        "read from it: y.npy: embeddings must be a (rows, dimensions)",
    ),
    ("plan x.npy --k 31", "--k must be between 1 and the number of examples, 30; got 31."),
]


def check_mistake(paredown: Any, files: Path, command: str, message: str) -> None:
    before = sorted(files.rglob("*"))
    result = paredown(*command.split())
    assert result.returncode == 2, result
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert sorted(files.rglob("*")) == before


@pytest.mark.usefixtures("no_work", "no_source")
@pytest.mark.parametrize(("command", "message"), SETTINGS, ids=lambda value: value)
def test_mistakes_in_settings_come_before_sources(command: str, message: str, paredown, files) -> None:
    check_mistake(paredown, files, command, message)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(("command", "message"), SOURCES, ids=lambda value: value)
def test_mistakes_about_sources_come_before_work(command: str, message: str, paredown, files) -> None:
    check_mistake(paredown, files, command, message)


@pytest.mark.usefixtures("no_work")
def test_the_stubs_are_reached_without_a_mistake(paredown, files) -> None:
    for command in ("prune images -o out --encoder swav", "embed images -o out --encoder swav", "export x -o out"):
        result = paredown(*command.split())
        assert result.returncode == run_module.BUG
        assert "expensive work was reached" in result.stderr


def test_fractions_above_one_may_be_percentages() -> None:
    assert fraction_hint(80) == " Did you mean 0.8?"
    assert fraction_hint(7.5) == " Did you mean 0.075?"
    assert [fraction_hint(given) for given in (0.5, 1, 1.2, 2, 101, -3)] == [""] * 6


def test_the_largest_seed_works(paredown, files) -> None:
    assert paredown("prune", "x.npy", "-o", "out", "--k", "2", "--seed", 2**63 - 1).returncode == 0
    assert paredown("prune", "x.npy", "-o", "out", "--k", "2", "--seed", 2**63).returncode == 2


def test_an_output_whose_name_is_not_utf8(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20, 3)))
    command = [sys.executable.encode(), b"-m", b"paredown", b"prune", b"x.npy", b"--k", b"2", b"-o", b"o\xff"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert result.returncode == 2
    assert rb"error: o\xff: the name of an output must be UTF-8" in result.stderr


# --- what nobody expected ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (PareError("what was wrong"), 2, "error: what was wrong\n"),
        (MemoryError(), 2, "error: there is not enough memory to make out"),
        (np.exceptions.DTypePromotionError("x"), 70, "internal error: DTypePromotionError: x"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2, "there is not enough memory"),
        (RuntimeError("CUDA out of memory."), 2, "there is not enough memory"),
        (OSError(errno.ENOSPC, "No space left", "/tmp/.out.x/part"), 2, "cannot write out: the disk is full"),
        (OSError(errno.EDQUOT, "Quota", "/tmp/.out.x/part"), 2, "cannot write out: the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied", "secret.npy"), 2, "error: secret.npy: Permission denied."),
        (KeyError("bug[/red]\x1b[8m"), 70, "This is a bug in paredown"),
        (RecursionError("deep"), 70, "internal error: RecursionError: deep"),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else "",
)
def test_one_message_whatever_happens(error, code, message, paredown, files, monkeypatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("paredown.pruning.score", fail)
    command = ["prune", "x.npy", "-o", "out"]
    result = paredown(*command)
    assert result.returncode == code
    assert message in result.stderr
    assert "/tmp/.out" not in result.stderr
    assert "Traceback" not in result.stderr
    assert "\x1b" not in result.stderr
    assert "Traceback" in paredown("--debug", *command).stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_a_full_disk_under_standard_output() -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "paredown", "theory", "--alpha-tot", "10", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 2
    assert "the disk is full" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments", [["--help"], ["theory", "--alpha-tot", "10"], ["theory", "--alpha-tot", "10", "--json"]]
)
def test_nobody_reads_what_is_printed(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-m", "paredown", *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, "")


def test_work_is_done_though_nobody_reads_the_result(files: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "paredown", "prune", "x.npy", "--k", "2", "-o", "out"]
    result = subprocess.run(command, cwd=files, stdout=writing, stderr=writing, check=False)
    os.close(writing)
    assert result.returncode == 0
    assert json.loads((files / "out" / "manifest.json").read_text())["selection"]["kept"] == 24


@pytest.mark.parametrize("verb", ["score", "prune"])
@pytest.mark.parametrize("where", [["--engine", "ray"], ["--shard", "1/2"]])
@pytest.mark.parametrize("more", [[], ["--encoder", "pixels"]])
def test_images_are_embedded_before_they_are_scored_on_a_cluster(paredown, image_folder, verb, where, more) -> None:
    if verb == "prune" and where[0] == "--shard":
        pytest.skip("prune has no shares")
    done = paredown(verb, image_folder, "-o", "out", *where, *more)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "images: these are images (folder of images), which are embedded before they are scored on a cluster" in said
    assert f"run `paredown embed {image_folder} -o EMBEDDINGS --engine ray`, or with --shard in place of it" in said


def test_an_unfinished_store_is_told_before_the_name_of_the_output(paredown, image_folder) -> None:
    embed = ["embed", image_folder, "-o", "em_sh", "--encoder", "pixels", "--shard-size", "20", "--shard", "1/2"]
    assert paredown(*embed).returncode == 0
    for more in ([], ["--engine", "ray"], ["--shard", "1/2"]):
        done = paredown("score", "em_sh", "-o", "em_s", *more)
        assert done.returncode == 2
        assert "em_sh: these embeddings are incomplete; run the same `paredown embed` command again first, or " in (
            " ".join(done.stderr.split())
        )
