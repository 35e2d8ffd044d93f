"""`gridtune report`: another objective or baseline is checked, and leaves the sweep's own report alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridtune.cli.main import main
from gridtune.report.summary import Summary
from gridtune.study import report_study
from tests.tracking.synthetic import cell_results, study_folder, sweep_facts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a sweep's folder with its own report."""
    study_folder(tmp_path, cell_results(), sweep_facts())
    report_study(tmp_path)
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    """Return every file but the list of what is derived, which another report joins."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "derived.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def report(folder: Path, *options: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["report", str(folder), *options])
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--baseline", "ordr=order0"], ["no parameter 'ordr'", "did you mean 'order'?"]),
        (["--baseline", "order=xxx"], ["no configuration has order=xxx", "order has order0, order1, order2"]),
        (["--baseline", "order=order1", "--baseline", "kill=no"], ["no configuration has kill=no"]),
        (["--objective", "utilisatoin"], ["did you mean 'utilisation'"]),
        (["--objective", "wait_p95"], ["no cell has the metric 'wait_p95'"]),
        (["--objective", "utilisation", "--track"], ["track without --objective"]),
        (["--baseline", "order=[a"], ["'order=[a': the value is not YAML"]),
    ],
)
def test_what_the_sweep_does_not_have_is_refused_and_changes_nothing(
    folder: Path, options: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(folder)
    assert report(folder, *options) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert all(word in printed.err for word in words), printed.err
    assert content(folder) == before


def test_another_objective_goes_into_a_folder_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(folder)
    assert report(folder, "--objective", "utilisation", "--baseline", "order=order2") == 0
    other = folder / "report-utilisation-order=order2"
    assert f"{other}/" in capsys.readouterr().out.replace("\n", "")
    assert "utilisation" in (other / "ranking.md").read_text()
    assert (other / "plots" / "ranking-utilisation.png").exists()
    assert {name: data for name, data in content(folder).items() if name in before} == before


def test_the_sweeps_own_objective_and_baseline_are_its_own_report(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(folder, "--objective", "wait_mean", "--baseline", "order=order0", "--json") == 0
    assert json.loads(capsys.readouterr().out)["report"] == str(folder)
    assert not list(folder.glob("report-*"))


def test_a_sampled_number_is_named_as_tables_print_it(tmp_path: Path) -> None:
    results = cell_results(2)
    for number, result in enumerate(results):
        result.configuration["load"] = 1.0 + (number // 4) / 3  # type: ignore[index]
    study_folder(tmp_path, results, sweep_facts())
    study = report_study(tmp_path, baseline={"load": 1.33333})
    assert study.facts.baseline == {"load": 4 / 3}


def test_a_file_that_is_no_table_of_cells_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(folder / "journal.jsonl") == 2
    assert "journal.jsonl: the file is no table of a sweep's cells" in capsys.readouterr().err


def test_tables_are_printed_before_the_report_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []

    def write(summary: Summary, directory: Path) -> list[Path]:
        printed.append(capsys.readouterr().out)
        return []

    monkeypatch.setattr("gridtune.study.report.write_report", write)
    assert report(folder) == 0
    assert "wait_mean" in printed[0]
    assert "verdict" in printed[0]
    assert "the report as one page" in capsys.readouterr().out
