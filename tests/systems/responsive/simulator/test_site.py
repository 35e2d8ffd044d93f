"""Outcomes worked out by hand, theory, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.replay import SiteReplay, replay
from gridtune.systems.responsive.simulator.site import (
    SiteJobs,
    SiteModel,
    _group_vos,
    _vo_of,
    build_jobs,
)
from gridtune.workload import Workload
from gridtune.workload.generators import generate_workload
from tests.conftest import examples
from tests.systems.responsive.simulator.sites import rigid, site_jobs, site_models

HALVES = np.array([0.5, 0.5])
ONE_CORE = SiteModel(cores=1, oracle=True)


def jobs_of(*rows, shares=HALVES) -> SiteJobs:
    """Rows of (submit, run, vo, interactive)."""
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return SiteJobs(*columns, shares)


#: One core, four jobs: the first runs from 0 to 10; the others come meanwhile.
FOUR = jobs_of((0, 10, 0, 0), (1, 8, 0, 0), (2, 2, 1, 1), (3, 5, 0, 1))


@pytest.mark.parametrize(
    ("rule", "starts"),
    [
        ("fcfs", [0, 10, 18, 20]),
        ("sjf", [0, 17, 10, 12]),
        ("interactive_first", [0, 17, 10, 12]),
        # Due at 1 + 2·8 = 17, 2 + 2·2 = 6, 3 + 2·5 = 13.
        ("edf", [0, 17, 10, 12]),
        # At 10 the ratios are 9/8, 8/2, 7/5; at 12 they are 11/8, 9/5.
        ("longest_ratio", [0, 17, 10, 12]),
        # VO 1 has had nothing; then VO 0's first comes first.
        ("fair_share", [0, 12, 10, 20]),
        ("lifo", [0, 17, 15, 10]),
        ("youngest_interactive", [0, 17, 15, 10]),
        # At 10 run time + wait are 17, 10, 12; at 12 they are 19, 14.
        ("fair_index", [0, 17, 10, 12]),
        ("capped_fcfs", [0, 10, 18, 20]),
    ],
)
def test_the_order_of_each_rule(rule, starts):
    assert replay(FOUR, ONE_CORE, rule).start.tolist() == starts


def test_fairness_and_utilisation_by_hand():
    outcome = replay(FOUR, ONE_CORE, "fair_share")
    # Nobody served; VO 1 without its half; 10 s to 2 s; 18 s to 2 s.
    expected = [1.0, 0.0, 1 - (0.5 - 2 / 12) / 0.5, 1 - (0.5 - 2 / 20) / 0.5]
    assert outcome.fairness == pytest.approx(expected)
    assert outcome.utilisation == pytest.approx([0.0, 1.0, 1.0, 1.0])
    assert outcome.time.tolist() == [0, 10, 12, 20]


def test_running_jobs_count_as_served():
    """Two cores: at 4 VO 0 has had 4 s of a job that goes on, VO 1 nothing."""
    jobs = jobs_of((0, 100, 0, 0), (4, 5, 1, 1), (5, 5, 1, 1))
    outcome = replay(jobs, SiteModel(cores=2), "fcfs")
    assert outcome.start.tolist() == [0, 4, 9]
    assert outcome.fairness == pytest.approx([1.0, 0.0, 1 - (0.5 - 5 / 14) / 0.5])
    # By 9 one job of 5 s is done, on two cores for 9 s.
    assert outcome.utilisation == pytest.approx([0.0, 0.0, 5 / 18])


def test_estimates_are_medians_of_what_is_done():
    """A long interactive job makes the next one look long: at 100 the batch job is expected to be shorter."""
    jobs = jobs_of((0, 100, 0, 1), (1, 7, 0, 1), (2, 70, 0, 0))
    blind = SiteModel(cores=1, prior_batch=60.0, prior_interactive=5.0)
    assert replay(jobs, blind, "sjf").start.tolist() == [0, 170, 100]
    assert replay(jobs, SiteModel(cores=1, oracle=True), "sjf").start.tolist() == [0, 100, 107]


def test_a_user_has_no_more_running_jobs_than_the_cap():
    """Three cores, two of them for a user: the third job of user 0 waits, user 1's passes it."""
    columns = np.array([(0, 10), (0, 20), (1, 5), (2, 6)]).T
    jobs = SiteJobs(*columns, [0] * 4, [0] * 4, np.ones(1), user=[7, 7, 7, 3])
    model = SiteModel(cores=3, user_cap=2)
    assert replay(jobs, model, "capped_fcfs").start.tolist() == [0, 0, 10, 2]
    assert replay(jobs, model, "fcfs").start.tolist() == [0, 0, 1, 6]


def test_a_job_starts_some_seconds_after_its_decision():
    """The core is in use meanwhile: the second job is decided on at 3 + 10."""
    jobs = jobs_of((0, 10, 0, 0), (1, 8, 0, 0))
    outcome = replay(jobs, SiteModel(cores=1, start_latency=3), "fcfs")
    assert outcome.start.tolist() == [3, 16]
    assert outcome.time.tolist() == [0, 13]


def test_the_pool_follows_demand_and_keeps_its_size_for_a_while():
    jobs = jobs_of(*[(0, 1000, 0, 0)] * 4, *[(100, 10, 0, 1)] * 4, (1200, 10, 0, 1))
    model = SiteModel(cores=2, elastic=True, floor=2, largest=6, period=900)
    outcome = replay(jobs, model, "fcfs", headroom=1.0)
    # At 0 four jobs ask for four cores; at 100 nothing may change until 900, when nothing happens; at 1000
    # four jobs are left to start on the four cores that are free, and the pool stays; at 1200 it shrinks.
    assert outcome.start.tolist() == [0] * 4 + [1000] * 4 + [1200]
    assert outcome.pool.tolist() == [4] * 8 + [2]
    assert outcome.core_seconds == 4 * 1200
    assert SiteModel(cores=40, elastic=True, largest=65).pool_sizes.tolist() == [30, 40, 50, 60, 65]


def test_a_queue_of_one_server_waits_as_theory_says():
    """M/M/4 at load 0.7: Erlang's C gives a mean wait of 0.357 service times."""
    workload = generate_workload("poisson", jobs=60_000, seed=2, processors=4, load=0.7)
    jobs = build_jobs(workload, vos=np.zeros(0, np.int64), shares=[1.0])
    wait = replay(jobs, SiteModel(cores=4), "fcfs").start - jobs.submit
    assert wait.mean() / 20_000 == pytest.approx(0.357, rel=0.08)


@examples(100)
@given(site_jobs(), site_models())
def test_no_core_is_used_twice_and_none_idles_while_a_job_waits(jobs, model):
    fixed = rigid(model)
    outcome = replay(jobs, fixed, "sjf")
    end = outcome.start + jobs.run
    for moment in np.unique(np.concatenate([outcome.start, end])):
        running = ((outcome.start <= moment) & (end > moment)).sum()
        assert running <= fixed.cores
        if ((jobs.submit <= moment) & (outcome.start > moment)).any():
            assert running == fixed.cores
    assert (outcome.start >= jobs.submit).all()


def test_the_random_rule_takes_its_numbers_from_the_generator():
    jobs = build_jobs(
        generate_workload("egee", jobs=600, seed=1), vos=np.arange(1, 7), shares=np.full(7, 1 / 7)
    )
    model = SiteModel(cores=2)
    one, same, other = (
        replay(jobs, model, "random", rng=np.random.default_rng(seed)).start.tolist() for seed in (1, 1, 2)
    )
    assert one == same != other


def test_vos_of_a_log():
    groups = np.array([5, 5, 5, 2, 2, 9, 1])
    assert _group_vos(groups, 3).tolist() == [2, 5]
    assert _vo_of(groups, _group_vos(groups, 3)).tolist() == [1, 1, 1, 0, 0, 2, 2]
    # No more groups than VOs: each is one, and the last one is everybody else.
    assert _group_vos(groups, 4).tolist() == [1, 2, 5]
    assert _vo_of(groups, _group_vos(groups, 1)).tolist() == [0] * 7


def test_what_is_refused():
    with pytest.raises(SimulationError, match="at least 1 s"):
        jobs_of((0, 0, 0, 0))
    with pytest.raises(SimulationError, match="in order of submission"):
        jobs_of((5, 1, 0, 0), (4, 1, 0, 0))
    with pytest.raises(SimulationError, match="add up to 1"):
        jobs_of((0, 1, 0, 0), shares=np.array([0.5, 0.6]))
    with pytest.raises(SimulationError, match="numbers from 0 to 1"):
        jobs_of((0, 1, 2, 0))
    with pytest.raises(SimulationError, match="floor <= cores <= largest"):
        SiteModel(cores=20, elastic=True)
    with pytest.raises(SimulationError, match="median_of"):
        SiteModel(median_of=0)
    with pytest.raises(SimulationError, match="no rule is named"):
        replay(FOUR, ONE_CORE, "tidiest")  # type: ignore[arg-type]
    with pytest.raises(SimulationError, match="needs a generator"):
        replay(FOUR, ONE_CORE, "random")
    with pytest.raises(SimulationError, match="only 0 of 4 jobs have started"):
        SiteReplay.of(FOUR.new_site(ONE_CORE))
    wide = Workload(
        {"submit_time": np.zeros(2), "run_time": np.ones(2), "requested_processors": np.array([1, 2])}
    )
    with pytest.raises(SimulationError, match="1 of 2 jobs of workload use more than one processor"):
        build_jobs(wide, vos=np.zeros(0, np.int64), shares=[1.0])
