"""Kernels are compiled once per machine: cold workers would all compile the same at once."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gridtune
from gridtune.core.cells import Cell, canonical_json, validated
from gridtune.core.system import System

__all__ = ["is_prepared", "prepare_worker", "representatives"]

#: Configurations that kernels are compiled for beforehand; the rest compile when first met.
_LARGEST_SAMPLE = 200


def representatives(cells: Iterable[Cell]) -> list[Mapping[str, Any]]:
    """Return the configurations to compile for: each once, up to a limit."""
    distinct: dict[str, Mapping[str, Any]] = {}
    for cell in cells:
        distinct.setdefault(cell.configuration_id, cell.configuration)
        if len(distinct) >= _LARGEST_SAMPLE:
            break
    return list(distinct.values())


def is_prepared(system: System, configurations: Sequence[Mapping[str, Any]], user_code: str) -> bool:
    """Tell whether this machine has compiled the kernels before, as far as its marker says."""
    return _marker(system, configurations, user_code).exists()


def prepare_worker(system: System, configurations: Sequence[Mapping[str, Any]], user_code: str) -> None:
    """Load the kernels in a worker; where they are not compiled yet, one worker does it, the others wait.

    A marker in the folder for temporary files says that a machine has compiled them. Should the compiled
    code have been removed since, workers compile at once: slower, and right all the same.

    Parameters
    ----------
    system
        The system.
    configurations
        What kernels are compiled for.
    user_code
        Checksum of the code of users that runs.
    """
    marker = _marker(system, configurations, user_code)
    if not marker.exists():
        with marker.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not marker.exists():
                _prepare(system, configurations)
                marker.touch()
    _prepare(system, configurations)


def _prepare(system: System, configurations: Sequence[Mapping[str, Any]]) -> None:
    try:
        system.prepare([validated(system, configuration) for configuration in configurations])
    except Exception:
        # A policy that does not compile fails in its own cells, where the error is kept; not here.
        return


@cache
def _sources_digest() -> str:
    """SHA-256 of gridtune's own sources; several places of a sweep ask for it."""
    digest = hashlib.sha256()
    for source in sorted(Path(gridtune.__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _marker(system: System, configurations: Sequence[Mapping[str, Any]], user_code: str) -> Path:
    what = {
        "gridtune": _sources_digest(),
        "system": [system.name, system.version],
        "configurations": list(configurations),
        "code": user_code,
        "cache": os.environ.get("NUMBA_CACHE_DIR"),
        "python": [sys.executable, sys.version, importlib.metadata.version("numba")],
    }
    digest = hashlib.sha256(canonical_json(what).encode())
    folder = Path(tempfile.gettempdir()) / f"gridtune-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"warm-{digest.hexdigest()[:16]}"
