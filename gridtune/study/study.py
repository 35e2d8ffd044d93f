"""`Study`: a sweep with all that was made of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gridtune.core.style import Picture
from gridtune.core.system import SYSTEMS, get_system
from gridtune.errors import SweepError
from gridtune.registry import name_hint
from gridtune.report.answer import print_answers
from gridtune.report.facts import SweepFacts
from gridtune.report.rankings.comparison import Comparison, Side, compare
from gridtune.report.rankings.ranking import PAIRED, Ranking
from gridtune.report.summary import Best, Summary
from gridtune.report.tables import print_ranking
from gridtune.sweep.execution.observing import SweepResult
from gridtune.sweep.journal.results import OtherCode
from gridtune.sweep.run import RESULTS_NAME

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from gridtune.core.cells import CellResult
    from gridtune.tracking.tracked import TrackedRun

#: Workloads whose best the short text names; rows that a notebook shows, and columns but for parameters.
_SHOWN_WORKLOADS, _SHOWN_ROWS = 3, 30
_SHOWN = "workload rank n mean ci_low ci_high relative relative_low relative_high verdict subject_to"
#: Kinds of figures that `Study.plot` draws.
_FIGURES = ("ranking", "overall", "front")
#: Columns of a ranking that `as_dict` gives of the best configuration.
_BEST = ("configuration_id", "mean", "ci_low", "ci_high", *PAIRED[3:], "verdict", "confirmed")


@dataclass(frozen=True, repr=False)
class Study:
    """A sweep with all that was made of it.

    Attributes
    ----------
    directory
        Its folder.
    facts
        Its facts: name, system, objectives, workloads.
    results
        Every cell's result.
    table
        The same as a table.
    summary
        The rankings.
    files
        Tables and figures that were written.
    tracking
        The outcome of tracking; None if it was off.
    sweep
        The result of the sweep; None if it was only reported.
    report
        Where tables and figures are; None for the sweep's folder.
    page
        The report as one HTML page; None if it was not written.
    earlier
        Cells in the journal that the space no longer has.
    other_code
        Results of the same cells by other code in the journal; None if there are none.
    report_error
        The error of the system's own tables and figures; None if there is none.
    """

    directory: Path
    facts: SweepFacts
    results: Sequence[CellResult]
    table: pa.Table
    summary: Summary
    files: Sequence[Path]
    tracking: TrackedRun | None = None
    sweep: SweepResult | None = None
    report: Path | None = None
    page: Path | None = None
    earlier: int = 0
    other_code: OtherCode | None = None
    report_error: str | None = None

    def __repr__(self) -> str:
        best = "; ".join(f"{found.stratum}: {found}" for found in self.summary.best[:_SHOWN_WORKLOADS])
        return f"Study({self.facts.name!r}, {len(self.results):,} cells, best {best or 'unknown'})"

    def _repr_html_(self) -> str:
        if not self.summary.rankings:
            return f"<p>{escape(repr(self))}</p>"
        objective = next(iter(self.summary.rankings))
        frame = self.ranking(overall=objective in self.summary.overall)
        names = {*_SHOWN.split(), *(f"param.{name}" for name in self.facts.dimensions)}
        shown = (
            frame[[name for name in frame if name in names]]
            .head(_SHOWN_ROWS)
            .to_html(index=False, float_format="%.4g", na_rep="–")
        )
        more = f"<p>and {len(frame) - _SHOWN_ROWS:,} more</p>" if len(frame) > _SHOWN_ROWS else ""
        own = [answer.paragraphs() for answer in self.summary.answers if answer.objective == objective]
        answers = "".join(own[:_SHOWN_WORKLOADS])
        return f"{answers}<h4>{escape(self.facts.name)}: {escape(objective)}</h4>{shown}{more}"

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each cell: workload, replicate, state, `param.*`, `metric.*`."""
        return self.table.to_pandas()

    def ranking(self, objective: str | None = None, *, overall: bool = False) -> pd.DataFrame:
        """Return a row for each configuration, the best first, within each workload.

        Parameters
        ----------
        objective
            One of the sweep's objectives; by default the first. (`report_study` ranks by any metric.)
        overall
            Rank over all workloads together instead, by differences relative to the baseline.

        Raises
        ------
        SweepError
            If there is no such ranking.
        """
        return self._ranking(objective, overall=overall).table.to_pandas()

    def best(self, workload: str | None = None) -> Best:
        """Return the best configuration by the first objective.

        Parameters
        ----------
        workload
            On which workload, and under which conditions, as the ranking calls it: "kth-sp2, easy". May be
            left out where there is only one.

        Raises
        ------
        SweepError
            If no configuration has a rank there, or several workloads have one and none is named.
        """
        found = {best.stratum: best for best in self.summary.best}
        if workload is None and len(found) == 1:
            return next(iter(found.values()))
        if workload in found:
            return found[workload]
        if workload is None and found:
            raise SweepError("each workload has a best configuration", hint=f"name one of {', '.join(found)}")
        what = f"on {workload!r}" if workload is not None else "yet"
        hint = name_hint(workload, found) if workload is not None else None
        raise SweepError(f"no configuration is ranked {what}", hint=hint)

    def compare(
        self, first: Mapping[str, Any], second: Mapping[str, Any], *, objective: str | None = None
    ) -> Comparison:
        """Compare two configurations on their common replicates, as `gridtune results compare` does.

        Parameters
        ----------
        first, second
            Parameters that name one configuration each, or several that differ in the others alike.
        objective
            The metric; by default the sweep's first objective.
        """
        names = [", ".join(f"{name}={value}" for name, value in side.items()) for side in (first, second)]
        one, other = (
            Side(name, self.facts, self.table, dict(selection))
            for name, selection in zip(names, (first, second), strict=True)
        )
        system = get_system(self.facts.system) if self.facts.system in SYSTEMS else None
        return compare(one, other, system, objective=objective)

    def plot(self, kind: str = "ranking", objective: str | None = None) -> Picture:
        """Draw the study; a notebook shows the picture, `save(PATH)` writes it.

        Parameters
        ----------
        kind
            "ranking", "overall" (over all workloads) or "front" (several objectives).
        objective
            As of `ranking`.

        Raises
        ------
        SweepError
            If there is no such figure.
        """
        from gridtune.report.plots import plot_fronts, plot_ranking  # noqa: PLC0415 (matplotlib)

        if kind not in _FIGURES:
            hint = f"{name_hint(kind, _FIGURES)}; the page of the report draws the effects of parameters"
            raise SweepError(f"no such kind of figure: {kind!r}", hint=hint)
        if kind == "front":
            if not self.summary.fronts:
                raise SweepError("a front needs two objectives or more")
            return Picture.of(lambda path: plot_fronts(self.summary.fronts, path))
        ranking = self._ranking(objective, overall=kind == "overall")
        return Picture.of(lambda path: plot_ranking(ranking, path))

    def _ranking(self, objective: str | None, *, overall: bool) -> Ranking:
        rankings = self.summary.overall if overall else self.summary.rankings
        if objective is None and rankings:
            return next(iter(rankings.values()))
        if objective is not None and objective in rankings:
            return rankings[objective]
        where = " over all workloads" if overall else ""
        hint = name_hint(objective, rankings) if objective is not None and rankings else None
        raise SweepError(f"there is no ranking by {objective or 'any objective'}{where}", hint=hint)

    @property
    def report_folder(self) -> Path:
        """Where tables and figures are."""
        return self.report or self.directory

    @property
    def notes(self) -> list[str]:
        """Notes for readers: code that changed, cells of an earlier space."""
        notes = [] if self.other_code is None else [self.other_code.message]
        if self.earlier:
            cells = (
                "cell of an earlier space or log stays"
                if self.earlier == 1
                else "cells of an earlier space or log stay"
            )
            notes.append(f"{self.earlier} {cells} in the journal, not in the tables")
        return notes

    @property
    def counts(self) -> dict[str, int]:
        """Cells by state."""
        return dict(Counter(result.state for result in self.results))

    @property
    def complete(self) -> bool:
        """True if every cell is done and the report was written."""
        done = all(result.state == "done" for result in self.results)
        return done and self.report_error is None

    @property
    def errors(self) -> list[str]:
        """The errors, a text each: of cells without a result, and of the system's own report."""
        errors = []
        failed = [result for result in self.results if result.state != "done"]
        if failed:
            count = "1 cell has" if len(failed) == 1 else f"{len(failed)} cells have"
            first = _error_lines(failed[0].error or failed[0].state)
            errors.append(f"{count} no result; the first: {first}")
        return errors if self.report_error is None else [*errors, self.report_error]

    def print_rankings(self, console: Console, *, limit: int | None = 30, details: bool = False) -> None:
        """Print the remarks, the tables and the answers.

        Parameters
        ----------
        console
            Where to.
        limit
            Rows of each table at most; None for all.
        details
            Print the statistics behind the answers.
        """
        summary = self.summary
        shown = [text for answer in summary.answers for text in answer.not_modelled]
        remarks = [line for line in summary.remarks if not line.endswith(tuple(shown or ["\0"]))]
        for note in (*self.notes, *remarks):
            console.print(note, style="yellow", markup=False, soft_wrap=True)
        if not summary.rankings:
            console.print("no cell has a result to rank", style="red")
        rankings = [
            table
            for objective, ranking in summary.rankings.items()
            for table in (ranking, summary.overall.get(objective))
            if table is not None
        ]
        print_ranking(*rankings, console=console, limit=limit)
        for front in summary.fronts:
            console.print(str(front), markup=False, soft_wrap=True)
        print_answers(summary.answers, console, details=details)

    def print_places(self, console: Console) -> None:
        """Print the errors, and where the files and the page are."""
        for error in self.errors:
            console.print(error, style="red", markup=False)
        lines = [f"tables and figures: {self.report_folder}/"]
        if self.page is not None:
            lines.append(f"the report as one page: {self.page.resolve().as_uri()}")
        if self.tracking is not None:
            lines += self.tracking.lines
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)

    def print_errors(self) -> None:
        """Print to the standard error what a person must know who asked for no tables."""
        notes = [] if self.other_code is None else [self.other_code.message]
        lines = [*notes, *self.summary.remarks, *self.errors]
        if self.tracking is not None and not self.tracking.complete:
            lines.append(self.tracking.message)
        for line in lines:
            print(line, file=sys.stderr)

    def as_dict(self) -> dict[str, Any]:
        """Return what `--json` prints: counts, the best of each workload, and where everything is."""
        content: dict[str, Any] = {
            "name": self.facts.name,
            "cells": len(self.results),
            "earlier": self.earlier,
            **{state: self.counts.get(state, 0) for state in ("done", "failed", "timed_out", "lost")},
            "best": {
                best.stratum: {"configuration": best.label, **{name: best.row.get(name) for name in _BEST}}
                for best in self.summary.best
            },
            "answers": [answer.as_dict() for answer in self.summary.answers],
            "fronts": {
                front.stratum: {
                    "size": front.size,
                    "configurations": len(front.rows),
                    "hypervolume": front.hypervolume,
                    "reference_point": dict(
                        zip((head.objective for head in front.heads), front.reference, strict=True)
                    ),
                }
                for front in self.summary.fronts
            },
            "directory": str(self.directory),
            "report": str(self.report_folder),
            "page": None if self.page is None else self.page.resolve().as_uri(),
            "results": str(self.directory / RESULTS_NAME),
            "files": [str(path) for path in self.files],
            "remarks": list(self.summary.remarks),
            "other_code": None if self.other_code is None else self.other_code.message,
            "report_error": self.report_error,
        }
        if self.sweep is not None:
            content |= {"ran": self.sweep.ran, "seconds": self.sweep.seconds}
        if self.tracking is not None:
            content["tracking"] = {
                "uri": self.tracking.shown_uri,
                "experiment_id": self.tracking.experiment_id,
                "run_id": self.tracking.run_id,
                "unsent": len(self.tracking.unsent),
            }
        return content


def _error_lines(error: str) -> str:
    """Return the line that says what went wrong, with its hint: the last ones of a traceback."""
    lines = error.strip().splitlines()
    hint = lines.pop().strip() if len(lines) > 1 and lines[-1].lstrip().startswith("hint:") else None
    return lines[-1] if hint is None else f"{lines[-1]}\n  {hint}"
