"""Standard data sets from tiny files of every form that they are given out in."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from paredown.errors import PareError
from paredown.sources import ArrayImages, ImageSource, open_source
from paredown.sources.pickles import plain_pickle
from paredown.training import Examples, find_recipe, load_examples

CIFAR_BATCHES = [f"data_batch_{number}" for number in range(1, 6)]


def colours(rng, n: int) -> np.ndarray:
    return rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


def planes(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def write_cifar10(folder: Path, images: np.ndarray, labels: np.ndarray, *, binary: bool) -> None:
    """Two images to a training batch, and the last two as the test batch."""
    folder.mkdir(parents=True)
    for number, name in enumerate([*CIFAR_BATCHES, "test_batch"]):
        rows = slice(2 * number, 2 * number + 2)
        if binary:
            np.hstack([labels[rows, None].astype(np.uint8), planes(images[rows])]).tofile(folder / f"{name}.bin")
        else:
            content = {b"data": planes(images[rows]), b"labels": labels[rows].tolist(), b"batch_label": b"one"}
            (folder / name).write_bytes(pickle.dumps(content, protocol=2))


def idx(array: np.ndarray) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()
    )


def write_mnist(folder: Path, rng, *, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    images, labels = rng.integers(0, 256, (12, 28, 28), dtype=np.uint8), np.array([9, 0, 3, 1, 2, 4, 5, 6, 7, 8, 1, 2])
    for part, rows in (("train", slice(0, 10)), ("t10k", slice(10, 12))):
        for stem, array in (("images-idx3", images), ("labels-idx1", labels)):
            data = idx(array[rows])
            name = f"{part}-{stem}-ubyte"
            (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(data) if packed else data)
    return images, labels


def pixels(source: ImageSource) -> np.ndarray:
    """As every other user of images sees them: decoded."""
    return np.stack([np.asarray(image) for image in source.images()])


# --- every form ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subfolder", "binary"),
    [("", True), ("", False), ("cifar-10-batches-bin", True), ("cifar-10-batches-py", False)],
)
def test_cifar10(rng, tmp_path, subfolder, binary) -> None:
    images, labels = colours(rng, 12), rng.integers(0, 10, 12)
    write_cifar10(tmp_path / "data" / subfolder, images, labels, binary=binary)
    train, test = (open_source(f"cifar10:{tmp_path / 'data'}", split=split) for split in ("train", "test"))
    assert isinstance(train, ArrayImages)
    assert isinstance(test, ArrayImages)
    np.testing.assert_array_equal(pixels(train), images[:10])
    np.testing.assert_array_equal(pixels(test), images[10:])
    assert train.ids.tolist()[:2] == ["train/000000", "train/000001"]
    assert test.ids.tolist() == ["test/000000", "test/000001"]
    assert train.labels is not None
    assert train.labels.codes.tolist() == labels[:10].tolist()
    assert train.labels.classes[:3] == ("airplane", "automobile", "bird")
    assert train.fingerprint() != test.fingerprint()


@pytest.mark.parametrize("binary", [True, False])
def test_cifar100(rng, tmp_path, binary) -> None:
    images, fine = colours(rng, 4), np.array([0, 99, 50, 50])
    names = [f"thing{number:02d}" for number in range(100)]
    if binary:
        for name, rows in (("train", slice(0, 3)), ("test", slice(3, 4))):
            coarse = np.full((len(fine[rows]), 1), 7, np.uint8)
            np.hstack([coarse, fine[rows, None].astype(np.uint8), planes(images[rows])]).tofile(
                tmp_path / f"{name}.bin"
            )
        (tmp_path / "fine_label_names.txt").write_text("\n".join(names) + "\n")
    else:
        for name, rows in (("train", slice(0, 3)), ("test", slice(3, 4))):
            content = {b"data": planes(images[rows]), b"fine_labels": fine[rows].tolist(), b"coarse_labels": [7] * 3}
            (tmp_path / name).write_bytes(pickle.dumps(content, protocol=2))
        (tmp_path / "meta").write_bytes(pickle.dumps({b"fine_label_names": [n.encode() for n in names]}, protocol=2))
    source = open_source(f"cifar100:{tmp_path}")
    np.testing.assert_array_equal(pixels(source), images[:3])
    assert source.labels is not None
    assert source.labels.names.tolist() == ["thing00", "thing99", "thing50"]
    assert len(source.labels.classes) == 100
    assert len(open_source(f"cifar100:{tmp_path}", split="test")) == 1


def test_svhn(rng, tmp_path) -> None:
    images, labels = colours(rng, 5), np.array([10, 1, 9, 2, 10])
    for split, rows in (("train", slice(0, 3)), ("test", slice(3, 4)), ("extra", slice(4, 5))):
        content = {"X": images[rows].transpose(1, 2, 3, 0), "y": labels[rows, None].astype(np.uint8)}
        savemat(tmp_path / f"{split}_32x32.mat", content)
    source = open_source(f"svhn:{tmp_path}")
    np.testing.assert_array_equal(pixels(source), images[:3])
    assert source.labels is not None
    assert source.labels.names.tolist() == ["0", "1", "9"]  # 10 is the digit 0
    np.testing.assert_array_equal(pixels(open_source(f"svhn:{tmp_path}", split="extra")), images[4:])


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("name", "subfolder"), [("mnist", "MNIST/raw"), ("fashion_mnist", "")])
def test_mnist_and_fashion_mnist(rng, tmp_path, name, subfolder, packed) -> None:
    images, _ = write_mnist(tmp_path / subfolder, rng, packed=packed)
    source, test = open_source(f"{name}:{tmp_path}"), open_source(f"{name}:{tmp_path}", split="test")
    np.testing.assert_array_equal(pixels(source), images[:10])
    np.testing.assert_array_equal(pixels(test), images[10:])
    assert source.labels is not None
    assert test.labels is not None
    named = {"mnist": ["9", "0", "3"], "fashion_mnist": ["Ankle boot", "T-shirt/top", "Dress"]}[name]
    assert source.labels.names.tolist()[:3] == named
    assert test.labels.classes == source.labels.classes  # also for a split that lacks some
    examples = load_examples(source, find_recipe("tiny_cnn"))
    assert isinstance(examples, Examples)
    np.testing.assert_array_equal(examples.inputs[..., 0], images[:10])
    larger = load_examples(source, find_recipe("tiny_cnn", image_size=32))
    assert larger.shape == (32, 32, 1)


def test_imagenet_folders(tmp_path) -> None:
    for split in ("train", "val"):
        for number, synset in enumerate(("n01440764", "n01443537")):
            folder = tmp_path / split / synset
            folder.mkdir(parents=True)
            Image.new("RGB", (9, 7), (number, 0, 0)).save(folder / f"{synset}_1.png")
    source = open_source(f"imagenet:{tmp_path}")
    assert source.ids.tolist() == ["train/n01440764/n01440764_1.png", "train/n01443537/n01443537_1.png"]
    assert source.labels is not None
    assert source.labels.classes == ("n01440764", "n01443537")
    for split in ("val", "test"):
        assert open_source(f"imagenet:{tmp_path}", split=split).ids[0] == "val/n01440764/n01440764_1.png"
    flat = tmp_path / "flat"
    (flat / "val").mkdir(parents=True)
    Image.new("RGB", (9, 7)).save(flat / "val" / "ILSVRC2012_val_00000001.png")
    with pytest.raises(PareError, match="not in class folders"):
        open_source(f"imagenet:{flat}", split="val")
    with pytest.raises(PareError, match=r"there is no folder train\. ImageNet needs the folders train and val"):
        open_source(f"imagenet:{flat}")


def test_a_data_set_can_be_scored_and_exported_as_any_source(rng, tmp_path, paredown) -> None:
    write_mnist(tmp_path / "data", rng, packed=True)
    where = f"mnist:{tmp_path / 'data'}"
    assert paredown("embed", where, "-o", "store", "--encoder", "pixels").returncode == 0
    done = paredown("prune", "store", "--keep-fraction", 0.5, "--strategy", "random", "-o", "pruned")
    assert done.returncode == 0, done.stderr
    done = paredown("score", where, "--metric", "random", "-o", "scores.parquet")
    assert done.returncode == 0, done.stderr
    done = paredown("export", "pruned", "--to", "ids", "-o", "ids.txt")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "ids.txt").read_text().split()) == 5
    done = paredown("export", "pruned", "--to", "images", "-o", "images")
    assert done.returncode == 2
    assert " (MNIST) has no image files" in done.stderr


# --- what is missing or damaged ------------------------------------------------------------------------------------


def test_a_missing_file_is_named_with_what_belongs_there(rng, tmp_path) -> None:
    write_cifar10(tmp_path / "c", colours(rng, 12), np.arange(12) % 10, binary=True)
    (tmp_path / "c" / "data_batch_3.bin").unlink()
    with pytest.raises(PareError, match=r"data_batch_3\.bin or data_batch_3 is missing\. CIFAR-10 needs .*tar\.gz"):
        open_source(f"cifar10:{tmp_path / 'c'}")
    assert len(open_source(f"cifar10:{tmp_path / 'c'}", split="test")) == 2
    for name, file in (("svhn", "train_32x32.mat"), ("mnist", "train-images-idx3-ubyte"), ("cifar100", "train.bin")):
        with pytest.raises(PareError, match=f"{file}.* is missing"):
            open_source(f"{name}:{tmp_path}")
    with pytest.raises(PareError, match=r"nowhere: there is no such folder\. MNIST needs train-images-idx3-ubyte"):
        open_source(f"mnist:{tmp_path / 'nowhere'}")
    with pytest.raises(PareError, match="unknown split of MNIST 'validation'; available: test, train"):
        open_source(f"mnist:{tmp_path}", split="validation")
    with pytest.raises(PareError, match="there is no such file or folder"):
        open_source(f"imagenot:{tmp_path}")


@pytest.mark.parametrize("packed", [True, False])
def test_damaged_idx_files(rng, tmp_path, packed) -> None:
    write_mnist(tmp_path, rng, packed=packed)
    suffix = ".gz" * packed
    images = tmp_path / f"train-images-idx3-ubyte{suffix}"
    whole = images.read_bytes()
    images.write_bytes(whole[:-20])
    with pytest.raises(PareError, match=rf"train-images-idx3-ubyte{suffix}: .*truncated"):
        open_source(f"mnist:{tmp_path}")
    images.write_bytes(gzip.compress(b"nonsense") if packed else b"nonsense")
    with pytest.raises(PareError, match="not an idx file of bytes with 3 dimensions"):
        open_source(f"mnist:{tmp_path}")
    images.write_bytes(whole)
    labels = idx(np.arange(9))
    (tmp_path / f"train-labels-idx1-ubyte{suffix}").write_bytes(gzip.compress(labels) if packed else labels)
    with pytest.raises(PareError, match=r"has 9 labels for the 10 images of train-images"):
        open_source(f"mnist:{tmp_path}")


def test_damaged_cifar_and_svhn_files(rng, tmp_path) -> None:
    images = colours(rng, 12)
    write_cifar10(tmp_path / "b", images, np.arange(12) % 10, binary=True)
    file = tmp_path / "b" / "data_batch_2.bin"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(PareError, match=r"data_batch_2\.bin: truncated; 6146 bytes expected, 6141 found"):
        open_source(f"cifar10:{tmp_path / 'b'}")
    write_cifar10(tmp_path / "l", images, np.full(12, 11), binary=True)
    with pytest.raises(PareError, match="label 11 of image 0 is not one of the 10 classes of CIFAR-10"):
        open_source(f"cifar10:{tmp_path / 'l'}")
    write_cifar10(tmp_path / "p", images, np.arange(12) % 10, binary=False)
    file = tmp_path / "p" / "data_batch_4"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(PareError, match="data_batch_4: not a readable CIFAR file"):
        open_source(f"cifar10:{tmp_path / 'p'}")
    for content, message in (
        ([1, 2], "no array 'data'"),
        ({b"data": planes(images[:2])}, "no list of class numbers 'labels'"),
        ({b"data": planes(images[:2]), b"labels": [1]}, "1 labels for 2 images"),
    ):
        file.write_bytes(pickle.dumps(content, protocol=2))
        with pytest.raises(PareError, match=f"data_batch_4: .*{message}"):
            open_source(f"cifar10:{tmp_path / 'p'}")
    (tmp_path / "train_32x32.mat").write_bytes(b"nonsense")
    with pytest.raises(PareError, match=r"train_32x32\.mat: not a readable \.mat file"):
        open_source(f"svhn:{tmp_path}")
    savemat(tmp_path / "train_32x32.mat", {"X": np.zeros((32, 32, 2, 3), np.uint8), "y": np.ones((3, 1))})
    with pytest.raises(PareError, match=r"X should be \(height, width, 3, 3\) of uint8"):
        open_source(f"svhn:{tmp_path}")


class Command:
    def __init__(self, function, *arguments) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_runs_code_is_refused(tmp_path, protocol) -> None:
    harm = tmp_path / "harm"
    for call in (Command(os.mkdir, str(harm)), Command(eval, f"__import__('os').mkdir({str(harm)!r})")):
        (tmp_path / "file").write_bytes(pickle.dumps({b"data": call}, protocol=protocol))
        with pytest.raises(
            PareError, match=r"file: not a readable CIFAR file \(it asks for \w+\.\w+, which is refused\)"
        ):
            plain_pickle(tmp_path / "file")
    assert not harm.exists()


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}, None], object),
        np.array([(1, 2.0)], [("a", int), ("b", float)]),
        {1, 2}.__class__,
        np.array(["x"]),
        np.arange(5.0),
        np.arange(5, dtype=np.int8),
    ],
)
def test_nothing_but_bytes_comes_out_of_a_pickled_array(tmp_path, value) -> None:
    (tmp_path / "file").write_bytes(pickle.dumps(value, protocol=2))
    with pytest.raises(PareError, match="refused"):
        plain_pickle(tmp_path / "file")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_plain_pickles_are_read(tmp_path, rng, protocol) -> None:
    array = rng.integers(0, 256, (3, 4), dtype=np.uint8)
    for data in (array, array.T, array[0]):
        (tmp_path / "file").write_bytes(pickle.dumps({b"x": data, b"y": [1, (2, b"z")]}, protocol=protocol))
        content = plain_pickle(tmp_path / "file")
        np.testing.assert_array_equal(content[b"x"], data)
        assert content[b"y"] == [1, (2, b"z")]


# A list in a list in a list, with two entries each: printed, it would be 2^60 entries long.
BRANCHING = b"]q\x00" + b"".join(b"](h%ch%ceq%c" % (n, n, n + 1) for n in range(60))
NESTED = b")" + b"\x85" * 300_000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        # numpy.ndarray((1,), "O", b"AAAAAAAA"): an array of objects whose addresses the file chooses.
        (b"cnumpy\nndarray\n(K\x01\x85U\x01OU\x08AAAAAAAAtR.", "it calls numpy.ndarray in a way that is refused"),
        (b"cnumpy\ndtype\n(U\x01OtR.", "CIFAR"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\ndtype\n(K\x00tU\x01btR.", "refused"),
        (b"c_codecs\nencode\n(X\x01\x00\x00\x00aU\x05rot13tR.", "it calls _codecs.encode in a way that is refused"),
        (b"(cos\nsystem\nU\x02lso.", "it asks for os.system, which is refused"),
        (b"(U\x02ls" + b"ios\nsystem\n.", "opcode INST, which is refused"),
        (b"\x80\x02]\x8f.", "opcode EMPTY_SET, which is refused"),
        (b"U\x01a.", "no array 'data'"),
        (b"]r\xff\xff\xff\x7f.", "no array 'data'"),  # a memo of 2^31 places
        (b"}" + NESTED + b"K\x01s.", "a dictionary whose keys are not text"),
        (BRANCHING + b"U\x01a\x93.", "something else where a name belongs"),
        (b"T\xff\xff\xff\x7fabc.", "expected 2147483647 bytes"),
        (b"I" + b"9" * 5000 + b"\n.", "4300 digits"),
        (b"}U\x04data", "pickle exhausted before seeing STOP"),
        (b"", "pickle exhausted before seeing STOP"),
        (b".", "pop from empty list"),
        (b"h\x05.", "it lacks 5"),
    ],
)
def test_hostile_pickles(tmp_path, content, said) -> None:
    write_cifar10(tmp_path / "c", np.zeros((12, 32, 32, 3), np.uint8), np.arange(12) % 10, binary=False)
    (tmp_path / "c" / "data_batch_1").write_bytes(content)
    with pytest.raises(PareError, match=f"data_batch_1: not a .*{said}"):
        open_source(f"cifar10:{tmp_path / 'c'}")


@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3072), 3072), ((2**40, 2**40), 6144), ((-2, -3072), 6144), ((2.0, 3072), 6144), ([2], 2)]
)
def test_a_pickled_array_must_have_as_many_bytes_as_its_shape_says(tmp_path, shape, size) -> None:
    class Array:
        def __reduce__(self):
            whole = np.zeros(1, np.uint8).__reduce__()
            return (*whole[:2], (1, shape, np.dtype(np.uint8), False, b"\0" * size))

        def __setstate__(self, state) -> None: ...

    (tmp_path / "file").write_bytes(pickle.dumps({b"data": Array()}, protocol=2))
    with pytest.raises(PareError, match="an array whose shape and bytes do not match, which is refused"):
        plain_pickle(tmp_path / "file")


def test_idx_files_that_declare_too_much(tmp_path, rng) -> None:
    write_mnist(tmp_path, rng, packed=True)
    images = tmp_path / "train-images-idx3-ubyte.gz"
    header = bytes([0, 0, 8, 3])
    for shape, said in (
        ((2**32 - 1, 2**32 - 1, 2), "its contents need"),
        ((10, 28, 29), "truncated"),
        ((10, 28, 27), "too long"),
        ((2**32 - 1, 0, 0), "it holds no images|too long"),
    ):
        images.write_bytes(gzip.compress(header + struct.pack(">3I", *shape) + b"\0" * 7840))
        with pytest.raises(PareError, match=f"train-images-idx3-ubyte.gz: .*({said})"):
            open_source(f"mnist:{tmp_path}")
    images.write_bytes(gzip.compress(header + struct.pack(">3I", 10, 28, 28) + bytes(2**24)))
    with pytest.raises(PareError, match="too long"):  # found after one byte too many, not after all of them
        open_source(f"mnist:{tmp_path}")
