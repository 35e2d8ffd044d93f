"""Hints for names and values that a system refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gridtune.core.system import System
from gridtune.registry import name_hint, nearest_name

__all__ = ["metric_hint", "parameter_hint", "refusal_hint"]


def parameter_hint(system: System, name: str) -> str:
    """Return what to write instead of a parameter that the system does not have."""
    return name_hint(name, system.Parameters.model_fields, system.Parameters.renamed_parameters)


def metric_hint(system: System, name: str) -> str:
    """Return what to write instead of a metric that the system does not have."""
    return name_hint(name, system.metrics, {old: now.name for old, now in system.renamed_metrics.items()})


def refusal_hint(error: Mapping[str, Any], value: Any) -> str | None:
    """Return a hint for a value that pydantic refused, where its error allows one."""
    if error["type"] not in {"literal_error", "string_type"}:
        return None
    if isinstance(value, bool):
        return f"YAML reads a bare `{'yes' if value else 'no'}` as {str(value).lower()}: quote it"
    choices = re.findall(r"'([^']*)'", error.get("ctx", {}).get("expected", ""))
    near = nearest_name(str(value), choices)
    return None if near is None else f"did you mean {near!r}?"
