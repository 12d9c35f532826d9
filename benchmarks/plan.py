"""Does a run take what `paredown plan` said?

    python benchmarks/plan.py [--most 10_000_000] [--part seconds|bytes]

Peer: the run itself, at 10^5, 10^6 and 10^7 rows. `seconds`: in this process on one core; CPU seconds are compared, so
that other work on the machine does not count; reading is then free but for the copying, so the plan is made with a fast
disk. `bytes`: on Ray with one worker, which says what it has read since it started and its highest memory, that of the
object store included.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

from paredown.clustering.ranged_rows import RangedEmbeddings
from paredown.engines import InProcess, open_engine
from paredown.metrics.prototypes import fit_prototypes
from paredown.scoring.ranged_scoring import score_ranges
from paredown.scoring.run_plan import plan_run
from paredown.sources.row_ranges import RangedSource

RUNS = [(10**5, 256, 100), (10**5, 256, 1_000), (10**6, 64, 500), (10**6, 128, 1_000), (10**7, 32, 1_000)]
READ_RUNS = [(10**5, 256, 1_000), (10**5, 768, 5_000), (10**6, 128, 1_000), (10**7, 16, 100)]
MEMORY = 2**28


def write_rows(path: Path, rows: int, dim: int, centres: int) -> Path:
    """Rows around random centres, written a block at a time."""
    rng = np.random.default_rng(0)
    around = rng.standard_normal((centres, dim), np.float32)
    stored = np.lib.format.open_memmap(path, "w+", np.float32, (rows, dim))
    for first in range(0, rows, 50_000):
        part = stored[first : first + 50_000]
        part[:] = around[rng.integers(0, centres, len(part))] + rng.standard_normal(part.shape, np.float32)
    stored.flush()
    return path


def read_speed(source: Path) -> float:
    """Bytes a second of this process's own time, for reading rows and giving them length one."""
    rows = RangedSource(source)
    began = time.process_time()
    for piece in rows.ranges()[:1]:
        for _ in rows.open(piece).batches():
            pass
    return rows.ranges()[0].pieces[0].rows * rows.dim * 4 / (time.process_time() - began)


def reading(common: Any, job: Any) -> tuple[int, int, int]:
    """What a worker is asked for: which process it is, bytes it has read, and those of its highest memory."""
    import paredown.metrics.registry  # noqa: F401  # not read later, then

    counts = dict(line.split(":") for line in Path("/proc/self/io").read_text().splitlines())
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return os.getpid(), int(counts["rchar"]), int(status["VmHWM"].split()[0]) * 1024


def seconds(most: int) -> None:
    """CPU seconds: planned to those of the run."""
    print("| rows | dimensions | k | planned : CPU seconds of the run | of them for the centroids |")
    print("|---|---|---|---|---|")
    for rows, dim, k in RUNS:
        if rows > most:
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = write_rows(Path(folder, "e.npy"), rows, dim, k)
            plan = plan_run(rows, dim, k=k, memory=MEMORY, read_speed=read_speed(source))
            began = time.process_time()
            fit_prototypes(
                RangedEmbeddings(RangedSource(source), InProcess()), seed=0, k=k, memory=MEMORY, sensitivity=False
            )
            fitting = time.process_time() - began
            began = time.process_time()
            score_ranges(source, out=Path(folder, "s"), k=k, memory=MEMORY, sensitivity=False)
            whole = time.process_time() - began
            planned = sum(step.core_seconds for step in plan.steps if step.name != "scoring")
            print(
                f"| {rows:,} | {dim} | {k:,} | {plan.core_seconds / whole:.2f} | {planned / fitting:.2f} |", flush=True
            )


def bytes_and_memory(most: int) -> None:
    """Bytes that a worker reads, and its highest memory: planned to those of the run."""
    if importlib.util.find_spec("ray") is None:
        print("skipped: Ray is not installed (pip install 'paredown[ray]')")
        return
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    print("| rows | dimensions | k | planned : bytes read | planned : highest memory of the worker, MiB |")
    print("|---|---|---|---|---|")
    for rows, dim, k in READ_RUNS:
        if rows > most:
            continue
        with tempfile.TemporaryDirectory() as folder, open_engine("ray", workers=1) as engine:
            source = write_rows(Path(folder, "e.npy"), rows, dim, k)
            plan = plan_run(rows, dim, k=k, memory=MEMORY, core_speed=5e10)
            (first,) = engine.run_jobs("plan:reading", [None])
            score_ranges(source, out=Path(folder, "s"), k=k, memory=MEMORY, sensitivity=False, engine=engine)
            (last,) = engine.run_jobs("plan:reading", [None])
            (worker, before, idle), (same, after, peak) = first.value, last.value
            assert worker == same, "another worker did some of it; run it again"
            print(
                f"| {rows:,} | {dim} | {k:,} | {plan.read / (after - before):.2f} | {plan.worker_memory >> 20} : "
                f"{peak >> 20}, {idle >> 20} before |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=10**7, help="rows, at most")
    parts = {"seconds": seconds, "bytes": bytes_and_memory}
    parser.add_argument("--part", choices=parts, help="only this one")
    given = parser.parse_args()
    for name, part in parts.items():
        if given.part in (None, name):
            part(given.most)


if __name__ == "__main__":
    main()
