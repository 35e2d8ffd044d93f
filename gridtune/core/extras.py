"""What only some uses need, and is therefore not always installed."""

from __future__ import annotations

import importlib.util

from gridtune.errors import SweepError

__all__ = ["require_module"]


def require_module(module: str, *, user: str, extra: str) -> None:
    """Raise an error if a module is not installed; it is not imported.

    Parameters
    ----------
    module
        Its name, such as "torch".
    user
        What needs it, as the message begins: "policy=ppo".
    extra
        The extra of gridtune that brings it, such as "agents".

    Raises
    ------
    SweepError
        If it is missing.
    """
    if importlib.util.find_spec(module) is None:
        raise SweepError(
            f"{user} needs {module}, which is not installed", hint=f"pip install 'gridtune[{extra}]'"
        )
