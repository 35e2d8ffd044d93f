"""The responsive system's own tables and figures, of a handful of cells."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gridtune.report.responsive import write
from gridtune.report.responsive.comparison import comparison_csv, comparison_markdown
from gridtune.report.responsive.curves import chosen_rows
from gridtune.report.responsive.published import PUBLISHED
from gridtune.report.responsive.rows import rows_of, site_of
from gridtune.report.responsive.trade_offs import non_dominated
from gridtune.sweep import run_cell
from gridtune.sweep.cells import CellResult

FIRST = {"trace": "egee", "first": 800, "cores": 8}
CONFIGURATIONS: list[dict[str, Any]] = [
    {"policy": "fair_share"},
    {"policy": "fcfs"},
    {"policy": "sjf", "estimates": "oracle"},
    {"policy": "sjf", "weight": 0.0},
    {"policy": "sjf", "weight": 1.0},
    {"policy": "fair_share", "site": "elastic"},
    {"policy": "sjf", "site": "elastic", "headroom": 1.5},
]


@dataclass
class Cells:
    """What `Material` offers, of cells run here."""

    results: list[CellResult]
    directory: Path
    ran: list[dict[str, Any]] = field(default_factory=list)

    def tables_of(self, result: CellResult) -> Any:
        self.ran.append(dict(result.parameters))
        return run_cell("responsive", result.parameters, seed=result.seed, tables=True).outcome.tables


@pytest.fixture(scope="module")
def results() -> list[CellResult]:
    found = []
    for number, configuration in enumerate(CONFIGURATIONS):
        for seed in (1, 2):
            parameters = {**FIRST, **configuration, "shake": 600}
            outcome = run_cell("responsive", parameters, seed=seed).outcome
            found.append(
                CellResult(
                    cell_id=f"{number}-{seed}",
                    configuration_id=str(number),
                    workload="little site",
                    configuration=configuration,
                    replicate=f"shake {seed}",
                    seed=seed,
                    traces={},
                    parameters=parameters,
                    state="done",
                    metrics=outcome.metrics,
                )
            )
    lost = CellResult("x", "x", "little site", {}, "1", 1, {}, {}, "failed", error="it broke")
    return [*found, lost]


def test_every_row_stands_beside_the_published(results) -> None:
    text = comparison_markdown(rows_of(results))
    rigid, elastic = text.split("## little site, elastic")
    assert rigid.count("| little site |") == 5
    assert elastic.count("| little site |") == 2
    for row in PUBLISHED:
        assert f"*{row.label}*" in (rigid if row.site == "rigid" else elastic)
        assert f"*{row.label}*" not in (elastic if row.site == "rigid" else rigid)
    assert "0.628 ± 0.418 | 0.830 ± 0.265 | 2,756 ± 8,844" in rigid
    assert "0.958 ± 0.184 | 0.960 ± 0.123 | 458 ± 3,771" in elastic
    # The row is the mean over its replicates.
    mean = sum(result.metrics["interactive_delay"] for result in results[:2]) / 2
    line = next(line for line in rigid.splitlines() if line.startswith("| fair share"))
    assert f"| {mean:,.0f} ±" in line
    assert "n = 2" in line


def test_the_table_of_numbers(results) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison_csv(rows_of(results)))))
    assert len(rows) == len(CONFIGURATIONS) + len(PUBLISHED)
    esn = next(row for row in rows if row["policy"] == "RL-ESN-EST")
    assert float(esn["batch_delay"]) == 3492
    assert float(esn["responsiveness"]) == 0.94
    assert esn["fairness"] == ""
    assert {row["trace"] for row in rows} == {"little site", "EGEE, site LAL, 2006"}


def test_published_figures_as_printed() -> None:
    assert len(PUBLISHED) == 14
    assert sum(row.site == "elastic" for row in PUBLISHED) == 4
    by_label = {row.label: row for row in PUBLISHED}
    assert by_label["RIG-EST-1"].interactive == (0.867, 0.311, 1152, 5417)
    assert by_label["ELA-ORA-1"].interactive == (0.971, 0.160, 236, 2200)
    assert by_label["EGEE"].batch == (0.82, 0.26, 13041, 26726)


def test_one_life_of_each_policy_is_drawn(results) -> None:
    rigid = chosen_rows(site_of(rows_of(results), "little site", "rigid"))
    assert [row.policy for row in rigid] == ["fair_share", *sorted(["fcfs", "sjf"], key=rank(results))]
    # Estimates before the oracle, λ near one half before the ends.
    assert next(row for row in rigid if row.policy == "sjf").weight in (0.0, 1.0, 0.5)


def rank(results):
    rows = {row.policy: row for row in chosen_rows(site_of(rows_of(results), "little site", "rigid"))}
    return lambda policy: -rows[policy].mean("rigid_reward")


def test_the_front_is_not_dominated(results) -> None:
    rows = site_of(rows_of(results), "little site", "elastic")
    front = non_dominated(rows, "core_hours", more_is_better=False)
    best = max(rows, key=lambda row: row.mean("responsiveness"))
    assert best in front
    for row in front:
        assert not any(
            other.mean("responsiveness") > row.mean("responsiveness")
            and other.mean("core_hours") < row.mean("core_hours")
            for other in rows
        )


def test_all_of_it_is_written(results, tmp_path) -> None:
    material = Cells(results, tmp_path)
    files = write(material)  # type: ignore[arg-type]
    names = sorted(path.name for path in files)
    assert all(path.stat().st_size > 500 for path in files)
    assert "published.md" in names
    stem = "responsive_1"
    for name in ("rigid_responsiveness", "rigid_delay", "rigid_fairness", "elastic_pool", "rigid_lambda"):
        assert f"{stem}_{name}.png" in names
    assert f"{stem}_rigid_pool.png" not in names
    assert len(material.ran) == 5


def test_nothing_comes_of_nothing(tmp_path) -> None:
    assert write(Cells([], tmp_path)) == []  # type: ignore[arg-type]
