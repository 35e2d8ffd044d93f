"""Checks of what callers pass to public functions: a wrong type is an error that says what is wanted."""

from __future__ import annotations

import datetime
import math
import numbers
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from gridtune.errors import GridtuneError
from gridtune.registry import nearest_name

__all__ = ["is_number", "refusal_hint", "refusal_text", "require", "require_number", "require_path"]

T = TypeVar("T")

#: Characters of a value that a message shows.
_LONGEST = 40


def require(
    value: Any,
    kind: type[T],
    name: str,
    *,
    error: type[GridtuneError] = GridtuneError,
    hint: str | None = None,
) -> T:
    """Return `value` if it is of a type.

    Parameters
    ----------
    value
        The argument.
    kind
        The type that is wanted.
    name
        The argument's name.
    error
        The exception to raise.
    hint
        The remedy.

    Raises
    ------
    GridtuneError
        If it is not; the message names the argument and both types.
    """
    if isinstance(value, kind):
        return value
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    raise error(f"{name} must be {article} {kind.__name__}, but got {_shown(value)}", hint=hint)


def require_number(
    value: Any,
    name: str,
    *,
    whole: bool = False,
    least: float = -math.inf,
    error: type[GridtuneError] = GridtuneError,
    hint: str | None = None,
) -> None:
    """Raise an error if `value` is no finite number.

    Parameters
    ----------
    value, name, error, hint
        As of `require`.
    whole
        Require a whole number.
    least
        The smallest number allowed.

    Raises
    ------
    GridtuneError
        With the argument's name and what was passed.
    """
    if is_number(value) and (not whole or int(value) == value) and value >= least:
        return
    kind = "a whole number" if whole else "a number"
    bound = "" if least == -math.inf else f" of at least {least:g}"
    raise error(f"{name} must be {kind}{bound}, but got {_shown(value)}", hint=hint)


def is_number(value: Any) -> bool:
    """Tell whether `value` is a finite number; `True` is none."""
    try:
        return type(value) is not bool and isinstance(value, numbers.Real) and math.isfinite(value)
    except OverflowError:
        # A whole number that no float holds.
        return False


def require_path(value: Any, name: str, *, error: type[GridtuneError] = GridtuneError) -> None:
    """Raise an error if `value` is no path: neither a text nor a `pathlib.Path`."""
    if not isinstance(value, str) and not hasattr(value, "__fspath__"):
        raise error(f"{name} must be a path, but got {_shown(value)}")


def _shown(value: Any) -> str:
    if value is None:
        return "None"
    text = repr(value)
    kind = type(value).__name__
    return f"{text} ({kind})" if len(text) <= _LONGEST else f"a value of type {kind}"


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
