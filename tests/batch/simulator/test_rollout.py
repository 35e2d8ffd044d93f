"""Rollouts against their twin in plain Python, and what they may not see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.policies import backfilling_names, get_backfilling, get_queue_order
from gridtune.batch.policies.rollout import OBJECTIVES, WINDOWS, Rollout, get_order
from gridtune.errors import PolicyError, SimulationError
from tests.batch.logs import logs, make_log, reference_starts
from tests.conftest import examples

EASY = [name for name in backfilling_names() if get_backfilling(name).kind == "easy"]


@gt.queue_order("test-no-formula")
def no_formula(job):
    """Wide jobs first, unless they are long; no single expression."""
    if job.walltime > 4:
        return job.walltime
    return -job.processors


PORTFOLIOS = [None, "fcfs | saf", "sjf | fair-user | test-no-formula | walltime - 3 * wait"]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("portfolio", PORTFOLIOS)
@examples(40)
@given(
    workload=logs(jobs=16),
    backfill=st.sampled_from(EASY),
    window=st.sampled_from([2, 3, 5, 64]),
    moves=st.sampled_from([0, 0, 1, 7, 60]),
    guard=st.sampled_from([None, None, 0, 3, 10]),
    kill=st.booleans(),
    window_by=st.sampled_from(WINDOWS),
    backlog=st.sampled_from([0, 0, 50, 100, 300]),
    arrivals=st.sampled_from([0, 0, 3, 40]),
)
def test_kernel_equals_twin(
    objective, portfolio, workload, backfill, window, moves, guard, kill, window_by, backlog, arrivals
):
    options = f"objective={objective}, window={window}, moves={moves}"
    options += f", window_by={window_by}, backlog={backlog}, arrivals={arrivals}"
    order = f"rollout({options}{f', portfolio={portfolio}' if portfolio else ''})"
    settings_ = {"order": order, "backfill": backfill, "guard": guard, "kill": kill}
    schedule = gt.simulate(workload, **settings_)
    gt.validate_schedule(schedule)
    np.testing.assert_array_equal(schedule.start_time, reference_starts(workload, **settings_))


@pytest.mark.parametrize(
    "order",
    [
        "rollout(window=8)",
        "rollout(objective=balanced, window=12, moves=20)",
        "rollout(objective=balanced, window=12, moves=20, window_by=orders)",
        "rollout(objective=index, window=12, moves=20, window_by=orders, backlog=100, arrivals=20)",
    ],
)
def test_a_long_queue_equals_the_twin(order):
    # More jobs wait than the window has, and many are moved within it.
    workload = gt.generate_workload("lublin", jobs=90, seed=5, processors=32, load=3.0)
    settings_ = {"order": order, "backfill": "easy", "guard": 40_000}
    schedule = gt.simulate(workload, **settings_)
    assert schedule.queue_length.values.max() > 20
    twin = reference_starts(workload, **settings_, kill=schedule.settings["kill"])
    np.testing.assert_array_equal(schedule.start_time, twin)


@pytest.mark.parametrize("moves", [0, 20])
def test_an_order_of_the_portfolio_that_raises_fails_the_run(moves):
    @gt.queue_order("test-rollout-raises")
    def raises(job):
        """Fail for a job that has waited."""
        if job.wait > 1000:
            raise ValueError("too late")
        return job.walltime

    workload = gt.generate_workload("lublin", jobs=90, seed=5, processors=32, load=3.0)
    order = f"rollout(window=8, moves={moves}, portfolio=fcfs | test-rollout-raises)"
    with pytest.raises(PolicyError, match=r"'test-rollout-raises' fails: too late .* at second .* for job "):
        gt.simulate(workload, order=order, backfill="easy")


def columns_of(workload):
    names = ("submit_time", "run_time", "requested_time", "requested_processors")
    return [np.array(workload.column(name)) for name in names]


INDEX = "rollout(objective=index, moves=20, window=16, window_by=orders, backlog=100, arrivals=5)"


@pytest.mark.parametrize("order", ["rollout", pytest.param(INDEX, marks=pytest.mark.slow)])
def test_no_decision_depends_on_what_happens_later(order):
    # Other futures: run times of jobs that have not ended, and all of the jobs not yet submitted.
    rng = np.random.default_rng(11)
    workload = gt.generate_workload("lublin", jobs=120, seed=4, processors=64, load=1.5)
    submit, run, walltime, width = columns_of(workload)
    past = gt.simulate(workload, order=order, guard=40_000, kill=True)
    start, end = past.start_time, past.end_time
    changed, futures = 0, examples(1000).max_examples
    for _ in range(futures):
        now = int(rng.choice(np.concatenate([submit, end])))
        coming, going = submit > now, end > now
        other = [submit.copy(), run.copy(), walltime.copy(), width.copy()]
        ran = np.maximum(now - start, -1) + 1
        other[1][going] = (ran + rng.integers(0, 90_000, len(run)))[going]
        other[2][coming] = rng.integers(1, 90_000, coming.sum())
        other[3][coming] = rng.integers(1, 65, coming.sum())
        schedule = gt.simulate(make_log(np.stack(other, axis=1), 64), order=order, guard=40_000, kill=True)
        decided = start <= now
        np.testing.assert_array_equal(schedule.start_time[decided], start[decided])
        assert (schedule.start_time[~decided] > now).all()
        changed += (schedule.start_time != start).any()
    assert changed > 0.9 * futures


def test_an_order_of_one_is_that_order():
    workload = gt.generate_workload("lublin", jobs=800, seed=3, processors=64, load=1.2)
    for order in ("saf", "fcfs", "f1"):
        alone = gt.simulate(workload, order=f"rollout(window=800, portfolio={order})", guard=100_000)
        plain = gt.simulate(workload, order=order, guard=100_000)
        np.testing.assert_array_equal(alone.start_time, plain.start_time)


def test_objectives_differ_by_hand():
    # At 10 s two processors are free. The narrow job first: responses 16 and 27, sum 43, weighted by area
    # 8 · 16 + 20 · 27 = 668. The wide job first: 19 and 26, sum 45, weighted 20 · 19 + 8 · 26 = 588.
    log = make_log([(0, 10, 10, 2), (1, 10, 10, 2), (2, 8, 8, 1)], 2)
    starts = {
        name: gt.simulate(log, order=f"rollout(objective={name})").start_time.tolist() for name in OBJECTIVES
    }
    assert starts["wait"] == [0, 18, 10]
    assert starts["area"] == [0, 10, 20]
    # Squares by processors: 2 · 19² + 26² = 1,398 against 2 · 27² + 16² = 1,714.
    assert starts["safe"] == [0, 10, 20]


def test_moves_find_what_no_order_of_the_portfolio_has():
    log = make_log([(0, 10, 10, 2), (1, 10, 10, 2), (2, 8, 8, 1)], 2)
    assert gt.simulate(log, order="rollout(portfolio=fcfs)").start_time.tolist() == [0, 10, 20]
    assert gt.simulate(log, order="rollout(portfolio=fcfs, moves=1)").start_time.tolist() == [0, 18, 10]


@pytest.mark.parametrize("parameter", ["window_by=orders", "backlog=100", "arrivals=40", "objective=index"])
def test_a_parameter_changes_a_schedule(parameter):
    workload = gt.generate_workload("lublin", jobs=90, seed=5, processors=32, load=3.0)
    settings_ = {"backfill": "easy", "guard": 40_000}
    plain = gt.simulate(workload, order="rollout(window=12)", **settings_)
    other = gt.simulate(workload, order=f"rollout(window=12, {parameter})", **settings_)
    assert (plain.start_time != other.start_time).any()


def test_a_guard_grows_with_the_backlog():
    # FCFS serves jobs behind a wide long one only when it has ended, after a guard of 5 s. The backlog is
    # 2 · 100 processor-seconds and more on 2 processors, so with it no job is guarded yet.
    log = make_log([(0, 10, 10, 2), (1, 100, 100, 2), (2, 1, 1, 1)], 2)
    starts = {
        backlog: gt.simulate(log, order=f"rollout(backlog={backlog})", guard=5).start_time.tolist()
        for backlog in (0, 100)
    }
    assert starts == {0: [0, 10, 110], 100: [0, 11, 10]}


def test_labels_are_read_back():
    for text in (
        "rollout",
        "rollout(objective=area)",
        "rollout(objective=index, moves=60, window_by=orders, backlog=100, arrivals=5)",
        "rollout(portfolio=fcfs | wfp3(exponent=2) | log(walltime) - wait, window=16, moves=60)",
    ):
        policy = get_order(text)
        assert isinstance(policy, Rollout)
        assert get_order(policy.label) == policy
    assert get_order("rollout( moves = 60 , window=64)").label == "rollout(moves=60)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rollout(moves=many)", "whole number"),
        ("rollout(depth=3)", "no parameter 'depth'"),
        ("rollout(objective=waits)", "no objective"),
        ("rollout(window_by=age)", "no window_by"),
        ("rollout(arrivals=some)", "whole number"),
        ("rollout(portfolio=nothing)", "no queue order is named"),
        ("rollout(window=1)", "window"),
        ("rollout(moves=60", "parenthesis"),
        (f"rollout(portfolio={' | '.join(['fcfs'] * 17)})", "at most|1 to 16"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(PolicyError, match=words):
        get_order(text)


def test_it_goes_with_easy_alone():
    log = make_log([(0, 1, 1, 1)], 2)
    with pytest.raises(SimulationError, match="EASY"):
        gt.simulate(log, order="rollout", backfill="conservative")
    with pytest.raises(SimulationError, match="fill_order"):
        gt.simulate(log, order="rollout", fill_order="sjf")
    with pytest.raises(PolicyError, match="as a whole"):
        get_queue_order("rollout")
    with pytest.raises(PolicyError, match="looks ahead"):
        gt.queue_order("rollout")(lambda job: job.wait)
