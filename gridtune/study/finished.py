"""The answer of a sweep that is finished: given again at once while nothing it was made of has changed.

A finished sweep leaves in `finished.json` what it printed, a checksum of everything that went into it (the
search space, the ids of its configurations, which hold logs and user code, the sources of gridtune and of the
system) and one of every file that it wrote, the journal among them, or that code of users read in a call.
Where all are as they were, and its run is in the tracking store, running the sweep again would come to the
same, and is left out. Anything else, and the sweep does all its work; so does an adaptive one, whose
configurations are not known beforehand.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sqlite3
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridtune.core.cells import canonical_json
from gridtune.core.remarks import READ_FILES
from gridtune.core.sources import code_checksums
from gridtune.errors import GridtuneError, without_secrets
from gridtune.report.facts import FACTS_FILE, write_json
from gridtune.sweep.journal.journal import JOURNAL_NAME, Journal
from gridtune.sweep.run import RESULTS_NAME, default_directory
from gridtune.sweep.space.plan import PlannedSpace
from gridtune.tracking.store import database_path, tracking_uri
from gridtune.workload.catalogue import file_checksum

if TYPE_CHECKING:
    from gridtune.study.study import Study

#: The file in a sweep's folder.
FINISHED_FILE = "finished.json"
_SCHEMA = 1


def remember_answer(study: Study, plan: PlannedSpace) -> None:
    """Leave the answer of a sweep that is complete, tracked and without anything to warn of."""
    from rich.console import Console  # noqa: PLC0415

    from gridtune.report.tables import WIDTH  # noqa: PLC0415

    path = study.directory / FINISHED_FILE
    path.unlink(missing_ok=True)
    if plan.space.strategy.adaptive is not None or not study.complete or study.notes:
        return
    if study.tracking is not None and not study.tracking.complete:
        return
    read = {Path(file) for result in study.results for file in result.notes.get(READ_FILES, ())}
    if not all(file.is_file() for file in read):
        return
    names = {
        *study.files,
        *read,
        *(study.directory / name for name in (JOURNAL_NAME, RESULTS_NAME, FACTS_FILE)),
        *Journal.segment_files(study.directory / JOURNAL_NAME),
    }
    text = io.StringIO()
    console = Console(file=text, highlight=False, width=WIDTH)
    study.print_rankings(console)
    study.print_places(console)
    answer = {
        "schema": _SCHEMA,
        "inputs": _inputs(plan),
        "files": _checksums(study.directory, names),
        "tracking": None if study.tracking is None else [study.tracking.shown_uri, study.tracking.run_id],
        "since": f"{datetime.now():%Y-%m-%d %H:%M}",
        "screen": text.getvalue(),
        "content": study.as_dict(),
    }
    write_json(answer, path)


def finished_answer(
    plan: PlannedSpace, directory: Path | None, *, tracking: bool, uri: str | None
) -> tuple[str, dict[str, Any]] | None:
    """Return the answer of a sweep that is finished and would do nothing new; None for any other.

    It is the text to print, and the content of `--json` without the seconds.

    Parameters
    ----------
    plan
        The search space, checked.
    directory
        The sweep's folder; by default that of its name.
    tracking, uri
        Whether and where the sweep is to be tracked.
    """
    folder = directory or default_directory(plan.space)
    try:
        answer = json.loads((folder / FINISHED_FILE).read_text(encoding="utf-8"))
        known = (
            answer["schema"] == _SCHEMA
            and _is_tracked(answer["tracking"], tracking_uri(uri) if tracking else None)
            and answer["files"] == _checksums(folder, [folder / name for name in answer["files"]])
            and answer["inputs"] == _inputs(plan)
        )
    except (OSError, ValueError, KeyError, TypeError, GridtuneError):
        return None
    if not known:
        return None
    unchanged = (
        f"{answer['content']['cells']:,} cells, nothing to run: nothing has changed since {answer['since']}"
    )
    return f"{unchanged}\n{answer['screen']}", {**answer["content"], "ran": 0}


def _inputs(plan: PlannedSpace) -> str:
    """Return the checksum of all that a sweep's results and its report are made of."""
    plan.preflight()
    what = {
        "space": plan.space.model_dump(mode="json"),
        "base": str(plan.space.base),
        "configurations": list(plan.configurations),
        "code": plan.code.checksum,
        "packages": code_checksums(plan.system),
    }
    return hashlib.sha256(canonical_json(what).encode()).hexdigest()


def _checksums(folder: Path, paths: Collection[Path]) -> dict[str, str]:
    inside = {path: path.relative_to(folder) for path in paths if path.is_relative_to(folder)}
    return {str(inside.get(path, path)): file_checksum(path) for path in sorted(paths)}


def _is_tracked(stored: list[str] | None, wanted: str | None) -> bool:
    """Return whether the database of the wanted store has the sweep's run."""
    if wanted is None:
        return True
    database = database_path(wanted)
    if stored is None or stored[0] != without_secrets(wanted) or database is None or not database.is_file():
        return False
    query = (
        "SELECT count(*) FROM runs WHERE run_uuid = ? AND status = 'FINISHED' AND lifecycle_stage = 'active'"
    )
    try:
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return bool(connection.execute(query, [stored[1]]).fetchone()[0])
    except sqlite3.DatabaseError:
        return False
