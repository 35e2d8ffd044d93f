"""What a workflow may be, and what it tells of itself."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import WorkloadError
from gridtune.workload.workflows import Workflow, cybershake_workflow, generate_workflow
from tests.conftest import examples


def diamond(**changes):
    """Return a → b, c → d."""
    columns = {
        "names": ("a", "b", "c", "d"),
        "run_time": np.array([1.0, 2.0, 5.0, 1.5]),
        "processors": np.array([1, 2, 3, 4]),
        "parent": np.array([2, 0, 0, 1]),
        "child": np.array([3, 2, 1, 3]),
        "volume": np.array([10.0, 20.0, 30.0, 40.0]),
    }
    return Workflow(**{**columns, **changes})


def test_what_it_tells():
    workflow = diamond()
    assert workflow.level.tolist() == [0, 1, 1, 2]
    assert workflow.level.max() + 1 == 3
    assert workflow.order.tolist() == [0, 1, 2, 3]
    assert workflow.work == 1 * 1 + 2 * 2 + 5 * 3 + 1.5 * 4
    assert workflow.critical_path == 7.5
    assert workflow.widest == 4
    offsets, task, volume = workflow.children
    assert (offsets.tolist(), task.tolist(), volume.tolist()) == (
        [0, 2, 3, 4, 4],
        [1, 2, 3, 3],
        [30, 20, 40, 10],
    )
    offsets, task, volume = workflow.parents
    assert (offsets.tolist(), task.tolist(), volume.tolist()) == (
        [0, 0, 1, 2, 4],
        [0, 0, 1, 2],
        [30, 20, 40, 10],
    )


def test_run_times_may_differ_by_site():
    workflow = diamond(run_time=np.array([[1, 3], [2, 2], [5, 1], [1, 2.0]]))
    assert workflow.critical_path == 4
    assert workflow.work == 1 + 4 + 3 + 4


def test_it_is_immutable_and_travels():
    workflow = diamond(name="diamond", cleaning={"zero_negative_times": 2})
    with pytest.raises(ValueError, match="read-only"):
        workflow.run_time[0] = 3
    other = pickle.loads(pickle.dumps(workflow))
    assert other.checksum == workflow.checksum
    assert (other.name, other.cleaning) == ("diamond", {"zero_negative_times": 2})
    assert diamond(volume=np.zeros(4)).checksum != workflow.checksum


def test_whole_seconds_round_up():
    assert diamond(run_time=np.array([0.2, 2.0, 4.01, 0])).in_whole_seconds().run_time.tolist() == [
        1,
        2,
        5,
        0,
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ("a", "b", "b", "d")}, "two tasks are named 'b'"),
        ({"run_time": np.array([1, 2, -3, 1.0])}, r"task 'c' runs for -3.0 s"),
        ({"run_time": np.array([1, np.nan, 3, 1.0])}, r"task 'b' runs for nan s"),
        ({"run_time": np.array([[1, 1], [1, -2], [1, 1], [1, 1.0]])}, r"task 'b' runs for"),
        ({"run_time": np.ones(3)}, "4 tasks, but 3 run_time"),
        ({"processors": np.array([1, 1, 1, 0])}, "task 'd' needs 0 processors"),
        ({"processors": np.array([1, 1.5, 1, 1])}, "processors must be one row of whole numbers"),
        ({"parent": np.array([2, 0, 0, 7])}, "edge 4 names task 7 of 4"),
        ({"volume": np.array([1, -1, 1, 1.0])}, "the edge from 'a' to 'c' carries -1.0 bytes"),
        ({"child": np.array([3, 1, 1, 3])}, "the edge from 'a' to 'b' is listed twice"),
        ({"child": np.array([3, 2, 1, 1])}, "tasks wait for each other: 'b' → 'b'"),
        ({"child": np.array([0, 2, 1, 3])}, "tasks wait for each other: 'a' → 'c' → 'a'"),
        ({"names": (), "run_time": np.ones(0), "processors": np.ones(0, int)}, "without tasks"),
    ],
)
def test_what_it_may_not_be(changes, message):
    with pytest.raises(WorkloadError, match=message):
        diamond(**changes)


def test_a_task_wider_than_every_site_is_named():
    diamond().check_fits([2, 4])
    with pytest.raises(WorkloadError, match=r"task 'd' needs 4 processors, and the largest site has 3"):
        diamond().check_fits([2, 3])


@given(
    st.integers(2, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40), st.data()
)
@examples(200)
def test_levels_and_cycles(count, drawn, data):
    edges = {(a % count, b % count) for a, b in drawn if a % count != b % count}
    parent, child = (np.array([edge[i] for edge in sorted(edges)], dtype=np.int64) for i in (0, 1))
    names = tuple(f"t{i}" for i in range(count))
    # A walk of more steps than there are tasks must repeat one.
    reach = np.zeros((count, count), dtype=bool)
    reach[parent, child] = True
    closed = reach.copy()
    for _ in range(count):
        closed |= closed @ reach
    if closed.diagonal().any():
        with pytest.raises(WorkloadError, match="wait for each other") as caught:
            Workflow(names, np.ones(count), np.ones(count, int), parent, child)
        path = [int(part.strip("' ")[1:]) for part in caught.value.message.partition(": ")[2].split("→")]
        assert path[0] == path[-1]
        if len(path) < 8:  # longer ones are shortened
            assert all(reach[a, b] for a, b in pairwise(path))
        return
    workflow = Workflow(names, np.ones(count), np.ones(count, int), parent, child)
    for task in range(count):
        before = [workflow.level[p] for p, c in edges if c == task]
        assert workflow.level[task] == (max(before) + 1 if before else 0)
    place = np.argsort(workflow.order)
    assert all(place[p] < place[c] for p, c in edges)
    assert workflow.critical_path == workflow.level.max() + 1


def test_cybershake_is_the_papers_table():
    workflow = cybershake_workflow()
    assert len(workflow) == 8039
    assert np.bincount(workflow.level).tolist() == [1, 2, 2, 4017, 4017]
    table = {"fd_grid_xyz": (1, 1), "preSGT": (300, 1), "fd_grid_cvm": (2100, 288), "pmvl_chk1": (86400, 288)}
    table |= {"pmvl_chk2": (86400, 288), "synthSGT": (519, 1), "peakValCal": (1, 1)}
    kinds = [name if name in table else name.rpartition("_")[0] for name in workflow.names]
    rows = zip(kinds, workflow.run_time.tolist(), workflow.processors.tolist(), strict=True)
    assert all(table[kind] == (run, width) for kind, run, width in rows)
    assert workflow.critical_path == 1 + 2100 + 86400 + 519 + 1


@given(st.integers(1, 60), st.data())
@examples(60)
def test_generated_workflows_have_the_asked_shape(tasks, data):
    depth = data.draw(st.integers(1, tasks))
    widest = data.draw(st.integers(5, 50))
    workflow = generate_workflow(seed=3, tasks=tasks, depth=depth, processors=4, max_processors=widest)
    assert len(workflow) == tasks
    assert workflow.level.max() + 1 == depth
    assert workflow.widest <= widest
    # Every edge leads from one level to the next.
    assert (workflow.level[workflow.child] == workflow.level[workflow.parent] + 1).all()


def test_generated_means_are_those_asked_for():
    workflows = [
        generate_workflow(seed=s, run_time=1000, processors=22, fan_in=3, communication=0.5)
        for s in range(80)
    ]
    assert np.mean([w.run_time.mean() for w in workflows]) == pytest.approx(1000, rel=0.03)
    assert np.mean([w.processors.mean() for w in workflows]) == pytest.approx(22, rel=0.03)
    assert np.mean([w.volume.mean() for w in workflows]) / 1e8 == pytest.approx(500, rel=0.03)
    assert np.mean([len(w.parent) / (w.level > 0).sum() for w in workflows]) == pytest.approx(3, rel=0.05)


def test_equal_seeds_give_equal_workflows():
    assert generate_workflow(seed=5).checksum == generate_workflow(seed=5).checksum
    assert generate_workflow(seed=5).checksum != generate_workflow(seed=6).checksum


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tasks", 0),
        ("depth", 101),
        ("run_time", 0.5),
        ("processors", 500),
        ("fan_in", 0),
        ("communication", -1),
    ],
)
def test_parameters_out_of_range_are_named(name, value):
    with pytest.raises(WorkloadError) as caught:
        generate_workflow(**{name: value})
    assert caught.value.field == name
