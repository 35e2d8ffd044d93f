"""The shutdown system's own tables and figures, from cells that are really run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtune.report.extras import Material, write_extras
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.shutdown.lives import drawn, lives_of
from gridtune.report.shutdown.published import DAYS, OVERALL
from gridtune.report.summary import summarise
from gridtune.sweep import run_cell, space_cells
from gridtune.sweep.cells import CellResult
from gridtune.sweep.results import results_table
from gridtune.sweep.space import parse_space

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
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    space = parse_space(SPACE)
    results = []
    for cell in space_cells(space):
        run = run_cell("shutdown", dict(cell.parameters), seed=cell.seed)
        results.append(
            CellResult.of(cell, "done", metrics=run.outcome.metrics, notes=dict(run.outcome.notes))
        )
    facts = SweepFacts(
        "1", "few_rules", "", "shutdown", "1", (ObjectiveFacts("energy_waste_per_day", "min"),)
    )
    table = results_table(results)
    return Material(summarise(table, facts), table, results, tmp_path_factory.mktemp("few_rules"))


def test_a_life_for_each_policy_the_better_one_of_several(material):
    (lives,) = lives_of(material).values()
    assert [life.label for life in lives] == ["T(0)", "T(5)", "adaptive"]
    assert len({life.colour for life in lives}) == 3
    assert all(len(life.tables["days"]) == 12 for life in lives)
    best = lives[2].column("days", "energy_waste").sum()
    sums = {}
    for result in material.results:
        wait = result.parameters.get("max_wait")
        sums[wait] = sums.get(wait, 0) + result.metrics["energy_waste_total"]
    assert best == min(sums[5], sums[60])
    assert drawn(lives) == lives


def test_tables_and_figures_are_written(material):
    files = write_extras(material)
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
    waste = [
        result.metrics["energy_waste_total"]
        for result in material.results
        if result.parameters.get("timeout") == 0
    ]
    assert f"{sum(waste) / 12:,.0f} (8,996)" in row
    assert "| the paper's agent | (72.3) | (6,285) | (28.1) | (0.54) |" in told


def test_published_tables_are_of_one_piece():
    assert set(OVERALL) == set(DAYS)
    assert sum(DAYS["taurus"]) == 2152
    # Section 5.4: 40.6 to 56.5 % less waste than T(5).
    less = [1 - rows["DS"].waste / rows["T(5)"].waste for rows in OVERALL.values()]
    assert min(less) == pytest.approx(0.406, abs=0.001)
    assert max(less) == pytest.approx(0.565, abs=0.001)
