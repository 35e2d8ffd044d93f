"""Sweeps whose results lie at a URL: nothing stored is lost, and one driver writes at a time."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import gridtune as gt
from gridtune.cli.main import main
from gridtune.errors import StorageError, SweepError
from gridtune.storage import Storage
from gridtune.sweep.execution.status import machine_id
from gridtune.sweep.journal.journal import _record_line, _result_line, read_journal
from gridtune.sweep.remote import lock as storage_lock
from gridtune.sweep.remote.lock import StorageLock
from gridtune.sweep.remote.results import RemoteResults
from gridtune.workload.catalogue import cache_folder
from tests.cli.folders import quickstart
from tests.sweep.spaces import content
from tests.tracking.synthetic import cell_results

pytestmark = pytest.mark.integration

SPACE = quickstart(dimensions={"order": ["fcfs", "sjf", "saf"]}, replicates={"windows": 2})
CELLS = 6
HEADER = _record_line({"journal": "gridtune", "schema": 2})


def _say(message: str) -> None:
    raise AssertionError(message)


def _forget_here() -> None:
    """Take the working copies away: another machine has none."""
    shutil.rmtree(cache_folder() / "results")


def _sweep(url: str, **changes: object) -> gt.Study:
    options = {"executor": "inline", "tracking": False, "output": "quiet"}
    return gt.run_sweep(SPACE, directory=url, **{**options, **changes})  # type: ignore[arg-type]


def test_another_machine_goes_on(bucket: str, storage: Storage, tmp_path: Path) -> None:
    usual = gt.run_sweep(SPACE, directory=tmp_path, executor="inline", tracking=False, output="quiet")
    study = _sweep(bucket)
    assert study.sweep is not None
    assert study.sweep.ran == CELLS
    assert storage.files("drivers") == {}
    # All of the report is there, and the same table.
    there = set(json.loads(storage.read("files.json")))
    here = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    left_out = {"journal.jsonl", "journal.lock", "status.json", "finished.json"}
    assert there == here - left_out
    (tmp_path / "theirs.parquet").write_bytes(storage.read("results.parquet"))
    assert usual.sweep is not None
    assert content(pq.read_table(tmp_path / "theirs.parquet")) == content(usual.sweep.table)
    _forget_here()
    again = _sweep(bucket)
    assert again.sweep is not None
    assert again.sweep.ran == 0
    assert content(again.sweep.table) == content(usual.sweep.table)


DRIVER = """
import os, signal, sys
import gridtune as gt
from gridtune.sweep.remote.results import RemoteResults
stored, most = RemoteResults.append, int(sys.argv[2])
def append(self, content):
    stored(self, content)
    with open(sys.argv[3], "ab") as file:
        file.write(content)
    if os.path.getsize(sys.argv[3]) and open(sys.argv[3], "rb").read().count(b"cell_id") >= most:
        os.kill(os.getpid(), signal.SIGKILL)
RemoteResults.append = append
gt.run_sweep({space!r}, directory=sys.argv[1], executor="inline", tracking=False, output="quiet")
"""


def test_a_kill_loses_nothing_that_was_stored(bucket: str, storage: Storage, tmp_path: Path) -> None:
    acknowledged = tmp_path / "acknowledged.jsonl"
    script = DRIVER.replace("{space!r}", repr(SPACE))
    done = subprocess.run([sys.executable, "-c", script, bucket, "3", acknowledged], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(storage.files("drivers")) == 1
    before = read_journal(acknowledged)
    assert before
    _forget_here()
    with RemoteResults(bucket, _say) as remote:
        assert read_journal(remote.folder / "journal.jsonl").keys() == before.keys()
    _forget_here()
    study = _sweep(bucket)
    assert study.sweep is not None
    assert study.sweep.ran == CELLS - len(before)
    assert study.complete


def test_lines_that_were_not_stored_yet_are_stored_at_the_next_start(bucket: str, storage: Storage) -> None:
    results = [
        replace(result, cell_id=f"{number:032x}", identity="") for number, result in enumerate(cell_results())
    ]
    one, two, three = map(_result_line, results[:3])
    with RemoteResults(bucket, _say) as remote:
        journal = remote.folder / "journal.jsonl"
        remote.append(HEADER + one)
    journal.write_bytes(HEADER + one + two + three[:3])
    with RemoteResults(bucket, _say):
        assert journal.read_bytes() == HEADER + one + two
    segments = [storage.read(f"journal/{name}") for name in storage.files("journal")]
    assert segments == [HEADER + one, two]
    # Another machine has gone on meanwhile, without what this one had not stored.
    *_, last = storage.files("journal")
    storage.delete(f"journal/{last}")
    _forget_here()
    with RemoteResults(bucket, _say) as remote:
        remote.append(three)
    failed = _result_line(replace(results[2], state="failed", metrics={}, error="no memory"))
    again = _result_line(replace(results[2], seconds=9.0))
    journal.write_bytes(HEADER + one + failed + two + again)
    with RemoteResults(bucket, _say):
        # The third cell, which both have run, is there once, with the result that was stored.
        assert journal.read_bytes() == HEADER + one + three + two
    stored = b"".join(storage.read(f"journal/{name}") for name in storage.files("journal"))
    assert stored == journal.read_bytes()


def test_an_altered_segment_is_named(bucket: str, storage: Storage) -> None:
    with RemoteResults(bucket, _say) as remote:
        remote.append(b"one\n")
    (name,) = storage.files("journal")
    storage.write(f"journal/{name}", b"two\n")
    with pytest.raises(SweepError, match=f"{name}: has been altered"):
        RemoteResults(bucket, _say)
    assert storage.files("drivers") == {}


def test_a_second_driver_is_refused(bucket: str, storage: Storage) -> None:
    with RemoteResults(bucket, _say):
        with pytest.raises(SweepError, match=f"process {os.getpid()} on .* is writing these results: s3://"):
            RemoteResults(bucket, _say)
        assert len(storage.files("drivers")) == 1
    with RemoteResults(bucket, _say):
        pass


def test_a_driver_of_another_host_that_gives_signs_is_refused(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = {"process": 1, "host": "elsewhere", "clock": 1, "beats": 1}
    storage.write("drivers/other.json", json.dumps(sign).encode())
    said = []
    beats = itertools.count(2)

    def other_beats(seconds: float) -> None:
        # Other threads of this process may sleep meanwhile: each look sees another number.
        storage.write("drivers/other.json", json.dumps({**sign, "beats": next(beats)}).encode())

    monkeypatch.setattr(storage_lock.time, "sleep", other_beats)
    with pytest.raises(SweepError, match="process 1 on elsewhere is writing"):
        StorageLock(storage, said.append)
    assert "waiting for process 1 on elsewhere to give a sign" in said[0]
    assert list(storage.files("drivers")) == ["other.json"]


def test_a_driver_of_another_host_that_was_silent_for_long_is_followed(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write("drivers/other.json", b'{"process": 1, "host": "elsewhere"}')
    monkeypatch.setattr(storage_lock, "_SILENCE_SECONDS", -1.0)
    lock = StorageLock(storage, _say)
    assert len(storage.files("drivers")) == 1
    lock.close()
    assert storage.files("drivers") == {}


def test_who_was_taken_for_dead_writes_nothing_more(
    bucket: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_lock, "_BEAT_SECONDS", 0.01)
    with RemoteResults(bucket, _say) as remote:
        (name,) = storage.files("drivers")
        while not remote._lock.lost:
            storage.delete(f"drivers/{name}")
        with pytest.raises(SweepError, match="another driver has taken over"):
            remote.append(b"line\n")
    assert storage.files("journal") == {}


def test_who_was_silent_for_long_looks_before_it_writes(
    bucket: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RemoteResults(bucket, _say) as remote:
        monkeypatch.setattr(storage_lock, "_SILENCE_SECONDS", 0.0)
        remote.append(b"alone\n")
        # Its sign of life was so long on its way that another driver had removed it, and began.
        storage.write("drivers/other.json", b'{"process": 1, "host": "elsewhere"}')
        with pytest.raises(SweepError, match="another driver has taken over"):
            remote.append(b"late\n")
    assert list(storage.files("drivers")) == ["other.json"]
    assert [storage.read(f"journal/{name}") for name in storage.files("journal")] == [b"alone\n"]


def test_a_driver_on_another_machine_of_this_ones_name_is_not_taken_for_dead(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = {"process": 2**22 + 1, "host": socket.gethostname(), "clock": 1, "machine": "another"}
    storage.write("drivers/other.json", json.dumps(sign).encode())
    with pytest.raises(KeyboardInterrupt):
        StorageLock(storage, _interrupt)
    assert list(storage.files("drivers")) == ["other.json"]
    # A process that has ended on this very machine is.
    storage.write("drivers/other.json", json.dumps({**sign, "machine": machine_id()}).encode())
    StorageLock(storage, _say).close()
    assert storage.files("drivers") == {}


def _interrupt(message: str) -> None:
    raise KeyboardInterrupt


def test_a_storage_that_is_away_is_waited_for(
    bucket: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    whole = Storage.write

    def away(self: Storage, name: str, content: bytes) -> None:
        if name.startswith("journal/") and len(tries) < 3:
            tries.append(name)
            raise StorageError("cannot write: it is away")
        whole(self, name, content)

    tries: list[str] = []
    with RemoteResults(bucket, said.append) as remote:
        monkeypatch.setattr(Storage, "write", away)
        monkeypatch.setattr("gridtune.sweep.remote.results._RETRY_SECONDS", 0.0)
        remote.append(b"line\n")
    assert len(tries) == 3
    assert said == ["cannot write: it is away: waiting; the sweep goes on when it answers, nothing is lost"]
    assert len(storage.files("journal")) == 1


def test_a_bucket_that_is_not_there_ends_it_before_anything_runs(bucket: str) -> None:
    with pytest.raises(StorageError, match=r"cannot (write|list|read) s3://nowhere/run"):
        _sweep("s3://nowhere/run")


def test_the_command_stores_and_says_where(
    bucket: str,
    storage: Storage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(json.dumps(SPACE))
    command = ["sweep", "small.yaml", "--no-tracking", "--executor", "inline", "--out", bucket]
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 0
    assert f"stored at {bucket}" in capsys.readouterr().out
    assert storage.facts("results.parquet") is not None
    assert not (tmp_path / "s3:").exists()
