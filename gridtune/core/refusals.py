"""What to say about names and values that are refused: the reason in plain words, and a hint."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any

from gridtune.core.system import System
from gridtune.registry import name_hint, nearest_name

__all__ = ["metric_hint", "parameter_hint", "refusal_hint", "refusal_text"]

#: Characters of a refused value that a message shows.
_SHOWN = 60
#: What pydantic's types of error say, in plain words; {…} is a limit from the error itself.
_REASONS = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "too_short": "needs at least {min_length} value",
    "too_long": "may have at most {max_length} values",
    "string_type": "must be a word",
    "path_type": "must be a path",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "dict_type": "must be a mapping of keys to values",
    "mapping_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
}


def parameter_hint(system: System, name: str) -> str:
    """Return what to write instead of a parameter that the system does not have."""
    return name_hint(name, system.Parameters.model_fields, system.Parameters.renamed_parameters)


def metric_hint(system: System, name: str) -> str:
    """Return what to write instead of a metric that the system does not have."""
    return name_hint(name, system.metrics, {old: now.name for old, now in system.renamed_metrics.items()})


def refusal_text(error: Mapping[str, Any], value: Any) -> str:
    """Return why pydantic refused a value, in plain words and with the value.

    Parameters
    ----------
    error
        One of `ValidationError.errors()`.
    value
        What was given.
    """
    kind, message = error["type"], str(error["msg"]).removeprefix("Value error, ")
    if kind in {"value_error", "extra_forbidden", "missing"}:
        return message
    context = {name: _plain(limit) for name, limit in (error.get("ctx") or {}).items()}
    if isinstance(value, float) and math.isnan(value):
        reason = _REASONS["finite_number"]
    elif kind == "literal_error":
        reason = f"must be {context['expected']}"
    elif kind in _REASONS:
        reason = _REASONS[kind].format(**context)
    else:
        reason = f"{message[:1].lower()}{message[1:]}"
    shown = repr(value)
    return f"{reason}, but got {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + ' …'}"


def _plain(limit: Any) -> Any:
    return f"{limit:g}" if isinstance(limit, float) else limit


def refusal_hint(error: Mapping[str, Any], value: Any) -> str | None:
    """Return a hint for a value that pydantic refused, where its error allows one."""
    if error["type"] not in {"literal_error", "string_type"}:
        return None
    if isinstance(value, bool):
        return f"YAML reads a bare `{'yes' if value else 'no'}` as {str(value).lower()}: quote it"
    if isinstance(value, datetime.date):
        return f'YAML reads {value} as a date: quote it, as in "{value}"'
    if isinstance(value, int | float):
        return f'YAML reads {value} as a number: quote it, as in "{value}"'
    choices = re.findall(r"'([^']*)'", error.get("ctx", {}).get("expected", ""))
    near = nearest_name(str(value), choices)
    return None if near is None else f"did you mean {near!r}?"
