"""Examples in one file run as a reader would run them, with a small budget."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_stable_baselines3_trains_an_environment_of_ours(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="it is not installed: pip install stable-baselines3")
    script = repository / "examples" / "dispatch_stable_baselines3.py"
    command = [sys.executable, str(script), "--steps", "2048", "--batches", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    values = {
        name.strip(): float(value)
        for name, value in re.findall(r"^(.+?)\s+(-?\d+\.\d+) ±", done.stdout, re.MULTILINE)
    }
    assert values.keys() == {"in turn", "earliest end", "PPO, 2,048 steps"}
    assert all(value < 0 for value in values.values())
    assert values["earliest end"] > values["in turn"]


def test_rllib_takes_no_action_that_the_mask_forbids(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray.rllib", reason="RLlib is not installed: scripts/setup agents")
    told = tmp_path / "told.py"
    told.write_text(
        "import gymnasium as gym, runpy, sys\n"
        "class Told(gym.wrappers.TransformObservation):\n"
        "    def reset(self, **options):\n"
        "        self.seen, info = super().reset(**options)\n"
        "        return self.seen, info\n"
        "    def step(self, action):\n"
        "        assert self.seen['action_mask'][action] == 1, 'a slot without a job'\n"
        "        self.seen, *others = super().step(action)\n"
        "        return self.seen, *others\n"
        "gym.wrappers.TransformObservation = Told\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    script = repository / "examples" / "rllib_action_masks.py"
    command = [sys.executable, str(told), str(script), "--jobs", "64", "--iterations", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1]) < 0


def test_a_program_that_writes_schedulers_gets_a_score(repository: Path, tmp_path: Path) -> None:
    def evaluated(program: Path) -> dict[str, Any]:
        command = [sys.executable, str(folder / "evaluator.py"), str(program), "--seed", "3"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        content: dict[str, Any] = json.loads(done.stdout)
        return content

    folder = repository / "examples" / "evolve"
    first = evaluated(folder / "initial_program.py")
    assert "error" not in first
    assert -100 < first["combined_score"] < first["gain_of_rollout"]
    assert len(first["gains"]) == 3
    cheat = tmp_path / "cheat.py"
    text = (folder / "initial_program.py").read_text()
    cheat.write_text(text.replace("job.walltime", "job.run_time"))
    found = evaluated(cheat)
    assert found["combined_score"] == -100
    assert "run_time" in found["error"]
