"""Registers the bundled environments with Gymnasium, which loads no entry points, once it is imported.

So `import gridtune` is enough for `gymnasium.make("gridtune/Batch-v0")`, in any order of the two imports, and
imports neither Gymnasium nor an environment.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Entry points of environments: id without namespace to the class `NAMEEnv`, beside `NAMEVectorEnv`.
_GROUP = "gridtune.environments"


def register_environments() -> None:
    """Register the environments now, or else when Gymnasium is imported."""
    if "gymnasium" in sys.modules:
        _register(sys.modules["gymnasium"])
    elif not any(isinstance(finder, _AtImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AtImport())


def _register(gymnasium: ModuleType) -> None:
    from importlib.metadata import entry_points  # noqa: PLC0415 (importing gridtune stays cheap)

    for found in entry_points(group=_GROUP):
        register_environment(gymnasium, found.name, found.value)


def register_environment(gymnasium: ModuleType, name: str, place: str) -> str:
    """Register an environment, `module:NameEnv`, and its twin; return the place of the twin."""
    twin = f"{place.removesuffix('Env')}VectorEnv"
    if f"gridtune/{name}" not in gymnasium.registry:
        gymnasium.register(f"gridtune/{name}", entry_point=place, vector_entry_point=twin)
    return twin


class _AtImport(MetaPathFinder):
    """Finds Gymnasium as Python would, and registers the environments after its import."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return the specification of Gymnasium; None for any other module."""
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                _register(module)

            loader.exec_module = execute_and_register
        return spec
