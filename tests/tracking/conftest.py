"""The stores that the tests of tracking run against."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtune.tracking.store import connect

from .postgresql import PostgresServer, missing

_TEMPLATE = "mlflow"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server with a database of MLflow's tables; skipped where none is installed."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    server = PostgresServer()
    try:
        connect(server.create(_TEMPLATE))
        # A database with connections cannot be copied.
        _disconnect(server.uri(_TEMPLATE))
        yield server
    finally:
        server.remove()


def _disconnect(uri: str) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: PLC0415

    engine = SqlAlchemyStore._engine_map.pop(uri)
    engine.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store_uri(
    request: pytest.FixtureRequest, empty_store: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The URI of an empty store of the test's own, for every kind of database."""
    if request.param == "postgresql":
        monkeypatch.chdir(tmp_path)
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.create(f"t{uuid.uuid4().hex}", _TEMPLATE)
    (tmp_path / "mlflow.db").write_bytes(empty_store)
    return f"sqlite:///{tmp_path}/mlflow.db"
