"""The kernels against the plain-Python twin: any jobs, any machines, any changes, every rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.simulator.model import Changes, DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import ORDERS, RULES, SPEEDS, dispatch
from gridtune.systems.dispatch.simulator.site import FAILURE, REPAIR
from tests.conftest import examples
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
    changes = Changes()
    if draw(st.booleans()):
        changes += Changes.of_speeds(draw(st.integers(0, 80)), rng.choice(FACTORS, count).tolist())
    if draw(st.booleans()):
        changes += Changes.of_failures(count, 200, 40.0, 15.0, rng)
    machines = Machines(rng.choice(FACTORS, count), rng.integers(1, 4, count), changes)
    return jobs, machines


def twin(jobs: DispatchJobs, machines: Machines, rng: np.random.Generator, **options) -> ReferenceSite:
    columns = (jobs.submit, jobs.length, jobs.estimate, jobs.deadline)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    changes: Changes = machines.changes
    site = ReferenceSite(
        [ReferenceJob(number, *job) for number, job in enumerate(rows)],
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
    st.booleans(),
    st.sampled_from(sorted(SPEEDS)),
)
@examples(150)
def test_selectors_alone_and_assisted(case, seed, rule, assisted, speeds):
    expect_equal(*case, seed, rule=rule, assisted=assisted, speeds=speeds)


@given(
    cases(),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["edd", "erd", "spt", "atc"]),
    st.sampled_from(sorted(SPEEDS)),
    st.sampled_from([0, 1, 3, 10]),
    st.integers(1, 12),
    st.sampled_from([0.5, 0.95, 1.0]),
)
@examples(200)
def test_insertion_and_tabu_search(case, seed, rule, speeds, every, steps, forget):
    options = {"repair_every": every, "repair_steps": steps, "forget": forget}
    expect_equal(*case, seed, rule=rule, speeds=speeds, **options)


@given(
    cases(),
    st.integers(0, 2**32 - 1),
    st.sampled_from(sorted(ORDERS)),
    st.sampled_from(sorted(SPEEDS)),
    st.sampled_from([0.5, 2.0, 10.0]),
)
@examples(150)
def test_the_shared_queue(case, seed, order, speeds, lookahead):
    options = {"order": order, "speeds": speeds, "lookahead": lookahead}
    expect_equal(*case, seed, rule="shared_queue", **options)


@given(cases(), st.sampled_from(sorted(ORDERS)))
@examples(40)
def test_no_machine_idles_while_a_job_waits_in_the_shared_queue(case, order):
    jobs, machines = case
    machines = Machines(machines.factor, machines.cpus)
    outcome = dispatch(jobs, machines, rule="shared_queue", order=order, rng=np.random.default_rng(0))
    assert (outcome.placed == outcome.start).all()
    for time in np.unique(outcome.start):
        running = (outcome.start <= time) & (outcome.finish > time)
        waiting = (jobs.submit <= time) & (outcome.start > time)
        assert not waiting.any() or running.sum() == machines.cpus.sum()


def test_a_short_job_that_is_due_soon_goes_first_by_apparent_cost():
    """By hand, k = 1, p = 10, 20, 10 s, mean 40/3, slack 0, 0, 90 s at 0: costs 1/10, 1/20, exp(−6.75)/10."""
    ones = np.ones(4, np.int64)
    jobs = DispatchJobs(
        ones * 0, np.array([5, 20, 10, 10]), np.array([5, 20, 10, 10]), np.array([5, 20, 100, 10]), ones
    )
    machines = Machines(np.ones(1), ones[:1])
    for rule in ("atc", "shared_queue"):
        options = {"rule": rule, "order": "atc", "lookahead": 1.0, "rng": np.random.default_rng(0)}
        assert dispatch(jobs, machines, **options).start.tolist() == [0, 15, 35, 5]


@given(cases(), st.sampled_from(sorted(set(RULES) - {"shared_queue"})))
@examples(60)
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
            placed = before.placed < before.finish[job]
            assert (before.machine[placed] == after.machine[placed]).all()


def reference_site(deadlines: Sequence[int], length: int, factors: Sequence[float]) -> ReferenceSite:
    """A site whose jobs all arrive at 0 and go to machine 0, one after the other."""
    site = ReferenceSite(
        [ReferenceJob(number, 0, length, length, due) for number, due in enumerate(deadlines)],
        [ReferenceMachine(factor, 1) for factor in factors],
    )
    for number in range(len(deadlines)):
        job = site.next_job()
        assert job is not None
        site.place(job, 0, number)
    return site


def test_a_job_moves_only_if_its_machine_changes():
    """Taken out and put back is no move."""
    site = reference_site([9, 9], 5, [1.0, 1.0])
    for machine, moves in ((0, 0), (1, 1)):
        site.machines[0].queue.remove(site.jobs[1])
        site.place(site.jobs[1], machine, 0)
        assert site.moves == moves


def test_the_prediction_for_a_moved_jobs_first_place_does_not_count():
    """Three jobs of 10 s on machine 0 and its slow neighbour: the last is moved, and no ratio is its own.

    Predicted ends: 10, 20 and 30 s after the submission. The third goes to machine 1 after 5 s and ends there
    15 s later, half the 30 s that were predicted of another queue from another second on.
    """
    site = reference_site([10, 20, 12], 10, [1.0, 1.5])
    broker = ReferenceBroker(site, "erd", "known", [0.0] * 3, repair_steps=1)
    for number, job in enumerate(site.jobs):
        job.predicted = 10 * (number + 1)
    broker.learn()
    site.now = 5
    broker.tabu_search()
    assert [job.predicted for job in site.jobs] == [10, 20, 0]
    assert site.next_job() is None
    broker.learn()
    assert [job.finish for job in site.jobs] == [10, 20, 20]
    assert broker.recorded == 2
    assert list(broker.ratios) == [1.0, 1.0]


def test_machines_fail_and_recover_at_the_drawn_times():
    changes = Changes.of_failures(1, 20_000, 100.0, 10.0, np.random.default_rng(3))
    (stream,) = np.random.default_rng(3).spawn(1)
    count = len(changes.time) // 2
    draws = stream.exponential([100.0, 10.0], (count, 2)).ravel()
    assert np.diff(changes.time, prepend=0).tolist() == np.maximum(1, np.rint(draws)).tolist()
    assert changes.kind.tolist() == [FAILURE, REPAIR] * count
    # The last failure comes within the horizon, its repair may come later.
    assert changes.time[-2] <= 20_000
    assert stream.exponential(100.0) + changes.time[-1] > 20_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "fifo"}, "no rule is named 'fifo'"),
        ({"speeds": "guessed"}, "no speeds is named"),
        ({"order": "random"}, "no order is named"),
        ({"lookahead": 0.0}, "above 0"),
        ({"rule": "shared_queue", "repair_every": 10}, "shared queue"),
        ({"forget": 0.0}, "above 0"),
        ({"repair_every": -1}, "below 0"),
    ],
)
def test_impossible_options_are_refused(options, message):
    jobs = make_jobs(np.random.default_rng(0), 3, 10, 0.0)
    with pytest.raises(SimulationError, match=message):
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
        Machines(np.ones(1), ones[:1], Changes.of_speeds(3, [1.0, 2.0]))
