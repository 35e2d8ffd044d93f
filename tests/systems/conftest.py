"""Fixtures that the tests of all systems share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Catch figures instead of writing them, by file name."""
    caught: dict[str, Figure] = {}

    def savefig(drawing: Figure, path: Path, **options: Any) -> None:
        caught[path.name] = drawing

    monkeypatch.setattr(Figure, "savefig", savefig)
    return caught
