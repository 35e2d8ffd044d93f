"""Sweeps one after another on a cluster whose parts may end at any time, and are then started again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.outcome import Outcome, results_in
from benchmarks.ray_nodes import HERE, Node, Nodes, processes_of
from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.sweep.execution.cluster import free_ports

__all__ = ["STANDSTILL", "StandstillError", "Sweeps", "end_processes_of"]

NODES = 3
#: Seconds without a result after which a sweep is taken to stand still, or a driver without its head to hang.
STANDSTILL = 180.0
#: Times that a head is started before the run is given up.
_STARTS = 8


class StandstillError(Exception):
    """No results come any more, or something does not start."""


@dataclass
class Sweeps:
    """The sweep that runs, those before it, their cluster and their tracking server.

    Attributes
    ----------
    space
        The search space.
    folder
        Where everything is written.
    nodes
        The cluster.
    tracked
        Whether there is a tracking server.
    outcome
        Takes what ends by itself, and problems.
    cells
        How many a sweep has.
    finished
        How many sweeps came to their end.
    """

    space: Path
    folder: Path
    nodes: Nodes
    tracked: bool
    outcome: Outcome
    cells: int
    finished: int = 0
    driver: subprocess.Popen[bytes] | None = None
    server: subprocess.Popen[bytes] | None = None
    port: int = 0

    @property
    def disk(self) -> Path:
        """The disk of the sweeps' folders."""
        return self.folder / "disk"

    @property
    def out(self) -> Path:
        """The folder of the sweep that runs."""
        return self.disk / f"sweep-{self.finished}"

    @property
    def folders(self) -> list[Path]:
        """The folders of all sweeps that were begun."""
        return [out for number in range(self.finished + 1) if (out := self.disk / f"sweep-{number}").exists()]

    @property
    def log(self) -> Path:
        """What its commands print."""
        return self.folder / f"sweep-{self.finished}.log"

    @property
    def results(self) -> int:
        """The number of results in its journal."""
        return results_in(self.out)

    @property
    def running(self) -> bool:
        """Whether the command still runs."""
        return self.driver is not None and self.driver.poll() is None

    @property
    def ended(self) -> bool:
        """Whether the command came to the sweep's end, if need be with cells that it gave up."""
        code = None if self.driver is None else self.driver.poll()
        return code == 0 or (code == EXIT_FAILED_CELLS and self.results >= self.cells)

    def mend(self) -> None:
        """Start what is not running: the tracking server, the nodes, the command."""
        if self.tracked:
            self._mend_server()
        self._mend_cluster()
        if self.driver is not None and self.driver.poll() and not self.ended:
            last = self.log.read_text(errors="replace")[-2000:]
            self.outcome.problems.append(
                f"sweep {self.finished}: the command ended with {self.driver.returncode}:\n{last}"
            )
            self._count("driver", last)
            self.driver = None
        if self.driver is None:
            self._start_driver()

    def next(self) -> None:
        """Begin with the next sweep."""
        self.finished, self.driver = self.finished + 1, None

    def wait_for_results(self, more_than: int) -> None:
        """Wait for more results, or the end of the command.

        Raises
        ------
        StandstillError
            If there are none for long.
        """
        deadline = time.monotonic() + STANDSTILL
        while self.running and self.results <= more_than:
            if time.monotonic() > deadline:
                raise StandstillError(
                    f"sweep {self.finished}: {more_than} results, no more in {STANDSTILL:g} s"
                )
            time.sleep(0.05)

    def end_driver(self) -> None:
        """Kill the command."""
        if self.driver is not None:
            self.driver.kill()
            self.driver.wait()
        self.driver = None

    def end_cluster(self) -> None:
        """Kill all nodes, and wait until the command has ended for it, as it should."""
        while self.nodes.nodes:
            self.nodes.end(self.nodes.nodes[-1])
        if self.driver is None:
            return
        try:
            # Ray tries for some time to reach a head that is gone.
            self.driver.wait(STANDSTILL)
        except subprocess.TimeoutExpired:
            self.outcome.problems.append(
                f"sweep {self.finished}: the command still ran {STANDSTILL:g} s after its cluster's end"
            )
        self.end_driver()

    def end_server(self) -> None:
        """Kill the tracking server."""
        end_processes_of(self.folder / "server")
        if self.server is not None:
            self.server.wait()
        self.server = None

    def end(self) -> None:
        """Kill everything; `mend` starts it again."""
        self.end_driver()
        end_processes_of(self.nodes.folder)
        self.end_cluster()
        self.end_server()

    def _mend_server(self) -> None:
        if self.server is not None and self.server.poll() is not None:
            self._count("tracking", (self.folder / "server.log").read_text(errors="replace")[-1000:])
            self.end_server()
        if self.server is None:
            self._start_server()

    def _start_server(self) -> None:
        """Start the tracking server, on the same port every time."""
        self.port = self.port or free_ports(1, self.nodes.ports)[0]
        store = f"sqlite:///{self.folder}/mlflow.db"
        command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--workers", "1"]
        command += ["--artifacts-destination", str(self.folder / "artifacts")]
        command += ["--host", HERE, "--port", str(self.port)]
        quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "NODE": str(self.folder / "server")}
        with (self.folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                command, env={**os.environ, **quiet}, stdout=log, stderr=log, start_new_session=True
            )

    def _mend_cluster(self) -> None:
        if self.nodes.nodes and _has_ended(self.nodes.nodes[0]):
            # On a machine that is so busy that its raylet does not answer for long.
            self._count("head", self.nodes.nodes[0].last_words)
            self.end_cluster()
        self._start_head()
        for node in [node for node in self.nodes.nodes[1:] if _has_ended(node)]:
            self._count("node", node.last_words)
            self.nodes.end(node)
        while len(self.nodes.nodes) < NODES:
            self.nodes.add(1, ready=False)

    def _start_head(self) -> None:
        for _ in range(_STARTS):
            if self.nodes.nodes:
                return
            try:
                self.nodes.add(1)
            except (RuntimeError, TimeoutError) as fault:
                self._count("head that started", str(fault))
                self.end_cluster()
        if not self.nodes.nodes:
            raise StandstillError(f"no head could be started in {_STARTS} tries")

    def _start_driver(self) -> None:
        """Start the command, which goes on where the one before it stopped."""
        command = [sys.executable, "-m", "gridtune", "sweep", str(self.space), "--out", str(self.out)]
        command += ["--address", self.nodes.address, "--quiet"]
        command += ["--tracking-uri", f"http://{HERE}:{self.port}"] if self.tracked else ["--no-tracking"]
        if self.tracked:
            self._wait_for_server()
        # A head that is gone ends its drivers after a minute, otherwise.
        own = {**self.nodes.environment, "RAY_gcs_rpc_server_reconnect_timeout_s": "10"}
        with self.log.open("ab") as log:
            self.driver = subprocess.Popen(command, env=own, stdout=log, stderr=log)

    def _wait_for_server(self) -> None:
        deadline = time.monotonic() + STANDSTILL
        while not _answers(self.port):
            self._mend_server()
            if time.monotonic() > deadline:
                raise StandstillError(f"the tracking server does not answer in {STANDSTILL:g} s")
            time.sleep(0.1)

    def _count(self, what: str, last_words: str) -> None:
        self.outcome.by_itself[what] += 1
        print(f"ended by itself: {what}\n{last_words}", file=sys.stderr, flush=True)


def end_processes_of(folder: Path) -> None:
    """Kill the processes that name a folder."""
    for process in processes_of(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _has_ended(node: Node) -> bool:
    return node.process.poll() is not None


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HERE, port), timeout=1):
        return True
    return False
