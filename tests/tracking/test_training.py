"""A training that is tracked while it goes on, and its checkpoint that comes back from the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtune.errors import TrackingError
from gridtune.tracking.checkpoints import _run_file
from gridtune.tracking.store import connect
from gridtune.tracking.training import TrainingTracker

pytestmark = pytest.mark.integration


def tracker(folder: Path, uri: str) -> TrainingTracker:
    return TrainingTracker("training", "first", folder, parameters={"seed": 1}, uri=uri, patience=60)


def test_points_and_checkpoints_are_there_while_it_trains(store_uri: str, tmp_path: Path) -> None:
    folder = tmp_path / "training"
    run = tracker(folder, store_uri)
    (folder / "best.pt").write_text("weights")
    run.log(10, {"return_mean": -3, "lr": float("nan"), "name": "x"})
    run.checkpoint(folder / "best.pt")
    assert run._outbox.drain(120)
    client = connect(store_uri)
    (experiment,) = (found for found in client.search_experiments() if found.name == "training")
    (stored,) = client.search_runs([experiment.experiment_id])
    assert stored.info.status == "RUNNING"
    assert stored.data.metrics == {"return_mean": -3}
    assert stored.data.params == {"seed": "1"}
    outcome = run.close()
    assert not outcome.unsent
    assert client.get_run(outcome.run_id).info.status == "FINISHED"
    assert _run_file(outcome.checkpoint("best.pt"), store_uri).read_text() == "weights"


@pytest.mark.slow
def test_a_training_that_continues_goes_on_in_its_run(store_uri: str, tmp_path: Path) -> None:
    with tracker(tmp_path, store_uri) as run:
        run.log(1, {"loss": 3.0})
    again = tracker(tmp_path, store_uri)
    # What the folder has of before is given again.
    again.log(1, {"loss": 3.0})
    again.log(2, {"loss": 2.0})
    outcome = again.close("KILLED")
    client = connect(store_uri)
    history = client.get_metric_history(outcome.run_id, "loss")
    assert [(point.step, point.value) for point in history] == [(1, 3.0), (2, 2.0)]
    assert client.get_run(outcome.run_id).info.status == "KILLED"
    other = tracker(tmp_path / "other", store_uri).close()
    assert other.run_id != outcome.run_id


def test_what_is_not_there_is_named(store_uri: str) -> None:
    run_id = "0" * 32
    for uri, message in (
        ("runs:/short/best.pt", "names no file of a run"),
        (f"runs:/{run_id}/checkpoints/best.pt", f"has no run {run_id}"),
    ):
        with pytest.raises(TrackingError, match=message):
            _run_file(uri, store_uri)
