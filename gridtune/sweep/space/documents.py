"""YAML documents that know the line of each value, and the errors that name it.

PyYAML's composer keeps the place of every node, so the text is composed once, and both the values and the
lines are taken from the nodes.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from gridtune.core.cells import refusal_hint, refusal_text
from gridtune.errors import CONTROL, SpaceError
from gridtune.registry import name_hint, nearest_name

#: Values a document may have when its aliases are spelt out.
_MOST_VALUES = 100_000

#: Keys and list positions that lead from the document's root to a value.
YamlPath = tuple[str | int, ...]


@dataclass(frozen=True)
class LinedYaml:
    """A YAML document and the line of each of its values.

    Attributes
    ----------
    content
        The document.
    lines
        Path from the root to the 1-based line of the key (or list item) there.
    path
        The file, or None.
    """

    content: Any
    lines: Mapping[YamlPath, int] = field(default_factory=dict)
    path: Path | None = None

    def line(self, place: YamlPath) -> int | None:
        """Return the line of a place or, where the document has no such place, of what would hold it."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return self.lines[place[:length]]
        return None


class _Loader(yaml.SafeLoader):
    """The safe loader, reading numbers such as 1e-3 as YAML 1.2 and every person does."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return a node's value; a date that there is not, or a number without end, is marked."""
        try:
            return super().construct_object(node, deep)
        except ValueError as fault:
            problem = f"{str(node.value)[:40]!r} cannot be read: {fault}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def read_yaml(text: str, path: Path | None = None) -> LinedYaml:
    """Return the document in `text` with its lines.

    Raises
    ------
    SpaceError
        If it is not YAML, holds more than one document or the same key twice; with its line.
    """
    if deep := re.search(r"(?:[\[{]\s*){100}", text):
        # The parser would take seconds to refuse it.
        line = text.count("\n", 0, deep.start()) + 1
        raise SpaceError("brackets are nested a hundred deep", path=path, line=line)
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as fault:
        line = text.count("\n", 0, fault.position) + 1
        message = f"the character {chr(fault.character)!r} may not be in a YAML file"
        raise SpaceError(message, path=path, line=line) from None
    try:
        node = loader.get_single_node()
        if node is None:
            raise SpaceError("the file is empty", path=path)
        lines: dict[YamlPath, int] = {}
        _walk(node, (), lines, path)
        content = loader.construct_document(node)
    except yaml.MarkedYAMLError as fault:
        raise _marked_error(fault, path) from None
    except RecursionError:
        raise SpaceError("an anchor holds itself, or the nesting has no end", path=path) from None
    except yaml.YAMLError as fault:
        raise SpaceError(f"not YAML: {fault}", path=path) from None
    finally:
        loader.dispose()
    return LinedYaml(content, lines, path)


#: What to do about what the parser says.
_YAML_HINTS = {
    "simple key": "between a key and its value are a colon and a space: order: fcfs",
    "expected <block end>": "keys that belong together are indented alike",
    "expected ',' or": "a bracket is not closed, or a comma is missing",
    "mapping values are not allowed here": "quote a value that has a colon",
}


def _marked_error(fault: yaml.MarkedYAMLError, path: Path | None) -> SpaceError:
    mark = fault.problem_mark or fault.context_mark
    problem = ", ".join(part for part in (fault.context, fault.problem) if part)
    if "simple key" in problem:
        # A line that should be a key: the parser notices at a later line.
        mark = fault.context_mark or mark
    message, hint = f"not YAML: {problem}", None
    if "could not determine a constructor for the tag" in problem:
        tag = problem.rpartition("tag ")[2].strip("'").replace("tag:yaml.org,2002:", "!!")
        message, hint = f"the tag {tag} is not read", "write plain values: words, numbers, lists, mappings"
    elif "\\t" in problem:
        hint = "YAML is indented by spaces, never by tabs"
    else:
        hint = next((way_out for part, way_out in _YAML_HINTS.items() if part in problem), None)
    return SpaceError(message, path=path, line=mark.line + 1 if mark else None, hint=hint)


def _walk(node: yaml.Node, place: YamlPath, lines: dict[YamlPath, int], path: Path | None) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if len(lines) > _MOST_VALUES:
        message = f"spelt out, its aliases make more than {_MOST_VALUES:,} values"
        line = lines[place[:1]]
        raise SpaceError(message, path=path, line=line, hint="write what is meant without `*aliases`")
    if isinstance(node, yaml.ScalarNode) and CONTROL.search(node.value):
        message = f"a value has characters that a terminal obeys: {node.value[:60]!r}"
        raise SpaceError(message, path=path, line=node.start_mark.line + 1, hint="write plain text")
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*place, index)] = item.start_mark.line + 1
            _walk(item, (*place, index), lines, path)
    elif isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in names:
                raise SpaceError("this key is here twice", path=path, line=line, field=name)
            names.add(name)
            lines[(*place, name)] = line
            _walk(key, (*place, name), lines, path)
            _walk(value, (*place, name), lines, path)


#: Faults after the first that a message names.
_MOST_FAULTS = 5


def space_error(fault: ValidationError, model: type[BaseModel], source: LinedYaml) -> SpaceError:
    """Return what pydantic found wrong with a document: the most telling fault, the others after it."""
    faults: list[tuple[str, YamlPath, str, str | None]] = []
    meant: set[str | int | None] = set()
    errors = fault.errors()
    for error in errors:
        kind, at, value = error["type"], error["loc"], error["input"]
        if kind == "too_short" and any(other["loc"][: len(at)] == at != other["loc"] for other in errors):
            # A list whose items are refused is also too short.
            continue
        place: YamlPath = tuple(part for part in at if part != "[key]")
        if kind == "extra_forbidden":
            keys, key = _keys(model, place[:-1]), str(place[-1])
            faults.append((kind, place, f"unknown key {key!r}", name_hint(key, keys)))
            meant.add(nearest_name(key, keys))
        elif kind == "missing":
            faults.append((kind, place, f"the key {place[-1]!r} is missing", None))
        else:
            faults.append((kind, place, refusal_text(error, value), refusal_hint(error, value)))
    # A misspelt key is unknown, and the one that was meant is missing: the first of the two says it all.
    faults = [one for one in faults if one[0] != "missing" or one[1][-1] not in meant]
    faults.sort(key=lambda one: one[0] != "extra_forbidden")
    (_, first, message, hint), *others = faults
    for _, place, text, _ in others[:_MOST_FAULTS]:
        line = source.line(place)
        message += f"\n  and{f' in line {line}' if line else ''}, field {'.'.join(map(str, place))}: {text}"
    if len(others) > _MOST_FAULTS:
        message += f"\n  and {len(others) - _MOST_FAULTS} more"
    field = ".".join(map(str, first)) or None
    return SpaceError(message, path=source.path, line=source.line(first), field=field, hint=hint)


def _keys(model: type[BaseModel], place: YamlPath) -> list[str]:
    """Return the keys that the model at a place of a document knows."""
    models = [model]
    for part in place:
        # A place in a list, or the name of a mapping's entry, has the models that these hold.
        fields = [one.model_fields[part] for one in models if part in one.model_fields]
        models = _models(fields[0].annotation) if fields else models
    return [name for one in models for name in one.model_fields]


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that a type is, or is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _models(part)]
