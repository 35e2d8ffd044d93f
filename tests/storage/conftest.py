"""A server that speaks S3, on this host."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyarrow.fs import FileSystem

from gridtune.storage import Storage


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server of moto's, which keeps files as Amazon's S3 does."""
    server_module = pytest.importorskip(
        "moto.server", reason="moto is not installed: pip install -e '.[dev]'"
    )
    # It writes a line for each request.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a folder of the test's own in a bucket; the user's cache is an empty folder."""
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": s3_server, "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("GRIDTUNE_CACHE_DIR", str(folder / "traces"))
    files, _ = FileSystem.from_uri("s3://bucket?allow_bucket_creation=true")
    files.create_dir("bucket", recursive=False)
    return f"s3://bucket/{folder.parent.name}-{folder.name}"


@pytest.fixture
def storage(bucket: str) -> Storage:
    """The same folder, opened."""
    return Storage(bucket)
