"""What an order that changes while jobs wait reads: the jobs' facts, and what users and groups have used."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import bare, kernel

__all__ = ["Facts", "Known", "Usage", "bare_known", "charge", "known", "score_job"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Float64s = npt.NDArray[np.float64]


class Facts(NamedTuple):
    """What orders may read of each job besides its submission, walltime and size; shape (n,) each."""

    user: Int64s
    group: Int64s
    queue: Int64s
    partition: Int64s
    lot: Float64s


class Usage(NamedTuple):
    """Processor-seconds used, per account (a user or a group): `used` up to `since`, then `rate` more.

    `account[job]` is whose account a job is on.
    """

    account: Int32s
    used: Float64s
    since: Int64s
    rate: Int64s


class Known(NamedTuple):
    """All that a changing order reads. `half_life` is in seconds; 0 never forgets."""

    submit: Int64s
    walltime: Int64s
    processors: Int64s
    facts: Facts
    users: Usage
    groups: Usage
    half_life: float


def known(submit: Int64s, walltime: Int64s, processors: Int64s, facts: Facts, half_life: float) -> Known:
    """Return what is known before the first job arrives: nothing has been used."""
    users, groups = _new_usage(facts.user), _new_usage(facts.group)
    return Known(submit, walltime, processors, facts, users, groups, float(half_life))


def _new_usage(owner: Int64s) -> Usage:
    numbers, account = np.unique(owner, return_inverse=True)
    count = len(numbers)
    zeros = np.zeros(count, np.int64)
    return Usage(account.astype(np.int32), np.zeros(count), zeros, zeros.copy())


@kernel()
def _bare_usage(usage):
    return Usage(bare(usage.account), bare(usage.used), bare(usage.since), bare(usage.rate))


@kernel()
def bare_known(known):
    """Return the same in bare columns; the caller holds the arrays."""
    facts = known.facts
    return Known(
        bare(known.submit),
        bare(known.walltime),
        bare(known.processors),
        Facts(bare(facts.user), bare(facts.group), bare(facts.queue), bare(facts.partition), bare(facts.lot)),
        _bare_usage(known.users),
        _bare_usage(known.groups),
        known.half_life,
    )


@kernel()
def _used(usage, account, now, half_life):
    """Return an account's usage now: all of it, or with older use fading by half every `half_life`."""
    seconds = now - usage.since[account]
    if half_life <= 0.0:
        return usage.used[account] + usage.rate[account] * seconds
    rate = math.log(2.0) / half_life
    kept = math.exp(-rate * seconds)
    return usage.used[account] * kept + usage.rate[account] * (1.0 - kept) / rate


@kernel()
def _charge(usage, job, width, now, half_life):
    account = usage.account[job]
    usage.used[account] = _used(usage, account, now, half_life)
    usage.since[account] = now
    usage.rate[account] += width


@kernel()
def charge(known, job, width, now):
    """Let a job begin (width > 0) or cease (width < 0) to use processors on its accounts."""
    _charge(known.users, job, width, now, known.half_life)
    _charge(known.groups, job, width, now, known.half_life)


@kernel()
def score_job(score, known, job, now):
    """Return a waiting job's score now."""
    facts, users, groups = known.facts, known.users, known.groups
    return score(
        known.submit[job], known.walltime[job], known.processors[job], facts.user[job], facts.group[job],
        facts.queue[job], facts.partition[job], now - known.submit[job], now,
        _used(users, users.account[job], now, known.half_life),
        _used(groups, groups.account[job], now, known.half_life), facts.lot[job],
    )  # fmt: skip
