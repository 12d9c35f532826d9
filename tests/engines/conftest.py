"""One Ray cluster for all tests of a session."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from paredown.engines import open_engine

# Clusters of tests ask for a token of their own; none is saved, and none that is saved is used.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@pytest.fixture(scope="session")
def cluster():
    """Two workers, who find the functions of `ray_jobs`."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *([before] if before else [])])
    try:
        with open_engine("ray", workers=2) as engine:
            yield engine
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
def address(cluster) -> str:
    """Of that cluster, for other programs."""
    import ray

    return ray.get_runtime_context().gcs_address
