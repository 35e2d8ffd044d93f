"""A sweep in shards: one part of its cells, and the whole that is put together again."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridtune.errors import SweepError
from gridtune.report.facts import FACTS_FILE, SweepFacts
from gridtune.report.tables import report_console
from gridtune.study.run import FactsWriter, run_sweep, warn
from gridtune.sweep.execution.progress import Progress
from gridtune.sweep.execution.status import StatusFile
from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.remote.places import Place, has_sweep, sweeps_in, view_sweep
from gridtune.sweep.remote.results import results_at
from gridtune.sweep.run import JOURNAL_NAME, run_space, space_cells
from gridtune.sweep.shards import SHARD_FILE, Shard, merge_journals, missing_shards
from gridtune.sweep.space.checks import check_space
from gridtune.sweep.space.schema import SearchSpace, parse_space

if TYPE_CHECKING:
    from gridtune.study.run import Output
    from gridtune.study.study import Study
    from gridtune.sweep.execution.observing import SweepResult

__all__ = ["Merged", "merge_shards", "run_shard"]

#: Keys of a space that decide nothing about its results.
_ASIDE = ("resources", "description")


def run_shard(
    space: SearchSpace,
    shard: Shard,
    *,
    directory: Place | None = None,
    output: Output = "screen",
    retry_failed: bool | Collection[str] = False,
    **options: Any,
) -> SweepResult:
    """Run one shard of a space, without ranking and tracking: they are the whole sweep's.

    Parameters
    ----------
    space, shard
        The space, and which part of its cells.
    directory
        The shard's own folder or URL; by default `results/NAME/shards/3-of-16`.
    output
        As in `run_sweep`.
    retry_failed, options
        As in `gridtune.sweep.run_space`.
    """
    said = StatusFile()
    console = report_console() if output == "screen" else None
    with (
        results_at(directory, warn) as (folder, remote),
        Progress(console) as progress,
        contextlib.ExitStack() as until,
        said.ending(),
    ):

        def stage(what: str, busy: int) -> None:
            said.stage(what, busy)
            progress.stage(what, busy)

        result = run_space(
            space,
            shard=shard,
            directory=folder,
            observers=[FactsWriter(), said, progress, *([remote] if remote else [])],
            stage=stage,
            retry_failed=retry_failed,
            mirror=remote.append if remote else None,
            until=until,
            **options,
        )
        if remote is not None:
            stage("storing results", 0)
            remote.publish()
        return result


@dataclass(frozen=True)
class Merged:
    """What became of some folders of one sweep.

    Attributes
    ----------
    place
        Where their journal is.
    cells
        Cells of the whole sweep.
    missing
        Cells that none of the folders has.
    shards
        The shards that none of the folders is, such as `3/16`.
    source
        The file of the search space; None if it was none.
    study
        The whole study; None where cells are missing.
    """

    place: Place
    cells: int
    missing: int
    shards: Sequence[str]
    source: str | None
    study: Study | None


def merge_shards(places: Sequence[Place], out: Place, **options: Any) -> Merged:
    """Merge the journals of parts of one sweep; where no cell is missing, rank and track the whole.

    Parameters
    ----------
    places
        The folders or URLs of its shards, or those that the shards are in. Any sweeps of the same space will
        do.
    out
        The folder or URL of the whole sweep. What it has already counts, too.
    options
        As in `run_sweep`: `tracking`, `tracking_uri`, `output`.

    Raises
    ------
    SweepError
        If the folders are of different sweeps, or contradict each other.
    StorageError
        If the storage at a URL cannot be read or written.
    """
    with contextlib.ExitStack() as stack:
        views = [
            stack.enter_context(view_sweep(one, FACTS_FILE, SHARD_FILE))
            for place in places
            for one in ([place] if has_sweep(place) else sweeps_in(place) or [place])
        ]
        facts = [SweepFacts.read(view.folder) for view in views]
        contents = [{key: value for key, value in one.space.items() if key not in _ASIDE} for one in facts]
        for view, content in zip(views, contents, strict=True):
            if content != contents[0]:
                raise SweepError(f"is a sweep of another search space than {views[0].place}", path=view.place)
        space = parse_space(facts[0].space, path=None if facts[0].source is None else Path(facts[0].source))
        check_space(space)
        shards = missing_shards(views)
        ids = {cell.cell_id for cell in space_cells(space)}
        with results_at(out, warn) as (folder, remote):
            assert folder is not None
            merge_journals(views, folder, mirror=remote.append if remote else None)
            missing = len(ids - read_journal(folder / JOURNAL_NAME).keys())
    study = None if missing else run_sweep(space, directory=out, **options)
    return Merged(out, len(ids), missing, shards if missing else [], facts[0].source, study)
