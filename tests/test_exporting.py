from __future__ import annotations

import io
import os
import tarfile

import numpy as np
import pytest
from PIL import Image

import paredown as pdn
from paredown.errors import PareError


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
        PareError, match=r"these are not the data that were scored: the fingerprint was v2-\w+ and is v2-\w+"
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
        "webdataset": r"emb\.npy \(npy\) has no tars",
        "uids": r"DataComp uids are 32 hexadecimal digits, and id '[0-9]+' is not",
    }.items():
        with pytest.raises(PareError, match=message):
            pdn.export(tmp_path / "p", to=to, out=tmp_path / "x")
    with pytest.raises(PareError, match=r"unknown link 'soft'"):
        pdn.export(tmp_path / "p", to="ids", out=tmp_path / "x", link="soft")  # type: ignore[arg-type]
    with pytest.raises(PareError, match=r"shard_size must be at least 1"):
        pdn.export(tmp_path / "p", to="ids", out=tmp_path / "x", shard_size=0)
    assert not (tmp_path / "x").exists()
