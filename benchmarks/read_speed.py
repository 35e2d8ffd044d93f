"""How fast logs are read into columns, compared with pandas and with a plain loop.

    python -m benchmarks.read_speed
    python -m benchmarks.read_speed LOG.swf.gz

Every reader must give the same submit times, run times and processors, or the benchmark fails.
"""

from __future__ import annotations

import gzip
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import gridtune as gt
from benchmarks.logs import ROOT, lublin
from benchmarks.measure import arguments, interleave, median_ratio, print_machine, print_table

REAL = "LCG-2005-1.swf.gz"
SUBMIT, RUN = 1, 3


def with_gridtune(path: Path) -> tuple[np.ndarray, np.ndarray]:
    workload = gt.read_workload(path)
    return workload.submit_time, workload.run_time


def with_pandas(path: Path) -> tuple[np.ndarray, np.ndarray]:
    table = pd.read_csv(path, sep=r"\s+", comment=";", header=None, compression="gzip")
    return table[SUBMIT].to_numpy(), table[RUN].to_numpy()


def by_hand(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(path, "rt", encoding="latin-1") as lines:
        jobs = [list(map(float, line.split())) for line in lines if line.strip() and not line.startswith(";")]
    columns = np.array(jobs)
    return columns[:, SUBMIT], columns[:, RUN]


READERS = {"gridtune": with_gridtune, "pandas": with_pandas, "line by line": by_hand}


def log_to_read(folder: Path) -> Path:
    """Return the LCG log, or a generated one of the same length if it is missing."""
    traces = Path(os.environ.get("GRIDTUNE_TRACE_DIR", ROOT.parent / "shared" / "traces"))
    if (traces / "swf" / REAL).is_file():
        return traces / "swf" / REAL
    path = folder / "lublin-188041.swf.gz"
    gt.write_workload(lublin(188_041, 0.75), path)
    return path


def timed(read: Callable[[Path], tuple[np.ndarray, np.ndarray]], path: Path) -> Callable[[], float]:
    """Return a function that reads once, compares with gridtune's columns and returns the seconds."""
    expected = with_gridtune(path)

    def run() -> float:
        before = time.perf_counter()
        columns = read(path)
        seconds = time.perf_counter() - before
        for column, expected_column in zip(columns, expected, strict=True):
            np.testing.assert_array_equal(column, expected_column)
        return seconds

    return run


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("log", nargs="?", type=Path, help="an SWF log, gzipped; by default LCG-2005-1")
    options = parser.parse_args()
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        path = options.log or log_to_read(Path(folder))
        jobs = len(gt.read_workload(path))
        seconds = interleave({name: timed(read, path) for name, read in READERS.items()}, options.rounds)
    rows = [
        (name, f"{statistics.median(spent):.2f}", f"{median_ratio(spent, seconds['gridtune']):.1f}")
        for name, spent in seconds.items()
    ]
    print_table(f"Reading {path.name} ({jobs:,} jobs)", ("reader", "seconds", "times gridtune's time"), rows)


if __name__ == "__main__":
    main()
