"""The content of runs: names, tags, parameters and metrics, made from results."""

from __future__ import annotations

import math
import platform
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gridtune
from gridtune.core.cells import CellResult, replicate_streams, validated
from gridtune.core.system import WorkloadLoader, get_system
from gridtune.errors import GridtuneError
from gridtune.report.facts import SweepFacts
from gridtune.report.labels import configuration_label, value_text
from gridtune.report.rankings.ranking import verdict_text
from gridtune.report.summary import Summary
from gridtune.tracking.checkpoints import CHECKPOINTS
from gridtune.tracking.runs import Point, RunContent, clean_name, clean_text
from gridtune.training.system import Training, TrainingParameters, is_complete

#: What the name of a metric's history over the replicates ends in; the plain name is the mean's.
REPLICATES = ".replicates"
#: The difference of the first objective to the baseline; of others it is `OBJECTIVE.to_baseline_percent`.
DIFFERENCE = "to_baseline_percent"
#: The same for charts, in which one configuration far off would flatten all others.
DRAWN, _FAR_OFF = "to_baseline_percent_up_to_200", 200.0
_LONGEST_NAME = 240
#: The note of a cell that trains something: columns of equal length, and the one that counts the steps.
_CURVE_NOTE, _STEPS = "learning_curve", "iteration"


def configuration_content(
    results: Sequence[CellResult],
    facts: SweepFacts,
    *,
    workloads: int = 1,
    ranked: Mapping[str, Mapping[str, Any]] | None = None,
) -> RunContent:
    """Return the content of a configuration's run: the mean of every metric, the objectives first.

    Parameters
    ----------
    results
        Its replicates so far, at least one.
    facts
        The sweep's: its objectives, the number of replicates, and the parameters that name configurations.
    workloads
        Number of the sweep's workloads; where there are several, the run's name has its own.
    ranked
        Objective to the configuration's row in the ranking, where there is one.
    """
    ordered = sorted(results, key=lambda result: (result.seed, result.replicate))
    first = ordered[0]
    done = [result for result in ordered if result.state == "done"]
    label = configuration_label(first.configuration, facts.naming_parameters)
    tags = {"gridtune.kind": "configuration", "replicates": f"{len(done)}/{facts.replicates}"}
    if first.workload:
        tags["workload"] = first.workload
    failed = next((result for result in ordered if result.state != "done"), None)
    if failed is not None:
        tags["failed"] = str(len(ordered) - len(done))
        tags["error"] = f"{failed.replicate}: {failed.state}: {failed.error or ''}"
    for row in list((ranked or {}).values())[:1]:
        tags["verdict"] = verdict_text(row) or "no baseline"
        if bounds := row.get("subject_to"):
            tags["bounds"] = bounds
    objectives = [objective.metric for objective in facts.objectives]
    names = dict.fromkeys([*objectives, *(name for result in done for name in result.metrics)])
    columns = {
        name: [
            (float(result.metrics[name]), result.seed)
            for result in done
            if math.isfinite(result.metrics.get(name, math.nan))
        ]
        for name in names
    }
    means = {
        name: math.fsum(value for value, _ in column) / len(column)
        for name, column in columns.items()
        if column
    }
    # A ranking's values come first, and its mean goes before that of the replicates there are.
    shown = _ranked_values(ranked or {})
    shown = {**shown, **means, **shown}
    complete = len(ordered) >= facts.replicates
    return RunContent(
        key=first.configuration_id,
        # What tells it from the others comes first: the UI cuts long names.
        name=clean_text(f"{label} ({first.workload})" if workloads > 1 else label, _LONGEST_NAME),
        tags={name: clean_text(value) for name, value in tags.items()},
        parameters={
            clean_name(name): clean_text(value_text(value)) for name, value in first.configuration.items()
        },
        history=[
            Point(clean_name(name) + REPLICATES, value, seed)
            for name in objectives
            for value, seed in columns[name]
        ],
        values={clean_name(name): value for name, value in shown.items()},
        traces=dict(first.traces),
        status="FAILED" if failed is not None else "FINISHED" if complete else "KILLED",
    )


def _ranked_values(ranked: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    values: dict[str, float | None] = {objective: row["mean"] for objective, row in ranked.items()}
    for number, (objective, row) in enumerate(ranked.items()):
        # In per cent, because the UI rounds to a few digits.
        name = f"{objective}.{DIFFERENCE}" if number else DIFFERENCE
        values[name] = None if row["relative"] is None else 100 * row["relative"]
        if not number:
            values["rank"] = row["rank"]
            values[DRAWN] = None if row["relative"] is None else min(100 * row["relative"], _FAR_OFF)
        for statistic in ("ci_low", "ci_high", "iqm", "gap"):
            values[f"{objective}.{statistic}"] = row[statistic]
    # The UI writes every digit there is: statistics have the four that tables show, means stay exact.
    exact = {"rank", *ranked}
    return {
        name: float(value if name in exact else f"{value:.4g}")
        for name, value in values.items()
        if value is not None and math.isfinite(value)
    }


def curves_of(results: Sequence[CellResult], name: str) -> list[RunContent]:
    """Return the learning curves of a configuration's finished cells that train something.

    Such a cell has the note `learning_curve`: columns of equal length, of which `iteration` counts the steps.
    """
    return [
        RunContent(
            key=result.cell_id,
            name=f"{name}: {result.replicate}",
            tags={"gridtune.kind": "training"},
            # A curve read from the journal has null for NaN and words for infinities.
            history=[
                Point(clean_name(metric), float(value), int(step))
                for metric, values in result.notes[_CURVE_NOTE].items()
                if metric != _STEPS
                for step, value in zip(result.notes[_CURVE_NOTE][_STEPS], values, strict=True)
                if isinstance(value, int | float) and math.isfinite(value)
            ],
        )
        for result in results
        if result.state == "done" and _CURVE_NOTE in result.notes
    ]


def checkpoint_files(result: CellResult, system: str, load: WorkloadLoader) -> list[tuple[Path, str]]:
    """Return the best policy and the checkpoint that a cell left, each with its folder among artefacts.

    They are in `GRIDTUNE_TRAININGS`; where another machine has them, and this one does not see them: none.
    """
    try:
        training = get_system(system)
        parameters = validated(training, result.parameters)
        if not isinstance(training, Training) or not isinstance(parameters, TrainingParameters):
            return []
        seed = training.seed(replicate_streams(result.seed, result.traces))
        folder = training.checkpoint_of(parameters, seed, load)
    except GridtuneError:
        # A log may have been moved since.
        return []
    if not is_complete(folder):
        return []
    files = [(folder / training.policy_file, CHECKPOINTS), (folder, f"{CHECKPOINTS}/checkpoint")]
    return [(path, place) for path, place in files if path.exists()]


#: Configurations that have runs: the UI is slow with some thousands.
MOST_RUNS = 200
_LAST = 2**62


def runs_of_ranking(summary: Summary, limit: int) -> list[str]:
    """Return the ids of the configurations that have runs, the best first.

    They are the baselines, and of every ranking (by objective and workload) the best: the first places of
    all rankings, then the second places, and so on until the limit.
    """
    places: dict[str, int] = {}
    baselines: set[str] = set()
    for ranking in summary.rankings.values():
        for row in ranking.rows:
            key = row["configuration_id"]
            places[key] = min(places.get(key, _LAST), _LAST if row["rank"] is None else row["rank"])
            if row["is_baseline"]:
                baselines.add(key)
    # Sorting is stable: of equal places the first objective's come first.
    ordered = sorted(places, key=lambda key: places[key])
    chosen = set(sorted(ordered, key=lambda key: key not in baselines)[:limit])
    return [key for key in ordered if key in chosen]


def ranked_rows(summary: Summary, keys: list[str]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return configuration id to objective to its row in the ranking, for these configurations."""
    rows: dict[str, dict[str, Mapping[str, Any]]] = {key: {} for key in keys}
    for objective, ranking in summary.rankings.items():
        for row in ranking.rows:
            if row["configuration_id"] in rows:
                rows[row["configuration_id"]][objective] = row
    return rows


def code_tags(system: str, version: str) -> dict[str, str]:
    """Return the tags of the code that made a result.

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
