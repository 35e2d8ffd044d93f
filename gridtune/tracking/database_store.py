"""Writing to the database of a tracking store: the runs of a whole sweep in one transaction.

A run made through MLflow's client costs tens of milliseconds, for each request is a transaction or several;
rows written together cost some hundredths of one. The rows are those that MLflow's own store writes, and the
tests compare the two. A database whose tables have other columns than those named here is left to the client.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from gridtune.tracking.records import Dataset, Experiment, Point, RunChange, StoredRun, now_milliseconds

__all__ = ["DIALECTS", "DatabaseStore", "local_folder"]

#: Databases written to directly.
DIALECTS = ("sqlite", "postgresql")
_ACTIVE = "active"
_WORKSPACE = "default"
#: Seconds to wait for another writer of a SQLite database.
_LOCK_SECONDS = 20

_metadata = sa.MetaData()


def _table(name: str, *columns: str, key: str | None = None) -> sa.Table:
    first = [sa.Column(key, sa.Integer, primary_key=True)] if key else []
    return sa.Table(name, _metadata, *first, *(sa.Column(column) for column in columns))


_EXPERIMENTS = _table(
    "experiments",
    *("name", "workspace", "artifact_location", "lifecycle_stage", "creation_time", "last_update_time"),
    key="experiment_id",
)
_EXPERIMENT_TAGS = _table("experiment_tags", "key", "value", "experiment_id")
_RUNS = _table(
    "runs",
    *("run_uuid", "name", "source_type", "source_name", "entry_point_name", "user_id", "status"),
    *("start_time", "end_time", "deleted_time", "source_version", "lifecycle_stage", "artifact_uri"),
    "experiment_id",
)
_TAGS = _table("tags", "key", "value", "run_uuid")
_PARAMS = _table("params", "key", "value", "run_uuid")
_METRICS = _table("metrics", "key", "value", "timestamp", "run_uuid", "step", "is_nan")
_LATEST = _table("latest_metrics", "key", "value", "timestamp", "step", "is_nan", "run_uuid")
_DATASETS = _table(
    "datasets",
    *("dataset_uuid", "experiment_id", "name", "digest", "dataset_source_type", "dataset_source"),
    *("dataset_schema", "dataset_profile"),
)
_INPUTS = _table(
    "inputs", "input_uuid", "source_type", "source_id", "destination_type", "destination_id", "step"
)
_INPUT_TAGS = _table("input_tags", "input_uuid", "name", "value")

_Rows = list[dict[str, Any]]


class DatabaseStore:
    """A tracking store whose database is written to directly.

    Parameters
    ----------
    uri
        As SQLAlchemy takes it.
    """

    def __init__(self, uri: str) -> None:
        dialect = uri.partition(":")[0].partition("+")[0]
        arguments = {"timeout": _LOCK_SECONDS} if dialect == "sqlite" else {}
        self._engine = sa.create_engine(uri, pool_pre_ping=True, connect_args=arguments)
        self._insert: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert

    def fits(self) -> bool:
        """Whether the tables are there and have the columns that are written here, and no others."""
        there = sa.inspect(self._engine)
        names = set(there.get_table_names())
        return all(
            table.name in names
            and {column["name"] for column in there.get_columns(table.name)} == set(table.columns.keys())
            for table in _metadata.tables.values()
        )

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def find_experiment(self, name: str) -> Experiment | None:
        """Return the experiment of this name, a deleted one included."""
        table = _EXPERIMENTS.c
        query = sa.select(table.experiment_id, table.lifecycle_stage, table.artifact_location).where(
            table.name == name, table.workspace == _WORKSPACE
        )
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        return Experiment(str(row[0]), name, row[1] == _ACTIVE, row[2] or "")

    def create_experiment(self, name: str, artifacts: str | None, tags: Mapping[str, str]) -> Experiment:
        """Make an experiment, or return the one that another process has just made."""
        now = now_milliseconds()
        values = {
            "name": name,
            "workspace": _WORKSPACE,
            "artifact_location": artifacts,
            "lifecycle_stage": _ACTIVE,
            "creation_time": now,
            "last_update_time": now,
        }
        try:
            with self._engine.begin() as connection:
                made = connection.execute(sa.insert(_EXPERIMENTS).values(values))
                (key,) = made.inserted_primary_key or (None,)
                experiment = Experiment(str(key), name, active=True, artifacts=artifacts or "")
                self._set_experiment_tags(connection, experiment, tags)
                return experiment
        except IntegrityError:
            found = self.find_experiment(name)
            if found is None:
                raise
            return found

    def experiments_with(self, tag: str) -> list[tuple[Experiment, str]]:
        """Return the experiments that are not deleted and have this tag, each with its value."""
        table, tags = _EXPERIMENTS.c, _EXPERIMENT_TAGS.c
        query = (
            sa.select(table.experiment_id, table.name, table.artifact_location, tags.value)
            .join(_EXPERIMENT_TAGS, tags.experiment_id == table.experiment_id)
            .where(table.workspace == _WORKSPACE, table.lifecycle_stage == _ACTIVE, tags.key == tag)
            .order_by(table.experiment_id)
        )
        with self._engine.connect() as connection:
            return [
                (Experiment(str(row[0]), row[1], active=True, artifacts=row[2] or ""), row[3])
                for row in connection.execute(query)
            ]

    def tag_experiment(self, experiment: Experiment, tags: Mapping[str, str]) -> None:
        """Set tags of an experiment."""
        with self._engine.begin() as connection:
            self._set_experiment_tags(connection, experiment, tags)

    def _set_experiment_tags(
        self, connection: sa.Connection, experiment: Experiment, tags: Mapping[str, str]
    ) -> None:
        key = int(experiment.experiment_id)
        rows = [{"key": name, "value": value, "experiment_id": key} for name, value in tags.items()]
        self._put(connection, _EXPERIMENT_TAGS, rows, ("key", "experiment_id"), ("value",))

    def find_run(self, run_id: str) -> StoredRun | None:
        """Return a run by its id."""
        found = self._runs(sa.select(_RUNS.c.run_uuid).where(_RUNS.c.run_uuid == run_id))
        return found[0] if found else None

    def find_runs(self, experiment: Experiment, tag: str, value: str) -> list[StoredRun]:
        """Return the runs that are not deleted and have this tag, the oldest first."""
        runs = _RUNS.c
        return self._runs(
            sa.select(runs.run_uuid)
            .join(_TAGS, _TAGS.c.run_uuid == runs.run_uuid)
            .where(
                runs.experiment_id == int(experiment.experiment_id),
                runs.lifecycle_stage == _ACTIVE,
                _TAGS.c.key == tag,
                _TAGS.c.value == value,
            )
        )

    def _runs(self, wanted: sa.Select[tuple[Any]]) -> list[StoredRun]:
        runs = _RUNS.c
        columns = (runs.run_uuid, runs.name, runs.status, runs.start_time, runs.artifact_uri)
        query = sa.select(*columns).where(runs.run_uuid.in_(wanted)).order_by(runs.start_time)
        with self._engine.connect() as connection:
            found = {
                row[0]: StoredRun(row[0], row[1] or "", row[2], row[3], row[4] or "", {}, {})
                for row in connection.execute(query)
            }
            for table, of in ((_PARAMS, "parameters"), (_TAGS, "tags")):
                items = sa.select(table.c.run_uuid, table.c.key, table.c.value)
                for run_id, name, text in connection.execute(items.where(table.c.run_uuid.in_(wanted))):
                    getattr(found[run_id], of)[name] = text
        return list(found.values())

    def write(self, experiment: Experiment, changes: Sequence[RunChange]) -> list[StoredRun]:
        """Make and change runs, all in one transaction; return each as it is then."""
        stored = [_after(experiment, change) for change in changes]
        pairs = list(zip(changes, stored, strict=True))
        with self._engine.begin() as connection:
            self._add(connection, _RUNS, [_run_row(experiment, *pair) for pair in pairs if not pair[0].run])
            tags: _Rows = []
            for change, run in pairs:
                before = change.run.tags if change.run is not None else {}
                after = {**change.tags, "mlflow.runName": change.name}
                tags += [
                    {"key": name, "value": value, "run_uuid": run.run_id}
                    for name, value in after.items()
                    if before.get(name) != value
                ]
            self._put(connection, _TAGS, tags, ("key", "run_uuid"), ("value",))
            parameters = [
                {"key": name, "value": value, "run_uuid": run.run_id}
                for change, run in pairs
                for name, value in change.new_parameters.items()
            ]
            self._add(connection, _PARAMS, parameters)
            self._log_metrics(connection, pairs)
            self._log_inputs(connection, experiment, pairs)
            self._update_runs(connection, pairs)
        return stored

    def _log_metrics(self, connection: sa.Connection, pairs: Sequence[tuple[RunChange, StoredRun]]) -> None:
        rows = [_metric_row(run.run_id, point) for change, run in pairs for point in change.points]
        self._add(connection, _METRICS, rows)
        latest: dict[tuple[str, str], dict[str, Any]] = {}
        for row in rows:
            key = (row["run_uuid"], row["key"])
            if key not in latest or _age(row) > _age(latest[key]):
                latest[key] = row
        values = ("value", "timestamp", "step", "is_nan")
        self._put(connection, _LATEST, latest.values(), ("key", "run_uuid"), values, newer=True)

    def _log_inputs(
        self,
        connection: sa.Connection,
        experiment: Experiment,
        pairs: Sequence[tuple[RunChange, StoredRun]],
    ) -> None:
        key = int(experiment.experiment_id)
        datasets = {
            (dataset.name, dataset.digest): dataset for change, _ in pairs for dataset in change.datasets
        }
        self._add(connection, _DATASETS, [_dataset_row(key, dataset) for dataset in datasets.values()])
        columns = _DATASETS.c
        query = sa.select(columns.name, columns.digest, columns.dataset_uuid)
        query = query.where(columns.experiment_id == key, columns.name.in_({name for name, _ in datasets}))
        ids = {(name, digest): value for name, digest, value in connection.execute(query)} if datasets else {}
        inputs: _Rows = []
        for change, run in pairs:
            for dataset in change.datasets:
                source = ids[dataset.name, dataset.digest]
                # An id that follows from the two ends: a second time is the same row.
                own = uuid.uuid5(uuid.NAMESPACE_OID, f"{source} {run.run_id}").hex
                ends = {"source_type": "DATASET", "source_id": source, "destination_type": "RUN"}
                inputs.append({"input_uuid": own, **ends, "destination_id": run.run_id, "step": 0})
        self._add(connection, _INPUTS, inputs)
        context = {"name": "mlflow.data.context", "value": "workload"}
        self._add(connection, _INPUT_TAGS, [{"input_uuid": row["input_uuid"], **context} for row in inputs])

    def _update_runs(self, connection: sa.Connection, pairs: Sequence[tuple[RunChange, StoredRun]]) -> None:
        states: _Rows = []
        names: _Rows = []
        for change, run in pairs:
            if change.status is not None:
                states.append({"run": run.run_id, "new_status": change.status, "new_end": change.end})
            if change.run is not None and change.run.name != change.name:
                names.append({"run": run.run_id, "new_name": change.name})
        own = _RUNS.c.run_uuid == sa.bindparam("run")
        if states:
            query = sa.update(_RUNS).where(own)
            query = query.values(status=sa.bindparam("new_status"), end_time=sa.bindparam("new_end"))
            connection.execute(query, states)
        if names:
            connection.execute(sa.update(_RUNS).where(own).values(name=sa.bindparam("new_name")), names)

    def _add(self, connection: sa.Connection, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
        """Insert rows; leave those that are there already."""
        every = list(rows)
        if every:
            connection.execute(self._insert(table).on_conflict_do_nothing(), every)

    def _put(
        self,
        connection: sa.Connection,
        table: sa.Table,
        rows: Iterable[dict[str, Any]],
        key: Sequence[str],
        values: Sequence[str],
        *,
        newer: bool = False,
    ) -> None:
        """Insert rows or replace the values of those that are there (if `newer`, by metrics' order)."""
        every = list(rows)
        if not every:
            return
        query = self._insert(table)
        new = query.excluded
        where = None
        if newer:
            order = ("step", "timestamp", "value")
            where = sa.tuple_(*(new[name] for name in order)) > sa.tuple_(*(table.c[name] for name in order))
        query = query.on_conflict_do_update(
            index_elements=list(key), set_={name: new[name] for name in values}, where=where
        )
        connection.execute(query, every)

    def upload(self, run: StoredRun, path: Path, folder: str) -> None:
        """Store a file with a run."""
        target = local_folder(run.artifacts)
        if target is None:
            from mlflow.store.artifact.artifact_repository_registry import (  # noqa: PLC0415
                get_artifact_repository,
            )

            get_artifact_repository(run.artifacts).log_artifact(str(path), folder or None)
            return
        target = target / folder
        target.mkdir(parents=True, exist_ok=True)
        draft = target / f".{path.name}.{os.getpid()}"
        shutil.copyfile(path, draft)
        draft.replace(target / path.name)


def local_folder(uri: str) -> Path | None:
    """Return the folder that an artefact URI stands for; None where it is not on this machine."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    return Path(uri) if not parts.scheme and Path(uri).is_absolute() else None


def _after(experiment: Experiment, change: RunChange) -> StoredRun:
    if change.run is not None:
        return change.applied(change.run.run_id, change.run.artifacts)
    run_id = uuid.uuid4().hex
    return change.applied(run_id, f"{experiment.artifacts.rstrip('/')}/{run_id}/artifacts")


def _run_row(experiment: Experiment, change: RunChange, run: StoredRun) -> dict[str, Any]:
    return {
        "run_uuid": run.run_id,
        "name": change.name,
        "source_type": "UNKNOWN",
        "source_name": "",
        "entry_point_name": "",
        "user_id": change.tags.get("mlflow.user", "unknown"),
        "status": "RUNNING",
        "start_time": change.start,
        "end_time": None,
        "deleted_time": None,
        "source_version": "",
        "lifecycle_stage": _ACTIVE,
        "artifact_uri": run.artifacts,
        "experiment_id": int(experiment.experiment_id),
    }


def _metric_row(run_id: str, point: Point) -> dict[str, Any]:
    return {
        "key": point.name,
        "value": point.value,
        "timestamp": point.time,
        "run_uuid": run_id,
        "step": point.step,
        "is_nan": False,
    }


def _age(row: Mapping[str, Any]) -> tuple[int, int, float]:
    return row["step"], row["timestamp"], row["value"]


def _dataset_row(experiment: int, dataset: Dataset) -> dict[str, Any]:
    return {
        "dataset_uuid": uuid.uuid4().hex,
        "experiment_id": experiment,
        "name": dataset.name,
        "digest": dataset.digest,
        "dataset_source_type": "local",
        "dataset_source": dataset.source,
        "dataset_schema": None,
        "dataset_profile": dataset.profile,
    }
