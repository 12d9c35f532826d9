"""What `score` and `prune` say about labels and shares where embeddings are read by ranges of rows."""

from __future__ import annotations

import numpy as np
import pytest

from paredown.sources.row_ranges import RangedSource


@pytest.fixture
def embeddings(tmp_path, rng):
    np.save(tmp_path / "x.npy", rng.standard_normal((300, 4)).astype(np.float32))
    np.save(tmp_path / "y.npy", np.arange(300) % 3)
    return tmp_path / "x.npy"


def said(result) -> str:
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "how", [["score", "--engine", "ray"], ["prune", "--engine", "ray"], ["score", "--shard", "1/2"]]
)
def test_labels_are_put_beside_the_embeddings(embeddings, paredown, tmp_path, how) -> None:
    verb, *where = how
    result = paredown(verb, embeddings, "--labels", tmp_path / "y.npy", "-o", tmp_path / "s", *where)
    assert result.returncode == 2
    assert (
        f"--labels cannot be given with --engine ray or --shard: workers read {tmp_path / 'y.npy'} from beside the "
        "embeddings; put x.npy into a folder with it, named labels.npy, and give that folder, or use --engine local."
    ) in said(result)
    folder = tmp_path / "folder"
    folder.mkdir()
    embeddings.rename(folder / "x.npy")
    result = paredown(verb, folder, "--labels", tmp_path / "y.npy", "-o", tmp_path / "s", *where)
    assert f"copy it to {folder / 'labels.npy'}, or use" in said(result)


def test_a_metric_that_needs_labels_says_where_they_go(embeddings, paredown, tmp_path) -> None:
    command = ("--metric", "supervised_prototypes", "--shard", "1/1", "-o")
    result = paredown("score", embeddings, *command, tmp_path / "s")
    assert result.returncode == 2
    assert (
        "put x.npy into a folder of its own, with labels.npy beside it, one per row, and give that folder."
    ) in said(result)
    folder = tmp_path / "folder"
    folder.mkdir()
    embeddings.rename(folder / "x.npy")
    result = paredown("score", folder, *command, tmp_path / "t")
    assert f"{folder} has none; put them into the folder as labels.npy, one per row." in said(result)
    (tmp_path / "y.npy").rename(folder / "labels.npy")
    assert paredown("score", folder, *command, tmp_path / "u").returncode == 0


def test_shares_that_find_nothing_to_do_say_so(embeddings, paredown, tmp_path) -> None:
    folder, out = tmp_path / "folder", tmp_path / "s"
    folder.mkdir()
    np.lib.format.open_memmap(folder / "e.npy", "w+", np.float16, (300_000, 256))  # not read by `random`
    assert len(RangedSource(folder).ranges(large=True)) == 3
    for shard, message in (
        ("1/2", "Share 1/2 is done. When all are: paredown merge"),
        ("1/2", "Share 1/2 was already there; nothing was changed. When all are: paredown merge"),
        ("2/2", f"300,000 scores written to {out}."),
        ("2/2", f"300,000 scores were already complete in {out}; nothing was changed."),
        ("5/9", f"300,000 scores were already complete in {out}; nothing was changed."),
    ):
        result = paredown("score", folder, "--metric", "random", "--shard", shard, "-o", out)
        assert result.returncode == 0
        assert message in " ".join(result.stdout.split())
        assert ("written" in result.stdout) == ("written" in message)
    (out / "_complete.json").unlink()
    again = paredown("score", folder, "--metric", "random", "--shard", "5/9", "-o", out)
    assert f"300,000 scores were already complete in {out}" in " ".join(again.stdout.split())
    assert (out / "_complete.json").exists()


def test_other_settings_are_told_as_options(embeddings, paredown, tmp_path) -> None:
    out, x = tmp_path / "s", np.load(embeddings)
    assert paredown("score", embeddings, "--k", "5", "--shard", "1/1", "-o", out).returncode == 0
    for given, message in (
        (("--k", "6"), "--k was 5 and is now 6."),
        ((), "--k was 5 and is not given now."),
        (("--k", "5", "--option", "restarts=2"), "--option restarts was not given then and is now 2."),
        (("--k", "5", "--kernel", "float32"), "--kernel was not given then and is now 'float32'."),
    ):
        result = paredown("score", embeddings, "--shard", "1/1", "-o", out, *given)
        assert result.returncode == 2
        assert message in said(result)
    np.save(embeddings, x + 1)
    assert "made with other settings: the data have changed. Run" in said(
        paredown("score", embeddings, "--k", "5", "--shard", "1/1", "-o", out)
    )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (["score", "--shard", "1/2", "--overwrite"], "--overwrite would remove what other shares have written"),
        (["score", "x.npy", "--shard", "1/2"], "from one source; score the members one at a time"),
        (["prune", "x.npy", "--engine", "ray"], "from one source; score the members one at a time"),
        (["score", "--metric", "el2n", "--shard", "1/2"], "metric 'el2n' needs all examples on one machine"),
        (["plan", "--metric", "el2n"], "metric 'el2n' needs all examples on one machine"),
    ],
)
def test_what_cannot_be_read_by_ranges_is_refused(embeddings, paredown, tmp_path, how, message) -> None:
    verb, *more = how
    result = paredown(verb, embeddings, *more, *(["-o", "s"] if verb != "plan" else []))
    assert result.returncode == 2
    assert message in said(result)
    assert not (tmp_path / "s").exists()
