"""Trained policies that come with gridtune, by name; `docs/agents.md` says how each was trained.

Imports nothing heavy, so names are resolved without torch.
"""

from __future__ import annotations

from pathlib import Path

from gridtune.tracking import checkpoints

__all__ = ["bundled_policies", "find_policy"]


def bundled_policies() -> dict[str, Path]:
    """Return the policies that come with gridtune: name to file."""
    files = Path(__file__).parent.glob("shutdown-*.pt")
    return {file.stem.removeprefix("shutdown-"): file for file in sorted(files)}


def find_policy(name: str | Path) -> Path:
    """Return a policy's file: see `gridtune.tracking.checkpoints.find_policy`."""
    return checkpoints.find_policy(name, bundled=bundled_policies())
