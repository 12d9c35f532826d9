"""Be a guest on a cluster whose memory monitor finds any use too high, and print why a job and a fold failed."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
os.environ |= {"RAY_memory_usage_threshold": "0.0001", "RAY_memory_monitor_refresh_ms": "100"}

from ray.cluster_utils import Cluster

from paredown.engines import fold, open_engine
from paredown.errors import PareError

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
with open_engine("ray", address=cluster.address) as engine:
    for outcome in engine.run_jobs("ray_jobs:wait_a_while", [0]):
        print("job:", outcome.error)
    try:
        fold(engine, "ray_jobs:wait_a_while", "ray_jobs:add", [{"name": "range 7"}])
    except PareError as error:
        print("fold:", error)
cluster.shutdown()
