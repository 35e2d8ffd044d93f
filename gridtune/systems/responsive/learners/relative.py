"""More about a candidate than the site tells, compiled: against the others, and by its organisation's past.

Behind the site's own columns stand, with e' the run time expected of the candidate by what jobs of its
organisation and class took so far (the run time itself where the site has an oracle), w its wait and D the
jobs that run or wait:

==  ==================================================================================================
0   ln(1 + e')/12
1   ln(1 + e' + w)/12: who is least of it gains most responsiveness for the time it takes
2   e'/(e' + w)
3   column 1, less its least among the candidates
4   column 1, less its mean over the candidates
5   1 where no organisation lacks more of its target share than the candidate's
6   elastic sites only: m = (pool asked for − D)/cores
7…  elastic sites only: m − h where it is above 0, else 0; for h = 0, 0.1, 0.25, 0.5 and 1
==  ==================================================================================================

e' is a geometric mean that forgets: each completed job of the organisation and class enters with weight 1 and
those before it keep 0.98 of theirs; the class's own estimate stands in with weight 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.accounts import service_of
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
    "RELATIVE_NAMES",
    "Lore",
    "fill_relative",
    "learn_lore",
    "neediest_of",
    "new_lore",
    "relative_count",
]

TIME_SCALE, KEPT, PRIOR_WEIGHT = 12.0, 0.98, 3.0
#: Hinges: what a core more is worth falls as more of them stand idle.
SURPLUS = (0.0, 0.1, 0.25, 0.5, 1.0)
OF_JOBS, OF_POOLS = 6, 1 + len(SURPLUS)
#: What the columns are; those of elastic sites come last.
RELATIVE_NAMES = (
    "run time by organisation",
    "run time by organisation and wait",
    "responsiveness now by organisation",
    "run time and wait over the least",
    "run time and wait over the mean",
    "of the neediest organisation",
    "pool asked for less demand",
    *(f"surplus of the pool asked for over {share:g}" for share in SURPLUS),
)


class Lore(NamedTuple):
    """What is remembered of completed jobs.

    Attributes
    ----------
    logs, weights
        Shape (V, 2), float64, by organisation and class: Σ weight · ln run time, and Σ weight.
    known
        Shape (1,), int64: completions that are in.
    """

    logs: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    known: npt.NDArray[np.int64]


def new_lore(organisations: int) -> Lore:
    """Return lore of nothing."""
    return Lore(np.zeros((organisations, 2)), np.zeros((organisations, 2)), np.zeros(1, np.int64))


def relative_count(elastic: bool) -> int:
    """Return how many columns `fill_relative` writes."""
    return OF_JOBS + OF_POOLS if elastic else OF_JOBS


@kernel()
def learn_lore(site, lore):
    """Take in the jobs that completed since the last time."""
    state, jobs = site.state, site.jobs
    for place in range(lore.known[0], state.memory[DONE]):
        job = state.decided[state.completed[place]]
        vo, kind = jobs.vo[job], jobs.interactive[job]
        lore.logs[vo, kind] = KEPT * lore.logs[vo, kind] + math.log(jobs.run[job])
        lore.weights[vo, kind] = KEPT * lore.weights[vo, kind] + 1.0
    lore.known[0] = state.memory[DONE]


@kernel()
def neediest_of(site):
    """Return who lacks most of its target share, whether it waits or not; -1 where nobody lacks any."""
    shares, total = site.settings.shares, 0
    for vo in range(shares.size):
        total += service_of(site, vo)
    neediest, most = -1, 0.0
    for vo in range(shares.size):
        deficit = shares[vo] - service_of(site, vo) / total if total > 0 else 0.0
        if deficit > most:
            neediest, most = vo, deficit
    return neediest


@kernel()
def fill_relative(site, lore, rows, count, at):
    """Write the columns from `at` on for the `count` candidates of the decision that is due."""
    state, jobs, memory = site.state, site.jobs, site.state.memory
    options, oracle = memory[OPTIONS], site.settings.whole[ORACLE] == 1
    learn_lore(site, lore)
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
                (PRIOR_WEIGHT * prior + lore.logs[vo, kind]) / (PRIOR_WEIGHT + lore.weights[vo, kind])
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
        asked = site.state.options[candidate % memory[OPTIONS]]
        margin = (asked - demand) / cores
        rows[candidate, at] = margin
        for place in range(len(SURPLUS)):
            rows[candidate, at + 1 + place] = max(margin - SURPLUS[place], 0.0)
