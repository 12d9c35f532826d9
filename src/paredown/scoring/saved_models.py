"""Fitted metrics as files: score new data with an earlier fit, or begin the next fit from it.

A model is one `.npz` file of plain arrays (never pickles) and a record in JSON: the version of the format, the metric,
its report, and the provenance of the fit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels import KERNELS
from paredown.display import Introduced
from paredown.errors import PareError, argument, check_known
from paredown.files import new_output
from paredown.metrics import METRICS, Model
from paredown.places import as_place
from paredown.reading import damaged, read_arrays
from paredown.scores import Labels

FORMAT, FORMAT_VERSION = "paredown model", 1
_RECORD = "record"
_REMEDY = f"A model is written with {argument('save_model', ...)}."
_FREE = ("memory", "kernel")  # options that do not contradict a fit: how much room, and how rows are compared


@dataclass(frozen=True, repr=False)
class FittedModel(Introduced):
    """A fitted metric with what it was fitted to.

    `provenance` holds paredown's version, the options, the seed and the source of the fit; `classes` the names of the
    classes, where the metric needs labels.
    """

    metric: str
    model: Model
    dim: int
    classes: tuple[str, ...] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that the model is loaded from again."""
        return self.model.arrays()  # type: ignore[attr-defined]  # every metric with a `load` has it

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of what scores depend on."""
        digest = hashlib.sha256(json.dumps([self.metric, self.dim, self.classes]).encode())
        for name, array in sorted(self.arrays.items()):
            digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    @property
    def centroids(self) -> NDArray[np.float32]:
        """The centroids, to begin another fit from."""
        centroids = self.arrays.get("centroids")
        if centroids is None:
            raise PareError(f"a model of metric {self.metric!r} has no centroids to start from.")
        return centroids

    def introduce(self) -> dict[str, str]:
        facts = {"metric": self.metric, "dimensions": f"{self.dim:,}"}
        if "centroids" in self.arrays:
            facts["centroids"] = f"{len(self.centroids):,}"
        if self.classes is not None:
            facts["classes"] = f"{len(self.classes):,}"
        return facts | {"fingerprint": self.fingerprint}

    def summary(self) -> dict[str, Any]:
        """What scores made with this model remember of it."""
        return {"fingerprint": self.fingerprint, "metric": self.metric, **self.provenance}

    def check_dim(self, dim: int, location: str) -> None:
        """Raise unless embeddings of so many dimensions can be scored."""
        if dim != self.dim:
            raise PareError(
                f"{location} has embeddings of {dim} dimensions, and the model was fitted to {self.dim}; "
                f"embed with the encoder the model was fitted to, or fit a model to these."
            )

    def check_options(self, given: dict[str, Any]) -> None:
        """Raise on an option that contradicts the fit, which stays as it is."""
        METRICS[self.metric].check_options(self.metric, given)
        report = self.model.report()
        found = {"k": report["k"]} if "k" in report else {"k": report["clusters"]} if "clusters" in report else {}
        found |= {"method": report["method"]} if "method" in report else {}
        found |= {"probes": report["agreement"]["probes"]} if "agreement" in report else {}
        fitted = METRICS[self.metric].options | self.provenance.get("options", {}) | found
        for name, value in given.items():
            if name not in _FREE and value not in ("auto", fitted[name]):  # whatever was chosen
                raise PareError(
                    f"the model was fitted with {name} = {fitted[name]}, and {name} = {value} was given; leave {name} "
                    f"out, or fit again without the model."
                )
        check_known("kernel", given.get("kernel", "auto"), KERNELS)

    def with_options(self, given: dict[str, Any]) -> FittedModel:
        """This model, comparing rows by the kernel that is given, if any; all kernels give the same scores."""
        self.check_options(given)
        kernel, report = given.get("kernel", "auto"), self.model.report()
        if kernel == "auto" or "kernel" not in report:
            return self
        model = _load(self.metric, self.arrays, report | {"kernel": kernel})
        if not model.report()["kernel"].startswith(kernel):
            raise PareError(
                f"kernel {kernel!r} does not run on this machine; leave it out (all kernels give the same scores)."
            )
        return replace(self, model=model)

    def labels_for(self, labels: Labels, location: str) -> Labels:
        """The labels of new data, numbered as the classes of the model are."""
        assert self.classes is not None
        unknown = [name for name in labels.classes if name not in self.classes]
        if unknown:
            raise PareError(
                f"{location} has classes that the model was not fitted to: {_some(unknown)}; it knows "
                f"{_some(self.classes)}. Leave those examples out, or fit a model to all classes."
            )
        return labels.numbered_like(self.classes)


def can_be_saved(metric: str) -> None:
    """Raise if models of a metric cannot be written, before they are fitted."""
    if METRICS[metric].load is None:
        able = ", ".join(name for name, entry in METRICS.items() if entry.load is not None)
        raise PareError(f"a model of metric {metric!r} cannot be saved; those that can: {able}.")


def write_model(model: FittedModel, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a model to one file, whole or not at all."""
    can_be_saved(model.metric)
    record = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "metric": model.metric,
        "dim": model.dim,
        "classes": model.classes,
        "report": model.model.report(),
        "provenance": model.provenance,
    }
    with new_output(as_place(path), overwrite=overwrite) as part, part.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **{_RECORD: np.array(json.dumps(record))}, **model.arrays)


def read_model(path: str | Path) -> FittedModel:
    """Read a model that `write_model`, `score(save_model=...)` or `--save-model` wrote."""
    arrays = read_arrays(path, "model of paredown", memory=None, remedy=_REMEDY)
    with damaged(path, "model of paredown", remedy=_REMEDY):
        record = json.loads(str(arrays.pop(_RECORD)))
        if record["format"] != FORMAT:
            raise PareError(f"{path}: not a model of paredown. {_REMEDY}")
        return _read_record(path, record, arrays)


def _read_record(path: str | Path, record: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FittedModel:
    if record["format_version"] > FORMAT_VERSION:
        raise PareError(
            f"{path}: a model in format version {record['format_version']}, and this paredown reads up to "
            f"{FORMAT_VERSION}; update paredown, or fit the model again."
        )
    metric = record["metric"]
    if metric not in METRICS or METRICS[metric].load is None:
        raise PareError(f"{path}: a model of metric {metric!r}, which this paredown cannot load; update it.")
    with damaged(path, "model", remedy="It is damaged; fit it again."):
        model = _load(metric, arrays, record["report"])
    classes = None if record["classes"] is None else tuple(str(name) for name in record["classes"])
    dim, provenance = record["dim"], record["provenance"]
    plain = isinstance(provenance, dict) and isinstance(provenance.get("options", {}), dict)
    if not isinstance(dim, int) or dim < 1 or not plain:
        raise PareError(f"{path}: the model is damaged; its dimensions or provenance are not what they should be.")
    centroids = arrays.get("centroids")
    if centroids is not None and (centroids.dtype.kind != "f" or centroids.shape != (len(centroids), dim)):
        raise PareError(
            f"{path}: the model is damaged; its centroids are {centroids.dtype} of shape {centroids.shape}, where "
            f"embeddings have {dim} dimensions. Fit it again."
        )
    return FittedModel(metric, model, dim, classes, provenance)


def _load(metric: str, arrays: dict[str, NDArray[Any]], report: dict[str, Any]) -> Model:
    load = METRICS[metric].load
    assert load is not None
    return load(arrays, report)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (" and more" if len(names) > 5 else "")
