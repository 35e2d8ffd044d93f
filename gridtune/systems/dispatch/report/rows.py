"""The results of one configuration's cells, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gridtune.core.cells import CellResult
from gridtune.report.cells import by_configuration
from gridtune.types import FloatArray

__all__ = ["Method", "gather", "medians"]


_NAMES = {
    "none": "alone",
    "j48": "J48",
    "naive_bayes": "naive Bayes",
    "lwl": "LWL",
    "boosting": "boosting",
    "boosted_time": "boosted time",
    "drain": "drain",
    "random": "random",
    "round_robin": "round robin",
    "first_available": "first available",
    "edd": "EDD",
    "erd": "ERD",
    "spt": "SPT",
    "atc": "ATC",
    "shared_queue": "shared queue",
}
_ORDERS = {
    "fifo": "by arrival",
    "due_date": "by due date",
    "shortest": "shortest first",
    "atc": "by apparent cost",
}
_SPEEDS = {"known": "speeds known", "nominal": "speeds 1", "learned": "speeds learned"}


@dataclass(frozen=True)
class Method:
    """A configuration and its replicates.

    Attributes
    ----------
    workload
        The workload; each has its own tables.
    parameters
        The configuration's.
    replicates
        Labels, in the order of the results.
    in_time, reference_in_time, tardiness, reference_tardiness
        Shape (replicates, batches): jobs in time and mean tardiness (s) by batch, and the reference's.
    jobs
        Shape (replicates, batches): jobs of each batch.
    bound
        Shape (replicates,): lower bound of the mean tardiness, s; NaN where a cell has none.
    assignments
        Shape (replicates, machines): share of the jobs.
    reliability
        Pooled over replicates: mean chance, share in time and jobs of each tenth of the chance.
    """

    workload: str
    parameters: Mapping[str, Any]
    replicates: tuple[str, ...]
    in_time: FloatArray
    reference_in_time: FloatArray
    tardiness: FloatArray
    reference_tardiness: FloatArray
    jobs: FloatArray
    bound: FloatArray
    assignments: FloatArray
    reliability: FloatArray

    def of(self, name: str, default: Any = None) -> Any:
        """Return a parameter; `default` where the sweep does not set it."""
        return self.parameters.get(name, default)

    @property
    def learner(self) -> str:
        """The learner's name; `none` without."""
        return str(self.of("learner") or "none")

    @property
    def relative(self) -> FloatArray:
        """Jobs in time over those of the reference, by replicate and batch; NaN where that has none."""
        there = np.where(self.reference_in_time == 0, np.nan, self.reference_in_time)
        relative: FloatArray = self.in_time / there
        return relative

    @property
    def late(self) -> FloatArray:
        """Mean tardiness of a replicate's jobs, s: shape (replicates,)."""
        late: FloatArray = (self.tardiness * self.jobs).sum(axis=1) / self.jobs.sum(axis=1)
        return late

    @property
    def label(self) -> str:
        """The method in words, without its base rule where a learner assists."""
        if self.of("policy", "rules") == "ppo":
            return "agent trained by PPO"
        name = _NAMES.get(self.learner, self.learner)
        if self.learner == "none":
            return self._rule
        if self.of("mode") == "direct":
            return f"{name}, {_ORDERS[str(self.of('order', 'fifo'))]}"
        return name + (", sets aside" if self.of("set_aside") else "")

    @property
    def _rule(self) -> str:
        """A rule that decides alone in words, with its options where they are set."""
        order, speeds = self.of("order"), self.of("speeds")
        if self.of("rule") == "shared_queue" and order == "shortest":
            order = None
        if self.of("rule") == "shared_queue" and speeds == "nominal":
            speeds = None
        options = [_ORDERS.get(str(order)), _SPEEDS.get(str(speeds))]
        if self.of("by_user"):
            options.append("run times learned")
        name = self.base + (" + tabu" if self.of("repair_every") else "")
        return ", ".join([name, *(option for option in options if option)])

    @property
    def base(self) -> str:
        """The base rule in words."""
        rule = str(self.of("rule", "random"))
        return _NAMES.get(rule, rule)

    def over(self, selector: Method) -> Method:
        """Return this rule's jobs in time over those of another method's reference, on the shared replicates.

        The result reads like a learner that assists that method's selector.
        """
        shared = [label for label in self.replicates if label in selector.replicates]
        own = [self.replicates.index(label) for label in shared]
        theirs = [selector.replicates.index(label) for label in shared]
        parameters = {**self.parameters, "rule": selector.of("rule"), "mode": "assist", "learner": self.label}
        return replace(
            self,
            parameters=parameters,
            in_time=self.in_time[own],
            reference_in_time=selector.reference_in_time[theirs],
        )


def gather(results: Iterable[CellResult]) -> list[Method]:
    """Return the methods of a sweep in the order of its results; cells that are not done are left out."""
    complete = (result for result in results if "in_time_by_batch" in result.notes)
    return [_method(cells) for cells in by_configuration(complete)]


def medians(values: FloatArray, axis: int) -> FloatArray:
    """Return a matrix's medians along an axis of what is not NaN; NaN, without a warning, where all is."""
    rows = (row[~np.isnan(row)] for row in (values if axis == 1 else values.T))
    return np.array([np.median(row) if row.size else np.nan for row in rows])


def _method(cells: Sequence[CellResult]) -> Method:
    def stacked(rows: Sequence[Sequence[float]]) -> FloatArray:
        # Windows of a log may differ by a batch; batches that not all have are left out.
        shortest = min(map(len, rows))
        return np.array([row[:shortest] for row in rows], np.float64)

    def noted(name: str) -> FloatArray:
        return stacked([cell.notes[name] for cell in cells])

    bins = [cell.notes["reliability"] for cell in cells]
    return Method(
        cells[0].workload,
        dict(cells[0].configuration),
        tuple(cell.replicate for cell in cells),
        noted("in_time_by_batch"),
        noted("reference_in_time_by_batch"),
        noted("tardiness_by_batch"),
        noted("reference_tardiness_by_batch"),
        stacked([_batch_sizes(cell) for cell in cells]),
        np.array([cell.metrics.get("tardiness_mean_bound", np.nan) for cell in cells], np.float64),
        noted("assignments"),
        _pooled(bins),
    )


def _batch_sizes(cell: CellResult) -> Sequence[float]:
    """Return the jobs of each batch; the system's version 1 noted only the jobs of all."""
    batches = len(cell.notes["in_time_by_batch"])
    sizes: Sequence[float] = cell.notes.get("jobs_by_batch") or [cell.metrics["jobs"] / batches] * batches
    return sizes


def _pooled(bins: Sequence[Mapping[str, Sequence[float]]]) -> FloatArray:
    """Pool the tenths of all cells: shape (3, tenths with jobs)."""
    columns = [np.concatenate([tenths[name] for tenths in bins]) for name in ("chance", "in_time", "jobs")]
    chance, good, jobs = (np.asarray(column, np.float64) for column in columns)
    place = np.minimum((chance * 10).astype(np.int64), 9)
    total = np.bincount(place, jobs, 10)
    some = total > 0
    means = [np.bincount(place, values * jobs, 10)[some] / total[some] for values in (chance, good)]
    return np.array([*means, total[some]])
