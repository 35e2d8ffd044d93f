"""How many workers one driver keeps busy: cells that sleep, on a Ray of as many logical processors as wanted.

    python -m benchmarks.scale --workers 16 64 --naps 0.1 1
    python -m benchmarks.scale --workers 1 2 --naps 0.1 --cells 2000
    python -m benchmarks.scale --workers 8 --naps 0.01 --report-every 0

Sleeping cells take no processor, so two cores carry many workers; each is a process with some 120 MB of its
own. The efficiency is the time that cells take divided by what the workers had, from the moment when all were
there to the last result; in the whole command, starting and ending Ray is in it too. The driver's CPU seconds
are those of all its threads; a driver that takes a whole core can do no more. `--report-every 0` makes every
cell a report: a few workers then ask as much of the driver as hundreds.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kills import descendants
from benchmarks.measure import arguments, print_machine, print_table
from gridtune.sweep.execution.cluster import processors_here

#: Seconds that the workers run cells when all are there, at least.
_SECONDS = 20.0
#: Seconds that Ray takes to start, and processor seconds of a worker's start: those that are there run cells.
_RAY_SECONDS, _WORKER_SECONDS = 10.0, 3.0
HEADER = ("workers", "nap s", "cells", "cells/s", "efficiency", "of the whole command", "reports/s")
HEADER += ("driver's core in use", "driver's CPU ms per report", "MB per worker")


class Clock:
    """Notes when all workers were there and when results came; an observer and a stage of a sweep."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.complete: tuple[float, float] | None = None
        self.last = (0.0, 0.0)
        self.results = self.reports = 0
        self.memory = 0.0

    def stage(self, what: str, busy: int) -> None:
        """Note when all workers are busy for the first time."""
        if busy == self.workers and self.complete is None:
            self.complete = (time.monotonic(), time.process_time())

    def started(self, plan: Any) -> None:
        """Do nothing."""

    def finished(self, results: Sequence[Any]) -> None:
        """Count results that came when all workers were there."""
        if self.complete is None:
            return
        self.results += len(results)
        self.reports += 1
        self.last = (time.monotonic(), time.process_time())
        if not self.memory:
            self.memory = worker_megabytes()

    def ended(self, result: Any) -> None:
        """Do nothing."""


def worker_megabytes() -> float:
    """Return the memory that a worker of this process shares with nobody; the median."""
    private = []
    for process in descendants(os.getpid()):
        entry = Path("/proc", str(process))
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes().startswith(b"ray::Simulator"):
                lines = (entry / "smaps_rollup").read_text().splitlines()
                private.append(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")))
    return median(private) / 1024 if private else math.nan


def run(workers: int, nap: float, cells: int, every: float | None) -> dict[str, Any]:
    """Run a sweep in this process; return its figures."""
    from gridtune.sweep.execution import blocks  # noqa: PLC0415
    from gridtune.sweep.run import run_space  # noqa: PLC0415

    if every is not None:
        blocks._REPORT_SECONDS, blocks._REPORT_SECONDS_PER_WORKER = every, 0.0
    clock = Clock(workers)
    space = {
        "name": "scale",
        "system": "naps",
        "plugins": [str(Path(__file__).with_name("naps.py"))],
        "fixed": {"nap": nap},
        "dimensions": {"number": [1]},
        "replicates": {"seeds": cells},
        "objective": "value",
    }
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run_space(
            space, directory=folder, executor="ray", workers=workers, observers=[clock], stage=clock.stage
        )
    whole = time.monotonic() - began
    if clock.complete is None:
        sys.exit(f"{cells} cells were done before all {workers} workers were there: give more --cells")
    seconds, processor = (last - first for last, first in zip(clock.last, clock.complete, strict=True))
    return {
        "rate": clock.results / seconds,
        "efficiency": clock.results * nap / workers / seconds,
        "whole": cells * nap / workers / whole,
        "reports": clock.reports / seconds,
        "core": processor / seconds,
        "per_report": 1000 * processor / clock.reports,
        "memory": clock.memory,
    }


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[16], help="(16)")
    parser.add_argument("--naps", type=float, nargs="+", default=[0.1, 1.0], help="seconds of a cell (0.1 1)")
    parser.add_argument("--cells", type=int, default=None, help=f"(start and {_SECONDS:g} s)")
    parser.add_argument("--report-every", type=float, default=None, help="seconds, instead of gridtune's own")
    parser.add_argument("--one", action="store_true", help="run one sweep here and print its figures as JSON")
    options = parser.parse_args()
    if options.one:
        (workers,), (nap,) = options.workers, options.naps
        print(json.dumps(run(workers, nap, options.cells, options.report_every)))
        return
    print_machine()
    rows = []
    for workers in options.workers:
        for nap in options.naps:
            starting = _RAY_SECONDS + _WORKER_SECONDS * workers / processors_here()
            cells = options.cells or int(workers * (starting + _SECONDS) / nap)
            command = [sys.executable, "-m", "benchmarks.scale", "--one", "--workers", str(workers)]
            command += ["--naps", str(nap), "--cells", str(cells)]
            if options.report_every is not None:
                command += ["--report-every", str(options.report_every)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            figures = json.loads(done.stdout.splitlines()[-1])
            shares = (f"{figures[name]:.2f}" for name in ("efficiency", "whole"))
            rest = f"{figures['reports']:.1f}", f"{figures['core']:.2f}", f"{figures['per_report']:.1f}"
            row = (workers, f"{nap:g}", cells, f"{figures['rate']:.1f}", *shares, *rest)
            rows.append((*row, f"{figures['memory']:.0f}"))
    print_table("Workers of one driver", HEADER, rows)


if __name__ == "__main__":
    main()
