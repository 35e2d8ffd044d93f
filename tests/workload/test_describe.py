"""The figures of a workload, against jobs small enough to work out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridtune.errors import WorkloadError
from gridtune.workload import Workload
from gridtune.workload.describe import (
    Quantiles,
    describe_workload,
    offered_load,
)


def small(**changes: Any) -> Workload:
    columns = {
        "submit_time": [0, 100, 100, 1000],
        "wait_time": [0, 50, -1, 0],
        "run_time": [100, 200, 0, -1],
        "requested_processors": [1, 4, 3, 2],
        "requested_time": [100, 400, -1, 50],
        "user": [7, 7, 8, -1],
    }
    columns.update(changes.pop("columns", {}))
    arrays = {name: np.array(values) for name, values in columns.items()}
    return Workload(arrays, name="small", machine_processors=changes.pop("machine", 4), **changes)


def test_figures() -> None:
    figures = describe_workload(small())
    assert (figures.jobs, figures.users, figures.groups, figures.processors) == (4, 2, 0, 4)
    assert figures.span_seconds == 1000
    assert figures.area_processor_seconds == 100 + 800
    assert figures.offered_load == 900 / 4000
    # Starts at 0 and 150, ends at 100 and 350.
    assert figures.recorded_utilisation == 900 / (4 * 350)
    assert (figures.run_time.count, figures.run_time.mean, figures.run_time.median) == (3, 100.0, 100.0)
    assert (figures.size.minimum, figures.size.maximum, figures.size.mean) == (1, 4, 2.5)
    assert (figures.inter_arrival.minimum, figures.inter_arrival.median) == (0, 100)
    assert (figures.wait_time.count, figures.wait_time.maximum) == (3, 50)
    assert figures.requested_time.count == 3
    assert (figures.estimate_accuracy.count, figures.estimate_accuracy.mean) == (2, 0.75)
    assert (figures.serial_share, figures.power_of_two_share, figures.at_limit_share) == (0.25, 0.5, 0.5)
    assert figures.busiest_user_share == pytest.approx(2 / 3)
    assert (figures.zero_run_time, figures.wider_than_machine, figures.unsorted) == (1, 0, 0)
    assert figures.unknown["run_time"] == 1
    assert figures.unknown["queue"] == 4
    assert "requested_processors" not in figures.unknown
    assert figures.first_submit is None


def test_quantiles_lie_between_order_statistics() -> None:
    spread = Quantiles.of(np.arange(1001)[::-1] ** 2)
    named = (spread.minimum, spread.p10, spread.p25, spread.median, spread.p75, spread.p90, spread.p99)
    assert (*named, spread.maximum) == tuple(np.array([0, 100, 250, 500, 750, 900, 990, 1000]) ** 2)
    assert (spread.count, spread.mean) == (1001, pytest.approx(1000 * 2001 / 6))
    assert Quantiles.of(np.array([3, 7])).p25 == 4.0


def test_another_machine_size() -> None:
    assert describe_workload(small(), processors=6).offered_load == 900 / 6000
    assert describe_workload(small(), processors=3).wider_than_machine == 1
    unknown = describe_workload(small(machine=None))
    assert math.isnan(unknown.offered_load)
    assert unknown.wider_than_machine == 0


def test_missing_quantities_are_not_numbers() -> None:
    figures = describe_workload(small(columns={"run_time": [-1] * 4, "requested_processors": [-1] * 4}))
    assert figures.run_time.count == 0
    assert math.isnan(figures.run_time.mean)
    assert math.isnan(figures.serial_share)
    assert figures.unknown["run_time"] == 4


def test_one_job_has_no_load() -> None:
    lone = small().take(slice(0, 1))
    assert math.isnan(offered_load(lone))
    assert describe_workload(lone).inter_arrival.count == 0


def test_no_jobs() -> None:
    with pytest.raises(WorkloadError, match="no jobs to describe"):
        describe_workload(small().take(slice(0, 0)))


def test_instants_are_in_the_zone_of_the_log() -> None:
    header = {"UnixStartTime": ("859672800",), "TimeZoneString": ("Europe/Stockholm",)}
    workload = Workload({"submit_time": np.array([0, 86_400]), "run_time": np.array([1, 1])}, header=header)
    figures = describe_workload(workload)
    # Summer time begins between the two.
    assert figures.first_submit == "1997-03-29T23:00:00+01:00"
    assert figures.last_submit == "1997-03-31T00:00:00+02:00"


@pytest.mark.parametrize(
    ("header", "instant"),
    [
        ({"UnixStartTime": ("3600",), "TimeZone": ("-7200",)}, "1969-12-31T23:00:00-02:00"),
        ({"UnixStartTime": ("3600",), "TimeZoneString": ("Nowhere/Land",)}, "1970-01-01T01:00:00+00:00"),
        ({"UnixStartTime": ("soon",)}, None),
        ({}, None),
    ],
)
def test_instants_of_other_headers(header: dict[str, tuple[str, ...]], instant: str | None) -> None:
    workload = Workload({"submit_time": np.array([0]), "run_time": np.array([1])}, header=header)
    assert describe_workload(workload).first_submit == instant


@pytest.mark.real_traces
def test_kth_figures(trace_dir: Path) -> None:
    """Figures that the archive's page and header state for this log."""
    from gridtune.workload import read_workload  # noqa: PLC0415

    figures = describe_workload(read_workload(next(trace_dir.rglob("KTH-SP2-1996-2.1-cln.swf.gz"))))
    assert (figures.jobs, figures.processors) == (28_476, 100)
    assert figures.recorded_utilisation == pytest.approx(0.70, abs=0.01)
    assert figures.wait_time.count == 28_476
