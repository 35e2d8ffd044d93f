"""`scripts/chaos`: random kills of a cluster's parts cost no cell and change no result."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sweep.spaces import toy_space

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


def chaos(repository: Path, folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Run it on 300 cells; return its exit code, its last line, and what else it printed."""
    space = folder / "toys.yaml"
    changes = {"dimensions": {"x": list(range(300))}, "replicates": {"seeds": 1}, "fixed": {"nap": 0.1}}
    space.write_text(yaml.safe_dump(toy_space(**changes)))
    command = [str(repository / "scripts" / "chaos"), str(space), "--seed", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


def test_two_short_runs_side_by_side_lose_nothing(repository: Path, tmp_path: Path) -> None:
    kinds = ["worker", "stall", "node", "driver"] + ["disk"] * (os.geteuid() == 0)
    logs = tmp_path / "logs"
    options = ["--kinds", ",".join(kinds), "--faults", "20", "--runs", "2", "--logs", str(logs)]
    code, last, output = chaos(repository, tmp_path, *options)
    assert code == 0, output
    assert (last["total"], last["seeds"], last["equal"], last["cells"]) == (20, [1, 2], True, 300), output
    assert (last["lost"], last["twice"], last["unfinished"], last["problems"]) == (0, 0, 0, []), output
    assert last["sweeps"] >= 2
    assert (logs / "seed-2" / "sweeps" / "sweep-0" / "journal.jsonl").exists()


def test_heads_that_die_are_replaced(repository: Path, tmp_path: Path) -> None:
    code, last, output = chaos(repository, tmp_path, "--kinds", "head", "--faults", "1")
    assert code == 0, output
    assert (last["faults"], last["lost"], last["twice"], last["equal"]) == ({"head": 1}, 0, 0, True), output
