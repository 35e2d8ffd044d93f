"""References to workloads: one line of text that says which file to read, by which rules, and how.

    NAME[?clean=RULE,RULE][?days[=SECONDS,FLOPS]]

`NAME` is a path or a name of the catalogue. `?clean=` names the cleaning rules to apply while
reading: only then can a lenient rule fix a faulty line. `?days` reads a folder or archive of logs,
each a day, or one log to be cut into days; the numbers are the units of Batsim files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES
from gridtune.workload.files import read_workload
from gridtune.workload.joining import read_days
from gridtune.workload.workload import Workload

__all__ = ["USUAL_UNITS", "WorkloadReference"]

_CLEAN, _DAYS = "?clean=", "?days"
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
        """Return the reference that `str` wrote."""
        name, days, units = text.partition(_DAYS)
        name, cleaned, rules = name.partition(_CLEAN)
        clean = tuple(rule for rule in rules.split(",") if rule) if cleaned else None
        if not units:
            return cls(name, clean, bool(days))
        time_unit, speed = map(float, units.removeprefix("=").split(","))
        return cls(name, clean, True, (time_unit, speed))

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
