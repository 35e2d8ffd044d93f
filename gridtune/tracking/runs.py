"""The runs of one sweep in a tracking store: found again by their tags, made where they are missing.

Everything here may be done twice without harm. Runs are looked up by tags before they are made; a
metric's point is the same each time (its time is its run's start, its step the replicate's number), and a
store keeps equal points once; a run that says all it should is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridtune.errors import TrackingError
from gridtune.tracking.content import ConfigurationContent, clean_name, clean_text
from gridtune.tracking.curves import LearningCurve, log_curve

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

__all__ = ["SweepRuns", "now_milliseconds"]

SWEEP_TAG, KEY_TAG, DIGEST_TAG = "gridtune.sweep", "gridtune.configuration", "gridtune.logged"
STEP_TAG = "gridtune.step"
#: What one request may carry: a store takes 1,000 metrics and 100 parameters or tags.
_METRICS, _OTHERS = 800, 100
_RUNNING = "RUNNING"
#: Makes the UI show runs and their metrics first, not language models' conversations.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}


@dataclass
class _Child:
    """What is known of a configuration's run."""

    run_id: str
    start: int
    status: str
    parameters: Mapping[str, str]
    tags: dict[str, str]


class SweepRuns:
    """The parent run of a sweep and its children; used by the sending thread alone.

    Parameters
    ----------
    experiment
        The experiment's name.
    sweep_id
        Tells this sweep's parent run from all others.
    name
        What the parent run is called when it is made.
    tags
        Of every run: the code, the host.
    artifacts
        Where a new experiment's artefacts go; None where the server decides.
    """

    def __init__(
        self,
        experiment: str,
        sweep_id: str,
        *,
        name: str,
        tags: Mapping[str, str],
        artifacts: Path | None,
    ) -> None:
        self.experiment = experiment
        self.sweep_id = sweep_id
        self._name = name
        self._tags = dict(tags)
        self._artifacts = artifacts
        self.experiment_id = ""
        self.parent_id = ""
        self._children: dict[str, _Child] = {}
        #: Whether a run may have been made without an answer reaching us.
        self._unsure = True

    def open(self, client: MlflowClient, tags: Mapping[str, str], parameters: Mapping[str, str]) -> None:
        """Find or make the experiment and the parent run; set it running."""
        from mlflow.entities import Param  # noqa: PLC0415

        self.experiment_id = self._experiment(client)
        parent = self._find_parent(client)
        if parent is None:
            parent = client.create_run(
                self.experiment_id,
                run_name=self._name,
                tags={**self._tags, **_cleaned(tags), SWEEP_TAG: self.sweep_id, "gridtune.kind": "sweep"},
            )
        else:
            client.log_batch(parent.info.run_id, tags=_tags({**self._tags, **_cleaned(tags)}))
            if parent.info.status != _RUNNING:
                client.update_run(parent.info.run_id, status=_RUNNING)
        self.parent_id = parent.info.run_id
        # What a run's parameters say first is what they say; those of an extended space are in its file.
        new = {name: value for name, value in parameters.items() if name not in parent.data.params}
        client.log_batch(self.parent_id, params=[Param(*parameter) for parameter in _cleaned(new).items()])
        self._load_children(client)

    def _experiment(self, client: MlflowClient) -> str:
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        experiment = client.get_experiment_by_name(self.experiment)
        if experiment is None:
            place = (
                None if self._artifacts is None else (self._artifacts / clean_name(self.experiment)).as_uri()
            )
            try:
                experiment_id = client.create_experiment(
                    self.experiment, artifact_location=place, tags=_EXPERIMENT_TAGS
                )
                return str(experiment_id)
            except MlflowException as fault:
                # Another sweep of the same space may have been quicker.
                experiment = client.get_experiment_by_name(self.experiment)
                if experiment is None:
                    raise fault from None
        if experiment.lifecycle_stage != "active":
            raise TrackingError(
                f"the experiment {self.experiment!r} was deleted in the tracking store",
                hint="rename the search space, or restore the experiment: "
                f"`mlflow experiments restore --experiment-id {experiment.experiment_id}`",
            )
        return str(experiment.experiment_id)

    def _find_parent(self, client: MlflowClient) -> Run | None:
        query = f"tags.`{SWEEP_TAG}` = '{self.sweep_id}'"
        runs = client.search_runs([self.experiment_id], query, max_results=1, order_by=["start_time ASC"])
        return runs[0] if runs else None

    def _load_children(self, client: MlflowClient) -> None:
        query = f"tags.`mlflow.parentRunId` = '{self.parent_id}'"
        token = None
        while True:
            page = client.search_runs([self.experiment_id], query, max_results=1000, page_token=token)
            for run in page:
                self._children.setdefault(run.data.tags.get(KEY_TAG, ""), _child(run))
            token = page.token
            if not token:
                break
        self._unsure = False

    def log(self, client: MlflowClient, content: ConfigurationContent, *, final: bool, step: int = 0) -> None:
        """Log a configuration's run: what it says so far or, when `final`, all of it, and end it.

        Parameters
        ----------
        client
            Of the store.
        content
            What the run says.
        final
            Whether it is complete.
        step
            Of the aggregates: grows with the results there are, so that the latest is the last.
        """
        child = self._known(client, content.key)
        ended = child is not None and child.status != _RUNNING
        if final and child is not None and ended and child.tags.get(DIGEST_TAG) == content.digest:
            return
        tags = dict(content.tags)
        metrics = list(content.history)
        if final:
            before = "-1" if child is None else child.tags.get(STEP_TAG, "-1")
            step = max(step, int(before) + 1)
            metrics += [(name, value, step) for name, value in content.aggregates.items()]
            tags |= {DIGEST_TAG: content.digest, STEP_TAG: str(step)}
        if child is None:
            # Its tags are set as it is made, which spares a transaction. That they hold the digest before
            # the metrics are there does no harm: only a run that has ended is taken to be complete.
            child, tags = self._make(client, content, tags), {}
        # A parameter cannot change: the same trace may be known by another path meanwhile.
        new = {name: value for name, value in content.parameters.items() if name not in child.parameters}
        self._send(client, child, metrics, new, tags)
        child.parameters = {**new, **child.parameters}
        child.tags.update(tags)
        if final:
            client.set_terminated(child.run_id, content.status, now_milliseconds())
            child.status = content.status

    def log_curve(self, client: MlflowClient, key: str, curve: LearningCurve) -> None:
        """Log a cell's learning curve as a run below that of its configuration, which is there."""
        child = self._children[key]
        log_curve(client, self.experiment_id, child.run_id, curve, child.start)

    def _known(self, client: MlflowClient, key: str) -> _Child | None:
        if key not in self._children and self._unsure:
            self._load_children(client)
        return self._children.get(key)

    def _make(self, client: MlflowClient, content: ConfigurationContent, tags: Mapping[str, str]) -> _Child:
        self._unsure = True
        run = client.create_run(
            self.experiment_id,
            run_name=content.name,
            tags={**self._tags, "mlflow.parentRunId": self.parent_id, KEY_TAG: content.key, **tags},
        )
        self._unsure = False
        return self._children.setdefault(content.key, _child(run))

    @staticmethod
    def _send(
        client: MlflowClient,
        child: _Child,
        metrics: Sequence[tuple[str, float, int]],
        parameters: Mapping[str, str],
        tags: Mapping[str, str],
    ) -> None:
        from mlflow.entities import Metric, Param  # noqa: PLC0415

        points = [Metric(name, value, child.start, step) for name, value, step in metrics]
        values = [Param(name, value) for name, value in parameters.items()]
        # The digest among the tags says that all is there, so the tags go with the last part.
        parts = list(_chunks(points, _METRICS)) or [[]]
        others = list(_chunks(values, _OTHERS)) or [[]]
        for number in range(max(len(parts), len(others))):
            last = number == max(len(parts), len(others)) - 1
            client.log_batch(
                child.run_id,
                metrics=parts[number] if number < len(parts) else [],
                params=others[number] if number < len(others) else [],
                tags=_tags(tags) if last else [],
            )

    def update_parent(
        self, client: MlflowClient, metrics: Mapping[str, float], tags: Mapping[str, str], at: int
    ) -> None:
        """Set metrics (as of `at`, milliseconds) and tags of the parent run."""
        from mlflow.entities import Metric  # noqa: PLC0415

        points = [Metric(clean_name(name), value, at, 0) for name, value in metrics.items()]
        client.log_batch(self.parent_id, metrics=points, tags=_tags(_cleaned(tags)))

    def upload(self, client: MlflowClient, path: Path, folder: str, key: str | None = None) -> None:
        """Store a file as artefact of the parent, or of the run of the configuration `key`."""
        run_id = self.parent_id if key is None else self._children[key].run_id
        client.log_artifact(run_id, str(path), folder or None)

    def end(self, client: MlflowClient, status: str) -> None:
        """End the parent, and children that were left running."""
        for child in self._children.values():
            if child.status == _RUNNING:
                client.set_terminated(child.run_id, "KILLED", now_milliseconds())
                child.status = "KILLED"
        client.set_terminated(self.parent_id, status, now_milliseconds())


def _child(run: Any) -> _Child:
    info = run.info
    return _Child(info.run_id, info.start_time, info.status, dict(run.data.params), dict(run.data.tags))


def _tags(tags: Mapping[str, str]) -> list[Any]:
    from mlflow.entities import RunTag  # noqa: PLC0415

    return [RunTag(name, value) for name, value in tags.items()]


def _cleaned(tags: Mapping[str, str]) -> dict[str, str]:
    return {clean_name(name): clean_text(value) for name, value in tags.items()}


def _chunks(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for first in range(0, len(items), size):
        yield list(items[first : first + size])


def now_milliseconds() -> int:
    """Return the time as MLflow counts it."""
    return int(time.time() * 1000)
