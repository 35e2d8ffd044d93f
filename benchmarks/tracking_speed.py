"""How long 1,000 cells take to get into MLflow.

    python -m benchmarks.tracking_speed

A sweep of tiny simulations is run without tracking; then its results are sent to a fresh SQLite store, as
`gridtune report --track` does: the values that the store is given for each cell, the aggregates, the tables
and figures. Beside it stands what making the report costs without tracking.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path

import gridtune as gt
from benchmarks.logs import lublin
from benchmarks.measure import arguments, print_machine, print_table
from gridtune.study import Study, report_study

ORDERS = ["fcfs", "sjf", "ljf", "saf", "laf", "swf", "lwf", "wfp3", "unicef", "edf"]
SHAPES = {"20 configurations × 50 replicates": (2, 50), "100 configurations × 10 replicates": (10, 10)}


def run(folder: Path, noises: int, replicates: int) -> Study:
    """Run 10 orders × some levels of noise × replicates of a small log."""
    log = folder / "log.swf"
    gt.write_workload(lublin(200, 0.8), log)
    space = {
        "name": "tracking",
        "system": "batch",
        "fixed": {"trace": str(log), "processors": 256, "walltime": "noise"},
        "dimensions": {
            "order": {"grid": ORDERS},
            "noise": {"grid": [round(0.1 * level, 1) for level in range(noises)]},
        },
        "replicates": {"seeds": replicates},
        "objective": "bounded_slowdown_mean",
        "baseline": {"order": "fcfs", "noise": 0.0},
    }
    return gt.run_sweep(space, directory=folder / "sweep", tracking=False, output="quiet")


def stored_metrics(database: Path) -> int:
    """Return how many values the store holds."""
    with sqlite3.connect(database) as connection:
        return int(connection.execute("SELECT count(*) FROM metrics").fetchone()[0])


def main() -> None:
    arguments(__doc__.partition("\n")[0]).parse_args()
    print_machine()
    rows = []
    for shape, (noises, replicates) in SHAPES.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            study = run(folder, noises, replicates)
            cells = len(study.results)
            before = time.perf_counter()
            report_study(study.directory)
            report = time.perf_counter() - before
            database = folder / "mlflow.db"
            before = time.perf_counter()
            tracked = report_study(study.directory, tracking=True, tracking_uri=f"sqlite:///{database}")
            seconds = time.perf_counter() - before
            if tracked.tracking is None or not tracked.tracking.complete or cells != 1000:
                raise AssertionError(f"{cells} cells, {tracked.tracking}")
            values = stored_metrics(database)
        rows.append((shape, f"{cells:,}", f"{values:,}", f"{seconds:.1f}", f"{report:.1f}"))
    header = ("sweep", "cells", "values stored", "report and tracking s", "of that the report alone s")
    print_table("Tracking in a fresh SQLite store", header, rows)


if __name__ == "__main__":
    main()
