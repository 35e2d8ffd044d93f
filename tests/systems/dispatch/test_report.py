"""The dispatch system's tables and figures, from made-up cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gridtune.core.cells import CellResult
from gridtune.systems.dispatch.parameters import TABLE_1
from gridtune.systems.dispatch.published import PUBLISHED, TABLE_2, TABLE_3, TABLE_5, TABLE_6
from gridtune.systems.dispatch.report import gather, write


def cell(
    number: int, parameters: dict[str, Any], ratio: float, late: float, *, batches: int = 5, jobs: int = 1000
) -> CellResult:
    """A cell with `ratio` times the reference's 100 jobs in time, and mean tardiness `late`."""
    notes = {
        "jobs_by_batch": [jobs] * batches,
        "in_time_by_batch": [100 * ratio] * batches,
        "reference_in_time_by_batch": [100] * batches,
        "tardiness_by_batch": [late + number] * batches,
        "reference_tardiness_by_batch": [1000.0 + number] * batches,
        "assignments": [0.1] * 10,
        "reliability": {"chance": [0.05, 0.95], "in_time": [0.1, 0.9], "jobs": [40, 60]},
    }
    name = "-".join(map(str, parameters.values()))
    return CellResult(
        f"{name}{number}",
        name,
        "dispatch",
        parameters,
        f"seed {number}",
        number,
        {},
        parameters,
        "done",
        notes=notes,
    )


def material(results: list[CellResult], directory: Path) -> Any:
    return SimpleNamespace(name="example", results=results, directory=directory)


def rows_of(path: Path) -> list[list[str]]:
    lines = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    return [[part.strip() for part in line.strip("| ").split(" | ")] for line in lines]


def test_assistance_beside_table_2_and_3(tmp_path):
    ratios = [("j48", 1.1), ("lwl", 0.9), ("drain", 1.3)]
    results = [
        cell(number, {"rule": "round_robin", "mode": "assist", "learner": learner}, ratio, 500.0)
        for learner, ratio in ratios
        for number in range(4)
    ]
    files = write(material(results, tmp_path))
    assert {file.name for file in files} == {"comparison.md", "assignments.png", "calibration.png"}
    rows = rows_of(tmp_path / "comparison.md")
    first = next(row for row in rows if row[:2] == ["round robin", "J48"])
    assert first[2:7] == ["20", "1.10 1.10 1.10 1.10 1.10", "1.10", "1.10 … 1.10", "1.10"]
    assert first[7] == "0.98 0.99 1.39 1.03 1.04"
    published = next(row for row in rows if row[0] == "LWL, published")
    # Fastest first: the third machine, of factor 0.8, then the fifth.
    assert published[1:4] == ["0.18", "0.15", "0.17"]


def test_change_beside_table_5(tmp_path):
    results = [
        cell(
            number, {"rule": "random", "mode": "assist", "learner": "lwl", "change_after": after}, 1.2, 500.0
        )
        for after in (0, 2)
        for number in range(3)
    ]
    files = write(material(results, tmp_path))
    assert "recovery.png" in {file.name for file in files}
    rows = rows_of(tmp_path / "comparison.md")
    changed = next(row for row in rows if "changed" in row)
    assert changed[-1] == "1.74 0.97 0.81 1.39 1.01"
    assert next(row for row in rows if "as they were" in row)[-1] == "1.74 0.97 1.14 0.85 1.17"


def test_direct_beside_table_6_and_figure_4(tmp_path):
    erd = {"mode": "alone", "rule": "erd", "repair_every": 10}
    j48 = {"mode": "direct", "learner": "j48", "order": "due_date"}
    drain = {"mode": "direct", "learner": "drain", "order": "shortest"}
    results = [
        cell(number, {**parameters, "learning_jobs": 10_000}, 1.0, late, batches=20)
        for parameters, late in ((erd, 1000.0), (j48, 1200.0), (drain, 600.0))
        for number in range(5)
    ]
    results = results[:-1]
    files = write(material(results, tmp_path))
    assert {file.name for file in files} == {"comparison.md", "learning.png", "calibration.png"}
    rows = {row[0]: row for row in rows_of(tmp_path / "comparison.md")}
    assert rows["ERD + tabu"][1:4] == ["5", "1002", "1"]
    assert rows["ERD + tabu"][-1] == "1.000"
    assert rows["J48, by due date"][3] == f"{1 + 200 / 1002:.3f}"
    assert rows["J48, by due date"][-1] == f"{5067633 / 3961190:.3f}"
    # Where a replicate is missing, the pairs that there are count.
    assert rows["drain, shortest first"][1] == "4"
    assert float(rows["drain, shortest first"][3]) == pytest.approx(1 - 400 / 1001.5, abs=1e-3)
    assert "Table 6" in (tmp_path / "comparison.md").read_text()
    # Who starts from nothing is not what the paper's table is of.
    fresh = [
        replace(result, configuration={**result.configuration, "learning_jobs": 0}) for result in results
    ]
    write(material(fresh, tmp_path))
    assert "published" not in (tmp_path / "comparison.md").read_text()
    low, high = map(float, rows["drain, shortest first"][4].split(" … "))
    assert low <= float(rows["drain, shortest first"][3]) <= high < 1


def test_batches_without_a_job_in_time_make_no_pair(tmp_path):
    """Of 4 × 5 batches of J48 the first replicate's and every first have none; of LWL's none has any."""
    options = {"rule": "random", "mode": "assist", "change_after": 2}
    some = [cell(number, {**options, "learner": "j48"}, 1.2, 500.0) for number in range(4)]
    none = [cell(number, {**options, "learner": "lwl"}, 1.2, 500.0) for number in range(4)]
    for number, result in enumerate(some):
        result.notes["reference_in_time_by_batch"] = [0] * 5 if number == 0 else [0, *[100] * 4]  # type: ignore[index]
    for result in none:
        result.notes["reference_in_time_by_batch"] = [0] * 5  # type: ignore[index]
    write(material([*some, *none], tmp_path))
    rows = rows_of(tmp_path / "comparison.md")
    j48 = next(row for row in rows if row[1] == "J48")
    assert j48[3:8] == ["12", "– 1.20 1.20 1.20 1.20", "1.20", "1.20 … 1.20", "1.20"]
    lwl = next(row for row in rows if row[1] == "LWL")
    assert lwl[3:8] == ["0", "– – – – –", "–", "–", "–"]


def test_paired_batches_are_summed_up_by_their_median(tmp_path):
    options = {"rule": "random", "mode": "assist", "learner": "j48"}
    results = [cell(number, options, 1.0, 500.0) for number in range(3)]
    for result, last in zip(results, (900, 800, 100), strict=True):
        result.notes["in_time_by_batch"] = [100, 110, 130, 140, last]  # type: ignore[index]
    write(material(results, tmp_path))
    row = next(row for row in rows_of(tmp_path / "comparison.md") if row[:2] == ["random", "J48"])
    # By batch; of all fifteen batches; of the replicates' medians 1.3, 1.3 and 1.1; the smallest batch.
    assert row[2:5] == ["15", "1.00 1.10 1.30 1.40 8.00", "1.30"]
    assert row[5:7] == ["1.10 … 1.30", "1.00"]


def test_shares_and_means_go_by_the_jobs_that_there_were(tmp_path):
    """`first` cuts the last batch: 1,000 jobs at 100 s and 500 at 400 s are 200 s late on average."""
    erd = {"mode": "alone", "rule": "erd", "repair_every": 10, "first": 1500}
    results = [cell(number, erd, 1.0, 0.0, batches=2) for number in range(2)]
    for result in results:
        result.notes.update(  # type: ignore[attr-defined]
            jobs_by_batch=[1000, 500], tardiness_by_batch=[100.0, 400.0], in_time_by_batch=[500, 100]
        )
    write(material(results, tmp_path))
    row = next(row for row in rows_of(tmp_path / "comparison.md") if row[0] == "ERD + tabu")
    assert (row[2], row[5]) == ("200.0", "0.400")


def test_results_of_version_1_tell_the_jobs_of_all_batches_only():
    old = cell(0, {"mode": "alone", "rule": "erd", "batch_jobs": 200}, 1.0, 1.0)
    del old.notes["jobs_by_batch"]  # type: ignore[attr-defined]
    (method,) = gather([replace(old, metrics={"jobs": 1000.0})])
    np.testing.assert_array_equal(method.jobs, [[200.0] * 5])


def test_the_learning_curve_says_how_large_its_batches_are(tmp_path, drawings):
    def label(results):
        write(material(results, tmp_path))
        return drawings["learning.png"].axes[0].get_xlabel()

    options = {"mode": "direct", "learner": "j48", "order": "due_date"}
    results = [cell(number, options, 1.0, 500.0, batches=20, jobs=200) for number in range(2)]
    assert "10 batches of 200 jobs" in label(results)
    results[0].notes["jobs_by_batch"] = [200] * 19 + [50]  # type: ignore[index]
    assert "batches of up to 200 jobs" in label(results)


def test_tenths_are_pooled_by_jobs():
    parameters = {"mode": "assist", "learner": "j48", "rule": "random"}
    one, other = cell(0, parameters, 1.0, 1.0), cell(1, parameters, 1.0, 1.0)
    other.notes["reliability"].update(chance=[0.05], in_time=[0.5], jobs=[120])  # type: ignore[attr-defined]
    (method,) = gather([one, other])
    np.testing.assert_allclose(method.reliability[2], [160, 60])
    np.testing.assert_allclose(method.reliability[1], [(40 * 0.1 + 120 * 0.5) / 160, 0.9])


def test_batches_that_not_all_replicates_have_are_left_out():
    erd = {"mode": "alone", "rule": "erd"}
    (method,) = gather([cell(0, erd, 1.0, 1.0, batches=5), cell(1, erd, 1.0, 1.0, batches=4)])
    assert method.in_time.shape == method.jobs.shape == (2, 4)


def test_nothing_is_made_of_nothing(tmp_path):
    failed = CellResult("a", "b", "dispatch", {}, "seed 0", 0, {}, {}, "failed", error="x")
    assert write(material([failed], tmp_path)) == []


#: Σ place × value of each row of the printed Table 2, and of both rows of Table 5: a typo changes it.
PLACE_SUMS = {
    ("first_available", "j48"): (13.88, 24.76, 5.81),
    ("first_available", "lwl"): (15.15, 16.11, 6.36),
    ("first_available", "naive_bayes"): (16.18, 31.55, 5.69),
    ("random", "j48"): (15.54, 20.44, 6.9),
    ("random", "lwl"): (15.36, 16.35, 6.62),
    ("random", "naive_bayes"): (13.08, 14.59, 7.05),
    ("round_robin", "j48"): (16.45, 14.36, 6.44),
    ("round_robin", "lwl"): (15.26, 15.96, 6.3),
    ("round_robin", "naive_bayes"): (13.57, 15.07, 6.41),
}


def place_sum(values: Sequence[float]) -> float:
    return round(sum(place * value for place, value in enumerate(values, start=1)), 2)


def test_published_tables_are_as_printed():
    """Sums were taken from the paper's text, not from our tables."""
    rows = {key: (TABLE_2[key], *TABLE_5[key]) for key in TABLE_2}
    assert {key: tuple(map(place_sum, row)) for key, row in rows.items()} == PLACE_SUMS
    assert {key: place_sum(row) for key, row in TABLE_3.items()} == {
        "j48": 5.83,
        "lwl": 5.49,
        "naive_bayes": 5.39,
    }
    assert {key: place_sum(row) for key, row in TABLE_6.items()} == {
        "j48": 252672040,
        "naive_bayes": 501217459,
        "edd": 255087761,
        "erd": 218819916,
    }
    # The averages that the paper prints below Table 6.
    printed = {"j48": 5067633, "naive_bayes": 8832449, "edd": 4691239, "erd": 3961190}
    assert {key: round(np.mean(row) - 1e-6) for key, row in TABLE_6.items()} == printed


def test_every_published_figure_has_a_name():
    assert len(PUBLISHED) == 9 * 5 + 3 * 10 + 9 * (5 + 3) + 4 * 10
    assert PUBLISHED["table_2_random_lwl_4"].value == 0.74
    assert PUBLISHED["table_3_lwl_3"].value == 0.18
    assert PUBLISHED["table_5_first_available_j48_changed_4"].value == 1.24
    assert PUBLISHED["table_5_first_available_j48_same_2"].value == 0.88
    assert PUBLISHED["table_6_erd_10"].value == 4016526


def test_the_shared_queue_stands_beside_each_selector_and_the_bound_beside_each_mean(tmp_path):
    """Its jobs in time are divided by those of the selector alone; 500 s are 25 % above a bound of 400 s."""
    assisted = {"mode": "assist", "learner": "j48"}
    results = [
        cell(number, {**assisted, "rule": rule}, 1.2, 500.0)
        for rule in ("random", "first_available")
        for number in range(3)
    ]
    shared = {"rule": "shared_queue", "speeds": "nominal"}
    results += [cell(number, shared, 2.0, 500.0) for number in range(1, 4)]
    for result in results:
        if result.configuration.get("rule") == "first_available":
            result.notes["reference_in_time_by_batch"] = [160] * 5  # type: ignore[index]
    write(material(results, tmp_path))
    rows = {tuple(row[:2]): row for row in rows_of(tmp_path / "comparison.md")}
    assert rows["random", "shared queue"][2:5] == ["10", "2.00 2.00 2.00 2.00 2.00", "2.00"]
    assert rows["first available", "shared queue"][4] == "1.25"
    erd = {"rule": "erd", "repair_every": 10}
    sorted_by_due_date = {"rule": "shared_queue", "speeds": "known", "order": "due_date"}
    results = [cell(0, parameters, 1.0, 500.0) for parameters in (erd, shared, sorted_by_due_date)]
    results = [replace(result, metrics={"tardiness_mean_bound": 400.0}) for result in results[:2]] + results[
        2:
    ]
    write(material(results, tmp_path))
    rows = {row[0]: row for row in rows_of(tmp_path / "comparison.md")}
    assert [rows[name][-1] for name in ("ERD + tabu", "shared queue")] == ["+25 %", "+25 %"]
    assert rows["shared queue, by due date, speeds known"][-1] == "–"


def test_an_agent_is_named() -> None:
    player = {"policy": "ppo", "checkpoint": "results/train-dispatch-ppo"}
    assert [method.label for method in gather([cell(0, player, 1.0, 10.0)])] == ["agent trained by PPO"]


def test_table_3_is_drawn_beside_the_published_shares(tmp_path, drawings):
    """The paper's learners on round robin, the fastest machine first; no other rule, learner or change."""
    shares = (np.arange(10) + 1) / 55
    assisted = {"mode": "assist", "rule": "round_robin"}
    configurations = [
        {**assisted, "learner": "lwl"},
        {**assisted, "learner": "j48", "select_attributes": True},
        {**assisted, "learner": "drain"},
        {**assisted, "learner": "j48", "change_after": 2},
        {**assisted, "rule": "random", "learner": "lwl"},
    ]
    results = [cell(number, parameters, 1.1, 500.0) for parameters in configurations for number in range(2)]
    for result in results:
        result.notes["assignments"] = shares.tolist()
    write(material(results, tmp_path))
    panels = drawings["assignments.png"].axes
    assert [axes.get_title(loc="left") for axes in panels] == ["LWL", "J48, attributes selected"]
    order = np.argsort(TABLE_1, kind="stable")
    np.testing.assert_allclose([bar.get_height() for bar in panels[0].patches], shares[order])
    (published, _) = panels[0].lines
    np.testing.assert_allclose(published.get_ydata(), np.array(TABLE_3["lwl"])[order])
    # The paper has no numbers with attributes selected.
    assert len(panels[1].lines) == 1
