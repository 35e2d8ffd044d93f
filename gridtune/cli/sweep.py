"""`gridtune sweep`: run a search space."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gridtune.cli.completing import complete_settings, complete_spaces
from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.values import read_place, read_settings

if TYPE_CHECKING:
    from gridtune.study.run import Output
    from gridtune.sweep.space.schema import SearchSpace

__all__ = ["sweep"]

#: States of cells that `--retry all` runs again.
RETRIED = frozenset({"failed", "timed_out", "lost"})


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "space", type=click.Path(path_type=Path), metavar="SPACE.yaml", shell_complete=complete_spaces
)
@click.option("--address", help="A running Ray cluster to join. [default: RAY_ADDRESS, else a local one]")
@click.option("--workers", type=click.IntRange(min=1), help="Cells at once. [default: all processors]")
@click.option(
    "--executor",
    type=click.Choice(["auto", "inline", "ray"]),
    help="Where cells run: inline (in this process), ray (in workers), or auto: in this process while all of "
    "them are a few seconds of work. [default: the space's, else auto]",
)
@click.option("--tracking-uri", help="The MLflow store. [default: MLFLOW_TRACKING_URI, else mlflow.db here]")
@click.option("--no-tracking", is_flag=True, help="Leave MLflow out.")
@click.option(
    "--out",
    "directory",
    type=read_place,
    metavar="FOLDER",
    help="Where journal, tables and plots go: a folder, or a URL such as s3://bucket/run. "
    "[default: results/NAME]",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete_settings,
    help="Override a value of the space, or narrow a dimension to it; see above.",
)
@click.option("--objective", metavar="METRIC", help="Rank by this metric instead of the space's.")
@click.option(
    "--retry",
    multiple=True,
    type=click.Choice(["failed", "timed_out", "lost", "all"]),
    help="Run cells again that ended so; may be given several times.",
)
@click.option("--retry-failed", is_flag=True, hidden=True, help="The same as --retry all.")
@click.option(
    "--shard",
    metavar="K/N",
    help="Run only the K-th of N parts of the cells, into results/NAME/shards/K-of-N; see gridtune merge.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check the space, count its cells, those that are done and those that are missing; run nothing.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end and nothing else.")
def sweep(
    space: Path,
    address: str | None,
    workers: int | None,
    executor: Literal["auto", "inline", "ray"] | None,
    tracking_uri: str | None,
    no_tracking: bool,
    directory: str | Path | None,
    settings: tuple[str, ...],
    objective: str | None,
    retry: tuple[str, ...],
    retry_failed: bool,
    shard: str | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run the cells of a search space; rank the configurations, draw them, track them in MLflow.

    Finished cells are kept in a journal. Stopped or killed at any moment, the same command goes on with
    the missing cells; with the space extended, it runs the new ones. A few seconds of work are done in this
    process; more, and every sweep with --workers or --address, is done by workers on Ray.

    \b
    Examples:
      gridtune sweep search_spaces/quickstart.yaml
      gridtune sweep my_space.yaml --dry-run
      gridtune sweep my_space.yaml --workers 8 --out results/tuesday
      gridtune sweep my_space.yaml --address head:6379 --tracking-uri http://mlflow:5000
      gridtune sweep my_space.yaml --out s3://bucket/my_space
      gridtune sweep my_space.yaml --retry failed --retry lost
      gridtune sweep my_space.yaml --set order=sjf --set order=saf --set replicates.windows=5
      gridtune sweep my_space.yaml --shard 3/16

    \b
    --set NAME=VALUE is as if the file said so:
      a dimension         is narrowed to the value; given several times, to these. The baseline's stays.
      a fixed parameter   gets the value; so does a parameter that the file does not set
      a workload's (trace=…, or workload=LABEL): only the workloads that have the value are run
      baseline.NAME, replicates.seeds, .windows, .shakes, .amount: get the value

    Every key of a search space is explained in docs/search_spaces.md.
    """
    from gridtune.sweep import load_space
    from gridtune.sweep.space.overriding import override

    checked = load_space(space)
    if settings or objective is not None:
        checked = override(checked, read_settings(settings, "--set"), objective=objective)
    again = RETRIED if retry_failed or "all" in retry else frozenset(retry)
    if dry_run:
        if shard is not None:
            raise click.UsageError("--dry-run counts the cells of the whole space: leave --shard out.")
        from gridtune.cli.dry_run import dry_run as print_plan

        print_plan(checked, directory, retry=again, workers=workers, as_json=as_json)
        return
    if shard is not None:
        if tracking_uri is not None:
            raise click.UsageError("--shard tracks nothing: give --tracking-uri to gridtune merge.")
        options: dict[str, Any] = {"directory": directory, "address": address, "workers": workers}
        options |= {"executor": executor, "retry_failed": again}
        _run_shard(checked, shard, output="json" if as_json else "quiet" if quiet else "screen", **options)
        return
    from gridtune.study.finished import finished_answer

    began = time.monotonic()
    answer = None
    if not isinstance(directory, str):
        answer = finished_answer(checked, directory, tracking=not no_tracking, uri=tracking_uri)
    if answer is not None:
        if as_json:
            click.echo(json.dumps({**answer.content, "seconds": time.monotonic() - began}))
        elif not quiet:
            click.echo(answer.screen, nl=False)
        return
    from gridtune.study import run_sweep

    study = run_sweep(
        checked,
        directory=directory,
        address=address,
        workers=workers,
        executor=executor,
        tracking=not no_tracking,
        tracking_uri=tracking_uri,
        retry_failed=again,
        output="json" if as_json else "quiet" if quiet else "screen",
    )
    if as_json:
        click.echo(json.dumps(study.as_dict(), allow_nan=False))
    if not study.complete:
        sys.exit(EXIT_FAILED_CELLS)


def _run_shard(checked: SearchSpace, text: str, *, output: Output, **options: Any) -> None:
    from gridtune.study.shards import run_shard
    from gridtune.sweep.shards import Shard

    shard = Shard.parse(text)
    result = run_shard(checked, shard, output=output, **options)
    folder = options["directory"] or result.path.parent
    if output == "json":
        numbers = {"shard": str(shard), "cells": len(result.results), "ran": result.ran, **result.counts}
        click.echo(json.dumps({**numbers, "directory": str(folder)}))
    elif output == "screen":
        states = ", ".join(f"{count:,} {state}" for state, count in result.counts.items() if count)
        click.echo(f"shard {shard}: {len(result.results):,} cells ({states or 'none'}) in {folder}")
        around = str(folder).rpartition("/")[0]
        click.echo(f"  when all {shard.count} are there: gridtune merge {around} --out FOLDER")
    if not result.complete:
        sys.exit(EXIT_FAILED_CELLS)
