"""The rules that size the pool of an event-driven site, compiled.

With r running and q waiting jobs, p cores that are paid for, u of them up, and e the expected run time (the
median of the class):

===========  ========================================================================================
`DEMAND`     headroom · (r + q)
`WORK`       headroom · Σ min(1, e/drain) over running and waiting jobs: a core can serve several short jobs
             within `drain` seconds, so a queue of them does not get a core for each
`QUEUE`      (r + q) / jobs per core
`BUSY`       p · (b/p) / target, b = min(r + q, u); p itself where b/p is within the tolerance of the target
`FORECAST`   that of `WORK`, and by how much the number of jobs is expected to grow while a core boots:
             weights · `forecast_inputs`, where that is above 0
`AGENT`      none: an agent asks for sizes
===========  ========================================================================================

All are rounded up. `QUEUE` is KEDA's rule for a queue of messages, of which those in work count; `BUSY` is
that of Kubernetes' Horizontal Pod Autoscaler, where a pod that is not ready yet counts as unused:
https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/
"""

from __future__ import annotations

import math

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.estimates import class_estimate
from gridtune.systems.responsive.simulator.state import (
    ARRIVED,
    CORES,
    DONE,
    DRAIN,
    HEAD,
    HEADROOM,
    NOW,
    PER_CORE,
    POOL,
    PRESENT_INTERACTIVE,
    RUNNING,
    SCALER,
    TAIL,
    TOLERANCE,
    UP,
    UTILISATION,
)

__all__ = [
    "AGENT",
    "BUSY",
    "DEMAND",
    "FORECAST",
    "FORECAST_INPUTS",
    "QUEUE",
    "WORK",
    "desired_size",
    "forecast_inputs",
]

DEMAND, WORK, QUEUE, BUSY, FORECAST, AGENT = range(1, 7)
#: Inputs of `forecast_inputs`, and the spans over which it counts events, seconds.
FORECAST_INPUTS, SHORT_SPAN, LONG_SPAN, DAY = 9, 600, 3600, 86_400


@kernel()
def desired_size(site):
    """Return the size that the site's rule asks for now, before any limit."""
    memory, whole, real = site.state.memory, site.settings.whole, site.settings.real
    rule, present = whole[SCALER], memory[RUNNING] + memory[TAIL] - memory[HEAD]
    if rule == DEMAND:
        return math.ceil(real[HEADROOM] * present)
    if rule == WORK:
        return math.ceil(real[HEADROOM] * _cores_for_work(site))
    if rule == QUEUE:
        return math.ceil(present / real[PER_CORE])
    if rule == BUSY:
        ratio = min(present, memory[UP]) / memory[POOL] / real[UTILISATION]
        return memory[POOL] if abs(ratio - 1.0) <= real[TOLERANCE] else math.ceil(memory[POOL] * ratio)
    growth, inputs = 0.0, forecast_inputs(site)
    for place in range(FORECAST_INPUTS):
        growth += site.settings.forecast[place] * inputs[place]
    return math.ceil(real[HEADROOM] * _cores_for_work(site) + max(growth, 0.0) * whole[CORES])


@kernel()
def _cores_for_work(site):
    """Return Σ min(1, e/drain) over running and waiting jobs."""
    memory, drain = site.state.memory, site.settings.real[DRAIN]
    interactive = memory[PRESENT_INTERACTIVE]
    batch = memory[RUNNING] + memory[TAIL] - memory[HEAD] - interactive
    cores = interactive * min(1.0, class_estimate(site, 1) / drain)
    return cores + batch * min(1.0, class_estimate(site, 0) / drain)


@kernel()
def forecast_inputs(site):
    """Return what a learned pool knows of the site, shape (`FORECAST_INPUTS`,).

    A constant; jobs present, and its root; jobs that arrived and jobs that completed in the last 10 minutes
    and in the last hour, in cores of the site; sine and cosine of the time of day.
    """
    memory, submit = site.state.memory, site.jobs.submit
    now, cores = memory[NOW], float(site.settings.whole[CORES])
    present = memory[RUNNING] + memory[TAIL] - memory[HEAD]
    out = np.empty(FORECAST_INPUTS)
    out[0], out[1], out[2] = 1.0, present / cores, math.sqrt(present / cores)
    arrived = submit[: memory[ARRIVED]]
    out[3] = (arrived.size - np.searchsorted(arrived, now - SHORT_SPAN, "right")) / cores
    out[4] = (arrived.size - np.searchsorted(arrived, now - LONG_SPAN, "right")) / cores
    out[5] = (memory[DONE] - _completed_by(site, now - SHORT_SPAN)) / cores
    out[6] = (memory[DONE] - _completed_by(site, now - LONG_SPAN)) / cores
    angle = 2.0 * math.pi * (now % DAY) / DAY
    out[7], out[8] = math.sin(angle), math.cos(angle)
    return out


@kernel()
def _completed_by(site, moment):
    """Return the number of jobs that had completed at an instant; they are listed by their ends."""
    state, run = site.state, site.jobs.run
    low, high = 0, state.memory[DONE]
    while low < high:
        middle = (low + high) // 2
        job = state.decided[state.completed[middle]]
        if state.start[job] + run[job] <= moment:
            low = middle + 1
        else:
            high = middle
    return low
