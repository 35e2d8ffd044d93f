"""`MlflowTracker`: follows a sweep into a tracking store without ever holding it up.

The journal is the truth about a sweep; the store is a view of it that may lag behind. All sending is done
by one thread, in order. A store that goes away is waited for; what it has not been sent when the sweep
ends can be sent later, from the sweep's folder, to the same runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gridtune.core.cells import CellResult
from gridtune.errors import without_secrets
from gridtune.network import network_reason
from gridtune.report.facts import SweepFacts
from gridtune.report.summary import Summary
from gridtune.sweep.execution.observing import SweepPlan, SweepResult
from gridtune.tracking.content import (
    ConfigurationContent,
    LearningCurve,
    code_tags,
    configuration_content,
    curves_of,
    datasets_of,
    most_runs,
    naming_parameters,
    ranked_rows,
    runs_of_ranking,
    tracked_metrics,
    user_tags,
)
from gridtune.tracking.outbox import Outbox, Send
from gridtune.tracking.records import RunStore, now_milliseconds
from gridtune.tracking.runs import SweepRuns
from gridtune.tracking.store import artifact_root, open_store, tracking_uri
from gridtune.tracking.views import (
    cells_text,
    description,
    ranking_view_tags,
    remarks_tags,
    runs_address,
    runs_text,
    sweep_parameters,
    sweep_tags,
)

__all__ = ["Artefact", "MlflowTracker", "TrackingOutcome"]

#: Seconds between two looks of a watcher at a running sweep.
_LIVE_SECONDS = 10.0
#: Sending may take at most this share of the time between two looks.
_LIVE_SHARE = 0.1
#: How long a store that is away is waited for after an interrupt, at most.
_PARTING_SECONDS = 5.0
#: Runs written together: what fails is written again as a whole.
_RUNS_AT_ONCE = 100


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
        Whose run; None for the sweep's own.
    """

    path: Path
    folder: str = ""
    configuration_id: str | None = None


@dataclass(frozen=True)
class TrackingOutcome:
    """How tracking ended.

    Attributes
    ----------
    uri
        The store.
    unsent
        Names of what could not be sent, in order.
    fault
        Why, or None.
    directory
        The sweep's folder, from which it can be sent later.
    experiment_id, run_id
        Of the sweep's run, "" where the store was never reached.
    """

    uri: str
    unsent: Sequence[str]
    fault: BaseException | None
    directory: Path
    experiment_id: str = ""
    run_id: str = ""

    @property
    def complete(self) -> bool:
        """Whether everything is in the store."""
        return not self.unsent

    @property
    def shown_uri(self) -> str:
        """The store without a password, to print."""
        return without_secrets(self.uri)

    @property
    def command(self) -> str:
        """The command that opens the UI on this store, from the working directory."""
        return "gridtune ui" if self.uri == tracking_uri() else f"gridtune ui --tracking-uri {self.shown_uri}"

    @property
    def address(self) -> str | None:
        """The page of the ranking, where the store is a server."""
        if not self.uri.startswith(("http://", "https://")) or not self.experiment_id:
            return None
        return runs_address(self.shown_uri.rstrip("/"), self.experiment_id)

    @property
    def message(self) -> str:
        """What a person should know, in a line or two."""
        if self.complete:
            return f"tracked in {self.shown_uri}"
        reason = network_reason(self.fault) if self.fault else "it was too slow"
        return (
            f"{len(self.unsent)} items were not sent to {self.shown_uri}: {reason}\n"
            f"nothing is lost; send them later: gridtune report {self.directory} --track"
        )


class MlflowTracker:
    """Watches a sweep and tracks it.

    Parameters
    ----------
    uri
        The tracking store; by default that of the environment, else SQLite in the working directory.
    runs
        How many configurations have runs of their own at most; by default `most_runs()`. The others are in
        the tables among the sweep's artefacts.
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
        runs: int | None = None,
        patience: float = 30.0,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        self.uri = tracking_uri(uri)
        self._limit = most_runs() if runs is None else runs
        self._patience = patience
        self._facts: SweepFacts | None = None
        self._directory = Path()
        self._runs: SweepRuns | None = None
        self._results: dict[str, dict[str, CellResult]] = {}
        self._news: set[str] = set()
        self._workloads: set[str] = set()
        self._next_look = time.monotonic() + _LIVE_SECONDS

        def warn(fault: BaseException) -> None:
            if on_trouble is not None:
                uri = without_secrets(self.uri)
                on_trouble(
                    f"the tracking store {uri} cannot be reached, the sweep goes on: {network_reason(fault)}"
                )

        self._outbox = Outbox(lambda: open_store(self.uri), warn)

    # Called by a sweep.

    def started(self, plan: SweepPlan) -> None:
        """Open the sweep's run; take notice of what was finished before."""
        self.begin(SweepFacts.of(plan), plan.directory)
        self._note(plan.finished)
        self._news.clear()

    def finished(self, results: Sequence[CellResult]) -> None:
        """Take notice of results; now and then send what is new."""
        self._note(results)
        if self._news and time.monotonic() >= self._next_look and not self._outbox.unsent:
            self._look()

    def ended(self, result: SweepResult) -> None:
        """Take the final results; `publish` sends them."""
        self._results.clear()
        self._note(result.results)

    # Called by a study.

    def begin(self, facts: SweepFacts, directory: Path) -> None:
        """Open the run of a sweep."""
        self._facts, self._directory = facts, directory
        runs = SweepRuns(
            facts.name,
            facts.sweep_id,
            name=f"{facts.name} {datetime.now():%Y-%m-%d %H:%M}",
            tags=user_tags(facts.name),
            artifacts=artifact_root(self.uri),
        )
        self._runs = runs
        tags = code_tags(facts.system, facts.system_version) | sweep_tags(facts, directory)
        parameters, datasets = sweep_parameters(facts), datasets_of(facts.workloads)
        at = now_milliseconds()
        self._outbox.put(
            "the sweep's run",
            lambda store: runs.open(store, tags=tags, parameters=parameters, datasets=datasets, at=at),
        )

    def add(self, results: Sequence[CellResult]) -> None:
        """Take notice of results that are there already."""
        self._note(results)

    def publish(self, summary: Summary, *, seconds: float | None = None) -> None:
        """Send the configurations with their places in the ranking, and what the sweep came to.

        Parameters
        ----------
        summary
            The rankings.
        seconds
            Wall-clock seconds the sweep took.
        """
        runs, facts = self._opened()
        ranked = [key for key in runs_of_ranking(summary, self._limit) if key in self._results]
        # Configurations without any value are in no ranking.
        others = [key for key in self._results if key not in set(ranked)]
        chosen = ranked + others[: max(0, self._limit - len(ranked))]
        rows = ranked_rows(summary, chosen)
        at = now_milliseconds()
        self._put_configurations(chosen, final=True, at=at, rows=rows)
        # Runs made before, of configurations that are no longer among the best, are kept up to date.
        left = [key for key in self._results if key not in set(chosen)]
        self._put_left(left, summary, at)
        note = runs_text(len(chosen), len(self._results), [name for name, _ in summary.tables])
        tags = {f"best {best.stratum}".strip(): str(best) for best in summary.best}
        tags |= {"cells": self._cells(), "mlflow.note.content": description(summary, note)}
        tags |= remarks_tags(summary)
        if seconds is not None:
            tags["seconds"] = f"{seconds:.1f}"
        self._outbox.put("the sweep's totals", lambda store: runs.update_parent(store, tags))
        workloads = len(self._workloads)

        def describe(store: RunStore) -> None:
            view = ranking_view_tags(facts, runs.parent_id, workloads=workloads, at=at)
            text = description(summary, note, experiment=runs.experiment_id)
            runs.describe(store, {"mlflow.note.content": text, **view})

        self._outbox.put("the experiment's description", describe)

    def store(self, artefacts: Sequence[Artefact]) -> None:
        """Send files; they must stay until `close`."""
        runs, _ = self._opened()
        for artefact in artefacts:
            self._outbox.put(f"the file {artefact.path.name}", _upload(runs, artefact))

    def close(self, status: str = "FINISHED") -> TrackingOutcome:
        """End the sweep's run and wait until everything is sent.

        Parameters
        ----------
        status
            FINISHED, FAILED (cells failed) or KILLED (interrupted).
        """
        runs, at = self._runs, now_milliseconds()
        if runs is not None:
            if status == "KILLED" and self._live():
                self._put_configurations(sorted(self._news), final=False, at=at)
            self._outbox.put("the end of the sweep's run", lambda store: runs.end(store, status, at))
        # Whoever interrupts a sweep wants to leave.
        self._outbox.drain(min(self._patience, _PARTING_SECONDS) if status == "KILLED" else self._patience)
        outcome = TrackingOutcome(
            uri=self.uri,
            unsent=self._outbox.unsent,
            fault=self._outbox.fault,
            directory=self._directory,
            experiment_id=runs.experiment_id if runs else "",
            run_id=runs.parent_id if runs else "",
        )
        self._outbox.close()
        return outcome

    def _opened(self) -> tuple[SweepRuns, SweepFacts]:
        if self._runs is None or self._facts is None:
            raise RuntimeError("the tracker has no sweep: call `started` or `begin` first")
        return self._runs, self._facts

    def _note(self, results: Sequence[CellResult]) -> None:
        for result in results:
            self._results.setdefault(result.configuration_id, {})[result.cell_id] = result
            self._news.add(result.configuration_id)
            self._workloads.add(result.workload)

    def _live(self) -> bool:
        """Whether configurations have runs before it is known which are the best."""
        _, facts = self._opened()
        return max(len(self._results), facts.cells // max(1, facts.replicates)) <= self._limit

    def _look(self) -> None:
        """Send what is new, and be back when that has cost little enough."""
        began = time.monotonic()
        runs, _ = self._opened()
        if self._live():
            self._put_configurations(sorted(self._news), final=False, at=now_milliseconds())
        self._news.clear()
        tags = {"cells": self._cells()}

        def last(store: RunStore) -> None:
            runs.update_parent(store, tags)
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
        runs, _ = self._opened()
        for first in range(0, len(keys), _RUNS_AT_ONCE):
            part = keys[first : first + _RUNS_AT_ONCE]
            contents = [self._content(key, (rows or {}).get(key)) for key in part]
            name = contents[0].name if len(part) == 1 else f"{len(part)} configurations"
            start = at - first
            self._outbox.put(name, _log(runs, contents, final=final, at=start))
            for key, content in zip(part, contents, strict=True):
                for curve in curves_of(list(self._results[key].values()), content.name):
                    self._outbox.put(f"the curve of {curve.name}", _log_curve(runs, key, curve, at))

    def _put_left(self, keys: Sequence[str], summary: Summary, at: int) -> None:
        runs, _ = self._opened()
        if not keys:
            return

        def update(store: RunStore) -> None:
            there = [key for key in keys if runs.has(key)]
            rows = ranked_rows(summary, there)
            contents = [self._content(key, rows[key]) for key in there]
            runs.log(store, contents, final=True, at=at, only_known=True)

        self._outbox.put("runs of other configurations", update)

    def _content(self, key: str, rows: Mapping[str, Mapping[str, Any]] | None) -> ConfigurationContent:
        _, facts = self._opened()
        return configuration_content(
            list(self._results[key].values()),
            planned=facts.replicates,
            varying=naming_parameters(facts),
            metrics=tracked_metrics(objective.metric for objective in facts.objectives),
            workloads=len(self._workloads),
            ranked=rows,
        )

    def _cells(self) -> str:
        _, facts = self._opened()
        states = [result.state for results in self._results.values() for result in results.values()]
        return cells_text(states, facts.cells)


def _log(runs: SweepRuns, contents: Sequence[ConfigurationContent], *, final: bool, at: int) -> Send:
    return lambda store: runs.log(store, contents, final=final, at=at)


def _log_curve(runs: SweepRuns, key: str, curve: LearningCurve, at: int) -> Send:
    return lambda store: runs.log_curve(store, key, curve, at)


def _upload(runs: SweepRuns, artefact: Artefact) -> Send:
    return lambda store: runs.upload(store, artefact.path, artefact.folder, artefact.configuration_id)
