"""The tutorials that need a cluster, followed as a reader would: a Ray of this machine alone, and a Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridtune.sweep.cluster import RAY_ENVIRONMENT
from tests.integration.slurm import own_slurm, why_not
from tests.test_tutorials import environment, folder, follow

__all__ = ["folder"]

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_tutorial_on_clusters_can_be_followed(repository: Path, folder: Path) -> None:
    own = {name: value for name, value in environment(folder).items() if not name.startswith("RAY_")}
    # However long Ray takes to start on a busy machine.
    patience = {name: value for name, value in RAY_ENVIRONMENT.items() if name.startswith("RAY_")}
    follow(repository / "docs" / "tutorials" / "cluster.md", folder, own | patience, on_a_cluster=True)


def test_the_tutorial_on_slurm_can_be_followed(repository: Path, folder: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    page = repository / "docs" / "tutorials" / "slurm.md"
    with own_slurm() as slurm:
        reader = environment(folder)
        path = f"{reader['PATH']}{os.pathsep}{slurm.environment['PATH']}"
        follow(page, folder, {**slurm.environment, **reader, "PATH": path}, on_a_cluster=True)
