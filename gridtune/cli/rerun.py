"""`gridtune rerun`: a sweep's cell again, compared with what the journal has of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gridtune.cli.completion import complete_sweeps
from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import read_place
from gridtune.cli.run import check_out, write_tables

if TYPE_CHECKING:
    from gridtune.study.stored import CellAgain

__all__ = ["rerun"]

#: Differences of a cell that are shown.
_SHOWN = 20


@click.command()
@click.argument("cell")
@click.argument("folder", required=False, type=read_place, shell_complete=complete_sweeps)
@click.option(
    "--tracking-uri", help="The MLflow store of RUN_ID. [default: MLFLOW_TRACKING_URI, else mlflow.db here]"
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write the cell's tables (its schedule) as Parquet: FILE.parquet or a folder; with several cells a "
    "folder with one for each.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def rerun(
    cell: str, folder: str | Path | None, tracking_uri: str | None, out: Path | None, as_json: bool
) -> None:
    """Run a cell of a sweep again, and say whether every metric is the same number, to the last bit.

    CELL is a cell's id, or a beginning of it that fits no other; the column `cell_id` of results.csv has
    them. It is looked for in FOLDER (or at a URL), or in all sweeps in results/. CELL may also be the id of a
    configuration's run in MLflow, whose cells are then all run again: that works on any machine that has
    the log.

    The exit code is 0 if everything is identical, and 1 otherwise.

    \b
    Examples:
      gridtune rerun 3f9c02 results/quickstart
      gridtune rerun 3f9c02 --out schedule.parquet
      gridtune rerun 0f3b9c1e5d7a4b62a8c4e6f0123456ab --tracking-uri http://mlflow:5000
    """
    from gridtune.study.stored import find_cells, rerun_cells
    from gridtune.sweep.journal.journal import sweep_folders

    if out is not None:
        check_out(out)
    folders: list[str | Path] = [folder] if folder is not None else [*sweep_folders()]
    facts, results = find_cells(cell, folders, tracking_uri=tracking_uri)
    cells = []
    for again in rerun_cells(facts, results, tables=out is not None):
        cells.append(again)
        if not as_json:
            _print(again)
        if out is not None and again.tables:
            write_tables(again.tables, out if len(results) == 1 else out / again.before.cell_id)
    identical = all(again.identical for again in cells)
    if as_json:
        content = {"identical": identical, "cells": [again.as_dict() for again in cells]}
        click.echo(json.dumps(content, allow_nan=False))
    if not identical:
        sys.exit(EXIT_FAILED_CELLS)


def _print(again: CellAgain) -> None:
    from gridtune.report.labels import value_text

    before = again.before
    parameters = "  ".join(f"{name}={value_text(value)}" for name, value in before.parameters.items())
    click.echo(f"cell {before.cell_id}  {before.workload}, {before.replicate}")
    click.echo(f"  {parameters}  seed={before.seed}")
    for change in again.changed:
        click.echo(f"  another cell now: {change}")
    if again.error is not None:
        then = "it was done" if before.state == "done" else f"it was {before.state.replace('_', ' ')}, too"
        click.echo(f"  failed ({then}): {again.error}")
    elif before.state != "done":
        click.echo(
            f"  done now, in {again.seconds:.3g} s; it was {before.state.replace('_', ' ')}: {before.error}"
        )
    elif again.identical:
        click.echo(f"  identical: {len(again.metrics)} metrics, in {again.seconds:.3g} s")
    else:
        _print_differences(again)


def _print_differences(again: CellAgain) -> None:
    differences = again.differences
    click.echo(f"  {len(differences)} of {len(again.metrics)} metrics differ:")
    for name, (then, now) in list(differences.items())[:_SHOWN]:
        click.echo(f"    {name}: {then!r} then, {now!r} now")
    if len(differences) > _SHOWN:
        click.echo(f"    … and {len(differences) - _SHOWN} more; --json lists all")
