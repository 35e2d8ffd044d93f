"""A sweep on a cluster of its own whose parts are killed at random, and what is lost or done twice.

    scripts/chaos SPACE --seconds 600
    scripts/chaos SPACE --seconds 600 --faults worker,node,driver

Runs the space once undisturbed, without Ray. Then starts a Ray cluster of three nodes on this machine, and
`gridtune sweep` on it again and again, in a fresh folder each time, while at random moments

- worker: a process that runs cells is killed (SIGKILL, as all that follow);
- stall: one is stopped for some seconds (SIGSTOP), as on a machine that swaps;
- node: a raylet is killed, and another node joins;
- driver: the command is killed, and started again;
- head: the head node is killed with all of the cluster; cluster and command are started again;
- tracking: the tracking server is killed, and started again.

The next fault comes some seconds after results have come again. In the end each table of results is compared
with the undisturbed one. Prints how often what happened, and how long no result came after it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from benchmarks.measure import print_machine, print_table
from benchmarks.ray_nodes import HERE, Nodes, free_ports, own_nodes, processes_of
from gridtune.sweep import TIMING_COLUMNS, read_journal

#: How often each kind comes, beside the others: those that take long to mend are rarer.
WEIGHTS = {"worker": 12, "stall": 4, "node": 4, "driver": 4, "head": 1, "tracking": 2}
NODES = 3
#: Longest pause before a fault, and longest stall, seconds.
PAUSE, STALL = 3.0, 5.0


@dataclass
class Chaos:
    """The sweep, its cluster, and what is done to them."""

    space: Path
    folder: Path
    nodes: Nodes
    moment: random.Random
    tracked: bool
    sweeps: int = 0
    driver: subprocess.Popen[bytes] | None = None
    server: subprocess.Popen[bytes] | None = None
    port: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    waits: dict[str, list[float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def out(self) -> Path:
        """The folder of the sweep that runs."""
        return self.folder / f"sweep-{self.sweeps}"

    @property
    def journal(self) -> Path:
        """Its journal."""
        return self.out / "journal.jsonl"

    def start(self) -> None:
        """Start the cluster, the tracking server and the command."""
        if self.tracked and self.server is None:
            self.start_server()
        for _ in range(NODES):
            self.nodes.add(1)
        self.start_driver()

    def start_server(self) -> None:
        """Start the tracking server, on the same port every time."""
        self.port = self.port or free_ports(1)[0]
        store = f"sqlite:///{self.folder}/mlflow.db"
        command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--workers", "1"]
        command += ["--host", HERE, "--port", str(self.port)]
        quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "NODE": str(self.folder / "server")}
        with (self.folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                command, env={**os.environ, **quiet}, stdout=log, stderr=log, start_new_session=True
            )

    def start_driver(self) -> None:
        """Start the command, which goes on where the one before it stopped."""
        command = [sys.executable, "-m", "gridtune", "sweep", str(self.space), "--out", str(self.out)]
        command += ["--address", self.nodes.address, "--quiet"]
        command += ["--tracking-uri", f"http://{HERE}:{self.port}"] if self.tracked else ["--no-tracking"]
        with (self.folder / f"sweep-{self.sweeps}.log").open("ab") as log:
            self.driver = subprocess.Popen(command, env=self.nodes.environment, stdout=log, stderr=log)

    def results(self) -> int:
        """Return how many cells have results."""
        return len(read_journal(self.journal))

    def wait_for_results(self, until: float) -> bool:
        """Wait for results that are not there yet; return whether the sweep still runs."""
        before = self.results()
        while time.monotonic() < until and self.results() == before:
            assert self.driver is not None
            if self.driver.poll() is not None:
                return False
            time.sleep(0.1)
        return True

    def inflict(self, kind: str) -> bool:
        """Do one fault; return whether there was something to do it to."""
        assert self.driver is not None
        others = [node for node in self.nodes.nodes[1:] if node.process.poll() is None]
        if kind in {"worker", "stall"}:
            workers = [number for node in self.nodes.nodes for number in node.workers]
            if not workers:
                return False
            victim = self.moment.choice(workers)
            if kind == "worker":
                _signal(victim, signal.SIGKILL)
            else:
                _signal(victim, signal.SIGSTOP)
                time.sleep(self.moment.uniform(0.5, STALL))
                _signal(victim, signal.SIGCONT)
        elif kind == "node":
            if not others:
                return False
            self.nodes.end(self.moment.choice(others))
            self.nodes.add(1, ready=False)
        elif kind == "driver":
            self.driver.kill()
            self.driver.wait()
            self.start_driver()
        elif kind == "head":
            for node in list(self.nodes.nodes):
                self.nodes.end(node)
            # Without its head the command ends, after the minute that Ray tries to reach it.
            self.driver.wait()
            for _ in range(NODES):
                self.nodes.add(1)
            self.start_driver()
        elif kind == "tracking":
            if self.server is None:
                return False
            _end_all(self.folder / "server")
            self.server.wait()
            self.start_server()
        return True

    def check(self, expected: bytes) -> None:
        """Compare what the sweep that has ended left behind with the undisturbed one."""
        assert self.driver is not None
        code = self.driver.wait()
        if code:
            self.problems.append(f"sweep {self.sweeps} ended with {code}")
        ids = Counter(
            json.loads(line)["cell_id"]
            for line in self.journal.read_bytes().splitlines()
            if line.startswith(b'{"cell_id"')
        )
        twice = sum(count > 1 for count in ids.values())
        if twice:
            self.problems.append(f"sweep {self.sweeps}: {twice} cells are in the journal twice")
        table = self.out / "results.parquet"
        if not table.exists() or _content(table) != expected:
            self.problems.append(f"sweep {self.sweeps}: the table is not that of the undisturbed run")


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def _end_all(folder: Path) -> None:
    for process in processes_of(folder):
        _signal(process, signal.SIGKILL)


def _content(path: Path) -> bytes:
    table = pq.read_table(path).drop_columns(list(TIMING_COLUMNS))
    return b"\n".join(repr(row).encode() for row in table.to_pylist())


def disturb(chaos: Chaos, kinds: dict[str, int], expected: bytes, seconds: float) -> None:
    """Disturb sweeps for some seconds, then let the last one end in peace."""
    end = time.monotonic() + seconds
    chaos.start()
    while time.monotonic() < end:
        if not chaos.wait_for_results(end):
            code = chaos.driver.returncode if chaos.driver else None
            if code and not (chaos.out / "results.parquet").exists():
                chaos.problems.append(f"sweep {chaos.sweeps}: the command gave up with {code}")
                chaos.start_driver()
                continue
            chaos.check(expected)
            chaos.sweeps += 1
            chaos.start_driver()
            continue
        time.sleep(chaos.moment.uniform(0, PAUSE))
        (kind,) = chaos.moment.choices(list(kinds), list(kinds.values()))
        results, began = chaos.results(), time.monotonic()
        if chaos.inflict(kind):
            chaos.faults[kind] += 1
            while chaos.driver and chaos.driver.poll() is None and chaos.results() == results:
                time.sleep(0.1)
            chaos.waits.setdefault(kind, []).append(time.monotonic() - began)
            wait = f"results again after {chaos.waits[kind][-1]:.1f} s"
            print(f"{chaos.faults.total()} {kind}: {wait}", file=sys.stderr, flush=True)
        if chaos.results() < results:
            chaos.problems.append(f"sweep {chaos.sweeps}: results were lost by a fault ({kind})")
    chaos.check(expected)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("space", type=Path, help="a search space whose cells take some tenths of a second")
    parser.add_argument("--seconds", type=float, required=True, help="for which faults come")
    parser.add_argument("--faults", default=",".join(WEIGHTS), help=f"kinds ({','.join(WEIGHTS)})")
    parser.add_argument("--seed", type=int, default=None, help="of kinds and moments (the clock)")
    options = parser.parse_args()
    wanted = options.faults.split(",")
    if not set(wanted) <= WEIGHTS.keys():
        parser.error(f"kinds of faults are {', '.join(WEIGHTS)}")
    kinds = {kind: WEIGHTS[kind] for kind in wanted}
    seed = time.time_ns() % 10**6 if options.seed is None else options.seed
    print_machine()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name, own_nodes() as nodes:
        folder = Path(name)
        space = options.space.resolve()
        undisturbed = [sys.executable, "-m", "gridtune", "sweep", str(space), "--executor", "inline"]
        undisturbed += ["--no-tracking", "--quiet", "--out", str(folder / "undisturbed")]
        subprocess.run(undisturbed, check=True)
        expected = _content(folder / "undisturbed" / "results.parquet")
        chaos = Chaos(space, folder, nodes, random.Random(seed), tracked="tracking" in kinds)
        try:
            disturb(chaos, kinds, expected, options.seconds)
        finally:
            for process in (chaos.driver, chaos.server):
                if process is not None and process.poll() is None:
                    process.kill()
            _end_all(folder / "server")
        cells = len(read_journal(folder / "undisturbed" / "journal.jsonl"))
    rows = [
        [kind, str(count), f"{median(chaos.waits[kind]):.1f}", f"{max(chaos.waits[kind]):.1f}"]
        for kind, count in chaos.faults.items()
    ]
    print_table("Chaos", ["fault", "times", "s without results, median", "most"], rows)
    print(f"{chaos.faults.total()} faults in {chaos.sweeps + 1} sweeps of {cells} cells, seed {seed}")
    print("\n".join(chaos.problems) or "nothing lost, nothing twice, the tables of the undisturbed run")
    return 1 if chaos.problems else 0


if __name__ == "__main__":
    sys.exit(main())
