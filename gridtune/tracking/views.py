"""Description of an experiment in MLflow's UI, and a saved view with the columns that matter.

A saved view is a tag of the experiment with the state of the UI's page of runs; a link names it by its key.
Its form is that of MLflow's own "Save & share view".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gridtune.report.facts import SweepFacts
from gridtune.report.summary import Summary
from gridtune.report.tables import ranking_markdown
from gridtune.tracking.content import DIFFERENCE, REPLICATES, naming_parameters
from gridtune.tracking.runs import MOST_FOUND, clean_name

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

__all__ = [
    "description",
    "first_address",
    "ranking_address",
    "ranking_view_tags",
    "runs_text",
]

#: The key of the view that shows the ranking of an experiment's latest sweep.
_RANKING_VIEW = "ranking"
_PLAIN_LINE = {"lineSmoothness": 0, "useGlobalLineSmoothing": False}
_VIEW_TAG = "mlflow.sharedViewState."
#: Runs in a chart, and parameters in the view's table and its chart of parallel coordinates.
_RUNS_IN_CHART, _PARAMETERS = 20, 8
#: Pixels of a column: for each letter of its name, around it, and at most.
_LETTER, _AROUND, _WIDEST = 8, 50, 320
#: Without it the UI shows the pages for language models, whatever the experiment's kind.
_WORKFLOW = "workflowType=machine_learning"


def ranking_address(experiment_id: str, server: str = "") -> str:
    """Return the address of an experiment's ranking; without a server, as a link within the UI.

    Parameters
    ----------
    experiment_id
        The experiment.
    server
        The UI's address with a slash at the end.
    """
    return f"{server}#/experiments/{experiment_id}/runs?{_WORKFLOW}&viewStateShareKey={_RANKING_VIEW}"


def ranking_view_tags(facts: SweepFacts, parent_id: str, *, workloads: int, at: int) -> dict[str, str]:
    """Return the experiment's tag that makes the view of a sweep's ranking.

    Parameters
    ----------
    facts
        The facts of the sweep.
    parent_id
        The sweep's run.
    workloads
        Number of workloads that its configurations ran on.
    at
        When the view was made, in milliseconds.
    """
    parameters = [clean_name(name) for name in naming_parameters(facts)][:_PARAMETERS]
    objectives = [clean_name(objective.metric) for objective in facts.objectives]
    columns = ["tags.`verdict`", f"metrics.`{DIFFERENCE}`", "metrics.`rank`"]
    if facts.constraints:
        # Beside a verdict of better, that it breaks a bound.
        columns.insert(1, "tags.`bounds`")
    columns += [f"params.`{name}`" for name in parameters]
    if workloads > 1:
        columns.append("tags.`workload`")
    # A mean stands beside its own interval.
    columns += [f"metrics.`{name}{part}`" for name in objectives for part in ("", ".ci_low", ".ci_high")]
    columns += ["tags.`replicates`", "attributes.`Dataset`"]
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
    return {f"{_VIEW_TAG}{_RANKING_VIEW}": json.dumps(view)}


def first_address(client: MlflowClient, server: str, name: str | None = None) -> str | None:
    """Return the address to open the UI on: the latest ranking, or the list of experiments if there is none.

    Parameters
    ----------
    client
        Of the store.
    server
        The UI's address with a slash at the end.
    name
        The experiment whose ranking is wanted; None is returned if it has no ranking.
    """
    tag = f"{_VIEW_TAG}{_RANKING_VIEW}"
    made = {
        experiment.experiment_id: json.loads(experiment.tags[tag])["createdAt"]
        for experiment in client.search_experiments(max_results=MOST_FOUND)
        if tag in experiment.tags and name in (None, experiment.name)
    }
    if made:
        return ranking_address(max(made, key=made.__getitem__), server)
    return f"{server}#/experiments?{_WORKFLOW}" if name is None else None


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


#: Rows of a ranking and characters that a description has.
_NOTE_ROWS, _NOTE_LENGTH = 10, 4800
#: Remarks on logs that a description has; the tag and the report have more.
_REMARKS = 8


def runs_text(runs: int, configurations: int, tables: Sequence[str]) -> str:
    """Return where all configurations are, for a sweep that has more of them than runs; else ""."""
    if runs >= configurations:
        return ""
    files = " and ".join(f"{name}.csv" for name in tables)
    return (
        f"{runs:,} of {configurations:,} configurations have runs: the baseline and the best. "
        f"All of them are in {files} among the artifacts of the sweep's run."
    )


def description(summary: Summary, runs: str = "", *, experiment: str | None = None) -> str:
    """Return a description, which the UI shows as Markdown: the question, and the first of the ranking.

    Parameters
    ----------
    summary
        The rankings.
    runs
        The text of `runs_text`.
    experiment
        For an experiment's description its id: a link to the view of the ranking is added.
    """
    parts = [summary.facts.description.strip()] if summary.facts.description else []
    if experiment is not None:
        parts.append(f"\n[Ranking of the latest sweep]({ranking_address(experiment)})\n")
    if summary.remarks:
        parts.append("\n" + "\n".join(f"- {remark}" for remark in summary.remarks[:_REMARKS]) + "\n")
    if runs:
        parts.append(f"\n{runs}\n")
    parts += [card.markdown() for card in summary.cards if card.lines]
    for objective, ranking in list(summary.rankings.items())[:1]:
        if objective in summary.overall:
            parts.append(ranking_markdown(summary.overall[objective], limit=_NOTE_ROWS))
        parts.append(ranking_markdown(ranking, limit=_NOTE_ROWS))
    text = ""
    for part in parts:
        if len(text) + len(part) < _NOTE_LENGTH:
            text += part + "\n"
    return text
