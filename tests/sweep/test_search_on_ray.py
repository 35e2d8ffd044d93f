"""Adaptive searches on a real Ray: the same cells with any workers, after deaths and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.run import run_space
from tests.sweep.spaces import content, runs_in, toy_space

pytestmark = pytest.mark.integration

#: Half a processor each, so that three workers fit on two.
SPACE: dict[str, Any] = {
    "dimensions": {"x": {"uniform": [0, 10]}, "depth": [1, 3, 9]},
    "resources": {"cpus": 0.5},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "optuna": {"strategy": {"optuna": {"trials": 24, "seed": 1, "parallel": 4}}},
    "asha": {"strategy": {"asha": {"trials": 12, "seed": 1, "parallel": 4, "resource": "depth"}}},
    "asha over replicates": {
        "strategy": {"asha": {"trials": 9, "seed": 1, "parallel": 4}},
        "replicates": {"seeds": 4},
    },
}


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_any_number_of_workers_gives_the_same_table(strategy: str, tmp_path: Path) -> None:
    space = toy_space(**SPACE, **STRATEGIES[strategy])
    # Every strategy proposes through the same code: one of them is tried with fewer workers too.
    workers = (1, 2, 3) if strategy == "asha" else (3,)
    results = [run_space(space, directory=tmp_path / str(n), workers=n) for n in workers]
    inline = run_space(space, directory=tmp_path / "inline", executor="inline")
    first = content(inline.table)
    assert inline.complete
    assert all(content(result.table) == first for result in results)
    assert run_space(space, directory=tmp_path / "3").ran == 0


@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
def test_workers_that_die_cost_no_cell_and_change_no_proposal(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "dimensions": {"x": {"uniform": [0, 10]}, "kind": {"choice": ["good", "dies-once"]}},
        "strategy": {"optuna": {"trials": 4, "seed": 3, "parallel": 3}},
        "replicates": {"seeds": 1},
    }
    notebooks = [tmp_path / name for name in ("first", "second")]
    for notebook in notebooks:
        notebook.mkdir()
    spaces = [toy_space(notebook, **changes) for notebook in notebooks]
    results = [
        run_space(space, directory=tmp_path / f"out-{n}", workers=n + 1) for n, space in enumerate(spaces)
    ]
    assert all(result.complete for result in results)
    points = [sorted(str(c.configuration["x"]) for c in result.results) for result in results]
    assert points[0] == points[1]
    kinds = {cell.configuration["kind"] for cell in results[0].results}
    assert kinds == {"good", "dies-once"}
    again = runs_in(notebooks[1])
    assert all(count == 1 for page, count in again.items() if "good" in page)


SWEEP = """
import sys
from gridtune.sweep.run import run_space
run_space(sys.argv[1], directory=sys.argv[2], workers=2)
"""


def lines(path: Path) -> Sequence[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
def test_killed_half_way_and_resumed_it_is_as_if_undisturbed(tmp_path: Path) -> None:
    changes = {**SPACE, **STRATEGIES["asha"], "fixed": {"nap": 0.02}}
    space = toy_space(**{**changes, "resources": {}})
    (tmp_path / "space.yaml").write_text(yaml.safe_dump({**space, "name": "killed"}))
    journal = tmp_path / "killed" / "journal.jsonl"
    command = [sys.executable, "-c", SWEEP, str(tmp_path / "space.yaml"), str(tmp_path / "killed")]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE)
    while len(lines(journal)) < 30 and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = set(read_journal(journal))
    assert before
    resumed = run_space(space, directory=tmp_path / "killed", workers=1)
    undisturbed = run_space(space, directory=tmp_path / "whole", workers=2)
    assert len(resumed.results) - resumed.ran == len(before) < len(undisturbed.results)
    assert content(resumed.table) == content(undisturbed.table)
