"""The simulators that gridtune is measured against do the work they are said to do."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from benchmarks.comparators import cpp, plain_numba

MACHINES = {"kth_1k": 100, "syn_5k": 256}


def read_columns(file: Path) -> list[np.ndarray]:
    """Return submit, run, requested and width, read here so that no reader under test is trusted."""
    with gzip.open(file, "rt", encoding="ascii") as lines:
        jobs = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    return [np.array([int(job[field]) for job in jobs]) for field in (1, 3, 8, 7)]


def read_starts(file: Path) -> np.ndarray:
    with file.open(encoding="ascii", newline="") as lines:
        rows = sorted((int(row["job_id"]), int(float(row["start"]))) for row in csv.DictReader(lines))
    return np.array([start for _, start in rows])


@pytest.mark.parametrize("log", MACHINES)
def test_comparators_equal_the_reference_schedules(golden_dir: Path, tmp_path: Path, log: str) -> None:
    columns = read_columns(golden_dir / "batch" / f"{log}.swf.gz")
    references = {
        "none": (read_starts(golden_dir / "batch" / f"fcfs_{log}.csv"), 1.0),
        # That simulator makes a pass after each event of an instant, which moves the starts of a few jobs.
        "easy": (read_starts(golden_dir / "batch" / f"pyss_{log}_easy.csv"), 0.99),
    }
    for rule, (expected, least) in references.items():
        starts, started = plain_numba.simulate(*columns, MACHINES[log], rule == "easy")
        assert started == len(expected)
        assert (starts == expected).mean() >= least
        if cpp.compiler() is None:
            continue
        cpp.write_columns(columns, MACHINES[log], tmp_path / "columns.bin")
        _, started, from_cpp = cpp.run(cpp.build(tmp_path), tmp_path / "columns.bin", rule)
        assert started == len(expected)
        np.testing.assert_array_equal(from_cpp, starts)
