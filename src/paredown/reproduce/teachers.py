"""Labels that can be learned: those of a network that was trained on the same inputs.

The theory of the paper has a teacher, and every label is what the teacher says. Real data also have labels that no
network can tell from the inputs it is given, and the hardest examples are full of them. With a network in the teacher's
place, nothing but the labels changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paredown.training import Examples, train
from paredown.training.devices import torch_threads

_STEPS = 1500
_SEED = 0x7EAC


def relabel(splits: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """The vectors of `train` and `test` with the classes that a network trained on `train` takes them for.

    One thread, as the bits of a training depend on their number.
    """
    _, classes = splits["train"]
    names = tuple(map(str, range(int(np.max(classes)) + 1)))
    given = {
        split: Examples(np.asarray(values, np.float32), np.asarray(labels, np.int64), names, np.arange(len(labels)))
        for split, (values, labels) in splits.items()
    }
    with torch_threads(1):
        teacher = train("mlp", given["train"], steps=_STEPS, seed=_SEED)
        return {split: (given[split].inputs, teacher.logits(given[split]).argmax(axis=1)) for split in splits}
