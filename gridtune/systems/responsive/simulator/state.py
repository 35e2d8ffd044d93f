"""What the compiled site is told and what it remembers: a few small records and columns over jobs.

A site is a NamedTuple of arrays, so one cheap argument carries it through every kernel. Nothing in it is a
number by itself: what changes stands in `State.memory`, and a copy of the arrays is a copy of the site.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["EXTENDED", "PAPER", "Jobs", "Settings", "Site", "State"]

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

#: An instant that never comes.
NEVER = np.iinfo(np.int64).max

#: What is remembered in single numbers: the second; jobs that have come; where the waiting ones begin and
#: end in `State.waiting`; jobs that run, that are done, that were decided on; the pool's size, when it last
#: changed, up to when its core-seconds are booked and how many there are; execution time of the jobs done;
#: waiting interactive jobs; pool sizes that may be asked for now; completed jobs of each class.
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
    SEEN_BATCH,
    SEEN_INTERACTIVE,
    MEMORY,
) = range(17)

#: Whole-number settings: cores to begin with (the features' unit); whether the pool may be sized, its
#: least and largest size, and the seconds between changes; whether execution times are known; completed
#: jobs whose median is an estimate; which features.
CORES, ELASTIC, FLOOR, CEILING, PERIOD, ORACLE, WINDOW, FEATURES, WHOLES = range(9)
#: Sets of features: the papers' own, and those with more about each candidate.
PAPER, EXTENDED = range(2)

#: Real-number settings: estimates for a class of which no job is done yet, s; the largest target share.
PRIOR_BATCH, PRIOR_INTERACTIVE, LARGEST_SHARE, REALS = range(4)


class Jobs(NamedTuple):
    """The jobs by submission; shape (n,) each, int64.

    Attributes
    ----------
    submit, run
        When each comes and how long it really runs, seconds; `run` is at least 1.
    vo
        Its virtual organisation, from 0.
    interactive
        1 where it is interactive, 0 where it is batch.
    """

    submit: Int64s
    run: Int64s
    vo: Int64s
    interactive: Int64s


class Settings(NamedTuple):
    """What does not change.

    Attributes
    ----------
    whole, real
        Shapes (`WHOLES`,), int64, and (`REALS`,), float64.
    shares
        Shape (V,): the target share of each VO.
    sizes
        Shape (m,), int64, ascending: pool sizes that may be asked for.
    """

    whole: Int64s
    real: Float64s
    shares: Float64s
    sizes: Int64s


class State(NamedTuple):
    """What changes: `n` jobs, `V` VOs, `m` pool sizes.

    Attributes
    ----------
    memory
        Shape (`MEMORY`,), int64: single numbers.
    waiting
        Shape (n,), int64: the waiting jobs by submission stand from `HEAD` up to `TAIL`.
    heap
        Shape (n,), int64: the `RUNNING` jobs, a heap by end and then job.
    start
        Shape (n,), int64: when each job started, -1 before.
    service, running, begun, queued
        Shape (V,), int64, by VO: core-seconds of completed jobs; running jobs and the sum of their starts;
        waiting jobs.
    recent, ordered
        Shape (2, window), int64: run times of the last completed jobs of each class, in a ring and sorted.
    options
        Shape (m + 1,), int64: pool sizes that may be asked for in the present decision.
    decided, time, pool
        Shape (n,), int64, by decision: its job, its second, the pool's size after it.
    fairness, utilisation
        Shape (n,), float64, by decision: F and U when it was taken.
    number
        Shape (n,), int64, by job: which decision started it, -1 before.
    completed
        Shape (n,), int64: decisions in the order in which their jobs completed; the first `DONE` are known.
    """

    memory: Int64s
    waiting: Int64s
    heap: Int64s
    start: Int64s
    service: Int64s
    running: Int64s
    begun: Int64s
    queued: Int64s
    recent: Int64s
    ordered: Int64s
    options: Int64s
    decided: Int64s
    time: Int64s
    pool: Int64s
    fairness: Float64s
    utilisation: Float64s
    number: Int64s
    completed: Int64s


class Site(NamedTuple):
    """A site in the middle of its life: what it is told, and what it remembers."""

    jobs: Jobs
    settings: Settings
    state: State
