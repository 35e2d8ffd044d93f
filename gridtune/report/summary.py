"""The findings of a sweep, made once, and the files that show them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gridtune.core.cells import CellResult
from gridtune.core.remarks import merged_remarks, remark_lines
from gridtune.core.system import Measure, System, get_system, system_names
from gridtune.errors import SweepError
from gridtune.registry import NamedValues
from gridtune.report.card import Card, cards_of
from gridtune.report.facts import SweepFacts, has_configuration, write_json
from gridtune.report.labels import (
    PARAMETER_PREFIX,
    file_text,
    in_table,
    parameter_names,
    percent_text,
    row_parameters,
    value_text,
    varying_parameters,
)
from gridtune.report.rankings.bounds import Bounds, constrained, constrained_overall, judge_constraints
from gridtune.report.rankings.cells import Cells, configuration_parameters, read_cells
from gridtune.report.rankings.combined import Front, front_table, fronts_of, rank_overall
from gridtune.report.rankings.ranking import Ranking, has_values, rank, without_verdicts
from gridtune.report.tables import ranking_markdown, table_csv

__all__ = ["DERIVED_FILE", "Best", "Summary", "list_derived", "summarise", "write_report"]

#: The metric that each class of jobs is judged by.
_OF_CLASS = "wait_mean"
#: Fronts of this many strata are drawn at most.
_MOST_FRONTS = 8


@dataclass(frozen=True)
class Best:
    """The best configuration of a stratum.

    Attributes
    ----------
    stratum
        The stratum's name.
    label
        The configuration in words.
    row
        Its row in the ranking.
    """

    stratum: str
    label: str
    row: Mapping[str, Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """Its parameters; without those that do not apply to it."""
        return {name: value for name, value in row_parameters(self.row).items() if value is not None}

    def __str__(self) -> str:
        gain = self.row["relative"]
        gain_text = "" if gain is None else f", {percent_text(gain)} to the baseline ({self.row['verdict']})"
        return f"{self.label}{gain_text}"


@dataclass(frozen=True)
class Summary:
    """The findings of a sweep: tables, cards, the page, figures and JSON are views of it.

    Attributes
    ----------
    facts
        The facts of the sweep.
    cells
        Its cells.
    rankings
        Objective to its ranking within each stratum.
    overall
        Objective to the ranking over all strata, where there are several.
    bounds
        Configuration id to its judged constraints.
    measures
        Metric to unit and direction, of those that cards show beside the first objective, in order.
    classes
        Workload to the conditions of its classes of jobs.
    ignored
        Workload to the parts of its log that are not modelled.
    remarks
        Parts of the logs that were ignored, assumed or cut off, and metrics that cells lack, a sentence each.
    """

    facts: SweepFacts
    cells: Cells
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    overall: Mapping[str, Ranking] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=dict)
    measures: Mapping[str, Measure] = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("rankings", "overall"):
            object.__setattr__(self, name, NamedValues(getattr(self, name)))

    @cached_property
    def cards(self) -> list[Card]:
        """The verdicts: by objective, over all strata first where there are several."""
        return cards_of(self)

    @cached_property
    def fronts(self) -> list[Front]:
        """The Pareto fronts of several objectives: over all strata, if there are several, and of each."""
        return fronts_of(self.rankings, self.overall)

    @property
    def best(self) -> list[Best]:
        """The best configuration of each stratum by the first objective, where one has a rank."""
        return [
            Best(name, ranking.label(rows[0]), rows[0])
            for ranking in list(self.rankings.values())[:1]
            for name, rows in ranking.strata.items()
            if rows[0]["rank"] is not None
        ]

    @property
    def tables(self) -> Iterator[tuple[str, Ranking]]:
        """Every ranking with the name of its file: the strata's, then the overall one, by objective."""
        for objective, ranking in self.rankings.items():
            yield f"ranking-{file_text(objective)}", ranking
            if objective in self.overall:
                yield f"overall-{file_text(objective)}", self.overall[objective]

    @property
    def markdown(self) -> str:
        """All tables as one Markdown document."""
        parts = [f"# {self.facts.name}\n"]
        if self.facts.description:
            parts.append(f"{self.facts.description.strip()}\n")
        if self.remarks:
            parts.append("\n".join(f"- {remark}" for remark in self.remarks) + "\n")
        parts += [card.markdown() for card in self.cards]
        for objective, ranking in self.rankings.items():
            parts.append(f"## {objective}\n")
            if objective in self.overall:
                parts.append(ranking_markdown(self.overall[objective]))
            parts.append(ranking_markdown(ranking))
        parts += [f"{front}\n" for front in self.fronts]
        if not self.rankings:
            parts.append("No cell has a result.\n")
        return "\n".join(parts)


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
    system = get_system(facts.system) if facts.system in system_names() else None
    cells, rankings, overall = _ranked(table, facts, {} if system is None else system.value_warnings)
    constraints = facts.constraints
    bounds: Bounds = {}
    if constraints and rankings:
        bounds = judge_constraints(cells, constraints)
        rankings = {name: constrained(ranking, bounds, constraints) for name, ranking in rankings.items()}
        overall = {
            name: constrained_overall(ranking, rankings[name], constraints)
            for name, ranking in overall.items()
        }
    notes: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        notes.setdefault(result.workload, []).append(result.notes)
    remarks = {workload: merged_remarks(among) for workload, among in notes.items()}
    measures = _measures(table, facts, system)
    lines = [
        f"{workload}: {line}" if len(notes) > 1 else line
        for workload, remark in remarks.items()
        for line in remark_lines(remark, most=True)
    ]
    lines += _missing(table, facts, measures)
    if facts.is_race:
        lines.append(
            "this sweep was a race, which gridtune no longer runs. It stopped configurations by results, so "
            "it has no verdicts. Sweep the space with the strategy grid, random or sobol: finished cells "
            "are kept, and the missing ones run"
        )
    by_class = system is not None and f"{_OF_CLASS}[wide]" in system.metrics
    if by_class and any("classes" not in note for among in notes.values() for note in among if note):
        lines.append("cells of an earlier gridtune have no metrics by class of jobs: who loses is not known")
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
        remarks=lines,
    )


def _ranked(
    table: pa.Table, facts: SweepFacts, warnings: Mapping[str, Mapping[str, str]]
) -> tuple[Cells, dict[str, Ranking], dict[str, Ranking]]:
    """Return the cells, and for each objective its ranking within each stratum and that over all."""
    measured = [one for one in facts.objectives if f"metric.{one.metric}" in table.column_names]
    baseline = _baseline(table, facts)
    if not measured:
        return Cells(table, {}, (), "replicate", [], []), {}, {}
    cells = read_cells(table, baseline, ("workload", *_conditions(table, baseline)))
    rankings, overall = {}, {}
    for one in measured:
        ranking = rank(cells, objective=one.metric, direction=one.direction, unit=one.unit, warnings=warnings)
        over_all = rank_overall(cells, ranking.head)
        rankings[one.metric] = without_verdicts(ranking) if facts.is_race else ranking
        if over_all is not None:
            overall[one.metric] = without_verdicts(over_all) if facts.is_race else over_all
    return cells, rankings, overall


def _measures(table: pa.Table, facts: SweepFacts, system: System | None) -> dict[str, Measure]:
    """Return the metrics that cards look at beside the first objective.

    They are the other objectives, those of constraints, those that the system watches, and the mean wait of
    each class of jobs.
    """
    measures = {
        one.metric: Measure.own(one.unit or "1", "max" if one.direction == "max" else "min", one.metric)
        for one in facts.objectives[1:]
    }
    by_class = [
        name.removeprefix("metric.") for name in table.column_names if name.startswith(f"metric.{_OF_CLASS}[")
    ]
    watched = () if system is None else system.watched_metrics
    for name in (*(one.metric for one in facts.constraints), *watched, *by_class):
        if system is not None and name in system.metrics and name != facts.objectives[0].metric:
            measures.setdefault(name, system.metrics[name])
    return {name: measure for name, measure in measures.items() if measure.direction != "none"}


def _missing(table: pa.Table, facts: SweepFacts, measures: Mapping[str, Measure]) -> Iterator[str]:
    """Yield remarks on metrics that finished cells do not have, as an earlier gridtune ran them."""
    done = table.filter(pc.equal(table["state"], "done"))
    names = dict.fromkeys([*(one.metric for one in facts.objectives), *measures])
    if not done.num_rows:
        return
    for name in names:
        column = f"metric.{name}"
        lacking = done[column].null_count if column in table.column_names else done.num_rows
        if lacking:
            yield (
                f"{name} is missing in {lacking:,} of {done.num_rows:,} cells, which did not measure it; "
                f"`gridtune results rerun FOLDER --add-metric '{name}'` does"
            )


def _baseline(table: pa.Table, facts: SweepFacts) -> dict[str, Any]:
    """Return the baseline's parameters as the table holds them."""
    columns = parameter_names(table)
    parameters = {name: value for name, value in facts.baseline.items() if name in columns}
    baseline = in_table(table, parameters)
    if table.num_rows and not has_configuration(table, baseline):
        text = ", ".join(f"{name}={value_text(value)}" for name, value in baseline.items())
        raise SweepError(
            f"no cell has the baseline's {text}: nothing can be compared",
            field="baseline",
            hint="name a configuration of the sweep: `gridtune report FOLDER --baseline NAME=VALUE`",
        )
    return baseline


def _conditions(table: pa.Table, baseline: Mapping[str, Any]) -> list[str]:
    if not baseline:
        return []
    varying = varying_parameters(table)
    return [
        name
        for name in configuration_parameters(table, ["workload"])
        if name in varying and name not in baseline and table[PARAMETER_PREFIX + name].null_count == 0
    ]


def write_report(summary: Summary, directory: Path) -> list[Path]:
    """Write the tables and figures of a sweep into its folder.

    Returns
    -------
    list of Path
        `ranking.md`, a CSV per table, with several objectives `front.csv`, and the figures in `plots/`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = [_written(directory / "ranking.md", summary.markdown)]
    files += [_written(directory / f"{name}.csv", table_csv(one.table)) for name, one in summary.tables]
    for prefix, fronts in _fronts(summary):
        files.append(_written(directory / f"{prefix}front.csv", table_csv(front_table(fronts))))
    return [*files, *_figures(summary, directory / "plots")]


def _fronts(summary: Summary) -> Iterator[tuple[str, list[Front]]]:
    """Yield the fronts that share a table and a figure, with what the files' names start with."""
    for prefix, overall in (("overall-", True), ("", False)):
        fronts = [front for front in summary.fronts if front.overall == overall]
        if fronts:
            yield prefix, fronts


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _figures(summary: Summary, directory: Path) -> Iterator[Path]:
    from gridtune.report.plots import plot_fronts, plot_ranking  # noqa: PLC0415 (matplotlib)

    for prefix, fronts in _fronts(summary):
        yield plot_fronts(fronts[:_MOST_FRONTS], directory / f"{prefix}front.png")
    for name, ranking in summary.tables:
        if has_values(ranking.rows):
            yield plot_ranking(ranking, directory / f"{name}.png")


#: The list in a sweep's folder.
DERIVED_FILE = "derived.json"


def list_derived(folder: Path, written: Iterable[Path], *, remove_others: bool = False) -> list[Path]:
    """List files that were written into a sweep's folder as derived from its cells.

    A sweep whose space has changed writes other tables and figures than before. Only what is on the list is
    ever removed: the journal, the facts and whatever a person has put into the folder are not on it.

    Parameters
    ----------
    folder
        The sweep's folder.
    written
        Files in it.
    remove_others
        Remove the files on the list that were not written again, and folders left empty by it.

    Returns
    -------
    list of Path
        The files that were removed.
    """
    names = {path.relative_to(folder).as_posix() for path in written}
    try:
        listed = set(map(str, json.loads((folder / DERIVED_FILE).read_text(encoding="utf-8"))["files"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # Without a list nothing is known to be derived, and so nothing is removed.
        listed = set()
    removed = []
    for name in sorted(listed - names) if remove_others else ():
        path = folder / name
        if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
            continue
        path.unlink()
        removed.append(path)
        for parent in path.parents:
            if parent == folder:
                break
            # A folder that still holds something refuses.
            with contextlib.suppress(OSError):
                parent.rmdir()
    write_json({"files": sorted(names if remove_others else listed | names)}, folder / DERIVED_FILE)
    return removed
