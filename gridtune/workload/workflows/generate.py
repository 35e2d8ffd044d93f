"""Random workflows, generated level by level, and the workflow of a seismic hazard analysis.

References
----------
G. Singh, C. Kesselman, E. Deelman, HPDC 2007, sections 3, 5 and 6 (table 1); H. Topcuoglu, S. Hariri,
M.-Y. Wu, IEEE TPDS 13(3), 2002, section 5.1 (uniform run times around a mean).
"""

from __future__ import annotations

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.types import IntArray
from gridtune.workload.generators.draws import check_range, stream
from gridtune.workload.workflows.workflow import Workflow

__all__ = ["cybershake_workflow", "generate_workflow"]


#: Bytes per second at which `communication` is converted to bytes.
_BANDWIDTH = 1e8


def generate_workflow(
    *,
    seed: int = 1,
    tasks: int = 100,
    depth: int = 10,
    run_time: float = 1000.0,
    processors: float = 22.0,
    max_processors: int = 430,
    fan_in: float = 2.0,
    communication: float = 0.0,
    bandwidth: float = _BANDWIDTH,
    rng: np.random.Generator | None = None,
) -> Workflow:
    """Return a random workflow.

    Its levels have tasks / depth tasks on average, at least one each. A task has a parent in the level before
    its own, and others there by chance. Run times are whole seconds; they and processors are uniform around
    their means.

    Parameters
    ----------
    seed
        Of the random numbers; ignored if `rng` is given.
    tasks, depth
        Number of tasks and of levels; width is tasks / depth on average.
    run_time
        Mean, seconds, ≥ 1: uniform on 1 … 2·mean − 1.
    processors
        Mean, ≥ 1: uniform on 1 … 2·mean − 1, at most `max_processors`.
    max_processors
        The most processors of a task.
    fan_in
        Mean number of parents of a task after the first level, as far as the level before has as many.
    communication
        Mean time of an edge's transfer at `bandwidth` bytes/s, in parts of the mean run time.
    rng
        The source of random numbers, instead of `seed`.

    Raises
    ------
    WorkloadError
        Naming the parameter that is out of range.
    """
    check_range("tasks", tasks, 1)
    check_range("depth", depth, 1, tasks)
    check_range("run_time", run_time, 1)
    check_range("processors", processors, 1, max_processors)
    check_range("fan_in", fan_in, 1)
    check_range("communication", communication, 0)
    check_range("bandwidth", bandwidth, above=0)
    draw = rng if rng is not None else stream(seed, "workflow")
    widths = 1 + draw.multinomial(tasks - depth, np.full(depth, 1 / depth))
    edges = _edges(widths, fan_in, draw)
    level = np.repeat(np.arange(depth), widths)
    position = np.arange(tasks) - np.repeat(np.cumsum(widths) - widths, widths)
    mean_volume = communication * run_time * bandwidth
    return Workflow(
        tuple(f"level{a}_task{b}" for a, b in zip(level.tolist(), position.tolist(), strict=True)),
        _around(run_time, tasks, draw).astype(np.float64),
        np.minimum(_around(processors, tasks, draw), max_processors),
        edges[:, 0],
        edges[:, 1],
        draw.uniform(0, 2 * mean_volume, len(edges)),
        tuple(f"level{a}" for a in level.tolist()),
        f"random{tasks}x{depth}",
    )


def _around(mean: float, count: int, draw: np.random.Generator) -> IntArray:
    """Return whole numbers from 1 on with the given mean, as nearly uniform as possible."""
    # Floor of a uniform on [1, 2·mean) has, summed over whole steps, a mean of (2·mean)/2.
    return np.floor(draw.uniform(1.0, 2.0 * mean, count)).astype(np.int64)


def _edges(widths: IntArray, fan_in: float, draw: np.random.Generator) -> IntArray:
    """Return (parent, child) rows, shape (m, 2)."""
    rows = []
    first = 0
    for before, width in zip(widths[:-1].tolist(), widths[1:].tolist(), strict=True):
        one = draw.integers(0, before, width)
        probability = min((fan_in - 1) / (before - 1), 1.0) if before > 1 else 0.0
        has_edge = draw.random((width, before)) < probability
        has_edge[np.arange(width), one] = True
        child, parent = np.nonzero(has_edge)
        rows.append(np.column_stack([first + parent, first + before + child]))
        first += before
    return np.concatenate(rows) if rows else np.zeros((0, 2), np.int64)


def cybershake_workflow(variations: int = 4017) -> Workflow:
    """Return the CyberShake workflow of table 1: 5 levels, with 4,017 variations 8,039 tasks.

    The figure of its structure does not show the edges of the upper levels. Here both checks wait for both
    tasks of the level above, and every synthesis for both checks.

    Parameters
    ----------
    variations
        Number of pairs of a synthesis and the peak values computed from it.
    """
    if variations < 1:
        raise WorkloadError(f"must be at least 1, got {variations}", field="variations")
    single = (
        ("fd_grid_xyz", 1, 1),
        ("preSGT", 300, 1),
        ("fd_grid_cvm", 2100, 288),
        ("pmvl_chk1", 86_400, 288),
        ("pmvl_chk2", 86_400, 288),
    )
    names = tuple(name for name, _, _ in single)
    seconds, widths = [second for _, second, _ in single], [width for _, _, width in single]
    numbers = np.arange(variations)
    synthesis, peak = 5 + numbers, 5 + variations + numbers
    above = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 4)]
    parent = [p for p, _ in above] + [3] * variations + [4] * variations + synthesis.tolist()
    child = [c for _, c in above] + synthesis.tolist() * 2 + peak.tolist()
    kinds = (*names, *["synthSGT"] * variations, *["peakValCal"] * variations)
    return Workflow(
        (*names, *(f"synthSGT_{i}" for i in numbers), *(f"peakValCal_{i}" for i in numbers)),
        np.concatenate([seconds, np.full(variations, 519), np.full(variations, 1)]).astype(np.float64),
        np.concatenate([widths, np.ones(2 * variations, np.int64)]).astype(np.int64),
        np.array(parent),
        np.array(child),
        kinds=kinds,
        name="cybershake",
    )
