"""How long the cells that are missing will take, from those that are finished."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from gridtune.core.cells import Cell, CellResult

__all__ = ["estimate_seconds"]


def estimate_seconds(missing: Iterable[Cell], finished: Iterable[CellResult]) -> float | None:
    """Return about how many seconds of computing the missing cells take, all together.

    A cell takes what the finished cells of its configuration took on average; where there is none, those of
    its workload; else all of them.

    Parameters
    ----------
    missing
        Cells to be run.
    finished
        Results with the seconds that they took.

    Returns
    -------
    float or None
        None if no finished cell says how long it took.
    """
    taken: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for result in finished:
        if result.state == "done" and math.isfinite(result.seconds):
            for key in ((result.workload, result.configuration_id), (result.workload,), ()):
                taken[key].append(result.seconds)
    if not taken:
        return None
    means = {key: sum(seconds) / len(seconds) for key, seconds in taken.items()}

    def seconds_of(cell: Cell) -> float:
        for key in ((cell.workload, cell.configuration_id), (cell.workload,)):
            if key in means:
                return means[key]
        return means[()]

    return math.fsum(map(seconds_of, missing))
