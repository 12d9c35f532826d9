"""Does a sweep that is killed five times end with the same table as one that is left alone?

    python benchmarks/killed_sweep.py [SEED]

`paredown sweep` with 210 students on scikit-learn's digits and two workers. It is killed with SIGKILL at five random
moments, the whole process group or only the parent by the toss of a coin, and finished by the same command. After every
kill no process may be left and every file must be whole; no finished file may be written again; and in the end
`results.parquet` must have the bytes of the undisturbed one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

KILLS, WORKERS, TESTED = 5, 2, 497
SWEEP = """
[data]
source = "train.npy"
labels = "train_labels.npy"
test = "test.npy"
test_labels = "test_labels.npy"

[grid]
initial_size = [200, 500, 1200]
keep_fraction = [0.25, 0.5, 1.0]
strategy = ["hard", "easy"]
metric = ["el2n"]
seeds = 10

[student]
recipe = "mlp"
steps = 150

[probe]
members = 2
epochs = 5
"""


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    random.seed(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_digits(folder)
        start = time.perf_counter()
        begin(folder, "undisturbed").wait()
        duration = time.perf_counter() - start
        print(f"undisturbed: {len(finished(folder / 'undisturbed')['runs'])} students in {duration:.0f} s")
        kills, rewritten = 0, 0
        seen: dict[Path, int] = {}  # finished files and when they were written
        while kills < KILLS:
            process = begin(folder, "killed")
            moment, group = random.uniform(0.1, 0.35) * duration, random.random() < 0.5
            try:
                process.wait(moment)
                sys.exit("it ended before the fifth kill; this machine is too uneven for these moments")
            except subprocess.TimeoutExpired:
                (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
                process.wait()
            kills += 1
            gone = wait_for_end(process.pid)
            files = finished(folder / "killed")
            written = {file: file.stat().st_mtime_ns for kind in files.values() for file in kind}
            rewritten += sum(written[file] != at for file, at in seen.items())
            seen = written
            print(
                f"kill {kills}: {'the group' if group else 'the parent'} after {moment:.1f} s, with "
                f"{len(files['scores'])} initial sets scored and {len(files['runs'])} students trained; no process "
                f"was left {gone:.1f} s later"
            )
        begin(folder, "killed").wait()
        files = finished(folder / "killed")
        rewritten += sum(file.stat().st_mtime_ns != at for file, at in seen.items())
        tables = [(folder / out / "results.parquet").read_bytes() for out in ("undisturbed", "killed")]
        left = [file for file in (folder / "killed").rglob("*") if file.name.startswith(".")]
        print(f"finished: {len(files['runs'])} students; the same table to the byte: {tables[0] == tables[1]}")
        print(
            f"half-written files: 0; temporary files left over: {len(left)}; finished files written again: {rewritten}"
        )
        print(f"trained twice: at most those in training at a kill, {KILLS} x {WORKERS} of {len(files['runs'])}")
        sys.exit(0 if tables[0] == tables[1] and not rewritten else 1)


def write_digits(folder: Path) -> None:
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    for name, rows in {"train": order[TESTED:], "test": order[:TESTED]}.items():
        np.save(folder / f"{name}.npy", pixels[rows].astype(np.float32))
        np.save(folder / f"{name}_labels.npy", labels[rows])
    (folder / "sweep.toml").write_text(SWEEP)


def begin(folder: Path, out: str) -> subprocess.Popen[bytes]:
    """`paredown sweep` in a process group of its own."""
    command = [Path(sys.executable).parent / "paredown", "sweep", "sweep.toml", "-o", out, "--workers", str(WORKERS)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, start_new_session=True, stdout=quiet, stderr=quiet)


def finished(folder: Path) -> dict[str, list[Path]]:
    """The files of scores and runs, each of which can be read to its end."""
    files = {kind: sorted((folder / kind).glob(f"[!.]*{suffix}")) for kind, suffix in FILES.items()}
    for file in files["runs"]:
        assert json.loads(file.read_text())["status"] == "done", file
    for file in files["scores"]:
        assert np.isfinite(np.load(file)).all(), file
    return files


FILES = {"runs": ".json", "scores": ".npy"}


def wait_for_end(group: int) -> float:
    """Seconds until no process of a group runs."""
    start = time.perf_counter()
    while any(runs_in(group, entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        if time.perf_counter() - start > 30:
            sys.exit(f"processes of group {group} outlived their parent")
        time.sleep(0.05)
    return time.perf_counter() - start


def runs_in(group: int, process: Path) -> bool:
    try:
        state, _, its_group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(its_group) == group and state not in "ZX"


if __name__ == "__main__":
    main()
