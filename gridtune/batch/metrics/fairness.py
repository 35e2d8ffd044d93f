"""Who pays: differences between users, and later jobs that were started first.

A job's user is known where the workload says so; jobs of unknown users are left out here. Means are
taken of each user's jobs first, so that here a user counts once, however many jobs they have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gridtune.batch.metrics.columns import JobColumns
from gridtune.batch.metrics.registry import metric
from gridtune.batch.metrics.sources import (
    FEITELSON_1998,
    JAIN_1984,
    LARSON_1987,
    SABIN_2005,
    VASUPONGAYYA_2005,
)

__all__ = ["UserMeans", "overtaken_time", "user_means"]

FAMILY = "Fairness"
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class UserMeans:
    """Means over each user's kept jobs, one value for each known user, by user number.

    Attributes
    ----------
    wait
        s.
    bounded_slowdown
        As in the metric of that name.
    """

    wait: FloatArray
    bounded_slowdown: FloatArray


def user_means(jobs: JobColumns) -> UserMeans:
    """Return the users' means, of none where no user is known."""
    known = jobs.user >= 0
    every = bool(known.all())
    user = jobs.user if every else jobs.user[known]
    wait = jobs.wait if every else jobs.wait[known]
    slowdown = jobs.bounded_slowdown if every else jobs.bounded_slowdown[known]
    # User numbers of most logs are small; only wild ones are worth the sorting.
    if len(user) and user.max() > 4 * len(user) + 1000:
        user = np.unique(user, return_inverse=True)[1]
    count = np.bincount(user)
    present = count > 0
    sums = (np.bincount(user, weights=column)[present] for column in (wait, slowdown))
    return UserMeans(*(total / count[present] for total in sums))


def overtaken_time(jobs: JobColumns) -> npt.NDArray[np.int64]:
    """Return for how many seconds each kept job still waited after a later one had been started.

    Parameters
    ----------
    jobs
        Overtakers are looked for among all jobs, also those that are left out.

    Returns
    -------
    numpy.ndarray
        Shape (len(jobs),), int64 s: start minus the earliest start of a job that was submitted later, 0
        where none of those started earlier.
    """
    everyone = len(jobs.all_start)
    # Position k: the earliest start among the jobs from k on; behind the last there is none.
    earliest = np.full(everyone + 1, np.iinfo(np.int64).max)
    earliest[:everyone] = np.minimum.accumulate(jobs.all_start[::-1])[::-1]
    later = np.searchsorted(jobs.all_submit, jobs.submit, side="right")
    return jobs.start - np.minimum(jobs.start, earliest[later])


def _mean(values: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> float:
    return float(values.mean()) if len(values) else math.nan


def _max(values: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> float:
    return float(values.max()) if len(values) else math.nan


@metric(
    "users",
    unit="users",
    direction="none",
    formula="k",
    source=FEITELSON_1998,
    family=FAMILY,
)
def users(jobs: JobColumns) -> float:
    """How many known users have a kept job; the metrics of users are about these."""
    return float(len(jobs.once(user_means).wait))


@metric(
    "user_wait_mean",
    unit="s",
    direction="min",
    formula="Σ W_u / k; W_u = mean of wᵢ over the jobs of user u",
    source=VASUPONGAYYA_2005,
    family=FAMILY,
)
def user_wait_mean(jobs: JobColumns) -> float:
    """Mean over users of their mean wait."""
    return _mean(jobs.once(user_means).wait)


@metric(
    "user_wait_max",
    unit="s",
    direction="min",
    formula="max W_u",
    source=VASUPONGAYYA_2005,
    family=FAMILY,
)
def user_wait_max(jobs: JobColumns) -> float:
    """Mean wait of the user who waits longest. A user with a single job can set it."""
    return _max(jobs.once(user_means).wait)


@metric(
    "user_bounded_slowdown_mean",
    unit="1",
    direction="min",
    formula="Σ D_u / k; D_u = mean of the bounded slowdown over the jobs of user u",
    source=VASUPONGAYYA_2005,
    family=FAMILY,
)
def user_bounded_slowdown_mean(jobs: JobColumns) -> float:
    """Mean over users of their mean bounded slowdown."""
    return _mean(jobs.once(user_means).bounded_slowdown)


@metric(
    "user_bounded_slowdown_max",
    unit="1",
    direction="min",
    formula="max D_u",
    source=VASUPONGAYYA_2005,
    family=FAMILY,
)
def user_bounded_slowdown_max(jobs: JobColumns) -> float:
    """Mean bounded slowdown of the user who is served worst."""
    return _max(jobs.once(user_means).bounded_slowdown)


@metric(
    "user_bounded_slowdown_std",
    unit="1",
    direction="min",
    formula="√(Σ (D_u − mean D)² / k)",
    source=VASUPONGAYYA_2005,
    family=FAMILY,
)
def user_bounded_slowdown_std(jobs: JobColumns) -> float:
    """Spread of the service over users: the standard deviation of their mean bounded slowdowns."""
    values = jobs.once(user_means).bounded_slowdown
    return float(values.std()) if len(values) else math.nan


@metric(
    "user_bounded_slowdown_jain",
    unit="1",
    direction="max",
    formula="(Σ D_u)² / (k Σ D_u²)",
    source=JAIN_1984,
    family=FAMILY,
)
def user_bounded_slowdown_jain(jobs: JobColumns) -> float:
    """Jain's index of the users' mean bounded slowdowns.

    It is 1 if all are served alike and near 1 / k if one alone suffers. It says how even the service
    is, not how good: look at the mean beside it.
    """
    values = jobs.once(user_means).bounded_slowdown
    return float(values.sum() ** 2 / (len(values) * (values**2).sum())) if len(values) else math.nan


@metric(
    "overtaken_fraction",
    unit="1",
    direction="min",
    formula="#{i : oᵢ > 0} / n; oᵢ = max(0, sᵢ − min{sⱼ : qⱼ > qᵢ})",
    source=LARSON_1987,
    family=FAMILY,
)
def overtaken_fraction(jobs: JobColumns) -> float:
    """Share of the jobs that saw a later-submitted job started before them.

    Strict first come first served has none. Being overtaken need not hurt (backfilling fills
    holes), so this is start-time unfairness as queues are watched, not as
    delay is caused; for that see `start_time_unfairness`.
    """
    return _mean((jobs.once(overtaken_time) > 0).astype(np.float64))


@metric(
    "overtaken_time_mean",
    unit="s",
    direction="min",
    formula="Σ oᵢ / n; oᵢ = max(0, sᵢ − min{sⱼ : qⱼ > qᵢ})",
    source=f"{LARSON_1987}; {SABIN_2005}",
    family=FAMILY,
)
def overtaken_time_mean(jobs: JobColumns) -> float:
    """Time that a job still waited after a later-submitted one had been started, mean over all jobs."""
    return _mean(jobs.once(overtaken_time))


@metric(
    "overtaken_time_max",
    unit="s",
    direction="min",
    formula="max oᵢ; oᵢ = max(0, sᵢ − min{sⱼ : qⱼ > qᵢ})",
    source=f"{LARSON_1987}; {SABIN_2005}",
    family=FAMILY,
)
def overtaken_time_max(jobs: JobColumns) -> float:
    """Longest time that any job still waited after a later-submitted one had been started: starvation."""
    return _max(jobs.once(overtaken_time))
