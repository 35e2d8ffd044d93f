"""The arithmetic of `Workload`'s selections and scalings: functions of arrays, which `Workload` wraps."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridtune.arguments import is_number
from gridtune.errors import WorkloadError
from gridtune.types import BoolArray, FloatArray, IntArray
from gridtune.workload.fields import LARGEST_TIME

__all__ = [
    "copied_jobs",
    "cut_points",
    "scaled_durations",
    "scaled_submits",
    "shaken_submits",
    "window_mask",
]


def window_mask(submit_time: IntArray, start: float, end: float) -> BoolArray:
    """Return which jobs are submitted in [start, end), seconds on the log's own clock."""
    if not start < end:
        raise WorkloadError(f"a window must end after it starts, but got start={start}, end={end}")
    return (submit_time >= start) & (submit_time < end)


def cut_points(jobs: int, windows: int) -> list[int]:
    """Return the `windows + 1` positions that cut `jobs` into runs of nearly equal length."""
    if not 1 <= windows <= jobs:
        raise WorkloadError(f"{jobs} jobs cannot be cut into {windows} windows", field="window")
    return [jobs * i // windows for i in range(windows + 1)]


def scaled_submits(submit_time: IntArray, factor: float) -> IntArray:
    """Return submit times whose distance from the first is divided by `factor`.

    The distance from the first submission is divided and rounded to whole seconds (half to even), not each
    gap by itself, so rounding never adds up: the log is `factor` times denser to within half a second.
    """
    _check_factor(factor)
    if len(submit_time) == 0:
        return submit_time
    first = submit_time.min()
    with np.errstate(over="ignore"):
        distance = np.rint((submit_time - first) / factor)
    return _whole_seconds(first + distance, f"dividing inter-arrival times by {factor}")


def scaled_durations(seconds: IntArray, factor: float) -> IntArray:
    """Return durations times `factor`, rounded half to even; what was positive stays at least 1.

    Zero and -1 (unknown) stay what they are.
    """
    _check_factor(factor)
    with np.errstate(over="ignore"):
        scaled = np.where(seconds > 0, np.maximum(np.rint(seconds * factor), 1.0), seconds)
    return _whole_seconds(scaled, f"multiplying run times by {factor}")


def copied_jobs(
    submit_time: IntArray, probability: float, shift: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return which jobs get a second, shifted copy, and when the copies are submitted.

    One number is drawn for each job, whatever the probability: with the same stream, the copies made at a
    low probability are among those made at a higher one.
    """
    _check_generator(rng)
    if not 0 <= probability <= 1:
        raise WorkloadError(f"a probability lies in [0, 1], but got {probability}")
    if int(shift) != shift:
        raise WorkloadError(f"a shift is a whole number of seconds, but got {shift}")
    copied = np.flatnonzero(rng.random(len(submit_time)) < probability)
    shifted = submit_time[copied] + int(shift)
    if len(shifted) and (shifted.min() < 0 or shifted.max() > LARGEST_TIME):
        raise WorkloadError(f"a shift of {shift} s moves submissions out of the log's clock")
    return copied, shifted


def shaken_submits(submit_time: IntArray, amount: int, rng: np.random.Generator) -> IntArray:
    """Return submit times each moved by a whole number of seconds, uniform on [-amount, amount].

    No job moves before the first submission of the log.

    References
    ----------
    Tsafrir, Ouaknine, Feitelson, "Reducing performance evaluation sensitivity and variability by input
    shaking", MASCOTS 2007.
    """
    _check_generator(rng)
    if not is_number(amount) or int(amount) != amount or amount < 0:
        raise WorkloadError(f"the amount to shake by is a whole number of seconds >= 0, but got {amount}")
    if len(submit_time) == 0:
        return submit_time
    moves = rng.integers(-int(amount), int(amount), size=len(submit_time), endpoint=True)
    return np.maximum(submit_time + moves, submit_time.min())


def _check_factor(factor: float) -> None:
    if not (is_number(factor) and factor > 0):
        raise WorkloadError(f"a scaling factor must be a finite number above 0, but got {factor}")


def _check_generator(rng: Any) -> None:
    if not isinstance(rng, np.random.Generator):
        raise WorkloadError(
            f"rng must be a numpy.random.Generator, but got {type(rng).__name__}",
            hint="numpy.random.default_rng(seed) makes one",
        )


def _whole_seconds(seconds: FloatArray, action: str) -> IntArray:
    if len(seconds) and not seconds.max() <= LARGEST_TIME:
        raise WorkloadError(f"{action} gives times beyond the largest, 2**53 seconds")
    return seconds.astype(np.int64)
