"""`gridtune sweep`: a search space, run on Ray."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.completing import complete_spaces
from gridtune.cli.main import EXIT_FAILED_CELLS

if TYPE_CHECKING:
    from gridtune.sweep.space import SearchSpace

__all__ = ["sweep"]

#: Cells that a dry run shows.
_SHOWN = 5


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "space", type=click.Path(path_type=Path), metavar="SPACE.yaml", shell_complete=complete_spaces
)
@click.option("--address", help="A running Ray cluster to join. [default: RAY_ADDRESS, else a local one]")
@click.option("--workers", type=click.IntRange(min=1), help="Cells at once. [default: all processors]")
@click.option("--tracking-uri", help="The MLflow store. [default: MLFLOW_TRACKING_URI, else mlflow.db here]")
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
      gridtune sweep my_space.yaml --address head:6379 --tracking-uri http://mlflow:5000
      gridtune sweep my_space.yaml --retry-failed

    Every key of a search space is explained in docs/search_spaces.md.
    """
    if dry_run:
        _dry_run(space, as_json)
        return
    from gridtune.study import run_sweep

    study = run_sweep(
        space,
        directory=directory,
        address=address,
        workers=workers,
        tracking=not no_tracking,
        tracking_uri=tracking_uri,
        retry_failed=retry_failed,
        output="json" if as_json else "quiet" if quiet else "screen",
    )
    if as_json:
        click.echo(json.dumps(study.as_dict(), allow_nan=False))
    if not study.complete:
        sys.exit(EXIT_FAILED_CELLS)


def _dry_run(path: Path, as_json: bool) -> None:
    from gridtune.core.system import get_system
    from gridtune.sweep import load_space, space_cells
    from gridtune.sweep.plan import most_cells, space_strata

    space = load_space(path)
    cells = space_cells(space)
    adaptive = space.strategy.adaptive
    summary: dict[str, Any] = {
        "name": space.name,
        "cells": len(cells),
        "configurations": len({cell.configuration_id for cell in cells}),
        "workloads": sorted(stratum.label for stratum in space_strata(space, get_system(space.system))),
        "replicates": space.replicates.count,
    }
    if adaptive is not None:
        summary |= {"trials": adaptive.trials, "most_cells": most_cells(space)}
    if as_json:
        click.echo(json.dumps(summary))
        return
    click.echo(f"{space.name}: {space.description}" if space.description else space.name)
    click.echo(f"{_heading(space, summary)}; workloads {', '.join(summary['workloads'])}")
    for cell in cells[:_SHOWN]:
        parameters = "  ".join(f"{name}={value}" for name, value in cell.parameters.items())
        click.echo(f"  {cell.cell_id}  {parameters}  seed={cell.seed}")
    if len(cells) > _SHOWN:
        click.echo(f"  … and {len(cells) - _SHOWN:,} more")


def _heading(space: SearchSpace, summary: dict[str, Any]) -> str:
    """Return how many cells there are, or will be at most, and what they are made of."""
    replicates = _count(summary["replicates"], "replicate")
    if space.strategy.adaptive is None:
        configurations = _count(summary["configurations"], "configuration")
        each = ", each" if summary["configurations"] > 1 else ""
        return f"{_count(summary['cells'], 'cell')}: {configurations}{each} with {replicates}"
    baseline = "the baseline and " if summary["cells"] else ""
    configurations = f"{_count(summary['trials'], 'configuration')} that {space.strategy.kind} chooses"
    heading = f"up to {_count(summary['most_cells'], 'cell')}: {baseline}{configurations}, {replicates} each"
    stopping = space.strategy.stopping
    if stopping is None:
        return heading
    steps = "replicate after replicate"
    if stopping.resource is not None:
        values = len(space.dimensions[stopping.resource].grid or ())
        steps = f"for one after another of {values} values of {stopping.resource}"
    return f"{heading}, {steps}; most are stopped early"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
