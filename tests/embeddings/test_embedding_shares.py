"""`embed --shard` and `merge`: shares side by side end with the store of an undivided run, and say what is missing."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import paredown as pdn
from paredown.embeddings import merge_store
from paredown.embeddings.encoders import pixel_pca
from paredown.errors import PareError
from paredown.sources import ImageSource


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def brightness(images: list[Image.Image]) -> np.ndarray:
    return np.array([[np.asarray(image.convert("L"), np.float32).mean() + 1] * 3 for image in images])


@pytest.mark.parametrize("encoder", ["pixels", brightness])
def test_shares_in_any_order_give_the_bytes_of_an_undivided_run(tmp_path, image_folder, encoder) -> None:
    settings = {"encoder": encoder, "shard_size": 7}  # nine shards
    pdn.embed(image_folder, out=tmp_path / "whole", **settings)
    for share in (3, 1, 4):
        part = pdn.embed(image_folder, out=tmp_path / "e", shard=f"{share}/4", **settings)
        assert not part.complete
    assert part.examples == sum(len(np.load(file)) for file in (tmp_path / "e").glob("*.npy"))
    with pytest.raises(PareError, match=r"these embeddings are incomplete"):
        pdn.open_source(tmp_path / "e")
    message = r"e: 2 of 9 shards are missing, such as 00001.npy, 00005.npy; rerun the shares that did not finish"
    for copied in ("", ".npy", ".parquet"):  # of another shard, whole or half
        for name in (f"00000{copied}",) if copied else ("00000.npy", "00000.parquet"):
            shutil.copy(tmp_path / "e" / name, tmp_path / "e" / name.replace("0.", "5."))
        with pytest.raises(PareError, match=message):
            merge_store(tmp_path / "e")
        for left in (tmp_path / "e").glob("00005.*"):
            left.unlink()
    last = pdn.embed(image_folder, out=tmp_path / "e", shard="2/4", **settings)
    assert (last.complete, last.examples) == (True, 60)
    assert contents(tmp_path / "e") == contents(tmp_path / "whole")
    assert merge_store(tmp_path / "e").examples == 60
    assert contents(tmp_path / "e") == contents(tmp_path / "whole")


def test_the_command_line_does_shares_and_merges_them(paredown, tmp_path, image_folder, monkeypatch) -> None:
    """As a Slurm array of two tasks, with more shares than there are shards."""
    files = sorted(image_folder.rglob("*.png"))
    files[40].write_bytes(b"not an image")
    command = ["embed", image_folder, "--encoder", "pixels", "--shard-size", "13", "--on-error", "skip", "-o"]
    assert paredown(*command, "whole").returncode == 0
    monkeypatch.setenv("SLURM_ARRAY_TASK_MIN", "0")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "2")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    result = paredown(*command, "e", "--shard", "/12")
    assert result.returncode == 0, result.stderr
    assert "Share /12 is done. When all are: paredown merge e" in result.stdout
    result = paredown("merge", "e")
    assert result.returncode == 2
    assert "e: 3 of 5 shards are missing, such as 00000.npy, 00002.npy, 00004.npy" in result.stderr
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert "59 embeddings of 50 dimensions in e" in paredown(*command, "e", "--shard", "/12").stdout
    result = paredown("merge", "e")
    assert "59 embeddings are complete in e." in result.stdout
    assert files[40].relative_to(image_folder).as_posix() in result.stdout
    assert contents(tmp_path / "e") == contents(tmp_path / "whole")


def test_all_shares_take_what_the_first_of_them_learnt(tmp_path, image_folder, monkeypatch) -> None:
    """On a processor that rounds differently, and while another share is at the same point."""
    settings = {"encoder": "pixels", "shard_size": 20}
    pdn.embed(image_folder, out=tmp_path / "whole", **settings)
    real = pixel_pca.fit_pixel_pca

    def elsewhere(pixels):
        pca = real(pixels)
        monkeypatch.setattr(pixel_pca, "fit_pixel_pca", real)
        pdn.embed(image_folder, out=tmp_path / "e", shard="1/3", **settings)  # is first
        return pca._replace(projection=np.nextafter(pca.projection, np.float32(9)))

    monkeypatch.setattr(pixel_pca, "fit_pixel_pca", elsewhere)
    pdn.embed(image_folder, out=tmp_path / "e", shard="2/3", **settings)
    monkeypatch.setattr(pixel_pca, "fit_pixel_pca", None)  # what is there is read
    pdn.embed(image_folder, out=tmp_path / "e", shard="3/3", **settings)
    assert contents(tmp_path / "e") == contents(tmp_path / "whole")


def test_what_was_learnt_of_other_images_is_not_taken(tmp_path, image_folder) -> None:
    """A run that was killed before it wrote its record leaves only that."""
    settings = {"encoder": "pixels", "shard_size": 20}
    pdn.embed(image_folder, out=tmp_path / "whole", **settings)
    for shards in ({}, {"shard": "1/1"}):
        out = tmp_path / f"e{len(shards)}"
        pdn.embed(image_folder, out=out, encoder="pixels", seed=1)
        for file in [out / "embed.json", *out.glob("0*")]:
            file.unlink()
        pdn.embed(image_folder, out=out, **settings, **shards)
        assert contents(out) == contents(tmp_path / "whole")


def test_a_killed_share_is_finished_by_the_same_command(tmp_path, image_folder) -> None:
    command = [
        sys.executable,
        "-m",
        "paredown",
        "embed",
        image_folder,
        "--encoder",
        "pixels",
        "--shard-size",
        "2",
        "-o",
    ]
    share = [*command, tmp_path / "e", "--shard", "1/2"]
    with subprocess.Popen(share, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(list((tmp_path / "e").glob("*.npy"))) < 3:
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
    done = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "e").glob("*.npy")}
    assert 3 <= len(done) < 15
    pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels", shard_size=2, shard="2/2")
    pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels", shard_size=2, shard="1/2")
    assert {name: (tmp_path / "e" / name).stat().st_mtime_ns for name in done} == done  # not redone
    merge_store(tmp_path / "e")  # which clears away what the killed one was writing
    pdn.embed(image_folder, out=tmp_path / "whole", encoder="pixels", shard_size=2)
    assert contents(tmp_path / "e") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "3/2"], r"--shard goes from 1/2 to 2/2, got '3/2'"),
        (["--shard", "half"], r"--shard is I/N, such as 3/64, or /N in a Slurm job array; got 'half'"),
        (["--shard", "1/2", "--overwrite"], r"--overwrite would remove what other shares have written"),
        (["--shard", "1/2", "--train-encoder", "x.onnx", "--encoder", "auto"], r"would train a network in every share"),
        (["--address", "auto"], r"--address is for a Ray cluster; add --engine ray"),
        (["--engine", "dask"], r"unknown engine 'dask'; available: local, ray"),
    ],
)
def test_bad_options(paredown, tmp_path, image_folder, options, message) -> None:
    result = paredown("embed", image_folder, "-o", "e", "--encoder", "pixels", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (tmp_path / "e").exists()


def test_shares_of_other_settings_are_refused(tmp_path, image_folder) -> None:
    pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels", shard_size=20, shard="1/2")
    for changed, message in (({"dtype": "float32"}, "dtype was 'float16'"), ({"seed": 3}, "seed was 0 and is now 3")):
        with pytest.raises(PareError, match=rf"embedding was begun with other settings: {message}"):
            pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels", shard_size=20, shard="2/2", **changed)


def test_nothing_to_merge(paredown, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PareError, match=r"empty: no embeddings were begun there by `paredown embed --shard`"):
        merge_store(tmp_path / "empty")
    assert "empty: nothing was begun there" in paredown("merge", "empty").stderr


def test_a_tar_that_got_shorter_is_told(tmp_path, image_folder) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for row, file in enumerate(sorted(image_folder.rglob("*.png"))):
            tar.add(file, f"{row:03d}.png")
    images = pdn.open_source(tmp_path / "a.tar")
    assert isinstance(images, ImageSource)
    part = images.part(range(10, 60))
    assert list(part.part(range(5, 9)).files()) == list(images.files())[15:19]
    with (tmp_path / "a.tar").open("r+b") as stream:
        stream.truncate(30_000)
    with pytest.raises(PareError, match=r"a.tar: it is shorter than when the run began; was it changed\?"):
        list(part.files())
