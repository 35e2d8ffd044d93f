"""The run time to expect of a class of jobs, compiled: the median of the last completed ones."""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.state import COMPLETED_BATCH, MEDIAN_OF, PRIOR_BATCH

__all__ = ["class_estimate", "remember_run_time"]


@kernel()
def remember_run_time(site, job):
    """Add a completed job's run time to those of its class; the oldest one of a full list leaves."""
    state, size = site.state, site.settings.whole[MEDIAN_OF]
    kind, value = site.jobs.interactive[job], site.jobs.run[job]
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
