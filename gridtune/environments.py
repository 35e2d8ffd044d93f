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
from gridtune.gymnasium_registration import register_environment

_CLASSES: dict[str, str] = {}

for _system in SYSTEMS.values():
    for _name, _single in _system.environments.items():
        for _place in (_single, register_environment(gymnasium, _name, _single)):
            _module, _, _class = _place.partition(":")
            _CLASSES[_class] = _module

__all__ = [*_CLASSES]  # noqa: PLE0604  (all are strings)


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_CLASSES[name]), name)
