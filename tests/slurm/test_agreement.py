"""The model against runs of a real Slurm, of three releases, one decision at a time."""

from __future__ import annotations

import pytest

from benchmarks.slurm_agreement import free_run, judge_run
from benchmarks.slurm_runs import read_run

#: Per cent, at least: priorities, passes, plans in time, plans on the same nodes.
AIMS = {"priority_equal": 100.0, "passes_equal": 95.0, "plans_within_5s": 99.0, "plans_same_nodes": 98.0}
#: Long ones, of each release.
LONG = ("pre1", "mf1", "bf1", "wgt1", "d24_mf1", "d26_mf1", "d26_pre")


@pytest.mark.parametrize(
    "run",
    [
        *("wi_bf", "rtmf1", "rtbf1", "fcfs1", "lim1", "d24_wibf"),
        *(pytest.param(run, marks=pytest.mark.slow) for run in LONG),
    ],
)
def test_decisions_are_those_of_a_real_slurm(golden_dir, run):
    folder = golden_dir / "slurm" / run
    if not folder.is_dir():
        pytest.skip(f"no run {run} of a real Slurm")
    figures = judge_run(folder, draws=0)
    for name, aim in AIMS.items():
        assert figures[name] is None or figures[name] >= aim, (name, figures)


#: Mean wait and makespan of a free run, within per cent: twice the spread of the real runs' repeats, or 3.
SPREADS = {"mf1": (3, 11.2), "bf1": (13, 3), "wi_bf": (4, 3), "fcfs1": (3, 3), "wgt1": (3, 3), "pre1": (3, 5)}


@pytest.mark.parametrize("run", SPREADS)
def test_free_runs_wait_as_long_as_a_real_slurm(golden_dir, run):
    folder = golden_dir / "slurm" / run
    if not folder.is_dir():
        pytest.skip(f"no run {run} of a real Slurm")
    figures = free_run(read_run(folder), draws=20)
    wait, makespan = SPREADS[run]
    assert figures["wait_mean_simulated"] == pytest.approx(figures["wait_mean"], rel=wait / 100)
    assert figures["makespan_simulated"] == pytest.approx(figures["makespan"], rel=makespan / 100)
