"""Kernels against their plain-Python twins, to the second, on random logs full of ties."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config, njit

import gridtune as gt
from gridtune.batch.policies import (
    QueueOrder,
    backfilling_names,
    get_backfilling,
    get_queue_order,
    queue_order_names,
)
from gridtune.batch.simulator import grouping, scored
from tests.batch.logs import logs, make_log, reference_starts
from tests.conftest import examples

EASY = [name for name in backfilling_names() if get_backfilling(name).kind != "conservative"]
# Without the orders that tests and docs register.
ORDERS = [
    name
    for name in queue_order_names()
    if get_queue_order(name).score.__module__ == "gridtune.batch.policies.orders"
]

MANY = [pytest.mark.slow, pytest.mark.skipif(config.BOUNDSCHECK, reason="takes a minute")]
FAIR = ["fair-user", "fair-group"]
#: One order that never changes and one that does: the kernels do not depend on the formula beyond that.
TYPICAL = {"fcfs", "wfp3"}


def combinations(orders, backfills, typical_backfills=()):
    """Return all pairs; all but those of a typical order or backfilling are for the long leg."""
    return [
        pytest.param(
            order,
            backfill,
            marks=[] if order in TYPICAL or backfill in typical_backfills else pytest.mark.slow,
            id=f"{order}-{backfill}",
        )
        for order in orders
        for backfill in backfills
    ]


def test_every_shipped_order_is_tested():
    assert len(ORDERS) >= 18
    assert {"fcfs", "sjf", "ljf", "saf", "laf", "wfp3", "unicef", "f1", "f4", "edf", "fair-user"} <= set(
        ORDERS
    )


@pytest.mark.parametrize(("order", "backfill"), combinations(ORDERS, backfilling_names(), {"easy"}))
@examples(12)
@given(workload=logs(), kill=st.booleans(), seed=st.integers(0, 3))
def test_kernel_equals_twin(order, backfill, workload, kill, seed):
    lots = np.random.default_rng(seed).random(len(workload))
    schedule = gt.simulate(
        workload, order=order, backfill=backfill, kill=kill, rng=np.random.default_rng(seed)
    )
    gt.validate_schedule(schedule)
    twin = reference_starts(workload, order=order, backfill=backfill, kill=kill, lots=lots)
    np.testing.assert_array_equal(schedule.start_time, twin)


@pytest.mark.parametrize("order", ["fcfs", "saf", "wfp3"])
@pytest.mark.parametrize("fill_order", ["sjf", "ljf", "unicef"])
@examples(40)
@given(workload=logs(), kill=st.booleans(), backfill=st.sampled_from(EASY[1:]))
def test_backfilling_in_an_order_of_its_own(order, fill_order, workload, kill, backfill):
    settings_ = {"order": order, "fill_order": fill_order, "backfill": backfill, "kill": kill}
    schedule = gt.simulate(workload, undefined_scores="last", **settings_)
    np.testing.assert_array_equal(schedule.start_time, reference_starts(workload, **settings_))


@examples(60)
@given(
    workload=logs(),
    half_life=st.sampled_from([0.5, 3.0, 1e6]),
    order=st.sampled_from(FAIR),
    backfill=st.sampled_from(["easy", "conservative"]),
)
def test_fair_share_that_forgets(workload, half_life, order, backfill):
    schedule = gt.simulate(workload, order=order, backfill=backfill, half_life=half_life)
    twin = reference_starts(workload, order=order, backfill=backfill, half_life=half_life)
    np.testing.assert_array_equal(schedule.start_time, twin)


@pytest.mark.parametrize(
    ("order", "backfill"),
    combinations([name for name in ORDERS if get_queue_order(name).static], EASY),
)
@examples(6)
@given(workload=logs(machine=100, jobs=60), kill=st.booleans())
def test_both_kernels_agree_on_static_orders(order, backfill, workload, kill):
    indexed = get_queue_order(order)
    scored = replace(indexed, static=False)
    rng = [np.random.default_rng(1), np.random.default_rng(1)]
    one = gt.simulate(workload, order=indexed, backfill=backfill, kill=kill, rng=rng[0])
    other = gt.simulate(workload, order=scored, backfill=backfill, kill=kill, rng=rng[1])
    np.testing.assert_array_equal(one.start_time, other.start_time)


@pytest.mark.parametrize("order", ["fcfs", "sjf", "wfp3", "fair-user", "log(wait) * processors"])
@examples(40)
@given(
    guard=st.sampled_from([0, 1, 3, 8, 30]),
    workload=logs(jobs=30),
    backfill=st.sampled_from(backfilling_names()),
    fill_order=st.sampled_from([None, "narrowest", "unicef"]),
    kill=st.booleans(),
)
def test_a_guard_lets_those_who_have_waited_go_first(order, guard, workload, backfill, fill_order, kill):
    fill_order = fill_order if backfill in EASY[1:] else None
    settings_ = {"order": order, "backfill": backfill, "fill_order": fill_order, "kill": kill, "guard": guard}
    schedule = gt.simulate(workload, undefined_scores="last", **settings_)
    np.testing.assert_array_equal(schedule.start_time, reference_starts(workload, **settings_))


@pytest.mark.parametrize("fill_order", [None, "sjf"])
def test_a_guard_over_many_waiting_jobs(fill_order):
    # Jobs are promoted while the index has them, and while it moves back to a list.
    workload = gt.generate_workload("lublin", jobs=2500, seed=2, processors=64, load=1.3)
    order = get_queue_order("saf")
    for guard in (0, 20_000, 200_000, 10**9):
        one = gt.simulate(workload, order=order, fill_order=fill_order, guard=guard)
        other = gt.simulate(workload, order=replace(order, static=False), fill_order=fill_order, guard=guard)
        np.testing.assert_array_equal(one.start_time, other.start_time)
    unguarded = gt.simulate(workload, order=order, fill_order=fill_order)
    np.testing.assert_array_equal(one.start_time, unguarded.start_time)
    assert unguarded.queue_length.values.max() > 100


# The index is the same for all orders, and with bounds checked the scan takes a minute for each of them.
@pytest.mark.parametrize(
    "order", ["f2", *(pytest.param(name, marks=MANY) for name in ("fcfs", "sjf", "laf"))]
)
def test_index_over_many_waiting_jobs(order):
    # Thousands wait, so that all three levels of the index are in use; the scored kernel scans them all.
    rng = np.random.default_rng(7)
    jobs = 6000
    rows = np.stack(
        [
            np.sort(rng.integers(0, 40_000, jobs)),
            rng.integers(0, 900, jobs),
            rng.integers(1, 1000, jobs),
            np.minimum(2 ** rng.integers(0, 7, jobs), 50),
        ],
        axis=1,
    )
    workload = make_log(rows.tolist(), machine=64)
    indexed = get_queue_order(order)
    for backfill in ("none", "easy"):
        one = gt.simulate(workload, order=indexed, backfill=backfill)
        other = gt.simulate(workload, order=replace(indexed, static=False), backfill=backfill)
        assert one.queue_length.values.max() > 4096 if backfill == "none" else True
        np.testing.assert_array_equal(one.start_time, other.start_time)


#: Orders by name, and the same as expressions.
SAME = {
    "fcfs": "submit_time",
    "saf": "walltime * processors",
    "wfp3": "-processors * (wait / max(walltime, 1)) ** 3",
    "unicef": "-wait / (max(log2(processors), 1) * max(walltime, 1))",
    "f1": "log10(max(walltime, 1)) * processors + 870 * log10(max(submit_time, 1))",
    "f2": "sqrt(walltime) * processors + 25600 * log10(max(submit_time, 1))",
    "f3": "walltime * processors + 6860000 * log10(max(submit_time, 1))",
    "f4": "walltime * sqrt(processors) + 530000 * log10(max(submit_time, 1))",
    "fair-user": "user_usage",
}


@pytest.mark.parametrize("order", SAME)
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_an_expression_is_the_order_compiled(order, backfill):
    workload = gt.generate_workload("sessions", jobs=1500, seed=3)
    compiled = gt.simulate(workload, order=order, backfill=backfill)
    interpreted = gt.simulate(workload, order=SAME[order], backfill=backfill)
    np.testing.assert_array_equal(interpreted.start_time, compiled.start_time)


@pytest.mark.parametrize("backfill", ["easy", "easy-per-event", "conservative"])
@pytest.mark.parametrize("fill_order", [None, "walltime - 2 * prediction"])
@examples(25)
@given(workload=logs(), kill=st.booleans())
def test_expressions_equal_their_twin(backfill, fill_order, workload, kill):
    if fill_order is not None and backfill.startswith("conservative"):
        return
    settings_ = {"order": "prediction * processors - wait", "backfill": backfill, "kill": kill}
    schedule = gt.simulate(workload, undefined_scores="last", **settings_, fill_order=fill_order)
    twin = reference_starts(workload, **settings_, fill_order=fill_order)
    np.testing.assert_array_equal(schedule.start_time, twin)


#: Orders of each kind: by wait, gaining or losing; with levels, powers, ties; by use; without bounds.
KINDS = [
    "processors - wait / 3",
    "-wait",
    "wait",
    "wait * processors",
    "-processors * (wait + walltime) ** 0.5",
    "-(wait + 5) ** 3 / walltime",
    "walltime - now + submit_time / 2",
    "-wait * min(processors, 2) / 7",
    "user_usage / 7 - wait",
    "wait * processors - group_usage",
    "-(user_usage + 3) ** 2",
    "user_usage * processors",
    "-wait * wait + 5 * walltime",
    "-log(wait + 1) * processors",
    "min(user_usage, group_usage)",
]


@pytest.mark.parametrize("order", KINDS)
@examples(20)
@given(
    most=st.sampled_from([0, 3, 9, scored._MOST]),
    workload=logs(jobs=30),
    backfill=st.sampled_from(EASY),
    fill_order=st.sampled_from([None, "sjf", "unicef", "fair-group", "wait * wait"]),
    half_life=st.sampled_from([0.0, 4.0, 1e6]),
    kill=st.booleans(),
)
def test_changing_orders_of_all_kinds(order, most, workload, backfill, fill_order, half_life, kill):
    fill_order = None if backfill == "none" else fill_order
    settings_ = {"order": order, "backfill": backfill, "fill_order": fill_order, "kill": kill}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scored, "_MOST", most)  # when jobs move from the list to tournaments and back
        schedule = gt.simulate(workload, undefined_scores="last", **settings_, half_life=half_life)
    np.testing.assert_array_equal(
        schedule.start_time, reference_starts(workload, **settings_, half_life=half_life)
    )


@pytest.mark.parametrize("order", ["wfp3", "fair-user", "user_usage / 7 - wait"])
def test_only_jobs_that_may_move_are_scored(order):
    # Tens wait; a job that may move only since another has moved is next if it is behind that, else later.
    workload = gt.generate_workload("lublin", jobs=130, seed=2, processors=32, load=2.0)
    schedule = gt.simulate(workload, order=order, backfill="conservative")
    assert schedule.queue_length.values.max() > 30
    twin = reference_starts(workload, order=order, backfill="conservative", kill=True)
    np.testing.assert_array_equal(schedule.start_time, twin)


def opaque(order):
    """Return the same order with a score that is no formula, so that it has no bounds."""
    score, parameters = njit(order.score), tuple(order.parameters.values())

    def scanned(job):
        return score(job, *parameters)

    return QueueOrder(f"opaque {order.label}", scanned, "")


@pytest.mark.parametrize("order", ["wfp3", "unicef", "xfactor", "fair-user"])
@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_bounds_change_nothing_in_a_long_queue(order, backfill):
    workload = gt.generate_workload("lublin", jobs=2500, seed=2, processors=64, load=1.3)
    order = get_queue_order(order)
    bounded = gt.simulate(workload, order=order, backfill=backfill)
    scanned = gt.simulate(workload, order=opaque(order), backfill=backfill)
    assert bounded.queue_length.values.max() > 100
    np.testing.assert_array_equal(bounded.start_time, scanned.start_time)


def test_a_function_sees_floating_point_so_that_whole_numbers_do_not_overflow():
    @gt.queue_order("test-overflow")
    def overflow(job):
        """Oldest first, by numbers of more than 64 bits."""
        return -job.processors * job.wait**6

    workload = gt.generate_workload("lublin", jobs=2500, seed=2, processors=64, load=1.3)
    plain = gt.simulate(workload, order="-processors * wait ** 6", backfill="easy")
    schedule = gt.simulate(workload, order="test-overflow", backfill="easy")
    assert schedule.wait_time.max() ** 6.0 > 2.0**63
    np.testing.assert_array_equal(schedule.start_time, plain.start_time)


def test_a_score_that_leaves_its_bounds_begins_the_replay_again(monkeypatch):
    workload = gt.generate_workload("lublin", jobs=2500, seed=2, processors=64, load=1.3)
    plain = gt.simulate(workload, order="wfp3", backfill="easy")
    real_bounds, real_list, begun = grouping.score_bounds, scored._empty_list, []

    def wrong_bounds(*arguments):
        bounds = real_bounds(*arguments)
        return bounds._replace(lines=bounds.lines * np.linspace(0.2, 5.0, len(bounds.lines))[:, None])

    def empty(jobs, bounded):
        begun.append(bounded)
        return real_list(jobs, bounded)

    monkeypatch.setattr(grouping, "score_bounds", wrong_bounds)
    monkeypatch.setattr(scored, "_empty_list", empty)
    schedule = gt.simulate(workload, order="wfp3", backfill="easy")
    assert begun == [True, False]
    np.testing.assert_array_equal(schedule.start_time, plain.start_time)
