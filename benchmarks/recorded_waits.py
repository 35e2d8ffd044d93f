"""How near the simulated EASY comes to what a real EASY scheduler did.

The KTH log was made by an SP2 that ran the EASY scheduler and recorded every job's wait. This replays the
same jobs under our EASY, its variants and plain queueing, and sets the waits beside the recorded ones.

    python -m benchmarks.recorded_waits [LOG]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

import gridtune as gt
from gridtune.workload.catalogue import resolve_trace

POLICIES = [
    ("easy", {}),
    ("easy-per-event", {}),
    ("easy", {"kill": False}),
    ("easy", {"walltime": "exact"}),
    ("conservative", {}),
    ("none", {}),
]


def row(name: str, waits: np.ndarray, recorded: np.ndarray, run: np.ndarray) -> list[str]:
    slowdown = np.maximum((waits + run) / np.maximum(run, 10), 1)
    correlation = spearmanr(waits, recorded).statistic
    near = np.abs(waits - recorded) <= 600
    return [
        name,
        f"{waits.mean():,.0f}",
        f"{np.median(waits):,.0f}",
        f"{np.quantile(waits, 0.95):,.0f}",
        f"{(waits == 0).mean():.1%}",
        f"{slowdown.mean():,.1f}",
        f"{near.mean():.1%}",
        f"{correlation:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "log", nargs="?", default="kth-sp2", help="a log that records waits, or a catalogued trace (kth-sp2)"
    )
    workload = gt.read_workload(resolve_trace(parser.parse_args().log))
    known = workload.wait_time >= 0
    if not known.any():
        sys.exit(f"{workload.name} records no waits")
    recorded, run = workload.wait_time[known], workload.run_time[known]
    table = Table(title=f"{workload.name}: {known.sum():,} recorded waits")
    for head in (
        "scheduler",
        "mean s",
        "median s",
        "p95 s",
        "no wait",
        "mean bsld",
        "within 10 min",
        "rank corr.",
    ):
        table.add_column(head, justify="left" if head == "scheduler" else "right")
    table.add_row(*row("recorded", recorded, recorded, run))
    for backfill, options in POLICIES:
        schedule = gt.simulate(workload, order="fcfs", backfill=backfill, **options)
        name = " ".join([backfill, *(f"{key}={value}" for key, value in options.items())])
        table.add_row(*row(name, schedule.wait_time[known], recorded, run))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
