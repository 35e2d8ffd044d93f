"""A sweep's cells as rows: one for each configuration, its metrics over the submissions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gridtune.report.labels import configuration_label
from gridtune.report.rows import ConfigurationRow, by_configuration
from gridtune.systems.provisioning.parameters import ProvisioningParameters

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult

__all__ = ["FIELDS", "Row", "by_value", "dimensions", "label", "rows_of", "varying"]

#: The system's parameters by name.
FIELDS = ProvisioningParameters.model_fields


class Row(ConfigurationRow):
    """One configuration on one workload; a cell is a submission."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parameter; where the configuration does not say, the given or the system's default."""
        usual = FIELDS[name].default if default is None else default
        return super().get(name, usual)

    @property
    def queued(self) -> bool:
        """Whether it is best effort."""
        return bool(self.get("approach") == "best_effort")

    def most(self, metric: str) -> tuple[float, float]:
        """Return between which values eight of ten submissions lie: the 10 % and the 90 % quantile."""
        found = self._known(metric)
        low, high = np.quantile(found, (0.1, 0.9)) if len(found) else (np.nan, np.nan)
        return float(low), float(high)

    def percent(self, metric: str) -> float:
        """Return the mean of a cost over that of best effort, in percent: a ratio of means.

        Both are of the submissions for which a plan was found.
        """
        ours, theirs = self.values(metric), self.values(f"{metric}_best_effort")
        known = ~(np.isnan(ours) | np.isnan(theirs))
        return float(100 * ours[known].mean() / theirs[known].mean()) if known.any() else float("nan")


def rows_of(results: Iterable[CellResult]) -> list[Row]:
    """Return a row for each configuration with a finished cell, in the order of the sweep."""
    grouped = by_configuration(results)
    return [Row(cells[0].workload, cells[0].configuration, cells) for cells in grouped]


def varying(rows: Sequence[Row], name: str) -> bool:
    """Return whether a parameter has more than one value."""
    return len({row.get(name) for row in rows}) > 1


def by_value(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    """Return the rows by the value of a parameter, `workload` included, in the order of the sweep."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row.workload if name == "workload" else row.get(name), []).append(row)
    return found


def dimensions(rows: Sequence[Row]) -> list[str]:
    """Return the parameters that configurations state and differ in, in the order of the sweep."""
    stated = dict.fromkeys(name for row in rows for name in row.parameters)
    return [name for name in stated if varying(rows, name)]


def label(row: Row, names: Sequence[str]) -> str:
    """Return a configuration in words; what it leaves open does not apply to it."""
    return configuration_label({name: row.parameters.get(name) for name in names}, names)
