"""Cells that are run again for a report, and the schedules of the best and the baseline configuration."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.core.cells import CellResult
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import GridtuneError, SweepError
from gridtune.report.labels import file_text
from gridtune.report.summary import Summary
from gridtune.sweep.execution.children import ChildWorkers
from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.space.plan import Workloads

#: The table that a system gives its schedule as.
_TABLE = "schedule"
#: Which file is whose.
INDEX_FILE = "index.json"


@dataclass(frozen=True)
class ScheduleFiles:
    """Files that were written for one stratum.

    Attributes
    ----------
    stratum
        Its name.
    tables
        Configuration id to the Parquet file of its schedule: the best and the baseline.
    figure
        The picture of utilisation and queue length over time of the schedules in `tables`.
    replicate
        Which one was drawn.
    processors
        The machine's size.
    labels
        Configuration id to its text in the picture.
    """

    stratum: str
    tables: Mapping[str, Path] = field(default_factory=dict)
    figure: Path | None = None
    replicate: str = ""
    processors: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> list[Path]:
        """The files that are there: the picture may not have been drawn."""
        pictures = [] if self.figure is None or not self.figure.exists() else [self.figure]
        return [*self.tables.values(), *pictures]

    def draw(self) -> None:
        """Draw the picture from the stored schedules."""
        from gridtune.core.schedules.plots import plot_load  # noqa: PLC0415 (matplotlib)

        if self.figure is not None:
            drawn = {self.labels.get(key, key): pq.read_table(path) for key, path in self.tables.items()}
            title = ", ".join(part for part in (self.stratum, self.replicate) if part)
            plot_load(drawn, self.processors, self.figure, title=title)


@dataclass(frozen=True)
class ReportMaterial:
    """The results of a sweep as its page and its system's own tables and figures take them.

    Attributes
    ----------
    summary
        The rankings, with the facts of the sweep.
    table
        One row per cell: `workload`, `configuration_id`, `replicate`, `state`, `param.*`, `metric.*`.
    results
        The same as results, with their notes.
    directory
        The sweep's folder; figures go into its `plots/`.
    schedules
        Schedules that were written.
    order
        Ids of the configurations in the order they were tried, for an adaptive strategy; else empty.
    notes
        Further notes for the reader: code that changed, cells of an earlier space.
    """

    summary: Summary
    table: pa.Table
    results: Sequence[CellResult]
    directory: Path
    schedules: Sequence[ScheduleFiles] = ()
    order: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.summary.facts.name

    def tables_of(self, result: CellResult) -> Mapping[str, pa.Table]:
        """Run a cell again and return the tables its system makes of it (`Outcome.tables`).

        Raises
        ------
        GridtuneError
            If the cell cannot be run any more: its trace has moved, say.
        """
        return run_cell(
            self.summary.facts.system,
            result.parameters,
            seed=result.seed,
            tables=True,
            workloads=self._workloads,
        ).outcome.tables

    @cached_property
    def _workloads(self) -> Workloads:
        return Workloads(self.summary.facts.base_folder)


def write_schedules(summary: Summary, results: Sequence[CellResult], directory: Path) -> list[ScheduleFiles]:
    """Run one replicate of each stratum's best and baseline configuration again, and keep the schedules.

    Parameters
    ----------
    summary
        The rankings; the first objective decides which is best.
    results
        The sweep's results.
    directory
        The folder of the files.

    Returns
    -------
    list of ScheduleFiles
        One for each stratum with a ranked configuration. A system without schedules gives none, and so
        does a trace that is no longer to be found.
    """
    if not summary.rankings:
        return []
    ranking = next(iter(summary.rankings.values()))
    done: dict[str, dict[str, CellResult]] = {}
    for result in results:
        if result.state == "done":
            done.setdefault(result.configuration_id, {})[result.replicate] = result
    shown: dict[str, dict[str, CellResult]] = {}
    for name, rows in ranking.strata.items():
        first = [row for row in rows if row["rank"] == 1][:1]
        both = first and first + [row for row in rows if row["is_baseline"] and row not in first][:1]
        replicates = [done.get(row["configuration_id"], {}) for row in both]
        first_cells = replicates[0] if replicates else {}
        shared = [label for label in first_cells if all(label in cells for cells in replicates)]
        for row, results_of in zip(both, replicates, strict=True) if shared else ():
            has = {"best": row["rank"] == 1, "baseline": row["is_baseline"]}
            role = f"{ranking.label(row)} ({' and '.join(filter(has.get, has))})"
            shown.setdefault(name, {})[role] = results_of[shared[0]]
    facts = summary.facts
    cells = [cell for roles in shown.values() for cell in roles.values()]
    arguments = (facts.system, facts.plugins, cells, facts.base_folder)
    try:
        # Users' code that was done in a worker may fork, print or leave threads here.
        schedules = (
            ChildWorkers.result_of(_schedules_of, *arguments, folder=directory.parent)
            if facts.plugins
            else _schedules_of(*arguments)
        )
    except SweepError:
        return []  # the results stand without it
    drawn = [
        _write(name, cells_of, schedules, directory)
        for name, cells_of in shown.items()
        if schedules.keys() >= {cell.cell_id for cell in cells_of.values()}
    ]
    if drawn:
        index = json.dumps([asdict(files) for files in drawn], indent=2, default=lambda path: path.name)
        (directory / INDEX_FILE).write_text(index + "\n", encoding="utf-8")
    return drawn


def read_schedules(directory: Path) -> list[ScheduleFiles]:
    """Return what `write_schedules` wrote into a folder; [] where it wrote nothing."""
    path = directory / INDEX_FILE
    if not path.exists():
        return []
    index = json.loads(path.read_text(encoding="utf-8"))
    for entry in index:
        entry["tables"] = {key: directory / name for key, name in entry["tables"].items()}
        entry["figure"] = directory / entry["figure"]
    return [ScheduleFiles(**entry) for entry in index]


def _schedules_of(
    system: str, plugins: Sequence[str], cells: Sequence[CellResult], base: Path | None
) -> dict[str, tuple[pa.Table, int]]:
    """Run cells again; return the schedule and the machine's size of each that has one, by the cell's id."""
    load_plugins(plugins)
    workloads, schedules = Workloads(base), {}
    for cell in cells:
        # The results stand without it; a trace may have been moved since.
        with contextlib.suppress(GridtuneError):
            run = run_cell(system, cell.parameters, seed=cell.seed, tables=True, workloads=workloads)
            if _TABLE in run.outcome.tables:
                processors = int(run.outcome.notes["processors"])
                schedules[cell.cell_id] = (run.outcome.tables[_TABLE], processors)
    return schedules


def _write(
    stratum: str,
    cells: Mapping[str, CellResult],
    schedules: Mapping[str, tuple[pa.Table, int]],
    directory: Path,
) -> ScheduleFiles:
    slug = file_text(stratum) or "all"
    tables, labels, replicate, processors = {}, {}, "", 0
    for role, cell in cells.items():
        table, processors = schedules[cell.cell_id]
        # Best and baseline in the file's name, the configuration in the picture.
        word = "baseline" if role.endswith("(baseline)") else "best"
        path = directory / f"{slug}-{word}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="zstd")
        tables[cell.configuration_id] = path
        replicate = cell.replicate
        labels[cell.configuration_id] = role
    figure = directory / f"{slug}-utilisation-and-queue.png"
    return ScheduleFiles(stratum, tables, figure, replicate, processors, labels)
