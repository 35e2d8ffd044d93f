"""`gridtune run` and `gridtune reproduce`: a cell of a system, and the experiments of a paper."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import (
    FILE,
    JSON,
    PLUGINS,
    QUIET,
    WORKERS,
    SystemCommand,
    complete_parameters,
    complete_sweeps,
    complete_systems,
    read_place,
    track_options,
)
from gridtune.cli.tables import new_table, print_json, print_tracked

if TYPE_CHECKING:
    import pyarrow as pa

    from gridtune.core.system import System
    from gridtune.report.reproduction import Reproduced
    from gridtune.study.stored import CellAgain
    from gridtune.sweep.execution.runner import CellRun

__all__ = ["parse_parameters", "reproduce", "rerun", "run", "tell_tracked"]

#: Items of a note that are shown.
_SHOWN = 5


def tell_tracked(
    system: System,
    parameters: Mapping[str, Any],
    *,
    seed: int,
    key: str,
    metrics: Mapping[str, float],
    traces: Mapping[str, str],
    files: Iterable[Path],
    uri: str | None,
) -> None:
    """Track a cell that was run, and say where; the same cell is the same run."""
    from gridtune.report.labels import configuration_label
    from gridtune.tracking.content import code_tags
    from gridtune.tracking.single import track_once

    tracked = track_once(
        f"run {system.name}",
        configuration_label(parameters, list(parameters)),
        key,
        metrics=metrics,
        parameters={**parameters, "seed": seed},
        tags=code_tags(system.name, system.version),
        traces=traces,
        files=files,
        uri=uri,
    )
    print_tracked(tracked)


@click.command(cls=SystemCommand)
@click.argument("system", shell_complete=complete_systems)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=complete_parameters)
@click.option(
    "--parameters",
    "file",
    type=FILE,
    metavar="FILE",
    help="YAML or JSON file of parameters, such as `gridtune results export` writes; KEY=VALUE goes before.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The cell's seed.")
@JSON
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write the cell's tables as Parquet: a single one to FILE.parquet, else NAME.parquet each into the "
    "folder PATH.",
)
@track_options
@PLUGINS
def run(
    system: str,
    parameters: tuple[str, ...],
    file: Path | None,
    seed: int,
    as_json: bool,
    out: Path | None,
    track: bool,
    tracking_uri: str | None,
    plugins: tuple[Path, ...],
) -> None:
    """Run one cell of SYSTEM with parameters KEY=VALUE, and print its metrics.

    `gridtune run SYSTEM --help` explains the system's common parameters, and with --all every one. A cell
    of a sweep is run again, to the last bit, by giving its parameters and its seed.

    \b
    Examples:
      gridtune run batch --help
      gridtune run batch --help --all
      gridtune run batch trace=quickstart order=sjf backfill=easy
      gridtune run batch trace=my.swf.gz processors=128 walltime=noise noise=0.5 --seed 3
      gridtune run batch trace=kth-sp2 window=3/10 --json
      gridtune run batch --parameters best.yaml load=1.2
      gridtune run batch trace=quickstart order=sjf --out schedule.parquet --track
    """
    from gridtune.core.system import get_system
    from gridtune.core.user_code.plugins import load_plugins
    from gridtune.sweep.execution.runner import run_cell

    load_plugins(plugins)
    simulated = get_system(system)
    if out is not None:
        _check_out(out)
    given, base = ({}, None) if file is None else _read_parameters(file, simulated)
    cell = parse_parameters(simulated, parameters, given)
    done = run_cell(system, cell, seed=seed, tables=out is not None, base=base)
    # Told before the tables are written: the run may have taken hours, and a disk can be full.
    if as_json:
        print_json(_report(simulated, done))
    else:
        _print(simulated, done)
    files = [] if out is None else _write_tables(done.outcome.tables, out)
    if track or tracking_uri is not None:
        tell_tracked(
            simulated,
            done.cell.configuration,
            seed=seed,
            key=done.cell.cell_id,
            metrics=done.outcome.metrics,
            traces=done.cell.traces,
            files=files,
            uri=tracking_uri,
        )


def _read_parameters(file: Path, system: System) -> tuple[dict[str, Any], Path | None]:
    """Return the parameters in a file, and the folder that relative paths in them are relative to."""
    from gridtune.core.system import parameter_hint
    from gridtune.errors import SweepError
    from gridtune.sweep.space.documents import read_yaml

    try:
        # YAML's readers read JSON, too.
        document = read_yaml(file.read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as fault:
        raise SweepError(f"cannot be read: {fault}", path=file) from None
    content, base = document.content, None
    place: tuple[str, ...] = ()
    if isinstance(content, dict) and isinstance(content.get("parameters"), dict):
        if content.get("system", system.name) != system.name:
            raise SweepError(
                f"the parameters are those of the system {content['system']!r}",
                path=file,
                line=document.line(("system",)),
                hint=f"gridtune run {content['system']} --parameters {file}",
            )
        base = (content.get("provenance") or {}).get("base")
        content, place = content["parameters"], ("parameters",)
    if not isinstance(content, dict):
        raise SweepError("a file of parameters is a mapping of names to values", path=file)
    for name in content:
        if name not in system.Parameters.model_fields:
            message, hint = f"{system.name} has no parameter {name!r}", parameter_hint(system, name)
            raise SweepError(message, path=file, line=document.line((*place, name)), hint=hint)
    return content, file.resolve().parent if base is None else Path(base)


def parse_parameters(system: System, arguments: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters from KEY=VALUE texts, each checked by itself, over those that are given already."""
    from gridtune.core.system import parameter_hint
    from gridtune.errors import SweepError

    fields = system.Parameters.model_fields
    parameters: dict[str, Any] = {}
    for text in arguments:
        name, sign, value = text.partition("=")
        if not sign:
            message = f"a parameter is given as KEY=VALUE, but got {text!r}"
            raise SweepError(message, hint="without spaces around the =, such as order=sjf")
        if name not in fields:
            raise SweepError(f"{system.name} has no parameter {name!r}", hint=parameter_hint(system, name))
        if name in parameters:
            raise SweepError("the parameter is given twice", field=name)
        # An empty word or `none` for a parameter that can be left out says that it is.
        left_out = fields[name].default is None and value in {"", "none", "null"}
        parameters[name] = None if left_out else value
    missing = [
        name for name, field in fields.items() if field.is_required() and name not in {**given, **parameters}
    ]
    if missing:
        raise SweepError(
            f"{system.name} needs {', '.join(missing)}",
            hint=f"such as {missing[0]}={(fields[missing[0]].examples or ['…'])[0]}",
        )
    return {**given, **parameters}


def _check_out(out: Path) -> None:
    """Refuse, before the cell is run, a place that no table can be written to."""
    from gridtune.errors import SweepError
    from gridtune.sweep.journal.disk import check_writable

    single = _is_file(out)
    if out.exists() and out.is_dir() == single:
        message = "a folder of this name is in the way" if single else "this file is in the way of a folder"
        raise SweepError(message, path=out, hint="--out takes FILE.parquet or a folder")
    check_writable(out.parent if single else out)


def _is_file(out: Path) -> bool:
    return out.suffix == ".parquet"


def _write_tables(tables: Mapping[str, pa.Table], out: Path) -> list[Path]:
    """Write the tables; return the files.

    A file's name that was given for several of them is the folder's, without suffix.
    """
    from gridtune.errors import SweepError
    from gridtune.sweep.journal.results import write_table

    if not tables:
        raise SweepError(f"the cell has no tables, so nothing is written to {out}")
    if _is_file(out) and len(tables) == 1:
        write_table(next(iter(tables.values())), out)
        return [out]
    folder = out.with_suffix("") if _is_file(out) else out
    files = {folder / f"{name}.parquet": table for name, table in tables.items()}
    for file, table in files.items():
        write_table(table, file)
    click.echo(f"tables in {folder}/: {', '.join(tables)}", err=True)
    return list(files)


def _report(system: System, done: CellRun) -> dict[str, Any]:
    from gridtune.core.cells import validated

    return {
        "system": system.name,
        "parameters": validated(system, done.cell.configuration).model_dump(mode="json"),
        "seed": done.cell.seed,
        "cell_id": done.cell.cell_id,
        "traces": done.cell.traces,
        "metrics": done.outcome.metrics,
        "notes": done.outcome.notes,
        "seconds": done.seconds,
    }


def _print(system: System, done: CellRun) -> None:
    from rich.console import Console

    from gridtune.core.remarks import REMARKS, remark_lines

    console = Console()
    parameters = "  ".join(f"{name}={value}" for name, value in done.cell.configuration.items())
    console.print(f"[bold]{system.name}[/]  {parameters}", highlight=False, soft_wrap=True)
    console.print(f"cell {done.cell.cell_id}, {done.seconds:.3f} s", style="dim", highlight=False)
    notes = done.outcome.notes
    plain: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
    for name, note in notes.items():
        if name not in REMARKS:
            console.print(f"{name}: {_note_text(note)}", style="dim", **plain)
    for line in remark_lines(notes):
        console.print(line, style="yellow", **plain)
    table = new_table("", "metric", "value", "unit", right=("value",))
    for name, value in done.outcome.metrics.items():
        unit = system.metrics[name].unit if name in system.metrics else "1"
        table.add_row(name, _value_text(value), "" if unit == "1" else unit)
    console.print(table)


def _value_text(value: float) -> str:
    """Write a metric to six digits, and all of those before the point; a dash where it has no value."""
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.6g}"


def _note_text(note: Any) -> str:
    """Write a note for a person: numbers to four digits, long lists by their beginning; --json has all."""
    from gridtune.report.labels import number_text

    if isinstance(note, dict):
        return _listed([f"{key} {_note_text(value)}" for key, value in note.items()]) or "none"
    if isinstance(note, list | tuple):
        return f"[{_listed([_note_text(item) for item in note])}]"
    # Commas stand between items.
    return number_text(note).replace(",", "") if isinstance(note, float) else str(note)


def _listed(parts: list[str]) -> str:
    more = len(parts) - _SHOWN
    return ", ".join([*parts[:_SHOWN], *([f"… and {more:,} more"] if more > 0 else [])])


#: Differences of a cell that are shown.
_SHOWN_DIFFERENCES = 20


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
@click.option(
    "--add-metric",
    "metrics",
    multiple=True,
    metavar="METRIC",
    help="Add a metric to all cells of the sweep in the folder CELL; may be repeated.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=FILE,
    help="With --add-metric: a Python file that defines the metric.",
)
@JSON
def rerun(
    cell: str,
    folder: str | Path | None,
    tracking_uri: str | None,
    out: Path | None,
    metrics: tuple[str, ...],
    plugins: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Run a cell of a sweep again, and say whether every metric is the same number, to the last bit.

    CELL is a cell's id, or a beginning of it that fits no other; the column `cell_id` of results.csv has
    them. It is looked for in FOLDER (or at a URL), or in all sweeps in results/. CELL may also be the id of a
    configuration's run in MLflow, whose cells are then all run again: that works on any machine that has
    the log.

    With --add-metric, CELL is a sweep's folder: its cells are run again and get the metric, under the ids
    and with the values that they have. After a kill the same command goes on.

    The exit code is 0 if everything is identical, and 1 otherwise.

    \b
    Examples:
      gridtune results rerun 3f9c02 results/quickstart
      gridtune results rerun results/quickstart --add-metric stretch_p99
      gridtune results rerun results/quickstart --add-metric night_wait --plugin night.py
      gridtune results rerun 3f9c02 --out schedule.parquet
      gridtune results rerun 0f3b9c1e5d7a4b62a8c4e6f0123456ab --tracking-uri http://mlflow:5000
    """
    from gridtune.study.stored import add_metrics, find_cells, rerun_cells
    from gridtune.sweep.journal.journal import sweep_folders

    if plugins and not metrics:
        raise click.UsageError("--plugin goes with --add-metric")
    if metrics:
        added = sum(1 for _ in add_metrics(Path(cell), metrics, plugins))
        click.echo(f"{added:,} cells have {', '.join(metrics)} now; to rank by it:")
        click.echo(shlex.join(["gridtune", "report", cell, "--objective", metrics[0]]))
        return
    if out is not None:
        _check_out(out)
    folders: list[str | Path] = [folder] if folder is not None else [*sweep_folders()]
    facts, results = find_cells(cell, folders, tracking_uri=tracking_uri)
    cells = []
    for again in rerun_cells(facts, results, tables=out is not None):
        cells.append(again)
        if not as_json:
            _print_again(again)
        if out is not None and again.tables:
            _write_tables(again.tables, out if len(results) == 1 else out / again.before.cell_id)
    identical = all(again.identical for again in cells)
    if as_json:
        print_json({"identical": identical, "cells": [again.as_dict() for again in cells]})
    if not identical:
        sys.exit(EXIT_FAILED_CELLS)


def _print_again(again: CellAgain) -> None:
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
        differences = again.differences
        click.echo(f"  {len(differences)} of {len(again.metrics)} metrics differ:")
        for name, (old, new) in list(differences.items())[:_SHOWN_DIFFERENCES]:
            click.echo(f"    {name}: {old!r} then, {new!r} now")
        if len(differences) > _SHOWN_DIFFERENCES:
            click.echo(f"    … and {len(differences) - _SHOWN_DIFFERENCES} more; --json lists all")


def _complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from gridtune.study.reproduction import reproduction_names

    return [name for name in reproduction_names() if name.startswith(incomplete)]


@click.command()
@click.argument("paper", metavar="PAPER", shell_complete=_complete_names)
@click.option(
    "--quick/--full",
    default=True,
    help="Parts of the experiments in minutes, or the whole experiments with the real logs. [default: quick]",
)
@click.option(
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where everything goes. [default: results/reproduce-PAPER-quick or -full]",
)
@WORKERS
@click.option(
    "--track", "tracking", is_flag=True, help="Keep the sweeps, the verdicts and the page in MLflow."
)
@click.option(
    "--tracking-uri",
    help="The MLflow store; implies --track. [default: MLFLOW_TRACKING_URI, else mlflow.db here]",
)
@QUIET
@JSON
def reproduce(paper: str, quick: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Run the experiments of PAPER again, and say of each of its claims whether it holds here.

    PAPER is responsive, provisioning, dispatch, shutdown or batch_learning, or a reproduction of a
    plug-in's. Its experiments are sweeps, and go on where they were if killed. One HTML page holds every
    table and figure, our numbers beside the published ones, with the logs, their checksums and the
    commands; verdicts.json beside it has the same for machines.

    With --full, logs that are not here stop it before anything is run: `gridtune traces fetch NAME` gets
    public ones. With --quick generated logs stand in for them.

    \b
    Examples:
      gridtune reproduce shutdown
      gridtune reproduce provisioning --full --output results/singh2007
      gridtune reproduce dispatch --json
    """
    from gridtune.study.reproduction import reproduce as run_reproduction

    silent = quiet or as_json
    done = run_reproduction(
        paper,
        full=not quick,
        output="quiet" if silent else "progress",
        say=(lambda _: None) if silent else click.echo,
        **options,
    )
    if as_json:
        content = json.loads(done.verdicts.read_text(encoding="utf-8"))
        print_json({**content, "page": done.page.resolve().as_uri()})
    elif not quiet:
        _print_verdicts(done.reproduced)
        click.echo(f"the page: {done.page.resolve().as_uri()}")
        click.echo(f"the verdicts: {done.verdicts}")
    if done.tracking is not None and not quiet:
        print_tracked(done.tracking)
    if not done.complete:
        sys.exit(EXIT_FAILED_CELLS)


def _print_verdicts(reproduced: Reproduced) -> None:
    from gridtune.report.tables import report_console

    table = new_table(reproduced.title, "verdict", "claim", "criteria that hold")
    for claim in reproduced.claims:
        holds = sum(criterion.outcome == "holds" for criterion in claim.criteria)
        table.add_row(str(claim.verdict), claim.text, f"{holds} of {len(claim.criteria)}")
    report_console().print(table)
