"""Lower bounds of waste: below every policy's, and on small days as low as the best of all policies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.core.usage import NodePower
from gridtune.systems.shutdown.metrics import measure_days
from gridtune.systems.shutdown.simulator.bounds import _least_waste, waste_bounds
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from tests.conftest import examples
from tests.systems.shutdown.simulator.test_twin import MINUTES, cases
from tests.systems.shutdown.simulator.twins import make_days

POWER = NodePower(switch_off_time=2, switch_on_time=1)
LENGTH = 9


def wasted(days, results, platform):
    return measure_days(days, results, platform)["energy_waste"]


@given(cases(), st.integers(0, 2**32 - 1))
@examples(150)
def test_no_reservations_waste_less(case, seed):
    platform, days, tau, _ = case
    actions = np.random.default_rng(seed).integers(0, platform.nodes + 1, (len(days), MINUTES))
    for rule in ({"rule": actions}, {"rule": "oracle"}, {"rule": "adaptive", "eagerness": 0.5}):
        results, _ = replay(days, platform, **{"max_stretch": tau, **rule}, tau=tau)
        waste = wasted(days, results, platform) + 1e-6
        assert (waste_bounds(days, results, platform)["waste_bound_starts"] <= waste).all()
        within = waste_bounds(days, results, platform, tau)["waste_bound_within_tau"]
        reachable = waste_bounds(days, results, platform, tau)["energy_waste_per_day_bound"]
        assert (within <= reachable).all()
        assert (reachable <= waste).all()


def every_policy(jobs, platform):
    """Live one day under every sequence of reservations there is."""
    actions = np.array([*itertools.product(range(platform.nodes + 1), repeat=LENGTH)], np.int64)
    days = make_days([jobs] * len(actions), LENGTH)
    results, _ = replay(days, platform, rule=actions)
    return days, results, results.start.reshape(len(actions), -1)


def small_day(seed: int, platform: Platform) -> list[tuple[int, int, int, int, int]]:
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(1, LENGTH - 2, 3))
    return [
        (
            int(at),
            int(rng.integers(1, platform.cores + 1)),
            int(rng.integers(2, 9)),
            int(rng.integers(1, 4)),
            0,
        )
        for at in submit
    ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [1, 2])
def test_against_every_policy(seed, size):
    """No sequence of reservations with the same starts, or with starts as early, beats the bound."""
    platform = Platform(2, size, POWER)
    days, results, starts = every_policy(small_day(seed, platform), platform)
    waste = wasted(days, results, platform)
    bound = waste_bounds(days, results, platform)["waste_bound_starts"]
    within = waste_bounds(days, results, platform, 0.5)["energy_waste_per_day_bound"]
    _, alike = np.unique(starts, axis=0, return_inverse=True)
    for group in range(alike.max() + 1):
        assert bound[alike == group].max() <= waste[alike == group].min() + 1e-9
        one = np.flatnonzero(alike == group)[0]
        # Whoever starts nobody later than this one, or than τ allows, cannot waste less than its bound.
        patience = np.maximum(starts[one], days.submit[:3] + np.ceil(0.5 * days.walltime[:3]) - 1)
        punctual = ((starts <= patience) & (starts >= 0)).all(axis=1)
        if (starts[one] >= 0).all():
            assert within[one] <= waste[punctual].min() + 1e-9


def test_it_is_reached_where_nodes_are_asked_for_whole():
    """Nodes of one core cannot be shared: the best policy with the same starts comes down to the bound."""
    reached = 0
    platform = Platform(2, 1, POWER)
    for seed in range(6):
        days, results, starts = every_policy(small_day(seed, platform), platform)
        waste = wasted(days, results, platform)
        bound = waste_bounds(days, results, platform)["waste_bound_starts"]
        started = np.flatnonzero((starts >= 0).all(axis=1))
        if len(started) > 0:
            best = started[waste[started].argmin()]
            reached += waste[best] == pytest.approx(bound[best])
    assert reached >= 3


def test_by_hand():
    """A node asleep boots for 125, idles four minutes at 95 rather than be switched, and goes off for 303."""
    platform = Platform(1, 1)
    days = make_days([[(1, 1, 9, 2, 0), (3, 1, 9, 2, 0)]], 30)
    minutes = np.array([30])
    assert _least_waste(days, np.array([2, 8]), np.array([2, 8]), minutes, platform) == [125 + 4 * 95 + 303]
    # Five idle minutes cost more than off and on again.
    assert _least_waste(days, np.array([2, 9]), np.array([2, 9]), minutes, platform) == [2 * (125 + 303)]
    # The second could have begun when the first ended: one boot for both.
    assert _least_waste(days, np.array([2, 3]), np.array([2, 9]), minutes, platform) == [125 + 303]
    # Nobody starts.
    assert _least_waste(days, np.array([-1, -1]), np.array([-1, -1]), minutes, platform) == [0]
    # The day ends a minute after the work: idling is cheaper than to begin switching off.
    assert _least_waste(days, np.array([2, 8]), np.array([2, 8]), np.array([11]), platform) == [
        125 + 380 + 95
    ]


def test_a_lone_job_cannot_wait_for_the_next():
    """The second could wait until the third is submitted, but not while no other job holds cores."""
    platform = Platform(1, 1)
    days = make_days([[(1, 1, 60, 9, 0), (25, 1, 60, 9, 0), (55, 1, 60, 9, 0)]], 120)
    results, _ = replay(days, platform, timeout=0)
    cycle = 125 + 303
    assert waste_bounds(days, results, platform, 0.5)["waste_bound_within_tau"] == [cycle]
    assert waste_bounds(days, results, platform, 0.5)["energy_waste_per_day_bound"] == [
        wasted(days, results, platform)[0]
    ]
    assert wasted(days, results, platform)[0] == 3 * cycle


def test_a_job_spread_over_nodes_keeps_them_on():
    """Cores may be scattered: where one job asks for less than a node, others may lie on two nodes each."""
    platform = Platform(2, 2)
    whole = make_days([[(1, 4, 9, 2, 0), (3, 2, 9, 8, 0), (11, 4, 9, 2, 0)]], 30)
    mixed = make_days([[(1, 3, 9, 2, 0), (3, 2, 9, 8, 0), (11, 4, 9, 2, 0)]], 30)
    starts, minutes = np.array([2, 4, 12]), np.array([30])
    twice = _least_waste(whole, starts, starts, minutes, platform)
    once = _least_waste(mixed, starts, starts, minutes, platform)
    assert twice == [3 * (125 + 303)]
    assert once == [2 * (125 + 303)]
