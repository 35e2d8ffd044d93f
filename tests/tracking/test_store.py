"""The tracking store: its URI, its database."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gridtune.errors import TrackingError, without_secrets
from gridtune.tracking.store import (
    _make_database,
    artifact_root,
    connect,
    database_path,
    is_store,
    tracking_uri,
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_the_default_is_one_database_in_the_working_directory(tmp_path: Path) -> None:
    assert tracking_uri() == f"sqlite:///{tmp_path}/mlflow.db"
    assert artifact_root(tracking_uri()) == tmp_path / "mlartifacts"


def test_the_flag_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://from-environment:5000")
    assert tracking_uri() == "http://from-environment:5000"
    assert tracking_uri("http://from-flag:5000") == "http://from-flag:5000"
    assert artifact_root("http://from-flag:5000") is None


@pytest.mark.parametrize("value", ["sqlite:///sub/my.db", "sub/my.db"])
def test_relative_databases_are_made_absolute(value: str, tmp_path: Path) -> None:
    uri = tracking_uri(value)
    assert uri == f"sqlite:///{tmp_path}/sub/my.db"
    assert database_path(uri) == tmp_path / "sub" / "my.db"


def test_an_absolute_database_stays() -> None:
    assert tracking_uri("sqlite:////data/my.db") == "sqlite:////data/my.db"


@pytest.mark.parametrize("value", ["mlruns", "file:///data/mlruns"])
def test_folders_are_refused_with_what_to_give_instead(value: str) -> None:
    with pytest.raises(TrackingError, match=r"sqlite:///mlflow\.db"):
        tracking_uri(value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:s3cret@host/db", "postgresql://me:***@host/db"),
        ("http://me:s%40@host:5000/api failed", "http://me:***@host:5000/api failed"),
        ("postgresql://host/db?user=me&password=s3cret&x=1", "postgresql://host/db?user=me&password=***&x=1"),
        ("sqlite:////data/a:b@c.db", "sqlite:////data/a:b@c.db"),
        ("http://host:5000", "http://host:5000"),
    ],
)
def test_passwords_are_not_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackingError, match="cannot be written"):
        connect(f"sqlite:///{tmp_path}/file/mlflow.db")


def test_a_store_is_told_from_other_files(tmp_path: Path) -> None:
    assert not is_store(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("no database")
    assert not is_store(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    assert not is_store(tmp_path / "other.db")


@pytest.mark.integration
def test_the_first_database_is_kept_as_a_template_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _make_database(tmp_path / "first.db")
    (template,) = (tmp_path / "cache").rglob("*.db")
    with sqlite3.connect(template) as connection:
        connection.execute("CREATE TABLE marked (x)")
    _make_database(tmp_path / "second.db")
    assert is_store(tmp_path / "second.db")
    with sqlite3.connect(tmp_path / "second.db") as connection:
        assert connection.execute("SELECT count(*) FROM marked").fetchone() == (0,)
        # MLflow makes the default experiment where the store is.
        assert connection.execute("SELECT count(*) FROM experiments").fetchone() == (0,)


@pytest.mark.integration
def test_another_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("mine")
    with pytest.raises(Exception, match="not a database"):
        connect(f"sqlite:///{tmp_path}/notes.db")
    assert (tmp_path / "notes.db").read_text() == "mine"


@pytest.mark.parametrize(
    ("version", "words"),
    [("ffff00000000", "of a newer MLflow.*install that"), ("0584bdc529eb", "of an older MLflow.*db upgrade")],
)
def test_a_store_of_another_mlflow_is_refused_at_once(store_uri: str, version: str, words: str) -> None:
    with sqlite3.connect(store_uri.removeprefix("sqlite:///")) as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (version,))
    # In another process: MLflow looks at a store's version once.
    script = "import sys; from gridtune.tracking.store import connect; connect(sys.argv[1])"
    command = [sys.executable, "-c", script, store_uri]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert re.search(words, done.stderr.strip().splitlines()[-1])
