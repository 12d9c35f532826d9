"""How long do typicality, k-center and scoring take against faiss, the plain algorithm, and reading the file?

CPU seconds on one thread, of interleaved runs: the median ratio and the range, or for scoring the ratio of the least.
Rows are those of `--embeddings` (an `.npy` file) or structured ones as in `prototypes.py`, 50,000 x 128. `--before` is
the `src` folder of another version, to compare with.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
NEIGHBOURS, PICKS = 20, 10_000
SCORED = (100_000, 2048)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """CPU and clock seconds of one run."""
    cpu, clock = process_time(), perf_counter()
    run()
    return process_time() - cpu, perf_counter() - clock


def unit(file: Path) -> Any:
    """The rows of a file, scaled to unit length."""
    import numpy as np

    rows = np.load(file)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def typicality(file: Path, with_torch: bool) -> float:
    """The metric as a user calls it, from an array in memory."""
    import paredown as pdn

    rows = unit(file)
    if with_torch:
        import torch

        torch.set_num_threads(1)
    else:
        sys.modules["torch"] = None  # type: ignore[assignment]
    score = pdn.score  # imports what it needs, which is not counted, nor is importing faiss
    return timed(lambda: score(rows, metric="typicality", neighbours=NEIGHBOURS))[0]


def faiss_neighbours(file: Path) -> float:
    import faiss

    faiss.omp_set_num_threads(1)
    rows = unit(file)

    def run() -> None:
        index = faiss.IndexFlatIP(rows.shape[1])
        index.add(rows)  # type: ignore[call-arg]
        index.search(rows, NEIGHBOURS + 1)  # type: ignore[call-arg]

    return timed(run)[0]


def k_center(file: Path) -> float:
    from paredown.metrics.k_center import greedy_order

    rows = unit(file)
    return timed(lambda: greedy_order(rows, PICKS))[0]


def plain_greedy(file: Path) -> float:
    """Every row against every pick, one pick at a time."""
    import numpy as np

    rows = unit(file)

    def run() -> None:
        nearest = rows @ rows[0]
        for _ in range(PICKS // 10):  # all picks cost the same
            np.maximum(nearest, np.vecdot(rows, rows[int(np.argmin(nearest))]), out=nearest)

    return 10 * timed(run)[0]


CONTENDERS: dict[str, Callable[[Path], float]] = {
    "typicality": lambda file: typicality(file, with_torch=True),
    "typicality without torch": lambda file: typicality(file, with_torch=False),
    "faiss.IndexFlatIP": faiss_neighbours,
    "k_center": k_center,
    "plain greedy": plain_greedy,
}


def run(name: str, file: Path, source: Path | None = None) -> float:
    """CPU seconds of a contender in a process of its own, with paredown from another folder if given."""
    path = {} if source is None else {"PYTHONPATH": str(source)}
    command = [sys.executable, __file__, "--contender", name, str(file)]
    done = subprocess.run(command, env=os.environ | THREADS | path, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def compare(file: Path, peer: str, names: tuple[str, ...], before: Path | None, rounds: int) -> None:
    """Time in units of the peer's."""
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name in (peer, *names):
            times.setdefault(name, []).append(run(name, file))
        if before is not None:
            times.setdefault(f"{names[0]}, the version before", []).append(run(names[0], file, before))
    for name, seconds in times.items():
        ratios = [mine / theirs for mine, theirs in zip(seconds, times[peer], strict=True)]
        print(f"  {name}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def scoring(folder: Path, rounds: int) -> None:
    """`score` with a saved model against reading the file in blocks, from the page cache and from the disk."""
    import numpy as np
    from prototypes import structured

    import paredown as pdn

    file, half = folder / "rows.npy", folder / "half.npy"
    structured(file, *SCORED)
    stored = np.load(file, mmap_mode="r")
    np.lib.format.open_memmap(half, "w+", np.float16, SCORED)[:] = stored
    for k in (500, 1000):
        model = folder / f"{k}.npz"
        pdn.score(stored[:60_000], k=k, iterations=5, sensitivity=False, save_model=model)  # enough to choose a kernel
        for name, path in (("float32", file), ("float16", half)):
            for place, cold in (("page cache", False), ("disk", True)):
                actions = (partial(read, path), partial(pdn.score, path, model=model))
                least = np.full((2, 2), np.inf)
                for _ in range(rounds):
                    for row, action in enumerate(actions):
                        settle(path, cold=cold)
                        least[row] = np.minimum(least[row], timed(action))
                cpu, clock = least[1] / least[0]
                print(f"  k = {k}, {name}, {place}: CPU {cpu:.2f}, clock {clock:.2f}", flush=True)


def read(path: Path) -> None:
    """The whole file, 16 MiB at a time into the same memory."""
    buffer = bytearray(16 * 2**20)
    with path.open("rb", buffering=0) as stream:
        while stream.readinto(buffer):
            pass


def settle(path: Path, *, cold: bool) -> None:
    """Put the file into the page cache, or take it out."""
    if not cold:
        return read(path)
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=["typicality", "k_center", "scoring"])
    parser.add_argument("--embeddings", type=Path, help="rows as .npy in place of structured ones")
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contender", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        print(CONTENDERS[options.contender[0]](Path(options.contender[1])))
        return
    if THREADS.items() - os.environ.items():  # read when the libraries are loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | THREADS)
    parts = options.parts or ["typicality", "k_center", "scoring"]
    with tempfile.TemporaryDirectory() as folder:
        file: Path = options.embeddings or Path(folder) / "few.npy"
        if options.embeddings is None and parts != ["scoring"]:
            from prototypes import structured

            structured(file, 50_000, 128)
        if "typicality" in parts:
            print("typicality: CPU time relative to faiss")
            names = ("typicality", "typicality without torch")
            compare(file, "faiss.IndexFlatIP", names, options.before, options.rounds)
        if "k_center" in parts:
            print("k_center: CPU time relative to the plain greedy algorithm")
            compare(file, "plain greedy", ("k_center",), options.before, options.rounds)
        if "scoring" in parts:
            print("scoring with a saved model, 100,000 x 2048: time relative to reading the file")
            scoring(Path(folder), options.rounds)


if __name__ == "__main__":
    main()
