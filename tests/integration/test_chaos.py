"""`scripts/chaos`: random kills of a cluster's parts cost no cell and change no result."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.sweep.spaces import toy_space

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_short_run_loses_nothing(repository: Path, tmp_path: Path) -> None:
    space = tmp_path / "toys.yaml"
    changes = {"dimensions": {"x": list(range(300))}, "replicates": {"seeds": 1}, "fixed": {"nap": 0.1}}
    space.write_text(yaml.safe_dump(toy_space(**changes)))
    kinds = ["worker", "stall", "node", "driver"] + ["disk"] * (os.geteuid() == 0)
    command = [str(repository / "scripts" / "chaos"), str(space), "--seed", "1", "--kinds", ",".join(kinds)]
    done = subprocess.run(
        [*command, "--faults", "20"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(
        r"20 faults in \d+ sweeps of 300 cells, seed 1: 0 cells lost, 0 twice, 0 tables not as", done.stdout
    )
