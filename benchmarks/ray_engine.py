"""What does a Ray cluster cost, beside the same work in plain processes, and what does it save?

    python benchmarks/ray_engine.py [--part iterations|commands|memory|kills]

Peers in one run: the same functions in pools of one and of two processes, and Ray with one worker; every process
computes on one thread, as Ray's workers do. `iterations`: passes of k-means over 500,000 x 384, k = 500, and how much
faster two plain processes are than one, on the same ranges and on equal ones. `commands`: all of `paredown score` on
1,000,000 x 256, k = 1,000, with the start and the end of the cluster. `memory`: the highest memory of the driver at
10^5, 10^6 and 10^7 rows, of scoring and of pruning. `kills`: workers or the driver are killed at twenty random moments,
and the bytes are compared with an undisturbed run.
Not called ray.py, which would hide the library from itself.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from paredown.clustering.kernels.exact import ExactSearch
from paredown.clustering.passes import merge_sums
from paredown.clustering.ranged_rows import RangedEmbeddings, partial_sums
from paredown.engines import open_engine
from paredown.engines.base import combined
from paredown.progress import silent
from paredown.sources.row_ranges import RangedSource

ROWS, DIM, K, ROUNDS = 500_000, 384, 500, 5
KILLS = 20
QUIET: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
# The peak of this program alone: what `getrusage` tells a child includes what its parent held when it was started.
PEAK = """
print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
SCORED = """
import sys
from paredown.scoring.ranged_scoring import score_ranges
score_ranges(sys.argv[1], out=sys.argv[2], k=20, engine="ray", workers=2, sensitivity=False)
"""
PRUNED = """
import sys
from paredown.cli import main
given, out, *scoring = sys.argv[1:]
sys.argv[1:] = ["prune", given, "-o", out, "--keep-fraction", "0.4", "--engine", "ray", "--workers", "2", *scoring]
try:
    main()
except SystemExit as end:
    assert not end.code
"""


def write_rows(path: Path, rows: int, dim: int) -> Path:
    """Rows around random centres, written a block at a time."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((K, dim), np.float32)
    stored = np.lib.format.open_memmap(path, "w+", np.float32, (rows, dim))
    for first in range(0, rows, 50_000):
        part = stored[first : first + 50_000]
        part[:] = centres[rng.integers(0, K, len(part))] + rng.standard_normal(part.shape, np.float32)
    stored.flush()
    return path


def iterations(folder: Path) -> None:
    """Seconds of a pass with one worker and with two, of Ray and of a pool of processes, which is the control."""
    source = RangedSource(write_rows(folder / "rows.npy", ROWS, DIM))
    rng = np.random.default_rng(1)
    centroids = rng.standard_normal((K, DIM), np.float32)
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    search = ExactSearch(centroids)
    common = {"location": source.location, "columns": source.columns, "seed": 0, "limit": None}
    common |= {"kernel": search.name, "centroids": centroids, "arrays": {}}
    ranges = source.ranges()
    sizes = [sum(piece.rows for piece in each.pieces) for each in ranges]
    with ExitStack() as running:
        pools = {n: running.enter_context(ProcessPoolExecutor(n, mp_context=get_context("spawn"))) for n in (1, 2)}
        engine = running.enter_context(open_engine("ray", workers=2))
        rows = RangedEmbeddings(source, engine).fitting_rows(ROWS, seed=0)

        def in_pool(processes: int, ranges: list[Any]) -> Any:
            return combined(merge_sums, pools[processes].map(partial_sums, [common] * len(ranges), ranges))

        def on_ray(workers: int) -> Any:
            engine.workers = workers
            return rows.lloyd_sums(search, silent, "")

        equal = ranges[:1] * len(ranges)
        ways: dict[str, Callable[[], Any]] = {
            "Ray, two": lambda: on_ray(2),
            "Ray, one": lambda: on_ray(1),
            "processes, two": lambda: in_pool(2, ranges),
            "processes, one": lambda: in_pool(1, ranges),
            "equal ranges, two": lambda: in_pool(2, equal),
            "equal ranges, one": lambda: in_pool(1, equal),
        }
        results = [way() for way in ways.values()][:4]  # imports, and the cache of files
        assert all(np.array_equal(each.sums, results[0].sums) for each in results)
        times: dict[str, list[float]] = {name: [] for name in ways}
        driver = 0.0
        for _ in range(ROUNDS):
            for name, way in ways.items():
                began, own = time.perf_counter(), time.process_time()
                way()
                times[name].append(time.perf_counter() - began)
                if name == "Ray, two":
                    driver = time.process_time() - own
    best = {name: min(each) for name, each in times.items()}
    print(f"{ROWS:,} x {DIM}, k = {K}, {len(ranges)} ranges; best of {ROUNDS} passes, same bits")
    print(f"| Ray, two workers : two plain processes | {best['Ray, two'] / best['processes, two']:.3f} |")
    for name, what in (("Ray", "Ray"), ("processes", "plain processes"), ("equal ranges", "plain, equal ranges")):
        print(f"| {what}, one worker : two | {best[f'{name}, one'] / best[f'{name}, two']:.2f} |")
    print(f"| the most that the sizes of the ranges allow | {sum(sizes) / (-(-len(sizes) // 2) * sizes[0]):.2f} |")
    print(
        f"seconds: { ({name: round(each, 2) for name, each in best.items()}) }; CPU of the driver {driver:.2f} a pass"
    )


def commands(folder: Path) -> None:
    """Seconds of `paredown score` with one and two workers, in turn."""
    source = write_rows(folder / "rows.npy", 1_000_000, 256)
    command = [
        sys.executable,
        "-m",
        "paredown",
        "score",
        source,
        "--k",
        "1000",
        "--memory",
        "256MiB",
        "--engine",
        "ray",
    ]
    command += ["--option", "sensitivity=false"]
    times: dict[int, list[float]] = {1: [], 2: []}
    contents = []
    for number in range(2):
        for workers, seconds in times.items():
            out = folder / f"{number}-{workers}"
            began = time.perf_counter()
            subprocess.run([*command, "--workers", str(workers), "-o", out], check=True, **QUIET)
            seconds.append(time.perf_counter() - began)
            contents.append({file.name: file.read_bytes() for file in out.iterdir() if file.is_file()})
    assert all(each == contents[0] for each in contents)
    print(f"seconds, in turn: one worker {times[1]}, two {times[2]}; same bytes")
    print(f"| `score --engine ray`, one worker : two workers | {min(times[1]) / min(times[2]):.2f} |")


def memory(folder: Path) -> None:
    """MiB of the driver at its highest: scoring embeddings, pruning the table of scores, and both in one command."""
    print("| rows (16 dimensions) | score, MiB | prune scores, MiB | prune embeddings, MiB |\n|---|---|---|---|")
    for rows in (10**5, 10**6, 10**7):
        path, scores = write_rows(folder / "rows.npy", rows, 16), folder / f"scores-{rows}"
        peaks = [
            peak(SCORED, path, scores),
            peak(PRUNED, scores, folder / "cut"),
            peak(PRUNED, path, folder / "pruned"),
        ]
        print(f"| {rows:,} | {' | '.join(map(str, peaks))} |", flush=True)
        shutil.rmtree(folder / "cut")
        shutil.rmtree(folder / "pruned")


def peak(program: str, *arguments: Path | str) -> int:
    """MiB of a driver at its highest, in a process of its own."""
    command = [sys.executable, "-c", program + PEAK, *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def kills(folder: Path) -> None:
    """Kill workers or the driver at random moments of the work until twenty are dead; compare every run that ends."""
    random.seed(0)
    source = write_rows(folder / "rows.npy", 1_500_000, 128)
    command = [sys.executable, "-m", "paredown", "score", source, "--k", "50", "--option", "method=full"]
    command += ["--option", "iterations=6", "--option", "sensitivity=false", "--memory", "64MiB"]
    subprocess.run([*command, "--shard", "1/1", "-o", folder / "whole"], check=True, **QUIET)
    whole = {file.name: file.read_bytes() for file in (folder / "whole").iterdir() if file.is_file()}
    counts = {"worker": 0, "driver": 0}
    runs = same = redone = 0
    while sum(counts.values()) < KILLS:
        out = folder / f"killed-{runs}"
        redone += run_until_done([*command, "--engine", "ray", "--workers", "2", "-o", out], out, counts)
        same += whole == {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()}
        runs += 1
    print(f"{counts['worker']} workers and {counts['driver']} drivers killed over {runs} runs; the same bytes: {same}")
    print(f"tables written again: {redone} of {runs * sum(name.endswith('.parquet') for name in whole)}")


def run_until_done(command: list[Any], out: Path, counts: dict[str, int]) -> int:
    """Start a run again until it ends, killing its processes; how many finished tables it wrote again."""
    seen: dict[str, int] = {}
    redone = 0
    while True:
        driver = subprocess.Popen(command, start_new_session=True, **QUIET)
        while driver.poll() is None and sum(counts.values()) < KILLS:
            if not workers_of(driver):  # it is starting
                time.sleep(0.2)
                continue
            time.sleep(random.uniform(0.5, 4.0))
            workers = workers_of(driver)
            if driver.poll() is not None or not workers:
                continue
            kind = random.choice(list(counts))
            os.kill(random.choice(workers) if kind == "worker" else driver.pid, 9)
            counts[kind] += 1
        driver.wait()
        now = {file.name: file.stat().st_mtime_ns for file in out.glob("0*.parquet")}
        redone += sum(now.get(name) != written for name, written in seen.items())
        seen = now
        if driver.returncode == 0:
            return redone


def workers_of(driver: subprocess.Popen[Any]) -> list[int]:
    """The workers of Ray that a driver has; agents of the node are none."""
    workers = []
    with suppress(psutil.Error):
        for process in psutil.Process(driver.pid).children(recursive=True):
            with suppress(psutil.Error):
                if process.name().startswith("ray::") and not process.name().endswith("Agent"):
                    workers.append(process.pid)
    return workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"iterations": iterations, "commands": commands, "memory": memory, "kills": kills}
    parser.add_argument("--part", choices=parts, help="only this one")
    only = parser.parse_args().part
    if importlib.util.find_spec("ray") is None:
        print("skipped: Ray is not installed (pip install 'paredown[ray]')")
        return
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # of processes that are started
    for name, part in parts.items():
        if only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                part(Path(folder))


if __name__ == "__main__":
    main()
