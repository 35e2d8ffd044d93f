"""`gridtune merge`: the shards of a sweep, put together."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import read_place

__all__ = ["merge"]


@click.command()
@click.argument("folders", nargs=-1, required=True, type=read_place, metavar="FOLDER…")
@click.option(
    "--out",
    "directory",
    required=True,
    type=read_place,
    metavar="FOLDER",
    help="The folder of the whole sweep, or a URL.",
)
@click.option("--tracking-uri", help="The MLflow store. [default: MLFLOW_TRACKING_URI, else mlflow.db here]")
@click.option("--no-tracking", is_flag=True, help="Leave MLflow out.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end and nothing else.")
def merge(
    folders: tuple[str | Path, ...],
    directory: str | Path,
    tracking_uri: str | None,
    no_tracking: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Put the shards of a sweep together: one journal, and results, ranking and report of the whole.

    FOLDER is a shard's, or one that shards are in; or the URL of either. The tables are those of the
    undivided sweep. Shards and cells that are missing are named, and no report is made without them; two
    different results of one cell are an error.

    \b
    Examples:
      gridtune sweep my_space.yaml --shard 1/2
      gridtune sweep my_space.yaml --shard 2/2
      gridtune merge results/my_space/shards --out results/my_space
      gridtune merge s3://bucket/my_space/shards --out s3://bucket/my_space
    """
    from gridtune.study.run import merge_shards

    merged = merge_shards(
        folders,
        directory,
        tracking=not no_tracking,
        tracking_uri=tracking_uri,
        output="json" if as_json else "quiet" if quiet else "screen",
    )
    if merged.study is not None:
        if as_json:
            click.echo(json.dumps(merged.study.as_dict(), allow_nan=False))
        sys.exit(0 if merged.study.complete else EXIT_FAILED_CELLS)
    if as_json:
        click.echo(
            json.dumps({"cells": merged.cells, "missing": merged.missing, "shards": list(merged.shards)})
        )
    shards = ""
    if merged.shards:
        shards = (
            f", those of shard{'s' if len(merged.shards) > 1 else ''} {', '.join(merged.shards)} among them"
        )
    click.echo(
        f"{merged.missing:,} of {merged.cells:,} cells are missing{shards}; the rest is in {directory}\n"
        f"  `gridtune sweep {merged.source or 'SPACE'} --out {directory}` runs what is missing here,\n"
        "  or merge again with the other folders",
        err=True,
    )
    sys.exit(EXIT_FAILED_CELLS)
