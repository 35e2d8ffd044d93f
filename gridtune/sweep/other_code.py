"""Cells in a journal that other code has made: how many, and what has changed since.

A cell's id covers all code that decides its result, so such cells are never mixed with those of today's code;
they stay in the journal. What is left is to say so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gridtune.core.cells import CellResult, canonical_json
from gridtune.core.user_code import file_of

__all__ = ["OtherCode", "find_other_code"]

#: How an identity, which is canonical JSON, goes on after the code, and how its last parts begin.
_AFTER_CODE, _TRACES, _VERSION = '},"parameters":', ',"traces":', ',"version":'


class _Identified(Protocol):
    """A cell, or its result."""

    @property
    def cell_id(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def seed(self) -> int: ...
    @property
    def traces(self) -> Mapping[str, str]: ...


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
        """What a person reads of it."""
        cells, kept = ("1 cell", "it is") if self.cells == 1 else (f"{self.cells:,} cells", "they are")
        made = "was" if self.cells == 1 else "were"
        reasons = "; ".join(self.changes)
        return f"{cells} in the journal {made} made by other code ({reasons}); {kept} kept and not used"


def find_other_code(stored: Mapping[str, CellResult], cells: Iterable[_Identified]) -> OtherCode | None:
    """Return what a journal has of the same runs by other code, or None.

    Parameters
    ----------
    stored
        The journal's results by cell id.
    cells
        The cells of the sweep, or their results.
    """
    current = list(cells)
    rest = stored.keys() - {cell.cell_id for cell in current}
    if not rest:
        return None
    left = [stored[cell_id] for cell_id in rest]
    today = {_run(cell.identity): _code(cell.identity) for cell in current if cell.identity}
    found: Counter[tuple[str, str]] = Counter()
    for result in left:
        now = today.get(_run(result.identity)) if result.identity else None
        if now is not None and now != _code(result.identity):
            found[_code(result.identity), now] += 1
    if any(not result.identity for result in left):
        found += _of_earlier_gridtune(left, current)
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


def _of_earlier_gridtune(
    left: Iterable[CellResult], cells: Iterable[_Identified]
) -> Counter[tuple[str, str]]:
    """Count results without an identity: an earlier gridtune's, which did not note all code of users."""
    today = {_described(cell): _code(cell.identity) for cell in cells if cell.identity}
    old = (_described(result) for result in left if not result.identity)
    return Counter(("", today[run]) for run in old if run in today)


def _described(cell: _Identified) -> str:
    return canonical_json([cell.parameters, cell.seed, sorted(cell.traces.values())])


def _changes(before: str, now: str) -> Iterable[str]:
    if not before:
        yield "an earlier gridtune did not note all code of users"
        return
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
