"""What a sweep costs beyond its simulations: 420 cells from a cold shell, tracked in MLflow.

    python -m benchmarks.sweep_overhead
    python -m benchmarks.sweep_overhead --workers 1 2

7 orders × 3 backfillings × 10 windows of 2 logs of about 30,000 jobs. Beside it stands the pure simulation
time: the same 420 calls of `simulate` one after another in one process, without metrics, Ray or files. The
aim is a sweep within 1.5 × pure time / workers + 15 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

import gridtune as gt
from benchmarks.logs import REAL, lublin, real
from benchmarks.measure import arguments, print_machine, print_table

JOBS, WINDOWS = 30_000, 10
# Orders that do not change while a job waits: conservative backfilling reserves by no other.
ORDERS = ["fcfs", "sjf", "ljf", "saf", "edf", "f1", "f4"]
BACKFILLS = ["none", "easy", "conservative-no-compression"]
GRIDTUNE = str(Path(sys.executable).with_name("gridtune"))


def write_logs(folder: Path) -> dict[Path, int]:
    """Write two logs of about 30,000 jobs, real ones where they are to be had; return machine sizes."""
    logs = {}
    for number, name in enumerate(REAL):
        log = real(name)
        workload, processors = log or (lublin(JOBS, 0.7 + 0.1 * number), 256)
        path = folder / f"log{number}.swf"
        gt.write_workload(workload.first(JOBS), path)
        logs[path] = processors
    return logs


def pure_seconds(logs: dict[Path, int]) -> tuple[float, int]:
    """Return the seconds of the simulations alone, and their number."""
    seconds, cells = 0.0, 0
    for path, processors in logs.items():
        windows, _ = zip(
            *(gt.clean(window) for window in gt.read_workload(path).windows(WINDOWS)), strict=True
        )
        for order in ORDERS:
            for backfill in BACKFILLS:
                settings = {"processors": processors, "order": order, "backfill": backfill}
                gt.simulate(windows[0].first(50), **settings)
                before = time.perf_counter()
                cells += sum(len(gt.simulate(window, **settings)) > 0 for window in windows)
                seconds += time.perf_counter() - before
    return seconds, cells


def write_space(logs: dict[Path, int], path: Path) -> None:
    """Write the same simulations down as a search space."""
    space = {
        "name": "overhead",
        "system": "batch",
        "workloads": [{"trace": str(log), "processors": size} for log, size in logs.items()],
        "dimensions": {"order": {"grid": ORDERS}, "backfill": {"grid": BACKFILLS}},
        "replicates": {"windows": WINDOWS},
        "objective": "bounded_slowdown_mean",
        "baseline": {"order": "fcfs", "backfill": "easy"},
    }
    path.write_text(yaml.safe_dump(space, sort_keys=False), encoding="utf-8")


def sweep_seconds(space: Path, workers: int, folder: Path, cache: str) -> tuple[float, dict[str, object]]:
    """Return the wall-clock seconds of the command, and what it reported."""
    folder.mkdir(exist_ok=True)
    command = [GRIDTUNE, "sweep", str(space), "--workers", str(workers), "--json"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    before = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - before
    return seconds, json.loads(done.stdout)


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="(1 2)")
    options = parser.parse_args()
    print_machine()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as cache:
        folder = Path(name)
        logs = write_logs(folder)
        space = folder / "space.yaml"
        write_space(logs, space)
        pure, cells = pure_seconds(logs)
        sweep_seconds(space, max(options.workers), folder / "warm", cache)  # compiles
        rows = []
        for workers in options.workers:
            seconds, report = sweep_seconds(space, workers, folder / f"workers{workers}", cache)
            if report["done"] != cells:
                raise AssertionError(f"{report['done']} of {cells} cells are done")
            again, repeated = sweep_seconds(space, workers, folder / f"workers{workers}", cache)
            if repeated["ran"] != 0:
                raise AssertionError(f"started again, it ran {repeated['ran']} cells")
            figures = (pure, pure / workers, seconds, 1.5 * pure / workers + 15, again)
            rows.append((workers, *(f"{figure:.1f}" for figure in figures)))
    header = ("workers", "pure simulation s", "divided by workers", "the sweep s", "aim s", "started again s")
    print_table(f"A sweep of {cells} cells, from a cold shell, with MLflow", header, rows)


if __name__ == "__main__":
    main()
