"""The observation `paper`, compiled: the authors' `FEATURES` numbers.

By index, in the authors' scaling: 0–4 shares of the cores that are idle, switching on, sleeping, switching
off, computing; 5 time of day; 6 queue length; 7 promise to the oldest job; then, for each of the ten
candidates, its cores, walltime, wait as a share of the one after which it is late, and its
user's jobs in the system.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.systems.shutdown.simulator.effects import GLOBALS, LARGEST, PER_ACTION, PER_JOB
from gridtune.systems.shutdown.simulator.state import (
    BUSY,
    CANDIDATES,
    FEATURES,
    MAX_CANDIDATES,
    NOW,
    ON,
    PROMISE,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    TAU,
    WAITING,
)
from gridtune.types import Float32Array

__all__ = ["Scales", "features_of", "observation_bounds", "observe", "scales"]


#: The queue length, minutes and jobs of a user that the authors scale to 1.
LONGEST_QUEUE, LONGEST_MINUTES, MOST_JOBS = 1500, 4400, 50
MINUTES_A_DAY = 1440


class Scales(NamedTuple):
    """Tables of logarithms: by queue length; by promise, at 1 + its minutes; by walltime."""

    queue: Float32Array
    promise: Float32Array
    walltime: Float32Array


def scales(longest: int) -> Scales:
    """Return the tables for walltimes of up to `longest` minutes."""

    def logarithms(limit: int, shift: int, scale: int) -> Float32Array:
        return np.array([math.log(n + shift) / math.log(scale) for n in range(limit + 1)], np.float32)

    return Scales(
        logarithms(LONGEST_QUEUE, 1, 1 + LONGEST_QUEUE),
        logarithms(longest + 1, 1, 2 + LONGEST_MINUTES),
        logarithms(longest, 1, 1 + LONGEST_MINUTES),
    )


def features_of(view: str, nodes: int) -> int:
    """Return the length of an observation of a cluster with that many nodes."""
    if view == "paper":
        return FEATURES
    return GLOBALS + MAX_CANDIDATES * PER_JOB + (nodes + 1) * PER_ACTION


def observation_bounds(longest: int, view: str, nodes: int) -> Float32Array:
    """Return upper bounds of an observation for walltimes up to `longest` minutes; the lower ones are 0."""
    if view == "effects":
        return np.full(features_of(view, nodes), LARGEST, np.float32)
    tables = scales(longest)
    high = np.ones(FEATURES, np.float32)
    high[7] = max(1.0, tables.promise[-1])
    high[9::4] = max(1.0, tables.walltime[-1])
    return high


@kernel()
def observe(cluster, jobs, scale, row):
    """Write the observation of the cluster into `row`: `FEATURES` floats."""
    memory, in_state, cores = cluster.memory, cluster.in_state, cluster.cores
    total = cluster.nodes * cores
    row[0] = (cores * in_state[ON] - memory[BUSY]) / total
    row[1] = cores * in_state[SWITCHING_ON] / total
    row[2] = cores * in_state[SLEEPING] / total
    row[3] = cores * in_state[SWITCHING_OFF] / total
    row[4] = memory[BUSY] / total
    row[5] = memory[NOW] % MINUTES_A_DAY / MINUTES_A_DAY
    row[6] = scale.queue[min(memory[WAITING], LONGEST_QUEUE)]
    row[7] = scale.promise[memory[PROMISE] + 1]
    candidates = memory[CANDIDATES]
    for place in range(candidates):
        job, at = cluster.candidates[place], 8 + 4 * place
        walltime, wait = jobs.walltime[job], memory[NOW] - jobs.submit[job]
        patience = walltime * cluster.share[TAU]
        row[at] = jobs.cores[job] / total
        row[at + 1] = scale.walltime[walltime]
        # A job that may not wait is late from the start.
        row[at + 2] = min(1.0, wait / patience) if patience > 0 else 1.0
        row[at + 3] = min(1.0, cluster.users[jobs.user[job]] / MOST_JOBS)
    for at in range(8 + 4 * candidates, FEATURES):
        row[at] = 0.0
