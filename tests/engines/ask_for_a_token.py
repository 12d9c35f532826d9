"""Start a cluster that asks for a token, and print what the command says without one, with a wrong one and with it."""

from __future__ import annotations

import os
import subprocess
import sys

from ray.cluster_utils import Cluster

token = "a" * 64
given = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
os.environ |= given
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
command = [sys.executable, "-m", "paredown", "score", sys.argv[1], "--k", "3", "--engine", "ray"]
settings = [{}, {"RAY_AUTH_MODE": "token"}, {**given, "RAY_AUTH_TOKEN": "b" * 64}, given]
for number, more in enumerate(settings):
    out = ["-o", f"{sys.argv[2]}/{number}", "--address", cluster.address]
    done = subprocess.run([*command, *out], env=clean | more, capture_output=True, text=True)
    print(done.returncode, " ".join(line for line in done.stderr.splitlines() if "gcs_client" not in line))
cluster.shutdown()
