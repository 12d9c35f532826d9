"""Jobs that the workers of a Ray cluster are given in tests."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

from paredown.errors import PareError


def twice(common, job):
    return common * job


def fail(common, job):
    raise PareError("row 7 of x.npy is bad") if common == "ours" else ValueError("row 7")


def die_once(common, job):
    mark = Path(common, f"{job}")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return job


def die(common, job):
    os.kill(os.getpid(), signal.SIGKILL)


def die_if(common, job):
    if job["name"] == common:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


def take_time(common, job):
    """When it began and ended."""
    began = time.time()
    time.sleep(0.15)
    return [(began, time.time())]


def add(left, right):
    return left + right


def large(common, job):
    return np.full(3 * 2**20, job, np.float64)  # 24 MiB


def ask_for_too_much(common, job):
    return np.empty(2**50)


def wait_a_while(common, job):
    time.sleep(60)


def threads(common, job):
    """How many threads the worker's libraries take."""
    return os.environ.get("OMP_NUM_THREADS")


def thumbnails(images):
    return np.stack([np.asarray(image.convert("L").resize((4, 4)), np.float32).ravel() for image in images])


def thumbnails_by_one_who_dies(folder, images):
    """As above, noting each call; the worker is killed in the third call of all."""
    Path(folder, f"{len(os.listdir(folder)):03d}-{os.getpid()}").touch()
    if len(os.listdir(folder)) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return thumbnails(images)
