"""What tests of commands may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_store(empty_store: bytes, tmp_path: Path) -> str:
    """The URI of an empty SQLite tracking store of the test's own."""
    (tmp_path / "mlflow.db").write_bytes(empty_store)
    return f"sqlite:///{tmp_path}/mlflow.db"
