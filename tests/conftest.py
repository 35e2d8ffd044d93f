"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.extras import AGENTS

ROOT = Path(__file__).resolve().parent.parent


def pytest_report_header() -> str | None:
    """Say what is left out."""
    return None if AGENTS else "agents: the extra is not installed, so tests/agents is left out"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def trace_dir() -> Path:
    """The folder of real traces; tests that need it are skipped where it is missing."""
    folder = Path(os.environ.get("GRIDTUNE_TRACE_DIR", ROOT.parent / "shared" / "traces"))
    if not folder.is_dir():
        pytest.skip("no folder of real traces: set GRIDTUNE_TRACE_DIR")
    return folder


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """The folder of reference schedules; beside the traces."""
    folder = Path(os.environ.get("GRIDTUNE_GOLDEN_DIR", ROOT.parent / "shared" / "goldens"))
    if not folder.is_dir():
        pytest.skip("no folder of reference schedules: set GRIDTUNE_GOLDEN_DIR")
    return folder
