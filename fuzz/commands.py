"""Every command that writes: a small start, what is run, and which of its outputs appear in one step."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np


class Command(NamedTuple):
    """One writing command under test; all of it happens in the current folder."""

    prepare: Callable[[], object]  # what is there before
    run: Callable[[], int]  # the command; its exit code
    whole: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # outputs in one step, and copies that may be missing
    check: Callable[[], object] = lambda: None  # of what a killed run left; raises if anybody could take it for whole
    marked: bool = True  # whether the outputs carry paredown's mark


def _cli(*arguments: str) -> Callable[[], int]:
    def run() -> int:
        from paredown.cli.run import run

        return run(list(arguments), debug=True)

    return run


def _done(function: Callable[[], object]) -> Callable[[], int]:
    """A call of the library, whose errors are told as the command line tells them."""

    def run() -> int:
        from paredown.errors import PareError

        try:
            function()
        except PareError as error:
            print(error, flush=True)
            return 2
        return 0

    return run


def _after(*steps: Callable[[], object]) -> Callable[[], None]:
    def prepare() -> None:
        for step in steps:
            done = step()
            assert done in (None, 0), f"the start could not be made: exit {done}"

    return prepare


# --- inputs ----------------------------------------------------------------------------------------------------------


def _vectors() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    np.save("x.npy", (rng.standard_normal((30, 6)) + 3 * np.eye(6)[labels]).astype(np.float32))
    np.save("y.npy", labels)


def _pictures() -> list[bytes]:
    from PIL import Image

    rng = np.random.default_rng(1)
    files = []
    for _ in range(8):
        stream = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (12, 12, 3), np.uint8)).save(stream, "PNG")
        files.append(stream.getvalue())
    return files


def _images() -> None:
    for number, data in enumerate(_pictures()):
        file = Path("photos", ("cat", "dog")[number % 2], f"{number}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def _tars() -> None:
    Path("tars").mkdir()
    pictures = _pictures()
    for shard in range(2):
        with tarfile.open(f"tars/{shard}.tar", "w") as tar:
            for number in range(4):
                parts = {".png": pictures[4 * shard + number], ".cls": str(number % 2).encode()}
                for suffix, data in parts.items():
                    info = tarfile.TarInfo(f"{shard}{number}{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def _scores_csv() -> None:
    Path("given.csv").write_text("id,score\n" + "".join(f"{row},{row * 37 % 30}\n" for row in range(30)))


_SCORE = ("score", "x.npy", "--labels", "y.npy")
_PRUNE = ("prune", "x.npy", "--labels", "y.npy", "--k", "3")
_SCORED = _after(_vectors, _cli(*_SCORE, "--k", "3", "-o", "scores.parquet"))
_PRUNED = _after(_vectors, _cli(*_PRUNE, "-o", "pruned"))
_HALF = ("--metric", "random", "--keep-fraction", "0.5", "-o", "pruned")
_SHARE = ("score", "x.npy", "--k", "3", "-o", "shared", "--shard")
_SHARED = _after(_vectors, lambda: _in_small_ranges(_cli(*_SHARE, "1/1"))())
_PHOTOS_PRUNED = _after(_images, _cli("prune", "photos", *_HALF))
_TARS_PRUNED = _after(_tars, _cli("prune", "tars", *_HALF))
_EMBED = ("embed", "photos", "--encoder", "pixels", "--shard-size", "3", "-o", "store")


def _half_embedded() -> None:
    """A store whose second shard and record were not written."""
    _after(_images, _cli(*_EMBED))()
    record = json.loads(Path("store/embed.json").read_text())
    for name in ("examples", "dim", "shards", "skipped", "sha256"):
        del record[name]
    Path("store/embed.json").write_text(json.dumps(record | {"complete": False}, indent=2) + "\n")
    Path("store/00001.npy").unlink()
    Path("store/notes.txt").write_text("mine")


# --- checks of what grows --------------------------------------------------------------------------------------------


def _store_is_whole_or_refused() -> None:
    from paredown.errors import PareError
    from paredown.sources import open_source

    for place in ("store", "kept"):
        if not Path(place).exists():
            continue
        try:
            source = open_source(place)
        except PareError:
            continue
        rows = sum(len(batch.ids) for batch in source.batches())  # type: ignore[attr-defined]
        assert rows == 8, f"a store of {rows} of 8 images is taken for a whole one"


def _in_small_ranges(*runs: Callable[[], int]) -> Callable[[], int]:
    """Runs one after the other that score a few rows at a time, of which the last ends as the command does."""

    def run() -> int:
        from paredown.sources import row_ranges

        row_ranges.rows_per_range = lambda dim, *, rows=0: 8
        for each in runs:
            if code := each():
                return code
        return 0

    return run


def _scores_are_whole_or_refused() -> None:
    from paredown.errors import PareError
    from paredown.score_files import read_scores

    if Path("shared").exists() and any(Path("shared").glob("*.parquet")):
        try:
            scores = read_scores("shared")
        except PareError:
            return
        assert len(scores) == 30, f"{len(scores)} of 30 scores are taken for all"


def _prune_in_shards(*options: str) -> Callable[[], int]:
    """`prune` as on a cluster, by jobs in this process: a manifest of several shards."""

    def run() -> int:
        import paredown.pruning
        from paredown.cli.run import run
        from paredown.engines import InProcess
        from paredown.selection import Limits

        class Parts(InProcess):
            workers = 3

        @contextmanager
        def here(*_: Any, **__: Any) -> Iterator[InProcess]:
            yield Parts()

        paredown.pruning.open_engine = here
        small = Limits(rows=8, candidates=20, cells=512, part=8)
        setattr(Limits, "__init__", lambda self, **_: self.__dict__.update(small.__dict__))  # noqa: B010 (a method, to the type checker)
        command = ["prune", "shared", "--engine", "ray", "-o", "pruned", *options]
        return run(command, debug=True)

    return run


# --- what is no command of the command line ---------------------------------------------------------------------------


def _record(seed: int) -> Callable[[], None]:
    def save() -> None:
        from paredown import Recorder

        rng = np.random.default_rng(seed)
        recorder = Recorder(20, 3)
        for epoch in range(2):
            recorder.update(np.arange(20), rng.standard_normal((20, 3)).astype(np.float32), np.arange(20) % 3, epoch)
        recorder.save("recording.npz")

    return save


def _write_model(metric: str) -> Callable[[], None]:
    def write() -> None:
        import paredown

        paredown.score("x.npy", metric=metric, labels=np.load("y.npy"), save_model="model.npz", overwrite=True)

    return write


def _train() -> None:
    from paredown import Recorder
    from paredown.sources import open_source
    from paredown.training import find_recipe, load_examples, train

    examples = load_examples(open_source("x.npy", labels=np.load("y.npy")), find_recipe("linear"))
    recorder = Recorder(30, 3)
    train("linear", examples, epochs=3, checkpoint="training", recorder=recorder)


def _save_weights() -> None:
    from paredown.sources import open_source
    from paredown.training import find_recipe, load_examples, train

    examples = load_examples(open_source("x.npy", labels=np.load("y.npy")), find_recipe("linear"))
    train("linear", examples, epochs=1).save_weights("weights.pt", overwrite=True)


def _jobs_here(function: str, jobs: list[Any], *, workers: int = 1, common: Any = None) -> Any:
    """Jobs in this process, one after another, as plain values."""
    from importlib import import_module

    from paredown.workers import Outcome

    module, _, name = function.partition(":")
    call = getattr(import_module(module), name)
    for number, job in enumerate(jobs):
        yield Outcome(number, call(json.loads(json.dumps(common)), json.loads(json.dumps(job))))


class _Means:
    """A student that needs no torch: the nearest class mean."""

    history = ()

    def __init__(self, examples: Any, rows: Any) -> None:
        labels = examples.labels[rows]
        self._means = np.stack([examples.inputs[rows][labels == code].mean(axis=0) for code in range(3)])

    def logits(self, test: Any) -> Any:
        return -np.square(test.inputs[:, None] - self._means).sum(axis=2)


def _sweep() -> None:
    from paredown.sweeps import jobs, sweep

    jobs.train = lambda recipe, examples, *, rows, **_: _Means(examples, rows)  # type: ignore[assignment]
    config = {
        "data": {"source": "x.npy", "labels": "y.npy", "test": "x.npy", "test_labels": "y.npy"},
        "grid": {"initial_size": [24], "keep_fraction": [0.5], "metric": ["prototypes"], "seeds": 1},
        "student": {"recipe": "linear", "steps": 2},
        "probe": {"k": 3},
    }
    sweep(config, out="swept", workers=1, engine=_jobs_here)


_FIGURE = "fig1e"


def _measure() -> None:
    """What the figure shows takes seconds to compute, and is computed once."""
    from importlib import import_module

    from paredown.reproduce.setup import Setup

    table = import_module(f"paredown.reproduce.figures.{_FIGURE}").measure(Setup("tiny", 0, Path("parts"), {}, None, 1))
    Path("measured.pickle").write_bytes(pickle.dumps(table))


def _square(common: int, job: int) -> int:
    return common * job * job


def _reproduce(*options: str) -> Callable[[], int]:
    """A figure that is measured already, with parts such as figures share, and drawn without matplotlib."""

    def measure(setup: Any) -> Any:
        from paredown.reproduce.setup import SharedScoring

        setup.score(SharedScoring({"source": "x.npy", "labels": "y.npy"}, ("prototypes", "random"), {"k": 3}))
        setup.run("commands:_square", [1, 2], common=3, label="squares")
        return pickle.loads(Path("measured.pickle").read_bytes())

    def run() -> int:
        from importlib import import_module

        from paredown.reproduce import setup

        figure: Any = import_module(f"paredown.reproduce.figures.{_FIGURE}")
        figure.measure, figure.draw = measure, lambda table, png: png.write_bytes(b"a picture")
        setup.run_jobs = _jobs_here  # type: ignore[assignment]
        return _cli("reproduce", _FIGURE, "--size", "tiny", "--workers", "1", "-o", "figures", *options)()

    return run


def _compare_on_digits() -> None:
    from paredown.demo import run_demo

    Path("compared.pickle").write_bytes(pickle.dumps([tuple(row) for row in run_demo(repeats=2, random_subsets=1)]))


def _demo() -> int:
    """The demo, measured already and drawn without matplotlib."""
    from paredown import demo
    from paredown.cli import demo_command as verb

    rows = [demo.DemoRow(*row) for row in pickle.loads(Path("compared.pickle").read_bytes())]
    demo.run_demo = lambda **_: rows  # type: ignore[assignment]
    verb._draw = lambda rows, path: path.write_bytes(b"a picture")  # type: ignore[assignment]
    return _cli("demo", "-o", "shown")()


_COMPARE = ("compare", "scores.parquet", "-o", "compared.png")
_COMPARABLE = _after(_vectors, _cli(*_SCORE, "--metric", "prototypes,supervised_prototypes", "-o", "scores.parquet"))


def _compare(*options: str) -> Callable[[], int]:
    """A comparison, drawn without matplotlib."""

    def run() -> int:
        from paredown import plots

        def draw(comparison: Any, path: Path) -> None:
            path.write_text(repr(comparison.to_dict()))

        plots.comparison_picture = draw
        return _cli(*_COMPARE, *options)()

    return run


def _with_pca(command: Callable[[], int]) -> Callable[[], int]:
    """A command whose map is made without PaCMAP, whose threads do not outlive a fork."""

    def run() -> int:
        from paredown import projection

        projection._FEWEST = 10**9
        return command()

    return run


_TABLE = {"scores.parquet": ("scores.json",)}

COMMANDS: dict[str, Command] = {
    "score": Command(_vectors, _cli(*_SCORE, "--k", "3", "-o", "scores.parquet"), _TABLE),
    "score-deep": Command(_vectors, _cli(*_SCORE, "--k", "3", "-o", "a/b/scores.parquet"), {"a/b/scores.parquet": ()}),
    "score-overwrite": Command(
        _after(_vectors, _cli(*_SCORE, "--metric", "random", "-o", "scores.parquet")),
        _cli(*_SCORE, "--k", "3", "--overwrite", "-o", "scores.parquet"),
        _TABLE,
    ),
    "score-several": Command(
        _vectors, _cli(*_SCORE, "--metric", "prototypes,supervised_prototypes", "-o", "scores.parquet"), _TABLE
    ),
    "score-save-model": Command(
        _vectors,
        _cli(*_SCORE, "--k", "3", "--save-model", "model.npz", "-o", "scores.parquet"),
        _TABLE | {"model.npz": ()},
    ),
    "score-from": Command(
        _after(_vectors, _scores_csv),
        _cli("score", "x.npy", "--from", "given.csv", "--higher-is", "harder", "-o", "scores.parquet"),
        _TABLE,
    ),
    "score-images": Command(
        _images,
        _cli("score", "photos", "--encoder", "pixels", "--k", "2", "--embeddings", "kept", "-o", "scores.parquet"),
        _TABLE,
        _store_is_whole_or_refused,
    ),
    "score-shares-merged": Command(
        _vectors,
        _in_small_ranges(_cli(*_SHARE, "2/2"), _cli(*_SHARE, "1/2"), _cli("merge", "shared")),
        check=_scores_are_whole_or_refused,
    ),
    "score-merge": Command(_SHARED, _in_small_ranges(_cli("merge", "shared")), check=_scores_are_whole_or_refused),
    "prune-shards": Command(_SHARED, _prune_in_shards(), {"pruned": ()}),
    "prune-shards-overwrite": Command(
        _after(_SHARED, _prune_in_shards()), _prune_in_shards("--seed", "1", "--overwrite"), {"pruned": ()}
    ),
    "prune": Command(_vectors, _cli(*_PRUNE, "-o", "pruned"), {"pruned": ()}),
    "prune-overwrite": Command(_PRUNED, _cli(*_PRUNE, "--seed", "1", "--overwrite", "-o", "pruned"), {"pruned": ()}),
    "prune-images": Command(
        _images, _cli("prune", "photos", "--encoder", "pixels", "--k", "2", "-o", "pruned"), {"pruned": ()}
    ),
    "prune-scores": Command(_SCORED, _cli("prune", "scores.parquet", "--memory", "1B", "-o", "pruned"), {"pruned": ()}),
    "prune-report": Command(
        _vectors,
        _with_pca(_cli(*_PRUNE, "--report", "report.html", "-o", "pruned")),
        {"pruned": (), "report.html": ()},
    ),
    "report": Command(_PRUNED, _cli("report", "pruned", "--map", "pca", "-o", "report.html"), {"report.html": ()}),
    "report-overwrite": Command(
        _after(_PRUNED, _cli("report", "pruned", "--map", "none", "-o", "report.html")),
        _cli("report", "pruned", "--map", "pca", "--overwrite", "-o", "report.html"),
        {"report.html": ()},
    ),
    "compare": Command(_COMPARABLE, _compare(), {"compared.png": ()}),
    "compare-overwrite": Command(
        _after(_COMPARABLE, _compare("--strategy", "easy")), _compare("--overwrite"), {"compared.png": ()}
    ),
    "embed": Command(_images, _cli(*_EMBED), check=_store_is_whole_or_refused),
    "embed-resumed": Command(_half_embedded, _cli(*_EMBED), check=_store_is_whole_or_refused),
    "embed-overwrite": Command(
        _after(_images, _cli(*_EMBED)), _cli(*_EMBED, "--dtype", "float32", "--overwrite"), {"store": ()}
    ),
    "export-ids": Command(_PRUNED, _cli("export", "pruned", "--to", "ids", "-o", "kept.txt"), {"kept.txt": ()}),
    "export-ids-overwrite": Command(
        _after(_PRUNED, _cli("export", "pruned", "--to", "indices", "-o", "kept")),
        _cli("export", "pruned", "--to", "ids", "--overwrite", "-o", "kept"),
        {"kept": ()},
    ),
    "export-indices": Command(_PRUNED, _cli("export", "pruned", "--to", "indices", "-o", "kept.npy"), {"kept.npy": ()}),
    "export-csv": Command(_PRUNED, _cli("export", "pruned", "--to", "csv", "-o", "all.csv"), {"all.csv": ()}),
    "export-atlas": Command(  # of few rows, which PCA lays out: the threads of PaCMAP do not survive a fork
        _after(_images, _cli(*_EMBED), _cli("prune", "store", *_HALF)),
        _cli("export", "pruned", "--to", "atlas", "-o", "atlas.parquet"),
        {"atlas.parquet": ()},
    ),
    "export-fiftyone": Command(_PHOTOS_PRUNED, _cli("export", "pruned", "--to", "fiftyone", "-o", "out"), {"out": ()}),
    "export-lightly": Command(_PHOTOS_PRUNED, _cli("export", "pruned", "--to", "lightly", "-o", "out"), {"out": ()}),
    "export-webdataset-of-images": Command(
        _PHOTOS_PRUNED, _cli("export", "pruned", "--to", "webdataset", "--shard-size", "2", "-o", "out"), {"out": ()}
    ),
    "export-images": Command(_PHOTOS_PRUNED, _cli("export", "pruned", "--to", "images", "-o", "out"), {"out": ()}),
    "export-images-overwrite": Command(
        _after(_PHOTOS_PRUNED, _cli("export", "pruned", "--to", "images", "--link", "symbolic", "-o", "out")),
        _cli("export", "pruned", "--to", "images", "--overwrite", "-o", "out"),
        {"out": ()},
    ),
    "export-webdataset": Command(
        _TARS_PRUNED, _cli("export", "pruned", "--to", "webdataset", "--shard-size", "2", "-o", "out"), {"out": ()}
    ),
    "export-webdataset-overwrite": Command(
        _after(_TARS_PRUNED, _cli("export", "pruned", "--to", "webdataset", "-o", "out")),
        _cli("export", "pruned", "--to", "webdataset", "--shard-size", "2", "--overwrite", "-o", "out"),
        {"out": ()},
    ),
    "recorder": Command(_record(0), _done(_record(1)), {"recording.npz": ()}),
    "model": Command(
        _after(_vectors, _write_model("supervised_prototypes")), _done(_write_model("prototypes")), {"model.npz": ()}
    ),
    "sweep": Command(_vectors, _done(_sweep), {"swept/results.parquet": ()}),
    "reproduce": Command(
        _after(_vectors, _measure), _reproduce(), {"figures/fig1e.png": (), "figures/fig1e.csv": ()}, marked=False
    ),
    "reproduce-overwrite": Command(
        _after(_vectors, _measure, _reproduce("--seed", "1")), _reproduce("--overwrite"), marked=False
    ),
    "demo": Command(_compare_on_digits, _demo, {"shown": ()}),
    "demo-again": Command(_after(_compare_on_digits, _demo), _demo, {"shown": ()}),
    "export-huggingface": Command(
        _PHOTOS_PRUNED,
        _cli("export", "pruned", "--to", "huggingface", "-o", "out"),
        {"out": ()},
    ),
    "export-huggingface-overwrite": Command(
        _after(_PHOTOS_PRUNED, _cli("export", "pruned", "--to", "images", "-o", "out")),
        _cli("export", "pruned", "--to", "huggingface", "--overwrite", "-o", "out"),
        {"out": ()},
    ),
    "train": Command(_vectors, _done(_train)),
    "weights": Command(_vectors, _done(_save_weights), {"weights.pt": ()}),
}
