"""`gridtune simulate`: one log under one policy, with figures; its options are the parameters of a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gridtune.cli.parameters import DefaultSystemCommand, command
from gridtune.cli.run import tell_tracked
from gridtune.cli.tables import new_table, print_json, print_lines

if TYPE_CHECKING:
    from gridtune.core.schedules.schedule import Schedule
    from gridtune.core.system import System

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
      gridtune simulate kth-sp2 --order sjf --out schedule.parquet --gantt kth.png --track
      gridtune simulate kth-sp2 --power timeout --idle-timeout 300
      gridtune simulate my.swf.gz -p 128 --order "wfp3(exponent=2)" --json
      gridtune simulate my.swf.gz --order "log(walltime) - 2 * wait / walltime"
      gridtune simulate my.swf.gz --plugin my_orders.py --order my-order

    Parameters
    ----------
    out
        File of the schedule, a row per job: .parquet or .csv.
    plot
        Figure of use and queue length (.png, .svg, .pdf).
    gantt
        Figure of the jobs on the processors (.png, .svg, .pdf).
    """
    from gridtune.core.cells import validated
    from gridtune.core.compiled import telling_of_compilation
    from gridtune.core.system import default_system
    from gridtune.core.user_code.plugins import load_plugins
    from gridtune.sweep.execution.runner import run_cell
    from gridtune.sweep.space.plan import Workloads

    for option, path in {"out": out, "plot": plot, "gantt": gantt}.items():
        if path is not None:
            _check_file(option, path)
    load_plugins(plugin)
    system, workloads = default_system(), Workloads()
    parameters = {"trace": log, **{name: value for name, value in options.items() if value is not None}}
    system.preflight(validated(system, parameters), workloads.load)
    text = "compiling the simulator: once, it can take a minute"
    with telling_of_compilation(lambda: click.echo(text, err=True)):
        done = run_cell(system.name, parameters, seed=seed, workloads=workloads)
    schedule, metrics = done.outcome.schedule, done.outcome.metrics
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
        print_json(_report(schedule, metrics, done.seconds), indent=2)
    else:
        _print(system, schedule, metrics, done.seconds)
    if track or tracking_uri is not None:
        tell_tracked(
            system,
            parameters,
            seed=seed,
            key=f"simulate {done.cell.cell_id}",
            metrics=metrics,
            traces=done.cell.traces,
            files=[file for file in (out, plot, gantt) if file is not None],
            uri=tracking_uri,
        )
    if "shake" in parameters:
        hint = "a sweep with `replicates: {shakes: N}` gives intervals"
        click.echo(f"hint: this is one run with shaken submissions; {hint}", err=True)


def _report(schedule: Schedule, metrics: Mapping[str, float], seconds: float) -> Any:
    return {
        "workload": schedule.workload.name,
        "jobs": len(schedule),
        "processors": schedule.processors,
        "checksum": schedule.workload.checksum,
        "settings": schedule.settings,
        "cleaning": {rule: count for rule, count in schedule.workload.cleaning.items() if count},
        "notes": schedule.notes,
        "metrics": metrics,
        "seconds": seconds,
    }


def _print(system: System, schedule: Schedule, metrics: Mapping[str, float], seconds: float) -> None:
    from gridtune.batch.metrics import METRICS
    from gridtune.core.remarks import remark_lines
    from gridtune.report.tables import report_console

    settings, console = schedule.settings, report_console()
    rate = f"{len(schedule):,} jobs in {seconds:.2f} s"
    console.print(
        f"[bold]{schedule.workload.name}[/] on {schedule.processors:,} processors, "
        f"order [bold]{settings['order']}[/], backfilling [bold]{settings['backfill']}[/] ({rate})",
        soft_wrap=True,
    )
    lines = [f"cleaned: {rule}: {count:,}" for rule, count in schedule.workload.cleaning.items() if count]
    lines += [f"{settings[key]:,} × {meaning}" for key, meaning in _GUESSED.items() if settings[key]]
    print_lines(console, lines, style="")
    warned = [
        f"{settings[parameter]}: {warning}"
        for parameter, warnings in system.value_warnings.items()
        if (warning := warnings.get(settings[parameter]))
    ]
    print_lines(console, [*warned, *remark_lines(schedule.notes)])
    table = new_table("", "metric", "value", "unit", right=("value",))
    own = [name for name in metrics if METRICS[name].family == "own"]
    for name in (*(name for name in SHOWN if name in metrics), *own):
        table.add_row(name, _number(metrics[name]), METRICS[name].unit)
    console.print(table)


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
