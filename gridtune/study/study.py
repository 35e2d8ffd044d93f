"""A study: a sweep, its ranking and its report, tracked.

This is what `gridtune sweep` and the scripts call. The journal in the study's folder is the truth; tables,
figures and tracking derive from it and can be made again at any time (`report_study`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv

from gridtune.core.system import get_system
from gridtune.errors import SweepError
from gridtune.report.derived import add_derived, replace_derived
from gridtune.report.facts import FACTS_FILE, SweepFacts
from gridtune.report.material import ReportMaterial
from gridtune.report.schedules import INDEX_FILE, ScheduleFiles, read_schedules, write_schedules
from gridtune.report.summary import Best, Summary, summarise, write_report
from gridtune.report.tables import print_ranking, report_console
from gridtune.sweep.journal import read_journal
from gridtune.sweep.observing import SweepObserver, SweepPlan, SweepResult
from gridtune.sweep.progress import Progress
from gridtune.sweep.results import read_table, results_of
from gridtune.sweep.run import JOURNAL_NAME, RESULTS_NAME, run_space
from gridtune.sweep.runner import error_text
from gridtune.sweep.space_check import as_space

if TYPE_CHECKING:
    from rich.console import Console

    from gridtune.core.cells import CellResult
    from gridtune.sweep.space import SearchSpace
    from gridtune.tracking.tracker import Artefact, MlflowTracker, TrackingOutcome

__all__ = ["Study", "print_study", "report_study", "run_sweep"]

#: The folder in a sweep's that holds its schedules.
_SCHEDULES = "schedules"

#: What a study prints.
Output = Literal["screen", "quiet", "json"]


@dataclass(frozen=True)
class Study:
    """A sweep with all that was made of it.

    Attributes
    ----------
    directory
        Its folder.
    facts
        What it is about.
    results
        Every cell's result.
    table
        The same as a table.
    summary
        The rankings.
    files
        Tables and figures that were written.
    tracking
        How tracking ended; None if it was off.
    sweep
        What the sweep came to; None if it was only reported.
    report
        Where tables and figures are; None for the sweep's folder.
    earlier
        Cells in the journal that the space no longer has.
    report_error
        What went wrong with the tables and figures of the system's own; None if nothing did.
    """

    directory: Path
    facts: SweepFacts
    results: Sequence[CellResult]
    table: pa.Table
    summary: Summary
    files: Sequence[Path]
    tracking: TrackingOutcome | None = None
    sweep: SweepResult | None = None
    report: Path | None = None
    earlier: int = 0
    report_error: str | None = None

    @property
    def report_folder(self) -> Path:
        """Where tables and figures are."""
        return self.report or self.directory

    @property
    def counts(self) -> dict[str, int]:
        """Cells by state."""
        return dict(Counter(result.state for result in self.results))

    @property
    def complete(self) -> bool:
        """Whether every cell is done and the report was written."""
        done = all(result.state == "done" for result in self.results)
        return done and self.report_error is None

    def as_dict(self) -> dict[str, Any]:
        """Return what `--json` prints: counts, the best of each workload, and where everything is."""
        held: dict[str, Any] = {
            "name": self.facts.name,
            "cells": len(self.results),
            "earlier": self.earlier,
            **{state: self.counts.get(state, 0) for state in ("done", "failed", "timed_out", "lost")},
            "best": {best.stratum: _best_dict(best) for best in self.summary.best},
            "directory": str(self.directory),
            "report": str(self.report_folder),
            "results": str(self.directory / RESULTS_NAME),
            "files": [str(path) for path in self.files],
            "report_error": self.report_error,
        }
        if self.sweep is not None:
            held |= {"ran": self.sweep.ran, "seconds": self.sweep.seconds}
        if self.tracking is not None:
            held["tracking"] = {
                "uri": self.tracking.uri,
                "experiment_id": self.tracking.experiment_id,
                "run_id": self.tracking.run_id,
                "unsent": len(self.tracking.unsent),
            }
        return held


def _best_dict(best: Best) -> dict[str, Any]:
    names = ("configuration_id", "mean", "ci_low", "ci_high", "relative", "verdict")
    return {"configuration": best.label, **{name: best.row[name] for name in names}}


class _FactsKeeper:
    """Writes what the sweep is about into its folder before the first cell runs."""

    facts: SweepFacts | None = None

    def started(self, plan: SweepPlan) -> None:
        self.facts = SweepFacts.of(plan)
        self.facts.write(plan.directory)

    def finished(self, results: Sequence[CellResult]) -> None:
        """Do nothing: the journal has them."""

    def ended(self, result: SweepResult) -> None:
        """Do nothing: `results.parquet` has them."""


def run_sweep(
    space: SearchSpace | Mapping[str, Any] | str | Path,
    *,
    address: str | None = None,
    workers: int | None = None,
    directory: str | Path | None = None,
    tracking: bool = True,
    tracking_uri: str | None = None,
    retry_failed: bool = False,
    output: Output = "screen",
    shuffle: int | None = None,
) -> Study:
    """Run a search space, rank its configurations, write the report and track everything.

    The same call again runs only the cells that are missing and goes on with the same runs of the
    tracking store.

    Parameters
    ----------
    space, address, workers, directory, retry_failed, shuffle
        As in `gridtune.sweep.run_space`.
    tracking
        Whether to track in MLflow.
    tracking_uri
        The tracking store; by default that of `MLFLOW_TRACKING_URI`, else SQLite (`mlflow.db`) in the
        working directory.
    output
        "screen": show progress, then the tables and where everything is; "quiet" or "json": print
        nothing but trouble, on the standard error.

    Returns
    -------
    Study
        With `tracking` saying how tracking ended.

    Raises
    ------
    GridtuneError
        As `run_space`; a tracking store that is away raises nothing.
    """
    known = as_space(space)
    console = _console(output)
    tracker = _tracker(tracking_uri, console) if tracking else None
    with Progress(console) as progress:
        options: dict[str, Any] = {"address": address, "workers": workers, "shuffle": shuffle}
        study = _run(known, tracker, progress, directory=directory, retry_failed=retry_failed, **options)
    if console is not None:
        print_study(study, console)
    elif study.tracking is not None and not study.tracking.complete:
        print(study.tracking.message, file=sys.stderr)
    return study


def _run(space: SearchSpace, tracker: MlflowTracker | None, progress: Progress, **options: Any) -> Study:
    keeper = _FactsKeeper()
    observers: list[SweepObserver] = [keeper, *([tracker] if tracker else []), progress]
    status = "FAILED"
    try:
        sweep = run_space(space, observers=observers, stage=progress.stage, **options)
        if keeper.facts is None:
            raise SweepError("the sweep has not said what it is about")
        progress.stage("writing the report", 0)
        summary = summarise(sweep.table, keeper.facts)
        if tracker:
            # The runs are on their way while the figures are drawn.
            tracker.publish(summary, seconds=sweep.seconds)
        study = _written(sweep.path.parent, summary, sweep.results, sweep.table)
        schedules = write_schedules(study.summary, study.results, study.directory / _SCHEDULES)
        drawn = _paths(schedules, study.directory)
        # What an earlier space of the same name left would pass for this one's.
        replace_derived(study.directory, [*study.files, *drawn])
        if tracker:
            progress.stage("tracking", 0)
            tracker.store(_artefacts(study, schedules))
        status = "FINISHED" if study.complete else "FAILED"
    except (KeyboardInterrupt, SystemExit):
        status = "KILLED"
        raise
    finally:
        # Whatever happened, no run of the tracking store is left as running.
        outcome = tracker.close(status) if tracker else None
    files = [*study.files, *drawn]
    return replace(study, files=files, tracking=outcome, sweep=sweep, earlier=sweep.earlier)


def report_study(
    results: str | Path,
    *,
    objective: str | None = None,
    baseline: Mapping[str, Any] | None = None,
    tracking: bool = False,
    tracking_uri: str | None = None,
) -> Study:
    """Make the report of a sweep again from what is stored, without running a cell.

    With another objective or baseline than the sweep's own, rankings and their figures go into a folder of
    their own within the sweep's, and the sweep's own report stays as it is.

    Parameters
    ----------
    results
        A sweep's folder or its `results.parquet`.
    objective
        Another metric to rank by.
    baseline
        Other parameters of the configuration to compare with.
    tracking, tracking_uri
        Send what the store does not have yet, as in `run_sweep`.

    Raises
    ------
    GridtuneError
        If there are no results, no cell has the metric, no configuration is the baseline, or another report
        than the sweep's own is to be tracked.
    """
    path = _table_path(Path(results))
    folder = path.parent
    table = read_table(path)
    own = SweepFacts.read(folder)
    facts = own.asked(table, objective=objective, baseline=baseline)
    other = own.folder_of(facts)
    if other and tracking:
        raise SweepError(
            "the store holds the sweep's own report, not one of another objective or baseline",
            hint="track without --objective and --baseline",
        )
    journal = read_journal(folder / JOURNAL_NAME)
    cells = results_of(table, journal)
    earlier = len(journal) - len(cells)
    if other:
        summary = summarise(table, facts)
        files = write_report(summary, folder / other)
        add_derived(folder, files)
        return Study(folder, facts, cells, table, summary, files, report=folder / other, earlier=earlier)
    study = replace(_written(folder, summarise(table, facts), cells, table), earlier=earlier)
    schedules = read_schedules(folder / _SCHEDULES)
    add_derived(folder, [*study.files, *_paths(schedules, folder)])
    if not tracking:
        return study
    tracker = _tracker(tracking_uri, None)
    tracker.begin(facts, folder)
    tracker.add(cells)
    status = "FAILED"
    try:
        tracker.publish(study.summary)
        tracker.store(_artefacts(study, schedules))
        status = "FINISHED" if study.complete else "FAILED"
    finally:
        outcome = tracker.close(status)
    return replace(study, tracking=outcome)


def print_study(study: Study, console: Console, *, limit: int | None = 30) -> None:
    """Print the tables of a study and where everything is.

    Parameters
    ----------
    study
        The study.
    console
        Where to.
    limit
        Rows of each table at most; None for all.
    """
    summary = study.summary
    if not summary.rankings:
        console.print("no cell has a result to rank", style="red")
    for objective, ranking in summary.rankings.items():
        print_ranking(ranking, console=console, limit=limit)
        if objective in summary.overall:
            print_ranking(summary.overall[objective], console=console, limit=limit)
    failed = [result for result in study.results if result.state != "done"]
    if failed:
        first = _error_lines(failed[0].error or failed[0].state)
        count = "1 cell has" if len(failed) == 1 else f"{len(failed)} cells have"
        console.print(f"{count} no result; the first: {first}", style="red", markup=False)
    if study.report_error is not None:
        console.print(study.report_error, style="red", markup=False)
    lines = []
    if study.earlier:
        cells = "cell of an earlier space stays" if study.earlier == 1 else "cells of an earlier space stay"
        lines.append(f"{study.earlier} {cells} in the journal, not in the tables")
    lines += [f"tables and figures: {study.report_folder}/"]
    if study.tracking is not None:
        lines.append(study.tracking.message)
        if study.tracking.complete:
            lines.append(f"look at every run: {study.tracking.command}")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _error_lines(error: str) -> str:
    """Return the line that says what went wrong, with its hint: the last ones of a traceback."""
    lines = error.strip().splitlines()
    hint = lines.pop().strip() if len(lines) > 1 and lines[-1].lstrip().startswith("hint:") else None
    return lines[-1] if hint is None else f"{lines[-1]}\n  {hint}"


def _table_path(given: Path) -> Path:
    path = given / RESULTS_NAME if given.is_dir() else given
    if path.is_file():
        return path
    if given.is_dir() and (given / JOURNAL_NAME).exists():
        hint = "start the same sweep again: it runs only the missing cells"
        raise SweepError(f"the sweep has no {RESULTS_NAME} yet", path=given, hint=hint)
    raise SweepError(
        "no results of a sweep are there", path=given, hint="give a sweep's folder: results/NAME"
    )


def _console(output: Output) -> Console | None:
    return report_console() if output == "screen" else None


def _tracker(uri: str | None, console: Console | None) -> MlflowTracker:
    from gridtune.tracking.tracker import MlflowTracker  # noqa: PLC0415

    def tell(text: str) -> None:
        if console is not None:
            console.print(text, style="yellow", markup=False)
        else:
            print(text, file=sys.stderr)

    return MlflowTracker(uri, on_trouble=tell)


def _written(folder: Path, summary: Summary, results: Sequence[CellResult], table: pa.Table) -> Study:
    csv_path = folder / "results.csv"
    pa_csv.write_csv(table, csv_path)
    files = [csv_path, *write_report(summary, folder)]
    own, error = _system_report(ReportMaterial(summary, table, results, folder))
    return Study(folder, summary.facts, results, table, summary, [*files, *own], report_error=error)


def _system_report(material: ReportMaterial) -> tuple[list[Path], str | None]:
    """Return the files of the system's own report, and what went wrong with it: the results stand without."""
    system = material.summary.facts.system
    try:
        return get_system(system).report(material), None
    except Exception as fault:
        return [], f"the report of the system {system!r} failed: {error_text(fault)}"


def _paths(schedules: Sequence[ScheduleFiles], folder: Path) -> list[Path]:
    found = [path for each in schedules for path in (*each.tables.values(), each.figure) if path is not None]
    return [*found, folder / _SCHEDULES / INDEX_FILE] if found else []


def _artefacts(study: Study, schedules: Sequence[ScheduleFiles]) -> list[Artefact]:
    """Return the files to track: the sweep's own, and the schedules with their configurations' runs."""
    from gridtune.tracking.tracker import Artefact  # noqa: PLC0415

    found = [Artefact(study.directory / name) for name in (RESULTS_NAME, FACTS_FILE)]
    found += [Artefact(path, "plots" if path.suffix == ".png" else "") for path in study.files]
    for each in schedules:
        if each.figure is not None:
            found.append(Artefact(each.figure, "schedules"))
        for key, table in each.tables.items():
            found.append(Artefact(table, "", key))
            if each.figure is not None:
                found.append(Artefact(each.figure, "", key))
    return found
