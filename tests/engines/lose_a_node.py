"""Score or embed SOURCE into OUT on two nodes, one of which is killed on the way: lose_a_node.py SOURCE OUT VERB."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from threading import Thread

import ray
from ray.cluster_utils import Cluster

import paredown as pdn
from paredown.scoring.ranged_scoring import score_ranges

source, out = map(Path, sys.argv[1:3])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
other = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)


def lose() -> None:
    while not list(out.glob("0*.parquet")):
        time.sleep(0.002)
    cluster.remove_node(other, allow_graceful=False)
    print("lost a node", flush=True)


thread = Thread(target=lose, daemon=True)
thread.start()
if sys.argv[3] == "embed":
    pdn.embed(source, out=out, encoder="pixels", shard_size=2, engine="ray")
else:
    score_ranges(source, out=out, k=5, engine="ray")
thread.join(60)
ray.shutdown()
cluster.shutdown()
