"""The simulator: customers of a multi-server queue, one after the other."""

from __future__ import annotations

from typing import Any

from gridtune.core.compiled import kernel

__all__ = ["start_times"]


@kernel()
def start_times(arrival: Any, service: Any, server: Any, free: Any, start: Any) -> None:
    """Write when each customer's service starts.

    Parameters
    ----------
    arrival, service
        Shape (n,), float64 seconds; arrivals ascend.
    server
        Shape (n,), int64: the server whose queue a customer joins; negative where all share one queue, whose
        head goes to the server that is free first.
    free
        Shape (c,), float64: when each server is free; zeros at the beginning.
    start
        Shape (n,), float64: written.
    """
    for customer in range(arrival.size):
        chosen = server[customer]
        if chosen < 0:
            chosen = 0
            for other in range(1, free.size):
                if free[other] < free[chosen]:
                    chosen = other
        start[customer] = max(arrival[customer], free[chosen])
        free[chosen] = start[customer] + service[customer]
