"""Which optional parts are installed: tests of the others are left out, and pytest's head line says so."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

__all__ = ["AGENTS", "can_be_imported"]

#: Whether the extra `agents` is installed: `pip install -c constraints.txt -e ".[dev,agents]"`.
AGENTS = all(importlib.util.find_spec(name) for name in ("torch", "tree", "lz4"))
#: Imports at the left margin that need it. (Of `responsive.learners` two do, of `shutdown.learners`
#: and `training` all but the contract of trainings and what fulfils it.)
_OF_AGENTS = re.compile(
    r"^(?:from|import) (?:torch|ray\.rllib|gridtune\.training\b(?!\.system)"
    r"|gridtune\.systems\.(?:batch|dispatch)\.learners\b(?!\.ppo)"
    r"|gridtune\.systems\.shutdown\.learners\b(?!\.ppo)|gridtune\.systems\.responsive\.learners\.(?:rllib|ffnn))\b",
    re.MULTILINE,
)


def can_be_imported(file: Path) -> bool:
    """Tell whether a module of gridtune or of its tests can be imported with what is installed."""
    return AGENTS or _OF_AGENTS.search(file.read_text(encoding="utf-8")) is None
