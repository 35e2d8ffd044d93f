"""Runs of three releases of Slurm, made by `scripts/slurm_farm`, one decision at a time.

Each folder in `runs` is what `scripts/slurm_farm --compact` keeps of one; its slurm.conf names its features.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.slurm_agreement import judge_run

RUNS = Path(__file__).parent / "runs"
#: Per cent at least: priorities, passes, plans in time, plans on the same nodes.
AIMS = {"priority_equal": 99.5, "passes_equal": 99.0, "plans_within_5s": 98.5, "plans_same_nodes": 98.5}
#: The same for runs of which fewer plans agree, with the reason.
FEWER = {
    # Jobs that would suspend others are planned on nodes of both.
    "26.05-suspend-topology-nested": {"plans_within_5s": 85.0, "plans_same_nodes": 85.0},
    "22.05-one-task-licences-cancel": {"plans_within_5s": 97.0, "plans_same_nodes": 97.0},
    "22.05-core-partitions-weights-holds": {"plans_within_5s": 97.0, "plans_same_nodes": 97.0},
}


@pytest.mark.parametrize("run", sorted(path.name for path in RUNS.iterdir()))
def test_decisions_are_those_of_a_real_slurm(run: str) -> None:
    figures = judge_run(RUNS / run, draws=0)
    # Limits that backfill shortened are those recorded.
    aims = AIMS | FEWER.get(run, {}) | ({"limits_equal": 99.5} if "times" in run else {})
    below = {name: figures[name] for name, aim in aims.items() if figures[name] < aim}
    assert not below, figures["first_difference"]


def test_no_run_is_larger_than_100_kilobytes() -> None:
    sizes = {run.name: sum(path.stat().st_size for path in run.iterdir()) for run in RUNS.iterdir()}
    assert max(sizes.values()) <= 100_000, sizes
