"""The scripts on docs/agents.md: RLlib's own PPO trains in every environment, and RLlib plays checkpoints."""

from __future__ import annotations

import math
import re
import runpy
import sys

import pytest

from gridtune.core.cells import validated
from gridtune.core.system import SYSTEMS, get_system
from gridtune.sweep.space.plan import Workloads
from gridtune.training.system import TrainingRun

pytestmark = pytest.mark.integration

#: Whether an episode ends within 500 steps.
ENVIRONMENTS = {
    "Batch-v0": True,
    "Dispatch-v0": True,
    "Provisioning-v0": True,
    "Responsive-v0": True,
    "Shutdown-v0": False,
}


@pytest.fixture
def run_script(repository, tmp_path, monkeypatch, capsys, cluster):
    """Run a script of the page; return the lines that it prints."""

    def run(name, *arguments):
        page = (repository / "docs" / "agents.md").read_text(encoding="utf-8")
        script = tmp_path / name
        (code,) = re.findall(rf"```python\n# {name}\n(.*?)```", page, re.DOTALL)
        script.write_text(code, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        capsys.readouterr()
        runpy.run_path(str(script), run_name="__main__")
        return capsys.readouterr().out.split()

    return run


def test_every_environment_is_trained_in() -> None:
    assert {name for system in SYSTEMS.values() for name in system.environments} == set(ENVIRONMENTS)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.startswith("Dispatch") else pytest.mark.slow)
        for name in ENVIRONMENTS
    ],
)
def test_ppo_of_rllib_trains(name, run_script) -> None:
    (printed,) = run_script("stock_ppo.py", name, "1")
    assert math.isfinite(float(printed)) if ENVIRONMENTS[name] else printed == "None"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("shutdown/ppo", {"trace": "orion_days", "cluster": "orion", "first": 20, "steps": 48}),
        pytest.param(
            "responsive/esnq", {"trace": "egee", "first": 700, "neurons": 10}, marks=pytest.mark.slow
        ),
    ],
)
def test_rllib_plays_a_checkpoint(name, parameters, run_script, tmp_path) -> None:
    training, workloads = get_system(name), Workloads()
    run = TrainingRun(
        training, validated(training, {**parameters, "iterations": 1}), seed=1, load=workloads.load
    )
    run.step()
    run.save(tmp_path / "checkpoint")
    run.close()
    (printed,) = run_script("play.py", str(tmp_path / "checkpoint"))
    assert math.isfinite(float(printed))
    assert float(printed) != 0
