"""The site and a network in compiled code: inputs, whole runs, and logs of their decisions.

One kernel advances from decision to decision, so a run never leaves compiled code. Settings and state are
NamedTuples of arrays: a copy of the arrays is a copy of the simulation.

The inputs of a network are the site's features, see `gridtune.systems.responsive.simulator.candidates`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.learners.networks import ReservoirArrays, advance, score_candidates
from gridtune.systems.responsive.simulator.candidates import (
    count_candidates,
    feature_count,
    fill_features,
    fill_tick,
    start_candidate,
)
from gridtune.systems.responsive.simulator.replay import choose, demanded
from gridtune.systems.responsive.simulator.stepping import (
    advance_until_decision,
    resize_pool,
    start_job,
)
from gridtune.types import BoolArray, FloatArray, IntArray


@kernel()
def _describe_chosen(arrays, state, out):
    """Write the readouts' inputs right after `advance` with the chosen row: `out`, shape (m, p)."""
    visible = arrays.sizes[0]
    for a in range(arrays.bias.shape[0]):
        out[a, 0] = 1.0
        for i in range(visible):
            out[a, 1 + i] = state[a, i]


def shared_inputs(organisations: int, elastic: bool) -> BoolArray:
    """Return whether all candidates of a decision share an input, for each input: shape (d,)."""
    return np.array([True] * (4 + organisations) + [False] * (organisations + 1 + elastic))


#: Instead of a rule's number: the candidate of the highest value.
BY_VALUE = -1


class _DecisionLog(NamedTuple):
    """A log of n decisions; nothing is logged with n = 0.

    Attributes
    ----------
    candidate
        Shape (n,), int64: the chosen candidate.
    rows
        Shape (n, d), float64: the row of the chosen candidate.
    phi
        Shape (n, m, p), float64: the readouts' inputs for it.
    """

    candidate: IntArray
    rows: FloatArray
    phi: FloatArray


class LearnerState(NamedTuple):
    """The networks of a learner, and their state during a run.

    Attributes
    ----------
    arrays
        The networks.
    state
        Shape (m, k), float64: the state of the networks.
    scratch
        Shape (2, k), float64.
    log
        The decisions that `run_site` takes.
    """

    arrays: ReservoirArrays
    state: FloatArray
    scratch: FloatArray
    log: _DecisionLog


def new_learner_state(arrays: ReservoirArrays, decisions: int = 0) -> LearnerState:
    """Return the state of a learner before its first decision, with an empty log of `decisions`."""
    log = _DecisionLog(
        candidate=np.zeros(decisions, np.int64),
        rows=np.zeros((decisions, arrays.columns.size)),
        phi=np.zeros((decisions, *arrays.readout.shape)),
    )
    return LearnerState(arrays, np.zeros(arrays.bias.shape), np.zeros((2, arrays.bias.shape[1])), log)


@kernel(inline="always")
def _best_of(q, first, count, step):
    """Return the first of the highest values, among every `step`-th of `count` from `first` on."""
    best = first
    for candidate in range(first, count, step):
        if q[candidate] > q[best]:
            best = candidate
    return best


@kernel()
def _with_room(rows, q, count):
    """Return arrays of rows and values for at least `count` candidates: these, or larger ones."""
    if count <= q.size:
        return rows, q
    return np.empty((2 * count, rows.shape[1])), np.empty(2 * count)


@kernel()
def _nearest_option(site, size):
    """Return which of the pool sizes to choose from is nearest to `size`."""
    nearest = 0
    for option in range(1, site.state.memory[0].options):
        if abs(site.state.options[option] - size) < abs(site.state.options[nearest] - size):
            nearest = option
    return nearest


@kernel()
def run_site(site, learner, rule, epsilon, headroom, stop, rng):
    """Advance and decide, up to a number of decisions or the end of the simulation.

    Parameters
    ----------
    site, learner
        At any instant; both are changed.
    rule
        A rule's number, or `BY_VALUE`.
    epsilon
        Share of random decisions, uniform over the candidates. If it is above 0, one number is drawn for
        each decision and another for each random one.
    headroom
        Elastic: values choose only the job, at the pool size to choose from that is nearest to demand, and
        it is sized to this many times the cores that running and waiting jobs need. 0: they choose both.
    stop
        Number of decisions in total, counted from the site's first.
    rng
        A Generator.

    Returns
    -------
    bool
        Whether there are more decisions.
    """
    memory, width = site.state.memory[0], learner.arrays.columns.size
    rows, q = np.empty((64, width)), np.empty(64)
    while memory.decided < stop:
        if not advance_until_decision(site):
            return False
        if memory.tick_due:
            resize_pool(site, _size_at_end(site, learner, rule, epsilon, headroom, rng))
            continue
        count = count_candidates(site)
        rows, q = _with_room(rows, q, count)
        fill_features(site, rows[:count])
        if rule != BY_VALUE:
            # On an elastic site with the pool size nearest to demand.
            place = choose(site, rule, rng)
            candidate = place * memory.options + _nearest_option(site, demanded(site, 1.0))
        else:
            score_candidates(learner.arrays, learner.state, rows[:count], learner.scratch, q)
            first, step = 0, 1
            if headroom > 0.0:
                first, step = _nearest_option(site, demanded(site, headroom)), memory.options
            candidate = _best_of(q, first, count, step)
        if epsilon > 0.0 and rng.random() < epsilon:
            candidate = min(int(rng.random() * count), count - 1)
        advance(learner.arrays, learner.state, rows[candidate], learner.scratch)
        log = learner.log
        if log.candidate.size > 0:
            decision = memory.decided
            log.candidate[decision] = candidate
            log.rows[decision] = rows[candidate]
            _describe_chosen(learner.arrays, learner.state, log.phi[decision])
        if headroom > 0.0:
            start_job(site, candidate // memory.options, demanded(site, headroom))
        else:
            start_candidate(site, candidate)
    return True


@kernel()
def _size_at_end(site, learner, rule, epsilon, headroom, rng):
    """Return the pool size that a termination with an empty queue asks for; see `run_site`.

    A size is valued as that of a candidate without a job. Nothing is learned of it: only jobs have a reward.
    """
    if headroom > 0.0:
        return demanded(site, headroom)
    count_candidates(site)
    count = site.state.memory[0].options
    if rule != BY_VALUE:
        option = _nearest_option(site, demanded(site, 1.0))
    else:
        rows, q = np.zeros((count, learner.arrays.columns.size)), np.empty(count)
        width = feature_count(site)
        for option in range(count):
            fill_tick(site, rows[option, :width], site.state.options[option])
        score_candidates(learner.arrays, learner.state, rows, learner.scratch, q)
        option = _best_of(q, 0, count, 1)
    if epsilon > 0.0 and rng.random() < epsilon:
        option = min(int(rng.random() * count), count - 1)
    return site.state.options[option]


@kernel()
def list_candidates(site, learner, candidates, first):
    """Repeat a run and list the candidates of its decisions.

    Parameters
    ----------
    site, learner
        Before their first decision; both are changed.
    candidates
        Shape (n,), int64: the chosen candidates.
    first
        Shape (n + 1,), int64: filled in, see `RunSamples`.

    Returns
    -------
    float32 array
        `RunSamples.own`. A candidate that equals one of the last 16 is left out.
    """
    memory, columns = site.state.memory[0], learner.arrays.columns
    shared = learner.arrays.sizes[1]
    width = columns.size - shared
    rows, own = np.empty((64, columns.size)), np.empty((4096, width), np.float32)
    filled = 0
    first[0] = 0
    while advance_until_decision(site):
        count, decision = count_candidates(site), memory.decided
        if count > rows.shape[0]:
            rows = np.empty((2 * count, columns.size))
        if filled + count > own.shape[0]:
            larger = np.empty((2 * (filled + count), width), np.float32)
            larger[:filled] = own[:filled]
            own = larger
        fill_features(site, rows[:count])
        begin = filled
        for candidate in range(count):
            for place in range(width):
                own[filled, place] = rows[candidate, columns[shared + place]]
            if not _is_repeated(own, max(begin, filled - 16), filled):
                filled += 1
        first[decision + 1] = filled
        start_candidate(site, candidates[decision])
    return own[:filled].copy()


@kernel()
def _is_repeated(own, begin, at):
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
        See `RunSamples`.
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
        out[t] = q[_best_of(q, 0, count, 1)]
        advance(arrays, state, rows[t], scratch)
