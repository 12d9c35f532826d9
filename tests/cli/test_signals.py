"""Ctrl-C and SIGTERM in real processes at many moments: the exit code, one line, nothing half-written, no orphan."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from paredown.files import LOCK_SUFFIX, TEMPORARY

MOMENTS = int(os.environ.get("PAREDOWN_MOMENTS", "3"))  # at which each command is stopped
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

# Stops itself by a signal at the n-th of some events, such as a file that is opened: at the same place every time.
AT_EVENT = """
import os, signal, sys
kind, number, name = os.environ["STOP_AT"].split(",")
left = int(number)
def hook(event, arguments):
    global left
    if event == kind and hasattr(sys, "argv") and signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, None):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), getattr(signal, name))
sys.addaudithook(hook)
"""

# Times in records, and digests of what holds times.
TIMED = rb'"seconds": [0-9.e-]+|"(record_sha256|timings.parquet)": "[0-9a-f]+"'


class Stopped(NamedTuple):
    code: int
    said: str
    printed: str


def start(arguments: list[str], cwd: Path, **environment: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([*([str(cwd / "hooks")] if environment else []), *(path for path in sys.path if path)])
    return subprocess.Popen(
        [sys.executable, "-m", "paredown", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
        start_new_session=True,  # its process group is itself and those it starts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # also where tests run without it
    )


def finish(process: subprocess.Popen[str]) -> Stopped:
    printed, said = process.communicate()
    return Stopped(process.returncode, said, printed)


def wait_for_handlers(process: subprocess.Popen[str]) -> None:
    """Until it takes signals: before that Python itself starts, and answers them in its own way."""
    bit = 1 << (signal.SIGTERM - 1)
    while process.poll() is None:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:") and int(line.split()[1], 16) & bit:
                return
        time.sleep(0.001)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder and its bytes, hidden ones too, but for times."""
    return {
        str(file.relative_to(folder)): re.sub(TIMED, b"", file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "timings.parquet"
    }


def ends(pid: int) -> bool:
    """Whether a process ends soon: one whose parent is gone may still be on its way out."""
    for _ in range(3000):
        if not alive(pid):
            return True
        time.sleep(0.01)
    return False


class Command(NamedTuple):
    arguments: str
    out: str
    parts: str | None = None  # where finished parts may stay


COMMANDS = {
    "embed": Command("embed images -o {out} --encoder pixels --shard-size 20", "store", "store"),
    "score": Command("score images -o {out} --encoder pixels --k 4", "scores.parquet", ".scores.parquet.parts"),
    "prune": Command("prune x.npy -o {out} --k 20", "pruned", ".pruned.parts"),
    "export": Command("export manifest --to images -o {out}", "exported"),
    "theory": Command("theory --alpha-tot 10 --theta 20 --json", "nothing"),
    "simulate": Command("simulate --alpha-prune 2 --draws 40 --n-features 60 --workers 2 --json", "nothing"),
    "sweep": Command("sweep sweep.toml -o {out} --workers 2", "swept", "swept"),
}
SWEEP = """
[data]
source = "small.npy"
labels = "y.npy"
test = "small.npy"
test_labels = "y.npy"
[grid]
initial_size = 60
keep_fraction = [0.5]
metric = "prototypes"
seeds = 2
[student]
recipe = "linear"
steps = 3
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    for row in range(60):
        file = folder / "images" / "ab"[row % 2] / f"{row}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (48, 48, 3), np.uint8)).save(file)
    np.save(folder / "x.npy", rng.standard_normal((5000, 32)).astype(np.float32))
    np.save(folder / "small.npy", rng.standard_normal((60, 4)).astype(np.float32))
    np.save(folder / "y.npy", np.arange(60) % 3)
    (folder / "sweep.toml").write_text(SWEEP)
    made = finish(start(["prune", "images", "--encoder", "pixels", "--metric", "random", "-o", "manifest"], folder))
    assert made.code == 0, made.said
    return folder


@pytest.fixture(scope="module")
def undisturbed(inputs: Path) -> Any:
    """What a command leaves when nothing stops it, and how many seconds it takes."""
    known: dict[str, tuple[dict[str, bytes], float, str]] = {}

    def run(name: str) -> tuple[dict[str, bytes], float, str]:
        if name not in known:
            began = time.perf_counter()
            done = finish(start(arguments(name, "whole"), inputs))
            assert done.code == 0, done.said
            whole = inputs / f"whole-{COMMANDS[name].out}"
            content = {"": whole.read_bytes()} if whole.is_file() else tree(whole)
            known[name] = content, time.perf_counter() - began, done.printed
        return known[name]

    return run


def arguments(name: str, prefix: str) -> list[str]:
    return COMMANDS[name].arguments.format(out=f"{prefix}-{COMMANDS[name].out}").split()


def check_stopped(name: str, stopped: Stopped, inputs: Path, prefix: str, before: set[str], number: int) -> None:
    """The exit code, the line, and what is left on disk after a signal; a run that had ended by then is complete."""
    command = COMMANDS[name]
    out = inputs / f"{prefix}-{command.out}"
    # What was being written or removed at that very moment is cleared away by the next run, or by `paredown clean`.
    new = {entry.name for entry in inputs.iterdir() if not TEMPORARY.fullmatch(entry.name)} - before
    new = {name for name in new if not name.endswith(LOCK_SUFFIX)}
    may_stay = {command.parts.replace(command.out, out.name)} if command.parts else set()
    assert "Traceback" not in stopped.said
    if stopped.code in (0, -number) and stopped.printed:  # while Python, which has its own handlers by then, ended
        return
    assert stopped.code == CODES[signal.Signals(number)], stopped
    line = next(line for line in stopped.said.splitlines() if line.startswith("interrupted; "))
    assert stopped.said.endswith(line + "\n")
    again = shlex.join([Path(sys.executable).name, "-m", "paredown", *arguments(name, prefix)])
    if f"{out.name} is complete." in line:
        assert command.out != command.parts
        assert new - may_stay == {out.name} | ({out.with_suffix(".json").name} & new)
    elif "are kept in" in line:
        assert new, stopped
        assert new <= may_stay, (new, line)
        assert line.endswith(f". Resume with: {again}")
        assert any(f" are kept in {part}." in line for part in may_stay)
    else:
        assert line == f"interrupted; nothing was written. Start again with: {again}"
        assert not out.exists() or not tree(out)
        assert new <= may_stay, new


def check_again(name: str, inputs: Path, prefix: str, content: dict[str, bytes]) -> None:
    """The same command ends with the same bytes."""
    out = inputs / f"{prefix}-{COMMANDS[name].out}"
    if out.exists() and COMMANDS[name].parts != COMMANDS[name].out:
        return  # complete before it was stopped
    again = finish(start(arguments(name, prefix), inputs))
    assert again.code == 0, again.said
    found = {"": out.read_bytes()} if out.is_file() else tree(out)
    assert sorted(found) == sorted(content)
    for file in content:
        assert found[file].replace(prefix.encode(), b"whole") == content[file], file


@pytest.mark.parametrize("name", COMMANDS)
def test_signals_at_many_moments(name: str, inputs: Path, undisturbed: Any) -> None:
    content, seconds, _ = undisturbed(name)
    rng = np.random.default_rng(list(COMMANDS).index(name))
    codes = []
    for moment in range(MOMENTS):
        prefix = f"m{moment:03d}"
        number = list(CODES)[moment % len(CODES)]
        before = {entry.name for entry in inputs.iterdir()}
        process = start(arguments(name, prefix), inputs)
        wait_for_handlers(process)
        time.sleep(seconds * (moment + rng.random()) / MOMENTS)
        started = children(process.pid) if process.poll() is None else []
        process.send_signal(number)
        stopped = finish(process)
        check_stopped(name, stopped, inputs, prefix, before, number)
        assert all(ends(child) for child in started)
        codes.append(stopped.code)
        if moment % 3 == 0 and COMMANDS[name].out != "nothing":
            check_again(name, inputs, prefix, content)
    assert any(codes), "no signal came in time"


EVENTS = [
    ("import", 1),
    ("import", 40),
    ("import", 400),
    ("open", 30),
    ("open", 200),
    ("os.rename", 1),
    ("os.rename", 2),
]


@pytest.mark.parametrize("name", ["embed", "prune", "export"])
@pytest.mark.parametrize(("event", "number"), EVENTS)
def test_signals_at_events(name: str, event: str, number: int, inputs: Path, undisturbed: Any) -> None:
    content, _, _ = undisturbed(name)
    hooks = inputs / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "sitecustomize.py").write_text(AT_EVENT)
    prefix = f"e{event}{number}"
    before = {entry.name for entry in inputs.iterdir()}
    sent = signal.SIGTERM if number % 2 else signal.SIGINT
    stopped = finish(start(arguments(name, prefix), inputs, STOP_AT=f"{event},{number},{sent.name}"))
    check_stopped(name, stopped, inputs, prefix, before, sent)
    if event == "import":
        assert stopped.code == CODES[sent]
        assert "nothing was written" in stopped.said
    check_again(name, inputs, prefix, content)


def test_a_second_signal_ends_at_once(inputs: Path) -> None:
    """Even where the first one waits for a computation that does not end."""
    busy = (
        "import sys, time, signal, numpy as np\n"
        "from paredown import cli\n"
        "from paredown.cli import run\n"
        "def forever(*_, **__):\n"
        "    try:\n"
        "        sys.stdout.write('started\\n'); sys.stdout.flush()\n"
        "        while True: time.sleep(1)\n"
        "    finally:\n"
        "        sys.stdout.write('unwinding\\n'); sys.stdout.flush()\n"
        "        while True: time.sleep(1)\n"
        "run.app = forever\n"
        "cli.main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-c", busy],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "unwinding\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert (stopped.code, stopped.said) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_twice_at_once_is_one(number: int) -> None:
    """So does `timeout`, which sends it to the process and then to the group; work is unwound, and the line is said."""
    code = (
        "import sys, time\n"
        "from paredown import cli\n"
        "from paredown.cli import run\n"
        "def work(*_, **__):\n"
        "    try:\n"
        "        sys.stdout.write('started\\n'); sys.stdout.flush()\n"
        "        while True: time.sleep(0.01)\n"
        "    finally:\n"
        "        time.sleep(0.3)\n"
        "        sys.stdout.write('unwound\\n'); sys.stdout.flush()\n"
        "run.app = work\n"
        "cli.main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(number)
    process.send_signal(number)
    assert process.stdout.readline() == "unwound\n"
    stopped = finish(process)
    assert stopped.code == 128 + number
    assert stopped.said.startswith("interrupted; "), stopped.said


def test_a_second_signal_ends_a_computation_that_no_handler_reaches() -> None:
    """Python runs no handler while C code computes."""
    code = (
        "import sys, ctypes\n"
        "from paredown import cli\n"
        "from paredown.cli import run\n"
        "def computing(*_, **__):\n"
        "    sys.stdout.write('started\\n'); sys.stdout.flush()\n"
        "    libc = ctypes.CDLL(None)\n"
        "    libc.sleep(300); libc.sleep(300); libc.sleep(300)\n"
        "run.app = computing\n"
        "cli.main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    stopped = finish(process)
    assert stopped.code == 143
    assert "Traceback" not in stopped.said


def test_an_interruption_that_python_drops_comes_again() -> None:
    """An exception in a destructor is only reported; the program would go on as if nothing had been said."""
    code = (
        "import os, signal, sys, time\n"
        "from paredown import cli\n"
        "from paredown.cli import run\n"
        "class Fragile:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        for _ in range(1000): pass\n"
        "def work(*_, **__):\n"
        "    Fragile()\n"
        "    while True: time.sleep(0.01)\n"
        "run.app = work\n"
        "cli.main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 143
    assert result.stderr == "interrupted; nothing was written. Start again with: -c\n"


def test_signals_that_were_ignored_stay_ignored(inputs: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "paredown", *COMMANDS["theory"].arguments.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),  # as nohup does
    )
    wait_for_handlers(process)
    process.send_signal(signal.SIGHUP)
    assert finish(process).code == 0


def test_ctrl_c_on_a_terminal_reaches_no_worker(inputs: Path) -> None:
    """The terminal sends it to every process of the group."""
    process = start(
        ["simulate", "--alpha-prune", "3", "--draws", "4000", "--n-features", "200", "--workers", "2"], inputs
    )
    wait_for_handlers(process)
    while not (workers := children(process.pid)):
        time.sleep(0.01)
    time.sleep(0.05)  # while they import
    os.killpg(process.pid, signal.SIGINT)
    stopped = finish(process)
    assert stopped.code == 130
    assert stopped.said.startswith("interrupted; nothing was written.")
    assert stopped.said.count("\n") == 1
    assert all(ends(worker) for worker in workers)
