"""The tables and figures of a sweep, made at its end or again from its folder, and the text it prints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.csv as pa_csv

from gridtune.core.system import System, get_system
from gridtune.errors import SweepError
from gridtune.report.facts import FACTS_FILE, list_derived
from gridtune.report.page.content import trial_order
from gridtune.report.page.page import PAGE_FILE, write_page
from gridtune.report.schedules import INDEX_FILE, ReportMaterial, ScheduleFiles, read_schedules
from gridtune.report.summarising import draw_report, summarise, write_report
from gridtune.study.stored import read_sweep
from gridtune.study.study import Study
from gridtune.sweep.execution.runner import error_text
from gridtune.sweep.journal.disk import check_writable, is_full
from gridtune.sweep.journal.journal import JOURNAL_NAME, read_journal, read_proposals
from gridtune.sweep.journal.results import find_other_code
from gridtune.sweep.remote.results import Place
from gridtune.sweep.run import RESULTS_NAME

if TYPE_CHECKING:
    from rich.console import Console

    from gridtune.tracking.tracker import Artefact, MlflowTracker

#: The folder in a sweep's that holds its schedules.
SCHEDULES = "schedules"


def report_study(
    results: Place,
    *,
    objective: str | Sequence[str] | None = None,
    baseline: Mapping[str, Any] | None = None,
    tracking: bool = False,
    tracking_uri: str | None = None,
    show: Callable[[Study], None] = lambda _: None,
) -> Study:
    """Make the report of a sweep again from what is stored, without running a cell.

    With another objective or baseline than the sweep's own, rankings and their figures go into a folder of
    their own within the sweep's, and the sweep's own report stays as it is.

    Parameters
    ----------
    results
        A sweep's folder or its `results.parquet`; or its URL, where nothing is changed: the report is made in
        a copy, the study's `directory`.
    objective
        Another metric to rank by, or several.
    baseline
        Other parameters of the configuration to compare with.
    tracking, tracking_uri
        Send what the store does not have yet, as in `run_sweep`.
    show
        Called with the study before its files are written, which takes longer than its rankings.

    Raises
    ------
    GridtuneError
        If there are no results, no cell has the metric, no configuration is the baseline, or another report
        than the sweep's own is to be tracked.
    """
    sweep = read_sweep(results, f"{SCHEDULES}/")
    check_writable(sweep.directory, hint="copy it to where you may write, and give the copy")
    folder, table, cells = sweep.directory, sweep.table, sweep.results
    facts = sweep.facts.for_report(table, objective=objective, baseline=baseline)
    other = sweep.facts.folder_of(facts)
    if other and tracking:
        raise SweepError(
            "the store holds the sweep's own report, not one of another objective or baseline",
            hint="track without --objective and --baseline",
        )
    other_code = find_other_code(sweep.journal, cells)
    schedules = [] if other else read_schedules(folder / SCHEDULES)
    summary = summarise(table, facts, cells)
    study = Study(
        folder,
        facts,
        cells,
        table,
        summary,
        files=[],
        report=folder / other if other else None,
        earlier=len(sweep.journal) - len(cells) - (0 if other_code is None else other_code.cells),
        other_code=other_code,
    )
    show(study)
    study = draw_study(write_study(study, schedules), schedules)
    list_derived(folder, [*study.files, *schedule_paths(schedules, folder)])
    if not tracking:
        return study
    tracker = make_tracker(tracking_uri, None)
    tracker.begin(facts, folder)
    tracker.add(cells)
    status = "FAILED"
    try:
        tracker.publish(study.summary)
        tracker.store(artefacts(study, schedules))
        status = "FINISHED" if study.complete else "FAILED"
    finally:
        outcome = tracker.close(status)
    return replace(study, tracking=outcome)


def write_study(study: Study, schedules: Sequence[ScheduleFiles]) -> Study:
    """Write the tables of a sweep and of its system, and its page; return the study with them.

    Parameters
    ----------
    study
        The study; with a `report` folder, the rankings of another objective or baseline alone are written.
    schedules
        The files of schedules that the page shows.
    """
    folder, facts, results, table = study.directory, study.facts, study.results, study.table
    files, error = list(write_report(study.summary, study.report_folder)), None
    if study.report is None:
        csv_path = folder / "results.csv"
        pa_csv.write_csv(table, csv_path)
        material = ReportMaterial(study.summary, table, results, folder)
        system_files, error = _of_system(facts.system, lambda system: system.report(material))
        files = [csv_path, *files, *system_files]
    order: list[str] = []
    strategy = facts.space.get("strategy")
    options = strategy.values() if isinstance(strategy, Mapping) else ()
    if any(isinstance(option, Mapping) and "trials" in option for option in options):
        # Configurations were chosen by the results before.
        journal = folder / JOURNAL_NAME
        order = trial_order(results, read_journal(journal), read_proposals(journal))
    material = ReportMaterial(study.summary, table, results, folder, schedules, order, study.notes)
    page = write_page(material, study.report_folder / PAGE_FILE)
    return replace(study, files=[*files, page], page=page, report_error=error)


def draw_study(study: Study, schedules: Sequence[ScheduleFiles]) -> Study:
    """Draw the pictures of a sweep, of its schedules and of its system's papers; return the study with them.

    Parameters are those of `write_study`, whose files need no pictures.
    """
    from gridtune.report.reproduction.figures import draw_figures  # noqa: PLC0415 (matplotlib)

    files = list(draw_report(study.summary, study.report_folder / "plots"))
    for schedule in schedules:
        schedule.draw()
    if study.report is not None:
        return replace(study, files=[*study.files, *files])
    material = ReportMaterial(study.summary, study.table, study.results, study.directory)
    drawn, error = _of_system(
        study.facts.system, lambda system: draw_figures(system.reproductions.values(), material)
    )
    return replace(study, files=[*study.files, *files, *drawn], report_error=study.report_error or error)


def _of_system(name: str, report: Callable[[System], Iterable[Path]]) -> tuple[list[Path], str | None]:
    """Return files that the system makes, and its error: the results are safe without them."""
    try:
        return list(report(get_system(name))), None
    except Exception as fault:
        if is_full(fault):
            raise
        return [], f"the report of the system {name!r} failed: {error_text(fault)}"


def schedule_paths(schedules: Sequence[ScheduleFiles], folder: Path) -> list[Path]:
    """Return the files of a sweep's schedules, with their index."""
    paths = [path for files in schedules for path in files.paths]
    return [*paths, folder / SCHEDULES / INDEX_FILE] if paths else []


def artefacts(study: Study, schedules: Sequence[ScheduleFiles]) -> list[Artefact]:
    """Return the files to track: the sweep's own, and the schedules with their configurations' runs."""
    from gridtune.tracking.tracker import Artefact  # noqa: PLC0415

    files = [Artefact(study.directory / name) for name in (RESULTS_NAME, FACTS_FILE)]
    files += [Artefact(path, "plots" if path.suffix == ".png" else "") for path in study.files]
    for schedule in schedules:
        figures = [path for path in schedule.paths if path == schedule.figure]
        files += [Artefact(figure, "schedules") for figure in figures]
        for key, table in schedule.tables.items():
            files += [Artefact(path, "", key) for path in (table, *figures)]
    return files


def make_tracker(uri: str | None, console: Console | None) -> MlflowTracker:
    """Return a tracker whose warnings go to the console, or without one to the standard error."""
    from gridtune.tracking.tracker import MlflowTracker  # noqa: PLC0415

    def warn(text: str) -> None:
        if console is not None:
            console.print(text, style="yellow", markup=False)
        else:
            print(text, file=sys.stderr)

    return MlflowTracker(uri, on_trouble=warn)
