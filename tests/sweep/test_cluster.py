"""What is expected of a cluster whose processors are all in use, and how a session with Ray ends."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from gridtune.core.system import CellResources
from gridtune.errors import SweepError
from gridtune.sweep.execution import cluster, runner
from gridtune.sweep.execution.cluster import Crew, free_ports, ray_session
from gridtune.sweep.space.plan import plan_space
from tests.sweep.spaces import toy_space


@pytest.mark.parametrize(
    ("workers", "cpus", "processors", "room"),
    [
        (0, 1.0, 16, 16),
        (0, 4.0, 16, 4),
        (0, 16.0, 16, 1),
        (0, 0.5, 16, 32),
        (5, 0.25, 2, 8),
        (3, 0.1, 1, 10),
        (10, 1.1, 11, 10),
        (20, 1.0, 20, 20),
        (2, 12.0, 24, 2),
    ],
)
def test_a_local_cluster_has_the_processors_there_are_or_those_its_workers_need(
    workers: int, cpus: float, processors: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray  # noqa: PLC0415

    asked: list[int] = []

    def refuse(*, num_cpus: int, **_: object) -> None:
        asked.append(num_cpus)
        raise RuntimeError("no Ray here")

    monkeypatch.setattr(cluster, "processors_here", lambda: 16)
    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(SweepError, match="no Ray here"), ray_session(None, workers=workers, cpus=cpus):
        pass
    assert asked == [processors]
    assert Crew(0, CellResources(cpus), lambda: [{"CPU": processors}]).room == room


def test_a_ray_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray  # noqa: PLC0415

    def fail(**_: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", fail)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(SweepError, match="cannot be started here: The current node timed out"):
        ray_session(None, workers=1, cpus=1).__enter__()


@pytest.mark.parametrize(
    ("seconds", "workers", "replaced"), [(0.0, 1, "40"), (9.0, 1, "45"), (30.0, 1, "150"), (9.0, 12, "135")]
)
def test_a_worker_that_does_not_register_is_replaced_soon_or_on_a_slow_machine_later(
    seconds: float, workers: int, replaced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, clock, read = "RAY_worker_register_timeout_seconds", itertools.count(0.0, seconds), list[str]()

    def fail(*_: object) -> None:
        read.append(os.environ[name])
        raise SweepError("enough")

    import ray  # noqa: PLC0415

    monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "processors_here", lambda: 4)
    monkeypatch.setattr(cluster, "_connect", fail)
    # The clock of the thread that imports Ray.
    time = SimpleNamespace(
        monotonic=lambda: next(clock) if threading.current_thread() is not threading.main_thread() else 0.0
    )
    monkeypatch.setattr(cluster, "time", time)
    with pytest.raises(SweepError, match="enough"):
        ray_session(None, workers=workers, cpus=1).__enter__()
    assert read == [replaced]
    assert name not in os.environ


def test_a_server_of_ray_client_that_never_starts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray  # noqa: PLC0415

    over = threading.Event()
    monkeypatch.setattr(ray, "init", lambda **_: over.wait())
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "_check_listening", lambda address: None)
    monkeypatch.setattr(cluster, "_CLIENT_SECONDS", 0.1)
    session = cluster.RaySession("ray://head:10001", workers=1, needs=CellResources())
    with pytest.raises(SweepError, match="Ray Client at ray://head:10001 has no server") as refusal:
        session.wait()
    assert "GRPC_ENABLE_FORK_SUPPORT=0" in str(refusal.value.hint)
    session.end()
    # The thread ends with an error of its own: what it connected to is no cluster.
    monkeypatch.setattr(ray, "nodes", lambda: [])
    monkeypatch.setattr(cluster, "_disconnect", lambda: None)
    over.set()
    session._thread.join()


#: While Ray ends, another thread makes cycles that hold references to objects, and lets them go at once.
_COLLECTING_THREAD = """
import gc
import threading

import ray

from gridtune.sweep.execution.cluster import ray_session


class Cycle:
    def __init__(self, reference):
        self.itself, self.reference = self, reference


def let_go():
    while references:
        Cycle(references.pop())
        sum(range(5_000))


with ray_session(None, workers=1, cpus=1.0):
    references = [ray.put(0) for _ in range(5_000)]
    thread = threading.Thread(target=let_go)
    gc.set_threshold(20)
    thread.start()
    busy = bool(references)
print("busy" if busy else "too early", gc.isenabled())
thread.join()
"""


@pytest.mark.integration
@pytest.mark.slow
def test_ray_ends_while_another_thread_collects_garbage() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _COLLECTING_THREAD], capture_output=True, text=True, timeout=300, check=False
    )
    assert (run.returncode, run.stdout) == (0, "busy True\n"), run.stderr


def test_free_ports_differ_and_are_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < 32_768  # where Linux begins to give ports to connections
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


GIB = 2.0**30


@pytest.mark.parametrize(
    ("nodes", "needs", "room"),
    [
        ([{"CPU": 16, "GPU": 1}], CellResources(1.0, 0.25), 4),
        # No worker spans two nodes: four nodes of one processor have no room for one of two.
        ([{"CPU": 1}] * 4 + [{"CPU": 2}], CellResources(2.0), 1),
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
    ],
)
def test_workers_fit_by_node(nodes: list[dict[str, float]], needs: CellResources, room: int) -> None:
    assert Crew(0, needs, lambda: nodes).room == room


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
        Crew(0, needs, lambda: nodes)


def test_a_crew_follows_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridtune.sweep.execution.cluster._LOOK_SECONDS", 0.0)
    sizes = iter([2, 2, 6, 0, 3])
    crew = Crew(5, CellResources(), lambda: [{"CPU": next(sizes)}])
    assert (crew.workers, crew.room) == (2, 2)
    assert not crew.follow()
    assert crew.follow()
    assert (crew.workers, crew.room) == (5, 6)
    # All nodes are gone: they are waited for.
    assert crew.follow()
    assert (crew.workers, crew.most) == (1, 5)
    assert crew.follow()
    assert (crew.workers, crew.room) == (3, 3)


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


def test_a_cluster_that_lets_nobody_in_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray  # noqa: PLC0415

    over = threading.Event()

    def hang(*_: object) -> None:
        over.wait()
        raise SweepError("not let in")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "_connect", hang)
    monkeypatch.setattr(cluster, "_JOIN_SECONDS", 0.0)
    session = cluster.RaySession("head:6379", workers=1, needs=CellResources())
    with pytest.raises(SweepError, match="head:6379 has let nobody in"):
        session.wait()
    over.set()
    session.end()
    session._thread.join()


def test_a_process_of_ray_that_dies_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray  # noqa: PLC0415

    dead: list[tuple[str, None]] = []
    node = SimpleNamespace(all_processes={}, dead_processes=lambda: dead)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 1.0}}])
    monkeypatch.setattr(cluster, "_connect", lambda address, processors, nodes: nodes.append(node))
    monkeypatch.setattr(cluster, "_disconnect", lambda: None)
    monkeypatch.setattr(cluster, "_LOOK_SECONDS", 0.0)
    session = cluster.RaySession(None, workers=1, needs=CellResources())
    crew = session.wait()
    assert not crew.follow()
    dead.append(("raylet", None))
    with pytest.raises(SweepError, match="Ray's process raylet has ended") as told:
        crew.follow()
    assert "the same command goes on" in str(told.value.hint)
    session.end()


@pytest.mark.parametrize("end", ["os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)", "session.end()"])
def test_a_command_that_ray_ends_past_every_handler_tells_of_it(end: str) -> None:
    text = "import os, signal; from gridtune.sweep.execution import cluster\n"
    text += "cluster.RaySession._live = lambda session: session._answered.set()\n"
    text += f"session = cluster.RaySession(None, workers=1, needs=cluster.CellResources()); {end}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    told = "error: this command was ended" in done.stderr and "the same command goes on" in done.stderr
    assert told == (done.returncode != 0), done.stderr
    assert (done.returncode == 0) == (end == "session.end()"), done.stderr


def test_a_cluster_that_refuses_the_token_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*, address: str) -> None:
        raise RuntimeError("RPC error: InvalidAuthToken: Authentication token is missing or incorrect")

    # Tests before may have left a Ray for those after.
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray._raylet.GcsClient", refuse)
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        address = f"127.0.0.1:{head.getsockname()[1]}"
        session = cluster.RaySession(address, workers=1, needs=CellResources())
        with pytest.raises(SweepError, match="refuses this command") as refusal:
            session.wait()
        session.end()
    assert "RAY_AUTH_TOKEN" in str(refusal.value.hint)
