"""A real tracking server that dies and comes back while a sweep is tracked."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtune.report.summarising import summarise, write_report
from gridtune.sweep.journal.results import results_table
from gridtune.tracking.store import connect
from gridtune.tracking.tracker import Artefact, MlflowTracker

from .synthetic import cell_results, sweep_facts

pytestmark = [pytest.mark.integration, pytest.mark.slow]


class Server:
    """`mlflow server` on a free port, in a process group of its own."""

    def __init__(self, folder: Path, store: bytes) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder = folder
        (folder / "server.db").write_bytes(store)
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self.folder}/server.db"]
        command += ["--artifacts-destination", str(self.folder / "artefacts")]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        environment = {
            **os.environ,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=2):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError((self.folder / "server.log").read_text())

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, empty_store: bytes) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"), empty_store)
    running.start()
    try:
        yield running
    finally:
        running.kill()


def test_a_server_that_goes_away_and_comes_back_has_everything_once(server: Server, tmp_path: Path) -> None:
    results = cell_results(configurations=30)
    facts = sweep_facts(cells=len(results))
    warnings: list[str] = []
    tracker = MlflowTracker(server.uri, patience=60, on_trouble=warnings.append)
    tracker.begin(facts, tmp_path / "orders")
    tracker._next_look = 0
    tracker.finished(results[:60])
    while len(tracker._outbox.unsent) > 8:
        time.sleep(0.01)
    server.kill()
    summary = summarise(results_table(results), facts)
    tracker.add(results)
    tracker.publish(summary)
    tracker.store([Artefact(path) for path in write_report(summary, tmp_path / "orders")])
    while tracker._outbox.fault is None:
        time.sleep(0.05)
    assert tracker._outbox.unsent
    server.start()
    outcome = tracker.close()
    assert outcome.complete
    assert len(warnings) == 1
    client = connect(server.uri)
    runs = client.search_runs([outcome.experiment_id], max_results=1000)
    children = [run for run in runs if run.info.run_id != outcome.run_id]
    assert len(children) == 30
    assert len({run.data.tags["gridtune.configuration"] for run in children}) == 30
    assert {run.info.status for run in runs} == {"FINISHED"}
    for run in children:
        history = client.get_metric_history(run.info.run_id, "wait_mean.replicates")
        assert sorted(point.step for point in history) == [0, 1, 2, 3]
        assert len(client.get_metric_history(run.info.run_id, "rank")) == 1
    names = {item.path for item in client.list_artifacts(outcome.run_id)}
    assert "ranking.md" in names


def test_what_a_missing_server_did_not_get_is_sent_later_to_another(server: Server, tmp_path: Path) -> None:
    results, facts = cell_results(), sweep_facts(name="later")
    summary = summarise(results_table(results), facts)
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        tracker = MlflowTracker(f"http://127.0.0.1:{nobody_listens.getsockname()[1]}", patience=1)
        tracker.begin(facts, tmp_path / "later")
        tracker.add(results)
        tracker.publish(summary)
        lost = tracker.close()
    assert not lost.complete
    assert "nothing is lost; send them later: gridtune report" in lost.message
    again = MlflowTracker(server.uri, patience=30)
    again.begin(facts, tmp_path / "later")
    again.add(results)
    again.publish(summary)
    outcome = again.close()
    assert outcome.complete
    runs = connect(server.uri).search_runs([outcome.experiment_id])
    assert len(runs) == 1 + 3
    assert {run.info.status for run in runs} == {"FINISHED"}
