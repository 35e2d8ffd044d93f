"""The command `scripts/chaos`."""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import benchmarks.chaos
from benchmarks.chaos.faults import FAULTS, WEIGHTS, small_disk, why_no_disk
from benchmarks.chaos.outcome import Outcome, compare, total
from benchmarks.chaos.phases import PHASES, PROCESSES, kill_in_phases
from benchmarks.chaos.sweeps import STANDSTILL, StandstillError, Sweeps
from benchmarks.measure import print_machine
from benchmarks.ray_nodes import own_nodes
from gridtune.sweep.run import space_cells

#: Longest pause before a fault, seconds.
_PAUSE = 0.5
#: Seconds kept for comparing, and for ending what runs.
_ENDING = 25.0
#: How much longer than at the pace until now the rest of the last sweep may take.
_SLACK = 1.2


class TimeIsUpError(Exception):
    """No time is left but for the comparison."""


def disturb(sweeps: Sweeps, kinds: list[str], moment: random.Random) -> None:
    """Do one fault, and wait for the results after it."""
    time.sleep(moment.uniform(0, _PAUSE))
    (kind,) = moment.choices(kinds, [WEIGHTS[kind] for kind in kinds])
    results, began, outcome = sweeps.results, time.monotonic(), sweeps.outcome
    if not sweeps.running or not FAULTS[kind](sweeps, moment):
        return
    outcome.faults[kind] += 1
    sweeps.mend()
    if sweeps.results < results:
        outcome.lost += results - sweeps.results
        outcome.problems.append(
            f"sweep {sweeps.finished}: {results} results before a fault ({kind}), then fewer"
        )
    sweeps.wait_for_results(results)
    outcome.waits.setdefault(kind, []).append(time.monotonic() - began)
    wait = f"results again after {outcome.waits[kind][-1]:.1f} s"
    print(f"{outcome.faults.total()} {kind}: {wait}", file=sys.stderr, flush=True)


def disturb_sweeps(sweeps: Sweeps, kinds: list[str], moment: random.Random, more: Callable[[], bool]) -> None:
    """Disturb sweep after sweep as long as more faults are wanted; let the last one end in peace."""
    while True:
        try:
            sweeps.mend()
            sweeps.wait_for_results(sweeps.results)
            if sweeps.running and more():
                disturb(sweeps, kinds, moment)
        except StandstillError as fault:
            sweeps.outcome.problems.append(str(fault))
            print(fault, sweeps.log.read_text(errors="replace")[-2000:], file=sys.stderr, flush=True)
            sweeps.end()
        if sweeps.ended:
            sweeps.next()
            if not more():
                return


@contextlib.contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeIsUpError` after some seconds, wherever the program is."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeIsUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds) if seconds is not None else 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(options: argparse.Namespace, kinds: list[str], folder: Path) -> Outcome:
    """Do one run in a folder; return what came of it."""
    outcome, began, cells = Outcome([options.seed]), time.monotonic(), len(space_cells(options.space))
    command = [sys.executable, "-m", "gridtune", "sweep", str(options.space), "--executor", "inline"]
    command += ["--no-tracking", "--quiet", "--out", str(folder / "undisturbed")]

    def more() -> bool:
        if options.faults is not None and outcome.faults.total() >= options.faults:
            return False
        if options.seconds is None:
            return True
        spent = time.monotonic() - began
        done = sweeps.finished * cells + sweeps.results
        rest = (cells - sweeps.results) * spent / max(1, done) * _SLACK
        return bool(spent + rest + _ENDING < options.seconds)

    with contextlib.ExitStack() as stack, own_nodes() as nodes:
        sweeps = Sweeps(options.space.resolve(), folder, nodes, "tracking" in kinds, outcome, cells)
        nodes.patience = STANDSTILL
        sweeps.disk.mkdir()
        if "disk" in kinds:
            stack.enter_context(small_disk(sweeps.disk))
        undisturbed = stack.enter_context(subprocess.Popen(command))
        try:
            with _time_limit(None if options.seconds is None else options.seconds - _ENDING):
                disturb_sweeps(sweeps, kinds, random.Random(options.seed), more)
                undisturbed.wait()
        except TimeIsUpError:
            print("the time is up", file=sys.stderr, flush=True)
        finally:
            if undisturbed.poll() is None:
                undisturbed.kill()
            sweeps.end()
        if undisturbed.wait() == 0:
            compare(outcome, folder / "undisturbed", sweeps.folders, sweeps.finished)
        else:
            outcome.problems.append("the undisturbed sweep did not come to its end: nothing was compared")
        if options.logs is not None:
            shutil.copytree(sweeps.disk, folder / "sweeps")
    outcome.seconds = time.monotonic() - began
    return outcome


def run_side_by_side(options: argparse.Namespace, folder: Path) -> Outcome:
    """Do several runs at once, each in a process and a folder of its own; return their sum."""
    commands = []
    for number in range(options.runs):
        faults = None if options.faults is None else (options.faults + number) // options.runs
        own = {"faults": faults, "seconds": options.seconds, "kinds": options.kinds}
        own |= {"seed": options.seed + number, "logs": options.logs}
        words = [f"--{name}={value}" for name, value in own.items() if value is not None]
        commands.append([sys.executable, "-m", "benchmarks.chaos", str(options.space), *words])
    runs = []
    for seed, command in enumerate(commands, start=options.seed):
        with (folder / f"{seed}.out").open("wb") as out, (folder / f"{seed}.err").open("wb") as errors:
            runs.append(subprocess.Popen(command, stdout=out, stderr=errors))
    outcomes = []
    for seed, process in enumerate(runs, start=options.seed):
        process.wait()
        output = (folder / f"{seed}.out").read_text()
        print(output, flush=True)
        try:
            outcomes.append(Outcome.of_line(output.splitlines()[-1]))
        except (IndexError, ValueError):
            last = (folder / f"{seed}.err").read_text(errors="replace")[-2000:]
            outcomes.append(
                Outcome([seed], problems=[f"seed {seed}: ended with {process.returncode}:\n{last}"])
            )
    return total(outcomes)


def _each(options: argparse.Namespace) -> int:
    """Kill each process in each phase; return the exit code."""
    print_machine()
    kinds = None if options.kinds is None else options.kinds.split(",")
    seed = time.time_ns() % 10**6 if options.seed is None else options.seed
    with contextlib.ExitStack() as stack:
        folder = options.logs or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        folder.mkdir(parents=True, exist_ok=True)
        venues, phases = options.venues.split(","), options.phases.split(",")
        where, seconds = folder.resolve(), math.inf if options.seconds is None else options.seconds
        outcome = kill_in_phases(where, venues, kinds, phases, options.each, seed, seconds)
    outcome.report(sorted(outcome.faults))
    return 0 if outcome.good else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/chaos",
        description=benchmarks.chaos.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "space", type=Path, nargs="?", help="a search space whose cells take some tenths of a second"
    )
    parser.add_argument("--each", type=int, default=None, help="kills of each process in each phase")
    parser.add_argument("--venues", default=",".join(PROCESSES), help="with --each: %(default)s")
    parser.add_argument("--phases", default=",".join(PHASES), help="with --each: %(default)s")
    parser.add_argument("--faults", type=int, default=None, help="how many, in all runs together")
    parser.add_argument(
        "--seconds", type=float, default=None, help="for all of it; the space must take less in one process"
    )
    parser.add_argument("--kinds", default=None, help=f"of faults ({','.join(WEIGHTS)})")
    parser.add_argument("--seed", type=int, default=None, help="of kinds and moments (the clock)")
    parser.add_argument("--runs", type=int, default=1, help="side by side, each with the next seed (1)")
    parser.add_argument("--logs", type=Path, default=None, help="folder that keeps what was written")
    options = parser.parse_args()
    if options.each is not None:
        return _each(options)
    if options.space is None or (options.faults is None and options.seconds is None):
        parser.error("give a space and --faults or --seconds, or --each")
    kinds = list(WEIGHTS) if options.kinds is None else options.kinds.split(",")
    if not set(kinds) <= WEIGHTS.keys():
        parser.error(f"kinds of faults are {', '.join(WEIGHTS)}")
    reason = why_no_disk() if "disk" in kinds else None
    if reason is not None:
        if options.kinds is not None:
            parser.error(f"no disk of memory can be made here: {reason}")
        print(f"no disk is filled, none of memory can be made here: {reason}", file=sys.stderr)
        kinds.remove("disk")
    if options.seed is None:
        options.seed = time.time_ns() % 10**6
    print_machine()
    with contextlib.ExitStack() as stack:
        folder = options.logs or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        if options.runs == 1 and options.logs is not None:
            folder /= f"seed-{options.seed}"
        folder.mkdir(parents=True, exist_ok=True)
        outcome = run_side_by_side(options, folder) if options.runs > 1 else run(options, kinds, folder)
    outcome.report(kinds)
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
