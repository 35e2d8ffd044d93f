"""Sweeps at URLs, looked at from elsewhere: status, report, export, compare, dry run, shards and merge."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import gridtune as gt
from gridtune.cli.main import main
from gridtune.errors import StorageError, SweepError
from gridtune.storage import Storage
from gridtune.study.status import sweep_status
from gridtune.sweep.journal.journal import Journal, read_journal
from gridtune.sweep.remote import lock as storage_lock
from gridtune.sweep.remote.results import RemoteResults, has_sweep, sweeps_in, view_sweep
from gridtune.workload.catalogue import cache_folder
from tests.cli.folders import quickstart
from tests.cli.test_status import Driver
from tests.sweep.spaces import content
from tests.tracking.synthetic import cell_results

pytestmark = pytest.mark.integration

SPACE = quickstart(dimensions={"order": ["fcfs", "sjf", "saf"]}, replicates={"windows": 2})
CELLS = 6


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out + said.err


def in_storage(storage: Storage) -> dict[str, bytes]:
    """Every file of a sweep at a URL."""
    folders = ["", "journal", "drivers", *storage.folders()]
    names = [f"{folder}/{name}".lstrip("/") for folder in folders for name in storage.files(folder)]
    return {name: storage.read(name) for name in names}


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(json.dumps(SPACE))
    return tmp_path / "small.yaml"


@pytest.fixture
def swept(bucket: str, storage: Storage, space: Path) -> Iterator[tuple[Path, str]]:
    """The same sweep in a folder and at a URL, of which this machine has nothing."""
    gt.run_sweep(space, directory="here", executor="inline", tracking=False, output="quiet")
    gt.run_sweep(space, directory=bucket, executor="inline", tracking=False, output="quiet")
    shutil.rmtree(cache_folder() / "results")
    before = in_storage(storage)
    yield Path("here"), bucket
    # Nobody who looks changes anything.
    assert in_storage(storage) == before


def test_a_finished_sweep_is_looked_at_as_one_in_a_folder(
    swept: tuple[Path, str], space: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, url = swept
    there = json.loads(run(capsys, "status", url, "--json")[1])
    assert (there["folder"], there["state"], there["complete"]) == (url, "finished", True)
    assert there["counts"] == sweep_status(here).counts

    code, said = run(capsys, "report", url)
    assert code == 0
    assert f"nothing was changed at {url}" in said
    mine, theirs = gt.report_study(here), gt.report_study(url)
    assert content(mine.table) == content(theirs.table)
    assert mine.ranking().equals(theirs.ranking())
    assert theirs.page is not None
    other = gt.report_study(url, objective="utilisation")
    assert other.report_folder.name == "report-utilisation"

    exports = [json.loads(run(capsys, "results", "export", place, "--format", "json")[1]) for place in swept]
    places = [exported["provenance"].pop("folder") for exported in exports]
    assert places == [str(here.resolve()), url]
    assert exports[0]["parameters"] == exports[1]["parameters"]
    assert exports[0]["provenance"]["cells"] == exports[1]["provenance"]["cells"]

    code, said = run(capsys, "compare", here, url)
    assert code == 0
    assert f"{url} compared with here" in said
    assert "equal in 3" in said

    plan = json.loads(run(capsys, "sweep", space, "--dry-run", "--json", "--out", url)[1])
    assert (plan["done"], plan["missing"]) == (CELLS, 0)
    cell = pq.read_table(here / "results.parquet")["cell_id"][0].as_py()
    assert run(capsys, "rerun", cell, url)[0] == 0


@pytest.mark.slow
def test_shards_at_urls_are_merged(
    bucket: str, storage: Storage, space: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = gt.run_sweep(space, directory="whole", executor="inline", tracking=False, output="quiet")
    shards, sweep = f"{bucket}/shards", ["sweep", space, "--executor", "inline", "--shard"]
    assert run(capsys, "sweep", space, "--dry-run", "--out", bucket)[0] == 0
    for number in (1, 2):
        code, said = run(
            capsys,
            "sweep",
            space,
            "--shard",
            f"{number}/3",
            "--out",
            f"{shards}/{number}",
            "--executor",
            "inline",
        )
        assert code == 0
        assert f"in {shards}/{number}" in said
        assert f"gridtune results merge {shards} --out" in said
    # A shard's place is its own.
    code, said = run(capsys, *sweep, "3/3", "--out", f"{shards}/1")
    assert code == 2
    assert "is that of shard 1/3" in said
    shutil.rmtree(cache_folder())

    listed = json.loads(run(capsys, "status", shards, "--json")[1])
    assert [(one["folder"], one["state"]) for one in listed] == [
        (f"{shards}/{number}", "finished") for number in (1, 2)
    ]
    assert f"Sweeps in {shards}/" in run(capsys, "status", shards)[1]

    merge = ["results", "merge", shards, "--out", f"{bucket}/whole", "--no-tracking"]
    code, said = run(capsys, *merge)
    assert code == 1
    assert "2 of 6 cells are missing, those of shard 3/3" in said
    # The rest is run by the command that was named, at the URL.
    assert (
        run(capsys, "sweep", space, "--shard", "3/3", "--out", f"{shards}/3", "--executor", "inline")[0] == 0
    )
    shutil.rmtree(cache_folder())
    code, said = run(capsys, *merge, "--json")
    assert code == 0
    assert json.loads(said)["ran"] == 0
    assert content(gt.report_study(f"{bucket}/whole").table) == content(whole.table)
    # Once more appends nothing.
    segments = list(storage.files("whole/journal"))
    assert run(capsys, *merge)[0] == 0
    assert list(storage.files("whole/journal")) == segments


def test_a_running_sweep_is_followed(
    bucket: str, storage: Storage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(storage_lock, "_BEAT_SECONDS", 0.01)
    with RemoteResults(bucket, print) as remote:
        driver = Driver(remote.folder)
        remote.append((remote.folder / "journal.jsonl").read_bytes())
        starting = sweep_status(bucket)
        assert (starting.state, starting.process) == ("running", os.getpid())
        driver.start()
        remote.started(driver.plan)
        while not (seen := storage_lock.LockSign.latest(storage)) or '"busy": 2' not in seen[0].status:
            pass
        size = (remote.folder / "journal.jsonl").stat().st_size
        driver.journal.append(driver.results[:3])
        remote.append((remote.folder / "journal.jsonl").read_bytes()[size:])
        status = sweep_status(bucket)
        assert (status.state, status.stage, status.busy, status.name) == ("running", "running", 2, "orders")
        assert (status.total, status.counts["done"], status.left) == (12, 3, 9)
        assert status.process == os.getpid()
        driver.end(3, "interrupted")
    status = sweep_status(bucket)
    assert (status.state, status.counts["done"], status.left) == ("interrupted", 3, 0)
    assert run(capsys, "status", bucket)[0] == 1


def beat_from_elsewhere(storage: Storage, **changes: object) -> None:
    """Leave the lock of a driver on another host, as one that was killed there does."""
    status = {
        "schema": 1,
        "name": "orders",
        "process": 7,
        "host": "elsewhere",
        "clock": 1,
        "began": 0.0,
        "total": 12,
        "journal_bytes": 0,
        "beats": True,
    }
    sign = {"process": 7, "host": "elsewhere", "clock": 1, "beats": 1, "status": json.dumps(status)}
    storage.write("drivers/other.json", json.dumps({**sign, **changes}).encode())


@pytest.mark.parametrize(("silence", "state"), [(60.0, "running"), (-1.0, "died")])
def test_a_driver_on_another_host_is_known_by_its_signs(
    silence: float, state: str, bucket: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RemoteResults(bucket, print) as remote, Journal(remote.folder / "journal.jsonl") as journal:
        journal.append(cell_results()[:2])
        remote.append(journal.path.read_bytes())
    beat_from_elsewhere(storage)
    monkeypatch.setattr("gridtune.sweep.execution.status._STALE_SECONDS", silence)
    status = sweep_status(bucket)
    assert (status.state, status.process, status.host) == (state, 7, "elsewhere")
    assert (status.total, status.counts["done"]) == (12, 2)
    # What is no sign is passed over.
    storage.write("drivers/zzz.json", b"[1]")
    assert sweep_status(bucket).state == state


def test_only_new_segments_are_read(bucket: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    whole = Storage.read
    with RemoteResults(bucket, print) as remote, Journal(remote.folder / "journal.jsonl") as journal:
        journal.append(cell_results()[:2])
        remote.append(journal.path.read_bytes())
        with view_sweep(bucket) as view:
            assert len(read_journal(view.folder / "journal.jsonl")) == 2
        size = journal.path.stat().st_size
        journal.append(cell_results()[2:5])
        remote.append(journal.path.read_bytes()[size:])
    monkeypatch.setattr(Storage, "read", lambda self, name="": reads.append(name) or whole(self, name))
    with view_sweep(bucket) as view:
        assert len(read_journal(view.folder / "journal.jsonl")) == 5
    assert [name for name in reads if name.startswith("journal/")] == [
        f"journal/{list(storage.files('journal'))[1]}"
    ]
    # A copy that is not what was read is made again.
    (view.folder / "journal.jsonl").write_bytes(b"x\n")
    with view_sweep(bucket) as view:
        assert len(read_journal(view.folder / "journal.jsonl")) == 5


def test_errors_name_the_url(bucket: str, storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    assert not has_sweep(bucket)
    assert sweeps_in(bucket) == []
    for command in (
        ["status"],
        ["report"],
        ["results", "export"],
        ["results", "rerun", "abcdef"],
        ["results", "merge", "--out", "x"],
    ):
        code, said = run(capsys, *command, bucket)
        assert code == 2
        assert f"{bucket}: no sweep is there" in said
    with pytest.raises(StorageError, match="cannot open unheard-of://x"):
        sweep_status("unheard-of://x")
    with pytest.raises(SweepError, match="s3://nowhere/run: no sweep is there"):
        sweep_status("s3://nowhere/run")
    with RemoteResults(bucket, print) as remote:
        remote.append(b'{"journal":"gridtune","schema":2}\n')
    with pytest.raises(SweepError, match=f"{bucket}: the sweep has no results.parquet yet"):
        gt.report_study(bucket)
    storage.write("journal/00000002-e3b0c44298fc1c14.jsonl", b"other")
    with pytest.raises(
        SweepError, match=f"{bucket}/journal/00000002-e3b0c44298fc1c14.jsonl: has been altered"
    ):
        sweep_status(bucket)
    storage.delete("journal/00000002-e3b0c44298fc1c14.jsonl")
    storage.write("files.json", b"[]")
    with pytest.raises(SweepError, match=f"{bucket}/files.json: is not what a sweep writes"):
        sweep_status(bucket)


def test_files_stay_in_the_copy(bucket: str, storage: Storage) -> None:
    with RemoteResults(bucket, print) as remote:
        remote.append(b'{"journal":"gridtune","schema":2}\n')
    storage.write("files.json", b'{"schedules/../../../evil": "0"}')
    with view_sweep(bucket, "schedules/") as view:
        assert not (view.folder / "../../evil").exists()
