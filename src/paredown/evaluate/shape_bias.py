"""Decisions on stimuli whose shape and texture say different things: shape bias.

Appendix on out-of-distribution performance; the measure is that of Geirhos et al. (2019), *ImageNet-trained CNNs are
biased towards texture*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.ids import name_rows
from paredown.standard_errors import share_error


@dataclass(frozen=True)
class ShapeBias:
    """Shape decisions / (shape + texture decisions), in all and for each class of shape."""

    value: float  # NaN where no decision was for either cue
    stderr: float  # binomial
    trials: int  # with a conflict between the cues
    shape_decisions: int
    texture_decisions: int
    classes: tuple[str, ...]
    by_class: NDArray[np.float64]  # NaN for a class without such decisions


def map_decisions(
    probabilities: ArrayLike, groups: Mapping[str, Sequence[int]], *, aggregate: str = "mean"
) -> NDArray[Any]:
    """The coarse class each example is decided for, from probabilities of fine classes.

    As model-vs-human does for 1000 ImageNet classes and its 16: the probabilities of the fine classes of each group
    are averaged, and the largest mean wins (the first of equal ones). A mean, unlike a sum, does not favour groups of
    many fine classes.

    Args:
        probabilities: (examples, fine classes), as softmax gives them.
        groups: name of each coarse class -> its columns.
        aggregate: `mean`, or `sum` for the probability of the group itself.
    """
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 2:
        raise PareError(f"probabilities must be (examples, classes), got shape {values.shape}.")
    bad = np.flatnonzero(~((values >= 0) & (values <= 1 + 1e-6)).all(axis=1))
    if len(bad):
        raise PareError(f"probabilities must lie in [0, 1], got others at {name_rows(bad)}; for logits, take softmax.")
    if aggregate not in ("mean", "sum"):
        raise PareError(f"aggregate must be 'mean' or 'sum', got {aggregate!r}.")
    for name, columns in groups.items():
        if not len(columns) or min(columns) < 0 or max(columns) >= values.shape[1]:
            raise PareError(
                f"class {name!r} needs at least one of the columns 0 to {values.shape[1] - 1}, got {list(columns)}; "
                "leave out classes that the model does not have."
            )
    mass = np.stack([getattr(values[:, list(columns)], aggregate)(axis=1) for columns in groups.values()], axis=1)
    return np.array(list(groups))[mass.argmax(axis=1)]


def measure_shape_bias(decisions: ArrayLike, shapes: ArrayLike, textures: ArrayLike) -> ShapeBias:
    """How often shape wins where shape and texture disagree and the decision is for one of them.

    Stimuli whose shape and texture are of the same class are left out, and so are decisions for a third class.

    Args:
        decisions, shapes, textures: classes as names or as codes, one per stimulus.
    """
    given, shape, texture = (np.asarray(values) for values in (decisions, shapes, textures))
    if not given.shape == shape.shape == texture.shape or given.ndim != 1:
        raise PareError(
            "decisions, shapes and textures must be one class per stimulus each, got shapes "
            f"{given.shape}, {shape.shape} and {texture.shape}."
        )
    conflict = shape != texture
    if not conflict.any():
        raise PareError("no stimulus has a shape and a texture of different classes; shape bias needs cue conflicts.")
    by_shape, by_texture = conflict & (given == shape), conflict & (given == texture)
    names, codes = np.unique(shape[conflict], return_inverse=True)
    for_shape = np.bincount(codes, by_shape[conflict], len(names))
    for_texture = np.bincount(codes, by_texture[conflict], len(names))
    with np.errstate(invalid="ignore"):
        by_class = for_shape / (for_shape + for_texture)
        decided = int(by_shape.sum() + by_texture.sum())
        value = float(np.divide(by_shape.sum(), decided))
    return ShapeBias(
        value=value,
        stderr=share_error(value, decided),
        trials=int(conflict.sum()),
        shape_decisions=int(by_shape.sum()),
        texture_decisions=int(by_texture.sum()),
        classes=tuple(str(name) for name in names),
        by_class=by_class,
    )
