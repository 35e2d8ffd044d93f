"""What a tracking store holds of a sweep, fetched back: for machines that do not have the sweep's folder."""

from __future__ import annotations

import os
from pathlib import Path

from gridtune.errors import TrackingError, without_secrets
from gridtune.report.facts import FACTS_FILE
from gridtune.sweep.run import RESULTS_NAME
from gridtune.tracking.runs import KEY_TAG
from gridtune.tracking.store import connect, database_path, is_store, tracking_uri

__all__ = ["fetch_sweep"]


def fetch_sweep(run_id: str, folder: Path, *, uri: str | None = None) -> str:
    """Download what a store has of the sweep that a configuration's run belongs to.

    Parameters
    ----------
    run_id
        The run of one configuration.
    folder
        Where the sweep's table of cells and its facts go.
    uri
        The store; by default that of `MLFLOW_TRACKING_URI`, else `mlflow.db` in the working directory.

    Returns
    -------
    str
        The configuration's id.

    Raises
    ------
    TrackingError
        If there is no such store, run or file, or the run is not a configuration's.
    """
    resolved = tracking_uri(uri)
    database = database_path(resolved)
    if database is not None and not is_store(database):
        raise TrackingError(
            "there is no tracking store", path=database, hint="say where it is with --tracking-uri"
        )
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    client = connect(resolved)
    from mlflow.artifacts import download_artifacts  # noqa: PLC0415
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        run = client.get_run(run_id)
    except MlflowException:
        raise TrackingError(
            f"the store has no run {run_id}", hint=f"it is {without_secrets(resolved)}"
        ) from None
    configuration = run.data.tags.get(KEY_TAG)
    parent = run.data.tags.get("mlflow.parentRunId")
    if configuration is None or parent is None:
        raise TrackingError(
            f"the run {run_id} is not that of a configuration",
            hint="open its sweep in the UI and take the id of one of the runs below it",
        )
    for name in (FACTS_FILE, RESULTS_NAME):
        try:
            download_artifacts(run_id=parent, artifact_path=name, dst_path=str(folder), tracking_uri=resolved)
        except (MlflowException, OSError) as fault:
            message = f"the sweep's {name} cannot be fetched from the store: {fault}"
            raise TrackingError(message, hint="it is stored when the sweep ends") from None
    return str(configuration)
