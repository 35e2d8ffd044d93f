"""Settings and state of a compiled site, and the sums that it keeps: service, fairness, run times to expect.

A site is a NamedTuple of arrays, so one cheap argument carries it through every kernel. Nothing in it is a
plain number: single numbers that change are in `State.memory`, so a copy of the arrays is a copy of the site.

Service and pool are counted in whole core-seconds, so they are exact for logs of any length; only the last
division is rounded.

Run times are expected from completed jobs alone. Of a class: the median of the last completed jobs. Of a VO's
jobs of a class: a geometric mean with exponential forgetting, in which each completed job enters with weight
1, the weights of those before it shrink by 0.98, and the class's median has weight 3; so it is the median
before the VO's first job is done.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, IntArray

__all__ = [
    "EXTENDED",
    "PAPER",
    "PRIOR_WEIGHT",
    "Jobs",
    "Settings",
    "Site",
    "State",
    "book_pool",
    "class_estimate",
    "fairness_now",
    "fill_expected",
    "pool_area",
    "remember_run_time",
    "service_of",
    "total_service",
    "utilisation_now",
]


#: An instant that never comes.
NEVER = np.iinfo(np.int64).max

#: Places in `State.memory`: the present second; jobs that have arrived; first and last of the waiting ones in
#: `State.waiting`; running jobs, completed ones, decisions; the pool's size, when it last changed, until when
#: its core-seconds are counted, and their number; run time of the completed jobs; waiting interactive jobs;
#: pool sizes to choose from now; completed jobs of each class; interactive jobs that wait or run; the pool's
#: core-seconds up to the last submission; cores that are up. An event-driven site, whose pool includes
#: booting cores, also has: the size to keep; booting cores and the place of the next one in `State.booting`;
#: the place of the longest idle core in `State.idle`; the next tick of the timer, and whether it waits for an
#: agent; cores ordered so far; orders and releases left until the next tick; ticks so far; rows of
#: `State.track`.
(
    NOW,
    ARRIVED,
    HEAD,
    TAIL,
    RUNNING,
    DONE,
    DECIDED,
    POOL,
    CHANGED,
    BOOKED,
    AREA,
    FINISHED,
    WAITING_INTERACTIVE,
    OPTIONS,
    COMPLETED_BATCH,
    COMPLETED_INTERACTIVE,
    PRESENT_INTERACTIVE,
    AREA_AT_LAST,
    UP,
    TARGET,
    BOOTING,
    BOOT_HEAD,
    IDLE_HEAD,
    NEXT_TICK,
    TICK_DUE,
    BOOTS,
    ORDERS_LEFT,
    RELEASES_LEFT,
    TICKS,
    TRACKED,
    MEMORY,
) = range(31)

#: Integer settings: cores to begin with (the features' unit); whether the pool may change, its smallest and
#: largest size, and the seconds between changes; whether run times are known; the number of completed jobs
#: whose median is an estimate; the set of features; seconds from a decision to the start of its job; running
#: jobs that the capped rule allows a user. Of an event-driven site: the rule that sizes the pool (see
#: `pool`; 0 on other sites), the seconds of a boot, of idleness before a release and between ticks,
#: whether the rule is also asked at events, the ticks whose largest wish counts, orders and releases in a
#: tick, and the seconds between two rows of `State.track`.
(
    CORES,
    ELASTIC,
    FLOOR,
    CEILING,
    PERIOD,
    ORACLE,
    MEDIAN_OF,
    FEATURES,
    LATENCY,
    USER_CAP,
    SCALER,
    BOOT,
    IDLE,
    TIMER,
    AT_EVENTS,
    WINDOW,
    ORDERS,
    RELEASES,
    SPACING,
    WHOLES,
) = range(20)
#: Sets of features: the papers' own, and a larger one.
PAPER, EXTENDED = range(2)

#: Real settings: estimates for a class without a completed job, s; the largest target share; the weights of
#: the linear rule, see `site.LinearWeights`; what the rules of an event-driven pool take, see `Autoscaler`.
(
    PRIOR_BATCH,
    PRIOR_INTERACTIVE,
    LARGEST_SHARE,
    RUN_WEIGHT,
    WAIT_WEIGHT,
    SPAN_WEIGHT,
    INTERACTIVE_WEIGHT,
    DEFICIT_WEIGHT,
    HEADROOM,
    PER_CORE,
    UTILISATION,
    TOLERANCE,
    DRAIN,
    REALS,
) = range(14)
#: Run times of completed jobs that are kept for each VO and class.
KEPT = 50


class Jobs(NamedTuple):
    """The jobs by submission; shape (n,) each, int64.

    Attributes
    ----------
    submit, run
        Submission and real run time, seconds; `run` is at least 1.
    vo
        Its virtual organisation, from 0.
    interactive
        1 where it is interactive, 0 where it is batch.
    user
        Its user, from 0.
    """

    submit: IntArray
    run: IntArray
    vo: IntArray
    interactive: IntArray
    user: IntArray


class Settings(NamedTuple):
    """The part of a site that does not change.

    Attributes
    ----------
    whole, real
        Shapes (`WHOLES`,), int64, and (`REALS`,), float64.
    shares
        Shape (V,): the target share of each VO.
    sizes
        Shape (m,), int64, ascending: pool sizes to choose from.
    forecast
        Shape (k,), float64: weights of a learned pool, see `pool.learn_forecast`; otherwise empty.
    """

    whole: IntArray
    real: FloatArray
    shares: FloatArray
    sizes: IntArray
    forecast: FloatArray


class State(NamedTuple):
    """The part of a site that changes: `n` jobs, `V` VOs, `m` pool sizes.

    Attributes
    ----------
    memory
        Shape (`MEMORY`,), int64: single numbers.
    waiting
        Shape (n,), int64: the waiting jobs by submission, from `HEAD` up to `TAIL`.
    heap
        Shape (n,), int64: the `RUNNING` jobs, a heap by end and then job.
    start
        Shape (n,), int64: when each job started, -1 before.
    service, running, begun, queued
        Shape (V,), int64, by VO: core-seconds of completed jobs; running jobs and the sum of their starts;
        waiting jobs.
    recent, ordered
        Shape (2, median_of), int64: run times of the last completed jobs of each class, in a ring and sorted.
    logs, weights
        Shape (V, 2), float64, by VO and class: Σ weight · ln run time over completed jobs, and Σ weight.
    expected
        Shape (V, 2), float64: run time to expect of a VO's jobs of a class, in the present decision.
    latest, seen
        Shapes (V, 2, `KEPT`) and (V, 2), int64: run times of the last completed jobs, in a ring, and the
        number of completed jobs.
    busy
        Shape (n,), int64, by user: running jobs.
    options
        Shape (m + 1,), int64: pool sizes to choose from in the present decision.
    decided, time, pool
        Shape (n,), int64, by decision: its job, its second, the pool's size after it.
    fairness, utilisation
        Shape (n,), float64, by decision: F and U when it was taken.
    number
        Shape (n,), int64, by job: which decision started it, -1 before.
    completed
        Shape (n,), int64: decisions in the order in which their jobs completed; the first `DONE` are valid.
    booting, idle
        Shape (largest,), int64, rings: when each booting core will be up, from `BOOT_HEAD` on, and since when
        each idle core has been idle, from `IDLE_HEAD` on; both ascending. Empty unless event-driven.
    wishes
        Shape (`WINDOW`,), int64, a ring: the sizes that the rule asked for at the last ticks.
    track
        Shape (r, 5), int64: second, pool, cores that are up, running and waiting jobs, about every `SPACING`
        seconds from the first to the last submission; the first `TRACKED` are valid.
    """

    memory: IntArray
    waiting: IntArray
    heap: IntArray
    start: IntArray
    service: IntArray
    running: IntArray
    begun: IntArray
    queued: IntArray
    recent: IntArray
    ordered: IntArray
    logs: FloatArray
    weights: FloatArray
    expected: FloatArray
    latest: IntArray
    seen: IntArray
    busy: IntArray
    options: IntArray
    decided: IntArray
    time: IntArray
    pool: IntArray
    fairness: FloatArray
    utilisation: FloatArray
    number: IntArray
    completed: IntArray
    booting: IntArray
    idle: IntArray
    wishes: IntArray
    track: IntArray


class Site(NamedTuple):
    """A site at some instant: its jobs, its settings and its state."""

    jobs: Jobs
    settings: Settings
    state: State


@kernel()
def service_of(site, vo):
    """Return the core-seconds that a VO has received so far, including its running jobs."""
    state = site.state
    return state.service[vo] + state.running[vo] * state.memory[NOW] - state.begun[vo]


@kernel()
def total_service(site):
    """Return the core-seconds that all VOs have received so far."""
    total = 0
    for vo in range(site.settings.shares.size):
        total += service_of(site, vo)
    return total


@kernel()
def fairness_now(site):
    """Return F of a decision taken now: 1 − maxₖ (wₖ − Sₖ)₊ / maxₖ wₖ; 1 before any service."""
    shares, total = site.settings.shares, total_service(site)
    if total == 0:
        return 1.0
    worst = 0.0
    for vo in range(shares.size):
        deficit = shares[vo] - service_of(site, vo) / total
        worst = max(worst, deficit)
    return 1.0 - worst / site.settings.real[LARGEST_SHARE]


@kernel()
def pool_area(site):
    """Return the core-seconds of the pool since the first submission."""
    memory = site.state.memory
    return memory[AREA] + memory[POOL] * (memory[NOW] - memory[BOOKED])


@kernel()
def book_pool(site):
    """Count the pool's core-seconds up to now; due before each change of its size."""
    memory = site.state.memory
    memory[AREA] += memory[POOL] * (memory[NOW] - memory[BOOKED])
    memory[BOOKED] = memory[NOW]


@kernel()
def utilisation_now(site):
    """Return U at this instant: run time of completed jobs / core-seconds of the pool; 0 at first."""
    area = pool_area(site)
    return site.state.memory[FINISHED] / area if area > 0 else 0.0


FORGETTING, PRIOR_WEIGHT = 0.98, 3.0


@kernel()
def remember_run_time(site, job):
    """Add a completed job's run time to those of its class and VO; the oldest one of a full list leaves."""
    state, vo = site.state, site.jobs.vo[job]
    kind, value = site.jobs.interactive[job], site.jobs.run[job]
    state.logs[vo, kind] = FORGETTING * state.logs[vo, kind] + math.log(value)
    state.weights[vo, kind] = FORGETTING * state.weights[vo, kind] + 1.0
    state.latest[vo, kind, state.seen[vo, kind] % KEPT] = value
    state.seen[vo, kind] += 1
    _insert(site, kind, value)


@kernel()
def _insert(site, kind, value):
    """Add a run time to the sorted ones of a class."""
    state, size = site.state, site.settings.whole[MEDIAN_OF]
    recent, ordered = state.recent[kind], state.ordered[kind]
    completed = state.memory[COMPLETED_BATCH + kind]
    stored = min(completed, size)
    slot = completed % size
    if completed >= size:
        # Close the gap of the oldest one: larger ones move down.
        oldest, place = recent[slot], 0
        while ordered[place] != oldest:
            place += 1
        for later in range(place, stored - 1):
            ordered[later] = ordered[later + 1]
        stored -= 1
    place = stored
    while place > 0 and ordered[place - 1] > value:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = value
    recent[slot] = value
    state.memory[COMPLETED_BATCH + kind] = completed + 1


@kernel()
def class_estimate(site, kind):
    """Return the median run time of the last completed jobs of a class (1 interactive, 0 batch), seconds.

    Before any job of the class is completed, it is the prior of the settings.
    """
    state = site.state
    stored = min(state.memory[COMPLETED_BATCH + kind], site.settings.whole[MEDIAN_OF])
    if stored == 0:
        return site.settings.real[PRIOR_BATCH + kind]
    ordered, half = state.ordered[kind], stored // 2
    if stored % 2 == 1:
        return float(ordered[half])
    return (ordered[half - 1] + ordered[half]) / 2.0


@kernel()
def fill_expected(site):
    """Write the run time to expect of each VO's jobs of each class to `State.expected`."""
    state = site.state
    for kind in range(2):
        prior = PRIOR_WEIGHT * math.log(class_estimate(site, kind))
        for vo in range(state.expected.shape[0]):
            state.expected[vo, kind] = math.exp(
                (prior + state.logs[vo, kind]) / (PRIOR_WEIGHT + state.weights[vo, kind])
            )
