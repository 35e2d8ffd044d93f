"""The table of results: a row per cell, whole even where cells failed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.core.cells import CellResult
from gridtune.sweep.journal.results import TIMING_COLUMNS, results_of, results_table, write_table
from gridtune.sweep.run import space_cells
from gridtune.sweep.space.plan import plan_space
from tests.sweep.spaces import toy_space

WINDOWS = {"windows": 2}


def results() -> list[CellResult]:
    space = toy_space(
        dimensions={
            "x": [1, 2.5],
            "word": ["a", "b"],
            "depth": {"grid": [1, 2], "when": {"word": "b"}},
        },
        replicates={"windows": 2},
    )
    results = [
        CellResult.of(cell, "done", metrics={"loss": 1.0, "size": math.nan}, seconds=0.5, worker="w")
        for cell in space_cells(space)
    ]
    bad = results[1]
    results[1] = replace(bad, state="lost", error="gone", metrics={})
    return results


def test_columns_and_kinds() -> None:
    table = results_table(results())
    assert table.num_rows == 12
    assert table.schema.field("param.x").type == pa.float64()
    assert table.schema.field("param.depth").type == pa.int64()
    assert table["param.depth"].null_count == 4
    assert "param.part" not in table.column_names
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
    assert [file.name for file in path.parent.iterdir()] == ["results.parquet"]


def test_a_tables_cells_are_described_as_it_has_them_not_as_the_journal_first_did() -> None:
    before = toy_space(
        dimensions={"x": [1, 2]},
        fixed={"nap": 0.0},
        workloads=[{"rate": 1.0, "label": "old"}],
        replicates=WINDOWS,
    )
    after = toy_space(
        dimensions={"x": [1, 2.0], "word": ["a", "b"], "depth": {"grid": [None, 1], "when": {"word": "a"}}},
        workloads=[{"rate": 1, "label": "new"}],
        replicates=WINDOWS,
    )
    journal = {cell.cell_id: CellResult.of(cell, "done", seconds=1.0) for cell in space_cells(before)}
    shared = len(journal)
    now = [CellResult.of(cell, "done", seconds=1.0) for cell in space_cells(after)]
    for result in now:
        journal.setdefault(result.cell_id, result)
    assert len(journal) == len(now) > shared
    described = results_of(results_table(now), journal)
    assert [result.cell_id for result in described] == [result.cell_id for result in now]
    for old, new in zip(described, now, strict=True):
        assert (old.workload, old.replicate, old.traces) == (new.workload, new.replicate, new.traces)
        stored = {name: value for name, value in new.configuration.items() if value is not None}
        assert {name: value for name, value in old.configuration.items() if value is not None} == stored
        assert old.parameters["part"] == new.parameters["part"]
        assert set(old.parameters) == set(old.configuration) | {"part"}


def test_lists_and_numbers_among_words_come_back_from_a_table() -> None:
    space = {"name": "x", "fixed": {"trace": "quickstart"}, "objective": "wait_mean"}
    clean = {"clean": [["default"], ["default", "drop_wider"]], "partition": [1, "short"]}
    # The cells are made up: that the log has no partitions does not matter.
    now = [CellResult.of(cell, "done") for cell in plan_space({**space, "dimensions": clean}).cells()]
    first = [replace(result, configuration={}) for result in now]
    for stored in (now, first):
        described = results_of(results_table(now), {result.cell_id: result for result in stored})
        assert [result.configuration["clean"] for result in described] == [
            result.configuration["clean"] for result in now
        ]
        assert [str(result.configuration["partition"]) for result in described] == ["1", "short"] * 2
        assert [result.traces for result in described] == [result.traces for result in now]


def test_remarks_are_columns_where_there_are_any(tmp_path: Path) -> None:
    plain = results()
    assert not [name for name in results_table(plain).column_names if name.startswith("remark.")]
    killed = {"jobs": 3, "work_lost": 0.25}
    notes = {"jobs": 9, "ignored": "memory, in 4 jobs", "orders": ["sjf", "saf"], "killed": killed}
    table = results_table([replace(plain[0], notes=notes), *plain[1:]])
    columns = [name for name in table.column_names if name.startswith("remark.")]
    assert columns == ["remark.ignored", "remark.orders", "remark.killed_jobs", "remark.work_lost"]
    assert tuple(table.column_names[-2:]) == TIMING_COLUMNS
    write_table(table, tmp_path / "results.parquet")
    first, second = pq.read_table(tmp_path / "results.parquet").select(columns).slice(0, 2).to_pylist()
    assert list(first.values()) == ["memory, in 4 jobs", "sjf, saf", 3, 0.25]
    assert set(second.values()) == {None}
    assert [result.cell_id for result in results_of(table, {plain[0].cell_id: plain[0]})] == [
        plain[0].cell_id
    ]
