"""Shares of work that is done by several runs side by side, which need nothing but a file system that they share."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from paredown.errors import PareError, argument

T = TypeVar("T")


class Share(NamedTuple):
    """Some of the `shares` of the parts of a work, which are numbered from 1 on."""

    numbers: range
    shares: int

    @classmethod
    def parse(cls, text: str, *, overwrite: bool = False) -> Share:
        """`i/n`, or `/n` in a job array of Slurm, whose tasks do the n shares in turn; none may `overwrite`."""
        if overwrite:
            raise PareError(
                f"{argument('overwrite', True)} would remove what other shares have written; remove the folder by hand."
            )
        number, _, count = text.partition("/")
        if not re.fullmatch(r"[0-9]*/[0-9]+", text):
            raise PareError(f"{argument('shard')} is I/N, such as 3/64, or /N in a Slurm job array; got {text!r}.")
        n = int(count)
        if not number:
            task, tasks = _slurm_task()
            return cls(range(task, n + 1, tasks), n)
        if not 1 <= int(number) <= n:
            raise PareError(f"{argument('shard')} goes from 1/{n} to {n}/{n}, got {text!r}.")
        return cls(range(int(number), int(number) + 1), n)

    def of(self, parts: Sequence[T]) -> list[T]:
        """The parts in these shares, in order: of each, every `shares`-th."""
        mine = sorted(place for number in self.numbers for place in range(number - 1, len(parts), self.shares))
        return [parts[place] for place in mine]


def _slurm_task() -> tuple[int, int]:
    """Which task of its array this is, from 1 on, wherever the array begins, and how many there are."""
    names = [f"SLURM_ARRAY_TASK_{name}" for name in ("ID", "MIN", "COUNT")]
    for name in names:
        value = os.environ.get(name)
        if value is None or not re.fullmatch(r"[0-9]+", value):
            found = "it is not set" if value is None else f"it is {value!r}"
            raise PareError(
                f"{argument('shard')} without a number takes it from the Slurm job array, but {name} must be a whole "
                f"number, and {found}; submit the job with `sbatch --array`, or give the number, such as 3/64."
            )
    task, first, tasks = (int(os.environ[name]) for name in names)
    if not 0 <= task - first < tasks:  # some shares would be done twice, and others never
        raise PareError(
            f"{argument('shard')}: task {task} is not one of the {tasks} that follow {first} without a gap "
            f"({', '.join(names)}); number the tasks of the array without gaps, such as 1-{max(1, tasks)}."
        )
    return task - first + 1, tasks
