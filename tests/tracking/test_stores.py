"""Both ways of writing to a store: directly to its database, and through MLflow's client."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gridtune.tracking import store as store_module
from gridtune.tracking.client_store import ClientStore
from gridtune.tracking.content import datasets_of
from gridtune.tracking.database_store import DatabaseStore
from gridtune.tracking.records import Point, RunChange, RunStore
from gridtune.tracking.store import connect, is_store, make_database, open_store

pytestmark = pytest.mark.integration

#: Columns whose values differ each time: the time now, or a random id.
_MADE_UP = {"creation_time", "last_update_time", "dataset_uuid", "input_uuid", "source_id"}


def write(store: RunStore, artifacts: Path) -> None:
    """Make an experiment with a parent and a child, go on with both, end them; some of it twice."""
    experiment = store.create_experiment("orders", artifacts.as_uri(), {"mlflow.note.content": "Which?"})
    assert store.create_experiment("orders", artifacts.as_uri(), {}).experiment_id == experiment.experiment_id
    datasets = datasets_of({"a/log.swf": "ab" * 32, "b/log.swf": "cd" * 32})
    (parent,) = store.write(
        experiment, [RunChange("parent", start=5, tags={"mlflow.user": "x", "k": "1"}, datasets=datasets)]
    )
    points = [Point("wait_mean", 3.0, 0, 9), Point("wait_mean.replicates", 2.5, 1, 7)]
    child = RunChange(
        "child", start=7, tags={"k": "2"}, parameters={"order": "sjf"}, points=points, datasets=datasets[:1]
    )
    (run,) = store.write(experiment, [child])
    later = [Point("wait_mean", 2.0, 0, 12), Point("wait_mean", 4.0, 0, 11), *points]
    change = RunChange(
        "renamed",
        run,
        tags={"k": "3"},
        parameters={"order": "lost", "n": "1"},
        points=later,
        status="FAILED",
        end=20,
    )
    for _ in range(2):
        (run,) = store.write(experiment, [change])
    store.write(experiment, [RunChange("parent", parent, status="FINISHED", end=30)])
    store.tag_experiment(experiment, {"mlflow.note.content": "This."})
    store.upload(run, Path(__file__), "code")


def rows(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of all tables, runs by their name."""
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    runs = {row["run_uuid"]: row["name"] for row in tables["runs"]}
    tables["experiments"] = [row for row in tables["experiments"] if row["name"] != "Default"]
    return {
        name: sorted(
            tuple(
                (column, _without_ids(value, runs))
                for column, value in dict(row).items()
                if column not in _MADE_UP
            )
            for row in found
        )
        for name, found in tables.items()
    }


def _without_ids(value: Any, runs: dict[str, str]) -> Any:
    for run_id, name in runs.items():
        value = value.replace(run_id, name) if isinstance(value, str) else value
    return value


def test_a_database_written_to_directly_holds_what_the_client_would_have_written(
    empty_store: bytes, tmp_path: Path
) -> None:
    stores: dict[str, RunStore] = {}
    for name in ("direct", "client"):
        (tmp_path / f"{name}.db").write_bytes(empty_store)
    stores["direct"] = DatabaseStore(f"sqlite:///{tmp_path}/direct.db")
    stores["client"] = ClientStore(connect(f"sqlite:///{tmp_path}/client.db"))
    for store in stores.values():
        write(store, tmp_path / "artefacts")
    direct, client = (rows(tmp_path / f"{name}.db") for name in stores)
    assert direct.keys() == client.keys()
    for table, content in client.items():
        assert direct[table] == content, table
    assert len(client["latest_metrics"]) == 2
    assert len(list((tmp_path / "artefacts").glob("*/artifacts/code/test_stores.py"))) == 2


def test_what_is_found_again_is_the_same_either_way(store_uri: str, tmp_path: Path) -> None:
    stores: list[RunStore] = [DatabaseStore(store_uri), ClientStore(connect(store_uri))]
    write(stores[0], tmp_path)
    found = []
    for store in stores:
        experiment = store.find_experiment("orders")
        assert experiment is not None
        found.append(
            [experiment, store.find_runs(experiment, "k", "3"), store.experiments_with("mlflow.note.content")]
        )
    assert found[0] == found[1]
    (run,) = found[0][1]
    assert run.parameters == {"order": "sjf", "n": "1"}
    assert stores[0].find_experiment("none") is stores[1].find_experiment("none") is None


def test_a_database_with_other_tables_is_left_to_the_client(empty_store: bytes, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/newer.db"
    (tmp_path / "newer.db").write_bytes(empty_store)
    assert isinstance(open_store(uri), DatabaseStore)
    with sqlite3.connect(tmp_path / "newer.db") as connection:
        connection.execute("ALTER TABLE runs ADD COLUMN priority INTEGER")
    assert isinstance(open_store(uri), ClientStore)


def test_an_empty_postgresql_database_gets_its_tables(request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("postgres")
    assert isinstance(open_store(server.create("empty")), DatabaseStore)


def test_the_first_database_is_kept_as_a_template_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_database(tmp_path / "first.db")
    monkeypatch.setattr(store_module, "_client", lambda uri: pytest.fail("made once more"))
    make_database(tmp_path / "second.db")
    assert is_store(tmp_path / "second.db")
    with sqlite3.connect(tmp_path / "second.db") as connection:
        # MLflow makes the default experiment where the store is.
        assert connection.execute("SELECT count(*) FROM experiments").fetchone() == (0,)


def test_another_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("mine")
    with pytest.raises(Exception, match="not a database"):
        open_store(f"sqlite:///{tmp_path}/notes.db")
    assert (tmp_path / "notes.db").read_text() == "mine"
