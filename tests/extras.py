"""Which optional parts are installed: tests of the others are left out, and pytest's head line says so."""

from __future__ import annotations

import importlib.util

__all__ = ["AGENTS", "without_extras"]

#: Whether the extra `agents` is installed: `pip install -c constraints.txt -e ".[dev,agents]"`.
AGENTS = all(importlib.util.find_spec(name) for name in ("torch", "tree", "lz4"))


def without_extras(module: str) -> bool:
    """Tell whether a module of gridtune can be imported with what is installed."""
    return AGENTS or not module.startswith("gridtune.training.")
