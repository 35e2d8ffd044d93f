"""Metrics of schedules and their registry.

A metric is a function that computes one number from a schedule. It is registered with its unit, direction,
formula and source, and then appears in every table, in tracking and on the page of metrics. `evaluate`
computes them.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from gridtune.arguments import require
from gridtune.batch.metrics.classes import BY_CLASS, default_classes, split_name
from gridtune.batch.metrics.columns import JobColumns
from gridtune.core.measures import Direction, Measure
from gridtune.core.schedules.schedule import Schedule
from gridtune.core.user_code.plugins import declare_files
from gridtune.errors import GridtuneError, MetricError
from gridtune.registry import NamedValues, Registry, is_ours

#: Computes a metric from the kept jobs; NaN where it is not defined.
MetricFunction = Callable[[JobColumns], float]

_NAME = re.compile(r"[a-z][a-z0-9_]*(\[[a-z][a-z0-9_-]*\])?")
#: Families of metrics that are not about single jobs.
_OF_SYSTEM = frozenset({"System", "Energy", "Bounds"})


@dataclass(frozen=True, kw_only=True)
class Metric(Measure):
    """One registered metric.

    Attributes
    ----------
    name
        Its name in tables, tracking and search spaces.
    function
        Takes `JobColumns`, returns a float.
    unit, direction, formula, source
        As of `Measure`; the formula in the notation of the page of metrics.
    description
        What it tells, and what to beware of.
    family
        Its heading on the page of metrics.
    needs_nodes
        Whether it is defined only where nodes have power states; elsewhere it is left out of tables.
    """

    name: str
    function: MetricFunction
    description: str
    family: str
    needs_nodes: bool = False

    @property
    def of_jobs(self) -> bool:
        """True if it is about the kept jobs alone, and so may be given for a class of them."""
        return self.family not in _OF_SYSTEM

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

    def value(self, jobs: JobColumns) -> float:
        """Return a metric's value.

        Raises
        ------
        MetricError
            If a metric raises an error, or one of the user's is infinite.
        """
        try:
            given: Any = self.function(jobs)
            if isinstance(given, str | bytes):
                raise MetricError(f"metric {self.name!r} gives the text {given!r} and no number")
            value = float(given)
        except GridtuneError:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno})"
            raise MetricError(f"metric {self.name!r} fails: {text}") from error
        function = METRICS[split_name(self.name)[0]].function
        if math.isinf(value) and not is_ours(getattr(function, "__module__", "")):
            hint = "NaN says that there is nothing to measure"
            raise MetricError(f"metric {self.name!r} gives {value} and no finite number", hint=hint)
        return value


class _Metrics(Registry[Metric]):
    """The registry of metrics, which has every metric of jobs also for a class: `wait_mean[wide]`."""

    def __getitem__(self, name: str) -> Metric:
        base, class_name = split_name(name)
        entry = super().__getitem__(base)
        if class_name is None:
            return entry
        if not entry.of_jobs:
            raise KeyError(name)
        return replace(
            entry,
            name=name,
            formula=f"{entry.formula}; i in the class {class_name}",
            description=f"{entry.description} Of the class {class_name}.",
            function=lambda jobs: entry.function(jobs.of_class(class_name)),
        )

    def __contains__(self, name: object) -> bool:
        base, class_name = split_name(name) if isinstance(name, str) else (name, None)
        return super().__contains__(base) and (class_name is None or METRICS[str(base)].of_jobs)


#: All metrics by name, in the order of registration, followed by those of installed packages.
METRICS: Registry[Metric] = _Metrics(
    "metric", "gridtune.metrics", MetricError, code=lambda entry: entry.function
)


def metric(
    name: str,
    *,
    unit: str,
    direction: Direction,
    formula: str,
    source: str,
    family: str = "own",
    needs_nodes: bool = False,
    files: Iterable[str | Path] = (),
) -> Callable[[MetricFunction], MetricFunction]:
    """Register the decorated function as a metric; its docstring is the description.

    Parameters
    ----------
    name, unit, direction, formula, source, family, needs_nodes
        As in `Metric`.
    files
        Other files that it reads, relative to its own: their content is part of the ids of its cells.

    Raises
    ------
    MetricError
        If the name is taken or not a name, if something is left empty, or a file is missing.

    Examples
    --------
    ::

        @metric("long_waits", unit="jobs", direction="min", formula="#{i : wᵢ > 1 day}", source="ours")
        def long_waits(jobs):
            "How many jobs waited for more than a day."
            return float((jobs.wait > 86_400).sum())
    """

    def decorate(function: MetricFunction) -> MetricFunction:
        description = " ".join((function.__doc__ or "").split())
        entry = Metric(
            unit,
            direction,
            formula,
            source=source,
            name=name,
            function=function,
            description=description,
            family=family,
            needs_nodes=needs_nodes,
        )
        declare_files(function, files, f"@metric({name!r})", MetricError)
        register(entry)
        return function

    return decorate


def register(entry: Metric) -> None:
    """Add a metric to the registry, and its documentation to its function."""
    METRICS.register(entry.name, entry)
    entry.function.__doc__ = entry.documentation


def evaluate(
    schedule: Schedule,
    *,
    warmup: float = 0.0,
    cooldown: float = 0.0,
    only: Iterable[str] | None = None,
    classes: Mapping[str, str] | None = None,
    by_class: Iterable[str] = BY_CLASS,
) -> dict[str, float]:
    """Return the metrics of a schedule, by name.

    Parameters
    ----------
    schedule
        The result of a simulation.
    warmup, cooldown
        How many jobs to leave out at the beginning and at the end, in order of submission: a `float` in
        [0, 1) is a fraction of all jobs, rounded down; an `int` is a number of jobs. Metrics of jobs are
        about the other jobs, metrics of the system about the time window they span (see `JobColumns`).
    only
        Names of the metrics to compute; by default all there are, those of installed packages included, but
        those of energy only if the schedule's nodes have power states.
    classes
        Classes of jobs, name to condition, such as `{"wide": "processors >= 32"}`. By default those of
        `default_classes`, which `only` may name.
    by_class
        With `classes`: the metrics of jobs that each class gets beside, as `wait_mean[wide]`.

    Returns
    -------
    dict
        Metric name to value, in the order of `only` or of registration. Not rounded. NaN where a metric
        is not defined: for no jobs, an empty window, no user number. The metrics "jobs",
        "jobs_without_run_time", "jobs_without_walltime" and "users" are the counts behind the others.

    Raises
    ------
    MetricError
        For an unknown metric, one that raises an error, one of the user's that is infinite, a warm-up or
        cool-down that is neither a fraction nor a number of jobs, or two fractions that leave out every job.

    Examples
    --------
    ``evaluate(schedule, warmup=0.1, cooldown=0.1, only=["wait_mean", "bounded_slowdown_p95"])``
    """
    require(schedule, Schedule, "schedule", error=MetricError, hint="simulate(workload) makes one")
    jobs = JobColumns.trimmed(schedule, warmup, cooldown)
    stated = default_classes(schedule.workload) if classes is None and only is not None else classes or {}
    jobs = replace(jobs, classes=stated)
    selected = [entry for entry in METRICS.values() if schedule.nodes is not None or not entry.needs_nodes]
    if only is not None:
        selected = [METRICS.find(name) for name in only]
    selected += [METRICS.find(f"{metric}[{name}]") for name in classes or () for metric in by_class]
    return NamedValues({metric.name: metric.value(jobs) for metric in selected})
