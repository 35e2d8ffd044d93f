"""Metrics of schedules and their registry.

A metric is a function that computes one number from a schedule. It is registered with its unit, direction,
formula and source, and then appears in every table, in tracking and on the page of metrics.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from gridtune.batch.metrics.columns import JobColumns
from gridtune.core.measure import Direction
from gridtune.errors import MetricError
from gridtune.registry import Registry

__all__ = ["METRICS", "Direction", "Metric", "MetricFunction", "get_metric", "metric", "register_metric"]

#: Computes a metric from the kept jobs; NaN where it is not defined.
MetricFunction = Callable[[JobColumns], float]

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Metric:
    """One registered metric.

    Attributes
    ----------
    name
        Its name in tables, tracking and search spaces.
    function
        Takes `JobColumns`, returns a float.
    unit
        "s", "1" (a ratio), "jobs", "jobs/h", "users", "kWh".
    direction
        The better direction.
    formula
        In plain text, in the notation of the page of metrics.
    source
        The publication that defines it; several are separated by a semicolon and a space.
    description
        What it tells, and what to beware of.
    family
        Its heading on the page of metrics.
    needs_nodes
        Whether it is defined only where nodes have power states; elsewhere it is left out of tables.
    """

    name: str
    function: MetricFunction
    unit: str
    direction: Direction
    formula: str
    source: str
    description: str
    family: str
    needs_nodes: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise MetricError(
                f"a metric cannot be named {self.name!r}", hint="use small letters, digits and underscores"
            )
        if self.direction not in get_args(Direction):
            raise MetricError(
                f"metric {self.name!r} has the direction {self.direction!r}",
                hint=f"one of {', '.join(get_args(Direction))}",
            )
        for field in ("unit", "formula", "source", "description", "family"):
            if not getattr(self, field).strip():
                raise MetricError(f"metric {self.name!r} has no {field}")

    @property
    def documentation(self) -> str:
        """The docstring: description, formula, unit, direction and source."""
        return (
            f"{self.description}\n\nFormula: {self.formula}\nUnit: {self.unit}\n"
            f"Direction: {self.direction}\nSource: {self.source}"
        )


#: All metrics by name, in the order of registration, followed by those of installed packages.
METRICS: Registry[Metric] = Registry(
    "metric", "gridtune.metrics", MetricError, code=lambda entry: entry.function
)


def register_metric(entry: Metric) -> Metric:
    """Register a metric. A name is never overwritten."""
    METRICS.register(entry.name, entry)
    return entry


def metric(
    name: str,
    *,
    unit: str,
    direction: Direction,
    formula: str,
    source: str,
    family: str = "own",
    needs_nodes: bool = False,
) -> Callable[[MetricFunction], MetricFunction]:
    """Register the decorated function as a metric; its docstring is the description.

    Parameters
    ----------
    name, unit, direction, formula, source, family, needs_nodes
        As in `Metric`.

    Raises
    ------
    MetricError
        If the name is taken or not a name, or if something is left empty.

    Examples
    --------
    ::

        @metric("long_waits", unit="jobs", direction="min", formula="#{i : wᵢ > 1 day}", source="ours")
        def long_waits(jobs):
            "How many jobs waited for more than a day."
            return float((jobs.wait > 86_400).sum())
    """

    def register(function: MetricFunction) -> MetricFunction:
        description = " ".join((function.__doc__ or "").split())
        entry = Metric(name, function, unit, direction, formula, source, description, family, needs_nodes)
        function.__doc__ = register_metric(entry).documentation
        return function

    return register


def get_metric(name: str) -> Metric:
    """Return the metric of that name.

    Raises
    ------
    MetricError
        If there is none; the hint guesses the name that was meant.
    """
    return METRICS.find(name)
