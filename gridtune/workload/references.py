"""References to workloads: one line of text that says which file to read, by which rules, and how.

    NAME[?clean=RULE,RULE][?days[=SECONDS,FLOPS]]

`NAME` is a path or a name of the catalogue. `?clean=` names the cleaning rules to apply while
reading: only then can a lenient rule fix a faulty line. `?days` reads a folder or archive of logs,
each a day, or one log to be cut into days; the numbers are the units of Batsim files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gridtune.errors import WorkloadError
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES
from gridtune.workload.files import read_workload
from gridtune.workload.joining import read_days
from gridtune.workload.workload import Workload

__all__ = ["USUAL_UNITS", "WorkloadReference"]

_CLEAN, _DAYS = "?clean=", "?days"
_NUMBER = r"(\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)"
_UNITS = re.compile(f"={_NUMBER},{_NUMBER}")
#: Of Batsim files: seconds in their unit of time, and flops that a processor does in one.
USUAL_UNITS = (60.0, 1e6)


@dataclass(frozen=True)
class WorkloadReference:
    """A workload to read.

    Attributes
    ----------
    name
        A path or a name of the catalogue.
    clean
        Cleaning rules by name, applied while reading; None for the reader's default: no rule for a log, the
        default rules for days.
    days
        Whether to read days (`read_days`) instead of one log.
    units
        With `days`, of Batsim files: seconds in their unit of time, and flops a processor does in one.
    """

    name: str
    clean: Sequence[str] | None = None
    days: bool = False
    units: tuple[float, float] = USUAL_UNITS

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the reference that `str` wrote.

        Raises
        ------
        WorkloadError
            If the units of its days are not two numbers.
        """
        name, days, units = text.partition(_DAYS)
        name, cleaned, rules = name.partition(_CLEAN)
        clean = tuple(rule for rule in rules.split(",") if rule) if cleaned else None
        if not units:
            return cls(name, clean, bool(days))
        match = _UNITS.fullmatch(units)
        if match is None:
            hint = "two numbers above 0: ?days=SECONDS,FLOPS"
            raise WorkloadError(f"{_DAYS}{units[:40]} names no units", field=text[:200], hint=hint)
        return cls(name, clean, True, (float(match[1]), float(match[2])))

    def __str__(self) -> str:
        """Return the text that results and journals hold."""
        clean = "" if self.clean is None else _CLEAN + ",".join(self.clean)
        if not self.days:
            return self.name + clean
        units = "" if self.units == USUAL_UNITS else f"={self.units[0]!r},{self.units[1]!r}"
        return self.name + clean + _DAYS + units

    def read(self, base: Path | None = None) -> Workload:
        """Read the workload; relative paths are relative to the current folder, or else to `base`."""
        path = resolve_trace(self.name, base=base)
        if not self.days:
            return read_workload(path, clean=self.clean or ())
        clean = DEFAULT_RULES if self.clean is None else self.clean
        time_unit, speed = self.units
        return read_days(path, clean=clean, time_unit=time_unit, speed=speed)
