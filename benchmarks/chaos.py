"""A sweep on a cluster of its own whose parts are killed at random, and what is lost or done twice.

    scripts/chaos benchmarks/naps.yaml --faults 1000
    scripts/chaos SPACE --seconds 600 --kinds worker,node,driver

Runs the space once undisturbed, without Ray, beside the rest. Starts a Ray cluster of three nodes on this
machine, a tracking server, and `gridtune sweep` on them again and again, in a fresh folder each time, while
at random moments

- worker: a process that runs cells is killed (SIGKILL, as all that follow);
- stall: one is stopped for up to a second (SIGSTOP), as on a machine that swaps;
- disk: the disk of the sweep's folder is full for up to a second (needs root: it is one of memory);
- node: a node is killed with all its processes, and another joins;
- driver: the command is killed, and started again;
- tracking: the tracking server is killed, and started again;
- head: the head node is killed with all of the cluster; cluster and command are started again.

The next fault comes up to half a second after results have come again. Each table of results is compared with
the undisturbed one. Prints how often what happened, and how long no result came after it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from benchmarks.measure import print_machine, print_table
from benchmarks.ray_nodes import HERE, Nodes, own_nodes, processes_of, wait_for
from gridtune.sweep import TIMING_COLUMNS, read_journal
from gridtune.sweep.lean_ray import free_ports

#: How often each kind comes, beside the others: those that take long to mend are rarer.
WEIGHTS = {"worker": 50, "stall": 60, "disk": 60, "node": 8, "driver": 6, "tracking": 8, "head": 1}
NODES = 3
#: Longest pause before a fault, and longest stall, seconds.
PAUSE, STALL = 0.5, 1.0
#: Seconds without a result after which a sweep is taken to stand still.
STANDSTILL = 300.0
#: A fault that nobody asked for.
BY_ITSELF = "head, by itself"
#: Bytes of the disk that is filled.
DISK = 2**27


@dataclass
class Chaos:
    """Sweeps, their cluster, and what is done to them."""

    space: Path
    folder: Path
    nodes: Nodes
    moment: random.Random
    tracked: bool
    undisturbed: subprocess.Popen[bytes]
    sweeps: int = 0
    driver: subprocess.Popen[bytes] | None = None
    server: subprocess.Popen[bytes] | None = None
    port: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    waits: dict[str, list[float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    lost: int = 0
    twice: int = 0
    differing: int = 0

    @property
    def disk(self) -> Path:
        """The disk of the sweeps' folders."""
        return self.folder / "disk"

    @property
    def out(self) -> Path:
        """The folder of the sweep that runs."""
        return self.disk / f"sweep-{self.sweeps}"

    @property
    def results(self) -> int:
        """How many results its journal has."""
        try:
            return (self.out / "journal.jsonl").read_bytes().count(b'\n{"cell_id"')
        except FileNotFoundError:
            return 0

    @property
    def running(self) -> bool:
        """Whether the command still runs."""
        return self.driver is not None and self.driver.poll() is None

    def start(self) -> None:
        """Start the cluster, the tracking server and the command."""
        if self.tracked and self.server is None:
            self.start_server()
        self.nodes.add(1)
        for _ in range(NODES - 1):
            self.nodes.add(1, ready=False)
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
        if self.tracked:
            wait_for("the tracking server", lambda: _answers(self.port))
        # A head that is gone ends its drivers after a minute, otherwise.
        own = {**self.nodes.environment, "RAY_gcs_rpc_server_reconnect_timeout_s": "10"}
        with (self.folder / f"sweep-{self.sweeps}.log").open("ab") as log:
            self.driver = subprocess.Popen(command, env=own, stdout=log, stderr=log)

    def wait_for_results(self, more_than: int) -> None:
        """Wait for more results, or the end of the command."""
        deadline = time.monotonic() + STANDSTILL
        while self.running and self.results <= more_than:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"sweep {self.sweeps} has {more_than} results and no more for {STANDSTILL:g} s"
                )
            time.sleep(0.05)

    def disturb(self, kinds: dict[str, int]) -> None:
        """Do one fault, and wait for the results after it."""
        time.sleep(self.moment.uniform(0, PAUSE))
        self.replace_nodes()
        (kind,) = self.moment.choices(list(kinds), list(kinds.values()))
        results, began = self.results, time.monotonic()
        if not self.running or not FAULTS[kind](self):
            return
        self.faults[kind] += 1
        if self.results < results:
            self.problems.append(f"sweep {self.sweeps}: results were lost by a fault ({kind})")
        self.wait_for_results(results)
        self.waits.setdefault(kind, []).append(time.monotonic() - began)
        wait = f"results again after {self.waits[kind][-1]:.1f} s"
        print(f"{self.faults.total()} {kind}: {wait}", file=sys.stderr, flush=True)

    def replace_nodes(self) -> None:
        """Start a node for each that could not be started."""
        for node in self.nodes.nodes[1:]:
            if node.process.poll() is not None:
                self.nodes.end(node)
                self.nodes.add(1, ready=False)

    def check(self) -> None:
        """Compare what the sweeps have left behind with the undisturbed one."""
        assert self.undisturbed.wait() == 0, "the undisturbed sweep failed"
        expected = self.folder / "undisturbed"
        wanted, rows = read_journal(expected / "journal.jsonl"), _content(expected)
        for number in range(self.sweeps):
            out = self.disk / f"sweep-{number}"
            lines = (out / "journal.jsonl").read_bytes().splitlines()
            ids = Counter(json.loads(line)["cell_id"] for line in lines if line.startswith(b'{"cell_id"'))
            results = read_journal(out / "journal.jsonl")
            self.lost += sum(id not in results or results[id].state != "done" for id in wanted)
            self.twice += sum(count > 1 for count in ids.values())
            self.differing += _content(out) != rows


def _kill_worker(chaos: Chaos) -> bool:
    return _to_a_worker(chaos, signal.SIGKILL) is not None


def _stall(chaos: Chaos) -> bool:
    victim = _to_a_worker(chaos, signal.SIGSTOP)
    if victim is not None:
        time.sleep(chaos.moment.uniform(0.1, STALL))
        _signal(victim, signal.SIGCONT)
    return victim is not None


def _to_a_worker(chaos: Chaos, number: int) -> int | None:
    workers = [worker for node in chaos.nodes.nodes for worker in node.workers]
    victim = chaos.moment.choice(workers) if workers else None
    if victim is not None:
        _signal(victim, number)
    return victim


def _fill_disk(chaos: Chaos) -> bool:
    ballast = chaos.disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    time.sleep(chaos.moment.uniform(0.1, STALL))
    ballast.unlink()
    return True


def _kill_node(chaos: Chaos) -> bool:
    others = chaos.nodes.nodes[1:]
    if others:
        chaos.nodes.end(chaos.moment.choice(others))
        chaos.nodes.add(1, ready=False)
    return bool(others)


def _kill_driver(chaos: Chaos) -> bool:
    assert chaos.driver is not None
    chaos.driver.kill()
    chaos.driver.wait()
    chaos.start_driver()
    return True


def _kill_server(chaos: Chaos) -> bool:
    _end_all(chaos.folder / "server")
    if chaos.server is not None:
        chaos.server.wait()
    chaos.start_server()
    return True


def _kill_head(chaos: Chaos) -> bool:
    assert chaos.driver is not None
    for node in list(chaos.nodes.nodes):
        chaos.nodes.end(node)
    # Without its head the command ends, when Ray has tried for some time to reach it.
    chaos.driver.wait(STANDSTILL)
    chaos.start()
    return True


#: What does each kind of fault; whether there was something to do it to.
FAULTS: dict[str, Callable[[Chaos], bool]] = {
    "worker": _kill_worker,
    "stall": _stall,
    "disk": _fill_disk,
    "node": _kill_node,
    "driver": _kill_driver,
    "tracking": _kill_server,
    "head": _kill_head,
}


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def _end_all(folder: Path) -> None:
    for process in processes_of(folder):
        _signal(process, signal.SIGKILL)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HERE, port), timeout=1):
        return True
    return False


def _content(folder: Path) -> list[str] | None:
    """Return the rows of a sweep's table without timings; None where there is no table."""
    table = folder / "results.parquet"
    if not table.exists():
        return None
    return list(map(repr, pq.read_table(table).drop_columns(list(TIMING_COLUMNS)).to_pylist()))


def disturb_sweeps(chaos: Chaos, kinds: dict[str, int], more: Callable[[], bool]) -> None:
    """Disturb sweep after sweep as long as more faults are wanted; let the last one end in peace."""
    chaos.start()
    while True:
        chaos.wait_for_results(chaos.results)
        if chaos.running:
            if more():
                chaos.disturb(kinds)
            continue
        assert chaos.driver is not None
        if chaos.nodes.nodes[0].process.poll() is not None:
            # On a machine that is so busy that its raylet does not answer for long.
            print(
                f"the head ended by itself:\n{chaos.nodes.nodes[0].last_words}", file=sys.stderr, flush=True
            )
            chaos.faults[BY_ITSELF] += 1
            _kill_head(chaos)
            continue
        if chaos.driver.returncode:
            log = (chaos.folder / f"sweep-{chaos.sweeps}.log").read_text(errors="replace")[-2000:]
            chaos.problems.append(f"sweep {chaos.sweeps} ended with {chaos.driver.returncode}:\n{log}")
            chaos.start_driver()
            continue
        chaos.sweeps += 1
        if not more():
            chaos.check()
            return
        chaos.start_driver()


@contextlib.contextmanager
def _disk(folder: Path, *, own: bool) -> Iterator[None]:
    """Make a folder for sweeps, on a small disk of its own if it is to be filled."""
    folder.mkdir()
    if own:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "gridtune-chaos", str(folder)], check=True
        )
    try:
        yield
    finally:
        if own:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


def _report(chaos: Chaos, cells: int, seed: int) -> None:
    rows = [
        [kind, str(chaos.faults[kind]), f"{median(waits):.1f}", f"{max(waits):.1f}"]
        for kind in FAULTS
        if (waits := chaos.waits.get(kind))
    ]
    rows += [[BY_ITSELF, str(chaos.faults[BY_ITSELF]), "", ""]] * (BY_ITSELF in chaos.faults)
    print_table("Chaos", ["fault", "times", "s without results, median", "most"], rows)
    print(f"{chaos.faults.total()} faults in {chaos.sweeps} sweeps of {cells} cells, seed {seed}: ", end="")
    print(f"{chaos.lost} cells lost, {chaos.twice} twice, {chaos.differing} tables not as undisturbed")
    print("\n".join(chaos.problems), end="\n" if chaos.problems else "")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("space", type=Path, help="a search space whose cells take some tenths of a second")
    parser.add_argument("--faults", type=int, default=None, help="how many")
    parser.add_argument("--seconds", type=float, default=None, help="for which they come")
    parser.add_argument("--kinds", default=",".join(WEIGHTS), help=f"of faults ({','.join(WEIGHTS)})")
    parser.add_argument("--seed", type=int, default=None, help="of kinds and moments (the clock)")
    options = parser.parse_args()
    if options.faults is None and options.seconds is None:
        parser.error("give --faults or --seconds")
    if not set(options.kinds.split(",")) <= WEIGHTS.keys():
        parser.error(f"kinds of faults are {', '.join(WEIGHTS)}")
    kinds = {kind: WEIGHTS[kind] for kind in options.kinds.split(",")}
    seed = time.time_ns() % 10**6 if options.seed is None else options.seed
    print_machine()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name, own_nodes() as nodes:
        folder = Path(name)
        command = [sys.executable, "-m", "gridtune", "sweep", str(options.space), "--executor", "inline"]
        command += ["--no-tracking", "--quiet", "--out", str(folder / "undisturbed")]
        undisturbed = subprocess.Popen(command)
        space, tracked = options.space.resolve(), "tracking" in kinds
        chaos = Chaos(space, folder, nodes, random.Random(seed), tracked, undisturbed)
        began = time.monotonic()

        def more() -> bool:
            enough = options.faults is not None and chaos.faults.total() >= options.faults
            return not enough and (options.seconds is None or time.monotonic() - began < options.seconds)

        try:
            with _disk(chaos.disk, own="disk" in kinds):
                disturb_sweeps(chaos, kinds, more)
        except TimeoutError as fault:
            chaos.problems.append(str(fault))
        finally:
            for process in (chaos.driver, chaos.server, undisturbed):
                if process is not None and process.poll() is None:
                    process.kill()
            _end_all(folder / "server")
        _report(chaos, len(read_journal(folder / "undisturbed" / "journal.jsonl")), seed)
    return 1 if chaos.problems or chaos.lost or chaos.twice or chaos.differing else 0


if __name__ == "__main__":
    sys.exit(main())
