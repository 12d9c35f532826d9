"""What an engine is, and sums in an order that does not depend on who made them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeVar

from paredown.workers import Outcome

T = TypeVar("T")

_GROUPS_PER_WORKER = 4  # of full size, at most, in which the jobs of a fold are given out: few messages
_SMALL_SHARE = 4  # part of the jobs that are given out last, in groups smaller by as much


class Engine(Protocol):
    """Runs jobs: `function(common, job)` for each, `function` being named as `package.module:name`."""

    name: str
    workers: int  # jobs at once, at most

    def run_jobs(
        self, function: str, jobs: Sequence[Any], *, workers: int | None = None, common: Any = None, memory: int = 0
    ) -> Generator[Outcome]:
        """Outcomes as they come, the reason in place of a value where a job failed.

        Args:
            function: by its name.
            jobs: one argument for each call; a job that is a dictionary may say what it is by a `name`.
            workers: jobs at once at most, if fewer than the engine has.
            common: an argument for every call, sent once.
            memory: bytes that a job needs.
        """
        ...

    def fold_groups(self, groups: Sequence[Sequence[Any]], common: dict[str, Any], memory: int) -> Any:
        """The values of all jobs, combined as `combined` does; each group is a whole branch of that tree."""
        ...

    def check_places(self, read: Sequence[str], write: str | None) -> None:
        """Raise unless every worker sees what is read, and what others write into a folder, and can write there."""
        ...


def find_function(name: str) -> Callable[..., Any]:
    """The function that `package.module:name` names."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def fold(
    engine: Engine, function: str, combine: str, jobs: Sequence[Any], *, common: Any = None, memory: int = 0
) -> Any:
    """The values of all jobs, combined two by two in a tree whose shape depends on their number only.

    So sums in floating point are the same on any engine and any number of workers. The jobs are given out in groups
    that are whole branches of the tree; `combine(left, right)` may change and return `left`.
    """
    groups = groups_of(jobs, engine.workers)
    return engine.fold_groups(groups, {"function": function, "combine": combine, "common": common}, memory)


def groups_of(jobs: Sequence[T], workers: int) -> list[Sequence[T]]:
    """Jobs in the groups in which they are given out, each a whole branch of the tree.

    The last quarter goes out in smaller groups, so that no worker waits long for the others at the end.
    """
    starts = _group_starts(len(jobs), workers)
    return [jobs[first:end] for first, end in zip(starts, [*starts[1:], len(jobs)], strict=True)]


def _group_starts(jobs: int, workers: int) -> list[int]:
    size = group_size(jobs, workers)
    large = jobs - jobs // _SMALL_SHARE
    large -= large % size
    return [*range(0, large, size), *range(large, jobs, max(1, size // _SMALL_SHARE))]


def group_size(jobs: int, workers: int) -> int:
    """The most jobs of a group."""
    size = 1
    while size * _GROUPS_PER_WORKER * workers < jobs:
        size *= 2
    return size


def fold_messages(jobs: int, workers: int) -> int:
    """Tasks that a fold of so many jobs gives out, and their answers: of each group, and of each pair of groups."""
    return 2 * (2 * group_count(jobs, workers) - 1)


def group_count(jobs: int, workers: int) -> int:
    """In how many groups so many jobs are given out."""
    return len(_group_starts(jobs, workers))


def most_values(jobs: int, workers: int) -> int:
    """How many values a task of a fold has before it, at most.

    Of a group, one for each level of its branch of the tree, and a new one; of a pair, both and their sum.
    """
    size = group_size(jobs, workers)
    return max(min(jobs, size).bit_length(), 3 if jobs > size else 1)


def fold_group(common: dict[str, Any], jobs: Iterable[Any]) -> Any:
    """The values of a few jobs, combined."""
    function = find_function(common["function"])

    def value(job: Any) -> Any:
        try:
            return function(common["common"], job)
        except Exception as error:
            error.add_note(f"in {job_name(job)}")
            raise

    return combined(find_function(common["combine"]), map(value, jobs))


def job_name(job: Any) -> str:
    """What a job is called in messages."""
    name = job.get("name") if isinstance(job, dict) else getattr(job, "name", None)
    return name or "a job"


def combined(combine: Callable[[Any, Any], Any], values: Iterable[Any]) -> Any:
    """Values combined two by two, neighbours first, then pairs of them, and so on; None if there are none.

    No more of them are held than the tree is high.
    """
    branches: list[tuple[int, Any]] = []  # height and value, the higher ones first
    for value in values:
        height = 0
        while branches and branches[-1][0] == height:
            value, height = combine(branches.pop()[1], value), height + 1
        branches.append((height, value))
    while len(branches) > 1:
        right = branches.pop()[1]
        height, left = branches.pop()
        branches.append((height, combine(left, right)))
    return branches[0][1] if branches else None
