"""Fetching: whole and right or not at all, from a folder or a server of the test's own."""

from __future__ import annotations

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
from gridtune.workload.catalogue import CATALOGUE, CatalogueEntry, cache_folder, fetch, resolve_trace

FILE = "Toy-1.swf.gz"
#: Incompressible, so that it travels in several pieces.
CONTENT = gzip.compress(np.random.default_rng(1).bytes(300_000), mtime=0)
SUM = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT under /logs/; may break off, mislabel it or send something else."""

    content = CONTENT
    #: Bytes after which each of the next answers breaks off.
    breaks: list[int]
    encoding: str | None = None
    paths: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        if self.path != f"/logs/{FILE}":
            self.send_error(404)
            return
        body = self.server.content
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if self.server.encoding:
            self.send_header("Content-Encoding", self.server.encoding)
        self.end_headers()
        self.wfile.write(body[: self.server.breaks.pop(0)] if self.server.breaks else body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.breaks, server.paths = [], []
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
    # Between two attempts pooch waits a second.
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)

    def entry(name: str, file: str, sha256: str | None) -> CatalogueEntry:
        return CatalogueEntry(name, name, file, 4, 1, "nobody", "made up", None, sha256)

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
    return sorted(path.name for path in cache_folder().iterdir())


def test_from_a_folder(mirror: Path) -> None:
    path = fetch("toy", mirror=mirror)
    assert path == cache_folder() / FILE
    assert path.read_bytes() == CONTENT
    assert cached() == [FILE]
    assert path.stat().st_mode & 0o777 == 0o644
    assert resolve_trace("toy") == path


@pytest.mark.parametrize("as_address", [True, False])
def test_from_a_file_or_its_address(mirror: Path, as_address: bool) -> None:
    file = mirror / "deep" / FILE
    assert fetch("toy", mirror=file.as_uri() if as_address else file).read_bytes() == CONTENT


def test_a_cached_log_is_not_downloaded_again(mirror: Path, server: Server, address: str) -> None:
    fetch("toy", mirror=mirror)
    fetch("toy", mirror=address)
    fetch("toy")
    assert server.paths == []


def test_a_broken_copy_in_the_cache_is_replaced(mirror: Path) -> None:
    cache_folder().mkdir()
    (cache_folder() / FILE).write_bytes(CONTENT[:100])
    assert fetch("toy", mirror=mirror).read_bytes() == CONTENT


@pytest.mark.parametrize("path", ["", "/", f"/{FILE}"])
def test_from_a_server(server: Server, address: str, path: str) -> None:
    assert fetch("toy", mirror=address + path).read_bytes() == CONTENT
    assert server.paths == [f"/logs/{FILE}"]


def test_progress(server: Server, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    fetch("toy", mirror=address, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "100%" in err
    assert "300k" in err


def test_no_output_without_progress(server: Server, address: str, capfd: pytest.CaptureFixture[str]) -> None:
    fetch("toy", mirror=address)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
def test_a_file_declared_a_compressed_transfer_stays_compressed(
    server: Server, address: str, encoding: str
) -> None:
    server.encoding = encoding
    assert fetch("toy", mirror=address).read_bytes() == CONTENT


def test_a_download_that_breaks_off_is_tried_again(server: Server, address: str) -> None:
    server.breaks = [150_000]
    assert fetch("toy", mirror=address).read_bytes() == CONTENT
    assert len(server.paths) == 2
    assert cached() == [FILE]


def test_a_download_that_breaks_off_twice(server: Server, address: str) -> None:
    server.breaks = [150_000, 150_000]
    with pytest.raises(TraceError, match="the download failed") as caught:
        fetch("toy", mirror=address)
    assert "--mirror FOLDER" in (caught.value.hint or "")
    assert cached() == []
    with pytest.raises(TraceError, match="not on this machine"):
        resolve_trace("toy")


def test_wrong_content_is_not_kept(server: Server, address: str) -> None:
    server.content = CONTENT[:-1] + b"!"
    wrong = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(TraceError, match=f"^{address}: .* expected {SUM} but got {wrong}"):
        fetch("toy", mirror=address)
    assert cached() == []


def test_wrong_content_in_a_folder_is_not_kept(mirror: Path) -> None:
    (mirror / "deep" / FILE).write_bytes(CONTENT[:1000])
    with pytest.raises(TraceError, match="does not match"):
        fetch("toy", mirror=mirror)
    assert cached() == []


def test_missing_on_the_server(address: str) -> None:
    with pytest.raises(TraceError, match="the server answered 404 Not Found"):
        fetch("toy", mirror=f"{address}/elsewhere")
    assert cached() == []


def test_no_server() -> None:
    with pytest.raises(TraceError, match="the download failed"):
        fetch("toy", mirror="http://127.0.0.1:9/logs")


def test_missing_in_the_folder(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=f"no {FILE} in this folder"):
        fetch("toy", mirror=tmp_path)


def test_without_an_address() -> None:
    with pytest.raises(TraceError, match="toy has no public URL"):
        fetch("toy")


def test_a_strange_mirror() -> None:
    with pytest.raises(TraceError, match="not ftp://"):
        fetch("toy", mirror="ftp://somewhere")


def test_without_a_checksum(mirror: Path) -> None:
    with pytest.raises(TraceError, match="no checksum for secret") as caught:
        fetch("secret", mirror=mirror)
    assert "--unverified" in (caught.value.hint or "")
    assert fetch("secret", mirror=mirror, sha256=SUM.upper()).read_bytes() == CONTENT


def test_unverified(mirror: Path) -> None:
    assert fetch("secret", mirror=mirror, unverified=True).read_bytes() == CONTENT


def test_unverified_but_cut_short(mirror: Path) -> None:
    (mirror / "deep" / "Secret-1.swf.gz").write_bytes(CONTENT[:-100])
    with pytest.raises(TraceError, match="not a complete gzip file"):
        fetch("secret", mirror=mirror, unverified=True)
    assert cached() == []


def test_a_wrong_checksum_is_refused(mirror: Path) -> None:
    with pytest.raises(TraceError, match="expected 000"):
        fetch("secret", mirror=mirror, sha256="0" * 64)
    with pytest.raises(TraceError, match="is not a SHA-256"):
        fetch("secret", mirror=mirror, sha256="abc")
    with pytest.raises(TraceError, match="the catalogue has the SHA-256"):
        fetch("toy", mirror=mirror, sha256="0" * 64)
