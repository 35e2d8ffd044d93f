"""A PostgreSQL store that goes away while a sweep is tracked, and comes back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gridtune.report.summarising import summarise
from gridtune.sweep.journal.results import results_table
from gridtune.tracking.store import connect
from gridtune.tracking.tracker import MlflowTracker

from .postgresql import PostgresServer
from .synthetic import cell_results, sweep_facts

pytestmark = pytest.mark.integration


def test_a_database_that_goes_away_and_comes_back_has_everything_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    uri = postgres.create("restarted", "mlflow")
    results = cell_results(configurations=30)
    facts = sweep_facts(cells=len(results))
    warnings: list[str] = []
    tracker = MlflowTracker(uri, patience=120, on_trouble=warnings.append)
    tracker.begin(facts, tmp_path / "orders")
    tracker._next_look = 0
    tracker.finished(results[:60])
    while tracker._outbox.unsent:
        time.sleep(0.01)
    postgres.stop()
    try:
        tracker.add(results)
        tracker.publish(summarise(results_table(results), facts))
        while tracker._outbox.fault is None:
            time.sleep(0.01)
    finally:
        postgres.start()
    outcome = tracker.close()
    assert outcome.complete, outcome.message
    assert len(warnings) == 1
    client = connect(uri)
    query = f"tags.`mlflow.parentRunId` = '{outcome.run_id}'"
    children = client.search_runs([outcome.experiment_id], query, max_results=100)
    assert len({run.data.tags["gridtune.configuration"] for run in children}) == len(children) == 30
    assert {run.info.status for run in children} == {"FINISHED"}
    for run in children:
        history = client.get_metric_history(run.info.run_id, "wait_mean.replicates")
        assert sorted(point.step for point in history) == [0, 1, 2, 3]
