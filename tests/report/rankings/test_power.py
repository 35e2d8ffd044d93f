"""How many replicates a sweep's comparisons need."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from click.testing import CliRunner
from rich.console import Console

from gridtune.cli.results import report
from gridtune.errors import MetricError
from gridtune.report.rankings.cells import Cells, read_cells
from gridtune.report.rankings.power import power_table, print_power
from gridtune.report.rankings.ranking import Ranking, rank
from gridtune.statistics.sample_size import PairedSpread, replicates_needed
from gridtune.study import report_study
from gridtune.study.report import write_power
from tests.report.synthetic import sweep_table
from tests.tracking.synthetic import cell_results, study_folder, sweep_facts


def tables(
    replicates: int = 10, baseline: dict[str, Any] | None = None, direction: str = "min"
) -> tuple[Cells, Ranking]:
    table = sweep_table({"order": ["fcfs", "sjf", "f1"]}, replicates=replicates, workloads=["kth-sp2"])
    cells = read_cells(table, {"order": "fcfs"} if baseline is None else baseline)
    return cells, rank(cells, objective="wait_mean", direction=direction)


def values(table: pa.Table, order: str) -> np.ndarray[Any, Any]:
    return np.array([row["metric.wait_mean"] for row in table.to_pylist() if row["param.order"] == order])


def test_it_is_the_statistics_of_each_pair() -> None:
    cells, ranking = tables()
    table = cells.table
    power = power_table(cells, ranking, effects=[0.02])
    assert [row["param.order"] for row in power.rows] == [row["param.order"] for row in ranking.rows][:2]
    for row in power.rows:
        spread = PairedSpread.of([values(table, row["param.order"])], values(table, "fcfs"))
        settings: dict[str, Any] = {"comparisons": 2}
        assert row["relative"] == pytest.approx(spread.as_relative(spread.effect)[0])
        assert row["needed_observed"] == replicates_needed(spread.effect, spread.deviation, **settings)[0]
        assert row["needed_0.02"] == replicates_needed(np.log(0.98), spread.deviation, **settings)[0]


def test_where_more_is_better_an_improvement_is_more() -> None:
    less, more = (power_table(*tables(direction=one), effects=[0.05]).rows[0] for one in ("min", "max"))
    # log(1.05) is nearer to 0 than log(0.95).
    assert more["needed_0.05"] > less["needed_0.05"]


def test_a_sweep_without_a_baseline_or_with_one_replicate_has_nothing_to_count() -> None:
    for found in (tables(baseline={}), tables(replicates=1)):
        power = power_table(*found)
        assert power.rows == []
        out = io.StringIO()
        print_power(power, Console(file=out, width=100))
        assert "nothing is compared" in out.getvalue()


def test_a_printed_table_says_how_it_counts() -> None:
    out = io.StringIO()
    print_power(power_table(*tables()), Console(file=out, width=110, highlight=False))
    text = " ".join(out.getvalue().split())
    assert "kth-sp2: wait_mean, windows needed" in text
    assert "a t test at 5 % over 2 comparisons" in text
    assert "estimated from 10 windows: 0.6 to 2.2 times" in text
    assert "fewer than 6 cannot show any" in text


@pytest.mark.parametrize("wrong", [{"effects": [0.0]}, {"effects": [1.5]}])
def test_effects_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(MetricError):
        power_table(*tables(), **wrong)


def test_the_command_prints_and_writes_it(tmp_path: Path) -> None:
    study_folder(tmp_path, cell_results(), sweep_facts())
    arguments = [str(tmp_path), "--power", "--effect", "2", "--effect", "25"]
    text = CliRunner().invoke(report, arguments, catch_exceptions=False).output
    assert "25 %" in text
    assert "95 % paired" not in text
    written = pa_csv.read_csv(tmp_path / "power-wait_mean.csv")
    assert {"needed_observed", "needed_0.02", "needed_0.25", "comparisons"} <= set(written.column_names)
    output = CliRunner().invoke(report, [*arguments, "--json"], catch_exceptions=False).stdout
    content = json.loads(output)
    assert len(content["power"]["wait_mean"]) == written.num_rows > 0
    assert str(tmp_path / "power-wait_mean.csv") in content["files"]
    # The next sweep into this folder removes it.
    assert "power-wait_mean.csv" in (tmp_path / "derived.json").read_text()


def test_a_study_has_the_same_table(tmp_path: Path) -> None:
    study_folder(tmp_path, cell_results(), sweep_facts())
    study = report_study(tmp_path)
    frame = study.power("wait_mean", effects=[0.02])
    assert frame.equals(write_power(study, [0.02])[1]["wait_mean"].table.to_pandas())
    assert {"needed_observed", "needed_0.02", "comparisons"} <= set(frame.columns)


def test_an_effect_without_power_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(report, [str(tmp_path), "--effect", "2"])
    assert result.exit_code == 2
    assert "--effect goes with --power" in result.output


@pytest.mark.parametrize("effect", [-0.02, 0.0, 1.0, 1.5])
def test_an_effect_that_is_no_share_is_refused(effect: float) -> None:
    with pytest.raises(MetricError, match=f"an effect lies between 0 and 1, but got {effect}"):
        power_table(*tables(), effects=[0.02, effect])
