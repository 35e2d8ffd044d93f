"""Archives and compressed files of strangers: nothing is written, nothing outside is read, nothing grows."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from gridtune.errors import WorkloadError
from gridtune.workload import read_workload, read_workloads
from gridtune.workload.workflows import read_workflow
from tests.workload.sample_logs import GOOD

LOG = f"; MaxProcs: 64\n{GOOD}\n".encode()


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for entry, content in members:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def _entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "name", ["../outside.swf", "/tmp/outside-gridtune.swf", "a/../../outside.swf", "..\\o.swf"]
)
def test_nothing_is_written(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = _tar(folder / "logs.tar.gz", (_entry(name), LOG))
    before = _files(tmp_path)
    (log,) = read_workloads(path)
    assert len(log) == 1
    assert _files(tmp_path) == before
    assert not Path("/tmp/outside-gridtune.swf").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE]
)
def test_links_and_devices_are_passed_over(tmp_path: Path, kind: bytes) -> None:
    secret = tmp_path / "secret.swf"
    secret.write_bytes(LOG)
    path = _tar(tmp_path / "logs.tar", (_entry("a.swf", kind, str(secret)), b""), (_entry("b.swf"), LOG))
    assert [log.name for log in read_workloads(path)] == ["b"]
    path = _tar(tmp_path / "links.tar", (_entry("a.swf", kind, str(secret)), b""))
    with pytest.raises(WorkloadError, match="holds no logs"):
        read_workloads(path)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_bomb_is_refused_before_it_grows(tmp_path: Path, suffix: str, pack: object) -> None:
    blanks = pack(b"\n" * (8 << 20))  # type: ignore[operator]
    for name, read in ((f"log.swf{suffix}", read_workload), (f"flow.dax{suffix}", read_workflow)):
        path = tmp_path / name
        path.write_bytes(blanks)
        assert path.stat().st_size < 20_000
        with pytest.raises(WorkloadError, match="more than 1,048,576 bytes once decompressed"):
            read(path, max_bytes=1 << 20)


def test_the_logs_of_an_archive_share_its_limit(tmp_path: Path) -> None:
    log = gzip.compress(LOG + b"\n" * (400 << 10))
    path = _tar(tmp_path / "logs.tar", *((_entry(f"day-{day}.swf.gz"), log) for day in range(4)))
    assert len(read_workloads(path, max_bytes=2 << 20)) == 4
    with pytest.raises(WorkloadError, match="bytes once decompressed"):
        read_workloads(path, max_bytes=1 << 20)


def test_entities_of_xml_do_not_grow(tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "x" * 10}">' for i in range(10))
    path = tmp_path / "bomb.dax"
    path.write_text(f'<?xml version="1.0"?><!DOCTYPE adag [{entities}]><adag>&a9;</adag>')
    with pytest.raises(WorkloadError, match="entities are not supported"):
        read_workflow(path)
