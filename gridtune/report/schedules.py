"""Schedules of the best and the baseline configuration: as tables, and drawn over each other."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from gridtune.core.cells import CellResult
from gridtune.errors import GridtuneError
from gridtune.report.labels import PARAMETER_PREFIX, configuration_label, varying_parameters
from gridtune.report.ranking import ranking_head, strata
from gridtune.report.summary import Summary
from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.space.plan import Workloads

__all__ = ["INDEX_FILE", "ScheduleFiles", "read_schedules", "write_schedules"]

#: The table that a system gives its schedule as.
_TABLE = "schedule"
#: Which file is whose.
INDEX_FILE = "index.json"


@dataclass(frozen=True)
class ScheduleFiles:
    """What was written for one stratum.

    Attributes
    ----------
    stratum
        Its name.
    tables
        Configuration id to the Parquet file of its schedule.
    figure
        Utilisation and queue length over time of these schedules.
    replicate
        Which one was drawn.
    processors
        The machine's size.
    """

    stratum: str
    tables: Mapping[str, Path] = field(default_factory=dict)
    figure: Path | None = None
    replicate: str = ""
    processors: int = 0


def write_schedules(summary: Summary, results: Sequence[CellResult], directory: Path) -> list[ScheduleFiles]:
    """Run one replicate of each stratum's best and baseline configuration again, and keep the schedules.

    Parameters
    ----------
    summary
        The rankings; the first objective decides which is best.
    results
        The sweep's results.
    directory
        Where the files go.

    Returns
    -------
    list of ScheduleFiles
        One for each stratum with a ranked configuration. A system without schedules gives none, and so
        does a trace that is no longer to be found.
    """
    if not summary.rankings:
        return []
    ranking = next(iter(summary.rankings.values()))
    varying = varying_parameters(ranking, without=ranking_head(ranking).group_by)
    done: dict[str, dict[str, CellResult]] = {}
    for result in results:
        if result.state == "done":
            done.setdefault(result.configuration_id, {})[result.replicate] = result
    base = None if summary.facts.base is None else Path(summary.facts.base)
    workloads = Workloads(base)
    written = []
    for name, rows in strata(ranking):
        rows_shown = _best_and_baseline(rows)
        results_shown = [done.get(row["configuration_id"], {}) for row in rows_shown]
        shared = (
            [
                replicate
                for replicate in results_shown[0]
                if all(replicate in replicates for replicates in results_shown)
            ]
            if results_shown
            else []
        )
        if not shared:
            continue
        cells = {
            _role(row, varying): replicates[shared[0]]
            for row, replicates in zip(rows_shown, results_shown, strict=True)
        }
        try:
            written.append(_write(name, cells, summary.facts.system, workloads, directory))
        except GridtuneError:
            # The results stand without it; a trace may have been moved since.
            continue
    drawn = [files for files in written if files.tables]
    if drawn:
        _write_index(drawn, directory)
    return drawn


def read_schedules(directory: Path) -> list[ScheduleFiles]:
    """Return what `write_schedules` wrote into a folder; [] where it wrote nothing."""
    path = directory / INDEX_FILE
    if not path.exists():
        return []
    index = json.loads(path.read_text(encoding="utf-8"))
    return [
        ScheduleFiles(
            entry["stratum"],
            {key: directory / name for key, name in entry["tables"].items()},
            directory / entry["figure"],
            entry.get("replicate", ""),
            entry.get("processors", 0),
        )
        for entry in index
    ]


def _write_index(written: Sequence[ScheduleFiles], directory: Path) -> None:
    index = [
        {
            "stratum": files.stratum,
            "tables": {key: path.name for key, path in files.tables.items()},
            "figure": files.figure.name if files.figure else "",
            "replicate": files.replicate,
            "processors": files.processors,
        }
        for files in written
    ]
    (directory / INDEX_FILE).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _best_and_baseline(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    best = [row for row in rows if row["rank"] == 1][:1]
    return best + [row for row in rows if row["is_baseline"] and row not in best][:1] if best else []


def _role(row: Mapping[str, Any], varying: Sequence[str]) -> str:
    parameters = {name.removeprefix(PARAMETER_PREFIX): value for name, value in row.items()}
    roles = [name for name, is_it in (("best", row["rank"] == 1), ("baseline", row["is_baseline"])) if is_it]
    return f"{configuration_label(parameters, varying)} ({' and '.join(roles)})"


def _write(
    stratum: str, cells: Mapping[str, CellResult], system: str, workloads: Workloads, directory: Path
) -> ScheduleFiles:
    from gridtune.core.schedule_plots import LoadCurves, plot_load  # noqa: PLC0415

    slug = re.sub(r"[^\w.=-]+", "-", stratum).strip("-") or "all"
    tables, curves, replicate, processors = {}, {}, "", 0
    for role, cell in cells.items():
        run = run_cell(system, cell.parameters, seed=cell.seed, tables=True, workloads=workloads)
        table = run.outcome.tables.get(_TABLE)
        if table is None:
            continue
        # Best and baseline in the file's name, the configuration in the figure.
        word = "baseline" if role.endswith("(baseline)") else "best"
        path = directory / f"{slug}-{word}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="zstd")
        tables[cell.configuration_id] = path
        processors = int(run.outcome.notes["processors"])
        curves[role] = LoadCurves.of_table(table, processors)
        replicate = cell.replicate
    if not curves:
        return ScheduleFiles(stratum)
    title = ", ".join(part for part in (stratum, replicate) if part)
    figure = plot_load(curves, directory / f"{slug}-utilisation-and-queue.png", title=title)
    return ScheduleFiles(stratum, tables, figure, replicate, processors)
