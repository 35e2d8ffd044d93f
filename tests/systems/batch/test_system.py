"""The batch system: what its parameters do to the workload and the schedule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from gridtune.batch.metrics import evaluate
from gridtune.batch.metrics.classes import default_classes
from gridtune.batch.replay import simulate
from gridtune.core.cells import replicate_streams
from gridtune.core.user_code.checksums import code_of
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import GridtuneError, SimulationError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.batch.parameters import BatchParameters, Selection
from gridtune.systems.batch.system import BatchSystem
from gridtune.workload import Workload, clean, read_workload

JOBS = """\
; MaxProcs: 8
1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 1 -1 -1
2 10 -1 50 8 -1 -1 8 60 -1 1 2 1 -1 1 1 -1 -1
3 20 -1 30 2 -1 -1 2 40 -1 1 1 2 -1 1 2 -1 -1
4 20 -1 -1 2 -1 -1 2 40 -1 5 2 2 -1 1 2 -1 -1
5 40 -1 500 1 -1 -1 1 300 -1 1 3 2 -1 1 2 -1 -1
6 90 -1 10 4 -1 -1 4 20 -1 1 1 2 -1 1 1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "small.swf"
    path.write_text(JOBS)
    return str(path)


def run(log: str, *, seed: int = 0, **parameters: Any) -> Any:
    return run_cell("batch", {"trace": log, **parameters}, seed=seed, tables=True).outcome


def starts(outcome: Any) -> list[int]:
    return outcome.tables["schedule"]["start_time"].to_pylist()


def jobs(outcome: Any) -> list[int]:
    return outcome.tables["schedule"]["job_id"].to_pylist()


def test_it_is_what_simulate_and_evaluate_give(log: str) -> None:
    outcome = run(log, order="sjf", backfill="none")
    cleaned, _ = clean(read_workload(log))
    schedule = simulate(cleaned, order="sjf", backfill="none")
    assert starts(outcome) == schedule.start_time.tolist()
    classes = default_classes(read_workload(log))
    assert dict(outcome.metrics) == pytest.approx(evaluate(schedule, classes=classes), nan_ok=True)
    assert outcome.notes["jobs"] == 5
    assert outcome.notes["cleaning"]["drop_never_started"] == 1
    json.dumps(outcome.notes)


def test_tables_are_made_only_when_asked_for(log: str) -> None:
    assert run_cell("batch", {"trace": log}).outcome.tables == {}


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"partition": 2, "processors": 8}, [3, 5]),
        ({"user": 1}, [1, 3, 6]),
        ({"group": 1}, [1, 2]),
        ({"first": 2}, [1, 2]),
        ({"window": "2/2"}, [3, 5, 6]),
        ({"window": "1/2"}, [1, 2]),
        ({"user": 1, "window": "2/3"}, [3]),
    ],
)
def test_selections(log: str, selection: dict[str, Any], expected: list[int]) -> None:
    assert jobs(run(log, **selection)) == expected


def test_a_selection_that_leaves_nothing_is_an_error(log: str) -> None:
    with pytest.raises(GridtuneError):
        run(log, user=99)


def test_load_and_run_scale(log: str) -> None:
    outcome = run(log, load=2, run_scale=3, kill=False)
    table = outcome.tables["schedule"]
    assert table["submit_time"].to_pylist() == [0, 5, 10, 20, 45]
    durations = np.array(table["end_time"]) - np.array(table["start_time"])
    assert durations.tolist() == [300, 150, 90, 1500, 30]


def test_kill(log: str) -> None:
    assert run(log).metrics["killed_jobs"] == 1
    assert run(log, kill=False).metrics["killed_jobs"] == 0


def test_processors_of_ones_own(log: str) -> None:
    assert run(log, processors=100).metrics["wait_mean"] == 0
    with pytest.raises(SimulationError, match="wider"):
        run(log, processors=4)
    assert jobs(run(log, processors=4, clean="default,drop_wider")) == [1, 3, 5, 6]


def test_lenient_rules_reach_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "odd.swf"
    path.write_text(JOBS.replace("\n3 20 -1 30 2 -1 -1 2", "\n3 20 -1 30 0 -1 -1 0"))
    with pytest.raises(GridtuneError, match="drop_zero_processors"):
        run(str(path))
    assert jobs(run(str(path), clean="default,drop_zero_processors")) == [1, 2, 5, 6]


def test_no_cleaning(log: str) -> None:
    with pytest.raises(SimulationError, match="run time"):
        run(log, clean="none")


@pytest.mark.parametrize("changes", [{"shake": 30}, {"copy_probability": 0.5, "copy_shift": 7}])
def test_random_changes_belong_to_the_seed(log: str, changes: dict[str, Any]) -> None:
    drawn = [
        tuple(run(log, seed=seed, **changes).tables["schedule"]["submit_time"].to_pylist())
        for seed in range(6)
    ]
    assert drawn[0] == tuple(run(log, seed=0, **changes).tables["schedule"]["submit_time"].to_pylist())
    assert len(set(drawn)) > 1


def test_configurations_of_a_seed_meet_the_same_noise(log: str) -> None:
    tables = [
        run(log, seed=4, walltime="noise", noise=1, kill=False, order=order).tables["schedule"]
        for order in ("fcfs", "sjf", "random")
    ]
    walltimes = [table["walltime"].to_pylist() for table in tables]
    assert walltimes[0] == walltimes[1] == walltimes[2]
    other = run(log, seed=5, walltime="noise", noise=1, kill=False).tables["schedule"]
    assert other["walltime"].to_pylist() != walltimes[0]


def test_warm_up_and_cool_down(log: str) -> None:
    assert run(log, warmup=0.2, cooldown=0.4).metrics["jobs"] == 2


def test_switches_reach_the_simulation() -> None:
    settings = {"trace": "quickstart", "first": 2000}
    plain, switched = (
        run_cell("batch", {**settings, **more}).outcome.metrics["wait_mean"]
        for more in ({}, {"extra": False, "frozen": True})
    )
    assert plain != switched


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"order": "sjff"}, "did you mean 'sjf'"),
        ({"order": "fcfs(x=1)"}, "no parameter 'x'"),
        ({"backfill": "esy"}, "did you mean 'easy'"),
        ({"backfill": "conservative", "extra": True}, "'extra' means nothing"),
        ({"backfill": "none", "fill_order": "sjf"}, "goes with EASY"),
        ({"window": "0/3"}, "1 ≤ i ≤ n"),
        ({"window": "three"}, "i/n"),
        ({"noise": 0.5}, "no effect"),
        ({"copy_shift": 5}, "no effect"),
        ({"order": "sjf", "half_life": 5.0}, "half_life has no effect with order=sjf, which counts no use"),
        ({"warmup": 0.6, "cooldown": 0.6}, "leave out every job"),
        ({"load": 0}, "greater than 0"),
        ({"warmup": 1}, "less than 1"),
        ({"processors": 0}, "greater than 0"),
        ({"walltime": "guess"}, "'log', 'exact', 'noise' or 'predicted'"),
        ({"kill": "maybe"}, "must be auto, true or false, but got 'maybe'"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_what_is_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        BatchParameters.model_validate({"trace": "x", **parameters})


def test_blanks_around_an_order_make_no_other_cell() -> None:
    for order in ("sjf", "wfp3(exponent=2)", "wait / walltime", "rollout(moves=5)"):
        one, other = (
            BatchParameters.model_validate({"trace": "x", "order": o}) for o in (order, f" {order} ")
        )
        assert one == other


def test_windows_of_a_continuous_replay_share_one_schedule(log: str) -> None:
    system, loaded = BatchSystem(), read_workload(log)
    whole = run(log, order="sjf")
    parts = []
    for window in ("1/2", "2/2"):
        parameters = BatchParameters(trace=log, order="sjf", window=window, window_mode="continuous")
        streams = replicate_streams(0, {})
        parts.append(system.run(parameters, streams=streams, load=lambda reference: loaded, tables=True))
    assert parts[0].schedule is parts[1].schedule
    assert starts(parts[0]) == starts(whole)
    counts = [part.metrics["jobs"] for part in parts]
    waits = [part.metrics["wait_mean"] for part in parts]
    assert counts == [2, 3]
    assert np.average(waits, weights=counts) == pytest.approx(whole.metrics["wait_mean"])
    # A window that is replayed by itself begins on an empty machine.
    assert run(log, order="sjf", window="2/2").metrics["wait_mean"] < waits[1]


def test_windows_of_a_random_replay_have_their_own_numbers(log: str) -> None:
    options = {"order": "random", "window": "2/2", "window_mode": "continuous"}
    assert len({tuple(starts(run(log, seed=seed, **options))) for seed in range(8)}) > 1
    assert BatchParameters(trace=log, **options).draws_numbers
    assert not BatchParameters(trace=log, order="wfp3", fill_order="walltime * wait").draws_numbers


def test_a_guard_reaches_the_simulation(log: str) -> None:
    assert starts(run(log, order="narrowest", guard=0)) == starts(run(log))
    assert starts(run(log, order="narrowest")) != starts(run(log))


def test_selected_workloads_are_kept_between_cells(log: str) -> None:
    system, loaded = BatchSystem(), read_workload(log)
    parameters = BatchParameters(trace=log, window="1/2")
    one = system._selected(parameters, lambda reference: loaded)
    assert system._selected(parameters, lambda reference: loaded) is one
    for first in range(1, 5):
        for user in (1, None):
            system._selected(BatchParameters(trace=log, first=first, user=user), lambda reference: loaded)
    assert len(system._selections) <= 8
    assert system._selected(parameters, lambda reference: loaded) is not one


def test_what_selects_jobs_is_the_key_of_selections() -> None:
    values = {
        **{"trace": "other", "clean": "none", "first": 5, "processors": 4, "partition": 1, "user": 2},
        **{"group": 3, "part": "1/2", "window": "2/3", "window_mode": "continuous"},
    }
    plain = BatchParameters(trace="log")
    # A new parameter that selects jobs needs an entry here, and is in the key by itself.
    assert values.keys() == Selection.model_fields.keys()
    for name, value in values.items():
        assert BatchParameters(**{"trace": "log", name: value}).selection != plain.selection
    others = {"order": "sjf", "load": 1.2, "shake": 60, "power": "timeout", "warmup": 0.1}
    assert BatchParameters(trace="log", **others).selection == plain.selection
    # Nothing else can select jobs: what selects them has no other parameter.
    assert vars(plain.selection).keys() == Selection.model_fields.keys()


def test_a_users_order_is_part_of_the_identity(tmp_path: Path) -> None:
    plugin = tmp_path / "batch_test_order.py"
    plugin.write_text(
        'from gridtune.batch.policies import queue_order\n@queue_order("batch-test-own")\n'
        'def score(job):\n    """Test."""\n    return -job.walltime\n'
    )
    load_plugins([plugin])
    system = BatchSystem()
    assert code_of(system, BatchParameters(trace="x", order="fcfs")) == {}
    ordered, filled = (
        code_of(system, BatchParameters(trace="x", **{parameter: "batch-test-own"}))
        for parameter in ("order", "fill_order")
    )
    assert ordered == filled
    assert list(ordered) == ["queue order batch-test-own"]


def test_streams_are_asked_for_by_purpose(log: str) -> None:
    purposes: list[str] = []
    streams = replicate_streams(0, {"x": "y"})

    def recorded(purpose: str) -> np.random.Generator:
        purposes.append(purpose)
        return streams(purpose)

    loaded = read_workload(log)

    def load(reference: str) -> Workload:
        assert reference == log
        return loaded

    parameters = BatchParameters(trace=log, shake=5, copy_probability=0.5, copy_shift=1)
    BatchSystem().run(parameters, streams=recorded, load=load, tables=False)
    assert sorted(purposes) == ["copies", "shaking", "simulation"]


def test_a_partition_from_the_command_line_is_a_number() -> None:
    assert BatchParameters(trace="log.swf", partition="12").partition == 12
    assert BatchParameters(trace="log.swf", partition="rl.ac.uk").partition == "rl.ac.uk"


def test_an_order_that_fails_on_other_jobs_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("job,submit,duration,cpus,limit\n71,0,90,1,100\n72,5,90,1,100\n")
    cell = {"trace": str(tmp_path / "log.csv"), "processors": 1}
    # Kernels are compiled on three short jobs, for which this order has no score.
    run_cell("batch", {**cell, "order": "log(walltime - 60)"}, seed=0)
    with pytest.raises(GridtuneError, match="for job 71"):
        run_cell("batch", {**cell, "order": "1 / (walltime - 100)"}, seed=0)
