"""Tasks of Ray that are given out, tried again where a worker or a node is lost, and told about where they fail.

Ray itself repeats a task that ran out of memory without end, unless whoever starts the cluster says otherwise; a guest
cannot. So the tasks are such as Ray tries once, and the tries are counted here.
"""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from paredown.engines.base import job_name
from paredown.errors import PareError, argument
from paredown.version import __version__

TRIES = 5  # again, of a task whose worker or node dies
OOM_TRIES = 2  # again, of a task that the machine's memory does not suffice for
_OOM_PAUSE = 1.0  # seconds before that, in which others may end
_HEARD = 1.0  # seconds for the error of a task that failed to come
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LINES = 12  # of what a failed task printed


class Ended(NamedTuple):
    """How a task ended."""

    key: Any
    value: Any
    error: Exception | None


class _Started(NamedTuple):
    key: Any
    value: Any
    begin: Callable[[], Any]
    failures: Counter[bool]  # for want of memory, and others


class Tasks:
    """Tasks under way, by keys; those that are left when a block ends do so, too, or end with the connection.

    They are few, and to cancel them may end this process: `ray.cancel` of a task whose value is on its way makes Ray
    abort (ray-project/ray 54260).

    Args:
        ray: the package.
        keep: values stay where they are, for other tasks; a task returns its value and None, and ends with the
            reference of the value.
    """

    def __init__(self, ray: Any, *, keep: bool = False) -> None:
        self._ray, self._keep = ray, keep
        self._running: dict[Any, _Started] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __enter__(self) -> Tasks:
        return self

    def __exit__(self, *_: object) -> None:
        left = list(self._running)
        with suppress(Exception):
            for ended in self._ray.wait(left, num_returns=len(left), timeout=0)[0] if left else ():
                try:
                    self._ray.get(ended)
                except Exception:
                    self._hear(self._running[ended].value)

    def _hear(self, value: Any) -> None:
        """Ask for the value of a task that failed: Ray prints errors that nobody asks for."""
        with suppress(Exception):
            self._ray.get(value, timeout=_HEARD)

    def start(self, key: Any, begin: Callable[[], Any]) -> None:
        """Give out the task that `begin()` makes."""
        self._start(key, begin, Counter())

    def _start(self, key: Any, begin: Callable[[], Any], failures: Counter[bool]) -> None:
        made = begin()
        value, ended = made if self._keep else (made, made)
        self._running[ended] = _Started(key, value, begin, failures)

    def wait(self) -> Ended:
        """The next task that ends, unless it is to be tried again."""
        while True:
            (ended,), _ = self._ray.wait(list(self._running), num_returns=1)
            key, value, begin, failures = self._running.pop(ended)
            try:
                got = self._ray.get(ended)
            except Exception as error:
                self._hear(value)
                starved = isinstance(error, self._ray.exceptions.OutOfMemoryError)
                failures[starved] += 1
                if not self._is_lost(error) or failures[starved] > (OOM_TRIES if starved else TRIES):
                    return Ended(key, None, error)
                if starved:
                    time.sleep(_OOM_PAUSE)
                self._start(key, begin, failures)
            else:
                return Ended(key, value if self._keep else got, None)

    def _is_lost(self, error: Exception) -> bool:
        """Whether it may do to try the same again: a value that another task made, and that is lost, must be made."""
        known = self._ray.exceptions
        lost = (known.WorkerCrashedError, known.NodeDiedError, known.LocalRayletDiedError, known.OutOfMemoryError)
        return isinstance(error, lost) or (not self._keep and isinstance(error, known.ObjectLostError))


class FoldTree:
    """Which values of a fold are there, and which can be made: by height, jobs being at 0, and place.

    Args:
        sizes: jobs of each group, which are whole branches of the tree.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.widths = [sum(sizes)]
        while self.widths[-1] > 1:
            self.widths.append(-(-self.widths[-1] // 2))
        self.root = (len(self.widths) - 1, 0)
        ends = accumulate(sizes)
        self._groups = {_branch(end, size): group for group, (end, size) in enumerate(zip(ends, sizes, strict=True))}
        self.ready = deque(self._groups)
        self.values: dict[tuple[int, int], Any] = {}

    def group(self, node: tuple[int, int]) -> int | None:
        """The number of the group that a node is; None of one that is combined of two others."""
        return self._groups.get(node)

    def pair(self, node: tuple[int, int]) -> tuple[Any, Any]:
        """The values that a node is combined of."""
        height, place = node
        return self.values[height - 1, 2 * place], self.values[height - 1, 2 * place + 1]

    def below(self, node: tuple[int, int]) -> list[tuple[int, int]]:
        """The groups below a node, or the one that it is."""
        height, place = node
        return [other for other in self._groups if place << height <= other[1] << other[0] < (place + 1) << height]

    def add(self, node: tuple[int, int], value: Any) -> None:
        """A value is there, and what it was made of is needed no more; its pair comes first, to free theirs."""
        self._drop(node)
        height, place = node
        while (height, place) != self.root and place ^ 1 >= self.widths[height]:  # the last one, without a neighbour
            height, place = height + 1, place // 2
        self.values[height, place] = value
        if (height, place ^ 1) in self.values:
            self.ready.appendleft((height + 1, place // 2))

    def repeat(self, node: tuple[int, int]) -> None:
        """Values that a node is made of are lost: its groups are to be done again."""
        self._drop(node)
        self.ready.extend(self.below(node))

    def _drop(self, node: tuple[int, int]) -> None:
        height, place = node
        for old in (node, (height - 1, 2 * place), (height - 1, 2 * place + 1)):
            self.values.pop(old, None)


def _branch(end: int, size: int) -> tuple[int, int]:
    """The node of a tree under which are so many jobs, up to this one."""
    height = (size - 1).bit_length()
    return height, (end - size) >> height


def fold_in_tasks(
    ray: Any, leaf: Callable[[Any], Any], join: Callable[[Any, Any], Any], groups: Sequence[Sequence[Any]], most: int
) -> Any:
    """Values of all groups, combined by tasks as `combined` does; only the last one comes here.

    Args:
        ray: the package.
        leaf: gives out the task of a group, which returns its value and None.
        join: gives out the task that combines two values, and returns the same.
        groups: the jobs.
        most: tasks given out at once, at most.
    """
    if not groups:
        return None
    tree = FoldTree([len(group) for group in groups])
    losses: Counter[tuple[int, int]] = Counter()  # a node that is lost may hold the values of many
    with Tasks(ray, keep=True) as tasks:
        while True:
            while tree.ready and len(tasks) < most:
                node = tree.ready.popleft()
                group = tree.group(node)
                begin = partial(join, *tree.pair(node)) if group is None else partial(leaf, groups[group])
                tasks.start(node, begin)
            if tasks:
                node, value, error = tasks.wait()
            else:
                node, value, error = tree.root, None, None
                try:
                    return ray.get(tree.values[node])
                except Exception as lost:
                    error = lost
            if error is None:
                tree.add(node, value)
            elif _is_lost_value(error) and losses[node] < TRIES:
                losses[node] += 1
                tree.repeat(node)
            else:
                below = [groups[tree.group(each) or 0] for each in tree.below(node)]
                raise PareError(f"{_place(error, below[0], below[-1])}: {reason(error)}") from error


def _is_lost_value(error: Exception) -> bool:
    from ray.exceptions import ObjectLostError

    return isinstance(error, ObjectLostError) or isinstance(getattr(error, "cause", None), ObjectLostError)


def _place(error: Exception, first: Sequence[Any], last: Sequence[Any]) -> str:
    """The job in which a fold failed if that is known, which is noted by `fold_group`, or else the first and last."""
    for note in getattr(getattr(error, "cause", None), "__notes__", ()):
        if note.startswith("in "):
            return note.removeprefix("in ")
    names = [job_name(first[0]), job_name(last[-1])]
    return names[0] if names[0] == names[1] else " to ".join(names)


def reason(error: Exception) -> str:
    """Why a task failed, for people: our own errors as they are, those of others with the end of what was printed."""
    from ray import exceptions

    cause = getattr(error, "cause", None)
    for ours in (cause, error):  # the error itself is of both types, and its text is a traceback
        if isinstance(ours, PareError):
            return ours.message
    if isinstance(error, exceptions.OutOfMemoryError) or isinstance(cause, MemoryError):
        return (
            f"a worker ran out of memory; lower {argument('workers')} or {argument('memory')}, or {argument('k')} if "
            "it is large, or use machines with more memory."
        )
    if missing := re.search(r"ModuleNotFoundError: No module named '([^']+)'", str(error)):
        module = missing[1].partition(".")[0]
        if module == "paredown":
            return f"paredown is not installed there; run `pip install paredown=={__version__}` on every node."
        return f"the module {module!r} is not there; install it on every node, or put it where Python finds it."
    if isinstance(error, exceptions.WorkerCrashedError | exceptions.NodeDiedError):
        return (
            f"its worker died {TRIES + 1} times, perhaps for want of memory; run the same command again, with fewer "
            f"{argument('workers')}, to finish what is left."
        )
    lines = [line for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    return "\n".join(lines[-_LINES:])
