"""Gaps to bounds in rankings, worked out by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gridtune.report.rankings.cells import gap_to_bound
from gridtune.report.tables import GAP_NOTE, ranking_markdown
from tests.report.synthetic import overall_of, ranking_of

WAITS = {"a": [10.0, 30.0], "b": [20.0, None]}
BOUNDS = [8.0, 12.0]


def table_of(*workloads: str, bounds: bool = True, factor: float = 1.0) -> pa.Table:
    rows = [
        {
            "configuration_id": workload + order,
            "workload": workload,
            "replicate": f"window {number}/2",
            "state": "failed" if wait is None else "done",
            "param.order": order,
            "metric.wait": wait if wait is None else wait * (factor if workload == "second" else 1),
            **({"metric.wait_bound": None if wait is None else BOUNDS[number - 1]} if bounds else {}),
        }
        for workload in workloads
        for order, waits in WAITS.items()
        for number, wait in enumerate(waits, start=1)
    ]
    return pa.Table.from_pylist(rows)


def gaps(table: pa.Table, direction: str) -> dict[str, float]:
    rows = ranking_of(table, objective="wait", direction=direction, baseline=None).rows
    return {row["param.order"]: row["gap"] for row in rows}


def test_a_bound_may_be_small_and_not_0() -> None:
    bounds = np.array([[0.25, 0.5], [0.0, 0.0], [np.nan, np.nan]])
    found = gap_to_bound(np.full((3, 2), 1.5), bounds, "min")
    np.testing.assert_allclose(found, [3 / 0.75 - 1, np.nan, np.nan])
    np.testing.assert_allclose(gap_to_bound(bounds, np.full((3, 2), 1.5), "max")[0], 1 - 0.75 / 3)


def test_a_gap_is_over_the_replicates_with_a_value() -> None:
    assert gaps(table_of("log"), "min") == pytest.approx({"a": 40 / 20 - 1, "b": 20 / 8 - 1})


def test_where_more_is_better_a_value_below_the_bound_is_behind() -> None:
    assert gaps(table_of("log"), "max") == pytest.approx({"a": 1 - 40 / 20, "b": 1 - 20 / 8})


def test_the_gap_over_all_logs_is_the_mean_of_theirs() -> None:
    table = table_of("first", "second", factor=2)
    ranking = overall_of(table, objective="wait", direction="min", baseline={"order": "a"})
    assert ranking is not None
    assert [row["gap"] for row in ranking.rows][:1] == pytest.approx([(1 + 3) / 2])


@pytest.mark.parametrize("bounds", [True, False])
def test_tables_have_the_column_where_there_is_a_bound(bounds: bool) -> None:
    ranking = ranking_of(
        table_of("log", bounds=bounds), objective="wait", direction="min", baseline={"order": "a"}
    )
    text = ranking_markdown(ranking)
    assert ("| gap |" in text, GAP_NOTE in text) == (bounds, bounds)
