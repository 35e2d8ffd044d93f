"""Files at URLs, and logs among them."""

from __future__ import annotations

import gzip
import uuid
from pathlib import Path

import pytest

from gridtune.errors import StorageError, TraceError
from gridtune.storage import Storage, as_local, is_url
from gridtune.sweep.execution.runner import run_cell
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.files import WorkloadReference
from tests.workload.sample_logs import GOOD, job_line

LOG = f"; MaxProcs: 64\n{GOOD}\n".encode()

pytestmark = pytest.mark.integration


def test_what_is_a_url() -> None:
    assert is_url("s3://bucket/log.swf")
    assert is_url("file:///data/log.swf")
    assert not any(map(is_url, ("logs/a.swf", "/data/a.swf", "C:/a.swf", "kth-sp2", "a?days=1,2")))
    assert as_local("file:///data/my%20log.swf") == Path("/data/my log.swf")
    assert as_local("s3://bucket/log.swf") is None


def test_files_are_written_listed_read_and_deleted(storage: Storage) -> None:
    assert storage.files("a") == {}
    assert storage.facts("a/2") is None
    storage.write("a/2", b"two")
    storage.write("a/1", b"one")
    storage.write("a/deep/3", b"three")
    assert list(storage.files("a")) == ["1", "2"]
    assert storage.files("a")["2"].size == 3
    storage.write("a/2", b"other")
    assert storage.read("a/2") == b"other"
    storage.delete("a/2")
    storage.delete("a/2")
    assert list(storage.files("a")) == ["1"]
    with pytest.raises(StorageError, match="no such file"):
        storage.read("a/2")


def test_compressed_files_stay_as_they_are(storage: Storage) -> None:
    storage.write("log.swf.gz", gzip.compress(LOG))
    assert storage.read("log.swf.gz")[:2] == b"\x1f\x8b"


@pytest.mark.parametrize("url", ["s3://key:hunter2@bucket/a", "s3://bucket/a?secret_key=hunter2"])
def test_keys_in_a_url_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(StorageError, match="holds a password or a token") as refused:
        Storage(url)
    assert "hunter2" not in str(refused.value)


def test_errors_name_the_url(bucket: str) -> None:
    with pytest.raises(StorageError, match=r"cannot write s3://nowhere/a/b: .*bucket does not exist"):
        Storage("s3://nowhere/a").write("b", b"")
    with pytest.raises(StorageError, match="cannot open unheard-of://x"):
        Storage("unheard-of://x")


def test_what_pyarrow_does_not_open_fsspec_does() -> None:
    storage = Storage(f"memory://{uuid.uuid4().hex}")
    storage.write("a/1", b"one")
    assert storage.files("a")["1"].size == 3
    assert storage.read("a/1") == b"one"


def test_a_log_at_a_url_is_downloaded_once_and_again_when_it_changes(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write("log.swf.gz", gzip.compress(LOG))
    url = f"{storage}/log.swf.gz"
    first = read_workload(url)
    assert len(first) == 1
    reads = []
    whole = Storage.read
    monkeypatch.setattr(Storage, "read", lambda self, name="": reads.append(name) or whole(self, name))
    assert WorkloadReference.parse(f"{url}?clean=drop_wider").read().checksum == first.checksum
    assert reads == []
    storage.write("log.swf.gz", gzip.compress(LOG + job_line(job_id=2).encode()))
    assert len(read_workload(url)) == 2
    assert len(reads) == 1


def test_the_content_of_a_log_decides_what_a_cell_is(storage: Storage, tmp_path: Path) -> None:
    storage.write("log.swf", LOG)
    (tmp_path / "other.swf").write_bytes(LOG)
    there, here = (
        run_cell("batch", {"trace": str(trace), "order": "fcfs"})
        for trace in (f"{storage}/log.swf", tmp_path / "other.swf")
    )
    assert there.cell.cell_id == here.cell.cell_id
    assert there.outcome.metrics == here.outcome.metrics


def test_a_log_that_is_not_there(storage: Storage) -> None:
    with pytest.raises(TraceError, match="no file is at s3://"):
        resolve_trace(f"{storage}/none.swf")


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_bytes(LOG)
    assert len(read_workload((tmp_path / "log.swf").as_uri())) == 1
