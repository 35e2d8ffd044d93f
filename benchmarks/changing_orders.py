"""The speed of queue orders that change while jobs wait, beside C++ that sorts the queue in every pass.

    python -m benchmarks.changing_orders growth      # a queue that grows
    python -m benchmarks.changing_orders real        # real logs, beside C++ and the scan
    python -m benchmarks.changing_orders conservative   # that backfilling, beside fcfs and C++

CPU time of one thread, the whole call of `simulate`; for C++ the simulation alone. `scanned` is gridtune with
the same score written so that it cannot be read as a formula: every pass scores all waiting jobs. The
benchmark fails unless the start times of all are equal.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numba import njit

import gridtune as gt
from benchmarks import logs
from benchmarks.comparators import cpp
from benchmarks.measure import arguments, interleave, median_ratio, print_machine, print_table, rate
from gridtune.batch.policies import QueueOrder, get_queue_order, queue_order_names
from gridtune.workload.workload import Workload


@gt.queue_order("benchmark-own")
def own(job, weight=1.0):
    """Narrow jobs first; an hour of waiting counts like a processor less."""
    return job.processors - weight * job.wait / 3600


MIXED = "user_usage / 3600 - 2 * wait / walltime"
ORDERS = [
    "wfp3",
    "unicef",
    "xfactor",
    "fair-user",
    "benchmark-own",
    "-processors * (wait / walltime) ** 3",
    MIXED,
]
#: Those that the C++ loop has.
IN_CPP = ("wfp3", "unicef", "xfactor")
#: Jobs of generated logs for conservative backfilling; twice as many take the C++ loop six times as long.
CROWDS = (5_000, 10_000, 20_000)


def scanned(name: str) -> QueueOrder:
    """Return an order with a score that is no formula."""
    order = get_queue_order(name)
    score, parameters = njit(order.score), tuple(order.parameters.values())

    def opaque(job):
        return score(job, *parameters)

    return QueueOrder(f"scanned-{name}", opaque, "")


def seconds_of(
    run: Callable[[], np.ndarray], expected: np.ndarray | None, rounds: int
) -> tuple[float, np.ndarray]:
    """Return the least CPU time of some rounds, and the start times; fail if they are not those expected."""
    best = float("inf")
    for _ in range(rounds):
        before = time.process_time()
        starts = run()
        best = min(best, time.process_time() - before)
        if expected is not None and not np.array_equal(starts, expected):
            raise AssertionError("the start times differ")
    return best, starts


def simulation(
    log: Workload, processors: int, order: str | QueueOrder, backfill: str
) -> Callable[[], np.ndarray]:
    """Return a function that simulates once; it is compiled already."""

    def run(jobs: Workload = log) -> np.ndarray:
        return gt.simulate(jobs, processors=processors, order=order, backfill=backfill).start_time

    run(log.first(100))
    return run


def growth(options: argparse.Namespace) -> None:
    """Orders on a log, and on logs of twice and four times as many jobs at the same load."""
    sizes = [logs.lublin(options.jobs * factor, 1.2) for factor in (1, 2, 4)]
    for backfill in ("easy", "none"):
        rows = []
        for order in ORDERS:
            spent = []
            for log in sizes:
                run = simulation(log, 256, order, backfill)
                spent.append(seconds_of(run, None, options.rounds)[0] / len(log))
            ratios = [f"{later / earlier:.2f}" for earlier, later in pairwise(spent)]
            rows.append((order, *(rate(1, [seconds]) for seconds in spent), *ratios))
        header = ("order", *(f"{len(log):,} jobs" for log in sizes), "growth", "growth")
        print_table(f"Lublin, load 1.2, {backfill}: jobs/s", header, rows)


def real(options: argparse.Namespace) -> None:
    """Orders on real logs."""
    with tempfile.TemporaryDirectory() as folder:
        program = cpp.build(Path(folder))
        for name in logs.REAL:
            log = logs.real(name)
            for backfill in ("easy", "none") if log else ():
                rows = [contest(*log, order, backfill, program, options.rounds) for order in ORDERS]
                print_table(f"{name}, {backfill}: jobs/s", ("order", "gridtune", "scanned", "C++"), rows)


def conservative(options: argparse.Namespace) -> None:
    """Conservative backfilling on real logs and in queues that grow, beside fcfs and C++."""
    tried = [(name, *log) for name in logs.REAL if (log := logs.real(name))]
    tried += [(f"Lublin, load 1.2, {jobs:,} jobs", logs.lublin(jobs, 1.2), 256) for jobs in CROWDS]
    with tempfile.TemporaryDirectory() as folder:
        program = cpp.build(Path(folder), "conservative")
        rows = [(name, *reserve(log, size, program, options.rounds)) for name, log, size in tried]
    header = ["fcfs", *(f"{order}: time / {other}" for order in IN_CPP for other in ("fcfs", "C++"))]
    print_table("Conservative backfilling: jobs/s, and times beside it", ("log", *header), rows)


def reserve(log: Workload, processors: int, program: Path, rounds: int) -> list[str]:
    """Return a row: the jobs/s of fcfs, and each order's time over that of fcfs and over that of C++."""
    runs = {order: simulation(log, processors, order, "conservative") for order in ("fcfs", *IN_CPP)}
    starts = {order: run() for order, run in runs.items()}
    file = program.with_suffix(".columns")
    cpp.write_columns(logs.columns(log), processors, file)

    def run_cpp(order: str) -> float:
        seconds, _, theirs = cpp.run(program, file, "conservative", order, cpu=True)
        if not np.array_equal(theirs, starts[order]):
            raise AssertionError(f"{order}, conservative: C++ has other start times")
        return seconds

    contestants = {
        order: partial(lambda run: seconds_of(run, None, 1)[0], run) for order, run in runs.items()
    }
    contestants |= {f"C++ {order}": partial(run_cpp, order) for order in IN_CPP}
    seconds = interleave(contestants, rounds)
    pairs = [(order, other) for order in IN_CPP for other in ("fcfs", f"C++ {order}")]
    ratios = [f"{median_ratio(seconds[order], seconds[other]):.2f}" for order, other in pairs]
    return [rate(len(log), seconds["fcfs"]), *ratios]


def contest(
    log: Workload, processors: int, order: str, backfill: str, program: Path, rounds: int
) -> list[str]:
    """Return a row: the order, and the jobs that gridtune, the scan and C++ simulate in a second."""
    seconds, starts = seconds_of(simulation(log, processors, order, backfill), None, rounds)
    row = [order, rate(len(log), [seconds]), "", ""]
    if order in queue_order_names():
        run = simulation(log, processors, scanned(order), backfill)
        row[2] = rate(len(log), [seconds_of(run, starts, 1)[0]])
    if order in IN_CPP:
        file = program.with_suffix(".columns")
        cpp.write_columns(logs.columns(log), processors, file)
        seconds, _, theirs = cpp.run(program, file, backfill, order, cpu=True)
        if not np.array_equal(theirs, starts):
            raise AssertionError(f"{order}, {backfill}: C++ has other start times")
        row[3] = rate(len(log), [seconds])
    return row


SECTIONS = {"growth": growth, "real": real, "conservative": conservative}


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all of them by default")
    parser.add_argument("--jobs", type=int, default=50_000, help="the least of three sizes (50000)")
    options = parser.parse_args()
    print_machine()
    for section in options.sections or SECTIONS:
        SECTIONS[section](options)


if __name__ == "__main__":
    main()
