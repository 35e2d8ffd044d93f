"""What a run of the tracking store says: names, tags, parameters and metrics, made from results."""

from __future__ import annotations

import getpass
import hashlib
import json
import math
import os
import platform
import re
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import gridtune
from gridtune.core.cells import CellResult
from gridtune.errors import TrackingError
from gridtune.report.facts import SweepFacts
from gridtune.report.labels import configuration_label, value_text
from gridtune.report.summary import Summary
from gridtune.tracking.records import Dataset

__all__ = [
    "COMPANIONS",
    "CURVE_NOTE",
    "DIFFERENCE",
    "MOST_RUNS",
    "MOST_RUNS_VARIABLE",
    "REPLICATES",
    "ConfigurationContent",
    "LearningCurve",
    "code_tags",
    "configuration_content",
    "curves_of",
    "datasets_of",
    "git_state",
    "most_runs",
    "naming_parameters",
    "ranked_rows",
    "runs_of_ranking",
    "tracked_metrics",
    "user_tags",
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


CURVE_NOTE = "learning_curve"
_STEPS = "update"


@dataclass(frozen=True)
class LearningCurve:
    """The learning curve of a cell.

    Attributes
    ----------
    cell_id, name
        The cell's, and what its run is called.
    points
        (metric, value, step).
    """

    cell_id: str
    name: str
    points: Sequence[tuple[str, float, int]]


def curves_of(results: Sequence[CellResult], name: str) -> list[LearningCurve]:
    """Return the learning curves of a configuration's finished cells."""
    return [
        LearningCurve(
            result.cell_id,
            f"{name}: {result.replicate}",
            _points(result.notes[CURVE_NOTE]),
        )
        for result in results
        if result.state == "done" and CURVE_NOTE in result.notes
    ]


def _points(columns: Mapping[str, Sequence[Any]]) -> list[tuple[str, float, int]]:
    # A curve read from the journal has null for NaN and words for infinities.
    return [
        (name, float(value), int(step))
        for name, values in columns.items()
        if name != _STEPS
        for step, value in zip(columns[_STEPS], values, strict=True)
        if isinstance(value, int | float) and math.isfinite(value)
    ]


#: Configurations that have runs by default: the UI is slow with some thousands.
MOST_RUNS = 200
MOST_RUNS_VARIABLE = "GRIDTUNE_MOST_RUNS"
_LAST = 2**62


def most_runs() -> int:
    """Return how many configurations of a sweep have runs of their own at most.

    Raises
    ------
    TrackingError
        If the environment's value is no number.
    """
    text = os.environ.get(MOST_RUNS_VARIABLE, "")
    if not text.strip():
        return MOST_RUNS
    if not text.strip().isdigit():
        raise TrackingError(
            f"{MOST_RUNS_VARIABLE} is {text!r}, not a number of runs",
            hint=f"leave it out for {MOST_RUNS}, or give a whole number such as 1000",
        )
    return int(text)


def runs_of_ranking(summary: Summary, limit: int) -> list[str]:
    """Return the ids of the configurations that have runs, the best first.

    They are the baselines, and of every ranking (by objective and workload) the best: the first places of
    all rankings, then the second places, and so on until the limit.
    """
    places: dict[str, int] = {}
    baselines: set[str] = set()
    for ranking in summary.rankings.values():
        columns = (ranking[name].to_pylist() for name in ("configuration_id", "rank", "is_baseline"))
        for key, rank, is_baseline in zip(*columns, strict=True):
            places[key] = min(places.get(key, _LAST), _LAST if rank is None else rank)
            if is_baseline:
                baselines.add(key)
    # Sorting is stable: of equal places the first objective's come first.
    ordered = sorted(places, key=lambda key: places[key])
    chosen = set(sorted(ordered, key=lambda key: key not in baselines)[:limit])
    return [key for key in ordered if key in chosen]


def ranked_rows(summary: Summary, keys: list[str]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return configuration id to objective to its row in the ranking, for these configurations."""
    wanted = pa.array(keys, pa.string())
    rows: dict[str, dict[str, Mapping[str, Any]]] = {key: {} for key in keys}
    for objective, ranking in summary.rankings.items():
        for row in ranking.filter(pc.is_in(ranking["configuration_id"], wanted)).to_pylist():
            rows[row["configuration_id"]][objective] = row
    return rows


def code_tags(system: str, version: str) -> dict[str, str]:
    """Return tags that say which code made a result.

    Parameters
    ----------
    system, version
        The simulated system and the version of its results.
    """
    tags = {
        "gridtune.version": gridtune.__version__,
        "gridtune.system": system,
        "gridtune.system_version": version,
        "gridtune.host": socket.gethostname(),
        "gridtune.python": platform.python_version(),
    }
    commit, dirty = git_state(Path(gridtune.__file__).parent)
    if commit:
        tags |= {
            "gridtune.git_commit": commit,
            "gridtune.git_dirty": "yes" if dirty else "no",
            "mlflow.source.git.commit": commit,
        }
    return tags


def user_tags(name: str) -> dict[str, str]:
    """Return the tags of every run of a sweep, which the UI has columns for: who ran what."""
    return {
        "mlflow.user": _user(),
        "mlflow.source.name": f"gridtune {name}",
        "mlflow.source.type": "LOCAL",
    }


def git_state(package: Path) -> tuple[str | None, bool]:
    """Return the commit a package's source is at and whether it differs from it.

    Returns
    -------
    tuple
        (None, False) where the package is not under version control: a package installed into an
        environment inside somebody's repository does not have that repository's version.
    """
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None, False
    commit = _git(package, "rev-parse", "HEAD")
    changes = _git(package, "status", "--porcelain", "--", ".")
    return commit, bool(changes)


def _git(folder: Path, *arguments: Sequence[str] | str) -> str | None:
    command = ["git", "-C", str(folder), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return "unknown"
