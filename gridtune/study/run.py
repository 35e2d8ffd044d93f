"""`run_sweep` turns a search space into a study; `run_shard` and `merge_shards` do so in parts."""

from __future__ import annotations

import contextlib
import shlex
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from gridtune.errors import GridtuneWarning, SweepError, without_secrets
from gridtune.report.facts import FACTS_FILE, SweepFacts, list_derived
from gridtune.report.schedules import ScheduleFiles, write_schedules
from gridtune.report.summarising import confirmed_facts, summarise
from gridtune.report.summary import Summary
from gridtune.report.tables import report_console
from gridtune.study.finished import remember_answer
from gridtune.study.report import SCHEDULES, artefacts, draw_study, make_tracker, schedule_paths, write_study
from gridtune.study.study import Study
from gridtune.sweep.execution.observing import Progress, SweepObserver, SweepPlan, SweepResult
from gridtune.sweep.execution.status import StatusFile
from gridtune.sweep.journal.disk import check_writable, when_there_is_room
from gridtune.sweep.journal.journal import JOURNAL_NAME, read_journal
from gridtune.sweep.remote.results import Place, RemoteResults, has_sweep, results_at, sweeps_in, view_sweep
from gridtune.sweep.run import default_directory, run_fresh, run_space, space_cells
from gridtune.sweep.shards import SHARD_FILE, Shard, merge_journals, missing_shards
from gridtune.sweep.space.overriding import SpaceObjects
from gridtune.sweep.space.plan import PlannedSpace, SpaceSource, plan_space
from gridtune.sweep.space.schema import SearchSpace, parse_space

if TYPE_CHECKING:
    from gridtune.sweep.execution.executors import Executor
    from gridtune.tracking.tracker import MlflowTracker

#: What a study prints.
Output = Literal["screen", "progress", "quiet", "json"]
#: Says what is waited for.
_warn = partial(warnings.warn, category=GridtuneWarning, stacklevel=2)


def run_sweep(
    space: SpaceSource,
    *,
    address: str | None = None,
    workers: int | None = None,
    directory: str | Path | None = None,
    tracking: bool = True,
    tracking_uri: str | None = None,
    retry_failed: bool | Collection[str] = False,
    output: Output = "screen",
    executor: Executor | None = None,
    figures: bool = True,
) -> Study:
    """Run a search space, rank its configurations, write the report and track everything.

    The same call again runs only the cells that are missing and goes on with the same runs of the
    tracking store.

    Parameters
    ----------
    space
        A path to a YAML file, a mapping of the same keys, or a space. In a mapping, values of parameters may
        also be `Workload` objects, and functions where a queue order is wanted.
    address
        A running Ray cluster to join; by default RAY_ADDRESS, else a local one that ends with the sweep.
    workers
        Cells at once; by default that of the space, else as many as there are processors.
    directory
        Folder of journal and results, by default `results/NAME`; or a URL such as `s3://bucket/run`, where
        the journal is stored during the sweep, and tables and figures at its end.
    retry_failed
        Run cells again that failed, timed out or were lost; or only those of some of these states.
    executor
        Place of the cells: "inline" (this process), "ray" (workers) or "auto" (this process for a few seconds
        of work, else Ray); by default that of the space. Results do not depend on it.
    tracking
        Track in MLflow.
    tracking_uri
        The tracking store; by default that of `MLFLOW_TRACKING_URI`, else SQLite (`mlflow.db`) in the
        working directory.
    output
        "screen": show progress, then the tables and where everything is; "progress": no tables; "quiet" or
        "json": print only errors and warnings, to the standard error.
    figures
        False draws no picture files; `report_study` draws them later. The page has its own charts.

    Returns
    -------
    Study
        With `tracking` saying how tracking ended.

    Raises
    ------
    GridtuneError
        As `run_space`; also if the folder holds a sweep of another name. A tracking store that is away
        raises nothing.
    """
    if output not in get_args(Output):
        raise SweepError(f"output must be one of {', '.join(get_args(Output))}, but got {output!r}")
    with contextlib.ExitStack() as stack:
        folder, remote = stack.enter_context(results_at(directory, _warn))
        objects = None
        if isinstance(space, Mapping):
            objects = SpaceObjects(folder or Path("results") / str(space.get("name")))
            space = objects.replaced(space)
        plan = plan_space(space)
        folder = folder or default_directory(plan.space)
        if objects is not None:
            objects.write()
        _check_folder(plan.space, folder)
        console = report_console() if output in {"screen", "progress"} else None

        def show(study: Study) -> None:
            if console is not None and output == "screen":
                study.print_rankings(console)
                study.print_places(console)

        with Progress(console) as progress:
            options: dict[str, Any] = {"address": address, "workers": workers, "executor": executor}
            options |= {"directory": folder, "retry_failed": retry_failed}
            stored = SweepFacts.read(folder).replicates if (folder / FACTS_FILE).exists() else 0
            look = plan
            while look.space.replicates.until and look.space.replicates.count < min(
                stored, plan.space.replicates.end
            ):
                look = look.with_more_replicates()
            while True:
                tracker = make_tracker(tracking_uri, console) if tracking else None
                study = _run(look, tracker, progress, remote, show, figures=figures, **options)
                if study.summary.settled or not look.has_more:
                    break
                look = look.with_more_replicates()
        if console is not None and output == "screen":
            for line in () if study.tracking is None else study.tracking.lines:
                console.print(line, markup=False, soft_wrap=True)
            if remote is not None:
                console.print(f"stored at {remote}", markup=False, soft_wrap=True)
        else:
            study.print_errors()
        if figures:
            when_there_is_room(partial(remember_answer, study, plan), study.directory, _warn)
    return study


class FactsWriter(SweepObserver):
    """Writes what the sweep is about into its folder before the first cell runs; keeps it as `facts`."""

    facts: SweepFacts | None = None

    def started(self, plan: SweepPlan) -> None:
        """Write it."""
        self.facts = SweepFacts.of(plan, command=self._command())
        self.facts.write(plan.directory)

    @staticmethod
    def _command() -> str:
        """Return the command line of this process if it is gridtune's own, else ""."""
        program, *arguments = sys.argv or [""]
        if Path(program).name != "gridtune":
            return ""
        return shlex.join(["gridtune", *map(without_secrets, arguments)])


def _check_folder(space: SearchSpace, folder: Path) -> None:
    """Refuse a folder that cannot be written, or with another sweep, whose tables would be lost."""
    there = SweepFacts.read(folder) if (folder / FACTS_FILE).exists() else space
    extend = f", or call the search space {there.name!r} to extend that sweep"
    own, other = repr(space.name), repr(there.name)
    if there.system != space.system:
        own, other, extend = f"{own} of {space.system}", f"{other} of {there.system}", ""
    if own != other:
        raise SweepError(
            f"holds the sweep {other}, whose tables those of {own} would replace",
            path=folder,
            hint=f"give another with --out{extend}",
        )
    check_writable(folder)


@contextlib.contextmanager
def _observed(
    progress: Progress, remote: RemoteResults | None, *observers: SweepObserver
) -> Iterator[dict[str, Any]]:
    """Yield options of `run_space` with which observers, the status file and the remote folder follow it.

    Another driver may begin in the folder when this context ends, not before.
    """
    status = StatusFile()

    def stage(what: str, busy: int) -> None:
        status.stage(what, busy)
        progress.stage(what, busy)

    with contextlib.ExitStack() as until, status.ending():
        options: dict[str, Any] = {"stage": stage, "until": until}
        options["observers"] = [*observers, status, progress, *([remote] if remote else [])]
        options["mirror"] = remote.append if remote else None
        yield options


def _run(
    plan: PlannedSpace,
    tracker: MlflowTracker | None,
    progress: Progress,
    remote: RemoteResults | None,
    show: Callable[[Study], None],
    *,
    figures: bool,
    **options: Any,
) -> Study:
    writer = FactsWriter()
    status = "FAILED"
    with _observed(progress, remote, writer, *([tracker] if tracker else [])) as observed:
        stage = observed["stage"]
        try:
            sweep = run_space(plan, **observed, **options)
            assert writer.facts is not None
            stage("writing the report", 0)
            summary = summarise(sweep.table, writer.facts, sweep.results)
            last = summary.settled or not plan.has_more
            if last and sweep.complete and summary.unconfirmed:
                stage("confirming the best", 0)
                fresh = run_fresh(plan, sweep, summary.unconfirmed, stage=stage, **options)
                facts = confirmed_facts(summary, fresh.table)
                facts.write(sweep.path.parent)
                summary = summarise(sweep.table, facts, sweep.results)
            if tracker:
                # The runs are sent while the report is written.
                tracker.publish(summary, seconds=sweep.seconds)
            folder = sweep.path.parent
            study, schedules = when_there_is_room(partial(_write_report, sweep, summary), folder, _warn)
            if last:
                show(study)
            if last and figures:
                stage("drawing figures", 0)
            finish = partial(_finish_report, study, schedules, figures=last and figures)
            study = when_there_is_room(finish, folder, _warn)
            if remote is not None:
                stage("storing the report", 0)
                remote.publish()
            if tracker:
                stage("tracking", 0)
                tracker.store(artefacts(study, schedules))
            study = replace(study, files=[*study.files, *schedule_paths(schedules, folder)])
            status = "FINISHED" if study.complete else "FAILED"
        except (KeyboardInterrupt, SystemExit):
            status = "KILLED"
            raise
        finally:
            # Whatever happened, no run of the tracking store is left as running.
            outcome = tracker.close(status) if tracker else None
    return replace(study, tracking=outcome)


def _write_report(sweep: SweepResult, summary: Summary) -> tuple[Study, list[ScheduleFiles]]:
    """Write the tables and the page of a sweep; return the study and its schedules."""
    folder = sweep.path.parent
    schedules = write_schedules(summary, sweep.results, folder / SCHEDULES)
    found = {name: getattr(sweep, name) for name in ("earlier", "other_code")}
    study = Study(folder, summary.facts, sweep.results, sweep.table, summary, [], **found, sweep=sweep)
    return write_study(study, schedules), schedules


def _finish_report(study: Study, schedules: Sequence[ScheduleFiles], *, figures: bool) -> Study:
    """Draw the pictures, unless they are not wanted, and list what is derived from the cells."""
    told = study.report_error
    study = draw_study(study, schedules) if figures else study
    if study.report_error is not None and told is None:
        _warn(study.report_error)
    files = [*study.files, *schedule_paths(schedules, study.directory)]
    # What an earlier space of the same name left would pass for this one's.
    list_derived(study.directory, files, remove_others=True)
    return study


#: Keys of a space that decide nothing about its results.
_ASIDE = ("resources", "description")


def run_shard(
    plan: PlannedSpace,
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
    plan, shard
        The space, and which part of its cells.
    directory
        The shard's own folder or URL; by default `results/NAME/shards/3-of-16`.
    output
        As in `run_sweep`.
    retry_failed, options
        As in `gridtune.sweep.run_space`.
    """
    console = report_console() if output == "screen" else None
    with (
        results_at(directory, _warn) as (folder, remote),
        Progress(console) as progress,
        _observed(progress, remote, FactsWriter()) as observed,
    ):
        result = run_space(
            plan, shard=shard, directory=folder, retry_failed=retry_failed, **observed, **options
        )
        if remote is not None:
            observed["stage"]("storing results", 0)
            remote.publish()
        return result


@dataclass(frozen=True)
class _Merged:
    """The result of merging folders of one sweep.

    Attributes
    ----------
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

    cells: int
    missing: int
    shards: Sequence[str]
    source: str | None
    study: Study | None


def merge_shards(places: Sequence[Place], out: Place, **options: Any) -> _Merged:
    """Merge the journals of parts of one sweep; where no cell is missing, rank and track the whole.

    Parameters
    ----------
    places
        The folders or URLs of its shards, or those that the shards are in. Any sweeps of the same space will
        do.
    out
        The folder or URL of the whole sweep. Cells that it already has count, too.
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
        source = None if facts[0].source is None else Path(facts[0].source)
        plan = plan_space(parse_space(facts[0].space, path=source))
        shards = missing_shards(views)
        ids = {cell.cell_id for cell in space_cells(plan)}
        with results_at(out, _warn) as (folder, remote):
            assert folder is not None
            merge_journals(views, folder, mirror=remote.append if remote else None)
            missing = len(ids - read_journal(folder / JOURNAL_NAME).keys())
    study = None if missing else run_sweep(plan, directory=out, **options)
    return _Merged(len(ids), missing, shards if missing else [], facts[0].source, study)
