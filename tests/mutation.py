"""Mutation testing of the modules that decide what a user is told or keeps: `make mutants`.

    python tests/mutation.py [GROUP ...] [--jobs N] [--sample N]

For every group mutmut changes its modules in one place at a time and runs the tests of that group that reach the place;
a change that no test notices survives. Prints a table, then the survivors that `tests/mutants.md` does not explain, and
ends with 1 if fewer than 90 % of a group's mutants were killed. Work is done on copies in `build/mutants`, where a
stopped run goes on unless code or tests have changed since.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "mutants"
EXPLAINED = ROOT / "tests" / "mutants.md"
ENOUGH = 0.9  # of the mutants of a group must be killed

# What a mutant's exit code means to mutmut; everything else is a failure of some test.
_OUTCOMES = {
    0: "survived",
    5: "survived",
    33: "survived",
    34: "skipped",
    None: "unchecked",
    -24: "timeout",
    36: "timeout",
}


class Group(NamedTuple):
    """Modules that are mutated together, and the tests that are to notice."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


GROUPS = {
    "selection": Group(
        ("selection/[!mr]*.py", "score_warnings.py"),  # but for manifest_shards and rows_on_disk, see below
        (
            "selection/test_selection.py",
            "selection/test_selection_values.py",
            "test_score_warnings.py",
            "--deselect=tests/test_score_warnings.py::test_streams_say_the_same",
        ),
    ),
    "streamed": Group(
        (
            "selection/streamed/*.py",
            "selection/manifest_shards.py",
            "selection/rows_on_disk.py",
            "score_table.py",
            "class_codes.py",
            "table_passes.py",
        ),
        (
            "selection/test_streamed.py",
            "engines/test_manifest_shards.py",
            "describing/test_table_summary.py",
            "test_score_blocks.py",
            "test_score_files.py",
            "test_score_table.py",
            "test_score_warnings.py",
            "test_values.py",
        ),
    ),
    "summary": Group(("sweeps/summary.py", "sweeps/pruning_verdicts.py"), ("sweeps/test_summary.py",)),
    "values": Group(("columns.py", "ids.py", "scores.py"), ("test_values.py", "test_ids.py")),
    "laws": Group(("laws/*.py",), ("laws/test_laws.py", "laws/test_exact_laws.py", "laws/test_frontier.py")),
    "files": Group(
        ("files/*.py", "records.py"),
        ("files/test_files.py", "files/test_exact_files.py", "test_records.py", "test_score_files.py"),
    ),
    "recorder": Group(
        ("recorder/observations.py", "recorder/recorded.py", "recorder/history.py"), ("recorder/test_recorder.py",)
    ),
}

SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = {modules}
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["-n0", "-p", "no:cacheprovider"]
also_copy = ["tests"]
timeout_multiplier = 4.0
timeout_constant = 10.0
use_setproctitle = false
use_git_change_detection = false
"""


def prepare(name: str) -> Path:
    """A copy of the project that mutates the modules of one group."""
    group, folder = GROUPS[name], WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    if code_in(folder) != code_in(ROOT):  # mutmut would go on with what it found with other tests
        shutil.rmtree(folder / "mutants", ignore_errors=True)
    for part in ("src", "tests"):
        shutil.rmtree(folder / part, ignore_errors=True)
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    package = ROOT / "src" / "paredown"  # for mutmut a * would reach into subpackages
    modules = [path.relative_to(ROOT).as_posix() for module in group.modules for path in sorted(package.glob(module))]
    settings = SETTINGS.format(
        modules=json.dumps(modules),
        tests=json.dumps([test if test.startswith("-") else f"tests/{test}" for test in group.tests]),
    )
    (folder / "mutants" / "src").mkdir(parents=True, exist_ok=True)  # Python forgets a folder that was not there
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8") + settings)
    return folder


def code_in(folder: Path) -> dict[Path, bytes]:
    """All modules and tests."""
    files = (file for part in ("src", "tests") for file in (folder / part).rglob("*.py"))
    return {file.relative_to(folder): file.read_bytes() for file in files}


def run(name: str, jobs: int, sample: int | None, seed: int) -> dict[str, str]:
    """The outcome of every mutant of a group, or of a random sample of them."""
    folder = prepare(name)
    if sample is None:
        mutmut(folder, jobs)
        return outcomes(folder)
    mutmut(folder, jobs, "no.mutant.is.called.so")  # makes them all and finds which tests reach them
    made = sorted(outcomes(folder))
    chosen = random.Random(seed).sample(made, min(sample, len(made)))
    print(f"{name}: {len(chosen)} of {len(made)} mutants, drawn at random with seed {seed}")
    mutmut(folder, jobs, *chosen)
    found = outcomes(folder)
    return {mutant: found[mutant] for mutant in chosen}


def mutmut(folder: Path, jobs: int, *mutants: str) -> None:
    """Run all mutants, or those named."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(jobs), *mutants]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HYPOTHESIS_PROFILE": "mutants"}
    environment["PYTHONPATH"] = str(folder / "mutants" / "src")
    subprocess.run(command, cwd=folder, env=environment, check=False)


def outcomes(folder: Path) -> dict[str, str]:
    """What became of the mutants so far."""
    found: dict[str, str] = {}
    for file in sorted((folder / "mutants" / "src").rglob("*.py.meta")):
        codes = json.loads(file.read_text(encoding="utf-8"))["exit_code_by_key"]
        found |= {mutant: _OUTCOMES.get(code, "killed") for mutant, code in codes.items()}
    return found


def explained(text: str) -> set[str]:
    """The mutants that a text names in backquotes; `_5` after another of the same function is its mutant 5."""
    names: set[str] = set()
    function = ""
    for name, number in re.findall(r"`(\w+?)?(_\d+)`", text):
        function = name or function
        names.add(function + number)
    return names


def main() -> None:
    """Run the groups asked for, or all, and print what became of their mutants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all unless given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sample", type=int, help="of each group so many mutants at random, rather than all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    options = parser.parse_args()
    known = explained(EXPLAINED.read_text(encoding="utf-8"))
    found = {name: run(name, options.jobs, options.sample, options.seed) for name in options.groups or GROUPS}
    kinds = ("killed", "timeout", "survived", "skipped", "unchecked")
    print(f"{'group':12}{'mutants':>9}" + "".join(f"{kind:>10}" for kind in kinds) + f"{'killed %':>10}")
    weak = False
    for name, of_group in found.items():
        counts = Counter(of_group.values())
        share = (counts["killed"] + counts["timeout"]) / max(1, len(of_group))
        weak |= share < ENOUGH
        columns = "".join(f"{counts[kind]:10}" for kind in kinds)
        print(f"{name:12}{len(of_group):9}{columns}{100 * share:10.1f}")
    for name, of_group in found.items():
        for mutant, outcome in of_group.items():
            if outcome not in ("killed", "timeout") and mutant.rpartition(".")[2] not in known:
                print(f"{name}: {mutant} {outcome}")
    sys.exit(1 if weak else 0)


if __name__ == "__main__":
    main()
