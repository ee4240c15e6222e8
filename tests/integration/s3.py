"""An S3 service on this host (moto), for all tests of one run.

A test file takes it by ``from tests.integration.s3 import s3_server  # noqa: F401`` and asks for the fixture
``s3_server``: it sets the AWS variables for the test and gives :class:`S3Server`.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from channel_tools.channel.stores.s3_objects import make_client
from channel_tools.channel.stores.s3_store import S3Store

SERVER = """
import logging, sys
logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class S3Server:
    """``environment`` has the AWS variables that point any process at the service."""

    endpoint: str
    environment: dict[str, str]

    def client(self) -> Any:
        """A plain boto3 client of the service."""
        return _session().client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
        )

    def bucket(self) -> str:
        """Name of a new, empty bucket."""
        name = f"b-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name

    def store(self, prefix: str = "internal", **options: Any) -> S3Store:
        """A store in a new bucket; the process must have the environment."""
        return S3Store(self.bucket(), prefix, **{"client": _usual_client(), **options})


@functools.cache
def _session() -> Any:
    """One session, so that the description of the service is read once."""
    import boto3

    return boto3.session.Session()


@functools.cache
def _usual_client() -> Any:
    """As the store makes it by the environment, but once."""
    return make_client()


@functools.cache
def _process() -> subprocess.Popen[str]:
    """The server: a process of its own, which ends with this one."""
    return subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@functools.cache
def start_s3() -> S3Server:
    """The one server of this test process, started on first use."""
    process = _process()
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    assert port, "the S3 server did not start"
    endpoint = f"http://127.0.0.1:{port}"
    _wait_for(endpoint)
    return S3Server(
        endpoint,
        {
            "AWS_ENDPOINT_URL_S3": endpoint,
            "AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        },
    )


def _wait_for(endpoint: str) -> None:
    import requests

    for _ in range(100):
        try:
            requests.get(f"{endpoint}/moto-api/", timeout=5, proxies={"http": ""})
            return
        except requests.ConnectionError:
            time.sleep(0.05)
    raise AssertionError("the S3 server does not answer")


@pytest.fixture
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The S3 service, and its variables in the environment for the length of the test."""
    server = start_s3()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    yield server


def tree(store: S3Store) -> dict[str, bytes]:
    """Everything below a store's prefix, by key."""
    return {stat.key: store.read(stat.key) or b"" for stat in store.list()}


def put_tree(store: S3Store, folder: Path) -> None:
    """Upload a folder as it is, with no conditions and no cache headers."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        key = f"{store.prefix}/{path.relative_to(folder).as_posix()}".lstrip("/")
        store.client.put_object(Bucket=store.bucket, Key=key, Body=path.read_bytes())
