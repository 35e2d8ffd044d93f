"""Where runs are tracked, and the client that talks to it.

The default is one SQLite file and one folder of artefacts in the working directory, so that a project
folder has one store and the UI shows all of its sweeps side by side.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from gridtune.errors import TrackingError, without_secrets
from gridtune.storage import draft_of, skip_proxy_for_this_machine, user_cache

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

DATABASE = "mlflow.db"
ARTEFACTS = "mlartifacts"
#: What a tracking URI begins with, as MLflow knows it; databases may name their driver (postgresql+psycopg).
_SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")
#: Without MLflow's own retries (ours keep the order and say what happens), its usage reports, and its log
#: line for every migration of a fresh database.
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


def tracking_uri(uri: str | None = None) -> str:
    """Return the URI of the tracking store.

    Parameters
    ----------
    uri
        The URI that the user gave; it has precedence over the environment's `MLFLOW_TRACKING_URI`.

    Raises
    ------
    TrackingError
        If the URI is of a kind that MLflow no longer writes to.
    """
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or ""
    if not uri:
        return f"sqlite:///{Path.cwd() / DATABASE}"
    scheme, _, rest = uri.partition("://")
    if not rest:
        # A bare path is taken for the database it surely is.
        if Path(uri).suffix in {".db", ".sqlite", ".sqlite3"}:
            return f"sqlite:///{Path(uri).resolve()}"
        raise TrackingError(
            f"{uri!r} is no tracking URI",
            hint="give a server (http://host:5000) or a database (sqlite:///mlflow.db), not a folder",
        )
    if scheme == "file":
        raise TrackingError(
            f"MLflow no longer writes to folders such as {uri!r}", hint="use sqlite:///mlflow.db or a server"
        )
    if scheme.partition("+")[0] not in _SCHEMES:
        raise TrackingError(
            f"{without_secrets(uri)!r} is no tracking URI: it begins with none of {', '.join(_SCHEMES)}",
            hint="give a server (http://host:5000) or a database (sqlite:///mlflow.db)",
        )
    if scheme == "sqlite" and not rest.startswith("//"):
        # Relative to the working directory now, not to that of whoever opens it later.
        return f"sqlite:///{Path(rest.removeprefix('/')).resolve()}"
    return uri


def database_path(uri: str) -> Path | None:
    """Return the file of a SQLite store, None for any other."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def artifact_root(uri: str) -> Path | None:
    """Return the folder of a database's artefacts; None where a server decides.

    It is beside a SQLite file. For another database it is in the working directory, where `gridtune ui` of
    the same folder looks for it.
    """
    database = database_path(uri)
    if database is not None:
        return database.parent / ARTEFACTS
    return None if uri.startswith(("http://", "https://")) else Path.cwd() / ARTEFACTS


def is_store(database: Path) -> bool:
    """Return True if the file is a SQLite database with MLflow's tables in it."""
    if not database.is_file():
        return False
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.DatabaseError:
        return False
    return ("experiments",) in tables


def connect(uri: str) -> MlflowClient:
    """Return a client of the store; a SQLite store that is not there yet is made.

    Only one process at a time makes or opens one: several that make the same tables at once all fail.

    Raises
    ------
    TrackingError
        If the database's folder or file cannot be written, or its driver is not installed.
    """
    database = database_path(uri)
    if database is None:
        try:
            return _client(uri)
        except ModuleNotFoundError as fault:
            raise TrackingError(
                f"the database's driver is not installed: {fault.name}",
                hint='for PostgreSQL: pip install "gridtune[postgresql]"',
            ) from None
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        with _alone(database):
            if not database.exists():
                _make_database(database)
            return _client(uri)
    except OSError as fault:
        raise TrackingError(
            f"the tracking database cannot be written: {fault.strerror or fault}",
            path=database,
            hint="give another --tracking-uri, or run without tracking (--no-tracking)",
        ) from None


def _make_database(path: Path) -> None:
    """Make an empty tracking database.

    MLflow takes seconds to make one, so the first is kept in the user's cache and copied from then on.
    """
    template = user_cache() / f"mlflow-{version('mlflow')}.db"
    try:
        template.parent.mkdir(parents=True, exist_ok=True)
        with _alone(template):
            if not is_store(template):
                _make_template(template)
    except OSError:
        # No cache to write to.
        _client(f"sqlite:///{path}")
        return
    with draft_of(path) as draft:
        shutil.copyfile(template, draft)


def _make_template(template: Path) -> None:
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        draft = Path(folder) / template.name
        _client(f"sqlite:///{draft}")
        connection = sqlite3.connect(draft)
        with connection:
            # Its artefacts' place is that of this template: MLflow makes the experiment again.
            connection.execute("DELETE FROM experiments")
        connection.close()
        draft.replace(template)


def _client(uri: str) -> MlflowClient:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    skip_proxy_for_this_machine(uri)
    from mlflow.exceptions import MlflowException  # noqa: PLC0415 (takes a second to import)
    from mlflow.tracking import MlflowClient  # noqa: PLC0415

    # Migrations of a fresh database announce themselves step by step.
    for name in ("mlflow.store.db.utils", "alembic", "alembic.runtime.migration"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        return MlflowClient(tracking_uri=uri, registry_uri=uri)
    except MlflowException as fault:
        found = re.search(r"database schema \(found version (\w+)", str(fault))
        if found is None:
            raise
        import mlflow  # noqa: PLC0415

        known = Path(mlflow.__file__).parent / "store" / "db_migrations" / "versions"
        older = any(known.glob(f"{found[1]}_*.py"))
        remedy = "run `mlflow db upgrade URI`, after a backup" if older else "install that MLflow"
        kind = "an older" if older else "a newer"
        raise TrackingError(
            f"the store is of {kind} MLflow than {mlflow.__version__}: {remedy}, or give another store"
        ) from None


@contextmanager
def _alone(database: Path) -> Iterator[None]:
    """Hold off other processes that open the same database."""
    with database.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
