"""A sweep's cells as rows: one for each configuration, its metrics over the submissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridtune.systems.provisioning_parameters import ProvisioningParameters

if TYPE_CHECKING:
    from gridtune.sweep.cells import CellResult

__all__ = ["Row", "by_value", "rows_of", "varying"]

Floats = npt.NDArray[np.float64]

_FIELDS = ProvisioningParameters.model_fields


@dataclass(frozen=True)
class Row:
    """One configuration on one workload.

    Attributes
    ----------
    workload
        What the sweep calls it.
    parameters
        The configuration.
    results
        Its finished cells, a submission each.
    """

    workload: str
    parameters: Mapping[str, Any]
    results: Sequence[CellResult]

    def __len__(self) -> int:
        return len(self.results)

    def get(self, name: str) -> Any:
        """Return a parameter, its default where the configuration does not say."""
        return self.results[0].parameters.get(name, _FIELDS[name].default)

    @property
    def queued(self) -> bool:
        """Whether it is best effort."""
        return bool(self.get("approach") == "best_effort")

    def values(self, metric: str) -> Floats:
        """Return a metric of each submission, NaN where it is not defined."""
        return np.array([result.metrics.get(metric, np.nan) for result in self.results])

    def mean(self, metric: str) -> float:
        """Return a metric's mean over the submissions that have it; NaN of none."""
        found = self.values(metric)
        found = found[~np.isnan(found)]
        return float(found.mean()) if len(found) else float("nan")

    def spread(self, metric: str) -> float:
        """Return a metric's standard deviation over the submissions; NaN of fewer than two."""
        found = self.values(metric)
        found = found[~np.isnan(found)]
        return float(found.std(ddof=1)) if len(found) > 1 else float("nan")

    def percent(self, metric: str) -> float:
        """Return the mean of a cost over that of best effort, in percent: a ratio of means.

        Both are of the submissions for which a plan was found.
        """
        ours, theirs = self.values(metric), self.values(f"{metric}_best_effort")
        known = ~(np.isnan(ours) | np.isnan(theirs))
        return float(100 * ours[known].mean() / theirs[known].mean()) if known.any() else float("nan")


def rows_of(results: Iterable[CellResult]) -> list[Row]:
    """Return a row for each configuration with a finished cell, in the order of the sweep."""
    held: dict[tuple[str, str], list[CellResult]] = {}
    for result in results:
        if result.state == "done":
            held.setdefault((result.workload, result.configuration_id), []).append(result)
    return [Row(cells[0].workload, cells[0].configuration, cells) for cells in held.values()]


def varying(rows: Sequence[Row], name: str) -> bool:
    """Return whether a parameter has more than one value."""
    return len({row.get(name) for row in rows}) > 1


def by_value(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    """Return the rows by the value of a parameter, `workload` included, in the order of the sweep."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row.workload if name == "workload" else row.get(name), []).append(row)
    return found
