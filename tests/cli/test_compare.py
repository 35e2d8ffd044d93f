"""`gridtune results compare`: two sweeps or two configurations, paired; what cannot be paired is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gridtune.cli.main import main
from gridtune.core.system import get_system
from gridtune.report.rankings.comparison import Side, compare
from gridtune.statistics import joint_paired_p_values, neighbour_correlation, paired_difference
from gridtune.study.stored import read_sweep
from tests.cli.folders import finished_sweep, quickstart


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_sweep(tmp_path_factory.mktemp("sweep") / "small", quickstart())


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["results", "compare", *map(str, arguments)])
    return int(ended.value.code or 0)


def compared(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert run(*arguments, "--json") == 0
    return dict(json.loads(capsys.readouterr().out))


def values(folder: Path, **parameters: str) -> list[float]:
    """Return the objective of a configuration by replicate."""
    rows = read_sweep(folder).table.to_pylist()
    return [
        row["metric.bounded_slowdown_mean"]
        for row in sorted(rows, key=lambda row: row["seed"])
        if all(row[f"param.{name}"] == value for name, value in parameters.items())
    ]


def test_two_configurations_are_paired_by_replicate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = ["--configuration", "order=fcfs,backfill=easy", "--configuration", "order=saf,backfill=easy"]
    (row,) = compared(capsys, folder, *sides)["comparisons"]
    fcfs, saf = (values(folder, order=order, backfill="easy") for order in ("fcfs", "saf"))
    correlation = neighbour_correlation(saf, fcfs)
    assert correlation > 0
    expected = paired_difference(saf, fcfs, rng=np.random.default_rng(20_011), correlation=correlation)
    assert row["n"] == 10
    assert row["first_mean"] == pytest.approx(np.mean(fcfs))
    assert row["second_mean"] == pytest.approx(np.mean(saf))
    assert row["diff"] == pytest.approx(expected.difference)
    assert row["diff_low"] == pytest.approx(expected.low)
    p_value = joint_paired_p_values(saf, fcfs, rng=np.random.default_rng(20_011), correlation=correlation)
    assert row["p_value"] == pytest.approx(p_value[0])
    assert row["verdict"] == "better typically"


@pytest.mark.parametrize("failing", [0, 1])
def test_failed_runs_on_either_side_leave_no_verdict(folder: Path, failing: int) -> None:
    sweep = read_sweep(folder)
    rows = sweep.table.to_pylist()
    orders = [{"order": order, "backfill": "easy"} for order in ("fcfs", "saf")]
    wanted = {f"param.{name}": value for name, value in orders[failing].items()}
    next(row for row in rows if wanted.items() <= row.items())["state"] = "failed"
    table = pa.Table.from_pylist(rows, schema=sweep.table.schema)
    first, second = (Side(side["order"], sweep.facts, table, dict(side)) for side in orders)
    comparison = compare(first, second, sweep.system)
    assert [row["verdict"] for row in comparison.rows] == ["runs failed"]
    name = (first, second)[failing].name
    assert f"1 of 10 runs of {name} failed: a comparison with failed runs has no verdict" in comparison.notes


def test_the_sides_change_places_and_signs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = ["--configuration", "order=saf", "--configuration", "order=fcfs"]
    rows = compared(capsys, folder, *sides)["comparisons"]
    # What is not named is the same on both sides.
    assert {row["backfill"] for row in rows} == {"none", "easy"}
    assert all(row["diff"] > 0 and row["verdict"] == "worse" for row in rows)


def test_two_sweeps_are_compared_where_both_have_the_configuration(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = quickstart(
        fixed={"trace": "quickstart", "kill": False}, dimensions={"order": ["sjf", "f1", "fcfs"]}
    )
    second = finished_sweep(tmp_path / "other", other)
    content = compared(capsys, folder, second)
    # The other has the default of `backfill`, which is easy; f1 is in one of the two only.
    assert {(row["order"], row["backfill"]) for row in content["comparisons"]} == {
        ("fcfs", "easy"),
        ("sjf", "easy"),
    }
    assert content["differs"] == {"kill": ["auto", False]}
    assert any("in one of the two only" in note for note in content["notes"])


def test_the_same_sweep_twice_is_equal(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = finished_sweep(tmp_path / "again", quickstart())
    assert {row["verdict"] for row in compared(capsys, folder, second)["comparisons"]} == {"equal"}
    path = tmp_path / "rows.csv"
    assert run(folder, second, "--objective", "utilisation", "--csv", path) == 0
    printed = capsys.readouterr().out
    assert "utilisation, larger is better" in printed
    assert "equal in 6 of 6" in printed
    with path.open() as file:
        assert len(list(csv.DictReader(file))) == 6


def test_other_code_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(type(get_system("batch")), "version", "next")
    second = finished_sweep(tmp_path / "next", quickstart())
    (note,) = compared(capsys, folder, second)["notes"]
    assert "other code" in note
    assert "is next" in note


def test_workloads_are_compared_each_and_over_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = quickstart(
        fixed=None,
        workloads=[{"trace": "quickstart"}, {"trace": "mm4", "processors": 4}],
        dimensions={"order": ["fcfs", "saf"]},
    )
    folder = finished_sweep(tmp_path / "two", space)
    sides = ["--configuration", "order=fcfs", "--configuration", "order=saf"]
    content = compared(capsys, folder, *sides)
    assert {row["workload"] for row in content["comparisons"]} == {"quickstart", "mm4"}
    (overall,) = content["overall"]
    assert overall["relative"] == pytest.approx(np.mean([row["relative"] for row in content["comparisons"]]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"replicates": {"windows": 5}},
            ["no replicate in common", "window 1/10 … window 10/10", "window 1/5"],
        ),
        (
            {"fixed": {"trace": "mm4", "processors": 4}},
            ["no workload in common: ", "has quickstart", "has mm4"],
        ),
        (
            {"fixed": None, "workloads": [{"trace": "mm4", "processors": 4, "label": "quickstart"}]},
            ["quickstart is not the same log on both sides"],
        ),
        (
            {"dimensions": {"order": ["f1"]}, "baseline": None},
            ["no configuration is both in", "--configuration NAME=VALUE"],
        ),
    ],
)
def test_what_cannot_be_paired_is_refused(
    folder: Path,
    tmp_path: Path,
    changes: dict[str, Any],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = finished_sweep(tmp_path / "other", quickstart(**changes))
    assert run(folder, other) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ([], "give a second folder, or --configuration twice"),
        (["--configuration", "order=saf", "--configuration", "order=saf"], "both sides are order=saf"),
        (["--configuration", "order=saf", "--configuration", "order=xyz"], "order has fcfs, sjf, saf"),
        (["--configuration", "order=saf", "--configuration", "saf"], "'saf' is not NAME=VALUE"),
    ],
)
def test_sides_that_make_no_sense_are_refused(
    folder: Path, options: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *options) == 2
    assert word in capsys.readouterr().err


def test_the_name_of_a_sweep_is_answered_with_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "orders").mkdir(parents=True)
    with pytest.raises(SystemExit):
        main(["results", "compare", "orders", "orders"])
    assert f"did you mean {Path('results', 'orders')}?" in capsys.readouterr().err
