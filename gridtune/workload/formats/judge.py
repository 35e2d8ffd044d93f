"""The judgement of recorded times: instants and durations that disagree, and the units they are in.

What is certain is converted, and a note says so. What is doubtful is refused, with the option that settles
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import BoolArray, FloatArray, IntArray
from gridtune.workload.fields import UNKNOWN
from gridtune.workload.formats.records import UNITS
from gridtune.workload.formats.values import repeated_hours

_DAY = 86_400
#: Instants up to here stand for "none" beside those of a clock: 0, in any time zone.
_EPOCH = 2 * _DAY
#: The first second of 2000: no log whose jobs are submitted later has earlier instants.
YEAR_2000 = 946_684_800
#: Durations that are believed without an end to compare them with: half of the jobs run shorter than this,
_LONGEST_MEDIAN = 90 * _DAY
#: and half of at least this many run shorter than so many times the span of all submissions.
_JUDGED, _SPANS = 10, 3
#: Names of units in messages.
_WORDS = {
    "ns": "nanoseconds",
    "us": "microseconds",
    "ms": "milliseconds",
    "min": "minutes",
    "h": "hours",
    "d": "days",
}

Fault = Callable[[int, str, str, str], WorkloadError]


@dataclass
class Instants:
    """The instants of records, seconds; `UNKNOWN` where there is none. Shape (n,) each."""

    submit: IntArray
    eligible: IntArray
    start: IntArray
    end: IntArray
    notes: Counter[str] = field(default_factory=Counter)

    def later(self) -> dict[str, IntArray]:
        """Return the instants after submission, by their names."""
        return {"eligible": self.eligible, "start": self.start, "end": self.end}

    @property
    def waits(self) -> IntArray:
        """The seconds from submission to start; `UNKNOWN` where there is no start."""
        return np.where(self.start != UNKNOWN, self.start - self.submit, UNKNOWN)

    @property
    def both(self) -> BoolArray:
        """The records that have a start and an end."""
        return np.asarray((self.start != UNKNOWN) & (self.end != UNKNOWN))

    @property
    def between(self) -> IntArray:
        """The seconds from start to end; `UNKNOWN` where one of the two is not known."""
        return np.where(self.both, self.end - self.start, UNKNOWN)

    def drop_epochs(self, fault: Fault) -> None:
        """Take away instants that stand for none: 1970, beside jobs that are submitted after 2000.

        Parameters
        ----------
        fault
            Returns the error of a row, quantity, message and hint.

        Raises
        ------
        WorkloadError
            For another instant before 2000.
        """
        if len(self.submit) == 0 or float(np.median(self.submit)) < YEAR_2000:
            return
        for name, moments in {"submit": self.submit, **self.later()}.items():
            none = (moments != UNKNOWN) & (moments < _EPOCH)
            moments[none] = UNKNOWN
            if name != "submit":
                self.notes[f"times of {name} in 1970, which stand for none"] += int(none.sum())
            old = (moments != UNKNOWN) & (moments < YEAR_2000) & (self.submit >= YEAR_2000)
            if old.any():
                message = f"{int(old.sum())} jobs {name} before 2000, but are submitted later"
                hint = f"take another column (LOG?columns={name}=NAME), or take these rows out"
                raise fault(int(np.argmax(old)), name, message, hint)

    def settle_clocks(self, elapsed: IntArray, zone: tzinfo) -> None:
        """Settle times of an hour that comes twice, and note jobs that start before they are submitted.

        Parameters
        ----------
        elapsed : shape (n,)
            Seconds that jobs ran, as recorded; `UNKNOWN` where that is not known.
        zone
            That of the times.
        """
        if zone is not UTC:
            self._settle_repeated_hours(elapsed, zone)
        early = (self.start != UNKNOWN) & (self.start < self.submit)
        if early.any():
            most = int((self.submit - self.start)[early].max())
            note = f"jobs started before they were submitted, by up to {most:,} s: their wait is not known"
            self.notes[note] += int(early.sum())

    def _settle_repeated_hours(self, elapsed: IntArray, zone: tzinfo) -> None:
        """Settle times of an hour that comes twice by submit ≤ start ≤ end and by the recorded run time."""
        settled = np.zeros(len(self.submit), np.bool_)
        doubtful = np.zeros(len(self.submit), np.bool_)
        before = self.submit
        self._settle_starts(elapsed, zone, settled)
        for name, moments in self.later().items():
            known = moments != UNKNOWN
            later = np.where(known, repeated_hours(np.where(known, moments, 0), zone), 0)
            asked = (moments < before) & (moments + later >= before)
            if name == "end":
                length = moments - self.start
                asked |= (elapsed != UNKNOWN) & (np.abs(length + later - elapsed) <= 1)
            moved = (later > 0) & asked
            moments[moved] += later[moved]
            settled |= moved
            doubtful |= (later > 0) & ~moved
            before = moments if name == "start" else before
        if settled.any():
            self.notes["jobs have times in the second of two equal hours"] += int(settled.sum())
        if (doubtful & ~settled).any():
            note = "jobs have times in an hour that comes twice, taken the first time"
            self.notes[note] += int((doubtful & ~settled).sum())

    def _settle_starts(self, elapsed: IntArray, zone: tzinfo, settled: BoolArray) -> None:
        """Take starts the second time where only then end - start is the recorded run time."""
        known = self.both & (elapsed != UNKNOWN)
        later = np.where(known, repeated_hours(np.where(known, self.start, 0), zone), 0)
        length = self.end - self.start
        moved = (later > 0) & (np.abs(length - elapsed) > 1) & (np.abs(length - later - elapsed) <= 1)
        self.start[moved] += later[moved]
        settled |= moved

    def judge_elapsed(self, numbers: FloatArray, fault: Fault) -> str:
        """Return the unit of recorded run times, by the starts and ends beside them.

        Parameters
        ----------
        numbers : shape (n,)
            Plain numbers; NaN where there is none.
        fault
            Returns the error of a row, quantity, message and hint.

        Raises
        ------
        WorkloadError
            Where no unit is certain and seconds are not likely.
        """
        between = self.between
        unit, compared = _unit_of(numbers, between)
        if unit not in ("s", None):
            self.notes[
                f"run times are in {_WORDS[unit or '']}: end - start says so; they were converted"
            ] += compared
            return unit or "s"
        known = numbers[np.isfinite(numbers) & (numbers > 0)]
        if compared == 0 and len(known):
            doubt = _doubt_of_durations(known, self.submit)
        elif unit is None:
            doubt = _doubt_of_ratio(numbers, between)
        else:
            return "s"
        if doubt:
            hint = "say which: --unit elapsed=s, or ms, min, h (unit=, or a key of the log's reference)"
            raise fault(int(np.argmax(numbers > 0)), "elapsed", doubt, hint)
        return "s"

    def are_turnarounds(self, numbers: FloatArray) -> bool:
        """Return whether all durations are end - submission, and not all end - start."""
        known = np.isfinite(numbers) & self.both
        given, end = numbers[known], self.end[known]
        since, ran = end - self.submit[known], end - self.start[known]
        if len(given) < 2 or (np.abs(given - since) > 1).any():
            return False
        # An hour alone may be that of a zone.
        longer = np.abs(given - ran)
        return bool(((longer > 1) & (np.abs(longer - 3600) > 1)).any())


def _unit_of(numbers: FloatArray, seconds: IntArray) -> tuple[str | None, int]:
    """Return the unit in which numbers are the seconds beside them, and how many rows say so.

    Parameters
    ----------
    numbers : shape (n,)
        Plain numbers; NaN where there is none.
    seconds : shape (n,)
        The same durations in seconds; `UNKNOWN` where they are not known.

    Returns
    -------
    tuple
        "s" where half of the rows or more agree as seconds; another unit where every row does; else None.
    """
    compared = np.isfinite(numbers) & (numbers > 0) & (seconds > 0)
    many = int(compared.sum())
    if many == 0:
        return "s", 0
    given, true = numbers[compared], seconds[compared]
    if np.mean(np.abs(given - true) <= 1) >= 0.5:
        return "s", many
    for unit, factor in UNITS.items():
        # A number may have been rounded to whole units, and instants to seconds.
        if unit != "s" and (np.abs(given * factor - true) <= max(factor, 1.0)).all() and many > 1:
            return unit, many
    return None, many


def _doubt_of_ratio(numbers: FloatArray, between: IntArray) -> str:
    """Return why durations are doubtful by end - start; "" if they are only shorter or longer."""
    compared = np.isfinite(numbers) & (numbers > 0) & (between > 0)
    ratio = float(np.median(numbers[compared] / between[compared]))
    if 0.2 < ratio < 5:
        return ""
    return f"run times are {ratio:.4g} times end - start, and no unit explains all of them"


def _doubt_of_durations(known: FloatArray, submit: IntArray) -> str:
    """Return why durations without an end beside them are doubtful as seconds; "" if they are not."""
    median = float(np.median(known))
    if median > _LONGEST_MEDIAN:
        return (
            f"half of the jobs would run longer than {median / _DAY:,.0f} days: run times may be no seconds"
        )
    if len(known) < _JUDGED:
        return ""
    span = float(np.ptp(submit))
    if span > 0 and median > _SPANS * span:
        return (
            f"half of the jobs would run longer than {median / _DAY:,.1f} days, but all are submitted within "
            f"{span / _DAY:,.1f}: run times may be no seconds"
        )
    if len(np.unique(known)) >= _JUDGED and (known % 1000 == 0).all():
        return "every run time is a multiple of 1,000: they may be milliseconds"
    return ""
