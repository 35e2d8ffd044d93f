"""Metrics of fairness: differences between users, and jobs overtaken by later ones.

Jobs without a user number are left out. Means are first taken over each user's jobs, so that every user
counts once, however many jobs they have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from gridtune.batch.metrics.columns import TAU, JobColumns
from gridtune.batch.metrics.registry import (
    FEITELSON_1998,
    JAIN_1984,
    LARSON_1987,
    SABIN_2005,
    VASUPONGAYYA_2005,
    metric,
)
from gridtune.types import FloatArray, IntArray

__all__ = []

_metric = partial(metric, family="Fairness")


@dataclass(frozen=True)
class _UserMeans:
    """Means over each user's kept jobs: one value for each user, by user number.

    Attributes
    ----------
    wait
        s.
    bounded_slowdown
        As in the metric of that name.
    """

    wait: FloatArray
    bounded_slowdown: FloatArray


def _user_means(jobs: JobColumns) -> _UserMeans:
    """Return the users' means; empty columns where no job has a user number."""
    # Here, because importing metrics imports no compiler.
    from gridtune.batch.metrics.compiled import sums_by_user  # noqa: PLC0415

    user = jobs.user
    users = int(user.max(initial=-1)) + 1
    # Counting by user number is faster than sorting, unless the numbers are large.
    if users > 4 * len(user) + 1000:
        numbers, user = np.unique(user, return_inverse=True)
        user = user - np.count_nonzero(numbers < 0)
        users = int(user.max()) + 1
    columns = (np.ascontiguousarray(column) for column in (user, jobs.submit, jobs.start, jobs.end))
    count, *sums = sums_by_user(*columns, users, TAU)
    present = count > 0
    return _UserMeans(*(total[present] / count[present] for total in sums))


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
    # Here, because importing metrics imports no compiler.
    from gridtune.batch.metrics.compiled import overtaken  # noqa: PLC0415

    submit, start = (np.ascontiguousarray(column) for column in (jobs.all_submit, jobs.all_start))
    times: IntArray = overtaken(submit, start, jobs.first, max(jobs.first, jobs.last))
    return times


def _mean(values: FloatArray | IntArray) -> float:
    return float(values.mean()) if len(values) else math.nan


def _max(values: FloatArray | IntArray) -> float:
    return float(values.max()) if len(values) else math.nan


@_metric("users", unit="users", direction="none", formula="k", source=FEITELSON_1998)
def users(jobs: JobColumns) -> float:
    """How many users have a kept job; the metrics of users are about these."""
    return float(len(jobs.once(_user_means).wait))


@_metric(
    "user_wait_mean",
    unit="s",
    direction="min",
    formula="Σ W_u / k; W_u = mean of wᵢ over the jobs of user u",
    source=VASUPONGAYYA_2005,
)
def _user_wait_mean(jobs: JobColumns) -> float:
    """Mean over users of their mean wait."""
    return _mean(jobs.once(_user_means).wait)


@_metric("user_wait_max", unit="s", direction="min", formula="max W_u", source=VASUPONGAYYA_2005)
def _user_wait_max(jobs: JobColumns) -> float:
    """Mean wait of the user who waits longest. A user with a single job can set it."""
    return _max(jobs.once(_user_means).wait)


@_metric(
    "user_bounded_slowdown_mean",
    unit="1",
    direction="min",
    formula="Σ D_u / k; D_u = mean of the bounded slowdown over the jobs of user u",
    source=VASUPONGAYYA_2005,
)
def _user_bounded_slowdown_mean(jobs: JobColumns) -> float:
    """Mean over users of their mean bounded slowdown."""
    return _mean(jobs.once(_user_means).bounded_slowdown)


@_metric(
    "user_bounded_slowdown_max",
    unit="1",
    direction="min",
    formula="max D_u",
    source=VASUPONGAYYA_2005,
)
def _user_bounded_slowdown_max(jobs: JobColumns) -> float:
    """Mean bounded slowdown of the user with the largest one."""
    return _max(jobs.once(_user_means).bounded_slowdown)


@_metric(
    "user_bounded_slowdown_std",
    unit="1",
    direction="min",
    formula="√(Σ (D_u − mean D)² / k)",
    source=VASUPONGAYYA_2005,
)
def _user_bounded_slowdown_std(jobs: JobColumns) -> float:
    """Spread of the service over users: the standard deviation of their mean bounded slowdowns."""
    values = jobs.once(_user_means).bounded_slowdown
    return float(values.std()) if len(values) else math.nan


@_metric(
    "user_bounded_slowdown_jain",
    unit="1",
    direction="max",
    formula="(Σ D_u)² / (k Σ D_u²)",
    source=JAIN_1984,
)
def _user_bounded_slowdown_jain(jobs: JobColumns) -> float:
    """Jain's index of the users' mean bounded slowdowns.

    It is 1 if all users are served alike and near 1 / k if one alone suffers. It measures how even the
    service is, not how good; read it together with the mean.
    """
    values = jobs.once(_user_means).bounded_slowdown
    return float(values.sum() ** 2 / (len(values) * (values**2).sum())) if len(values) else math.nan


@_metric(
    "overtaken_fraction",
    unit="1",
    direction="min",
    formula="#{i : oᵢ > 0} / n; oᵢ = max(0, sᵢ − min{sⱼ : qⱼ > qᵢ})",
    source=LARSON_1987,
)
def _overtaken_fraction(jobs: JobColumns) -> float:
    """Share of the jobs that started after a job which was submitted later.

    It is 0 for strict first come, first served. A job that is overtaken need not be delayed, as backfilling
    fills holes; for delays see `start_time_unfairness`.
    """
    return _mean((jobs.once(_overtaken_time) > 0).astype(np.float64))


@_metric(
    "overtaken_time_mean",
    unit="s",
    direction="min",
    formula="Σ oᵢ / n; oᵢ = max(0, sᵢ − min{sⱼ : qⱼ > qᵢ})",
    source=f"{LARSON_1987}; {SABIN_2005}",
)
def _overtaken_time_mean(jobs: JobColumns) -> float:
    """Time that a job still waited after a later job had been started, mean over all jobs."""
    return _mean(jobs.once(_overtaken_time))


@_metric(
    "overtaken_time_max",
    unit="s",
    direction="min",
    formula="max oᵢ; oᵢ = max(0, sᵢ − min{sⱼ : qⱼ > qᵢ})",
    source=f"{LARSON_1987}; {SABIN_2005}",
)
def _overtaken_time_max(jobs: JobColumns) -> float:
    """Longest time that any job still waited after a later job had been started: starvation."""
    return _max(jobs.once(_overtaken_time))
