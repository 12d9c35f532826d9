"""A server that speaks S3, and what is in it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest

from paredown.places import as_place

HERE = Path(__file__).resolve().parent
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class Store:
    """A bucket of the server, and what may go wrong there."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint, self.bucket = endpoint, f"bucket-{uuid4().hex[:8]}"

    def url(self, key: str = "") -> str:
        return f"s3://{self.bucket}/{key}"

    def put(self, file: Path, key: str) -> str:
        as_place(self.url(key)).upload(file)  # type: ignore[attr-defined]
        return self.url(key)

    def objects(self, key: str = "") -> dict[str, bytes]:
        """What is in a folder, by name."""
        folder = as_place(self.url(key))
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    def client(self) -> Any:
        """The store, asked by a library that is not the one under test."""
        import botocore.session

        return botocore.session.get_session().create_client("s3", endpoint_url=self.endpoint)

    def vanish(self) -> None:
        """Remove the bucket with all that is in it."""
        client = self.client()
        for item in client.list_objects_v2(Bucket=self.bucket).get("Contents", ()):
            client.delete_object(Bucket=self.bucket, Key=item["Key"])
        client.delete_bucket(Bucket=self.bucket)

    def faults(self, **asked: Any) -> None:
        """See `s3_server`; none without arguments."""
        urlopen(f"{self.endpoint}/faults", json.dumps(asked).encode()).read()

    def requests(self) -> list[str]:
        """What was asked of the server since `faults`."""
        return json.loads(urlopen(f"{self.endpoint}/faults").read())


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        pytest.skip("moto and flask are not installed; they are in paredown[dev]")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHONWARNINGS"))}
    server = subprocess.Popen(
        [sys.executable, str(HERE.parent / "s3_server.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean | CREDENTIALS,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.fixture
def s3(s3_endpoint: str, monkeypatch) -> Iterator[Store]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": s3_endpoint}.items():
        monkeypatch.setenv(name, value)
    store = Store(s3_endpoint)
    store.faults()
    import pyarrow.fs

    system = pyarrow.fs.S3FileSystem(endpoint_override=s3_endpoint, region="us-east-1", allow_bucket_creation=True)
    system.create_dir(store.bucket)
    yield store
    store.faults()
