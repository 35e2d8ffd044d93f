"""`gridtune simulate`: one log under one policy, with figures; its options are the parameters of a cell."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.parameters import DefaultSystemCommand, command
from gridtune.cli.run import tell_tracked
from gridtune.cli.tables import print_json
from gridtune.errors import GridtuneError

if TYPE_CHECKING:
    from gridtune.batch.shaking import Spread
    from gridtune.core.schedules.schedule import Schedule
    from gridtune.core.system import Outcome, System
    from gridtune.workload.workload import Workload

__all__ = ["simulate"]


#: Characters of a line that intervals need.
_WIDE = 120

#: The metrics of the table, beside a user's own; `--json` gives every metric.
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

#: Assumptions about the log's jobs, by the setting that counts them.
_GUESSED = {
    "guessed_walltimes": "no requested time in the log: taken as the longest request",
    "guessed_processors": "no processors in the log: taken as 1",
}


@command(cls=DefaultSystemCommand)
def simulate(
    log: str,
    *,
    seed: int = 0,
    repeats: int | None = None,
    track: bool = False,
    tracking_uri: str | None = None,
    plugin: Sequence[Path] = (),
    out: Path | None = None,
    plot: Path | None = None,
    gantt: Path | None = None,
    as_json: bool = False,
    **options: Any,
) -> None:
    """Replay LOG on a machine and print how its jobs fared.

    LOG is a file or a name that `gridtune traces list` shows. Below the first, the options are parameters of
    the system, and the numbers are those that `gridtune run` prints with them.

    \b
    Examples:
      gridtune simulate traces/quickstart.swf.gz
      gridtune simulate kth-sp2 --order sjf --backfill easy --plot kth.png
      gridtune simulate kth-sp2 --first 200 --gantt kth.png --out kth.parquet
      gridtune simulate kth-sp2 --repeats 10
      gridtune simulate kth-sp2 --order sjf --out schedule.parquet --gantt kth.png --track
      gridtune simulate kth-sp2 --power timeout --idle-timeout 300
      gridtune simulate my.swf.gz -p 128 --order "wfp3(exponent=2)" --json
      gridtune simulate my.swf.gz --order "log(walltime) - 2 * wait / walltime"
      gridtune simulate my.swf.gz --plugin my_orders.py --order my-order

    Parameters
    ----------
    repeats
        Repeat the run N times with shaken submissions, by 60 seconds or as in --shake, and print the interval
        of each metric.
    out
        File of the schedule: .parquet or .csv (Batsim, evalys).
    plot
        Figure of use and queue length (.png, .svg, .pdf).
    gantt
        Figure of the jobs on the processors (.png, .svg, .pdf).
    """
    from gridtune.core.cells import content_id
    from gridtune.core.system import default_system

    for option, path in {"out": out, "plot": plot, "gantt": gantt}.items():
        if path is not None:
            _check_file(option, path)
    if plugin:
        from gridtune.core.user_code.plugins import load_plugins

        load_plugins(plugin)
    system = default_system()
    parameters = {"trace": log, **{name: value for name, value in options.items() if value is not None}}
    outcome, seconds, spreads = _run(system, parameters, seed, repeats)
    schedule = outcome.schedule
    assert schedule is not None
    if out is not None:
        schedule.save(out)
    if plot is not None:
        from gridtune.core.schedules.plots import plot_load

        drawn = {schedule.settings["order"]: schedule.to_table()}
        plot_load(drawn, schedule.processors, plot, title=schedule.workload.name)
    if gantt is not None:
        from gridtune.core.schedules.plots import plot_gantt

        plot_gantt(schedule.to_table(), schedule.processors, gantt, title=schedule.workload.name)
    if as_json:
        print_json(_report(schedule, outcome.metrics, spreads, seconds), indent=2)
    else:
        _print(system, schedule, outcome.metrics, spreads, seconds)
    if track or tracking_uri is not None:
        checksum = schedule.workload.checksum
        shaken = {f"{name}.shaken_mean": spread.mean for name, spread in spreads.items()}
        tell_tracked(
            system,
            parameters,
            seed=seed,
            key=content_id([system.name, system.version, parameters, seed, repeats, checksum]),
            metrics={**outcome.metrics, **shaken},
            traces={log: checksum},
            files=[file for file in (out, plot, gantt) if file is not None],
            uri=tracking_uri,
        )
    if "shake" in parameters and repeats is None:
        click.echo("hint: this is one run with shaken submissions; --repeats N gives intervals", err=True)


def _run(
    system: System, parameters: dict[str, Any], seed: int, repeats: int | None
) -> tuple[Outcome, float, dict[str, Spread]]:
    """Run a cell as it is, and again with submissions shaken; return its outcome, its seconds and spreads."""
    from gridtune.core.cells import replicate_streams, validated
    from gridtune.core.compiled import telling_of_compilation
    from gridtune.workload.files import WorkloadReference

    @cache
    def load(reference: str) -> Workload:
        return WorkloadReference.parse(reference).read()

    checked = validated(system, parameters)
    streams = replicate_streams(seed, {trace: load(trace).checksum for trace in system.traces(checked)})
    # Kernels are compiled before, so that the time is that of the simulation. What is wrong with the log
    # shows, with its numbers, when all of it is run.
    text = "compiling the simulator: once, it can take a minute"
    system.preflight(checked, load)
    with telling_of_compilation(lambda: click.echo(text, err=True)), contextlib.suppress(GridtuneError):
        system.prepare([checked])
    began = time.perf_counter()
    outcome = system.run(checked, streams=streams, load=load, tables=False)
    seconds = time.perf_counter() - began
    if repeats is None:
        return outcome, seconds, {}
    from gridtune.batch.shaking import SHAKE_SECONDS, spreads_of

    shaken = validated(system, {"shake": SHAKE_SECONDS, **parameters})
    spreads = spreads_of(
        lambda streams: system.run(shaken, streams=streams, load=load, tables=False).metrics,
        replicates=repeats,
        seed=seed,
    )
    return outcome, seconds, spreads


def _report(
    schedule: Schedule, metrics: Mapping[str, float], spreads: Mapping[str, Spread], seconds: float
) -> Any:
    shaken = {
        name: {"mean": spread.mean, "interval": [spread.low, spread.high], "range": list(spread.range)}
        for name, spread in spreads.items()
    }
    return {
        "workload": schedule.workload.name,
        "jobs": len(schedule),
        "processors": schedule.processors,
        "checksum": schedule.workload.checksum,
        "settings": schedule.settings,
        "cleaning": {rule: count for rule, count in schedule.workload.cleaning.items() if count},
        "notes": schedule.notes,
        "metrics": metrics,
        **({"shaken": shaken} if shaken else {}),
        "seconds": seconds,
    }


def _print(
    system: System,
    schedule: Schedule,
    metrics: Mapping[str, float],
    spreads: Mapping[str, Spread],
    seconds: float,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from gridtune.batch.metrics import METRICS
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
    for rule, count in schedule.workload.cleaning.items():
        if count:
            console.print(f"  cleaned: {rule} touched {count:,} jobs", highlight=False)
    for parameter, warnings in system.value_warnings.items():
        if warning := warnings.get(settings[parameter]):
            console.print(f"  [yellow]{settings[parameter]}: {warning}[/]", highlight=False)
    for key, meaning in _GUESSED.items():
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


def _check_file(option: str, path: Path) -> None:
    """Refuse, before anything is run, a suffix that cannot be written and a folder that is read-only."""
    from gridtune.sweep.journal.disk import check_writable

    if option == "out":
        from gridtune.core.schedules.files import check_suffix

        check_suffix(path)
    else:
        from matplotlib.backend_bases import FigureCanvasBase

        if path.suffix.removeprefix(".").lower() not in FigureCanvasBase.get_supported_filetypes():
            name = f"the suffix {path.suffix!r}" if path.suffix else "a name without suffix"
            raise click.BadParameter(
                f"{path}: a figure cannot have {name}; give .png, .svg or .pdf", param_hint=f"--{option}"
            )
    check_writable(path.parent, hint=f"give another with --{option}")
