"""A conservative site's kernels: drawn by hand, against the plain-Python twin, by what must always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.batch.simulator.profile import new_profile
from gridtune.systems.provisioning.simulator.site import (
    _Arrivals,
    _feed,
    _free_windows,
    _hold,
    _last_reserved,
    _reserved_profile,
    _run_best_effort,
    _Tasks,
    _with_room,
)
from tests.batch.simulator.conservative_twin import conservative_schedule_twin
from tests.conftest import examples
from tests.systems.provisioning.simulator.site_twin import SiteTwin


def columns(rows, count=3):
    table = np.array(rows, dtype=np.int64).reshape(-1, count)
    return tuple(np.ascontiguousarray(column) for column in table.T)


def windows(profile, now, horizon):
    return list(zip(*(column.tolist() for column in _free_windows(profile, now, horizon)), strict=True))


# Five processors, three reservations, horizon 6; letters are who holds, digits the free windows.
#
#   11BB33
#   11BB33
#   AAACC4
#   222222
#   222222
def test_windows_drawn_by_hand():
    begin, end, width = columns([(2, 4, 2), (0, 3, 1), (3, 5, 1)])
    profile = _reserved_profile(5, 0, begin, end, width)
    # What A leaves at 3 goes to C at the same instant; what B leaves at 4 stays free.
    assert windows(profile, 0, 6) == [(0, 2, 2), (0, 6, 2), (4, 6, 2), (5, 6, 1)]
    assert windows(profile, 3, 6) == [(3, 6, 2), (4, 6, 2), (5, 6, 1)]
    assert _last_reserved(profile, 5, 0) == 5


def test_an_idle_site_is_one_window():
    profile = new_profile(0, 7, 100)
    assert windows(profile, 150, 300) == [(150, 300, 7)]
    assert _last_reserved(profile, 7, 150) == 150


@st.composite
def busy_sites(draw):
    """Draw a machine, jobs in submit order with ties and zeros, and an instant to look at."""
    machine = draw(st.integers(1, 7))
    row = st.tuples(
        st.integers(0, 30),
        st.integers(0, draw(st.sampled_from([4, 15, 40]))),
        st.one_of(st.integers(1, machine), st.just(machine)),
    )
    jobs = sorted(draw(st.lists(row, max_size=25)), key=lambda job: job[0])
    return machine, jobs, draw(st.integers(0, 45))


def fed(machine, jobs, until):
    """Return profile, next job and starts of kernel; and the twin."""
    arrivals = _Arrivals(*columns(jobs))
    start = np.full(len(jobs), -1)
    profile = new_profile(len(jobs), machine, 0)
    following = _feed(profile, arrivals, 0, until, start)
    twin = SiteTwin(machine)
    expected = [twin.submit(*job) for job in jobs[:following]]
    assert start[:following].tolist() == expected
    assert all(job[0] <= until for job in jobs[:following])
    assert all(job[0] > until for job in jobs[following:])
    return profile, following, twin


@given(busy_sites())
@examples(300)
def test_windows_equal_the_twins(site):
    machine, jobs, now = site
    profile, _, twin = fed(machine, jobs, now)
    last = _last_reserved(profile, machine, now)
    assert last == twin.last_reserved(now)
    for horizon in (last + 1, last + 17):
        assert windows(profile, now, horizon) == twin.windows(now, horizon)


@pytest.mark.parametrize("seed", range(3))
def test_windows_equal_the_twins_in_a_crowd(seed):
    rng, machine = np.random.default_rng(seed), 24
    widths = np.minimum(2 ** rng.integers(0, 5, 120) + rng.integers(0, 2, 120), machine)
    table = np.column_stack([np.sort(rng.integers(0, 900, 120)), rng.integers(0, 150, 120), widths])
    jobs, nested = [tuple(row) for row in table.tolist()], 0
    for now in range(50, 950, 100):
        profile, _, twin = fed(machine, jobs, now)
        horizon = twin.last_reserved(now) + 1
        free = windows(profile, now, horizon)
        assert free == twin.windows(now, horizon)
        nested += sum(now < begin and end < horizon for begin, end, _ in free)
    assert nested > 20, "a crowd should have windows between reservations"


@given(busy_sites())
@examples(200)
def test_windows_are_all_that_is_free(site):
    machine, jobs, now = site
    profile, _, twin = fed(machine, jobs, now)
    horizon = twin.last_reserved(now) + 5
    free = windows(profile, now, horizon)
    for t in range(now, horizon):
        assert sum(width for begin, end, width in free if begin <= t < end) == twin.free(t)
    # As much as can be is free from any instant on until the horizon.
    for t in range(now, horizon):
        open_ended = sum(width for begin, end, width in free if begin <= t and end == horizon)
        assert open_ended == min(twin.free(later) for later in range(t, horizon))
    assert len({(begin, end) for begin, end, _ in free}) == len(free)


@given(busy_sites())
@examples(200)
def test_a_site_kept_up_to_date_equals_one_built_at_once(site):
    machine, jobs, now = site
    profile, following, _ = fed(machine, jobs, now)
    arrivals, start = _Arrivals(*columns(jobs)), np.full(len(jobs), -1)
    stepwise, first = new_profile(len(jobs), machine, 0), 0
    for until in range(now + 1):
        first = _feed(stepwise, arrivals, first, until, start)
    assert first == following
    length = np.maximum(arrivals.length, 1)[:following]
    at_once = _reserved_profile(
        machine, now, start[:following], start[:following] + length, arrivals.processors[:following]
    )
    assert windows(profile, now, 200) == windows(stepwise, now, 200) == windows(at_once, now, 200)


@given(busy_sites())
@examples(200)
def test_feeding_is_conservative_backfilling(site):
    machine, jobs, _ = site
    submit, length, processors = columns(jobs)
    start = np.full(len(jobs), -1)
    _feed(new_profile(len(jobs), machine, 0), _Arrivals(submit, length, processors), 0, 10_000, start)
    for compress in (False, True):
        expected, _, _ = conservative_schedule_twin(
            submit, length, length, processors, range(len(jobs)), machine, compress
        )
        # A job of no length ends a second early, and lets those behind it move up where that is done.
        if not compress or (length > 0).all():
            assert start.tolist() == expected


@given(
    busy_sites(), st.lists(st.tuples(st.integers(-2, 30), st.integers(1, 20), st.integers(1, 7)), max_size=6)
)
@examples(300)
def test_holding_equals_the_twin(site, wishes):
    machine, jobs, now = site
    profile, _, twin = fed(machine, jobs, now)
    rows = [(now + after, now + after + length, min(width, machine)) for after, length, width in wishes]
    profile = _with_room(profile, len(rows))
    refused = _hold(profile, now, *columns(rows))
    granted = [twin.hold(now, *row) for row in rows[: refused if refused >= 0 else None]]
    assert all(granted)
    if refused >= 0:
        assert not twin.hold(now, *rows[refused])
    assert windows(profile, now, 300) == twin.windows(now, 300)


@st.composite
def graphs(draw, machine):
    """Draw tasks of a workflow: lengths, widths, and parents that come before their children."""
    count = draw(st.integers(1, 10))
    lengths = draw(st.lists(st.integers(0, 12), min_size=count, max_size=count))
    widths = draw(st.lists(st.integers(1, machine), min_size=count, max_size=count))
    parents = [
        draw(st.sets(st.integers(0, task - 1), max_size=3)) if task else set() for task in range(count)
    ]
    return lengths, widths, parents


def as_tasks(lengths, widths, parents):
    children = [[t for t, before in enumerate(parents) if task in before] for task in range(len(lengths))]
    offsets = np.cumsum([0, *map(len, children)])
    flat = np.array([child for row in children for child in row], dtype=np.int64)
    counts = np.array([len(before) for before in parents])
    return _Tasks(np.array(lengths), np.array(widths), counts, offsets, flat)


@given(st.data(), busy_sites())
@examples(300)
def test_best_effort_equals_the_twin(data, site):
    machine, jobs, now = site
    lengths, widths, parents = data.draw(graphs(machine))
    profile, following, twin = fed(machine, jobs, now)
    submit, start = _run_best_effort(
        _with_room(profile, len(jobs) + len(lengths)),
        now,
        _Arrivals(*columns(jobs)),
        following,
        as_tasks(lengths, widths, parents),
    )
    expected = twin.run_best_effort(now, jobs[following:], lengths, widths, parents)
    assert (submit.tolist(), start.tolist()) == expected
    for task, before in enumerate(parents):
        assert submit[task] == max([now, *(start[parent] + lengths[parent] for parent in before)])
    assert all(twin.free(t) >= 0 for t in start.tolist())


def test_best_effort_drawn_by_hand():
    # Two processors. The log holds one until 4 (X), and Y comes at 5 for both. A ends at 3, B follows it;
    # C waits for B, which ends at 6 behind Y, which took 6 to 8 when it came at 5.
    #   XXXX..YY..
    #   AAABBBYYC.
    jobs = [(0, 4, 1), (5, 2, 2)]
    profile, following, _ = fed(2, jobs, 0)
    tasks = as_tasks([3, 3, 1], [1, 1, 1], [set(), {0}, {1}])
    submit, start = _run_best_effort(_with_room(profile, 5), 0, _Arrivals(*columns(jobs)), following, tasks)
    assert (submit.tolist(), start.tolist()) == ([0, 3, 6], [0, 3, 8])
