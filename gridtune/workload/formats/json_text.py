"""JSON documents whose faults name a line, which is looked up only when there is a fault to report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from gridtune.errors import WorkloadError
from gridtune.workload.formats.compression import LogStream

__all__ = ["JsonText"]

_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class JsonText:
    """A JSON document, read from a file.

    Parameters
    ----------
    stream
        The file.
    parse_constant
        Called with `NaN`, `Infinity` or `-Infinity`, which are no JSON; by default they are numbers.

    Raises
    ------
    WorkloadError
        If it is empty or no JSON.

    Attributes
    ----------
    document
        Its content.
    path
        The file.
    """

    def __init__(self, stream: LogStream, parse_constant: Callable[[str], Any] | None = None) -> None:
        self.path = stream.path
        content = stream.read()
        if not content.strip():
            raise WorkloadError("is empty", path=self.path)
        try:
            self._text = content.decode("utf-8-sig")
            self.document: Any = json.loads(self._text, parse_constant=parse_constant)
        except UnicodeDecodeError as error:
            raise WorkloadError(f"is not text in UTF-8 (byte {error.start})", path=self.path) from error
        except json.JSONDecodeError as error:
            raise WorkloadError(f"is not JSON: {error.msg}", path=self.path, line=error.lineno) from error
        except (ValueError, RecursionError) as error:
            raise WorkloadError(f"is not JSON that can be read: {error}", path=self.path) from error

    def fault(self, message: str, *place: str | int, hint: str | None = None) -> WorkloadError:
        """Return the error that names the value at a place: keys and positions from the outside in."""
        field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).strip(".")
        return WorkloadError(message, path=self.path, line=self.line_of(*place), field=field, hint=hint)

    def line_of(self, *place: str | int) -> int:
        """Return the line (1-based) of the value at a place.

        Where the place does not exist, the line of the last value on the way there that does.
        """
        at = _skip(self._text, 0)
        for step in place:
            inside = None
            for key, start in _members(self._text, at):
                if key == step:
                    # Of keys given twice, the last one counts.
                    inside = start
                    if isinstance(step, int):
                        break
            if inside is None:
                break
            at = inside
        return self._text.count("\n", 0, at) + 1


def _skip(text: str, at: int) -> int:
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Yield the key or position, and the start, of each value in the object or list that starts at `at`."""
    opening, position = text[at], 0
    if opening not in "{[":
        return
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        key: str | int = position
        if opening == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        yield key, at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
        position += 1
