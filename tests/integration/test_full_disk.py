"""A sweep on a cluster whose results lie on a disk that fills up: it waits for room, and nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.ray_nodes import own_nodes
from tests.integration.processes import wait_for
from tests.integration.test_nodes import CELLS, Sweep

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 MB, on which a sweep's folder is."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    (tmp_path / "out").symlink_to(folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_waited_for(disk: Path, tmp_path: Path) -> None:
    with own_nodes() as nodes:
        nodes.add(1)
        sweep = Sweep(nodes, tmp_path)
        wait_for("the first cells", lambda: sweep.done() >= 5)
        (disk / "ballast").write_bytes(bytes(shutil.disk_usage(disk).free))
        sweep.gate.touch()
        assert sweep.process.stderr is not None
        while "full" not in (line := sweep.process.stderr.readline()):
            assert line, "it ended"
        before = sweep.done()
        (disk / "ballast").unlink()
        report = sweep.finish()
        assert before < CELLS
        assert report["done"] == CELLS
