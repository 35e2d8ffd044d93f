"""`gridtune status` and `gridtune ui`: look at sweeps, in the terminal and in MLflow."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import command, read_place
from gridtune.cli.tables import new_table, print_json
from gridtune.errors import TrackingError

if TYPE_CHECKING:
    from gridtune.study.status import SweepStatus


@command()
def status(sweep: str | None = None, *, as_json: bool = False) -> None:
    """Show the state of a sweep: cells done, failed and left, its driver, the time left.

    Give its folder, its URL, its search space or its name; without any, all sweeps in results/ are listed,
    and with a folder or URL that sweeps are in, those. Nothing is disturbed by looking, and it is true after
    the driver was killed, too: it comes from the journal and its lock.

    Of a single sweep, the exit code is 0 if it runs or every cell is done, and 1 otherwise.

    \b
    Examples:
      gridtune status
      gridtune status results/quickstart
      gridtune status search_spaces/quickstart.yaml --json
      gridtune status s3://bucket/my_space
      gridtune status results/my_space/shards
    """
    from gridtune.study.status import sweep_status
    from gridtune.sweep.journal.journal import RESULTS
    from gridtune.sweep.remote.results import has_sweep, sweeps_in

    place = RESULTS if sweep is None else place_of(sweep)
    several = sweep is None or (not has_sweep(place) and bool(sweeps_in(place)))
    statuses = _all(sweeps_in(place)) if several else [sweep_status(place)]
    if as_json:
        rows = [one.as_dict() for one in statuses]
        print_json(rows if several else rows[0])
    else:
        _show(statuses, place if several else None)
    if not several and statuses[0].state != "running" and not statuses[0].complete:
        sys.exit(EXIT_FAILED_CELLS)


def place_of(text: str) -> str | Path:
    """Return the folder or URL of a sweep, of a search space or of a sweep's name in results/."""
    from gridtune.errors import SweepError
    from gridtune.registry import name_hint
    from gridtune.sweep.journal.journal import RESULTS, sweep_folders
    from gridtune.sweep.run import default_directory
    from gridtune.sweep.space.schema import find_space, read_space

    path = read_place(text)
    if isinstance(path, str):
        return path
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
            found.append(sweep_status(place))
        except GridtuneError as fault:
            found.append(SweepStatus(place, place_name(place), "unknown", None, error=str(fault)))
    return found


def _show(statuses: list[SweepStatus], place: str | Path | None) -> None:
    """Print the state of a sweep, or a table of those in a folder or at a URL."""
    from gridtune.report.tables import report_console
    from gridtune.study.status import when
    from gridtune.sweep.remote.results import place_name

    console = report_console()
    if place is None:
        console.print(str(statuses[0]), soft_wrap=True)
        return
    where = str(place).rstrip("/") + "/"
    if not statuses:
        console.print(f"no sweep in {where}", soft_wrap=True)
        return
    numbers = ("done", "failed", "left")
    columns = ("name", "state", *numbers, "last result", "time left")
    table = new_table(f"Sweeps in {where}", *columns, right=numbers)
    for one in statuses:
        failed = sum(count for state, count in one.counts.items() if state != "done")
        left = "?" if one.left is None else f"{'≤ ' if one.at_most else ''}{one.left:,}"
        last = "" if one.last_result is None else when(one.last_result)
        done = f"{one.counts.get('done', 0):,}"
        table.add_row(place_name(one.folder), one.state, done, f"{failed:,}", left, last, one.time_left)
    console.print(table, soft_wrap=True)


#: MLflow starts ten processes by default and runs scorers in some of them; a person looking at sweeps
#: needs one.
_SETTINGS = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "PYTHONWARNINGS": "ignore",
}


@command()
def ui(
    experiment: str | None = None,
    *,
    tracking_uri: str | None = None,
    host: str = "127.0.0.1",
    port: int = 5000,
) -> None:
    """Serve the MLflow UI of the store that sweeps here are tracked in; end it with Ctrl-C.

    The address that it prints shows the ranking of the latest sweep, or that of the search space EXPERIMENT.

    \b
    Examples:
      gridtune ui
      gridtune ui quickstart
      gridtune ui --port 5001
      gridtune ui --tracking-uri sqlite:////data/project/mlflow.db
      gridtune ui --host 0.0.0.0      (for other computers: no password protects it)

    Parameters
    ----------
    host
        Address to listen on.
    port
        Port to listen on.
    """
    from gridtune.errors import without_secrets
    from gridtune.tracking.store import tracking_uri as resolve

    uri = resolve(tracking_uri)
    if uri.startswith(("http://", "https://")):
        server = without_secrets(uri).rstrip("/")
        click.echo(f"the store is a server with its own UI: {_address(uri, server, experiment)}")
        return
    command = _command(uri, host, port)
    server = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    address = _address(uri, server, experiment)
    click.echo(f"{without_secrets(uri)}\n{address}   (Ctrl-C ends it)")
    sys.stdout.flush()
    # The server takes this process's place: what ends this command ends the server, and nothing is left.
    # The store's URI may hold a password, so it is not among the arguments that every user can see.
    settings = _SETTINGS | {"MLFLOW_BACKEND_STORE_URI": uri, "MLFLOW_REGISTRY_STORE_URI": uri}
    os.execve(command[0], command, os.environ | settings)


def _address(uri: str, server: str, experiment: str | None) -> str:
    """Return the page to open: a ranking, or the list of experiments where there is none."""
    from gridtune.tracking.store import connect
    from gridtune.tracking.tracked import first_address

    address = first_address(connect(uri), f"{server}/", experiment)
    if address is None:
        raise TrackingError(
            f"the store has no ranking of a search space {experiment!r}",
            hint="give the name in the space's file, or leave it out for the latest sweep",
        )
    return address


def _command(uri: str, host: str, port: int) -> list[str]:
    """Return the command that serves a store, after checking what it would only fail on obscurely."""
    from gridtune.tracking.store import artifact_root, database_path, is_store

    database = database_path(uri)
    if database is not None and not is_store(database):
        there = "is not a tracking store" if database.exists() else "there is no tracking store yet"
        raise TrackingError(
            there, path=database, hint="run a sweep here first, or say where the store is by --tracking-uri"
        )
    _check_port(host, port)
    artefacts = artifact_root(uri) or Path.cwd() / "mlartifacts"
    return [
        *(sys.executable, "-m", "mlflow", "server"),
        *("--artifacts-destination", str(artefacts)),
        *("--host", host, "--port", str(port)),
        *("--workers", "1"),
        # No line for every request, and no traceback at Ctrl-C: MLflow's start and end of the server
        # concern its assistant alone.
        *("--uvicorn-opts", "--log-level warning --lifespan off"),
    ]


def _check_port(host: str, port: int) -> None:
    """Refuse a port that no server can listen on.

    Raises
    ------
    TrackingError
        If it is in use, or the address is not this machine's.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as fault:
            raise TrackingError(
                f"cannot listen on {host}:{port}: {fault.strerror}", hint=f"try --port {port + 1}"
            ) from None
