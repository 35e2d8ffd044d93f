"""The candidates of a decision, compiled: every waiting job with every pool size, and the inputs of learners.

Candidates are numbered job by job in order of submission, and for each job by pool size: first the present
one, then the others ascending. On a rigid or event-driven site, or while the pool may not change, a job is
one candidate.

The inputs are one row of numbers of order 1 for each candidate.

Work and times t are scaled as ln(1 + t/s)/16 and ln(1 + t/s)/12 (e¹⁶ s are 100 cores for a day, e¹² s are
two days), cores by the site's own number. With V VOs, by column:

==================  =====================================================================================
0                   expected remaining work of the running jobs
1                   expected time until the next running job ends; 0 where none runs
2                   backlog: expected work of the waiting jobs
3                   idle cores
4 … 3 + V           share of each VO among the waiting jobs
4 + V               1 for an interactive candidate, 0 for a batch one
5 + V … 3 + 2V      its VO, one-hot; the last VO is all zeros
4 + 2V              its expected run time e
5 + 2V              elastic sites only: the size of the pool that the candidate requests
==================  =====================================================================================

At a tick, which an agent uses to size the pool, there is one row: columns of candidates are 0, except for the
pool's size, which is the one to keep. Terminations that resize a pool have such a row for each size.

The expected run time is the real one (`oracle`) or the median of the class; the expected remaining time of a
job that has run for longer than expected is 0.
"""

from __future__ import annotations

import math

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.state import class_estimate
from gridtune.systems.responsive.simulator.stepping import start_job


@kernel()
def _list_options(site):
    """List the pool sizes to choose from now, as they would be granted; return their number."""
    state, memory, model = site.state, site.state.memory[0], site.model[0]
    options = state.options
    options[0] = memory.pool
    count = 1
    if model.elastic and model.scaler == 0 and memory.now - memory.changed >= model.period:
        least = max(model.floor, memory.running + 1)
        last = -1
        for place in range(site.sizes.size):
            granted = max(site.sizes[place], least)
            if granted not in (memory.pool, last):
                options[count] = last = granted
                count += 1
    memory.options = count
    return count


@kernel()
def count_candidates(site):
    """Return the number of candidates of the decision that is due."""
    memory = site.state.memory[0]
    return (memory.tail - memory.head) * _list_options(site)


@kernel()
def start_candidate(site, candidate):
    """Carry out a candidate of the decision that is due, after `count_candidates`; return the job."""
    count = site.state.memory[0].options
    return start_job(site, candidate // count, site.state.options[candidate % count])


WORK_SCALE, TIME_SCALE = 16.0, 12.0


@kernel()
def feature_count(site):
    """Return the length of a row."""
    return 4 + 2 * site.shares.size + 1 + site.model[0].elastic


@kernel()
def fill_features(site, rows):
    """Write a row for each candidate of the decision that is due.

    Parameters
    ----------
    site
        A decision is due on it.
    rows
        Shape (at least `count_candidates(site)`, `feature_count(site)`), float64: overwritten from the top.

    Returns
    -------
    int
        The number of candidates.
    """
    state, jobs = site.state, site.jobs
    memory, vos = state.memory[0], site.shares.size
    options, waiting = _list_options(site), memory.tail - memory.head
    elastic = site.model[0].elastic
    # Read once for all candidates: every access to the site costs more than the arithmetic.
    oracle, batch, interactive = site.model[0].oracle, class_estimate(site, 0), class_estimate(site, 1)
    run, kind, of_vo, queue = jobs.run, jobs.interactive, jobs.vo, state.waiting[memory.head : memory.tail]
    _fill_state(site, rows[0], oracle, batch, interactive)
    common = 4 + vos
    for place in range(waiting):
        job = queue[place]
        first = place * options
        row = rows[first]
        if first > 0:
            for column in range(common):
                row[column] = rows[0, column]
        expected = float(run[job]) if oracle else interactive if kind[job] == 1 else batch
        row[common] = kind[job]
        for vo in range(vos - 1):
            row[common + 1 + vo] = 1.0 if of_vo[job] == vo else 0.0
        row[common + vos] = math.log1p(expected) / TIME_SCALE
        for option in range(options):
            same = rows[first + option]
            if option > 0:
                for column in range(row.size):
                    same[column] = row[column]
            if elastic == 1:
                same[common + vos + 1] = state.options[option] / site.model[0].cores
    return waiting * options


@kernel()
def fill_tick(site, row, pool):
    """Write the row of a tick, shape (`feature_count(site)`,), float64; `pool`: the size in it."""
    common = 4 + site.shares.size
    row[:] = 0.0
    oracle, batch, interactive = site.model[0].oracle, class_estimate(site, 0), class_estimate(site, 1)
    _fill_state(site, row, oracle, batch, interactive)
    row[common + site.shares.size + 1] = pool / site.model[0].cores


@kernel()
def _fill_state(site, row, oracle, of_batch, of_interactive):
    """Write the columns of the site's state."""
    state = site.state
    memory, run, kind, queue = state.memory[0], site.jobs.run, site.jobs.interactive, state.waiting
    waiting = memory.tail - memory.head
    work, soonest = _expected_of_running(site)
    backlog = 0.0
    for place in range(memory.head, memory.tail):
        job = queue[place]
        expected = float(run[job]) if oracle else of_interactive if kind[job] == 1 else of_batch
        backlog += expected
    row[0] = math.log1p(work) / WORK_SCALE
    row[1] = math.log1p(soonest) / TIME_SCALE
    row[2] = math.log1p(backlog) / WORK_SCALE
    row[3] = (memory.up - memory.running) / site.model[0].cores
    for vo in range(site.shares.size):
        row[4 + vo] = state.vos[vo].queued / max(waiting, 1)


@kernel()
def _expected_of_running(site):
    """Return the expected remaining work of the running jobs, and the expected time until one ends."""
    state, oracle = site.state, site.model[0].oracle
    memory, heap, start = state.memory[0], state.heap, state.start
    run, kind = site.jobs.run, site.jobs.interactive
    batch, interactive = class_estimate(site, 0), class_estimate(site, 1)
    work, soonest, now = 0.0, math.inf, memory.now
    for place in range(memory.running):
        job = heap[place]
        expected = float(run[job]) if oracle else interactive if kind[job] == 1 else batch
        left = max(expected - (now - start[job]), 0.0)
        work += left
        soonest = min(soonest, left)
    return work, soonest if memory.running > 0 else 0.0
