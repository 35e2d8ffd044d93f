"""The logs that benchmarks run on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import gridtune as gt
from gridtune.workload.workload import Workload

ROOT = Path(__file__).resolve().parent.parent
REAL = {
    "CTC (reconstructed)": ("CTC-SP2-1996-reconstructed.swf.gz", 338),
    "KTH": ("KTH-SP2-1996-2.1-cln.swf.gz", 100),
}
#: Logs that speed alone is measured on.
MORE = {
    "NASA": ("NASA-iPSC-1993-3.1-cln.swf.gz", 128),
    "LCG": ("LCG-2005-1.swf.gz", 24_515),
}


def lublin(jobs: int, load: float) -> Workload:
    """Return a Lublin-Feitelson log for 256 processors."""
    return gt.generate_workload("lublin", jobs=jobs, seed=1, processors=256, load=load)


def crowded(jobs: int, load: float) -> Workload:
    """Return a log for 8,192 processors, where batches of like jobs come; at a load of 1.5 thousands wait."""
    return gt.generate_workload("sessions", jobs=jobs, seed=1, processors=8192, load=load)


def real_path(name: str) -> Path | None:
    """Return the path of a real log, or None if it is missing."""
    folder = Path(os.environ.get("GRIDTUNE_TRACE_DIR", ROOT.parent / "shared" / "traces"))
    file = folder / "swf" / (REAL | MORE)[name][0]
    return file if file.is_file() else None


def real(name: str) -> tuple[Workload, int] | None:
    """Return a real log, cleaned by the default rules, and its machine's size; None if it is missing."""
    file = real_path(name)
    if file is None:
        return None
    workload, _ = gt.clean(gt.read_workload(file))
    return workload, (REAL | MORE)[name][1]


def columns(workload: Workload) -> list[np.ndarray]:
    """Return submit, run and requested times and processors: all that EASY needs."""
    named = (workload.submit_time, workload.run_time, workload.requested_time, workload.processors)
    return [np.array(column, dtype=np.int64) for column in named]
