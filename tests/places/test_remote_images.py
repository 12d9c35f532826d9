"""Images and tars in an object store: the ids, order, scores and embeddings of the same files on a disk."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.places import StorageError, as_place
from paredown.sources import ImageSource, Skipped, object_reading
from paredown.sources.image_decoding import decode_image
from paredown.sources.object_reading import RemoteWindow, fetched, read_parts


def upload(folder: Path, s3: Any, key: str) -> str:
    for file in folder.rglob("*"):
        if file.is_file():
            s3.put(file, f"{key}/{file.relative_to(folder).as_posix()}")
    return s3.url(key)


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def write_tars(folder: Path, images: list[Path], *, tars: int = 3) -> Path:
    """Images with `.cls` and a large `.bin` beside some of them."""
    folder.mkdir()
    size = -(-len(images) // tars)
    for number in range(tars):
        with tarfile.open(folder / f"shard-{number + 8}.tar", "w") as tar:
            for row in range(number * size, min((number + 1) * size, len(images))):
                members = {"png": images[row].read_bytes(), "cls": images[row].parent.name.encode()}
                if row % 7 == 0:
                    members["bin"] = bytes(100_000)
                for suffix, data in members.items():
                    info = tarfile.TarInfo(f"{row:03d}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return folder


@pytest.fixture(params=["folder", "split", "tars", "tar", "list.csv", "list.parquet"])
def images(request, image_folder, tmp_path, s3) -> tuple[Path, str, dict[str, Any]]:
    """Sixty images, two of them damaged, on disk and in the store, and how they are opened."""
    every = sorted(image_folder.rglob("*.png"))
    every[3].write_bytes(every[3].read_bytes()[:50])
    every[40].write_bytes(b"not an image")
    (image_folder / "digit-0" / "more").mkdir()
    every[0].rename(image_folder / "digit-0" / "more" / "Ü b%2F.png")
    (image_folder / ".cache" / "deep").mkdir(parents=True)
    (image_folder / ".cache" / "deep" / "x.png").write_bytes(b"")
    (image_folder / "digit-1" / "notes.txt").write_text("text")
    every = sorted(file for file in image_folder.rglob("*.png") if ".cache" not in file.parts)
    if request.param == "folder":
        return image_folder, upload(image_folder, s3, "images"), {}
    if request.param == "split":
        (tmp_path / "both" / "val" / "digit-0").mkdir(parents=True)
        (tmp_path / "both" / "val" / "digit-0" / "y.png").write_bytes(b"")
        image_folder.rename(tmp_path / "both" / "train")
        return tmp_path / "both", upload(tmp_path / "both", s3, "both"), {"split": "train"}
    if request.param.startswith("list"):
        names = [f"images/{file.relative_to(image_folder).as_posix()}" for file in every]
        names[5] = "images/gone.png"
        table = pa.table({"path": names, "label": [file.parent.name for file in every]})
        write = pa.csv.write_csv if request.param.endswith("csv") else pq.write_table
        write(table, tmp_path / request.param)
        upload(image_folder, s3, "images")
        return tmp_path / request.param, s3.put(tmp_path / request.param, request.param), {}
    if request.param == "tar":
        tar = write_tars(tmp_path / "one", every, tars=1) / "shard-8.tar"
        return tar, s3.put(tar, "shard-8.tar"), {}
    tars = write_tars(tmp_path / "tars", every)
    with (tars / "shard-9.tar").open("r+b") as stream:
        stream.truncate(os.path.getsize(tars / "shard-9.tar") - 20_000)
    return tars, upload(tars, s3, "tars"), {}


def known(source: Any) -> dict[str, Any]:
    return {
        "ids": source.ids.tolist(),
        "classes": source.labels.classes,
        "codes": source.labels.codes.tolist(),
        "kind": source.kind,
        "skipped": [(what, why.replace(source.location, "")) for what, why in source.skipped],
        "warnings": [text.replace(source.location, "") for text in source.warnings],
        "fingerprint": source.fingerprint(),
        "examples": source.state()["examples"],
    }


def read(source: Any, rows: list[int] | None = None) -> list[Any]:
    picked = source.files() if rows is None else ((file, name) for _, file, name in source.pick(rows))
    decoded = [decode_image(file, name) for file, name in picked]
    return [image if isinstance(image, Skipped) else (image.mode, image.tobytes()) for image in decoded]


def test_images_are_those_of_the_same_files_on_disk(images, tmp_path, s3, monkeypatch) -> None:
    local, remote, how = images
    here, there = (pdn.open_source(place, on_error="skip", **how) for place in (local, remote))
    assert isinstance(there, ImageSource)
    assert known(there) == known(here)
    expected = read(here)
    assert 2 <= sum(isinstance(image, Skipped) for image in expected) <= 3
    assert read(there) == expected
    rows = list(range(1, len(expected), 9))
    assert read(there, rows) == [expected[row] for row in rows]
    assert read(there, [4])[0] == decode_pair(there.file(4))
    monkeypatch.chdir(tmp_path)
    part = pickle.loads(pickle.dumps(there.part(range(10, 30))))
    assert read(part) == expected[10:30]
    assert part.ids.tolist() == here.ids[10:30].tolist()

    how |= {"on_error": "skip"}
    encoded = {"metric": "prototypes", "k": 4, "encoder": "pixels"}
    on_disk, in_store = (
        pdn.score(pdn.open_source(place, **how), on_error="skip", **encoded) for place in (local, remote)
    )
    assert np.array_equal(in_store.values, on_disk.values)
    assert in_store.ids.tolist() == on_disk.ids.tolist()


def decode_pair(pair: tuple[Any, str]) -> Any:
    image = decode_image(*pair)
    return image if isinstance(image, Skipped) else (image.mode, image.tobytes())


def test_one_listing_and_two_requests_for_an_image(image_folder, s3) -> None:
    url = upload(image_folder, s3, "images")
    s3.faults()
    source = pdn.open_source(url)
    asked = s3.requests()
    assert asked.count(f"GET /{s3.bucket}") == 3  # is it a folder, what is in it, and what is below
    assert len(asked) == 4
    s3.faults()
    source.state()
    source.fingerprint()
    assert len(s3.requests()) == 120  # nothing is asked again of what was listed: a size and the bytes of each
    s3.faults()
    assert len(list(fetched(source.files()))) == 60  # type: ignore[attr-defined]
    assert len(s3.requests()) == 120


def test_a_flat_folder_is_listed_once(image_folder, s3) -> None:
    for file in image_folder.rglob("*.png"):
        s3.put(file, f"flat/{file.name}")
    s3.faults()
    assert len(pdn.open_source(s3.url("flat"))) == 60
    assert s3.requests().count(f"GET /{s3.bucket}") == 2


def test_tars_are_looked_through_without_their_images_and_read_in_few_requests(tmp_path, s3, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "large").mkdir()
    for row in range(8):
        (tmp_path / "large" / f"{row}.png").write_bytes(rng.bytes(2**20))
    tars = write_tars(tmp_path / "tars", sorted((tmp_path / "large").glob("*")), tars=2)
    url = upload(tars, s3, "tars")
    s3.faults()
    source = pdn.open_source(url)
    asked = [line for line in s3.requests() if " bytes=" in line]
    size = lambda line: -int.__sub__(*map(int, line.rpartition("=")[2].split("-"))) + 1
    assert sum(map(size, asked)) < 2 * 2**20
    s3.faults()
    assert [data for data, _ in source.files()] == [
        file.read_bytes() for file in sorted((tmp_path / "large").glob("*"))
    ]  # type: ignore[attr-defined]
    assert len([line for line in s3.requests() if " bytes=" in line]) == 4  # of up to 4 MiB
    monkeypatch.setattr(object_reading, "_GAP", 0)
    s3.faults()
    assert [row for row, _, _ in source.pick([1, 6])] == [1, 6]  # type: ignore[attr-defined]
    assert [size(line) for line in s3.requests() if " bytes=" in line] == [2**20, 2**20]


def test_a_tar_of_small_images_is_looked_through_in_few_requests(tmp_path, s3, rng) -> None:
    (tmp_path / "small").mkdir()
    for row in range(100):
        (tmp_path / "small" / f"{row:03d}.png").write_bytes(rng.bytes(40_000))
    url = upload(write_tars(tmp_path / "tars", sorted((tmp_path / "small").glob("*")), tars=1), s3, "tars")
    s3.faults()
    assert len(pdn.open_source(url)) == 100
    assert len([line for line in s3.requests() if " bytes=" in line]) <= 5  # of 5 MB, in requests that grow


@pytest.mark.parametrize("order", ["forward", "leaps"])
def test_a_window_reads_what_is_in_the_file(tmp_path, s3, order, rng) -> None:
    data = rng.bytes(1_000_003)
    (tmp_path / "x").write_bytes(data)
    with RemoteWindow(as_place(s3.put(tmp_path / "x", "x"))) as window:
        at = 0
        for size in [512, 1, 100_000, 70_000, 3, 0, 500_000, 400_000, 5]:
            if order == "leaps":
                at = int(rng.integers(0, 1_000_003))
                window.seek(at)
            read = window.read(size)
            assert read == data[at : at + size]
            at += len(read)
            assert window.tell() == at
        window.seek(-7, os.SEEK_END)
        assert window.read() == data[-7:]
    parts = [(0, 10), (5, 10), (900_000, 100), (100, 5)]
    assert list(read_parts(s3.url("x"), parts, "file")) == [data[o : o + n] for o, n in parts]
    with pytest.raises(PareError, match=r"x: it is shorter than when the run began; was it changed\?"):
        list(read_parts(s3.url("x"), [(1_000_000, 10)], "file"))


def test_tables_of_embeddings(tmp_path, s3, rng) -> None:
    vectors = rng.normal(size=(100, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", embeddings=vectors, labels=np.arange(100) % 3)
    pq.write_table(pa.table({"id": np.arange(100), "embedding": list(vectors)}), tmp_path / "x.parquet")
    for name in ("x.npz", "x.parquet"):
        here, there = pdn.open_source(tmp_path / name), pdn.open_source(s3.put(tmp_path / name, f"tables/{name}"))
        assert there.fingerprint() == here.fingerprint()
        assert np.array_equal(pdn.score(there, k=3).values, pdn.score(here, k=3).values)


def test_exports(images, tmp_path, s3, paredown) -> None:
    local, remote, how = images
    split = ["--split", how["split"]] if how else []
    made = {}
    for name, place in (("here", local), ("there", remote)):
        given = [place, "-o", name, "--encoder", "pixels", "--k", "4", "--on-error", "skip", "--keep-fraction", "0.5"]
        done = paredown("prune", *given, *split)
        assert done.returncode == 0, done.stderr
        for to in ("ids.txt", "paths.txt", "images", "webdataset", "lightly"):
            done = paredown("export", name, "--to", to.split(".")[0], "-o", f"{name}-{to}")
            made[name, to] = done.returncode if to == "paths.txt" or done.returncode else None
            folder = tmp_path / f"{name}-{to}"
            if not done.returncode and to != "paths.txt":
                made[name, to] = folder.read_bytes() if folder.is_file() else files(folder)
                made[name, to] = (
                    {k: v for k, v in made[name, to].items() if k != ".paredown"} if folder.is_dir() else made[name, to]
                )
    for to in ("ids.txt", "paths.txt", "images", "webdataset", "lightly"):
        assert made["there", to] == made["here", to], to
    if made["there", "paths.txt"] == 0:
        lines = (tmp_path / "there-paths.txt").read_text().splitlines()
        assert all(as_place(line).is_file() for line in lines)


# --- what goes wrong -----------------------------------------------------------------------------------------------


def test_formats_that_are_not_read_say_so(tmp_path, s3, image_folder) -> None:
    (tmp_path / "info").write_text("{}")
    s3.put(tmp_path / "info", "hf/dataset_info.json")
    message = r"hf: a Hugging Face dataset folder .* is not read from object stores; copy it to this machine first"
    with pytest.raises(PareError, match=message):
        pdn.open_source(s3.url("hf"))
    (tmp_path / "list.csv").write_text("path\n../x.png\n")
    with pytest.raises(PareError, match=r"list.csv: it names the image '\.\./x.png'; a list in an object store names"):
        pdn.open_source(s3.put(tmp_path / "list.csv", "list.csv"))
    s3.put(next(image_folder.rglob("*.png")), "images/x.png")
    s3.client().put_object(Bucket=s3.bucket, Key="images/a//b.png", Body=b"x")
    with pytest.raises(PareError, match=r"1 of its image files cannot be read, e\.g\. a//b.png: a part of its"):
        pdn.open_source(s3.url("images"))
    assert pdn.open_source(s3.url("images"), on_error="skip").ids.tolist() == ["x.png"]
    s3.put(tmp_path / "list.csv", "text/x.txt")
    with pytest.raises(PareError, match=r"text: the source is empty; no images"):
        pdn.open_source(s3.url("text"))


def test_a_store_that_does_not_answer_is_never_an_unreadable_image(image_folder, tmp_path, s3) -> None:
    """Even where unreadable images are left out: an image that is gone is, a bucket that is gone is not."""
    url = upload(image_folder, s3, "images")
    how = {"encoder": "pixels", "on_error": "skip", "shard_size": 7}
    source = pdn.open_source(url)
    s3.faults(deny=True)
    with pytest.raises(StorageError, match="access was denied"):
        pdn.embed(source, out=tmp_path / "e", **how)
    s3.faults()
    source = pdn.open_source(url)
    source.fingerprint()
    as_place(f"{url}/{source.ids[5]}").unlink()
    (tmp_path / "calls").mkdir()
    assert [what for what, why in decoded_failures(source)] == [source.ids[5]]
    s3.vanish()
    with pytest.raises(StorageError, match="there is no bucket"):
        decoded_failures(source)


def decoded_failures(source: Any) -> list[Any]:
    return [file for file, _ in fetched(source.files()) if isinstance(file, Skipped)]


@pytest.mark.parametrize("verb", ["info", "verify", "score", "prune", "embed", "merge", "export", "report", "plan"])
def test_every_verb_says_in_one_line_that_there_is_no_bucket(verb, s3, paredown, tmp_path) -> None:
    more = {"export": ["-o", "x.txt"], "report": ["-o", "x.html"], "score": ["-o", "x.parquet"]}
    more |= {verb: ["-o", "x"] for verb in ("prune", "embed")}
    done = paredown(verb, "s3://nobucket-of-ours/x", *more.get(verb, []))
    assert done.returncode == 2
    assert "there is no bucket 'nobucket-of-ours'; check its name and AWS_ENDPOINT_URL" in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())
    done = paredown(verb, s3.url("x"), *more.get(verb, []))
    assert done.returncode == 2
    assert "x: there is no such f" in " ".join(done.stderr.split())


def test_info_tells_refused_access_and_a_dead_endpoint(s3, paredown, monkeypatch) -> None:
    s3.faults(deny=True)
    for verb in ("info", "verify"):
        assert "access was denied; check the credentials" in " ".join(paredown(verb, s3.url("x")).stderr.split())
    s3.faults()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for verb in ("info", "verify"):
        assert "no object store answers at http://127.0.0.1:1" in " ".join(paredown(verb, s3.url("x")).stderr.split())


def test_info_describes_images_in_the_store(s3, paredown, image_folder) -> None:
    done = paredown("info", upload(image_folder, s3, "images"))
    assert done.returncode == 0, done.stderr
    assert "(image folder)" in done.stdout
    assert "60" in done.stdout
