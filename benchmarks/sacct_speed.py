"""CPU seconds and memory that a dump of sacct takes to read, and those of pyarrow for splitting it alone.

    python -m benchmarks.sacct_speed [LINES]

The dump is made up: a million lines of 21 columns, half of them steps, and one in ten thousand with bars in a
job's name. Linux only, for the memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gridtune as gt
from benchmarks.measure import print_machine, print_table
from benchmarks.memory import resident

NAMES = (
    "JobID|JobIDRaw|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|Elapsed|Timelimit"
    "|ReqCPUS|AllocCPUS|NNodes|ReqMem|ReqTRES|AllocTRES|NodeList"
)


def write_dump(path: Path, lines: int) -> None:
    """Write a dump of so many lines below the header."""
    rng = np.random.default_rng(1)
    jobs = lines // 2
    submit = np.datetime64("2024-01-01T00:00:00") + np.cumsum(rng.integers(0, 60, jobs))
    start = submit + rng.integers(0, 20_000, jobs)
    run = rng.integers(1, 86_400, jobs)
    end = start + run
    cpus = rng.integers(1, 128, jobs)
    users = rng.integers(1, 400, jobs)
    with path.open("w", encoding="ascii") as file:
        file.write(NAMES + "\n")
        for k in range(jobs):
            hours, seconds = divmod(int(run[k]), 3600)
            name = f"run|{k}" if k % 5000 == 0 else f"run{k % 9000}"
            spent = f"{hours:02d}:{seconds // 60:02d}:{seconds % 60:02d}"
            tres = f"billing={cpus[k]},cpu={cpus[k]},mem={2 * cpus[k]}G,node=1"
            times = f"{submit[k]}|{submit[k]}|{start[k]}|{end[k]}|{spent}"
            file.write(
                f"{k}|{k}|{name}|u{users[k]}|a{users[k] % 40}|cpu|normal|COMPLETED|{times}|1-00:00:00"
                f"|{cpus[k]}|{cpus[k]}|1|{2 * cpus[k]}G|{tres}|{tres}|n{k % 900}\n"
                f"{k}.batch|{k}.batch|batch||a{users[k] % 40}|||COMPLETED|{times}|"
                f"|{cpus[k]}|{cpus[k]}|1||||n{k % 900}\n"
            )


def with_gridtune(path: Path) -> int:
    return len(gt.read_workload(path))


def with_pyarrow(path: Path) -> int:
    from pyarrow import csv  # noqa: PLC0415

    options = csv.ParseOptions(delimiter="|", quote_char=False, invalid_row_handler=lambda row: "skip")
    return len(csv.read_csv(path, csv.ReadOptions(use_threads=False), options))


def measured(read: Callable[[Path], int], path: Path) -> tuple[str, ...]:
    """Return jobs or lines read, CPU seconds and the process's highest memory, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_row, (read, path))


def _row(read: Callable[[Path], int], path: Path) -> tuple[str, ...]:
    before = time.process_time()
    count = read(path)
    return f"{count:,}", f"{time.process_time() - before:.1f}", f"{resident('VmHWM') / 1e9:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "lines", nargs="?", type=int, default=1_000_000, help="lines of the dump (default: a million)"
    )
    lines = parser.parse_args().lines
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "dump.txt")
        write_dump(path, lines)
        size = path.stat().st_size / 1e6
        rows = [
            (name, *measured(read, path))
            for name, read in (("gridtune", with_gridtune), ("pyarrow", with_pyarrow))
        ]
    header = ("reader", "jobs or lines", "CPU seconds", "highest memory, GB")
    print_table(f"Reading {lines:,} lines of sacct, {size:.0f} MB", header, rows)


if __name__ == "__main__":
    main()
