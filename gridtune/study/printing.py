"""What a study prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gridtune.report.tables import print_ranking
from gridtune.study.study import Study

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_errors", "print_study"]


def print_study(study: Study, console: Console, *, limit: int | None = 30, rankings: bool = True) -> None:
    """Print the tables of a study and where everything is.

    Parameters
    ----------
    study
        The study.
    console
        Where to.
    limit
        Rows of each table at most; None for all.
    rankings
        Whether to print the tables, or only what else is to be said.
    """
    summary = study.summary
    for note in study.notes:
        console.print(note, style="yellow", markup=False, soft_wrap=True)
    for remark in summary.remarks:
        console.print(remark, style="yellow", markup=False, soft_wrap=True)
    if not summary.rankings:
        console.print("no cell has a result to rank", style="red")
    for objective, ranking in summary.rankings.items() if rankings else ():
        print_ranking(ranking, console=console, limit=limit)
        if objective in summary.overall:
            print_ranking(summary.overall[objective], console=console, limit=limit)
    for front in summary.fronts if rankings else ():
        console.print(str(front), markup=False, soft_wrap=True)
    for error in study.errors:
        console.print(error, style="red", markup=False)
    lines = [f"tables and figures: {study.report_folder}/"]
    if study.page is not None:
        lines.append(f"the report as one page: {study.page.resolve().as_uri()}")
    if study.tracking is not None:
        lines.append(study.tracking.message)
        if study.tracking.complete:
            lines.append(f"look at every run: {study.tracking.address or study.tracking.command}")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def print_errors(study: Study) -> None:
    """Print to the standard error what a person must know who asked for no tables."""
    other = study.other_code
    lines = [
        *([study.renaming] if study.renaming else []),
        *([other.message] if other else []),
        *study.summary.remarks,
        *study.errors,
    ]
    if study.tracking is not None and not study.tracking.complete:
        lines.append(study.tracking.message)
    for line in lines:
        print(line, file=sys.stderr)
