"""How much faster are the networks of an ensemble as one batched product than one after another?

The recipe's own loop (`training.train`) trains the same networks in turn; every cell is its CPU time divided by
that of `train_ensemble`, on one thread, each pair of measurements right after another and the median of them taken. The
networks are the same ones: the table also shows the largest difference of their logits.

Run: python benchmarks/ensembles.py [repeats]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.training import Examples, Recipe, find_recipe, train
from paredown.training.devices import torch_threads
from paredown.training.ensembles import train_ensemble

ROWS, EPOCHS, CLASSES = 2_560, 2, 10
CASES = (("mlp", 100), ("mlp", 784), ("linear", 512))
MEMBERS = (10, 40)


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def draw_examples(dim: int) -> Examples:
    """Ten noisy classes."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, ROWS)
    inputs = rng.standard_normal((CLASSES, dim))[labels] + 3 * rng.standard_normal((ROWS, dim))
    return Examples(inputs.astype(np.float32), labels, tuple(map(str, range(CLASSES))), np.arange(ROWS))


def in_turn(recipe: Recipe, examples: Examples, members: int) -> NDArray[np.float32]:
    trained = [train(recipe, examples, seed=seed, epochs=EPOCHS) for seed in range(members)]
    return np.stack([member.logits(examples) for member in trained])


def together(recipe: Recipe, examples: Examples, members: int) -> NDArray[np.float32]:
    return train_ensemble(recipe, examples, seeds=range(members), epochs=EPOCHS).logits(examples)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("| recipe | features | networks | times faster | largest difference |\n|---|---|---|---|---|")
    with torch_threads(1):
        for name, dim in CASES:
            recipe, examples = find_recipe(name), draw_examples(dim)
            for warm_up in (in_turn, together):
                warm_up(recipe, examples, 2)
            for members in MEMBERS:
                ratios, differences = [], []
                for _ in range(repeats):
                    slow, expected = cpu_seconds(partial(in_turn, recipe, examples, members))
                    fast, found = cpu_seconds(partial(together, recipe, examples, members))
                    ratios.append(slow / fast)
                    differences.append(float(np.abs(found - expected).max()))
                print(f"| {name} | {dim} | {members} | {median(ratios):.1f} | {max(differences):.0e} |", flush=True)


if __name__ == "__main__":
    main()
