"""Every kind of file that paredown reads: how to write a small valid one, and how to read all of it."""

from __future__ import annotations

import gzip
import io
import pickle
import shutil
import struct
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import mutations
import numpy as np
from mutations import Mutation


class Reader(NamedTuple):
    """One reader under test."""

    make: Callable[[Path], Path]  # writes a valid input into an empty folder
    read: Callable[[Path], bool]  # reads it all; True if it left something out as unreadable
    aware: tuple[tuple[str, Mutation], ...] = ()  # (file suffix, a mutation that knows the format)
    mutated: Callable[[Path], bool] = lambda file: True


_RNG = np.random.default_rng(0)
_VECTORS = _RNG.standard_normal((40, 6)).astype(np.float32)
_LABELS = np.arange(40) % 3
_IDS = [f"item-{row:03d}" for row in range(40)]


# --- what reading it all means ---------------------------------------------------------------------------------------


def _read_source(path: Path | str, **options: Any) -> bool:
    from paredown.sources import Skipped, VectorSource, open_source

    source = open_source(path, **options)
    source.provenance()
    if isinstance(source, VectorSource):
        for _ in source.batches():
            pass
        return False
    return sum(isinstance(image, Skipped) for image in source.images()) > 0  # type: ignore[union-attr]


def _read_column(path: Path) -> bool:
    from paredown.sources import ArraySource, load_column

    column = load_column(path)
    ArraySource(_VECTORS, ids=column)
    return False


def _read_labels(path: Path) -> bool:
    from paredown.sources import ArraySource, load_column

    ArraySource(_VECTORS, labels=load_column(path))
    return False


def _import_scores(path: Path) -> bool:
    from paredown.scoring.imported_scores import import_scores

    import_scores(path, higher_is="harder")
    return False


def _read_scores(path: Path) -> bool:
    from paredown.score_files import is_scores, read_scores

    is_scores(path)
    read_scores(path)
    return False


def _read_manifest(path: Path) -> bool:
    from paredown.score_files import read_manifest

    read_manifest(path)
    return False


def _stream_scores(path: Path) -> bool:
    from paredown.selection.streamed import open_table, select_streamed

    select_streamed(open_table(path), keep_fraction=0.5).ids  # noqa: B018 - which reads them
    return False


def _sample_scores(path: Path) -> bool:
    from paredown.score_table import read_sample

    read_sample(path, most=20)
    return False


def _verify(path: Path) -> bool:
    from paredown.verifying import verify

    return bool(verify(path).problems)


def _stream_shards(path: Path) -> bool:
    """All that reads a manifest of shards, which must not take what is left of it for all of it."""
    from paredown.score_files import read_manifest

    scores, _ = read_manifest(path)
    assert len(scores) == 40, f"{len(scores)} of 40 rows are taken for all"
    return _stream_scores(path) or _sample_scores(path) or _describe(path)


def _read_folder(path: Path) -> bool:
    from paredown.score_files import read_scores

    assert len(read_scores(path)) == 40, "some rows are taken for all"
    return _describe(path)


def _prune_again(path: Path) -> bool:
    """The same prune again, which finds the manifest whole, or says what is damaged and makes it anew."""
    from paredown.files import damages

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        copy = shutil.copytree(path, Path(folder, "x"))
        whole = not damages(copy)
        with _small_parts():
            try:
                _prune_in_shards(path.parent / "table", copy, overwrite=False)
            finally:
                _prune_in_shards(path.parent / "table", copy, overwrite=True)
        assert not _verify(copy), "what was made again is not whole"
        return not whole


def _merge_again(path: Path) -> bool:
    """The merge of shares, and the same shares again, which mend whatever is damaged."""
    from paredown.errors import PareError
    from paredown.scoring.ranged_scoring import merge, score_ranges

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, _small_parts():
        copy, merged = shutil.copytree(path, Path(folder, "x")), True
        with suppress(FileNotFoundError):
            (copy / "_complete.json").unlink()
        try:
            assert len(merge(copy)) == 40
        except PareError:
            merged = False
        score_ranges(path.parent / "e.npy", out=copy, k=3, shard="1/1", trust_source=True)
        assert len(merge(copy)) == 40
        return not merged


def _describe(path: Path) -> bool:
    from paredown.describing import info

    info(path).introduce()
    return False


def _report(path: Path) -> bool:
    from paredown.report import write_report

    out = path.parent / "report.html"
    write_report(path, out, overwrite=out.exists())
    return False


def _compare(path: Path) -> bool:
    from paredown.comparison import compare
    from paredown.report.comparison_page import comparison_page, disputed_pictures

    found = compare(path, {"other": _VECTORS[:, 1]}, ids=_IDS)
    comparison_page(found, disputed_pictures(found, [path]))
    return False


def _read_model(path: Path) -> bool:
    import paredown

    paredown.score(_VECTORS, model=path)
    return False


def _read_recording(path: Path) -> bool:
    from paredown import Recorder

    recorder = Recorder.load(path)
    recorder.scores("el2n")
    recorder.merge(Recorder.load(path.parent / "other" / "whole.npz"))
    return False


def _read_checkpoint(path: Path) -> bool:
    from paredown.embeddings.encoders.weights import read_checkpoint

    read_checkpoint(path)
    return False


def _read_pixel_encoder(path: Path) -> bool:
    from paredown.embeddings.encoders.pixel_pca import _load

    _load(path, 0)
    return False


def _read_onnx(path: Path) -> bool:
    from paredown.embeddings.encoders.inference import onnx_file, read_training

    read_training(path)
    onnx_file(path)
    return False


def _read_sweep(path: Path) -> bool:
    from paredown.sweeps.settings import read_settings

    read_settings(path)
    return False


# --- valid inputs ----------------------------------------------------------------------------------------------------


def _npy(folder: Path) -> Path:
    np.save(folder / "x.npy", _VECTORS)
    return folder / "x.npy"


def _npz(folder: Path) -> Path:
    np.savez(folder / "x.npz", embeddings=_VECTORS, ids=np.array(_IDS), labels=_LABELS)
    return folder / "x.npz"


def _shards(folder: Path) -> Path:
    (folder / "x").mkdir()
    for number in range(2):
        np.save(folder / "x" / f"part-{number}.npy", _VECTORS[20 * number : 20 * number + 20])
    np.save(folder / "x" / "ids.npy", np.array(_IDS))
    np.save(folder / "x" / "labels.npy", _LABELS)
    return folder / "x"


def _store(folder: Path) -> Path:
    import paredown

    paredown.embed(_image_folder(folder / "source"), out=folder / "x", encoder="pixels", shard_size=6)
    return folder / "x"


def _parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "x").mkdir()
    for number in range(2):
        rows = slice(20 * number, 20 * number + 20)
        table = pa.table({"id": _IDS[rows], "embedding": _VECTORS[rows].tolist(), "label": _LABELS[rows]})
        pq.write_table(table, folder / "x" / f"{number}.parquet", compression=("zstd", "none")[number])
    return folder / "x"


def _image_list(folder: Path) -> dict[str, Any]:
    images = _image_folder(folder)
    names = sorted(file.relative_to(folder).as_posix() for file in images.rglob("*.*"))
    return {"id": [f"i{row}" for row in range(len(names))], "path": names, "label": ["a", "b"] * (len(names) // 2)}


def _parquet_list(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(_image_list(folder)), folder / "x.parquet")
    return folder / "x.parquet"


def _csv_list(folder: Path) -> Path:
    columns = _image_list(folder)
    lines = [",".join(columns), *(",".join(row) for row in zip(*columns.values(), strict=True))]
    (folder / "x.csv").write_text("\n".join(lines) + "\n")
    return folder / "x.csv"


def _image_folder(folder: Path) -> Path:
    from PIL import Image

    modes = {
        "png": "RGBA",
        "jpg": "RGB",
        "gif": "P",
        "bmp": "RGB",
        "tif": "RGB",
        "webp": "RGB",
        "ppm": "RGB",
        "pgm": "L",
    }
    for number, (suffix, mode) in enumerate(modes.items()):
        pixels = np.random.default_rng(number).integers(0, 256, (12, 10, 3), dtype=np.uint8)
        file = folder / "images" / f"class-{number % 2}" / f"{number}.{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).convert(mode).save(file)
    return folder / "images"


def _encoded(number: int, suffix: str) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.full((8, 8), number, np.uint8)).save(stream, suffix)
    return stream.getvalue()


def _tar(folder: Path) -> Path:
    (folder / "x").mkdir()
    for shard in range(2):
        with tarfile.open(
            folder / "x" / f"{shard}.tar", "w", format=(tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)[shard]
        ) as tar:
            for number in range(4):
                name = f"{'long/' * 25 * (number == 2)}{shard}-{number}ä"
                for suffix, data in ((".png", _encoded(number, "PNG")), (".cls", b"12"[number % 2 : number % 2 + 1])):
                    info = tarfile.TarInfo(name + suffix)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return folder / "x"


def _hf_images(folder: Path) -> Path:
    import datasets

    datasets.disable_progress_bars()
    features = datasets.Features(
        {"id": datasets.Value("string"), "image": datasets.Image(), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    images = [{"bytes": _encoded(row, "PNG"), "path": None} for row in range(10)]
    rows = {"id": _IDS[:10], "image": images, "label": [0, 1] * 5}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(folder / "x")
    return folder / "x"


def _hf_vectors(folder: Path) -> Path:
    import datasets

    datasets.disable_progress_bars()
    rows = {"id": _IDS, "embedding": _VECTORS.tolist(), "label": _LABELS.tolist()}
    datasets.DatasetDict({"train": datasets.Dataset.from_dict(rows)}).save_to_disk(folder / "x")
    return folder / "x"


def _idx(array: np.ndarray) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()
    )


def _mnist(folder: Path, *, packed: bool = False) -> Path:
    (folder / "x").mkdir()
    for stem, array in (("images-idx3", _RNG.integers(0, 256, (10, 8, 8))), ("labels-idx1", np.arange(10))):
        name = f"train-{stem}-ubyte{'.gz' * packed}"
        (folder / "x" / name).write_bytes(gzip.compress(_idx(array)) if packed else _idx(array))
    return folder / "x"


def _cifar10(folder: Path, *, binary: bool = False) -> Path:
    (folder / "x").mkdir()
    for number in range(1, 6):
        pixels = np.random.default_rng(number).integers(0, 256, (2, 3072), dtype=np.uint8)
        file = folder / "x" / f"data_batch_{number}"
        if binary:
            file.with_suffix(".bin").write_bytes(np.hstack([np.full((2, 1), number, np.uint8), pixels]).tobytes())
        else:
            content = {b"batch_label": b"one", b"labels": [number, 3], b"data": pixels, b"filenames": [b"a", b"b"]}
            file.write_bytes(pickle.dumps(content, protocol=number - 1))
    return folder / "x"


def _cifar100(folder: Path) -> Path:
    (folder / "x").mkdir()
    pixels = np.zeros((2, 3072), np.uint8)
    content = {b"data": pixels, b"fine_labels": [3, 99], b"coarse_labels": [1, 2]}
    (folder / "x" / "train").write_bytes(pickle.dumps(content, protocol=2))
    names = [f"thing{number}".encode() for number in range(100)]
    (folder / "x" / "meta").write_bytes(pickle.dumps({b"fine_label_names": names}, protocol=2))
    return folder / "x"


def _svhn(folder: Path, *, packed: bool) -> Path:
    from scipy.io import savemat

    (folder / "x").mkdir()
    content = {"X": _RNG.integers(0, 256, (8, 8, 3, 4), dtype=np.uint8), "y": np.array([[1], [10], [3], [2]], np.uint8)}
    savemat(folder / "x" / "train_32x32.mat", content, do_compression=packed)
    return folder / "x"


def _column(folder: Path) -> Path:
    np.save(folder / "x.npy", np.array(_IDS))
    return folder / "x.npy"


def _text_column(folder: Path) -> Path:
    (folder / "x.txt").write_text("".join(f"{row + 5}\n" for row in range(40)))
    return folder / "x.txt"


def _score_csv(folder: Path) -> Path:
    rows = [f"{name},{value},{label}" for name, value, label in zip(_IDS, _VECTORS[:, 0], _LABELS, strict=True)]
    (folder / "x.csv").write_text("\n".join(["image name,score,label", *rows]) + "\n")
    return folder / "x.csv"


def _score_npy(folder: Path) -> Path:
    np.save(folder / "x.npy", _VECTORS[:, 0])
    return folder / "x.npy"


def _score_npz(folder: Path) -> Path:
    np.savez_compressed(folder / "x.npz", score=_VECTORS[:, 0], ids=np.array(_IDS), labels=_LABELS)
    return folder / "x.npz"


def _score_pt(folder: Path) -> Path:
    import torch

    torch.save({"score": torch.tensor(_VECTORS[:, 0]), "ids": torch.arange(40)}, folder / "x.pt")
    return folder / "x.pt"


def _some_scores() -> Any:
    from paredown.scores import Labels, Scores

    return Scores(_VECTORS[:, 0], np.array(_IDS), labels=Labels.of(_LABELS), clusters=_LABELS)


def _scores(folder: Path) -> Path:
    import paredown

    paredown.write_scores(_some_scores(), folder / "x.parquet")
    return folder / "x.parquet"


def _foreign_scores(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"id": np.arange(40) + 7, "score": _VECTORS[:, 0], "label": _LABELS})
    pq.write_table(table, folder / "x.parquet", row_group_size=20)
    return folder / "x.parquet"


def _read_info(path: Path) -> bool:
    import paredown

    repr(paredown.info(path))
    return False


def _manifest(folder: Path) -> Path:
    import paredown

    paredown.prune(_scores(folder), keep_fraction=0.5, out=folder / "x")
    return folder / "x"


def _model(folder: Path) -> Path:
    import paredown

    paredown.score(_VECTORS, k=3, save_model=folder / "x.npz")
    return folder / "x.npz"


def _recording(folder: Path) -> Path:
    from paredown import Recorder

    (folder / "other").mkdir()
    for member, file in enumerate((folder / "x.npz", folder / "other" / "whole.npz")):
        recorder = Recorder(8, 2, member=member)
        for epoch in range(2):
            logits = np.random.default_rng(epoch + 2 * member).standard_normal((8, 2))
            recorder.update(np.arange(8), logits, np.arange(8) % 2, epoch)
        recorder.save(file)
    return folder / "x.npz"


def _checkpoint(folder: Path, *, suffix: str) -> Path:
    import torch

    state = {"conv.weight": torch.ones(4, 3, 2, 2), "fc.weight": torch.ones(2, 4)}
    if suffix == "pt":
        torch.save({"state_dict": state}, folder / "x.pt")
    else:
        from safetensors.torch import save_file

        save_file(state, folder / "x.safetensors")
    return folder / f"x.{suffix}"


def _pixel_encoder(folder: Path) -> Path:
    projection = np.ones((12, 3), np.float32)
    np.savez(folder / "x.npz", mean=np.zeros(12, np.float32), projection=projection, seed=np.array(0))
    return folder / "x.npz"


def _onnx(folder: Path) -> Path:
    import torch

    from paredown.embeddings.encoders.base import Preprocess
    from paredown.embeddings.encoders.inference import export_onnx

    network = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    (folder / "x.onnx").write_bytes(export_onnx(network.eval(), 8, preprocess=Preprocess()))
    return folder / "x.onnx"


def _sweep(folder: Path) -> Path:
    (folder / "x.toml").write_text(
        """[data]
source = "digits.npz"
test = "test.npz"
label_noise = 0.1

[student]
recipe = "linear"
epochs = 5

[probe]
members = 2

[grid]
initial_size = [400, 800]
keep_fraction = [0.5, 1.0]
strategy = ["hard", "easy"]
metric = ["el2n"]
seeds = 3
"""
    )
    return folder / "x.toml"


_ZIP, _GZIP = mutations.inside_zip, mutations.inside_gzip


@contextmanager
def _small_parts() -> Iterator[None]:
    """Ranges and shards of a few rows."""
    from paredown.selection import Limits
    from paredown.sources import row_ranges

    rows, begin = row_ranges.rows_per_range, Limits.__init__
    row_ranges.rows_per_range = lambda dim, *, rows=0: 15
    small = Limits(rows=8, candidates=20, cells=512, part=15)
    Limits.__init__ = lambda self, **_: self.__dict__.update(small.__dict__)  # type: ignore[method-assign]
    try:
        yield
    finally:
        row_ranges.rows_per_range = rows
        Limits.__init__ = begin  # type: ignore[method-assign]


def _score_folder(folder: Path) -> Path:
    from paredown.scoring.ranged_scoring import score_ranges

    np.save(folder / "e.npy", _VECTORS)
    with _small_parts():
        score_ranges(folder / "e.npy", out=folder / "x", k=3)
    return folder / "x"


def _prune_in_shards(table: Path, out: Path, *, overwrite: bool) -> None:
    import paredown
    from paredown.engines import InProcess

    class Parts(InProcess):
        workers = 3

    paredown.prune(table, keep_fraction=0.5, out=out, engine=Parts(), overwrite=overwrite)


def _manifest_of_shards(folder: Path) -> Path:
    import pyarrow.parquet as pq

    from paredown.score_files import scores_table

    (folder / "table").mkdir()
    table = scores_table(_some_scores())
    for number in range(3):
        pq.write_table(table.slice(15 * number, 15), folder / "table" / f"{number}.parquet")
    with _small_parts():
        _prune_in_shards(folder / "table", folder / "x", overwrite=False)
    assert len(list((folder / "x" / "manifest.parquet").iterdir())) == 3
    return folder / "x"


def _in_output(file: Path) -> bool:
    return "x" in file.parts and file.name != ".paredown"


def _only(*suffixes: str) -> Callable[[Path], bool]:
    return lambda file: file.name.endswith(suffixes)


def _not_other(file: Path) -> bool:
    return "other" not in file.parts


READERS: dict[str, Reader] = {
    "npy": Reader(_npy, _read_source),
    "npz": Reader(_npz, _read_source, ((".npz", _ZIP),)),
    "shards": Reader(_shards, _read_source),
    "store": Reader(_store, _read_source, mutated=lambda file: "x" in file.parts),
    "parquet": Reader(_parquet, _read_source),
    "parquet-list": Reader(_parquet_list, _read_source, mutated=_only(".parquet")),
    "csv-list": Reader(_csv_list, _read_source, mutated=_only(".csv")),
    "images": Reader(_image_folder, _read_source, ((".png", mutations.png_chunk),)),
    "tar": Reader(_tar, _read_source, ((".tar", mutations.tar_header),)),
    "huggingface-images": Reader(_hf_images, _read_source),
    "huggingface-vectors": Reader(_hf_vectors, _read_source),
    "mnist": Reader(_mnist, lambda path: _read_source(f"mnist:{path}")),
    "mnist-gzip": Reader(
        lambda folder: _mnist(folder, packed=True), lambda path: _read_source(f"mnist:{path}"), ((".gz", _GZIP),)
    ),
    "cifar-binary": Reader(lambda folder: _cifar10(folder, binary=True), lambda path: _read_source(f"cifar10:{path}")),
    "cifar-pickle": Reader(_cifar10, lambda path: _read_source(f"cifar10:{path}")),
    "cifar100-pickle": Reader(_cifar100, lambda path: _read_source(f"cifar100:{path}")),
    "svhn": Reader(lambda folder: _svhn(folder, packed=False), lambda path: _read_source(f"svhn:{path}")),
    "svhn-packed": Reader(lambda folder: _svhn(folder, packed=True), lambda path: _read_source(f"svhn:{path}")),
    "ids-npy": Reader(_column, _read_column),
    "ids-text": Reader(_text_column, _read_column),
    "labels-text": Reader(_text_column, _read_labels),
    "import-csv": Reader(_score_csv, _import_scores),
    "import-npy": Reader(_score_npy, _import_scores),
    "import-npz": Reader(_score_npz, _import_scores, ((".npz", _ZIP),)),
    "import-parquet": Reader(_scores, _import_scores, mutated=_only(".parquet")),
    "import-pt": Reader(_score_pt, _import_scores, ((".pt", _ZIP),)),
    "scores": Reader(_scores, _read_scores, mutated=_only(".parquet")),
    "scores-streamed": Reader(_scores, _stream_scores, mutated=_only(".parquet")),
    "scores-foreign": Reader(_foreign_scores, _stream_scores),
    "manifest": Reader(_manifest, _read_manifest, mutated=_only("manifest.parquet")),
    "manifest-sampled": Reader(_manifest, _sample_scores, mutated=_only("manifest.parquet")),
    "manifest-described": Reader(_manifest, _describe, mutated=_only("manifest.parquet", "manifest.json")),
    "manifest-reported": Reader(_manifest, _report, mutated=_only("manifest.parquet")),
    "manifest-compared": Reader(_manifest, _compare, mutated=_only("manifest.parquet")),
    "manifest-shards": Reader(_manifest_of_shards, _stream_shards, mutated=_only(".parquet")),
    "manifest-shards-again": Reader(_manifest_of_shards, _prune_again, mutated=_in_output),
    "manifest-shards-verified": Reader(_manifest_of_shards, _verify, mutated=_in_output),
    "scores-folder": Reader(_score_folder, _read_folder, mutated=_in_output),
    "scores-folder-merged": Reader(_score_folder, _merge_again, ((".npz", _ZIP),), mutated=_in_output),
    "scores-folder-verified": Reader(_score_folder, _verify, mutated=_in_output),
    "model": Reader(_model, _read_model, ((".npz", _ZIP),)),
    "recording": Reader(_recording, _read_recording, ((".npz", _ZIP),), mutated=_not_other),
    "checkpoint-pt": Reader(lambda folder: _checkpoint(folder, suffix="pt"), _read_checkpoint, ((".pt", _ZIP),)),
    "checkpoint-safetensors": Reader(lambda folder: _checkpoint(folder, suffix="safetensors"), _read_checkpoint),
    "pixel-encoder": Reader(_pixel_encoder, _read_pixel_encoder, ((".npz", _ZIP),)),
    "onnx": Reader(_onnx, _read_onnx),
    "sweep": Reader(_sweep, _read_sweep),
    "info-manifest": Reader(_manifest, _read_info, mutated=lambda file: "x" in file.parts),
    "info-scores": Reader(_foreign_scores, _read_info),
    "info-store": Reader(_store, _read_info, mutated=lambda file: "x" in file.parts),
    "info-model": Reader(_model, _read_info, ((".npz", _ZIP),)),
    "info-recording": Reader(_recording, _read_info, ((".npz", _ZIP),), mutated=_not_other),
}
