"""A training whose learner and RLlib's runners are on three nodes: one placement group, a process on each.

The group has the only processor of every node, so no runner could be outside of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.ray_nodes import Nodes, own_nodes
from gridtune.sweep.journal.journal import read_journal
from tests.training.test_cells import TRAINING

pytest.importorskip("torch")
pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

RUNNERS = 2
#: Prints the actors that the cluster has had, each with the node that it was on.
ACTORS = """
import json, ray
from ray._private.state import actors
ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
print(json.dumps([[actor["ActorClassName"], actor["Address"]["NodeID"]] for actor in actors().values()]))
"""


def actors_of(nodes: Nodes) -> list[tuple[str, str]]:
    """Return the class of each actor and its node."""
    program = ACTORS.replace("auto", nodes.address)
    done = subprocess.run(
        [sys.executable, "-c", program], env=nodes.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [(name, node) for name, node in json.loads(done.stdout.splitlines()[-1])]


@pytest.mark.parametrize(
    "strategy", ["grid", {"train": {"trials": 1, "iterations": 1}}], ids=["grid", "train"]
)
def test_a_trainings_learner_and_runners_share_three_nodes(tmp_path: Path, strategy: Any) -> None:
    space = {
        "name": "runners",
        "system": "shutdown/ppo",
        "fixed": TRAINING if "train" in strategy else TRAINING | {"iterations": 1},
        "dimensions": {"runners": [RUNNERS]},
        "strategy": strategy,
        "replicates": {"seeds": 1},
        "objective": "energy_waste_per_day",
    }
    (tmp_path / "runners.yaml").write_text(yaml.safe_dump(space))
    with own_nodes() as nodes:
        for number in range(1 + RUNNERS):
            # Where the cell's process looks for a training that it could go on with.
            nodes.add(1, ready=number == 0, GRIDTUNE_TRAININGS=str(tmp_path / "trainings"))
        nodes.wait_for_start()
        command = [sys.executable, "-m", "gridtune", "sweep", str(tmp_path / "runners.yaml"), "--no-tracking"]
        command += ["--address", nodes.address, "--out", str(tmp_path / "out")]
        done = subprocess.run(command, env=nodes.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (result,) = read_journal(tmp_path / "out" / "journal.jsonl").values()
        assert result.state == "done", result.error
        actors = actors_of(nodes)
    runners = [node for name, node in actors if name == "_RolloutRunner"]
    learners = [node for name, node in actors if "Simulator" in name or "ResourceTrainable" in name]
    assert len(runners) == RUNNERS, actors
    assert len(learners) == 1, actors
    assert len({*runners, *learners}) == 1 + RUNNERS
