"""The kernels against the plain-Python twin: any jobs, any machines, any changes, every rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.simulator.events import advance, place, take_out
from gridtune.systems.dispatch.simulator.model import (
    Changes,
    DispatchJobs,
    Machines,
    failures,
    no_changes,
    speed_changes,
)
from gridtune.systems.dispatch.simulator.predicting import learn, new_broker_state
from gridtune.systems.dispatch.simulator.replay import ASSISTANCE, RULES, SPEEDS, dispatch
from gridtune.systems.dispatch.simulator.selecting import tabu_search
from gridtune.systems.dispatch.simulator.state import MOVES, NOBODY, NOW, new_site
from tests.systems.dispatch.simulator.twin import (
    ReferenceBroker,
    ReferenceJob,
    ReferenceMachine,
    ReferenceSite,
)

FACTORS = (0.5, 0.8, 1.0, 1.25, 1.5, 3.0)
KINDS = ("speed", "failure", "repair")


def make_jobs(rng: np.random.Generator, count: int, span: int, spread: float) -> DispatchJobs:
    """Jobs close together, with few distinct lengths, so that there are queues and ties."""
    submit = np.sort(rng.integers(0, span + 1, count))
    length = rng.choice([1, 2, 3, 5, 10, 20, 40], count)
    error = np.exp(spread * rng.standard_normal(count))
    estimate = np.maximum(1, np.rint(length * error)).astype(np.int64)
    deadline = submit + estimate + rng.integers(0, 40, count)
    return DispatchJobs(submit, length.astype(np.int64), estimate, deadline, np.zeros(count, np.int64))


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs = make_jobs(
        rng,
        draw(st.integers(0, 90)),
        draw(st.sampled_from([0, 10, 60, 200])),
        draw(st.sampled_from([0.0, 0.7])),
    )
    count = draw(st.integers(1, 5))
    changes = no_changes()
    if draw(st.booleans()):
        changes += speed_changes(draw(st.integers(0, 80)), rng.choice(FACTORS, count).tolist())
    if draw(st.booleans()):
        changes += failures(count, 200, 40.0, 15.0, rng)
    machines = Machines(rng.choice(FACTORS, count), rng.integers(1, 4, count), changes)
    return jobs, machines


def twin(jobs: DispatchJobs, machines: Machines, rng: np.random.Generator, **options) -> ReferenceSite:
    columns = (jobs.submit, jobs.length, jobs.estimate, jobs.deadline)
    each = zip(*(column.tolist() for column in columns), strict=True)
    changes: Changes = machines.changes
    site = ReferenceSite(
        [ReferenceJob(number, *job) for number, job in enumerate(each)],
        [
            ReferenceMachine(*pair)
            for pair in zip(machines.factor.tolist(), machines.cpus.tolist(), strict=True)
        ],
        [
            (time, machine, KINDS[kind], value)
            for time, machine, kind, value in zip(
                changes.time.tolist(),
                changes.machine.tolist(),
                changes.kind.tolist(),
                changes.value.tolist(),
                strict=True,
            )
        ],
    )
    ReferenceBroker(
        site, options.pop("rule"), options.pop("speeds"), rng.random(len(jobs)).tolist(), **options
    ).run()
    return site


def expect_equal(jobs: DispatchJobs, machines: Machines, seed: int, **options) -> None:
    outcome = dispatch(jobs, machines, rng=np.random.default_rng(seed), **options)
    site = twin(jobs, machines, np.random.default_rng(seed), **options)
    for name in ("machine", "placed", "start", "finish"):
        assert getattr(outcome, name).tolist() == [getattr(job, name) for job in site.jobs], name
    assert outcome.overruled.tolist() == [job.overruled for job in site.jobs]
    chances = [np.nan if job.chance is None else job.chance for job in site.jobs]
    np.testing.assert_array_equal(outcome.chance, chances)
    assert (outcome.restarts, outcome.moves) == (site.restarts, site.moves)


@given(
    cases(),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["random", "round_robin", "first_available"]),
    st.sampled_from(sorted(ASSISTANCE)),
    st.sampled_from(sorted(SPEEDS)),
)
@settings(max_examples=150, deadline=None)
def test_selectors_alone_and_assisted(case, seed, rule, assistance, speeds):
    expect_equal(*case, seed, rule=rule, assistance=assistance, speeds=speeds)


@given(
    cases(),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["edd", "erd", "spt"]),
    st.sampled_from(sorted(SPEEDS)),
    st.sampled_from([0, 1, 3, 10]),
    st.integers(1, 12),
    st.sampled_from([0.5, 0.95, 1.0]),
)
@settings(max_examples=200, deadline=None)
def test_insertion_and_tabu_search(case, seed, rule, speeds, every, steps, forget):
    options = {"repair_every": every, "repair_steps": steps, "forget": forget}
    expect_equal(*case, seed, rule=rule, speeds=speeds, **options)


@given(cases(), st.sampled_from(sorted(RULES)))
@settings(max_examples=60, deadline=None)
def test_no_processor_runs_two_jobs_and_none_idles_beside_a_queue(case, rule):
    jobs, machines = case
    outcome = dispatch(jobs, machines, rule=rule, repair_every=3, rng=np.random.default_rng(0))
    assert (outcome.start >= jobs.submit).all()
    assert (outcome.finish > outcome.start).all()
    for machine in range(len(machines)):
        own = outcome.machine == machine
        start, finish = outcome.start[own], outcome.finish[own]
        for time in np.unique(start):
            running = (start <= time) & (finish > time)
            assert running.sum() <= machines.cpus[machine]
            if len(machines.changes.time) == 0:
                waiting = (outcome.placed[own] <= time) & (start > time)
                assert not waiting.any() or running.sum() == machines.cpus[machine]


def test_a_later_estimate_or_length_changes_nothing_before_it():
    """No decision depends on what happens after it: the lengths of later jobs, or of those that still run."""
    rng = np.random.default_rng(4)
    jobs = make_jobs(rng, 60, 100, 0.5)
    machines = Machines(np.array([0.8, 1.25, 1.5]), np.array([1, 2, 1]))
    for rule in RULES:
        before = dispatch(jobs, machines, rule=rule, speeds="learned", rng=np.random.default_rng(1))
        for job in (10, 30, 50):
            length = jobs.length.copy()
            # As if it had come to light only at its end that the job takes longer.
            length[job] += 1000
            changed = DispatchJobs(jobs.submit, length, jobs.estimate, jobs.deadline, jobs.batch)
            after = dispatch(changed, machines, rule=rule, speeds="learned", rng=np.random.default_rng(1))
            placed = jobs.submit < before.finish[job]
            assert (before.machine[placed] == after.machine[placed]).all()


def send_all_to_the_first(site, own):
    """Send every job to machine 0 as it comes, in the kernels and in the twin."""
    for number in range(len(own.jobs)):
        assert advance(site) == number
        place(site, number, 0, NOBODY)
        job = own.next_job()
        assert job is not None
        own.place(job, 0, number)


def test_a_job_moves_only_if_its_machine_changes():
    """Taken out and put back is no move, in the kernels and in the twin."""
    column = np.zeros(2, np.int64)
    jobs = DispatchJobs(column, column + 5, column + 5, column + 9, column)
    machines = Machines(np.ones(2), np.ones(2, np.int64))
    site = new_site(jobs, machines)
    own = ReferenceSite(
        [ReferenceJob(number, 0, 5, 5, 9) for number in range(2)],
        [ReferenceMachine(1.0, 1) for _ in range(2)],
    )
    send_all_to_the_first(site, own)
    for machine, moves in ((0, 0), (1, 1)):
        take_out(site, 1)
        place(site, 1, machine, NOBODY)
        own.machines[0].queue.remove(own.jobs[1])
        own.place(own.jobs[1], machine, 0)
        assert (site.memory[MOVES], own.moves) == (moves, moves)


def test_a_moved_jobs_first_prediction_is_not_held_against_its_second_placing():
    """Three jobs of 10 s on machine 0 and its slow neighbour: the last is moved, and no ratio is its own.

    Predicted ends: 10, 20 and 30 s after the submission. The third goes to machine 1 after 5 s and ends there
    15 s later, half the 30 s that were predicted of another queue from another second on.
    """
    column = np.zeros(3, np.int64)
    jobs = DispatchJobs(column, column + 10, column + 10, np.array([10, 20, 12]), column)
    machines = Machines(np.array([1.0, 1.5]), np.ones(2, np.int64))
    site, scratch = new_site(jobs, machines), np.zeros((2, 2), np.int64)
    belief = new_broker_state(site, SPEEDS["known"], 0.95)
    own = ReferenceSite(
        [ReferenceJob(number, 0, 10, 10, due) for number, due in enumerate((10, 20, 12))],
        [ReferenceMachine(1.0, 1), ReferenceMachine(1.5, 1)],
    )
    broker = ReferenceBroker(own, "erd", "known", [0.0] * 3)
    send_all_to_the_first(site, own)
    for number, job in enumerate(own.jobs):
        job.predicted = belief.predicted[number] = 10 * (number + 1)
    learn(site, belief)
    broker.learn()
    own.now = site.memory[NOW] = 5
    broker.repair_steps = 1
    broker.tabu_search()
    assert tabu_search(site, belief, 1, scratch[0], scratch[1], np.zeros(3, np.int64)) == 1
    assert belief.predicted.tolist() == [job.predicted for job in own.jobs] == [10, 20, 0]
    assert advance(site) == NOBODY
    assert own.next_job() is None
    learn(site, belief)
    broker.learn()
    assert site.finish.tolist() == [job.finish for job in own.jobs] == [10, 20, 20]
    assert belief.counts[2] == broker.seen == 2
    assert belief.ratio[:2].tolist() == list(broker.ratios) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"rule": "fifo"}, "no rule is named 'fifo'"),
        ({"speeds": "guessed"}, "no speeds is named"),
        ({"assistance": "much"}, "no assistance is named"),
        ({"forget": 0.0}, "above 0"),
        ({"repair_every": -1}, "below 0"),
    ],
)
def test_what_cannot_be_is_told(options, told):
    jobs = make_jobs(np.random.default_rng(0), 3, 10, 0.0)
    with pytest.raises(SimulationError, match=told):
        dispatch(jobs, Machines(np.ones(1), np.ones(1, np.int64)), rng=np.random.default_rng(0), **options)


def test_impossible_jobs_and_machines_are_refused():
    ones = np.ones(2, np.int64)
    with pytest.raises(SimulationError, match="at least 1 s"):
        DispatchJobs(ones, ones * 0, ones, ones, ones)
    with pytest.raises(SimulationError, match="in order of submission"):
        DispatchJobs(np.array([5, 1]), ones, ones, ones, ones)
    with pytest.raises(SimulationError, match="a speed factor"):
        Machines(np.array([0.0]), ones[:1])
    with pytest.raises(SimulationError, match="needs a processor"):
        Machines(np.ones(1), np.zeros(1, np.int64))
    with pytest.raises(SimulationError, match="not there"):
        Machines(np.ones(1), ones[:1], speed_changes(3, [1.0, 2.0]))
