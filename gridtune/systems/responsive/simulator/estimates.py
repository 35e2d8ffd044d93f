"""Run times to expect, compiled, from completed jobs alone.

Of a class: the median of the last completed jobs. Of a VO's jobs of a class: a geometric mean with
exponential forgetting, in which each completed job enters with weight 1, the weights of those before it
shrink by 0.98, and the class's median has weight 3; so it is the median before the VO's first job is done.
"""

from __future__ import annotations

import math

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.state import COMPLETED_BATCH, KEPT, MEDIAN_OF, PRIOR_BATCH

__all__ = ["PRIOR_WEIGHT", "class_estimate", "fill_expected", "remember_run_time"]

FORGETTING, PRIOR_WEIGHT = 0.98, 3.0


@kernel()
def remember_run_time(site, job):
    """Add a completed job's run time to those of its class and VO; the oldest one of a full list leaves."""
    state, vo = site.state, site.jobs.vo[job]
    kind, value = site.jobs.interactive[job], site.jobs.run[job]
    state.logs[vo, kind] = FORGETTING * state.logs[vo, kind] + math.log(value)
    state.weights[vo, kind] = FORGETTING * state.weights[vo, kind] + 1.0
    state.latest[vo, kind, state.seen[vo, kind] % KEPT] = value
    state.seen[vo, kind] += 1
    _insert(site, kind, value)


@kernel()
def _insert(site, kind, value):
    """Add a run time to the sorted ones of a class."""
    state, size = site.state, site.settings.whole[MEDIAN_OF]
    recent, ordered = state.recent[kind], state.ordered[kind]
    completed = state.memory[COMPLETED_BATCH + kind]
    stored = min(completed, size)
    slot = completed % size
    if completed >= size:
        # Close the gap of the oldest one: larger ones move down.
        oldest, place = recent[slot], 0
        while ordered[place] != oldest:
            place += 1
        for later in range(place, stored - 1):
            ordered[later] = ordered[later + 1]
        stored -= 1
    place = stored
    while place > 0 and ordered[place - 1] > value:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = value
    recent[slot] = value
    state.memory[COMPLETED_BATCH + kind] = completed + 1


@kernel()
def class_estimate(site, kind):
    """Return the median run time of the last completed jobs of a class (1 interactive, 0 batch), seconds.

    Before any job of the class is completed, it is the prior of the settings.
    """
    state = site.state
    stored = min(state.memory[COMPLETED_BATCH + kind], site.settings.whole[MEDIAN_OF])
    if stored == 0:
        return site.settings.real[PRIOR_BATCH + kind]
    ordered, half = state.ordered[kind], stored // 2
    if stored % 2 == 1:
        return float(ordered[half])
    return (ordered[half - 1] + ordered[half]) / 2.0


@kernel()
def fill_expected(site):
    """Write the run time to expect of each VO's jobs of each class to `State.expected`."""
    state = site.state
    for kind in range(2):
        prior = PRIOR_WEIGHT * math.log(class_estimate(site, kind))
        for vo in range(state.expected.shape[0]):
            state.expected[vo, kind] = math.exp(
                (prior + state.logs[vo, kind]) / (PRIOR_WEIGHT + state.weights[vo, kind])
            )
