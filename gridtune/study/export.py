"""Exports of a sweep: its best configuration as a file, and the whole of it as an Optuna study."""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gridtune
from gridtune.core.cells import CellResult, canonical_json, finite_json
from gridtune.errors import SweepError
from gridtune.registry import name_hint
from gridtune.report.answers import answer_of
from gridtune.report.card import Card
from gridtune.report.facts import ObjectiveFacts
from gridtune.report.labels import PARAMETER_PREFIX
from gridtune.report.rankings.ranking import LEVEL, strata
from gridtune.report.summary import Summary, summarise
from gridtune.study.stored import StoredSweep
from gridtune.sweep.journal.journal import JOURNAL_NAME, read_proposals
from gridtune.sweep.space.schema import Dimension, SearchSpace
from gridtune.tracking.content import git_state
from gridtune.training.system import HISTORY

__all__ = ["exported_configuration", "write_optuna_study"]

#: Packages whose versions decide numbers.
_PACKAGES = ("numpy", "numba", "scipy")
_INTERVALS = {
    "difference": ("diff", "diff_low", "diff_high"),
    "relative": ("relative", "relative_low", "relative_high"),
}


def exported_configuration(
    sweep: StoredSweep, *, workload: str | None = None, rank: int = 1, objective: str | None = None
) -> dict[str, Any]:
    """Return a ranked configuration of a sweep: parameters, objective, verdict and provenance.

    Parameters
    ----------
    sweep
        The sweep.
    workload
        A stratum of the ranking. By default the only one; of several, the ranking over all of them, whose
        configurations have no parameter that depends on the workload (the log, the machine's size).
    rank
        Its place.
    objective
        The metric to rank by; by default the sweep's own.

    Returns
    -------
    dict
        In JSON's types. `parameters` is what `gridtune run SYSTEM --parameters FILE` takes.

    Raises
    ------
    GridtuneError
        If there is no such workload, metric or rank.
    """
    facts = sweep.facts.for_report(sweep.table, objective=objective)
    summary = summarise(sweep.table, facts, sweep.results)
    goal = facts.objectives[0]
    if goal.metric not in summary.rankings:
        raise SweepError("no cell has a result", path=sweep.directory)
    stratum, rows = _stratum(summary, goal.metric, workload)
    ranked = [row for row in rows if row["rank"] is not None]
    if not ranked:
        raise SweepError(f"no configuration on {stratum} has a result for every replicate")
    if rank > len(ranked):
        raise SweepError(f"there is no rank {rank} on {stratum}", hint=f"it has 1 to {len(ranked)}")
    # The place in the table: equal means share a rank.
    row = ranked[rank - 1]
    against: dict[str, Any] = {"parameters": dict(facts.baseline), "verdict": row["verdict"] or "no baseline"}
    if row["pairs"]:
        # The relative numbers are fractions of the baseline's mean.
        for name, (value, low, high) in _INTERVALS.items():
            if row[value] is not None:
                against[name] = {"mean": row[value], "interval": [row[low], row[high]]}
        against["p_value"] = row["p_value"]
    content = {
        "sweep": facts.name,
        "question": facts.description,
        "system": facts.system,
        "workload": stratum,
        "rank": rank,
        "of": len(ranked),
        "parameters": _parameters(sweep, row),
        "objective": {
            "metric": goal.metric,
            "direction": goal.direction,
            "unit": goal.unit or "1",
            "mean": row["mean"],
            "interval": [row["ci_low"], row["ci_high"]],
            "confidence": LEVEL,
            "replicates": row["n"],
        },
        "baseline": against,
        "card": _card(summary, goal.metric, row).as_dict(),
        "remarks": list(summary.remarks),
        "provenance": _provenance(sweep, row),
    }
    return dict(finite_json(content))


def _card(summary: Summary, metric: str, row: Mapping[str, Any]) -> Card:
    """Return the card of a row of a ranking, whatever its rank."""
    ranking = summary.rankings[metric] if row["configuration_id"] is not None else summary.overall[metric]
    assert summary.material is not None
    return summary.material.card(answer_of(ranking, summary.rankings[metric], row), ranking)


def _stratum(summary: Summary, metric: str, workload: str | None) -> tuple[str, Sequence[Mapping[str, Any]]]:
    groups = dict(strata(summary.rankings[metric]))
    if workload is not None:
        if workload not in groups:
            hint = name_hint(workload, groups)
            raise SweepError(f"the ranking has no workload {workload!r}", hint=hint)
        return workload, groups[workload]
    if len(groups) == 1:
        return next(iter(groups.items()))
    if metric not in summary.overall:
        hint = f"name one with --workload: {', '.join(groups)}"
        raise SweepError("the sweep has several workloads and no ranking over all of them", hint=hint)
    (_, rows), *_ = strata(summary.overall[metric])
    return f"all of {', '.join(groups)}", rows


def _parameters(sweep: StoredSweep, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a row of a ranking, all that the search space set."""
    for result in sweep.results:
        if result.configuration_id == row["configuration_id"]:
            return dict(result.configuration)
    columns = {
        name.removeprefix(PARAMETER_PREFIX): value
        for name, value in row.items()
        if name.startswith(PARAMETER_PREFIX) and value is not None
    }
    return {**sweep.facts.space.get("fixed", {}), **columns}


def _provenance(sweep: StoredSweep, row: Mapping[str, Any]) -> dict[str, Any]:
    facts = sweep.facts
    commit, dirty = git_state(Path(gridtune.__file__).parent)
    code = {} if commit is None else {"commit": commit + (" with changes" if dirty else "")}
    cells = sweep.table.select(["cell_id", "configuration_id"]).to_pylist()
    return {
        "folder": sweep.place,
        "sweep_id": facts.sweep_id,
        "configuration_id": row["configuration_id"],
        "cells": [cell["cell_id"] for cell in cells if cell["configuration_id"] == row["configuration_id"]],
        "traces": dict(facts.workloads),
        "base": facts.base,
        "plugins": list(facts.plugins),
        "space": dict(facts.space),
        "system_version": facts.system_version,
        "exported_with": {
            "gridtune": gridtune.__version__,
            **code,
            "python": platform.python_version(),
            **{name: version(name) for name in _PACKAGES},
        },
    }


_DIRECTIONS = {"min": "minimize", "max": "maximize"}


def write_optuna_study(sweep: StoredSweep, path: Path, *, objective: str | None = None) -> int:
    """Write a sweep into a new SQLite file, as an Optuna study that has the sweep's name.

    Each configuration is a trial, in the order in which they were tried. Its parameters are the dimensions of
    the search space, its values the means of the objectives over its cells. A configuration that has not all
    cells, because the strategy stopped it, is a pruned trial; one with a failed cell is a failed one.
    With one objective a trial has its mean after each replicate, or at each value of the strategy's resource.

    Parameters
    ----------
    sweep
        The sweep.
    path
        The file, which must not exist.
    objective
        A metric instead of the sweep's own objectives.

    Returns
    -------
    int
        The number of trials.

    Raises
    ------
    GridtuneError
        If there is no such metric, or if the journal has no result of the sweep.
    """
    import optuna  # noqa: PLC0415

    facts = sweep.facts.for_report(sweep.table, objective=objective)
    if not sweep.results:
        raise SweepError("the journal has no result of this sweep", path=sweep.place)
    space = facts.parsed_space()
    journal = sweep.directory / JOURNAL_NAME
    proposals = {
        name: entry["number"] for entry in read_proposals(journal) for name in entry["configurations"]
    }
    # The table's order does not depend on the search: here trials go by proposal, replicates by number.
    results = sorted(sweep.results, key=lambda result: result.seed)
    results.sort(key=lambda result: proposals.get(result.configuration_id, math.inf))
    trials = _trials(results, space, facts.objectives)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        storage=f"sqlite:///{path}",
        study_name=facts.name,
        directions=[_DIRECTIONS[goal.direction] for goal in facts.objectives],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names(
            [f"{goal.metric}, {goal.unit}".removesuffix(", ") for goal in facts.objectives]
        )
    study.set_user_attr("question", facts.description)
    study.set_user_attr("system", f"{facts.system}, version {facts.system_version}")
    study.set_user_attr("sweep_id", facts.sweep_id)
    study.add_trials(trials)
    return len(trials)


def _trials(
    results: Sequence[CellResult], space: SearchSpace, objectives: Sequence[ObjectiveFacts]
) -> list[Any]:
    """Return a finished trial for each point of the search space."""
    stopping = space.strategy.stopping
    resource = None if stopping is None else stopping.resource
    dimensions = {name: part for name, part in space.dimensions.items() if name != resource}
    groups: dict[str, list[CellResult]] = {}
    for result in results:
        point = {name: result.configuration.get(name) for name in (*dimensions, HISTORY)}
        groups.setdefault(canonical_json(point), []).append(result)
    points = [group[0].configuration for group in groups.values()]
    distributions = {
        name: _distribution(part, [point[name] for point in points if name in point])
        for name, part in dimensions.items()
    }
    cells = max(1, len(space.workloads)) * space.replicates.count
    rungs = () if resource is None else space.dimensions[resource].grid or ()
    trials = []
    for group in groups.values():
        last = [one for one in group if resource is None or one.configuration[resource] == rungs[-1]]
        course = _course(group, resource, objectives)
        trials.append(_trial(group, course, len(last) >= cells, dimensions, distributions))
    return trials


def _trial(
    results: Sequence[CellResult],
    course: Mapping[int, Sequence[float]],
    whole: bool,
    dimensions: Mapping[str, Dimension],
    distributions: Mapping[str, Any],
) -> Any:
    from optuna.trial import TrialState, create_trial  # noqa: PLC0415

    point = results[0].configuration
    inside = [name for name, part in dimensions.items() if name in point and _covers(part, point[name])]
    values = list(course.values())[-1]
    if not all(map(math.isfinite, values)):
        state = TrialState.FAIL
    else:
        state = TrialState.COMPLETE if whole else TrialState.PRUNED
    # What Optuna's search space has no place for, such as a baseline beside it.
    others = {name: point[name] for name in (*dimensions, HISTORY) if name in point and name not in inside}
    return create_trial(
        state=state,
        values=list(values) if state == TrialState.COMPLETE else None,
        params={name: _scalar(point[name]) for name in inside},
        distributions={name: distributions[name] for name in inside},
        intermediate_values={
            step: means[0] for step, means in course.items() if len(means) == 1 and math.isfinite(means[0])
        },
        user_attrs={
            **{name: _scalar(value) for name, value in others.items()},
            "cells": len(results),
            "configurations": list(dict.fromkeys(result.configuration_id for result in results)),
        },
    )


def _course(
    results: Iterable[CellResult], resource: str | None, objectives: Sequence[ObjectiveFacts]
) -> dict[int, list[float]]:
    """Return the mean of each objective after each replicate, or at each value of the resource."""
    parts: dict[Any, list[CellResult]] = {}
    for result in results:
        key = result.replicate if resource is None else result.configuration[resource]
        parts.setdefault(key, []).append(result)
    course: dict[int, list[float]] = {}
    counted: list[CellResult] = []
    ordered = parts.items() if resource is None else sorted(parts.items())
    for number, (key, part) in enumerate(ordered, start=1):
        counted = [*counted, *part] if resource is None else part
        step = key if isinstance(key, int) else number
        course[step] = [
            math.fsum(result.metrics.get(goal.metric, math.nan) for result in counted) / len(counted)
            for goal in objectives
        ]
    return course


def _distribution(dimension: Dimension, values: Iterable[Any]) -> Any:
    """Return what Optuna calls a dimension; of listed ones and of expressions the values that occur."""
    from optuna import distributions  # noqa: PLC0415

    if dimension.integer is not None:
        return distributions.IntDistribution(*dimension.integer)
    bounds = dimension.uniform or dimension.loguniform
    if bounds is not None:
        return distributions.FloatDistribution(*bounds, log=dimension.loguniform is not None)
    listed = (*(dimension.grid or dimension.choice or ()), *values)
    return distributions.CategoricalDistribution(list(dict.fromkeys(map(_scalar, listed))))


def _covers(dimension: Dimension, value: Any) -> bool:
    """Return whether a value is within a dimension's bounds, if it has any."""
    bounds = dimension.uniform or dimension.loguniform or dimension.integer
    return bounds is None or (isinstance(value, int | float) and bounds[0] <= value <= bounds[1])


def _scalar(value: Any) -> Any:
    """Return a value as Optuna takes it: lists and mappings as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else canonical_json(value)
