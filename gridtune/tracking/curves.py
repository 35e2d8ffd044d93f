"""Learning curves of cells that train something: one nested run for each, with the history of its metrics.

A cell that has one says so in its notes: `learning_curve` is a mapping of columns of equal length, of which
`update` counts the steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gridtune.core.cells import CellResult

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

__all__ = ["CURVE_NOTE", "LearningCurve", "curves_of", "log_curve"]

CURVE_NOTE = "learning_curve"
CELL_TAG = "gridtune.cell"
_STEPS = "update"
#: What one request may carry: a store takes 1,000.
_METRICS = 800


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
        LearningCurve(result.cell_id, f"{name}: {result.replicate}", _points(result.notes[CURVE_NOTE]))
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


def log_curve(
    client: MlflowClient, experiment_id: str, parent_id: str, curve: LearningCurve, at: int
) -> None:
    """Log a curve as a run below its configuration's; where it has ended, there is nothing to do.

    Parameters
    ----------
    client
        Of the store.
    experiment_id, parent_id
        The experiment, and the configuration's run.
    curve
        What to log.
    at
        Time of every point, in milliseconds: the same each time, so that a store keeps a point once.
    """
    from mlflow.entities import Metric  # noqa: PLC0415

    query = f"tags.`{CELL_TAG}` = '{curve.cell_id}' and tags.`mlflow.parentRunId` = '{parent_id}'"
    runs: list[Any] = client.search_runs([experiment_id], query, max_results=1)
    if runs and runs[0].info.status == "FINISHED":
        return
    tags = {"mlflow.parentRunId": parent_id, CELL_TAG: curve.cell_id, "gridtune.kind": "training"}
    run = runs[0] if runs else client.create_run(experiment_id, run_name=curve.name, tags=tags)
    points = [Metric(name, value, at, step) for name, value, step in curve.points]
    for first in range(0, len(points), _METRICS):
        client.log_batch(run.info.run_id, metrics=points[first : first + _METRICS])
    client.set_terminated(run.info.run_id, "FINISHED")
