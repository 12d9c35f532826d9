"""`embed` on a Ray cluster: the store of a local run, whatever is killed, and errors that say where."""

from __future__ import annotations

import importlib
import io
import json
import pickle
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import ray_jobs
from PIL import Image

import paredown as pdn
from paredown.embeddings import embedding, shard_jobs
from paredown.embeddings.encoders import load_encoder
from paredown.errors import PareError
from paredown.sources import ArrayImages

pytest.importorskip("ray", reason="Ray is not installed: pip install 'paredown[ray]'")
pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def write_network(file: Path) -> None:
    """A small network as an ONNX file: pooled pixels and a matrix."""
    from onnx import TensorProto, helper, numpy_helper, save

    weights = np.random.default_rng(0).standard_normal((192, 8)).astype(np.float32)
    nodes = [
        helper.make_node("AveragePool", ["image"], ["pooled"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["embedding"]),
    ]
    shapes = {"image": ["batch", 3, 32, 32], "embedding": ["batch", 8]}
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "small", *ends, [numpy_helper.from_array(weights, "weights")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, file)


@pytest.fixture(params=["folder", "list.csv", "tars", "hf"])
def images(request, image_folder, tmp_path) -> Path:
    """Sixty images in every form."""
    if request.param == "folder":
        return image_folder
    files = sorted(image_folder.rglob("*.png"))
    place = tmp_path / request.param
    if request.param == "list.csv":
        names = [str(file.relative_to(tmp_path)) for file in files]
        pa.csv.write_csv(pa.table({"path": names, "label": [file.parent.name for file in files]}), place)
    elif request.param == "hf":
        import datasets

        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        stored = {"image": [str(file) for file in files], "label": [int(file.parent.name[-1]) for file in files]}
        datasets.Dataset.from_dict(stored, features=features).save_to_disk(place, num_shards=3)
    else:
        place.mkdir()
        for number in range(3):
            with tarfile.open(place / f"{number}.tar", "w") as tar:
                for row in range(20 * number, 20 * number + 20):
                    for suffix, data in (("png", files[row].read_bytes()), ("cls", files[row].parent.name.encode())):
                        info = tarfile.TarInfo(f"{row:03d}.{suffix}")
                        info.size = len(data)
                        tar.addfile(info, io.BytesIO(data))
    return place


def test_every_kind_of_source_gives_the_bytes_of_the_local_engine(cluster, images, tmp_path, monkeypatch) -> None:
    """Named by paths that are relative to a folder which the workers do not run in."""
    monkeypatch.chdir(tmp_path)
    write_network(tmp_path / "small.onnx")
    for number, encoder in enumerate(("pixels", "onnx:small.onnx", ray_jobs.thumbnails)):
        settings = {"encoder": encoder, "shard_size": 17}
        pdn.embed(images.name, out=f"local{number}", **settings)
        store = pdn.embed(images.name, out=f"ray{number}", engine=cluster, **settings)
        assert (store.examples, store.already, store.complete) == (60, 0, True)
        assert contents(tmp_path / f"ray{number}") == contents(tmp_path / f"local{number}")


def test_a_network_of_a_package_gives_the_bytes_of_the_local_engine(cluster, tmp_path) -> None:
    """EfficientNet-Lite0 through ONNX Runtime, here on all cores and on one in each worker."""
    (tmp_path / "images").mkdir()
    for row in range(6):
        pixels = np.random.default_rng(row).integers(0, 255, (9, 9, 3)).astype(np.uint8)
        Image.fromarray(pixels).resize((80, 80)).save(tmp_path / "images" / f"{row}.png")
    settings = {"encoder": "efficientnet_lite0", "image_size": 64, "shard_size": 3, "dtype": "float32"}
    pdn.embed(tmp_path / "images", out=tmp_path / "local", **settings)
    pdn.embed(tmp_path / "images", out=tmp_path / "ray", engine=cluster, **settings)
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_pixels_of_a_standard_data_set_are_sent(cluster, tmp_path, digits) -> None:
    """Workers need not see its files."""
    images = ArrayImages(
        (digits[0][:50].reshape(-1, 8, 8) * 15).astype(np.uint8),
        location="mnist:/nowhere/here",
        kind="MNIST",
        files=[],
        ids=[f"train/{row:06d}" for row in range(50)],
        labels=digits[1][:50],
    )
    for name, engine in {"local": "local", "ray": cluster}.items():
        pdn.embed(images, out=tmp_path / name, encoder="pixels", shard_size=20, engine=engine)
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")


def test_unreadable_images_are_recorded_as_by_the_local_engine(cluster, image_folder, tmp_path) -> None:
    files = sorted(image_folder.rglob("*.png"))
    files[3].write_bytes(files[3].read_bytes()[:50])
    files[40].write_bytes(b"not an image")
    settings = {"encoder": ray_jobs.thumbnails, "shard_size": 20}
    for name, engine in {"local": "local", "ray": cluster}.items():
        store = pdn.embed(image_folder, out=tmp_path / name, engine=engine, on_error="skip", **settings)
        assert [len(store.skipped), store.examples] == [2, 58]
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    bad = files[40].relative_to(image_folder).as_posix()
    files[3].write_bytes(files[4].read_bytes())
    with pytest.raises(PareError, match=rf"shard 00002: .*image {bad} not an image .* What is done stays in .*/e; run"):
        pdn.embed(image_folder, out=tmp_path / "e", engine=cluster, **settings)


# --- killed --------------------------------------------------------------------------------------------------------


def test_a_killed_worker_costs_its_shard(cluster, image_folder, tmp_path) -> None:
    """Twelve shards, each one call of the encoder; the worker that makes the third call is killed in it."""
    (tmp_path / "calls").mkdir()
    dying = partial(ray_jobs.thumbnails_by_one_who_dies, str(tmp_path / "calls"))
    pdn.embed(image_folder, out=tmp_path / "ray", encoder=dying, shard_size=5, engine=cluster)
    calls = len(list((tmp_path / "calls").iterdir()))
    assert 12 < calls <= 12 + cluster.workers  # the shard under way, and one whose answer was not collected, if any
    pdn.embed(image_folder, out=tmp_path / "local", encoder=ray_jobs.thumbnails, shard_size=5)
    made, expected = contents(tmp_path / "ray"), contents(tmp_path / "local")
    assert sorted(made) == sorted(expected)  # and nothing that the killed one left
    assert all(made[name] == expected[name] for name in made if name.endswith(".npy"))


def test_a_killed_driver_is_finished_by_the_same_command(address, image_folder, tmp_path) -> None:
    """The driver is killed when some shards are there, and started again."""
    command = [sys.executable, "-m", "paredown", "embed", image_folder, "--encoder", "pixels", "--shard-size", "2"]
    on_ray = [*command, "-o", tmp_path / "e", "--engine", "ray", "--address", address, "--workers", "1", "--json"]
    with subprocess.Popen(on_ray, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        deadline = time.monotonic() + 120
        while len(list((tmp_path / "e").glob("0*.npy"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        driver.kill()
    done = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "e").glob("0*.npy")}
    assert 3 <= len(done) < 30
    again = subprocess.run(on_ray, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["complete"] is True
    assert json.loads(again.stdout)["already"] >= 2 * len(done)  # a worker may have ended its shard
    assert {name: (tmp_path / "e" / name).stat().st_mtime_ns for name in done} == done  # not redone
    pdn.embed(image_folder, out=tmp_path / "local", encoder="pixels", shard_size=2)
    assert contents(tmp_path / "e") == contents(tmp_path / "local")


def test_a_lost_node_costs_only_time(image_folder, tmp_path) -> None:
    """Two nodes on this machine; the one without the driver is killed when the first shard is there."""
    script = Path(__file__).with_name("lose_a_node.py")
    run = subprocess.run(
        [sys.executable, script, image_folder, tmp_path / "e", "embed"], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert "lost a node" in run.stdout
    pdn.embed(image_folder, out=tmp_path / "local", encoder="pixels", shard_size=2)
    assert contents(tmp_path / "e") == contents(tmp_path / "local")


# --- errors --------------------------------------------------------------------------------------------------------


def test_images_that_workers_do_not_see_are_told_before_any_work(cluster, image_folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(embedding, "_to_read", lambda images: [str(tmp_path / "elsewhere")])
    monkeypatch.setattr(embedding, "load_encoder", None)  # nothing is fitted
    with pytest.raises(
        PareError, match=r"node \S+ of the Ray cluster: .*/elsewhere does not exist there; put the data"
    ):
        pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels", engine=cluster)
    assert not (tmp_path / "e").exists()


def test_a_place_is_named_for_every_folder(image_folder) -> None:
    images = pdn.open_source(image_folder)
    places = embedding._to_read(images)  # type: ignore[arg-type]
    assert str(image_folder) in places
    assert len(places) == 11  # the folder, and a file of each class


def test_a_network_that_is_another_one_on_a_worker_names_the_shard(cluster, image_folder, tmp_path) -> None:
    write_network(tmp_path / "small.onnx")
    real = load_encoder(f"onnx:{tmp_path / 'small.onnx'}")
    other = replace(real, settings={**real.settings, "runtime": "ONNX Runtime 0.1 on cpu"})
    message = (
        r"shard 0000\d: \S+: encoder 'onnx:\S+' is another one there: runtime was 'ONNX Runtime 0.1 on cpu' and is"
    )
    with pytest.raises(PareError, match=message):
        pdn.embed(image_folder, out=tmp_path / "other", encoder=other, shard_size=20, engine=cluster)
    (tmp_path / "small.onnx").unlink()
    with pytest.raises(PareError, match=r"node \S+ of the Ray cluster: .*/small.onnx does not exist there"):
        pdn.embed(image_folder, out=tmp_path / "gone", encoder=real, shard_size=20, engine=cluster)


def test_a_package_that_a_worker_lacks_is_named_with_the_node(tmp_path, monkeypatch) -> None:
    write_network(tmp_path / "small.onnx")
    sent = shard_jobs.to_send(load_encoder(f"onnx:{tmp_path / 'small.onnx'}"))
    assert isinstance(sent, shard_jobs.NamedEncoder)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # which loading sets, and is put back afterwards
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(PareError, match=r"^\S+: ONNX models need an extra: pip install"):
        sent.load()
    monkeypatch.undo()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert sent.load() is sent.load()


def test_a_function_of_a_module_that_workers_lack(cluster, image_folder, tmp_path, monkeypatch) -> None:
    code = ["import numpy as np", "def flat(images):", "    return np.ones((len(images), 2))"]
    (tmp_path / "only_here.py").write_text("\n".join(code))
    monkeypatch.syspath_prepend(str(tmp_path))
    only_here = importlib.import_module("only_here")
    with pytest.raises(PareError, match=r"shard 0000\d: the module 'only_here' is not there; install it on every node"):
        pdn.embed(image_folder, out=tmp_path / "e", encoder=only_here.flat, engine=cluster)


def test_a_function_that_cannot_be_sent(cluster, image_folder, tmp_path) -> None:
    lock = threading.Lock()
    with pytest.raises(PareError, match=r"cannot be sent to them \(.*lock.*\); functions and objects"):
        pdn.embed(image_folder, out=tmp_path / "e", encoder=lambda images: lock, engine=cluster)


def test_a_worker_takes_one_core(cluster) -> None:
    assert [outcome.value for outcome in cluster.run_jobs("ray_jobs:threads", [0])] == ["1"]


def test_jobs_are_small_and_made_when_they_are_asked_for(tmp_path, image_folder) -> None:
    """A job has the paths of its own images; a network travels as its name."""
    images = pdn.open_source(image_folder)
    jobs = shard_jobs.ShardJobs(images, [range(0, 50), range(50, 60)], [0, 1])  # type: ignore[arg-type]
    sent = pickle.dumps(jobs[1])
    assert len(sent) < 4096
    there = pickle.loads(sent).images
    assert there.ids.tolist() == images.ids[50:].tolist()
    assert [file for file, _ in there.files()] == [image_folder / name for name in there.ids.tolist()]
    write_network(tmp_path / "small.onnx")
    network = load_encoder(f"onnx:{tmp_path / 'small.onnx'}")
    assert len(pickle.dumps(shard_jobs.to_send(network))) < 1024


# --- a sweep -------------------------------------------------------------------------------------------------------


def test_a_sweep_of_images_gives_the_table_of_the_local_engine(cluster, image_folder, tmp_path, monkeypatch) -> None:
    """Named by paths that are relative to a folder which the workers do not run in."""
    monkeypatch.chdir(tmp_path)
    config = {
        "data": {"source": "images", "test": "images"},
        "grid": {"initial_size": [40], "keep_fraction": [0.5], "strategy": ["easy"], "metric": ["el2n"], "seeds": 1},
        "student": {"recipe": "tiny_cnn", "epochs": 1, "image_size": 16},
        "probe": {"recipe": "tiny_cnn", "epochs": 1, "members": 1},
    }
    on_ray = pdn.sweep(config, out="ray", engine=cluster)
    assert on_ray.folder == Path("ray")
    here = pdn.sweep(config, out="here", workers=1)  # in a process of one thread, as on Ray
    assert on_ray.table.num_rows == 3
    assert not on_ray.failed
    assert on_ray.table.equals(here.table)


def test_images_that_are_decoded_while_training_must_be_seen(tmp_path, image_folder, monkeypatch) -> None:
    from paredown.sweeps import sweep_data
    from paredown.sweeps.settings import read_settings
    from paredown.training import find_recipe

    monkeypatch.setattr(sweep_data, "_COPIED", 1)  # as if they took too much memory
    grid = {"initial_size": [40], "keep_fraction": [0.5], "strategy": ["easy"], "metric": ["el2n"], "seeds": 1}
    config = {"data": {"source": str(image_folder), "test": str(image_folder)}, "grid": grid}
    data = read_settings({**config, "student": {"recipe": "tiny_cnn"}}).data
    sweep_data.prepare_data(data, sweep_data.open_sources(data), {"images": find_recipe("tiny_cnn")}, tmp_path / "data")
    assert sweep_data.streamed_sources(tmp_path / "data") == [str(image_folder)]
