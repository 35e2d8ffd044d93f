"""Tables of cells as a sweep leaves them, with effects that are known because they were put in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from gridtune.report.rankings.cells import read_cells
from gridtune.report.rankings.combined import rank_overall
from gridtune.report.rankings.ranking import Ranking, rank

#: Effect of each value on the objective, as a factor.
EFFECTS: dict[Any, float] = {
    "fcfs": 1.0,
    "sjf": 0.72,
    "ljf": 1.6,
    "saf": 0.69,
    "wfp3": 0.9,
    "unicef": 0.99,
    "f1": 0.66,
    "none": 3.2,
    "easy": 1.0,
    "conservative": 1.06,
}
MACHINES = {"ctc-sp2": 338, "kth-sp2": 100, "nasa-ipsc": 128}


def sweep_table(
    dimensions: Mapping[str, Sequence[Any]],
    *,
    workloads: Sequence[str] = ("ctc-sp2", "kth-sp2"),
    replicates: int = 10,
    failed: Sequence[tuple[str, int]] = (),
    seed: int = 1,
) -> pa.Table:
    """Return a table of cells; `failed` holds (value of a parameter, replicate) of cells that failed."""
    rng = np.random.default_rng(seed)
    rows = []
    for workload in workloads:
        hardness = rng.lognormal(9 if workload == "ctc-sp2" else 8, 0.5, replicates)
        for values in product(*dimensions.values()):
            parameters = dict(zip(dimensions, values, strict=True))
            label = hashlib.sha256(repr((workload, values)).encode()).hexdigest()[:20]
            factor = np.prod([EFFECTS.get(value, 1.0) for value in values])
            factor *= np.exp(4 * (parameters.get("load", 0.8) - 0.8))
            for replicate in range(replicates):
                bad = any((value, replicate) in failed for value in values)
                wait = hardness[replicate] * factor * rng.lognormal(0, 0.08)
                rows.append(
                    {
                        "cell_id": f"{label}{replicate:02d}",
                        "configuration_id": label,
                        "workload": workload,
                        "trace": f"{workload}.swf.gz",
                        "replicate": f"window {replicate + 1}/{replicates}",
                        "state": "failed" if bad else "done",
                        "error": "it broke" if bad else None,
                        "seconds": 0.1,
                        "worker": "host:1",
                        "param.trace": f"{workload}.swf.gz",
                        "param.processors": MACHINES[workload],
                        **{f"param.{name}": value for name, value in parameters.items()},
                        "metric.wait_mean": None if bad else wait,
                        "metric.utilisation": None if bad else 0.7 + 0.05 * rng.random() / factor,
                    }
                )
    return pa.Table.from_pylist(rows)


def ranking_of(
    table: pa.Table,
    *,
    baseline: Mapping[str, Any] | None,
    group_by: Sequence[str] = ("workload",),
    **options: Any,
) -> Ranking:
    """Return the ranking of a table within each stratum."""
    return rank(read_cells(table, baseline, group_by), **options)


def overall_of(table: pa.Table, *, baseline: Mapping[str, Any] | None, **options: Any) -> Ranking | None:
    """Return the ranking of a table over all workloads."""
    cells = read_cells(table, baseline)
    return rank_overall(cells, rank(cells, **options).head)
