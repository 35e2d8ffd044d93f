"""Sending one run to a tracking store, the outcome, and the address of its page."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gridtune
from gridtune.core.cells import content_id, finite_json
from gridtune.errors import without_secrets
from gridtune.report.facts import write_json
from gridtune.report.labels import value_text
from gridtune.storage import network_reason
from gridtune.tracking.checkpoints import CHECKPOINTS
from gridtune.tracking.outbox import Outbox, StoreProcess
from gridtune.tracking.runs import MOST_FOUND, RootRun, RunTree, clean_name
from gridtune.tracking.store import tracking_uri

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

#: Seconds of nothing but failures after which the store is given up.
_PATIENCE_S = 30.0
#: The key of the view that shows the ranking of an experiment's latest sweep, and the tag that has its state.
_RANKING_VIEW = "ranking"
RANKING_VIEW_TAG = f"mlflow.sharedViewState.{_RANKING_VIEW}"
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
    made = {
        experiment.experiment_id: json.loads(experiment.tags[RANKING_VIEW_TAG])["createdAt"]
        for experiment in client.search_experiments(max_results=MOST_FOUND)
        if RANKING_VIEW_TAG in experiment.tags and name in (None, experiment.name)
    }
    if made:
        return ranking_address(max(made, key=made.__getitem__), server)
    return f"{server}#/experiments?{_WORKFLOW}" if name is None else None


@dataclass(frozen=True)
class TrackedRun:
    """The run of a sweep or a training in a tracking store, and the part of it that could not be sent.

    Attributes
    ----------
    uri
        The store.
    unsent
        Names of what could not be sent, in order.
    fault
        Why, or None.
    remedy
        The command that sends it later.
    experiment_id, run_id
        Ids of the run, "" where the store was never reached.
    """

    uri: str
    unsent: Sequence[str]
    fault: BaseException | None
    remedy: str
    experiment_id: str = ""
    run_id: str = ""

    @property
    def complete(self) -> bool:
        """True if everything is in the store."""
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
        return ranking_address(self.experiment_id, f"{self.shown_uri.rstrip('/')}/")

    def checkpoint(self, name: str) -> str:
        """Return the URI of a training's checkpoint, as systems take it (`checkpoint=runs:/…`)."""
        return f"runs:/{self.run_id}/{CHECKPOINTS}/{name}"

    @property
    def message(self) -> str:
        """Where the run is, or why it is not complete and how to send the rest, in a line or two."""
        if self.complete:
            return f"tracked in {self.shown_uri}"
        reason = network_reason(self.fault) if self.fault else "it was too slow"
        return f"{len(self.unsent)} items were not sent to {self.shown_uri}: {reason}\n{self.remedy}"

    @property
    def lines(self) -> list[str]:
        """The message, and how to open the run where all of it is there."""
        return [self.message, *([f"look at every run: {self.address or self.command}"] * self.complete)]


class RunOutbox(Outbox):
    """The outbox of one run: things are sent with a `RunTree` in a process beside.

    Parameters
    ----------
    uri
        The tracking store; by default that of the environment, else SQLite in the working directory.
    warn
        Called with a sentence when the store cannot be reached.
    busy
        The work that continues meanwhile, for that sentence: "sweep" or "training".

    Attributes
    ----------
    uri
        The store.
    ids
        Of the experiment and of the run; "" until the store is reached.
    """

    def __init__(self, uri: str | None, warn: Callable[[str], None] | None, busy: str) -> None:
        self.uri, self.ids = tracking_uri(uri), ("", "")

        def on_trouble(fault: BaseException) -> None:
            if warn is not None:
                shown, reason = without_secrets(self.uri), network_reason(fault)
                warn(f"the tracking store {shown} cannot be reached, the {busy} goes on: {reason}")

        process = StoreProcess(self.uri)
        super().__init__(process.connect, on_trouble, process.close)

    def open(self, name: str, root: RootRun) -> None:
        """Find or make the run. Comes before everything else."""

        def send(runs: RunTree) -> None:
            self.ids = runs.open(root)

        self.put(name, send)

    def end(self, name: str, status: str, at: int) -> None:
        """End the run with FINISHED, FAILED or KILLED, at a time in milliseconds."""
        self.put(name, methodcaller("end", status, at))

    def finish(self, patience: float, remedy: str = "the same command sends them") -> TrackedRun:
        """Wait until everything is sent, and close.

        Parameters
        ----------
        patience
            Seconds of nothing but failures after which the store is given up.
        remedy
            The command that sends the rest later.
        """
        self.drain(patience)
        run = TrackedRun(self.uri, self.unsent, self.fault, remedy, *self.ids)
        self.close()
        return run


def track_once(
    experiment: str,
    name: str,
    key: str,
    *,
    metrics: Mapping[str, float],
    parameters: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    traces: Mapping[str, str] | None = None,
    files: Iterable[Path] = (),
    uri: str | None = None,
) -> TrackedRun:
    """Write a finished run with its metrics and files, and wait until it is in the store.

    Parameters
    ----------
    experiment, name
        The experiment's name, and what the run is called.
    key
        Identifies the run: the same key is the same run.
    metrics
        Values that are not finite are left out.
    parameters, tags, traces
        Of the run; reference to SHA-256 of the logs.
    files
        Artefacts.
    uri
        The tracking store; by default that of the environment, else SQLite in the working directory.
    """
    at = int(time.time() * 1000)
    texts = {name: value_text(value) for name, value in (parameters or {}).items()}
    values = {clean_name(name): float(value) for name, value in metrics.items() if math.isfinite(value)}
    outbox = RunOutbox(uri, None, "command")
    outbox.open("the run", RootRun(experiment, "run", key, name, tags or {}, texts, traces or {}, at))
    outbox.put("its metrics", methodcaller("log_step", 0, values, at))
    for file in files:
        outbox.put(f"the file {file.name}", methodcaller("upload", file.resolve(), ""))
    outbox.end("its end", "FINISHED", at)
    return outbox.finish(_PATIENCE_S)


def track_answer(
    question: str,
    log: str,
    asked: Mapping[str, Any],
    answer: Mapping[str, Any],
    *,
    files: Iterable[Path] = (),
    uri: str | None = None,
) -> TrackedRun:
    """Write an answer as a finished run; the same answer to the same question is the same run.

    Parameters
    ----------
    question
        The command, such as "slurm whatif": the experiment's name.
    log
        The name of the log.
    asked
        The arguments.
    answer
        The answer in JSON's types: its numbers are metrics (`classes.wide.changed`), its advice and trust
        tags, and all of it the artefact `answer.json`.
    files
        Pages and other files, artefacts too.
    uri
        The tracking store; by default that of the environment, else SQLite in the working directory.
    """
    content = finite_json(answer)
    parameters = {
        name: ", ".join(map(str, value)) if isinstance(value, tuple | list) else value
        for name, value in asked.items()
    }
    whole = {**content, **(content.get("answer") or content.get("judged") or content.get("chosen") or {})}
    trust = whole.get("trust") or {}
    told = {"advice": whole.get("advice"), "gain": whole.get("gain"), "trust": ": ".join(trust.values())}
    tags = {name: str(text) for name, text in told.items() if text}
    with tempfile.TemporaryDirectory() as folder:
        file = write_json(content, Path(folder, "answer.json"))
        return track_once(
            question,
            f"{log} {datetime.now():%Y-%m-%d %H:%M}",
            content_id([question, log, {name: str(value) for name, value in parameters.items()}, content]),
            metrics=dict(_numbers(content)),
            parameters=parameters,
            tags={**tags, "gridtune.version": gridtune.__version__},
            files=[file, *files],
            uri=uri,
        )


def _numbers(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in nested mappings by their names joined with dots, and the two ends of intervals."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _numbers(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, list) and len(content) == 2:
        yield from _numbers(dict(zip(("low", "high"), content, strict=True)), name)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield name, float(content)
