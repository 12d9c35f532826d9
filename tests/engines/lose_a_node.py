"""Score SOURCE into OUT on a cluster of two nodes, one of which is killed on the way: lose_a_node.py SOURCE OUT."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from threading import Thread

import ray
from ray.cluster_utils import Cluster

from paredown.scoring.ranged_scoring import score_ranges

source, out = map(Path, sys.argv[1:])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
other = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)


def lose() -> None:
    while not list(out.glob("0*.parquet")):
        time.sleep(0.02)
    cluster.remove_node(other, allow_graceful=False)
    print("lost a node", flush=True)


thread = Thread(target=lose, daemon=True)
thread.start()
score_ranges(source, out=out, k=5, engine="ray")
thread.join(60)
ray.shutdown()
cluster.shutdown()
