"""Gymnasium environments of all systems: their classes by name. Needs the extra `agents`.

The bundled ones are registered by `import gridtune`. Importing this module registers those of other
packages, too: with its name before theirs, as in `gridtune.environments:gridtune/Shutdown-v0`, no import is
needed.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium

from gridtune.core.system import SYSTEMS

_CLASSES: dict[str, str] = {}

for _system in SYSTEMS.values():
    for _name, _spec in _system.environments.items():
        if f"gridtune/{_name}" not in gymnasium.registry:
            gymnasium.register(
                id=f"gridtune/{_name}",
                entry_point=_spec.entry_point,
                vector_entry_point=_spec.vector_entry_point,
            )
        for _place in (_spec.entry_point, _spec.vector_entry_point):
            _module, _, _class = _place.partition(":")
            _CLASSES[_class] = _module

__all__ = [*_CLASSES]  # noqa: PLE0604  (all are strings)


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_CLASSES[name]), name)
