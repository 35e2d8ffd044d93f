"""The way of a search space through a sweep: it is read, checked and planned once, then passed on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "follow"


def climb_at_most(limit: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--limit", str(limit)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_space_climbs_a_few_times_at_most() -> None:
    done = climb_at_most(10)
    assert done.returncode == 0, done.stdout
    assert "gridtune.study.run._run" in done.stdout
    assert climb_at_most(1).returncode == 1
