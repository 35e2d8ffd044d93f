"""Many sites side by side, each stepped by one decision in one compiled call, for the environments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.core.stacking import one_of
from gridtune.systems.responsive.simulator.candidates import feature_count, fill_features, fill_tick
from gridtune.systems.responsive.simulator.pool import request_size
from gridtune.systems.responsive.simulator.state import Site
from gridtune.systems.responsive.simulator.stepping import advance_until_decision, reset_site, start_job
from gridtune.types import BoolArray, Float32Array, FloatArray, Int8Array, IntArray

__all__ = ["BOUND", "Observations", "step_sites"]


#: Features are clipped to ± this.
BOUND = 10.0


class Observations(NamedTuple):
    """The result of a step; `count` sites, `slots` candidates shown, d features.

    Attributes
    ----------
    rows
        Shape (count, slots, d), float32; zeros in empty slots.
    mask
        Shape (count, slots), int8: 1 where a slot holds a candidate.
    place
        Shape (count, slots), int64: the place in the queue of the job in a slot.
    rewards, over
        Shape (count,), float64 and bool.
    """

    rows: Float32Array
    mask: Int8Array
    place: IntArray
    rewards: FloatArray
    over: BoolArray


@kernel()
def step_sites(sites, actions, restart, weight, at_start, rows, observed):
    """Carry out a decision on each site and advance to its next one, or start over.

    Parameters
    ----------
    sites
        Stacked: every array has the sites as its first dimension, those of the model excepted.
    actions
        Shape (count, 2), int64: a slot and a pool size: 0 is the present one, i the model's i-th.
    restart
        Shape (count,), bool: sites that start over instead.
    weight, at_start
        λ, and whether rewards are given with the decision.
    rows
        Shape (jobs · options, d), float64: scratch.
    observed
        The `Observations` to fill in.
    """
    for index in range(actions.shape[0]):
        jobs, state = one_of(sites.jobs, index), one_of(sites.state, index)
        site = Site(jobs, sites.model, sites.shares, sites.sizes, sites.forecast, state)
        observed.rewards[index] = 0.0
        if restart[index]:
            reset_site(site)
        else:
            memory, done = site.state.memory[0], site.state.memory[0].done
            size = _size_of(site, actions[index, 1])
            if memory.tick_due:
                request_size(site, size)
            else:
                slot = actions[index, 0]
                place = observed.place[index, slot if observed.mask[index, slot] == 1 else 0]
                decision = site.state.number[start_job(site, place, size)]
                if at_start:
                    observed.rewards[index] = _reward(site, decision, weight)
            advance_until_decision(site)
            if not at_start:
                for place in range(done, memory.done):
                    observed.rewards[index] += _reward(site, site.state.completed[place], weight)
        # An episode has at least one job, so it begins with a decision.
        observed.over[index] = not advance_until_decision(site)
        if observed.over[index]:
            observed.rows[index] = 0.0
            observed.mask[index] = 0
        elif site.state.memory[0].tick_due:
            _show_tick(site, rows, observed, index)
        else:
            _show(site, rows, observed, index)


@kernel()
def _size_of(site, number):
    """Return a pool size by its number: 0 is the present one."""
    if number == 0:
        return site.state.memory[0].target if site.model[0].scaler != 0 else site.state.options[0]
    return site.sizes[number - 1]


@kernel()
def _reward(site, decision, weight):
    """Return R_s or R_e of a decision; its job has started."""
    state = site.state
    job = state.decisions[decision].job
    run, wait = site.jobs.run[job], state.start[job] - site.jobs.submit[job]
    taken = state.decisions[decision]
    other = taken.utilisation if site.model[0].elastic else taken.fairness
    return weight * (run / (run + wait)) + (1.0 - weight) * other


@kernel()
def _show(site, rows, observed, index):
    """Fill the slots: the oldest job of each class and VO, then the second oldest of each, and so on."""
    jobs, state, slots = site.jobs, site.state, observed.mask.shape[1]
    memory, count = state.memory[0], feature_count(site)
    fill_features(site, rows)
    options = memory.options
    waiting = memory.tail - memory.head
    shown, turn = 0, 0
    ahead = np.zeros(2 * site.shares.size, np.int64)
    while shown < min(slots, waiting):
        ahead[:] = 0
        for place in range(waiting):
            job = state.waiting[memory.head + place]
            kind = 2 * jobs.vo[job] + jobs.interactive[job]
            if ahead[kind] == turn and shown < slots:
                observed.place[index, shown] = place
                observed.mask[index, shown] = 1
                for column in range(count):
                    value = rows[place * options, column]
                    observed.rows[index, shown, column] = min(max(value, -BOUND), BOUND)
                shown += 1
            ahead[kind] += 1
        turn += 1
    observed.rows[index, shown:] = 0.0
    observed.mask[index, shown:] = 0


@kernel()
def _show_tick(site, rows, observed, index):
    """Show the site in the first slot."""
    fill_tick(site, rows[0], site.state.memory[0].target)
    observed.rows[index] = 0.0
    observed.mask[index] = 0
    observed.mask[index, 0] = 1
    for column in range(feature_count(site)):
        observed.rows[index, 0, column] = min(max(rows[0, column], -BOUND), BOUND)
