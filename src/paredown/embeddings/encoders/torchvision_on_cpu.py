"""Importing torchvision beside a torch that it was not compiled for."""

from __future__ import annotations

from types import ModuleType
from typing import Any

_DEFINED: list[Any] = []  # a library's definitions last only as long as the object does


def import_torchvision() -> ModuleType:
    """torchvision, also where its compiled operators cannot be loaded, as with a CPU-only torch.

    The models need none of them, but `import torchvision` (and so `import timm`) describes two operators and fails with
    "operator torchvision::nms does not exist" if nothing declared them. Declaring them is enough.
    """
    import torch

    if not _DEFINED:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DEFINED.append(library)
    import torchvision

    return torchvision
