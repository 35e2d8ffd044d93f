"""What queueing theory says of the M/M/c queue in its steady state.

A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in automatic telephone
exchanges", 1917. L. Kleinrock, "Queueing Systems, Volume 1: Theory", Wiley 1975, section 3.5.
"""

from __future__ import annotations

__all__ = ["erlang_c", "mean_wait"]


def erlang_c(servers: int, load: float) -> float:
    """Return the probability that a customer waits: Erlang C for c servers, each with this offered load."""
    offered = servers * load
    blocked = 1.0  # Erlang B, from its recursion over the number of servers
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return blocked / (1.0 - load * (1.0 - blocked))


def mean_wait(servers: int, load: float, service_mean: float) -> float:
    """Return the mean wait in seconds: C(c, cρ) m / (c (1 - ρ))."""
    return erlang_c(servers, load) * service_mean / (servers * (1.0 - load))
