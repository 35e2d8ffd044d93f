"""`scripts/chaos`: random kills of a cluster's parts cost no cell and change no result."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.sweep.spaces import toy_space

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_short_run_loses_nothing(repository: Path, tmp_path: Path) -> None:
    space = tmp_path / "toys.yaml"
    changes = {"dimensions": {"x": list(range(200))}, "replicates": {"seeds": 1}, "fixed": {"nap": 0.2}}
    space.write_text(yaml.safe_dump(toy_space(**changes)))
    command = [str(repository / "scripts" / "chaos"), str(space), "--seconds", "30", "--seed", "1"]
    done = subprocess.run(
        [*command, "--faults", "worker,node,driver"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing lost, nothing twice, the tables of the undisturbed run" in done.stdout
    match = re.search(r"(\d+) faults in \d+ sweeps of 200 cells", done.stdout)
    assert match is not None
    assert int(match[1]) > 0
