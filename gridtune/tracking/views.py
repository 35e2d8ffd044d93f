"""How an experiment looks in MLflow's UI: its description, and a saved view with the columns that matter.

A saved view is a tag of the experiment with the state of the UI's page of runs; a link names it by its key.
Its form is that of MLflow's own "Save & share view".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gridtune.report.facts import SweepFacts
from gridtune.tracking.content import DIFFERENCE, REPLICATES, clean_name, naming_parameters
from gridtune.tracking.records import Experiment, RunStore

__all__ = [
    "RANKING_VIEW",
    "experiments_address",
    "latest_experiment",
    "ranking_link",
    "ranking_view_tags",
    "runs_address",
]

#: The key of the view that shows the ranking of an experiment's latest sweep.
RANKING_VIEW = "ranking"
_PLAIN_LINE = {"lineSmoothness": 0, "useGlobalLineSmoothing": False}
_VIEW_TAG = "mlflow.sharedViewState."
#: Runs in a chart, and parameters in the view's table and its chart of parallel coordinates.
_RUNS_IN_CHART, _PARAMETERS = 20, 8
#: Pixels of a column: for each letter of its name, around it, and at most.
_LETTER, _AROUND, _WIDEST = 8, 50, 320
#: Without it the UI shows the pages for language models, whatever the experiment's kind.
_WORKFLOW = "workflowType=machine_learning"


def runs_address(server: str, experiment_id: str) -> str:
    """Return the address of an experiment's ranking.

    Parameters
    ----------
    server
        The UI's address, without a slash at the end.
    experiment_id
        The experiment.
    """
    return f"{server}/{ranking_link(experiment_id)}"


def ranking_link(experiment_id: str) -> str:
    """Return the same for a link within the UI."""
    return f"#/experiments/{experiment_id}/runs?{_WORKFLOW}&viewStateShareKey={RANKING_VIEW}"


def experiments_address(server: str) -> str:
    """Return the address of the list of experiments, in the UI for machine learning."""
    return f"{server}/#/experiments?{_WORKFLOW}"


def ranking_view_tags(facts: SweepFacts, parent_id: str, *, workloads: int, at: int) -> dict[str, str]:
    """Return the experiment's tag that makes the view of a sweep's ranking.

    Parameters
    ----------
    facts
        What the sweep is about.
    parent_id
        The sweep's run.
    workloads
        How many workloads its configurations ran on.
    at
        When the view was made, in milliseconds.
    """
    parameters = [clean_name(name) for name in naming_parameters(facts)][:_PARAMETERS]
    objectives = [clean_name(objective.metric) for objective in facts.objectives]
    columns = ["metrics.`rank`", *(f"params.`{name}`" for name in parameters)]
    if workloads > 1:
        columns.append("tags.`workload`")
    columns += [f"metrics.`{name}`" for name in objectives]
    columns += [f"metrics.`{DIFFERENCE}`", "tags.`verdict`", "tags.`replicates`", "attributes.`Dataset`"]
    state = {
        "searchFilter": f"tags.`mlflow.parentRunId` = '{parent_id}'",
        "orderByKey": "metrics.`rank`",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {column: _width(column) for column in columns},
        "runsHiddenMode": "FIRST_20_RUNS",
        "viewMaximized": False,
        "runListHidden": False,
        "groupBy": None,
        "autoRefreshEnabled": True,
        "hideEmptyCharts": True,
        **_charts(objectives, parameters),
    }
    view = {"name": f"Ranking of {facts.name}", "createdAt": at, "state": json.dumps(state)}
    return {f"{_VIEW_TAG}{RANKING_VIEW}": json.dumps(view)}


def latest_experiment(store: RunStore, name: str | None = None) -> Experiment | None:
    """Return the experiment whose ranking is the latest, or the one of this name if it has a ranking."""
    found = store.experiments_with(f"{_VIEW_TAG}{RANKING_VIEW}")
    made = {
        experiment.experiment_id: json.loads(view)["createdAt"]
        for experiment, view in found
        if name is None or experiment.name == name
    }
    experiments = {experiment.experiment_id: experiment for experiment, _ in found}
    return experiments[max(made, key=made.__getitem__)] if made else None


def _width(column: str) -> int:
    name = column.partition(".")[2].strip("`")
    return min(_LETTER * len(name) + _AROUND, _WIDEST)


def _charts(objectives: Sequence[str], parameters: Sequence[str]) -> Mapping[str, Any]:
    """Return the charts of the ranking, which come before those that the UI adds for every metric."""
    shown = [*objectives, DIFFERENCE]
    charts = [_chart("BAR", name, metricKey=name) for name in shown]
    charts.append(
        _chart(
            "PARALLEL",
            "parameters",
            selectedParams=list(parameters),
            selectedMetrics=objectives[:1],
            showAllRuns=False,
        )
    )
    charts += [
        _chart("LINE", f"{name}{REPLICATES}", metricKey=f"{name}{REPLICATES}", xAxisKey="step", **_PLAIN_LINE)
        for name in objectives
    ]
    return {
        "compareRunCharts": charts,
        "compareRunSections": list(_sections()),
        "isAccordionReordered": True,
    }


def _chart(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"gridtune-{name}",
        "metricSectionId": "gridtune-ranking",
        "runsCountToCompare": _RUNS_IN_CHART,
        "deleted": False,
        "isGenerated": False,
        **more,
    }


def _sections() -> Iterable[dict[str, Any]]:
    # The last two are those that the UI has for all other metrics.
    for key, name, shown in (
        ("gridtune-ranking", "Ranking", True),
        ("gridtune-metrics", "Model metrics", False),
        ("gridtune-system", "System metrics", False),
    ):
        yield {
            "uuid": key,
            "name": name,
            "display": shown,
            "isReordered": False,
            "deleted": False,
            "isGenerated": key != "gridtune-ranking",
        }
