"""Policies by what users call them: files, folders of trainings, MLflow runs, and those that are bundled.

In a tracking store they have the URIs that MLflow gives them: `runs:/RUN_ID/checkpoints/best.pt`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gridtune.errors import PolicyError, TrackingError, without_secrets
from gridtune.tracking.store import cache_folder, open_store, tracking_uri

__all__ = ["CHECKPOINTS", "find_policy", "run_file"]

#: The folder of policies among a run's artefacts.
CHECKPOINTS = "checkpoints"
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
        What a training calls its best policy.

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
        return run_file(f"runs:/{run['run']}/{CHECKPOINTS}/{file}")
    if text.startswith("runs:/"):
        return run_file(text)
    if path.is_dir():
        if not (path / file).is_file():
            hint = "give the folder of `gridtune train`, or one of its checkpoints"
            raise PolicyError(f"has no policy {file}", path=path, hint=hint)
        return path / file
    return path if path.exists() else (bundled or {}).get(text, path)


def run_file(uri: str, *, store: str | None = None) -> Path:
    """Return the file that is an artefact of a run; one that is on a server is downloaded.

    Parameters
    ----------
    uri
        `runs:/RUN_ID/PATH`.
    store
        The tracking store; by default that of the environment, else SQLite in the working directory.

    Raises
    ------
    TrackingError
        If the URI is not of this form, or the store has no such run or file.
    """
    return _run_file(uri, tracking_uri(store))


@cache
def _run_file(uri: str, store: str) -> Path:
    from gridtune.tracking.database_store import local_folder  # noqa: PLC0415 (imports SQLAlchemy)

    parts = _URI.fullmatch(uri)
    if parts is None:
        raise TrackingError(
            f"{uri!r} names no file of a run", hint="give runs:/RUN_ID/PATH, such as checkpoints/best.pt"
        )
    shown = without_secrets(store)
    run = open_store(store).find_run(parts["run"])
    if run is None:
        raise TrackingError(
            f"the store {shown} has no run {parts['run']}",
            hint="say by MLFLOW_TRACKING_URI where the store is",
        )
    folder = local_folder(run.artifacts)
    file = folder / parts["path"] if folder is not None else _download(uri, store)
    if not file.is_file():
        raise TrackingError(f"the run {parts['run']} has no file {parts['path']!r}", path=file)
    return file


def _download(uri: str, store: str) -> Path:
    from mlflow.artifacts import download_artifacts  # noqa: PLC0415
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    folder = cache_folder() / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    # A folder for each process: what another one reads is not replaced.
    target = tempfile.mkdtemp(dir=folder)
    try:
        return Path(download_artifacts(uri, dst_path=target, tracking_uri=store))
    except (MlflowException, OSError) as fault:
        reason = without_secrets(str(fault))
        raise TrackingError(f"{uri} cannot be fetched from {without_secrets(store)}: {reason}") from None
