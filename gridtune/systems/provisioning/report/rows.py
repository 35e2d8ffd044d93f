"""A sweep's cells as rows: one for each configuration, with its metrics over the submissions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridtune.report.labels import configuration_label
from gridtune.report.rows import ConfigurationRow, by_configuration
from gridtune.systems.provisioning.metrics import HOUR
from gridtune.systems.provisioning.parameters import ProvisioningParameters

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult

__all__ = ["COSTS", "FIELDS", "Row", "by_value", "dimensions", "label", "rows_of", "varying"]

#: Each cost of a plan: its metric, the unit of tables and figures, and the label of an axis.
COSTS = (("workflow_makespan", HOUR, "makespan, hours"), ("allocation_cost", 1, "allocation cost, SU"))
#: The system's parameters by name.
FIELDS = ProvisioningParameters.model_fields


class Row(ConfigurationRow):
    """One configuration on one workload; a cell is a submission."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parameter; if the configuration does not set it, `default` or the system's default."""
        return super().get(name, FIELDS[name].default if default is None else default)

    @property
    def best_effort(self) -> bool:
        """Whether it is best effort."""
        return bool(self.get("approach") == "best_effort")

    def quantiles(self, metric: str) -> tuple[float, float]:
        """Return the 10 % and the 90 % quantile over the submissions."""
        values = self.values(metric)
        values = values[~np.isnan(values)]
        low, high = np.quantile(values, (0.1, 0.9)) if len(values) else (np.nan, np.nan)
        return float(low), float(high)

    def percent(self, metric: str) -> float:
        """Return the mean of a cost in percent of that of best effort, over the submissions with a plan."""
        ours, theirs = self.values(metric), self.values(f"{metric}_best_effort")
        both = ~(np.isnan(ours) | np.isnan(theirs))
        return float(100 * ours[both].mean() / theirs[both].mean()) if both.any() else float("nan")


def rows_of(results: Iterable[CellResult]) -> list[Row]:
    """Return a row for each configuration with a finished cell, in the order of the sweep."""
    grouped = by_configuration(results)
    return [Row(cells[0].workload, cells[0].configuration, cells) for cells in grouped]


def varying(rows: Sequence[Row], name: str) -> bool:
    """Return whether a parameter has more than one value."""
    return len({row.get(name) for row in rows}) > 1


def by_value(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    """Return the rows by the value of a parameter, `workload` included, in the order of the sweep."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.workload if name == "workload" else row.get(name), []).append(row)
    return groups


def dimensions(rows: Sequence[Row]) -> list[str]:
    """Return the parameters that configurations set and differ in, in the order of the sweep."""
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    return [name for name in names if varying(rows, name)]


def label(row: Row, names: Sequence[str]) -> str:
    """Return the label of a configuration, without the parameters that it does not set."""
    return configuration_label({name: row.parameters.get(name) for name in names}, names)
