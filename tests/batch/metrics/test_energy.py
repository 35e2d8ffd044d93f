"""Metrics of energy: by hand, and what must hold between them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.metrics import METRICS
from gridtune.batch.power import PowerPolicy
from gridtune.core.usage import NodePower
from tests.batch.logs import logs, make_log
from tests.conftest import examples

POWER = NodePower(
    idle=100, computing=200, off=10, switching_off=120, switching_on=150, switch_off_time=5, switch_on_time=3
)
KWH = 3.6e6

# The case that `tests/batch/simulator/test_nodes.py` draws. Node-seconds of two nodes over [0, 28): 22 idle,
# 16 computing, 10 switching off, 6 switching on, 2 asleep.
BY_HAND = {
    "energy_total": 7520 / KWH,
    "energy_waste": 4300 / KWH,
    "energy_idle": 2200 / KWH,
    "energy_switching_on": 900 / KWH,
    "energy_switching_off": 1200 / KWH,
    "energy_computing": 3200 / KWH,
    "energy_sleeping": 20 / KWH,
    # Always on: 100 W of two nodes for 28 s, and 100 W more for 16 s.
    "energy_to_always_on": 7520 / 7200,
    # One node has a gap of 18 s: 5 s off, 10 s asleep, 3 s on take 1150 J, idling 1800. The other is off for
    # 19 s and switches on: 640 J. With the 3200 J of jobs:
    "energy_total_bound": 4990 / KWH,
    # Two nodes off and on in 28 s.
    "switches_per_node_day": 4 * 86_400 / 56,
    "node_hours_on": 38 / 3600,
    "node_hours_off": 2 / 3600,
    # The second job waits for 5 s.
    "boot_wait_mean": 2.5,
}


def by_hand():
    workload = make_log([(0, 4, 4, 1), (17, 6, 6, 2)], machine=2)
    return gt.simulate(workload, power=PowerPolicy(idle_timeout=10, power=POWER))


def test_every_metric_is_here():
    assert {name for name, entry in METRICS.items() if entry.needs_nodes} == set(BY_HAND)


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
    assert gt.evaluate(by_hand())[name] == pytest.approx(BY_HAND[name], rel=1e-12)


def test_a_window_counts_what_happens_in_it():
    # Without the first job the window is [17, 28): 2 s idle, 3 + 3 s switching on, 2 s off, 12 s computing.
    metrics = gt.evaluate(by_hand(), warmup=1)
    assert metrics["energy_total"] * KWH == pytest.approx(200 + 900 + 240 + 2400)
    assert metrics["switches_per_node_day"] == pytest.approx(2 * 86_400 / 22)
    # Of the first job alone: [0, 17).
    metrics = gt.evaluate(by_hand(), cooldown=1)
    assert metrics["energy_total"] * KWH == pytest.approx(2000 + 800 + (5 + 3) * 120 + 20)


def test_without_power_states_there_are_none():
    schedule = gt.simulate(make_log([(0, 4, 4, 1)], machine=2))
    assert not {name for name in gt.evaluate(schedule) if METRICS[name].needs_nodes}
    assert math.isnan(gt.evaluate(schedule, only=["energy_total"])["energy_total"])


@examples(60)
@given(
    workload=logs(),
    timeout=st.sampled_from([None, 0, 2, 10]),
    cores=st.sampled_from([1, 2, 4]),
    boot=st.integers(0, 6),
    shutdown=st.integers(0, 6),
    trimming=st.sampled_from([{}, {"warmup": 0.3}, {"cooldown": 0.3}]),
)
def test_what_must_hold(workload, timeout, cores, boot, shutdown, trimming):
    power = NodePower(switch_on_time=boot, switch_off_time=shutdown)
    policy = PowerPolicy(cores_per_node=cores, idle_timeout=timeout, power=power)
    schedule = gt.simulate(workload, power=policy)
    metrics = gt.evaluate(schedule, **trimming)
    total = metrics["energy_total"]
    if math.isnan(total):
        return
    parts = ("energy_waste", "energy_computing", "energy_sleeping")
    assert total == pytest.approx(sum(metrics[part] for part in parts))
    if not trimming:
        assert metrics["energy_total_bound"] <= total * (1 + 1e-12)
    if timeout is None:
        assert metrics["energy_to_always_on"] == pytest.approx(1)
        assert metrics["boot_wait_mean"] == 0
