"""Start a cluster as someone else would, score on it twice from other processes, and see that it still works.

The machine of the driver has no cores and much memory, as heads of clusters often have.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from paredown.engines import open_engine
from paredown.errors import PareError


@ray.remote
def answer() -> int:
    return 42


source, folder = sys.argv[1], Path(sys.argv[2])
head = {"num_cpus": 0, "memory": 8 * 2**30, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
cluster.add_node(num_cpus=2, memory=3 * 2**30)
ray.init(address=cluster.address, log_to_driver=False)
for name in ("first", "second"):
    command = [sys.executable, "-m", "paredown", "score", source, "-o", folder / name, "--k", "3"]
    subprocess.run([*command, "--engine", "ray", "--address", cluster.address], check=True, stdout=subprocess.DEVNULL)
with open_engine("ray") as engine:
    try:
        list(engine.run_jobs("ray_jobs:twice", [1], memory=4 * 2**30))
    except PareError as error:
        print(error)
if ray.get(answer.remote()) == 42:
    print("still there")
ray.shutdown()
cluster.shutdown()
