"""What a run of the tracking store says: names, tags, parameters and metrics, made from results."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gridtune.core.cells import CellResult
from gridtune.report.facts import SweepFacts
from gridtune.report.labels import configuration_label, value_text
from gridtune.tracking.records import Dataset

__all__ = [
    "COMPANIONS",
    "DIFFERENCE",
    "REPLICATES",
    "ConfigurationContent",
    "configuration_content",
    "datasets_of",
    "naming_parameters",
    "tracked_metrics",
]

#: Metrics that stand beside the objectives in every run, where a system has them. All other metrics are
#: in the table of results: a store with hundreds of metric names is slow and its UI unreadable.
COMPANIONS = ("wait_mean", "bounded_slowdown_mean", "utilisation", "makespan")
#: What the name of a metric's history over the replicates ends in; the plain name is the mean's.
REPLICATES = ".replicates"
#: The difference of the first objective to the baseline; of others it is `OBJECTIVE.to_baseline_percent`.
DIFFERENCE = "to_baseline_percent"
#: What MLflow takes at most, with room to spare.
_LONGEST_VALUE, _LONGEST_NAME, _LONGEST_DIGEST = 5000, 240, 16
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
    values
        Metric to its value over the replicates: the mean under the metric's plain name, and where there is
        a ranking its other statistics and the place.
    datasets
        The traces that were simulated.
    status
        FINISHED, FAILED (a replicate failed) or KILLED (one has no result).
    """

    key: str
    name: str
    tags: Mapping[str, str]
    parameters: Mapping[str, str]
    history: Sequence[tuple[str, float, int]]
    values: Mapping[str, float]
    datasets: Sequence[Dataset] = ()
    status: str = "FINISHED"
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        content = [
            self.name,
            sorted(self.tags.items()),
            self.history,
            sorted(self.values.items()),
            self.datasets,
            self.status,
        ]
        # By it, a run is recognised that says all this.
        object.__setattr__(self, "digest", hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20])


def tracked_metrics(objectives: Iterable[str]) -> tuple[str, ...]:
    """Return the metrics that runs have: the objectives and their companions, each once."""
    return tuple(dict.fromkeys([*objectives, *COMPANIONS]))


def naming_parameters(facts: SweepFacts) -> list[str]:
    """Return the parameters that name a configuration, in the order of its name.

    Those that the baseline leaves open are conditions, such as the trace: they come last.
    """
    return sorted(facts.dimensions, key=lambda name: bool(facts.baseline) and name not in facts.baseline)


def clean_name(name: str) -> str:
    """Return a name that MLflow accepts for a metric, parameter or tag."""
    return _FORBIDDEN.sub("_", name)


def clean_text(text: str, longest: int = _LONGEST_VALUE) -> str:
    """Return a text no longer than MLflow takes."""
    return text if len(text) <= longest else text[: longest - 2] + " …"


def datasets_of(traces: Mapping[str, str]) -> tuple[Dataset, ...]:
    """Return traces, reference to SHA-256, as inputs of a run."""
    return tuple(
        Dataset(
            name=clean_text(Path(reference).name or reference, _LONGEST_NAME),
            digest=checksum[:_LONGEST_DIGEST],
            source=json.dumps({"uri": reference}),
            profile=json.dumps({"sha256": checksum}),
        )
        for reference, checksum in traces.items()
    )


def configuration_content(
    results: Sequence[CellResult],
    *,
    planned: int,
    varying: Sequence[str],
    metrics: Sequence[str],
    workloads: int = 1,
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
        Those to log.
    workloads
        How many the sweep has; of several, the run's name says which.
    ranked
        Objective to the configuration's row in the ranking, where there is one.
    """
    ordered = sorted(results, key=lambda result: (result.seed, result.replicate))
    first = ordered[0]
    done = [result for result in ordered if result.state == "done"]
    label = configuration_label(first.configuration, varying)
    tags = {"gridtune.kind": "configuration", "replicates": f"{len(done)}/{planned}"}
    if first.workload:
        tags["workload"] = first.workload
    failed = next((result for result in ordered if result.state != "done"), None)
    if failed is not None:
        tags["failed"] = str(len(ordered) - len(done))
        tags["error"] = f"{failed.replicate}: {failed.state}: {failed.error or ''}"
    for row in list((ranked or {}).values())[:1]:
        tags["verdict"] = row["verdict"] or "no baseline"
    columns = {
        name: [(value, result.seed) for result in done if math.isfinite(value := _metric(result, name))]
        for name in metrics
    }
    means = {
        name: math.fsum(value for value, _ in column) / len(column)
        for name, column in columns.items()
        if column
    }
    # A ranking's values come first, and its mean goes before that of the replicates there are.
    shown = _ranked_values(ranked or {})
    shown = {**shown, **means, **shown}
    return ConfigurationContent(
        key=first.configuration_id,
        # What tells it from the others comes first: the UI cuts long names.
        name=clean_text(f"{label} ({first.workload})" if workloads > 1 else label, _LONGEST_NAME),
        tags={name: clean_text(value) for name, value in tags.items()},
        parameters={
            clean_name(name): clean_text(value_text(value)) for name, value in first.configuration.items()
        },
        history=[
            (clean_name(name) + REPLICATES, value, seed)
            for name, column in columns.items()
            for value, seed in column
        ],
        values={clean_name(name): value for name, value in shown.items()},
        datasets=datasets_of(first.traces),
        status="FAILED" if failed is not None else "FINISHED" if len(ordered) >= planned else "KILLED",
    )


def _metric(result: CellResult, name: str) -> float:
    return float(result.metrics.get(name, math.nan))


def _ranked_values(ranked: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    values: dict[str, float | None] = {objective: row["mean"] for objective, row in ranked.items()}
    for number, (objective, row) in enumerate(ranked.items()):
        # In per cent, because the UI rounds to a few digits.
        name = f"{objective}.{DIFFERENCE}" if number else DIFFERENCE
        values[name] = None if row["relative"] is None else 100 * row["relative"]
        if not number:
            values["rank"] = row["rank"]
        for statistic in ("ci_low", "ci_high", "iqm", "gap"):
            values[f"{objective}.{statistic}"] = row[statistic]
    return {
        name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)
    }
