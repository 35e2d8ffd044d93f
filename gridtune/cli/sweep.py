"""`gridtune sweep`: a search space, run on Ray."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.main import EXIT_FAILED_CELLS

if TYPE_CHECKING:
    from rich.console import Console

    from gridtune.study import Study

__all__ = ["sweep"]

#: Cells that a dry run shows.
_SHOWN = 5


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("space", type=click.Path(path_type=Path), metavar="SPACE.yaml")
@click.option("--address", help="A running Ray cluster to join. [default: RAY_ADDRESS, else a local one]")
@click.option("--workers", type=click.IntRange(min=1), help="Cells at once. [default: all processors]")
@click.option(
    "--tracking-uri", help="The MLflow store. [default: MLFLOW_TRACKING_URI, else SQLite in the results]"
)
@click.option("--no-tracking", is_flag=True, help="Leave MLflow out.")
@click.option(
    "--out",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where journal, tables and plots go. [default: results/NAME]",
)
@click.option("--retry-failed", is_flag=True, help="Run cells again that failed, timed out or were lost.")
@click.option("--dry-run", is_flag=True, help="Check the space, count its cells, run nothing.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end and nothing else.")
def sweep(
    space: Path,
    address: str | None,
    workers: int | None,
    tracking_uri: str | None,
    no_tracking: bool,
    directory: Path | None,
    retry_failed: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run the cells of a search space on Ray; rank the configurations, draw them, track them in MLflow.

    Finished cells are kept in a journal. Stopped or killed at any moment, the same command goes on with
    the missing cells; with the space extended, it runs the new ones.

    \b
    Examples:
      gridtune sweep search_spaces/quickstart.yaml
      gridtune sweep my_space.yaml --dry-run
      gridtune sweep my_space.yaml --workers 8 --out results/tuesday
      gridtune sweep my_space.yaml --address ray://head:10001 --tracking-uri http://mlflow:5000
      gridtune sweep my_space.yaml --retry-failed

    Every key of a search space is explained in docs/search_spaces.md.
    """
    if dry_run:
        _dry_run(space, as_json)
        return
    from rich.console import Console

    from gridtune.study import run_sweep
    from gridtune.sweep.progress import Progress

    console = None if quiet or as_json else Console(highlight=False)
    with Progress(console) as progress:
        study = run_sweep(
            space,
            directory=directory,
            address=address,
            workers=workers,
            tracking=not no_tracking,
            tracking_uri=tracking_uri,
            retry_failed=retry_failed,
            progress=progress,
        )
    if console is not None:
        _print(study, console)
    if as_json:
        click.echo(json.dumps(_report(study), allow_nan=False))
    if study.failures:
        sys.exit(EXIT_FAILED_CELLS)


def _print(study: Study, console: Console) -> None:
    """Print the rankings, what failed, and where everything is."""
    from gridtune.report.tables import print_ranking

    for _, ranking in study.summary.tables:
        print_ranking(ranking, console=console)
    for best in study.summary.best:
        console.print(f"best on {best.stratum}: {best}", markup=False, soft_wrap=True)
    bad = [result for result in study.results if result.state != "done"]
    for result in bad[:_SHOWN]:
        lines = (result.error or "no reason known").strip().splitlines()
        console.print(
            f"{result.state} {result.cell_id}: {lines[-1]}", style="red", markup=False, soft_wrap=True
        )
    if bad:
        console.print(
            f"{len(bad)} of {len(study.results)} cells are not done; results.parquet has every error, "
            f"--retry-failed runs them again",
            style="red",
            soft_wrap=True,
        )
    console.print(f"tables, figures and journal: {study.directory}", markup=False, soft_wrap=True)
    if study.tracking is not None:
        console.print(study.tracking.message, markup=False, soft_wrap=True)


def _dry_run(path: Path, as_json: bool) -> None:
    from gridtune.sweep import load_space, space_cells

    space = load_space(path)
    cells = space_cells(space)
    adaptive = space.strategy.optuna
    summary: dict[str, Any] = {
        "name": space.name,
        "cells": len(cells),
        "configurations": len({cell.configuration_id for cell in cells}),
        "workloads": sorted({cell.workload for cell in cells}),
        "replicates": len({cell.replicate.label for cell in cells}),
    }
    if adaptive is not None:
        summary["trials"] = adaptive.trials
    if as_json:
        click.echo(json.dumps(summary))
        return
    click.echo(f"{space.name}: {space.description}" if space.description else space.name)
    click.echo(
        f"{summary['cells']} cells: {summary['configurations']} configurations, each with "
        f"{summary['replicates']} replicates; workloads {', '.join(summary['workloads']) or 'none yet'}"
    )
    if adaptive is not None:
        click.echo(f"and {adaptive.trials} configurations that Optuna will choose")
    for cell in cells[:_SHOWN]:
        given = "  ".join(f"{name}={value}" for name, value in cell.parameters.items())
        click.echo(f"  {cell.cell_id}  {given}  seed={cell.seed}")
    if len(cells) > _SHOWN:
        click.echo(f"  … and {len(cells) - _SHOWN} more")


def _report(study: Study) -> dict[str, Any]:
    from gridtune.sweep.cells import finite_json

    sweep, tracking = study.sweep, study.tracking
    report: dict[str, Any] = finite_json(
        {
            "name": study.facts.name,
            "cells": len(study.results),
            **(dict(sweep.counts) if sweep else {}),
            "ran": sweep.ran if sweep else 0,
            "seconds": sweep.seconds if sweep else None,
            "directory": study.directory,
            "results": sweep.path if sweep else None,
            "best": {best.stratum: dict(best.row) for best in study.summary.best},
            "tracking": tracking.uri if tracking else None,
            "tracked": tracking.complete if tracking else None,
        }
    )
    return report
