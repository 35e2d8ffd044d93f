"""Which configurations of a large sweep have runs, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtune.errors import TrackingError
from gridtune.report.summary import summarise
from gridtune.sweep.journal.results import results_table
from gridtune.tracking.content import MOST_RUNS, most_runs, runs_of_ranking
from gridtune.tracking.store import connect
from gridtune.tracking.tracker import MlflowTracker

from .synthetic import cell_results, sweep_facts

RESULTS = cell_results(configurations=12)


def test_the_baseline_and_the_best_of_each_workload_have_runs_the_best_first() -> None:
    results = [*RESULTS, *cell_results(configurations=12, workload="other")]
    summary = summarise(results_table(results), sweep_facts(baseline={"order": "order9"}))
    assert runs_of_ranking(summary, 6) == [
        *("log-c0000", "other-c0000", "log-c0001", "other-c0001"),
        *("log-c0009", "other-c0009"),
    ]
    assert len(runs_of_ranking(summary, 100)) == 24


def test_the_number_is_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRIDTUNE_MOST_RUNS", raising=False)
    assert most_runs() == MOST_RUNS
    monkeypatch.setenv("GRIDTUNE_MOST_RUNS", "7")
    assert most_runs() == 7
    monkeypatch.setenv("GRIDTUNE_MOST_RUNS", "many")
    with pytest.raises(TrackingError, match="not a number"):
        most_runs()


@pytest.mark.integration
def test_a_sweep_with_more_configurations_says_where_the_others_are(store_uri: str, tmp_path: Path) -> None:
    facts = sweep_facts(baseline={"order": "order9"}, cells=len(RESULTS))
    for count, better in ((12, False), (12, True)):
        # The second time another configuration is the best: it gets a run, and no run is left as it was.
        results = [
            result
            if not better or not result.configuration_id.endswith("5")
            else type(result)(**{**vars(result), "metrics": {**result.metrics, "wait_mean": 0.1}})
            for result in RESULTS[: 4 * count]
        ]
        tracker = MlflowTracker(store_uri, runs=4)
        tracker.begin(facts, tmp_path)
        tracker._next_look = 0
        tracker.finished(results)
        tracker.publish(summarise(results_table(results), facts))
        outcome = tracker.close()
        assert outcome.complete
        client = connect(store_uri)
        query = f"tags.`mlflow.parentRunId` = '{outcome.run_id}'"
        ranks = {
            run.info.run_name: run.data.metrics["rank"]
            for run in client.search_runs([outcome.experiment_id], query)
        }
        if better:
            assert ranks == {"order5": 1, "order0": 2, "order1": 3, "order2": 4, "order9": 10}
        else:
            assert ranks == {"order0": 1, "order1": 2, "order2": 3, "order9": 10}
        note = client.get_run(outcome.run_id).data.tags["mlflow.note.content"]
        assert "4 of 12 configurations have runs: the baseline and the best" in note
        assert "ranking-wait_mean.html" in note
