"""`gridtune sweep --dry-run`: what the sweep is made of, what is done of it, and how long the rest takes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gridtune.core.cells import Cell, CellResult
    from gridtune.sweep.space.preflight import Outline
    from gridtune.sweep.space.schema import SearchSpace

__all__ = ["dry_run"]

#: Cells that are shown.
_SHOWN = 5


def dry_run(
    space: SearchSpace,
    folder: str | Path | None,
    *,
    retry: Collection[str],
    workers: int | None,
    as_json: bool,
) -> None:
    """Print how many cells there are, are done and are missing, and about how long those take.

    Parameters
    ----------
    space
        The space.
    folder
        The sweep's folder or URL; by default the folder of its name.
    retry
        States of cells that are to be run again.
    workers
        Cells at once; by default what the space says, else as many as there are processors.
    as_json
        Print one JSON object.
    """
    from gridtune.core.system import get_system
    from gridtune.sweep import default_directory, read_journal
    from gridtune.sweep.remote.places import has_sweep, view_sweep
    from gridtune.sweep.run import JOURNAL_NAME
    from gridtune.sweep.search.racing import race_budget
    from gridtune.sweep.space.plan import most_cells, space_strata
    from gridtune.sweep.space.preflight import space_outline

    outline = space_outline(space)
    folder = folder or default_directory(space)
    results: Mapping[str, CellResult] = {}
    if has_sweep(folder):
        with view_sweep(folder) as view:
            results = read_journal(view.folder / JOURNAL_NAME)
    adaptive = space.strategy.adaptive
    summary: dict[str, Any] = {
        "name": space.name,
        "cells": len(outline),
        "configurations": len(outline.configurations),
        "workloads": sorted(stratum.label for stratum in space_strata(space, get_system(space.system))),
        "replicates": space.replicates.count,
    }
    if adaptive is not None:
        summary |= {"trials": adaptive.trials, "most_cells": most_cells(space)}
    if space.strategy.race is not None:
        summary |= {"most_cells": race_budget(space.strategy.race, len(outline))}
    summary |= _progress(space, outline, results, retry, workers)
    if as_json:
        click.echo(json.dumps(summary))
        return
    click.echo(f"{space.name}: {space.description}" if space.description else space.name)
    click.echo(f"{_heading(space, summary)}; workloads {', '.join(summary['workloads'])}")
    click.echo(_progress_text(summary, folder))
    for cell in islice(outline.cells(), _SHOWN):
        parameters = "  ".join(f"{name}={value}" for name, value in cell.parameters.items())
        click.echo(f"  {cell.cell_id}  {parameters}  seed={cell.seed}")
    most = summary.get("most_cells", len(outline))
    if most > (shown := min(_SHOWN, len(outline))):
        click.echo(f"  … and {'up to ' if 'most_cells' in summary else ''}{most - shown:,} more")


def _progress(
    space: SearchSpace,
    outline: Outline,
    results: Mapping[str, CellResult],
    retry: Collection[str],
    workers: int | None,
) -> dict[str, Any]:
    """Return what is done and missing, and about how long that takes; of a strategy that decides, at most."""
    from gridtune.sweep.journal.results import estimate_seconds
    from gridtune.sweep.space.plan import most_cells

    per_configuration = space.replicates.count
    if space.strategy.race is not None:
        own, rest = _race_progress(space, list(outline.cells()), results, retry)
        left = len(rest)
        seconds = estimate_seconds(
            Counter((cell.workload, cell.configuration_id) for cell in rest), own.values()
        )
    elif space.strategy.adaptive is None:
        own = {key: result for key, result in results.items() if outline.has(result)}
        kept = [result for result in own.values() if result.state not in retry]
        finished = Counter(result.configuration_id for result in kept)
        missing = {
            (configuration.stratum.label, key): per_configuration - finished[key]
            for key, configuration in outline.configurations.items()
        }
        left = sum(missing.values())
        seconds = estimate_seconds(missing, own.values())
    else:
        # Which cells it will choose is not known; its journal has those of its earlier choices.
        own = dict(results)
        again = sum(result.state in retry for result in own.values())
        left = max(0, most_cells(space) - len(own) + again)
        workload = next((one.stratum.label for one in outline.configurations.values()), "")
        seconds = estimate_seconds({(workload, ""): left}, own.values())
    states = Counter(result.state for result in own.values())
    at_once = (
        workers or space.resources.workers or max(1, int((os.cpu_count() or 1) / (space.resources.cpus or 1)))
    )
    at_once = max(1, min(at_once, left))
    return {
        "done": states["done"],
        **{state: states[state] for state in ("failed", "timed_out", "lost")},
        "missing": left,
        "workers": at_once,
        "seconds_left": None if seconds is None else seconds / at_once,
    }


def _race_progress(
    space: SearchSpace, cells: list[Cell], results: Mapping[str, CellResult], retry: Collection[str]
) -> tuple[dict[str, CellResult], list[Cell]]:
    """Return the results that a race has, and the cells it comes to at most beside them."""
    from gridtune.sweep.search.racing import RaceQueue
    from gridtune.sweep.space.checks import check_space
    from gridtune.sweep.space.plan import Planner, Workloads

    planner = Planner(space, check_space(space), Workloads(space.base))
    finished = {cell_id: result for cell_id, result in results.items() if result.state not in retry}
    queue = RaceQueue(planner, cells, finished, workers=1)
    own = {cell.cell_id: finished[cell.cell_id] for cell in queue.cells() if cell.cell_id in finished}
    if not queue.left:
        return own, []
    return own, [cell for cell in cells if cell.cell_id not in own][: queue.most - len(own)]


def _progress_text(summary: Mapping[str, Any], folder: str | Path) -> str:
    bad = {state: summary[state] for state in ("failed", "timed_out", "lost") if summary[state]}
    counts = [
        f"{summary['done']:,} done",
        *(f"{count:,} {state.replace('_', ' ')}" for state, count in bad.items()),
    ]
    # Which of them a strategy that decides comes to is not known.
    up_to, about = ("up to ", "at most") if summary["missing"] and "most_cells" in summary else ("", "about")
    text = f"in {folder}: {', '.join(counts)}, {up_to}{summary['missing']:,} to run"
    if not summary["missing"]:
        return text
    if summary["seconds_left"] is None:
        return f"{text}; how long that takes is not known before a cell has been run"
    workers = _count(summary["workers"], "worker")
    time = _duration(summary["seconds_left"])
    return f"{text}: {about} {time} with {workers}, start and report not counted"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _heading(space: SearchSpace, summary: dict[str, Any]) -> str:
    """Return how many cells there are, or will be at most, and what they are made of."""
    replicates = _count(summary["replicates"], "replicate")
    if space.strategy.adaptive is None:
        configurations = _count(summary["configurations"], "configuration")
        each = ", each" if summary["configurations"] > 1 else ""
        race = space.strategy.race
        if race is not None:
            first = min(race.first, summary["replicates"])
            most = f"up to {_count(summary['most_cells'], 'cell')}"
            return f"{most}: {configurations}{each} with {first} to {replicates}, as the race decides"
        return f"{_count(summary['cells'], 'cell')}: {configurations}{each} with {replicates}"
    baseline = "the baseline and " if summary["cells"] else ""
    configurations = f"{_count(summary['trials'], 'configuration')} that {space.strategy.kind} chooses"
    heading = f"up to {_count(summary['most_cells'], 'cell')}: {baseline}{configurations}, {replicates} each"
    stopping = space.strategy.stopping
    if stopping is None:
        return heading
    steps = "replicate after replicate"
    if stopping.resource is not None:
        values = len(space.dimensions[stopping.resource].grid or ())
        steps = f"for one after another of {values} values of {stopping.resource}"
    return f"{heading}, {steps}; most are stopped early"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
