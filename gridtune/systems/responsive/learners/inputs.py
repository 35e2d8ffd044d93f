"""The inputs of a network: some of the site's features, and comparisons of a candidate with the others.

The comparisons follow the site's own columns. e' is the run time to expect from the completed jobs of the
candidate's organisation and class (the run time itself where the site has an oracle), w its wait and D the
number of jobs that run or wait:

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

See `gridtune.systems.responsive.simulator.state.fill_expected` for e'.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.settings import Inputs
from gridtune.systems.responsive.simulator.site import SiteModel
from gridtune.systems.responsive.simulator.state import fill_expected, service_of, total_service
from gridtune.types import BoolArray

__all__ = ["fill_relative", "neediest_of", "observed_model", "relative_count", "shared_inputs"]


#: Additional columns of the extended set that describe the site, and the candidate.
_EXTENDED_OF_SITE, _EXTENDED_OF_CANDIDATE = 5, 5


def observed_model(model: SiteModel, inputs: Inputs) -> SiteModel:
    """Return the site with the set of features that a network with these inputs needs."""
    if model.autoscaler is not None and model.autoscaler.rule == "agent":
        raise PolicyError("this learner chooses jobs only: a rule must size the pool", field="autoscaler")
    return replace(model, features="paper" if inputs == "paper" else "extended")


def shared_inputs(organisations: int, elastic: bool, inputs: Inputs) -> BoolArray:
    """Return whether all candidates of a decision share an input, for each input: shape (d,)."""
    shared = [True] * (4 + organisations) + [False] * (organisations + 1 + elastic)
    if inputs != "paper":
        shared += [True] * _EXTENDED_OF_SITE + [False] * _EXTENDED_OF_CANDIDATE
    if inputs == "relative":
        shared += [False] * relative_count(elastic)
    return np.array(shared)


TIME_SCALE = 12.0
#: Hinges: the value of one more core falls as more of them are idle.
SURPLUS = (0.0, 0.1, 0.25, 0.5, 1.0)
OF_JOBS, OF_POOLS = 6, 1 + len(SURPLUS)


def relative_count(elastic: bool) -> int:
    """Return the number of columns that `fill_relative` writes."""
    return OF_JOBS + OF_POOLS if elastic else OF_JOBS


@kernel()
def neediest_of(site):
    """Return the organisation with the largest deficit, whether its jobs wait or not; -1 without any."""
    shares, total = site.shares, total_service(site)
    neediest, most = -1, 0.0
    for vo in range(shares.size):
        deficit = shares[vo] - service_of(site, vo) / total if total > 0 else 0.0
        if deficit > most:
            neediest, most = vo, deficit
    return neediest


@kernel()
def fill_relative(site, rows, count, at):
    """Write the columns from `at` on for the `count` candidates of the decision that is due."""
    state, jobs, memory = site.state, site.jobs, site.state.memory[0]
    options, oracle = memory.options, site.model[0].oracle
    fill_expected(site)
    least, total, waiting = math.inf, 0.0, memory.tail - memory.head
    neediest = neediest_of(site)
    for place in range(waiting):
        job = state.waiting[memory.head + place]
        vo = jobs.vo[job]
        expected = float(jobs.run[job]) if oracle else state.classes[vo, jobs.interactive[job]].expected
        wait = memory.now - jobs.submit[job]
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
    if site.model[0].elastic:
        _fill_pools(site, rows, count, at + OF_JOBS)


@kernel()
def _fill_pools(site, rows, count, at):
    memory, cores = site.state.memory[0], site.model[0].cores
    demand = memory.running + memory.tail - memory.head
    for candidate in range(count):
        requested = site.state.options[candidate % memory.options]
        margin = (requested - demand) / cores
        rows[candidate, at] = margin
        for place in range(len(SURPLUS)):
            rows[candidate, at + 1 + place] = max(margin - SURPLUS[place], 0.0)
