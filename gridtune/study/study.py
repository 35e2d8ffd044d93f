"""`Study`: a sweep with all that was made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gridtune.report.facts import SweepFacts
from gridtune.report.front import Front
from gridtune.report.summary import Best, Summary
from gridtune.sweep.observing import SweepResult
from gridtune.sweep.run import RESULTS_NAME

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult
    from gridtune.tracking.tracker import TrackingOutcome

__all__ = ["Study"]


@dataclass(frozen=True)
class Study:
    """A sweep with all that was made of it.

    Attributes
    ----------
    directory
        Its folder.
    facts
        What it is about.
    results
        Every cell's result.
    table
        The same as a table.
    summary
        The rankings.
    files
        Tables and figures that were written.
    tracking
        How tracking ended; None if it was off.
    sweep
        The result of the sweep; None if it was only reported.
    report
        Where tables and figures are; None for the sweep's folder.
    earlier
        Cells in the journal that the space no longer has.
    renaming
        Which names in the journal are no longer used; None if there are none.
    report_error
        What went wrong with the system's own tables and figures; None if nothing did.
    """

    directory: Path
    facts: SweepFacts
    results: Sequence[CellResult]
    table: pa.Table
    summary: Summary
    files: Sequence[Path]
    tracking: TrackingOutcome | None = None
    sweep: SweepResult | None = None
    report: Path | None = None
    earlier: int = 0
    renaming: str | None = None
    report_error: str | None = None

    @property
    def report_folder(self) -> Path:
        """Where tables and figures are."""
        return self.report or self.directory

    @property
    def counts(self) -> dict[str, int]:
        """Cells by state."""
        return dict(Counter(result.state for result in self.results))

    @property
    def complete(self) -> bool:
        """Whether every cell is done and the report was written."""
        done = all(result.state == "done" for result in self.results)
        return done and self.report_error is None

    @property
    def errors(self) -> list[str]:
        """What went wrong, a text each: cells without a result, and the system's own report."""
        errors = []
        failed = [result for result in self.results if result.state != "done"]
        if failed:
            count = "1 cell has" if len(failed) == 1 else f"{len(failed)} cells have"
            first = _error_lines(failed[0].error or failed[0].state)
            errors.append(f"{count} no result; the first: {first}")
        return errors if self.report_error is None else [*errors, self.report_error]

    def as_dict(self) -> dict[str, Any]:
        """Return what `--json` prints: counts, the best of each workload, and where everything is."""
        content: dict[str, Any] = {
            "name": self.facts.name,
            "cells": len(self.results),
            "earlier": self.earlier,
            **{state: self.counts.get(state, 0) for state in ("done", "failed", "timed_out", "lost")},
            "best": {best.stratum: _best_dict(best) for best in self.summary.best},
            "fronts": {front.stratum: _front_dict(front) for front in self.summary.fronts},
            "directory": str(self.directory),
            "report": str(self.report_folder),
            "results": str(self.directory / RESULTS_NAME),
            "files": [str(path) for path in self.files],
            "renaming": self.renaming,
            "report_error": self.report_error,
        }
        if self.sweep is not None:
            content |= {"ran": self.sweep.ran, "seconds": self.sweep.seconds}
        if self.tracking is not None:
            content["tracking"] = {
                "uri": self.tracking.uri,
                "experiment_id": self.tracking.experiment_id,
                "run_id": self.tracking.run_id,
                "unsent": len(self.tracking.unsent),
            }
        return content


def _best_dict(best: Best) -> dict[str, Any]:
    names = ("configuration_id", "mean", "ci_low", "ci_high", "relative", "verdict")
    return {"configuration": best.label, **{name: best.row[name] for name in names}}


def _front_dict(front: Front) -> dict[str, Any]:
    objectives = [head.objective for head in front.heads]
    return {
        "size": front.size,
        "configurations": len(front.rows),
        "hypervolume": front.hypervolume,
        "reference_point": dict(zip(objectives, front.reference, strict=True)),
    }


def _error_lines(error: str) -> str:
    """Return the line that says what went wrong, with its hint: the last ones of a traceback."""
    lines = error.strip().splitlines()
    hint = lines.pop().strip() if len(lines) > 1 and lines[-1].lstrip().startswith("hint:") else None
    return lines[-1] if hint is None else f"{lines[-1]}\n  {hint}"
