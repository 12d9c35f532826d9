"""Who runs `function(common, job)`: this process, or the workers of a Ray cluster.

Work on data of any size is written once, as plain functions of a range of rows, and given to an engine by name
(`package.module:function`). An engine only decides where they run: results are combined in an order that depends on the
ranges alone, so that every engine gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paredown.engines.base import Engine, fold
from paredown.engines.in_process import InProcess
from paredown.errors import PareError, argument, check_known

__all__ = ["ENGINES", "Engine", "InProcess", "fold", "open_engine"]

ENGINES = {
    "local": "this machine",
    "ray": "a Ray cluster: the one at the address given, or a temporary cluster on this machine",
}


@contextmanager
def open_engine(
    engine: str | Engine = "local", *, address: str | None = None, workers: int | None = None
) -> Iterator[Engine]:
    """An engine by name, or one that is open already; what was started for it ends with the block.

    Args:
        engine: a name in `ENGINES`, or an engine.
        address: of a Ray cluster that is there, such as `auto`, `10.0.0.7:6379` or `ray://10.0.0.7:10001`.
        workers: tasks at once at most; as many as there are cores if not given.
    """
    if not isinstance(engine, str):
        yield engine
        return
    check_known("engine", engine, ENGINES)
    if engine == "local":
        if address is not None:
            raise PareError(f"{argument('address')} is that of a Ray cluster; add {argument('engine', 'ray')}.")
        yield InProcess()
        return
    from paredown.engines.ray_cluster import RayCluster

    with RayCluster(address=address, workers=workers) as cluster:
        yield cluster
