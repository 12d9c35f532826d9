"""What does a Ray cluster cost, beside the same work in plain processes, and what does it save?

    python benchmarks/ray_engine.py [--part iterations|memory|kills]

Peers in one run: the same functions in a `ProcessPoolExecutor` of two processes, and Ray with one worker. `iterations`:
passes of k-means over 500,000 x 384, k = 500. `memory`: the highest memory of the driver at 10^5, 10^6 and 10^7 rows.
`kills`: workers or the driver are killed at twenty random moments, and the bytes are compared with an undisturbed run.
Not called ray.py, which would hide the library from itself.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
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
MEASURED = """
import sys, resource
from paredown.scoring.ranged_scoring import score_ranges
score_ranges(sys.argv[1], out=sys.argv[2], k=20, engine="ray", workers=2, sensitivity=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
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
                    values = (outcome.value for outcome in _in_turn(engine, common, ranges))
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


def memory(folder: Path) -> None:
    """MiB of the driver at its highest."""
    print("| rows (16 dimensions) | driver, MiB |\n|---|---|")
    for rows in (10**5, 10**6, 10**7):
        path = write_rows(folder / "rows.npy", rows, 16)
        run = subprocess.run(
            [sys.executable, "-c", MEASURED, path, folder / f"scores-{rows}"],
            capture_output=True,
            text=True,
            check=True,
        )
        print(f"| {rows:,} | {run.stdout.split()[-1]} |", flush=True)


def kills(folder: Path) -> None:
    """Kill workers or the driver at random moments until twenty are dead, then compare."""
    random.seed(0)
    source = write_rows(folder / "rows.npy", 1_500_000, 128)
    command = [sys.executable, "-m", "paredown", "score", source, "--k", "50", "--option", "method=full"]
    command += ["--option", "iterations=6", "--option", "sensitivity=false", "--memory", "64MiB"]
    on_ray = [*command, "--engine", "ray", "--workers", "2", "-o", folder / "killed"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*command, "--shard", "1/1", "-o", folder / "whole"], check=True, **quiet)
    tables, killed, drivers, redone = folder / "killed", 0, 0, 0
    seen: dict[str, int] = {}
    while True:
        drivers += 1
        driver = subprocess.Popen(on_ray, start_new_session=True, **quiet)
        while driver.poll() is None and killed < KILLS:
            time.sleep(random.uniform(1.0, 6.0))
            workers = (
                [p for p in psutil.Process(driver.pid).children(recursive=True) if is_worker(p)]
                if driver.poll() is None
                else []
            )
            victim = driver.pid if random.random() < 0.3 or not workers else random.choice(workers).pid
            if driver.poll() is None:
                os.kill(victim, 9)
                killed += 1
        driver.wait()
        now = {file.name: file.stat().st_mtime_ns for file in tables.glob("0*.parquet")}
        redone += sum(now[name] != time_ for name, time_ in seen.items() if name in now)
        seen = now
        if driver.returncode == 0:
            break
    same = {f.name: f.read_bytes() for f in (folder / "whole").iterdir() if f.is_file()} == {
        f.name: f.read_bytes() for f in tables.iterdir() if f.is_file()
    }
    print(f"{killed} kills, {drivers} drivers; tables written again: {redone} of {len(seen)}; same bytes: {same}")


def is_worker(process: psutil.Process) -> bool:
    """Whether a process is one of Ray's workers."""
    try:
        return process.name().startswith("ray::")
    except psutil.Error:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"iterations": iterations, "memory": memory, "kills": kills}
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
