"""Files that others made: what is damaged, endless or too large is refused with its name, before it does any harm."""

from __future__ import annotations

import io
import json
import os
import socket
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paredown.errors import PareError
from paredown.reading import check_regular, explain, read_array, read_arrays, read_json, read_parquet, reading


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
        (MemoryError(), "it asks for more memory than there is"),
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
        (".", "a folder, where a file is needed"),
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
        (npy_bytes("(1000000000000, 0)"), r"its shape is \(1000000000000, 0\), which holds nothing"),
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
    with pytest.raises(PareError, match=r"a.npz: its contents take 16.0 MiB in memory, and 8.0 MiB may be used; allow"):
        read_arrays(tmp_path / "a.npz", memory=8 * 2**20)
    assert read_arrays(tmp_path / "a.npz", memory=None)["embeddings"].shape == (2**20, 4)
    np.save(tmp_path / "a.npy", np.zeros(2**20))
    with pytest.raises(PareError, match=r"a.npy: its contents take 8.0 MiB"):
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
    with pytest.raises(PareError, match=r"zeros.parquet: its contents take 7.6 MiB"):
        read_parquet(tmp_path / "zeros.parquet", memory=2**20)
    (tmp_path / "text.parquet").write_text("id,score\n")
    with pytest.raises(PareError, match=r"text.parquet: not a readable Parquet file"):
        read_parquet(tmp_path / "text.parquet")
    raw = pa.Array.from_buffers(pa.binary(), 1, pa.array([b"\xff\xfe"]).buffers())
    pq.write_table(pa.table({"id": raw.view(pa.string())}), tmp_path / "latin.parquet")
    with pytest.raises(PareError, match=r"latin.parquet: .*Invalid UTF8"):
        read_parquet(tmp_path / "latin.parquet")


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
