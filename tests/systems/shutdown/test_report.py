"""The shutdown system's own tables and figures, from cells that are really run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from gridtune.core.cells import CellResult
from gridtune.core.system import get_system
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.schedules import ReportMaterial
from gridtune.report.summary import summarise
from gridtune.sweep import run_cell, space_cells
from gridtune.sweep.journal.results import results_table
from gridtune.sweep.space.schema import parse_space
from gridtune.systems.shutdown.report import (
    GROUPS,
    PolicyRun,
    plot_cumulative,
    plot_nodes,
    policy_runs,
    shown_runs,
    write_comparison,
)

SPACE = {
    "name": "few_rules",
    "system": "shutdown",
    "fixed": {"trace": "orion_days", "cluster": "orion", "first": 6},
    "dimensions": {
        "policy": ["timeout", "adaptive"],
        "timeout": {"grid": [0, 5], "when": {"policy": "timeout"}},
        "max_wait": {"grid": [5, 60], "when": {"policy": "adaptive"}},
    },
    "replicates": {"windows": 2},
    "objective": "energy_waste_per_day",
    "baseline": {"policy": "timeout", "timeout": 5, "max_wait": None},
}


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> ReportMaterial:
    space = parse_space(SPACE)
    results = []
    for cell in space_cells(space):
        cell_run = run_cell("shutdown", dict(cell.parameters), seed=cell.seed)
        results.append(
            CellResult.of(cell, "done", metrics=cell_run.outcome.metrics, notes=dict(cell_run.outcome.notes))
        )
    facts = SweepFacts(
        "1", "few_rules", "", "shutdown", "1", (ObjectiveFacts("energy_waste_per_day", "min"),)
    )
    table = results_table(results)
    return ReportMaterial(summarise(table, facts), table, results, tmp_path_factory.mktemp("few_rules"))


def test_each_policy_has_one_run_in_its_best_configuration(material):
    (runs,) = policy_runs(material).values()
    assert [run.label for run in runs] == ["T(0)", "T(5)", "adaptive"]
    assert [run.title for run in runs] == ["T(0): off when idle", "T(5): off after 5 idle min", "adaptive"]
    assert len({run.colour for run in runs}) == 3
    assert all(len(run.tables["days"]) == 12 for run in runs)
    best = runs[2].column("days", "energy_waste").sum()
    sums = {}
    for result in material.results:
        wait = result.parameters.get("max_wait")
        sums[wait] = sums.get(wait, 0) + result.metrics["energy_waste_total"]
    assert best == min(sums[5], sums[60])
    assert shown_runs(runs) == runs


def test_tables_and_figures_are_written(material):
    files = get_system("shutdown").report(material)
    assert [path.name for path in files] == [
        "shutdown_tables.md",
        *(
            f"shutdown_1_{name}.png"
            for name in (
                "cumulative_waste",
                "sequential",
                "reservations",
                "slowdown",
                "delayed_runs",
                "nodes",
            )
        ),
    ]
    assert all(path.stat().st_size > 1000 for path in files)
    told = Path(files[0]).read_text()
    assert "| (48) | (66,005) | (39.7) | (62.7) | (659, 777, 496, 129, 28) |" in told
    row = next(line for line in told.splitlines() if line.startswith("| T(0) |"))
    wasted = [
        result.metrics["energy_waste_total"]
        for result in material.results
        if result.parameters.get("timeout") == 0
    ]
    assert f"{sum(wasted) / 12:,.0f} (8,996)" in row
    assert "| the paper's agent | (72.3) | (6,285) | (28.1) | (0.54) |" in told


def with_groups(run, groups):
    days = run.tables["days"]
    place = days.column_names.index("group")
    tables = {**run.tables, "days": days.set_column(place, "group", pa.array(groups))}
    return replace(run, tables=tables)


def test_cumulative_waste_fits_a_page_and_leaves_single_days_out(material, drawings):
    (runs,) = policy_runs(material).values()
    groups = [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5]
    plot_cumulative([with_groups(run, groups) for run in runs], "orion", Path("x.png"))
    panels = [panel for panel in drawings["x.png"].axes if panel.get_visible()]
    assert [panel.get_title(loc="left") for panel in panels] == [f"group {n}" for n in (1, 2, 3, 4)]
    assert len({round(panel.get_subplotspec().rowspan.start) for panel in panels}) == 2
    width, height = drawings["x.png"].get_size_inches()
    assert width < 9
    assert width < 1.5 * height
    alone = [with_groups(run, [1, 2, 3, 4, 5, *[5] * 7]) for run in runs]
    assert plot_cumulative(alone, "orion", Path("y.png")) == [Path("y.png")]
    assert [panel.get_title(loc="left") for panel in drawings["y.png"].axes] == ["group 5"]


def test_a_days_nodes_are_titled_by_the_day(material, drawings):
    (runs,) = policy_runs(material).values()
    plot_nodes(runs, "orion, all days", Path("x.png"))
    day = int(runs[0].column("nodes", "day")[0])
    jobs = runs[0].tables["jobs"].to_pylist()
    count = sum(job["day"] == day and job["part"] == 0 for job in jobs)
    group = runs[0].tables["days"].to_pylist()[day]["group"]
    told = drawings["x.png"].get_suptitle()
    assert told == f"One day: orion, all days, {count} jobs, {GROUPS[group - 1]} % sequential"


def run_of_three_days(label: str = "T(0)") -> PolicyRun:
    days = pa.table(
        {
            "group": [1, 2, 2],
            "utilisation": [0.2, 0.4, 0.6],
            "energy_waste": [1000.0, 2000.0, 6000.0],
            "switches": [10, 20, 90],
            "stretch_mean": [0.5, None, 1.5],
            "qos_delay_all_minutes": [10.0, 20.0, 60.0],
            "waste_bound_starts": [900.0, 1000.0, 2000.0],
            "waste_bound_within_tau": [100.0, 200.0, 600.0],
            "qos_violations_all": [1, 2, 3],
            "stretch_beyond_tau": [0.0, 0.1, 0.2],
            "jobs_started": [5, 6, 7],
        }
    )
    jobs = pa.table({"gap": pa.array([None, 4, 5, None, 0])})
    return PolicyRun(label, "taurus", 168, {"days": days, "jobs": jobs}, "#000000", "o")


def test_the_comparison_by_hand(tmp_path):
    write_comparison({"some days": [run_of_three_days()]}, tmp_path)
    lines = (tmp_path / "shutdown_tables.md").read_text().splitlines()
    assert "| 168 | 5 | 66.7 | 40.0 | 1, 2, 0, 0, 0 |" in lines
    assert "| (168) | (81,925) | (54.1) | (51.7) | (441, 947, 612, 130, 22) |" in lines
    assert "| T(0) | 30.0 (50.0) | 3,000 (17,442) | 40.0 (82.1) | 1.00 (0.22) |" in lines
    # Population standard deviations: √(1400/3), √(14/3)·1000, √(3800/3), ½.
    cells = (
        "21.6, 10.0, 60.0 (114.8, 0.00, 1,149)",
        "2,160, 1,000, 6,000 (14,985, 375.0, 264,884)",
        "35.6, 10.0, 90.0 (68.3, 3.00, 1,236)",
        "0.50, 0.50, 1.50 (1.45, 0.00, 29.5)",
    )
    assert f"| T(0) | {' | '.join(cells)} |" in lines
    assert "| T(0) | 3,000 | 1,300 | 300.0 | 6 | 0.100 | 18 |" in lines
