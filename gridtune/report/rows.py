"""A sweep's finished cells as rows, one for each configuration: what reports of single systems build on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gridtune.types import FloatArray

if TYPE_CHECKING:
    from gridtune.core.cells import CellResult

__all__ = ["ConfigurationRow", "by_configuration"]


@dataclass(frozen=True)
class ConfigurationRow:
    """One configuration on one workload.

    Attributes
    ----------
    workload
        What the sweep calls it.
    parameters
        The configuration.
    results
        Its finished cells, a replicate each.
    """

    workload: str
    parameters: Mapping[str, Any]
    results: Sequence[CellResult]

    def __len__(self) -> int:
        return len(self.results)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parameter, of the configuration, its workload or the whole sweep."""
        return self.results[0].parameters.get(name, default)

    def values(self, metric: str) -> FloatArray:
        """Return a metric of each replicate, NaN where it is not defined."""
        return np.array([result.metrics.get(metric, np.nan) for result in self.results])

    def mean(self, metric: str) -> float:
        """Return a metric's mean over the replicates that have it; NaN of none."""
        values = self._finite(metric)
        return float(values.mean()) if len(values) else float("nan")

    def spread(self, metric: str) -> float:
        """Return a metric's standard deviation over the replicates that have it; NaN of fewer than two."""
        values = self._finite(metric)
        return float(values.std(ddof=1)) if len(values) > 1 else float("nan")

    def _finite(self, metric: str) -> FloatArray:
        values = self.values(metric)
        return values[~np.isnan(values)]


def by_configuration(results: Iterable[CellResult]) -> list[list[CellResult]]:
    """Return the finished cells of each workload and configuration, in the order of the sweep."""
    rows: dict[tuple[str, str], list[CellResult]] = {}
    for result in results:
        if result.state == "done":
            rows.setdefault((result.workload, result.configuration_id), []).append(result)
    return list(rows.values())
