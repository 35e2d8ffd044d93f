"""Results of an earlier gridtune or of other code: renamed to today's names, or counted and left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gridtune.core.cells import Cell, CellResult
from gridtune.core.system import RenamedMetric, System
from gridtune.core.user_code.checksums import file_of

__all__ = [
    "OtherCode",
    "Renaming",
    "find_other_code",
]

#: Results that do not say their version are of the first one that had any.
_FIRST = "1"


class Renaming:
    """Gives old results their names of today, and remembers which old names it has met.

    Parameters
    ----------
    system
        The system of the results; None leaves every name as it is.
    """

    def __init__(self, system: System | None) -> None:
        self._metrics: Mapping[str, RenamedMetric] = {}
        self._parameters: Mapping[str, str] = {}
        self._values: Mapping[str, Mapping[str, Mapping[Any, Any]]] = {}
        if system is not None:
            metrics, parameters = system.renamed_metrics, system.Parameters.renamed_parameters
            # A name that is in use means what it means today.
            self._metrics = {old: metrics[old] for old in metrics.keys() - system.metrics.keys()}
            fields = system.Parameters.model_fields
            self._parameters = {old: parameters[old] for old in parameters.keys() - fields.keys()}
            self._values = system.renamed_values
        self._renamed: dict[str, str] = {}

    @property
    def message(self) -> str | None:
        """Old names with those of today; None if there were none."""
        if not self._renamed:
            return None
        names = ", ".join(f"{old} is now {new}" for old, new in sorted(self._renamed.items()))
        return f"the journal is of an earlier gridtune: {names}"

    def result(self, result: CellResult) -> CellResult:
        """Return a cell's result with the names and units of today."""
        version = json.loads(result.identity)["version"] if self._values and result.identity else _FIRST
        if (
            self._metrics.keys().isdisjoint(result.metrics)
            and self._parameters.keys().isdisjoint(result.parameters)
            and self._values.get(version, {}).keys().isdisjoint(result.parameters)
        ):
            return result
        return replace(
            result,
            configuration=self.parameters(result.configuration, version),
            parameters=self.parameters(result.parameters, version),
            metrics={
                self.metric(name).name: value * self.metric(name).factor
                for name, value in result.metrics.items()
            },
        )

    def table(self, table: pa.Table, version: str) -> pa.Table:
        """Return a table of cells of a version of the system with the names and units of today."""
        values = self._values.get(version, {})
        for index, column in enumerate(table.column_names):
            kind, _, name = column.partition(".")
            if kind == "metric" and name in self._metrics:
                now = self.metric(name)
                scaled = pc.multiply(table[column], now.factor)
                table = table.set_column(index, f"metric.{now.name}", scaled)
            elif kind == "param" and (name in self._parameters or name in values):
                today = [self._value(name, value, version) for value in table[column].to_pylist()]
                renamed = pa.array(today, type=table[column].type)
                table = table.set_column(index, f"param.{self.parameter(name)}", renamed)
        return table

    def parameters(self, values: Mapping[str, Any], version: str) -> dict[str, Any]:
        """Return values of a version of the system, and the names of their parameters, as they are today."""
        return {self.parameter(name): self._value(name, value, version) for name, value in values.items()}

    def _value(self, name: str, value: Any, version: str) -> Any:
        renamed = self._values.get(version, {}).get(name)
        if renamed is None or value not in renamed:
            return value
        self._renamed[f"{name}={value}"] = f"{name}={renamed[value]}"
        return renamed[value]

    def parameter(self, name: str) -> str:
        """Return a parameter's name of today."""
        now = self._parameters.get(name)
        if now is None:
            return name
        self._renamed[f"the parameter {name}"] = now
        return now

    def metric(self, name: str) -> RenamedMetric:
        """Return a metric's name of today, with the factor that converts old values."""
        now = self._metrics.get(name)
        if now is None:
            return RenamedMetric(name)
        factor = "" if now.factor == 1 else f" (× {now.factor:g})"
        self._renamed[name] = f"{now.name}{factor}"
        return now


#: How an identity, which is canonical JSON, goes on after the code, and how its last parts begin.
_AFTER_CODE, _TRACES, _VERSION = '},"parameters":', ',"traces":', ',"version":'


@dataclass(frozen=True)
class OtherCode:
    """Cells of a journal that other code has made than what runs today.

    Attributes
    ----------
    cells
        Their number.
    changes
        What is different, a clause each.
    """

    cells: int
    changes: tuple[str, ...]

    @property
    def message(self) -> str:
        """Message for a person."""
        cells, kept = ("1 cell", "it is") if self.cells == 1 else (f"{self.cells:,} cells", "they are")
        made = "was" if self.cells == 1 else "were"
        reasons = "; ".join(self.changes)
        return f"{cells} in the journal {made} made by other code ({reasons}); {kept} kept and not used"


def find_other_code(stored: Mapping[str, CellResult], cells: Iterable[Cell | CellResult]) -> OtherCode | None:
    """Return what a journal has of the same runs by other code, or None.

    Parameters
    ----------
    stored
        The journal's results by cell id.
    cells
        The cells of the sweep, or their results.
    """
    current = {cell.cell_id: cell.identity for cell in cells}
    left = [stored[cell_id].identity for cell_id in stored.keys() - current.keys()]
    today = {_run(identity): _code(identity) for identity in current.values() if identity} if left else {}
    found: Counter[tuple[str, str]] = Counter()
    # Results of the first journals have no identity.
    for identity in filter(None, left):
        now = today.get(_run(identity))
        if now is not None and now != _code(identity):
            found[_code(identity), now] += 1
    if not found:
        return None
    changes = {change for before, now in found for change in _changes(before, now)}
    return OtherCode(found.total(), tuple(sorted(changes)))


def _run(identity: str) -> str:
    """Return the part of an identity that says which run it is: parameters, seed and system.

    Not the traces: a cleaning rule that has changed may read them otherwise.
    """
    return identity[identity.index(_AFTER_CODE) : identity.rindex(_TRACES)]


def _code(identity: str) -> str:
    """Return the code and the version of an identity, as JSON."""
    return identity[: identity.index(_AFTER_CODE)] + "}" + identity[identity.rindex(_VERSION) :]


def _changes(before: str, now: str) -> Iterable[str]:
    old, new = json.loads(before), json.loads(now)
    for label in sorted(old["code"].keys() | new["code"].keys()):
        file = file_of(label)
        named = label if file is None else f"{label} in {file.name}"
        if label not in new["code"]:
            yield f"{label} is no longer used"
        elif label not in old["code"]:
            yield f"{named} is new"
        elif old["code"][label] != new["code"][label]:
            yield f"{named} has changed"
    if old["version"] != new["version"]:
        yield f"the system's version was {old['version']} and is {new['version']}"
