"""Days of jobs like those of GRID'5000's clusters: bursts of similar jobs, many of them failing early.

Days are calibrated to published tables: jobs per day, the distribution of days over five groups by their
share of sequential submissions (gaps under five minutes), the share of sequential jobs of the whole trace,
and the cluster's utilisation. A day consists of bursts, in which one user submits the same job again and
again, minutes apart. Sizes, walltimes and the daily cycle follow Taurus.

References
----------
"Don't Hurry Be Green: Scheduling Servers Shutdown in Grid Computing with Deep Reinforcement Learning",
Tables 1 and 2.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import ndtr

from gridtune.errors import WorkloadError
from gridtune.systems.shutdown.simulator.platform import TRACES, Trace
from gridtune.types import FloatArray, IntArray
from gridtune.workload.generators import generator
from gridtune.workload.generators.draws import Cycle, check_range, stream, zipf

#: Rank correlation of a day's jobs and its share of sequential submissions, chosen such that days and trace
#: have the shares of sequential submissions in the tables.
BUSY_IS_SEQUENTIAL = {"taurus": 0.6, "orion": 0.0, "graphite": 0.65, "econome": 0.7}

#: Minutes of a day in which jobs are submitted, and the least between two bursts.
DAY, APART = 1440, 5
#: The most jobs and bursts of a day: more would not fit five minutes apart.
MOST_JOBS, MOST_BURSTS = 600, 200
#: Spread of a day's jobs: standard deviation of the logarithm.
SPREAD = 1.0
#: Gaps within a burst of 0, 1, … minutes.
GAPS = (0.5, 0.2, 0.12, 0.1, 0.08)
#: Walltimes in minutes, and their shares.
WALLTIMES = (10, 20, 30, 60, 120, 180, 240, 360, 480, 720, 900, 1440)
WALLTIME_SHARES = (0.03, 0.15, 0.03, 0.2, 0.12, 0.02, 0.03, 0.3, 0.02, 0.03, 0.01, 0.06)
#: Share of jobs that reach their walltime, and the least part of it that others take.
KILLED, SHORTEST_PART = 0.31, 0.006
#: Shares of jobs on one core, on part of a node, on any number of cores; the others take whole nodes.
ONE_CORE, PART_OF_NODE, ANY_CORES = 0.065, 0.08, 0.05
#: Number of whole nodes: k with probability proportional to k^-WIDTH.
WIDTH = 2.7
#: Chance that a job of a burst repeats the one before.
REPEATS = 0.8
#: Relative submissions in each hour of the day.
HOURS = (6, 6, 6, 5, 5, 5, 5, 7, 8, 18, 22, 19, 12, 13, 12, 12, 12, 13, 11, 13, 9, 8, 6, 6)


@generator("grid5000")
def _grid5000(
    *,
    jobs: int,
    seed: int,
    processors: int = 168,
    cluster: str = "taurus",
    load: float | None = None,
) -> dict[str, IntArray]:
    """GRID'5000-like days of one cluster: bursts of similar jobs, calibrated to published tables.

    Times are whole minutes, as the paper's. Every day has at least two jobs. The walltimes' mix is tilted
    so that the load is the requested one: the sum of cores × run time, over cores × days.

    Parameters
    ----------
    jobs, seed
        See `generate_workload`.
    processors
        The cluster's cores: 168 (taurus), 48 (orion), 64 (graphite), 352 (econome).
    cluster
        Which of them.
    load
        Offered load; by default the published utilisation.
    """
    model = TRACES.get(cluster)
    if model is None:
        names = ", ".join(TRACES)
        raise WorkloadError(f"no cluster is named {cluster!r}", field="cluster", hint=f"one of {names}")
    if processors != model.cores:
        raise WorkloadError(
            f"{cluster} has {model.cores} cores, not {processors}",
            field="processors",
            hint=f"processors={model.cores}",
        )
    target = round(model.utilisation / 100, 3) if load is None else load
    check_range("load", target, high=100.0, above=0.0)
    sizes, shares = _days(jobs, seed, model, BUSY_IS_SEQUENTIAL[cluster])
    submit, burst = _submissions(sizes, shares, seed)
    # For each job the first of the jobs that it repeats, or itself.
    again = stream(seed, "repeat").random(len(burst)) < REPEATS
    again &= np.diff(burst, prepend=-1) == 0
    same = np.maximum.accumulate(np.where(again, 0, np.arange(len(burst))))
    cores = _cores(same, seed, model)
    # The share of its walltime that each job runs; 1: it is killed.
    rng = stream(seed, "run time")
    part = np.asarray(SHORTEST_PART ** rng.random(jobs), dtype=np.float64)
    part = np.where(rng.random(jobs) < KILLED, 1.0, part)
    walltime, run, reached = _durations(same, part, cores, target, processors * DAY * len(sizes), seed)
    # A few jobs may not reach the default load; a requested load is reached or refused.
    if load is not None and not 0.95 * load < reached < 1.05 * load:
        raise WorkloadError(f"these jobs reach {reached:.3f} at best, not {load}", field="load")
    user = 1 + zipf(stream(seed, "user"), int(burst[-1]) + 1, 60, 1.1)[burst]
    return {
        "submit_time": submit * 60,
        "run_time": run * 60,
        "allocated_processors": cores,
        "requested_processors": cores,
        "requested_time": walltime * 60,
        "status": np.where(run < walltime, 1, 5),
        "user": user,
    }


def _days(jobs: int, seed: int, model: Trace, tie: float) -> tuple[IntArray, FloatArray]:
    """Return the jobs and the share of sequential submissions of each day.

    The days' numbers of jobs are lognormal; the share's rank goes with theirs, by the correlation `tie`.
    """
    rng = stream(seed, "days")
    mean = model.jobs / sum(model.days)
    edges = np.cumsum((0, *model.days)) / sum(model.days)
    sizes: list[int] = []
    shares: list[float] = []
    left = jobs
    while left > 0:
        busy, own, within = *rng.standard_normal(2), rng.random()
        size = round(mean * np.exp(SPREAD * busy - SPREAD**2 / 2))
        size = int(np.clip(size, 2, min(MOST_JOBS, left)))
        # A single job cannot be a day of its own.
        size = left if left - size < 2 else size
        rank = ndtr(tie * busy + np.sqrt(1 - tie**2) * own)
        group = min(int(np.searchsorted(edges, rank, side="right")) - 1, 4)
        sizes.append(size)
        shares.append(1.0 if group == 4 else (group + within) / 4)
        left -= size
    return np.array(sizes), np.array(shares)


def _submissions(sizes: IntArray, shares: FloatArray, seed: int) -> tuple[IntArray, IntArray]:
    """Return the minute of each submission, and the burst that each job belongs to."""
    rng, cycle = stream(seed, "gap"), Cycle(HOURS, DAY / len(HOURS))
    submit: list[IntArray] = []
    burst: list[IntArray] = []
    bursts = 0
    for day, (size, share) in enumerate(zip(sizes.tolist(), shares.tolist(), strict=True)):
        count = min(size - round(share * (size - 1)), MOST_BURSTS)
        # Few bursts are long: each further job joins one in proportion to weights of its own.
        weights = rng.pareto(1.2, count) + 0.05
        lengths = 1 + rng.multinomial(size - count, weights / weights.sum())
        gaps = rng.choice(len(GAPS), size, p=GAPS)
        begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        gaps[begins] = 0
        room = DAY - 2 - APART * count
        if gaps.sum() > room // 2:
            gaps = gaps * (room // 2) // gaps.sum()
        taken = np.add.reduceat(gaps, begins)
        free = np.sort(cycle.clock_time(rng.random(count) * DAY)) / DAY * (room - gaps.sum())
        start = 1 + np.floor(free).astype(np.int64) + np.concatenate([[0], np.cumsum(taken + APART)[:-1]])
        within = np.cumsum(gaps) - np.repeat(np.cumsum(gaps)[begins], lengths)
        submit.append(day * DAY + np.repeat(start, lengths) + within)
        burst.append(bursts + np.repeat(np.arange(count), lengths))
        bursts += count
    return np.concatenate(submit), np.concatenate(burst)


def _cores(same: IntArray, seed: int, model: Trace) -> IntArray:
    rng, jobs = stream(seed, "size"), len(same)
    per_node = model.cores_per_node
    whole = per_node * zipf(rng, jobs, model.cores // per_node, WIDTH)
    part = 2 ** rng.integers(1, int(np.log2(per_node - 1)) + 1, jobs)
    anything = rng.integers(1, model.cores, jobs, endpoint=True)
    edges = list(itertools.accumulate((ONE_CORE, PART_OF_NODE, ANY_CORES)))
    kind = np.searchsorted(edges, rng.random(jobs), side="right")
    return np.choose(kind, [np.ones(jobs, np.int64), part, anything, whole])[same]


def _durations(
    same: IntArray, part: FloatArray, cores: IntArray, load: float, capacity: int, seed: int
) -> tuple[IntArray, IntArray, float]:
    """Return walltimes and run times in minutes whose load is closest to the target, and that load.

    The share of a walltime t is WALLTIME_SHARES · t^tilt: with a larger tilt no walltime becomes shorter.
    """
    chance = stream(seed, "walltime").random(len(same))[same]
    walltimes = np.array(WALLTIMES)

    def durations(tilt: float) -> tuple[IntArray, IntArray, float]:
        weights = np.array(WALLTIME_SHARES) * (walltimes / walltimes[-1]) ** tilt
        edges = np.cumsum(weights) / weights.sum()
        walltime = walltimes[np.minimum(np.searchsorted(edges, chance, side="right"), len(walltimes) - 1)]
        run = np.maximum(np.ceil(part * walltime), 1.0).astype(np.int64)
        return walltime, run, float((run * cores).sum() / capacity)

    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        if durations(middle)[2] < load:
            low = middle
        else:
            high = middle
    return durations(high)
