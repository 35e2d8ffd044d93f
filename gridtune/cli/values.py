"""Values of arguments: NAME=VALUE, and folders that may be URLs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

__all__ = ["read_parameters", "read_place", "read_settings"]


def read_place(text: str) -> str | Path:
    """Return the URL of a folder in a storage, or a path; `file://` is a path."""
    from gridtune.storage import as_local, is_url

    return (as_local(text) or text) if is_url(text) else Path(text)


def read_parameters(arguments: Iterable[str], option: str) -> dict[str, Any]:
    """Return the parameters of NAME=VALUE arguments, the values read as YAML reads them.

    Parameters
    ----------
    arguments
        Each a NAME=VALUE.
    option
        What they were given to, for messages.

    Raises
    ------
    click.BadParameter
        If one is no NAME=VALUE, or a name is given twice.
    """
    settings = read_settings(arguments, option)
    for name, values in settings.items():
        if len(values) > 1:
            raise click.BadParameter(f"{name} is given twice", param_hint=option)
    return {name: value for name, (value,) in settings.items()}


def read_settings(arguments: Iterable[str], option: str) -> dict[str, list[Any]]:
    """Return the values of NAME=VALUE arguments by name, where a name may be given several times.

    Parameters and errors are those of `read_parameters`.
    """
    import yaml

    settings: dict[str, list[Any]] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{argument!r} is not NAME=VALUE", param_hint=option)
        try:
            settings.setdefault(name, []).append(yaml.safe_load(value))
        except (yaml.YAMLError, ValueError, RecursionError):
            message = f"{argument!r}: the value is not YAML; quote a word that has brackets, colons or hashes"
            raise click.BadParameter(message, param_hint=option) from None
    return settings
