"""Trained policies that come with gridtune, by name; `docs/agents.md` says how each was trained.

Imports nothing heavy, so names are resolved without torch.
"""

from __future__ import annotations

from pathlib import Path

from gridtune.tracking.checkpoints import is_run_uri, run_file

__all__ = ["bundled_folder", "bundled_policies", "find_policy"]


def bundled_folder() -> Path:
    """Return the folder of the policies that come with gridtune."""
    return Path(__file__).parent


def bundled_policies() -> dict[str, Path]:
    """Return the policies that come with gridtune: name to file."""
    files = bundled_folder().glob("shutdown-*.pt")
    return {file.stem.removeprefix("shutdown-"): file for file in sorted(files)}


def find_policy(name: str | Path) -> Path:
    """Return a policy's file: of an MLflow run (`runs:/…`), at a path that exists, or a bundled policy's."""
    if is_run_uri(str(name)):
        return run_file(str(name))
    path = Path(name)
    return path if path.exists() else bundled_policies().get(str(name), path)
