"""Which configurations of a large sweep have runs of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gridtune.errors import TrackingError
from gridtune.report.summary import Summary

__all__ = ["MOST_RUNS", "MOST_RUNS_VARIABLE", "most_runs", "ranked_rows", "runs_of_ranking"]

#: Configurations that have runs by default: the UI is slow with some thousands.
MOST_RUNS = 200
MOST_RUNS_VARIABLE = "GRIDTUNE_MOST_RUNS"
_LAST = 2**62


def most_runs() -> int:
    """Return how many configurations of a sweep have runs of their own at most.

    Raises
    ------
    TrackingError
        If the environment's value is no number.
    """
    text = os.environ.get(MOST_RUNS_VARIABLE, "")
    if not text.strip():
        return MOST_RUNS
    if not text.strip().isdigit():
        raise TrackingError(
            f"{MOST_RUNS_VARIABLE} is {text!r}, not a number of runs",
            hint=f"leave it out for {MOST_RUNS}, or give a whole number such as 1000",
        )
    return int(text)


def runs_of_ranking(summary: Summary, limit: int) -> list[str]:
    """Return the ids of the configurations that have runs, the best first.

    They are the baselines, and of every ranking (by objective and workload) the best: the first places of
    all rankings, then the second places, and so on until the limit.
    """
    places: dict[str, int] = {}
    baselines: set[str] = set()
    for ranking in summary.rankings.values():
        columns = (ranking[name].to_pylist() for name in ("configuration_id", "rank", "is_baseline"))
        for key, rank, is_baseline in zip(*columns, strict=True):
            places[key] = min(places.get(key, _LAST), _LAST if rank is None else rank)
            if is_baseline:
                baselines.add(key)
    # Sorting is stable: of equal places the first objective's come first.
    ordered = sorted(places, key=lambda key: places[key])
    chosen = set(sorted(ordered, key=lambda key: key not in baselines)[:limit])
    return [key for key in ordered if key in chosen]


def ranked_rows(summary: Summary, keys: list[str]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return configuration id to objective to its row in the ranking, for these configurations."""
    wanted = pa.array(keys, pa.string())
    rows: dict[str, dict[str, Mapping[str, Any]]] = {key: {} for key in keys}
    for objective, ranking in summary.rankings.items():
        for row in ranking.filter(pc.is_in(ranking["configuration_id"], wanted)).to_pylist():
            rows[row["configuration_id"]][objective] = row
    return rows
