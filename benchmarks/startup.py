"""How long the command line takes from a cold shell.

    python -m benchmarks.startup
    python -m benchmarks.startup --cold      # first runs, with nothing compiled yet

Each command is a new process; kernels are compiled before (into a cache of the benchmark's own), files are in
the system's cache.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gridtune as gt
from benchmarks.logs import REAL, lublin, real_path
from benchmarks.measure import arguments, interleave, print_machine, print_table

GRIDTUNE = str(Path(sys.executable).with_name("gridtune"))


def log_to_simulate(folder: Path) -> tuple[Path, int]:
    """Return the KTH log, or one of the same length where it is missing, and its machine's size."""
    path = real_path("KTH")
    if path is not None:
        return path, REAL["KTH"][1]
    path = folder / "lublin-28476.swf.gz"
    gt.write_workload(lublin(28_476, 0.75), path)
    return path, 256


def timed(command: list[str], cache: str) -> Callable[[], float]:
    """Return a function that runs a command once and returns its seconds."""

    def run() -> float:
        before = time.perf_counter()
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        return time.perf_counter() - before

    return run


#: First runs: the options of `gridtune simulate`.
FIRST = (("fcfs",), ("sjf",), ("wfp3",), ("prediction",), ("fcfs", "--backfill", "conservative"))


def cold_starts(folder: Path) -> None:
    """Run simulations with nothing compiled: seconds, and CPU seconds of the process and its children."""
    log, processors = log_to_simulate(folder)
    rows = []
    for place, (order, *options) in enumerate(FIRST):
        command = [
            GRIDTUNE,
            "simulate",
            str(log),
            "--processors",
            str(processors),
            "--order",
            order,
            *options,
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = timed(command, str(folder / f"cache-{place}"))()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rows.append((" ".join((order, *options)), f"{seconds:.1f}", f"{spent:.1f}"))
    print_table(f"The first `gridtune simulate {log.name}`", ("order", "seconds", "CPU seconds"), rows)


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--cold", action="store_true", help="measure first runs, with nothing compiled yet")
    options = parser.parse_args()
    print_machine()
    if options.cold:
        with tempfile.TemporaryDirectory() as folder:
            cold_starts(Path(folder))
        return
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        log, processors = log_to_simulate(Path(folder))
        simulate = [GRIDTUNE, "simulate", str(log), "--processors", str(processors), "--json"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "python -c 'import gridtune'": [sys.executable, "-c", "import gridtune"],
            "gridtune --help": [GRIDTUNE, "--help"],
            "gridtune sweep --help": [GRIDTUNE, "sweep", "--help"],
            f"gridtune simulate {log.name}": simulate,
        }
        first = timed(simulate, cache)()
        contestants = {name: timed(command, cache) for name, command in commands.items()}
        seconds = interleave(contestants, options.rounds)
    rows = [(f"`{name}`", f"{statistics.median(spent):.2f}") for name, spent in seconds.items()]
    rows.append(("the same simulation with nothing compiled yet", f"{first:.1f}"))
    print_table("From a cold shell", ("command", "seconds"), rows)


if __name__ == "__main__":
    main()
