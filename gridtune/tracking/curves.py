"""Learning curves of cells that train something: one nested run for each, with the history of its metrics.

A cell that has one says so in its notes: `learning_curve` is a mapping of columns of equal length, of which
`update` counts the steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridtune.core.cells import CellResult

__all__ = ["CURVE_NOTE", "LearningCurve", "curves_of"]

CURVE_NOTE = "learning_curve"
_STEPS = "update"


@dataclass(frozen=True)
class LearningCurve:
    """The learning curve of a cell.

    Attributes
    ----------
    cell_id, name
        The cell's, and what its run is called.
    points
        (metric, value, step).
    """

    cell_id: str
    name: str
    points: Sequence[tuple[str, float, int]]


def curves_of(results: Sequence[CellResult], name: str) -> list[LearningCurve]:
    """Return the learning curves of a configuration's finished cells."""
    return [
        LearningCurve(
            result.cell_id,
            f"{name}: {result.replicate}",
            _points(result.notes[CURVE_NOTE]),
        )
        for result in results
        if result.state == "done" and CURVE_NOTE in result.notes
    ]


def _points(columns: Mapping[str, Sequence[Any]]) -> list[tuple[str, float, int]]:
    # A curve read from the journal has null for NaN and words for infinities.
    return [
        (name, float(value), int(step))
        for name, values in columns.items()
        if name != _STEPS
        for step, value in zip(columns[_STEPS], values, strict=True)
        if isinstance(value, int | float) and math.isfinite(value)
    ]
