"""A Ray cluster of the tests' own, of several nodes on this machine, each a process of `ray start`."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.processes import HERE, free_ports, processes_of, wait_for

#: A node that is gone is noticed within two seconds.
_QUICK = '{"health_check_initial_delay_ms":0,"health_check_period_ms":500,"health_check_failure_threshold":4}'
_PORTS = ("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "metrics-export-port")
_PORTS += ("runtime-env-agent-port",)


@dataclass
class Node:
    """One node: its `ray start --block`, which ends with its raylet."""

    name: str
    folder: Path
    process: subprocess.Popen[bytes]

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
        return [number for number, command in commands if command.startswith("ray::Simulator")]


@dataclass
class Nodes:
    """A cluster with its own token and folder."""

    folder: Path
    address: str = ""
    nodes: list[Node] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

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
        name = f"n{len(self.nodes)}"
        folder = self.folder / name
        folder.mkdir()
        ports = free_ports(len(_PORTS) + 2)
        command = [*inside, "ray", "start", "--block", f"--num-cpus={cpus}", f"--node-ip-address={host}"]
        command += [f"--temp-dir={folder}", "--object-store-memory=100000000"]
        command += [f"--{option}={port}" for option, port in zip(_PORTS, ports, strict=False)]
        if self.nodes:
            command.append(f"--address={self.address}")
        else:
            self.address = f"{host}:{ports[-1]}"
            command += ["--head", f"--port={ports[-1]}", "--include-dashboard=false"]
            command += [f"--ray-client-server-port={ports[-2]}", f"--system-config={_QUICK}"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, env={**self.environment, **extra}, stdout=log, stderr=subprocess.STDOUT
            )
        node = Node(name, folder, process)
        self.nodes.append(node)
        if ready:
            wait_for(f"node {name}", lambda: self._started(node))
        return node

    @staticmethod
    def _started(node: Node) -> bool:
        output = (node.folder / "log").read_text(errors="replace")
        assert node.process.poll() is None, output
        return "Ray runtime started" in output

    def kill(self, node: Node) -> None:
        """Kill a node's raylet, as the machine's end would."""
        os.kill(node.raylet, signal.SIGKILL)

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
def own_nodes(monkeypatch: pytest.MonkeyPatch | None = None) -> Iterator[Nodes]:
    """Give a cluster without nodes; with `monkeypatch`, this process has its token, too."""
    # Ray's sockets need a short path, shorter than pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="gt-"))
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {**inherited, **token, "PATH": path, "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    if monkeypatch is not None:
        for name, value in token.items():
            monkeypatch.setenv(name, value)
    nodes = Nodes(folder, environment=own)
    try:
        yield nodes
    finally:
        nodes.close()
