from __future__ import annotations

import numpy as np
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.scored_data import open_scored_data, open_scored_vectors


def test_images_and_their_embeddings_are_found_again(tmp_path, image_folder) -> None:
    """A store was scored: `open_scored_data` opens the images it was made of, `open_scored_vectors` the store."""
    pdn.embed(image_folder, out=tmp_path / "store", encoder="pixels")
    scores = pdn.score(tmp_path / "store")
    wanted = scores.ids[[7, 3, 20]]
    images, rows = open_scored_data(scores.provenance, wanted)
    assert (images.kind, images.location) == ("image folder", str(image_folder))
    assert images.ids[rows].tolist() == wanted.tolist()  # in the order asked for
    vectors, rows = open_scored_vectors(scores.provenance, wanted)
    assert vectors.location == str(tmp_path / "store")
    np.testing.assert_array_equal(vectors.ids[rows], wanted)


def test_embeddings_that_were_not_kept(tmp_path, image_folder) -> None:
    scores = pdn.score(image_folder, encoder="pixels")
    with pytest.raises(PareError, match=r"embeddings are needed, and this is an image folder; embed it with `paredown"):
        open_scored_vectors(scores.provenance, scores.ids)
    store = pdn.embed(image_folder, out=tmp_path / "store", encoder="pixels")
    vectors, rows = open_scored_vectors(scores.provenance, scores.ids, source=store.path)
    np.testing.assert_array_equal(rows, np.arange(60))
    assert vectors.dim == store.dim


def test_ids_that_are_not_there(digits) -> None:
    scores = pdn.score(digits[0][:50])
    with pytest.raises(PareError, match=r"the data of these scores were never named; say where they are with source="):
        open_scored_data({}, scores.ids)
    with pytest.raises(PareError, match=r"20 of the 50 ids are not in it"):
        open_scored_data(scores.provenance, scores.ids, source=pdn.open_source(digits[0][:30]))


def test_an_array_is_not_called_a_place(rng: np.random.Generator) -> None:
    scores = pdn.score(rng.standard_normal((20, 3)), k=2)
    with pytest.raises(PareError, match="the data were an array in memory; say where they are with source="):
        open_scored_vectors(scores.provenance, scores.ids)
