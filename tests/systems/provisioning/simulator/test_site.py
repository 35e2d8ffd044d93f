"""A site that replays a log: the slots it offers, and workflows run by the queue and by plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.errors import SimulationError, WorkloadError
from gridtune.systems.provisioning.simulator.site import DAY, ReservationSite
from gridtune.workload.workflows import Workflow, generate_workflow
from gridtune.workload.workload import Workload
from tests.batch.simulator.conservative_twin import conservative_schedule_twin
from tests.conftest import examples
from tests.systems.provisioning.planning.twins import plan


def log(rows):
    """Return a workload of (submit, run, processors)."""
    submit, run, width = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Workload({"submit_time": submit, "run_time": run, "requested_processors": width})


def rows_of(slots):
    columns = (slots.start, slots.end, slots.processors, slots.divisible)
    return list(zip(*(column.tolist() for column in columns), strict=True))


CHAIN = Workflow(("a", "b"), np.array([3.0, 2.0]), np.array([2, 1]), np.array([0]), np.array([1]))


def test_slots_end_at_reservations_or_at_the_horizon():
    # Four processors: A holds three until 100, B all four from 100 to 150.
    state = ReservationSite(log([(0, 100, 3), (10, 50, 4), (20, 1, 1)]), 4).at(10)
    assert state.horizon == 10 + DAY
    assert rows_of(state.slots()) == [(10, 100, 1, False), (150, 10 + DAY, 4, True)]
    # At 20 a job of a second takes the one that is free.
    state.advance(20)
    assert rows_of(state.slots()) == [(21, 100, 1, False), (150, 20 + DAY, 4, True)]


def test_a_job_starts_where_it_fits():
    # Of four processors one is free until 100, all of them from 150 on.
    state = ReservationSite(log([(0, 100, 3), (10, 50, 4)]), 4).at(10)
    assert [state.earliest_start(*job) for job in ((1, 90), (1, 91), (2, 1), (4, 1000))] == [
        10,
        150,
        150,
        150,
    ]


def test_the_horizon_lies_behind_the_last_reservation():
    # It ends just at a whole number of days from now, so the horizon is a day later.
    state = ReservationSite(log([(0, DAY, 1)]), 2).at(0)
    assert state.horizon == 2 * DAY
    assert rows_of(state.slots()) == [(0, 2 * DAY, 1, True), (DAY, 2 * DAY, 1, True)]
    assert ReservationSite(log([(0, 5, 1)]), 2).at(7).horizon == 7 + DAY


def test_a_slots_price_is_the_sites():
    slots = ReservationSite(log([(0, 5, 1)]), 2).at(0).slots(site=3, price=0.5, fixed=9)
    assert slots.site.tolist() == [3, 3]
    assert slots.cost.tolist() == [0.5 * DAY + 9, 0.5 * (DAY - 5) + 9]


def test_inflated_requests_are_held_to_their_end():
    site = ReservationSite(log([(0, 100, 2), (1, 15, 2)]), 2, inflation=0.1)
    assert site.start.tolist() == [0, 110]
    # 15 s and 10 % are 16.5 s: whole seconds, rounded up; 100 s and 10 % are 110 s, not 111.
    assert rows_of(site.at(1).slots()) == [(127, 1 + DAY, 2, True)]


def test_load_and_utilisation():
    site = ReservationSite(log([(0, 10, 2), (5, 10, 1), (20, 5, 1)]), 2)
    assert site.offered_load == 35 / 40
    assert site.start.tolist() == [0, 10, 20]
    assert site.utilisation(5, 15) == (5 * 2 + 5) / 20
    assert np.isnan(site.utilisation(5, 5))


def test_best_effort_waits_for_parents_and_for_the_queue():
    # C comes at 2 and takes all of the site from 3 to 7, before a's child b is submitted at 3.
    execution = ReservationSite(log([(0, 1, 1), (2, 4, 2), (9, 1, 1)]), 2).at(0).best_effort(CHAIN)
    assert execution.submit.tolist() == [0, 4]
    assert execution.start.tolist() == [1, 8]
    assert execution.finish.tolist() == [4, 10]
    assert (execution.makespan, execution.allocation_cost) == (10, 3 * 2 + 2)


def test_provisioned_holds_all_of_it_before_anybody_else_comes():
    site = ReservationSite(log([(0, 1, 1), (2, 4, 2), (9, 1, 1)]), 2)
    planned = plan(CHAIN, site.at(0).slots(), now=0)
    state = site.at(0)
    execution = state.provision(planned)
    assert execution.start.tolist() == [1, 4]
    assert execution.makespan == 6
    # The log's job of two processors now finds room behind the workflow only.
    assert state.advance(9).tolist() == [6, 10]
    assert site.at(0).advance(9).tolist() == [2, 9]


def test_a_plan_for_another_instant_is_refused():
    site = ReservationSite(log([(0, 1, 1), (2, 4, 2), (9, 1, 1)]), 2)
    planned = plan(CHAIN, site.at(0).slots(), now=0)
    with pytest.raises(SimulationError, match=r"slot 1 of 2 is not free at second 2"):
        site.at(2).provision(planned)


def test_faults_are_named():
    with pytest.raises(WorkloadError, match=r"task 'a' needs 2 processors, and the largest site has 1"):
        ReservationSite(log([(0, 1, 1), (2, 4, 1)]), 1).at(0).best_effort(CHAIN)
    with pytest.raises(SimulationError, match=r"\(row 1\) is wider than the site's 2 processors"):
        ReservationSite(log([(0, 1, 1), (2, 4, 3)]), 2)
    with pytest.raises(SimulationError, match="is not in submit order"):
        ReservationSite(log([(3, 1, 1), (2, 4, 1)]), 2)
    with pytest.raises(SimulationError, match="has no run time"):
        ReservationSite(log([(3, -1, 1)]), 2)
    with pytest.raises(SimulationError, match="clock starts at 0"):
        ReservationSite(log([(3, 1, 1)]), 2).at(-1)
    with pytest.raises(SimulationError, match="time cannot go back"):
        ReservationSite(log([(3, 1, 1)]), 2).at(5).advance(4)
    with pytest.raises(SimulationError, match="`inflation >= 0` must hold"):
        ReservationSite(log([(3, 1, 1)]), 2, inflation=-0.1)


@st.composite
def submissions(draw):
    """Draw a site, an instant and a workflow that fits."""
    machine = draw(st.integers(2, 8))
    row = st.tuples(st.integers(0, 4000), st.integers(1, 3000), st.integers(1, machine))
    jobs = sorted(draw(st.lists(row, min_size=1, max_size=25)))
    tasks = draw(st.integers(1, 8))
    shape = {
        "tasks": tasks,
        "depth": draw(st.integers(1, tasks)),
        "run_time": draw(st.sampled_from([5, 800])),
    }
    workflow = generate_workflow(seed=draw(st.integers(0, 99)), processors=2, max_processors=machine, **shape)
    return machine, jobs, draw(st.integers(0, 4500)), workflow


@given(submissions(), st.sampled_from(["narrow", "always"]))
@examples(60)
def test_what_is_planned_on_free_slots_can_be_held(case, cross_slot):
    machine, jobs, now, workflow = case
    site = ReservationSite(log(jobs), machine)
    slots = site.at(now).slots()
    planned = plan(workflow, slots, now=now, cross_slot=cross_slot)
    assert planned.feasible
    state = site.at(now)
    execution = state.provision(planned)
    assert execution.makespan == planned.makespan
    assert execution.allocation_cost >= workflow.work
    later = state.advance(20_000)
    # The whole log again, with the plan as advance reservations: the same starts, nobody moved.
    reserved = planned.reservations()
    begin, end = reserved.start.astype(np.int64), reserved.end.astype(np.int64)
    agreed = [
        (now, (-1, *row)) for row in zip(begin.tolist(), end.tolist(), list(reserved.processors), strict=True)
    ]
    submit, run, width = np.array(jobs, dtype=np.int64).T
    # The site's clock begins with the first submission.
    submit = submit - submit[0]
    start, _, _ = conservative_schedule_twin(
        submit, run, run, width, range(len(jobs)), machine, False, advance=agreed
    )
    submitted = int((submit <= now).sum())
    assert start[:submitted] == site.start[:submitted].tolist()
    assert start[submitted:] == later.tolist()


@pytest.mark.real_traces
def test_the_log_of_a_real_site(trace_dir):
    raw = gt.read_workload(trace_dir / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    workload, _ = gt.clean(raw)
    site = ReservationSite(workload.first(3000), 100)
    workflow = generate_workflow(seed=2, tasks=30, depth=5, processors=8, max_processors=100)
    for part in (0.2, 0.5, 0.8):
        now = int(part * site.span)
        queue, slots = site.at(now).best_effort(workflow), site.at(now).slots()
        execution = site.at(now).provision(plan(workflow, slots, now=now))
        assert queue.allocation_cost == workflow.work <= execution.allocation_cost
        assert min(queue.makespan, execution.makespan) >= workflow.critical_path
        # What is free and what jobs hold make up the site, from now to the horizon.
        horizon = site.at(now).horizon
        submitted = int(np.searchsorted(workload.submit_time - workload.submit_time[0], now, side="right"))
        end = np.minimum(site.start[:submitted] + np.maximum(workload.run_time[:submitted], 1), horizon)
        busy = (
            np.clip(end - np.maximum(site.start[:submitted], now), 0, None) * workload.processors[:submitted]
        )
        assert (slots.duration * slots.processors).sum() + busy.sum() == 100 * (horizon - now)
