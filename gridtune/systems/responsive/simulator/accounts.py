"""Service by VO, fairness and utilisation at this instant, compiled.

Service and pool are counted in whole core-seconds, so they are exact for logs of any length; only the last
division is rounded.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.state import AREA, BOOKED, FINISHED, LARGEST_SHARE, NOW, POOL

__all__ = ["book_pool", "fairness_now", "pool_area", "service_of", "total_service", "utilisation_now"]


@kernel()
def service_of(site, vo):
    """Return the core-seconds that a VO has received so far, including its running jobs."""
    state = site.state
    return state.service[vo] + state.running[vo] * state.memory[NOW] - state.begun[vo]


@kernel()
def total_service(site):
    """Return the core-seconds that all VOs have received so far."""
    total = 0
    for vo in range(site.settings.shares.size):
        total += service_of(site, vo)
    return total


@kernel()
def fairness_now(site):
    """Return F of a decision taken now: 1 − maxₖ (wₖ − Sₖ)₊ / maxₖ wₖ; 1 before any service."""
    shares, total = site.settings.shares, total_service(site)
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
def book_pool(site):
    """Count the pool's core-seconds up to now; due before each change of its size."""
    memory = site.state.memory
    memory[AREA] += memory[POOL] * (memory[NOW] - memory[BOOKED])
    memory[BOOKED] = memory[NOW]


@kernel()
def utilisation_now(site):
    """Return U at this instant: run time of completed jobs / core-seconds of the pool; 0 at first."""
    area = pool_area(site)
    return site.state.memory[FINISHED] / area if area > 0 else 0.0
