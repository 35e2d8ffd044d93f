"""Results of cells as a sweep hands them on, and the facts that go with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridtune.core.cells import CellResult
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.sweep.journal.journal import Journal
from gridtune.sweep.journal.results import results_table, write_table

CHECKSUM = "ab" * 32


def cell_results(
    configurations: int = 3,
    replicates: int = 4,
    *,
    workload: str = "log",
    failed: Sequence[tuple[int, int]] = (),
) -> list[CellResult]:
    """Return results; `failed` holds (configuration, replicate)."""
    rng = np.random.default_rng(1)
    hardness = rng.lognormal(5, 1, replicates)
    results = []
    for number in range(configurations):
        for replicate in range(replicates):
            bad = (number, replicate) in failed
            wait = float(hardness[replicate] * (1 + 0.1 * number))
            metrics = {"wait_mean": wait, "utilisation": 0.7, "makespan": 1e6, "stretch_p99": wait / 10}
            configuration = {"trace": f"{workload}.swf", "order": f"order{number}", "kill": True}
            results.append(
                CellResult(
                    cell_id=f"{workload}-c{number:04d}-r{replicate:02d}",
                    configuration_id=f"{workload}-c{number:04d}",
                    workload=workload,
                    configuration=configuration,
                    replicate=f"window {replicate + 1}/{replicates}",
                    seed=replicate,
                    traces={f"{workload}.swf": CHECKSUM},
                    parameters={**configuration, "window": f"{replicate + 1}/{replicates}"},
                    state="failed" if bad else "done",
                    metrics={} if bad else metrics,
                    error="SimulationError: it broke" if bad else None,
                    seconds=math.nan if bad else 0.01,
                    worker="host:1",
                )
            )
    return results


def sweep_facts(replicates: int = 4, **changes: Any) -> SweepFacts:
    """Return the facts of a sweep with these results."""
    values: dict[str, Any] = {
        "sweep_id": "0123456789abcdef",
        "name": "orders",
        "description": "Which order is best?",
        "system": "batch",
        "system_version": "1",
        "objectives": (ObjectiveFacts("wait_mean", "min", "s"),),
        "baseline": {"order": "order0"},
        "dimensions": ("order",),
        "replicates": replicates,
        "cells": 12,
        "workloads": {"log.swf": CHECKSUM},
        "space": {"name": "orders"},
    }
    return SweepFacts(**{**values, **changes})


def study_folder(folder: Path, results: Sequence[CellResult], facts: SweepFacts) -> Mapping[str, Path]:
    """Write a folder as a finished sweep leaves it."""
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(results)
    facts.write(folder)
    write_table(results_table(results), folder / "results.parquet")
    return {"results": folder / "results.parquet"}
