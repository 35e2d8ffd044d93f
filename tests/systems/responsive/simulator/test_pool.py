"""The event-driven pool: schedules drawn by hand, the plain twin, and what is refused."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import SimulationError
from gridtune.systems.responsive.simulator.replay import SiteReplay, replay
from gridtune.systems.responsive.simulator.site import Autoscaler, SiteJobs, SiteModel
from gridtune.systems.responsive.simulator.stepping import advance_until_decision, request_size, start_job
from tests.conftest import examples
from tests.systems.responsive.simulator.reference import ReferenceJob, reference_choice
from tests.systems.responsive.simulator.reference_pool import ReferencePool
from tests.systems.responsive.simulator.sites import assert_same_outcome, site_jobs


def jobs_of(*rows) -> SiteJobs:
    """Rows of (submit, run), interactive where they run for less than 900 s."""
    submit, run = np.array(rows, np.int64).T
    return SiteJobs(submit, run, 0 * submit, (run < 900).astype(np.int64), np.ones(1))


def site_model(rule="demand", cores=1, largest=9, floor=1, oracle=True, **scaler) -> SiteModel:
    return SiteModel(
        cores=cores,
        elastic=True,
        floor=floor,
        largest=largest,
        oracle=oracle,
        autoscaler=Autoscaler(rule, **scaler),
    )


def test_a_schedule_drawn_by_hand():
    """One core; a job of 1,000 s, then two short ones; cores boot for 100 s and go after 50 s of idleness.

    0 s      A starts on the first core
    10 s     B and C come: two cores are ordered
    110 s    both are up; B (30 s) and C (200 s) start
    140 s    B ends: one core more than jobs need; it is released at 190 s
    310 s    C ends; its core is released at 360 s
    1000 s   A ends: the pool is at its floor
    """
    jobs = jobs_of((0, 1000), (10, 30), (10, 200), (2000, 5))
    outcome = replay(jobs, site_model(boot=100, idle=50, timer=5000), "fcfs")
    assert outcome.start.tolist() == [0, 110, 110, 2000]
    assert outcome.boots == 2
    # One core all the time, and two from their orders to their releases.
    assert outcome.core_seconds == 2000 + (190 - 10) + (360 - 10)
    assert outcome.pool.tolist() == [1, 3, 3, 1]


def test_a_full_pool_grows():
    """30 cores are busy for a day; 100 jobs of a minute come: they wait for the boot and not for the day."""
    jobs = jobs_of(*[(0, 86_400)] * 30, *[(100, 60)] * 100)
    model = site_model(cores=30, floor=30, largest=200)
    assert (replay(jobs, model, "fcfs").start[30:] == 700).all()
    papers = SiteModel(cores=30, elastic=True, floor=30, largest=200)
    assert (replay(jobs, papers, "fcfs", headroom=1.0).start[30:] == 86_400).all()


def test_the_queue_rule_polls_and_cools_down():
    """Ticks at 0, 30, …: four jobs of 10 s at 5 s are seen at 30 s; the four cores stay up to 330 s."""
    jobs = jobs_of((0, 1), *[(5, 100)] * 4, (1000, 1))
    outcome = replay(
        jobs, site_model("queue", boot=10, idle=0, timer=30, at_events=False, cooldown=300), "fcfs"
    )
    # The first core takes one job at once; three more cores come at 40 s.
    assert outcome.start[1:5].tolist() == [5, 40, 40, 40]
    # Ticks up to 120 s ask for more than one core: for three, as the first job ends at 105 s.
    assert outcome.core_seconds == 1000 + 2 * (420 - 30) + (390 - 30)
    assert replay(jobs, site_model("queue", jobs_per_core=4.0), "fcfs").boots == 0


def test_an_agent_asks_at_ticks():
    jobs = jobs_of((0, 100), (0, 100), (500, 10))
    site = jobs.new_site(site_model("agent", boot=30, timer=60))
    assert advance_until_decision(site)
    assert site.state.memory["tick_due"][0] == 1
    request_size(site, 2)
    assert advance_until_decision(site)
    assert start_job(site, 0, 2) == 0
    assert advance_until_decision(site)
    assert start_job(site, 0, 2) == 1
    while advance_until_decision(site):
        if site.state.memory["tick_due"][0]:
            request_size(site, 1)
        else:
            start_job(site, 0, 1)
    assert SiteReplay.of(site).start.tolist() == [0, 30, 500]


@st.composite
def scaled_models(draw, rules=("demand", "queue")):
    """Small event-driven sites of every kind."""
    floor = draw(st.integers(1, 3))
    cores = draw(st.integers(floor, 4))
    scaler = Autoscaler(
        draw(st.sampled_from(rules)),
        boot=draw(st.sampled_from([0, 1, 7, 20])),
        idle=draw(st.sampled_from([0, 1, 5, 30])),
        timer=draw(st.sampled_from([1, 4, 25, 60])),
        at_events=draw(st.booleans()),
        cooldown=draw(st.sampled_from([0, 10, 50])),
        headroom=draw(st.sampled_from([0.5, 1.0, 1.7])),
        jobs_per_core=draw(st.sampled_from([1.0, 2.5])),
    )
    return SiteModel(
        cores=cores,
        elastic=True,
        floor=floor,
        largest=draw(st.integers(cores, 9)),
        step=1,
        oracle=draw(st.booleans()),
        median_of=draw(st.integers(1, 6)),
        prior_interactive=5.0,
        prior_batch=50.0,
        autoscaler=scaler,
    )


def reference_pool(jobs: SiteJobs, model: SiteModel) -> ReferencePool:
    scaler = asdict(model.autoscaler)
    columns = (jobs.submit.tolist(), jobs.run.tolist(), jobs.vo.tolist(), jobs.interactive.tolist())
    return ReferencePool(
        [
            ReferenceJob(number, submit, run, vo, bool(interactive))
            for number, (submit, run, vo, interactive) in enumerate(zip(*columns, strict=True))
        ],
        jobs.shares.tolist(),
        model.cores,
        elastic=True,
        floor=model.floor,
        largest=model.largest,
        oracle=model.oracle,
        median_of=model.median_of,
        prior={True: model.prior_interactive, False: model.prior_batch},
        **scaler,
    )


def assert_same_pool(outcome, reference: ReferencePool) -> None:
    assert_same_outcome(outcome, reference)
    assert (outcome.boots, outcome.core_seconds) == (reference.boots, reference.core_seconds)


@examples(150)
@given(site_jobs(most=15), scaled_models(), st.sampled_from(["fcfs", "interactive_first", "sjf"]))
def test_rules_size_the_pool_as_the_plain_one(jobs, model, rule):
    reference = reference_pool(jobs, model)
    while reference.until_decision():
        reference.begin_job(reference_choice(reference, rule), 0)
    assert_same_pool(replay(jobs, model, rule), reference)


@examples(60)
@given(site_jobs(most=10), scaled_models(rules=("agent",)), st.lists(st.integers(0, 12), min_size=1))
def test_an_agent_sizes_the_pool_as_the_plain_one(jobs, model, sizes):
    site, reference, step = jobs.new_site(model), reference_pool(jobs, model), 0
    while reference.until_decision():
        assert advance_until_decision(site)
        assert site.state.memory["tick_due"][0] == reference.tick_due
        size = sizes[step % len(sizes)]
        if reference.tick_due:
            reference.request(size)
            request_size(site, size)
        else:
            place = step % len(reference.waiting)
            reference.begin_job(place, size)
            start_job(site, place, size)
        step += 1
    assert not advance_until_decision(site)
    assert_same_pool(SiteReplay.of(site), reference)


def test_what_is_refused():
    with pytest.raises(SimulationError, match="rule"):
        Autoscaler("magic")  # type: ignore[arg-type]
    with pytest.raises(SimulationError, match="jobs_per_core"):
        Autoscaler(jobs_per_core=0.0)
    with pytest.raises(SimulationError, match="rigid site has no autoscaler"):
        SiteModel(autoscaler=Autoscaler())
    with pytest.raises(SimulationError, match="agent sizes"):
        replay(jobs_of((0, 1)), site_model("agent"), "fcfs")
