"""Files of runs, and policies by their users' names: files, folders of trainings, MLflow runs, bundled ones.

In a tracking store they have the URIs that MLflow gives them: `runs:/RUN_ID/checkpoints/best.pt`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gridtune.errors import PolicyError, TrackingError, without_secrets
from gridtune.storage import network_reason
from gridtune.tracking.store import connect, tracking_uri

#: The folder of policies among a run's artefacts, and the training's last checkpoint there, packed.
CHECKPOINTS, CHECKPOINT_ARCHIVE = "checkpoints", "checkpoint.tar.gz"
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
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    parts, shown = _URI.fullmatch(uri), without_secrets(store)
    if parts is None:
        raise TrackingError(
            f"{uri!r} names no file of a run", hint="give runs:/RUN_ID/PATH, such as checkpoints/best.pt"
        )
    client, (run, name) = connect(store), parts.groups()
    try:
        client.get_run(run)
    except MlflowException as fault:
        if fault.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise TrackingError(f"the store {shown} cannot be read: {network_reason(fault)}") from None
        hint = "say by MLFLOW_TRACKING_URI where the store is"
        raise TrackingError(f"the store {shown} has no run {run}", hint=hint) from None
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    try:
        if name not in {file.path for file in client.list_artifacts(run, name.rpartition("/")[0] or None)}:
            raise TrackingError(f"the run {run} has no file {name!r}")
        return Path(client.download_artifacts(run, name))
    except (MlflowException, OSError) as fault:
        message = f"{name!r} of the run {run} cannot be fetched from {shown}"
        raise TrackingError(f"{message}: {network_reason(fault)}") from None
