"""What does a Ray cluster cost, beside the same work in plain processes, and what does it save?

    python benchmarks/ray_engine.py [--part iterations|commands|memory|kills]

Peers in one run: the same functions in a `ProcessPoolExecutor` of two processes, and Ray with one worker. `iterations`:
passes of k-means over 500,000 x 384, k = 500. `commands`: all of `paredown score` on 1,000,000 x 256, k = 1,000, with
the start and the end of the cluster. `memory`: the highest memory of the driver at 10^5, 10^6 and 10^7 rows,
of scoring and of pruning. `kills`: workers or the driver are killed at twenty random moments, and the bytes are
compared with an undisturbed run.
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
from copy import deepcopy
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

ROWS, DIM, K, ROUNDS = 500_000, 384, 500, 3
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
    """Seconds of a pass: two processes, Ray with two workers, Ray with one."""
    source = RangedSource(write_rows(folder / "rows.npy", ROWS, DIM))
    rng = np.random.default_rng(1)
    centroids = rng.standard_normal((K, DIM), np.float32)
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    search = ExactSearch(centroids)
    common = {"location": source.location, "columns": source.columns, "seed": 0, "limit": None}
    common |= {"kernel": search.name, "centroids": centroids, "arrays": {}}
    ranges = source.ranges()
    times: dict[str, list[float]] = {"two processes": [], "Ray, two workers": [], "Ray, one worker": []}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool, open_engine("ray", workers=2) as engine:
        rows = RangedEmbeddings(source, engine).fitting_rows(ROWS, seed=0)

        def processes() -> Any:
            return combined(merge_sums, pool.map(partial_sums, [common] * len(ranges), ranges))

        def on_ray(workers: int) -> Callable[[], Any]:
            def run() -> Any:
                engine.workers = workers
                if workers == 1:  # one after the other
                    values = (deepcopy(outcome.value) for outcome in _in_turn(engine, common, ranges))
                    return combined(merge_sums, values)
                return rows.lloyd_sums(search, silent, "")

            return run

        ways = dict(zip(times, (processes, on_ray(2), on_ray(1)), strict=True))
        results = {name: way() for name, way in ways.items()}  # imports, and the cache of files
        assert all(np.array_equal(each.sums, results["two processes"].sums) for each in results.values())
        for _ in range(ROUNDS):
            for name, way in ways.items():
                began = time.perf_counter()
                way()
                times[name].append(time.perf_counter() - began)
    best = {name: min(each) for name, each in times.items()}
    print(f"{ROWS:,} x {DIM}, k = {K}, {len(ranges)} ranges; best of {ROUNDS} passes, same bits")
    print(f"| Ray : two processes | {best['Ray, two workers'] / best['two processes']:.3f} |")
    print(f"| one worker : two workers | {best['Ray, one worker'] / best['Ray, two workers']:.2f} |")


def _in_turn(engine: Any, common: Any, ranges: list[Any]) -> Any:
    for rows in ranges:
        yield from engine.run_jobs("paredown.clustering.ranged_rows:partial_sums", [rows], common=common)


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
    """Kill workers or the driver at random moments until twenty are dead, and compare every run that ends."""
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
            time.sleep(random.uniform(0.5, 4.0))
            if driver.poll() is not None:
                break
            workers = [p for p in psutil.Process(driver.pid).children(recursive=True) if is_worker(p)]
            kind = "worker" if random.random() < 0.7 else "driver"
            if kind == "worker" and not workers:
                continue  # they are not there yet
            os.kill(random.choice(workers).pid if kind == "worker" else driver.pid, 9)
            counts[kind] += 1
        driver.wait()
        now = {file.name: file.stat().st_mtime_ns for file in out.glob("0*.parquet")}
        redone += sum(now.get(name) != written for name, written in seen.items())
        seen = now
        if driver.returncode == 0:
            return redone


def is_worker(process: psutil.Process) -> bool:
    """Whether a process is one of Ray's workers."""
    try:
        return process.name().startswith("ray::")
    except psutil.Error:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"iterations": iterations, "commands": commands, "memory": memory, "kills": kills}
    parser.add_argument("--part", choices=parts, help="only this one")
    only = parser.parse_args().part
    if importlib.util.find_spec("ray") is None:
        print("skipped: Ray is not installed (pip install 'paredown[ray]')")
        return
    for name, part in parts.items():
        if only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                part(Path(folder))


if __name__ == "__main__":
    main()
