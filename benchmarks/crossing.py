"""Does keep-hard lose to chance from a small initial set and win from a large one (Fig. 1D, section 3)?

    python benchmarks/crossing.py [mnist:FOLDER or fashion_mnist:FOLDER] [RESULTS]

EL2N by three probes that see the initial set alone, a multilayer perceptron on pixels as the student, 1500 steps for
every student, random subsets of the same size from the same initial set beside each. 112 students; a stopped run goes
on from RESULTS. Prints the difference to chance with its standard error, and the exponents at fixed fractions.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import paredown as pdn
from paredown.sources import ArrayImages
from paredown.sweeps.summary import compare_with_random, curves_by_way

SIZES, FRACTIONS, SEEDS = [938, 3750, 15_000, 60_000], [0.125, 0.25, 0.5, 1.0], 4


def main() -> None:
    source = sys.argv[1] if len(sys.argv) > 1 else "fashion_mnist:/usr/share/datasets/fashion-mnist"
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp())
    settings = {
        "data": write_pixels(source, out / "pixels"),
        "grid": {"initial_size": SIZES, "keep_fraction": FRACTIONS, "seeds": SEEDS, "metric": "el2n"},
        "student": {"recipe": "mlp", "steps": 1500},
        "probe": {"members": 3},
    }
    table = pdn.sweep(settings, out=out / "swept").table
    print("| initial | f | kept | hard, % error | random, % error | difference | z |\n|---|---|---|---|---|---|---|")
    for row in sorted(compare_with_random(table), key=lambda row: (row.keep_fraction, row.initial_size)):
        print(
            f"| {row.initial_size:,} | {row.keep_fraction:g} | {row.kept:,} "
            f"| {100 * row.test_error:.2f} ± {100 * row.stderr:.2f} "
            f"| {100 * row.random_error:.2f} ± {100 * row.random_stderr:.2f} "
            f"| {100 * row.difference:+.2f} ± {100 * row.difference_stderr:.2f} | {row.z:+.1f} |"
        )
    for way, curves in curves_by_way(table).items():
        for fraction, points in curves.items():
            size, error, stderr = (np.array(column) for column in zip(*points, strict=True))
            nu = pdn.laws.fit(pdn.laws.curve(size, error, stderr=stderr), "power")["nu"]
            print(f"{way}, f = {fraction:g}: error ~ kept^-{nu.value:.2f} ({nu.low:.2f} to {nu.high:.2f})")


def write_pixels(source: str, folder: Path) -> dict[str, str]:
    """Pixels as vectors and their labels, in files that a sweep reads."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for split, names in {"train": ("source", "labels"), "test": ("test", "test_labels")}.items():
        images = pdn.open_source(source, split=split)
        assert isinstance(images, ArrayImages)
        assert images.labels is not None
        arrays = images.pixels.reshape(len(images), -1).astype(np.float32) / 255, images.labels.codes
        for name, array in zip(names, arrays, strict=True):
            files[name] = str(folder / f"{name}.npy")
            np.save(files[name], array)
    return files


if __name__ == "__main__":
    main()
