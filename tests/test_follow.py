"""The way of a search space through a sweep: it is read, checked and planned once, then passed on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "follow"


def test_a_space_climbs_ten_times_at_most() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--limit", "10"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "gridtune.study.run._run" in done.stdout
    assert subprocess.run([sys.executable, SCRIPT, "--limit", "1"], capture_output=True).returncode == 1
