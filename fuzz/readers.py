"""Damage every kind of file that paredown reads, in thousands of ways, and see that each is opened or refused.

    python fuzz/readers.py --seconds 60 --seed 0 [--reader NAME ...]
    python fuzz/readers.py --reader NAME --seed 0 --case NUMBER     # one case again, with its traceback

A case is right if the reader succeeds or raises `PareError`. Anything else is a failure: another exception, a crash, a
read that takes more than `--time-limit` seconds, or one that takes more memory than may be used. Cases run in a worker
process, which is started again when it dies. A case depends on the reader, the seed and its number alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from inputs import READERS
from mutations import damage

MEMORY = 2**30 + 2**29  # bytes that a case may add: what --memory allows unless told, and half as much to work with
ADDRESSES = 6 * 2**30  # bytes of addresses that the worker may add before the system stops it


# --- in the worker -------------------------------------------------------------------------------------------------


class Cases:
    """The damaged inputs of one reader."""

    def __init__(self, name: str, seed: int, folder: Path) -> None:
        self.name, self.seed, self.reader = name, seed, READERS[name]
        self.input = self.reader.make(folder)
        self.files = sorted(file for file in self.input.parent.rglob("*") if file.is_file())
        self.files = [file for file in self.files if self.reader.mutated(file)]
        self.whole = {file: file.read_bytes() for file in self.files}

    def damaged(self, case: int) -> tuple[Path, bytes]:
        """Which file is damaged in a case, and its bytes."""
        rng = random.Random(f"{self.name}/{self.seed}/{case}")
        file = rng.choice(self.files)
        ways = [damage, *(way for suffix, way in self.reader.aware if file.name.endswith(suffix))]
        return file, rng.choice(ways)(self.whole[file], rng)

    def run(self, case: int) -> str:
        """Read a case: `opened`, `refused`, or what went wrong."""
        from paredown.errors import PareError

        file, content = self.damaged(case)
        file.write_bytes(content)
        before = _reset_peak()
        try:
            outcome = "refused" if self.reader.read(self.input) else "opened"
        except PareError as error:
            outcome = "asks for memory that it does not check" if _is_memory(error) else "refused"
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            outcome = f"{type(error).__name__}: {str(error)[:150]!r} at {Path(last.filename).name}:{last.lineno}"
        finally:
            file.write_bytes(self.whole[file])
        used = _peak() - before
        return f"used {used / 2**30:.1f} GiB" if used > MEMORY else outcome


def _is_memory(error: BaseException) -> bool:
    return isinstance(error.__cause__, MemoryError)


def work(name: str, seed: int, first: int) -> None:
    """Run cases from `first` on for ever, with a line before and after each."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w", buffering=1)
    null = os.open(os.devnull, os.O_WRONLY)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        cases = Cases(name, seed, folder)
        # What the first use imports and allocates is not the cases' doing.
        assert not cases.reader.read(cases.input), "the undamaged input is refused"
        _limit_addresses()
        os.dup2(null, 1)
        os.dup2(null, 2)  # libraries complain about every damaged file
        case = first
        while True:
            out.write(f"{case}\n")
            out.write(json.dumps(cases.run(case)) + "\n")
            case += 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _limit_addresses() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ADDRESSES, resource.RLIM_INFINITY))


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


# --- the parent ----------------------------------------------------------------------------------------------------


class Worker:
    """A worker process and what it says, line by line."""

    def __init__(self, name: str, seed: int, first: int) -> None:
        command = [sys.executable, __file__, "--worker", name, str(seed), str(first)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"})
        assert self.process.stdout is not None
        self._descriptor, self._rest = self.process.stdout.fileno(), b""

    def line(self, seconds: float) -> str | None:
        """The next line; None if it does not come in time, or never."""
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self._descriptor, 65_536) if ready else b""
            if not more:
                return None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def stop(self) -> int | None:
        """End the worker; its exit code if it had ended by itself."""
        try:
            code = self.process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            code = None
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def fuzz(name: str, *, seconds: float, seed: int, time_limit: float, cases: int | None = None) -> dict[str, Any]:
    """Fuzz one reader: how many cases were tried, refused and opened, and what failed, by number."""
    counts: Counter[str] = Counter()
    failed: dict[int, str] = {}
    end, case = time.monotonic() + seconds, 0
    while (time.monotonic() < end) if cases is None else (case < cases):
        worker = Worker(name, seed, case)
        while (time.monotonic() < end) if cases is None else (case < cases):
            begun = worker.line(120)  # the first one waits for imports
            if begun is None:
                raise SystemExit(f"the worker for {name} does not start; run: {' '.join(worker.process.args)}")  # type: ignore[arg-type]
            outcome = worker.line(time_limit)
            case += 1
            counts["tried"] += 1
            if outcome is None:
                code = worker.stop()
                failed[case - 1] = "hangs" if code is None else f"crashes the process (exit {code})"
                break
            said = json.loads(outcome)
            if said in ("opened", "refused"):
                counts[said] += 1
            else:
                failed[case - 1] = said
        worker.stop()
    return {**{key: counts[key] for key in ("tried", "refused", "opened")}, "failed": failed}


def keep(name: str, seed: int, failed: dict[int, str], folder: Path) -> None:
    """Save damaged files for replay."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        cases = Cases(name, seed, Path(temporary))
        for case, said in failed.items():
            file, content = cases.damaged(case)
            place = folder / f"{name}-{seed}-{case}"
            place.mkdir(parents=True, exist_ok=True)
            (place / file.name).write_bytes(content)
            (place / "failure.txt").write_text(f"{said}\n{file.relative_to(cases.input.parent)}\n")


def replay(name: str, seed: int, case: int) -> None:
    """Run one case in this process, showing what it raises."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        cases = Cases(name, seed, Path(temporary))
        file, content = cases.damaged(case)
        file.write_bytes(content)
        print(f"{name} case {case}: {file.name}, {len(content)} bytes", flush=True)
        print("refused" if cases.reader.read(cases.input) else "opened")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the readers asked for, print a table, and return 1 if any case failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60, help="for each reader")
    parser.add_argument("--cases", type=int, help="for each reader, in place of --seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", action="append", choices=sorted(READERS), help="may be repeated; all if not given")
    parser.add_argument("--case", type=int, help="run this one case of the reader in this process")
    parser.add_argument("--time-limit", type=float, default=20, help="seconds that a case may take")
    parser.add_argument("--keep", type=Path, default=Path("fuzz/failures"), help="where damaged files that fail go")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        work(given.worker[0], int(given.worker[1]), int(given.worker[2]))
    if given.case is not None:
        replay(given.reader[0], given.seed, given.case)
        return 0
    print(f"{'reader':22} {'tried':>8} {'refused':>8} {'opened':>8} {'failed':>8}", flush=True)
    total = Counter[str]()
    for name in given.reader or READERS:
        found = fuzz(name, seconds=given.seconds, seed=given.seed, time_limit=given.time_limit, cases=given.cases)
        failed = found["failed"]
        row = {key: found[key] for key in ("tried", "refused", "opened")} | {"failed": len(failed)}
        total.update(row)
        print(f"{name:22} " + " ".join(f"{value:8,}" for value in row.values()), flush=True)
        for said, number in Counter(failed.values()).most_common(10):
            case = next(case for case, text in failed.items() if text == said)
            print(f"    {number} x {said} (--reader {name} --seed {given.seed} --case {case})", flush=True)
        keep(name, given.seed, dict(list(failed.items())[:20]), given.keep)
    print(f"{'all':22} " + " ".join(f"{total[key]:8,}" for key in ("tried", "refused", "opened", "failed")))
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
