"""`gridtune ui`: the MLflow UI on the store that sweeps are tracked in.

`python -m gridtune.cli.ui HEALTH PAGE` opens a page in the browser as soon as its server answers.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from pathlib import Path

import click

from gridtune.errors import TrackingError
from gridtune.network import skip_proxy_for_this_machine

__all__ = ["check_port", "ui"]

#: MLflow starts ten processes by default and runs scorers in some of them; a person looking at sweeps
#: needs one.
_SETTINGS = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "PYTHONWARNINGS": "ignore",
}


@click.command()
@click.argument("experiment", required=False, metavar="[SPACE]")
@click.option("--tracking-uri", help="The store. [default: MLFLOW_TRACKING_URI, else mlflow.db here]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=5000, show_default=True, type=click.IntRange(1, 65535), help="Port.")
@click.option("--no-browser", is_flag=True, help="Print the address, open no browser.")
def ui(experiment: str | None, tracking_uri: str | None, host: str, port: int, no_browser: bool) -> None:
    """Open the MLflow UI on the store that sweeps here are tracked in; end it with Ctrl-C.

    It opens on the ranking of the latest sweep, or of the latest sweep of the search space named SPACE.

    \b
    Examples:
      gridtune ui
      gridtune ui quickstart
      gridtune ui --port 5001 --no-browser
      gridtune ui --tracking-uri sqlite:////data/project/mlflow.db
      gridtune ui --host 0.0.0.0      (for other computers: no password protects it)
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
    screen = sys.platform in {"darwin", "win32"} or os.getenv("DISPLAY") or os.getenv("WAYLAND_DISPLAY")
    if not no_browser and screen:
        # It waits for the server, opens the page and ends.
        subprocess.Popen([sys.executable, "-m", "gridtune.cli.ui", f"{server}/health", address])
    # The server takes this process's place: what ends this command ends the server, and nothing is left.
    # The store's URI may hold a password, so it is not among the arguments that every user can see.
    settings = _SETTINGS | {"MLFLOW_BACKEND_STORE_URI": uri, "MLFLOW_REGISTRY_STORE_URI": uri}
    os.execve(command[0], command, os.environ | settings)


def _address(uri: str, server: str, experiment: str | None) -> str:
    """Return the page to open: a ranking, or the list of experiments where there is none."""
    from gridtune.tracking.store import connect
    from gridtune.tracking.views import first_address

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
    check_port(host, port)
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


def check_port(host: str, port: int) -> None:
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


#: Seconds that a server may take to start, and between two attempts.
_PATIENCE, _PAUSE = 120.0, 0.3


def _open_when_ready(health: str, page: str) -> bool:
    """Open a page when the server answers at `health`; return whether it did."""
    skip_proxy_for_this_machine(health)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(health, timeout=2):
                return webbrowser.open(page)
        except OSError:
            time.sleep(_PAUSE)
    return False


if __name__ == "__main__":
    _open_when_ready(*sys.argv[1:3])
