"""Settings and state of a compiled site, and the sums that it keeps: service, fairness, run times to expect.

A site is a NamedTuple of arrays, so one cheap argument carries it through every kernel. Nothing in it is a
plain number: single numbers are fields of records, as `state.memory[0].now`, so a copy of the arrays is a
copy of the site.

Service and pool are counted in whole core-seconds, so they are exact for logs of any length; only the last
division is rounded.

Run times are expected from completed jobs alone. Of a class: the median of the last completed jobs. Of a VO's
jobs of a class: a geometric mean with exponential forgetting, in which each completed job enters with weight
1, the weights of those before it shrink by 0.98, and the class's median has weight 3; so it is the median
before the VO's first job is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.types import FloatArray, IntArray

#: An instant that never comes.
NEVER = np.iinfo(np.int64).max

Records = np.ndarray[Any, np.dtype[np.void]]


def _record(**fields: Sequence[str]) -> np.dtype[np.void]:
    """Return the type of a record, from the names of its fields by their type."""
    return np.dtype([(name, kind) for kind, names in fields.items() for name in names], align=True)


#: The parameters of a site, see `SiteModel` and `Autoscaler`. `scaler`: the number of the rule that sizes
#: an event-driven pool (see `stepping`; 0 on other sites); `window`: the ticks whose largest wish counts;
#: `spacing`: the seconds between two rows of `SiteArrays.track`; `prior_batch` …: the run time to expect of a
#: class without a completed job.
MODEL = _record(
    bool=("elastic", "oracle", "at_events", "charged_after", "resized_at_ends"),
    int64=(
        *("cores", "floor", "largest", "period", "median_of", "start_latency", "user_cap"),
        *("scaler", "boot", "idle", "timer", "window", "spacing"),
    ),
    float64=(
        *("prior_batch", "prior_interactive", "largest_share"),
        *("headroom", "jobs_per_core"),
    ),
)
#: The single numbers of a site that change.
#:
#: `now`: the present second; `arrived`: jobs that have arrived; `head` and `tail`: first and last of the
#: waiting ones in `State.waiting`; `running`, `done`, `decided`: running jobs, completed ones, decisions;
#: `waiting_interactive`: interactive jobs that wait;
#: `finished`: run time of the completed jobs; `options`: pool sizes to choose from now.
#:
#: `pool`: the pool's size, with booting cores; `up`: cores that are up; `changed`: when its size last
#: changed; `area`: its core-seconds until `booked`; `area_at_last`: those up to the last submission.
#:
#: Of an event-driven pool: `target`: the size to keep; `booting`: booting cores; `boot_head` and
#: `idle_head`: the places of the next one in `State.booting` and of the longest idle one in `State.idle`;
#: `next_tick` and `ticks`: the timer's next tick, and ticks so far; `tick_due`: whether a tick waits for
#: an agent, or a termination for a size; `boots`: cores ordered so far;
#: `tracked`: rows of `State.track`.
MEMORY = _record(
    int64=(
        *("now", "arrived", "head", "tail", "running", "done", "decided"),
        *("waiting_interactive", "finished", "options"),
        *("pool", "up", "changed", "area", "booked", "area_at_last"),
        *("target", "booting", "boot_head", "idle_head", "next_tick", "ticks", "boots"),
        "tracked",
    ),
    bool=("tick_due",),
)
#: Of a VO: core-seconds of its completed jobs; its running jobs and the sum of their starts; its waiting
#: jobs.
VO = _record(int64=("service", "running", "begun", "queued"))
#: Of a VO's jobs of a class: Σ weight · ln run time over completed jobs, Σ weight, and the run time to
#: expect in the present decision.
VO_CLASS = _record(float64=("log", "weight", "expected"))
#: A decision: its job, its second, the pool's size after it, the run time of jobs completed before it, and F
#: and U when it was taken; with `charged_after` U has the pool up to the next decision.
DECISION = _record(int64=("job", "time", "pool", "finished"), float64=("fairness", "utilisation"))


class SiteJobArrays(NamedTuple):
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


class SiteArrays(NamedTuple):
    """The part of a site that changes: `n` jobs, `V` VOs, `m` pool sizes.

    Attributes
    ----------
    memory
        Shape (1,), `MEMORY`.
    waiting
        Shape (n,), int64: the waiting jobs by submission, from `head` up to `tail`.
    ends, heap
        Shape (n,), int64: the `running` jobs with their ends, a heap by end and then job.
    start, number
        Shape (n,), int64, by job: when it started, and which decision started it; -1 before.
    vos, classes
        Shapes (V,), `VO`, and (V, 2), `VO_CLASS`.
    recent, ordered
        Shape (2, median_of), int64: run times of the last completed jobs of each class, in a ring and sorted.
    completed_of
        Shape (2,), int64: completed jobs of each class.
    busy
        Shape (n,), int64, by user: running jobs.
    options
        Shape (m + 1,), int64: pool sizes to choose from in the present decision.
    decisions
        Shape (n,), `DECISION`.
    completed
        Shape (n,), int64: decisions in the order in which their jobs completed; the first `done` are valid.
    booting, idle
        Shape (largest,), int64, rings: when each booting core will be up, from `boot_head` on, and since when
        each idle core has been idle, from `idle_head` on; both ascending. Empty unless event-driven.
    wishes
        Shape (`window`,), int64, a ring: the sizes that the rule asked for at the last ticks.
    track
        Shape (r, 5), int64: second, pool, cores that are up, running and waiting jobs, about every `spacing`
        seconds from the first to the last submission; the first `tracked` are valid.
    """

    memory: Records
    waiting: IntArray
    ends: IntArray
    heap: IntArray
    start: IntArray
    number: IntArray
    vos: Records
    classes: Records
    recent: IntArray
    ordered: IntArray
    completed_of: IntArray
    busy: IntArray
    options: IntArray
    decisions: Records
    completed: IntArray
    booting: IntArray
    idle: IntArray
    wishes: IntArray
    track: IntArray


class GridSite(NamedTuple):
    """A site at some instant.

    Attributes
    ----------
    jobs
        Its jobs.
    model
        Shape (1,), `MODEL`.
    shares
        Shape (V,): the target share of each VO.
    sizes
        Shape (m,), int64, ascending: pool sizes to choose from.
    state
        All that changes.
    """

    jobs: SiteJobArrays
    model: Records
    shares: FloatArray
    sizes: IntArray
    state: SiteArrays


@kernel()
def service_of(site, vo):
    """Return the core-seconds that a VO has received so far, including its running jobs."""
    mine = site.state.vos[vo]
    return mine.service + mine.running * site.state.memory[0].now - mine.begun


@kernel()
def total_service(site):
    """Return the core-seconds that all VOs have received so far."""
    total = 0
    for vo in range(site.shares.size):
        total += service_of(site, vo)
    return total


@kernel()
def class_estimate(site, kind):
    """Return the median run time of the last completed jobs of a class (1 interactive, 0 batch), seconds.

    Before any job of the class is completed, it is the prior of the settings.
    """
    state = site.state
    stored = min(state.completed_of[kind], site.model[0].median_of)
    if stored == 0:
        return site.model[0].prior_interactive if kind == 1 else site.model[0].prior_batch
    ordered, half = state.ordered[kind], stored // 2
    if stored % 2 == 1:
        return float(ordered[half])
    return (ordered[half - 1] + ordered[half]) / 2.0
