"""Simulated waits beside those of queueing theory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from gridtune.core.style import PALETTE, figure, head, save
from gridtune.core.system import FinishedSweep

__all__ = ["write"]


def write(sweep: FinishedSweep) -> list[Path]:
    """Write `waits_and_theory.csv` and its figure; nothing where no cell has a wait that theory knows."""
    table = _waits(sweep.table)
    if table is None or table.num_rows == 0:
        return []
    path = sweep.directory / "waits_and_theory.csv"
    pa_csv.write_csv(table, path)
    return [path, _figure(table, sweep.directory / "plots" / "waits_and_theory.png")]


def _waits(cells: pa.Table) -> pa.Table | None:
    """Return a row for each configuration: its parameters, mean waits, and their relative difference."""
    measured, theory = "metric.wait_mean", "metric.wait_mean_theory"
    if measured not in cells.column_names:
        return None
    cells = cells.filter((pc.field("state") == "done") & ~pc.is_nan(pc.field(theory)))
    names = [name for name in cells.column_names if name.startswith("param.")]
    means = cells.group_by(["configuration_id", *names], use_threads=False).aggregate(
        [(measured, "mean"), (theory, "mean"), (measured, "count")]
    )
    wait, expected = means[f"{measured}_mean"], means[f"{theory}_mean"]
    columns = {name.removeprefix("param."): means[name] for name in names}
    columns |= {"cells": means[f"{measured}_count"], "wait_mean": wait, "wait_mean_theory": expected}
    return pa.table({**columns, "difference": pc.subtract(pc.divide(wait, expected), 1.0)})


def _figure(table: pa.Table, path: Path) -> Path:
    expected, wait = (table[name].to_numpy() for name in ("wait_mean_theory", "wait_mean"))
    with figure(5.0, 4.5) as (drawing, axes):
        head(axes, "Mean wait", "simulated, beside queueing theory")
        ends = [min(expected.min(), wait.min()), max(expected.max(), wait.max())]
        axes.plot(ends, ends, color="#999999", linewidth=1)
        axes.plot(expected, wait, "o", color=PALETTE[0])
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("theory, s")
        axes.set_ylabel("simulated, s")
        return save(drawing, path)
