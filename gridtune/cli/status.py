"""`gridtune status`: the state of sweeps, from any shell that sees their folders."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import complete_sweeps, read_place
from gridtune.cli.tables import new_table, print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gridtune.study.status import SweepStatus

__all__ = ["status"]

_WATCH_SECONDS = 2.0


@click.command()
@click.argument("sweep", required=False, metavar="[FOLDER|URL|SPACE]", shell_complete=complete_sweeps)
@click.option("--watch", is_flag=True, help="Look again every few seconds until nothing runs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def status(sweep: str | None, watch: bool, as_json: bool) -> None:
    """Show the state of a sweep: cells done, failed and left, its driver, the best configuration so far.

    Give its folder, its URL, its search space or its name; without any, all sweeps in results/ are listed,
    and with a folder or URL that sweeps are in, those. Nothing is disturbed by looking, and it is true after
    the driver was killed, too: it comes from the journal and its lock.

    Of a single sweep, the exit code is 0 if it runs or every cell is done, and 1 otherwise.

    \b
    Examples:
      gridtune status
      gridtune status results/quickstart --watch
      gridtune status search_spaces/quickstart.yaml --json
      gridtune status s3://bucket/my_space
      gridtune status results/my_space/shards
    """
    from gridtune.study.status import sweep_status
    from gridtune.sweep.journal.journal import RESULTS
    from gridtune.sweep.remote.results import has_sweep, sweeps_in

    if watch and as_json:
        raise click.UsageError("--watch and --json exclude each other.")
    place = RESULTS if sweep is None else _place(sweep)
    several = sweep is None or (not has_sweep(place) and bool(sweeps_in(place)))

    def look() -> list[SweepStatus]:
        return _all(sweeps_in(place)) if several else [sweep_status(place)]

    statuses = look()
    if as_json:
        rows = [one.as_dict() for one in statuses]
        print_json(rows if several else rows[0])
    else:
        statuses = _show(statuses, look, _listing(place) if several else _screen, watch=watch)
    if not several and statuses[0].state != "running" and not statuses[0].complete:
        sys.exit(EXIT_FAILED_CELLS)


def _place(text: str) -> str | Path:
    """Return the folder or URL of a sweep, of a search space or of a sweep's name in results/."""
    from gridtune.errors import SweepError
    from gridtune.registry import name_hint
    from gridtune.sweep.journal.journal import RESULTS, sweep_folders
    from gridtune.sweep.run import default_directory
    from gridtune.sweep.space.schema import find_space, read_space

    place = read_place(text)
    if isinstance(place, str):
        return place
    path = place
    if path.is_dir() or (RESULTS / text).is_dir():
        return path if path.is_dir() else RESULTS / text
    if path.suffix not in {".yaml", ".yml"} and not find_space(path).is_file():
        names = [folder.name for folder in sweep_folders()]
        hint = name_hint(text, names) if names else "give a sweep's folder: no sweep has run here yet"
        raise SweepError(f"no sweep is named {text!r} in results/", hint=hint)
    return default_directory(read_space(path))


def _all(places: list[str | Path]) -> list[SweepStatus]:
    from gridtune.errors import GridtuneError
    from gridtune.study.status import SweepStatus, sweep_status
    from gridtune.sweep.remote.results import place_name

    found = []
    for place in places:
        try:
            found.append(sweep_status(place, best=False))
        except GridtuneError as fault:
            found.append(SweepStatus(place, place_name(place), "unknown", None, error=str(fault)))
    return found


def _show(
    statuses: list[SweepStatus],
    look: Callable[[], list[SweepStatus]],
    layout: Callable[[list[SweepStatus]], RenderableType],
    *,
    watch: bool,
) -> list[SweepStatus]:
    """Show statuses, and with `watch` go on until nothing runs; return the last."""
    from rich.live import Live

    from gridtune.report.tables import report_console

    console = report_console()
    screen = Live(layout(statuses), console=console, auto_refresh=False)
    on_screen = watch and console.is_terminal
    if not on_screen:
        console.print(layout(statuses), soft_wrap=True)
    with screen if on_screen else contextlib.nullcontext():
        pause = _WATCH_SECONDS
        while watch and any(one.state == "running" for one in statuses):
            time.sleep(pause)
            began, before = time.monotonic(), statuses
            statuses = look()
            # Less often where a journal takes long to read.
            pause = max(_WATCH_SECONDS, 5 * (time.monotonic() - began))
            if on_screen:
                screen.update(layout(statuses), refresh=True)
            elif statuses != before:
                console.print(layout(statuses), soft_wrap=True)
    return statuses


def _listing(place: str | Path) -> Callable[[list[SweepStatus]], RenderableType]:
    """Return what lays out the sweeps that are in a folder or at a URL."""
    from gridtune.sweep.remote.results import place_name

    where = str(place).rstrip("/") + "/"

    def listing(statuses: list[SweepStatus]) -> RenderableType:
        if not statuses:
            return f"no sweep in {where}"
        numbers = ("done", "failed", "left")
        table = new_table(
            f"Sweeps in {where}", "name", "state", *numbers, "last result", "time left", right=numbers
        )
        for one in statuses:
            failed = sum(count for state, count in one.counts.items() if state != "done")
            left = "?" if one.left is None else f"{'≤ ' if one.at_most else ''}{one.left:,}"
            last = "" if one.last_result is None else _when(one.last_result)
            done = f"{one.counts.get('done', 0):,}"
            table.add_row(place_name(one.folder), one.state, done, f"{failed:,}", left, last, _left(one))
        return table

    return listing


def _screen(statuses: list[SweepStatus]) -> RenderableType:
    (one,) = statuses
    up_to = "up to " if one.at_most else ""
    total = "an unknown number of" if one.total is None else f"{up_to}{one.total:,}"
    states = {state: count for state, count in one.counts.items() if count or state == "done"}
    counts = ", ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in states.items())
    left = "" if one.left is None else f", {up_to}{one.left:,} left"
    lines = [f"{one.name}: {_state_text(one)}", f"  {counts}{left}, of {total} cells"]
    if one.last_result is not None:
        lines.append(f"  last result {_when(one.last_result)}")
    if _left(one):
        what = "left" if one.state == "running" else "to run what is left, at the same pace"
        lines.append(f"  {'at most' if one.at_most else 'about'} {_left(one)} {what}")
    best = one.best if one.left else [line.replace("best so far", "best", 1) for line in one.best]
    lines += [f"  {line}" for line in best]
    if one.state in {"interrupted", "stopped", "died"}:
        lines.append("  the same command as before goes on with what is left")
    return "\n".join(lines)


def _state_text(one: SweepStatus) -> str:
    from gridtune.sweep.execution.observing import clock_text

    who = "" if one.process is None else f"process {one.process} on {one.host}"
    if one.state == "running":
        busy = f", {one.busy} worker{'s' if one.busy > 1 else ''} busy" if one.busy else ""
        since = "" if one.began is None else f" for {clock_text(time.time() - one.began)}"
        doing = "" if one.stage == "running" else f": {one.stage or 'starting'}"
        text = f"running{since}{doing}{busy} ({who})"
        if one.silent is not None:
            text += f", but without a sign of life for {clock_text(one.silent)}: is it suspended?"
        return text
    if one.state == "died":
        doing = f" while {one.stage}" if one.stage else ""
        sign = "" if one.last_sign is None else f"; last sign of life {_when(one.last_sign)}"
        return f"not running: its driver ({who or 'unknown'}) died{doing}{sign}"
    if one.state == "stopped":
        return f"not running: its driver stopped: {one.error}"
    if one.state == "unknown":
        return f"not known: its driver is {who}, which cannot be seen from here"
    return one.state


def _when(moment: float) -> str:
    """Return how long ago a moment was, and when, in local time."""
    from gridtune.sweep.execution.observing import clock_text

    text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    return f"{clock_text(max(0.0, time.time() - moment))} ago ({text})"


def _left(one: SweepStatus) -> str:
    from gridtune.sweep.execution.observing import clock_text

    return "" if one.seconds_left is None else clock_text(one.seconds_left)
