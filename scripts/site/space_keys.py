"""The page of a search space's keys: from the models that read it, with examples from the bundled spaces."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gridtune.sweep.space.schema import Dimension, Objective, Replicates, Resources, SearchSpace
from gridtune.sweep.space.strategies import ExpressionTree, Strategy

__all__ = ["EXAMPLES", "key_rows", "models", "space_keys"]

SPACES = Path(__file__).resolve().parents[2] / "search_spaces"
_SHOWN = 70
#: Examples of keys that no bundled space has.
EXAMPLES: Mapping[tuple[str, str], Any] = {
    ("SearchSpace", "timeout"): 600,
    ("Replicates", "until"): "settled",
    ("Replicates", "most"): 80,
    ("SearchSpace", "subject_to"): {"wait_max": "<= 86400"},
    ("SearchSpace", "classes"): {"long": "walltime > 86400"},
    ("SearchSpace", "plugins"): ["my_orders.py"],
    ("Dimension", "grid"): ["fcfs", "sjf"],
    ("Dimension", "choice"): ["fcfs", "sjf"],
    ("Dimension", "loguniform"): [3600, 604800],
    ("Dimension", "when"): {"walltime": "noise"},
    ("SearchSpace", "resources"): {"workers": 8},
    ("Resources", "executor"): "ray",
    ("Resources", "workers"): 8,
    ("Resources", "cpus"): 2,
    ("Resources", "gpus"): 0.5,
    ("Resources", "memory"): 4,
    ("ExpressionTree", "depth"): 3,
    ("Strategy", "grid"): {},
    ("Strategy", "sobol"): {"samples": 256, "seed": 1},
    ("Strategy", "asha"): {"trials": 27, "resource": "until"},
    ("Strategy", "random"): {"samples": 200, "seed": 1},
    ("Adaptive", "population"): 50,
    ("Adaptive", "parallel"): 8,
    ("Adaptive", "sampler"): "tpe",
    ("Adaptive", "seed"): 1,
    ("Adaptive", "trials"): 100,
    ("Stopping", "resource"): "until",
    ("Halving", "reduction"): 3,
    ("Halving", "grace"): 1,
    ("_TrainingSearch", "quantile"): 0.25,
    ("_TrainingSearch", "resample"): 0.25,
    ("_TrainingSearch", "reduction"): 3,
    ("_TrainingSearch", "sampler"): "random",
    ("_TrainingSearch", "parallel"): 8,
    ("_TrainingSearch", "num_gpus"): 0.25,
    ("Sampling", "seed"): 1,
    ("Replicates", "held_back"): 4,
    ("Replicates", "shakes"): 10,
    ("Replicates", "amount"): 600,
    ("Objective", "metric"): "queue_length_max",
    ("Objective", "direction"): "min",
}
_STRATEGIES = {
    "grid": "Every combination of all values. It takes no options.",
    "random": "Independent draws.",
    "sobol": "A scrambled Sobol sequence, which covers the space with fewer gaps.",
}
_KINDS: Mapping[Any, str] = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    Path: "path",
    dict: "mapping",
    Any: "any value",
}


def space_keys() -> str:
    """Return the page."""
    parts = [
        "# Keys of a search space",
        "Every key that the file of a sweep may have; [search spaces](../search_spaces.md) explains how they "
        "go together. Examples are from the bundled spaces where one has the key.",
    ]
    for title, model in models():
        parts += [f"## {title}", _summary(model), _table(model)]
    return "\n\n".join(parts)


def models() -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield a title and a model for each part of a space."""
    yield "The file", SearchSpace
    yield "A dimension", Dimension
    yield "An expression", ExpressionTree
    yield "replicates", Replicates
    yield "objective", Objective
    yield "resources", Resources
    yield "strategy", Strategy
    options: dict[type[BaseModel], list[str]] = {}
    for name, field in Strategy.model_fields.items():
        model = _model_of(field.annotation)
        if model is not None:
            options.setdefault(model, []).append(name)
    for model, names in options.items():
        yield f"strategy: {' and '.join(names)}", model


def key_rows(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo, str, Any]]:
    """Yield each key of a model: its field, what it does, an example; "" and None if there is none."""
    meanings, examples = _meanings(model), _bundled_examples()
    for name, field in model.model_fields.items():
        of_option = _model_of(field.annotation)
        meaning = meanings.get(name) or (_summary(of_option) if of_option else "")
        if model is Strategy:
            meaning = _STRATEGIES.get(name, meaning)
        example = examples.get((model.__name__, name))
        for base in model.__mro__:
            if example is None:
                example = EXAMPLES.get((base.__name__, name))
        yield name, field, meaning, example


def _table(model: type[BaseModel]) -> str:
    lines = ["| key | type | default | what it does | example |", "| --- | --- | --- | --- | --- |"]
    for name, field, meaning, example in key_rows(model):
        default = "needed" if field.is_required() else _default(field)
        # The strategy `grid` is a word.
        shown = _flow("grid" if example == {} else {name: example}) if example is not None else ""
        shown = f"`{shown[:_SHOWN]}{' …' if len(shown) > _SHOWN else ''}`" if shown else ""
        cells = (f"`{name}`", _kind(field.annotation), default, meaning, shown)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _summary(model: type[BaseModel]) -> str:
    return (inspect.getdoc(model) or "").partition("\n\n")[0].replace("\n", " ")


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return what docstrings say of attributes: of the model and of what it extends."""
    meanings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        section = (inspect.cleandoc(base.__doc__ or "")).partition("Attributes\n----------\n")[2]
        for names, text in re.findall(r"^(\w[\w, ]*)\n((?:[ ]{4}.*\n?|\n)+)", section, re.MULTILINE):
            for name in names.split(", "):
                meanings[name] = " ".join(text.split())
    return meanings


def _model_of(annotation: Any) -> type[BaseModel] | None:
    for part in (annotation, *typing.get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _kind(annotation: Any) -> str:  # noqa: PLR0911
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(parts[0])
    if origin is typing.Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(dict.fromkeys(_kind(part) for part in parts if part is not type(None)))
    if origin is tuple:
        if len(parts) == 2 and parts[1] is not Ellipsis:
            return f"[{', '.join(map(_kind, parts))}]"
        return f"list of: {_kind(parts[0])}"
    if origin is dict:
        return "mapping" if parts[1] is Any else f"mapping of names to: {_kind(parts[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        title = next(title for title, model in models() if model is annotation)
        return f"[{title.partition(':')[0].lower()}](#{_anchor(title)})"
    return _KINDS[annotation]


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_defaults=True, exclude_none=True)
    return "none" if value in (None, (), {}, "") else f"`{_flow(value)}`"


def _flow(value: Any) -> str:
    """Return a value as a line of YAML, a mapping of one key without its braces."""
    plain = list(value) if isinstance(value, tuple) else value
    text = yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000)
    text = text.removesuffix("\n").removesuffix("\n...")
    return text[1:-1] if isinstance(value, Mapping) else text


@functools.cache
def _bundled_examples() -> dict[tuple[str, str], Any]:
    """Return, for each key that some bundled space has, the shortest value that one has."""
    found: dict[tuple[str, str], Any] = {}
    for path in sorted(SPACES.glob("*.yaml")):
        for model, key, value in _keys_in(SearchSpace, yaml.safe_load(path.read_text(encoding="utf-8"))):
            # Sections have tables of their own: of them, the shortest says enough.
            before = found.get((model.__name__, key))
            if before is None or len(_flow(value)) < len(_flow(before)):
                found[model.__name__, key] = value
    return found


def _keys_in(model: type[BaseModel], content: Any) -> Iterator[tuple[type[BaseModel], str, Any]]:
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        field = model.model_fields.get(key)
        if field is None:
            continue
        yield model, key, value
        for part in (field.annotation, *typing.get_args(field.annotation)):
            inner = _model_of(part)
            if inner is None:
                continue
            items = value.values() if typing.get_origin(field.annotation) is dict else [value]
            for item in items:
                for one in item if isinstance(item, list) else [item]:
                    yield from _keys_in(inner, one)
            break
