"""Recording in the Hugging Face `Trainer`, by the method it offers for overriding.

Its callbacks never see logits, and a forward hook on the model sees no indices. `compute_loss` sees both and is the
documented place to change, so that this is a mixin in front of `Trainer` or of any subclass of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paredown.errors import PareError
from paredown.recorder import Recorder


class RecordingMixin:
    """`class RecordingTrainer(RecordingMixin, Trainer): pass`, which takes a `recorder=` beside Trainer's arguments.

    The training set needs an `index` column: `with_indices(dataset)`, or a column of your own. Keep it with
    `TrainingArguments(remove_unused_columns=False)`. Evaluation is not recorded.
    """

    def __init__(self, *args: Any, recorder: Recorder, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.recorder = recorder

    def compute_loss(self, model: Any, inputs: Mapping[str, Any], return_outputs: bool = False, **kwargs: Any) -> Any:
        """Trainer's own loss; records the logits it was computed from."""
        kept = {name: value for name, value in inputs.items() if name != "index"}
        compute: Any = super().compute_loss  # type: ignore[misc]
        if not model.training:
            return compute(model, kept, return_outputs=return_outputs, **kwargs)
        if "index" not in inputs or "labels" not in inputs:
            raise PareError(
                f"the batch has no 'index' or no 'labels', only {', '.join(map(str, inputs))}; wrap the training set "
                "in paredown.adapters.with_indices and set TrainingArguments(remove_unused_columns=False)."
            )
        labels = inputs["labels"]
        loss, outputs = compute(model, kept, return_outputs=True, **kwargs)
        logits = outputs["logits"] if isinstance(outputs, Mapping) else outputs[1]
        self.recorder.update(inputs["index"], logits, labels, self._epoch())
        return (loss, outputs) if return_outputs else loss

    def _epoch(self) -> int:
        """The epoch under way: Trainer's state counts in fractions, up to the last finished step."""
        done: float = self.state.epoch or 0.0  # type: ignore[attr-defined]
        return int(done + 1e-6)
