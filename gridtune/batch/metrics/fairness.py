"""Metrics of fairness: differences between users, and jobs overtaken by later ones.

Jobs without a user number are left out. Means are first taken over each user's jobs, so that every user
counts once, however many jobs they have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gridtune.batch.metrics.columns import JobColumns
from gridtune.batch.metrics.registry import (
    FEITELSON_1998,
    JAIN_1984,
    LARSON_1987,
    SABIN_2005,
    VASUPONGAYYA_2005,
    MetricFunction,
    metric,
)
from gridtune.core.system import Direction
from gridtune.types import AnyArray, FloatArray, IntArray

__all__ = []

_metric = partial(metric, family="Fairness")
_Values = Callable[[JobColumns], AnyArray]
_Statistic = Callable[[AnyArray], Any]


class _UserMeans(NamedTuple):
    """Means over each user's kept jobs, one value for each user: of the wait, s, and the bounded slowdown."""

    wait: FloatArray
    bounded_slowdown: FloatArray


def _user_means(jobs: JobColumns) -> _UserMeans:
    """Return the users' means; empty columns where no job has a user number."""
    user, has_user = jobs.user, jobs.user >= 0
    # Counting by user number is faster than sorting, unless the numbers are large.
    if user.max(initial=-1) > 4 * len(user) + 1000:
        user = np.unique(user, return_inverse=True)[1]
    count = np.bincount(user[has_user])
    sums = (np.bincount(user[has_user], column[has_user]) for column in (jobs.wait, jobs.bounded_slowdown))
    return _UserMeans(*(total[count > 0] / count[count > 0] for total in sums))


def _overtaken_time(jobs: JobColumns) -> IntArray:
    """Return for how many seconds each kept job still waited after a later job had been started.

    Parameters
    ----------
    jobs
        Any later job may overtake, also one that is left out.

    Returns
    -------
    numpy.ndarray
        Shape (len(jobs),), int64 s: start minus the earliest start of a job that was submitted later; 0 if
        no such job started earlier.
    """
    earliest = np.minimum.accumulate(np.append(jobs.all_start, np.iinfo(np.int64).max)[::-1])[::-1]
    later = np.searchsorted(jobs.all_submit, jobs.submit, side="right")
    return jobs.start - np.minimum(jobs.start, earliest[later])


@_metric("users", unit="users", direction="none", formula="k", source=FEITELSON_1998)
def _users(jobs: JobColumns) -> float:
    """Users with a kept job; the metrics of users are about these."""
    return float(len(jobs.once(_user_means).wait))


def _user_waits(jobs: JobColumns) -> FloatArray:
    return jobs.once(_user_means).wait


def _user_slowdowns(jobs: JobColumns) -> FloatArray:
    return jobs.once(_user_means).bounded_slowdown


def _share_above_zero(values: AnyArray) -> float:
    return float(np.count_nonzero(values)) / len(values)


def _jain(values: AnyArray) -> float:
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))


_OVERTAKEN = "oᵢ = max(0, sᵢ − min{sⱼ : qⱼ > qᵢ})"

#: Statistics over users and over jobs: metric, unit, direction, formula, source, the values, their statistic,
#: description.
_STATISTICS: tuple[tuple[str, str, Direction, str, str, _Values, _Statistic, str], ...] = (
    (
        "user_wait_mean", "s", "min", "Σ W_u / k; W_u = mean of wᵢ over the jobs of user u",
        VASUPONGAYYA_2005, _user_waits, np.mean, "Mean over users of their mean wait.",
    ),
    (
        "user_wait_max", "s", "min", "max W_u", VASUPONGAYYA_2005, _user_waits, np.max,
        "Mean wait of the user who waits longest. A user with a single job can set it.",
    ),
    (
        "user_bounded_slowdown_mean", "1", "min",
        "Σ D_u / k; D_u = mean of the bounded slowdown over the jobs of user u",
        VASUPONGAYYA_2005, _user_slowdowns, np.mean, "Mean over users of their mean bounded slowdown.",
    ),
    (
        "user_bounded_slowdown_max", "1", "min", "max D_u", VASUPONGAYYA_2005, _user_slowdowns, np.max,
        "Mean bounded slowdown of the user with the largest one.",
    ),
    (
        "user_bounded_slowdown_std", "1", "min", "√(Σ (D_u − mean D)² / k)",
        VASUPONGAYYA_2005, _user_slowdowns, np.std,
        "Spread of the service over users: the standard deviation of their mean bounded slowdowns.",
    ),
    (
        "user_bounded_slowdown_jain", "1", "max", "(Σ D_u)² / (k Σ D_u²)", JAIN_1984, _user_slowdowns, _jain,
        "Jain's index of the users' mean bounded slowdowns. It is 1 if all users are served alike and near "
        "1 / k if one alone suffers. It measures how even the service is, not how good; read it together "
        "with the mean.",
    ),
    (
        "overtaken_fraction", "1", "min", f"#{{i : oᵢ > 0}} / n; {_OVERTAKEN}",
        LARSON_1987, _overtaken_time, _share_above_zero,
        "Share of the jobs that started after a job which was submitted later. It is 0 for strict first "
        "come, first served. A job that is overtaken need not be delayed, as backfilling fills holes; for "
        "delays see `start_time_unfairness`.",
    ),
    (
        "overtaken_time_mean", "s", "min", f"Σ oᵢ / n; {_OVERTAKEN}", f"{LARSON_1987}; {SABIN_2005}",
        _overtaken_time, np.mean,
        "Time that a job still waited after a later job had been started, mean over all jobs.",
    ),
    (
        "overtaken_time_max", "s", "min", f"max oᵢ; {_OVERTAKEN}", f"{LARSON_1987}; {SABIN_2005}",
        _overtaken_time, np.max,
        "Longest time that any job still waited after a later job had been started: starvation.",
    ),
)  # fmt: skip


def _statistic_of(values: _Values, statistic: _Statistic, description: str) -> MetricFunction:
    def function(jobs: JobColumns) -> float:
        numbers = jobs.once(values)
        return float(statistic(numbers)) if len(numbers) else math.nan

    function.__doc__ = description
    return function


for _name, _unit, _direction, _formula, _source, _values, _statistic, _description in _STATISTICS:
    _metric(_name, unit=_unit, direction=_direction, formula=_formula, source=_source)(
        _statistic_of(_values, _statistic, _description)
    )
