"""Cases at a limit: equal first places, few replicates, and bounds or baselines of 0."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from gridtune.report.findings import answers_of
from gridtune.report.rankings.cells import gap_to_bound, read_cells
from gridtune.report.rankings.combined import _correlation
from gridtune.report.rankings.ranking import rank
from gridtune.statistics import paired_difference


def table_of(waits: dict[str, list[float]]) -> pa.Table:
    """Return cells by order; seed to wait."""
    rows = [
        {
            "configuration_id": order,
            "workload": "log",
            "replicate": f"seed {seed}",
            "state": "done",
            "param.order": order,
            "metric.wait": wait,
        }
        for order, values in waits.items()
        for seed, wait in enumerate(values)
    ]
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize(
    ("orders", "text"),
    [("ab", "; the same with b"), ("abc", "; the same with b, c")],
)
def test_equal_first_places_are_named(orders: str, text: str) -> None:
    cells = read_cells(table_of({order: [1.0, 2.0] for order in orders} | {"z": [3.0, 4.0]}))
    ranking = rank(cells, objective="wait", direction="min")
    (answer,) = answers_of(ranking, ranking)
    assert answer.size.endswith(text)


def test_a_single_first_place_is_shared_with_nobody() -> None:
    ranking = rank(
        read_cells(table_of({"a": [1.0, 2.0], "z": [3.0, 4.0]})), objective="wait", direction="min"
    )
    (answer,) = answers_of(ranking, ranking)
    assert "the same" not in answer.size


def test_samples_have_the_replicates_of_either_configuration() -> None:
    (stratum,) = read_cells(table_of({"a": [1.0, 2.0], "b": [3.0], "c": [4.0, 5.0, 6.0]})).strata
    np.testing.assert_array_equal(stratum.samples("wait", ["a", "b"]), [[1.0, 2.0], [3.0, math.nan]])


def test_a_bound_of_0_gives_no_gap() -> None:
    gaps = gap_to_bound(np.array([[1.0, 2.0], [3.0, 3.0]]), np.array([[0.0, 0.0], [1.0, 2.0]]), "min")
    np.testing.assert_array_equal(gaps, [math.nan, 1.0])


def test_strata_correlate_from_four_common_replicates_on() -> None:
    both = np.array([[1.0, 2.0, 3.0, 5.0], [2.0, 1.0, 4.0, 4.0]])
    assert _correlation(both) == pytest.approx(np.corrcoef(both)[0, 1])
    assert _correlation(both) < 1
    assert _correlation(both[:, :3]) == 1
    # Where one does not vary, nothing tells.
    assert _correlation(np.array([both[0], np.full(both.shape[1], 2.0)])) == 1


def test_a_baseline_whose_resampled_mean_may_be_0_has_no_relative_interval() -> None:
    found = paired_difference([1.0, 2.0, 3.0, 9.0], [0.0, 0.0, 0.0, 5.0], rng=np.random.default_rng(0))
    assert found.relative == pytest.approx(2.0)
    assert math.isnan(found.relative_low)
    assert math.isnan(found.relative_high)
    assert found.low < found.difference < found.high
