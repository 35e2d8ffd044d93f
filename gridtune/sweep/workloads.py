"""The traces of a sweep: found, read once in the driver, and known by their checksums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from gridtune.systems.system import CLEANED_MARK, DAYS_MARK
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES
from gridtune.workload.joining import read_days
from gridtune.workload.workload import Workload

__all__ = ["Workloads"]


class Workloads:
    """Workloads by reference, each read when first asked for and then kept.

    Parameters
    ----------
    base
        The folder that relative paths are relative to, beside the current one.
    """

    def __init__(self, base: Path | None = None) -> None:
        self._base = base
        self._held: dict[str, Workload] = {}

    def load(self, reference: str) -> Workload:
        """Return the workload a reference names: a file or catalogue name, and rules to read it with."""
        if reference not in self._held:
            name, days, units = reference.partition(DAYS_MARK)
            name, cleaned, named = name.partition(CLEANED_MARK)
            rules = [rule for rule in named.split(",") if rule]
            path = resolve_trace(name, base=self._base)
            if days:
                self._held[reference] = read_days(
                    path, clean=rules if cleaned else DEFAULT_RULES, **_units(units)
                )
            else:
                self._held[reference] = read_workload(path, clean=rules)
        return self._held[reference]

    def checksums(self, references: Iterable[str]) -> dict[str, str]:
        """Return the content's SHA-256 by reference."""
        return {reference: self.load(reference).checksum for reference in references}

    @property
    def held(self) -> Mapping[str, Workload]:
        """What has been read so far, by reference."""
        return self._held


def _units(told: str) -> dict[str, float]:
    """Return the units of Batsim files that a reference tells after its mark, if it does."""
    if not told:
        return {}
    time_unit, speed = told.removeprefix("=").split(",")
    return {"time_unit": float(time_unit), "speed": float(speed)}
