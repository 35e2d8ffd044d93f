"""Where workers fit on the nodes of a cluster, and how their number follows it."""

from __future__ import annotations

import pytest

from gridtune.core.system import CellResources
from gridtune.errors import SweepError
from gridtune.sweep import plan_space
from gridtune.sweep.execution import placement, runner
from gridtune.sweep.execution.placement import Crew, check_room_for, room_for
from tests.sweep.spaces import toy_space

GIB = 2.0**30


@pytest.mark.parametrize(
    ("nodes", "needs", "room"),
    [
        ([{"CPU": 16, "GPU": 1}], CellResources(1.0, 0.25), 4),
        # No worker spans two nodes: four nodes of one processor have no room for one of two.
        ([{"CPU": 1}] * 4, CellResources(2.0), 0),
        ([{"CPU": 3}, {"CPU": 5}, {"CPU": 1}], CellResources(2.0), 3),
        # Heterogeneous: GPUs are on one node, processors on the other.
        ([{"CPU": 64}, {"CPU": 4, "GPU": 2}], CellResources(1.0, 1.0), 2),
        (
            [{"CPU": 8, "memory": 5 * GIB}, {"CPU": 8, "memory": 64 * GIB}],
            CellResources(1.0, memory=2 * GIB),
            10,
        ),
        # A learner's runners may be on another node.
        ([{"CPU": 2}, {"CPU": 4}], CellResources(helpers=2), 2),
        ([{"CPU": 1, "GPU": 1}, {"CPU": 5}], CellResources(gpus=1.0, helpers=5), 1),
        ([{"CPU": 2}], CellResources(helpers=2), 0),
        ([], CellResources(), 0),
    ],
)
def test_workers_fit_by_node(nodes: list[dict[str, float]], needs: CellResources, room: int) -> None:
    assert room_for(nodes, needs) == room


@pytest.mark.parametrize(
    ("nodes", "needs", "message"),
    [
        ([{"CPU": 16}], CellResources(20.0), "no room for a worker of 20 processors: it has 16"),
        ([{"CPU": 16}], CellResources(1.0, 1.0), "no room for a worker of 1 GPUs: it has 0"),
        ([{"CPU": 1}] * 4, CellResources(2.0), "2 processors: its largest node has 1"),
        ([{"CPU": 1, "memory": 2 * GIB}], CellResources(memory=3 * GIB), "3 GiB: it has 2"),
        ([{"CPU": 2}], CellResources(helpers=2), "1 processors and 2 helpers of one processor each"),
        ([{"CPU": 8}, {"CPU": 1, "GPU": 2}], CellResources(4.0, 1.0), "4 processors with 1 GPUs"),
    ],
)
def test_a_worker_that_fits_nowhere_is_refused(
    nodes: list[dict[str, float]], needs: CellResources, message: str
) -> None:
    with pytest.raises(SweepError, match=message):
        check_room_for(nodes, needs)


def test_a_crew_follows_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_LOOK_SECONDS", 0.0)
    sizes = iter([(2, 2), (6, 6), (0, 0), (3, 9)])
    crew = Crew(2, 2, look=lambda: next(sizes))
    assert not crew.follow()
    assert crew.trials(crew.workers) == 4
    assert crew.follow()
    assert (crew.workers, crew.trials(crew.workers)) == (6, 12)
    # All nodes are gone: they are waited for.
    assert crew.follow()
    assert (crew.workers, crew.most) == (1, 6)
    assert crew.follow()
    assert crew.trials(crew.workers) == 3
    assert not Crew(2, 2).follow()


def needs_of(**changes: object) -> CellResources:
    return plan_space({**toy_space(), **changes}).needs


def test_the_system_says_what_a_cell_needs_and_the_space_what_it_gets() -> None:
    assert needs_of() == CellResources()
    given = needs_of(resources={"cpus": 0.5, "gpus": 0.25, "memory": 1.5})
    assert given == CellResources(0.5, 0.25, 1.5 * GIB)
    assert given.bundles == [{"CPU": 0.5, "GPU": 0.25, "memory": 1.5 * GIB}]


def test_a_trainings_runners_are_in_its_placement_group() -> None:
    pytest.importorskip("torch")
    space = {"system": "shutdown/ppo", "plugins": [], "objective": "energy_waste_per_day"}
    space |= {"fixed": {"trace": "taurus_days"}, "dimensions": {"runners": [0, 2]}, "baseline": None}
    needs = needs_of(**{key: value for key, value in space.items() if value is not None})
    assert needs.bundles == [{"CPU": 1.0}] * 3


def test_a_single_cell_has_processors_for_its_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    class AskedError(Exception):
        """Ray was asked for."""

    def session(address: str | None, *, workers: int, cpus: float, gpus: float) -> None:
        raise AskedError((address, workers, cpus, gpus))

    monkeypatch.setattr(runner, "ray_session", session)
    with pytest.raises(AskedError) as asked:
        runner.run_cell("shutdown/ppo", {"trace": "taurus_days", "runners": 2})
    assert asked.value.args[0] == (None, 1, 3.0, 0.0)
