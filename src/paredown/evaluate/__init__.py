"""What pruning did to a model: class by class, out of distribution, compared with humans, and in compute.

Everything takes arrays (predictions, labels, images, features), so that any training framework will do.
"""

from __future__ import annotations

from paredown.evaluate.classes import ClassChange, ClassComparison, compare_classes
from paredown.evaluate.compute import Timing, count_flops, count_training_flops, measure_saving, time_call
from paredown.evaluate.corruptions import CORRUPTIONS, CorruptionAccuracy, corrupt, measure_corruptions
from paredown.evaluate.linear_probes import LinearProbe, linear_probe
from paredown.evaluate.observers import (
    CONTROLS,
    Agreement,
    ObserverComparison,
    Trials,
    compare_observers,
    join_trials,
    leave_out_conditions,
    measure_agreement,
)
from paredown.evaluate.shape_bias import ShapeBias, map_decisions, measure_shape_bias

__all__ = [
    "CONTROLS",
    "CORRUPTIONS",
    "Agreement",
    "ClassChange",
    "ClassComparison",
    "CorruptionAccuracy",
    "LinearProbe",
    "ObserverComparison",
    "ShapeBias",
    "Timing",
    "Trials",
    "compare_classes",
    "compare_observers",
    "corrupt",
    "count_flops",
    "count_training_flops",
    "join_trials",
    "leave_out_conditions",
    "linear_probe",
    "map_decisions",
    "measure_agreement",
    "measure_corruptions",
    "measure_saving",
    "measure_shape_bias",
    "time_call",
]
