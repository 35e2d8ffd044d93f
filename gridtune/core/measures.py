"""Measures: the metrics that a system declares, and the file beside its module that lists them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar

#: Which way is better; "none" where it is no goal.
Direction = Literal["min", "max", "none"]


@dataclass(frozen=True)
class Measure:
    """A measure of a system.

    Attributes
    ----------
    unit
        "s", "1" (a ratio), "jobs".
    direction
        The better one.
    formula
        In plain text.
    source
        The publication that defines it, with its equation or section; "gridtune" for our own.
    """

    unit: str
    direction: Direction
    formula: str
    source: str = field(kw_only=True)

    @classmethod
    def own(cls, unit: str, direction: Direction, formula: str) -> Measure:
        """Return a measure that gridtune itself defines."""
        return Measure(unit, direction, formula, source="gridtune")


_M = TypeVar("_M", bound=Measure)


def read_metrics(module: str, kind: type[_M]) -> Mapping[str, _M]:
    """Return the metrics in `metrics.toml` beside a module.

    A metric's table has the fields of `kind`; without a source, gridtune defines it. Braces in a source hold
    the name of one of `[sources]`.
    """
    declared = tomllib.loads(Path(module).with_name("metrics.toml").read_text(encoding="utf-8"))
    metrics = {}
    for name, entry in declared["metrics"].items():
        source = entry.pop("source", "gridtune").format(**declared.get("sources", {}))
        metrics[name] = kind(**entry, source=source)
    return MappingProxyType(metrics)
