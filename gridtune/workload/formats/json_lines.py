"""The line of a value in a JSON text, looked up only when there is a fault to report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from json import JSONDecoder

__all__ = ["line_of_path"]

_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = JSONDecoder()


def line_of_path(text: str, path: Sequence[str | int]) -> int:
    """Return the line (1-based) of the value at a path of keys and positions in a valid JSON text.

    Where the path leads nowhere, the line of the last value on it that exists.
    """
    at = _skip(text, 0)
    for step in path:
        place = _member(text, at, step) if isinstance(step, str) else _element(text, at, step)
        if place is None:
            break
        at = place
    return text.count("\n", 0, at) + 1


def _skip(text: str, at: int) -> int:
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]


def _member(text: str, at: int, key: str) -> int | None:
    if text[at] != "{":
        return None
    place = None
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if name == key:
            # Of keys given twice, the last one counts.
            place = at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return place


def _element(text: str, at: int, position: int) -> int | None:
    if text[at] != "[":
        return None
    at = _skip(text, at + 1)
    while text[at] != "]":
        if position == 0:
            return at
        position -= 1
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return None
