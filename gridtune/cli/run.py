"""`gridtune run`, `reproduce` and `train`: a cell of a system, a paper's experiments, and an agent."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import SystemCommand, command, system_help
from gridtune.cli.tables import new_table, print_json, print_lines, print_tables, print_tracked

if TYPE_CHECKING:
    import pyarrow as pa

    from gridtune.core.system import System
    from gridtune.sweep.execution.runner import CellRun
    from gridtune.tune.training import Trained

#: Seconds between two lines of a training.
_LINE_SECONDS = 10.0
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
    from gridtune.tracking.tracked import track_once

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


@command(cls=SystemCommand)
def run(
    system: str,
    parameters: Sequence[str] = (),
    *,
    file: Path | None = None,
    seed: int = 0,
    out: Path | None = None,
    track: bool = False,
    tracking_uri: str | None = None,
    plugin: Sequence[Path] = (),
    as_json: bool = False,
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

    Parameters
    ----------
    file
        YAML or JSON file of parameters, such as `gridtune results export` writes; KEY=VALUE goes before.
    out
        Write the cell's tables as Parquet: a single one to FILE.parquet, several into a folder.
    """
    from gridtune.core.system import get_system
    from gridtune.core.user_code.plugins import load_plugins
    from gridtune.sweep.execution.runner import run_cell

    load_plugins(plugin)
    simulated = get_system(system)
    if out is not None:
        check_out(out)
    given, base = ({}, None) if file is None else _read_parameters(file, simulated)
    cell = _parse_parameters(simulated, parameters, given)
    done = run_cell(system, cell, seed=seed, tables=out is not None, base=base)
    # Told before the tables are written: the run may have taken hours, and a disk can be full.
    if as_json:
        print_json(_report(simulated, done))
    else:
        _print(simulated, done)
    files = [] if out is None else write_tables(done.outcome.tables, out)
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
            message, hint = f"{system.name} has no parameter {name!r}", system.parameter_hint(name)
            raise SweepError(message, path=file, line=document.line((*place, name)), hint=hint)
    return content, file.resolve().parent if base is None else Path(base)


def _parse_parameters(system: System, arguments: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters from KEY=VALUE texts, each checked by itself, over those that are given already."""
    from gridtune.errors import SweepError

    fields = system.Parameters.model_fields
    parameters: dict[str, Any] = {}
    for text in arguments:
        name, sign, value = text.partition("=")
        if not sign:
            message = f"a parameter is given as KEY=VALUE, but got {text!r}"
            raise SweepError(message, hint="without spaces around the =, such as order=sjf")
        if name not in fields:
            raise SweepError(f"{system.name} has no parameter {name!r}", hint=system.parameter_hint(name))
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


def check_out(out: Path) -> None:
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


def write_tables(tables: Mapping[str, pa.Table], out: Path) -> list[Path]:
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
    from rich.text import Text

    from gridtune.core.remarks import REMARKS, remark_lines
    from gridtune.report.tables import report_console

    console = report_console()
    parameters = "  ".join(f"{name}={value}" for name, value in done.cell.configuration.items())
    console.print(f"[bold]{system.name}[/]  {parameters}", soft_wrap=True)
    console.print(f"cell {done.cell.cell_id}, {done.seconds:.3f} s", style="dim")
    notes = done.outcome.notes
    for name, note in notes.items():
        if name not in REMARKS:
            console.print(f"{name}: {_note_text(note)}", style="dim", markup=False, soft_wrap=True)
    print_lines(console, remark_lines(notes))
    table = new_table("", "metric", "value", "unit", right=("value",))
    for name, value in done.outcome.metrics.items():
        unit = system.metrics[name].unit if name in system.metrics else "1"
        # Rich would take the class in `wait_mean[wide]` for markup.
        table.add_row(Text(name), _value_text(value), "" if unit == "1" else unit)
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


@command()
def reproduce(
    paper: str,
    *,
    quick: bool = True,
    output: Path | None = None,
    workers: int | None = None,
    track: bool = False,
    tracking_uri: str | None = None,
    quiet: bool = False,
    as_json: bool = False,
) -> None:
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

    Parameters
    ----------
    quick
        Run parts of the experiments in minutes (the default), or the whole with the real logs.
    output
        Folder of all files; by default results/reproduce-PAPER-quick or -full.
    track
        Keep the sweeps, the verdicts and the page in MLflow.
    """
    from gridtune.study.reproduction import reproduce as run_reproduction

    silent = quiet or as_json
    done = run_reproduction(
        paper,
        full=not quick,
        folder=output,
        workers=workers,
        tracking=track,
        tracking_uri=tracking_uri,
        output="quiet" if silent else "progress",
        say=(lambda _: None) if silent else click.echo,
    )
    if as_json:
        content = json.loads(done.verdicts.read_text(encoding="utf-8"))
        print_json({**content, "page": done.page.resolve().as_uri()})
    elif not quiet:
        table = new_table(done.reproduced.title, "verdict", "claim", "criteria that hold")
        for claim in done.reproduced.claims:
            holds = sum(criterion.outcome == "holds" for criterion in claim.criteria)
            table.add_row(str(claim.verdict), claim.text, f"{holds} of {len(claim.criteria)}")
        print_tables([table])
        click.echo(f"the page: {done.page.resolve().as_uri()}")
        click.echo(f"the verdicts: {done.verdicts}")
    if done.tracking is not None and not quiet:
        print_tracked(done.tracking)
    if not done.complete:
        sys.exit(EXIT_FAILED_CELLS)


class _TrainCommand(SystemCommand):
    """A command whose help goes on with the parameters of the training it is asked about."""

    def help_of(self, name: str, options: Mapping[str, Any], *, everything: bool) -> str:
        """Return the help of a system's training."""
        from gridtune.tune.training import training_of

        training = training_of(name, options.get("algorithm"))
        usage = f"gridtune train {name} [KEY=VALUE]... [--seconds S] [--seed N] [--out DIR] [--json]"
        return system_help(training, usage, everything=everything)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Name the systems that have a training, with their algorithms."""
        from gridtune.core.system import SYSTEMS

        rows = [(name, ", ".join(system.trainings)) for name, system in SYSTEMS.items() if system.trainings]
        with formatter.section("Systems and algorithms"):
            formatter.write_dl(rows)


@command(cls=_TrainCommand)
def train(
    system: str,
    parameters: Sequence[str] = (),
    *,
    algorithm: str | None = None,
    iterations: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    seeds: int | None = None,
    device: Literal["cpu", "cuda"] | None = None,
    out: Path | None = None,
    address: str | None = None,
    tracking: bool = True,
    tracking_uri: str | None = None,
    plugin: Sequence[Path] = (),
    as_json: bool = False,
) -> None:
    """Train an agent for SYSTEM with parameters KEY=VALUE, by an algorithm of RLlib under Tune.

    `gridtune train SYSTEM --help` lists the training's parameters. The folder gets a checkpoint that RLlib
    loads, the best policy by held-out data, and the learning curve; MLflow shows the curve while the training
    runs. The same command resumes where it was stopped, or with more iterations.

    \b
    Examples:
      gridtune train shutdown --help
      gridtune train shutdown trace=taurus_days --seconds 600 --out results/taurus
      gridtune run shutdown trace=taurus_days subset=test policy=ppo checkpoint=results/taurus
      gridtune train shutdown trace=taurus_days learning_rate=0.001 --iterations 160 --seeds 3

    Parameters
    ----------
    algorithm
        The algorithm; by default the first of the system.
    iterations
        Iterations of the algorithm, all together.
    seconds
        Time limit of this call.
    seeds
        Train with seeds 0 to N − 1, each in DIR/seed-K.
    device
        Device of the network; by default cpu.
    out
        Folder of the training, which the same command resumes; by default results/train-SYSTEM.
    """
    from gridtune.core.user_code.plugins import load_plugins
    from gridtune.errors import require_module

    require_module("ray.rllib", user="training", extra="agents")
    require_module("torch", user="training", extra="agents")
    from gridtune.tune.training import train as train_system
    from gridtune.tune.training import training_of

    load_plugins(plugin)
    training = training_of(system, algorithm)
    asked = {"iterations": iterations, "device": device}
    given = {name: value for name, value in asked.items() if value is not None}
    watcher = _Watcher(quiet=as_json, objective=training.objective)
    done = train_system(
        training.name,
        _parse_parameters(training, parameters, given),
        directory=out or Path("results") / f"train-{training.name.replace('/', '-')}",
        seeds=(seed,) if seeds is None else range(seeds),
        seconds=seconds,
        address=address,
        tracking=tracking,
        tracking_uri=tracking_uri,
        plugins=plugin,
        watcher=watcher,
    )
    if as_json:
        content = [trained.as_dict() for trained in done]
        print_json(content[0] if seeds is None else content)
        return
    for trained in done:
        _print_trained(trained, training.objective)


def _print_trained(trained: Trained, objective: str) -> None:
    """Print what came of a training, and how to play its policy."""
    count, last = len(trained.curve), trained.curve[-1]
    before = f", {trained.began} of them before" if trained.began else ""
    click.echo(f"{trained.training}, seed {trained.seed}: {count} iterations{before}; in {trained.directory}")
    if last.get(objective) is not None:
        click.echo(f"  {objective} {last[objective]:,.6g} at the end")
    if trained.policy is not None:
        click.echo(f"  best policy: checkpoint={trained.directory}")
    tracking = trained.tracking
    if tracking is not None:
        shown = tracking.message
        if tracking.complete and trained.policy is not None:
            shown += f": checkpoint={tracking.checkpoint(trained.policy.name)}"
        click.echo(f"  {shown}", err=not tracking.complete)


class _Watcher:
    """Prints the progress of trainings, a line every few seconds.

    Parameters
    ----------
    quiet
        Print nothing.
    objective
        The metric that is shown.
    """

    def __init__(self, *, quiet: bool, objective: str) -> None:
        self._quiet, self._objective = quiet, objective
        self._began, self._next = time.monotonic(), 0.0
        self._evaluated: dict[int, str] = {}

    def stage(self, what: str) -> None:
        """Print the present stage of the training."""
        if not self._quiet:
            click.echo(f"{what} …", err=True)

    def point(self, seed: int, point: dict[str, Any]) -> None:
        """Print an iteration: its mean return, and the last evaluation."""
        number, value, returned = point["iteration"], point.get(self._objective), point.get("return_mean")
        if value is not None:
            self._evaluated[seed] = f", {self._objective} {value:,.5g} after {number}"
        now = time.monotonic()
        if self._quiet or now < self._next:
            return
        self._next = now + _LINE_SECONDS
        shown = "" if returned is None else f", return {returned:,.5g}"
        evaluated = self._evaluated.get(seed, "")
        click.echo(f"seed {seed}: iteration {number}{shown}{evaluated}; {now - self._began:,.0f} s", err=True)
