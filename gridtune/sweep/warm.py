"""Compiling before the workers start, and once per machine: cold workers would all compile at once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gridtune.sweep.cells import Cell, canonical_json, validated
from gridtune.systems.system import System

__all__ = ["Warming", "prepare_worker", "representatives"]

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


def _prepare(system: System, configurations: Sequence[Mapping[str, Any]]) -> None:
    try:
        system.prepare([validated(system, each) for each in configurations])
    except Exception:
        # A policy that does not compile fails in its own cells, where the error is kept; not here.
        return


class Warming:
    """Compiles in a thread while Ray starts.

    Parameters
    ----------
    system, configurations
        What to compile for.
    """

    def __init__(self, system: System, configurations: Sequence[Mapping[str, Any]]) -> None:
        self._thread = threading.Thread(target=_prepare, args=(system, configurations), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Return when it is done."""
        self._thread.join()


def prepare_worker(system: System, configurations: Sequence[Mapping[str, Any]], driver_host: str) -> None:
    """Load the kernels in a worker; on a machine other than the driver's, one compiles, the others wait.

    On the driver's machine the driver has compiled them. Who comes second finds the machine code in the
    cache on disk.
    """
    if socket.gethostname() != driver_host:
        what = [system.name, system.version, os.environ.get("NUMBA_CACHE_DIR"), list(configurations)]
        stamp = hashlib.sha256(canonical_json(what).encode()).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"gridtune-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        with (folder / f"warm-{stamp}").open("a+") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX)
            if marker.tell() == 0:
                _prepare(system, configurations)
                marker.write("warm")
    _prepare(system, configurations)
