"""`gridtune report`: the tables and figures of a sweep, again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from gridtune.cli.completion import complete_sweeps
from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import read_parameters, read_place

__all__ = ["report"]


@click.command()
@click.argument("results", type=read_place, shell_complete=complete_sweeps)
@click.option("--objective", metavar="METRIC", help="Rank by another metric than the sweep's own.")
@click.option(
    "--baseline",
    "baseline",
    multiple=True,
    metavar="NAME=VALUE",
    help="Compare with the configuration of these parameters; may be given several times.",
)
@click.option(
    "--power", is_flag=True, help="Say how many replicates each comparison needs, and what more would show."
)
@click.option(
    "--effect",
    "effects",
    multiple=True,
    type=click.FloatRange(0, 100, min_open=True, max_open=True),
    metavar="PERCENT",
    help="With --power: an improvement to count replicates for; may be repeated. [default: 1, 5, 10]",
)
@click.option("--all", "every", is_flag=True, help="Print every row, not only the first 30.")
@click.option("--track", is_flag=True, help="Send to the MLflow store what it does not have yet.")
@click.option(
    "--tracking-uri",
    help="The MLflow store, with --track. [default: MLFLOW_TRACKING_URI, else mlflow.db here]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def report(
    results: str | Path,
    objective: str | None,
    baseline: tuple[str, ...],
    power: bool,
    effects: tuple[float, ...],
    every: bool,
    track: bool,
    tracking_uri: str | None,
    as_json: bool,
) -> None:
    """Print the ranking of a sweep that has been run, and write its tables and figures again.

    RESULTS is a sweep's folder, such as results/quickstart, or its URL, where nothing is changed: the
    report is made in a copy here. No cell is run. With --objective or
    --baseline the rankings go into a folder of their own in it, such as
    results/quickstart/report-utilisation, and the sweep's own stay as they are.

    \b
    Examples:
      gridtune report results/quickstart
      gridtune report results/quickstart --objective utilisation
      gridtune report results/quickstart --baseline order=sjf --baseline backfill=easy
      gridtune report results/quickstart --power
      gridtune report s3://bucket/my_space
      gridtune report results/quickstart --track --tracking-uri http://mlflow:5000
    """
    from gridtune.report.sample_size import EFFECTS, print_power
    from gridtune.study import print_study, report_study
    from gridtune.study.report import print_errors, write_power

    if effects and not power:
        raise click.UsageError("--effect goes with --power")

    study = report_study(
        results,
        objective=objective,
        baseline=read_parameters(baseline, "--baseline") if baseline else None,
        tracking=track or tracking_uri is not None,
        tracking_uri=tracking_uri,
    )
    tables: dict[str, Any] = {}
    if power:
        study, tables = write_power(study, tuple(effect / 100 for effect in effects) or EFFECTS)
    if as_json:
        content = study.as_dict()
        if power:
            content["power"] = {name: table.to_pylist() for name, table in tables.items()}
        click.echo(json.dumps(content, allow_nan=False))
        print_errors(study)
    else:
        from gridtune.report.tables import report_console

        console = report_console()
        limit = None if every else 30
        for table in tables.values():
            print_power(table, console, limit=limit)
        print_study(study, console, limit=limit, rankings=not power)
        if isinstance(results, str):
            console.print(f"made in a copy; nothing was changed at {results}", markup=False, soft_wrap=True)
    untracked = study.tracking is not None and not study.tracking.complete
    if untracked or study.report_error is not None:
        sys.exit(EXIT_FAILED_CELLS)
