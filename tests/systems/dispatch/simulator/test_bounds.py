"""Lower bounds: against every schedule of a few jobs, by hand, and below whatever a rule reaches."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.systems.dispatch.simulator.bounds import lower_bounds
from gridtune.systems.dispatch.simulator.model import Changes, DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import RULES, dispatch
from gridtune.systems.dispatch.simulator.site import FAILURE
from tests.conftest import examples
from tests.systems.dispatch.simulator.test_twin import FACTORS, cases, make_jobs

#: A failure long after the last job: machines that change have the relaxed bound alone.
FAR_FAILURE = Changes(np.array([10**9]), np.array([0]), np.array([FAILURE]), np.zeros(1))


def best_of_all(jobs: DispatchJobs, machines: Machines) -> tuple[float, float]:
    """The least mean response time and the least mean tardiness over all sequences on all processors."""
    processors = np.repeat(machines.factor, machines.cpus)
    count, response, tardiness = len(jobs), np.inf, np.inf
    for places in itertools.product(range(len(processors)), repeat=count):
        for order in itertools.permutations(range(count)):
            free, ends = np.zeros(len(processors), np.int64), np.zeros(count, np.int64)
            for job in order:
                place = places[job]
                seconds = max(1, round(int(jobs.length[job]) * processors[place]))
                ends[job] = free[place] = max(free[place], jobs.submit[job]) + seconds
            response = min(response, float((ends - jobs.submit).mean()))
            tardiness = min(tardiness, float(np.maximum(0, ends - jobs.deadline).mean()))
    return response, tardiness


@pytest.mark.parametrize("seed", range(12))
def test_of_a_few_jobs_the_bound_is_the_optimum(seed):
    rng = np.random.default_rng(seed)
    jobs = make_jobs(rng, 5, int(rng.choice([0, 15, 40])), 0.5)
    machines = Machines(rng.choice(FACTORS, 2), np.array([1, 1 + seed % 2]))
    exact = best_of_all(jobs, machines)
    assert lower_bounds(jobs, machines) == pytest.approx(exact)
    relaxed = lower_bounds(jobs, dataclasses.replace(machines, changes=FAR_FAILURE))
    assert relaxed[0] <= exact[0] + 1e-9
    assert relaxed[1] <= exact[1] + 1e-9


def test_one_processor_by_hand():
    """Jobs of 10, 4, 2 s at 0, 1, 2 s: preempted they end after 2 … 4, 7, 16 s; alone after 4, 5, 10 s."""
    length, submit = np.array([10, 4, 2]), np.array([0, 1, 2])
    jobs = DispatchJobs(submit, length, length, np.array([9, 9, 9]), np.zeros(3, np.int64))
    machines = Machines(np.ones(1), np.ones(1, np.int64), FAR_FAILURE)
    # Ends 4, 7, 16: the second job runs from 1 on, the third interrupts it.
    assert lower_bounds(jobs, machines) == pytest.approx(((4 + 7 + 16 - 3) / 3, 7 / 3))
    # Two machines together are twice as fast, but nobody runs on both: 2, 4 and 10 s at least.
    both = Machines(np.ones(2), np.ones(2, np.int64), FAR_FAILURE)
    assert lower_bounds(jobs, both) == pytest.approx(((4 + 5 + 10 - 3) / 3, 1 / 3))


@given(cases(), st.sampled_from(sorted(RULES)), st.sampled_from([0, 3]))
@examples(150)
def test_no_rule_falls_below(case, rule, every):
    jobs, machines = case
    options = {"rule": rule, "repair_every": 0 if rule == "shared_queue" else every}
    outcome = dispatch(jobs, machines, rng=np.random.default_rng(0), **options)
    bound = lower_bounds(jobs, machines)
    if len(jobs) == 0:
        assert np.isnan(bound).all()
        return
    assert bound[0] <= (outcome.finish - jobs.submit).mean() + 1e-9
    assert bound[1] <= np.maximum(0, outcome.finish - jobs.deadline).mean() + 1e-9


def test_the_bound_knows_of_failures_and_of_learning_jobs():
    rng = np.random.default_rng(2)
    jobs = make_jobs(rng, 80, 100, 0.0)
    up = Machines(np.ones(2), np.ones(2, np.int64))
    failing = Machines(up.factor, up.cpus, Changes.of_failures(2, 2000, 50.0, 100.0, rng))
    assert lower_bounds(jobs, failing)[0] > lower_bounds(jobs, up)[0]
    batch = np.where(np.arange(80) < 40, -1, 0)
    tested = DispatchJobs(jobs.submit, jobs.length, jobs.estimate, jobs.deadline, batch)
    assert lower_bounds(tested, up) == lower_bounds(jobs.take(batch == 0), up)
