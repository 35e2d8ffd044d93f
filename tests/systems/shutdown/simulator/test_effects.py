"""What an agent is told that each reservation would do, against what it does."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest

from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.clusters import ClusterBatch
from gridtune.systems.shutdown.simulator.observing import GLOBALS, LARGEST, PER_ACTION, PER_JOB
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.state import MAX_CANDIDATES
from tests.systems.shutdown.simulator.twins import make_days

MINUTES, CLUSTER = 90, Platform(4, 3)


def some_day(seed):
    rng = np.random.default_rng(seed)
    submits = np.sort(rng.integers(1, MINUTES, 30))
    return [
        (
            int(at),
            int(rng.integers(1, 13)),
            int(rng.integers(2, 40)),
            int(rng.integers(1, 20)),
            int(rng.integers(3)),
        )
        for at in submits
    ]


def rows_of(batch):
    return batch.observations[0, GLOBALS + MAX_CANDIDATES * PER_JOB :].reshape(CLUSTER.nodes + 1, PER_ACTION)


def what_it_does(batch, reserved):
    """Step a copy; return nodes' states and who waits, then cores given away, nodes woken, switched off."""
    copy = pickle.loads(pickle.dumps(batch))
    before = {name: copy.column(name).copy() for name in ("waits", "switched_on", "switched_off")}
    # What begins within the minute that the step ends with is no doing of the action.
    copy.step([reserved])
    left = (before["waits"] == 1) & (copy.column("waits") == 0)
    cores = copy.days.cores[left[0, : len(copy.days.cores)]].sum()
    off = (copy.column("switched_off") - before["switched_off"]).sum()
    state = tuple(
        copy.column(name).tobytes() for name in ("state", "free", "waits", "switched_on", "switched_off")
    )
    return state, (cores, off), copy._arena.memory["reserved"][0]


@pytest.mark.parametrize("seed", range(2))
def test_each_effect_has_one_row_that_describes_it(seed) -> None:
    batch = ClusterBatch(make_days([some_day(seed)], MINUTES), CLUSTER, view="effects")
    batch.reset(np.array([0]))
    rng, several = np.random.default_rng(seed), 0
    for _ in range(MINUTES - 1):
        rows = rows_of(batch)
        outcomes = [what_it_does(batch, reserved) for reserved in range(CLUSTER.nodes + 1)]
        told = np.flatnonzero(rows[:, 0])
        several += len(told) > 1
        assert (rows[rows[:, 0] == 0] == 0).all()
        for reserved, (state, (cores, off), kept) in enumerate(outcomes):
            # What a number does is what the next larger one that counts does, or else the largest.
            larger = told[told >= reserved]
            stands_for = larger[0] if len(larger) else told[-1]
            assert state == outcomes[stands_for][0]
            if reserved in told:
                assert kept == reserved
                assert rows[reserved, 3] == pytest.approx(cores / 12)
                assert rows[reserved, 5] == pytest.approx(off / 4)
        for one, other in pairwise(told):
            assert outcomes[one][0] != outcomes[other][0]
        batch.step([int(rng.choice(told))])
    assert several > 10


def test_rows_describe_waking_and_lateness() -> None:
    # A running job keeps node 0; a second of two nodes has waited half its walltime at minute 20.
    days = make_days([[(1, 3, 80, 60, 0), (10, 6, 20, 5, 1)]], MINUTES)
    batch = ClusterBatch(days, CLUSTER, view="effects")
    batch.reset(np.array([0]))
    while batch.now[0] < 20:
        batch.step([CLUSTER.nodes])
    rows = rows_of(batch)
    assert np.flatnonzero(rows[:, 0]).tolist() == [1, 3]
    assert rows[1, [4, 7, 13]].tolist() == [0.5, 1.0, 1.0]
    assert rows[3, [4, 8]].tolist() == [0.0, 1.0]
    assert rows[3, 9] == pytest.approx(0.5)


def test_from_decision_to_decision_is_minute_by_minute_without_the_rest() -> None:
    days = make_days([some_day(seed) for seed in range(3)], MINUTES)
    every = ClusterBatch(days, CLUSTER, view="effects", count=3)
    some = ClusterBatch(days, CLUSTER, view="effects", count=3, decisions=True)
    for batch in (every, some):
        batch.reset(np.arange(3))
    rng, steps = np.random.default_rng(1), 0
    actions = rng.integers(0, CLUSTER.nodes + 1, (3, MINUTES))
    taken, earned, seen = np.zeros(3, int), [0.0] * 3, [[] for _ in range(3)]
    for _ in range(MINUTES):
        chosen = np.zeros(3, int)
        for cluster in range(3):
            choices = every.observations[cluster, GLOBALS + MAX_CANDIDATES * PER_JOB :: PER_ACTION].sum()
            chosen[cluster] = CLUSTER.nodes
            if choices > 1:
                seen[cluster].append((every.observations[cluster].copy(), earned[cluster]))
                chosen[cluster] = actions[cluster, taken[cluster]]
                taken[cluster] += 1
        every.step(chosen)
        for cluster in range(3):
            earned[cluster] += every.rewards[cluster]
    lived = np.zeros(3)
    # A day's first minute is seen even if there is nothing to decide.
    some.step(np.full(3, CLUSTER.nodes))
    while not some.over.all():
        lived += np.where(some.over, 0, some.rewards)
        for cluster in np.flatnonzero(~some.over):
            expected, reward = seen[cluster][steps]
            np.testing.assert_array_equal(some.observations[cluster], expected)
            assert lived[cluster] == pytest.approx(reward)
        before = some.over.copy()
        some.step(actions[:, steps])
        ended = some.over & ~before
        np.testing.assert_allclose((lived + some.rewards)[ended], every.results().score[ended])
        steps += 1
    assert steps > 10


def test_decisions_need_the_view_effects() -> None:
    with pytest.raises(SimulationError, match='decisions need view="effects"'):
        ClusterBatch(make_days([some_day(0)], MINUTES), CLUSTER, decisions=True)


def log(number):
    return min(np.log(1 + max(number, 0)) / 7.3, 4)


def test_past_submissions_are_counted_over_5_30_and_120_minutes() -> None:
    submits = [29, 30, 31, 120, 121, 145, 146]
    days = make_days([[(at, 1, 3 + number, 2, 0) for number, at in enumerate(submits)]], 200)
    batch = ClusterBatch(days, CLUSTER, view="effects")
    batch.reset(np.array([0]))
    while batch.now[0] < 150:
        batch.step([CLUSTER.nodes])
    row = batch.observations[0]
    assert row[14] == pytest.approx(log(4))
    assert row[15:18] == pytest.approx([log(1), log(3), log(5)])
    # The last job starts at once or after a boot; its two minutes are over by minute 149.
    ended = int(batch.column("start")[0, 6]) + 2
    assert row[18:21] == pytest.approx([log(150 - ended), 1 / 12, log(9)])


@pytest.mark.parametrize("seed", range(3))
def test_running_jobs_by_age_and_expected_end(seed) -> None:
    """Ages below 2, 10, 60 and above; ends expected within 1, 5, 15 and 60 minutes, or not known."""
    rng = np.random.default_rng(seed)
    submits = np.sort(rng.integers(1, 200, 40)).tolist()
    jobs = [
        (at, int(rng.integers(1, 4)), 150, int(rng.choice([2, 7, 20, 80])), int(rng.integers(3)))
        for at in submits
    ]
    batch = ClusterBatch(make_days([jobs], 240), CLUSTER, view="effects")
    batch.reset(np.array([0]))
    several = 0
    for _ in range(239):
        batch.step([0])
        now, start = int(batch.now[0]), batch.column("start")[0]
        expected = np.zeros(9)
        for number, (_, cores, walltime, run, user) in enumerate(jobs):
            if start[number] < 0 or start[number] + run <= now:
                continue
            age = now - start[number]
            expected[0 if age < 2 else 1 if age < 10 else 2 if age < 60 else 3] += cores / 12
            ends = [
                (start[other] + job[3], other, job[3])
                for other, job in enumerate(jobs)
                if job[4] == user and start[other] >= 0 and start[other] + job[3] <= now
            ]
            latest = {length for end, _, length in ends if end == max(ends)[0]} if ends else {-1}
            if len(latest) > 1:
                break
            took = latest.pop()
            if took < age:
                expected[8] += cores / 12
                continue
            left = min(took, walltime) - age
            expected[4:8] += [cores / 12 * (left <= ahead) for ahead in (1, 5, 15, 60)]
        else:
            assert batch.observations[0, 22:31] == pytest.approx(expected, abs=1e-6)
            several += (expected > 0).sum() > 3
    assert several > 50


def seen_at(days, minute, count):
    batch = ClusterBatch(days, CLUSTER, view="effects")
    batch.reset(np.array([0]))
    rng, seen = np.random.default_rng(9), []
    for _ in range(minute):
        batch.step([int(rng.integers(0, CLUSTER.nodes + 1))])
        seen.append(batch.observations[0].copy())
    return np.array(seen)[-count:], batch.column("start")[0].copy()


def test_nothing_in_an_observation_depends_on_the_future() -> None:
    day, minute = some_day(7), 45
    before, start = seen_at(make_days([day], MINUTES), minute, minute)
    changed = []
    for number, (submit, cores, walltime, run, user) in enumerate(day):
        unended = start[number] < 0 or start[number] + min(run, walltime) > minute
        longer = max(run, walltime) + 30 if unended else run
        changed.append((submit, cores, walltime, longer, user))
    changed = [job for job in changed if job[0] <= minute]
    after, _ = seen_at(make_days([changed], MINUTES), minute, minute)
    assert changed != day[: len(changed)]
    np.testing.assert_array_equal(after, before)


def test_observations_stay_within_their_bounds() -> None:
    batch = ClusterBatch(make_days([some_day(3)], MINUTES), CLUSTER, view="effects", tau=0.0)
    batch.reset(np.array([0]))
    for _ in range(MINUTES):
        assert (batch.observations >= 0).all()
        assert (batch.observations <= LARGEST).all()
        batch.step([4])
