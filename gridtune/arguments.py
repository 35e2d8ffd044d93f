"""Checks of what callers pass to public functions: a wrong type is an error that says what is wanted."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, TypeVar

from gridtune.errors import GridtuneError

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
) -> None:
    """Raise an error if `value` is no finite number.

    Parameters
    ----------
    value, name, error
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
    raise error(f"{name} must be {kind}{bound}, but got {_shown(value)}")


def is_number(value: Any) -> bool:
    """Tell whether `value` is a finite number; `True` is none."""
    try:
        return type(value) is not bool and isinstance(value, numbers.Real) and math.isfinite(value)
    except OverflowError:
        # A whole number that no float holds.
        return False


def require_fields(
    record: Any, expected: str, holds: Callable[[Any], bool], *names: str, error: type[GridtuneError]
) -> None:
    """Raise an error that says what is expected, unless a condition holds for each field that is not None."""
    for name in names:
        value = getattr(record, name)
        if value is not None and not holds(value):
            raise error(f"must be {expected}, but got {value!r}", field=name)


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
