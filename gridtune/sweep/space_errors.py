"""What is wrong with a search space, with file, line, key and the word that was probably meant."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from gridtune.core.refusals import refusal_hint
from gridtune.errors import SpaceError
from gridtune.registry import name_hint
from gridtune.sweep.yaml_lines import LinedYaml, YamlPath

__all__ = ["space_error"]


def space_error(fault: ValidationError, model: type[BaseModel], source: LinedYaml) -> SpaceError:
    """Return the most telling fault that pydantic found in a document, as a `SpaceError`."""
    # A misspelt key is unknown, and the one that was meant is missing: the first of the two is more useful.
    first = min(fault.errors(), key=lambda error: error["type"] != "extra_forbidden")
    place: YamlPath = tuple(part for part in first["loc"] if part != "[key]")
    message, hint = str(first["msg"]).removeprefix("Value error, "), None
    if first["type"] == "extra_forbidden":
        message = f"unknown key {place[-1]!r}"
        hint = name_hint(str(place[-1]), _keys(model, place[:-1]))
    elif first["type"] == "missing":
        message = f"the key {place[-1]!r} is missing"
    elif first["type"] not in {"value_error"}:
        message = f"{message[:1].lower()}{message[1:]}, but got {first['input']!r}"
        hint = refusal_hint(first, first["input"])
    more = fault.error_count() - 1
    if more:
        message += f" (and {more} more fault{'s' if more > 1 else ''})"
    named = ".".join(map(str, place)) or None
    return SpaceError(message, path=source.path, line=source.line(place), field=named, hint=hint)


def _keys(model: type[BaseModel], place: YamlPath) -> list[str]:
    """Return the keys that the model at a place of a document knows."""
    annotation: Any = model
    for part in place:
        for kind in _models(annotation):
            if isinstance(part, str) and part in kind.model_fields:
                annotation = kind.model_fields[part].annotation
                break
        else:
            annotation = _items(annotation)
    return [name for kind in _models(annotation) for name in kind.model_fields]


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in {typing.Union, types.UnionType}:
        return [model for part in typing.get_args(annotation) for model in _models(part)]
    return []


def _items(annotation: Any) -> Any:
    """Return what a mapping or list holds."""
    for part in [annotation, *typing.get_args(annotation)]:
        origin = typing.get_origin(part)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return typing.get_args(part)[1]
        if isinstance(origin, type) and issubclass(origin, list | tuple):
            return typing.get_args(part)[0]
    return None
