"""Further inputs of a candidate, compiled: compared with the others, and by the past of its organisation.

They follow the site's own columns. e' is the run time to expect from the completed jobs of the candidate's
organisation and class (the run time itself where the site has an oracle), w its wait and D the number of
jobs that run or wait:

==  ==================================================================================================
0   ln(1 + e')/12
1   ln(1 + e' + w)/12: the candidate with the smallest gains most responsiveness for its run time
2   e'/(e' + w)
3   column 1 minus its least among the candidates
4   column 1 minus its mean over the candidates
5   1 where no organisation has a larger deficit of its target share than the candidate's
6   elastic sites only: m = (requested pool − D)/cores
7…  elastic sites only: m − h where it is above 0, else 0; for h = 0, 0.1, 0.25, 0.5 and 1
==  ==================================================================================================

e' is a geometric mean with exponential forgetting: each completed job of the organisation and class enters
with weight 1, and the weights of those before it shrink by 0.98; the estimate of the class has weight 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.accounts import service_of, total_service
from gridtune.systems.responsive.simulator.estimates import class_estimate
from gridtune.systems.responsive.simulator.state import (
    CORES,
    DONE,
    ELASTIC,
    HEAD,
    NOW,
    OPTIONS,
    ORACLE,
    RUNNING,
    TAIL,
)

__all__ = [
    "RunTimeStatistics",
    "fill_relative",
    "neediest_of",
    "new_statistics",
    "relative_count",
    "update_statistics",
]

TIME_SCALE, FORGETTING, PRIOR_WEIGHT = 12.0, 0.98, 3.0
#: Hinges: the value of one more core falls as more of them are idle.
SURPLUS = (0.0, 0.1, 0.25, 0.5, 1.0)
OF_JOBS, OF_POOLS = 6, 1 + len(SURPLUS)


class RunTimeStatistics(NamedTuple):
    """Statistics of the run times of completed jobs.

    Attributes
    ----------
    logs, weights
        Shape (V, 2), float64, by organisation and class: Σ weight · ln run time, and Σ weight.
    completed
        Shape (1,), int64: number of completed jobs that are included.
    """

    logs: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    completed: npt.NDArray[np.int64]


def new_statistics(organisations: int) -> RunTimeStatistics:
    """Return statistics of no jobs."""
    return RunTimeStatistics(
        np.zeros((organisations, 2)), np.zeros((organisations, 2)), np.zeros(1, np.int64)
    )


def relative_count(elastic: bool) -> int:
    """Return the number of columns that `fill_relative` writes."""
    return OF_JOBS + OF_POOLS if elastic else OF_JOBS


@kernel()
def update_statistics(site, statistics):
    """Add the jobs that have completed since the last update."""
    state, jobs = site.state, site.jobs
    for place in range(statistics.completed[0], state.memory[DONE]):
        job = state.decided[state.completed[place]]
        vo, kind = jobs.vo[job], jobs.interactive[job]
        statistics.logs[vo, kind] = FORGETTING * statistics.logs[vo, kind] + math.log(jobs.run[job])
        statistics.weights[vo, kind] = FORGETTING * statistics.weights[vo, kind] + 1.0
    statistics.completed[0] = state.memory[DONE]


@kernel()
def neediest_of(site):
    """Return the organisation with the largest deficit, whether its jobs wait or not; -1 without any."""
    shares, total = site.settings.shares, total_service(site)
    neediest, most = -1, 0.0
    for vo in range(shares.size):
        deficit = shares[vo] - service_of(site, vo) / total if total > 0 else 0.0
        if deficit > most:
            neediest, most = vo, deficit
    return neediest


@kernel()
def fill_relative(site, statistics, rows, count, at):
    """Write the columns from `at` on for the `count` candidates of the decision that is due."""
    state, jobs, memory = site.state, site.jobs, site.state.memory
    options, oracle = memory[OPTIONS], site.settings.whole[ORACLE] == 1
    update_statistics(site, statistics)
    batch, interactive = math.log(class_estimate(site, 0)), math.log(class_estimate(site, 1))
    least, total, waiting = math.inf, 0.0, memory[TAIL] - memory[HEAD]
    neediest = neediest_of(site)
    for place in range(waiting):
        job = state.waiting[memory[HEAD] + place]
        vo, kind = jobs.vo[job], jobs.interactive[job]
        if oracle:
            expected = float(jobs.run[job])
        else:
            prior = interactive if kind == 1 else batch
            expected = math.exp(
                (PRIOR_WEIGHT * prior + statistics.logs[vo, kind])
                / (PRIOR_WEIGHT + statistics.weights[vo, kind])
            )
        wait = memory[NOW] - jobs.submit[job]
        row = rows[place * options]
        row[at] = math.log1p(expected) / TIME_SCALE
        row[at + 1] = math.log1p(expected + wait) / TIME_SCALE
        row[at + 2] = expected / (expected + wait)
        row[at + 5] = 1.0 if vo == neediest else 0.0
        least = min(least, row[at + 1])
        total += row[at + 1]
    for place in range(waiting):
        row = rows[place * options]
        row[at + 3] = row[at + 1] - least
        row[at + 4] = row[at + 1] - total / waiting
        for option in range(1, options):
            for column in range(at, at + OF_JOBS):
                rows[place * options + option, column] = row[column]
    if site.settings.whole[ELASTIC] == 1:
        _fill_pools(site, rows, count, at + OF_JOBS)


@kernel()
def _fill_pools(site, rows, count, at):
    memory, cores = site.state.memory, site.settings.whole[CORES]
    demand = memory[RUNNING] + memory[TAIL] - memory[HEAD]
    for candidate in range(count):
        requested = site.state.options[candidate % memory[OPTIONS]]
        margin = (requested - demand) / cores
        rows[candidate, at] = margin
        for place in range(len(SURPLUS)):
            rows[candidate, at + 1 + place] = max(margin - SURPLUS[place], 0.0)
