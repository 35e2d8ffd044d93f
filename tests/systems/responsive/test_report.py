"""The responsive system's own tables and figures, of a handful of cells."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridtune.core.cells import CellResult
from gridtune.core.system import get_system
from gridtune.sweep import run_cell
from gridtune.systems.responsive.report import figures as drawn
from gridtune.systems.responsive.report.figures import chosen_rows, non_dominated
from gridtune.systems.responsive.report.tables import (
    Row,
    comparison_csv,
    comparison_markdown,
    groups_alike,
    joined,
    site_of,
    wrapped,
)
from gridtune.systems.responsive.reproduction import PUBLISHED

FIRST = {"trace": "egee", "first": 800, "cores": 8}
CONFIGURATIONS: list[dict[str, Any]] = [
    {"policy": "fair_share"},
    {"policy": "fcfs"},
    {"policy": "sjf", "estimates": "oracle"},
    {"policy": "sjf", "weight": 0.0},
    {"policy": "sjf", "weight": 1.0},
    {"policy": "fair_share", "site": "elastic-paper"},
    {"policy": "sjf", "site": "elastic-paper", "headroom": 1.5},
    {"policy": "sjf", "site": "elastic", "pool": "keda", "floor": 1},
    {"policy": "sjf", "site": "elastic", "floor": 1},
]


@dataclass
class Cells:
    """What `ReportMaterial` offers, of cells run here."""

    results: list[CellResult]
    directory: Path
    ran: list[dict[str, Any]] = field(default_factory=list)

    def tables_of(self, result: CellResult) -> Any:
        self.ran.append(dict(result.parameters))
        return run_cell("responsive", result.parameters, seed=result.seed, tables=True).outcome.tables


@pytest.fixture(scope="module")
def results() -> list[CellResult]:
    results = []
    for number, configuration in enumerate(CONFIGURATIONS):
        for seed in (1, 2):
            parameters = {**FIRST, **configuration, "shake": 600}
            outcome = run_cell("responsive", parameters, seed=seed).outcome
            results.append(
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
    return [*results, lost]


def test_every_row_is_next_to_the_published_ones(results) -> None:
    text = comparison_markdown(Row.of(results))
    rigid, events, elastic = text.split("## little site, elastic")
    assert events.count("| little site |") == 2
    assert "published" not in events
    assert rigid.count("| little site |") == 5
    assert elastic.count("| little site |") == 2
    for row in PUBLISHED:
        assert f"*{row.label}*" in (rigid if row.site == "rigid" else elastic)
        assert f"*{row.label}*" not in (elastic if row.site == "rigid" else rigid)
    assert "0.628 ± 0.418 | 0.830 ± 0.265 | 2,756 ± 8,844" in rigid
    assert "0.958 ± 0.184 | 0.960 ± 0.123 | 458 ± 3,771" in elastic
    # The row is the mean over its replicates.
    mean = sum(result.metrics["interactive_wait_mean"] for result in results[:2]) / 2
    line = next(line for line in rigid.splitlines() if line.startswith("| fair share"))
    assert f"| {mean:,.0f} ±" in line
    assert "n = 2" in line


def test_the_table_of_numbers(results) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison_csv(Row.of(results)))))
    assert len(rows) == len(CONFIGURATIONS) + len(PUBLISHED)
    esn = next(row for row in rows if row["policy"] == "RL-ESN-EST")
    assert float(esn["batch_wait_mean"]) == 3492
    assert float(esn["responsiveness_mean"]) == 0.94
    assert esn["fairness_mean"] == ""
    assert {row["trace"] for row in rows} == {"little site", "EGEE, site LAL, 2006"}


def test_published_figures_as_printed() -> None:
    assert len(PUBLISHED) == 14
    assert sum(row.site == "elastic" for row in PUBLISHED) == 4
    tables = {(row.site, row.label): tuple(row.figures.values()) for row in PUBLISHED}
    # Copied once more from the papers: tables 2 to 5 of 2009, tables 2 and 3 of 2010.
    assert tables == {
        ("rigid", "NAT"): (0.628, 0.418, 0.830, 0.265, 2756, 8844),
        ("rigid", "RIG-ORA-0.5"): (0.866, 0.314, 0.892, 0.228, 1096, 5137),
        ("rigid", "RIG-ORA-1"): (0.869, 0.308, 0.893, 0.226, 862, 3505),
        ("rigid", "RIG-EST-0.5"): (0.864, 0.319, 0.894, 0.223, 1087, 4838),
        ("rigid", "RIG-EST-1"): (0.867, 0.311, 0.899, 0.216, 1152, 5417),
        ("rigid", "EGEE"): (0.82, 0.26, 0.62, 0.41, 0.73, 0.36, 13041, 26726, 2756, 8844),
        ("rigid", "RL-NN-ORA"): (0.93, 0.18, 0.94, 0.22, 0.93, 0.20, 3777, 12168, 1366, 7989),
        ("rigid", "RL-NN-EST"): (0.92, 0.18, 0.94, 0.22, 0.93, 0.20, 3803, 12232, 1382, 8076),
        ("rigid", "RL-ESN-ORA"): (0.93, 0.19, 0.94, 0.20, 0.93, 0.19, 3962, 13014, 1085, 8491),
        ("rigid", "RL-ESN-EST"): (0.93, 0.17, 0.95, 0.19, 0.94, 0.18, 3492, 12175, 495, 3589),
        ("elastic", "ELA-ORA-0.5"): (0.965, 0.177, 0.966, 0.116, 606, 4245),
        ("elastic", "ELA-ORA-1"): (0.971, 0.160, 0.966, 0.121, 236, 2200),
        ("elastic", "ELA-EST-0.5"): (0.958, 0.184, 0.960, 0.123, 458, 3771),
        ("elastic", "ELA-EST-1"): (0.968, 0.167, 0.968, 0.113, 414, 3584),
    }
    figures = get_system("responsive").published
    assert len(figures) == 9 * 6 + 5 * 10
    wait = figures["ELA-ORA-1/interactive_wait_mean"]
    assert (wait.value, wait.unit) == (236, "s")
    assert wait.source == "Perez et al., “Responsive Elastic Computing”, GMAC 2009, table 5"
    assert figures["RL-ESN-EST/interactive_responsiveness_std"].value == 0.19
    assert figures["RL-ESN-EST/batch_wait_mean"].source.endswith("2010, table 3")


def test_one_run_of_each_policy_is_drawn(results) -> None:
    rigid = chosen_rows(site_of(Row.of(results), "little site", "rigid"))
    assert [row.policy for row in rigid] == ["fair_share", *sorted(["fcfs", "sjf"], key=rank(results))]
    # Estimates before the oracle, λ near one half before the ends.
    assert next(row for row in rigid if row.policy == "sjf").weight in (0.0, 1.0, 0.5)


def test_learned_policies_are_drawn_even_where_rules_do_better() -> None:
    rewards = {
        **{"edf": 0.9, "sjf": 0.8, "interactive_first": 0.8, "fcfs": 0.7, "fair_share": 0.6},
        **{"esn-fq": 0.5, "esn-sarsa": 0.4, "ffnn-fq": 0.3, "ffnn-sarsa": 0.2},
    }
    rows = [Row("log", {"policy": name}, [rewarded(name, reward)]) for name, reward in rewards.items()]
    drawn = [row.policy for row in chosen_rows(rows)]
    assert drawn == ["fair_share", "esn-fq", "esn-sarsa", "ffnn-fq", "edf"]
    few = [row.policy for row in chosen_rows(rows[:6])]
    assert few == ["fair_share", "esn-fq", "edf", "sjf", "interactive_first"]


def rewarded(policy: str, reward: float, **more: Any) -> CellResult:
    metrics = {"rigid_reward_mean": reward}
    configuration = {"policy": policy, **more}
    return CellResult(policy, policy, "log", configuration, "1", 1, {}, configuration, "done", metrics)


@pytest.mark.parametrize(
    ("configuration", "label", "series"),
    [
        ({"policy": "sjf"}, "SJF", "SJF, EST"),
        ({"policy": "sjf", "estimates": "oracle"}, "SJF", "SJF, ORA"),
        ({"policy": "sjf", "site": "elastic-paper"}, "SJF, fixed pool", "SJF, EST"),
        ({"policy": "sjf", "site": "elastic-paper", "headroom": 1.5}, "SJF, pool = 1.5 × demand", "SJF, EST"),
        (
            {"policy": "esn-fq", "site": "elastic-paper", "ridge": 1},
            "ESN-FQ, ridge 1",
            "ESN-FQ, ridge 1, EST",
        ),
        (
            {"policy": "esn-counterfactual", "variant": "improved"},
            "ESN counterfactual, improved",
            "ESN counterfactual, improved, EST",
        ),
    ],
)
def test_labels_of_configurations(configuration, label, series) -> None:
    row = Row("log", configuration, [rewarded(reward=0.5, **configuration)])
    assert (row.label, row.series) == (label, series)


def test_step_functions_hold_their_last_value() -> None:
    steps, values = np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 40.0])
    at = drawn._at(np.array([0.0, 1.0, 1.5, 2.0, 3.9, 4.0, 9.0]), steps, values)
    assert at.tolist() == [10, 10, 10, 20, 20, 40, 40]


def rank(results):
    rows = {row.policy: row for row in chosen_rows(site_of(Row.of(results), "little site", "rigid"))}
    return lambda policy: -rows[policy].mean("rigid_reward_mean")


def test_the_front_is_not_dominated(results) -> None:
    rows = site_of(Row.of(results), "little site", "elastic-paper")
    front = non_dominated(rows, "core_hours", more_is_better=False)
    best = max(rows, key=lambda row: row.mean("responsiveness_mean"))
    assert best in front
    for row in front:
        assert not any(
            other.mean("responsiveness_mean") > row.mean("responsiveness_mean")
            and other.mean("core_hours") < row.mean("core_hours")
            for other in rows
        )


def test_all_of_it_is_written(results, tmp_path) -> None:
    material = Cells(results, tmp_path)
    files = get_system("responsive").report(material)  # type: ignore[arg-type]
    names = sorted(path.name for path in files)
    assert all(path.stat().st_size > 500 for path in files)
    assert "published.md" in names
    stem = "responsive_1"
    for name in (
        "rigid_responsiveness",
        "elastic_pool",
        "elastic_front",
        "rigid_delay",
        "rigid_fairness",
        "elastic-paper_pool",
        "rigid_lambda",
    ):
        assert f"{stem}_{name}.png" in names
    assert f"{stem}_rigid_pool.png" not in names
    assert [name for name in names if "workload" in name] == [f"{stem}_rigid_workload.png"]
    assert len(material.ran) == 7


def test_nothing_comes_of_nothing(tmp_path) -> None:
    assert get_system("responsive").report(Cells([], tmp_path)) == []  # type: ignore[arg-type]


def test_series_that_lie_on_each_other_have_one_name() -> None:
    shapes = {"a": np.array([0.0, 1.0]), "b": np.array([0.009, 1.0]), "c": np.array([0.02, 1.0])}
    assert groups_alike(shapes, 1.0) == {"a": ["a", "b"], "c": ["c"]}
    assert groups_alike(shapes, 0.5) == {"a": ["a"], "b": ["b"], "c": ["c"]}
    assert groups_alike({"a": np.zeros(2), "b": np.zeros(3)}, 1.0) == {"a": ["a"], "b": ["b"]}
    assert joined(["SJF, EST"]) == "SJF, EST"
    assert joined(["SJF, EST", "interactive first, EST"]) == "SJF = interactive first, EST"
    assert joined(["SJF, EST", "EDF, ORA", "EDF, EST"]) == "SJF, EST = EDF"
    pooled = ["SJF, pool = 1.2 × demand, EST", "EDF, pool = 1.2 × demand, EST"]
    assert joined(pooled) == "SJF = EDF, pool = 1.2 × demand, EST"


def test_legends_are_in_words() -> None:
    assert wrapped(["SJF, ORA"]) == "SJF, run times known"
    assert wrapped(["ESN-SARSA, EST"]) == "echo state network by SARSA, run\ntimes estimated"
    assert wrapped(["fair share (NAT), EST"]).startswith("fair share, as the site has it, run")
    # A part of a word stays.
    assert wrapped(["BEST"]) == "BEST"


def alike(results: list[CellResult], names: list[str]) -> list[CellResult]:
    """Add policies that do just what `sjf` does with λ 0."""
    model = [result for result in results if result.configuration_id == "3"]
    return results + [
        replace(
            result,
            cell_id=f"{name}-{result.seed}",
            configuration_id=name,
            configuration={**result.configuration, "policy": name},
            parameters={**result.parameters, "policy": name},
        )
        for name in names
        for result in model
    ]


def legend(drawing: Any) -> list[str]:
    return [text.get_text().replace("\n", " ") for text in drawing.legends[0].get_texts()]


def test_the_front_is_a_staircase_of_few_series(results, drawings, tmp_path) -> None:
    more = alike(results, ["interactive_first", "edf", "longest_ratio", "random"])
    drawn.write_trade_offs(Cells(more, tmp_path))  # type: ignore[arg-type]
    drawing = drawings["responsive_1_elastic-paper_front.png"]
    front = next(line for line in drawing.axes[0].lines if line.get_label() == "not dominated")
    assert front.get_drawstyle() == "steps-post"
    labels = legend(drawings["responsive_1_rigid_front.png"])
    assert "interactive first = EDF = longest waiting ratio = random, run times estimated" in labels
    assert len(labels) == 6
    # More rules than can be labels apart: six have a colour of their own.
    shown = drawn._most_relevant({str(n): [row] for n, row in enumerate(Row.of(more))}, [])
    assert len(shown) == 6


def test_curves_that_coincide_are_one_line(results, drawings, tmp_path) -> None:
    # Both λ of sjf are one policy; the other name for it has the same outcome.
    selected = [result for result in alike(results, ["interactive_first"]) if result.configuration_id != "2"]
    material = Cells(selected, tmp_path)
    run = material.tables_of
    material.tables_of = lambda result: run(  # type: ignore[method-assign]
        replace(result, parameters={**result.parameters, "policy": "sjf"})
        if result.parameters["policy"] == "interactive_first"
        else result
    )
    drawn.write_curves(material)  # type: ignore[arg-type]
    for name in ("responsiveness", "delay"):
        labels = legend(drawings[f"responsive_1_rigid_{name}.png"])
        assert [label for label in labels if "SJF" in label] == [
            label for label in labels if "interactive first" in label
        ]
    above, below = drawings["responsive_1_elastic-paper_pool.png"].axes
    assert above.get_position().y0 > below.get_position().y1


def test_the_jobs_are_drawn_and_the_learner_of_both_sites(drawings, tmp_path) -> None:
    learners = [{"policy": "esn-sarsa", "sweeps": 1, "site": site} for site in ("rigid", "elastic-paper")]
    cells = [
        CellResult(str(number), str(number), "little site", {}, "1", 1, {}, {**FIRST, **learner}, "done")
        for number, learner in enumerate([{"policy": "fcfs"}, *learners])
    ]
    material = Cells(
        [
            replace(cell, metrics=run_cell("responsive", cell.parameters, seed=1).outcome.metrics)
            for cell in cells
        ],
        tmp_path,
    )
    drawn.write_curves(material)  # type: ignore[arg-type]
    times, overheads, requests = drawings["responsive_1_rigid_workload.png"].axes
    jobs = material.tables_of(material.results[0])["jobs"].to_pydict()
    assert len(times.lines) == len(set(jobs["vo"]))
    # All work that arrives is in the intervals.
    assert requests.lines[0].get_ydata().sum() * 10_000 == pytest.approx(sum(jobs["run"]))
    share = overheads.lines[0].get_ydata()
    assert (len(share), share[-1]) == (
        sum(inside and short for inside, short in zip(jobs["counted"], jobs["interactive"], strict=True)),
        1,
    )
    beside = [
        name for name in legend(drawings["responsive_1_elastic-paper_responsiveness.png"]) if "rigid" in name
    ]
    assert len(beside) == 1
    assert "SARSA" in beside[0]
