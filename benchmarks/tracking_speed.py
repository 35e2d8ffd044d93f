"""What tracking adds to a sweep of cells that cost nothing.

    python -m benchmarks.tracking_speed

Made-up results of a finished sweep are tracked as a sweep does it: the runs of configurations with their
parameters, the means of all metrics, the objective's replicates and places in the ranking, the sweep's own
run, the experiment's description. Ranking and drawing are no part of it. Each row has a fresh database and
processes of its own, so importing MLflow's client is counted. The client works in a process beside.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import arguments, print_machine, print_table
from gridtune.core.cells import CellResult
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.summarising import summarise
from gridtune.sweep.journal.results import results_table
from gridtune.tracking.store import _make_database
from gridtune.tracking.tracker import MlflowTracker

REPLICATES = 10
METRICS = (
    "bounded_slowdown_mean",
    "wait_mean",
    "utilisation",
    "makespan",
    *(f"other_{n}" for n in range(67)),
)
#: Configurations.
CASES = (200, 1_000, 10_000)


def made_up(configurations: int) -> tuple[list[CellResult], SweepFacts]:
    """Return the results of a sweep and its facts."""
    rng = np.random.default_rng(1)
    results = []
    for number in range(configurations):
        configuration = {
            "trace": "log.swf",
            "order": f"order{number % 10}",
            "noise": number // 10,
            "kill": True,
        }
        for replicate in range(REPLICATES):
            values = rng.lognormal(3, 1, len(METRICS))
            results.append(
                CellResult(
                    cell_id=f"c{number}-{replicate}",
                    configuration_id=f"c{number}",
                    workload="log",
                    configuration=configuration,
                    replicate=f"window {replicate + 1}/{REPLICATES}",
                    seed=replicate,
                    traces={"log.swf": "ab" * 32},
                    parameters=configuration,
                    state="done",
                    metrics=dict(zip(METRICS, map(float, values), strict=True)),
                )
            )
    facts = SweepFacts(
        sweep_id="1",
        name="tracking",
        description="What does tracking cost?",
        system="batch",
        system_version="1",
        objectives=(ObjectiveFacts(METRICS[0], "min"),),
        baseline={"order": "order0", "noise": 0},
        dimensions=("order", "noise"),
        replicates=REPLICATES,
        cells=len(results),
        workloads={"log.swf": "ab" * 32},
    )
    return results, facts


def track(configurations: int, folder: str) -> tuple[float, float, float, int, int]:
    """Return seconds of tracking, CPU seconds of this process and of that beside, runs and values."""
    results, facts = made_up(configurations)
    table = results_table(results)
    summary = summarise(table, facts)
    database = Path(folder, "mlflow.db")
    began, busy = time.perf_counter(), time.process_time()
    tracker = MlflowTracker(f"sqlite:///{database}")
    tracker.begin(facts, Path(folder))
    tracker.add(results)
    tracker.publish(summary)
    outcome = tracker.close()
    seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    # The times of the process beside count when it has ended.
    tracker._outbox._thread.join()
    beside = os.times()
    if not outcome.complete:
        raise AssertionError(outcome.message)
    with sqlite3.connect(database) as connection:
        runs, values = (
            int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
            for table in ("runs", "metrics")
        )
    return seconds, cpu, beside.children_user + beside.children_system, runs, values


def database_seconds(folder: str) -> tuple[float, float]:
    """Return the seconds that the first database of a user takes, and any other."""
    os.environ["XDG_CACHE_HOME"] = folder
    times = []
    for name in ("first.db", "second.db"):
        before = time.perf_counter()
        _make_database(Path(folder, name))
        times.append(time.perf_counter() - before)
    return times[0], times[1]


def main() -> None:
    arguments(__doc__.partition("\n")[0]).parse_args()
    print_machine()
    rows = []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        with tempfile.TemporaryDirectory() as folder:
            first, second = pool.apply(database_seconds, (folder,))
        for configurations in CASES:
            with tempfile.TemporaryDirectory() as folder:
                seconds, cpu, beside, runs, values = pool.apply(track, (configurations, folder))
            cells = configurations * REPLICATES
            costs = (f"{seconds:.2f}", f"{cpu:.2f}", f"{beside:.2f}")
            rows.append((f"{cells:,}", f"{runs:,}", f"{values:,}", *costs))
    header = ("cells", "runs", "values", "seconds", "CPU seconds", "beside")
    print_table("Tracking in a fresh SQLite store", header, rows)
    print(f"\na user's first database: {first:.1f} s; any other: {second:.3f} s")


if __name__ == "__main__":
    main()
