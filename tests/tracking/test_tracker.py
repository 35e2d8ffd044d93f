"""A sweep in a real store: what is there, that it is there once, and that it goes on after a stop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtune.core.cells import CellResult
from gridtune.report.facts import SweepFacts
from gridtune.report.summarising import draw_report, summarise, write_report
from gridtune.sweep.journal.results import results_table
from gridtune.tracking.store import connect
from gridtune.tracking.tracked import TrackedRun
from gridtune.tracking.tracker import Artefact, MlflowTracker

from .synthetic import CHECKSUM, cell_results, sweep_facts

pytestmark = pytest.mark.integration


def track(
    uri: str,
    facts: SweepFacts,
    results: Sequence[CellResult],
    folder: Path,
    *,
    status: str = "FINISHED",
    publish: bool = True,
) -> TrackedRun:
    tracker = MlflowTracker(uri, patience=5)
    tracker.begin(facts, folder)
    tracker.add(results)
    if publish:
        summary = summarise(results_table(results), facts)
        files = [*write_report(summary, folder), *draw_report(summary, folder / "plots")]
        tracker.publish(summary)
        tracker.store([Artefact(path, "plots" if path.suffix == ".png" else "") for path in files])
    return tracker.close(status)


def runs_of(uri: str, experiment: str = "orders") -> tuple[list[Any], list[Any]]:
    """Return the parents and the children."""
    client = connect(uri)
    stored = client.get_experiment_by_name(experiment)
    every = client.search_runs([stored.experiment_id], max_results=5000)
    return (
        [run for run in every if run.data.tags["gridtune.kind"] == "sweep"],
        [run for run in every if run.data.tags["gridtune.kind"] == "configuration"],
    )


def everything(uri: str) -> dict[str, Any]:
    """Return all that a store says of a sweep, without times."""
    client = connect(uri)
    parents, children = runs_of(uri)
    return {
        run.data.tags["mlflow.runName"]: (
            run.info.run_id,
            run.info.status,
            dict(run.data.params),
            {
                name: [
                    (point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)
                ]
                for name in run.data.metrics
            },
            {name: value for name, value in run.data.tags.items() if name != "mlflow.note.content"},
        )
        for run in children
    } | {"parents": [run.info.run_id for run in parents]}


def test_what_a_store_holds(store_uri: str, tmp_path: Path) -> None:
    outcome = track(
        store_uri, sweep_facts(), cell_results(failed=[(2, 1)]), tmp_path / "orders", status="FAILED"
    )
    assert outcome.complete
    client = connect(store_uri)
    (parent,), children = runs_of(store_uri)
    assert (parent.info.run_id, parent.info.status) == (outcome.run_id, "FAILED")
    assert parent.data.params["objective"] == "wait_mean (min)"
    assert parent.data.metrics == {}
    assert parent.data.tags["cells"] == "11 of 12 done, 1 failed"
    (dataset,) = parent.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("log.swf", CHECKSUM[:16])
    assert json.loads(dataset.dataset.profile) == {"sha256": CHECKSUM}
    assert parent.data.tags["best log"].startswith("order0")
    assert "| **1** | **order0** |" in parent.data.tags["mlflow.note.content"]
    named = {run.data.tags["mlflow.runName"]: run for run in children}
    assert set(named) == {"order0", "order1", "order2"}
    run = named["order1"]
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert parent.data.tags["gridtune.version"]
    assert [item.dataset.digest for item in run.inputs.dataset_inputs] == [CHECKSUM[:16]]
    assert run.data.params["order"] == "order1"
    assert run.info.status == "FINISHED"
    history = client.get_metric_history(run.info.run_id, "wait_mean.replicates")
    assert [point.step for point in sorted(history, key=lambda point: point.step)] == [0, 1, 2, 3]
    (mean,) = client.get_metric_history(run.info.run_id, "wait_mean")
    assert mean.value == run.data.metrics["wait_mean"]
    assert mean.value == pytest.approx(sum(point.value for point in history) / 4)
    assert run.data.metrics["to_baseline_percent"] == pytest.approx(10)
    assert run.data.metrics["rank"] == 2
    assert run.data.metrics["stretch_p99"] == pytest.approx(mean.value / 10)
    assert named["order2"].info.status == "FAILED"
    assert "rank" not in named["order2"].data.metrics
    artefacts = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert {"ranking.md", "ranking-wait_mean.csv", "plots"} <= artefacts
    assert (tmp_path / "mlartifacts" / "orders").is_dir()


@pytest.mark.slow
def test_the_same_sweep_again_changes_nothing_and_an_extended_one_ranks_again(
    store_uri: str, tmp_path: Path
) -> None:
    results = cell_results()
    track(store_uri, sweep_facts(), results, tmp_path / "orders")
    first = everything(store_uri)
    track(store_uri, sweep_facts(), results, tmp_path / "orders")
    assert everything(store_uri) == first
    better = [
        CellResult(
            **{
                **vars(result),
                "cell_id": f"new-{result.cell_id}",
                "configuration_id": "new",
                "configuration": {**result.configuration, "order": "better"},
                "metrics": {**result.metrics, "wait_mean": 0.1},
            }
        )
        for result in results[:4]
    ]
    track(store_uri, sweep_facts(), [*results, *better], tmp_path / "orders")
    _, children = runs_of(store_uri)
    ranks = {run.info.run_name: run.data.metrics["rank"] for run in children}
    assert ranks == {"better": 1, "order0": 2, "order1": 3, "order2": 4}


def test_an_interrupted_sweep_goes_on_in_the_same_runs(store_uri: str, tmp_path: Path) -> None:
    results = cell_results()
    track(store_uri, sweep_facts(), results[:6], tmp_path / "orders", status="KILLED", publish=False)
    (parent,), children = runs_of(store_uri)
    assert parent.info.status == "KILLED"
    assert {run.info.status for run in children} == {"KILLED"}
    assert len(children) == 2
    interrupted = {run.info.run_id for run in children}
    # A trace that is known by another path by then is in the same runs.
    moved = [
        CellResult(**{**vars(result), "configuration": {**result.configuration, "trace": "moved/log.swf"}})
        for result in results
    ]
    assert track(store_uri, sweep_facts(), moved, tmp_path / "orders").complete
    parents, children = runs_of(store_uri)
    assert [run.info.run_id for run in parents] == [parent.info.run_id]
    assert interrupted < {run.info.run_id for run in children}
    assert len(children) == 3
    assert {run.info.status for run in [*parents, *children]} == {"FINISHED"}
    client = connect(store_uri)
    for run in children:
        assert len(client.get_metric_history(run.info.run_id, "wait_mean.replicates")) == 4
    parentless = SweepFacts(**{**vars(sweep_facts()), "sweep_id": "another"})
    track(store_uri, parentless, results, tmp_path / "orders")
    assert len(runs_of(store_uri)[0]) == 2


@pytest.mark.slow
def test_a_driver_killed_outright_leaves_runs_that_the_next_one_takes_over(
    store_uri: str, tmp_path: Path
) -> None:
    results = cell_results()
    tracker = MlflowTracker(store_uri)
    tracker.begin(sweep_facts(), tmp_path)
    tracker._next_look = 0
    tracker.finished(results[:6])
    assert tracker._outbox.drain(5)
    # No `close`: the process is gone.
    (parent,), children = runs_of(store_uri)
    assert {run.info.status for run in [parent, *children]} == {"RUNNING"}
    track(store_uri, sweep_facts(), results, tmp_path / "orders")
    parents, children = runs_of(store_uri)
    assert (len(parents), len(children)) == (1, 3)
    assert {run.info.status for run in [*parents, *children]} == {"FINISHED"}


@pytest.mark.slow
def test_a_deleted_experiment_is_told_and_nothing_waits_for_it(store_uri: str, tmp_path: Path) -> None:
    client = connect(store_uri)
    client.delete_experiment(client.create_experiment("orders"))
    outcome = track(store_uri, sweep_facts(), cell_results(), tmp_path / "orders")
    assert not outcome.complete
    assert "was deleted" in outcome.message
    assert f"gridtune report {tmp_path / 'orders'} --track" in outcome.message


@pytest.mark.slow
def test_a_deleted_database_is_told_and_made_again(empty_store: bytes, tmp_path: Path) -> None:
    database, results = tmp_path / "mlflow.db", cell_results()
    database.write_bytes(empty_store)
    uri = f"sqlite:///{database}"
    tracker = MlflowTracker(uri, patience=5)
    tracker.begin(sweep_facts(), tmp_path / "orders")
    assert tracker._outbox.drain(60)
    database.unlink()
    tracker.finished(results)
    tracker.publish(summarise(results_table(results), sweep_facts()))
    outcome = tracker.close()
    assert not outcome.complete
    assert "it was deleted while it was in use" in outcome.message
    assert f"gridtune report {tmp_path / 'orders'} --track" in outcome.message
    # What was sent before is sent again.
    assert track(uri, sweep_facts(), results, tmp_path / "orders").complete
    parents, children = runs_of(uri)
    assert len(parents) == 1
    assert len(children) == len({result.configuration_id for result in results})


def test_a_store_that_cannot_be_opened_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    tracker = MlflowTracker(f"sqlite:///{tmp_path}/file/mlflow.db", on_trouble=warnings.append)
    tracker.begin(sweep_facts(), tmp_path)
    tracker.finished(cell_results())
    outcome = tracker.close()
    assert not outcome.complete
    assert "cannot be written" in warnings[0]
    assert "the sweep goes on" in warnings[0]


@pytest.mark.slow
def test_two_sweeps_into_one_fresh_store(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/fresh.db"
    trackers = [MlflowTracker(uri) for _ in range(2)]
    for number, tracker in enumerate(trackers):
        tracker.begin(sweep_facts(sweep_id=str(number)), tmp_path)
        tracker.finished(cell_results())
    assert all(tracker.close().complete for tracker in trackers)
    assert len(runs_of(uri)[0]) == 2


@pytest.mark.slow
def test_trainings_have_a_run_of_their_own_with_their_curve_once(store_uri: str, tmp_path: Path) -> None:
    curve = {"iteration": [5, 10], "return_mean": [-3.0, -2.0], "lr": [0.1, float("nan")]}
    results = [
        replace(result, notes={"learning_curve": curve}) if number < 2 else result
        for number, result in enumerate(cell_results(failed=[(0, 1)]))
    ]
    for _ in range(2):
        assert track(store_uri, sweep_facts(), results, tmp_path / "orders", status="FAILED").complete
    client = connect(store_uri)
    _, children = runs_of(store_uri)
    parent = next(run for run in children if run.data.tags["mlflow.runName"] == "order0")
    query = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    (run,) = client.search_runs([parent.info.experiment_id], query)
    assert run.data.tags["mlflow.runName"] == "order0: window 1/4"
    assert run.info.status == "FINISHED"
    history = client.get_metric_history(run.info.run_id, "return_mean")
    assert sorted((point.step, point.value) for point in history) == [(5, -3.0), (10, -2.0)]
    assert [point.step for point in client.get_metric_history(run.info.run_id, "lr")] == [5]


@pytest.mark.slow
def test_a_sweep_with_more_configurations_says_where_the_others_are(
    store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridtune.tracking.tracker.MOST_RUNS", 4)
    facts = sweep_facts(baseline={"order": "order9"}, cells=len(cell_results(configurations=12)))
    for count, better in ((12, False), (12, True)):
        # The second time another configuration is the best: it gets a run, and no run is left as it was.
        results = [
            result
            if not better or not result.configuration_id.endswith("5")
            else type(result)(**{**vars(result), "metrics": {**result.metrics, "wait_mean": 0.1}})
            for result in cell_results(configurations=12)[: 4 * count]
        ]
        tracker = MlflowTracker(store_uri)
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
        assert "ranking-wait_mean.csv" in note
