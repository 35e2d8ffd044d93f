"""Lower bounds of what any plan costs: no set of slots and no scheduler can do better.

The bound of the makespan is the larger of two. *Critical path*: each task starts no earlier than its parents
can end, at the first instant from which its processors are free for its whole run time, if no other task is
there. *Area*: tasks that can start no earlier than r, and after each of which a path of at least q is left,
must run in what is free between r and the makespan less q. Processors are counted in units of w: a task of p
processors holds ⌊p / w⌋ units, and a site with f free processors has ⌊f / w⌋. One processor for a unit gives
the usual area; large units say that wide tasks cannot run side by side.

Sources: E. B. Fernández, B. Bussell, "Bounds on the number of processors and time for multiprocessor optimal
schedules", IEEE TC C-22(8), 1973 (critical path, area over intervals); S. P. Fekete, J. Schepers, "New
classes of fast lower bounds for bin packing problems", Mathematical Programming 91, 2001 (units).
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel
from gridtune.systems.provisioning.planning.schedulers import upward_ranks
from gridtune.systems.provisioning.simulator.slots import Slots
from gridtune.types import FloatArray, IntArray
from gridtune.workload.workflows import Workflow

Number = TypeVar("Number", np.int64, np.float64)

#: Each choice of r, q and w is a bound: so many of each are tried, spread over those that differ.
_INSTANTS, _WIDTHS = 32, 24


def cost_bound(workflow: Workflow, slots: Slots) -> float:
    """Return the least allocation cost of any plan: every task where its processor-seconds are cheapest."""
    n = len(workflow)
    sites = np.unique(slots.site)
    run = np.broadcast_to(workflow.run_time.reshape(n, -1), (n, int(sites.max()) + 1))[:, sites]
    price = np.array([slots.price[slots.site == site].min() for site in sites])
    return float((workflow.processors * (run * price).min(axis=1)).sum())


def makespan_bound(workflow: Workflow, slots: Slots, *, now: float = 0.0) -> float:
    """Return a lower bound of the makespan of every plan; infinite if there cannot be one.

    Parameters
    ----------
    workflow, slots
        What to run, and what is on offer.
    now
        Seconds: no task starts earlier, and the makespan counts from it.
    """
    sites = int(slots.site.max()) + 1
    run = workflow.run_time if workflow.run_time.ndim == 2 else np.tile(workflow.run_time, (sites, 1)).T
    run = np.array(run[:, :sites])
    time, free = slots.free_processors(now)
    order, parents, children = workflow.order, workflow.parents, workflow.children
    width = np.array(workflow.processors)
    rows = (np.array(parents.offsets), np.array(parents.task))
    head, finish = _earliest(np.array(order), *rows, width, run, time, free)
    shortest = run.min(axis=1)
    # The longest path that follows each task is the largest rank of its children.
    tail = np.zeros(len(workflow))
    rank = upward_ranks(*map(np.array, (order, *children)), shortest, 0.0, 0.0)
    np.maximum.at(tail, workflow.parent, rank[workflow.child])
    last = float((finish + tail).max())
    if not math.isfinite(last):
        return math.inf
    for unit in _spread(np.unique(np.append(width, 1)), _WIDTHS):
        area = shortest * (width // unit)
        last = max(last, _area_bound(head, tail, area, time, (free // unit).sum(axis=0)))
    return last - now


@kernel()
def _earliest(order, offsets, parent, width, run, time, free):
    """Return the earliest start and the earliest end of each task if it were alone with its ancestors.

    A task of zero length may start where its processors have just become busy: it is not delayed at all.
    """
    tasks, sites = run.shape
    head, finish = np.full(tasks, np.inf), np.full(tasks, np.inf)
    for place in range(tasks):
        task = order[place]
        ready = time[0]
        for edge in range(offsets[task], offsets[task + 1]):
            ready = max(ready, finish[parent[edge]])
        if ready == np.inf:
            continue
        first = np.searchsorted(time, ready, side="right") - 1
        for site in range(sites):
            start = ready
            for k in range(first, len(time)):
                if free[site, k] < width[task] and run[task, site] > 0:
                    start = time[k + 1] if k + 1 < len(time) else np.inf
                elif k + 1 == len(time) or start + run[task, site] <= time[k + 1]:
                    break
            head[task] = min(head[task], start)
            finish[task] = min(finish[task], start + run[task, site])
    return head, finish


def _spread(values: npt.NDArray[Number], most: int) -> npt.NDArray[Number]:
    """Return some of the values, the first and the last among them."""
    chosen = np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int)
    return values[chosen]


def _area_bound(
    head: FloatArray, tail: FloatArray, area: FloatArray, time: FloatArray, units: IntArray
) -> float:
    """Return the latest end that the areas of tasks between heads and tails enforce."""
    heads, tails = _spread(np.unique(head), _INSTANTS), _spread(np.unique(tail), _INSTANTS)
    row, column = (np.searchsorted(v, x, side="right") - 1 for v, x in ((heads, head), (tails, tail)))
    # Tasks between two of the instants chosen count for the one before.
    demand = np.zeros((len(heads), len(tails)))
    np.add.at(demand, (row, column), area)
    demand = demand[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    offered = np.concatenate([[0.0], np.cumsum(np.diff(time) * units[:-1])])  # at each of the instants
    before = np.searchsorted(time, heads, side="right") - 1
    needed = demand + (offered[before] + (heads - time[before]) * units[before])[:, None]
    segment = np.searchsorted(offered, needed, side="left") - 1
    left = needed - offered[segment]
    with np.errstate(divide="ignore"):
        seconds = np.divide(left, units[segment], out=np.zeros_like(left), where=left > 0)
    return float(np.where(demand > 0, time[segment] + seconds + tails, -np.inf).max())
