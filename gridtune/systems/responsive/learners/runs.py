"""The site and a network in compiled code: inputs, whole runs, and logs of their decisions.

One kernel advances from decision to decision, so a run never leaves compiled code. Settings and state are
NamedTuples of arrays: a copy of the arrays is a copy of the simulation.

The inputs of a network are the site's features (see `gridtune.systems.responsive.simulator.candidates`), and
with `inputs="relative"` also comparisons of a candidate with the others:
e' is the run time to expect from the completed jobs of the
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
from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.networks import ReservoirArrays, advance, describe, score_candidates
from gridtune.systems.responsive.learners.settings import Inputs
from gridtune.systems.responsive.simulator.candidates import (
    count_candidates,
    feature_count,
    fill_features,
    fill_tick,
    start_candidate,
)
from gridtune.systems.responsive.simulator.replay import choose, demanded
from gridtune.systems.responsive.simulator.site import SiteModel
from gridtune.systems.responsive.simulator.state import fill_expected, service_of, total_service
from gridtune.systems.responsive.simulator.stepping import (
    advance_until_decision,
    resize_pool,
    start_job,
)
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = [
    "BY_VALUE",
    "LearnerState",
    "best_values",
    "list_candidates",
    "new_learner_state",
    "observed_model",
    "run_and_weigh",
    "run_site",
    "shared_inputs",
]


#: Additional columns of the extended set that describe the site, and the candidate.
_EXTENDED_OF_SITE, _EXTENDED_OF_CANDIDATE = 5, 5


@kernel()
def _describe_chosen(arrays, state, row, out):
    """Write the readouts' inputs right after `advance` with this row: `out`, shape (m, p)."""
    visible, outputs = arrays.sizes[0], arrays.readout.shape[1]
    for a in range(arrays.bias.shape[0]):
        out[a, 0] = 1.0
        for i in range(visible):
            out[a, 1 + i] = state[a, i]
        if outputs > 1 + visible:
            for f in range(arrays.inputs.shape[1]):
                out[a, 1 + visible + f] = row[f]


def observed_model(model: SiteModel, inputs: Inputs) -> SiteModel:
    """Return the site with the set of features that a network with these inputs needs."""
    if model.autoscaler is not None and model.autoscaler.rule == "agent":
        raise PolicyError("this learner chooses jobs only: a rule must size the pool", field="autoscaler")
    return replace(model, features="paper" if inputs == "paper" else "extended")


def shared_inputs(organisations: int, elastic: bool, inputs: Inputs) -> BoolArray:
    """Return whether all candidates of a decision share an input, for each input: shape (d,)."""
    shared = [True] * (4 + organisations) + [False] * (organisations + 1 + elastic)
    if inputs == "relative":
        own = _EXTENDED_OF_CANDIDATE + _relative_count(elastic)
        shared += [True] * _EXTENDED_OF_SITE + [False] * own
    return np.array(shared)


TIME_SCALE = 12.0
#: Hinges: the value of one more core falls as more of them are idle.
SURPLUS = (0.0, 0.1, 0.25, 0.5, 1.0)
OF_JOBS, OF_POOLS = 6, 1 + len(SURPLUS)


def _relative_count(elastic: bool) -> int:
    """Return the number of columns that `_fill_relative` writes."""
    return OF_JOBS + OF_POOLS if elastic else OF_JOBS


@kernel()
def _neediest_of(site):
    """Return the organisation with the largest deficit, also if none of its jobs waits; -1 without any."""
    shares, total = site.shares, total_service(site)
    neediest, most = -1, 0.0
    for vo in range(shares.size):
        deficit = shares[vo] - service_of(site, vo) / total if total > 0 else 0.0
        if deficit > most:
            neediest, most = vo, deficit
    return neediest


@kernel()
def _fill_relative(site, rows, count, at):
    """Write the columns from `at` on for the `count` candidates of the decision that is due."""
    state, jobs, memory = site.state, site.jobs, site.state.memory[0]
    options, oracle = memory.options, site.model[0].oracle
    fill_expected(site)
    least, total, waiting = math.inf, 0.0, memory.tail - memory.head
    neediest = _neediest_of(site)
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
    relative
        Shape (1,), int64: 1 where the inputs include the columns of `_fill_relative`.
    log
        The decisions that `run_site` takes.
    """

    arrays: ReservoirArrays
    state: FloatArray
    scratch: FloatArray
    relative: IntArray
    log: _DecisionLog


def new_learner_state(arrays: ReservoirArrays, inputs: Inputs, decisions: int = 0) -> LearnerState:
    """Return the state of a learner before its first decision, with an empty log of `decisions`."""
    log = _DecisionLog(
        candidate=np.zeros(decisions, np.int64),
        rows=np.zeros((decisions, arrays.columns.size)),
        phi=np.zeros((decisions, *arrays.readout.shape)),
    )
    scratch, relative = np.zeros((2, arrays.bias.shape[1])), np.array([int(inputs == "relative")])
    return LearnerState(arrays, np.zeros(arrays.bias.shape), scratch, relative, log)


@kernel()
def _fill_rows(site, learner, rows, count):
    """Write a row for each of the candidates of the decision that is due."""
    fill_features(site, rows[:count])
    if learner.relative[0] == 1:
        _fill_relative(site, rows, count, feature_count(site))


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
def _candidate_by_rule(site, rule, rng):
    """Return the candidate of a simple rule; on an elastic site, with the pool size nearest to demand."""
    place = choose(site, rule, rng)
    return place * site.state.memory[0].options + _nearest_option(site, demanded(site, 1.0))


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
        _fill_rows(site, learner, rows, count)
        if rule != BY_VALUE:
            candidate = _candidate_by_rule(site, rule, rng)
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
            _describe_chosen(learner.arrays, learner.state, rows[candidate], log.phi[decision])
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
        _fill_rows(site, learner, rows, count)
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


@kernel()
def _urgency(site, job, weight, neediest, served):
    """Return half the logarithm of the value of starting a job now instead of a little later.

    The value is per second of delay and per core-second of the job. Its W = run/(run + wait) falls by
    run/(run + wait)² a second: λ/(run + wait)² for each of its core-seconds. Service to the organisation
    with the largest deficit raises F of all decisions until the job would have started anyway: ν of them a
    second, each by 1/(served · max w) for a core-second, weighted by (1 − λ).

    Parameters
    ----------
    site, job
        A waiting job; its real run time is known in hindsight.
    weight
        λ.
    neediest, served
        The organisation with the largest deficit, and the core-seconds of all so far.
    """
    memory, jobs = site.state.memory[0], site.jobs
    span = jobs.run[job] + memory.now - jobs.submit[job]
    value = weight / (float(span) * span)
    elapsed = memory.now - jobs.submit[0]
    if not site.model[0].elastic and jobs.vo[job] == neediest and served > 0 and elapsed > 0:
        rate = memory.decided / elapsed
        value += (1.0 - weight) * rate / (served * site.model[0].largest_share)
    # A wait of thirty years stands for no urgency, so that the logarithm is finite.
    return 0.5 * math.log(value + 1e-18)


@kernel()
def run_and_weigh(site, learner, rule, branches, weight, rng, out):
    """Run to the end under a rule, and record the urgency of some candidates of each decision.

    Parameters
    ----------
    site, learner
        Before their first decision; both are changed.
    rule, rng
        See `run_site`.
    branches, weight
        Number of candidates to record, drawn uniformly, and λ.
    out
        The arrays of `_Urgencies`, with room for as many candidates of each decision: filled in.
    """
    first, phi, value = out
    memory = site.state.memory[0]
    rows, q = np.empty((64, learner.arrays.columns.size)), np.empty(64)
    filled = 0
    first[0] = 0
    while advance_until_decision(site):
        count, decision = count_candidates(site), memory.decided
        rows, q = _with_room(rows, q, count)
        _fill_rows(site, learner, rows, count)
        candidate = _candidate_by_rule(site, rule, rng)
        if count > 1:
            drawn = _draw_others(candidate, min(branches, count), count, rng)
            describe(learner.arrays, learner.state, rows[drawn], learner.scratch, phi[filled:])
            neediest, served = _neediest_of(site), total_service(site)
            for other in drawn:
                job = site.state.waiting[memory.head + other // memory.options]
                value[filled] = _urgency(site, job, weight, neediest, served)
                filled += 1
        first[decision + 1] = filled
        advance(learner.arrays, learner.state, rows[candidate], learner.scratch)
        start_candidate(site, candidate)


@kernel()
def _draw_others(candidate, number, count, rng):
    """Return the chosen candidate and others, drawn at random."""
    drawn = np.empty(number, np.int64)
    drawn[0], filled = candidate, 1
    while filled < number:
        other = min(int(rng.random() * count), count - 1)
        rng.random()  # as when the better of two was taken
        # If it has been drawn before, the next one that has not.
        while (drawn[:filled] == other).any():
            other = (other + 1) % count
        drawn[filled] = other
        filled += 1
    return drawn
