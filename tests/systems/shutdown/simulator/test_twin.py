"""The kernels against the plain-Python twin: any actions, any small cluster, any days."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.core.usage import NodePower
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from tests.conftest import examples
from tests.systems.shutdown.simulator.reference import reference_day
from tests.systems.shutdown.simulator.reference_rules import (
    ReferenceAdaptive,
    ReferenceLookahead,
    ReferenceOracle,
    ReferenceTimeout,
)
from tests.systems.shutdown.simulator.twins import make_days, recorded, totals_of, twin_of

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


WALLTIMES = (1, 2, 3, 4, 6, 8, 10, 20, 30)
RUNS = (1, 2, 3, 4, 5, 6, 10, 25, 40)


def days_for(cores: int) -> st.SearchStrategy:
    """Few jobs chosen one by one, or many from a seed: queues and coincidences need many.

    Wider than the cluster by one: such a job is turned away. Few distinct values make ties, and even
    walltimes waits that are just as long as is allowed.
    """
    job = st.tuples(
        st.integers(0, MINUTES + 2),
        st.integers(1, cores + 1),
        st.sampled_from(WALLTIMES),
        st.sampled_from(RUNS),
        st.integers(0, 2),
    )
    chosen = st.lists(job, max_size=20)
    drawn = st.builds(many_jobs, st.just(cores), st.integers(20, 60), st.integers(0, 2**32 - 1))
    day = st.one_of(chosen, drawn, drawn).map(lambda jobs: sorted(jobs, key=lambda each: each[0]))
    return st.lists(day, min_size=1, max_size=3)


def many_jobs(cores: int, count: int, seed: int) -> list[tuple[int, int, int, int, int]]:
    rng = np.random.default_rng(seed)
    columns = (
        rng.integers(0, rng.integers(10, MINUTES), count),
        rng.integers(1, cores + 1, count),
        rng.choice(WALLTIMES, count),
        rng.choice(RUNS, count),
        rng.integers(0, 3, count),
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


@st.composite
def cases(draw):
    platform = draw(platforms())
    days = make_days(draw(days_for(platform.cores)), MINUTES)
    tau = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.5]))
    return platform, days, tau, draw(st.sampled_from(["paper", "exact"]))


def expect_equal(days, platform, tau, variant, live, **rule):
    """Check every minute, every start and every account of the days against the twin."""
    options = {"tau": tau, "variant": variant, **rule}
    results, record = replay(days, platform, record=True, **options)
    leaping, _ = replay(days, platform, **options)
    for one, other in zip(results, leaping, strict=True):
        np.testing.assert_array_equal(one, other)
    for day in range(len(days)):
        twin = twin_of(days, day, platform, tau=tau, variant=variant)
        for minute, (action, reward) in enumerate(live(twin, day)):
            assert record.rewards[day, minute] == reward
            assert record.minutes["action"][day, minute] == action
        starts = [-1 if job.start is None else job.start for job in twin.jobs]
        assert results.start[days.first[day] : days.first[day + 1]].tolist() == starts
        assert list(results.totals[day]) == totals_of(twin)
        assert results.score[day] == twin.score
        assert sum(list(results.totals[day])[:5]) == MINUTES * platform.nodes


@given(cases(), st.integers(0, 2**32 - 1))
@examples(150)
def test_random_actions(case, seed):
    platform, days, tau, variant = case
    # Beyond the number of nodes too: a reservation is clipped.
    actions = np.random.default_rng(seed).integers(0, platform.nodes + 2, (len(days), MINUTES))

    def live(twin, day):
        return reference_day(twin, lambda cluster: int(actions[day, cluster.now]))

    expect_equal(days, platform, tau, variant, live, rule=actions)


@given(cases(), st.integers(-1, 6))
@examples(100)
def test_timeouts(case, timeout):
    platform, days, tau, variant = case
    live = lambda twin, day: reference_day(twin, ReferenceTimeout(timeout))  # noqa: E731
    expect_equal(days, platform, tau, variant, live, rule="timeout", timeout=timeout)


@given(cases(), st.sampled_from([0.0, 0.2, 0.5, 2.0]))
@examples(100)
def test_oracle(case, max_stretch):
    platform, days, tau, variant = case
    live = lambda twin, day: reference_day(twin, ReferenceOracle(max_stretch))  # noqa: E731
    expect_equal(days, platform, tau, variant, live, rule="oracle", max_stretch=max_stretch)


adaptive_rules = st.fixed_dictionaries(
    {
        "timeout": st.integers(0, 4),
        "max_stretch": st.sampled_from([0.0, 0.2, 0.5, 2.0]),
        "max_wait": st.sampled_from([3, 8, float("inf")]),
        "eagerness": st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    }
)


@given(cases(), adaptive_rules)
@examples(150)
def test_adaptive_rules(case, numbers):
    platform, days, tau, variant = case
    live = lambda twin, day: reference_day(twin, ReferenceAdaptive(**numbers))  # noqa: E731
    expect_equal(days, platform, tau, variant, live, rule="adaptive", **numbers)


@given(cases(), adaptive_rules)
@examples(25)
def test_lookahead_rules(case, numbers):
    platform, days, tau, variant = case
    live = lambda twin, day: reference_day(twin, ReferenceLookahead(**numbers))  # noqa: E731
    expect_equal(days, platform, tau, variant, live, rule="lookahead", **numbers)


def test_lookahead_does_not_know_run_times_or_what_comes():
    # Nothing of what is decided before minute 60 changes with run times and submissions after it.
    jobs = [(0, 4, 40, 70, 0), (1, 2, 60, 70, 1), (3, 2, 50, 70, 2), (5, 4, 30, 70, 0)]
    other = [(*job[:3], 500, job[4]) for job in jobs] + [(61, 4, 10, 3, 1)]
    platform = Platform(4, 2)
    actions = [
        replay(make_days([day], MINUTES), platform, rule="lookahead", record=True)[1].minutes["action"][
            0, :60
        ]
        for day in (jobs, other)
    ]
    assert (actions[0] == actions[1]).all()


@given(cases())
@examples(30)
def test_always_on(case):
    platform, days, tau, variant = case
    live = lambda twin, day: reference_day(twin, lambda cluster: 0)  # noqa: E731
    expect_equal(days, platform, tau, variant, live, rule="always_on")


@given(cases(), st.integers(0, 2**32 - 1))
@examples(60)
def test_a_batch_sees_what_the_twin_sees(case, seed):
    """Clusters of one batch live different days side by side, each as if alone."""
    platform, days, tau, variant = case
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(days), 3)
    batch = ClusterBatch(days, platform, count=3, tau=tau, variant=variant)
    twins = [twin_of(days, int(day), platform, tau=tau, variant=variant) for day in chosen]
    batch.reset(chosen)
    for _ in range(MINUTES):
        seen = np.array([twin.observe() for twin in twins])
        np.testing.assert_allclose(batch.observations, seen, rtol=2e-7, atol=0)
        actions = rng.integers(0, platform.nodes + 1, 3)
        batch.step(actions)
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
        assert list(record.minutes[0, minute]) == recorded(twin, action)
    assert [np.bincount(states, minlength=5).tolist() for states in record.states[0].T] == twin.by_node
    assert len(twin.queue) > 0, "the day is too quiet to show anything"


def lively_days(seed: int, count: int = 3) -> Days:
    rng = np.random.default_rng(seed)
    days = []
    for _ in range(count):
        submit = np.sort(rng.integers(1, MINUTES, 50)).tolist()
        days.append([(at, *rng.integers(1, high=(9, 30, 30, 4)).tolist()) for at in submit])
    return make_days(days, MINUTES)


def test_a_cluster_that_restarts_is_as_good_as_new():
    days, platform = lively_days(1), Platform(4, 2)
    rng = np.random.default_rng(2)
    worn = ClusterBatch(days, platform, count=3)
    worn.reset(np.array([0, 1, 2]))
    for _ in range(50):
        worn.step(rng.integers(0, 5, 3))
    untouched = worn.observations[1].copy()
    worn.step(np.zeros(3, np.int64), np.array([True, False, True]), np.array([2, 2, 1]))
    assert worn.day.tolist() == [2, 1, 1]
    assert worn.rewards[[0, 2]].tolist() == [0.0, 0.0]
    assert worn.observations[1, 5] > untouched[5]
    fresh = ClusterBatch(days, platform, count=3)
    fresh.reset(worn.day)
    for _ in range(MINUTES - 1):
        actions = rng.integers(0, 5, 3)
        both = np.array([True, False, True])
        np.testing.assert_array_equal(worn.observations[both], fresh.observations[both])
        worn.step(actions)
        fresh.step(actions)
        assert worn.rewards[both].tolist() == fresh.rewards[both].tolist()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_a_copy_goes_on_alone(duplicate):
    """Clusters are resumable: what is saved in the middle of a day goes on as if nothing had been."""
    days, rng = lively_days(7), np.random.default_rng(8)
    batch = ClusterBatch(days, Platform(4, 2), count=2)
    batch.reset(np.array([1, 2]))
    for _ in range(70):
        batch.step(rng.integers(0, 5, 2))
    twin = duplicate(batch)
    stopped = batch.observations.copy()
    actions = rng.integers(0, 5, (40, 2))
    for action in actions:
        twin.step(action)
    np.testing.assert_array_equal(batch.observations, stopped)
    for action in actions:
        batch.step(action)
    np.testing.assert_array_equal(batch.observations, twin.observations)
    np.testing.assert_array_equal(batch.rewards, twin.rewards)


def test_a_day_that_is_not_there_is_refused():
    batch = ClusterBatch(lively_days(9), Platform(4, 2))
    with pytest.raises(SimulationError, match="numbered from 0 to 2"):
        batch.reset(np.array([3]))
