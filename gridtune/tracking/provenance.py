"""Where a result comes from: which code, on which host, by whom."""

from __future__ import annotations

import getpass
import platform
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import gridtune

__all__ = ["code_tags", "git_state", "user_tags"]


def code_tags(system: str, version: str) -> dict[str, str]:
    """Return tags that say which code made a result.

    Parameters
    ----------
    system, version
        The simulated system and the version of its results.
    """
    tags = {
        "gridtune.version": gridtune.__version__,
        "gridtune.system": system,
        "gridtune.system_version": version,
        "gridtune.host": socket.gethostname(),
        "gridtune.python": platform.python_version(),
    }
    commit, dirty = git_state(Path(gridtune.__file__).parent)
    if commit:
        tags |= {
            "gridtune.git_commit": commit,
            "gridtune.git_dirty": "yes" if dirty else "no",
            "mlflow.source.git.commit": commit,
        }
    return tags


def user_tags(name: str) -> dict[str, str]:
    """Return the tags of every run of a sweep, which the UI has columns for: who ran what."""
    return {
        "mlflow.user": _user(),
        "mlflow.source.name": f"gridtune {name}",
        "mlflow.source.type": "LOCAL",
    }


def git_state(package: Path) -> tuple[str | None, bool]:
    """Return the commit a package's source is at and whether it differs from it.

    Returns
    -------
    tuple
        (None, False) where the package is not under version control: a package installed into an
        environment inside somebody's repository does not have that repository's version.
    """
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None, False
    commit = _git(package, "rev-parse", "HEAD")
    changes = _git(package, "status", "--porcelain", "--", ".")
    return commit, bool(changes)


def _git(folder: Path, *arguments: Sequence[str] | str) -> str | None:
    command = ["git", "-C", str(folder), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return "unknown"
