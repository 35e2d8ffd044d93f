"""Workloads and functions in a search space that is made in Python: each becomes what a file could say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gridtune.core.system import get_system
from gridtune.errors import SpaceError
from gridtune.workload.files import write_workload
from gridtune.workload.workload import Workload

__all__ = ["SpaceObjects"]

#: The folder in a sweep's where workloads are kept that were passed as objects.
_FOLDER = "workloads"
#: Digits of a workload's checksum that its file is called by.
_DIGITS = 12
#: The keys of a space that hold parameters.
_KEYS = ("fixed", "workloads", "dimensions", "baseline")


class SpaceObjects:
    """What of a search space is no text: workloads, and functions.

    A workload is kept in the sweep's folder and named by its path, so that the sweep can be repeated and its
    report made again without this process. A function is named as the system registers it.

    Parameters
    ----------
    folder
        The sweep's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workloads: dict[Path, Workload] = {}

    def replaced(self, space: Mapping[str, Any]) -> dict[str, Any]:
        """Return the search space as a file could hold it; nothing is written yet.

        Raises
        ------
        GridtuneError
            If the system takes no function for a parameter, or the function cannot be registered.
        """
        system = space.get("system", "batch")
        return {
            key: self._replaced(value, "", system) if key in _KEYS else value for key, value in space.items()
        }

    def _replaced(self, value: Any, parameter: str, system: str) -> Any:
        if isinstance(value, Workload):
            return str(self._path(value))
        if isinstance(value, Mapping):
            # The parameter is the outer key: `grid` within `order` is still about `order`.
            return {key: self._replaced(item, parameter or str(key), system) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._replaced(item, parameter, system) for item in value]
        return _name_of(value, parameter, system) if callable(value) else value

    def _path(self, workload: Workload) -> Path:
        name = re.sub(r"[^\w.-]+", "_", workload.name).strip("._") or "workload"
        folder = self._folder / _FOLDER / workload.checksum[:_DIGITS]
        path = (folder / f"{name}.parquet").resolve()
        self._workloads[path] = workload
        return path

    def write(self) -> None:
        """Write the workloads that are not there yet."""
        for path, workload in self._workloads.items():
            if not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_workload(workload, path)


def _name_of(function: Callable[..., Any], parameter: str, system: str) -> str:
    if not getattr(function, "__name__", "").isidentifier():
        message = f"the function for {parameter!r} has no name"
        raise SpaceError(message, field=parameter, hint="define it with `def`, not as a lambda")
    return get_system(system).Parameters.register_function(parameter, function)
