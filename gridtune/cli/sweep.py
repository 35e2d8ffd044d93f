"""`gridtune sweep` and `gridtune results merge`: run a search space, estimate it, join its shards."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import (
    JSON,
    NO_TRACKING,
    QUIET,
    TRACKING_URI,
    WORKERS,
    complete_settings,
    complete_spaces,
    read_place,
    read_settings,
)
from gridtune.cli.tables import print_json

if TYPE_CHECKING:
    from gridtune.core.cells import Cell, CellResult
    from gridtune.study.run import Output
    from gridtune.sweep.space.plan import PlannedSpace
    from gridtune.sweep.space.schema import SearchSpace

__all__ = ["merge", "sweep"]

#: States of cells that `--retry all` runs again.
_RETRIED = frozenset({"failed", "timed_out", "lost"})


@click.command()
@click.argument(
    "space", type=click.Path(path_type=Path), metavar="SPACE.yaml", shell_complete=complete_spaces
)
@click.option("--address", help="A running Ray cluster to join. [default: RAY_ADDRESS, else a local one]")
@WORKERS
@click.option(
    "--executor",
    type=click.Choice(["auto", "inline", "ray"]),
    help="Where cells run: inline (in this process), ray (in workers), or auto: in this process while all of "
    "them are a few seconds of work. [default: the space's, else auto]",
)
@TRACKING_URI
@NO_TRACKING
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
    help="Run only the K-th of N parts of the cells, into results/NAME/shards/K-of-N.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check the space, count its cells, those that are done and those that are missing; run nothing.",
)
@QUIET
@JSON
def sweep(
    space: Path,
    tracking_uri: str | None,
    no_tracking: bool,
    settings: tuple[str, ...],
    objective: str | None,
    retry: tuple[str, ...],
    retry_failed: bool,
    shard: str | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
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
    from gridtune.sweep.space.overriding import override
    from gridtune.sweep.space.plan import plan_space

    plan = plan_space(space)
    if settings or objective is not None:
        plan = override(plan, read_settings(settings, "--set"), objective=objective)
    directory: str | Path | None = options["directory"]
    again = _RETRIED if retry_failed or "all" in retry else frozenset(retry)
    if dry_run:
        if shard is not None:
            raise click.UsageError("--dry-run counts the cells of the whole space: leave --shard out.")
        _print_plan(plan, directory, retry=again, workers=options["workers"], as_json=as_json)
        return
    options |= {"retry_failed": again, "output": "json" if as_json else "quiet" if quiet else "screen"}
    if shard is not None:
        if tracking_uri is not None:
            raise click.UsageError("--shard tracks nothing: give --tracking-uri to gridtune results merge.")
        _run_shard(plan, shard, **options)
        return
    from gridtune.study.finished import finished_answer

    began = time.monotonic()
    answer = None
    if not isinstance(directory, str):
        answer = finished_answer(plan, directory, tracking=not no_tracking, uri=tracking_uri)
    if answer is not None:
        screen, content = answer
        if as_json:
            print_json({**content, "seconds": time.monotonic() - began})
        elif not quiet:
            click.echo(screen, nl=False)
        return
    from gridtune.study import run_sweep

    options |= {"tracking": not no_tracking, "tracking_uri": tracking_uri}
    study = run_sweep(plan, **options)
    if as_json:
        print_json(study.as_dict())
    if not study.complete:
        sys.exit(EXIT_FAILED_CELLS)


def _run_shard(plan: PlannedSpace, text: str, *, output: Output, **options: Any) -> None:
    from gridtune.study.run import run_shard
    from gridtune.sweep.shards import Shard

    shard = Shard.parse(text)
    result = run_shard(plan, shard, output=output, **options)
    folder = options["directory"] or result.path.parent
    if output == "json":
        numbers = {"shard": str(shard), "cells": len(result.results), "ran": result.ran, **result.counts}
        print_json({**numbers, "directory": folder})
    elif output == "screen":
        states = ", ".join(f"{count:,} {state}" for state, count in result.counts.items() if count)
        click.echo(f"shard {shard}: {len(result.results):,} cells ({states or 'none'}) in {folder}")
        around = str(folder).rpartition("/")[0] or "."
        click.echo(f"  when all {shard.count} are there: gridtune results merge {around} --out FOLDER")
    if not result.complete:
        sys.exit(EXIT_FAILED_CELLS)


#: Cells that are shown.
_SHOWN = 5


def _print_plan(
    plan: PlannedSpace,
    folder: str | Path | None,
    *,
    retry: Collection[str],
    workers: int | None,
    as_json: bool,
) -> None:
    """Print how many cells there are, are done and are missing, and about how long those take.

    Parameters
    ----------
    plan
        The space.
    folder
        The sweep's folder or URL; by default the folder of its name.
    retry
        States of cells that are to be run again.
    workers
        Cells at once; by default what the space says, else as many as there are processors.
    as_json
        Print one JSON object.
    """
    from gridtune.sweep.journal.journal import JOURNAL_NAME, read_journal
    from gridtune.sweep.remote.results import has_sweep, view_sweep
    from gridtune.sweep.run import default_directory

    space = plan.space
    count = plan.count
    plan.preflight()
    folder = folder or default_directory(space)
    results: Mapping[str, CellResult] = {}
    if has_sweep(folder):
        with view_sweep(folder) as view:
            results = read_journal(view.folder / JOURNAL_NAME)
    adaptive = space.strategy.adaptive
    summary: dict[str, Any] = {
        "name": space.name,
        "cells": count,
        "configurations": len(plan.configurations),
        "workloads": sorted(stratum.label for stratum in plan.strata),
        "replicates": space.replicates.count,
    }
    if adaptive is not None:
        summary |= {"trials": adaptive.trials, "most_cells": plan.most}
    summary |= _progress(plan, results, retry, workers)
    if as_json:
        print_json(summary)
        return
    click.echo(f"{space.name}: {space.description}" if space.description else space.name)
    click.echo(f"{_heading(space, summary)}; workloads {', '.join(summary['workloads'])}")
    click.echo(_progress_text(summary, folder))
    shown = list(islice((cell for cell in plan.iterate() if not _is_finished(cell, results, retry)), _SHOWN))
    for cell in shown:
        parameters = "  ".join(f"{name}={value}" for name, value in cell.parameters.items())
        click.echo(f"  {cell.cell_id}  {parameters}  seed={cell.seed}")
    if summary["missing"] > len(shown):
        up_to = "up to " if "most_cells" in summary else ""
        click.echo(f"  … and {up_to}{summary['missing'] - len(shown):,} more")


def _is_finished(cell: Cell, results: Mapping[str, CellResult], retry: Collection[str]) -> bool:
    result = results.get(cell.cell_id)
    return result is not None and result.state not in retry


def _progress(
    plan: PlannedSpace,
    results: Mapping[str, CellResult],
    retry: Collection[str],
    workers: int | None,
) -> dict[str, Any]:
    """Return what is done and missing, and about how long that takes; of a strategy that decides, at most."""
    own: dict[str, CellResult] = dict(results)
    if plan.space.strategy.adaptive is None:
        own = {key: result for key, result in results.items() if plan.has(result)}
    # Which cells a strategy that decides will choose is not known; its journal has those of its choices.
    left = max(0, plan.most - sum(result.state not in retry for result in own.values()))
    taken = [result.seconds for result in own.values() if result.state == "done" and isfinite(result.seconds)]
    seconds = left * sum(taken) / len(taken) if taken else None
    states = Counter(result.state for result in own.values())
    resources = plan.space.resources
    at_once = workers or resources.workers or int((os.cpu_count() or 1) / (resources.cpus or 1))
    at_once = max(1, min(at_once, left))
    return {
        "done": states["done"],
        **{state: states[state] for state in ("failed", "timed_out", "lost")},
        "missing": left,
        "workers": at_once,
        "seconds_left": None if seconds is None else seconds / at_once,
    }


def _progress_text(summary: Mapping[str, Any], folder: str | Path) -> str:
    from gridtune.report.labels import count_text

    bad = {state: summary[state] for state in ("failed", "timed_out", "lost") if summary[state]}
    counts = [
        f"{summary['done']:,} done",
        *(f"{count:,} {state.replace('_', ' ')}" for state, count in bad.items()),
    ]
    # Which of them a strategy that decides comes to is not known.
    up_to, about = ("up to ", "at most") if summary["missing"] and "most_cells" in summary else ("", "about")
    text = f"in {folder}: {', '.join(counts)}, {up_to}{summary['missing']:,} to run"
    if not summary["missing"]:
        return text
    if summary["seconds_left"] is None:
        return f"{text}; how long that takes is not known before a cell has been run"
    workers = count_text(summary["workers"], "worker")
    time = _duration(summary["seconds_left"])
    return f"{text}: {about} {time} with {workers}, start and report not counted"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _heading(space: SearchSpace, summary: dict[str, Any]) -> str:
    """Return how many cells there are, or will be at most, and what they are made of."""
    from gridtune.report.labels import count_text

    replicates = count_text(summary["replicates"], "replicate")
    if space.strategy.adaptive is None:
        configurations = count_text(summary["configurations"], "configuration")
        each = ", each" if summary["configurations"] > 1 else ""
        return f"{count_text(summary['cells'], 'cell')}: {configurations}{each} with {replicates}"
    baseline = "the baseline and " if summary["cells"] else ""
    configurations = f"{count_text(summary['trials'], 'configuration')} that {space.strategy.kind} chooses"
    heading = (
        f"up to {count_text(summary['most_cells'], 'cell')}: {baseline}{configurations}, {replicates} each"
    )
    stopping = space.strategy.stopping
    if stopping is None:
        return heading
    steps = "replicate after replicate"
    if stopping.resource is not None:
        values = len(space.dimensions[stopping.resource].grid or ())
        steps = f"for one after another of {values} values of {stopping.resource}"
    return f"{heading}, {steps}; most are stopped early"


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
@TRACKING_URI
@NO_TRACKING
@QUIET
@JSON
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
      gridtune results merge results/my_space/shards --out results/my_space
      gridtune results merge s3://bucket/my_space/shards --out s3://bucket/my_space
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
            print_json(merged.study.as_dict())
        sys.exit(0 if merged.study.complete else EXIT_FAILED_CELLS)
    if as_json:
        print_json({"cells": merged.cells, "missing": merged.missing, "shards": merged.shards})
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
