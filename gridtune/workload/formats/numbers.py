"""Numbers as text, the same bytes on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy.typing as npt

__all__ = ["column_texts", "rows_of_text"]

_ROWS = 50_000


def column_texts(column: npt.NDArray[Any]) -> list[str]:
    """Return each value as the shortest text that reads back as the same value."""
    if column.dtype.kind == "f":
        return [_short(value) for value in column.tolist()]
    return [str(value) for value in column.tolist()]


def _short(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def rows_of_text(columns: Sequence[npt.NDArray[Any]], separator: str) -> Iterator[bytes]:
    """Yield the table's lines, some thousands at a time."""
    for start in range(0, len(columns[0]) if columns else 0, _ROWS):
        texts = [column_texts(column[start : start + _ROWS]) for column in columns]
        lines = [separator.join(row) for row in zip(*texts, strict=True)]
        yield ("\n".join(lines) + "\n").encode()
