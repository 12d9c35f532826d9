"""What training costs: floating-point operations and time.

Appendix on breaking compute scaling laws: with a fixed number of epochs the compute of training is proportional to the
number of examples kept, and FLOPs take the place of data set size on the axis.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError

BACKWARD = 2.0  # forward passes that one backward pass costs: gradients of the inputs, and of the weights


def count_flops(model: Callable[[Any], Any], inputs: Any) -> float:
    """Floating-point operations of one forward pass per example.

    A multiplication and an addition are two operations. Matrix products, convolutions and attention count; biases,
    activations and normalisation do not. Counted by torch's own `FlopCounterMode` while the model runs.

    Args:
        model: a torch module (put into evaluation mode while it is counted), or any function of a tensor.
        inputs: a small batch as an array or a tensor, examples first.
    """
    try:
        import torch
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError as error:
        raise PareError("counting FLOPs needs torch: pip install 'paredown[train]'.") from error

    batch = inputs if isinstance(inputs, torch.Tensor) else torch.as_tensor(np.asarray(inputs))
    if not batch.ndim or not len(batch):
        raise PareError(f"inputs must be a batch of at least one example, got shape {tuple(batch.shape)}.")
    module = model if isinstance(model, torch.nn.Module) else None
    was_training = module is not None and module.training
    if module is not None:
        module.eval()
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(batch)
    finally:
        if module is not None:
            module.train(was_training)
    return counter.get_total_flops() / len(batch)


def count_training_flops(forward: float, examples: int, epochs: float) -> float:
    """FLOPs of training: 3 x forward x examples x epochs.

    The usual convention: a backward pass costs two forward passes. It overstates by the gradient with respect to the
    inputs of the first layer, which is never needed.
    """
    if min(forward, examples, epochs) < 0:
        raise PareError(f"forward, examples and epochs must not be negative, got {forward}, {examples} and {epochs}.")
    return (1 + BACKWARD) * forward * examples * epochs


def measure_saving(full: float, pruned: float, *, scoring: float = 0.0) -> float:
    """Share of the compute that pruning saves; negative where scoring costs more than it saves.

    Args:
        full, pruned: FLOPs (or seconds) of training on everything and on what was kept.
        scoring: what it took to score the examples; leave it out only where the scores serve many trainings.
    """
    if full <= 0:
        raise PareError(f"full must be a positive amount of compute, got {full}.")
    return 1 - (pruned + scoring) / full


@dataclass(frozen=True)
class Timing:
    """Seconds of repeated runs. The clock tells what a user waits; CPU time is steadier on a shared machine."""

    wall: NDArray[np.float64]
    cpu: NDArray[np.float64]  # of this process, all threads

    @property
    def seconds(self) -> float:
        """Median of the clock."""
        return float(np.median(self.wall))

    @property
    def cpu_seconds(self) -> float:
        """Median of the CPU time."""
        return float(np.median(self.cpu))


def time_call(call: Callable[[], Any], *, repeats: int = 5, warm_up: int = 1) -> Timing:
    """Time a function of no arguments, after some runs that are not counted."""
    if repeats < 1 or warm_up < 0:
        raise PareError(f"repeats must be at least 1 and warm_up at least 0, got {repeats} and {warm_up}.")
    wall, cpu = np.empty(repeats), np.empty(repeats)
    for run in range(-warm_up, repeats):
        start = time.perf_counter(), time.process_time()
        call()
        if run >= 0:
            wall[run], cpu[run] = time.perf_counter() - start[0], time.process_time() - start[1]
    return Timing(wall, cpu)
