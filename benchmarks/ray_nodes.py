"""A Ray cluster of several nodes on this machine, each a process of `ray start`: for tests and chaos.

Only its own processes are ended, by their numbers.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gridtune.sweep.execution.cluster import RAY_ENVIRONMENT, free_ports

#: The beginnings of the titles of processes that run cells: of sweeps and races, and of adaptive searches.
WORKERS = ("ray::Simulator", "ray::ResourceTrainable")

HERE = "127.0.0.1"
#: Longest wait for anything: only a failure takes it.
PATIENCE_S = 600
#: Ports of a cluster.
_PORTS = 300
#: Times that a node is started: on a busy machine Ray gives up after half a minute.
_STARTS = 5

_AGENT_PORTS = ("dashboard-agent-grpc-port", "metrics-export-port", "dashboard-agent-listen-port")
_AGENT_PORTS += ("runtime-env-agent-port",)

#: A raylet that is killed is noticed within five seconds, one out of reach within twenty. With less,
#: a busy machine would lose nodes that are only slow.
_QUICK = {
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 3000,
    "health_check_failure_threshold": 5,
}


def wait_for(what: str, done: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Wait until something is done; fail if that takes too long."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} took longer than {seconds:g} s")
        time.sleep(0.05)


def processes_of(folder: Path) -> dict[int, str]:
    """Return the processes whose command line or environment names a folder: process number to command."""
    processes = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            named = command + (entry / "environ").read_bytes()
        except OSError:
            continue  # it ended, or is not ours
        if os.fsencode(folder) in named:
            processes[int(entry.name)] = os.fsdecode(command.replace(b"\0", b" ")).strip()
    return processes


@dataclass
class Node:
    """One node: its `ray start --block`, which ends with its raylet."""

    name: str
    folder: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    starts: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.start()

    def start(self) -> None:
        """Run its command."""
        self.starts += 1
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """Kill all its processes."""
        for number in processes_of(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()

    @property
    def last_words(self) -> str:
        """The end of what its processes have logged."""
        logs = [self.folder / "log"]
        for name in ("ray_process_exit.log", "raylet.out", "raylet.err", "gcs_server.out"):
            logs += self.folder.glob(f"session_latest/logs/{name}")
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1000:]}" for log in logs)

    @property
    def raylet(self) -> int:
        """The number of its raylet."""
        (found,) = [
            number
            for number, command in processes_of(self.folder).items()
            if command.partition(" ")[0].endswith("/raylet")
        ]
        return found

    @property
    def workers(self) -> list[int]:
        """The numbers of the processes that run its cells."""
        commands = processes_of(self.folder).items()
        return [number for number, command in commands if command.startswith(WORKERS)]


@dataclass
class Nodes:
    """A cluster with its own token and folder."""

    folder: Path
    address: str = ""
    #: The address of Ray Client.
    client: str = ""
    nodes: list[Node] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    #: Ports that no other cluster of this kind uses.
    ports: Sequence[int] = range(20_000, 32_000)
    #: Seconds that a node may take to start.
    patience: float = PATIENCE_S
    started: int = 0

    def add(
        self, cpus: int, *, inside: Sequence[str] = (), host: str = HERE, ready: bool = True, **extra: str
    ) -> Node:
        """Start a node, the first as the head.

        Parameters
        ----------
        cpus
            Its processors.
        inside
            What the command is run by, such as `ip netns exec NAME`.
        host
            Its address.
        ready
            Wait until it is there.
        extra
            Variables of its environment.
        """
        self.started += 1
        # No name is the beginning of another's: processes are found by it.
        name = f"n{self.started:04}"
        folder = self.folder / name
        command = [*inside, "ray", "start", "--block", f"--num-cpus={cpus}", f"--node-ip-address={host}"]
        command += [f"--temp-dir={folder}", "--object-store-memory=100000000"]
        # A raylet ends whose agents have not found ports of their own within 15 s, and Ray Client's server
        # asks for the agent's port before that. Drawn together, no two are the same.
        port, client, *ports = free_ports(2 + len(_AGENT_PORTS), self.ports)
        command += map("--{}={}".format, _AGENT_PORTS, ports)
        # By itself each node gives its workers the first ports from 10002, also those of other nodes here.
        command += ["--min-worker-port=0", "--max-worker-port=0"]
        if self.nodes:
            command.append(f"--address={self.address}")
        else:
            self.address, self.client = f"{host}:{port}", f"ray://{host}:{client}"
            command += ["--head", f"--port={port}", "--include-dashboard=false"]
            command += [f"--ray-client-server-port={client}", f"--system-config={json.dumps(_QUICK)}"]
        node = Node(name, folder, command, {**self.environment, "NODE": str(folder), **extra})
        self.nodes.append(node)
        if ready:
            self.wait_for_start()
        return node

    def wait_for_start(self) -> None:
        """Wait until all nodes are there."""
        for node in self.nodes:
            wait_for(f"node {node.name}", partial(self._started, node), self.patience)

    @staticmethod
    def _started(node: Node) -> bool:
        output = (node.folder / "log").read_text(errors="replace")
        started = "Ray runtime started" in output
        if not started and node.process.poll() is not None:
            if "timed out during startup" not in output or node.starts == _STARTS:
                raise RuntimeError(f"node {node.name} did not start:\n{output}")
            node.kill()
            node.start()
        return started

    def kill(self, node: Node) -> None:
        """Kill a node's raylet, as the machine's end would."""
        os.kill(node.raylet, signal.SIGKILL)

    def end(self, node: Node) -> None:
        """Kill a node with all its processes; the next one is the head if it was."""
        node.kill()
        self.nodes.remove(node)

    def close(self) -> None:
        """End everything, by the processes' numbers."""
        for node in reversed(self.nodes):
            node.process.terminate()
        for node in self.nodes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.process.wait(20)
        for number in processes_of(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        wait_for("the end of the nodes", lambda: not processes_of(self.folder))
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def _own_ports() -> Iterator[range]:
    """Give ports that none of these clusters has, also none that has not bound its own yet."""
    starts = list(range(20_000, 32_000, _PORTS))
    random.shuffle(starts)
    for start in starts:
        with Path(tempfile.gettempdir(), f"gridtune-ports-{start}").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield range(start, start + _PORTS)
            return
    raise RuntimeError("all ports for clusters are taken")


@contextlib.contextmanager
def own_nodes() -> Iterator[Nodes]:
    """Give a cluster without nodes, and end those it has got."""
    # Ray's sockets need a short path, shorter than pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="gt-"))
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {
        **inherited,
        **RAY_ENVIRONMENT,
        **token,
        "PATH": path,
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    }
    with _own_ports() as ports:
        nodes = Nodes(folder, environment=own, ports=ports)
        try:
            yield nodes
        finally:
            nodes.close()
