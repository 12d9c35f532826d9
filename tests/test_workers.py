"""Jobs in worker processes: answers, failures, deaths and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paredown.errors import PareError
from paredown.training.devices import available_workers, default_device
from paredown.workers import Crew, _time_limits, available_cores, run_jobs, worker_number


def add(common: float, job: Any) -> Any:
    """What the workers of these tests are asked to do."""
    print("noise on standard output is not an answer")
    if job == "refuse":
        raise PareError("not this one")
    if job == "fail":
        raise ZeroDivisionError("by zero")
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "pid":
        return os.getpid()
    if job == "number":
        return worker_number()
    if job == "threads":
        return os.environ["OMP_NUM_THREADS"]
    if job == "sleep":
        time.sleep(600)
    return common + job


def outcomes(jobs: list[Any], workers: int = 2, **options: Any) -> dict[int, tuple[Any, str | None]]:
    found = list(run_jobs("test_workers:add", jobs, workers=workers, common=0.1, **options))
    assert len(found) == len({outcome.job for outcome in found}) == len(jobs)
    return {outcome.job: (outcome.value, outcome.error) for outcome in found}


def test_every_job_has_its_answer_to_the_last_bit() -> None:
    jobs = [1 / 3, 2 / 7, 1e-300, 5]
    assert outcomes(jobs) == {index: (0.1 + job, None) for index, job in enumerate(jobs)}
    assert outcomes([]) == {}


def test_failures_and_deaths_are_outcomes_and_the_rest_goes_on() -> None:
    found = outcomes(["die", 1, "refuse", "fail", "die", 2], workers=1)
    assert found[0] == found[4] == (None, "its process was killed by signal 9 (out of memory?)")
    assert found[2] == (None, "not this one")
    assert found[3] == (None, "ZeroDivisionError: by zero")
    assert (found[1], found[5]) == ((1.1, None), (2.1, None))


def test_tracebacks_of_jobs_are_printed_only_when_asked_for(monkeypatch, capfd) -> None:
    monkeypatch.delenv("PAREDOWN_DEBUG", raising=False)
    assert outcomes(["fail"])[0] == (None, "ZeroDivisionError: by zero")
    assert "Traceback" not in capfd.readouterr().err
    monkeypatch.setenv("PAREDOWN_DEBUG", "1")
    assert outcomes(["fail"])[0] == (None, "ZeroDivisionError: by zero")
    assert "Traceback" in capfd.readouterr().err


def test_processes_are_kept_and_have_one_thread_each() -> None:
    found = outcomes(["pid", "pid", "pid", "threads"], workers=1)
    assert len({found[index] for index in range(3)}) == 1
    assert found[3] == ("1", None)


def test_workers_have_numbers_and_a_new_one_takes_that_of_the_dead() -> None:
    assert worker_number() is None
    found = outcomes(["number", "die", "number", "die", "number"], workers=1)
    assert [found[index] for index in (0, 2, 4)] == [(0, None)] * 3
    assert {value for value, _ in outcomes(["number", "number"], workers=2).values()} == {0, 1}


def test_workers_take_the_graphics_cards_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr("paredown.training.devices.version", lambda name: "2.9.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert available_workers() == available_cores()
    assert default_device() == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert available_workers() == 3
    assert default_device() == "cuda"
    devices = []
    for number in range(4):
        monkeypatch.setenv("PAREDOWN_WORKER", str(number))
        devices.append(default_device())
    assert devices == ["cuda:0", "cuda:1", "cuda:2", "cuda:0"]
    monkeypatch.setattr("paredown.training.devices.version", lambda name: "2.9.0+cpu")
    assert available_workers() == available_cores()  # a build without CUDA is not asked


@pytest.mark.parametrize(
    ("membership", "files", "limits"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, []),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, [2]),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "max 100000\n"}, [3]),
        ("0::/a\n", {"b/cpu.max": "100000 100000\n"}, []),
        ("5:memory:/\n4:cpu,cpuacct:/x\n0::/\n", {"cpu,cpuacct/x/cpu.cfs_quota_us": "50000\n"}, [1]),
        ("4:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1\n"}, []),
        ("4:cpu:/x\n", {"cpu/cpu.cfs_quota_us": "400000\n"}, [4]),
        ("", {}, []),
    ],
)
def test_a_container_may_have_less_time_than_cores(
    membership: str, files: dict[str, str], limits: list[int], tmp_path: Path
) -> None:
    (tmp_path / "cgroup").write_text(membership)
    for name, text in files.items():
        place = tmp_path / "mounted" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        (place.parent / "cpu.cfs_period_us").write_text("100000\n")
    assert list(_time_limits(tmp_path / "cgroup", tmp_path / "mounted")) == limits
    assert list(_time_limits(tmp_path / "none", tmp_path / "mounted")) == []


def test_cores_are_those_the_process_may_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paredown.workers._time_limits", lambda *_: [])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6}, raising=False)
    assert available_cores() == 3
    monkeypatch.setattr("paredown.workers._time_limits", lambda *_: [7, 2])
    assert available_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr("paredown.workers._time_limits", lambda *_: [])
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1


def test_a_crew_stays_for_further_jobs() -> None:
    with Crew() as crew:
        run = lambda jobs, **given: {
            outcome.job: outcome.value if outcome.error is None else outcome.error
            for outcome in crew.run_jobs("test_workers:add", jobs, **given)
        }
        first = set(run(["pid", "pid"], workers=2, common=0).values())
        assert set(run(["pid", "pid", "pid"], workers=2, common=0).values()) <= first
        assert run([1, 2], workers=2, common=10) == {0: 11, 1: 12}
        assert "killed" in run(["die"], workers=1)[0]
        assert set(run(["number"] * 2, workers=2).values()) == {0, 1}
        with closing(crew.run_jobs("test_workers:add", ["pid", "sleep"], workers=2)) as found:
            assert next(found).value in first  # and the one that sleeps is given up
        assert run([3], workers=1, common=4) == {0: 7}
        (last,) = run(["pid"], workers=1).values()
    assert not alive(last)


def test_workers_end_with_the_iterator() -> None:
    with closing(run_jobs("test_workers:add", ["pid", "sleep"], workers=2, common=0)) as found:
        first = next(found)
    assert not alive(first.value)


SCRIPT = (  # without `if __name__ == "__main__"`
    "import os\n"
    "from paredown.workers import run_jobs\n"
    "print('script', os.getpid(), flush=True)\n"
    "for outcome in run_jobs('test_workers:add', ['pid', 'sleep'], workers=1):\n"
    "    print(outcome.value, flush=True)\n"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_of_a_plain_script_end_with_it(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "script.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # which a shell ignores for what runs after `&`
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == f"script {parent.pid}\n"
    worker = int(parent.stdout.readline())  # and not the script's first line again
    os.killpg(parent.pid, number)  # as a terminal does
    rest, errors = parent.communicate()
    assert parent.returncode == -number
    assert rest == ""
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    for _ in range(100):
        if not alive(worker):
            return
        time.sleep(0.1)
    raise AssertionError("the worker outlived its parent")


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
