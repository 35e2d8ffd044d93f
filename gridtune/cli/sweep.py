"""`gridtune sweep`: a search space, run on Ray."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.main import EXIT_FAILED_CELLS

if TYPE_CHECKING:
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
        click.echo(json.dumps(_report(study), allow_nan=False))
    if study.failures:
        sys.exit(EXIT_FAILED_CELLS)


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
