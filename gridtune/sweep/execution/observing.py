"""What observers of a sweep get: progress on a screen, MLflow, a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gridtune.core.cells import CellResult
from gridtune.sweep.journal.earlier import OtherCode
from gridtune.sweep.space.schema import SearchSpace

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "SweepObserver",
    "SweepPlan",
    "SweepResult",
    "WorkloadFacts",
]


@dataclass(frozen=True)
class WorkloadFacts:
    """One trace of a sweep.

    Attributes
    ----------
    reference
        As cells name it.
    name
        As the workload calls itself.
    checksum
        SHA-256 of its content.
    jobs
        Their number.
    processors
        The machine's size, or None.
    source
        The file, or None.
    """

    reference: str
    name: str
    checksum: str
    jobs: int
    processors: int | None
    source: Path | None


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep is about to do.

    Attributes
    ----------
    space
        The search space.
    directory
        Where the journal and the results are.
    directions
        "min" or "max" for each of the space's objectives.
    total
        Cells of the sweep, those finished before included; the most there can be if `at_most`.
    finished
        Results there are already.
    workloads
        The traces.
    other_code
        What the journal has of the same cells by other code; None if it has nothing.
    at_most
        Whether the strategy may stop configurations, so that fewer cells than `total` are run.
    """

    space: SearchSpace
    directory: Path
    directions: Sequence[str]
    total: int
    finished: Sequence[CellResult]
    workloads: Sequence[WorkloadFacts]
    other_code: OtherCode | None = None
    at_most: bool = False


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep.

    Attributes
    ----------
    plan
        The plan it followed.
    results
        Every cell's result, in the table's order.
    table
        The same as a table: what `results.parquet` holds.
    path
        `results.parquet`.
    ran
        How many cells were run this time.
    seconds
        Wall-clock seconds this time took.
    earlier
        Cells in the journal that the space does not have: those of an earlier one of the same name. Those of
        `other_code` are not among them.
    renaming
        Which names in the journal are no longer used; None if there are none.
    other_code
        What the journal has of the same cells by other code; None if it has nothing.
    """

    plan: SweepPlan
    results: Sequence[CellResult]
    table: pa.Table
    path: Path
    ran: int
    seconds: float
    earlier: int = 0
    renaming: str | None = None
    other_code: OtherCode | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """Cells by state."""
        counts: dict[str, int] = {"done": 0, "failed": 0, "timed_out": 0, "lost": 0}
        for result in self.results:
            counts[result.state] += 1
        return counts

    @property
    def complete(self) -> bool:
        """Whether every cell is done."""
        return self.counts["done"] == len(self.results)


class SweepObserver(Protocol):
    """Watches a sweep, in the driver's own thread; what it raises ends the sweep (the journal is safe)."""

    def started(self, plan: SweepPlan) -> None:
        """Take the plan, before the first cell runs."""
        ...

    def finished(self, results: Sequence[CellResult]) -> None:
        """Take new results, after they are in the journal; each comes once."""
        ...

    def ended(self, result: SweepResult) -> None:
        """Take the result, when `results.parquet` is written."""
        ...
