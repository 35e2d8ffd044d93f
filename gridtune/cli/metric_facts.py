"""What is listed of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridtune.core.system import System

__all__ = ["BETTER", "metric_facts"]

#: How a table says which direction of a metric is better.
BETTER = {"min": "less", "max": "more", "none": ""}


def metric_facts(system: System) -> dict[str, dict[str, str]]:
    """Return what a system says of each of its metrics, by name."""
    fields = ("unit", "direction", "formula", "source")
    return {
        name: {field: getattr(metric, field) for field in fields} for name, metric in system.metrics.items()
    }
