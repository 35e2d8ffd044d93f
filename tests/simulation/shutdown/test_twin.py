"""The kernels against the plain-Python twin: any actions, any small cluster, any days."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridtune.simulation.platform import NodePower, Platform
from gridtune.simulation.shutdown.clusters import ClusterBatch, replay
from gridtune.simulation.shutdown.reference import ReferenceOracle, ReferenceTimeout, reference_day
from tests.simulation.shutdown.twins import make_days, recorded, totals_of, twin_of

MINUTES = 120


@st.composite
def platforms(draw) -> Platform:
    watts = st.sampled_from([1.0, 9.0, 50.5, 95.0, 101.0, 125.0])
    names = ("idle", "computing", "off", "switching_off", "switching_on")
    power = NodePower(
        **{name: draw(watts) for name in names},
        switch_off_time=draw(st.integers(1, 5)),
        switch_on_time=draw(st.integers(1, 4)),
    )
    return Platform(draw(st.integers(1, 6)), draw(st.integers(1, 5)), power)


def days_for(cores: int, busy: bool) -> st.SearchStrategy:
    # Wider than the cluster by one: such a job is turned away. Few distinct values make ties.
    job = st.tuples(
        st.integers(0, MINUTES + 2) if not busy else st.integers(0, 20),
        st.integers(1, cores + 1),
        st.integers(1, 30),
        st.integers(1, 40),
        st.integers(0, 2),
    )
    day = st.lists(job, max_size=40).map(lambda jobs: sorted(jobs, key=lambda each: each[0]))
    return st.lists(day, min_size=1, max_size=3)


@st.composite
def cases(draw):
    platform = draw(platforms())
    days = make_days(draw(days_for(platform.cores, draw(st.booleans()))), MINUTES)
    tau = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.5]))
    return platform, days, tau, draw(st.sampled_from(["paper", "exact"]))


def expect_equal(days, platform, tau, variant, live, **rule):
    """Check every minute, every start and every account of the days against the twin."""
    options = {"tau": tau, "variant": variant, **rule}
    outcome, record = replay(days, platform, record=True, **options)
    leaping, _ = replay(days, platform, **options)
    for one, other in zip(outcome, leaping, strict=True):
        np.testing.assert_array_equal(one, other)
    for day in range(len(days)):
        twin = twin_of(days, day, platform, tau=tau, variant=variant)
        for minute, (action, reward) in enumerate(live(twin, day)):
            assert record.rewards[day, minute] == reward
            assert record.minutes[day, minute, 0] == action
        starts = [-1 if job.start is None else job.start for job in twin.jobs]
        assert outcome.start[days.first[day] : days.first[day + 1]].tolist() == starts
        assert outcome.totals[day].tolist() == totals_of(twin)
        assert outcome.switched_on[day].tolist() == twin.switched_on
        assert outcome.switched_off[day].tolist() == twin.switched_off
        assert outcome.score[day] == twin.score
        assert outcome.totals[day, :5].sum() == MINUTES * platform.nodes


@given(cases(), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_random_actions(case, seed):
    platform, days, tau, variant = case
    # Beyond the number of nodes too: a reservation is clipped.
    actions = np.random.default_rng(seed).integers(0, platform.nodes + 2, (len(days), MINUTES))

    def live(twin, day):
        return reference_day(twin, lambda cluster: int(actions[day, cluster.now]))

    expect_equal(days, platform, tau, variant, live, rule=actions)


@given(cases(), st.integers(-1, 6))
@settings(max_examples=100, deadline=None)
def test_timeouts(case, timeout):
    platform, days, tau, variant = case
    live = lambda twin, day: reference_day(twin, ReferenceTimeout(timeout))  # noqa: E731
    expect_equal(days, platform, tau, variant, live, rule="timeout", timeout=timeout)


@given(cases(), st.sampled_from([0.0, 0.2, 0.5, 2.0]))
@settings(max_examples=100, deadline=None)
def test_oracle(case, max_stretch):
    platform, days, tau, variant = case
    live = lambda twin, day: reference_day(twin, ReferenceOracle(max_stretch))  # noqa: E731
    expect_equal(days, platform, tau, variant, live, rule="oracle", max_stretch=max_stretch)


@given(cases())
@settings(max_examples=30, deadline=None)
def test_always_on(case):
    platform, days, tau, variant = case
    live = lambda twin, day: reference_day(twin, lambda cluster: 0)  # noqa: E731
    expect_equal(days, platform, tau, variant, live, rule="always_on")


@given(cases(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_a_batch_sees_what_the_twin_sees(case, seed):
    """Clusters of one batch live different days side by side, each as if alone."""
    platform, days, tau, variant = case
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(days), 3)
    batch = ClusterBatch(days, platform, count=3, tau=tau, variant=variant)
    twins = [twin_of(days, int(day), platform, tau=tau, variant=variant) for day in chosen]
    batch.reset(np.ones(3, bool), chosen)
    nobody = np.zeros(3, bool)
    for _ in range(MINUTES):
        seen = np.array([twin.observe() for twin in twins])
        np.testing.assert_allclose(batch.observations, seen, rtol=2e-7, atol=0)
        actions = rng.integers(0, platform.nodes + 1, 3)
        batch.step(actions, nobody)
        assert batch.rewards.tolist() == [
            twin.step(int(action)) for twin, action in zip(twins, actions, strict=True)
        ]
        assert batch.over.tolist() == [twin.now == MINUTES for twin in twins]


def test_recorded_minutes_are_the_twins():
    rng = np.random.default_rng(5)
    submit = np.sort(rng.integers(1, MINUTES, 60))
    jobs = [(int(at), *map(int, rng.integers(1, high=(15, 30, 30, 4)))) for at in submit]
    platform = Platform(4, 3)
    days = make_days(
        [[(at, min(cores, 12), wall, run, user) for at, cores, wall, run, user in jobs]], MINUTES
    )
    _, record = replay(days, platform, rule="oracle", record=True)
    twin, policy = twin_of(days, 0, platform), ReferenceOracle(0.5)
    for minute in range(MINUTES):
        action = policy(twin)
        twin.step(action)
        assert record.minutes[0, minute].tolist() == recorded(twin, action)
    assert len(twin.queue) > 0, "the day is too quiet to show anything"


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_clusters_that_are_skipped_stand_still(share):
    days = make_days([[(1, 2, 5, 5, 0), (3, 3, 9, 4, 1)]], MINUTES)
    batch = ClusterBatch(days, Platform(2, 2), count=4)
    batch.reset(np.ones(4, bool), np.zeros(4, np.int64))
    batch.step(np.zeros(4, np.int64), np.zeros(4, bool))
    before = batch.observations.copy()
    skipped = np.arange(4) < 4 * share
    batch.step(np.zeros(4, np.int64), skipped)
    np.testing.assert_array_equal(batch.observations[skipped], before[skipped])
    assert (batch.rewards[skipped] == 0).all()
    assert (batch.observations[~skipped, 5] > before[~skipped, 5]).all()
