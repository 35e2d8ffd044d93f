"""Policies that decide: twins of bundled orders, columns by hand, leaks, and what is refused."""

from __future__ import annotations

import copy
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.policies import get_queue_order
from gridtune.batch.policies.rollout import Rollout
from gridtune.errors import PolicyError, SimulationError
from gridtune.study import leaks
from tests.batch.logs import logs, make_log
from tests.conftest import examples


class Plain(gt.Policy):
    """First come, first served, without backfilling."""

    def decide(self, state):
        width = np.cumsum(state.waiting.processors)
        return np.arange(np.searchsorted(width, state.free, side="right"))


class Scored(gt.Policy):
    """EASY, by a column that the constructor names."""

    def __init__(self, column):
        self.column = column

    def decide(self, state):
        return state.easy(np.argsort(getattr(state.waiting, self.column), kind="stable"))


class Learned(gt.Policy):
    """EASY, by the mean run time of the user's jobs that have ended; keeps it in a dictionary."""

    def __init__(self, weight=1.0):
        self.weight, self.seen, self.runs = weight, 0, {}

    def decide(self, state):
        ended = state.ended
        for user, run in zip(
            ended.user[self.seen :].tolist(), ended.run_time[self.seen :].tolist(), strict=True
        ):
            self.runs.setdefault(user, []).append(run)
        self.seen = len(ended)
        means = [np.mean(self.runs.get(user, [0])) for user in state.waiting.user.tolist()]
        return state.easy(np.argsort(np.array(means) * self.weight - state.waiting.wait / 50, kind="stable"))


TWINS = [
    (Plain(), {"order": "fcfs", "backfill": "none"}),
    (Scored("submit_time"), {"order": "fcfs"}),
    (Scored("walltime"), {"order": "sjf"}),
    (Scored("user_usage"), {"order": "fair-user"}),
    (Scored("group_usage"), {"order": "fair-group"}),
    (Scored("prediction"), {"order": "prediction"}),
    (Scored("early_end"), {"order": "early_end"}),
]


@pytest.mark.parametrize(("policy", "bundled"), TWINS, ids=[str(bundled) for _, bundled in TWINS])
@examples(60)
@given(
    workload=logs(),
    kill=st.booleans(),
    half_life=st.sampled_from([None, 5.0]),
    walltime=st.sampled_from(["log", "exact", "predicted"]),
    predictor=st.sampled_from(["last-two", "template"]),
    guard=st.sampled_from([None, 0, 3, 20]),
)
def test_twins_of_bundled_orders(policy, bundled, workload, kill, half_life, walltime, predictor, guard):
    options = {"kill": kill, "half_life": half_life, "walltime": walltime, "predictor": predictor}
    # Behind a job that a guard puts first, what a policy without backfilling names may be backfilled.
    options["guard"] = guard if "backfill" not in bundled else None
    decided = gt.simulate(workload, order=policy, **options)
    gt.validate_schedule(decided)
    np.testing.assert_array_equal(decided.start_time, gt.simulate(workload, **bundled, **options).start_time)


@pytest.mark.parametrize(("policy", "bundled"), TWINS[:4], ids=[str(bundled) for _, bundled in TWINS[:4]])
def test_twins_on_a_log_within_seconds(trace_dir, policy, bundled):
    log, _ = gt.clean(gt.read_workload(trace_dir / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz"))
    gt.simulate(log.first(100), order=policy)
    began = time.process_time()
    decided = gt.simulate(log, order=policy)
    assert time.process_time() - began < 10
    np.testing.assert_array_equal(decided.start_time, gt.simulate(log, **bundled).start_time)


def test_closed_loops_and_partitions_are_those_of_bundled_orders():
    log = make_log([(10 * row, 35, 40, 1 + row % 4, row % 3) for row in range(40)], 4)
    columns = {**log.columns, "preceding_job": np.arange(40) % 5 * np.arange(40) // 4}
    columns |= {"think_time": np.full(40, 3), "partition": np.arange(40) % 2}
    log = gt.Workload(columns, machine_processors=4)
    for options in (
        {"dependencies": "log"},
        {"partitions": "separate", "partition_processors": {"0": 4, "1": 4}},
    ):
        decided = gt.simulate(log, order=Scored("walltime"), **options)
        bundled = gt.simulate(log, order="sjf", **options)
        np.testing.assert_array_equal(decided.start_time, bundled.start_time)


def test_a_state_by_hand():
    seen = []

    class Watching(gt.Policy):
        def decide(self, state):
            seen.append(state)
            for table in (state.waiting, state.running, state.ended):
                assert len(table.user_usage) == len(table)
            assert (state.waiting.wait == state.now - state.waiting.submit_time).all()
            if len(seen) == 2:
                assert state.reservation(1) == (100, 0)
                assert state.reservation(1, [0]) == (100, 0)
                assert state.reservation(0) == (7, 0)
                table = copy.copy(state.ended)
                table.job = state.running.job
                assert table.run_time.tolist() == [-1]
                assert [state.fits(row) for row in range(2)] == [True, False]
            return state.easy(range(len(state.waiting)))

    # Submission, run time, walltime, processors, user.
    log = make_log([(0, 5, 50, 1, 7), (0, 90, 100, 3, 8), (7, 9, 50, 1, 7), (7, 9, 20, 4, 9)], 4, origin=1000)
    gt.simulate(log, order=Watching(), kill=False)
    first, second, *_ = seen
    assert (first.now, first.total, first.free) == (0, 4, 4)
    assert first.waiting.job.tolist() == [0, 1]
    assert (second.now, second.free) == (7, 1)
    assert second.waiting.job.tolist() == [2, 3]
    assert second.waiting.wait.tolist() == [0, 0]
    assert second.waiting.user_usage.tolist() == [5.0, 0.0]
    assert second.running.job.tolist() == [1]
    assert second.running.requested_end.tolist() == [100]
    assert second.ended.user.tolist() == [7]
    assert second.ended.run_time.tolist() == [5]
    for table, column in ((second.waiting, "run_time"), (second.running, "run_time"), (second.ended, "wait")):
        with pytest.raises(AttributeError, match=f"no column '{column}'"):
            getattr(table, column)


def test_a_copy_of_the_policy_decides():
    policy = Learned(2.0)
    log = gt.generate_workload("sessions", jobs=200, processors=32, seed=2)
    first, again = (gt.simulate(log, order=policy) for _ in range(2))
    np.testing.assert_array_equal(first.start_time, again.start_time)
    assert (policy.seen, policy.runs) == (0, {})


@pytest.mark.parametrize("walltime", ["log", pytest.param("predicted", marks=pytest.mark.slow)])
def test_no_decision_depends_on_what_happens_later(walltime, monkeypatch):
    futures = examples(30).max_examples
    monkeypatch.setattr(leaks, "_FUTURES", futures)
    log = gt.generate_workload("sessions", jobs=300, processors=32, seed=5)
    for policy in (Learned(), Scored("prediction"), Scored("user_usage")):
        assert leaks._changed_decisions(log, {"order": policy, "walltime": walltime}) == (0, futures)


def test_a_policy_that_sees_run_times_is_found():
    class Cheating(gt.Policy):
        def decide(self, state):
            return state.easy(np.argsort(self.run[state.waiting.job], kind="stable"))

    log = gt.generate_workload("sessions", jobs=300, processors=32, seed=5)
    Cheating.run = log.run_time
    policy = {"order": Cheating()}
    real = leaks.simulate

    def simulate(other, **options):
        Cheating.run = other.run_time
        return real(other, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaks, "simulate", simulate)
        changed, _ = leaks._changed_decisions(log, policy)
    assert changed


def deciding(decision):
    class Deciding(gt.Policy):
        def decide(self, state):
            return decision(state)

    return Deciding()


def divides(state):
    return [state.now // 0]


REFUSED = [
    (lambda state: None, "'Deciding' decides None at second 3"),
    (lambda state: [True, False], r"decides \[True, False\]"),
    (lambda state: [0.5], r"decides \[0.5\]"),
    (lambda state: [2], "names row 2 of 2 waiting jobs at second 3"),
    (lambda state: [-1], "names row -1 of 2 waiting jobs"),
    (lambda state: [1, 1], "'Deciding' names row 1 of 2 waiting jobs twice at second 3"),
    (lambda state: [1, 0], "starts 4 processors while 3 are free at second 3, for job 1"),
    (lambda state: [], "starts nothing, nothing runs and 2 jobs wait at second 3, for job 1"),
    (divides, r"(?s)fails: .*zero.*test_decided.py, line \d+\) at second 3, for job 1"),
    (lambda state: state.waiting.run_time, "no column 'run_time': a policy never sees run times"),
]


@pytest.mark.parametrize(("decision", "words"), REFUSED)
def test_illegal_decisions(decision, words):
    log = make_log([(0, 2, 2, 4), (3, 2, 2, 4), (3, 2, 2, 1)], 4)

    def first_starts(state):
        return [0] if state.now == 0 else decision(state)

    log = gt.Workload({**log.columns, "job_id": np.arange(3)}, machine_processors=4)
    with pytest.raises(PolicyError, match=words):
        gt.simulate(log, order=deciding(first_starts))


class Narrowest(gt.Policy):
    """The narrowest jobs that fit; knows no guard."""

    def decide(self, state):
        rows = np.argsort(state.waiting.processors, kind="stable")
        return rows[np.cumsum(state.waiting.processors[rows]) <= state.free]


def test_a_guard_by_hand():
    # Job 1 needs all processors and passes the guard at second 30, so that job 4 may not delay it then.
    log = make_log([(0, 10, 10, 4), (1, 20, 20, 5), (2, 50, 50, 1), (5, 40, 40, 4), (45, 30, 30, 1)], 5)
    free = gt.simulate(log, order=Narrowest())
    assert free.start_time.tolist() == [0, 80, 2, 10, 50]
    guarded = gt.simulate(log, order=Narrowest(), guard=30)
    assert guarded.start_time.tolist() == [0, 52, 2, 10, 72]
    assert guarded.settings["guard"] == 30


class Reserving(gt.Policy):
    """First come, first served, but jobs of user 1 get reservations at `time`, later at `again`."""

    def __init__(self, time=60.0, again=None):
        self.time, self.again, self.asked = time, again, 0

    def decide(self, state):
        self.asked += 1
        rows = np.flatnonzero(state.waiting.user != 1)
        rows = rows[np.cumsum(state.waiting.processors[rows]) <= state.free]
        time = self.time if self.asked == 1 else self.again
        if time is None:
            return rows
        return gt.Decision(rows, {int(row): time for row in np.flatnonzero(state.waiting.user == 1)})


def test_a_reservation_is_kept():
    # The job of user 1 starts at its second, at which nothing else happens, and others end before it.
    log = make_log([(0, 5, 50, 3, 1), (0, 9, 60, 4, 2), (20, 9, 40, 2, 3)], 4)
    for second in (60, 75):
        decided = gt.simulate(log, order=Reserving(second))
        assert decided.start_time.tolist() == [second, 0, 20]
        gt.validate_schedule(decided)
    # A job that runs for longer than requested delays it.
    log = make_log([(0, 5, 50, 3, 1), (0, 70, 60, 4, 2), (61, 9, 40, 1, 3)], 4)
    assert gt.simulate(log, order=Reserving(), kill=False).start_time.tolist() == [70, 0, 70]


def test_what_a_reservation_refuses():
    log = make_log([(0, 5, 50, 3, 1), (0, 9, 60, 4, 2), (20, 9, 41, 2, 3)], 4)
    with pytest.raises(PolicyError, match=r"delays the reservation at second 60 .* at second 20, for job"):
        gt.simulate(log, order=Reserving())
    for again in (61, 9, 59.5):
        with pytest.raises(PolicyError, match=f"reserves second {again}, .* at second 9, for job"):
            gt.simulate(log, order=Reserving(again=again))
    with pytest.raises(PolicyError, match="leave out the guard or the reservations"):
        gt.simulate(log, order=Reserving(), guard=5)


def test_a_keyboard_interrupt_ends_the_run():
    def interrupt(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gt.simulate(make_log([(0, 2, 2, 4)], 4), order=deciding(interrupt))


def test_what_does_not_go_with_it():
    log = make_log([(0, 2, 2, 4)], 4)
    for options, words in (
        ({"backfill": "none"}, "backfill=none has no effect with order=Plain"),
        ({"fill_order": "sjf"}, "fill_order=.*has no effect"),
        ({"undefined_scores": "last"}, "undefined_scores=last has no effect"),
    ):
        with pytest.raises(SimulationError, match=words):
            gt.simulate(log, order=Plain(), **options)
    with pytest.raises(PolicyError, match="decides itself and has no scores"):
        gt.simulate(log, order="sjf", fill_order=Plain())
    with pytest.raises(PolicyError, match="decides itself and has no scores"):
        gt.simulate(log, order=Rollout((get_queue_order(Plain()),)))
    with pytest.raises(PolicyError, match="derives from Policy"):
        gt.queue_order("test-none")(dict)


def test_a_registered_class_has_parameters():
    gt.queue_order("test-learned")(Learned)
    order = get_queue_order("test-learned(weight=3)")
    assert (order.label, order.score(**order.parameters).weight) == ("test-learned(weight=3)", 3.0)
    assert order.description.startswith("EASY, by the mean")
    log = gt.generate_workload("sessions", jobs=200, processors=32, seed=2)
    by_name = gt.simulate(log, order="test-learned(weight=3)")
    np.testing.assert_array_equal(by_name.start_time, gt.simulate(log, order=Learned(3.0)).start_time)
    np.testing.assert_array_equal(gt.simulate(log, order=Learned).settings["order"], "test-learned(weight=1)")
