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
from gridtune.report.facts import SweepFacts
from gridtune.report.labels import value_text
from gridtune.report.summary import Summary
from gridtune.report.tables import ranking_markdown
from gridtune.sweep.observing import SweepPlan, SweepResult
from gridtune.tracking.content import configuration_content, tracked_metrics
from gridtune.tracking.curves import LearningCurve, curves_of
from gridtune.tracking.outbox import Outbox, Send
from gridtune.tracking.provenance import code_tags
from gridtune.tracking.runs import SweepRuns, now_milliseconds
from gridtune.tracking.store import artifact_root, connect, tracking_uri

__all__ = ["Artefact", "MlflowTracker", "TrackingOutcome"]

#: Seconds between two looks of a watcher at a running sweep.
_LIVE_SECONDS = 10.0
#: Sending may take at most this share of the time between two looks.
_LIVE_SHARE = 0.1
#: How long a store that is away is waited for after an interrupt, at most.
_PARTING_SECONDS = 5.0
#: Rows of a ranking and characters that a run's description has.
_NOTE_ROWS, _NOTE_LENGTH = 10, 4800


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
    def command(self) -> str:
        """The command that opens the UI on this store, from the working directory."""
        return "gridtune ui" if self.uri == tracking_uri() else f"gridtune ui --tracking-uri {self.uri}"

    @property
    def message(self) -> str:
        """What a person should know, in a line or two."""
        if self.complete:
            return f"tracked in {self.uri}"
        reason = str(self.fault).splitlines()[0] if self.fault else "it was too slow"
        return (
            f"{len(self.unsent)} items were not sent to {self.uri}: {reason}\n"
            f"nothing is lost; send them later: gridtune report {self.directory} --track"
        )


class MlflowTracker:
    """Watches a sweep and tracks it.

    Parameters
    ----------
    uri
        The tracking store; by default that of the environment, else SQLite in the working directory.
    patience
        Seconds of nothing but failures after which the end of a sweep no longer waits for the store.
    on_trouble
        Told in a sentence when the store cannot be reached.

    Notes
    -----
    Making a tracker starts to connect: a fresh database takes seconds that pass while Ray starts.
    """

    def __init__(
        self,
        uri: str | None = None,
        *,
        patience: float = 30.0,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        self.uri = tracking_uri(uri)
        self._patience = patience
        self._facts: SweepFacts | None = None
        self._directory = Path()
        self._runs: SweepRuns | None = None
        self._results: dict[str, dict[str, CellResult]] = {}
        self._news: set[str] = set()
        self._next_look = time.monotonic() + _LIVE_SECONDS

        def warn(fault: BaseException) -> None:
            if on_trouble is not None:
                first = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
                on_trouble(f"the tracking store {self.uri} cannot be reached, the sweep goes on: {first}")

        self._outbox = Outbox(lambda: connect(self.uri), warn)

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
        common = code_tags(facts.system, facts.system_version) | {
            "mlflow.source.name": f"gridtune {facts.name}"
        }
        runs = SweepRuns(
            facts.name,
            facts.sweep_id,
            name=f"{facts.name} {datetime.now():%Y-%m-%d %H:%M}",
            tags=common,
            artifacts=artifact_root(self.uri),
        )
        self._runs = runs
        tags, parameters = _sweep_tags(facts, directory), _sweep_parameters(facts)
        self._outbox.put("the sweep's run", lambda client: runs.open(client, tags, parameters))

    def add(self, results: Sequence[CellResult]) -> None:
        """Take notice of results that are there already."""
        self._note(results)

    def publish(self, summary: Summary, *, seconds: float | None = None) -> None:
        """Send each configuration with its place in the ranking, and the sweep's totals.

        Parameters
        ----------
        summary
            The rankings.
        seconds
            Wall-clock seconds the sweep took.
        """
        runs, _ = self._opened()
        rows = summary.rows()
        done = sum(
            result.state == "done" for results in self._results.values() for result in results.values()
        )
        for key in self._results:
            self._put_configuration(key, final=True, step=done, ranked=rows.get(key, {}))
        metrics = self._counts() | ({} if seconds is None else {"seconds": seconds})
        tags = {f"best {best.stratum}".strip(): str(best) for best in summary.best}
        tags["mlflow.note.content"] = _note_text(summary)
        at = now_milliseconds()
        self._outbox.put("the sweep's totals", lambda client: runs.update_parent(client, metrics, tags, at))

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
        runs = self._runs
        if runs is not None:
            if status == "KILLED":
                for key in sorted(self._news):
                    self._put_configuration(key, final=False)
            self._outbox.put("the end of the sweep's run", lambda client: runs.end(client, status))
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

    def _look(self) -> None:
        """Send what is new, and be back when that has cost little enough."""
        began = time.monotonic()
        runs, _ = self._opened()
        for key in sorted(self._news):
            self._put_configuration(key, final=False)
        self._news.clear()
        counts, at = self._counts(), now_milliseconds()

        def last(client: Any) -> None:
            runs.update_parent(client, counts, {}, at)
            took = time.monotonic() - began
            self._next_look = time.monotonic() + max(_LIVE_SECONDS, took / _LIVE_SHARE)

        self._outbox.put("the sweep's totals", last)
        # Until the thread has said how long it took.
        self._next_look = time.monotonic() + _LIVE_SECONDS

    def _put_configuration(
        self, key: str, *, final: bool, step: int = 0, ranked: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        runs, facts = self._opened()
        content = configuration_content(
            list(self._results[key].values()),
            planned=facts.replicates,
            varying=facts.dimensions,
            metrics=tracked_metrics(objective.metric for objective in facts.objectives),
            ranked=ranked,
        )
        self._outbox.put(content.name, lambda client: runs.log(client, content, final=final, step=step))
        for curve in curves_of(list(self._results[key].values()), content.name) if final else ():
            self._outbox.put(f"the curve of {curve.name}", _log_curve(runs, key, curve))

    def _counts(self) -> dict[str, float]:
        _, facts = self._opened()
        states = [result.state for results in self._results.values() for result in results.values()]
        return {
            "cells": float(facts.cells),
            "cells_done": float(states.count("done")),
            "cells_failed": float(len(states) - states.count("done")),
        }


def _log_curve(runs: SweepRuns, key: str, curve: LearningCurve) -> Send:
    return lambda client: runs.log_curve(client, key, curve)


def _upload(runs: SweepRuns, artefact: Artefact) -> Send:
    return lambda client: runs.upload(client, artefact.path, artefact.folder, artefact.configuration_id)


def _sweep_tags(facts: SweepFacts, directory: Path) -> dict[str, str]:
    """Return the tags of the sweep's run; they may change when it goes on with an extended space."""
    tags = {
        "gridtune.directory": str(directory.resolve()),
        "gridtune.dimensions": ", ".join(facts.dimensions),
        "mlflow.note.content": facts.description,
    }
    # A trace is known by its content: two paths to the same log are one workload.
    return tags | {f"trace {name}": checksum for name, checksum in facts.workloads.items()}


def _sweep_parameters(facts: SweepFacts) -> dict[str, str]:
    return {
        "space": facts.name,
        "system": facts.system,
        "objective": ", ".join(
            f"{objective.metric} ({objective.direction})" for objective in facts.objectives
        ),
        "baseline": ", ".join(f"{name}={value_text(value)}" for name, value in facts.baseline.items())
        or "none",
        "replicates": str(facts.replicates),
    }


def _note_text(summary: Summary) -> str:
    """Return the run's description, which the UI shows as Markdown: what it is, and who won."""
    parts = [summary.facts.description.strip()] if summary.facts.description else []
    for objective, ranking in list(summary.rankings.items())[:1]:
        if objective in summary.overall:
            parts.append(ranking_markdown(summary.overall[objective], limit=_NOTE_ROWS))
        parts.append(ranking_markdown(ranking, limit=_NOTE_ROWS))
    text = ""
    for part in parts:
        if len(text) + len(part) < _NOTE_LENGTH:
            text += part + "\n"
    return text
