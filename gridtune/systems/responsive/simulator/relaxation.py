"""An upper bound of the mean responsiveness that any scheduler can reach, whatever it knows.

A Lagrangian relaxation of the cores [1]_: a price λ(t) ≥ 0 for each core-second takes the place of the limit
of P cores. Then jobs no longer depend on one another, and with the loss 1 − W of a job that starts at s

    Σ (1 − W) ≥ Σⱼ min_{s ≥ submission} [1 − W(s) + ∫ₛ^{s + run} λ dt] − P ∫ λ dt

for every price, without preemption and with all run times known. The price is constant in each bin of time;
the loss is concave in s, so a minimum lies where a job begins or ends at the edge of a bin, or at the
submission. Any price gives a valid bound; subgradients with Polyak's step, towards the loss of a real
schedule, find a good one.

References
----------
.. [1] M. L. Fisher, "The Lagrangian relaxation method for solving integer programming problems", Management
   Science 27(1), 1981, doi 10.1287/mnsc.27.1.1
"""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.responsive.simulator.site import SiteJobs

#: Width of a bin of constant price, seconds; at most so many bins; steps of the search.
BIN, MOST_BINS, STEPS = 300, 40_000, 300


def responsiveness_bound(
    jobs: SiteJobs, cores: int, counted: slice, reached: float, *, steps: int = STEPS
) -> float:
    """Return an upper bound of the mean W of the jobs that count; NaN without any.

    Parameters
    ----------
    jobs, cores
        The jobs, and the most cores that the site ever has.
    counted
        The jobs that count. The others are left out, which can only raise the bound.
    reached
        The mean W of some schedule, at which the search aims.
    steps
        Steps of the search; more of them give a bound at least as good.
    """
    submit, run = jobs.submit[counted], jobs.run[counted]
    if len(run) == 0:
        return float("nan")
    begin, end = int(submit[0]), int((submit + run).max())
    width = max(BIN, -(-(end - begin) // MOST_BINS))
    bins = -(-(end - begin) // width)
    loss = _best_price(submit - begin, run, cores, width, bins, (1.0 - reached) * len(run), steps)
    return float(1.0 - max(loss, 0.0) / len(run))


@kernel()
def _best_price(submit, run, cores, width, bins, goal, steps):
    """Return the largest Σ (1 − W) that the search for prices certifies."""
    price, usage = np.zeros(bins), np.empty(bins)
    total = np.zeros(bins + 1)
    best, scale, stalled = 0.0, 1.0, 0
    for _ in range(steps):
        for place in range(bins):
            total[place + 1] = total[place] + price[place] * width
        loss = _relaxed(submit, run, total, width, usage) - cores * total[bins]
        if loss > best:
            best, stalled = loss, 0
        else:
            stalled += 1
            if stalled == 10:
                scale, stalled = scale / 2.0, 0
        norm = 0.0
        for place in range(bins):
            excess = usage[place] - cores * width
            if excess > 0.0 or price[place] > 0.0:
                norm += excess * excess
        if norm == 0.0 or best >= goal:
            break
        step = scale * max(goal - loss, 0.0) / norm
        for place in range(bins):
            price[place] = max(price[place] + step * (usage[place] - cores * width), 0.0)
    return best


@kernel()
def _price_until(total, width, instant):
    """Return ∫ λ dt up to an instant; there is no price after the last bin."""
    place = instant // width
    if place >= total.size - 1:
        return total[total.size - 1]
    return total[place] + (total[place + 1] - total[place]) * (instant - place * width) / width


@kernel()
def _relaxed(submit, run, total, width, usage):
    """Start every job where it is cheapest; return the cost, and fill in the core-seconds of each bin."""
    bins = usage.size
    slope = np.zeros(bins + 1)
    for place in range(bins):
        usage[place] = 0.0
    cost = 0.0
    for job in range(submit.size):
        start, least = _cheapest(submit[job], run[job], total, width)
        cost += least
        first, last = start // width, (start + run[job]) // width
        if first < bins:
            usage[first] += (first + 1) * width - start
            slope[first + 1] += width
            if last < bins:
                usage[last] += start + run[job] - (last + 1) * width
                slope[min(last + 1, bins)] -= width
    whole = 0.0
    for place in range(bins):
        whole += slope[place]
        usage[place] += whole
    return cost


@kernel()
def _cheapest(submit, run, total, width):
    """Return the start of least 1 − W plus price, and this sum."""
    best = submit
    least = _price_until(total, width, submit + run) - _price_until(total, width, submit)
    if least == 0.0:
        return best, least
    begins, ends = (submit // width + 1) * width, ((submit + run) // width + 1) * width
    while True:
        start = min(begins, ends - run)
        loss = 1.0 - run / (run + start - submit)
        if loss >= least:
            return best, least
        value = loss + _price_until(total, width, start + run) - _price_until(total, width, start)
        if value < least:
            best, least = start, value
        if begins == start:
            begins += width
        if ends - run == start:
            ends += width
