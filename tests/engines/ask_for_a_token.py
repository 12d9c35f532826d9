"""Start a cluster that asks for a token, and print what the command says without one, with wrong ones and with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ray.cluster_utils import Cluster

token, wrong = "a" * 64, "b" * 64
given = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
os.environ |= given
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
# `auto` would find the clusters of others who test on this machine, too.
program = f"""
from paredown.engines import ray_connection
ray_connection._running_cluster = lambda: {cluster.address!r}
from paredown.cli import main
main()
"""


def tell(name: str, environment: dict[str, str], address: str = cluster.address) -> None:
    command = [sys.executable, "-c", program, "score", sys.argv[1], "--k", "3", "--engine", "ray"]
    command += ["--address", address, "-o", f"{sys.argv[2]}/{name}"]
    done = subprocess.run(command, env=clean | environment, capture_output=True, text=True)
    print(done.returncode, " ".join(line for line in done.stderr.splitlines() if "gcs_client" not in line))


tell("no mode", {})
tell("no token", {"RAY_AUTH_MODE": "token"})
tell("wrong", {**given, "RAY_AUTH_TOKEN": wrong})
saved = Path.home() / ".ray" / "auth_token"
saved.parent.mkdir(parents=True)
saved.write_text(wrong)
tell("saved", {}, "auto")
tell("right", given)
cluster.shutdown()
