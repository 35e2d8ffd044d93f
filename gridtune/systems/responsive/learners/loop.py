"""The site and a network joined in compiled code: whole runs, and what they showed.

One kernel lives from decision to decision, so that a run never leaves compiled code. Everything it is told
and everything that changes comes as NamedTuples of arrays: a copy of them is a copy of the moment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.kernels import advance, describe_chosen, score_candidates
from gridtune.systems.responsive.learners.relative import Lore, fill_relative
from gridtune.systems.responsive.simulator.candidates import count_candidates, start_candidate
from gridtune.systems.responsive.simulator.features import feature_count, fill_features
from gridtune.systems.responsive.simulator.rules import choose, demanded
from gridtune.systems.responsive.simulator.state import DECIDED, ELASTIC, NOW, OPTIONS
from gridtune.systems.responsive.simulator.stepping import advance_until_decision, start_job

__all__ = [
    "BY_VALUE",
    "Diary",
    "Mind",
    "best_of",
    "best_values",
    "candidate_by_rule",
    "fill_rows",
    "list_candidates",
    "live",
    "live_on_demanded_pool",
    "rewards_of",
]

#: Instead of a rule's number: the candidate of the highest value.
BY_VALUE = -1


class Mind(NamedTuple):
    """A scheduler in the middle of its life.

    Attributes
    ----------
    arrays
        Its networks.
    lore
        What it remembers of completed jobs.
    state
        Shape (m, k), float64: its networks' state.
    scratch
        Shape (2, k), float64.
    relative
        Shape (1,), int64: 1 where it also sees the columns of `relative`.
    """

    arrays: ReservoirArrays
    lore: Lore
    state: npt.NDArray[np.float64]
    scratch: npt.NDArray[np.float64]
    relative: npt.NDArray[np.int64]


class Diary(NamedTuple):
    """What is written down by decision: of n decisions, or n = 0 for nothing.

    Attributes
    ----------
    candidate, choices
        Shape (n,), int64: which candidate was taken, of how many.
    rows
        Shape (n, d), float64: its row.
    seen
        Shape (n, m, p), float64: what the readouts saw of it.
    """

    candidate: npt.NDArray[np.int64]
    choices: npt.NDArray[np.int64]
    rows: npt.NDArray[np.float64]
    seen: npt.NDArray[np.float64]


@kernel()
def fill_rows(site, mind, rows, count):
    """Write a row for each of the candidates of the decision that is due."""
    fill_features(site, rows[:count])
    if mind.relative[0] == 1:
        fill_relative(site, mind.lore, rows, count, feature_count(site))


@kernel(inline="always")
def best_of(q, count):
    """Return the first of the highest values."""
    best = 0
    for candidate in range(1, count):
        if q[candidate] > q[best]:
            best = candidate
    return best


@kernel()
def _with_room(rows, q, count):
    """Return rows and values for at least so many candidates: these, or larger ones instead."""
    if count <= q.size:
        return rows, q
    return np.empty((2 * count, rows.shape[1])), np.empty(2 * count)


@kernel()
def candidate_by_rule(site, rule, patience, headroom, rng):
    """Return the candidate that a simple rule takes; on an elastic site with the pool nearest to demand."""
    place = choose(site, rule, patience, rng)
    return place * site.state.memory[OPTIONS] + _nearest_option(site, demanded(site, headroom))


@kernel()
def _nearest_option(site, wanted):
    """Return which of the pool sizes that may be asked for is nearest to the one that is wanted."""
    nearest = 0
    for option in range(1, site.state.memory[OPTIONS]):
        if abs(site.state.options[option] - wanted) < abs(site.state.options[nearest] - wanted):
            nearest = option
    return nearest


@kernel()
def live(site, mind, diary, rule, epsilon, stop, until, rng):
    """Live on and decide: until so many decisions are taken in all, a moment has passed, or all is done.

    Parameters
    ----------
    site, mind
        In the middle of their lives; both move on.
    diary
        A `Diary` to write into.
    rule
        A rule's number, or `BY_VALUE`.
    epsilon
        Share of the decisions that are drawn at random, each candidate as likely. Draws a number for each
        decision, and one more for each such decision, if it is above 0.
    stop
        Decisions in all, counted from the site's first.
    until
        No decision is taken after this second.
    rng
        A Generator.

    Returns
    -------
    bool
        Whether there is more to decide.
    """
    memory, width = site.state.memory, mind.arrays.columns.size
    rows, q = np.empty((64, width)), np.empty(64)
    while memory[DECIDED] < stop:
        if not advance_until_decision(site):
            return False
        if memory[NOW] > until:
            return True
        count = count_candidates(site)
        rows, q = _with_room(rows, q, count)
        fill_rows(site, mind, rows, count)
        if rule != BY_VALUE:
            candidate = candidate_by_rule(site, rule, 1.0, 1.0, rng)
        else:
            score_candidates(mind.arrays, mind.state, rows[:count], mind.scratch, q)
            candidate = best_of(q, count)
        if epsilon > 0.0 and rng.random() < epsilon:
            candidate = min(int(rng.random() * count), count - 1)
        advance(mind.arrays, mind.state, rows[candidate], mind.scratch)
        if diary.candidate.size > 0:
            decision = memory[DECIDED]
            diary.candidate[decision], diary.choices[decision] = candidate, count
            diary.rows[decision] = rows[candidate]
            describe_chosen(mind.arrays, mind.state, rows[candidate], diary.seen[decision])
        start_candidate(site, candidate)
    return True


@kernel()
def live_on_demanded_pool(site, mind, headroom):
    """Live to the end: values choose the job, as of the pool size nearest to demand; the rule the pool.

    Parameters
    ----------
    site, mind
        An elastic site before its first decision, and who values; both move on.
    headroom
        The pool asked for, in times of the cores that running and waiting jobs need.
    """
    memory, width = site.state.memory, mind.arrays.columns.size
    rows, q = np.empty((64, width)), np.empty(64)
    while advance_until_decision(site):
        count = count_candidates(site)
        rows, q = _with_room(rows, q, count)
        fill_rows(site, mind, rows, count)
        score_candidates(mind.arrays, mind.state, rows[:count], mind.scratch, q)
        size, options = demanded(site, headroom), memory[OPTIONS]
        best = _nearest_option(site, size)
        for candidate in range(best, count, options):
            if q[candidate] > q[best]:
                best = candidate
        advance(mind.arrays, mind.state, rows[best], mind.scratch)
        start_job(site, best // options, size)


@kernel()
def rewards_of(site, decisions, weight, out):
    """Write λ W + (1 − λ) F of decisions, on an elastic site with U instead of F (Perez et al. 2009, § 3.2).

    Parameters
    ----------
    site
        Where the decisions were taken; their jobs have started.
    decisions
        Shape (n,), int64.
    weight
        λ.
    out
        Shape (n,), float64: filled in.
    """
    state, jobs = site.state, site.jobs
    elastic = site.settings.whole[ELASTIC] == 1
    for place in range(decisions.size):
        decision = decisions[place]
        job = state.decided[decision]
        run = jobs.run[job]
        responsiveness = run / (run + state.start[job] - jobs.submit[job])
        other = state.utilisation[decision] if elastic else state.fairness[decision]
        out[place] = weight * responsiveness + (1.0 - weight) * other


@kernel()
def list_candidates(site, mind, candidates, first):
    """Live through a run again and list what its decisions chose from.

    Parameters
    ----------
    site, mind
        Before their first decision; both move on.
    candidates
        Shape (n,), int64: the candidates that were taken.
    first
        Shape (n + 1,), int64: filled in, as of `RunSamples`.

    Returns
    -------
    float32 array
        `RunSamples.own`. Of candidates that look alike one is kept (as far as the last 16 tell).
    """
    memory, columns = site.state.memory, mind.arrays.columns
    shared = mind.arrays.sizes[1]
    width = columns.size - shared
    rows, own = np.empty((64, columns.size)), np.empty((4096, width), np.float32)
    filled = 0
    first[0] = 0
    while advance_until_decision(site):
        count, decision = count_candidates(site), memory[DECIDED]
        if count > rows.shape[0]:
            rows = np.empty((2 * count, columns.size))
        if filled + count > own.shape[0]:
            larger = np.empty((2 * (filled + count), width), np.float32)
            larger[:filled] = own[:filled]
            own = larger
        fill_rows(site, mind, rows, count)
        begin = filled
        for candidate in range(count):
            for place in range(width):
                own[filled, place] = rows[candidate, columns[shared + place]]
            if not _stands_there(own, max(begin, filled - 16), filled):
                filled += 1
        first[decision + 1] = filled
        start_candidate(site, candidates[decision])
    return own[:filled].copy()


@kernel()
def _stands_there(own, begin, at):
    for place in range(begin, at):
        same = True
        for column in range(own.shape[1]):
            if own[place, column] != own[at, column]:
                same = False
                break
        if same:
            return True
    return False


@kernel()
def best_values(arrays, rows, first, own, out):
    """Write the highest value among the candidates of each decision of a run.

    Parameters
    ----------
    arrays
        `ReservoirArrays`.
    rows, first, own
        As of `RunSamples`.
    out
        Shape (n,), float64: filled in.
    """
    columns, shared = arrays.columns, arrays.sizes[1]
    state, scratch = np.zeros(arrays.bias.shape), np.empty((2, arrays.bias.shape[1]))
    room, q = np.empty((64, columns.size)), np.empty(64)
    for t in range(out.size):
        count = first[t + 1] - first[t]
        room, q = _with_room(room, q, count)
        for c in range(count):
            for place in range(columns.size):
                column = columns[place]
                if place < shared:
                    room[c, column] = rows[t, column]
                else:
                    room[c, column] = own[first[t] + c, place - shared]
        score_candidates(arrays, state, room[:count], scratch, q)
        out[t] = q[best_of(q, count)]
        advance(arrays, state, rows[t], scratch)
