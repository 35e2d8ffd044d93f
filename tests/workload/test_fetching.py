"""Fetching: whole and right or not at all, from a folder or a server of the test's own."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from gridtune.errors import TraceError
from gridtune.workload import catalogue
from gridtune.workload.catalogue import CATALOGUE, CatalogueEntry, cache_folder, resolve_trace
from gridtune.workload.fetching import fetch

FILE = "Toy-1.swf.gz"
#: Incompressible, so that it travels in several pieces.
CONTENT = gzip.compress(np.random.default_rng(1).bytes(300_000), mtime=0)
SUM = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT under /logs/; may break off, ignore ranges or send something else."""

    content = CONTENT
    break_after: int | None = None
    ranges = True
    requests: list[str | None]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.requests.append(wanted)
        if self.path != f"/logs/{FILE}":
            self.send_error(404)
            return
        body, status = self.server.content, 200
        if wanted and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_error(416)
                return
            body, status = body[start:], 206
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.break_after])

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/logs"


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a log `toy` with a checksum and `secret` without one to the catalogue, with an empty cache."""
    monkeypatch.setenv("GRIDTUNE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRIDTUNE_TRACE_DIR", raising=False)

    def entry(name: str, file: str, sha256: str | None) -> CatalogueEntry:
        return CatalogueEntry(name, name, file, 4, 1, None, sha256, "nobody", "made up")

    toys = {"toy": entry("toy", FILE, SUM), "secret": entry("secret", "Secret-1.swf.gz", None)}
    monkeypatch.setattr(catalogue, "CATALOGUE", MappingProxyType({**CATALOGUE, **toys}))


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror" / "deep"
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(CONTENT)
    (folder / "Secret-1.swf.gz").write_bytes(CONTENT)
    return tmp_path / "mirror"


def cached() -> list[str]:
    return sorted(path.name for path in cache_folder().iterdir() if not path.name.endswith(".lock"))


def test_from_a_folder(mirror: Path) -> None:
    path = fetch("toy", mirror=mirror)
    assert path == cache_folder() / FILE
    assert path.read_bytes() == CONTENT
    assert cached() == [FILE]
    assert resolve_trace("toy") == path


@pytest.mark.parametrize("as_address", [True, False])
def test_from_a_file_or_its_address(mirror: Path, as_address: bool) -> None:
    file = mirror / "deep" / FILE
    assert fetch("toy", mirror=file.as_uri() if as_address else file).read_bytes() == CONTENT


def test_what_is_there_is_not_fetched_again(mirror: Path, server: Server, address: str) -> None:
    fetch("toy", mirror=mirror)
    fetch("toy", mirror=address)
    assert server.requests == []


def test_a_broken_copy_in_the_cache_is_replaced(mirror: Path) -> None:
    cache_folder().mkdir()
    (cache_folder() / FILE).write_bytes(CONTENT[:100])
    assert fetch("toy", mirror=mirror).read_bytes() == CONTENT


def test_from_a_server_with_progress(server: Server, address: str) -> None:
    seen: list[tuple[int, int | None]] = []
    path = fetch("toy", mirror=address, progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert server.requests == [None]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert len(seen) > 2
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_the_files_own_address(server: Server, address: str) -> None:
    assert fetch("toy", mirror=f"{address}/{FILE}").read_bytes() == CONTENT


@pytest.mark.parametrize("ranges", [True, False])
def test_a_break_is_told_and_gone_on_from(server: Server, address: str, ranges: bool) -> None:
    server.break_after = 150_000
    with pytest.raises(TraceError, match="the download broke off") as caught:
        fetch("toy", mirror=address)
    assert "goes on from here" in (caught.value.hint or "")
    assert cached() == [FILE + ".part"]
    with pytest.raises(TraceError, match="not on this machine"):
        resolve_trace("toy")
    server.break_after, server.ranges = None, ranges
    assert fetch("toy", mirror=address).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=150000-"]
    assert cached() == [FILE]


def test_a_bad_remainder_is_fetched_anew(server: Server, address: str) -> None:
    cache_folder().mkdir()
    (cache_folder() / (FILE + ".part")).write_bytes(b"x" * 1000)
    assert fetch("toy", mirror=address).read_bytes() == CONTENT
    assert server.requests == ["bytes=1000-", None]


def test_a_remainder_that_is_too_long_is_fetched_anew(server: Server, address: str) -> None:
    cache_folder().mkdir()
    (cache_folder() / (FILE + ".part")).write_bytes(CONTENT + b"x")
    assert fetch("toy", mirror=address).read_bytes() == CONTENT


def test_wrong_content_is_not_kept(server: Server, address: str) -> None:
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(TraceError, match=f"came, not {SUM}"):
        fetch("toy", mirror=address)
    assert cached() == []


def test_wrong_content_spares_nothing_in_a_folder(mirror: Path) -> None:
    (mirror / "deep" / FILE).write_bytes(CONTENT[:1000])
    with pytest.raises(TraceError, match="nothing was kept"):
        fetch("toy", mirror=mirror)
    assert cached() == []


def test_missing_on_the_server(address: str) -> None:
    with pytest.raises(TraceError, match="the server answers 404"):
        fetch("toy", mirror=f"{address}/elsewhere")
    assert cached() == []


def test_no_server(server: Server, address: str) -> None:
    with pytest.raises(TraceError, match="the download broke off"):
        fetch("toy", mirror="http://127.0.0.1:9/logs")


def test_missing_in_the_folder(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=f"no {FILE} in this folder"):
        fetch("toy", mirror=tmp_path)


def test_without_an_address() -> None:
    with pytest.raises(TraceError, match="toy has no public address"):
        fetch("toy")


def test_a_strange_mirror() -> None:
    with pytest.raises(TraceError, match="not ftp://"):
        fetch("toy", mirror="ftp://somewhere")


def test_without_a_checksum(mirror: Path) -> None:
    with pytest.raises(TraceError, match="knows no checksum of secret") as caught:
        fetch("secret", mirror=mirror)
    assert "--unverified" in (caught.value.hint or "")
    assert fetch("secret", mirror=mirror, sha256=SUM.upper()).read_bytes() == CONTENT


def test_unverified(mirror: Path) -> None:
    assert fetch("secret", mirror=mirror, unverified=True).read_bytes() == CONTENT


def test_unverified_but_cut_short(mirror: Path) -> None:
    (mirror / "deep" / "Secret-1.swf.gz").write_bytes(CONTENT[:-100])
    with pytest.raises(TraceError, match="not a whole gzip file"):
        fetch("secret", mirror=mirror, unverified=True)
    assert cached() == []


def test_a_wrong_checksum_is_refused(mirror: Path) -> None:
    with pytest.raises(TraceError, match="came, not 000"):
        fetch("secret", mirror=mirror, sha256="0" * 64)
    with pytest.raises(TraceError, match="is no SHA-256"):
        fetch("secret", mirror=mirror, sha256="abc")
    with pytest.raises(TraceError, match="the catalogue says"):
        fetch("toy", mirror=mirror, sha256="0" * 64)


def test_one_process_at_a_time(mirror: Path) -> None:
    cache_folder().mkdir()
    with (cache_folder() / f".{FILE}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TraceError, match="another process is fetching this log"):
            fetch("toy", mirror=mirror)
    assert fetch("toy", mirror=mirror).is_file()
