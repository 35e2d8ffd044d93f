"""What a run of the tracking store says: names, tags, parameters and metrics, made from results."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridtune.core.cells import CellResult
from gridtune.report.labels import configuration_label, value_text

__all__ = ["COMPANIONS", "ConfigurationContent", "configuration_content", "tracked_metrics"]

#: Metrics that stand beside the objectives in every run, where a system has them. All other metrics are
#: in the table of results: a store with hundreds of metric names is slow and its UI unreadable.
COMPANIONS = ("wait_mean", "bounded_slowdown_mean", "utilisation", "makespan")
#: What MLflow takes at most, with room to spare.
_LONGEST_VALUE = 5000
_FORBIDDEN = re.compile(r"[^\w\-. :/]")


@dataclass(frozen=True)
class ConfigurationContent:
    """The run of one configuration on one workload.

    Attributes
    ----------
    key
        The configuration's id; one run per sweep bears it.
    name
        What the run is called.
    tags, parameters
        As text.
    history
        (metric, value, replicate's number) of every finished replicate.
    status
        FINISHED, FAILED (a replicate failed) or KILLED (one has no result).
    aggregates
        Metric to value over the replicates, with the place in the ranking.
    """

    key: str
    name: str
    tags: Mapping[str, str]
    parameters: Mapping[str, str]
    history: Sequence[tuple[str, float, int]]
    status: str
    aggregates: Mapping[str, float] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Hash of all that is logged, by which a run that has it already is known."""
        content = [
            self.name,
            sorted(self.tags.items()),
            self.history,
            self.status,
            sorted(self.aggregates.items()),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]


def tracked_metrics(objectives: Iterable[str]) -> tuple[str, ...]:
    """Return the metrics that runs have: the objectives and their companions, each once."""
    return tuple(dict.fromkeys([*objectives, *COMPANIONS]))


def clean_name(name: str) -> str:
    """Return a name that MLflow accepts for a metric, parameter or tag."""
    return _FORBIDDEN.sub("_", name)


def clean_text(text: str) -> str:
    """Return a text no longer than MLflow takes."""
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 2] + " …"


def configuration_content(
    results: Sequence[CellResult],
    *,
    planned: int,
    varying: Sequence[str],
    metrics: Sequence[str],
    ranked: Mapping[str, Mapping[str, Any]] | None = None,
) -> ConfigurationContent:
    """Return what the run of a configuration says.

    Parameters
    ----------
    results
        Its replicates so far, at least one.
    planned
        How many there are to be.
    varying
        The parameters that name it among the others.
    metrics
        Those to log per replicate.
    ranked
        Objective to the configuration's row in the ranking, where there is one.
    """
    ordered = sorted(results, key=lambda result: (result.seed, result.replicate))
    first = ordered[0]
    label = configuration_label(first.configuration, varying)
    failed = [result for result in ordered if result.state != "done"]
    tags = {
        "gridtune.kind": "configuration",
        "workload": first.workload,
        "label": label,
        "trace": first.trace,
        "trace_sha256": ", ".join(first.traces.values()),
        "gridtune.cells": json.dumps({result.replicate: result.cell_id for result in ordered}),
        "replicates": f"{len(ordered) - len(failed)}/{planned}",
    }
    if failed:
        tags["failed"] = str(len(failed))
        tags["error"] = f"{failed[0].replicate}: {failed[0].state}: {failed[0].error or ''}"
    rows = ranked or {}
    for row in list(rows.values())[:1]:
        tags["verdict"] = row["verdict"] or "no baseline"
    status = "FAILED" if failed else "FINISHED" if len(ordered) >= planned else "KILLED"
    return ConfigurationContent(
        key=first.configuration_id,
        name=f"{first.workload}: {label}" if first.workload else label,
        tags={name: clean_text(value) for name, value in tags.items()},
        parameters={
            clean_name(name): clean_text(value_text(value)) for name, value in first.configuration.items()
        },
        history=[
            (clean_name(name), result.metrics[name], result.seed)
            for result in ordered
            if result.state == "done"
            for name in metrics
            if math.isfinite(result.metrics.get(name, math.nan))
        ],
        status=status,
        aggregates=_aggregates(rows),
    )


def _aggregates(ranked: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    aggregates: dict[str, float | None] = {}
    for number, (objective, row) in enumerate(ranked.items()):
        for name in ("mean", "iqm", "ci_low", "ci_high"):
            aggregates[clean_name(f"{objective}.{name}")] = row[name]
        # In per cent, because the UI rounds to a few digits.
        aggregates[clean_name(f"{objective}.to_baseline_percent")] = (
            None if row["relative"] is None else 100 * row["relative"]
        )
        if number == 0:
            aggregates["rank"] = row["rank"]
    return {name: float(value) for name, value in aggregates.items() if value is not None}
