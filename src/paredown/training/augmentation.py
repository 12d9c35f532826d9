"""Random changes of a batch of images, as tensors; the random-resized crop of ImageNet is in `views`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_PADDING = 4  # pixels of black around an image before it is cut to its size again


def crop_and_flip(images: torch.Tensor, generator: torch.Generator, *, mirrored: bool) -> torch.Tensor:
    """Shift every image by up to 4 pixels each way and, if `mirrored`, mirror every second; (n, height, width, c)."""
    import torch
    from torch.nn import functional as F

    n, height, width, _ = images.shape
    padded = F.pad(images, (0, 0, _PADDING, _PADDING, _PADDING, _PADDING))
    shift = torch.randint(2 * _PADDING + 1, (2, n, 1), generator=generator)
    down, across = shift[0] + torch.arange(height), shift[1] + torch.arange(width)
    if mirrored:
        across = torch.where(torch.rand(n, 1, generator=generator) < 0.5, across.flip(1), across)
    down, across = down.to(images.device), across.to(images.device)
    each = torch.arange(n, device=images.device)[:, None, None]
    return padded[each, down[:, :, None], across[:, None, :]]


def flip(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror every second image, at random; (n, height, width, c)."""
    import torch

    chosen = torch.rand(len(images), 1, 1, 1, generator=generator) < 0.5
    return torch.where(chosen.to(images.device), images.flip(2), images)
