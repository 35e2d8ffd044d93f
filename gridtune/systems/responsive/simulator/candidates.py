"""The candidates of a decision, compiled: every waiting job with every pool size to choose from.

Candidates are numbered job by job in order of submission, and for each job by pool size: first the present
one, then the others ascending. On a rigid or event-driven site, or while the pool may not change, a job is
one candidate.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.state import (
    CHANGED,
    ELASTIC,
    FLOOR,
    HEAD,
    NOW,
    OPTIONS,
    PERIOD,
    POOL,
    RUNNING,
    SCALER,
    TAIL,
)
from gridtune.systems.responsive.simulator.stepping import start_job

__all__ = ["count_candidates", "list_options", "start_candidate"]


@kernel()
def list_options(site):
    """List the pool sizes to choose from now, as they would be granted; return their number."""
    state, settings = site.state, site.settings
    memory, whole = state.memory, settings.whole
    options = state.options
    options[0] = memory[POOL]
    count = 1
    if whole[ELASTIC] == 1 and whole[SCALER] == 0 and memory[NOW] - memory[CHANGED] >= whole[PERIOD]:
        least = max(whole[FLOOR], memory[RUNNING] + 1)
        last = -1
        for place in range(settings.sizes.size):
            granted = max(settings.sizes[place], least)
            if granted not in (memory[POOL], last):
                options[count] = last = granted
                count += 1
    memory[OPTIONS] = count
    return count


@kernel()
def count_candidates(site):
    """Return the number of candidates of the decision that is due."""
    memory = site.state.memory
    return (memory[TAIL] - memory[HEAD]) * list_options(site)


@kernel()
def start_candidate(site, candidate):
    """Carry out a candidate of the decision that is due, after `count_candidates`; return the job."""
    count = site.state.memory[OPTIONS]
    return start_job(site, candidate // count, site.state.options[candidate % count])
