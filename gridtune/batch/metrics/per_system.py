"""Metrics of the system: makespan, utilisation, throughput, queue and backlog over time.

All but the makespan are about the window (see `gridtune.batch.metrics.columns`) and count every job in it,
kept or not.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gridtune.batch.metrics.columns import JobColumns, share
from gridtune.batch.metrics.registry import FEITELSON_1997, FEITELSON_1998, LITTLE_1961, metric
from gridtune.types import IntArray

__all__ = ["busy"]

_metric = partial(metric, family="System")


def _within(window: tuple[int, int], begin: IntArray, end: IntArray) -> IntArray:
    """Return the seconds that each interval [begin, end) spends in the window."""
    opens, closes = window
    if begin.min(initial=opens) == opens and end.max(initial=closes) == closes:
        return end - begin
    return np.clip(end, *window) - np.clip(begin, *window)


def busy(jobs: JobColumns, window: tuple[int, int]) -> int:
    """Return the processor-seconds that are used in a window."""
    used = (jobs.all_processors * _within(window, jobs.all_start, jobs.all_end)).sum()
    if (pauses := jobs.schedule.pauses) is not None:
        used -= (jobs.schedule.workload.processors[pauses[:, 0]] * _within(window, *pauses[:, 1:].T)).sum()
    return int(used)


def _busy_share(jobs: JobColumns, window: tuple[int, int]) -> float:
    """Return the share of the machine's processor-seconds in a window that is used."""
    return share(busy(jobs, window), jobs.schedule.processors * (window[1] - window[0]))


@_metric("makespan", unit="s", direction="min", formula="max eᵢ − min qᵢ", source=FEITELSON_1997)
def _makespan(jobs: JobColumns) -> float:
    """Time from the first kept submission to the last kept job's end.

    On a log it depends on the times of submission, and hardly on the policy.
    """
    return float(jobs.end.max() - jobs.submit[0]) if len(jobs) else math.nan


@_metric(
    "utilisation",
    unit="1",
    direction="max",
    formula="∫ used(t) dt / (m (t₁ − t₀)), over [t₀, t₁)",
    source=FEITELSON_1998,
)
def _utilisation(jobs: JobColumns) -> float:
    """Share of the machine in use over the window.

    Without trimming: the work over the machine's size times the makespan.
    """
    return _busy_share(jobs, jobs.window)


@_metric(
    "utilisation_while_arriving",
    unit="1",
    direction="max",
    formula="∫ used(t) dt / (m (q₂ − q₁)), over [q₁, q₂), the first and last kept submission",
    source=FEITELSON_1998,
)
def _utilisation_while_arriving(jobs: JobColumns) -> float:
    """Share of the machine in use between the first and the last kept submission.

    It leaves out the time in which the machine drains, so one long last job does not matter.
    """
    return _busy_share(jobs, (int(jobs.submit[0]), int(jobs.submit[-1]))) if len(jobs) else math.nan


@_metric(
    "throughput",
    unit="jobs/h",
    direction="max",
    formula="3600 #{i : t₀ ≤ eᵢ ≤ t₁} / (t₁ − t₀)",
    source=FEITELSON_1998,
)
def _throughput(jobs: JobColumns) -> float:
    """Jobs that end in the window, per hour; below saturation it is the arrival rate, whatever the policy."""
    opens, closes = jobs.window
    ended = np.count_nonzero((jobs.all_end >= opens) & (jobs.all_end <= closes))
    return share(ended * 3600.0, closes - opens)


@_metric(
    "queue_length_mean",
    unit="jobs",
    direction="min",
    formula="∫ L(t) dt / (t₁ − t₀), over [t₀, t₁); L(t) = #{i : qᵢ ≤ t < sᵢ}",
    source=LITTLE_1961,
)
def _queue_length_mean(jobs: JobColumns) -> float:
    """Length of the queue, averaged over the window's time."""
    opens, closes = jobs.window
    return share(int(_within(jobs.window, jobs.all_submit, jobs.all_start).sum()), closes - opens)


def _most_waiting(jobs: JobColumns) -> tuple[int, int]:
    """Return the most jobs and processor-seconds that wait at the instant of a submission in the window.

    A queue grows at no other instant, and a job that starts in the second of its submission never waits.
    """
    # Here, because importing metrics imports no compiler.
    from gridtune.batch.metrics.compiled import most_waiting  # noqa: PLC0415

    first, last = np.searchsorted(jobs.all_submit, jobs.window)
    columns = (np.ascontiguousarray(column) for column in (jobs.all_submit, jobs.all_start, jobs.all_area))
    length, work = most_waiting(*columns, first, last)
    return int(length), int(work)


@_metric(
    "queue_length_max",
    unit="jobs",
    direction="min",
    formula="max L(t), over [t₀, t₁)",
    source=LITTLE_1961,
)
def _queue_length_max(jobs: JobColumns) -> float:
    """Most jobs waiting at any time of the window."""
    opens, closes = jobs.window
    return float(jobs.once(_most_waiting)[0]) if closes > opens else math.nan


@_metric(
    "backlog_mean",
    unit="s",
    direction="min",
    formula="∫ B(t) dt / (t₁ − t₀), over [t₀, t₁); B(t) = Σ{aᵢ : qᵢ ≤ t < sᵢ} / m",
    source=FEITELSON_1998,
)
def _backlog_mean(jobs: JobColumns) -> float:
    """Work that waits, as the time the whole machine needs for it, averaged over the window's time."""
    opens, closes = jobs.window
    waited = _within(jobs.window, jobs.all_submit, jobs.all_start)
    # In floating point, as processor-seconds times seconds may overflow int64.
    work = float(np.multiply(jobs.all_area, waited, dtype=np.float64).sum())
    return share(work, jobs.schedule.processors * (closes - opens))


@_metric(
    "backlog_max",
    unit="s",
    direction="min",
    formula="max B(t), over [t₀, t₁)",
    source=FEITELSON_1998,
)
def _backlog_max(jobs: JobColumns) -> float:
    """Most work that waits at any time of the window, as the time the whole machine needs for it."""
    opens, closes = jobs.window
    return float(jobs.once(_most_waiting)[1]) / jobs.schedule.processors if closes > opens else math.nan


@_metric(
    "backlog_end",
    unit="s",
    direction="min",
    formula="B(q₂), q₂ the last kept submission",
    source=FEITELSON_1998,
)
def _backlog_end(jobs: JobColumns) -> float:
    """Work that waits at the last kept submission.

    Where it is a good part of the makespan, the machine is saturated: means then grow with the length of the
    log and say little.
    """
    if not len(jobs):
        return math.nan
    last = jobs.submit[-1]
    waits = (jobs.all_submit <= last) & (jobs.all_start > last)
    return float(jobs.all_area[waits].sum()) / jobs.schedule.processors
