"""A sweep in a folder that machines share by NFS: locks reach other mounts, and results are the usual ones.

It needs an NFS server on this host that exports the folder named by `GRIDTUNE_NFS_EXPORT`, such as `/srv/nfs`
(with `no_root_squash`), and the right to mount it: each of two mounts is then as a machine of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import gridtune as gt
from gridtune.errors import SweepError
from gridtune.study.status import sweep_status
from gridtune.sweep.journal.journal import Journal, read_journal
from tests.sweep.spaces import content, toy_space
from tests.tracking.synthetic import cell_results

pytestmark = pytest.mark.integration


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The same exported folder, mounted twice."""
    export = os.environ.get("GRIDTUNE_NFS_EXPORT")
    if export is None:
        pytest.skip("no export of an NFS server on this host is named: set GRIDTUNE_NFS_EXPORT")
    if shutil.which("mount.nfs") is None:
        pytest.skip("mount.nfs is not installed")
    places, mounted = [tmp_path / name for name in ("one", "other")], []
    try:
        for place in places:
            place.mkdir()
            command = ["mount", "-t", "nfs4", "-o", "nosharecache", f"127.0.0.1:{export}", str(place)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"the export cannot be mounted: {done.stderr.strip()}")
            mounted.append(place)
        name = uuid.uuid4().hex
        (places[0] / name).mkdir()
        yield places[0] / name, places[1] / name
        shutil.rmtree(places[0] / name)
    finally:
        for place in mounted:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_one_driver_writes_and_all_see_it(mounts: tuple[Path, Path]) -> None:
    one, other = mounts
    with Journal(one / "journal.jsonl") as journal:
        journal.append(cell_results()[:2])
        with pytest.raises(SweepError, match="process"):
            Journal(other / "journal.jsonl")
        assert sweep_status(other).state == "running"
    with Journal(other / "journal.jsonl") as journal:
        assert len(journal.results) == 2


def test_a_sweep_goes_on_at_the_other_mount(mounts: tuple[Path, Path], tmp_path: Path) -> None:
    one, other = mounts
    space = toy_space(replicates={"seeds": 2})
    options = {"executor": "inline", "tracking": False, "output": "quiet"}
    first = gt.run_sweep(space, directory=one, **options)  # type: ignore[arg-type]
    again = gt.run_sweep(space, directory=other, **options)  # type: ignore[arg-type]
    usual = gt.run_sweep(space, directory=tmp_path / "here", **options)  # type: ignore[arg-type]
    assert again.sweep is not None
    assert again.sweep.ran == 0
    assert content(first.table) == content(again.table) == content(usual.table)
    assert read_journal(other / "journal.jsonl").keys() == read_journal(one / "journal.jsonl").keys()
