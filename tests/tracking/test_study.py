"""A study from a search space to tables, figures and a tracked run; and the commands that look back at it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from gridtune.cli.main import main
from gridtune.cli.results import report
from gridtune.cli.status import ui
from gridtune.errors import SweepError, TrackingError
from gridtune.study import Study, report_study, run_sweep
from gridtune.sweep.journal.journal import Journal
from gridtune.tracking.store import connect

from .synthetic import cell_results, study_folder, sweep_facts

pytestmark = pytest.mark.integration

SPACE = {
    "name": "tiny",
    "description": "Two orders, two rules.",
    "fixed": {"trace": "quickstart"},
    "dimensions": {"order": ["fcfs", "sjf"], "backfill": ["none", "easy"]},
    "replicates": {"windows": 6},
    "objective": ["wait_mean", "utilisation"],
    "baseline": {"order": "fcfs", "backfill": "easy"},
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, empty_store: bytes) -> Study:
    folder = tmp_path_factory.mktemp("study")
    (folder / "mlflow.db").write_bytes(empty_store)
    uri = f"sqlite:///{folder}/mlflow.db"
    return run_sweep(SPACE, directory=folder / "tiny", executor="inline", tracking_uri=uri, output="quiet")


def test_a_sweep_becomes_tables_figures_schedules_and_runs(study: Study) -> None:
    assert study.complete
    assert study.counts == {"done": 24}
    names = {str(path.relative_to(study.directory)) for path in study.files}
    assert names >= {
        "ranking.md",
        "ranking-wait_mean.csv",
        "plots/ranking-wait_mean.png",
        "schedules/quickstart-utilisation-and-queue.png",
    }
    assert all(path.stat().st_size for path in study.files)
    assert study.tracking is not None
    assert study.tracking.complete
    client = connect(study.tracking.uri)
    runs = client.search_runs([study.tracking.experiment_id])
    assert len(runs) == 1 + 4
    assert {run.info.status for run in runs} == {"FINISHED"}
    files = {item.path for item in client.list_artifacts(study.tracking.run_id)}
    assert files >= {"results.parquet", "results.csv", "sweep.json", "ranking.md", "plots", "schedules"}


def test_best_and_baseline_have_their_schedules(study: Study) -> None:
    assert study.tracking is not None
    client = connect(study.tracking.uri)
    best = study.summary.best[0].row["configuration_id"]
    (run,) = client.search_runs(
        [study.tracking.experiment_id], f"tags.`gridtune.configuration` = '{best}'", max_results=1
    )
    files = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert any(name.endswith("best.parquet") for name in files)
    assert any(name.endswith(".png") for name in files)
    table = pq.read_table(study.directory / "schedules" / "quickstart-best.parquet")
    # The schedule is that of the very cell in the table: its mean wait is the metric, to the last bit.
    cell = next(result for result in study.results if result.configuration_id == best)
    waits = table["wait_time"].to_numpy()
    assert waits.sum() / len(waits) == pytest.approx(cell.metrics["wait_mean"], rel=1e-12)


def test_the_same_sweep_again_runs_nothing_and_tracks_nothing_twice(study: Study) -> None:
    assert study.tracking is not None
    again = run_sweep(
        SPACE, directory=study.directory, workers=1, tracking_uri=study.tracking.uri, output="quiet"
    )
    assert again.sweep is not None
    assert again.sweep.ran == 0
    assert again.tracking is not None
    assert again.tracking.run_id == study.tracking.run_id
    client = connect(study.tracking.uri)
    runs = client.search_runs([study.tracking.experiment_id])
    assert len(runs) == 1 + 4
    for run in runs:
        if run.info.run_id != study.tracking.run_id:
            assert len(client.get_metric_history(run.info.run_id, "wait_mean.replicates")) == 6
            assert len(client.get_metric_history(run.info.run_id, "rank")) == 1


def test_a_report_is_made_again_from_the_folder_alone(study: Study) -> None:
    before = (study.directory / "ranking.md").read_bytes()
    (study.directory / "ranking.md").unlink()
    again = report_study(study.directory)
    assert (study.directory / "ranking.md").read_bytes() == before
    assert again.tracking is None
    other = report_study(study.directory / "results.parquet", objective="makespan", baseline={"order": "sjf"})
    assert list(other.summary.rankings) == ["makespan"]
    report_study(study.directory)


def test_the_command_prints_the_table_and_json(study: Study) -> None:
    runner = CliRunner()
    text = runner.invoke(report, [str(study.directory)], catch_exceptions=False).output
    assert "wait_mean (s), smaller is better, 6 windows of this log" in text
    assert "utilisation, larger is better" in text
    content = json.loads(
        runner.invoke(report, [str(study.directory), "--json"], catch_exceptions=False).output
    )
    assert content["done"] == 24
    assert content["best"]["quickstart"]["configuration"]
    refused = runner.invoke(report, [str(study.directory), "--baseline", "order"])
    assert refused.exit_code == 2
    assert "NAME=VALUE" in refused.output


def test_results_that_are_not_there_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SweepError, match="no results of a sweep"):
        report_study(tmp_path / "nothing")
    study_folder(tmp_path / "half", cell_results(), sweep_facts())
    (tmp_path / "half" / "results.parquet").unlink()
    with pytest.raises(SweepError, match="start the same sweep again"):
        report_study(tmp_path / "half")
    with Journal(tmp_path / "half" / "journal.jsonl"), pytest.raises(SweepError, match="it is running"):
        report_study(tmp_path / "half")
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "nothing")])
    assert ended.value.code == 2
    assert "hint: give a sweep's folder" in capsys.readouterr().err


def test_a_sweep_of_which_every_cell_failed_still_has_a_report(tmp_path: Path) -> None:
    results = cell_results(2, 2, failed=[(0, 0), (0, 1), (1, 0), (1, 1)])
    study_folder(tmp_path, results, sweep_facts(2))
    study = report_study(tmp_path)
    assert not study.complete
    assert study.summary.best == []
    assert "No cell has a result" in (tmp_path / "ranking.md").read_text()


def test_a_missing_store_and_a_taken_port_are_told(study: Study, tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="no tracking store yet"):
        CliRunner().invoke(ui, ["--tracking-uri", str(tmp_path / "none.db")], catch_exceptions=False)
    assert study.tracking is not None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(TrackingError, match="cannot listen"):
            CliRunner().invoke(
                ui, ["--tracking-uri", study.tracking.uri, "--port", port], catch_exceptions=False
            )


@pytest.mark.slow
def test_the_ui_serves_the_store_and_leaves_no_process(study: Study) -> None:
    assert study.tracking is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-c",
        "from gridtune.cli.main import main; main()",
        "ui",
        "--tracking-uri",
        study.tracking.uri,
    ]
    process = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health")
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/search",
            data=json.dumps({"max_results": 10}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            names = [experiment["name"] for experiment in json.load(answer)["experiments"]]
        assert "tiny" in names
    finally:
        process.terminate()
        process.wait(300)
    deadline = time.monotonic() + 300
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)) == 0 and time.monotonic() < deadline:
            time.sleep(0.2)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"{url} does not answer")
