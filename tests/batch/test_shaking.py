"""Shaken runs: how much of a metric is an accident of the log."""

from __future__ import annotations

import numpy as np
import pytest

import gridtune as gt
from gridtune.batch.shaking import shaken_metrics
from gridtune.errors import SimulationError
from gridtune.statistics import mean_interval


@pytest.fixture(scope="module")
def log() -> gt.Workload:
    return gt.generate_workload("lublin", jobs=400, seed=2, processors=64, load=0.9)


def test_each_run_is_one_of_a_shaken_log(log):
    spread = shaken_metrics(log, replicates=3, amount=30, seed=5, only=["wait_mean"], order="sjf")[
        "wait_mean"
    ]
    shaken = [log.shake(30, np.random.default_rng([5, number, 0])) for number in range(3)]
    waits = [gt.evaluate(gt.simulate(jobs, order="sjf"))["wait_mean"] for jobs in shaken]
    assert spread.values.tolist() == waits
    assert len(set(waits)) == 3
    interval = mean_interval(waits)
    assert (spread.low, spread.high) == (interval.low, interval.high)
    assert spread.low < spread.mean < spread.high
    assert spread.range == (min(waits), max(waits))


def test_policies_meet_the_same_moves(log):
    runs = [
        shaken_metrics(log, replicates=2, only=["makespan"], order="random")["makespan"] for _ in range(2)
    ]
    assert runs[0].values.tolist() == runs[1].values.tolist()


def test_a_metric_that_is_not_defined_has_no_interval(log):
    plain = gt.Workload(
        {name: log.columns[name] for name in ("submit_time", "run_time")}, machine_processors=8
    )
    spread = shaken_metrics(plain, replicates=2)["users"]
    assert spread.values.tolist() == [0, 0]
    unfair = shaken_metrics(plain, replicates=2)
    assert any(np.isnan(spread.mean) and np.isnan(spread.low) for spread in unfair.values())


@pytest.mark.parametrize("faulty", [{"replicates": 1}, {"amount": 0}, {"backfill": "nearly"}])
def test_what_makes_no_sense_is_refused(log, faulty):
    with pytest.raises((SimulationError, gt.GridtuneError)):
        shaken_metrics(log, **faulty)
