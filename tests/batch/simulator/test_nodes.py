"""Power states of nodes: against the plain-Python twin, by hand, and what must always hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.power import PowerPolicy
from gridtune.core.usage import NodePower, NodeState
from gridtune.errors import SimulationError
from tests.batch.logs import logs, make_log, reference_starts
from tests.batch.simulator.conservative_twin import conservative_schedule_twin
from tests.batch.simulator.nodes_twin import NodesTwin
from tests.conftest import examples

STATES = {state: state.name.lower().replace("_", " ") for state in NodeState}


def policy(timeout=None, *, boot=0, shutdown=0, cores=1, **options):
    power = NodePower(switch_on_time=boot, switch_off_time=shutdown)
    return PowerPolicy(cores_per_node=cores, idle_timeout=timeout, power=power, **options)


@st.composite
def policies(draw):
    return policy(
        draw(st.sampled_from([None, 0, 0, 1, 3, 10])),
        boot=draw(st.integers(0, 6)),
        shutdown=draw(st.integers(0, 6)),
        cores=draw(st.sampled_from([1, 1, 2, 4])),
    )


def twin_of(rule, machine):
    power = rule.power
    return NodesTwin(
        machine // rule.cores_per_node,
        rule.cores_per_node,
        rule.idle_timeout,
        power.switch_on_time,
        power.switch_off_time,
    )


@pytest.mark.parametrize("order", ["fcfs", "sjf", "wfp3"])
@pytest.mark.parametrize(("backfill", "fill_order"), [("none", None), ("easy", None), ("easy", "saf")])
@examples(60)
@given(workload=logs(), rule=policies(), kill=st.booleans())
def test_kernel_equals_twin(order, backfill, fill_order, workload, rule, kill):
    options = {"order": order, "backfill": backfill, "fill_order": fill_order, "kill": kill}
    schedule = gt.simulate(workload, **options, power=rule)
    twin = twin_of(rule, 8)
    np.testing.assert_array_equal(schedule.start_time, reference_starts(workload, **options, nodes=twin))
    origin = int(workload.submit_time[0])
    seconds = int(schedule.end_time.max()) - origin
    for state, name in STATES.items():
        counts = schedule.nodes.count(state).at(np.arange(seconds) + origin)
        np.testing.assert_array_equal(counts, twin.counts(name, seconds), err_msg=name)


@pytest.mark.parametrize("compress", [False, True])
@examples(60)
@given(workload=logs(), rule=policies())
def test_conservative_plans_the_longest_boot(workload, rule, compress):
    schedule = gt.simulate(workload, backfill="conservative", power=rule, compression=compress)
    gt.validate_schedule(schedule)
    boot_wait = schedule.nodes.boot_wait
    longest = 0 if rule.idle_timeout is None else rule.power.switch_on_time + rule.power.switch_off_time
    assert boot_wait.max() <= longest
    origin = int(workload.submit_time[0])
    starts, _, _ = conservative_schedule_twin(
        (workload.submit_time - origin).tolist(),
        (schedule.run_time + boot_wait).tolist(),
        (schedule.walltime + longest).tolist(),
        workload.processors.tolist(),
        range(len(workload)),
        8,
        compress,
    )
    np.testing.assert_array_equal(schedule.start_time - boot_wait - origin, starts)


ROWS = ["fcfs", "wfp3"]
BACKFILLS = ["none", "easy", "conservative"]


@pytest.mark.parametrize("order", ROWS)
@pytest.mark.parametrize("backfill", BACKFILLS)
@examples(25)
@given(workload=logs(), rule=policies())
def test_what_always_holds(order, backfill, workload, rule):
    plain = gt.simulate(workload, order=order, backfill=backfill)
    schedule = gt.simulate(workload, order=order, backfill=backfill, power=rule)
    gt.validate_schedule(schedule)
    states = schedule.nodes
    opens, closes = int(workload.submit_time[0]), int(schedule.end_time.max())
    spent = {state: states.node_seconds(state, opens, closes) for state in NodeState}
    assert sum(spent.values()) == states.nodes * (closes - opens)
    assert all(seconds >= 0 for seconds in spent.values())
    assert all(states.count(state).values.min(initial=0) >= 0 for state in NodeState)
    area = int((workload.processors * schedule.run_time).sum())
    assert spent[NodeState.COMPUTING] * rule.cores_per_node >= area
    if rule.cores_per_node == 1:
        assert spent[NodeState.COMPUTING] == area
    if rule.idle_timeout is None:
        assert states.switches(NodeState.SWITCHING_OFF, opens, closes) == 0
    immediate = rule.power.switch_on_time + rule.power.switch_off_time == 0
    if rule.idle_timeout is None or immediate:
        np.testing.assert_array_equal(schedule.start_time, plain.start_time)


@pytest.mark.parametrize("backfill", ["none", "easy"])
@examples(25)
@given(workload=logs(), boot=st.integers(0, 6), shutdown=st.integers(0, 6))
def test_a_timeout_that_never_passes_is_always_on(backfill, workload, boot, shutdown):
    never = gt.simulate(workload, backfill=backfill, power=policy(10**9, boot=boot, shutdown=shutdown))
    on = gt.simulate(workload, backfill=backfill, power=policy(None, boot=boot, shutdown=shutdown))
    np.testing.assert_array_equal(never.start_time, on.start_time)
    for state in NodeState:
        np.testing.assert_array_equal(never.nodes.count(state).values, on.nodes.count(state).values)


def counts(schedule, state):
    count = schedule.nodes.count(state)
    return dict(zip(count.times.tolist(), count.values.tolist(), strict=True))


def test_drawn_by_hand():
    # Two nodes of one core idle from 0; after 10 s they switch off for 5 s; on again takes 3 s.
    #   job 0: submitted at 0, one core until 4. Node 1 idles from 4, sleeps from 19; node 0 sleeps from 15.
    #   job 1: submitted at 17, two cores: node 0 sleeps, node 1 switches off until 19, both are on at 22.
    workload = make_log([(0, 4, 4, 1), (17, 6, 6, 2)], machine=2)
    schedule = gt.simulate(workload, power=policy(10, boot=3, shutdown=5))
    assert schedule.start_time.tolist() == [0, 22]
    assert schedule.nodes.boot_wait.tolist() == [0, 5]
    # Node 0 boots from 17 to 20 and waits for node 1, which boots from 19 to 22.
    assert counts(schedule, NodeState.COMPUTING) == {0: 1, 4: 0, 22: 2, 28: 0}
    assert counts(schedule, NodeState.SWITCHING_OFF) == {10: 1, 14: 2, 15: 1, 19: 0}
    assert counts(schedule, NodeState.SLEEPING) == {15: 1, 17: 0}
    assert counts(schedule, NodeState.SWITCHING_ON) == {17: 1, 19: 2, 20: 1, 22: 0}
    assert counts(schedule, NodeState.IDLE) == {0: 1, 4: 2, 10: 1, 14: 0, 20: 1, 22: 0, 28: 2}


def test_a_job_of_the_same_second_finds_the_node_on():
    # The timeout passes at 5, and the node is switched off after the pass of that second.
    workload = make_log([(0, 5, 5, 1), (10, 1, 1, 1)], machine=1)
    assert gt.simulate(workload, power=policy(5, boot=7)).start_time.tolist() == [0, 10]
    assert gt.simulate(workload, power=policy(4, boot=7)).start_time.tolist() == [0, 17]


def test_backfilling_counts_the_boot():
    # Node 1 and 2 sleep from 1 on. Job 1 needs all three and is reserved at 10. Job 2 asks for 6 s at 4: it
    # would end at 10, were its node on; with a boot of 3 s it would end at 13, so it is not backfilled.
    rows = [(0, 10, 10, 1), (3, 5, 5, 3), (4, 6, 6, 1)]
    workload = make_log(rows, machine=3)
    assert gt.simulate(workload).start_time.tolist() == [0, 10, 4]
    assert gt.simulate(workload, power=policy(0, boot=3)).start_time.tolist() == [0, 13, 18]


def test_the_node_used_last_is_taken_first():
    # One job every 6 s, timeout 10 s: the other node sleeps.
    workload = make_log([(6 * i, 3, 3, 1) for i in range(10)], machine=2)
    assert counts(gt.simulate(workload, power=policy(10, boot=4)), NodeState.SLEEPING) == {10: 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cores": 3}, "8 processors do not make whole nodes of 3"),
        ({"timeout": -1}, "idle_timeout must be a whole number of at least 0"),
        ({"cores": 0}, "cores_per_node"),
    ],
)
def test_refusals(options, message):
    workload = make_log([(0, 1, 1, 1)], machine=8)
    with pytest.raises(SimulationError, match=message):
        gt.simulate(workload, power=policy(**options))
    with pytest.raises(SimulationError, match="one pass per instant"):
        gt.simulate(workload, power=policy(), backfill="easy-per-event")
    parts = replace(workload, columns={**workload.columns, "partition": np.ones(1, np.int64)})
    with pytest.raises(SimulationError, match=r"(?s)partitions='pooled'.*partition=NAME"):
        gt.simulate(parts, power=policy(), partitions="separate", partition_processors={"1": 8})
