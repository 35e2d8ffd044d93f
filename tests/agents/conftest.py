"""Leaves these tests out where the extra `agents` is not installed."""

from __future__ import annotations

from tests.extras import AGENTS

collect_ignore_glob = [] if AGENTS else ["test_*.py"]
