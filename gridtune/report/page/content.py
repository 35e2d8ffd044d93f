"""The numbers behind the page's charts, as one JSON document."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.core.cells import CellResult, finite_json
from gridtune.core.schedules.files import allocate_processors
from gridtune.core.usage import StepFunction, step_function
from gridtune.errors import ScheduleError
from gridtune.report.labels import PARAMETER_PREFIX, is_logarithmic, row_label, varying_parameters
from gridtune.report.page.effects import effects_of
from gridtune.report.rankings.combined import Front
from gridtune.report.rankings.ranking import (
    RankingHead,
    ranking_head,
    row_key,
    shown_rows,
    strata,
    verdict_text,
)
from gridtune.report.schedules import ReportMaterial, ScheduleFiles
from gridtune.report.summary import Summary
from gridtune.report.tables import ranking_heading, ranking_notes
from gridtune.statistics.pareto import Scale, hypervolume, nondominated
from gridtune.types import IntArray

__all__ = [
    "MOST_JOBS",
    "MOST_ROWS",
    "page_content",
    "page_json",
    "trial_order",
]

#: Configurations of a table that the page holds; of more, the best.
MOST_ROWS = 20_000
#: Values of single replicates that the page holds, all tables together.
_MOST_VALUES = 250_000
_DIGITS = 6
#: Columns of numbers of a ranking that the page has.
_NUMBERS: tuple[str, ...] = ("rank", "n", "failures", "mean", "ci_low", "ci_high", "iqm", "gap")
_NUMBERS += ("relative", "relative_low", "relative_high", "by_log_low", "by_log_high")
Row = dict[str, Any]


def page_json(content: Mapping[str, Any]) -> str:
    """Return the content as JSON that can stand inside a script element of a page."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Nothing in it may end the element or open a comment, and two line ends are no part of older JavaScript.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def page_content(material: ReportMaterial) -> dict[str, Any]:
    """Return what the page's scripts draw; see `assets/main.js` for how it is used."""
    summary = material.summary
    heads = {objective: ranking_head(ranking) for objective, ranking in summary.rankings.items()}
    values = {objective: _replicate_values(material.table, objective) for objective in heads}
    budget = _MOST_VALUES
    tables = []
    for stratum, overall, by_objective in _strata(summary):
        replicates = {} if overall else values
        tables.append(_table(summary, stratum, by_objective, replicates, material.order, budget))
        budget -= tables[-1].pop("used")
    for table in tables:
        if table["overall"]:
            _add_strata_as_replicates(table, tables)
    drawn = {key for files in material.schedules for key in files.tables}
    content = {
        "name": summary.facts.name,
        "objectives": [
            {"name": name, "unit": head.unit, "direction": head.direction} for name, head in heads.items()
        ],
        "baseline": list(summary.facts.baseline),
        "adaptive": bool(material.order),
        "tables": tables,
        "schedules": _schedule_content(material.schedules, _labels(summary, drawn)),
    }
    return dict(_rounded(content))


def _strata(summary: Summary) -> list[tuple[str, bool, dict[str, list[dict[str, Any]]]]]:
    """Return name, whether it is over all, and objective to rows of each table, the overall one first."""
    found: dict[tuple[str, bool], dict[str, list[dict[str, Any]]]] = {}
    for rankings, overall in ((summary.overall, True), (summary.rankings, False)):
        for objective, ranking in rankings.items():
            for name, rows in strata(ranking):
                found.setdefault(("overall" if overall else name, overall), {})[objective] = rows
    return [(name, overall, by_objective) for (name, overall), by_objective in found.items()]


def _table(
    summary: Summary,
    stratum: str,
    by_objective: Mapping[str, Sequence[Row]],
    values: Mapping[str, Mapping[str, Mapping[str, float]]],
    order: Sequence[str],
    budget: int,
) -> dict[str, Any]:
    """Return a stratum: configurations in the order of the first objective, and a view of each."""
    first = next(iter(by_objective))
    overall = stratum == "overall" and not values
    rankings = summary.overall if overall else summary.rankings
    varying = varying_parameters(rankings[first], without=ranking_head(rankings[first]).group_by)
    every = by_objective[first]
    shown = shown_rows(every, MOST_ROWS)
    places = {row_key(row): place for place, row in enumerate(shown)}
    # The configurations of another workload are other trials.
    ids = {row["configuration_id"] for row in every}
    own_order = {key: place for place, key in enumerate(filter(ids.__contains__, order), start=1)}
    measured = values.get(first, {})
    labels = list(
        dict.fromkeys(label for row in every for label in measured.get(row["configuration_id"], {}))
    )
    kept = len(shown) if not labels else min(len(shown), budget // (len(labels) * len(by_objective)))
    table: dict[str, Any] = {
        "name": stratum,
        "overall": overall,
        "configurations": len(every),
        "ids": [row["configuration_id"] for row in shown],
        "baseline": [place for place, row in enumerate(shown) if row["is_baseline"]],
        "parameters": {
            name: [finite_json(row[PARAMETER_PREFIX + name]) for row in shown] for name in varying
        },
        "replicates": labels,
        "views": {},
        "used": kept * len(labels) * len(by_objective),
    }
    for objective, rows in by_objective.items():
        head = ranking_head(rankings[objective])
        numbers = {row_key(row): number for number, row in enumerate(rows)}
        order_here = [numbers.get(key) for key in places]
        found = values.get(objective, {})
        view = {
            **_view([None if number is None else rows[number] for number in order_here]),
            "place": order_here,
            "values": [
                [found.get(row["configuration_id"], {}).get(label) for label in labels]
                for row in (shown[:kept] if values else [])
            ],
            "heading": ranking_heading(stratum, rows, head),
            "notes": list(ranking_notes(rows, shown, head)),
            "effects": _effects(rows, varying, head),
        }
        if own_order:
            view["trials"] = _trials(rows, own_order, head.direction)
        table["views"][objective] = view
    fronts = [front for front in summary.fronts if (front.stratum, front.overall) == (stratum, overall)]
    if fronts:
        table["front"] = _front(fronts[0], places, own_order)
    return table


def _view(rows: Sequence[Row | None]) -> dict[str, Any]:
    view: dict[str, Any] = {
        name: [None if row is None else row[name] for row in rows]
        for name in _NUMBERS
        if any(row is not None and name in row for row in rows)
    }
    view["verdict"] = ["" if row is None else verdict_text(row) for row in rows]
    if any(row is not None and "subject_to" in row for row in rows):
        view["bounds"] = ["" if row is None else row["subject_to"] for row in rows]
    view["complete"] = [row is not None and row["complete"] for row in rows]
    return view


def _replicate_values(table: pa.Table, objective: str) -> dict[str, dict[str, float]]:
    """Return configuration id to replicate to the objective's value, of the cells that are done."""
    names = ("configuration_id", "replicate", "state", f"metric.{objective}")
    found: dict[str, dict[str, float]] = {}
    for key, replicate, state, value in zip(*(table[name].to_pylist() for name in names), strict=True):
        found.setdefault(key, {})[replicate] = math.nan if value is None or state != "done" else value
    return found


def _add_strata_as_replicates(table: dict[str, Any], tables: Sequence[Mapping[str, Any]]) -> None:
    """Give the table over all strata each stratum's difference, as other tables have replicates."""
    single = [other for other in tables if not other["overall"]]
    table["replicates"] = [other["name"] for other in single]
    for objective, view in table["views"].items():
        columns = []
        for other in single:
            names = [name for name in table["parameters"] if name in other["parameters"]]
            places = {
                tuple(other["parameters"][name][place] for name in names): place
                for place in range(len(other["ids"]))
            }
            relative = other["views"].get(objective, {}).get("relative", [])
            wanted = zip(*(table["parameters"][name] for name in names), strict=True)
            columns.append(
                [
                    0.0 if place in other["baseline"] else relative[place] if place is not None else None
                    for place in map(places.get, wanted)
                ]
                if relative
                else [None] * len(table["ids"])
            )
        view["values"] = [list(row) for row in zip(*columns, strict=True)]


def _effects(rows: Sequence[Row], varying: Sequence[str], head: RankingHead) -> dict[str, Any] | None:
    # Over all strata: ratios to the baseline, for which logarithms make sense too, paired on whatever
    # replicates there are. Means over different replicates cannot be compared.
    whole = [row for row in rows if row["complete"] or head.overall]
    if head.overall:
        ratios = (0.0 if row["is_baseline"] else row["relative"] for row in whole)
        means = [None if ratio is None else 1.0 + ratio for ratio in ratios]
    else:
        means = [row["mean"] for row in whole]
    effects = effects_of(
        {name: [row[PARAMETER_PREFIX + name] for row in whole] for name in varying},
        means,
        direction=head.direction,
        logarithmic=is_logarithmic(means),
    )
    if effects is None:
        return None
    complete = effects["complete"] and len(whole) == len(rows)
    return effects | {"complete": complete, "incomplete": len(rows) - len(whole)}


def _rounded(content: Any) -> Any:
    """Return the content with numbers of six digits, which is more than any chart can show."""
    if isinstance(content, Mapping):
        return {name: _rounded(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_rounded(value) for value in content]
    if not isinstance(content, float):
        return content
    return float(f"{content:.{_DIGITS}g}") if math.isfinite(content) else None


def _trials(rows: Sequence[Row], order: Mapping[str, int], direction: str) -> dict[str, Any]:
    by_id = {row["configuration_id"]: row for row in rows}
    tried = [by_id[key] for key in order if key in by_id]
    means = [row["mean"] if row["complete"] else None for row in tried]
    trials = [order[row["configuration_id"]] for row in tried]
    return {"trial": trials, "mean": means, "best": _best_so_far(means, direction)}


def _front(front: Front, places: Mapping[Any, int], order: Mapping[str, int]) -> dict[str, Any]:
    identities = [row_key(parts[0]) for parts in front.rows[: front.size]]
    return {
        "objectives": [head.objective for head in front.heads],
        "members": [places[key] for key in identities if key in places],
        "configurations": len(front.rows),
        "size": front.size,
        "hypervolume": front.hypervolume,
        "limit": front.limit,
        "reference": front.reference,
        "volumes": _hypervolume_so_far(front, order),
    }


def _labels(summary: Summary, wanted: Set[str]) -> dict[str, str]:
    """Return configuration id to the configuration in words."""
    labels = {}
    for ranking in list(summary.rankings.values())[:1]:
        varying = varying_parameters(ranking, without=ranking_head(ranking).group_by)
        rows = (row for row in ranking.to_pylist() if row["configuration_id"] in wanted)
        labels = {row["configuration_id"]: row_label(row, varying) for row in rows}
    return labels


#: Jobs that a chart shows, and that all charts of a page show together.
MOST_JOBS, _MOST_TOGETHER = 8_000, 24_000
#: Steps of a curve that are kept; of more, averages over as many spans of time.
_MOST_STEPS = 4_000


def _schedule_content(files: Sequence[ScheduleFiles], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what the page draws of schedules, a mapping for each stratum that has them.

    Parameters
    ----------
    files
        The schedules that were written.
    labels
        Configuration id to the configuration in words.

    Returns
    -------
    list of dict
        `stratum`, `replicate`, `processors`, and `schedules`: for each its `role` ("best" or "baseline"),
        `label`, `jobs` (their number), `bars` ([job id, start, run time, wait, first processor, last
        processor, …], by start; those that start first where there are too many) and the curves `use` and
        `queue` ({times, values}). Times are seconds since the first submission; those of bars and curves
        are differences to the one before.
    """
    drawn = [entry for entry in files if entry.tables and entry.processors]
    share = max(1, sum(len(entry.tables) for entry in drawn))
    return [_stratum(entry, labels, min(MOST_JOBS, _MOST_TOGETHER // share)) for entry in drawn]


def _stratum(files: ScheduleFiles, labels: Mapping[str, str], most: int) -> dict[str, Any]:
    names = ["job_id", "submit_time", "start_time", "end_time", "processors"]
    read = {key: pq.read_table(path, columns=names) for key, path in files.tables.items()}
    columns = {
        key: {name: table[name].to_numpy().astype(np.int64) for name in names} for key, table in read.items()
    }
    origin = min(int(column["submit_time"].min()) for column in columns.values())
    return {
        "stratum": files.stratum,
        "replicate": files.replicate,
        "processors": files.processors,
        "schedules": [
            {
                "role": "baseline" if files.tables[key].stem.endswith("-baseline") else "best",
                "label": labels.get(key, key),
                **_schedule(column, files.processors, origin, most),
            }
            for key, column in columns.items()
        ],
    }


def _schedule(columns: Mapping[str, IntArray], processors: int, origin: int, most: int) -> dict[str, Any]:
    submit, start, end = (columns[name] - origin for name in ("submit_time", "start_time", "end_time"))
    width, ones = columns["processors"], np.ones(len(start), dtype=np.int64)
    order = np.lexsort((columns["job_id"], start))[:most]
    try:
        jobs = {"start_time": start[order], "end_time": end[order], "processors": width[order]}
        places = allocate_processors(pa.table(jobs), processors)
    except ScheduleError:
        # A system whose jobs share processors has curves but no bars.
        places = []
    begun, run, wait = start[order], (end - start)[order], (start - submit)[order]
    facts = np.column_stack([columns["job_id"][order], np.diff(begun, prepend=0), run, wait])
    bars = [
        [*row, *(number for part in ranges for number in part)]
        for row, ranges in zip(facts.tolist(), places, strict=False)
    ]
    last = int(end.max())
    return {
        "jobs": len(start),
        "end": last,
        "bars": bars,
        "use": _curve(step_function(start, end, width), last),
        "queue": _curve(step_function(submit, start, ones), last),
    }


def _curve(function: StepFunction, end: int) -> dict[str, list[float]]:
    times, values = function.times, function.values.astype(np.float64)
    if len(times) > _MOST_STEPS:
        from gridtune.core.schedules.plots import span_means  # noqa: PLC0415

        edges = np.unique(np.linspace(int(times[0]), end, _MOST_STEPS // 2 + 1).astype(np.int64))
        times, values = edges[:-1], np.round(span_means(function, edges), 2)
    return {"times": np.diff(times, prepend=0).tolist(), "values": values.tolist()}


#: Points of the curve of hypervolumes: each costs a computation.
_MOST_POINTS = 200


def trial_order(
    results: Sequence[CellResult], cells: Iterable[str], proposals: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return the configurations' ids in the order in which they were tried.

    Parameters
    ----------
    results
        The sweep's results.
    cells
        Cell ids in the journal's order.
    proposals
        The journal's proposals. What the strategy did not propose, such as a baseline, comes first, by the
        order of its cells.
    """
    configuration = {result.cell_id: result.configuration_id for result in results}
    wanted = set(configuration.values())
    proposed = dict.fromkeys(key for entry in proposals for key in entry["configurations"] if key in wanted)
    others = dict.fromkeys(configuration[cell] for cell in cells if cell in configuration)
    return [*(key for key in others if key not in proposed), *proposed]


def _best_so_far(means: Sequence[float | None], direction: str) -> list[float | None]:
    """Return the best of each and all earlier means; None before the first."""
    sign = 1.0 if direction == "min" else -1.0
    costs = [math.inf if mean is None or math.isnan(mean) else sign * mean for mean in means]
    best = np.minimum.accumulate(costs).tolist() if costs else []
    return [None if math.isinf(cost) else sign * cost for cost in best]


def _hypervolume_so_far(front: Front, order: Mapping[str, int]) -> list[tuple[int, float]]:
    """Return (trial, hypervolume of the front up to it), on the scale of the whole sweep.

    Parameters
    ----------
    front
        The front of all configurations.
    order
        Configuration id to its place; those without one are left out.
    """
    signs = np.array([1.0 if head.direction == "min" else -1.0 for head in front.heads])
    placed = [
        (order[parts[0]["configuration_id"]], point)
        for parts, point in zip(front.rows, front.points * signs, strict=True)
        if parts[0]["configuration_id"] in order
    ]
    if not placed:
        return []
    placed.sort(key=lambda entry: entry[0])
    costs = np.array([point for _, point in placed])
    scale = Scale.of([front.points * signs])
    best, volumes, last = np.empty((0, costs.shape[1])), [], 0.0
    for (trial, _), point in zip(placed, costs, strict=True):
        if not (best <= point).all(axis=1).any():
            best = np.vstack([best, point])
            best = best[nondominated(best)]
            last = hypervolume(best, scale)
            volumes.append((trial, last))
    step = max(1, len(volumes) // _MOST_POINTS)
    return [*volumes[::step], *([volumes[-1]] if (len(volumes) - 1) % step else [])]
