"""Does pruning CIFAR-10 by prototypes of pretrained embeddings beat chance, for a linear probe and a small network?

Needs two files: embeddings with arrays `train` and `test`, and labels with `y_train` and `y_test`. Every subset is
trained on for the same number of steps, and every mean is over seeds that change the pruning and the training.

    python benchmarks/cifar10.py embeddings.npz labels.npz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

import paredown as pdn
from paredown.standard_errors import standard_error

FRACTIONS = (0.8, 0.6)
SEEDS = 5
STEPS, BATCH = 1500, 256
METHODS = {
    "random": ("random", 0.0),
    "prototypes": ("prototypes", 0.0),
    "prototypes, floor 0.5": ("prototypes", 0.5),
    "supervised prototypes": ("supervised_prototypes", 0.0),
    "supervised prototypes, floor 0.5": ("supervised_prototypes", 0.5),
}


def accuracy(
    hidden: int, x: torch.Tensor, y: torch.Tensor, test: tuple[torch.Tensor, torch.Tensor], seed: int
) -> float:
    """Train a linear probe (no hidden units) or a small network, and measure its test accuracy in %."""
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(x.shape[1], hidden), torch.nn.ReLU()] if hidden else []
    model = torch.nn.Sequential(*layers, torch.nn.Linear(hidden or x.shape[1], 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        rows = torch.randint(len(x), (BATCH,))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        schedule.step()
    with torch.inference_mode():
        return 100 * float((model(test[0]).argmax(dim=1) == test[1]).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("embeddings", type=Path, nargs="?")
    parser.add_argument("labels", type=Path, nargs="?")
    options = parser.parse_args()
    if options.labels is None:
        print("left out: it needs the files of embeddings and labels as arguments")
        return
    torch.set_num_threads(1)
    with np.load(options.embeddings) as vectors, np.load(options.labels) as labels:
        train, test = vectors["train"].astype(np.float32), vectors["test"].astype(np.float32)
        y_train, y_test = labels["y_train"].astype(np.int64), labels["y_test"].astype(np.int64)
    scale = train.std(axis=0)
    x, y = torch.from_numpy(train / scale), torch.from_numpy(y_train)
    held_out = torch.from_numpy(test / scale), torch.from_numpy(y_test)
    print(f"test accuracy in %, mean ± standard error over {SEEDS} seeds")
    print("| kept | method | linear probe | network of 128 hidden units |\n|---|---|---|---|")

    def row(fraction: float, method: str, subsets: list[np.ndarray]) -> None:
        cells = []
        for hidden in (0, 128):
            runs = [accuracy(hidden, x[rows], y[rows], held_out, seed) for seed, rows in enumerate(subsets)]
            cells.append(f"{np.mean(runs):.2f} ± {standard_error(runs):.2f}")
        print(f"| {fraction:g} | {method} | {cells[0]} | {cells[1]} |", flush=True)

    row(1.0, "all", [np.arange(len(x))] * SEEDS)
    scores = {
        (metric, seed): pdn.score(train, metric=metric, labels=y_train, seed=seed)
        for metric in {metric for metric, _ in METHODS.values()}
        for seed in range(SEEDS)
    }
    for fraction in FRACTIONS:
        for method, (metric, balance) in METHODS.items():
            chosen = [
                pdn.select(scores[metric, seed], keep_fraction=fraction, balance=balance, seed=seed).indices
                for seed in range(SEEDS)
            ]
            row(fraction, method, chosen)


if __name__ == "__main__":
    main()
