"""Running a network: ONNX Runtime where the model can be exported (see the benchmarks), torch otherwise."""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from paredown.embeddings.encoders.base import Preprocess
from paredown.errors import PareError, argument, check_known
from paredown.reading import check_regular, damaged, explain

if TYPE_CHECKING:
    import torch

Runtime = Literal["auto", "onnx", "torch"]
_AGREEMENT = 0.9999  # least cosine between an exported model and the original, on noise
_PREPROCESS_KEY = "paredown.preprocess"  # where an ONNX file that paredown wrote keeps its preprocessing
_TRAINING_KEY = "paredown.training"  # and how paredown trained it


class Forward(NamedTuple):
    """A network ready to run, and what runs it."""

    run: Callable[[list[Any]], NDArray[Any]]
    runtime: str


def check_runtime(runtime: str) -> None:
    """Raise unless models are run in this way."""
    check_known("runtime", runtime, get_args(Runtime))


def run_model(model: torch.nn.Module, size: int, *, runtime: Runtime = "auto") -> Forward:
    """A torch model as a function of prepared images, on CUDA if it is there, else exported, else as it is.

    A model that cannot be exported, or whose export does not give the same vectors, stays with torch.
    """
    import torch

    check_runtime(runtime)
    model = model.eval().requires_grad_(False)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    eager = _eager(model, device)
    if runtime == "torch" or (runtime == "auto" and device != "cpu"):
        return eager
    try:
        exported = _session(export_onnx(model, size))
        noise = list(np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32))
        agreement = _least_cosine(eager.run(noise), exported.run(noise))
        if not agreement >= _AGREEMENT:
            raise RuntimeError(f"the exported model differs: cosine {agreement:.4f}")
    except Exception as error:  # exporters raise whatever the model makes them
        if runtime == "onnx":
            raise PareError(
                f"the model cannot run through ONNX Runtime ({explain(error)}); use {argument('runtime', 'torch')}."
            ) from error
        return eager
    return exported


def _eager(model: torch.nn.Module, device: str) -> Forward:
    import torch

    model = model.to(device)

    def run(prepared: list[Any]) -> NDArray[Any]:
        with torch.inference_mode():
            return _rows(model(torch.from_numpy(np.stack(prepared)).to(device)).float().cpu().numpy())

    return Forward(run, f"torch {torch.__version__.partition('+')[0]} on {device}")


def export_onnx(
    model: torch.nn.Module, size: int, *, preprocess: Preprocess | None = None, training: dict[str, Any] | None = None
) -> bytes:
    """A model as the bytes of an ONNX file with a free batch size, which keeps what is told of it.

    The older exporter is tried first: it took a third of the time for a ResNet-18.
    """
    import torch

    example = torch.zeros(2, 3, size, size)
    with quiet():
        try:
            stream = io.BytesIO()
            axes = {"image": {0: "batch"}, "embedding": {0: "batch"}}
            torch.onnx.export(
                model,
                (example,),
                stream,  # type: ignore[arg-type]
                input_names=["image"],
                output_names=["embedding"],
                dynamic_axes=axes,
                dynamo=False,
            )
            data = stream.getvalue()
        except Exception:  # models with control flow, or a torch without the older exporter
            shapes = ({0: torch.export.Dim("batch")},)
            program = torch.onnx.export(model, (example,), dynamic_shapes=shapes, dynamo=True, verbose=False)
            assert program is not None
            data = program.model_proto.SerializeToString()
    notes = {} if preprocess is None else {_PREPROCESS_KEY: json.dumps(vars(preprocess))}
    notes |= {} if training is None else {_TRAINING_KEY: json.dumps(training)}
    if not notes:
        return data
    import onnx

    noted = onnx.load_model_from_string(data)
    onnx.helper.set_model_props(noted, notes)
    return noted.SerializeToString()


def read_training(path: Path) -> dict[str, Any] | None:
    """How paredown trained the network in an ONNX file; None of any other file."""
    import onnx

    try:
        properties = onnx.load_model(path, load_external_data=False).metadata_props
    except Exception:  # protobuf's own types; what is wrong with it is told when it is loaded to run
        return None
    with damaged(path, "ONNX model of paredown", remedy="Train it again."):
        notes = {item.key: item.value for item in properties}
        return json.loads(notes[_TRAINING_KEY]) if _TRAINING_KEY in notes else None


def onnx_file(path: Path, *, image_size: int | None = None) -> tuple[Forward, Preprocess, dict[str, Any] | None]:
    """An ONNX file as a function of prepared images, the preprocessing it needs, and how paredown trained it if it did.

    The preprocessing is what the file says if paredown wrote it, and otherwise the usual one of ImageNet models at the
    size of the file's input.
    """
    check_regular(path)
    forward = _session(str(path), name=str(path))
    session = forward.run.session  # type: ignore[attr-defined]
    with damaged(path, "ONNX model"):
        shape = session.get_inputs()[0].shape
        notes = session.get_modelmeta().custom_metadata_map
    if len(shape) != 4 or shape[1] != 3:
        raise PareError(f"{path}: an image encoder takes (batch, 3, height, width); its input is {shape}.")
    kept = notes.get(_PREPROCESS_KEY)
    with damaged(path, "ONNX model of paredown", remedy="Train it again."):
        preprocess = Preprocess(**json.loads(kept)) if kept else Preprocess()
        training = json.loads(notes[_TRAINING_KEY]) if _TRAINING_KEY in notes else None
    fixed = shape[2] if isinstance(shape[2], int) else None
    if fixed is not None and image_size not in (None, fixed):
        raise PareError(
            f"{path}: takes images of {fixed} x {shape[3]} pixels only, but {argument('image_size')} is {image_size}."
        )
    if fixed is not None and fixed != shape[3]:
        raise PareError(f"{path}: takes images of {fixed} x {shape[3]} pixels; only square ones are supported.")
    return forward, preprocess.at(image_size or (None if kept else fixed)), training


class _Session:
    """A loaded ONNX model; one exported with a fixed batch size gets batches of that size, padded at the end."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._input = session.get_inputs()[0].name
        batch = session.get_inputs()[0].shape[0]
        self._batch = batch if isinstance(batch, int) else None

    def __call__(self, prepared: list[Any]) -> NDArray[Any]:
        images = np.stack(prepared)
        size = self._batch or len(images)
        parts = []
        for first in range(0, len(images), size):
            part = images[first : first + size]
            padded = np.concatenate([part, np.zeros((size - len(part), *part.shape[1:]), part.dtype)])
            parts.append(_rows(self.session.run(None, {self._input: padded})[0])[: len(part)])
        return np.concatenate(parts)


def _session(model: str | bytes, *, name: str = "the exported model") -> Forward:
    try:
        import onnxruntime
    except ImportError as error:
        raise PareError("ONNX models need an extra: pip install 'paredown[encoders]'.") from error
    available = onnxruntime.get_available_providers()
    wanted = [p for p in ("CUDAExecutionProvider", "CPUExecutionProvider") if p in available]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    options.intra_op_num_threads = _threads()
    # Waiting threads that spin share the cores with the threads that decode; not measured apart.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # A plan of all allocations takes as much again as the activations: 1.28 in place of 1.00 GiB for a batch of 32 of
    # EfficientNet-Lite0, in the same time.
    options.enable_mem_pattern = False
    try:
        session = onnxruntime.InferenceSession(model, options, providers=wanted)
        run = _Session(session)  # which asks for names that may not be text
    except Exception as error:  # its exceptions share no base but Exception
        raise PareError(f"{name}: not a readable ONNX model ({explain(error)}).") from error
    device = "cuda" if session.get_providers()[0].startswith("CUDA") else "cpu"
    return Forward(run, f"ONNX Runtime {onnxruntime.__version__} on {device}")


def _threads() -> int:
    """As many as torch would take: what OMP_NUM_THREADS says, which the runtime does not look at; else (0) its own."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdigit() else 0


def _rows(output: NDArray[Any]) -> NDArray[Any]:
    """One row per image: a (batch, channels, 1, 1) output loses its last axes."""
    if output.ndim == 4 and output.shape[2:] == (1, 1):
        return output[:, :, 0, 0]
    if output.ndim != 2:
        raise PareError(f"an encoder must give one vector per image; the model's output has shape {output.shape}.")
    return output


def _least_cosine(first: NDArray[Any], second: NDArray[Any]) -> float:
    a, b = first.astype(np.float64), second.astype(np.float64)
    return float(np.min(np.vecdot(a, b) / np.sqrt(np.vecdot(a, a) * np.vecdot(b, b))))


def weights_hash(model: torch.nn.Module) -> str:
    """A short hash of all weights: which ones they really were."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().float().numpy()).data)
    return digest.hexdigest()[:16]


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out the warnings that libraries give about themselves while loading or exporting."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
