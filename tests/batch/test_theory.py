"""Queueing theory as an independent oracle: waits of serial jobs on c processors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gridtune as gt


def erlang_c(servers: int, load: float) -> float:
    """Return the probability of waiting in M/M/c with `load` = arrival rate × mean service."""
    terms = [load**k / math.factorial(k) for k in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last)


@pytest.mark.parametrize("servers", [1, 4, 16])
@pytest.mark.parametrize("order", ["fcfs", "random"])
def test_mean_wait_of_mmc(servers, order):
    # Mean wait of M/M/c does not depend on the order, as long as that ignores the service time.
    # 60 batch means give a standard error of the mean; the bound of four of them is met by chance in all
    # but one of 15,000 such comparisons, and the seed is fixed.
    utilisation, mean_service = 0.7, 10_000
    workload = gt.generate_workload(
        "poisson", jobs=240_000, seed=11, processors=servers, load=utilisation, mean_run_time=mean_service
    )
    schedule = gt.simulate(
        workload, order=order, backfill="none", walltime="exact", rng=np.random.default_rng(5)
    )
    load = servers * utilisation
    expected = erlang_c(servers, load) * mean_service / (servers - load)
    waits = schedule.wait_time[20_000:].astype(float)
    batches = waits[: len(waits) // 55 * 55].reshape(55, -1).mean(axis=1)
    error = batches.std(ddof=1) / math.sqrt(len(batches))
    assert abs(waits.mean() - expected) < 4 * error
    assert error < 0.06 * expected, "the interval is too wide to say anything"


def test_deterministic_service_halves_the_wait():
    # M/D/1: half the wait of M/M/1 (Pollaczek and Khinchine).
    workload = gt.generate_workload(
        "poisson", jobs=240_000, seed=3, processors=1, load=0.6, mean_run_time=10_000, service="deterministic"
    )
    waits = gt.simulate(workload, backfill="none", walltime="exact").wait_time[20_000:].astype(float)
    expected = 0.6 / (2 * 0.4) * 10_000
    batches = waits[: len(waits) // 55 * 55].reshape(55, -1).mean(axis=1)
    assert abs(waits.mean() - expected) < 4 * batches.std(ddof=1) / math.sqrt(55)


def test_shortest_first_beats_fcfs_when_run_times_are_known():
    workload = gt.generate_workload("poisson", jobs=50_000, seed=2, processors=4, load=0.9)
    waits = {
        order: gt.simulate(workload, order=order, backfill="none", walltime="exact").wait_time.mean()
        for order in ("sjf", "fcfs", "ljf")
    }
    assert waits["sjf"] < waits["fcfs"] < waits["ljf"]
