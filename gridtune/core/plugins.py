"""Policies from a user's own Python file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from gridtune.errors import PolicyError

__all__ = ["load_plugin"]


def load_plugin(path: str | Path) -> None:
    """Run a Python file once, so that the policies it decorates are registered.

    Raises
    ------
    PolicyError
        If the file is missing or fails while it runs; the message names the error.
    """
    file = Path(path).resolve()
    name = f"gridtune_plugin_{file.stem}_{abs(hash(str(file)))}"
    if name in sys.modules:
        return
    if not file.is_file():
        raise PolicyError("no such plug-in file", path=file)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PolicyError("not a Python file", path=file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if isinstance(error, PolicyError):
            raise
        raise PolicyError(f"the plug-in fails: {type(error).__name__}: {error}", path=file) from error
