"""Leaves these tests out where the extra `agents` is not installed; a Ray for those that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gridtune.sweep.cluster import ray_session
from tests.extras import AGENTS

collect_ignore_glob = [] if AGENTS else ["test_*.py"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A Ray of the module's own; nothing is looked for or reported outside."""
    with ray_session(None, workers=2, cpus=1):
        yield
