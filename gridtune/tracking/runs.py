"""A run of a tracking store with its children: found again by their tags, made where they are missing.

All writing is done here, by MLflow's client, in the process that `gridtune.tracking.outbox` starts.
Everything may be done twice without harm. Runs are looked up by tags before they are made; a metric's point
is the same each time, and a store keeps equal points once; a run that has all its content is left alone.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gridtune.errors import TrackingError
from gridtune.tracking.store import artifact_root, connect

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

RUNNING = "RUNNING"
#: The tag with the id of the configuration whose run it is.
KEY_TAG = "gridtune.configuration"
_LOGGED_TAG, _CELL_TAG, _STEP_TAG = "gridtune.logged", "gridtune.cell", "gridtune.step"
_PARENT = "mlflow.parentRunId"
#: Makes the UI show runs and their metrics first, not language models' conversations.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
#: The limits of a request: a store takes 1,000 metrics and 100 parameters or tags, and finds so many things.
_METRICS, _OTHERS, MOST_FOUND = 800, 100, 50_000
#: MLflow's limits of texts and of digests, with room to spare.
_LONGEST_VALUE, _LONGEST_NAME, _LONGEST_DIGEST = 5000, 240, 16
_FORBIDDEN = re.compile(r"[^\w\-. :/]")


def clean_name(name: str) -> str:
    """Return a name that MLflow accepts for a metric, parameter or tag."""
    return _FORBIDDEN.sub("_", name)


def clean_text(text: str, longest: int = _LONGEST_VALUE) -> str:
    """Return a text no longer than MLflow takes."""
    return text if len(text) <= longest else text[: longest - 2] + " …"


class Point(NamedTuple):
    """One value of a metric. Of equal points a store keeps one."""

    name: str
    value: float
    step: int


@dataclass(frozen=True)
class RootRun:
    """The run of a sweep, a training or a tuning.

    Attributes
    ----------
    experiment
        The experiment's name.
    kind, key
        "sweep" or "training", and the id by which the run is found again.
    name
        Name of the run when it is made.
    tags, parameters
        Texts by name.
    traces
        Reference to SHA-256 of the logs.
    at
        When a new run began, in milliseconds.
    """

    experiment: str
    kind: str
    key: str
    name: str
    tags: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    traces: Mapping[str, str] = field(default_factory=dict)
    at: int = field(default_factory=lambda: int(time.time() * 1000))


@dataclass(frozen=True)
class RunContent:
    """The content of a child: the run of a configuration on one workload, of a trial, or of a training cell.

    Attributes
    ----------
    key
        The configuration's id; one run per sweep bears it.
    name
        Name of the run.
    tags, parameters
        Texts by name.
    history
        Points of every finished replicate (the step is its number), or of every iteration.
    values
        Metric to its value over the replicates: the mean under the metric's plain name, and where there is
        a ranking its other statistics and the place.
    traces
        Reference to SHA-256 of the logs that were simulated.
    status
        FINISHED, FAILED (a replicate failed) or KILLED (one has no result).
    """

    key: str
    name: str
    tags: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    history: Sequence[Point] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    traces: Mapping[str, str] = field(default_factory=dict)
    status: str = "FINISHED"

    @property
    def digest(self) -> str:
        """A checksum of the content, by which a run that has it is recognised."""
        content: list[Any] = [self.name, self.status, self.history]
        content += [sorted(items.items()) for items in (self.tags, self.values, self.traces)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]


@dataclass
class _Run:
    """A run as the store has it; `start` is in milliseconds."""

    run_id: str
    name: str
    status: str
    start: int
    parameters: dict[str, str]
    tags: dict[str, str]


class RunTree:
    """A run and its children in a store.

    Parameters
    ----------
    uri
        The store.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._experiment = ""
        self._tags: dict[str, str] = {}
        self._root: _Run | None = None
        self._children: dict[str, _Run] = {}
        #: Whether a run may have been made without an answer reaching us.
        self._unsure = True

    def connect(self) -> None:
        """Make the client, and a SQLite store that is not there yet."""
        _ = self._client

    @cached_property
    def _client(self) -> MlflowClient:
        return connect(self._uri)

    @property
    def _opened(self) -> _Run:
        if self._root is None:
            raise RuntimeError("the run has not been opened")
        return self._root

    def open(self, root: RootRun) -> tuple[str, str]:
        """Find or make the experiment and the run; set it running; return the ids of both.

        Raises
        ------
        TrackingError
            If the experiment was deleted.
        """
        self._experiment = self._open_experiment(root.experiment)
        self._tags = {
            "mlflow.user": _user(),
            "mlflow.source.name": f"gridtune {root.experiment}",
            "mlflow.source.type": "LOCAL",
        }
        key_tag = f"gridtune.{root.kind}"
        tags = self._tags | {clean_name(name): clean_text(value) for name, value in root.tags.items()}
        tags |= {key_tag: root.key, "gridtune.kind": root.kind}
        # The first parameters of a run stay; those of an extended space are in its file.
        parameters = {clean_name(name): clean_text(value) for name, value in root.parameters.items()}
        stored = self._find(key_tag, root.key)
        run = stored[0] if stored else self._create(root.name, root.at, tags)
        self._log_inputs(run, root.traces)
        self._write(run, tags, parameters, status=RUNNING)
        self._root = run
        self._load_children()
        return self._experiment, run.run_id

    def _open_experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        stored = self._client.get_experiment_by_name(name)
        if stored is None:
            artifacts = artifact_root(self._uri)
            place = None if artifacts is None else (artifacts / clean_name(name)).as_uri()
            try:
                made: str = self._client.create_experiment(name, place, dict(_EXPERIMENT_TAGS))
                return made
            except MlflowException:
                # Another sweep of the same space may have been quicker.
                stored = self._client.get_experiment_by_name(name)
                if stored is None:
                    raise
        if stored.lifecycle_stage != "active":
            raise TrackingError(
                f"the experiment {name!r} was deleted in the tracking store",
                hint="rename the search space, or restore the experiment: "
                f"`mlflow experiments restore --experiment-id {stored.experiment_id}`",
            )
        return str(stored.experiment_id)

    def _load_children(self) -> None:
        self._children = {}
        for run in self._find(_PARENT, self._opened.run_id):
            self._children.setdefault(run.tags.get(KEY_TAG, ""), run)
        self._unsure = False

    def existing(self, keys: Sequence[str]) -> list[str]:
        """Return those keys of children that have a run."""
        if self._unsure:
            self._load_children()
        return [key for key in keys if key in self._children]

    def log(self, contents: Sequence[RunContent], *, final: bool, at: int) -> None:
        """Log children: their content so far or, when `final`, all of it, and end them.

        Parameters
        ----------
        contents
            In the order in which the UI is to list them.
        final
            True if they are complete.
        at
            When they became so, in milliseconds: the same for every attempt.
        """
        self.existing(())
        # If writing fails, some of the runs may have been made.
        self._unsure = True
        for place, content in enumerate(contents):
            # The UI lists the latest first.
            self._log_child(content, self._children.get(content.key), final=final, at=at, start=at - place)
        self._unsure = False

    def _log_child(self, content: RunContent, run: _Run | None, *, final: bool, at: int, start: int) -> None:
        digest, _, logged = (run.tags.get(_LOGGED_TAG, "") if run is not None else "").partition(" ")
        new = digest != content.digest
        if run is not None and not new and (not final or run.status != RUNNING):
            return
        # Of values with the same step a store shows that with the latest time.
        at = max(at, int(logged or 0) + 1) if new else int(logged)
        tags = {**self._tags, _PARENT: self._opened.run_id, KEY_TAG: content.key, **content.tags}
        if run is None:
            run = self._children[content.key] = self._create(content.name, start, tags)
            self._log_inputs(run, content.traces)
        # A run that failed once may be complete now.
        tags |= {name: "" for name in ("failed", "error") if run.tags.get(name) and name not in content.tags}
        # The digest goes last: a run that bears it has all.
        tags[_LOGGED_TAG] = f"{content.digest} {at}"
        # The UI lists metrics as they come, and compares runs by the first.
        points = [(at, Point(name, value, 0)) for name, value in content.values.items()]
        points += [(run.start, Point(*point)) for point in content.history]
        if run.name != content.name:
            self._client.update_run(run.run_id, name=content.name)
            run.name = content.name
        self._write(
            run, tags, content.parameters, points, status=content.status if final else RUNNING, end=at
        )

    def log_curve(
        self, parent: str, content: RunContent, at: int, files: Sequence[tuple[Path, str]] = ()
    ) -> None:
        """Log a cell's learning curve as a run below that of its configuration, where it has one.

        A run that has ended has all of it already.

        Parameters
        ----------
        parent, content, at
            The configuration's key; the curve; when it became complete, in milliseconds.
        files
            Files and folders to store with it, each with its folder among the artefacts.
        """
        child = self._children.get(parent)
        if child is None:
            return
        below = self._find(_CELL_TAG, content.key)
        run = next((run for run in below if run.tags.get(_PARENT) == child.run_id), None)
        if run is None:
            tags = {**self._tags, **content.tags, _PARENT: child.run_id, _CELL_TAG: content.key}
            run = self._create(content.name, at, tags)
        if run.status == RUNNING:
            for path, folder in files:
                store = self._client.log_artifacts if path.is_dir() else self._client.log_artifact
                store(run.run_id, str(path), folder)
            points = [(child.start, Point(*point)) for point in content.history]
            self._write(run, {}, {}, points, status=content.status, end=at)

    def log_step(self, step: int, values: Mapping[str, float], at: int) -> None:
        """Add a step to the root's curves, unless it has that step already."""
        if step > int(self._opened.tags.get(_STEP_TAG, -1)):
            points = [(at, Point(name, value, step)) for name, value in values.items()]
            self._write(self._opened, {_STEP_TAG: str(step)}, {}, points)

    def update(self, tags: Mapping[str, str]) -> None:
        """Set tags of the root."""
        self._write(self._opened, {clean_name(name): clean_text(value) for name, value in tags.items()}, {})

    def describe(self, tags: Mapping[str, str]) -> None:
        """Set tags of the experiment."""
        for name, value in {**_EXPERIMENT_TAGS, **tags}.items():
            self._client.set_experiment_tag(self._experiment, name, value)

    def upload(self, path: Path, folder: str, key: str | None = None) -> None:
        """Store a file with the root, or with the child `key`, if there is one."""
        run = self._opened if key is None else self._children.get(key)
        if run is not None:
            self._client.log_artifact(run.run_id, str(path), folder or None)

    def end(self, status: str, at: int) -> None:
        """End the root, and children that were left running."""
        for run in self._children.values():
            if run.status == RUNNING:
                self._write(run, {}, {}, status="KILLED", end=at)
        self._write(self._opened, {}, {}, status=status, end=at)

    def _find(self, tag: str, value: str) -> list[_Run]:
        """Return the experiment's runs that are not deleted and have this tag, the oldest first."""
        found = self._client.search_runs(
            [self._experiment],
            f"tags.`{tag}` = '{value}'",
            max_results=MOST_FOUND,
            order_by=["start_time ASC"],
        )
        return [
            _Run(
                *(run.info.run_id, run.info.run_name or "", run.info.status, run.info.start_time),
                *(dict(run.data.params), dict(run.data.tags)),
            )
            for run in found
        ]

    def _create(self, name: str, start: int, tags: Mapping[str, str]) -> _Run:
        made = self._client.create_run(self._experiment, start_time=start, run_name=name, tags=dict(tags))
        return _Run(made.info.run_id, name, RUNNING, start, {}, dict(tags))

    def _log_inputs(self, run: _Run, traces: Mapping[str, str]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag  # noqa: PLC0415

        context = [InputTag("mlflow.data.context", "workload")]
        datasets = [
            Dataset(
                name=clean_text(Path(reference).name or reference, _LONGEST_NAME),
                digest=checksum[:_LONGEST_DIGEST],
                source_type="local",
                source=json.dumps({"uri": reference}),
                profile=json.dumps({"sha256": checksum}),
            )
            for reference, checksum in traces.items()
        ]
        if datasets:
            self._client.log_inputs(run.run_id, [DatasetInput(dataset, context) for dataset in datasets])

    def _write(
        self,
        run: _Run,
        tags: Mapping[str, str],
        parameters: Mapping[str, str],
        points: Sequence[tuple[int, Point]] = (),
        *,
        status: str | None = None,
        end: int | None = None,
    ) -> None:
        """Add to a run; all of it may be there already. A point comes with its time in milliseconds."""
        from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415

        metrics = _chunks([Metric(name, value, at, step) for at, (name, value, step) in points], _METRICS)
        # A parameter cannot change: the same log may have another path meanwhile.
        new = {name: value for name, value in parameters.items() if name not in run.parameters}
        params = _chunks([Param(*item) for item in new.items()], _OTHERS)
        changed = {name: value for name, value in tags.items() if run.tags.get(name) != value}
        marks = _chunks([RunTag(*item) for item in changed.items()], _OTHERS)
        *firsts, (metric, param) = list(zip_longest(metrics, params, fillvalue=())) or [((), ())]
        for batch in firsts:
            self._client.log_batch(run.run_id, *batch)
        for mark in marks or ([()] if metric or param else []):
            self._client.log_batch(run.run_id, metric, param, mark)
            metric = param = ()
        run.parameters |= new
        run.tags |= changed
        if status is not None and (status != run.status or status != RUNNING):
            # A server takes a status by name, and sets no end for a run that goes on.
            if status == RUNNING:
                self._client.update_run(run.run_id, status=status)
            else:
                self._client.set_terminated(run.run_id, status, end)
            run.status = status


def _chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return "unknown"
