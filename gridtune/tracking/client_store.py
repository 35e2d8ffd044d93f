"""Writing to a tracking store through MLflow's client: for servers, and databases of unknown layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridtune.tracking.records import Dataset, Experiment, Point, RunChange, StoredRun

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

__all__ = ["ClientStore"]

#: What one request may carry: a store takes 1,000 metrics and 100 parameters or tags.
_METRICS, _OTHERS = 800, 100
_PAGE = 1000


class ClientStore:
    """A tracking store behind MLflow's client: a few requests for each run."""

    def __init__(self, client: MlflowClient) -> None:
        self._client = client

    def find_experiment(self, name: str) -> Experiment | None:
        """Return the experiment of this name, a deleted one included."""
        found = self._client.get_experiment_by_name(name)
        return None if found is None else _experiment(found)

    def create_experiment(self, name: str, artifacts: str | None, tags: Mapping[str, str]) -> Experiment:
        """Make an experiment, or return the one that another process has just made."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            self._client.create_experiment(name, artifact_location=artifacts, tags=dict(tags))
        except MlflowException:
            # Another sweep of the same space may have been quicker.
            if self.find_experiment(name) is None:
                raise
        experiment = self.find_experiment(name)
        assert experiment is not None
        return experiment

    def experiments_with(self, tag: str) -> list[tuple[Experiment, str]]:
        """Return the experiments that are not deleted and have this tag, each with its value."""
        found: list[tuple[Experiment, str]] = []
        token = None
        while True:
            page = self._client.search_experiments(max_results=_PAGE, page_token=token)
            found += [(_experiment(item), item.tags[tag]) for item in page if tag in item.tags]
            token = page.token
            if not token:
                return found

    def tag_experiment(self, experiment: Experiment, tags: Mapping[str, str]) -> None:
        """Set tags of an experiment."""
        for name, value in tags.items():
            self._client.set_experiment_tag(experiment.experiment_id, name, value)

    def find_run(self, run_id: str) -> StoredRun | None:
        """Return a run by its id."""
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            return _stored(self._client.get_run(run_id))
        except MlflowException as fault:
            if fault.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise

    def find_runs(self, experiment: Experiment, tag: str, value: str) -> list[StoredRun]:
        """Return the runs that are not deleted and have this tag, the oldest first."""
        query = f"tags.`{tag}` = '{value}'"
        runs: list[StoredRun] = []
        token = None
        while True:
            page = self._client.search_runs(
                [experiment.experiment_id],
                query,
                max_results=_PAGE,
                order_by=["start_time ASC"],
                page_token=token,
            )
            runs += [_stored(run) for run in page]
            token = page.token
            if not token:
                return runs

    def write(self, experiment: Experiment, changes: Sequence[RunChange]) -> list[StoredRun]:
        """Make and change runs, one after the other; return each as it is then."""
        return [self._write(experiment, change) for change in changes]

    def _write(self, experiment: Experiment, change: RunChange) -> StoredRun:
        client, run, tags = self._client, change.run, dict(change.tags)
        if run is None:
            # Its tags are set as it is made, which spares a request.
            made = client.create_run(
                experiment.experiment_id, start_time=change.start, run_name=change.name, tags=tags
            )
            run_id, artifacts, tags = made.info.run_id, made.info.artifact_uri, {}
        else:
            run_id, artifacts = run.run_id, run.artifacts
            tags = {name: value for name, value in tags.items() if run.tags.get(name) != value}
        if change.datasets:
            client.log_inputs(run_id, datasets=[_input(dataset) for dataset in change.datasets])
        self._log(run_id, change.points, change.new_parameters, tags)
        renamed = run is not None and run.name != change.name
        if change.status is not None or renamed:
            # A server takes a status by name, and sets no end for a run that goes on.
            name = change.name if renamed else None
            if change.status is None or change.status == "RUNNING":
                client.update_run(run_id, status=change.status, name=name)
            else:
                if renamed:
                    client.update_run(run_id, name=name)
                client.set_terminated(run_id, change.status, change.end)
        return change.applied(run_id, artifacts)

    def _log(
        self,
        run_id: str,
        points: Sequence[Point],
        parameters: Mapping[str, str],
        tags: Mapping[str, str],
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag  # noqa: PLC0415

        metrics = list(
            _chunks([Metric(point.name, point.value, point.time, point.step) for point in points], _METRICS)
        )
        values = list(_chunks([Param(*item) for item in parameters.items()], _OTHERS))
        # A digest among the tags may say that all is there, so they go last.
        marks = list(_chunks([RunTag(*item) for item in tags.items()], _OTHERS))
        parts = max(len(metrics), len(values), 1)
        for number in range(parts):
            last = marks[0] if marks and number == parts - 1 else []
            batch: tuple[list[Any], ...] = (_part(metrics, number), _part(values, number), last)
            if any(batch):
                self._client.log_batch(run_id, metrics=batch[0], params=batch[1], tags=batch[2])
        for mark in marks[1:]:
            self._client.log_batch(run_id, tags=mark)

    def upload(self, run: StoredRun, path: Path, folder: str) -> None:
        """Store a file with a run."""
        self._client.log_artifact(run.run_id, str(path), folder or None)


def _experiment(found: Any) -> Experiment:
    active = found.lifecycle_stage == "active"
    return Experiment(str(found.experiment_id), found.name, active, found.artifact_location or "")


def _stored(run: Any) -> StoredRun:
    info = run.info
    return StoredRun(
        run_id=info.run_id,
        name=info.run_name or "",
        status=info.status,
        start=info.start_time,
        artifacts=info.artifact_uri,
        parameters=dict(run.data.params),
        tags=dict(run.data.tags),
    )


def _input(dataset: Dataset) -> Any:
    from mlflow.entities import Dataset as Logged  # noqa: PLC0415
    from mlflow.entities import DatasetInput, InputTag  # noqa: PLC0415

    logged = Logged(
        name=dataset.name,
        digest=dataset.digest,
        source_type="local",
        source=dataset.source,
        profile=dataset.profile,
    )
    return DatasetInput(logged, tags=[InputTag("mlflow.data.context", "workload")])


def _part(parts: Sequence[list[Any]], number: int) -> list[Any]:
    return parts[number] if number < len(parts) else []


def _chunks(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for first in range(0, len(items), size):
        yield list(items[first : first + size])
