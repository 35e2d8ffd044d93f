"""Conservative backfilling: drawn by hand, against its plain-Python twin, and by what must always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.simulator.conservative import conservative_schedule
from gridtune.batch.simulator.events import JobLog
from tests.batch.simulator.conservative_twin import conservative_schedule_twin
from tests.conftest import examples


def schedule(jobs, machine, *, compress=False, rank=None):
    """Run rows of (submit, run, walltime, processors); return lists."""
    columns = np.array(jobs, dtype=np.int64).reshape(len(jobs), 4).T
    submit, run, walltime, processors = (np.ascontiguousarray(column) for column in columns)
    rank = np.arange(len(jobs)) if rank is None else np.asarray(rank, dtype=np.int64)
    log = JobLog(submit, run, walltime, processors, np.empty_like(submit))
    promise, replans = conservative_schedule(log, machine, None, rank, compress)
    return log.start.tolist(), promise.tolist(), replans


def twin(jobs, machine, *, compress=False, rank=None, journal=None):
    submit, run, walltime, processors = ([row[i] for row in jobs] for i in range(4))
    rank = list(range(len(jobs))) if rank is None else list(rank)
    return conservative_schedule_twin(submit, run, walltime, processors, rank, machine, compress, journal)


# Drawn by hand: rows are processors, columns seconds, a letter is who runs, a dot an idle processor.
DRAWN = {
    # C fits before B's reservation, D would reach into it.
    #   0         10        20
    #   ..CCCCCCCCBBBBBBBBBBDDDDDDDD
    #   AAAAAAAAAABBBBBBBBBB........
    #   AAAAAAAAAABBBBBBBBBB........
    #   AAAAAAAAAABBBBBBBBBB........
    "a hole is filled, a reservation is not": (
        4,
        [(0, 10, 10, 3), (1, 10, 10, 4), (2, 8, 8, 1), (3, 8, 8, 1)],
        {},
        [0, 10, 2, 20],
        [0, 10, 2, 20],
        0,
    ),
    # Not only the head B is protected but C as well: D (1 × 12 s) has no place before 15, E (3 × 3 s) none
    # beside C and D; F (1 × 5 s) has one at once.
    #   0         10        20
    #   .....FFFFFBBBBBDDDDDDDDDDDD
    #   AAAAAAAAAABBBBB.....EEE....
    #   AAAAAAAAAABBBBBCCCCCEEE....
    #   AAAAAAAAAABBBBBCCCCCEEE....
    "every waiting job is protected": (
        4,
        [(0, 10, 10, 3), (1, 5, 5, 4), (2, 5, 5, 2), (3, 12, 12, 1), (4, 3, 3, 3), (5, 5, 5, 1)],
        {},
        [0, 10, 15, 15, 20, 5],
        [0, 10, 15, 15, 20, 5],
        0,
    ),
    # A ends at 3 instead of 10: B keeps 10, and C (6 s) uses the hole; D (7 s) is too long for it.
    #   0         10
    #   AAA.......BBBBBDDDDDDD
    #   AAA.......BBBBBDDDDDDD
    #   AAA.CCCCCCBBBBB.......
    #   AAA.CCCCCCBBBBB.......
    "without compression the hole is for those who come later": (
        4,
        [(0, 3, 10, 4), (1, 5, 5, 4), (4, 6, 6, 2), (4, 7, 7, 2)],
        {},
        [0, 10, 4, 15],
        [0, 10, 4, 15],
        0,
    ),
    # The same jobs: B moves up into the hole, C and D find room behind it.
    #   0         10
    #   AAABBBBBDDDDDDD
    #   AAABBBBBDDDDDDD
    #   AAABBBBBCCCCCC.
    #   AAABBBBBCCCCCC.
    "with compression reservations move up": (
        4,
        [(0, 3, 10, 4), (1, 5, 5, 4), (4, 6, 6, 2), (4, 7, 7, 2)],
        {"compress": True},
        [0, 3, 8, 8],
        [0, 10, 8, 8],
        0,
    ),
    # B and C arrive together, C goes first in the queue: reserved at 10 and 13, moved to 4 and 7.
    #   AAAACCCBBB
    #   AAAACCCBBB
    "the queue's order decides who is reserved and moved first": (
        2,
        [(0, 4, 10, 2), (1, 3, 3, 2), (1, 3, 3, 2)],
        {"compress": True, "rank": [0, 2, 1]},
        [0, 7, 4],
        [0, 13, 10],
        0,
    ),
    # Z has no walltime: it is planned for the second after A, and B behind it.
    #   AAAAZBBB
    #   AAAA.BBB
    "no walltime is planned as a second": (
        2,
        [(0, 4, 4, 2), (1, 0, 0, 1), (1, 3, 3, 2)],
        {},
        [0, 4, 5],
        [0, 4, 5],
        0,
    ),
    # Z ends as it starts, and B moves up into the same second.
    "a job of no length gives way at once": (
        2,
        [(0, 4, 4, 2), (1, 0, 0, 1), (1, 3, 3, 2)],
        {"compress": True},
        [0, 4, 4],
        [0, 4, 5],
        0,
    ),
    # A asked for 3 s and runs 7: at 3 it is believed to end at 6, at 6 at 12; B is pushed to 6, then to 12.
    #   AAAAAAA.....BB
    #   AAAAAAA.......
    "an overrun pushes what is in its way": (
        2,
        [(0, 7, 3, 2), (1, 2, 2, 1)],
        {},
        [0, 12],
        [0, 3],
        2,
    ),
    "and compression brings it back": (
        2,
        [(0, 7, 3, 2), (1, 2, 2, 1)],
        {"compress": True},
        [0, 7],
        [0, 3],
        2,
    ),
    # A is believed to end at 6 from 3 on: nobody is in the way, and nobody is planned again.
    #   XXXXXXXXBB
    #   AAAAA...BB
    "an overrun into idle processors changes nothing": (
        2,
        [(0, 5, 3, 1), (0, 8, 8, 1), (1, 2, 2, 2)],
        {},
        [0, 0, 8],
        [0, 0, 8],
        0,
    ),
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("simulator", [schedule, twin])
def test_drawn_by_hand(name, simulator):
    machine, jobs, options, start, promise, replans = DRAWN[name]
    assert tuple(simulator(jobs, machine, **options)) == (start, promise, replans)


@st.composite
def logs(draw, *, kill=None, length=30):
    """Draw a machine and jobs in submit order, crowded enough to wait, with ties and zeros."""
    machine = draw(st.integers(1, 8))
    span = draw(st.sampled_from([0, 5, 40]))
    longest = draw(st.sampled_from([3, 12, 40]))
    kill = draw(st.booleans()) if kill is None else kill
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, span),
                st.integers(0, longest),
                st.integers(0, longest),
                st.one_of(st.integers(1, machine), st.just(machine)),
            ),
            min_size=1,
            max_size=length,
        )
    )
    jobs = sorted(
        (
            (submit, min(run, walltime) if kill else run, walltime, width)
            for submit, run, walltime, width in rows
        ),
        key=lambda row: row[0],
    )
    rank = draw(st.one_of(st.just(list(range(len(jobs)))), st.permutations(range(len(jobs)))))
    return machine, jobs, rank


@given(logs(), st.booleans())
@examples(300)
def test_kernel_equals_twin(log, compress):
    machine, jobs, rank = log
    assert schedule(jobs, machine, compress=compress, rank=rank) == twin(
        jobs, machine, compress=compress, rank=rank
    )


def crowd(seed, n=160, machine=24, kill=True):
    """Return jobs enough to fill many blocks of the profile, some of no length."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 4 * n, n))
    walltime = rng.integers(0, 120, n)
    run = (walltime * rng.choice([0.0, 0.1, 0.5, 1.0, 1.0 if kill else 2.5], n)).astype(int)
    width = np.minimum(2 ** rng.integers(0, 6, n) + rng.integers(0, 2, n), machine)
    rank = rng.permutation(n) if seed % 2 else np.arange(n)
    return list(
        zip(*(column.tolist() for column in (submit, run, walltime, width)), strict=True)
    ), rank.tolist()


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("kill", [True, False])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_kernel_equals_twin_in_a_crowd(seed, kill, compress):
    jobs, rank = crowd(seed, kill=kill)
    ours = schedule(jobs, 24, compress=compress, rank=rank)
    assert ours == twin(jobs, 24, compress=compress, rank=rank)
    assert np.mean(np.subtract(ours[0], [row[0] for row in jobs])) > 60, "a crowd should wait"
    assert (ours[2] > 0) == (not kill)


@pytest.mark.real_traces
@pytest.mark.parametrize("compress", [False, True])
def test_kernel_equals_twin_on_a_log(trace_dir, compress):
    log = gt.read_workload(trace_dir / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz").first(1500)
    columns = (log.submit_time, log.run_time, log.requested_time, log.processors)
    jobs = list(zip(*(column.tolist() for column in columns), strict=True))
    assert schedule(jobs, 100, compress=compress) == twin(jobs, 100, compress=compress)


@given(logs(length=40), st.booleans())
@examples(200)
def test_processors_are_never_oversubscribed(log, compress):
    machine, jobs, rank = log
    start, _, _ = schedule(jobs, machine, compress=compress, rank=rank)
    for now in start:
        used = [
            width for begin, (_, run, _, width) in zip(start, jobs, strict=True) if begin <= now < begin + run
        ]
        assert sum(used) <= machine
    assert all(begin >= submit for begin, (submit, *_) in zip(start, jobs, strict=True))


@given(logs(kill=True, length=40), st.booleans())
@examples(200)
def test_a_promise_is_kept(log, compress):
    machine, jobs, rank = log
    start, promise, replans = schedule(jobs, machine, compress=compress, rank=rank)
    assert replans == 0
    if compress:
        assert all(begin <= promised for begin, promised in zip(start, promise, strict=True))
    else:
        assert start == promise


@given(logs(kill=True))
@examples(200)
def test_a_reservation_never_moves_later(log):
    machine, jobs, rank = log
    journal = []
    start, promise, _ = twin(jobs, machine, compress=True, rank=rank, journal=journal)
    for job in range(len(jobs)):
        reserved = [begin for _, who, begin in journal if who == job]
        assert reserved == sorted(reserved, reverse=True)
        assert (reserved[0], reserved[-1]) == (promise[job], start[job])
    assert (start, promise) == schedule(jobs, machine, compress=True, rank=rank)[:2]


@given(logs())
@examples(200)
def test_machine_wide_jobs_run_in_the_order_they_came(log):
    machine, jobs, _ = log
    jobs = [(submit, run, walltime, machine) for submit, run, walltime, _ in jobs]
    free, expected = 0, []
    for submit, run, _, _ in jobs:
        expected.append(max(submit, free))
        free = expected[-1] + run
    assert schedule(jobs, machine, compress=True)[0] == expected
    exact = [(submit, run, run, machine) for submit, run, _, _ in jobs if run > 0]
    if exact:
        assert schedule(exact, machine)[0] == schedule(exact, machine, compress=True)[0]


@given(logs(kill=True), st.integers(0, 10**12))
@examples(50)
def test_the_clock_may_start_anywhere(log, origin):
    machine, jobs, rank = log
    later = [(submit + origin, *rest) for submit, *rest in jobs]
    start = schedule(jobs, machine, compress=True, rank=rank)[0]
    assert schedule(later, machine, compress=True, rank=rank)[0] == [begin + origin for begin in start]


def test_no_jobs():
    assert schedule([], 4) == ([], [], 0)


def test_wide_machines_share_buckets_of_widths():
    rng = np.random.default_rng(5)
    jobs, rank = crowd(1)
    wide = [(*row[:3], row[3] * 100 + int(rng.integers(0, 100))) for row in jobs]
    assert schedule(wide, 2500, compress=True, rank=rank) == twin(wide, 2500, compress=True, rank=rank)
