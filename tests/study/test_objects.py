"""Search spaces made in Python: workloads and functions as values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gridtune as gt
from gridtune.batch.policies import JobView
from gridtune.errors import GridtuneError, SpaceError, SweepError

LOG = Path(__file__).parents[2] / "traces" / "quickstart.swf.gz"


@pytest.fixture
def log() -> gt.Workload:
    return gt.read_workload(LOG).first(300)


def narrow_first_of_test(job: JobView) -> float:
    """Few processors first."""
    return float(job.processors)


def space(log: gt.Workload, **changes: Any) -> dict[str, Any]:
    space = {
        "name": "objects",
        "fixed": {"trace": log},
        "dimensions": {"order": ["fcfs", narrow_first_of_test]},
        "replicates": {"windows": 3},
        "objective": "wait_mean",
        "baseline": {"order": "fcfs"},
    }
    return {**space, **changes}


def run(space: dict[str, Any], folder: Path, **options: Any) -> gt.Study:
    return gt.run_sweep(space, directory=folder, tracking=False, output="quiet", **options)


def test_a_workload_and_a_function_are_swept(log: gt.Workload, tmp_path: Path) -> None:
    study = run(space(log), tmp_path / "out", executor="inline")
    assert study.complete
    frame = study.to_pandas()
    assert sorted(set(frame["param.order"])) == ["fcfs", "narrow_first_of_test"]
    window = log.windows(3)[0]
    for order in ("fcfs", narrow_first_of_test):
        name = order if isinstance(order, str) else order.__name__
        row = frame[(frame["param.order"] == name) & (frame["replicate"] == "window 1/3")].iloc[0]
        expected = gt.evaluate(gt.simulate(window, order=order))["wait_mean"]
        assert row["metric.wait_mean"] == pytest.approx(expected)
    # The same log from its file is the same sweep: nothing is run again, and the report needs no object.
    again = run(space(log), tmp_path / "out", executor="inline")
    assert again.sweep is not None
    assert again.sweep.ran == 0
    assert len(gt.report_study(tmp_path / "out").results) == 6


def test_an_object_and_a_file_of_the_same_log_are_the_same_cells(log: gt.Workload, tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    gt.write_workload(log, path)
    changes = {"dimensions": {"order": ["fcfs", "sjf"]}}
    objects = space(log, fixed={}, workloads=[{"trace": log}], **changes)
    from_object = run(objects, tmp_path / "one", executor="inline")
    from_file = run(space(log, fixed={"trace": str(path)}, **changes), tmp_path / "two", executor="inline")
    columns = ["cell_id", "metric.wait_mean"]
    values = [study.to_pandas()[columns].values.tolist() for study in (from_object, from_file)]
    assert values[0] == values[1]


@pytest.mark.integration
@pytest.mark.slow
def test_a_function_travels_to_workers(log: gt.Workload, tmp_path: Path, cluster: None) -> None:
    on_ray = run(space(log), tmp_path / "ray", executor="ray").to_pandas()
    inline = run(space(log), tmp_path / "inline", executor="inline").to_pandas()
    columns = ["cell_id", "metric.wait_mean"]
    assert on_ray[columns].values.tolist() == inline[columns].values.tolist()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dimensions": {"order": ["fcfs", lambda job: job.wait]}}, "has no name"),
        ({"dimensions": {"load": [1.0, narrow_first_of_test]}}, "'load' takes no function"),
        ({"objective": "wait_maen"}, "did you mean 'wait_mean'"),
    ],
)
def test_what_is_refused_leaves_nothing(
    changes: dict[str, Any], words: str, log: gt.Workload, tmp_path: Path
) -> None:
    with pytest.raises(GridtuneError, match=words):
        run(space(log, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_system_without_functions_says_so(log: gt.Workload, tmp_path: Path) -> None:
    with pytest.raises((SweepError, SpaceError), match="'policy' takes no function"):
        run(
            space(log, system="responsive", dimensions={"policy": [narrow_first_of_test]}, baseline={}),
            tmp_path / "out",
        )
