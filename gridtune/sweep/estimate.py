"""How long the cells that are missing will take, from those that are finished."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from gridtune.core.cells import CellResult

__all__ = ["estimate_seconds"]


def estimate_seconds(missing: Mapping[tuple[str, str], int], finished: Iterable[CellResult]) -> float | None:
    """Return about how many seconds of computing the missing cells take, all together.

    A cell takes what the finished cells of its configuration took on average; where there is none, those of
    its workload; else all of them.

    Parameters
    ----------
    missing
        How many cells are to be run, by workload and id of the configuration.
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

    def mean_of(workload: str, configuration_id: str) -> float:
        return means.get((workload, configuration_id), means.get((workload,), means[()]))

    return math.fsum(count * mean_of(*key) for key, count in missing.items())
