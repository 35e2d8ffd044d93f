"""The inputs of queue orders: facts of each job, and the use by users and groups."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gridtune.batch.policies.job_view import JobView
from gridtune.core.compiled import address, array_at, bare, handles_of, kernel
from gridtune.types import FloatArray, Int32Array, IntArray

__all__ = [
    "Facts",
    "ScoreInputs",
    "Usage",
    "bare_inputs",
    "charge",
    "inputs_at",
    "note_end",
    "prediction",
    "score_inputs",
    "score_job",
    "score_jobs",
    "used",
    "view_of",
]


class Facts(NamedTuple):
    """Columns of shape (n,) that orders may read beside a job's submission, walltime and size."""

    user: IntArray
    group: IntArray
    queue: IntArray
    partition: IntArray
    lot: FloatArray


class Usage(NamedTuple):
    """Processor-seconds used by each account (a user or a group).

    An account has used `used` until second `since`, and `rate` more in every second after it. `account[job]`
    is the account that a job is charged to.
    """

    account: Int32Array
    used: FloatArray
    since: IntArray
    rate: IntArray


class ScoreInputs(NamedTuple):
    """All that scores depend on.

    `last[2 * user]` and the one after it are the run times of the user's last jobs that have ended, the
    latest first; -1: none. `half_life[0]` is in seconds; 0: use never fades. `handles` are those of all the
    arrays before it; `job` and `score` have one cell each, for `score_job`.
    """

    submit: IntArray
    walltime: IntArray
    processors: IntArray
    facts: Facts
    users: Usage
    groups: Usage
    last: IntArray
    half_life: FloatArray
    handles: IntArray
    job: Int32Array
    score: FloatArray


def score_inputs(
    submit: IntArray, walltime: IntArray, processors: IntArray, facts: Facts, half_life: float
) -> ScoreInputs:
    """Return the inputs before the first job arrives, when nothing has been used."""
    users, groups = _new_usage(facts.user), _new_usage(facts.group)
    last, fading = np.full(2 * len(users.used), -1, np.int64), np.array([half_life], np.float64)
    handles = handles_of([submit, walltime, processors, *facts, *users, *groups, last, fading])
    scratch = np.empty(1, np.int32), np.empty(1)
    return ScoreInputs(submit, walltime, processors, facts, users, groups, last, fading, handles, *scratch)


def _new_usage(owner: IntArray) -> Usage:
    least, most = int(owner.min(initial=0)), int(owner.max(initial=0))
    count = most - least + 1
    account = owner - least
    if count > max(64, len(owner) // 8):
        numbers, account = np.unique(owner, return_inverse=True)
        count = len(numbers)
    zeros = np.zeros(count, np.int64)
    return Usage(account.astype(np.int32), np.zeros(count), zeros, zeros.copy())


@kernel()
def _usage_at(handles, place):
    return Usage(
        array_at(handles, place, np.int32),
        array_at(handles, place + 1, np.float64),
        array_at(handles, place + 2, np.int64),
        array_at(handles, place + 3, np.int64),
    )


@kernel()
def inputs_at(handles):
    """Return the inputs whose handles these are, for reading."""
    submit, walltime, processors = (
        array_at(handles, 0, np.int64), array_at(handles, 1, np.int64), array_at(handles, 2, np.int64)
    )  # fmt: skip
    facts = Facts(
        array_at(handles, 3, np.int64), array_at(handles, 4, np.int64), array_at(handles, 5, np.int64),
        array_at(handles, 6, np.int64), array_at(handles, 7, np.float64),
    )  # fmt: skip
    users, groups = _usage_at(handles, 8), _usage_at(handles, 12)
    last, fading = array_at(handles, 16, np.int64), array_at(handles, 17, np.float64)
    scratch = handles, users.account, fading  # not used
    return ScoreInputs(submit, walltime, processors, facts, users, groups, last, fading, *scratch)


@kernel()
def _bare_usage(usage):
    return Usage(bare(usage.account), bare(usage.used), bare(usage.since), bare(usage.rate))


@kernel()
def bare_inputs(inputs):
    """Return the same as bare columns; the caller must keep the arrays alive."""
    facts = inputs.facts
    return ScoreInputs(
        bare(inputs.submit),
        bare(inputs.walltime),
        bare(inputs.processors),
        Facts(bare(facts.user), bare(facts.group), bare(facts.queue), bare(facts.partition), bare(facts.lot)),
        _bare_usage(inputs.users),
        _bare_usage(inputs.groups),
        bare(inputs.last),
        bare(inputs.half_life),
        bare(inputs.handles),
        bare(inputs.job),
        bare(inputs.score),
    )


@kernel()
def used(usage, account, now, half_life):
    """Return an account's use until now; with a half-life, older use counts less."""
    seconds = now - usage.since[account]
    if half_life <= 0.0:
        return usage.used[account] + usage.rate[account] * seconds
    rate = math.log(2.0) / half_life
    remaining = math.exp(-rate * seconds)
    return usage.used[account] * remaining + usage.rate[account] * (1.0 - remaining) / rate


@kernel()
def _charge(usage, job, width, now, half_life):
    account = usage.account[job]
    usage.used[account] = used(usage, account, now, half_life)
    usage.since[account] = now
    usage.rate[account] += width


@kernel()
def charge(inputs, job, width, now):
    """Charge a job's accounts for `width` more processors from now on; a negative width ends the charge."""
    _charge(inputs.users, job, width, now, inputs.half_life[0])
    _charge(inputs.groups, job, width, now, inputs.half_life[0])


@kernel()
def note_end(inputs, job, run):
    """Note how long a job has run, for what is expected of its user's next."""
    place = 2 * inputs.users.account[job]
    inputs.last[place + 1] = inputs.last[place]
    inputs.last[place] = run


@kernel()
def prediction(inputs, job):
    """Return how many seconds a job may be expected to run (see `JobView`)."""
    place, longest = 2 * inputs.users.account[job], float(inputs.walltime[job])
    if inputs.last[place] < 0:
        return longest
    if inputs.last[place + 1] < 0:
        return min(longest, float(inputs.last[place]))
    return min(longest, (inputs.last[place] + inputs.last[place + 1]) / 2.0)


@kernel(forceinline=True)
def view_of(inputs, job, now):
    """Return a waiting job as orders see it now."""
    facts, users, groups, half_life = inputs.facts, inputs.users, inputs.groups, inputs.half_life[0]
    return JobView(
        inputs.submit[job], inputs.walltime[job], inputs.processors[job], facts.user[job], facts.group[job],
        facts.queue[job], facts.partition[job], now - inputs.submit[job], now,
        used(users, users.account[job], now, half_life), used(groups, groups.account[job], now, half_life),
        facts.lot[job], prediction(inputs, job),
    )  # fmt: skip


@kernel(inline="always")
def score_jobs(score, inputs, jobs, count, now, scores):
    """Write the scores now of the first `count` of some waiting jobs."""
    score.function(address(inputs.handles), address(jobs), count, now, address(scores), score.program)


@kernel()
def score_job(score, inputs, job, now):
    """Return a waiting job's score now."""
    inputs.job[0] = job
    score_jobs(score, inputs, inputs.job, 1, now, inputs.score)
    return inputs.score[0]
