"""`MlflowTracker`: follows a sweep into a tracking store without ever holding it up.

The journal is the truth about a sweep; the store is a view of it that may lag behind. All sending is done
by one thread, in order. A store that goes away is waited for; the rest that has not been sent when the sweep
ends can be sent later, from the sweep's folder, to the same runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import methodcaller
from pathlib import Path
from typing import Any

from gridtune.core.cells import CellResult
from gridtune.report.facts import SweepFacts
from gridtune.report.labels import value_text
from gridtune.report.summary import Summary
from gridtune.report.tables import ranking_markdown
from gridtune.sweep.execution.observing import SweepPlan, SweepResult
from gridtune.sweep.space.plan import Workloads
from gridtune.tracking.content import (
    DIFFERENCE,
    DRAWN,
    MOST_RUNS,
    REPLICATES,
    checkpoint_files,
    code_tags,
    configuration_content,
    curves_of,
    ranked_rows,
    runs_of_ranking,
)
from gridtune.tracking.runs import RootRun, RunContent, RunTree, clean_name
from gridtune.tracking.tracked import RANKING_VIEW_TAG, RunOutbox, TrackedRun, ranking_address

#: Seconds between two looks of a watcher at a running sweep.
_LIVE_SECONDS = 10.0
#: Sending may take at most this share of the time between two looks.
_LIVE_SHARE = 0.1
#: How long a store that is away is waited for after an interrupt, at most.
_PARTING_SECONDS = 5.0
#: Runs written together: if one fails, all of them are looked at again.
_RUNS_AT_ONCE = 20


@dataclass(frozen=True)
class Artefact:
    """A file to store with a run.

    Attributes
    ----------
    path
        The file.
    folder
        Where it goes among the run's artefacts; "" for the top.
    configuration_id
        The configuration of the run; None for the sweep's own run.
    """

    path: Path
    folder: str = ""
    configuration_id: str | None = None


class MlflowTracker:
    """Watches a sweep and tracks it.

    Parameters
    ----------
    uri
        The tracking store; by default that of the environment, else SQLite in the working directory.
    patience
        Seconds of nothing but failures after which the end of a sweep no longer waits for the store.
    on_trouble
        Called with a sentence when the store cannot be reached.

    Notes
    -----
    Making a tracker starts to connect: a fresh database may take seconds that pass while Ray starts.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        patience: float = 30.0,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        self._patience = patience
        self._facts: SweepFacts | None = None
        self._directory = Path()
        self._results: dict[str, dict[str, CellResult]] = {}
        self._news: set[str] = set()
        self._workloads: set[str] = set()
        self._logs = Workloads()
        self._next_look = time.monotonic() + _LIVE_SECONDS
        self._outbox = RunOutbox(uri, on_trouble, "sweep")
        self.uri = self._outbox.uri

    # Called by a sweep.

    def started(self, plan: SweepPlan) -> None:
        """Open the sweep's run; take the results that were there before."""
        self.begin(SweepFacts.of(plan), plan.directory)
        self.add(plan.finished)
        self._news.clear()

    def finished(self, results: Sequence[CellResult]) -> None:
        """Take results; now and then send the news."""
        self.add(results)
        if self._news and time.monotonic() >= self._next_look and not self._outbox.unsent:
            self._look()

    def ended(self, result: SweepResult) -> None:
        """Take the final results; `publish` sends them."""
        self._results.clear()
        self.add(result.results)

    # Called by a study.

    def begin(self, facts: SweepFacts, directory: Path) -> None:
        """Open the run of a sweep."""
        self._facts, self._directory = facts, directory
        self._logs = Workloads(facts.base_folder)
        baseline = ", ".join(f"{name}={value_text(value)}" for name, value in facts.baseline.items())
        root = RootRun(
            facts.name,
            "sweep",
            facts.sweep_id,
            f"{facts.name} {datetime.now():%Y-%m-%d %H:%M}",
            tags={
                **code_tags(facts.system, facts.system_version),
                "gridtune.directory": str(directory.resolve()),
                "mlflow.note.content": facts.description,
            },
            parameters={
                "space": facts.name,
                "system": facts.system,
                "searched": ", ".join(facts.dimensions) or "nothing",
                "objective": ", ".join(f"{one.metric} ({one.direction})" for one in facts.objectives),
                "baseline": baseline or "none",
                "replicates": str(facts.replicates),
            },
            traces=dict(facts.workloads),
        )
        self._outbox.open("the sweep's run", root)

    def publish(self, summary: Summary, *, seconds: float | None = None) -> None:
        """Send the configurations with their places in the ranking, and the totals of the sweep.

        Parameters
        ----------
        summary
            The rankings.
        seconds
            Wall-clock seconds the sweep took.
        """
        facts = self._opened
        ranked = [key for key in runs_of_ranking(summary, MOST_RUNS) if key in self._results]
        # Configurations without any value are in no ranking.
        others = [key for key in self._results if key not in set(ranked)]
        chosen = ranked + others[: max(0, MOST_RUNS - len(ranked))]
        at = _now()
        self._put_configurations(chosen, final=True, at=at, rows=ranked_rows(summary, chosen))
        # Runs made before, of configurations that are no longer among the best, are kept up to date.
        left = [key for key in self._results if key not in set(chosen)]
        self._put_left(left, summary, at)
        note = _runs_text(len(chosen), len(self._results), [name for name, _ in summary.tables])
        tags = {f"best {best.stratum}".strip(): str(best) for best in summary.best}
        first = [answer for answer in summary.answers if answer.effects]
        tags |= {f"answer {answer.stratum}".strip(): answer.markdown() for answer in first}
        tags |= {"cells": self._cells(), "mlflow.note.content": _description(summary, note)}
        if summary.remarks:
            tags["remarks"] = "\n".join(summary.remarks)
        if seconds is not None:
            tags["seconds"] = f"{seconds:.1f}"
        self._outbox.put("the sweep's totals", lambda runs: runs.update(tags))
        workloads = len(self._workloads)

        def describe(runs: RunTree) -> None:
            experiment, run = self._outbox.ids
            view = _ranking_view_tags(facts, run, workloads=workloads, at=at)
            runs.describe({"mlflow.note.content": _description(summary, note, experiment=experiment), **view})

        self._outbox.put("the experiment's description", describe)

    def store(self, artefacts: Sequence[Artefact]) -> None:
        """Send files; they must stay until `close`."""
        for artefact in artefacts:
            # A program may change its folder until the file is sent.
            path, folder, key = artefact.path.resolve(), artefact.folder, artefact.configuration_id
            self._outbox.put(f"the file {path.name}", methodcaller("upload", path, folder, key))

    def close(self, status: str = "FINISHED") -> TrackedRun:
        """End the sweep's run and wait until everything is sent.

        Parameters
        ----------
        status
            FINISHED, FAILED (cells failed) or KILLED (interrupted).
        """
        if self._facts is not None:
            at = _now()
            if status == "KILLED" and self._live():
                self._put_configurations(sorted(self._news), final=False, at=at)
            self._outbox.end("the end of the sweep's run", status, at)
        # A user who interrupts a sweep does not wait long for the store.
        patience = min(self._patience, _PARTING_SECONDS) if status == "KILLED" else self._patience
        remedy = f"nothing is lost; send them later: gridtune report {self._directory} --track"
        return self._outbox.finish(patience, remedy)

    @property
    def _opened(self) -> SweepFacts:
        if self._facts is None:
            raise RuntimeError("the tracker has no sweep: call `started` or `begin` first")
        return self._facts

    def add(self, results: Sequence[CellResult]) -> None:
        """Take results, such as those that are there already."""
        for result in results:
            self._results.setdefault(result.configuration_id, {})[result.cell_id] = result
            self._news.add(result.configuration_id)
            self._workloads.add(result.workload)

    def _live(self) -> bool:
        """Return True if configurations have runs before the best are known."""
        facts = self._opened
        return max(len(self._results), facts.cells // max(1, facts.replicates)) <= MOST_RUNS

    def _look(self) -> None:
        """Send the news, and be back when that has cost little enough."""
        began = time.monotonic()
        if self._live():
            self._put_configurations(sorted(self._news), final=False, at=_now())
        self._news.clear()
        tags = {"cells": self._cells()}

        def last(runs: RunTree) -> None:
            runs.update(tags)
            took = time.monotonic() - began
            self._next_look = time.monotonic() + max(_LIVE_SECONDS, took / _LIVE_SHARE)

        self._outbox.put("the sweep's totals", last)
        # Until the thread has said how long it took.
        self._next_look = time.monotonic() + _LIVE_SECONDS

    def _put_configurations(
        self,
        keys: Sequence[str],
        *,
        final: bool,
        at: int,
        rows: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> None:
        for first in range(0, len(keys), _RUNS_AT_ONCE):
            part = keys[first : first + _RUNS_AT_ONCE]
            contents = [self._content(key, (rows or {}).get(key)) for key in part]
            name = contents[0].name if len(part) == 1 else f"{len(part)} configurations"
            self._outbox.put(name, methodcaller("log", contents, final=final, at=at - first))
            for key, content in zip(part, contents, strict=True):
                for curve in curves_of(list(self._results[key].values()), content.name):
                    result = self._results[key][curve.key]
                    files = checkpoint_files(result, self._opened.system, self._logs.load)
                    self._outbox.put(
                        f"the curve of {curve.name}", methodcaller("log_curve", key, curve, at, files)
                    )

    def _put_left(self, keys: Sequence[str], summary: Summary, at: int) -> None:
        def update(runs: RunTree) -> None:
            there = runs.existing(keys)
            rows = ranked_rows(summary, there)
            runs.log([self._content(key, rows[key]) for key in there], final=True, at=at)

        if keys:
            self._outbox.put("runs of other configurations", update)

    def _content(self, key: str, rows: Mapping[str, Mapping[str, Any]] | None) -> RunContent:
        results = list(self._results[key].values())
        return configuration_content(results, self._opened, workloads=len(self._workloads), ranked=rows)

    def _cells(self) -> str:
        states = [result.state for results in self._results.values() for result in results.values()]
        done, planned = states.count("done"), max(self._opened.cells, len(states))
        failed = f", {len(states) - done:,} failed" if len(states) > done else ""
        return f"{done:,} of {planned:,} done{failed}"


def _now() -> int:
    return int(time.time() * 1000)


# The view of a ranking in the UI: a tag of the experiment with the state of the page of runs, in the form of
# MLflow's own "Save & share view"; a link names it by its key.
_PLAIN_LINE = {"lineSmoothness": 0, "useGlobalLineSmoothing": False}
#: Runs in a chart, and parameters in the view's table and its chart of parallel coordinates.
_RUNS_IN_CHART, _PARAMETERS = 20, 8
#: Pixels of a column: for each letter of its key, less its prefix and quotes, and at most; at least 100.
_LETTER, _AROUND, _WIDEST = 8, -30, 320


def _ranking_view_tags(facts: SweepFacts, parent_id: str, *, workloads: int, at: int) -> dict[str, str]:
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
    parameters = [clean_name(name) for name in facts.naming_parameters][:_PARAMETERS]
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
        "columnWidths": {name: min(max(100, _LETTER * len(name) + _AROUND), _WIDEST) for name in columns},
        "runsHiddenMode": "FIRST_20_RUNS",
        "viewMaximized": False,
        "runListHidden": False,
        "groupBy": None,
        "autoRefreshEnabled": True,
        "hideEmptyCharts": True,
        **_charts(objectives, parameters, relative=bool(facts.baseline)),
    }
    view = {"name": f"Ranking of {facts.name}", "createdAt": at, "state": json.dumps(state)}
    return {RANKING_VIEW_TAG: json.dumps(view)}


def _charts(objectives: Sequence[str], parameters: Sequence[str], *, relative: bool) -> Mapping[str, Any]:
    """Return the charts of the ranking, which come before those that the UI adds for every metric.

    Where there is a baseline, the first objective is drawn relative to it.
    """
    shown = [*([DRAWN] if relative else objectives[:1]), *objectives[1:]]
    charts = [_chart("BAR", name, metricKey=name) for name in shown]
    parallel = {"selectedParams": list(parameters), "selectedMetrics": shown[:1], "showAllRuns": False}
    charts.append(_chart("PARALLEL", "parameters", **parallel))
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


def _runs_text(runs: int, configurations: int, tables: Sequence[str]) -> str:
    """Return where all configurations are, for a sweep that has more of them than runs; else ""."""
    if runs >= configurations:
        return ""
    files = " and ".join(f"{name}.csv" for name in tables)
    return (
        f"{runs:,} of {configurations:,} configurations have runs: the baseline and the best. "
        f"All of them are in {files} among the artifacts of the sweep's run."
    )


def _description(summary: Summary, runs: str = "", *, experiment: str | None = None) -> str:
    """Return a description, which the UI shows as Markdown: the question, and the first of the ranking.

    Parameters
    ----------
    summary
        The rankings.
    runs
        The text of `_runs_text`.
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
    parts += [answer.markdown() for answer in summary.answers]
    for objective, ranking in list(summary.rankings.items())[:1]:
        if objective in summary.overall:
            parts.append(ranking_markdown(summary.overall[objective], limit=_NOTE_ROWS))
        parts.append(ranking_markdown(ranking, limit=_NOTE_ROWS))
    text = ""
    for part in parts:
        if len(text) + len(part) < _NOTE_LENGTH:
            text += part + "\n"
    return text
