"""State of the compiled shutdown simulator: many clusters, each a slice of the same few arrays.

The state of a cluster is one row of integers and one row of floats. A batch of clusters is two arrays, so a
kernel takes a dozen arguments instead of a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import kernel, section
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.types import FloatArray, IntArray

__all__ = [
    "FEATURES",
    "MAX_CANDIDATES",
    "TOTALS",
    "Arena",
    "Cluster",
    "Jobs",
    "Model",
    "Settings",
    "Table",
    "Variant",
    "View",
    "build_model",
    "cluster_at",
    "cluster_columns",
    "column_starts",
    "jobs_of",
]

#: Power states of a node, in the order in which an allocation prefers their free cores. A node that is on
#: computes if it has busy cores.
ON, SWITCHING_ON, SLEEPING, SWITCHING_OFF = range(4)
COMPUTING = 4

#: The most jobs that scheduler, policies and observations look at; numbers in an observation.
MAX_CANDIDATES = 10
FEATURES = 8 + 4 * MAX_CANDIDATES

#: An instant that never comes.
NEVER = np.iinfo(np.int64).max

#: Single numbers of a cluster's state: the minute; the day; nodes reserved; the oldest waiting job and its
#: promise; jobs that were submitted, that wait, that hold cores but do not run yet, that run, that are done;
#: free and busy cores; nodes that compute, and nodes that the authors' monitor takes for computing; next
#: completion and next end of a switch; number of candidates; number of jobs just selected; first unused piece
#: of an allocation; last completion (0: none).
(
    NOW,
    DAY,
    RESERVED,
    HEAD,
    PROMISE,
    ARRIVED,
    WAITING,
    READY,
    RUNNING,
    DONE,
    FREE,
    BUSY,
    COMPUTERS,
    BOOKED,
    NEXT_END,
    NEXT_SWITCH,
    CANDIDATES,
    SELECTED,
    UNUSED,
    LAST_END,
    MEMORY,
) = range(21)

#: Sums over a day: node-minutes by state (`ON` here: idle), idle node-minutes as the authors'
#: monitor counts them, core-minutes of computing, nodes switched on and off.
REPORTED_IDLE, CORE_MINUTES, SWITCHED_ON, SWITCHED_OFF, TOTALS = range(5, 10)

#: Integer settings: the cluster's shape and times, flags, and integers in the arena per cluster.
NODES, CORES, ON_MINUTES, OFF_MINUTES, FLAGS, WORDS, SETTINGS = range(7)
#: Flags: penalise every late job of the queue; stop once every job is done; observe the effects of actions;
#: skip minutes without a choice.
EVERY_LATE_JOB, UNTIL_DONE, EFFECTS, DECISIONS = 1, 2, 4, 8

#: Real settings: for each power state of a node that does not compute, its power as a share of the largest
#: wasted power (0 for sleeping); share of its walltime after which a waiting job is late.
TAU, REALS = 4, 5


class Settings(NamedTuple):
    """Settings of all clusters of a batch; `starts` are the offsets of a cluster's columns in its row."""

    whole: IntArray
    real: FloatArray
    starts: IntArray


class Table(NamedTuple):
    """The jobs of all days, day after day; `first[d]` is where day d begins, `minutes[d]` its length.

    `columns` holds six columns of `first[-1]` jobs one after the other: see `Jobs`.
    """

    columns: IntArray
    first: IntArray
    minutes: IntArray


class Jobs(NamedTuple):
    """The jobs of one day in order of submission; times in minutes.

    `run` is the run time if the job is not killed, `rank` its place by requested area (walltime × cores).
    """

    number: int
    submit: IntArray
    run: IntArray
    walltime: IntArray
    cores: IntArray
    rank: IntArray
    user: IntArray


class Cluster(NamedTuple):
    """One cluster: its shape and settings, and bare columns of its state."""

    nodes: int
    cores: int
    on_minutes: int
    off_minutes: int
    flags: int
    share: FloatArray
    memory: IntArray
    totals: IntArray
    #: Nodes in each power state, and those of them all of whose cores are free.
    in_state: IntArray
    vacant: IntArray
    #: By node.
    state: IntArray
    until: IntArray
    free: IntArray
    busy: IntArray
    idle_minutes: IntArray
    switched_on: IntArray
    switched_off: IntArray
    #: Jobs: candidates; those that the last pass selected; waiting jobs by area; jobs that hold cores but do
    #: not run yet; running jobs in order of start, and in order of requested end.
    candidates: IntArray
    selected: IntArray
    queue: IntArray
    ready: IntArray
    running: IntArray
    by_request: IntArray
    #: By job: whether it waits, minute of its start (-1: none), first piece of its allocation.
    waits: IntArray
    start: IntArray
    piece: IntArray
    #: Pieces of allocations: so many cores of a node, and the next piece.
    piece_node: IntArray
    piece_cores: IntArray
    piece_next: IntArray
    #: Scratch: minutes from now, in order, and the cores that become free then.
    release_minutes: IntArray
    release_cores: IntArray
    #: By user: jobs in the system; run time of the job that ended last (-1: none has ended).
    users: IntArray
    last_run: IntArray
    #: Reals: load of each node in the authors' monitor; sum of rewards.
    load: FloatArray
    score: FloatArray


class Arena(NamedTuple):
    """A batch of clusters: `WORDS` integers and `nodes` + 1 reals for each, one cluster after the other."""

    whole: IntArray
    real: FloatArray


def column_starts(nodes: int, cores: int, jobs: int, users: int) -> IntArray:
    """Return where in its row each of a cluster's columns of integers begins, and where the row ends."""
    pieces = nodes * cores
    slots = min(pieces, jobs)
    by_node, lists = [nodes] * 7, [MAX_CANDIDATES, MAX_CANDIDATES, jobs, slots, slots, slots]
    scratch = [slots + MAX_CANDIDATES] * 2
    lengths = [MEMORY, TOTALS, 4, 4, *by_node, *lists, *[jobs] * 3, *[pieces] * 3, *scratch, users, users]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def cluster_columns(arena: Arena, settings: Settings, clusters: int) -> dict[str, npt.NDArray[Any]]:
    """Return views of all clusters' columns by name: shape (clusters, …), the score (clusters,)."""
    whole, real = arena.whole.reshape(clusters, -1), arena.real.reshape(clusters, -1)
    names = Cluster._fields[Cluster._fields.index("memory") :]
    starts = settings.starts.tolist()
    columns = {name: whole[:, start:end] for name, (start, end) in zip(names, pairwise(starts), strict=False)}
    return {**columns, "load": real[:, :-1], "score": real[:, -1]}


@kernel(inline="always")
def _column(settings, arena, base, place):
    start, end = settings.starts[place], settings.starts[place + 1]
    return section(arena.whole, base + start, end - start)


@kernel()
def cluster_at(settings, arena, index):
    """Return the cluster with that index in the batch."""
    whole = settings.whole
    nodes = whole[NODES]
    base, reals = index * whole[WORDS], index * (nodes + 1)
    return Cluster(
        nodes,
        whole[CORES],
        whole[ON_MINUTES],
        whole[OFF_MINUTES],
        whole[FLAGS],
        section(settings.real, 0, REALS),
        _column(settings, arena, base, 0),
        _column(settings, arena, base, 1),
        _column(settings, arena, base, 2),
        _column(settings, arena, base, 3),
        _column(settings, arena, base, 4),
        _column(settings, arena, base, 5),
        _column(settings, arena, base, 6),
        _column(settings, arena, base, 7),
        _column(settings, arena, base, 8),
        _column(settings, arena, base, 9),
        _column(settings, arena, base, 10),
        _column(settings, arena, base, 11),
        _column(settings, arena, base, 12),
        _column(settings, arena, base, 13),
        _column(settings, arena, base, 14),
        _column(settings, arena, base, 15),
        _column(settings, arena, base, 16),
        _column(settings, arena, base, 17),
        _column(settings, arena, base, 18),
        _column(settings, arena, base, 19),
        _column(settings, arena, base, 20),
        _column(settings, arena, base, 21),
        _column(settings, arena, base, 22),
        _column(settings, arena, base, 23),
        _column(settings, arena, base, 24),
        _column(settings, arena, base, 25),
        _column(settings, arena, base, 26),
        section(arena.real, reals, nodes),
        section(arena.real, reals + nodes, 1),
    )


@kernel()
def jobs_of(table, day):
    """Return the jobs of a day."""
    start, total = table.first[day], table.first[-1]
    count = table.first[day + 1] - start
    return Jobs(
        count,
        section(table.columns, start, count),
        section(table.columns, total + start, count),
        section(table.columns, 2 * total + start, count),
        section(table.columns, 3 * total + start, count),
        section(table.columns, 4 * total + start, count),
        section(table.columns, 5 * total + start, count),
    )


#: Late jobs that the reward counts: `paper`, as the authors' code, those that the reservation holds back;
#: `exact`, as their equation 5, all in the queue.
Variant = Literal["paper", "exact"]
#: Observations of an agent: `paper`, the authors' 48 numbers (`observing`); `effects`, the effect of each
#: reservation, and more of the past (`effects`).
View = Literal["paper", "effects"]


@dataclass(frozen=True)
class Model:
    """The arrays for days on a platform."""

    settings: Settings
    table: Table

    def arena(self, clusters: int) -> Arena:
        """Return memory for the state of so many clusters."""
        nodes, words = int(self.settings.whole[0]), int(self.settings.starts[-1])
        return Arena(np.zeros(clusters * words, np.int64), np.zeros(clusters * (nodes + 1), np.float64))


def build_model(
    days: Days,
    platform: Platform,
    tau: float,
    variant: Variant,
    until_done: bool,
    view: View = "paper",
    decisions: bool = False,
) -> Model:
    """Return the arrays; `until_done` ends a day as soon as all its jobs have ended."""
    if not 0 <= tau < np.inf:
        raise SimulationError(f"must be at least 0, but got {tau}", field="tau")
    power = platform.power
    busiest = int(np.diff(days.first).max(initial=0))
    users = int(days.user.max(initial=-1)) + 1
    starts = column_starts(platform.nodes, platform.cores_per_node, busiest, users)
    flags = (EVERY_LATE_JOB if variant == "exact" else 0) | (UNTIL_DONE if until_done else 0)
    if decisions and view != "effects":
        raise SimulationError('decisions need view="effects"', field="decisions")
    flags |= (EFFECTS if view == "effects" else 0) | (DECISIONS if decisions else 0)
    shape = [platform.nodes, platform.cores_per_node, power.switch_on_time, power.switch_off_time]
    real = np.zeros(REALS)
    real[[ON, SWITCHING_ON, SWITCHING_OFF]] = power.idle, power.switching_on, power.switching_off
    real /= power.wasteful_peak
    real[TAU] = tau
    jobs = [days.submit, days.run, days.walltime, days.cores, days.rank, days.user]
    return Model(
        Settings(np.array([*shape, flags, starts[-1]], np.int64), real, starts),
        Table(np.concatenate(jobs).astype(np.int64), days.first, days.minutes),
    )
