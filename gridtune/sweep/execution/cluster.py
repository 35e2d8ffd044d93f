"""Ray for a sweep: a local cluster of its own, or one that runs already."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import math
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gridtune.core.system import CellResources
from gridtune.errors import SweepError

#: One thread per worker: many workers each with a thread pool wait for one another.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
#: Ray and Tune: no statistics sent home, no console output, loggers and snapshots of their own (the journal
#: is the truth), and no end to waiting where a busy machine takes minutes to start a process.
RAY_ENVIRONMENT = ONE_THREAD | {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_server_port_wait_time_s": "3600",
    "RAY_raylet_start_wait_time_s": "3600",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "15",
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "600",
    "RAY_agent_register_timeout_ms": "3600000",
    # The first driver would wait for workers, for ever if one is killed before it has registered.
    "RAY_prestart_worker_first_driver": "0",
    # The raylet prints to standard output about dying workers, past every log level; results say it better.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
#: Seconds until Ray replaces a worker that has not registered, at least; and times that importing Ray takes,
#: which tells a slow machine, for each worker that a processor starts.
_REGISTER_SECONDS, _REGISTER_IMPORTS = 40, 5
#: Seconds after which Ray ends a process that cannot reach the head of a running cluster, or of its own.
_HEAD_SECONDS = ("40", "15")
#: How addresses of Ray Client begin.
_CLIENT = "ray://"
#: Seconds within which a running cluster must answer.
_ANSWER_SECONDS = 10.0
#: Seconds within which Ray Client must have started a server of ours, on however busy a head.
_CLIENT_SECONDS = 300.0
#: Seconds within which a running cluster that listens must let this process in.
_JOIN_SECONDS = 55.0
#: The end of messages about a Ray that died.
_GOES_ON = "nothing that is finished is lost, and the same command goes on"
#: Seconds between two looks at the processes of a Ray that is starting.
_PROCESS_SECONDS = 0.5


def is_client(address: str) -> bool:
    """Return whether an address is one of Ray Client: this machine is then no node of the cluster."""
    return address.startswith(_CLIENT)


def processors_here() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextlib.contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, and take them back at the end."""
    added = [name for name in changes if name not in os.environ]
    os.environ.update({name: changes[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


#: Seconds between two looks at a cluster whose nodes may come and go.
_LOOK_SECONDS = 2.0

#: The amount of each resource of a node, by Ray's names.
_Node = Mapping[str, float]
#: Ray's name of a resource, the search space's, and the words of messages.
_RESOURCES = (
    ("CPU", "cpus", "processors", 1.0),
    ("GPU", "gpus", "GPUs", 1.0),
    ("memory", "memory", "GiB", 2.0**30),
)
#: 0.5 processors have room for five workers of 0.1, whatever the rounding.
_ROUNDING = 1e-9


class Crew:
    """The number of workers of a sweep, while nodes join and leave.

    Parameters
    ----------
    wanted
        Workers wanted at once; 0 for as many as there is room for.
    needs
        The resources of a worker.
    nodes
        Returns the resources of each living node.

    Raises
    ------
    SweepError
        If there is no room for a single worker.

    Attributes
    ----------
    workers
        Workers to run now.
    room
        Workers for which the cluster has room now.
    most
        The largest number of workers so far.
    """

    def __init__(self, wanted: int, needs: CellResources, nodes: Callable[[], Sequence[_Node]]) -> None:
        self._wanted, self.needs, self._nodes = wanted, needs, nodes
        self.workers = self.room = self.most = 0
        self._look()
        if not self.room:
            raise self._refusal()
        self._looked = time.monotonic()

    def follow(self) -> bool:
        """Look at the cluster, if it is time; return whether the number of workers has changed.

        A cluster that has lost all its nodes is waited for: one worker is still wanted.
        """
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return False
        before = self.workers
        self._look()
        self.workers, self.room = max(1, self.workers), max(1, self.room)
        self._looked = time.monotonic()
        return self.workers != before

    def _look(self) -> None:
        """Count the workers that fit on the nodes at once; those of one cell may be on different nodes."""
        own, *helpers = self.needs.bundles
        left = [dict(node) for node in self._nodes()]
        if helpers:
            self.room = 0
            while all(_take(left, bundle) for bundle in (own, *helpers)):
                self.room += 1
        else:
            self.room = sum(_fit(node, own) for node in left)
        self.workers = min(self._wanted, self.room) if self._wanted else self.room
        self.most = max(self.most, self.workers)

    def _refusal(self) -> SweepError:
        own, *helpers = self.needs.bundles
        nodes = self._nodes()
        for name, key, words, unit in _RESOURCES:
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if own.get(name, 0.0) > most:
                whose = "it" if len(nodes) == 1 else "its largest node"
                return SweepError(
                    f"the cluster has no room for a worker of {own[name] / unit:g} {words}: "
                    f"{whose} has {most / unit:g}",
                    hint=f"lower `resources: {{{key}: …}}` or join a larger cluster with --address",
                )
        what = f"{own.get('CPU', 0.0):g} processors"
        what += f" with {own['GPU']:g} GPUs" if "GPU" in own else ""
        what += f" and {len(helpers)} helpers of one processor each" if helpers else ""
        return SweepError(
            f"the cluster has no room for a worker of {what}",
            hint="lower what `resources` and the parameters ask for, or join a larger cluster with --address",
        )


def _fit(node: _Node, bundle: Mapping[str, float]) -> int:
    return min(int(node.get(name, 0.0) / amount + _ROUNDING) for name, amount in bundle.items())


def _take(nodes: Sequence[dict[str, float]], bundle: Mapping[str, float]) -> bool:
    """Take a bundle from the first node that has it; return whether there is one."""
    for node in nodes:
        if _fit(node, bundle):
            for name, amount in bundle.items():
                node[name] -= amount
            return True
    return False


class RaySession:
    """Ray for one sweep: it starts in a thread of its own, while the sweep is being planned.

    Parameters
    ----------
    address
        A running cluster's address. None: the one `RAY_ADDRESS` names (as under `ray job submit`) or, if
        it names none, a local cluster of this sweep's own, without dashboard.
    workers
        Workers wanted at once; 0 means as many as there is room for. A local cluster makes room for those
        wanted, be they more than there are processors.
    needs
        What each occupies.

    Notes
    -----
    The thread lives as long as the session: Linux ends Ray's processes with the thread that started them.
    """

    def __init__(self, address: str | None, *, workers: int, needs: CellResources) -> None:
        self._address = address or os.environ.get("RAY_ADDRESS") or None
        self._workers, self._needs = workers, needs
        self._answered, self._over = threading.Event(), threading.Event()
        self._crew: Crew | None = None
        self._fault: Exception | None = None
        #: The node of a Ray of this sweep's own, from the moment that it begins to start.
        self._nodes: list[Any] = []
        text = f"error: this command was ended, as Ray does where its processes die\n  hint: {_GOES_ON}"
        words = ["/bin/sh", "-c", 'read -r _ || printf "%s\\n" "$0" >&2', text]
        #: Ray ends this process past every handler where a raylet or a head dies; a shell tells of it.
        self._shell = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
        self._thread = threading.Thread(target=self._live, name="ray", daemon=True)
        self._thread.start()

    @property
    def answered(self) -> bool:
        """True if `wait` would return at once."""
        return self._answered.is_set()

    def wait(self) -> Crew:
        """Wait until Ray is there; return the workers for which it has room.

        Raises
        ------
        SweepError
            If the cluster cannot be reached or started, or has no room for one worker.
        """
        began = time.monotonic()
        while not self._answered.wait(_PROCESS_SECONDS):
            seconds = time.monotonic() - began
            if self._address is None:
                self._check_processes()
            elif seconds > (_CLIENT_SECONDS if is_client(self._address) else _JOIN_SECONDS):
                raise self._unanswered()
        if self._fault is not None:
            raise self._fault
        assert self._crew is not None
        return self._crew

    def _living(self) -> list[_Node]:
        """Return the resources of each living node of the connected cluster."""
        import ray  # noqa: PLC0415

        self._check_processes()
        return [node["Resources"] for node in ray.nodes() if node["Alive"]]

    def _check_processes(self) -> None:
        """Raise an error if a process of a Ray of this sweep's own has ended: Ray itself waits on for it."""
        for node in self._nodes:
            dead = [kind for kind, _ in node.dead_processes()] if hasattr(node, "all_processes") else []
            if dead:
                if not self._answered.is_set():
                    node.kill_all_processes(check_alive=False, allow_graceful=False)
                raise SweepError(
                    f"Ray's process {', '.join(dead)} has ended on this machine",
                    hint=f"{_GOES_ON}; `--executor inline` does without Ray",
                )

    def _unanswered(self) -> SweepError:
        """Return the error for a cluster that listens and lets nobody in."""
        assert self._address is not None
        if is_client(self._address):
            return SweepError(
                f"Ray Client at {self._address} has no server for this sweep after {_CLIENT_SECONDS:.0f} s",
                hint="start its head with GRPC_ENABLE_FORK_SUPPORT=0; see ray_client_server.err in its logs",
            )
        return SweepError(
            f"the Ray cluster at {self._address} has let nobody in for {_JOIN_SECONDS:.0f} s",
            hint="is it another version of Ray, or does it want a token (RAY_AUTH_MODE, RAY_AUTH_TOKEN)?",
        )

    def end(self) -> None:
        """Disconnect from a running cluster; end one that was started here.

        Where Ray is still starting, its end is not waited for.
        """
        self._over.set()
        if self._answered.is_set():
            self._thread.join()
        self._shell.communicate(b"\n")

    def _live(self) -> None:
        try:
            with contextlib.ExitStack() as set_here:
                patience = {"RAY_gcs_rpc_server_reconnect_timeout_s": _HEAD_SECONDS[self._address is None]}
                set_here.enter_context(environment(RAY_ENVIRONMENT | patience))
                # Some of it is read when Ray is imported.
                began = time.monotonic()
                import ray  # noqa: PLC0415

                # Ray misses a worker that was killed before it registered only when its time is up.
                seconds = _REGISTER_IMPORTS * (time.monotonic() - began)
                seconds = max(_REGISTER_SECONDS, seconds, seconds * self._workers / processors_here())
                set_here.enter_context(environment({"RAY_worker_register_timeout_seconds": f"{seconds:.0f}"}))
                ours = not ray.is_initialized()
                if ours:
                    cpus = math.ceil(self._workers * (self._needs.cpus + self._needs.helpers))
                    _connect(self._address, cpus or processors_here(), self._nodes)
                try:
                    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
                    self._crew = Crew(self._workers, self._needs, self._living)
                    self._answered.set()
                    self._over.wait()
                finally:
                    if ours:
                        _disconnect()
        except Exception as fault:
            self._fault = fault
        finally:
            self._answered.set()


@contextlib.contextmanager
def client_connection() -> Iterator[None]:
    """Turn the error of a lost connection of Ray Client, of whatever kind, into one of the sweep."""
    from ray.util import client  # noqa: PLC0415

    over_client = client.ray.is_connected()
    try:
        yield
    except Exception as fault:
        if not over_client or client.ray.is_connected():
            raise
        raise SweepError(
            f"the connection to the cluster is gone: {fault}", hint=f"{_GOES_ON} when the cluster answers"
        ) from None


@contextlib.contextmanager
def ray_session(address: str | None, *, workers: int, cpus: float, gpus: float = 0.0) -> Iterator[int]:
    """Connect to Ray as `RaySession` does; give the number of workers; end a Ray started here."""
    session = RaySession(address, workers=workers, needs=CellResources(cpus, gpus))
    try:
        yield session.wait().workers
    finally:
        session.end()


def _connect(address: str | None, processors: int, nodes: list[Any]) -> None:
    """Connect to a cluster, or start one; `nodes` gets the node that is started."""
    import ray  # noqa: PLC0415

    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address is None:
            with _lean_start(nodes):
                ray.init(address="local", num_cpus=processors, include_dashboard=False, **quiet)
        else:
            _check_listening(address)
            _check_token(address)
            ray.init(address=address, **quiet)
    except SweepError:
        raise
    except Exception as fault:  # a node that does not come up is a bare Exception of Ray's
        where = f"at {address}" if address else "here"
        first = str(fault).strip().splitlines()[0] if str(fault).strip() else type(fault).__name__
        raise SweepError(
            f"Ray cannot be {'reached' if address else 'started'} {where}: {first}",
            hint="is the cluster running (`ray status`), and is the address right?"
            if address
            else "`--executor inline` does without Ray; the same command goes on where this one stopped",
        ) from fault


def _disconnect() -> None:
    """Disconnect from a running cluster; end the local one, which nobody else uses.

    For a moment of its shutdown Ray ends the whole process, with status 1 and past every handler, if any
    thread lets go of an object reference. Tune leaves such references behind in cycles, and Python
    collects cycles in whichever thread is running, such as the one that sends to the tracking store. So they
    are collected here, before, and not again until Ray has ended.
    """
    import ray  # noqa: PLC0415

    collecting = gc.isenabled()
    gc.disable()
    try:
        gc.collect()
        ray.shutdown()
    finally:
        if collecting:
            gc.enable()


def _check_listening(address: str) -> None:
    """Raise OSError if nobody listens at a `host:port`; Ray itself would try for minutes on end."""
    host, colon, port = address.removeprefix(_CLIENT).rpartition(":")
    if not colon or not port.isdigit() or "/" in host:
        return  # such as "auto": Ray's own to resolve
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS):
        pass


def _check_token(address: str) -> None:
    """Raise an error if a `host:port` refuses our token; Ray itself would ask again for an hour."""
    if is_client(address) or ":" not in address:
        return
    client: Any = getattr(importlib.import_module("ray._raylet"), "GcsClient", None)
    try:
        if client is not None:
            client(address=address)
    except Exception as fault:  # Ray waits for a cluster that is only slow to answer
        if "InvalidAuthToken" in str(fault):
            raise SweepError(
                f"the Ray cluster at {address} refuses this command: its token is missing or wrong",
                hint="set RAY_AUTH_MODE=token, and the cluster's token in RAY_AUTH_TOKEN or its file in "
                "RAY_AUTH_TOKEN_PATH",
            ) from None


#: What has ports on a node: Ray's parameters are named after it, with `_port`.
_LISTENERS = ("gcs_server", "metrics_agent", "metrics_export", "dashboard_agent_listen", "runtime_env_agent")
#: Ports below those that systems give to connections.
_PORTS = range(20_000, 32_000)
_CHANCE = random.SystemRandom()

#: What the node of a Ray must have, so that it can be made lean.
_METHODS = ("start_monitor", "start_api_server", "start_log_monitor", "start_ray_processes")
#: Seconds between two looks at a node that is starting.
_START_SECONDS = 0.05


def free_ports(count: int, among: Sequence[int] = _PORTS) -> list[int]:
    """Return ports of this host that nobody has; by default none that the system gives to connections."""
    ports: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as bound:
        while len(ports) < count:
            port, candidate = _CHANCE.choice(among), socket.socket()
            bound.enter_context(candidate)
            with contextlib.suppress(OSError):
                candidate.bind(("", port))
                ports[port] = candidate
    return list(ports)


@contextlib.contextmanager
def _lean_start(nodes: list[Any]) -> Iterator[None]:
    """Let `ray.init` start a node with the processes that run tasks alone, and wait for a slow one.

    Ray has no option for leaving out its autoscaler, its dashboard (which starts also when it is switched
    off) and its collector of logs. On two processors they are two seconds of starting and one of ending. With
    a Ray whose node looks different, everything is started.
    """
    _raylet: Any = importlib.import_module("ray._raylet")
    from ray._private import node, services  # noqa: PLC0415

    usual = node.Node
    needed = (*((usual, name) for name in _METHODS), (services, "get_node"), (_raylet, "persist_port"))
    if not all(hasattr(owner, name) for owner, name in needed):
        yield
        return

    class LeanNode(usual):  # type: ignore[misc, valid-type]
        """A node without autoscaler, dashboard and log collector, that only this host can reach."""

        def __init__(self, ray_params: Any, *arguments: Any, **options: Any) -> None:
            # `ray.init` itself turns a loopback address into that of the host, and Ray's processes then
            # listen to everybody.
            ray_params.node_ip_address = "127.0.0.1"
            # The raylet ends if its agents have not found ports within 15 s, and a busy machine takes longer.
            # For the port of a GCS that chooses its own, Ray waits with Python's global lock: nothing else
            # of this process runs until then, and if the GCS has ended, nothing ever does.
            for name, port in zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True):
                setattr(ray_params, f"{name}_port", port)
            nodes.append(self)
            super().__init__(ray_params, *arguments, **options)

        def start_monitor(self) -> None:
            """Start no autoscaler."""

        def start_log_monitor(self) -> None:
            """Start no collector of logs."""

        def start_api_server(self, *, include_dashboard: bool | None, raise_on_failure: bool) -> None:
            """Start no dashboard."""
            self._webui_url = ""

        def start_ray_processes(self) -> None:
            """Start the node and wait for it; Ray itself gives up after half a minute, however busy."""
            # The one port that the raylet waits to read, though it was given: the agent will write the same.
            port, name = self.dashboard_agent_listen_port, _raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME
            _raylet.persist_port(self._session_dir, self._node_id, name, port)
            super().start_ray_processes()
            while not self._registered():
                if self.dead_processes():
                    raise RuntimeError("its node ended while it was starting")
                time.sleep(_START_SECONDS)

        def _registered(self) -> bool:
            try:
                services.get_node(self.gcs_address, self._node_id)
            except Exception:  # what it raises while there is no answer depends on how far the start has come
                return False
            return True

    node.Node = LeanNode
    try:
        yield
    finally:
        node.Node = usual
