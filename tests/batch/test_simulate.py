"""`simulate`: hand-drawn schedules, switches, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import gridtune as gt
from gridtune.core.schedules.files import allocate_processors
from gridtune.core.schedules.schedule import JobState, Schedule
from gridtune.errors import PolicyError, ScheduleError, SimulationError
from tests.batch.logs import make_log

# Rows are (submit, run, walltime, processors).
#
#   processors
#   4 | A A A A . . C C
#   3 | A A A A . . C C
#   2 | A A A A B B C C     D (1 wide, 4 long) may start at 1 only if it ends by 4 (C's shadow) or fits
#   1 | d d d d d B C C     beside C, which it does not: C takes all four.
#     +----------------
#       0 1 2 3 4 5 6 7
BLOCKED = [(0, 4, 4, 3), (0, 5, 5, 1), (1, 2, 2, 4), (2, 2, 3, 1)]


def starts(rows, machine=4, **options):
    return gt.simulate(make_log(rows, machine), **options).start_time.tolist()


def test_fcfs_waits_behind_the_head():
    assert starts(BLOCKED, backfill="none") == [0, 0, 5, 7]


def test_easy_starts_what_ends_by_the_shadow_time():
    # At 4 A ends, B runs until 5: D (walltime 3) would end at 7 > 5, so it waits; with walltime 1 it runs.
    assert starts(BLOCKED, backfill="easy") == [0, 0, 5, 7]
    assert starts([*BLOCKED[:3], (2, 1, 1, 1)], backfill="easy") == [0, 0, 5, 4]


def test_easy_uses_what_the_head_leaves_over():
    # The head needs 3 of 4 at 5: one processor is extra, and a long job may take it.
    rows = [(0, 5, 5, 3), (1, 2, 2, 3), (2, 50, 50, 1), (3, 50, 50, 1)]
    assert starts(rows, backfill="easy") == [0, 5, 2, 7]
    # Without extra processors it may not, until nothing is in its way.
    assert starts(rows, backfill="easy", extra=False) == [0, 5, 5, 7]


def test_strict_refuses_to_end_at_the_shadow_time():
    rows = [(0, 5, 5, 3), (1, 2, 2, 4), (2, 3, 3, 1)]
    assert starts(rows, backfill="easy") == [0, 5, 2]
    assert starts(rows, backfill="easy", strict=True) == [0, 5, 7]


def test_frozen_shadow_ignores_an_early_end():
    # A (requested until 10) ends at 4 and B until 20 blocks C; frozen, C's shadow stays 20 when B
    # could still end at 20, and D's 12 s end at 16.
    rows = [(0, 20, 20, 2), (0, 4, 10, 2), (1, 5, 5, 4), (5, 12, 12, 2)]
    assert starts(rows, backfill="easy", frozen=True) == [0, 0, 20, 5]


def test_a_job_is_killed_at_its_walltime():
    schedule = gt.simulate(make_log([(0, 10, 4, 1), (0, 3, 4, 1)], 1))
    assert schedule.end_time.tolist() == [4, 7]
    assert schedule.state.tolist() == [JobState.KILLED, JobState.COMPLETED]
    kept = gt.simulate(make_log([(0, 10, 4, 1), (0, 3, 4, 1)], 1), kill=False)
    assert kept.end_time.tolist() == [10, 13]
    assert kept.state.tolist() == [JobState.COMPLETED, JobState.COMPLETED]


def test_shortest_job_backfilled_first():
    rows = [(0, 9, 9, 3), (1, 5, 5, 4), (2, 6, 6, 1), (2, 2, 2, 1)]
    assert starts(rows, backfill="easy") == [0, 9, 2, 14]
    assert starts(rows, backfill="easy", fill_order="sjf") == [0, 9, 14, 2]


def test_times_keep_the_logs_own_clock():
    origin = 1_000_000_000
    moved = gt.simulate(make_log(BLOCKED, 4, origin=origin)).start_time - origin
    assert moved.tolist() == starts(BLOCKED)


def test_missing_walltimes_are_one_limit_and_counted():
    schedule = gt.simulate(make_log([(0, 10, -1, 1), (0, 3, 7, 1), (0, 2, 40, 1)], 1))
    assert schedule.walltime.tolist() == [40, 7, 40]
    assert schedule.settings["guessed_walltimes"] == 1
    assert gt.simulate(make_log([(0, 10, -1, 1), (0, 3, -1, 1)], 1)).walltime.tolist() == [10, 10]


def test_unknown_processors_are_one_and_counted():
    schedule = gt.simulate(make_log([(0, 10, 10, -1), (0, 3, 7, 2)], 2))
    assert schedule.workload.processors.tolist() == [1, 2]
    assert schedule.settings["guessed_processors"] == 1


def test_noise_is_the_streams_and_changes_what_is_believed():
    log = make_log([(0, 100, 200, 1)] * 50, 4)
    one = gt.simulate(log, walltime="noise", noise=0.5, rng=np.random.default_rng(1))
    same = gt.simulate(log, walltime="noise", noise=0.5, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(one.walltime, same.walltime)
    assert len(set(one.walltime.tolist())) > 10
    none = gt.simulate(log, walltime="noise", noise=0.0, rng=np.random.default_rng(1))
    assert set(none.walltime.tolist()) == {200}


def test_noise_is_the_standard_deviation_of_the_logarithm():
    requested = 1_000_000
    log = make_log([(0, 100, requested, 1)] * 4000, 4000)
    walltime = gt.simulate(log, walltime="noise", noise=0.5, rng=np.random.default_rng(1)).walltime
    # The standard errors are 0.008 and 0.006.
    assert np.log(walltime / requested).mean() == pytest.approx(0, abs=0.04)
    assert np.log(walltime / requested).std() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("rows", "machine", "options", "message"),
    [
        ([(0, 1, 1, 5)], None, {"processors": 4}, "wider than the machine's 4"),
        ([(0, 1, 1, 1)], None, {}, "how large its machine is"),
        ([(0, 1, 1, 1)], 4, {"processors": 0}, "whole number of at least 1"),
        ([(0, -1, 1, 1)], 4, {}, "no run time"),
        ([(5, 1, 1, 1), (4, 1, 1, 1)], 4, {}, "not in submit order"),
        ([(0, 1, 1, 1)], 4, {"walltime": "guess"}, "no such walltimes"),
        ([(0, 1, 1, 1)], 4, {"walltime": "noise"}, "needs rng"),
        ([(0, 1, 1, 1)], 4, {"noise": 1.0}, "goes with walltime='noise'"),
        ([(0, 1, 1, 1)], 4, {"order": "random"}, "needs rng"),
        ([(0, 2**53, 1, 1)] * 300, 4, {}, "overflow the clock"),
        ([(0, 1, 1, 1)], 4, {"backfill": "none", "fill_order": "sjf"}, "goes with EASY"),
    ],
)
def test_what_cannot_be_run_is_refused(rows, machine, options, message):
    with pytest.raises(SimulationError, match=message):
        gt.simulate(make_log(rows, machine), **options)


def test_unknown_names_are_guessed():
    log = make_log([(0, 1, 1, 1)], 4)
    with pytest.raises(PolicyError, match="did you mean 'fcfs'"):
        gt.simulate(log, order="fcsf")
    with pytest.raises(PolicyError, match="did you mean 'conservative'"):
        gt.simulate(log, backfill="conservativ")
    with pytest.raises(PolicyError, match="means nothing"):
        gt.simulate(log, backfill="none", extra=True)


def test_conservative_compresses():
    # The first job ends at 3 instead of 10, and the reservation of the second moves up.
    log = make_log([(0, 3, 10, 4), (1, 5, 5, 4)], 4)
    starts = {
        name: gt.simulate(log, backfill=name).start_time.tolist()
        for name in ("conservative", "conservative-no-compression")
    }
    assert list(starts.values()) == [[0, 3], [0, 10]]


def test_an_empty_log_gives_an_empty_schedule():
    schedule = gt.simulate(make_log([], 4))
    assert len(schedule) == 0
    gt.validate_schedule(schedule)


@pytest.mark.parametrize("fault", ["early", "over", "short"])
def test_validation_finds_faults(fault):
    sound = gt.simulate(make_log(BLOCKED, 4))
    start, end = sound.start_time.copy(), sound.end_time.copy()
    if fault == "early":
        start[2], end[2] = 0, 2
    elif fault == "over":
        start[2], end[2] = 3, 5
    else:
        end[0] -= 1
    broken = Schedule(sound.workload, 4, start, end, sound.walltime, sound.state)
    with pytest.raises(ScheduleError):
        gt.validate_schedule(broken)


def test_processor_numbers_never_overlap():
    rng = np.random.default_rng(0)
    rows = [
        (int(submit), int(rng.integers(0, 50)), 60, int(rng.integers(1, 9)))
        for submit in np.sort(rng.integers(0, 800, 200))
    ]
    schedule = gt.simulate(make_log(rows, 8))
    allocation = allocate_processors(schedule.to_table(), schedule.processors)
    ends: dict[int, int] = {}
    for job in np.lexsort((np.arange(200), schedule.start_time)):
        mine = [number for first, last in allocation[job] for number in range(first, last + 1)]
        assert len(mine) == schedule.workload.processors[job] == len(set(mine))
        assert set(mine) <= set(range(8))
        for number in mine:
            assert ends.get(number, 0) <= schedule.start_time[job]
            ends[number] = int(schedule.end_time[job])
