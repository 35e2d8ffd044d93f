"""Names become files: where traces are looked for, and what is said when they are not there."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from gridtune.errors import TraceError
from gridtune.workload import read_workload
from gridtune.workload.catalogue import (
    CATALOGUE,
    bundled_traces,
    cache_folder,
    file_checksum,
    find_log,
    resolve_trace,
)

SHARED = ("kth-sp2", "nasa-ipsc", "lcg-2005", "ctc-sp2-reconstructed")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty folder with an empty cache and no folder of traces."""
    monkeypatch.setenv("GRIDTUNE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRIDTUNE_TRACE_DIR", raising=False)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return tmp_path


def small_trace(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(b"; MaxProcs: 4\n1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n"))
    return path


def test_a_path_comes_first(nowhere: Path) -> None:
    mine = small_trace(Path("quickstart"))
    assert resolve_trace("quickstart") == mine
    assert resolve_trace(nowhere / "here" / "quickstart") == nowhere / "here" / "quickstart"


def test_then_the_base_folder(nowhere: Path) -> None:
    mine = small_trace(nowhere / "spaces" / "logs" / "mine.swf.gz")
    assert resolve_trace("logs/mine.swf.gz", base=nowhere / "spaces") == mine
    with pytest.raises(TraceError, match="no trace 'logs/mine"):
        resolve_trace("logs/mine.swf.gz")


def test_bundled_traces_by_name_and_file_name() -> None:
    path = bundled_traces()["quickstart"]
    assert resolve_trace("quickstart") == resolve_trace("quickstart.swf.gz") == path
    assert len(read_workload(path)) == 5000


def test_the_users_own_folder(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = small_trace(nowhere / "traces" / "mine.swf.gz")
    monkeypatch.setenv("GRIDTUNE_TRACE_DIR", str(nowhere / "traces"))
    assert resolve_trace("mine.swf.gz") == mine


def test_any_file_in_a_subfolder_of_the_users_own(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRIDTUNE_TRACE_DIR", str(nowhere / "mine"))
    mine = small_trace(nowhere / "mine" / "logs" / "ours.swf.gz")
    assert resolve_trace("ours.swf.gz") == mine
    small_trace(nowhere / "mine" / "older" / "ours.swf.gz")
    with pytest.raises(
        TraceError, match=r"2 files are named 'ours\.swf\.gz' .* logs/ours\.swf\.gz and older"
    ):
        resolve_trace("ours.swf.gz")
    with pytest.raises(TraceError, match="no trace"):
        resolve_trace("nearby/ours.swf.gz")


def test_the_cache(nowhere: Path) -> None:
    assert cache_folder() == nowhere / "cache"
    mine = small_trace(cache_folder() / "HPC2N-2002-2.2-cln.swf.gz")
    assert resolve_trace("hpc2n") == resolve_trace("HPC2N-2002-2.2-cln.swf.gz") == mine


def test_default_cache_follows_xdg(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRIDTUNE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere / "xdg"))
    assert cache_folder() == nowhere / "xdg" / "gridtune" / "traces"


def test_a_folder_of_day_files(nowhere: Path) -> None:
    small_trace(nowhere / "here" / "days" / "1.swf.gz")
    assert resolve_trace("days") == Path("days")


def test_other_content_than_published_is_refused(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = small_trace(nowhere / "traces" / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    monkeypatch.setenv("GRIDTUNE_TRACE_DIR", str(nowhere / "traces"))
    with pytest.raises(TraceError, match="this is not kth-sp2 as published") as caught:
        resolve_trace("kth-sp2")
    assert caught.value.path == fake
    assert resolve_trace(fake) == fake


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("kth-sp2", "gridtune traces fetch kth-sp2"),
        ("ctc-sp2-reconstructed", "no public address"),
        ("kth-sp", "did you mean 'kth-sp2'"),
        ("quikstart", "did you mean 'quickstart'"),
        ("nothing-like-it", "gridtune traces fetch NAME"),
    ],
)
def test_what_is_missing_is_named(name: str, hint: str) -> None:
    with pytest.raises(TraceError) as caught:
        resolve_trace(name)
    assert hint in (caught.value.hint or "")
    assert name in str(caught.value)


def test_find_log() -> None:
    assert find_log("KTH-SP2").name == "kth-sp2"
    assert find_log("LCG-2005-1.swf.gz").name == "lcg-2005"
    with pytest.raises(TraceError, match="the catalogue has no log 'sdsc'"):
        find_log("sdsc")


def test_entries_are_whole() -> None:
    for name, entry in CATALOGUE.items():
        assert name == entry.name
        assert entry.processors > 0
        assert entry.jobs > 0
        assert entry.thanks
        assert entry.caveat
        assert entry.sha256 is None or len(entry.sha256) == 64
        assert entry.url is None or entry.url.endswith("/" + entry.file_name)
        assert entry.url or entry.sha256
    assert len({entry.file_name for entry in CATALOGUE.values()}) == len(CATALOGUE)


@pytest.mark.real_traces
@pytest.mark.parametrize("name", SHARED)
def test_the_catalogue_agrees_with_the_logs(
    name: str, trace_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRIDTUNE_TRACE_DIR", str(trace_dir))
    path = resolve_trace(name)
    assert file_checksum(path) == CATALOGUE[name].sha256
    workload = read_workload(path)
    assert len(workload) == CATALOGUE[name].jobs
    assert workload.machine_processors == CATALOGUE[name].processors


@pytest.mark.real_traces
def test_the_users_own_copy_goes_before_the_cache(
    trace_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = next(trace_dir.rglob("KTH-SP2-1996-2.1-cln.swf.gz"))
    cache_folder().mkdir(parents=True)
    cached = Path(shutil.copy(published, cache_folder()))
    assert resolve_trace("kth-sp2") == cached
    monkeypatch.setenv("GRIDTUNE_TRACE_DIR", str(trace_dir))
    assert resolve_trace("kth-sp2") == published
