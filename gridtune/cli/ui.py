"""`gridtune ui`: the MLflow UI on the store that sweeps are tracked in."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import click

from gridtune.errors import TrackingError

__all__ = ["ui"]

#: MLflow starts ten processes by default and runs scorers in some of them; a person looking at sweeps
#: needs one.
_SETTINGS = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--tracking-uri", help="The store. [default: MLFLOW_TRACKING_URI, else mlflow.db here]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=5000, show_default=True, type=click.IntRange(1, 65535), help="Port.")
def ui(tracking_uri: str | None, host: str, port: int) -> None:
    """Open the MLflow UI on the store that sweeps here are tracked in; end it with Ctrl-C.

    \b
    Examples:
      gridtune ui
      gridtune ui --port 5001
      gridtune ui --tracking-uri sqlite:////data/project/mlflow.db
      gridtune ui --host 0.0.0.0      (for other computers: no password protects it)
    """
    from gridtune.tracking.store import tracking_uri as resolve

    uri = resolve(tracking_uri)
    if uri.startswith(("http://", "https://")):
        click.echo(f"the store is a server with its own UI: {uri}")
        return
    command = _command(uri, host, port)
    click.echo(f"{uri}\nhttp://{host}:{port}/#/experiments   (Ctrl-C ends it)")
    sys.stdout.flush()
    # The server takes this process's place: what ends this command ends the server, and nothing is left.
    os.execve(command[0], command, os.environ | _SETTINGS)


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
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--backend-store-uri",
        uri,
        "--artifacts-destination",
        str(artefacts),
        "--host",
        host,
        "--port",
        str(port),
        "--workers",
        "1",
    ]


def _check_port(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as fault:
            raise TrackingError(
                f"cannot listen on {host}:{port}: {fault.strerror}", hint=f"try --port {port + 1}"
            ) from None
