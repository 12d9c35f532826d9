from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from paredown.errors import PareError
from paredown.sources import ImageSource, Skipped, VectorSource, open_source


def all_vectors(source) -> np.ndarray:
    assert isinstance(source, VectorSource)
    return np.concatenate([block.copy() for block in source.blocks(7)])


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_parquet(path: Path, vectors: np.ndarray, **columns) -> None:
    flat = pa.array(vectors.reshape(-1))
    pq.write_table(pa.table({"embedding": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]), **columns}), path)


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def png(value: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((8, 8), value, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def vectors(rng) -> np.ndarray:
    return rng.standard_normal((20, 5)).astype(np.float32)


# --- every form gives the same vectors, ids and labels -------------------------------------------------------------


def test_array(vectors) -> None:
    source = open_source(vectors, labels=np.arange(20) % 3)
    np.testing.assert_array_equal(all_vectors(source), vectors)
    assert source.ids.tolist() == list(range(20))
    assert source.labels is not None
    assert source.labels.classes == ("0", "1", "2")
    batch = next(iter(source.batches()))
    np.testing.assert_allclose(batch.vectors, unit(vectors), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_npy(tmp_path, vectors, dtype) -> None:
    np.save(tmp_path / "x.npy", vectors.astype(dtype))
    source = open_source(tmp_path / "x.npy", labels=["a", "b"] * 10, ids=[f"n{i}" for i in range(20)])
    np.testing.assert_array_equal(all_vectors(source), vectors.astype(dtype))
    assert source.ids[3] == "n3"


def test_npz(tmp_path, vectors) -> None:
    np.savez(tmp_path / "x.npz", embeddings=vectors, labels=np.arange(20) % 2, ids=np.arange(20) + 100)
    source = open_source(tmp_path / "x.npz")
    np.testing.assert_array_equal(all_vectors(source), vectors)
    assert source.ids.tolist() == list(range(100, 120))
    assert source.labels is not None
    assert source.labels.codes.tolist() == [0, 1] * 10


def test_npy_shards_have_ids_that_name_them(tmp_path, vectors) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    for name, rows in {"part-10": vectors[12:], "part-2": vectors[:12]}.items():
        np.save(folder / f"{name}.npy", rows)
    np.save(folder / "labels.npy", np.arange(20))
    source = open_source(folder)
    np.testing.assert_array_equal(all_vectors(source), vectors)  # part-2 before part-10
    assert source.ids[0] == "part-2:0"
    assert source.ids[12] == "part-10:0"
    assert source.labels is not None
    assert source.labels.codes.tolist() == list(range(20))


def test_ids_do_not_change_when_a_shard_is_added(tmp_path, vectors) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    np.save(folder / "b.npy", vectors)
    before = set(open_source(folder).ids.tolist())
    np.save(folder / "a.npy", vectors)
    assert before < set(open_source(folder).ids.tolist())


@pytest.mark.parametrize("files", [1, 3])
def test_parquet(tmp_path, vectors, files) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    names = np.array([f"u{i}" for i in range(20)])
    labels = np.array(["x", "y"] * 10)
    for part, rows in enumerate(np.array_split(np.arange(20), files)):
        write_parquet(folder / f"{part}.parquet", vectors[rows], id=names[rows], label=labels[rows])
    source = open_source(folder if files > 1 else folder / "0.parquet")
    np.testing.assert_array_equal(all_vectors(source), vectors)
    assert source.ids.tolist() == names.tolist()
    assert source.labels is not None
    assert source.labels.names.tolist() == labels.tolist()


def test_parquet_with_other_column_names_and_lists(tmp_path, vectors) -> None:
    table = pa.table(
        {"clip": [list(map(float, row)) for row in vectors], "who": list(range(20)), "species": ["a"] * 20}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet", columns={"id": "who", "label": "species"})
    np.testing.assert_array_equal(all_vectors(source).astype(np.float32), vectors)
    with pytest.raises(PareError, match=r"which column holds the id\? It has clip, who, species; .* columns={'id'"):
        open_source(tmp_path / "x.parquet")
    with pytest.raises(PareError, match=r"there is no column 'nope'; it has clip, who, species"):
        open_source(tmp_path / "x.parquet", columns={"id": "nope"})
    with pytest.raises(PareError, match=r"unknown column role 'lable'.* Did you mean 'label'"):
        open_source(tmp_path / "x.parquet", columns={"lable": "species"})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"score": [0.5, 0.1], "label": [1, 2]},
            r"neither embeddings nor image paths, but score, label\. .* scores need a column 'id' beside them\.$",
        ),
        ({"id": ["a", "b"], "text": ["c", "d"]}, r"; scores are imported with `paredown score --from .*x.parquet`\.$"),
        (
            {"embedding": [[0.5], [0.1]]},
            r"x.parquet: it has no column of ids; add one, or give them with ids=",
        ),
    ],
)
def test_tables_that_lack_a_column(columns, message, tmp_path) -> None:
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with pytest.raises(PareError, match=message):
        open_source(tmp_path / "x.parquet")


def test_a_table_of_scores_is_no_list_of_images(tmp_path) -> None:
    (tmp_path / "x.csv").write_text("id,score\n1,0.5\n")
    with pytest.raises(PareError, match=r"paths, but id, score\. .* imported with `paredown score --from .*csv"):
        open_source(tmp_path / "x.csv")


def test_image_folder_with_classes(image_folder) -> None:
    source = open_source(image_folder)
    assert isinstance(source, ImageSource)
    assert len(source) == 60
    assert source.ids.tolist() == sorted(source.ids.tolist())
    assert source.ids[0].startswith("digit-0/")
    assert source.labels is not None
    assert source.labels.names[0] == "digit-0"
    assert all(isinstance(image, Image.Image) for image in source.images())


def test_flat_image_folder_has_no_labels(tmp_path) -> None:
    for name in ("b.png", "a.png", ".hidden.png", "notes.txt"):
        (tmp_path / name).write_bytes(png(3))
    source = open_source(tmp_path)
    assert source.ids.tolist() == ["a.png", "b.png"]
    assert source.labels is None


def test_images_beside_class_folders_are_ambiguous(image_folder) -> None:
    (image_folder / "stray.png").write_bytes(png(0))
    with pytest.raises(PareError, match=r"1 images \(e.g. stray.png\) are next to class folders"):
        open_source(image_folder)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_manifest_of_image_paths(tmp_path, image_folder, suffix) -> None:
    names = [f.relative_to(tmp_path).as_posix() for f in sorted(image_folder.rglob("*.png"))][:5]
    table = pa.table({"path": names, "label": list("aabbb")})
    file = tmp_path / f"list.{suffix}"
    pa.csv.write_csv(table, file) if suffix == "csv" else pq.write_table(table, file)
    source = open_source(file)
    assert isinstance(source, ImageSource)
    assert source.ids.tolist() == names
    assert source.labels is not None
    assert source.labels.counts.tolist() == [2, 3]
    assert all(isinstance(image, Image.Image) for image in source.images())


def test_hugging_face_folder(tmp_path, vectors) -> None:
    import datasets

    images = [Image.fromarray(np.full((8, 8), i, np.uint8)) for i in range(6)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["no", "yes"])})
    pictures = datasets.Dataset.from_dict({"image": images, "label": [0, 1] * 3}, features=features)
    datasets.DatasetDict({"train": pictures, "test": pictures.select([0])}).save_to_disk(tmp_path / "pictures")
    source = open_source(tmp_path / "pictures")
    assert isinstance(source, ImageSource)
    assert source.ids.tolist() == list(range(6))
    assert source.labels is not None
    assert source.labels.names.tolist() == ["no", "yes"] * 3
    assert [image.getpixel((0, 0)) for image in source.images()] == list(range(6))  # type: ignore[union-attr]
    assert len(open_source(tmp_path / "pictures", split="test")) == 1
    with pytest.raises(PareError, match=r"there is no split 'valid'; it has train, test; choose one with split="):
        open_source(tmp_path / "pictures", split="valid")

    state = tmp_path / "pictures" / "train" / "state.json"
    state.write_text(
        json.dumps(json.loads(state.read_text()) | {"_format_columns": ["label"]})
    )  # which hides the images
    hidden = open_source(tmp_path / "pictures")
    assert isinstance(hidden, ImageSource)
    assert [image.getpixel((0, 0)) for image in hidden.images()] == list(range(6))  # type: ignore[union-attr]

    table = datasets.Dataset.from_dict({"embedding": vectors.tolist(), "id": [f"r{i}" for i in range(20)]})
    table.save_to_disk(tmp_path / "table")
    source = open_source(tmp_path / "table")
    np.testing.assert_allclose(all_vectors(source), vectors)
    assert source.ids[19] == "r19"


def test_webdataset_tars(tmp_path) -> None:
    write_tar(tmp_path / "s-10.tar", {"d/c.png": png(3), "d/c.cls": b"1"})
    write_tar(tmp_path / "s-9.tar", {"a.png": png(1), "a.cls": b"0", "b.png": png(2), "b.json": b"{}", "b.cls": b"1"})
    source = open_source(tmp_path)
    assert isinstance(source, ImageSource)
    assert source.ids.tolist() == ["a", "b", "d/c"]
    assert source.labels is not None
    assert source.labels.names.tolist() == ["0", "1", "1"]
    assert [image.getpixel((0, 0)) for image in source.images()] == [1, 2, 3]  # type: ignore[union-attr]


def test_webdataset_written_by_the_real_library(tmp_path) -> None:
    import webdataset

    with webdataset.TarWriter(str(tmp_path / "x.tar")) as writer:
        for i in range(4):
            writer.write({"__key__": f"s{i}", "png": png(i), "cls": i % 2})
    source = open_source(tmp_path / "x.tar")
    assert source.ids.tolist() == ["s0", "s1", "s2", "s3"]
    assert source.labels is not None
    assert source.labels.codes.tolist() == [0, 1, 0, 1]


def test_fingerprint_follows_the_data_not_the_time(tmp_path, vectors) -> None:
    import os

    np.save(tmp_path / "x.npy", vectors)
    before = open_source(tmp_path / "x.npy").fingerprint()
    os.utime(tmp_path / "x.npy", (0, 0))
    assert open_source(tmp_path / "x.npy").fingerprint() == before
    vectors[0, 0] += 1
    np.save(tmp_path / "x.npy", vectors)
    assert open_source(tmp_path / "x.npy").fingerprint() != before
    assert open_source(vectors).fingerprint() != open_source(vectors + 1).fingerprint()


# --- samples -------------------------------------------------------------------------------------------------------


def test_sample_is_uniform_and_ignores_row_order(rng) -> None:
    vectors = rng.standard_normal((500, 3))
    ids = [f"x{i}" for i in range(500)]
    order = rng.permutation(500)
    whole = open_source(vectors, ids=ids)
    shuffled = open_source(vectors[order], ids=np.array(ids)[order])
    np.testing.assert_array_equal(whole.sample(40, seed=2), shuffled.sample(40, seed=2))  # type: ignore[union-attr]
    np.testing.assert_array_equal(whole.sample(40, seed=2), whole.sample(600, seed=2)[:40])  # type: ignore[union-attr]
    marked = open_source(np.c_[np.ones(200), np.arange(1, 201)])
    hits = np.zeros(201)
    for seed in range(300):
        rows = marked.sample(50, seed=seed)  # type: ignore[union-attr]
        hits[np.rint(rows[:, 1] / rows[:, 0]).astype(int)] += 1
    assert np.all(abs(hits[1:] - 75) < 5 * np.sqrt(300 * 0.25 * 0.75))


# --- bad input -----------------------------------------------------------------------------------------------------


def test_missing_and_unknown_paths(tmp_path) -> None:
    with pytest.raises(PareError, match=r"nothing: there is no such file or folder"):
        open_source(tmp_path / "nothing")
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(PareError, match=r"x.txt: unsupported file type '.txt'; supported: .npy, .npz"):
        open_source(tmp_path / "x.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PareError, match=r"empty: the source is empty"):
        open_source(tmp_path / "empty")
    with pytest.raises(PareError, match=r"on_error must be 'raise' or 'skip', got 'ignore'"):
        open_source(np.ones((2, 2)), on_error="ignore")  # type: ignore[arg-type]


def test_empty_sources(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.empty((0, 4), np.float32))
    with pytest.raises(PareError, match=r"x.npy: the source is empty"):
        open_source(tmp_path / "x.npy")
    with pytest.raises(PareError, match=r"the source is empty"):
        open_source(np.empty((0, 4)))
    write_tar(tmp_path / "x.tar", {"readme.txt": b"hi"})
    with pytest.raises(PareError, match=r"x.tar: the source is empty"):
        open_source(tmp_path / "x.tar")
    write_parquet(tmp_path / "x.parquet", np.empty((0, 4), np.float32), id=pa.array([], pa.string()))
    with pytest.raises(PareError, match=r"x.parquet: the source is empty"):
        open_source(tmp_path / "x.parquet")


def test_wrong_shapes_and_types(tmp_path) -> None:
    with pytest.raises(PareError, match=r"must be a \(rows, dimensions\) array of numbers, got shape \(3,\)"):
        open_source(np.ones(3))
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(PareError, match=r"x.npy: it holds Python objects, which could run code"):
        open_source(tmp_path / "x.npy")  # never unpickled
    np.savez(tmp_path / "y.npz", a=np.ones((2, 2)), b=np.ones((3, 3)))
    with pytest.raises(PareError, match=r"needs a 2-d array named 'embeddings'; it holds a \(2, 2\), b \(3, 3\)"):
        open_source(tmp_path / "y.npz")


def test_mixed_dimensions_across_shards(tmp_path) -> None:
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    np.save(tmp_path / "b.npy", np.ones((2, 4)))
    with pytest.raises(PareError, match=r"embeddings differ in dimension: a.npy has 3, b.npy has 4"):
        open_source(tmp_path)
    folder = tmp_path / "tables"
    folder.mkdir()
    write_parquet(folder / "a.parquet", np.ones((2, 3)), id=["a", "b"])
    write_parquet(folder / "b.parquet", np.ones((2, 4)), id=["c", "d"])
    with pytest.raises(PareError, match=r"embeddings differ in dimension: a.parquet has 3, b.parquet has 4"):
        open_source(folder)
    pq.write_table(
        pa.table({"embedding": [[1.0, 2.0], [1.0], None], "id": ["a", "b", "c"]}), tmp_path / "ragged.parquet"
    )
    with pytest.raises(PareError, match=r"expected 2, but rows 1, 2 have another length or none"):
        all_vectors(open_source(tmp_path / "ragged.parquet"))


def test_duplicate_and_missing_ids(tmp_path) -> None:
    write_parquet(tmp_path / "x.parquet", np.ones((3, 2)), id=["a", "b", "a"])
    with pytest.raises(PareError, match=r"x.parquet: 1 id occurs more than once, e.g. 'a' at rows 0, 2"):
        open_source(tmp_path / "x.parquet")
    write_parquet(tmp_path / "y.parquet", np.ones((3, 2)), id=["a", None, "c"])
    with pytest.raises(PareError, match=r"y.parquet: ids are missing at row 1"):
        open_source(tmp_path / "y.parquet")
    with pytest.raises(PareError, match=r"there are 2 ids for 3 embeddings"):
        open_source(np.ones((3, 2)), ids=["a", "b"])
    with pytest.raises(PareError, match=r"there are 2 labels for 3 examples"):
        open_source(np.ones((3, 2)), labels=[0, 1])


def test_unusable_rows_raise_or_are_skipped(rng) -> None:
    vectors = rng.standard_normal((10, 3)).astype(np.float32)
    vectors[4], vectors[7, 1] = 0, np.nan
    source = open_source(vectors, labels=np.arange(10) % 2)
    with pytest.raises(PareError, match=r"embedding rows 4, 7 holds? only zeros"):
        list(source.batches())  # type: ignore[union-attr]
    assert isinstance(source, VectorSource)
    left = source.without_unusable()
    assert left.ids.tolist() == [0, 1, 2, 3, 5, 6, 8, 9]
    assert [item.what for item in left.skipped] == ["4", "7"]
    assert len(np.concatenate([batch.vectors for batch in left.batches()])) == 8
    assert left.labels is not None
    assert left.labels.codes.tolist() == [0, 1, 0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet"])
def test_truncated_files_raise_or_are_skipped(tmp_path, vectors, name) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    writers = {
        "x.npy": lambda path: np.save(path, vectors),
        "x.npz": lambda path: np.savez(path, embeddings=vectors),
        "x.parquet": lambda path: write_parquet(path, vectors, id=[f"{path.stem}{i}" for i in range(20)]),
    }
    whole, broken = folder / name.replace("x", "whole"), folder / name
    writers[name](whole)
    broken.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(PareError, match=rf"{name}: (truncated|not a readable)"):
        open_source(broken)
    if name != "x.npz":
        with pytest.raises(PareError, match=rf"{name}: (truncated|not a readable)"):
            open_source(folder)
        source = open_source(folder, on_error="skip")
        assert len(source) == 20
        assert [item.what for item in source.skipped] == [name]


def test_truncated_tar_raises_or_keeps_what_can_be_read(tmp_path) -> None:
    write_tar(tmp_path / "x.tar", {f"{i}.png": png(i) for i in range(5)})
    data = (tmp_path / "x.tar").read_bytes()
    with tarfile.open(tmp_path / "x.tar") as tar:
        third = tar.getmembers()[3].offset_data
    for cut in (third + 10, third - 512):  # inside a member, and exactly between two
        (tmp_path / "x.tar").write_bytes(data[:cut])
        with pytest.raises(PareError, match=r"x.tar: truncated or damaged tar .* on_error='skip'"):
            open_source(tmp_path / "x.tar")
        source = open_source(tmp_path / "x.tar", on_error="skip")
        assert source.ids.tolist() == ["0", "1", "2"]
        assert source.skipped[0].what == "x.tar"
        assert isinstance(source, ImageSource)
        assert len(list(source.images())) == 3


@pytest.mark.parametrize("name", ["../evil.png", "/abs.png", "a/../../b.png"])
def test_tar_that_points_outside_is_refused(tmp_path, name) -> None:
    write_tar(tmp_path / "x.tar", {"ok.png": png(0), name: png(1)})
    for on_error in ("raise", "skip"):
        with pytest.raises(PareError, match=r"unsafe member name .* it points outside the archive"):
            open_source(tmp_path / "x.tar", on_error=on_error)  # type: ignore[arg-type]


def test_partly_labelled_tar(tmp_path) -> None:
    write_tar(tmp_path / "x.tar", {"a.png": png(0), "a.cls": b"1", "b.png": png(1)})
    with pytest.raises(PareError, match=r"1 of 2 examples have no .cls label, e.g. 'b'"):
        open_source(tmp_path / "x.tar")


def test_unreadable_images_stay_in_their_place(image_folder) -> None:
    files = sorted(image_folder.rglob("*.png"))
    files[1].write_bytes(files[1].read_bytes()[:60])
    files[2].write_bytes(b"not an image")
    read = list(open_source(image_folder).images())  # type: ignore[union-attr]
    assert [row for row, image in enumerate(read) if isinstance(image, Skipped)] == [1, 2]
    assert "not an image in a known format" in read[2].why  # type: ignore[union-attr]


def test_two_kinds_of_shards_are_ambiguous(tmp_path, vectors) -> None:
    np.save(tmp_path / "x.npy", vectors)
    write_parquet(tmp_path / "x.parquet", vectors, id=np.arange(20))
    with pytest.raises(PareError, match=r"it holds .npy and .parquet files; which of them are the data\?"):
        open_source(tmp_path)


def test_a_split_of_what_has_none_is_refused(tmp_path, digits) -> None:
    np.save(tmp_path / "emb.npy", digits[0])
    with pytest.raises(PareError, match=r"emb.npy: it has no splits; leave out split='test'"):
        open_source(tmp_path / "emb.npy", split="test")
