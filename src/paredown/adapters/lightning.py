"""Recording in Lightning, by a callback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from paredown.errors import PareError
from paredown.recorder import Recorder


def recording_callback(recorder: Recorder, *, read: Callable[[Any], tuple[Any, Any]] | None = None) -> Any:
    """A Lightning callback that records every training batch.

    `training_step` returns `{"loss": loss, "logits": logits}` (and `"features"` for `grand`): Lightning hands what it
    returns to callbacks, which is its own way to see outputs. Batches come from `with_indices(dataset)`.

    Args:
        recorder: records into this.
        read: indices and labels of a batch. By default the last two of `(x, y, index)`, or the entries `index` and
            `labels` (or `label`).
    """
    base, read_batch = _callback_class(), read or _indices_and_labels

    class RecordingCallback(base):
        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if not isinstance(outputs, Mapping) or "logits" not in outputs:
                raise PareError(
                    "training_step does not return its logits; let it return {'loss': loss, 'logits': logits}."
                )
            indices, labels = read_batch(batch)
            features = outputs.get("features")
            recorder.update(indices, outputs["logits"], labels, trainer.current_epoch, features=features)

    return RecordingCallback()


def _callback_class() -> type[Any]:
    """Lightning's `Callback`, from whichever of its two packages is in use."""
    if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
        from pytorch_lightning import Callback
    else:
        try:
            from lightning.pytorch import Callback
        except ModuleNotFoundError as error:
            raise PareError("Lightning is not installed; install it with pip install lightning.") from error
    return Callback


def _indices_and_labels(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, Mapping):
        labels = batch.get("labels", batch.get("label"))
        if "index" in batch and labels is not None:
            return batch["index"], labels
    elif isinstance(batch, tuple | list) and len(batch) >= 3:
        return batch[-1], batch[-2]
    raise PareError(
        "cannot find indices and labels in the batch; wrap the data set in paredown.adapters.with_indices, "
        "or say where they are: recording_callback(recorder, read=lambda batch: (indices, labels))."
    )
