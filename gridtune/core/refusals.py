"""What to do about a value that pydantic refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gridtune.registry import nearest_name

__all__ = ["refusal_hint"]


def refusal_hint(error: Mapping[str, Any], value: Any) -> str | None:
    """Return what to do about a value that pydantic refused, as far as its error tells."""
    if error["type"] not in {"literal_error", "string_type"}:
        return None
    if isinstance(value, bool):
        return f"YAML reads a bare `{'yes' if value else 'no'}` as {str(value).lower()}: quote it"
    choices = re.findall(r"'([^']*)'", error.get("ctx", {}).get("expected", ""))
    near = nearest_name(str(value), choices)
    return None if near is None else f"did you mean {near!r}?"
