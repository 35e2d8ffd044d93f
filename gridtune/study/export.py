"""The best configuration of a sweep as a file, with its verdict and its provenance."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gridtune
from gridtune.core.cells import finite_json
from gridtune.errors import SweepError
from gridtune.registry import name_hint
from gridtune.report.rankings.ranking import LEVEL, Ranking, Row
from gridtune.report.summarising import summarise
from gridtune.report.summary import Summary
from gridtune.study.stored import StoredSweep
from gridtune.tracking.content import git_state

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
        A stratum of the ranking. By default the only one; of several, the ranking over all of them. Its
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
    stratum, ranking, rows = _stratum(summary, goal.metric, workload)
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
        "parameters": sweep.parameters_of(row),
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
        "answer": summary.answer(ranking, row).as_dict(),
        "remarks": list(summary.remarks),
        "provenance": _provenance(sweep, row),
    }
    return dict(finite_json(content))


def _stratum(summary: Summary, metric: str, workload: str | None) -> tuple[str, Ranking, Sequence[Row]]:
    """Return a stratum in words, with its ranking and its rows there."""
    ranking = summary.rankings[metric]
    groups = ranking.strata
    if workload is not None:
        if workload not in groups:
            hint = name_hint(workload, groups)
            raise SweepError(f"the ranking has no workload {workload!r}", hint=hint)
        return workload, ranking, groups[workload]
    if len(groups) == 1:
        return next(iter(groups)), ranking, ranking.rows
    if metric not in summary.overall:
        hint = f"name one with --workload: {', '.join(groups)}"
        raise SweepError("the sweep has several workloads and no ranking over all of them", hint=hint)
    overall = summary.overall[metric]
    return f"all of {', '.join(groups)}", overall, overall.rows


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
