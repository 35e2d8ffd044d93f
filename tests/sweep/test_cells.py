"""Cells: ids by content, and random numbers that belong to the replicate."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from gridtune.core.cells import CellResult, canonical_json, content_id, finite_json, replicate_streams
from gridtune.errors import SpaceError, SweepError
from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.run import space_cells
from gridtune.sweep.space.schema import Replicates
from tests.sweep.spaces import toy_space

GOLDEN = ["b4b26485f44f7c66d11b", "30f021f16380f17a3e74"]
TRACES = {"log": "ab" * 32}
BATCH = {
    "name": "ids",
    "fixed": {"trace": "quickstart"},
    "dimensions": {"order": ["fcfs", "sjf"], "load": [1, 1.2]},
    "replicates": {"windows": 2},
    "objective": "wait_mean",
}


def ids(**changes: object) -> list[str]:
    return [cell.cell_id for cell in space_cells({**BATCH, **changes})]


def test_every_cell_has_an_id_of_its_own_and_keeps_it() -> None:
    assert len(set(ids())) == 8
    assert ids() == ids()


def test_ids_are_the_same_in_another_process() -> None:
    code = f"from gridtune.sweep.run import space_cells\nprint(*[c.cell_id for c in space_cells({BATCH!r})])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.split() == ids()


def test_order_of_writing_and_stated_defaults_rename_nothing() -> None:
    turned = {"load": [1.2, 1.0], "order": ["sjf", "fcfs"]}
    assert sorted(ids(dimensions=turned)) == sorted(ids())
    assert ids(fixed={"kill": True, "trace": "quickstart"}) == ids()


@pytest.mark.parametrize(
    "changes",
    [
        {"fixed": {"trace": "mm4"}},
        {"fixed": {"trace": "quickstart", "kill": False}},
        {"dimensions": {"order": ["saf", "ljf"], "load": [1, 1.2]}},
        {"replicates": {"windows": 3}},
        {"replicates": {"seeds": 2}},
    ],
)
def test_what_changes_the_result_changes_the_id(changes: dict[str, object]) -> None:
    assert not set(ids(**changes)) & set(ids())


def test_a_trace_is_known_by_its_content_not_its_name(tmp_path: Path, repository: Path) -> None:
    copy = tmp_path / "renamed.swf.gz"
    copy.write_bytes((repository / "traces" / "quickstart.swf.gz").read_bytes())
    assert ids(fixed={"trace": str(copy)}) == ids()


ORDER = """
from gridtune.batch.policies import queue_order

@queue_order("own-order")
def score(job):
    '''Test.'''
    return job.walltime * {factor}
"""


def test_a_users_policy_is_known_by_its_source(tmp_path: Path) -> None:
    """Wherever the file is; an edit is tested in `test_user_code`."""

    def ids_in(name: str) -> list[str]:
        plugin = tmp_path / name
        plugin.write_text(ORDER.format(factor=1))
        space = {
            "name": "own",
            "fixed": {"trace": "quickstart"},
            "dimensions": {"order": ["fcfs", "own-order"]},
            "objective": "wait_mean",
            "plugins": [str(plugin)],
        }
        code = (
            f"from gridtune.sweep.run import space_cells\nprint(*[c.cell_id for c in space_cells({space!r})])"
        )
        output = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        return output.split()

    as_it_was, moved = ids_in("a.py"), ids_in("b.py")
    assert moved == as_it_was
    assert len(set(as_it_was)) == 2


def test_ids_stay_what_they_are() -> None:
    # Journals of users hold these: an id that changes without need runs their cells again. The toy has
    # parameters at their defaults, which no id may depend on.
    cells = space_cells(toy_space(dimensions={"x": [1.5]}))
    identities = [json.loads(cell.identity) for cell in cells]
    assert [content_id(identity) for identity in identities] == [cell.cell_id for cell in cells]
    # The toy is users' code, which may be edited.
    assert all(list(identity["code"]) == ["system toy"] for identity in identities)
    assert [content_id({**identity, "code": {}}) for identity in identities] == GOLDEN


def test_configurations_share_an_id_over_replicates() -> None:
    cells = space_cells(BATCH)
    assert len({cell.configuration_id for cell in cells}) == 4
    assert all("window" not in cell.configuration for cell in cells)
    assert {cell.parameters["window"] for cell in cells} == {"1/2", "2/2"}


def test_a_cell_is_run_again_by_its_parameters_and_seed() -> None:
    cell = space_cells(BATCH)[3]
    run = run_cell("batch", cell.parameters, seed=cell.seed)
    assert run.cell.cell_id == cell.cell_id


def test_configurations_of_a_replicate_meet_the_same_numbers() -> None:
    one, other = (replicate_streams(3, TRACES)("noise").random(5) for _ in range(2))
    assert np.array_equal(one, other)


def test_streams_differ_by_replicate_trace_and_purpose() -> None:
    drawn = [
        replicate_streams(3, TRACES)("noise"),
        replicate_streams(4, TRACES)("noise"),
        replicate_streams(3, {"log": "cd" * 32})("noise"),
        replicate_streams(3, TRACES)("lots"),
    ]
    numbers = np.array([stream.random(2000) for stream in drawn])
    correlations = np.corrcoef(numbers)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 0.1


def test_replicate_kinds_label_and_seed_themselves() -> None:
    windows = [Replicates(windows=3).replicate(number) for number in range(3)]
    assert [(replicate.label, replicate.seed) for replicate in windows] == [
        ("window 1/3", 0),
        ("window 2/3", 1),
        ("window 3/3", 2),
    ]
    shakes = [Replicates(shakes=2, amount=60).replicate(number) for number in range(2)]
    assert [replicate.parameters for replicate in shakes] == [{"shake": 60}] * 2
    assert len({replicate.seed for replicate in shakes}) == 2


def test_windows_are_written_into_the_parameter_that_the_system_names() -> None:
    cells = space_cells(toy_space(dimensions={"x": [1]}, replicates={"windows": 2}))
    assert [cell.parameters["part"] for cell in cells] == ["1/2", "2/2"]
    assert [cell.replicate.label for cell in cells] == ["window 1/2", "window 2/2"]
    with pytest.raises(SpaceError, match="`windows` sets this parameter already"):
        space_cells(toy_space(dimensions={"part": ["1/2"]}, replicates={"windows": 2}))


def test_workloads_cross_everything_and_split_it() -> None:
    cells = space_cells(toy_space(workloads=({"rate": 1.0, "label": "slow"}, {"rate": 2.0, "label": "fast"})))
    assert [cell.workload for cell in cells] == ["slow"] * 16 + ["fast"] * 16
    assert len({cell.configuration_id for cell in cells}) == 16


def test_the_baseline_is_among_samples() -> None:
    space = toy_space(
        dimensions={"x": {"uniform": [0, 6]}, "word": {"choice": ["a", "b"]}},
        strategy={"random": {"samples": 3, "seed": 0}},
        baseline={"x": 1.5, "word": "a"},
    )
    first, *rest = space_cells(space)
    assert first.configuration == {"x": 1.5, "word": "a"}
    assert len(rest) == 2 * 4 - 1


def test_a_baseline_that_is_drawn_is_not_added() -> None:
    space = toy_space(
        dimensions={"word": {"choice": ["a", "b"]}},
        strategy={"random": {"samples": 20, "seed": 0}},
        baseline={"word": "b"},
    )
    assert len(space_cells(space)) == len(space_cells(space | {"baseline": {}})) == 2 * 2


def test_a_baseline_may_repeat_what_is_fixed_and_not_contradict_it() -> None:
    space = toy_space(dimensions={"x": [1, 2]}, fixed={"word": "a"}, baseline={"x": 1, "word": "a"})
    assert len(space_cells(space)) == 2 * 2
    with pytest.raises(SpaceError, match="every cell has word='a'") as refused:
        space_cells(space | {"baseline": {"x": 1, "word": "b"}})
    assert refused.value.field == "baseline.word"


def test_canonical_json_is_one_text_for_one_value() -> None:
    assert canonical_json({"b": (1, np.int64(2)), "a": float("nan")}) == '{"a":null,"b":[1,2]}'
    assert finite_json([math.inf, -math.inf]) == ["Infinity", "-Infinity"]


def test_results_survive_their_record_and_the_wire() -> None:
    cell = space_cells(toy_space())[0]
    metrics = {"loss": 0.1 + 0.2, "size": math.nan, "gain": math.inf}
    result = CellResult.of(cell, "done", metrics=metrics, notes={"n": 1}, seconds=0.25, worker="here:1")
    record = finite_json(asdict(result))
    again = CellResult.from_record(json.loads(json.dumps(record, allow_nan=False)))
    assert math.isnan(again.metrics["size"])
    assert {**again.metrics, "size": 0} == {**metrics, "size": 0}
    for copy in (again, pickle.loads(pickle.dumps(result))):
        assert finite_json(asdict(copy)) == record


def test_a_refused_parameter_is_named() -> None:
    with pytest.raises(SweepError, match="noise: "):
        run_cell("batch", {"trace": "quickstart", "noise": "loud"})
