"""Do the metrics of trained networks agree, as the paper found for EL2N, DDD and memorization (section 5)?

Fashion-MNIST, 5000 training images as raw pixels, the `mlp` recipe: Spearman's correlation of every pair of metrics,
and how reliable each metric is by itself (the correlation of two halves of its networks, and what the Spearman-Brown
formula makes of it for all of them). Influence is measured on the examples left out, and on 2000 test images.

The four files of Fashion-MNIST are those of Debian's package dataset-fashion-mnist.

Run: python benchmarks/metrics_agree.py [folder of the files]
"""

from __future__ import annotations

import gzip
import sys
import time
from pathlib import Path

import numpy as np

from paredown.correlations import rank_correlation
from paredown.scoring import score_all
from paredown.scoring.costs import estimate_training
from paredown.sources import ArraySource

FOLDER = Path("/usr/share/datasets/fashion-mnist")
EXAMPLES, TESTS = 5_000, 2_000
ALIKE = ("el2n", "ddd", "memorization")  # correlations above 0.7 in the paper
METRICS = (*ALIKE, "forgetting", "active_learning", "influence_max", "influence_sum_abs")


def images(folder: Path, part: str, count: int) -> ArraySource:
    """The first images of a part of the data as vectors, with their labels."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as stream:
        pixels = np.frombuffer(stream.read(16 + count * 784), np.uint8, offset=16)
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as stream:
        labels = np.frombuffer(stream.read(8 + count), np.uint8, offset=8)
    return ArraySource(pixels.reshape(count, 784).astype(np.float32), labels=labels, location=f"Fashion-MNIST {part}")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    source, tests = images(folder, "train", EXAMPLES), images(folder, "t10k", TESTS)
    print(f"expected: {estimate_training(METRICS, source, threads=1)}", flush=True)
    start = time.process_time()
    scores = score_all(source, metrics=METRICS, threads=1)
    on_tests = score_all(source, metrics=METRICS[-2:], test=tests, threads=1)
    print(f"took {time.process_time() - start:.0f} s of CPU time\n")

    columns = dict(scores) | {f"{name} (test)": value for name, value in on_tests.items()}
    print("| |" + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
    for name, one in columns.items():
        row = " | ".join(
            f"{rank_correlation(one.values, other.values, constant=0.0):.2f}" for other in columns.values()
        )
        print(f"| {name} | {row} |")
    print("\n| metric | networks | split half | reliability |\n|---|---|---|---|")
    for name, one in columns.items():
        report = one.provenance["report"]
        print(f"| {name} | {report['models']} | {report['split_half']:.2f} | {report['reliability']:.2f} |")
    for name, one in columns.items():
        for warning in one.provenance["warnings"]:
            print(f"\n{name}: {warning}", end="")
    pairs = [(a, b) for at, a in enumerate(ALIKE) for b in ALIKE[at + 1 :]]
    lowest = min(rank_correlation(scores[a].values, scores[b].values, constant=0.0) for a, b in pairs)
    print(f"\n\nlowest correlation of {', '.join(ALIKE)}: {lowest:.2f}")
    if lowest <= 0.7:
        sys.exit("they do not agree by more than 0.7")


if __name__ == "__main__":
    main()
