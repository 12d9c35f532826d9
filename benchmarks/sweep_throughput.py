"""How much faster is a sweep with two workers than with one?

    python benchmarks/sweep_throughput.py [REPEATS]

The same `paredown sweep`, 48 students and 16 scorings on scikit-learn's digits, with one worker and with two in turn,
from the start of the command to its end. CPU seconds are those of the command and all its workers; divided by the wall
time they say how many cores the sweep really had, which on a shared machine are fewer than its workers.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

SWEEP = """
[data]
source = "train.npy"
labels = "train_labels.npy"
test = "test.npy"
test_labels = "test_labels.npy"

[grid]
initial_size = [600, 1200]
keep_fraction = [0.5, 1.0]
metric = ["el2n"]
seeds = 8

[student]
recipe = "mlp"
steps = 600

[probe]
members = 5
"""


class Measured(NamedTuple):
    """One sweep."""

    wall: float
    cpu: float


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_digits(folder)
        measured: dict[int, list[Measured]] = {1: [], 2: []}
        print("| workers | wall, s | CPU, s | cores had |\n|---|---|---|---|")
        for repeat in range(repeats):
            for workers in (1, 2):
                one = run(folder, workers, f"{workers}-{repeat}")
                print(f"| {workers} | {one.wall:.1f} | {one.cpu:.1f} | {one.cpu / one.wall:.2f} |", flush=True)
                measured[workers].append(one)
        ratios = [one.wall / two.wall for one, two in zip(measured[1], measured[2], strict=True)]
        extra = statistics.mean(run.cpu for run in measured[2]) - statistics.mean(run.cpu for run in measured[1])
        print(f"speed-up by the second worker: {', '.join(f'{ratio:.2f}' for ratio in ratios)}; goal 1.8")
        print(f"CPU seconds that it costs: {extra:+.1f}")
        tables = {(folder / f"{w}-{r}" / "results.parquet").read_bytes() for w in measured for r in range(repeats)}
        print(f"the same table to the byte: {len(tables) == 1}")


def write_digits(folder: Path) -> None:
    pixels, labels = load_digits(return_X_y=True)
    for name, rows in {"train": slice(497, None), "test": slice(497)}.items():
        np.save(folder / f"{name}.npy", pixels[rows].astype(np.float32))
        np.save(folder / f"{name}_labels.npy", labels[rows])
    (folder / "sweep.toml").write_text(SWEEP)


def run(folder: Path, workers: int, out: str) -> Measured:
    command = [Path(sys.executable).parent / "paredown", "sweep", "sweep.toml", "-o", out, "--workers", str(workers)]
    before, start = cpu_of_children(), time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return Measured(time.perf_counter() - start, cpu_of_children() - before)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
