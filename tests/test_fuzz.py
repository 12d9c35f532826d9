"""A few damaged files of every kind are opened or refused: the small, fixed part of what `make fuzz` does at length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent.parent / "fuzz"
sys.path.insert(0, str(FUZZ))

import readers  # noqa: E402

CASES = 25
# Those that import torch, onnx or datasets take seconds to start, and are left to a worker that is there anyway.
QUICK = [name for name in readers.READERS if not name.startswith(("checkpoint", "onnx", "import-pt", "huggingface"))]


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_opened_or_refused(tmp_path, name) -> None:
    """In this process, without limits: a crash or a hang would be seen all the same."""
    cases = readers.Cases(name, 2026, tmp_path)
    assert not cases.reader.read(cases.input)  # unchanged
    outcomes = {case: cases.run(case) for case in range(CASES)}
    assert set(outcomes.values()) <= {"opened", "refused"}, outcomes
    assert "refused" in outcomes.values()
    assert not cases.reader.read(cases.input)  # what was damaged is whole again


def test_a_case_depends_on_its_number_alone(tmp_path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = (readers.Cases("npz", 3, tmp_path / name) for name in ("a", "b"))
    assert [first.damaged(case)[1] for case in range(5)] == [second.damaged(case)[1] for case in range(5)]
    assert first.damaged(0)[1] != first.damaged(1)[1]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise KeyError('x')", "KeyError"),
        ("import os; os.kill(os.getpid(), 11)", "crashes the process (exit -11)"),
        ("import time; time.sleep(600)", "hangs"),
        ("b'1' * 2**27", "used 0.1 GiB"),
        ("bytearray(2**45)", "MemoryError"),
    ],
)
def test_the_fuzzer_notices(tmp_path, code, said) -> None:
    """A reader that misbehaves in each of the ways is reported, and its input kept."""
    (tmp_path / "faulty.py").write_text(
        f"""
import sys
sys.path.insert(0, {str(FUZZ)!r})
import inputs, readers
def make(folder):
    (folder / "x.txt").write_text("whole")
    return folder / "x.txt"
def read(path):
    if path.read_bytes() != b"whole":
        {code}
readers.READERS["faulty"] = inputs.Reader(make, read)
readers.__file__, readers.MEMORY = __file__, 2**26
if __name__ == "__main__":
    sys.exit(readers.main())
"""
    )
    command = [sys.executable, tmp_path / "faulty.py", "--reader", "faulty", "--cases", "1", "--time-limit", "8"]
    done = subprocess.run([*command, "--keep", tmp_path / "kept"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert said in done.stdout
    (kept,) = (tmp_path / "kept").iterdir()
    assert said in (kept / "failure.txt").read_text()
    assert (kept / "x.txt").read_bytes() != b"whole"
