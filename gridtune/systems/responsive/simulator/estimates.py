"""How long a job is expected to run, compiled: its run time, or the running median of its class."""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.state import (
    ORACLE,
    PRIOR_BATCH,
    SEEN_BATCH,
    WINDOW,
)

__all__ = ["class_estimate", "expected_time", "remember_run_time"]


@kernel()
def remember_run_time(site, job):
    """Take a completed job's run time into the window of its class; the oldest one leaves a full window."""
    state, window = site.state, site.settings.whole[WINDOW]
    kind, value = site.jobs.interactive[job], site.jobs.run[job]
    recent, ordered = state.recent[kind], state.ordered[kind]
    seen = state.memory[SEEN_BATCH + kind]
    kept = min(seen, window)
    slot = seen % window
    if seen >= window:
        # The leaver's place is closed: what is larger moves down.
        gone, place = recent[slot], 0
        while ordered[place] != gone:
            place += 1
        for later in range(place, kept - 1):
            ordered[later] = ordered[later + 1]
        kept -= 1
    place = kept
    while place > 0 and ordered[place - 1] > value:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = value
    recent[slot] = value
    state.memory[SEEN_BATCH + kind] = seen + 1


@kernel()
def class_estimate(site, kind):
    """Return the median run time of the window of a class (1 interactive, 0 batch), seconds.

    Before any job of the class is done: the prior of the settings.
    """
    state = site.state
    kept = min(state.memory[SEEN_BATCH + kind], site.settings.whole[WINDOW])
    if kept == 0:
        return site.settings.real[PRIOR_BATCH + kind]
    ordered, half = state.ordered[kind], kept // 2
    if kept % 2 == 1:
        return float(ordered[half])
    return (ordered[half - 1] + ordered[half]) / 2.0


@kernel()
def expected_time(site, job):
    """Return how long a job is expected to run, seconds: what the scheduler may know about it."""
    if site.settings.whole[ORACLE] == 1:
        return float(site.jobs.run[job])
    return class_estimate(site, site.jobs.interactive[job])
