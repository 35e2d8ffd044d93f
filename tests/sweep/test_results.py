"""The table of results: a row per cell, whole even where cells failed."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.sweep import TIMING_COLUMNS, CellResult, results_table, space_cells
from gridtune.sweep.results import write_table
from tests.sweep.spaces import toy_space


def results() -> list[CellResult]:
    space = toy_space(
        dimensions={
            "x": [1, 2.5],
            "word": ["a", "b"],
            "depth": {"grid": [1, 2], "when": {"word": "b"}},
        },
        replicates={"windows": 2},
    )
    made = [
        CellResult.of(cell, "done", metrics={"loss": 1.0, "size": math.nan}, seconds=0.5, worker="w")
        for cell in space_cells(space)
    ]
    bad = made[1]
    made[1] = CellResult.from_record({**bad.as_record(), "state": "lost", "error": "gone", "metrics": {}})
    return made


def test_columns_and_kinds() -> None:
    table = results_table(results())
    assert table.num_rows == 12
    assert table.schema.field("param.x").type == pa.float64()
    assert table.schema.field("param.depth").type == pa.int64()
    assert table["param.depth"].null_count == 4
    assert "param.window" not in table.column_names
    assert table["replicate"].to_pylist()[:2] == ["window 1/2", "window 2/2"]
    assert tuple(table.column_names[-2:]) == TIMING_COLUMNS


def test_a_cell_without_result_is_a_row_with_its_error() -> None:
    row = results_table(results()).slice(1, 1).to_pylist()[0]
    assert (row["state"], row["error"], row["metric.loss"]) == ("lost", "gone", None)


def test_not_a_number_is_not_nothing() -> None:
    column = results_table(results())["metric.size"]
    assert column.null_count == 1
    assert math.isnan(column[0].as_py())


def test_no_results_are_a_table_too() -> None:
    assert results_table([]).num_rows == 0


def test_a_written_table_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.parquet"
    for count in (1, 3):
        write_table(results_table(results()[:count]), path)
        assert pq.read_table(path).num_rows == count
    assert [each.name for each in path.parent.iterdir()] == ["results.parquet"]
