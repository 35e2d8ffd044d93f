"""How many bytes a job costs while it is simulated.

    python -m benchmarks.memory

What the process holds at its highest during `simulate`, beyond what it held before; Linux only. The allocator
is told to give large blocks back at once, or memory freed earlier would be used again and not be seen.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path

import gridtune as gt
from benchmarks.logs import lublin
from benchmarks.measure import print_machine, print_table

ALLOCATOR = ("MALLOC_MMAP_THRESHOLD_", "65536")


def resident(field: str) -> int:
    """Return a figure of this process's memory in bytes: VmRSS now, VmHWM at its highest."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def forget_highest() -> None:
    """Let this process's highest use of memory begin with what it uses now; Linux only."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def measure(backfill: str, jobs: int) -> tuple[str, ...]:
    """Return a row of the table."""
    workload = lublin(jobs, 0.75)
    workload_bytes = sum(column.nbytes for column in (*workload.columns.values(), workload.processors))
    gt.simulate(workload.first(100), processors=256, backfill=backfill)  # compiles
    gc.collect()
    before = resident("VmRSS")
    forget_highest()
    schedule = gt.simulate(workload, processors=256, backfill=backfill)
    highest = resident("VmHWM") - before
    schedule_bytes = sum(part.nbytes for part in (schedule.start_time, schedule.end_time, schedule.state))
    figures = (workload_bytes / jobs, highest / jobs, schedule_bytes / jobs)
    return (f"{backfill}, {jobs:,} jobs", *(f"{figure:.0f}" for figure in figures))


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("this system does not tell a process's highest use of memory")
    name, value = ALLOCATOR
    if os.environ.get(name) != value:
        os.environ[name] = value  # read when a process starts: so start again
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.memory"])
    print_machine()
    rows = [measure("easy", 1_000_000), measure("conservative-no-compression", 200_000)]
    header = ("simulation", "the workload itself", "on top of it while simulating", "of that the schedule")
    print_table("Memory, bytes per job", header, rows)


if __name__ == "__main__":
    main()
