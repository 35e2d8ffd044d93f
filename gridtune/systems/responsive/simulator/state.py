"""Settings and state of the compiled site: a few small records, and columns over jobs.

A site is a NamedTuple of arrays, so one cheap argument carries it through every kernel. Nothing in it is a
plain number: single numbers that change are in `State.memory`, so a copy of the arrays is a copy of the site.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.types import FloatArray, IntArray

__all__ = ["EXTENDED", "PAPER", "Jobs", "Settings", "Site", "State"]


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
#: `autoscalers`; 0 on other sites), the seconds of a boot, of idleness before a release and between ticks,
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
        Shape (k,), float64: weights of a learned pool, see `demand`; otherwise empty.
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
        Shape (V, 2), float64, by VO and class: Σ weight · ln run time over completed jobs, and Σ weight; see
        `estimates`.
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
