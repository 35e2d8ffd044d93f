"""The tutorials that need a cluster, followed as a reader would: a Ray of this machine alone, and a Slurm."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from gridtune.sweep.execution.cluster import RAY_ENVIRONMENT
from tests.integration.slurm import own_slurm, why_not
from tests.test_tutorials import environment, folder, follow

__all__ = ["folder"]

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_tutorial_on_clusters_can_be_followed(repository: Path, folder: Path) -> None:
    own = {name: value for name, value in environment(folder).items() if not name.startswith("RAY_")}
    # However long Ray takes to start on a busy machine.
    patience = {name: value for name, value in RAY_ENVIRONMENT.items() if name.startswith("RAY_")}
    page = repository / "docs" / "tutorials" / "cluster.md"
    # A folder of its own: in Ray's usual one the head leaves its address, and later scripts here would look
    # for it. A short one, since Ray's sockets lie in it.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as rays:
        follow(page, folder, own | patience | {"RAY_TMPDIR": rays}, on_a_cluster=True)


def test_the_tutorial_on_slurm_can_be_followed(repository: Path, folder: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    page = repository / "docs" / "tutorials" / "slurm.md"
    with own_slurm() as slurm:
        reader = environment(folder)
        path = f"{reader['PATH']}{os.pathsep}{slurm.environment['PATH']}"
        follow(page, folder, {**slurm.environment, **reader, "PATH": path}, on_a_cluster=True)
