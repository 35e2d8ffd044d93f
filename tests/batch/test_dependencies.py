"""Dependencies as a closed loop: equal to a machine that is stepped event by event."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.power import PowerPolicy
from gridtune.batch.replay import _follow_ups
from gridtune.core.usage import NodePower
from gridtune.errors import SimulationError
from gridtune.sweep.execution.runner import run_cell
from tests.batch.logs import logs
from tests.conftest import examples


def dependent(log: gt.Workload, before: list[int], think: list[int]) -> gt.Workload:
    """Return the log with predecessors by row (-1 for none)."""
    numbers = np.where(np.array(before) >= 0, log.job_id[before], -1)
    columns = {**log.columns, "preceding_job": numbers, "think_time": np.array(think)}
    return replace(log, columns=columns, whole_log=None)


def stepped(log: gt.Workload, before: list[int], think: list[int], *, easy: bool) -> list[tuple[int, int]]:
    """Return submission and start of each job, first come, first served: the specification, by the second."""
    jobs = range(len(log))
    submit = [int(time) if before[job] < 0 else None for job, time in enumerate(log.submit_time)]
    limit, width = log.requested_time.tolist(), log.processors.tolist()
    run = np.minimum(log.run_time, log.requested_time).tolist()
    start: dict[int, int] = {}
    now = min(time for time in submit if time is not None)
    while len(start) < len(log):
        for job in jobs:
            first = before[job]
            if submit[job] is None and first in start and start[first] + run[first] <= now:
                end = start[first] + run[first]
                asked = end + think[job] if think[job] >= 0 else max(int(log.submit_time[job]), end)
                submit[job] = max(asked, start[first] + 1)
        waiting = sorted(
            (job for job in jobs if submit[job] is not None and submit[job] <= now and job not in start),
            key=lambda job: (submit[job], job),
        )
        while True:
            running = [job for job in start if start[job] + run[job] > now]
            free = log.machine_processors - sum(width[job] for job in running)
            if not waiting:
                break
            head = waiting[0]
            if width[head] <= free:
                start[waiting.pop(0)] = now
                continue
            if easy:
                ends = sorted((max(start[job] + limit[job], now), width[job]) for job in running)
                shadow = next(
                    end
                    for end, _ in ends
                    if free + sum(size for other, size in ends if other <= end) >= width[head]
                )
                extra = free + sum(size for end, size in ends if end <= shadow) - width[head]
                for job in list(waiting[1:]):
                    if width[job] > free:
                        continue
                    if now + limit[job] > shadow:
                        if width[job] > extra:
                            continue
                        extra -= width[job]
                    free -= width[job]
                    start[job] = now
                    waiting.remove(job)
            break
        if len(start) < len(log):
            now += 1
    return [(int(submit[job]), start[job]) for job in jobs]


@st.composite
def dependent_logs(draw):
    log = draw(logs(jobs=14))
    # A job of 0 s ends in the instant it starts, which the stepped machine does not tell apart.
    run = np.maximum(log.run_time, 1)
    log = replace(log, columns={**log.columns, "run_time": run}, whole_log=None)
    before = [draw(st.one_of(st.just(-1), st.integers(0, row - 1))) if row else -1 for row in range(len(log))]
    think = [draw(st.sampled_from([-1, 0, 0, 1, 5])) if row >= 0 else -1 for row in before]
    return dependent(log, before, think), before, think


@examples(80)
@given(case=dependent_logs(), easy=st.booleans())
def test_equals_a_machine_stepped_second_by_second(case, easy):
    log, before, think = case
    backfill = "easy" if easy else "none"
    schedule = gt.simulate(log, backfill=backfill, dependencies="log", kill=True)
    gt.validate_schedule(schedule)
    jobs = schedule.workload
    times = zip(jobs.submit_time.tolist(), schedule.start_time.tolist(), strict=True)
    ours = dict(zip(jobs.job_id.tolist(), times, strict=True))
    twin = stepped(log, before, think, easy=easy)
    assert [ours[number] for number in log.job_id.tolist()] == twin


@examples(25)
@given(
    case=dependent_logs(),
    policy=st.sampled_from(
        [("sjf", "easy"), ("wfp3", "easy"), ("saf", "conservative"), ("fair-user", "none")]
    ),
)
def test_the_schedule_agrees_with_itself(case, policy):
    log, before, think = case
    order, backfill = policy
    schedule = gt.simulate(log, order=order, backfill=backfill, dependencies="log")
    jobs = schedule.workload
    row = {number: at for at, number in enumerate(jobs.job_id.tolist())}
    end, submit = schedule.end_time, jobs.submit_time
    for job, first in enumerate(before):
        at = row[int(log.job_id[job])]
        if first < 0:
            assert submit[at] == log.submit_time[job]
            continue
        ended = end[row[int(log.job_id[first])]]
        assert submit[at] == (ended + think[job] if think[job] >= 0 else max(ended, log.submit_time[job]))
    plain = replace(jobs, whole_log=None)
    again = gt.simulate(plain, order=order, backfill=backfill)
    assert (again.start_time == schedule.start_time).all()


def test_only_jobs_before_are_predecessors():
    columns = {
        "job_id": np.array([5, 6, 7, 8]),
        "submit_time": np.arange(4),
        "run_time": np.full(4, 10),
        "preceding_job": np.array([6, 5, 99, 7]),
        "think_time": np.array([1, 2, 3, -1]),
    }
    after = _follow_ups(gt.Workload(columns))
    assert (after.row.tolist(), after.before.tolist(), after.think.tolist()) == ([1, 3], [0, 2], [2, -1])
    assert after.left_out == 2


def test_results_say_what_is_followed(tmp_path):
    columns = {
        "job_id": np.array([1, 2, 3]),
        "submit_time": np.array([0, 3, 4]),
        "run_time": np.array([10, 10, 0]),
        "preceding_job": np.array([-1, 1, 2]),
        "think_time": np.array([-1, 5, 0]),
    }
    log = gt.Workload(columns, machine_processors=1)
    assert gt.simulate(log).notes["ignored"].startswith("dependencies, in 2 jobs; think times, in 1 jobs")
    schedule = gt.simulate(log, dependencies="log")
    assert schedule.workload.submit_time.tolist() == [0, 15, 25]
    assert "ignored" not in schedule.notes
    gt.write_workload(log, path := tmp_path / "log.swf")
    outcome = run_cell("batch", {"trace": str(path), "dependencies": "log"}).outcome
    assert "ignored" not in outcome.notes
    assert outcome.metrics["wait_mean"] == 0
    windowed = run_cell("batch", {"trace": str(path), "dependencies": "log", "window": "2/2"}).outcome.notes
    assert windowed["dependencies"] == "1 jobs depend on jobs that are not among those before them"
    with pytest.raises(SimulationError, match="'ignore' or 'log'"):
        gt.simulate(log, dependencies="all")


def test_partitions_and_dependencies_go_together():
    columns = {
        "job_id": np.array([1, 2, 3]),
        "submit_time": np.array([0, 0, 0]),
        "run_time": np.array([10, 4, 2]),
        "requested_processors": np.array([1, 1, 1]),
        "partition": np.array([1, 2, 2]),
        "preceding_job": np.array([-1, -1, 1]),
        "think_time": np.array([-1, -1, 3]),
    }
    sizes = {"1": 1, "2": 1}
    schedule = gt.simulate(
        gt.Workload(columns), partitions="separate", partition_processors=sizes, dependencies="log"
    )
    assert schedule.workload.submit_time.tolist() == [0, 0, 13]
    assert schedule.start_time.tolist() == [0, 0, 13]


@examples(60)
@given(case=dependent_logs(), order=st.sampled_from(["fcfs", "sjf", "wfp3"]), cores=st.sampled_from([1, 2]))
def test_with_power_states_the_schedule_is_that_of_its_own_submissions(case, order, cores):
    log, before, think = case
    power = PowerPolicy(cores, 2, power=NodePower(switch_on_time=3, switch_off_time=4))
    for backfill in ("none", "easy", "conservative"):
        schedule = gt.simulate(log, order=order, backfill=backfill, dependencies="log", power=power)
        gt.validate_schedule(schedule)
        jobs = schedule.workload
        row = {number: at for at, number in enumerate(jobs.job_id.tolist())}
        for job, first in enumerate(before):
            if first >= 0:
                ended = schedule.end_time[row[int(log.job_id[first])]]
                asked = ended + think[job] if think[job] >= 0 else max(ended, log.submit_time[job])
                assert jobs.submit_time[row[int(log.job_id[job])]] == asked
        # A log that has these submissions, and no dependencies, gives the same starts and the same nodes.
        again = gt.simulate(replace(jobs, whole_log=None), order=order, backfill=backfill, power=power)
        np.testing.assert_array_equal(schedule.start_time, again.start_time)
        for name in ("time", "before", "after", "number", "boot_wait"):
            ours, theirs = getattr(schedule.nodes, name), getattr(again.nodes, name)
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


def test_a_follow_up_waits_for_the_boot_of_its_predecessor():
    # On one node job 1 runs 0 to 10; job 2 comes at 100 and waits 5 s for the boot; job 3 20 s after its end.
    columns = {
        "job_id": np.array([1, 2, 3]),
        "submit_time": np.array([0, 100, 101]),
        "run_time": np.full(3, 10),
        "requested_time": np.full(3, 10),
        "requested_processors": np.ones(3, np.int64),
        "preceding_job": np.array([-1, -1, 2]),
        "think_time": np.array([-1, -1, 20]),
    }
    log = gt.Workload(columns, machine_processors=1)
    power = PowerPolicy(1, 0, power=NodePower(switch_on_time=5, switch_off_time=1))
    schedule = gt.simulate(log, dependencies="log", power=power)
    assert schedule.workload.submit_time.tolist() == [0, 100, 135]
    assert schedule.start_time.tolist() == [0, 105, 140]
    assert schedule.nodes.boot_wait.tolist() == [0, 5, 5]
