"""What tracking adds to a sweep of cells that cost nothing.

    python -m benchmarks.tracking_speed

Made-up results of a finished sweep are tracked as a sweep does it: the runs of configurations with their
parameters, replicates and places in the ranking, the sweep's own run, the experiment's description. Ranking
and drawing are no part of it. Each row is a process of its own with a fresh database, so importing what
writes to the store is counted. Beside the way that sweeps write to a database stands MLflow's client.
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
from gridtune.report.summary import summarise
from gridtune.sweep.journal.results import results_table
from gridtune.tracking import tracker as tracker_module
from gridtune.tracking.client_store import ClientStore
from gridtune.tracking.store import connect, make_database
from gridtune.tracking.tracker import MlflowTracker

REPLICATES = 10
METRICS = (
    "bounded_slowdown_mean",
    "wait_mean",
    "utilisation",
    "makespan",
    *(f"other_{n}" for n in range(20)),
)
#: Configurations, and whether through MLflow's client.
CASES = ((200, False), (200, True), (1_000, False), (10_000, False))


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


def track(configurations: int, through_client: bool, folder: str) -> tuple[float, float, int, int]:
    """Return wall-clock and CPU seconds of tracking, the runs and the values stored."""
    results, facts = made_up(configurations)
    summary = summarise(results_table(results), facts)
    if through_client:
        tracker_module.open_store = lambda uri: ClientStore(connect(uri))
    database = Path(folder, "mlflow.db")
    began, busy = time.perf_counter(), time.process_time()
    tracker = MlflowTracker(f"sqlite:///{database}")
    tracker.begin(facts, Path(folder))
    tracker.add(results)
    tracker.publish(summary)
    outcome = tracker.close()
    seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    if not outcome.complete:
        raise AssertionError(outcome.message)
    with sqlite3.connect(database) as connection:
        runs, values = (
            int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
            for table in ("runs", "metrics")
        )
    return seconds, cpu, runs, values


def database_seconds(folder: str) -> tuple[float, float]:
    """Return the seconds that the first database of a user takes, and any other."""
    os.environ["XDG_CACHE_HOME"] = folder
    times = []
    for name in ("first.db", "second.db"):
        before = time.perf_counter()
        make_database(Path(folder, name))
        times.append(time.perf_counter() - before)
    return times[0], times[1]


def main() -> None:
    arguments(__doc__.partition("\n")[0]).parse_args()
    print_machine()
    rows = []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        with tempfile.TemporaryDirectory() as folder:
            first, second = pool.apply(database_seconds, (folder,))
        for configurations, through_client in CASES:
            with tempfile.TemporaryDirectory() as folder:
                seconds, cpu, runs, values = pool.apply(track, (configurations, through_client, folder))
            cells = configurations * REPLICATES
            way = "MLflow's client" if through_client else "database"
            costs = (f"{seconds:.2f}", f"{cpu:.2f}", f"{1000 * seconds / cells:.3f}")
            rows.append((f"{cells:,}", way, f"{runs:,}", f"{values:,}", *costs))
    header = ("cells", "written through", "runs", "values", "seconds", "CPU seconds", "ms per cell")
    print_table("Tracking in a fresh SQLite store", header, rows)
    print(f"\na user's first database: {first:.1f} s; any other: {second:.3f} s")


if __name__ == "__main__":
    main()
