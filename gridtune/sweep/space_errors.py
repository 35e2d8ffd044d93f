"""What is wrong with a search space, with file, line, key and the word that was probably meant."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from gridtune.core.refusals import refusal_hint, refusal_text
from gridtune.errors import SpaceError
from gridtune.registry import name_hint, nearest_name
from gridtune.sweep.yaml_lines import LinedYaml, YamlPath

__all__ = ["space_error"]

#: Faults after the first that a message names.
_MOST_FAULTS = 5


def space_error(fault: ValidationError, model: type[BaseModel], source: LinedYaml) -> SpaceError:
    """Return what pydantic found wrong with a document: the most telling fault, the others after it."""
    faults = [_Fault.of(error, model) for error in _independent(fault.errors())]
    # A misspelt key is unknown, and the one that was meant is missing: the first of the two says it all.
    faults.sort(key=lambda fault: fault.kind != "extra_forbidden")
    meant = {fault.meant for fault in faults if fault.meant}
    faults = [fault for fault in faults if fault.kind != "missing" or fault.place[-1] not in meant]
    first, *others = faults
    message = first.message
    for other in others[:_MOST_FAULTS]:
        line = source.line(other.place)
        message += f"\n  and{f' in line {line}' if line else ''}, field {other.field}: {other.message}"
    if len(others) > _MOST_FAULTS:
        message += f"\n  and {len(others) - _MOST_FAULTS} more"
    line = source.line(first.place)
    return SpaceError(message, path=source.path, line=line, field=first.field or None, hint=first.hint)


@dataclass(frozen=True)
class _Fault:
    """One fault: where, what, and which key was probably meant."""

    kind: str
    place: YamlPath
    message: str
    hint: str | None = None
    meant: str | None = None

    @property
    def field(self) -> str:
        return ".".join(map(str, self.place))

    @classmethod
    def of(cls, error: Mapping[str, Any], model: type[BaseModel]) -> _Fault:
        kind = error["type"]
        place: YamlPath = tuple(part for part in error["loc"] if part != "[key]")
        if kind == "extra_forbidden":
            keys, key = _keys(model, place[:-1]), str(place[-1])
            hint = name_hint(key, keys)
            return cls(kind, place, f"unknown key {key!r}", hint, nearest_name(key, keys))
        if kind == "missing":
            return cls(kind, place, f"the key {place[-1]!r} is missing")
        value = error["input"]
        return cls(kind, place, refusal_text(error, value), refusal_hint(error, value))


def _independent(errors: Sequence[Any]) -> list[Any]:
    """Return the errors without those that only follow: a list whose items are refused is also too short."""
    places = [tuple(error["loc"]) for error in errors]
    return [
        error
        for error, place in zip(errors, places, strict=True)
        if error["type"] != "too_short"
        or not any(other[: len(place)] == place and len(other) > len(place) for other in places)
    ]


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
