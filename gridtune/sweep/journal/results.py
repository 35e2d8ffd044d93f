"""`results.parquet`: a row per cell; and results of other code, which are counted and left out."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.core.cells import Cell, CellResult, canonical_json
from gridtune.core.remarks import REMARK_COLUMNS, remark_columns
from gridtune.core.user_code.checksums import file_of
from gridtune.errors import SweepError
from gridtune.storage import draft_of
from gridtune.types import IntArray

#: Columns that differ between two runs of the same cells.
TIMING_COLUMNS = ("seconds", "worker")
#: Columns that describe a cell and not its configuration.
_OF_CELLS = ("cell_id", "replicate", "seed", "state", "error", *TIMING_COLUMNS)


def results_table(results: Sequence[CellResult]) -> pa.Table:
    """Return the table of results, a row each in the order given.

    Columns: `cell_id`, `configuration_id`, `workload` (label), `trace` (references), `trace_checksum`,
    `replicate` (label), `seed`, `state`, `error`; `param.*` for every parameter of the configurations (null
    where one does not apply; the replicate's own, such as the window, are in its label); `metric.*`
    (float64, null unless done, NaN where not defined); `remark.*` (what of the log is ignored, assumed or
    cut off; only those that some result has, null in the others); and, last, `seconds` and `worker`, which
    alone differ between two runs.
    """
    columns: dict[str, pa.Array] = {
        "cell_id": _text(result.cell_id for result in results),
        "configuration_id": _text(result.configuration_id for result in results),
        "workload": _text(result.workload for result in results),
        "trace": _text(result.trace for result in results),
        "trace_checksum": _text(", ".join(result.traces.values()) for result in results),
        "replicate": _text(result.replicate for result in results),
        "seed": pa.array([result.seed for result in results], pa.int64()),
        "state": _text(result.state for result in results),
        "error": _text(result.error for result in results),
    }
    for name in _names(result.configuration for result in results):
        columns[f"param.{name}"] = _values([result.configuration.get(name) for result in results])
    for name in sorted(_names(result.metrics for result in results)):
        values = [result.metrics.get(name) for result in results]
        columns[f"metric.{name}"] = pa.array(values, pa.float64())
    remarks = [remark_columns(result.notes) for result in results]
    for name in REMARK_COLUMNS:
        if any(name in remark for remark in remarks):
            columns[f"remark.{name}"] = _values([remark.get(name) for remark in remarks])
    columns["seconds"] = pa.array([result.seconds for result in results], pa.float64())
    columns["worker"] = _text(result.worker for result in results)
    return pa.table(columns)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table so that the file is either the old one or the new one, never half of it."""
    with draft_of(path) as draft:
        pq.write_table(table, draft)


def read_table(path: Path) -> pa.Table:
    """Return the table of cells in a file.

    Raises
    ------
    SweepError
        If the file holds no such table.
    """
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid:
        table = pa.table({})
    if "cell_id" not in table.column_names:
        raise SweepError(
            "the file is no table of a sweep's cells", path=path, hint="give the sweep's folder: results/NAME"
        )
    return table


def _text(values: Iterable[str | None]) -> pa.Array:
    return pa.array(list(values), pa.string())


def _names(mappings: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _values(values: list[Any]) -> pa.Array:
    """Return a parameter's column: numbers, words or switches; of mixed kinds, or lists, the JSON text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values, kinds = [None if value is None else float(value) for value in values], {float}
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        return pa.array(values)
    return _text(map(_as_text, values))


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else canonical_json(value)


def results_of(table: pa.Table, journal: Mapping[str, CellResult]) -> list[CellResult]:
    """Return the results of a table's cells, described as the table has them.

    The journal describes a cell as the search space that ran it did; the table as the latest one, which may
    have more dimensions, other labels or another path to a log (see `CellResult.of_cell`).

    Parameters
    ----------
    table
        A row per cell, as `results_table` makes it.
    journal
        Results by cell id; rows without one are passed over.
    """
    columns = [name for name in table.column_names if name not in _OF_CELLS]
    columns = [name for name in columns if not name.startswith(("metric.", "remark."))]
    first, groups = distinct_rows(table, columns)
    rows = table.select(columns).take(pa.array(first)).to_pylist()
    labels, places = table["replicate"].to_pylist(), groups.tolist()
    described: dict[tuple[int | str, ...], tuple[dict[str, Any], bool]] = {}
    found = []
    for cell_id, replicate, place in zip(table["cell_id"].to_pylist(), labels, places, strict=True):
        result = journal.get(cell_id)
        if result is None:
            continue
        # Results of a journal share their facts, and most are described as they were.
        key = place, id(result.configuration), id(result.traces), id(result.workload), result.configuration_id
        if key not in described:
            changed = _description(result, rows[place])
            described[key] = changed, all(getattr(result, name) == changed[name] for name in changed)
        changed, same = described[key]
        if result.replicate != replicate or not same:
            parameters = {**result.own_parameters, **changed["configuration"]}
            result = replace(result, **changed, replicate=replicate, parameters=parameters)
        found.append(result)
    return found


def distinct_rows(table: pa.Table, columns: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Return the first row of each combination of some columns' values, and each row's place among these."""
    groups = np.zeros(table.num_rows, dtype=np.int64)
    for column in columns:
        values = table[column].combine_chunks()
        if not pa.types.is_null(values.type):
            codes = values.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
            both = pa.array(groups * (codes.max(initial=0) + 1) + codes)
            groups = both.dictionary_encode().indices.to_numpy()
    # Places are in the order of the first rows.
    return np.flatnonzero(np.diff(np.maximum.accumulate(groups), prepend=-1)), groups


def _description(result: CellResult, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of a result, all but its replicate's, as a row of a table describes it."""
    columns = {name.removeprefix("param."): row[name] for name in row if name.startswith("param.")}
    configuration = {
        name: _as_given(result.configuration.get(name), value)
        for name, value in columns.items()
        # Null is a parameter that does not apply, or one that was given as null.
        if value is not None or (name in result.configuration and result.configuration[name] is None)
    }
    references, checksums = row["trace"].split(", "), row["trace_checksum"].split(", ")
    same = len(references) == len(checksums) == len(result.traces)
    return {
        "configuration_id": row["configuration_id"],
        "workload": row["workload"],
        "configuration": configuration,
        "traces": dict(zip(references, checksums, strict=True)) if same else result.traces,
    }


def _as_given(before: Any, value: Any) -> Any:
    """Return a value from a table, where a list is JSON text: as it was before if it is the same."""
    if before is not None and (before == value or _as_text(before) == value):
        return before
    if isinstance(value, str) and value.startswith("["):
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value


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
