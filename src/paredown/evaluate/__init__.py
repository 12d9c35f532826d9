"""What pruning did to a model: class by class, out of distribution, compared with humans, and in compute.

Everything takes arrays (predictions, labels, images, features), so that any training framework will do.
"""

from __future__ import annotations

from paredown.evaluate.classes import ClassChange as ClassChange
from paredown.evaluate.classes import ClassComparison as ClassComparison
from paredown.evaluate.classes import compare_classes as compare_classes
from paredown.evaluate.compute import Timing as Timing
from paredown.evaluate.compute import count_flops as count_flops
from paredown.evaluate.compute import count_training_flops as count_training_flops
from paredown.evaluate.compute import measure_saving as measure_saving
from paredown.evaluate.compute import time_call as time_call
from paredown.evaluate.corruptions import CORRUPTIONS as CORRUPTIONS
from paredown.evaluate.corruptions import CorruptionAccuracy as CorruptionAccuracy
from paredown.evaluate.corruptions import corrupt as corrupt
from paredown.evaluate.corruptions import measure_corruptions as measure_corruptions
from paredown.evaluate.linear_probes import LinearProbe as LinearProbe
from paredown.evaluate.linear_probes import linear_probe as linear_probe
from paredown.evaluate.observers import CONTROLS as CONTROLS
from paredown.evaluate.observers import Agreement as Agreement
from paredown.evaluate.observers import ObserverComparison as ObserverComparison
from paredown.evaluate.observers import Trials as Trials
from paredown.evaluate.observers import compare_observers as compare_observers
from paredown.evaluate.observers import join_trials as join_trials
from paredown.evaluate.observers import leave_out_conditions as leave_out_conditions
from paredown.evaluate.observers import measure_agreement as measure_agreement
from paredown.evaluate.shape_bias import ShapeBias as ShapeBias
from paredown.evaluate.shape_bias import map_decisions as map_decisions
from paredown.evaluate.shape_bias import measure_shape_bias as measure_shape_bias
