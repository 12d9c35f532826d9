"""Add up values that are together twice as large as the object store of the cluster, and print the sum."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])

import ray

from paredown.engines import fold, open_engine

ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20)
with open_engine("ray") as engine:
    total = fold(engine, "ray_jobs:large", "ray_jobs:add", list(range(8)))
print(total.sum() == sum(range(8)) * total.size, total.nbytes * 8 > 2 * 80 * 2**20)
ray.shutdown()
