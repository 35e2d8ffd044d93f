"""`gridtune results export`: the best configuration with its provenance, as `gridtune run` takes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from gridtune.cli.main import main
from gridtune.study.stored import read_sweep
from tests.cli.folders import finished_sweep, quickstart


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_sweep(tmp_path_factory.mktemp("sweep") / "small", quickstart())


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return int(ended.value.code or 0)


def test_the_best_has_objective_verdict_and_provenance(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("results", "export", folder, "--workload", "quickstart, easy") == 0
    text = capsys.readouterr().out
    content = yaml.safe_load(text)
    assert f"#   {content['answer']['advice']}\n" in text
    assert content["parameters"] == {"trace": "quickstart", "order": "saf", "backfill": "easy"}
    rows = read_sweep(folder).table.to_pylist()
    best = [row for row in rows if row["param.order"] == "saf" and row["param.backfill"] == "easy"]
    mean = sum(row["metric.bounded_slowdown_mean"] for row in best) / 10
    assert content["objective"]["mean"] == pytest.approx(mean)
    assert content["objective"]["interval"][0] < mean < content["objective"]["interval"][1]
    assert content["baseline"]["verdict"] == "better typically"
    assert content["provenance"]["cells"] == [row["cell_id"] for row in best]
    assert content["provenance"]["space"]["name"] == "small"


def test_the_file_runs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "best.json"
    assert run("results", "export", folder, "--workload", "quickstart, none", "--rank", 2, "--out", path) == 0
    said, advice = capsys.readouterr().out.splitlines()
    assert f"gridtune run batch --parameters {path}" in said
    # The advice about the second place, not only how to run it.
    assert advice == json.loads(path.read_text())["answer"]["advice"]
    parameters = json.loads(path.read_text())["parameters"]
    assert run("run", "batch", "--parameters", path, "window=3/10", "--seed", 2, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    # With the window it is a cell of the sweep.
    cells = {row["cell_id"]: row for row in read_sweep(folder).table.to_pylist()}
    assert cells[report["cell_id"]]["param.order"] == parameters["order"]
    assert cells[report["cell_id"]]["metric.wait_mean"] == report["metrics"]["wait_mean"]
    assert run("results", "export", folder, "--out", path) == 2
    assert "--force replaces it" in capsys.readouterr().err


def test_of_several_workloads_the_best_over_all_has_no_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = quickstart(
        fixed={"kill": False},
        workloads=[{"trace": "quickstart"}, {"trace": "mm4", "processors": 4}],
        dimensions={"order": ["fcfs", "saf"]},
    )
    folder = finished_sweep(tmp_path / "two", space)
    assert run("results", "export", folder) == 0
    printed = capsys.readouterr().out
    content = yaml.safe_load(printed)
    assert content["parameters"].keys() == {"kill", "order"}
    assert content["workload"] == "all of quickstart, mm4"
    assert "gridtune run batch --parameters FILE trace=LOG" in printed
    assert run("results", "export", folder, "--workload", "mm4") == 0
    parameters = yaml.safe_load(capsys.readouterr().out)["parameters"]
    assert parameters["trace"] == "mm4"
    assert parameters["processors"] == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rank", "4", "--workload", "quickstart, easy"], ["no rank 4", "it has 1 to 3"]),
        (["--workload", "kth"], ["no workload 'kth'"]),
        (["--objective", "wait_maen"], ["did you mean 'wait_mean'"]),
    ],
)
def test_what_is_not_there_is_refused(
    folder: Path, options: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("results", "export", folder, *options) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("order: sjf\nbackfil: easy\n", ["p.yaml:2", "did you mean 'backfill'"]),
        ("system: dispatch\nparameters: {rule: edd}\n", ["p.yaml:1", "of the system 'dispatch'"]),
        ("- 1\n", ["is a mapping of names to values"]),
        ("order: fcfs\n", ["batch needs trace"]),
    ],
)
def test_a_faulty_file_of_parameters_is_refused(
    tmp_path: Path, text: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(text)
    assert run("run", "batch", "--parameters", tmp_path / "p.yaml") == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words), message
