"""Files that others made: what is damaged, endless or too large is refused with its name, before it does any harm."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import paredown as pdn
from paredown.errors import PareError
from paredown.reading import check_regular, explain, read_array, read_arrays, read_json, read_parquet, reading
from paredown.score_files import read_manifest, read_scores
from paredown.scoring.imported_scores import import_scores
from paredown.scoring.saved_models import read_model
from paredown.sources import ImageSource, Skipped, load_column, open_source
from paredown.sweeps.settings import read_settings


def npy_bytes(shape: str, *, descr: str = "<f4", data: bytes = b"") -> bytes:
    """A .npy file whose header says whatever it is given."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


# --- the guard -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("bad magic\nmore lines"), "bad magic"),
        (KeyError("rows"), "it lacks 'rows'"),
        (MemoryError(), "it needs more memory than is available"),
        (RecursionError(), "it is nested too deeply"),
        (UnicodeDecodeError("utf-8", b"abc\xff", 3, 4, "invalid"), "it is not utf-8 text at byte 3"),
        (struct.error("unpack requires 4 bytes"), "unpack requires 4 bytes"),
        (OSError(5, "Input/output error", "x"), "Input/output error"),
        (IndexError(), "IndexError"),
        (ValueError("\x1b[31mred"), "?[31mred"),
        (ValueError("x" * 500), "x" * 200 + "..."),
    ],
)
def test_whatever_a_library_raises_names_the_file(tmp_path, error, said) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(b"")
    with pytest.raises(PareError) as caught, reading(file, "thing", remedy="Make it again."):
        raise error
    assert str(caught.value) == f"{file}: not a readable thing ({said}). Make it again."
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [PareError("mine"), KeyboardInterrupt(), SystemExit(3), ImportError("torch")])
def test_the_guard_lets_pass_what_is_not_damage(tmp_path, error) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(b"")
    with pytest.raises(type(error)) as caught, reading(file, "thing"):
        raise error
    assert caught.value is error
    assert explain(error)


def test_only_regular_files_are_opened(tmp_path, monkeypatch) -> None:
    """None of these is opened: opening a pipe waits forever, and a device has no end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        server.bind("socket")
    for name, said in [
        ("pipe", "a named pipe, not a regular file"),
        ("to-pipe", r"a named pipe \(by a link\), not a regular file"),
        ("zero", r"a device \(by a link\), not a regular file"),
        ("socket", "a socket, not a regular file"),
        ("loop", r"cannot be read \(Too many levels of symbolic links\)"),
        ("missing", "there is no such file"),
        ("file/inside", "there is no such file"),
        (".", "this is a folder, but a file is needed"),
    ]:
        with pytest.raises(PareError, match=said):
            check_regular(tmp_path / name)
    assert check_regular(tmp_path / "link").st_size == 1
    with pytest.raises(PareError, match=r"caf\\xe9.npy: the name is not UTF-8; rename it"):
        check_regular(Path(os.fsdecode(b"caf\xe9.npy")))


# --- declared sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "magic"),
        (b"\x93NUMPY\x01\x00", "header"),
        (npy_bytes("(1000000000000, 0)"), r"its shape \(1000000000000, 0\) is empty"),
        (
            npy_bytes("(1000000000000, 4)"),
            r"truncated; shape \(1000000000000, 4\) needs 16000000000082 bytes, 82 found",
        ),
        (npy_bytes("(-4, 4)", data=b"\0" * 64), r"its shape is \(-4, 4\)"),
        (npy_bytes("(2,)", descr="|O", data=b"\0" * 64), "it holds Python objects, which could run code"),
        (npy_bytes("(2,", data=b"\0" * 64), "not a readable .np[yz] file"),
    ],
)
def test_damaged_arrays(tmp_path, content, said) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(PareError, match=f"a.npy: .*{said}"):
        read_array(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", content)
    with pytest.raises(PareError, match=f"a.npz: .*{said}"):
        read_arrays(tmp_path / "a.npz")


def test_arrays_are_read_as_they_were_written(tmp_path) -> None:
    arrays = {
        "rows": np.arange(12.0).reshape(3, 4),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "text": np.array("{}"),
        "none": np.zeros((3, 0), np.float32),
    }
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    read = read_arrays(tmp_path / "a.npz")
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype
    np.save(tmp_path / "a.npy", arrays["columns"])
    np.testing.assert_array_equal(read_array(tmp_path / "a.npy"), arrays["columns"])


def test_an_archive_that_unpacks_to_more_than_memory_is_refused(tmp_path) -> None:
    np.savez_compressed(tmp_path / "a.npz", embeddings=np.zeros((2**20, 4), np.float32))  # 16 MiB in 16 KiB
    assert (tmp_path / "a.npz").stat().st_size < 2**16
    with pytest.raises(
        PareError, match=r"a.npz: its contents need 16.0 MiB of memory, but only 8.0 MiB may be used; allow"
    ):
        read_arrays(tmp_path / "a.npz", memory=8 * 2**20)
    assert read_arrays(tmp_path / "a.npz", memory=None)["embeddings"].shape == (2**20, 4)
    np.save(tmp_path / "a.npy", np.zeros(2**20))
    with pytest.raises(PareError, match=r"a.npy: its contents need 8.0 MiB"):
        read_array(tmp_path / "a.npy", memory=2**20)


def test_an_archive_that_declares_more_than_it_can_hold_is_refused(tmp_path) -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.zeros(100))
    content = bytearray(stream.getvalue())
    declared = content.rindex(b"PK\x01\x02") + 24  # the size in the central directory
    content[declared : declared + 4] = struct.pack("<I", 500_000_000)
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(PareError, match=r"a.npz: damaged; a.npy declares more than its compressed bytes can hold"):
        read_arrays(tmp_path / "a.npz")


def test_a_flipped_bit_in_an_archive_is_noticed(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", a=np.zeros(1000))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[1000] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(PareError, match=r"a.npz: not a readable .npz file \(Bad CRC-32"):
        read_arrays(tmp_path / "a.npz")


def test_parquet_is_validated_and_bounded(tmp_path) -> None:
    table = pa.table({"id": ["a", "b"], "score": [1.0, 2.0]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_parquet(tmp_path / "a.parquet").equals(table)
    assert read_parquet(tmp_path / "a.parquet", columns=["score"]).column_names == ["score"]
    with pytest.raises(PareError, match=r"a.parquet: there is no column 'label'; it has id, score"):
        read_parquet(tmp_path / "a.parquet", columns=["label"])
    pq.write_table(pa.table({"id": np.zeros(10**6, np.int64)}), tmp_path / "zeros.parquet")
    assert (tmp_path / "zeros.parquet").stat().st_size < 10**4
    with pytest.raises(PareError, match=r"zeros.parquet: its contents need 7.6 MiB"):
        read_parquet(tmp_path / "zeros.parquet", memory=2**20)
    (tmp_path / "text.parquet").write_text("id,score\n")
    with pytest.raises(PareError, match=r"text.parquet: not a readable Parquet file"):
        read_parquet(tmp_path / "text.parquet")
    raw = pa.Array.from_buffers(pa.binary(), 1, pa.array([b"\xff\xfe"]).buffers())
    pq.write_table(pa.table({"id": raw.view(pa.string())}), tmp_path / "latin.parquet")
    with pytest.raises(PareError, match=r"latin.parquet: .*Invalid UTF8"):
        read_parquet(tmp_path / "latin.parquet")


def test_rows_that_only_a_group_declares_are_refused(tmp_path) -> None:
    """A footer says twice how many rows there are; pyarrow makes room for what is said of the groups."""
    pq.write_table(pa.table({"id": ["a", "b"], "label": ["x", "y"]}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    refused = []
    for place in (place for place in range(start, len(whole) - 8) if whole[place] == 4):  # how Thrift writes 2
        footer = whole[start:place] + b"\x88\x88\x88\x88\x10" + whole[place + 1 : -8]  # some billions in its place
        (tmp_path / "b.parquet").write_bytes(whole[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
        with suppress(PareError):
            read_parquet(tmp_path / "b.parquet")
            continue
        with pytest.raises(PareError) as caught:
            read_parquet(tmp_path / "b.parquet")
        refused.append(caught.value)
    assert not [error for error in refused if isinstance(error.__cause__, MemoryError)]
    assert sum("row groups do not add up to its" in str(error) for error in refused) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", r"r.json: not a readable JSON file \(Expecting"),
        (b"[1]", r"r.json: not a readable JSON file \(it holds a list, not an object\)"),
        (b"\xff{}", r"r.json: not a readable JSON file \(it is not utf-8 text at byte 0\)"),
        (b"[" * 100_000, r"r.json: .*nested too deeply"),
    ],
)
def test_damaged_json(tmp_path, text, said) -> None:
    (tmp_path / "r.json").write_bytes(text)
    with pytest.raises(PareError, match=said):
        read_json(tmp_path / "r.json")
    (tmp_path / "r.json").write_text(json.dumps({"a": 1}))
    assert read_json(tmp_path / "r.json") == {"a": 1}


# --- sources -------------------------------------------------------------------------------------------------------


def png() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "PNG")
    return stream.getvalue()


def image(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png())
    return path


@pytest.mark.parametrize("shape", ["(5, 0)", "(1000000000000, 0)"])
def test_embeddings_without_dimensions(tmp_path, shape) -> None:
    """Row numbers for 10^12 rows of nothing would fill the memory."""
    (tmp_path / "x.npy").write_bytes(npy_bytes(shape))
    with pytest.raises(PareError, match=r"x.npy: (embeddings have no dimensions|its shape)"):
        open_source(tmp_path / "x.npy")


def test_special_files_in_an_image_folder(tmp_path) -> None:
    image(tmp_path / "photos" / "cat" / "1.png")
    os.mkfifo(tmp_path / "photos" / "cat" / "2.png")
    (tmp_path / "photos" / "cat" / "3.png").symlink_to("/dev/zero")
    (tmp_path / "photos" / "cat" / "4.png").symlink_to("1.png")
    with pytest.raises(PareError, match=r"2 of its image files cannot be read, e.g. cat/2.png: a named pipe"):
        open_source(tmp_path / "photos")
    source = open_source(tmp_path / "photos", on_error="skip")
    assert source.ids.tolist() == ["cat/1.png", "cat/4.png"]
    assert [item.what for item in source.skipped] == ["cat/2.png", "cat/3.png"]
    assert "a device (by a link), not a regular file" in source.skipped[1].why


def test_special_files_in_a_list_of_images(tmp_path, paredown) -> None:
    image(tmp_path / "1.png")
    os.mkfifo(tmp_path / "2.png")
    (tmp_path / "list.csv").write_text("path\n1.png\n2.png\nnone.png\n.\n")
    source = open_source(tmp_path / "list.csv")
    assert isinstance(source, ImageSource)
    source.fingerprint()
    read = list(source.images())
    assert [item.why for item in read if isinstance(item, Skipped)] == [
        "a named pipe, not a regular file; only regular files are read",
        "there is no such file",
        "this is a folder, but a file is needed",
    ]


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.csv", "x.tar"])
def test_a_pipe_is_not_a_source(tmp_path, name) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(PareError, match=rf"{name}: a named pipe, not a regular file"):
        open_source(tmp_path / name)
    for read in (load_column, import_harder, read_model, read_settings):
        with pytest.raises(PareError, match=rf"{name}: a named pipe, not a regular file"):
            read(tmp_path / name)


def import_harder(path: Path) -> object:
    return import_scores(path, higher_is="harder")


@pytest.mark.parametrize("read", [load_column, import_harder, read_model, read_settings])
def test_a_folder_is_not_a_file(tmp_path, read) -> None:
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(PareError, match=r"x.csv: this is a folder, but a file is needed"):
        read(tmp_path / "x.csv")


def test_a_sparse_tar_is_refused(tmp_path) -> None:
    """GNU tar's own form of a file of 3 GB that is one hole: 10 KB."""
    info = tarfile.TarInfo("hole.png")
    info.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[386:483] = bytes(97)
    block[483:495] = f"{3 * 10**9:011o}\0".encode()  # the size when unpacked
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    (tmp_path / "x.tar").write_bytes(bytes(block) + bytes(1024))
    with pytest.raises(PareError, match=r"x.tar: 'hole.png' is a sparse file; write the tar again without --sparse"):
        open_source(tmp_path / "x.tar")


def test_a_member_of_a_tar_larger_than_memory_is_refused(tmp_path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        info = tarfile.TarInfo("a.png")
        info.size = len(png())
        tar.addfile(info, io.BytesIO(png()))
    assert len(open_source(tmp_path / "x.tar")) == 1
    with pytest.raises(PareError, match=r"x.tar: a.png: its contents need .* only 10 B may be used"):
        open_source(tmp_path / "x.tar", memory=10)
    (tmp_path / "x.tar").write_bytes(gzip.compress((tmp_path / "x.tar").read_bytes()))
    with pytest.raises(PareError, match=r"x.tar: compressed by gzip; decompress it first"):
        open_source(tmp_path / "x.tar")


def test_an_npz_larger_than_memory_is_refused_and_read_where_more_is_allowed(tmp_path, paredown) -> None:
    np.savez_compressed(tmp_path / "x.npz", embeddings=np.ones((2**18, 2), np.float32))
    done = paredown("score", "x.npz", "--memory", "1MiB", "-o", "s.parquet")
    assert done.returncode == 2
    assert (
        "its contents need 2.0 MiB of memory, but only 1.0 MiB may be used; allow more with a larger --memory"
        in done.stderr
    )
    assert "save the embeddings as .npy, which is read in blocks" in done.stderr
    source = open_source(tmp_path / "x.npz", memory=2**22)
    assert source.provenance()["opened_with"]["memory"] == 2**22  # so that export opens it again


def test_names_that_are_not_utf_8(tmp_path) -> None:
    image(tmp_path / "photos" / "cat" / "1.png")
    Path(os.fsdecode(os.fsencode(tmp_path / "photos" / "cat") + b"/caf\xe9.png")).write_bytes(png())
    with pytest.raises(PareError, match=r"cannot be read, e.g. cat/caf\\xe9.png: the name is not UTF-8"):
        open_source(tmp_path / "photos")
    source = open_source(tmp_path / "photos", on_error="skip")
    assert source.ids.tolist() == ["cat/1.png"]
    with pytest.raises(PareError, match=r"caf\\xe9: the name is not UTF-8; rename it"):
        open_source(Path(os.fsdecode(b"caf\xe9")))
    with tarfile.open(tmp_path / "x.tar", "w", encoding="latin1", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo("café.png")
        info.size = len(png())
        tar.addfile(info, io.BytesIO(png()))
    with pytest.raises(PareError, match=r"x.tar: the member name caf\\xe9.png is not UTF-8"):
        open_source(tmp_path / "x.tar")


def test_superscripts_are_not_digits(tmp_path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, data in (("a.png", png()), ("a.cls", "²".encode()), ("b.png", png()), ("b.cls", b"1")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    labels = open_source(tmp_path / "x.tar").labels
    assert labels is not None
    assert labels.classes == ("1", "²")
    (tmp_path / "shards").mkdir()
    for name in ("a².npy", "a10.npy", "a2.npy"):
        np.save(tmp_path / "shards" / name, np.ones((1, 2)))
    assert open_source(tmp_path / "shards").ids.tolist() == ["a2:0", "a10:0", "a²:0"]


def test_null_vectors_and_images(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    for rows in ([None, [1.0, 2.0]], [[], [1.0, 2.0]], [None, None]):
        pq.write_table(
            pa.table({"id": ["a", "b"], "embedding": pa.array(rows, pa.list_(pa.float32()))}), tmp_path / "x.parquet"
        )
        with pytest.raises(PareError, match=r"x.parquet: the first embedding in 'embedding' is empty or null"):
            open_source(tmp_path / "x.parquet")
    features = datasets.Features({"embedding": datasets.List(datasets.Value("float32"))})
    vectors = datasets.Dataset.from_dict({"embedding": [None, [1.0, 2.0]]}, features=features)
    vectors.save_to_disk(tmp_path / "vectors")
    with pytest.raises(PareError, match=r"vectors: the first embedding in 'embedding' is empty or null"):
        open_source(tmp_path / "vectors")
    features = datasets.Features({"image": datasets.Image()})
    images = [None, {"bytes": png(), "path": None}, {"bytes": b"", "path": None}]
    datasets.Dataset.from_dict({"image": images}, features=features).save_to_disk(tmp_path / "images")
    source = open_source(tmp_path / "images")
    assert isinstance(source, ImageSource)
    assert [isinstance(item, Skipped) for item in source.images()] == [True, False, True]


def test_a_damaged_arrow_file_is_refused(tmp_path) -> None:
    """Offsets that lead beyond the data, as a flipped bit makes them: read as they are, they lead anywhere."""
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"id": ["a", "b", "c"], "embedding": [[1.0, 2.0]] * 3}).save_to_disk(tmp_path / "x")
    (arrow,) = (tmp_path / "x").glob("*.arrow")
    content = arrow.read_bytes()
    offsets = np.array([0, 1, 2, 3], np.int32).tobytes()
    assert offsets in content
    arrow.write_bytes(content.replace(offsets, np.array([0, 1, 2**30, 3], np.int32).tobytes()))
    with pytest.raises(PareError, match=r"x: not a readable Hugging Face dataset folder"):
        open_source(tmp_path / "x")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda torch: torch.eye(3).to_sparse(), "the tensor is sparse, quantized or empty of data"),
        (lambda torch: {"score": torch.ones(4).to_sparse()}, "tensor 'score' is sparse"),
        (lambda torch: torch.ones(3, device="meta"), "is sparse, quantized or empty of data"),
        (lambda torch: torch.ones(1).expand(10**9), "the tensor repeats its elements"),
        (lambda torch: {"score": object}, "Nothing but tensors and plain values is read"),
        (lambda torch: [[1.0], [1.0, 2.0]], "not a readable file of tensors"),
    ],
)
def test_tensors_that_are_not_plain(tmp_path, make, said) -> None:
    torch = pytest.importorskip("torch")
    torch.save(make(torch), tmp_path / "x.pt")
    with pytest.raises(PareError, match=rf"x.pt: .*{said}"):
        import_scores(tmp_path / "x.pt", higher_is="harder")


def test_scores_with_gradients_are_read(tmp_path) -> None:
    torch = pytest.importorskip("torch")
    torch.save(torch.arange(3.0).requires_grad_(), tmp_path / "x.pt")
    assert import_scores(tmp_path / "x.pt", higher_is="harder").values.tolist() == [0, 1, 2]


# --- splits and folders that are no classes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ["train/cat/1.png", "train/dog/1.png", "val/cat/1.png", "val/dog/1.png"],
        ["train/cat/1.png", "test/cat/1.png", "unlabelled/1.png"],
        ["Train/1.png", "Test/1.png"],
        ["train/1.png", "valid/1.png", "test/1.png"],
        ["val/cat/1.png", "test/cat/1.png"],
        ["train/cat/1.png", "train/dog/1.png"],
    ],
)
def test_splits_are_not_classes(tmp_path, names) -> None:
    for name in names:
        image(tmp_path / "photos" / name)
    with pytest.raises(
        PareError, match=r"photos: .*looks? like (a split|splits) of a dataset, not classes; .* split='[Ttv]"
    ):
        open_source(tmp_path / "photos")


@pytest.mark.parametrize(
    "names",
    [
        ["train/1.png", "bus/1.png", "plane/1.png"],  # vehicles
        ["test/1.png", "stress/1.png", "load/1.png", "dev/1.png"],
        ["train/a/1.png", "test/b/1.png", "bus/c/1.png"],
        ["cat/train/1.png", "dog/train/1.png", "cat/val/1.png"],
        ["train/1.png", "train/2.png"],
    ],
)
def test_classes_may_be_named_like_splits(tmp_path, names) -> None:
    for name in names:
        image(tmp_path / "photos" / name)
    source = open_source(tmp_path / "photos")
    assert source.labels is not None
    assert source.labels.classes == tuple(sorted({name.split("/")[0] for name in names}))


def test_a_split_of_an_image_folder(tmp_path, paredown) -> None:
    for name in ("train/cat/1.png", "train/dog/1.png", "train/dog/2.png", "val/cat/1.png"):
        image(tmp_path / "photos" / name)
    source = open_source(tmp_path / "photos", split="train")
    assert source.ids.tolist() == ["train/cat/1.png", "train/dog/1.png", "train/dog/2.png"]  # no split shares an id
    assert source.labels is not None
    assert source.labels.names.tolist() == ["cat", "dog", "dog"]
    assert open_source(tmp_path / "photos", split="val").ids.tolist() == ["val/cat/1.png"]
    with pytest.raises(PareError, match=r"photos: there is no split 'test'; its folders are train, val"):
        open_source(tmp_path / "photos", split="test")
    done = paredown("score", "photos", "--metric", "random", "-o", "s.parquet")
    assert done.returncode == 2
    assert "--split train" in done.stderr
    done = paredown("prune", "photos", "--split", "train", "--metric", "random", "--keep-fraction", 1, "-o", "pruned")
    assert done.returncode == 0, done.stderr
    done = paredown("export", "pruned", "--to", "images", "-o", "kept")
    assert done.returncode == 0, done.stderr
    assert sorted(str(file.relative_to(tmp_path / "kept")) for file in (tmp_path / "kept").rglob("*.png")) == [
        "cat/1.png",
        "dog/1.png",
        "dog/2.png",
    ]


def test_folders_that_are_no_classes_are_said(tmp_path, paredown) -> None:
    for name in ("cat/1.png", "dog/1.png", "__MACOSX/cat/._1.png", "__MACOSX/cat/1.png", ".cache/1.png"):
        image(tmp_path / "photos" / name)
    (tmp_path / "photos" / "bird").mkdir()
    source = open_source(tmp_path / "photos")
    assert source.labels is not None
    assert source.labels.classes == ("cat", "dog")
    hidden, empty = source.warnings
    assert hidden.endswith("hidden and system folders are not read: .cache, __MACOSX.")
    assert empty.endswith("folders without images are not classes: bird.")
    done = paredown("score", "photos", "--metric", "random", "-o", "s.parquet")
    assert done.returncode == 0, done.stderr
    assert "folders without images are not classes: bird" in " ".join(done.stdout.split())
    for folder in (".cache", "__MACOSX", "bird"):
        shutil.rmtree(tmp_path / "photos" / folder)
    assert open_source(tmp_path / "photos").warnings == ()


# --- lists of images -------------------------------------------------------------------------------------------------


def test_images_outside_the_folder_of_their_list_are_said(tmp_path, paredown) -> None:
    image(tmp_path / "data" / "1.png")
    image(tmp_path / "data" / "deep" / "2.png")
    image(tmp_path / "elsewhere" / "3.png")
    lines = ["1.png", "deep/../deep/2.png", "../elsewhere/3.png", str(tmp_path / "elsewhere" / "4.png")]
    (tmp_path / "data" / "list.csv").write_text("path\n" + "\n".join(lines) + "\n")
    (said,) = open_source(tmp_path / "data" / "list.csv").warnings
    assert "2 images lie outside the folder of the list" in said
    assert "e.g. ../elsewhere/3.png" in said
    (tmp_path / "data" / "list.csv").write_text("path\n" + "\n".join(lines[:3]) + "\n")
    done = paredown("prune", "data/list.csv", "--metric", "random", "--keep-fraction", 1, "-o", "pruned")
    assert done.returncode == 0, done.stderr
    assert "1 image lies outside the folder of the list" in " ".join(done.stdout.split())
    for to in ("images", "paths"):
        done = paredown("export", "pruned", "--to", to, "-o", f"out-{to}")
        assert done.returncode == 0, done.stderr
        assert "1 image lies outside the folder of the list" in " ".join(done.stdout.split())
        done = paredown("export", "pruned", "--to", to, "-o", f"again-{to}", "--json")
        assert json.loads(done.stdout)["warnings"][0].startswith("1 image lies outside")
    (tmp_path / "data" / "list.csv").write_text("path\n1.png\ndeep/2.png\n")
    assert open_source(tmp_path / "data" / "list.csv").warnings == ()


def test_a_path_listed_twice(tmp_path, paredown) -> None:
    image(tmp_path / "1.png")
    image(tmp_path / "2.png")
    (tmp_path / "list.csv").write_text("path\n1.png\n2.png\n1.png\n")
    with pytest.raises(PareError, match=r"list.csv: 1 id occurs more than once, e.g. '1.png' at rows 0, 2"):
        open_source(tmp_path / "list.csv")
    (tmp_path / "list.csv").write_text("id,path\na,1.png\nb,2.png\nc,./1.png\n")
    done = paredown("prune", "list.csv", "--metric", "random", "--keep-fraction", 1, "-o", "pruned")
    assert done.returncode == 0, done.stderr
    for link in ("copy", "hard", "symbolic"):
        done = paredown("export", "pruned", "--to", "images", "--link", link, "-o", link)
        assert done.returncode == 0, done.stderr
        assert sorted(file.name for file in (tmp_path / link).iterdir() if file.suffix) == ["1.png", "2.png"]


@pytest.mark.parametrize("seed", [2**64, -1])
def test_seeds_that_are_not_64_bits(tmp_path, paredown, seed) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20, 3)))
    done = paredown("score", "x.npy", "--metric", "random", "--seed", seed, "-o", "s.parquet")
    assert done.returncode == 2
    assert "--seed" in done.stderr
    with pytest.raises(PareError, match=r"seed must (be a whole number from 0 to 2\^64 - 1|not be negative), got"):
        pdn.score(tmp_path / "x.npy", metric="random", seed=seed)
    with pytest.raises(PareError, match=r"seed must (be a whole number from 0 to 2\^64 - 1|not be negative), got"):
        pdn.prune(tmp_path / "x.npy", keep_fraction=0.5, metric="random", seed=seed, out=tmp_path / "out")


# --- what the fuzzer found -----------------------------------------------------------------------------------------


def test_text_that_is_not_unicode(tmp_path) -> None:
    """Python fails with a SystemError over such text, when it is compared or shown."""
    data = np.array([0x41, 0x110000], np.uint32).tobytes()
    (tmp_path / "x.npy").write_bytes(npy_bytes("(2,)", descr="<U1", data=data))
    with pytest.raises(PareError, match=r"x.npy: damaged; it holds text that is not Unicode"):
        load_column(tmp_path / "x.npy")
    np.save(tmp_path / "y.npy", np.array(["é", "\U0010ffff"], ">U1"))
    assert load_column(tmp_path / "y.npy").tolist() == ["é", "\U0010ffff"]


def test_a_damaged_manifest(tmp_path) -> None:
    for keep in ([1, 0], [True, None]):
        pq.write_table(pa.table({"id": ["a", "b"], "score": [1.0, 2.0], "keep": keep}), tmp_path / "m.parquet")
        with pytest.raises(PareError, match=r"m.parquet: not a manifest; its 'keep' column must be true or false"):
            read_manifest(tmp_path / "m.parquet")
    table = pa.table({"id": ["a"], "score": [1.0]}).replace_schema_metadata({"paredown": "[1"})
    pq.write_table(table, tmp_path / "s.parquet")
    with pytest.raises(PareError, match=r"s.parquet: not a readable table of scores"):
        read_scores(tmp_path / "s.parquet")


def test_the_description_of_a_column_that_ends_the_process(tmp_path) -> None:
    """pyarrow aborts when asked for the metadata of this column; it must not be asked before the column was read."""
    table = pa.table({"id": np.arange(100), "score": np.arange(100.0), "label": np.arange(100) % 3})
    pq.write_table(table, tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    code = (
        "import sys; from paredown.errors import PareError\n"
        "from paredown.selection.streamed import open_table, select_streamed\n"
        "for place in range(int(sys.argv[2]), int(sys.argv[3])):\n"
        "    content = bytearray(open(sys.argv[1], 'rb').read()); content[place] ^= 1 << (place % 8)\n"
        "    open('x.parquet', 'wb').write(content)\n"
        "    try: select_streamed(open_table('x.parquet'), keep_fraction=0.5)\n"
        "    except PareError: pass\n"
    )
    command = [sys.executable, "-c", code, tmp_path / "whole.parquet", str(len(whole) - 700), str(len(whole) - 8)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_model_whose_arrays_do_not_fit_together(tmp_path, rng) -> None:
    pdn.score(rng.standard_normal((40, 6)), k=3, save_model=tmp_path / "m.npz")
    arrays = read_arrays(tmp_path / "m.npz")
    for centroids in (arrays["centroids"][:, :3], arrays["centroids"].astype(int), arrays["centroids"][0]):
        np.savez(tmp_path / "m.npz", **arrays | {"centroids": centroids})
        with pytest.raises(PareError, match=r"m.npz: .*(the model is damaged; its centroids are|not a readable model)"):
            read_model(tmp_path / "m.npz")
