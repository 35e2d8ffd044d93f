"""Files of runs, and policies by their users' names: files, folders of trainings, MLflow runs, bundled ones.

In a tracking store they have the URIs that MLflow gives them: `runs:/RUN_ID/checkpoints/best.pt`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gridtune.errors import PolicyError, TrackingError, without_secrets
from gridtune.storage import network_reason
from gridtune.tracking.runs import KEY_TAG
from gridtune.tracking.store import connect, database_path, is_store, tracking_uri

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

#: The folder of policies among a run's artefacts, and the training's last checkpoint there, packed.
CHECKPOINTS, CHECKPOINT_ARCHIVE = "checkpoints", "checkpoint.tar.gz"
#: The tag with the key by which a training's run is found again.
_TRAINING_TAG = "gridtune.training"
_URI = re.compile(r"runs:/(?P<run>[0-9a-f]{32})/(?P<path>.+)")
_RUN = re.compile(r"(?:runs:/)?(?P<run>[0-9a-f]{32})/?")


def find_policy(
    name: str | Path, *, bundled: Mapping[str, Path] | None = None, file: str = "best.pt"
) -> Path:
    """Return a policy's file.

    Parameters
    ----------
    name
        A file; the folder of a training, or a checkpoint of RLlib that it left; an artefact of an MLflow run
        (`runs:/RUN_ID/PATH`), or the run's id alone for the best policy of a training; or the name of a
        bundled policy.
    bundled
        Files of bundled policies by name.
    file
        The name of a training's best policy.

    Raises
    ------
    PolicyError
        If a folder has no policy.
    TrackingError
        If a run or its file is not there.
    """
    text, path = str(name), Path(name)
    run = _RUN.fullmatch(text)
    if run is not None and not path.exists():
        return _run_file(f"runs:/{run['run']}/{CHECKPOINTS}/{file}", tracking_uri())
    if text.startswith("runs:/"):
        return _run_file(text, tracking_uri())
    if path.is_dir():
        if not (path / file).is_file():
            hint = "give the folder of `gridtune train`, or one of its checkpoints"
            raise PolicyError(f"has no policy {file}", path=path, hint=hint)
        return path / file
    return path if path.exists() else (bundled or {}).get(text, path)


@cache
def _run_file(uri: str, store: str) -> Path:
    """Return the file that is an artefact of a run; one that is on a server is downloaded.

    Parameters
    ----------
    uri
        `runs:/RUN_ID/PATH`.
    store
        The tracking store.

    Raises
    ------
    TrackingError
        If the URI is not of this form, or the store has no such run or file.
    """
    parts = _URI.fullmatch(uri)
    if parts is None:
        raise TrackingError(
            f"{uri!r} names no file of a run", hint="give runs:/RUN_ID/PATH, such as checkpoints/best.pt"
        )
    client = connect(store)
    _find_run(client, parts["run"], store)
    return _fetch(client, parts["run"], parts["path"], store)


def fetch_training(run: str, uri: str | None = None) -> tuple[str, Path]:
    """Return the key of a training's run, and its last checkpoint as an archive.

    Parameters
    ----------
    run
        The run's id, or `runs:/ID`.
    uri
        The store; by default that of the environment.

    Raises
    ------
    TrackingError
        If there is no such run, or it is not a training's, or it has no checkpoint.
    """
    parts, store = _RUN.fullmatch(run), tracking_uri(uri)
    if parts is None:
        raise TrackingError(f"{run!r} is no id of a run", hint="copy it from the UI: 32 hexadecimal digits")
    client = connect(store)
    tags = _find_run(client, parts["run"], store).data.tags
    if _TRAINING_TAG not in tags:
        raise TrackingError(
            f"the run {parts['run']} is not that of a training", hint="give the id of a `gridtune train`"
        )
    archive = _fetch(client, parts["run"], f"{CHECKPOINTS}/{CHECKPOINT_ARCHIVE}", store)
    return str(tags[_TRAINING_TAG]), archive


def fetch_sweep(run_id: str, names: Sequence[str], folder: Path, *, uri: str | None = None) -> str:
    """Download files of the sweep that a configuration's run belongs to; return the configuration's id.

    Parameters
    ----------
    run_id
        The run of one configuration.
    names
        The sweep's files that it needs: its facts and its table of cells.
    folder
        Where they go.
    uri
        The store; by default that of `MLFLOW_TRACKING_URI`, else `mlflow.db` in the working directory.

    Raises
    ------
    TrackingError
        If there is no such store, run or file, or the run is not a configuration's.
    """
    store = tracking_uri(uri)
    database = database_path(store)
    if database is not None and not is_store(database):
        raise TrackingError(
            "there is no tracking store", path=database, hint="say where it is with --tracking-uri"
        )
    client = connect(store)
    tags = _find_run(client, run_id, store).data.tags
    if KEY_TAG not in tags or "mlflow.parentRunId" not in tags:
        raise TrackingError(
            f"the run {run_id} is not that of a configuration",
            hint="open its sweep in the UI and take the id of one of the runs below it",
        )
    for name in names:
        _fetch(client, tags["mlflow.parentRunId"], name, store, folder)
    return str(tags[KEY_TAG])


def _find_run(client: MlflowClient, run_id: str, store: str) -> Run:
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        return client.get_run(run_id)
    except MlflowException as fault:
        if fault.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise TrackingError(
                f"the store {without_secrets(store)} cannot be read: {network_reason(fault)}"
            ) from None
        raise TrackingError(
            f"the store {without_secrets(store)} has no run {run_id}",
            hint="say by MLFLOW_TRACKING_URI where the store is",
        ) from None


def _fetch(client: MlflowClient, run_id: str, name: str, store: str, folder: Path | None = None) -> Path:
    """Return a run's file, copied to a folder if one is given; a file on a server is downloaded."""
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    hint = "files of a sweep are stored when it ends" if folder is not None else None
    beside, _, _ = name.rpartition("/")
    try:
        if name not in {file.path for file in client.list_artifacts(run_id, beside or None)}:
            raise TrackingError(f"the run {run_id} has no file {name!r}", hint=hint)
        return Path(client.download_artifacts(run_id, name, None if folder is None else str(folder)))
    except (MlflowException, OSError) as fault:
        message = f"{name!r} of the run {run_id} cannot be fetched from {without_secrets(store)}"
        raise TrackingError(f"{message}: {network_reason(fault)}", hint=hint) from None
