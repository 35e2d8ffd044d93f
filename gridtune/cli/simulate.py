"""`gridtune simulate`: one log, one machine, one policy, at once."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gridtune.errors import GridtuneError

if TYPE_CHECKING:
    from gridtune.batch.shaking import Spread
    from gridtune.core.schedule import Schedule
    from gridtune.workload.workload import Workload

__all__ = ["check_figure_file", "check_schedule_file", "simulate"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Seconds of silence after which a person wants to know what is going on.
_MOMENT_SECONDS = 1.5

#: Characters of a line that intervals need.
_WIDE = 120

#: What the table shows, beside a user's own metrics; `--json` gives every metric.
SHOWN = (
    "wait_mean",
    "wait_median",
    "wait_p95",
    "bounded_slowdown_mean",
    "area_weighted_response",
    "utilisation",
    "makespan",
    "killed_jobs",
    "energy_total",
    "energy_to_always_on",
    "energy_waste",
    "switches_per_node_day",
    "boot_wait_mean",
)

#: What `simulate` had to assume, by the setting that counts it.
GUESSED = {
    "guessed_walltimes": "no requested time in the log: taken as the longest request",
    "guessed_processors": "no processors in the log: taken as 1",
}


def _choice(name: str, choices: Sequence[str], *, help: str) -> Callable[[_Command], _Command]:
    """Return an option with these choices, of which the first is the default."""
    return click.option(name, type=click.Choice(choices), default=choices[0], show_default=True, help=help)


def _file(name: str, *, help: str) -> Callable[[_Command], _Command]:
    """Return an option that names a file to write."""
    return click.option(name, type=click.Path(dir_okay=False, path_type=Path), help=help)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("log")
@click.option("-p", "--processors", type=int, help="The machine's size. [default: what the log says]")
@click.option(
    "-o",
    "--order",
    default="fcfs",
    show_default=True,
    help="Queue order, such as sjf or wfp3(exponent=2), or an expression.",
)
@click.option("-b", "--backfill", default="easy", show_default=True, help="Backfilling variant.")
@click.option("--fill-order", help="Order in which EASY tries candidates. [default: the queue's]")
@_choice(
    "--walltime",
    ("log", "exact", "noise"),
    help="What the scheduler goes by: the log's requests, the run times, or requests with noise.",
)
@click.option("--noise", type=float, default=0.0, help="Standard deviation of the walltime's logarithm.")
@click.option(
    "--kill/--no-kill",
    default=None,
    help="Kill jobs at their walltime. [default: unless more than 1 % of the log's jobs outlived theirs by "
    "more than five minutes]",
)
@click.option(
    "--half-life", type=float, help="Seconds in which use counts half for fair share. [default: never]"
)
@_choice(
    "--partitions",
    ("pooled", "separate"),
    help="One machine, or one for each partition.",
)
@click.option(
    "--partition-processors",
    metavar="NAME=N,…",
    help="With separate partitions: their sizes. [default: as in slurm.conf, else the most in use at once]",
)
@_choice(
    "--dependencies",
    ("ignore", "log"),
    help="Submit jobs that depend on another after its end in the simulation.",
)
@click.option(
    "--power",
    type=click.Choice(["always_on", "timeout"]),
    help="Measure energy: with all nodes always on, or idle ones switched off after --idle-timeout.",
)
@click.option("--idle-timeout", type=int, help="Seconds until an idle node is switched off. [default: 600]")
@click.option("--cores-per-node", type=int, help="Processors of a node, switched as a whole. [default: 1]")
@click.option("--boot", type=int, help="Seconds to switch a node on. [default: 60]")
@click.option("--shutdown", type=int, help="Seconds to switch a node off. [default: 180]")
@click.option("--first", type=int, help="Only the first N jobs.")
@click.option("--load", type=float, help="Divide the times between submissions by this factor.")
@click.option(
    "--clean", "rules", help="Cleaning rules, comma-separated; `none` for none. [default: the standard ones]"
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of random orders and noise.",
)
@click.option(
    "--shake",
    type=click.IntRange(min=2),
    metavar="N",
    help="Repeat the run N times with submissions moved at random, and print each metric's interval.",
)
@click.option(
    "--shake-by",
    type=click.IntRange(min=1),
    metavar="SECONDS",
    help="With --shake: move submissions by up to this much either way. [default: 60]",
)
@click.option("--plugin", "plugins", multiple=True, help="Python file with queue orders of your own.")
@_file("--out", help="Write the schedule: .parquet, .csv (Batsim, evalys) or .json[.gz] (Perfetto).")
@_file("--plot", help="Draw use and queue length (.png, .svg, .pdf).")
@_file("--gantt", help="Draw who ran where (.png, .svg, .pdf).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every metric.")
def simulate(log: str, plugins: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Replay LOG on a machine and print how its jobs fared.

    LOG is a file (.swf, .gwf, .json, .parquet, .csv, each also .gz or .xz) or a name that
    `gridtune traces list` shows.

    \b
    Examples:
      gridtune simulate traces/quickstart.swf.gz
      gridtune simulate kth-sp2 --order sjf --backfill easy --plot kth.png
      gridtune simulate kth-sp2 --first 200 --gantt kth.png --out perfetto.json
      gridtune simulate kth-sp2 --shake 10
      gridtune simulate kth-sp2 --power timeout --idle-timeout 300
      gridtune simulate my.swf.gz -p 128 --order "wfp3(exponent=2)" --json
      gridtune simulate my.swf.gz --order "log(walltime) - 2 * wait / walltime"
      gridtune simulate my.swf.gz --plugin my_orders.py --order my-order
    """
    from gridtune.core.plugins import load_plugins

    for name in ("plot", "gantt"):
        if options[name] is not None:
            check_figure_file(name, options[name])
    if options["out"] is not None:
        check_schedule_file("out", options["out"])
    for plugin in plugins:
        load_plugins([plugin])
    if options["shake"] is None and options["shake_by"] is not None:
        raise click.BadParameter("has no effect without --shake", param_hint="--shake-by")
    workload, cleaning = _workload(log, options)
    schedule, seconds = _schedule(workload, options)
    from gridtune.batch.metrics import evaluate

    metrics = evaluate(schedule)
    spreads = {} if options["shake"] is None else _shaken(workload, options)
    if options["out"] is not None:
        schedule.save(options["out"])
    if options["plot"] is not None:
        from gridtune.core.schedule_plots import LoadCurves, plot_load

        curves = LoadCurves.of_table(schedule.to_table(), schedule.processors)
        plot_load({schedule.settings["order"]: curves}, options["plot"], title=workload.name)
    if options["gantt"] is not None:
        from gridtune.core.schedule_plots import plot_gantt

        plot_gantt(schedule.to_table(), schedule.processors, options["gantt"], title=workload.name)
    if as_json:
        click.echo(json.dumps(_report(schedule, cleaning, metrics, spreads, seconds), indent=2))
        return
    _print(schedule, cleaning, metrics, spreads, seconds)


def _workload(log: str, options: dict[str, Any]) -> tuple[Workload, dict[str, int]]:
    from gridtune.workload import read_workload
    from gridtune.workload.catalogue import resolve_trace
    from gridtune.workload.cleaning import DEFAULT_RULES, LENIENT_RULES, clean

    named = options["rules"]
    rules = (
        list(DEFAULT_RULES) if named is None else [part.strip() for part in named.split(",") if part.strip()]
    )
    if rules == ["none"]:
        rules = []
    # Some rules are for lines that reading would otherwise refuse.
    lenient = [rule for rule in rules if rule in LENIENT_RULES]
    workload = read_workload(resolve_trace(log), clean=lenient)
    workload, _ = clean(
        workload, [rule for rule in rules if rule not in lenient], processors=options["processors"]
    )
    _set_sizes(workload, options)
    if options["first"] is not None:
        workload = workload.first(options["first"])
    if options["load"] is not None:
        workload = workload.scale_load(options["load"])
    return workload, {rule: count for rule, count in workload.cleaning.items() if count}


def _set_sizes(workload: Workload, options: dict[str, Any]) -> None:
    """Replace the sizes of partitions, as they were given, by those of all partitions of the whole log."""
    from gridtune.batch.partitions import partition_sizes, read_sizes

    given = options["partition_processors"]
    if options["partitions"] == "pooled":
        if given is not None:
            message = "has no effect without --partitions separate"
            raise click.BadParameter(message, param_hint="--partition-processors")
        return
    try:
        sizes = None if given is None else read_sizes(given)
    except ValueError as fault:
        raise click.BadParameter(str(fault), param_hint="--partition-processors") from None
    whole = partition_sizes(workload, sizes)
    options["partition_processors"] = {str(number): size for number, size in whole.items()}


def _schedule(workload: Workload, options: dict[str, Any]) -> tuple[Schedule, float]:
    import numpy as np

    from gridtune.batch.replay import simulate as replay

    settings = _settings(options)

    def run(jobs: Workload) -> Schedule:
        return replay(jobs, rng=np.random.default_rng(options["seed"]), **settings)

    # One job compiles what is not compiled yet, so that the time is that of the simulation.
    # What is wrong with the log shows, with its numbers, when all of it is run.
    notice = _notice_after_wait("compiling the simulator: once, it can take a minute")
    with notice, contextlib.suppress(GridtuneError):
        run(workload.first(1))
    began = time.perf_counter()
    schedule = run(workload)
    return schedule, time.perf_counter() - began


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    from gridtune.batch.power import power_policy

    names = (
        *("processors", "order", "backfill", "fill_order", "walltime", "noise", "half_life"),
        *("partitions", "partition_processors", "dependencies"),
    )
    kill = "auto" if options["kill"] is None else options["kill"]
    switching = ("idle_timeout", "cores_per_node", "boot", "shutdown")
    power = power_policy(options["power"], **{name: options[name] for name in switching})
    return {**{name: options[name] for name in names}, "kill": kill, "power": power}


def _shaken(workload: Workload, options: dict[str, Any]) -> dict[str, Spread]:
    from gridtune.batch.shaking import SHAKE_SECONDS, shaken_metrics

    amount = options["shake_by"] or SHAKE_SECONDS
    repeats = {"replicates": options["shake"], "amount": amount, "seed": options["seed"]}
    return shaken_metrics(workload, **repeats, **_settings(options))


@contextlib.contextmanager
def _notice_after_wait(text: str) -> Iterator[None]:
    """Print a text to the standard error if what is done within takes more than a moment."""
    timer = threading.Timer(_MOMENT_SECONDS, click.echo, [text], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _report(
    schedule: Schedule,
    cleaning: dict[str, int],
    metrics: dict[str, float],
    spreads: dict[str, Spread],
    seconds: float,
) -> dict[str, Any]:
    shaken = {
        name: {
            "mean": _finite(spread.mean),
            "interval": [_finite(spread.low), _finite(spread.high)],
            "range": [_finite(value) for value in spread.range],
        }
        for name, spread in spreads.items()
    }
    return {
        "workload": schedule.workload.name,
        "jobs": len(schedule),
        "processors": schedule.processors,
        "checksum": schedule.workload.checksum,
        "settings": dict(schedule.settings),
        "cleaning": cleaning,
        "notes": dict(schedule.notes),
        "metrics": {name: _finite(value) for name, value in metrics.items()},
        **({"shaken": shaken} if shaken else {}),
        "seconds": seconds,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print(
    schedule: Schedule,
    cleaning: dict[str, int],
    metrics: dict[str, float],
    spreads: dict[str, Spread],
    seconds: float,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from gridtune.batch.metrics import METRICS
    from gridtune.batch.policies import BACKFILLING_WARNINGS
    from gridtune.core.remarks import remark_lines

    settings = schedule.settings
    console = Console()
    if spreads:
        console.width = max(console.width, _WIDE)
    rate = f"{len(schedule):,} jobs in {seconds:.2f} s"
    console.print(
        f"[bold]{schedule.workload.name}[/] on {schedule.processors:,} processors, "
        f"order [bold]{settings['order']}[/], backfilling [bold]{settings['backfill']}[/] ({rate})",
        highlight=False,
        soft_wrap=True,
    )
    for rule, count in cleaning.items():
        console.print(f"  cleaned: {rule} touched {count:,} jobs", highlight=False)
    if warning := BACKFILLING_WARNINGS.get(settings["backfill"]):
        console.print(f"  [yellow]{settings['backfill']}: {warning}[/]", highlight=False)
    for key, meaning in GUESSED.items():
        if settings[key]:
            console.print(f"  {settings[key]:,} × {meaning}", highlight=False)
    for line in remark_lines(schedule.notes):
        console.print(f"  {line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD)
    shaken = ("mean when shaken", "95 % of the mean", "range") if spreads else ()
    for column in ("metric", "value", *shaken, "unit"):
        table.add_column(column, justify="left" if column in {"metric", "unit"} else "right")
    own = [name for name in metrics if METRICS[name].family == "own"]
    for name in (*(name for name in SHOWN if name in metrics), *own):
        table.add_row(name, _number(metrics[name]), *_spread_texts(spreads.get(name)), METRICS[name].unit)
    console.print(table)


def _spread_texts(spread: Spread | None) -> tuple[str, ...]:
    if spread is None:
        return ()
    least, most = spread.range
    interval = f"{_number(spread.low)} … {_number(spread.high)}"
    return _number(spread.mean), interval, f"{_number(least)} … {_number(most)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def check_figure_file(option: str, path: Path) -> None:
    """Refuse a suffix that nothing can be drawn as, and a folder that nothing can be written into."""
    from matplotlib.backend_bases import FigureCanvasBase

    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in formats:
        name = f"the suffix {path.suffix!r}" if path.suffix else "a name without suffix"
        raise click.BadParameter(
            f"{path}: a figure cannot have {name}; give .png, .svg or .pdf", param_hint=f"--{option}"
        )
    _check_folder(option, path)


def check_schedule_file(option: str, path: Path) -> None:
    """Refuse a suffix that no schedule is written as, and a folder that nothing can be written into."""
    from gridtune.core.schedule_files import check_suffix

    check_suffix(path)
    _check_folder(option, path)


def _check_folder(option: str, path: Path) -> None:
    from gridtune.sweep.journal.journal import check_writable

    check_writable(path.parent, hint=f"give another with --{option}")
