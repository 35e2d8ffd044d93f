"""From a table of cells to the findings of a sweep, and the files that show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gridtune.core.cells import CellResult
from gridtune.core.measures import Measure
from gridtune.core.remarks import merged_remarks, remark_lines
from gridtune.core.system import SYSTEMS, System, get_system
from gridtune.errors import SweepError
from gridtune.report.facts import SweepFacts, has_configuration
from gridtune.report.labels import (
    PARAMETER_PREFIX,
    in_table,
    parameter_names,
    row_parameters,
    value_text,
    varying_parameters,
)
from gridtune.report.rankings.bounds import Bounds, constrain
from gridtune.report.rankings.cells import Cells, configuration_parameters, read_cells
from gridtune.report.rankings.combined import Front, front_table, rank_overall
from gridtune.report.rankings.ranking import LEVEL, PAIRED, Ranking, has_values, rank
from gridtune.report.summary import Summary
from gridtune.report.tables import table_csv
from gridtune.types import FloatArray

#: The metric that each class of jobs is judged by.
_OF_CLASS = "wait_mean"
#: Fronts of this many strata are drawn at most.
_MOST_FRONTS = 8


def summarise(table: pa.Table, facts: SweepFacts, results: Iterable[CellResult] = ()) -> Summary:
    """Rank a sweep's configurations by each of its objectives.

    Results are those of the table, for their notes: the summary lists the ignored parts of the logs.

    A parameter that varies and that the baseline leaves open is a condition (the load, say): each of its
    values is ranked by itself, against the baseline under that same condition.

    Raises
    ------
    SweepError
        If no cell has the baseline's parameters.
    """
    system = get_system(facts.system) if facts.system in SYSTEMS else None
    notes: dict[str, list[Mapping[str, Any]]] = {}
    for result in (results := list(results)):
        notes.setdefault(result.workload, []).append(result.notes)
    judged = _Judged(table, facts, system, notes)
    cells, rankings, overall = judged.ranked()
    constraints = facts.constraints
    bounds: Bounds = {}
    if constraints and rankings:
        bounds, rankings, overall = constrain(cells, constraints, rankings, overall)
    rankings, overall = (
        {name: ranking.with_confirmed(facts.confirmed) for name, ranking in tables.items()}
        for tables in (rankings, overall)
    )
    of_baseline: dict[str, list[Mapping[str, Any]]] = {}
    bases = {stratum.ids[base] for stratum in cells.strata for base in stratum.bases.tolist() if base >= 0}
    for result in results:
        if result.configuration_id in bases:
            of_baseline.setdefault(result.workload, []).append(result.notes)
    graded = {name: system.trust(among) for name, among in of_baseline.items()} if system else {}
    # Those of a long journal are shared.
    remarks = {
        workload: merged_remarks({id(note): note for note in among}.values())
        for workload, among in notes.items()
    }
    for workload, text in _different_jobs(table).items():
        remark = remarks.setdefault(workload, {})
        remark["ignored"] = "; ".join(filter(None, [text, remark.get("ignored")]))
    measures = judged.measures()
    tables = [*rankings.values(), *overall.values()]
    return Summary(
        facts,
        cells,
        rankings,
        overall,
        bounds,
        measures,
        classes={
            workload: next((note["classes"] for note in among if "classes" in note), {})
            for workload, among in notes.items()
        },
        ignored={workload: remark["ignored"] for workload, remark in remarks.items() if "ignored" in remark},
        trust={name: trust for name, trust in graded.items() if trust is not None},
        remarks=[*judged.remarks(remarks, tables), *judged.missing(measures)],
    )


def _different_jobs(table: pa.Table) -> dict[str, str]:
    """Return a remark on each workload of which configurations have different numbers of jobs."""
    if "metric.jobs" not in table.column_names:
        return {}
    ends = [("metric.jobs", "min"), ("metric.jobs", "max")]
    rows = table.group_by(["workload", "replicate"]).aggregate(ends).to_pylist()
    return {
        row["workload"]: f"different jobs: configurations have {row['metric.jobs_min']:,.0f} to "
        f"{row['metric.jobs_max']:,.0f} jobs in {row['replicate']}, so their means are not of the same jobs"
        for row in rows
        if row["metric.jobs_min"] != row["metric.jobs_max"]
    }


@dataclass(frozen=True)
class _Judged:
    """The table of a sweep's cells, its facts, its system if that is installed, and notes by workload."""

    table: pa.Table
    facts: SweepFacts
    system: System | None
    notes: Mapping[str, Sequence[Mapping[str, Any]]]

    def ranked(self) -> tuple[Cells, dict[str, Ranking], dict[str, Ranking]]:
        """Return the cells, and for each objective its ranking within each stratum and that over all."""
        measured = [one for one in self.facts.objectives if f"metric.{one.metric}" in self.table.column_names]
        baseline = self._baseline()
        warnings = {} if self.system is None else self.system.value_warnings
        if not measured:
            return Cells(self.table, {}, (), "replicate", [], []), {}, {}
        columns = ("workload", *self._conditions(baseline))
        # Most systems have none: nothing is asked for each pair of theirs.
        reaches = self.system is not None and type(self.system).reach is not System.reach
        cells = read_cells(self.table, baseline, columns, self._reach if reaches else None)
        rankings, overall = {}, {}
        for one in measured:
            options: dict[str, Any] = {"direction": one.direction, "unit": one.unit, "warnings": warnings}
            ranking = rank(cells, objective=one.metric, error=self.facts.error, **options)
            over_all = rank_overall(cells, ranking.head)
            rankings[one.metric] = ranking.without_verdicts() if self.facts.is_race else ranking
            if over_all is not None:
                overall[one.metric] = over_all.without_verdicts() if self.facts.is_race else over_all
        return cells, rankings, overall

    def _reach(self, workload: str, metric: str, pair: FloatArray, windows: bool) -> float:
        assert self.system is not None
        return self.system.reach(metric, pair, self.notes.get(workload, ()), windows)

    def measures(self) -> dict[str, Measure]:
        """Return the metrics that answers look at beside the first objective.

        They are the other objectives, those of constraints, those that the system watches, and the mean wait
        of each class of jobs.
        """
        measures = {one.metric: one.measure for one in self.facts.objectives[1:]}
        by_class = [
            name.removeprefix("metric.")
            for name in self.table.column_names
            if name.startswith(f"metric.{_OF_CLASS}[")
        ]
        system, watched = self.system, () if self.system is None else self.system.watched_metrics
        for name in (*(one.metric for one in self.facts.constraints), *watched, *by_class):
            if system is not None and name in system.metrics and name != self.facts.objectives[0].metric:
                measures.setdefault(name, system.metrics[name])
        return {name: measure for name, measure in measures.items() if measure.direction != "none"}

    def remarks(self, merged: Mapping[str, Mapping[str, Any]], rankings: Iterable[Ranking]) -> Iterator[str]:
        """Yield remarks on the logs, on the error of the verdicts, and on a search or a race.

        Parameters
        ----------
        merged
            Workload to the remarks that the notes of its cells make together.
        rankings
            All rankings of the sweep.
        """
        for workload, remark in merged.items():
            for line in remark_lines(remark, most=True):
                yield f"{workload}: {line}" if len(self.notes) > 1 else line
        if self.facts.spent:
            yield (
                f"other numbers of replicates were judged here before, so this look has an error of "
                f"{100 * self.facts.error:.2g} %: together they are wrong in at most 6 % of sweeps"
            )
        for ranking in rankings:
            for name, row in ((name, row) for name, rows in ranking.strata.items() for row in rows):
                if row.get("confirmed"):
                    yield (
                        f"{name or 'overall'}: {ranking.label(row)} was replayed on {row['confirmed']} "
                        f"{ranking.head.fresh}; its difference to the baseline is theirs"
                    )
        if self.facts.searches and not self.facts.has_fresh:
            yield (
                "chance adds to the gain of the best of so many trials, and no window is held back to "
                "confirm it: from 12 windows on, the later half is; or set replicates.held_back"
            )
        if self.facts.is_race:
            yield (
                "this sweep was a race, which gridtune no longer runs. It stopped configurations by results, "
                "so it has no verdicts. Sweep the space with the strategy grid, random or sobol: finished "
                "cells are kept, and the missing ones run"
            )
        by_class = self.system is not None and "classes" in self.system.Parameters.model_fields
        if by_class and any("classes" not in note for among in self.notes.values() for note in among if note):
            yield "cells of an earlier gridtune have no metrics by class of jobs: who loses is not known"

    def missing(self, measures: Mapping[str, Measure]) -> Iterator[str]:
        """Yield remarks on metrics that finished cells do not have, as an earlier gridtune ran them."""
        names = dict.fromkeys([*(one.metric for one in self.facts.objectives), *measures])
        columns = [name for name in self.table.column_names if name.removeprefix("metric.") in names]
        done = self.table.select(columns).filter(pc.equal(self.table["state"], "done"))
        if not done.num_rows:
            return
        for name in names:
            column = f"metric.{name}"
            lacking = done[column].null_count if column in self.table.column_names else done.num_rows
            if lacking:
                yield (
                    f"{name} is missing in {lacking:,} of {done.num_rows:,} cells, which did not measure it; "
                    f"`gridtune results rerun FOLDER --add-metric '{name}'` does"
                )

    def _baseline(self) -> dict[str, Any]:
        """Return the baseline's parameters as the table holds them."""
        columns = parameter_names(self.table)
        parameters = {name: value for name, value in self.facts.baseline.items() if name in columns}
        baseline = in_table(self.table, parameters)
        if self.table.num_rows and not has_configuration(self.table, baseline):
            text = ", ".join(f"{name}={value_text(value)}" for name, value in baseline.items())
            raise SweepError(
                f"no cell has the baseline's {text}: nothing can be compared",
                field="baseline",
                hint="name a configuration of the sweep: `gridtune report FOLDER --baseline NAME=VALUE`",
            )
        return baseline

    def _conditions(self, baseline: Mapping[str, Any]) -> list[str]:
        if not baseline:
            return []
        varying = varying_parameters(self.table)
        return [
            name
            for name in configuration_parameters(self.table, ["workload"])
            if name in varying
            and name not in baseline
            and self.table[PARAMETER_PREFIX + name].null_count == 0
        ]


def confirmed_facts(summary: Summary, fresh: pa.Table) -> SweepFacts:
    """Return a sweep's facts with the difference of each best as the cells of fresh replicates show it."""
    columns = (*PAIRED, "with_tail", "correlation", "p_value", "verdict", "pairs", "subject_to")
    judged = summarise(fresh, replace(summary.facts, error=1 - LEVEL, spent=0.0))
    objective = next(iter(summary.rankings))
    found = []
    for tables in ("rankings", "overall"):
        ranking, again = (dict(getattr(one, tables)).get(objective) for one in (summary, judged))
        if ranking is None or again is None:
            continue
        for name, rows in ranking.strata.items():
            for row in again.strata.get(name, ()):
                if row_parameters(row) == row_parameters(rows[0]) and not row["is_baseline"]:
                    stated = {"objective": objective, "baseline": dict(ranking.head.baseline)}
                    values = {column: row[column] for column in columns if column in row}
                    found.append({**stated, "stratum": name, "best": row_parameters(row), "columns": values})
    return replace(summary.facts, confirmed=tuple(found))


def write_report(summary: Summary, directory: Path) -> list[Path]:
    """Write the tables of a sweep into its folder.

    Returns
    -------
    list of Path
        `ranking.md`, a CSV per table, and with several objectives `front.csv`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = [_written(directory / "ranking.md", summary.markdown)]
    files += [_written(directory / f"{name}.csv", table_csv(one.table)) for name, one in summary.tables]
    for prefix, fronts in _fronts(summary):
        files.append(_written(directory / f"{prefix}front.csv", table_csv(front_table(fronts))))
    return files


def _fronts(summary: Summary) -> Iterator[tuple[str, list[Front]]]:
    """Yield the fronts that share a table and a figure, with what the files' names start with."""
    for prefix, overall in (("overall-", True), ("", False)):
        fronts = [front for front in summary.fronts if front.overall == overall]
        if fronts:
            yield prefix, fronts


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def draw_report(summary: Summary, directory: Path) -> Iterator[Path]:
    """Draw the rankings and fronts of a sweep, and yield the picture files."""
    from gridtune.report.plots import plot_fronts, plot_ranking  # noqa: PLC0415 (matplotlib)

    for prefix, fronts in _fronts(summary):
        yield plot_fronts(fronts[:_MOST_FRONTS], directory / f"{prefix}front.png")
    for name, ranking in summary.tables:
        if has_values(ranking.rows):
            yield plot_ranking(ranking, directory / f"{name}.png")
