"""The provisioning system's own tables and figures, of a few cells."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridtune.core.cells import CellResult
from gridtune.core.system import get_system
from gridtune.sweep import run_cell
from gridtune.systems.provisioning.report import figures
from gridtune.systems.provisioning.report.figures import merged_counts, write
from gridtune.systems.provisioning.report.tables import Row, comparison_markdown, front_distances
from gridtune.workload import write_workload
from gridtune.workload.workload import Workload

SMALL = {"tasks": 20, "depth": 4, "run_time": 100, "population": 8, "iterations": 3, "task_processors": 3}
MADE = {"offers": "poisson", "communication": 1, "task_processors": 1}


@dataclass
class Cells:
    """A finished sweep of cells that were run here."""

    results: list[CellResult]
    directory: Path
    name: str

    def tables_of(self, result: CellResult) -> Any:
        return run_cell("provisioning", result.parameters, seed=result.seed, tables=True).outcome.tables


def cells(configurations, fixed, seeds=3, workload="site"):
    results = []
    for number, configuration in enumerate(configurations):
        for seed in range(seeds):
            parameters = {**SMALL, **fixed, **configuration}
            if parameters.get("search") == "all":  # evaluates one plan
                del parameters["population"], parameters["iterations"]
            outcome = run_cell("provisioning", parameters, seed=seed).outcome
            results.append(
                CellResult(
                    cell_id=f"{workload}-{number}-{seed}",
                    configuration_id=f"{workload}-{number}",
                    workload=workload,
                    configuration={**fixed, **configuration},
                    replicate=f"seed {seed}",
                    seed=seed,
                    traces={},
                    parameters=parameters,
                    state="done",
                    metrics=outcome.metrics,
                    notes=outcome.notes,
                )
            )
    return results


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    rng = np.random.default_rng(4)
    columns = {
        "submit_time": np.sort(rng.integers(0, 100_000, 200)),
        "run_time": rng.integers(1, 4000, 200),
        "requested_processors": rng.integers(1, 9, 200),
    }
    path = tmp_path_factory.mktemp("logs") / "busy.swf"
    write_workload(Workload({**columns, "requested_time": columns["run_time"]}, machine_processors=16), path)
    return {"trace": str(path), "cross_slot": "always"}


def names(paths):
    return {path.name for path in paths}


BEST_EFFORT = {"approach": "best_effort"}


@pytest.mark.parametrize(
    ("dimensions", "figure"),
    [
        ([BEST_EFFORT, {"alpha": 0.0}, {"alpha": 1.0}], "provisioning_trade_off.png"),
        ([{"task_processors": n, "alpha": a} for n in (2, 5) for a in (0, 1)], "provisioning_task_size.png"),
        (
            [{"copy_probability": p, **more} for p in (0, 0.5) for more in (BEST_EFFORT, {})],
            "provisioning_load.png",
        ),
        (
            [{"copy_probability": p, "task_processors": n} for p in (0, 0.5) for n in (2, 5)],
            "provisioning_load_and_size.png",
        ),
    ],
)
def test_each_figure_is_drawn_where_its_axes_were_searched(trace, tmp_path, dimensions, figure):
    paths = write(Cells(cells(dimensions, trace), tmp_path, "mine"))
    assert names(paths) == {"submissions.md", "submissions.csv", figure}
    assert all(path.stat().st_size > 200 for path in paths)


def test_bars_and_band_lie_within_what_submissions_cost(trace, tmp_path, drawings):
    results = cells([BEST_EFFORT, {"alpha": 0.0}, {"alpha": 1.0}], trace, seeds=5)
    # One submission that costs much more than the others moves their deviation below the least cost.
    results[9].metrics["allocation_cost"] *= 50
    rows = Row.of(results)
    figures.write_submissions(Cells(results, tmp_path, "mine"), rows)
    makespans, costs = next(iter(drawings.values())).axes
    hours = [row.mean("workflow_makespan") / 3600 for row in rows[1:]]
    assert makespans.lines[0].get_ydata().tolist() == pytest.approx(hours)
    assert makespans.lines[-1].get_ydata()[0] == pytest.approx(rows[0].mean("workflow_makespan") / 3600)
    least = min(row.values("allocation_cost").min() for row in rows)
    (bars,) = (lines for lines in costs.collections if len(lines.get_segments()) == 2)
    assert min(segment[:, 1].min() for segment in bars.get_segments()) >= least
    low, high = np.quantile(rows[1].values("allocation_cost"), (0.1, 0.9))
    assert bars.get_segments()[0][:, 1] == pytest.approx([low, high])
    labels = [text.get_text() for text in costs.get_legend().get_texts()]
    assert labels == ["provisioned", "best effort", "best effort, 10–90 %"]


def test_the_table_has_changes_against_best_effort_and_what_was_published(trace, tmp_path):
    results = cells([BEST_EFFORT, {"search": "all"}], trace)
    write(Cells(results, tmp_path, "provisioning_cybershake"))
    text = (tmp_path / "submissions.md").read_text()
    ours = [r.metrics["workflow_makespan"] for r in results[3:]]
    theirs = [r.metrics["workflow_makespan_best_effort"] for r in results[3:]]
    assert f"{100 * (np.mean(ours) / np.mean(theirs) - 1):+.1f} % (".replace("-", "−") in text
    rows = list(csv.DictReader((tmp_path / "submissions.csv").open()))
    assert [row["submissions"] for row in rows] == ["3", "3"]
    assert float(rows[1]["workflow_makespan"]) == pytest.approx(np.mean(ours))


def test_the_table_by_hand(trace):
    results = cells([BEST_EFFORT, {"search": "all"}], trace, seeds=2)
    by_hand = {
        "workflow_makespan": (10_800, 18_000, 7200, 10_800),
        "allocation_cost": (10, 10, 10, 12),
        "workflow_makespan_best_effort": (10_800, 18_000, 10_800, 18_000),
        "allocation_cost_best_effort": (10, 10, 10, 10),
        "workflow_makespan_no_worse": (1, 1, 1, 1),
        "cost_within_tenth": (1, 1, 1, 0),
        "both_no_worse": (1, 1, 1, 0),
        "workflow_makespan_bound": (7_000, 7_400, 7_000, 7_400),
        "slots": (7, 8, 7, 8),
        "offered_load": (0.6, 0.7, 0.6, 0.7),
    }
    for name, values in by_hand.items():
        for result, value in zip(results, values, strict=True):
            result.metrics[name] = value
    text = comparison_markdown(Row.of(results), "mine", [])
    head, rule, best_effort, planned = (line for line in text.splitlines() if line.startswith("|"))
    assert head == (
        "| configuration | n | makespan, h | gap | cost, SU | makespan against best effort | cost against it "
        "| no worse | within 1/10 | neither | slots | load |"
    )
    assert rule == "| --- |" + " ---: |" * 11
    assert best_effort == (
        "| best_effort | 2 | 4.0 ± 1.4 | +100.0 % | 10.0 ± 0.0 | – | – | 100 % | 100 % | 100 % | 7.5 | 65 % |"
    )
    # 9,000 s of 14,400 s, and 11 of 10; the intervals are those of the statistics.
    planned = re.sub(r" \(\S+ … \S+\)", " (…)", planned)
    assert planned == (
        "| all | 2 | 2.5 ± 0.7 | +25.0 % | 11.0 ± 1.4 | −37.5 % (…) | +10.0 % (…) | 100 % | 50 % | 50 % "
        "| 7.5 | 65 % |"
    )


def test_published_figures_are_those_of_the_paper():
    """Singh, Kesselman, Deelman, HPDC 2007: sections 3, 6 and 7."""
    values = {
        key: (figure.value, figure.unit) for key, figure in get_system("provisioning").published.items()
    }
    assert values == {
        "slots/slots": (124, "slots"),
        "slots/feasible_plans": (1742, "plans"),
        "slots/front": (40, "plans"),
        "slots/merged_front": (39, "plans"),
        "cybershake/best_effort": (476811, "s"),
        "cybershake/change_at_63": (-23, "%"),
        "cybershake/change_at_94": (-56, "%"),
        "inflation/requests_10_too_long": (3, "%"),
        "inflation/requests_20_too_long": (7.7, "%"),
    }


@pytest.mark.parametrize(
    ("space", "values"),
    [
        ("slots", ["124", "1,742", "40", "39"]),
        ("cybershake", ["132.4 h (476,811 s)", "−23 %", "−56 %"]),
        ("inflation", ["+3 %", "+7.7 %"]),
        ("moga", []),
    ],
)
def test_published_figures_stand_in_the_report_of_their_sweep(space, values):
    results = cells([{"search": "all"}], MADE, seeds=1)
    text = comparison_markdown(Row.of(results), f"provisioning_{space}", [])
    published = text.partition("## Published")[2]
    rows = [line.split(" | ") for line in published.splitlines() if line.startswith("| ")][2:]
    assert [row[1] for row in rows] == values


def test_ratios_leave_out_submissions_without_a_plan(trace):
    results = cells([{"search": "all"}], trace)
    results[0].metrics["workflow_makespan"] = float("nan")
    (row,) = Row.of(results)
    planned = [result.metrics for result in results[1:]]
    expected = np.mean([m["workflow_makespan"] for m in planned]) / np.mean(
        [m["workflow_makespan_best_effort"] for m in planned]
    )
    assert row.percent("workflow_makespan") == pytest.approx(100 * expected)


def test_plans_choice_and_schedulers(tmp_path):
    dimensions = [{"scheduler": "heft", "alpha": 0.2}, {"scheduler": "heft", "alpha": 0.8}]
    results = cells([*dimensions, {"scheduler": "greedy"}], MADE)
    written = names(write(Cells(results, tmp_path, "mine")))
    expected = {"provisioning_plans.png", "provisioning_choice.png", "provisioning_schedulers.png"}
    assert written == {
        *expected,
        "submissions.md",
        "submissions.csv",
        "schedulers.csv",
        "front_distances.csv",
    }


def test_the_choice_is_drawn_in_hours(tmp_path, drawings):
    results = cells([{"alpha": 0.2}, {"alpha": 0.8}], MADE)
    figures.write_fronts(Cells(results, tmp_path, "mine"), Row.of(results))
    hours = [row.mean("workflow_makespan") / 3600 for row in Row.of(results)]
    assert list(drawings.values())[1].axes[0].lines[0].get_ydata().tolist() == pytest.approx(hours)


def test_a_merged_front_counts_who_found_what():
    results = cells([{"scheduler": "heft"}, {"scheduler": "greedy"}], MADE, seeds=1)
    results[0].notes["front"] = [[1.0, 9.0], [3.0, 3.0], [5.0, 2.0]]
    results[1].notes["front"] = [[2.0, 10.0], [3.0, 3.0], [9.0, 1.0]]
    # Of greedy's plans one is dominated, and one is found by both.
    assert merged_counts(Row.of(results)) == {"heft": [3], "greedy": [2], "all": [4]}


FRONTS = [[[0.0, 10.0], [10.0, 0.0]], [[5.0, 10.0], [10.0, 5.0]], [[5.0, 5.0]]]


def found_by(searches, fronts, seeds=1):
    """Return cells whose fronts were drawn by hand: on every replicate the same."""
    results = cells(searches, MADE, seeds=seeds)
    for place, front in enumerate(fronts):
        for result in results[place * seeds : (place + 1) * seeds]:
            result.notes["front"] = front
    return results


def test_fronts_are_held_against_all_that_were_found():
    """Costs from 0 to 10 become 0 to 1; the merged front is (0, 1), (0.5, 0.5), (1, 0)."""
    results = found_by([{"mutation": m} for m in (0, 1, 2)], FRONTS, seeds=2)
    # On the second submission the scale is of these points: it was found by all, costs a tenth elsewhere.
    results[1].notes["front"] = [[1.0, 1.0]]
    results[3].notes["front"] = [[1.0, 3.0]]
    results[5].notes["front"] = [[3.0, 1.0]]
    one, two, three = front_distances(Row.of(results))
    # From the plan in the middle to either end: half a range in one cost, nothing to make up in the other.
    assert one.values == pytest.approx([0.5 / 3, 0.0])
    assert two.values == pytest.approx([(0.5 + 0.5 + 0.5) / 3, 1.0])
    assert three.values == pytest.approx([(0.5 + 0 + 0.5) / 3, 1.0])
    assert one.mean == pytest.approx(0.25 / 3)
    low, high = two.interval
    assert low < two.mean < high


def test_a_plan_that_two_searches_found_is_to_be_reached_once():
    fronts = [[[0.0, 10.0], [10.0, 0.0]], [[0.0, 10.0]]]
    _, second = front_distances(Row.of(found_by([{"mutation": 0}, {"mutation": 1}], fronts)))
    assert second.values == pytest.approx([0.5])


def test_fronts_of_other_problems_are_not_compared():
    other = [{"mutation": 0}, {"mutation": 0, "workflow_seed": 2}, {"mutation": 0, "alpha": 0.1}]
    assert front_distances(Row.of(found_by(other, FRONTS))) == []


def test_a_search_without_a_plan_has_no_distance_and_is_counted():
    results = found_by([{"mutation": 0}, {"mutation": 1}], FRONTS[:2], seeds=3)
    results[3].notes["front"] = []
    results[1].notes["front"] = results[4].notes["front"] = []
    one, two = front_distances(Row.of(results))
    assert one.values == pytest.approx([0, np.nan, 0], nan_ok=True)
    assert (one.without_plan, two.without_plan) == (1, 2)
    assert (one.mean, two.mean) == (0, pytest.approx(0.5))
    # A replicate that one lacks says nothing of the others.
    assert [len(distance.values) for distance in front_distances(Row.of(results[:5]))] == [2, 2]


def test_distances_stand_in_both_tables(tmp_path):
    fronts = [[[0.0, 10.0], [10.0, 0.0]], [[0.0, 10.0]]]
    results = found_by([{"population": 8}, {"population": 9, "search": "nsga2"}], fronts, seeds=2)
    write(Cells(results, tmp_path, "mine"))
    rows = list(csv.DictReader((tmp_path / "front_distances.csv").open()))
    assert [row["population"] for row in rows] == ["8", "9"]
    assert [float(row["igd_plus"]) for row in rows] == [0, 0.5]
    assert [row["submissions"] for row in rows] == ["2", "2"]
    line = "| site | population=9 · nsga2 | 2 | 0 | 0.5000 | 0.5000 … 0.5000 |"
    assert line in (tmp_path / "submissions.md").read_text().splitlines()


def test_settings_of_the_search(tmp_path):
    grid = [{"population": p, "iterations": i} for p in (4, 8) for i in (2, 4)]
    grid += [{"population": 4, "iterations": 2, "crossover_points": 1, "mutation": 0}]
    finished = cells(grid, MADE)
    assert "provisioning_settings.png" in names(write(Cells(finished, tmp_path, "mine")))
    # A cell is missing here and another there: what both have is compared.
    some = [cell for cell in finished if cell.cell_id not in ("site-0-0", "site-1-2")]
    assert "provisioning_settings.png" in names(write(Cells(some, tmp_path, "mine")))


def test_nothing_finished_writes_nothing(tmp_path):
    assert write(Cells([], tmp_path, "mine")) == []
