"""What is made of a data set: labels of a teacher, and classes on a long tail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paredown.reproduce.data_folders import TAILED, TAUGHT, Dataset, find_dataset


def arrays(data: Dataset) -> dict[str, np.ndarray]:
    return {name: np.load(file) for name, file in data.features().items()}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


def test_a_teacher_changes_labels_alone(parts: Path) -> None:
    plain, taught = (arrays(find_dataset([f"digits{variant}"], None, parts)) for variant in ("", TAUGHT))
    for name in ("source", "test"):
        np.testing.assert_array_equal(taught[name], plain[name])
    # The teacher has learned its training set; of the test images it takes some for others.
    assert np.mean(taught["labels"] != plain["labels"]) < 0.01
    assert 0 < np.mean(taught["test_labels"] != plain["test_labels"]) < 0.1
    assert set(taught["test_labels"]) == set(range(10))


def test_a_teacher_says_the_same_again(parts: Path, tmp_path: Path) -> None:
    first, again = (arrays(find_dataset([f"digits{TAUGHT}"], None, folder)) for folder in (parts, tmp_path))
    np.testing.assert_array_equal(first["labels"], again["labels"])
    np.testing.assert_array_equal(first["test_labels"], again["test_labels"])


def test_classes_on_a_long_tail(parts: Path) -> None:
    tailed = find_dataset([f"digits{TAILED}"], None, parts)
    found, whole = arrays(tailed), arrays(find_dataset(["digits"], None, parts))
    counts = np.bincount(found["labels"])
    np.testing.assert_array_equal(counts, tailed.class_sizes)
    assert (counts[0], counts[-1], len(found["labels"])) == (116, 11, tailed.examples)
    assert (np.diff(counts) < 0).all()
    np.testing.assert_array_equal(found["source"], whole["source"][tailed.rows()])
    np.testing.assert_array_equal(found["test"], whole["test"])  # tested on all of it


def test_a_smaller_set_has_the_same_tail(parts: Path) -> None:
    whole = find_dataset([f"digits{TAILED}"], None, parts)
    part = whole.with_same_tail(300)
    counts = np.bincount(arrays(part)["labels"])
    np.testing.assert_array_equal(counts, part.class_sizes)
    assert 290 <= counts.sum() == part.examples <= 300
    assert counts[0] / counts[-1] == pytest.approx(10, rel=0.1)
    assert set(part.rows()) <= set(whole.rows())
    assert whole.with_same_tail(whole.examples) == whole.with_same_tail(None) == whole


def test_classes_have_their_names_where_they_have_any(parts: Path) -> None:
    names = {
        name: Dataset(name, None, parts).class_name(3) for name in ("cifar10_features", f"cifar10{TAILED}", "mnist")
    }
    assert list(names.values()) == ["cat", "cat", "class 3"]


def test_a_variant_has_no_images(parts: Path) -> None:
    with pytest.raises(AssertionError, match="labels of a teacher: only there as features"):
        find_dataset([f"digits{TAUGHT}"], None, parts).images()


def test_a_missing_data_set_is_named_without_its_variant(tmp_path: Path) -> None:
    from paredown.errors import PareError

    with pytest.raises(PareError, match="embeddings of CIFAR-10") as caught:
        find_dataset([f"cifar10_features{TAUGHT}"], None, tmp_path)
    assert "cifar10_features (" in str(caught.value)
    assert TAUGHT not in str(caught.value)
