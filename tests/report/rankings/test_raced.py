"""Rankings over all strata of a race: what is run again under another condition is no new evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gridtune.report.rankings.combined import rank_overall
from gridtune.report.rankings.eligibility import raced_overall
from gridtune.report.rankings.ranking import rank
from gridtune.sweep.search.racing import RacePlan

LABELS = tuple(f"window {number + 1}/8" for number in range(8))
PLAN = RacePlan(LABELS, (8,), 0.05)


def verdicts(values: np.ndarray[Any, Any], logs: list[str]) -> list[str]:
    """Return the verdicts of configurations × windows that are the same in each of the workloads."""
    rows = [
        {
            "configuration_id": f"{workload}{number}",
            "workload": f"workload {workload}",
            "trace_checksum": log,
            "replicate": label,
            "state": "done",
            "param.number": number,
            "metric.wait": float(value),
        }
        for workload, log in enumerate(logs)
        for number, row in enumerate(values)
        for label, value in zip(LABELS, row, strict=True)
    ]
    table = pa.Table.from_pylist(rows)
    single = rank(table, objective="wait", direction="min", baseline={"number": 0})
    overall = rank_overall(table, single)
    assert overall is not None
    ranking = raced_overall(overall, single, table, PLAN).to_pylist()
    return [row["verdict"] for row in sorted(ranking, key=lambda row: row["param.number"])]


@pytest.mark.parametrize(("shift", "better"), [(0.0, 4.0), (-100.0, 4.0), (-50.0, 5.5)])
def test_a_window_counts_once_under_any_number_of_conditions(shift: float, better: float) -> None:
    """For values that are positive, negative and of both signs."""
    rng = np.random.default_rng(4)
    values = 50 + rng.normal(0, 3, (6, 8)) + shift
    values[1] -= better
    apart = verdicts(values, ["a", "b", "c", "d"])
    assert {"better", "better typically"} & set(apart)
    assert not {"better", "better typically"} & set(verdicts(values, ["a", "a", "a", "a"]))
