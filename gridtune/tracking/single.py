"""`track_once`: one run of a tracking store, made after the fact: of a cell, or of a reproduction."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gridtune.report.labels import value_text
from gridtune.tracking.outbox import store_outbox
from gridtune.tracking.runs import RootRun, clean_name
from gridtune.tracking.store import tracking_uri
from gridtune.tracking.tracker import TrackedRun

__all__ = ["track_once"]

#: Seconds of nothing but failures after which the store is given up.
_PATIENCE_S = 30.0


def track_once(
    experiment: str,
    name: str,
    key: str,
    *,
    metrics: Mapping[str, float],
    parameters: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    traces: Mapping[str, str] | None = None,
    files: Iterable[Path] = (),
    uri: str | None = None,
    on_trouble: Callable[[str], None] | None = None,
) -> TrackedRun:
    """Write a finished run with its metrics and files, and wait until it is in the store.

    Parameters
    ----------
    experiment, name
        The experiment's name, and what the run is called.
    key
        What the run is found again by: the same key is the same run.
    metrics
        What is no finite number is left out.
    parameters, tags, traces
        Of the run; reference to SHA-256 of the logs.
    files
        Artefacts.
    uri
        The tracking store; by default that of the environment, else SQLite in the working directory.
    on_trouble
        Called with a sentence when the store cannot be reached.
    """
    at, resolved, ids = int(time.time() * 1000), tracking_uri(uri), ("", "")
    texts = {name: value_text(value) for name, value in (parameters or {}).items()}
    root = RootRun(experiment, "run", key, name, tags or {}, texts, traces or {}, at)
    values = {clean_name(name): float(value) for name, value in metrics.items() if math.isfinite(value)}
    outbox = store_outbox(resolved, on_trouble, "command")

    def begin(runs: Any) -> None:
        nonlocal ids
        ids = runs.open(root)

    def upload(path: Path, runs: Any) -> None:
        runs.upload(path, "")

    outbox.put("the run", begin)
    outbox.put("its metrics", lambda runs: runs.log_step(0, values, at))
    for file in files:
        outbox.put(f"the file {file.name}", partial(upload, file.resolve()))
    outbox.put("its end", lambda runs: runs.end("FINISHED", at))
    outbox.drain(_PATIENCE_S)
    tracked = TrackedRun(resolved, outbox.unsent, outbox.fault, Path(), *ids)
    outbox.close()
    return tracked
