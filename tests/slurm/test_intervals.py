"""Intervals of predicted changes: they hold what a second run of a Slurm does, and are never absurd."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.slurm_intervals import differences
from gridtune.core.remarks import RECORDED
from gridtune.slurm.comparison import Comparison, LoggedJobs, reach_of
from gridtune.slurm.requests import Request
from gridtune.systems.slurm.system import SlurmSystem

COUNT = 50


def comparison(
    before: np.ndarray, after: np.ndarray, recorded: float = 1000, replicate: str = "draw"
) -> Comparison:
    """Compare replays of some jobs that all waited the same."""
    requests = tuple(Request(k, k, 600, 3600, user="ann", tasks=1) for k in range(COUNT))
    waits = np.full(COUNT, recorded, np.int64)
    jobs = LoggedJobs(requests, np.arange(COUNT), waits, {}, {}, replicate, np.zeros(COUNT, np.int64))
    return Comparison(jobs, *(np.tile(means[:, None], COUNT) for means in (before, after)))


def ends(compared: Comparison, low: float = 0.0, high: float = 0.0) -> tuple[float, float]:
    """Return the interval of all jobs, from one over weeks."""
    relative = np.array([compared.after.mean() / compared.before.mean() - 1])
    below, above = compared.predicted(relative, np.array([low]), np.array([high]))
    return float(below[0]), float(above[0])


def test_replays_that_agree_leave_the_spread_of_two_runs() -> None:
    waits = np.full(8, 1000.0)
    low, high = ends(comparison(waits, 0.5 * waits))
    assert -0.7 < low < -0.55
    assert -0.45 < high < -0.3


def test_an_interval_grows_with_the_error_on_recorded_waits() -> None:
    waits = np.full(8, 1000.0)
    near, far, unknown = (ends(comparison(waits, waits, recorded))[1] for recorded in (1000, 700, -1))
    assert near < far
    assert near < unknown


def test_an_interval_covers_weeks_and_runs() -> None:
    waits = np.full(8, 1000.0)
    single = ends(comparison(waits, waits))
    weeks = ends(comparison(waits, waits, replicate="week"), -0.2, 0.25)
    assert weeks[0] < min(single[0], -0.2)
    assert weeks[1] > max(single[1], 0.25)


def test_sweeps_have_the_reach_of_a_whatif() -> None:
    before, after = np.linspace(900, 1100, 8), np.linspace(700, 500, 8)
    compared, system = comparison(before, after, recorded=1200), SlurmSystem()
    jobs = np.full((2, 8), float(COUNT))
    notes = [{RECORDED: {"by_class": {"": [COUNT, 1200 * COUNT], "wide": [0, 0]}}}] * 16
    pair = np.array([[before, after], jobs])
    causes = compared.causes(np.arange(COUNT))
    assert system.reach("wait_mean", pair, notes, False) == pytest.approx(reach_of(causes))
    # Windows are parts of one run: their clocks are drawn one by one.
    whole = reach_of(np.array([0, causes[1] / 8, causes[2]]))
    assert system.reach("wait_mean", pair, notes, True) == pytest.approx(whole)
    unknown = system.reach("wait_mean[wide]", pair, notes, False)
    assert unknown == pytest.approx(reach_of(np.array([*causes[:2], 0.3**2])))
    assert system.reach("wait_max", pair, notes, False) == 0
    assert system.reach("wait_mean", pair * [[[1]], [[0]]], notes, False) == 0


def test_three_draws_give_no_absurd_interval() -> None:
    low, high = ends(comparison(np.array([1.0, 2, 9000]), np.array([1.0, 4000, 5])))
    assert -1 < low < 0 < high < 100


def test_waits_that_end_are_shown() -> None:
    assert ends(comparison(np.full(8, 1000.0), np.zeros(8))) == (-1, -1)


@pytest.mark.slow
def test_intervals_hold_the_differences_of_recorded_runs(golden_dir: Path, tmp_path: Path) -> None:
    runs = golden_dir / "slurm"
    pairs = [("d24_mf1", "d24_wibf"), ("d26_mf1", "d24_wibf"), ("mf1", "d24_wibf"), ("d26_mf1", "bf1")]
    if not all((runs / run).is_dir() for pair in pairs for run in pair):
        pytest.skip("no runs of a real Slurm")
    found = []
    for before, after in pairs:
        for run in (before, after):
            # The older runs have no table of QOS.
            shutil.copytree(runs / run, tmp_path / run, dirs_exist_ok=True)
            shutil.copy(runs / "wi_bf" / "sacctmgr_qos.txt", tmp_path / run)
        answer, some = differences(tmp_path / before, tmp_path / after, 20)
        assert answer.trust.level == "yes"
        assert some[0].inside, some[0]
        found += some
    assert len(found) >= 60
    assert np.mean([one.inside for one in found]) >= 0.9
    assert np.mean([one.reach < 0.3 for one in found]) >= 0.5
