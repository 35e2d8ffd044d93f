"""Who was served and what stood idle, compiled: service by VO, fairness and utilisation at this instant.

Service and pool are counted in whole core-seconds, so nothing is lost however long the log; only the last
division is rounded.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.state import AREA, BOOKED, FINISHED, LARGEST_SHARE, NOW, POOL

__all__ = ["fairness_now", "pool_area", "service_of", "utilisation_now"]


@kernel()
def service_of(site, vo):
    """Return the core-seconds that a VO has received so far, those of its running jobs included."""
    state = site.state
    return state.service[vo] + state.running[vo] * state.memory[NOW] - state.begun[vo]


@kernel()
def fairness_now(site):
    """Return F of a job elected now: 1 − maxₖ (wₖ − Sₖ)₊ / maxₖ wₖ.

    Where nobody has been served yet nobody has been served too little: 1.
    """
    shares = site.settings.shares
    total = 0
    for vo in range(shares.size):
        total += service_of(site, vo)
    if total == 0:
        return 1.0
    worst = 0.0
    for vo in range(shares.size):
        deficit = shares[vo] - service_of(site, vo) / total
        worst = max(worst, deficit)
    return 1.0 - worst / site.settings.real[LARGEST_SHARE]


@kernel()
def pool_area(site):
    """Return the core-seconds of the pool since the first submission."""
    memory = site.state.memory
    return memory[AREA] + memory[POOL] * (memory[NOW] - memory[BOOKED])


@kernel()
def utilisation_now(site):
    """Return U at this instant: execution time of completed jobs / core-seconds of the pool, 0 at first."""
    area = pool_area(site)
    return site.state.memory[FINISHED] / area if area > 0 else 0.0
