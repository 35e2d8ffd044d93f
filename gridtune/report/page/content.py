"""The numbers behind the page's charts, as one JSON document."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gridtune.core.cells import CellResult, finite_json
from gridtune.core.schedules.files import allocate_processors
from gridtune.core.usage import StepFunction, step_function
from gridtune.errors import ScheduleError
from gridtune.report.labels import PARAMETER_PREFIX, is_logarithmic
from gridtune.report.page.effects import effects_of
from gridtune.report.rankings.cells import Stratum
from gridtune.report.rankings.combined import Front
from gridtune.report.rankings.ranking import Ranking, Row, row_key, shown_rows, verdict_text
from gridtune.report.schedules import ReportMaterial, ScheduleFiles
from gridtune.report.summary import Summary
from gridtune.report.tables import ranking_heading, ranking_notes
from gridtune.types import IntArray

#: Configurations of a table that the page holds; of more, the best.
MOST_ROWS = 20_000
#: Values of single replicates that the page holds, all tables together.
_MOST_VALUES = 250_000
_DIGITS = 6
#: Columns of numbers of a ranking that the page has.
_NUMBERS: tuple[str, ...] = ("rank", "n", "failures", "mean", "ci_low", "ci_high", "iqm", "gap")
_NUMBERS += ("relative", "relative_low", "relative_high", "by_log_low", "by_log_high")


def page_json(content: Mapping[str, Any]) -> str:
    """Return the content as JSON that can stand inside a script element of a page."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Nothing in it may end the element or open a comment, and two line ends are no part of older JavaScript.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def page_content(material: ReportMaterial) -> dict[str, Any]:
    """Return the numbers that the page's scripts draw; `assets/main.js` lists how they are used."""
    summary = material.summary
    strata = summary.cells.strata
    single = [_table(summary, material.order, summary.rankings, stratum.name) for stratum in strata]
    budget = _MOST_VALUES
    for table, stratum in zip(single, strata, strict=True):
        budget -= _add_replicates(table, stratum, budget)
    overall = [_table(summary, (), summary.overall, "")] if summary.overall else []
    for table in overall:
        _add_strata(table, single)
    drawn = {key for files in material.schedules for key in files.tables}
    labels = {
        row["configuration_id"]: first.label(row)
        for first in list(summary.rankings.values())[:1]
        for row in first.rows
        if row["configuration_id"] in drawn
    }
    content = {
        "name": summary.facts.name,
        "objectives": [
            {"name": name, "unit": ranking.head.unit, "direction": ranking.head.direction}
            for name, ranking in summary.rankings.items()
        ],
        "baseline": list(summary.facts.baseline),
        "adaptive": bool(material.order),
        "tables": [*overall, *single],
        "schedules": _schedule_content(material.schedules, labels),
    }
    return dict(_rounded(content))


def _table(
    summary: Summary, order: Sequence[str], rankings: Mapping[str, Ranking], name: str
) -> dict[str, Any]:
    """Return a stratum: configurations in the order of the first objective, and a view of each objective.

    Parameters
    ----------
    summary
        The findings.
    order
        Ids of the configurations in the order they were tried.
    rankings
        Objective to its ranking, within each stratum or over all of them.
    name
        The stratum in these rankings.
    """
    first = next(iter(rankings.values()))
    every = first.strata[name]
    shown = shown_rows(every, MOST_ROWS)
    places = {row_key(row): place for place, row in enumerate(shown)}
    # The configurations of another workload are other trials.
    ids = {row["configuration_id"] for row in every}
    trials = {key: trial for trial, key in enumerate(filter(ids.__contains__, order), start=1)}
    overall = first.head.overall
    table: dict[str, Any] = {
        "name": "overall" if overall else name,
        "overall": overall,
        "configurations": len(every),
        "ids": [row["configuration_id"] for row in shown],
        "baseline": [place for place, row in enumerate(shown) if row["is_baseline"]],
        "parameters": {
            parameter: [finite_json(row[PARAMETER_PREFIX + parameter]) for row in shown]
            for parameter in first.varying
        },
        "replicates": [],
        "views": {
            objective: _view(ranking, name, places, first.varying, trials)
            for objective, ranking in rankings.items()
        },
    }
    for front in summary.fronts:
        if (front.stratum, front.overall) == (table["name"], overall):
            table["front"] = _front(front, places)
    return table


def _view(
    ranking: Ranking, name: str, places: Mapping[Any, int], varying: Sequence[str], trials: Mapping[str, int]
) -> dict[str, Any]:
    """Return the columns of one objective, in the order of the table's configurations.

    Parameters
    ----------
    ranking, name
        The objective's ranking, and the stratum's name in it.
    places
        Each configuration of the table with its place.
    varying
        The parameters that vary.
    trials
        Configuration id to its number in the search; empty where nothing was searched.
    """
    rows = ranking.strata.get(name, [])
    numbers = {row_key(row): number for number, row in enumerate(rows)}
    place = [numbers.get(key) for key in places]
    found = [None if number is None else rows[number] for number in place]
    present = [row for row in found if row is not None]
    view: dict[str, Any] = {
        column: [None if row is None else row[column] for row in found]
        for column in _NUMBERS
        if any(column in row for row in present)
    }
    view["verdict"] = ["" if row is None else verdict_text(row) for row in found]
    if ranking.head.subject_to:
        view["bounds"] = ["" if row is None else row["subject_to"] for row in found]
    view |= {
        "complete": [row is not None and row["complete"] for row in found],
        "place": place,
        "values": [],
        "heading": ranking_heading(name, rows, ranking.head),
        "notes": list(ranking_notes(rows, present, ranking.head)),
        "effects": _effects(rows, varying, ranking),
    }
    if trials:
        view["trials"] = _trials(rows, trials, ranking)
    return view


def _add_replicates(table: dict[str, Any], stratum: Stratum, budget: int) -> int:
    """Add the values of the replicates of as many configurations as `budget` allows; return their number."""
    labels, views = stratum.replicates, table["views"]
    kept = min(len(table["ids"]), budget // (len(labels) * len(views)))
    places = [stratum.place[key] for key in table["ids"][:kept]]
    table["replicates"] = list(labels)
    for objective, view in views.items():
        view["values"] = stratum.values(objective)[places].tolist()
    return kept * len(labels) * len(views)


def _add_strata(table: dict[str, Any], single: Sequence[Mapping[str, Any]]) -> None:
    """Add each stratum's difference to the table over all of them, as other tables have replicates."""
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


def _effects(rows: Sequence[Row], varying: Sequence[str], ranking: Ranking) -> dict[str, Any] | None:
    # Over all strata: ratios to the baseline, for which logarithms make sense too, paired on whatever
    # replicates there are. Means over different replicates cannot be compared.
    overall = ranking.head.overall
    whole = [row for row in rows if row["complete"] or overall]
    if overall:
        ratios = (0.0 if row["is_baseline"] else row["relative"] for row in whole)
        means = [None if ratio is None else 1.0 + ratio for ratio in ratios]
    else:
        means = [row["mean"] for row in whole]
    effects = effects_of(
        {name: [row[PARAMETER_PREFIX + name] for row in whole] for name in varying},
        means,
        direction=ranking.head.direction,
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


def _trials(rows: Sequence[Row], order: Mapping[str, int], ranking: Ranking) -> dict[str, Any]:
    """Return the number, the mean and the best mean so far of each trial."""
    by_id = {row["configuration_id"]: row for row in rows}
    tried = [by_id[key] for key in order if key in by_id]
    means = [row["mean"] if row["complete"] else None for row in tried]
    trials = [order[row["configuration_id"]] for row in tried]
    return {"trial": trials, "mean": means, "best": _best_so_far(means, ranking.head.sign)}


def _best_so_far(means: Sequence[float | None], sign: int) -> list[float | None]:
    """Return the best of each and all earlier means; None before the first."""
    costs = [math.inf if mean is None or math.isnan(mean) else sign * mean for mean in means]
    best = np.minimum.accumulate(costs).tolist() if costs else []
    return [None if math.isinf(cost) else sign * cost for cost in best]


def _front(front: Front, places: Mapping[Any, int]) -> dict[str, Any]:
    identities = [row_key(parts[0]) for parts in front.rows[: front.size]]
    return {
        "objectives": [head.objective for head in front.heads],
        "members": [places[key] for key in identities if key in places],
        "configurations": len(front.rows),
        "size": front.size,
        "hypervolume": front.hypervolume,
        "limit": front.limit,
        "reference": front.reference,
    }


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
        edges = np.unique(np.linspace(int(times[0]), end, _MOST_STEPS // 2 + 1).astype(np.int64))
        times, values = edges[:-1], np.round(function.means(edges), 2)
    return {"times": np.diff(times, prepend=0).tolist(), "values": values.tolist()}


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
        The journal's proposals. Other configurations, such as a baseline, come first, by the order of their
        cells.
    """
    configuration = {result.cell_id: result.configuration_id for result in results}
    wanted = set(configuration.values())
    proposed = dict.fromkeys(key for entry in proposals for key in entry["configurations"] if key in wanted)
    others = dict.fromkeys(configuration[cell] for cell in cells if cell in configuration)
    return [*(key for key in others if key not in proposed), *proposed]
