"""Kill every command that writes before each of its file-system events, and see that nothing is lost.

    python fuzz/kills.py --seconds 60 --seed 0 [--only COMMAND ...] [--way WAY]
    python fuzz/kills.py --only COMMAND [--way WAY] --at N [--then M]     # one case again, with what was printed

An event is a write that Python's audit hooks tell of: a file opened for writing, a rename, a folder made, something
removed, linked or locked, below the command's folder. After every kill, outputs that appear in one step are the old
ones or the new ones, whole, and nothing of anyone else's has changed; the same command again ends with exit 0, the
same bytes as if nothing had happened, and no leftovers. The ways to go wrong:

    kill       killed before event N
    two-steps  the same, where the file system cannot exchange two folders in one step
    beside     stopped before event N while another run of the same command runs from start to end; then it goes on
    orphan     the same, but it is killed instead
    both       two runs are stopped, before events N and M; the first is killed, and the second goes on

Every run is a fork of this process, which has imported what takes time. A case depends on the command, the way and its
numbers alone; the seed decides the order, and so which are tried when there is not time for all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_threads] = "1"  # a process with threads cannot be forked
sys.path.insert(0, str(Path(__file__).parent))

from commands import COMMANDS  # noqa: E402

WAYS = ("kill", "two-steps", "beside", "orphan", "both")
TIME_LIMIT = 60  # seconds for one run
_BUSY = "is being written by another run"

Tree = dict[str, bytes | None]  # by path: the content of a file, where a link leads to, None of a folder


# --- in the run ------------------------------------------------------------------------------------------------------

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
_CHANGES |= {"os.utime", "fcntl.flock"}


def _place(path: Any, folder: Any = None) -> str:
    """The absolute path of what an event is about: a path, perhaps relative to an open folder, or an open file."""
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    start = os.readlink(f"/proc/self/fd/{folder}") if isinstance(folder, int) and folder >= 0 else os.getcwd()
    return os.path.join(start, os.fsdecode(path))


def _subject(event: str, given: list[Any]) -> str:
    if event == "os.symlink":
        return _place(given[1])
    if event in ("fcntl.flock", "os.truncate"):
        return _place(given[0])
    # os.rename and os.link have two paths before their folders; the others end with the folder of their one path.
    return _place(given[0], given[2] if event in ("os.rename", "os.link") else given[-1])


def watch(root: str, act: Callable[[int, str], object]) -> None:
    """Call `act` with the number and description of every event below `root`, before it happens."""
    count = 0

    def hook(event: str, given: tuple[Any, ...]) -> None:
        nonlocal count
        if event == "open":
            path, _, flags = given
            if isinstance(path, int) or not flags & _WRITES:
                return
            where = _place(path)
        elif event == "ctypes.dlsym" and given[1] == "renameat2":  # called next, which no event tells
            where = root
        elif event in _CHANGES:
            where = _subject(event, list(given))
        else:
            return
        if os.path.realpath(where).startswith(root):
            count += 1
            act(count, f"{event} {os.path.relpath(where, root)}")

    sys.addaudithook(hook)


class Run:
    """A run of a command in a fork of this process, in a folder.

    Attributes:
        printed: all that it printed; this and the others once it has ended.
        events: that it came to.
        modules: that it had imported, if it ended by itself.
    """

    printed = ""
    events: Sequence[str] = ()
    modules: Sequence[str] = ()

    def __init__(
        self,
        function: Callable[[], int],
        folder: Path,
        *,
        at: int | None = None,
        end: int = signal.SIGKILL,
        two_steps: bool = False,
    ) -> None:
        """Start it; before event number `at` it gets the signal `end`."""
        self._log, self._events, self._modules = (tempfile.TemporaryFile() for _ in range(3))  # noqa: SIM115
        sys.stdout.flush()
        self.process = os.fork()
        if self.process == 0:
            code = 1
            try:
                code = self._work(function, folder, at, end, two_steps)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    def _work(self, function: Callable[[], int], folder: Path, at: int | None, end: int, two_steps: bool) -> int:
        signal.alarm(TIME_LIMIT)
        os.dup2(self._log.fileno(), 1)
        os.dup2(self._log.fileno(), 2)
        os.chdir(folder)
        if two_steps:
            import paredown.files.atomic

            paredown.files.atomic._rename = lambda part, path, flag: False
        told = self._events.fileno()

        def act(number: int, event: str) -> None:
            os.write(told, f"{event}\n".encode())
            if number == at:
                os.kill(os.getpid(), end)

        watch(os.path.realpath(folder), act)
        code = function()
        os.write(self._modules.fileno(), "\n".join(sorted(sys.modules)).encode())
        return code

    def wait(self) -> str:
        """Until it ends or is stopped: `exit N`, `stopped`, `killed` or `hangs`."""
        _, status = os.waitpid(self.process, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return "stopped"
        self.printed, events, modules = map(_read_and_close, (self._log, self._events, self._modules))
        self.events, self.modules = events.splitlines(), modules.split()
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            names = {signal.SIGKILL: "killed", signal.SIGALRM: "hangs"}
            return names.get(signal.Signals(number), f"dies of signal {number}")
        return f"exit {os.WEXITSTATUS(status)}"

    def send(self, number: int) -> None:
        """Send a signal to a run that has not ended."""
        os.kill(self.process, number)


def _read_and_close(file: Any) -> str:
    with file:
        file.seek(0)
        return file.read().decode(errors="replace")


# --- what is on disk -------------------------------------------------------------------------------------------------


def tree(folder: Path) -> Tree:
    """All that is in a folder, without what differs from run to run: how long something took."""
    found: Tree = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if file.is_symlink():
            found[name] = b"-> " + os.fsencode(os.readlink(file))
        elif file.is_dir():
            found[name] = None
        else:
            found[name] = _timeless(file)
    return found


def _timeless(file: Path) -> bytes:
    content = file.read_bytes()
    if file.name == "timings.parquet":
        return b""
    if b'"seconds"' in content and file.suffix == ".json":
        record = json.loads(content)
        timed = ("seconds", "cpu_seconds", "record_sha256")
        return json.dumps({key: value for key, value in record.items() if key not in timed}).encode()
    if file.name == "digests.json":
        record = json.loads(content)["sha256"]
        return json.dumps({key: value for key, value in record.items() if key != "timings.parquet"}).encode()
    if file.name == "results.md":
        return content.partition(b" CPU seconds")[0].rpartition(b";")[0]
    return content


def part(of: Tree, name: str) -> Tree:
    """What is at a path."""
    return {path: content for path, content in of.items() if path == name or path.startswith(f"{name}/")}


def differences(expected: Tree, found: Tree) -> str:
    """What differs, in a few words."""
    words = [f"{name} is missing" for name in expected.keys() - found.keys()]
    words += [f"{name} is left" for name in found.keys() - expected.keys()]
    words += [f"{name} has other bytes" for name in expected.keys() & found.keys() if expected[name] != found[name]]
    return ", ".join(sorted(words)[:4])


FOREIGN = {
    "notes.txt": b"mine",
    ".git/config": b"[core]",
    ".dvc/tmp/lock": b"",
    ".another.0123abcd.paredown-tmp/another": b"of a run that may be alive",
    ".another.paredown-lock": b"{}",
    "unrelated.paredown-tmp": b"not a name of paredown's",
}
BESIDE = ("{}.bak", ".{}.tmp", "{}.paredown", ".{}.0123abcd.tmp")  # names that look like those of an output's own


class Failure(Exception):
    """A case that went wrong."""


class Case(NamedTuple):
    way: str
    at: int
    then: int = 0

    def __str__(self) -> str:
        return f"--way {self.way} --at {self.at}" + (f" --then {self.then}" if self.then else "")


class Trial:
    """A command, its start and its undisturbed end, in a folder that every case starts from again."""

    def __init__(self, name: str, folder: Path, *, verbose: bool = False) -> None:
        self.name, self.command, self.verbose = name, COMMANDS[name], verbose
        self.folder, self._start = folder / "work", folder / "start"
        self.folder.mkdir(parents=True)
        self._import(Run(self._prepare, self.folder))
        self._add_foreign()
        shutil.copytree(self.folder, self._start, symlinks=True)
        self.start = tree(self._start)
        undisturbed = Run(self.command.run, self.folder)
        self._import(undisturbed)
        self.end, self.events = tree(self.folder), undisturbed.events
        assert self.events, f"{name} writes nothing"
        self._check_foreign()
        again = self._undisturbed()
        assert self.end == again, f"{name} is not repeatable: {differences(self.end, again)}"

    def _prepare(self) -> int:
        self.command.prepare()
        return 0

    def _import(self, run: Run) -> None:
        """Import here what a run has imported, so that later runs need not: that takes longer than all they do."""
        self._expect(run, "exit 0")
        for name in run.modules:
            if name not in sys.modules:
                with suppress(Exception):
                    import_module(name)

    def _add_foreign(self) -> None:
        foreign = dict(FOREIGN)
        for output in self.command.whole:
            foreign |= {str(Path(output).with_name(name.format(Path(output).name))): b"mine" for name in BESIDE}
        for name, content in foreign.items():
            if self.folder.joinpath(name).parent.exists() or name in FOREIGN:
                self.folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
                self.folder.joinpath(name).write_bytes(content)

    def _undisturbed(self) -> Tree:
        self._reset()
        self._expect(Run(self.command.run, self.folder), "exit 0")
        return tree(self.folder)

    def _reset(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self._start, self.folder, symlinks=True)

    def _expect(self, run: Run, *endings: str) -> str:
        ending = run.wait()
        if self.verbose:
            print(f"[{ending}]\n{run.printed}", flush=True)
        if ending not in endings:
            raise Failure(f"{ending} in place of {' or '.join(endings)}: {_last_line(run.printed)}")
        return ending

    def cases(self, rng: random.Random, way: str | None = None) -> Iterator[Case]:
        """Kills before every event, in any order, then the other ways, in any order; or those of one way."""
        numbers = range(1, len(self.events) + 1)
        kills = [Case("kill", number) for number in numbers]
        others = [Case(way, number) for way in ("two-steps", "beside", "orphan") for number in numbers]
        others += [Case("both", number, rng.choice(numbers)) for number in numbers]
        rng.shuffle(kills)
        rng.shuffle(others)
        return (case for case in kills + others if way in (None, case.way))

    def run(self, case: Case) -> None:
        """Try one case; raises `Failure` if anything is lost, wrong or left."""
        self._reset()
        two_steps = case.way == "two-steps"
        end = signal.SIGKILL if case.way in ("kill", "two-steps") else signal.SIGSTOP
        first = Run(self.command.run, self.folder, at=case.at, end=end, two_steps=two_steps)
        if end == signal.SIGKILL:
            self._expect(first, "killed", "exit 0")
        else:
            self._two_at_once(case, first)
        if case.way != "beside":
            self._check_killed(two_steps=two_steps)
            self._expect(Run(self._check_and_run, self.folder, two_steps=two_steps), "exit 0")
        after = tree(self.folder)
        if after != self.end:
            raise Failure(f"afterwards {differences(self.end, after)}")

    def _two_at_once(self, case: Case, first: Run) -> None:
        ending = self._expect(first, "stopped", "exit 0")
        try:
            at = case.then or None
            second = Run(self.command.run, self.folder, at=at, end=signal.SIGSTOP)
            other = self._expect_turn(second, *(("stopped",) if at else ()))
            if ending == "stopped" and case.way != "beside":
                first.send(signal.SIGKILL)
                self._expect(first, "killed")
                ending = "killed"
            if other == "stopped":
                second.send(signal.SIGCONT)
                other = self._expect_turn(second)
        finally:
            if ending == "stopped":
                first.send(signal.SIGCONT)
                ending = first.wait()
        if case.way == "beside" and ending != "exit 0":
            raise Failure(f"the stopped run: {ending} after the other's {other}: {_last_line(first.printed)}")

    def _expect_turn(self, run: Run, *more: str) -> str:
        """A second run ends well, or is told whose turn it is."""
        ending = self._expect(run, "exit 0", "exit 2", *more)
        if ending == "exit 2" and _BUSY not in " ".join(run.printed.split()):
            raise Failure(f"a second run is not told whose the output is: {_last_line(run.printed)}")
        return ending

    def _check_and_run(self) -> int:
        from paredown.files import is_own

        self.command.check()
        for output in self.command.whole if self.command.marked else ():
            assert not os.path.exists(output) or is_own(Path(output)), f"{output} has no mark"
        return self.command.run()

    def _check_killed(self, *, two_steps: bool) -> None:
        """What a killed run left: every output old or new, whole; what is beside it of the same age, or missing."""
        self._check_foreign()
        found = tree(self.folder)
        for output, copies in self.command.whole.items():
            ages = [age for age in (self.start, self.end) if part(found, output) == part(age, output)]
            between = two_steps and not part(found, output)  # moved aside; the next run goes on from there
            if not ages and not between:
                raise Failure(f"{output} is neither the old nor the new one: {differences(self.end, found)}")
            for copy in copies:
                if copy in found and not any(found[copy] == age.get(copy) for age in ages):
                    raise Failure(f"{copy} does not belong to {output}")

    def _check_foreign(self) -> None:
        """Everything is still there that the undisturbed command neither changed nor removed."""
        found = tree(self.folder)
        kept = {name: content for name, content in self.start.items() if name in self.end and self.end[name] == content}
        lost = {name for name, content in kept.items() if found.get(name, "") != content}
        lost = {name for name in lost if not any(part({name: b""}, output) for output in self.command.whole)}
        if lost:
            raise Failure(f"lost or changed: {', '.join(sorted(lost)[:4])}")


def _last_line(text: str) -> str:
    return " ".join(text.split())[-300:]


# --- all of them -----------------------------------------------------------------------------------------------------


def fuzz(name: str, *, seconds: float, seed: int, cases: int | None = None, way: str | None = None) -> dict[str, Any]:
    """Try the cases of one command: how many of each way, and what failed; `cases` is a number in place of seconds."""
    counts: Counter[str] = Counter()
    failed: dict[Case, str] = {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        trial = Trial(name, Path(temporary))
        end = time.monotonic() + seconds
        for number, case in enumerate(trial.cases(random.Random(f"{name}/{seed}"), way)):
            if (time.monotonic() > end) if cases is None else (number >= cases):
                break
            counts[case.way] += 1
            try:
                trial.run(case)
            except Failure as failure:
                failed[case] = f"{failure} [before {trial.events[case.at - 1]}]"
    return {"events": len(trial.events), **{way: counts[way] for way in WAYS}, "failed": failed}


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill the commands asked for, print a table, and return 1 if any case failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60, help="for each command")
    parser.add_argument("--cases", type=int, help="for each command, in place of --seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=list(COMMANDS), help="may be repeated; all if not given")
    parser.add_argument("--way", choices=WAYS, help="only this one; with --at, that of the case, or kill")
    parser.add_argument("--at", type=int, help="run this one case of the command, and show what is printed")
    parser.add_argument("--then", type=int, default=0, help="where the second run is stopped, for --way both")
    given = parser.parse_args(arguments)
    if given.at is not None:
        return replay(given.only[0], Case(given.way or "kill", given.at, given.then))
    columns = ("events", *WAYS, "failed")
    print(f"{'command':30} " + " ".join(f"{column:>9}" for column in columns), flush=True)
    total = Counter[str]()
    for name in given.only or COMMANDS:
        found = fuzz(name, seconds=given.seconds, seed=given.seed, cases=given.cases, way=given.way)
        failed = found["failed"]
        row = found | {"failed": len(failed)}
        total.update(row)
        print(f"{name:30} " + " ".join(f"{row[column]:9,}" for column in columns), flush=True)
        for case, said in list(failed.items())[:10]:
            print(f"    {said} (--only {name} {case})", flush=True)
    print(f"{'all':30} " + " ".join(f"{total[column]:9,}" for column in columns))
    return 1 if total["failed"] else 0


def replay(name: str, case: Case) -> int:
    """Run one case, showing what its runs print."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        trial = Trial(name, Path(temporary), verbose=True)
        print(f"{name}, {case}: before {trial.events[case.at - 1]}", flush=True)
        try:
            trial.run(case)
        except Failure as failure:
            print(f"failed: {failure}")
            return 1
    print("right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
