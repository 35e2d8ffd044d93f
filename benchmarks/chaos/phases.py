"""Each process of a sweep is killed in each phase; the command must end as promised, and go on afterwards."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.chaos.outcome import Outcome, compare, results_in
from benchmarks.ray_nodes import own_nodes, processes_of
from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.sweep.run import run_space

__all__ = ["PHASES", "PROCESSES", "SILENCE", "kill_in_phases"]

#: Seconds without a result, a line or the end of the command that are too many.
SILENCE = 60.0
#: Seconds after which a command that says nothing is killed.
_HANGS = 180.0
#: Seconds within which a command that has ended is explained.
_LAST_WORDS = 3.0
#: Seconds that processes may outlive their command.
_LEAVING = 60.0
#: Cells of a sweep, and the seconds of each.
_CELLS, _NAP = 40, 0.1

#: Parts of the commands of processes, by name; of the first two only the program's name counts.
_COMMANDS = {
    "raylet": ("/raylet ",),
    "gcs_server": ("/gcs_server ",),
    "worker": ("ray::Simulator", "ray::IDLE", "default_worker.py"),
    "agent": ("ray::DashboardAgent", "dashboard/agent.py"),
    "environment agent": ("ray::RuntimeEnvAgent", "runtime_env/agent/main.py"),
    "log monitor": ("ray::LogMonitor", "log_monitor.py"),
    "child": ("multiprocessing.forkserver",),
    "tracker": ("multiprocessing.resource_tracker",),
}
#: Signals to the command itself.
_SIGNALS = {"driver": signal.SIGKILL, "driver (TERM)": signal.SIGTERM, "driver (HUP)": signal.SIGHUP}
#: The processes of a sweep that starts Ray, that joins one, and without Ray.
PROCESSES = {
    "ray": ("raylet", "gcs_server", "worker", "agent", "environment agent", *_SIGNALS),
    "address": ("raylet", "gcs_server", "worker", "agent", "environment agent", "log monitor", *_SIGNALS),
    "inline": ("child", "tracker", *_SIGNALS),
}
#: Phases of a sweep, and the longest delay in seconds after their beginning.
PHASES = {"start": 1.0, "join": 0.7, "first cell": 0.2, "running": 0.5, "ending": 0.5}


@dataclass
class _Command:
    """One sweep under way.

    Attributes
    ----------
    folder
        Its own, named in the environment of all its processes.
    process
        The command.
    cluster
        The folder that processes of a joined cluster name, or None.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    cluster: Path | None

    @property
    def out(self) -> Path:
        """The sweep's folder."""
        return self.folder / "out"

    @property
    def printed(self) -> str:
        """All that it has printed."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def results(self) -> int:
        """The number of results in the journal."""
        return results_in(self.out)

    def find(self, kind: str) -> list[int]:
        """Return the processes of a kind."""
        found = []
        for folder in filter(None, (self.folder, self.cluster)):
            for number, command in processes_of(folder).items():
                # The raylet's own command has those of the others.
                program = re.match(r"\S*/(?:raylet|gcs_server) ", command)
                text = command if program is None else program[0]
                if number != self.process.pid and any(part in text for part in _COMMANDS[kind]):
                    found.append(number)
        return sorted(found)

    def has_begun(self, phase: str, kind: str) -> bool:
        """Return whether a phase has begun."""
        if phase == "start":
            return kind in _SIGNALS or bool(self.find(kind))
        if phase == "join":
            return "starting workers" in self.printed or "starting a process" in self.printed
        if phase == "first cell":
            return self.results > 0 or (any(self.find("worker")) and self._works())
        return self.results >= (_CELLS if phase == "ending" else _CELLS // 4)

    def _works(self) -> bool:
        folders = filter(None, (self.folder, self.cluster))
        commands = [command for folder in folders for command in processes_of(folder).values()]
        return any(command.startswith("ray::Simulator") for command in commands)


def _disturb(command: _Command, phase: str, kind: str, moment: random.Random) -> bool:
    """Send the signal once the phase has begun; return whether there was a process to send it to."""
    delay = moment.uniform(0, PHASES[phase])
    while command.process.poll() is None:
        if command.has_begun(phase, kind):
            time.sleep(delay)
            while command.process.poll() is None:
                victims = [command.process.pid] if kind in _SIGNALS else command.find(kind)
                if victims:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(moment.choice(victims), _SIGNALS.get(kind, signal.SIGKILL))
                        return True
                time.sleep(0.02)
        time.sleep(0.02)
    return False


def _wait_for_end(command: _Command) -> float:
    """Wait for the end of the command, and kill it if it hangs; return its longest silence in seconds."""
    longest, before, since = 0.0, (0, 0), time.monotonic()
    while command.process.poll() is None:
        now = (command.results, len(command.printed))
        if now != before:
            before, since = now, time.monotonic()
        longest = max(longest, time.monotonic() - since)
        if longest > _HANGS:
            command.process.kill()
        time.sleep(0.05)
    return longest


def _fault_of(command: _Command, kind: str) -> str | None:
    """Return what is wrong with the end of a command."""
    code, printed = command.process.returncode, command.printed
    if "Traceback" in printed:
        return "a traceback"
    complete = command.results >= _CELLS
    told = "error: " in printed and "hint: " in printed
    # 1: some cells have no result; 2: the sweep was refused or given up.
    ends = {0: complete, EXIT_FAILED_CELLS: told or (complete and " lost" in printed), 2: told}
    if kind == "driver":
        ends[-signal.SIGKILL] = True
    elif kind in _SIGNALS:
        # A shell shows the end by SIGINT, which Python chooses while it compiles a text, as 130, too.
        ends |= dict.fromkeys((130, -signal.SIGINT), "interrupted" in printed)
        # Before Python has started the signal ends the process.
        ends[-_SIGNALS[kind]] = not printed
    return None if ends.get(code) else f"exit code {code}"


def _left(folder: Path) -> list[str]:
    """Wait for the end of all processes; return those that do not end, and kill them."""
    deadline = time.monotonic() + _LEAVING
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.5)
    for number in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    return [f"still running: {name[:200]}" for name in left.values()]


def kill_in_phases(
    folder: Path,
    venues: list[str],
    kinds: list[str] | None,
    phases: list[str],
    times: int,
    seed: int,
    seconds: float = math.inf,
) -> Outcome:
    """Kill each process in each phase, so many times; return what came of it.

    Parameters
    ----------
    folder
        Where everything is written.
    venues
        Of `PROCESSES`.
    kinds
        Of their processes; None for all.
    phases
        Of `PHASES`.
    times
        For each process and phase.
    seed
        Of the moments.
    seconds
        After which no more are killed.
    """
    outcome, began = Outcome([seed]), time.monotonic()
    moment = random.Random(seed)
    space = folder / "naps.yaml"
    given = yaml.safe_load((Path(__file__).parents[1] / "naps.yaml").read_text())
    given |= {"plugins": [str(Path(__file__).parents[1] / "naps.py")], "fixed": {"nap": _NAP}}
    given |= {"dimensions": {"number": {"integer": [0, _CELLS - 1]}}, "replicates": {"seeds": 1}}
    space.write_text(yaml.safe_dump(given))
    base = [sys.executable, "-m", "gridtune", "sweep", str(space), "--no-tracking", "--no-figures"]
    undisturbed = folder / "undisturbed"
    subprocess.run([*base, "--executor", "inline", "--quiet", "--out", str(undisturbed)], check=True)
    plan = [
        (venue, kind, phase)
        for venue in venues
        for kind in PROCESSES[venue]
        for phase in phases
        if kinds is None or kind in kinds
    ]
    # Also a run that is stopped has had all of them about as often.
    rounds = [moment.sample(plan, len(plan)) for _ in range(times)]
    ended: list[tuple[str, _Command, int, Future[str]]] = []
    others = ProcessPoolExecutor(1)
    for number, (venue, kind, phase) in enumerate(itertools.chain(*rounds)):
        if time.monotonic() - began > seconds:
            break
        own = folder / "runs" / f"{number:04}"
        own.mkdir(parents=True)
        with _command(base, venue, own) as command:
            done = _disturb(command, phase, kind, moment)
            results, lines = command.results, command.printed.splitlines()
            silence = _wait_for_end(command)
        what = f"{venue}: {kind}, {phase}"
        code = command.process.returncode
        state = f"at {results} results and {(lines or ['no line'])[-1][:30]!r}"
        print(f"{number:04} {what}, {state}: {silence:.1f} s, exit code {code}", flush=True)
        if not done:
            outcome.by_itself[f"{what}: over before"] += 1
            continue
        outcome.faults[what] += 1
        outcome.waits.setdefault(what, []).append(silence)
        # The message may come a moment after the end, from another process.
        deadline = time.monotonic() + _LAST_WORDS
        while (fault := _fault_of(command, kind)) and time.monotonic() < deadline:
            time.sleep(0.1)
        problems = [fault, None if silence <= SILENCE else f"{silence:.0f} s of silence"]
        told = [f"{number:04} {what}: {problem}" for problem in problems if problem]
        outcome.problems += told
        print(*told, sep="\n", end="\n" * bool(told), flush=True)
        # The next sweep runs meanwhile.
        future = others.submit(_resume, space, command.out, code == EXIT_FAILED_CELLS)
        ended.append((f"{number:04} {what}", command, command.results, future))
        while len(ended) > 1:
            _judge(*ended.pop(0), undisturbed, outcome)
    while ended:
        _judge(*ended.pop(0), undisturbed, outcome)
    others.shutdown()
    outcome.problems += _left(folder / "runs")
    outcome.seconds = time.monotonic() - began
    return outcome


def _resume(space: Path, out: Path, retry: bool) -> str:
    """Go on with a sweep, without Ray; return what is wrong."""
    try:
        run_space(space, directory=out, executor="inline", retry_failed=retry)
    except Exception as fault:
        return f"the same sweep ended with {fault!r}"
    return ""


def _judge(
    what: str, command: _Command, before: int, resumed: Future[str], undisturbed: Path, outcome: Outcome
) -> None:
    """Compare what a sweep that was gone on with has left behind."""
    if fault := resumed.result():
        outcome.problems.append(f"{what}: {fault}")
        return
    sweeps = outcome.sweeps
    compare(outcome, undisturbed, [command.out], 1)
    outcome.sweeps += sweeps
    if command.results < before:
        outcome.lost += before - command.results
        outcome.problems.append(f"{what}: results are gone from the journal")


@contextlib.contextmanager
def _command(base: list[str], venue: str, folder: Path) -> Iterator[_Command]:
    with contextlib.ExitStack() as stack:
        # Ray's sockets need a short path, and processes are found by a folder's name.
        own, cluster = dict(os.environ), None
        options = {"ray": ["--executor", "ray", "--workers", "2"], "inline": ["--executor", "inline"]}
        if venue == "address":
            nodes = stack.enter_context(own_nodes())
            nodes.add(2)
            cluster, own = nodes.folder, dict(nodes.environment)
            options[venue] = ["--address", nodes.address]
        words = [*base, *options[venue], "--out", str(folder / "out")]
        with (folder / "log").open("wb") as log:
            started = subprocess.Popen(
                words, env={**own, "CHAOS": str(folder)}, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield _Command(folder, started, cluster)
        finally:
            if started.poll() is None:
                started.kill()
                started.wait()
