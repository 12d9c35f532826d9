from __future__ import annotations

import csv
import io
import json
import os
import re
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import paredown as pdn
from paredown.errors import PareError
from paredown.exporting.dataset_folders import tar_keys
from paredown.ids import TEXT
from paredown.projection import project
from paredown.scores import Labels, Scores


@pytest.fixture
def pruned_images(tmp_path, image_folder):
    kept = pdn.prune(image_folder, keep_fraction=0.5, out=tmp_path / "pruned", scoring={"encoder": "pixels"})
    return tmp_path / "pruned", kept


def test_ids_paths_and_indices(tmp_path, image_folder, pruned_images) -> None:
    manifest, kept = pruned_images
    assert pdn.export(manifest, to="ids", out=tmp_path / "ids.txt") == 30
    assert (tmp_path / "ids.txt").read_text().splitlines() == kept.ids.tolist()
    pdn.export(manifest, to="paths", out=tmp_path / "paths.txt")
    paths = (tmp_path / "paths.txt").read_text().splitlines()
    assert paths == [str(image_folder / name) for name in kept.ids]
    assert all(os.path.isabs(path) and os.path.exists(path) for path in paths)
    pdn.export(manifest, to="indices", out=tmp_path / "indices.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "indices.npy"), kept.indices)


def test_a_selection_is_exported_as_its_manifest_is(tmp_path, image_folder, pruned_images) -> None:
    manifest, kept = pruned_images
    for to, name in (("ids", "ids.txt"), ("paths", "paths.txt"), ("indices", "indices.npy")):
        pdn.export(manifest, to=to, out=tmp_path / name)
        assert pdn.export(kept, to=to, out=tmp_path / f"of-{name}") == 30
        assert (tmp_path / f"of-{name}").read_bytes() == (tmp_path / name).read_bytes()
        assert pdn.export(kept, to=to, out=tmp_path / name) == 30  # the same export, which is complete
    with pytest.raises(PareError, match=r"ids\.txt already exists"):
        pdn.export(kept.at(0.2), to="ids", out=tmp_path / "ids.txt")


def test_a_selection_of_plain_numbers_is_exported(tmp_path) -> None:
    kept = pdn.select([3.0, 1.0, 2.0], keep_fraction=0.67, ids=["a", "b", "c"])
    assert pdn.export(kept, to="ids", out=tmp_path / "kept.txt") == 2
    assert (tmp_path / "kept.txt").read_text() == "a\nc\n"
    with pytest.raises(PareError, match=r"the data of these scores were never named; say where they are with source="):
        pdn.export(kept, to="paths", out=tmp_path / "paths.txt")


@pytest.mark.parametrize("link", ["copy", "hard", "symbolic"])
def test_image_folder(tmp_path, image_folder, pruned_images, link) -> None:
    manifest, kept = pruned_images
    pdn.export(manifest, to="images", out=tmp_path / "kept", link=link)
    written = sorted(p.relative_to(tmp_path / "kept").as_posix() for p in (tmp_path / "kept").rglob("*.png"))
    assert written == sorted(kept.ids.tolist())
    name = written[0]
    assert (tmp_path / "kept" / name).read_bytes() == (image_folder / name).read_bytes()
    assert (tmp_path / "kept" / name).is_symlink() == (link == "symbolic")
    assert os.path.samefile(tmp_path / "kept" / name, image_folder / name) == (link != "copy")
    assert pdn.open_source(tmp_path / "kept").labels is not None  # the class folders are still there


def test_moved_or_changed_data(tmp_path, image_folder, pruned_images) -> None:
    manifest, kept = pruned_images
    image_folder.rename(tmp_path / "moved")
    with pytest.raises(PareError, match=r"the data are no longer at .*images; say where they are with source="):
        pdn.export(manifest, to="paths", out=tmp_path / "paths.txt")
    assert pdn.export(manifest, to="paths", out=tmp_path / "paths.txt", source=tmp_path / "moved") == 30
    (tmp_path / "moved" / kept.ids[0]).unlink()
    with pytest.raises(
        PareError, match=r"these are not the data that were scored; their content has changed since\. Score"
    ):
        pdn.export(manifest, to="images", out=tmp_path / "kept", source=tmp_path / "moved")
    with pytest.raises(PareError, match=r"1 of the 30 kept ids are not in it; are these the data that were scored\?"):
        pdn.export(manifest, to="images", out=tmp_path / "kept", source=tmp_path / "moved", trust_source=True)
    assert not (tmp_path / "kept").exists()


def test_hugging_face_from_images(tmp_path, image_folder, pruned_images) -> None:
    import datasets

    manifest, kept = pruned_images
    pdn.export(manifest, to="huggingface", out=tmp_path / "hf")
    image_folder.rename(tmp_path / "gone")  # the images are inside the dataset now
    dataset = datasets.load_from_disk(str(tmp_path / "hf"))
    assert dataset["id"][:] == kept.ids.tolist()
    assert dataset.features["label"].names == list(kept.scores.labels.classes)
    first = Image.open(tmp_path / "gone" / kept.ids[0])
    np.testing.assert_array_equal(np.asarray(dataset[0]["image"]), np.asarray(first))


def test_hugging_face_from_embeddings_and_from_itself(tmp_path, digits) -> None:
    import datasets

    np.save(tmp_path / "emb.npy", digits[0])
    kept = pdn.prune(tmp_path / "emb.npy", labels=digits[1], keep_fraction=0.1, out=tmp_path / "pruned")
    pdn.export(tmp_path / "pruned", to="huggingface", out=tmp_path / "hf")
    dataset = datasets.load_from_disk(str(tmp_path / "hf"))
    np.testing.assert_array_equal(dataset.with_format("numpy")["embedding"][:], digits[0][kept.indices])
    np.testing.assert_array_equal(dataset["label"][:], digits[1][kept.indices])

    again = pdn.prune(tmp_path / "hf", keep_fraction=0.5, out=tmp_path / "again")
    pdn.export(tmp_path / "again", to="huggingface", out=tmp_path / "smaller")
    smaller = datasets.load_from_disk(str(tmp_path / "smaller"))
    assert smaller["id"][:] == again.ids.tolist()
    assert smaller.features == dataset.features


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # theirs
def test_webdataset_reshard(tmp_path, digits) -> None:
    images, labels = digits
    source = tmp_path / "tars"
    source.mkdir()
    for shard in range(3):
        with tarfile.open(source / f"{shard}.tar", "w") as tar:
            for row in range(shard * 10, shard * 10 + 10):
                stream = io.BytesIO()
                Image.fromarray((images[row].reshape(8, 8) * 15).astype(np.uint8)).save(stream, "PNG")
                for name, data in ((f"k{row}.png", stream.getvalue()), (f"k{row}.cls", str(labels[row]).encode())):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    kept = pdn.prune(source, keep_fraction=0.4, out=tmp_path / "pruned", scoring={"encoder": "pixels"})
    pdn.export(tmp_path / "pruned", to="webdataset", out=tmp_path / "new", shard_size=5)
    assert sorted(p.name for p in (tmp_path / "new").glob("*")) == [".paredown", "00000.tar", "00001.tar", "00002.tar"]
    back = pdn.open_source(tmp_path / "new")
    assert back.ids.tolist() == kept.ids.tolist()
    assert back.labels is not None
    np.testing.assert_array_equal(back.labels.names, kept.scores.labels.names[kept.keep])

    import webdataset  # the real library reads what was written

    urls = sorted(str(p) for p in (tmp_path / "new").glob("*.tar"))
    samples = list(webdataset.WebDataset(urls, shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == kept.ids.tolist()


def test_datacomp_uids_are_sorted_pairs(tmp_path, rng) -> None:
    uids = [f"{int(a):016x}{int(b):016x}" for a, b in rng.integers(0, 2**63, (40, 2))]
    kept = pdn.prune(pdn.open_source(rng.standard_normal((40, 3)), ids=uids), keep_fraction=0.5, out=tmp_path / "p")
    pdn.export(tmp_path / "p", to="uids", out=tmp_path / "uids.npy")
    written = np.load(tmp_path / "uids.npy")
    assert written.dtype == np.dtype("u8,u8")
    assert [f"{a:016x}{b:016x}" for a, b in written.tolist()] == sorted(kept.ids.tolist())


def test_wrong_exports_are_named(tmp_path, digits) -> None:
    np.save(tmp_path / "emb.npy", digits[0])
    pdn.prune(tmp_path / "emb.npy", keep_fraction=0.5, out=tmp_path / "p")
    for to, message in {
        "path": r"unknown export 'path'; available: .* Did you mean 'paths'\?",
        "paths": r"emb\.npy \(npy\) has no image files; export 'ids' or 'indices' instead",
        "webdataset": r"emb\.npy \(npy\) has neither tars nor image files",
        "uids": r"DataComp uids are 32 hexadecimal digits, and id '[0-9]+' is not",
    }.items():
        with pytest.raises(PareError, match=message):
            pdn.export(tmp_path / "p", to=to, out=tmp_path / "x")
    with pytest.raises(PareError, match=r"unknown link 'soft'"):
        pdn.export(tmp_path / "p", to="ids", out=tmp_path / "x", link="soft")  # type: ignore[arg-type]
    with pytest.raises(PareError, match=r"shard_size must be at least 1"):
        pdn.export(tmp_path / "p", to="ids", out=tmp_path / "x", shard_size=0)
    assert not (tmp_path / "x").exists()


def test_csv_has_every_example_and_survives_any_id(tmp_path, rng) -> None:
    ids = ["a,b", 'say "hi"', "two\nlines", "carriage\rreturn", "007", "plain"]
    scores = Scores(
        rng.standard_normal(6).astype(np.float32), np.array(ids), "mine", Labels.of(list("xyxyxy")), np.arange(6) % 2
    )
    kept = pdn.select(scores, keep_fraction=0.5, balance=0)
    assert pdn.export(kept, to="csv", out=tmp_path / "all.csv") == 6
    with (tmp_path / "all.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == ids
    assert [row["keep"] for row in rows] == [str(keep).lower() for keep in kept.keep.tolist()]
    assert [np.float32(row["score"]) for row in rows] == scores.values.tolist()
    assert [row["label"] for row in rows] == list("xyxyxy")
    assert [row["cluster"] for row in rows] == list("010101")
    other = Scores(scores.values + 1, scores.ids, "mine", scores.labels, scores.clusters)
    with pytest.raises(PareError, match="already exists"):  # the same examples are kept, with other scores
        pdn.export(pdn.select(other, keep_fraction=0.5, balance=0), to="csv", out=tmp_path / "all.csv")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # theirs
def test_webdataset_of_an_image_folder(tmp_path, image_folder, pruned_images) -> None:
    manifest, kept = pruned_images
    pdn.export(manifest, to="webdataset", out=tmp_path / "tars", shard_size=12)
    assert json.loads((tmp_path / "tars" / "classes.json").read_text()) == [f"digit-{n}" for n in range(10)]

    import webdataset

    urls = sorted(str(path) for path in (tmp_path / "tars").glob("*.tar"))
    assert len(urls) == 3
    samples = list(webdataset.WebDataset(urls, shardshuffle=False).decode("rgb8"))
    assert [sample["__key__"] for sample in samples] == [
        name.removesuffix(".png").replace("/", "_") for name in kept.ids.tolist()
    ]
    for sample, name in zip(samples, kept.ids.tolist(), strict=True):
        assert f"digit-{sample['cls']}" == name.partition("/")[0]
        np.testing.assert_array_equal(sample["png"][..., 0], np.asarray(Image.open(image_folder / name)))
    pdn.export(manifest, to="webdataset", out=tmp_path / "again", shard_size=12)
    for url in urls:  # the same bytes, whatever the time of day
        assert Path(url).read_bytes() == (tmp_path / "again" / Path(url).name).read_bytes()


def test_keys_of_tars_are_safe_and_unique() -> None:
    ids = np.array(["a/b.png", "a_b.jpg", "../x.png", "c.d.png", "A/B.PNG", "é", "n" * 300, ".png"], TEXT)
    keys = tar_keys(ids)
    assert len({key.lower() for key in keys}) == len(keys)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,170}", key) for key in keys)
    assert keys[3] == "c_d"
    assert tar_keys(ids[::-1]) == keys[::-1]


def test_labels_follow_their_images_where_the_source_has_another_order(tmp_path, image_folder) -> None:
    names = sorted(path.relative_to(image_folder).as_posix() for path in image_folder.rglob("*.png"))
    for name, listed in (("one", names), ("two", names[::-1])):
        rows = [f"images/{entry},{entry.partition('/')[0]},{entry}" for entry in listed]
        (tmp_path / f"{name}.csv").write_text("path,label,id\n" + "\n".join(rows) + "\n")
    pdn.prune(tmp_path / "one.csv", keep_fraction=0.5, metric="random", out=tmp_path / "p")
    pdn.export(tmp_path / "p", to="huggingface", out=tmp_path / "hf", source=tmp_path / "two.csv", trust_source=True)
    import datasets

    made = datasets.load_from_disk(str(tmp_path / "hf"))
    classes = made.features["label"].names
    assert [classes[code] for code in made["label"][:]] == [name.partition("/")[0] for name in made["id"][:]]


def test_fiftyone(tmp_path, image_folder, pruned_images) -> None:
    """The form that FiftyOne 1.22 was seen to load: one description of the dataset, one list of samples."""
    manifest, kept = pruned_images
    assert pdn.export(manifest, to="fiftyone", out=tmp_path / "fo") == 60
    samples = json.loads((tmp_path / "fo" / "samples.json").read_text())["samples"]
    dataset = json.loads((tmp_path / "fo" / "metadata.json").read_text())
    assert [sample["example_id"] for sample in samples] == kept.scores.ids.tolist()
    for sample, row in zip(samples, range(60), strict=True):
        name = sample["example_id"]
        assert sample["filepath"] == str(image_folder / name)
        assert sample["tags"] == ["kept" if kept.keep[row] else "dropped"]
        assert (sample["keep"], sample["score"]) == (kept.keep[row], kept.scores.values[row])
        assert sample["cluster"] == kept.scores.clusters[row]
        assert sample["ground_truth"] == {"_cls": "Classification", "tags": [], "label": name.partition("/")[0]}
        assert 0 <= sample["_rand"] < 1
    fields = {field["name"]: field["ftype"].rpartition(".")[2] for field in dataset["sample_fields"]}
    own = {name for sample in samples for name in sample if not name.startswith("_")}
    assert own <= set(fields)
    assert (fields["score"], fields["keep"], fields["cluster"]) == ("FloatField", "BooleanField", "IntField")
    assert (dataset["media_type"], dataset["version"]) == ("image", "1.0.0")


@pytest.mark.parametrize("link", ["copy", "symbolic"])
def test_lightly(tmp_path, image_folder, pruned_images, link) -> None:
    manifest, kept = pruned_images
    assert pdn.export(manifest, to="lightly", out=tmp_path / "ls", link=link) == 60
    lines = [json.loads(line) for line in (tmp_path / "ls" / "metadata.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == kept.scores.ids.tolist()
    for line, keep, score in zip(lines, kept.keep.tolist(), kept.scores.values.tolist(), strict=True):
        assert line["file"] == f"images/{'kept' if keep else 'dropped'}/{line['id']}"
        assert (line["keep"], line["score"], line["label"]) == (keep, score, line["id"].partition("/")[0])
        assert (tmp_path / "ls" / line["file"]).read_bytes() == (image_folder / line["id"]).read_bytes()
    compile((tmp_path / "ls" / "show.py").read_text(), "show.py", "exec")


def test_atlas(tmp_path, digits) -> None:
    vectors = digits[0][:200]
    np.save(tmp_path / "emb.npy", vectors)
    kept = pdn.prune(tmp_path / "emb.npy", labels=digits[1][:200], keep_fraction=0.5, out=tmp_path / "p")
    assert pdn.export(tmp_path / "p", to="atlas", out=tmp_path / "atlas.parquet") == 200
    table = pq.read_table(tmp_path / "atlas.parquet")
    assert table.column_names == ["id", "keep", "score", "label", "cluster", "x", "y", "neighbors"]
    assert table["keep"].to_numpy().tolist() == kept.keep.tolist()
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    points = project(pdn.open_source(vectors).gather(np.arange(200)), seed=0)
    np.testing.assert_array_equal(np.c_[table["x"].to_numpy(), table["y"].to_numpy()], points)
    apart = 1 - units @ units.T
    for row, found in enumerate(table["neighbors"].to_pylist()):
        assert found["ids"][0] == row
        assert len(set(found["ids"])) == 15
        np.testing.assert_allclose(found["distances"], np.sort(apart[row])[:15], atol=1e-6)
        np.testing.assert_allclose(found["distances"], apart[row][found["ids"]], atol=1e-6)


def test_exports_for_viewers_say_what_they_need(tmp_path, digits, image_folder, pruned_images, paredown) -> None:
    with pytest.raises(PareError, match=r"embeddings are needed, and this is an image folder; embed it with"):
        pdn.export(pruned_images[0], to="atlas", out=tmp_path / "a.parquet")
    pdn.embed(image_folder, out=tmp_path / "store", encoder="pixels")
    made = paredown("export", "pruned", "--to", "atlas", "--source", "store", "-o", "a.parquet")
    assert made.stdout.splitlines()[-1] == "Next: embedding-atlas a.parquet --x x --y y --neighbors neighbors"
    pdn.prune(digits[0][:50], keep_fraction=0.5, out=tmp_path / "p")
    for to in ("fiftyone", "lightly"):
        with pytest.raises(PareError, match=r"has no image files"):
            pdn.export(tmp_path / "p", to=to, out=tmp_path / to, source=pdn.open_source(digits[0][:50]))
        assert not (tmp_path / to).exists()
