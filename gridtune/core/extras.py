"""What only some uses need, and is therefore not always installed."""

from __future__ import annotations

import importlib.util

from gridtune.errors import SweepError

__all__ = ["MissingExtraError", "require_module"]


class MissingExtraError(SweepError):
    """Something needs a package that is not installed."""


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
    MissingExtraError
        If it is missing.
    """
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(
            f"{user} needs {module}, which is not installed", hint=f"pip install 'gridtune[{extra}]'"
        )
