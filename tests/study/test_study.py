"""A study in a notebook: what it says of itself, tables as data frames, figures."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import gridtune as gt
from gridtune.cli.results import report
from gridtune.core.system import Outcome, get_system
from gridtune.errors import GridtuneWarning, SweepError
from gridtune.report.schedules import ScheduleFiles
from gridtune.study.report import draw_study, write_study
from gridtune.sweep.journal.journal import Journal
from tests.cli.folders import finished_sweep, quickstart


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> gt.Study:
    space = quickstart(
        workloads=[
            {"trace": "quickstart", "label": "all"},
            {"trace": "quickstart", "label": "busy", "load": 1.3},
        ],
        fixed=None,
        objective=["bounded_slowdown_mean", "wait_mean"],
        baseline={"order": "fcfs", "backfill": "none"},
    )
    return gt.report_study(finished_sweep(tmp_path_factory.mktemp("sweep"), space))


def test_it_is_short_in_a_shell_and_a_table_in_a_notebook(study: gt.Study) -> None:
    assert repr(study).startswith("Study('small', 120 cells, best all: ")
    assert len(repr(study)) < 160
    html = study._repr_html_()
    assert html.count("<tr") == 1 + 6 + 0  # over both workloads: a head and six configurations
    assert "bounded_slowdown_mean" in html
    # A screen wide: no ids and paths before the verdict.
    heads = re.findall(r"<th>([^<]+)</th>", html)
    assert heads[:3] == ["rank", "param.order", "param.backfill"]
    assert heads[-1] == "verdict"
    assert len(heads) <= 12
    # The answer with its trust stands above the ranking.
    assert html.startswith(f'<p class="answer">{study.summary.answers[0].advice}')
    assert "trust: not graded: simulated" in html.partition("<h4>")[0]
    assert repr(study.summary.answers[0]).startswith(study.summary.answers[0].advice)


def test_tables_are_data_frames(study: gt.Study) -> None:
    cells = study.to_pandas()
    assert len(cells) == 120
    assert set(cells["state"]) == {"done"}
    ranking = study.ranking()
    assert len(ranking) == 12
    means = cells.groupby(["workload", "configuration_id"])["metric.bounded_slowdown_mean"].mean()
    for row in ranking.itertuples():
        assert row.mean == pytest.approx(means[row.workload, row.configuration_id])
    assert len(study.ranking("wait_mean", overall=True)) == 6
    with pytest.raises(SweepError, match="no ranking by utilisation") as caught:
        study.ranking("utilisation")
    assert "bounded_slowdown_mean" in str(caught.value)


def test_a_report_ranks_by_several_other_metrics(study: gt.Study) -> None:
    names = ["utilisation", "wait_max"]
    options = [part for name in names for part in ("--objective", name)]
    result = CliRunner().invoke(report, [str(study.directory), *options, "--json"])
    assert result.exit_code == 0, result.output
    folder = study.directory / "report-utilisation-wait_max"
    assert all((folder / f"ranking-{name}.csv").is_file() for name in names)
    again = gt.report_study(study.directory, objective=names)
    assert (list(again.summary.rankings), again.report) == (names, folder)


def test_an_unknown_name_proposes_the_right_one(study: gt.Study) -> None:
    schedule = gt.simulate(gt.generate_workload("poisson", jobs=20, seed=1))
    outcome = Outcome({"bounded_slowdown_mean": 1.0, "wait_mean": 2.0})
    for values in (gt.evaluate(schedule), outcome.metrics, study.summary.rankings):
        with pytest.raises(KeyError, match="did you mean 'bounded_slowdown_"):
            values["bsld"]
        assert values.get("bsld") is None
        assert "bsld" not in values


def test_the_best_of_a_workload(study: gt.Study) -> None:
    best = study.best("busy")
    ranking = study.ranking()
    first = ranking[(ranking["workload"] == "busy") & (ranking["rank"] == 1)].iloc[0]
    assert best.parameters["order"] == first["param.order"]
    assert best.row["mean"] == first["mean"]
    with pytest.raises(SweepError, match="each workload has a best") as caught:
        study.best()
    assert "name one of all, busy" in str(caught.value)
    with pytest.raises(SweepError, match="no configuration is ranked on 'buzy'") as caught:
        study.best("buzy")
    assert "did you mean 'busy'" in str(caught.value)


def test_two_configurations_are_compared(study: gt.Study) -> None:
    comparison = study.compare({"order": "fcfs"}, {"order": "saf"}, objective="wait_mean")
    frame = comparison.to_pandas()
    assert len(frame) == 4  # two workloads, two kinds of backfilling
    assert set(frame["n"]) == {10}
    assert (frame["second_mean"] - frame["first_mean"]).tolist() == pytest.approx(frame["diff"].tolist())
    assert "order=saf compared with order=fcfs: wait_mean" in comparison._repr_html_()
    assert str(comparison).startswith("order=saf compared with order=fcfs: wait_mean\n")
    assert "verdict" in str(comparison)


@pytest.mark.parametrize("kind", ["ranking", "overall", "front"])
def test_it_is_drawn(kind: str, study: gt.Study) -> None:
    assert study.plot(kind)._repr_png_().startswith(b"\x89PNG")


def test_a_figure_that_there_is_not(study: gt.Study) -> None:
    with pytest.raises(SweepError, match="no such kind of figure: 'rankin'") as caught:
        study.plot("rankin")
    assert "did you mean 'ranking'" in str(caught.value)


def test_the_page_replaces_figures_over_a_parameter(tmp_path: Path) -> None:
    space = quickstart(
        dimensions={"order": ["fcfs", "sjf"], "load": [0.8, 1.0, 1.2]}, baseline={"order": "fcfs"}
    )
    study = gt.report_study(finished_sweep(tmp_path, space))
    with pytest.raises(SweepError, match="no such kind of figure: 'load'") as caught:
        study.plot("load")
    assert "the page of the report draws the effects of parameters" in str(caught.value)
    with pytest.raises(SweepError, match="two objectives"):
        study.plot("front")


def test_another_driver_begins_when_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[str] = []

    def write(study: gt.Study, schedules: Sequence[ScheduleFiles]) -> gt.Study:
        with pytest.raises(SweepError, match="is writing this sweep's journal") as caught:
            Journal(study.directory / "journal.jsonl")
        refusals.append(str(caught.value))
        return write_study(study, schedules)

    monkeypatch.setattr("gridtune.study.run.write_study", write)
    space = quickstart(dimensions={"order": ["fcfs"]}, replicates={"windows": 2})
    gt.run_sweep(space, directory=tmp_path, executor="inline", tracking=False, output="quiet")
    assert len(refusals) == 1
    Journal(tmp_path / "journal.jsonl").close()


def test_a_disk_that_is_full_when_the_report_is_written_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = iter([True, True])

    def write(*arguments: object) -> list[Path]:
        if next(full, False):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return []

    monkeypatch.setattr("gridtune.sweep.journal.disk._RETRY_SECONDS", 0.0)
    monkeypatch.setattr(type(get_system("batch")), "report", write)
    space = quickstart(dimensions={"order": ["fcfs"]}, replicates={"windows": 2})
    options = {"directory": tmp_path, "tracking": False, "output": "quiet"}
    with pytest.warns(GridtuneWarning, match="is full: waiting; make room and the sweep goes on"):
        study = gt.run_sweep(space, executor="inline", **options)  # type: ignore[arg-type]
    assert next(full, None) is None
    assert study.report_error is None
    assert (tmp_path / "report.html").exists()


def test_the_page_is_complete_and_the_answer_shown_before_a_picture_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def draw(study: gt.Study, schedules: Sequence[ScheduleFiles]) -> gt.Study:
        assert not list(tmp_path.rglob("*.png"))
        seen.append(capsys.readouterr().out)
        pages.append((tmp_path / "report.html").read_text())
        return draw_study(study, schedules)

    pages: list[str] = []
    monkeypatch.setattr("gridtune.study.run.draw_study", draw)
    space = quickstart(dimensions={"order": ["fcfs", "sjf"]}, replicates={"windows": 2})
    gt.run_sweep(space, directory=tmp_path, executor="inline", tracking=False)
    assert "the report as one page" in seen[0]
    pictures = sorted(tmp_path.rglob("*.png"))
    assert {path.parent.name for path in pictures} == {"plots", "schedules"}
    assert pages[0] == (tmp_path / "report.html").read_text()


def test_a_sweep_without_figures_leaves_out_picture_files_alone(tmp_path: Path) -> None:
    space = quickstart(dimensions={"order": ["fcfs", "sjf"]}, replicates={"windows": 2})
    options: dict[str, Any] = {"executor": "inline", "tracking": False, "output": "quiet"}
    for folder, figures in (("with", True), ("without", False)):
        gt.run_sweep(space, directory=tmp_path / folder, figures=figures, **options)
    made, left = (
        {path.relative_to(tmp_path / folder) for path in (tmp_path / folder).rglob("*") if path.is_file()}
        for folder in ("with", "without")
    )
    # Without the pictures it is not remembered as finished.
    assert {path.suffix for path in made - left if path.name != "finished.json"} == {".png"}
    assert left <= made
    gt.report_study(tmp_path / "without")
    assert {path.relative_to(tmp_path / "without") for path in (tmp_path / "without").rglob("*.png")} == {
        path for path in made if path.suffix == ".png"
    }
