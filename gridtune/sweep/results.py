"""`results.parquet`: a row per cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.sweep.cells import CellResult, canonical_json

__all__ = ["TIMING_COLUMNS", "in_table", "results_table", "write_table"]

#: Columns that differ between two runs of the same cells.
TIMING_COLUMNS = ("seconds", "worker")


def results_table(results: Sequence[CellResult]) -> pa.Table:
    """Return the table of results, a row each in the order given.

    Columns: `cell_id`, `configuration_id`, `workload` (label), `trace` (references), `trace_checksum`,
    `replicate` (label), `seed`, `state`, `error`; `param.*` for every parameter of the configurations (null
    where one does not apply; the replicate's own, such as the window, are in its label); `metric.*`
    (float64, null unless done, NaN where not defined); and, last, `seconds` and `worker`, which alone differ
    between two runs.
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
    columns["seconds"] = pa.array([result.seconds for result in results], pa.float64())
    columns["worker"] = _text(result.worker for result in results)
    return pa.table(columns)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table so that the file is either the old one or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f"{path.suffix}.draft")
    pq.write_table(table, draft)
    draft.replace(path)


def _text(values: Iterable[str | None]) -> pa.Array:
    return pa.array(list(values), pa.string())


def _names(mappings: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _values(values: list[Any]) -> pa.Array:
    """Return a parameter's column: numbers, words or switches; of mixed kinds, or lists, the JSON text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values, kinds = [None if value is None else float(value) for value in values], {float}
    for kind, column_type in (
        (bool, pa.bool_()),
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
    ):
        if kinds == {kind}:
            return pa.array(values, column_type)
    return _text(map(_as_text, values))


def _as_text(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else canonical_json(value)


def in_table(table: pa.Table, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as a table of cells holds them: lists, and numbers among words, are JSON text there.

    Parameters
    ----------
    table
        A row per cell, as `results_table` makes it.
    parameters
        Name to value; one without a column stays as it is.
    """

    def held(name: str, value: Any) -> Any:
        column = table.schema.get_field_index(f"param.{name}")
        is_text = column >= 0 and pa.types.is_string(table.schema.field(column).type)
        return _as_text(value) if is_text else value

    return {name: held(name, value) for name, value in parameters.items()}
