"""State of the compiled shutdown simulator: many clusters, each a slice of the same few arrays.

Single numbers of a cluster are fields of a record, as `cluster.state.now`; its columns stand one after the
other in one row of memory. So a copy of a row and of its records is a copy of the cluster, and a kernel takes
a dozen arguments instead of a hundred.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from gridtune.core.compiled import columns_at, handles_within, kernel, section
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.types import FloatArray, IntArray

Records = np.ndarray[Any, np.dtype[np.void]]
#: Late jobs that the reward counts: `paper`, as the authors' code, those that the reservation holds back;
#: `exact`, as their equation 5, all in the queue.
Variant = Literal["paper", "exact"]

#: Power states of a node, in the order in which an allocation prefers their free cores. A node that is on
#: computes if it has busy cores.
ON, SWITCHING_ON, SLEEPING, SWITCHING_OFF = range(4)
COMPUTING = 4

#: The most jobs that scheduler, policies and observations look at; numbers in an observation.
MAX_CANDIDATES = 10
FEATURES = 8 + 4 * MAX_CANDIDATES

#: An instant that never comes.
NEVER = np.iinfo(np.int64).max


def _fields(kind: type, *names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names]


#: Settings of all clusters of a batch: their shape and times in minutes; `words`, the integers of a
#: cluster's row; `tau`, the share of its walltime after which a waiting job is late; `share`, for each power
#: state of a node that does not compute, its power as a share of the largest wasted power (0 for sleeping);
#: whether every late job of the queue is penalised, and whether a day ends once every job is done.
SETTINGS = np.dtype(
    [
        *_fields(np.int64, "nodes", "cores", "on_minutes", "off_minutes", "words"),
        *_fields(np.float64, "tau"),
        ("share", np.float64, (4,)),
        *_fields(np.bool_, "every_late_job", "until_done"),
    ],
    align=True,
)
#: Single numbers of a cluster's state: the minute; the day; nodes reserved; the oldest waiting job (`head`)
#: and its promise; jobs that were submitted, that wait, that hold cores but do not run yet (`ready`), that
#: run, that are done; free and busy cores; nodes that compute, and nodes that the authors' monitor takes for
#: computing (`booked`); next completion and next end of a switch; number of candidates, and of jobs just
#: selected; first unused piece of an allocation; sum of rewards.
STATE = np.dtype(
    [
        *_fields(np.int64, "now", "day", "reserved", "head", "promise", "arrived", "waiting", "ready"),
        *_fields(np.int64, "running", "done", "free", "busy", "computing", "booked", "next_end"),
        *_fields(np.int64, "next_switch", "candidates", "selected", "unused"),
        *_fields(np.float64, "score"),
    ]
)
#: Sums over a day: node-minutes idle, switching on, sleeping, switching off and computing; idle ones as the
#: authors' monitor counts them; core-minutes of computing; nodes switched on and off.
TOTALS = np.dtype(
    [
        *_fields(np.int64, "idle", "switching_on", "sleeping", "switching_off", "computing"),
        *_fields(np.int64, "reported_idle", "core_minutes", "switched_on", "switched_off"),
    ]
)


class Model(NamedTuple):
    """Days on a platform, in the arrays that the kernels take.

    Attributes
    ----------
    settings
        Shape (1,), `SETTINGS`.
    starts
        Offsets of a cluster's columns of integers in its row.
    columns
        Shape (6n,), int64: the columns of `DayJobs` of the n jobs of all days, one after the other.
    first
        Shape (days + 1,), int64: where each day's jobs begin.
    minutes
        Shape (days,), int64: length of each day.
    """

    settings: Records
    starts: IntArray
    columns: IntArray
    first: IntArray
    minutes: IntArray

    def new_arena(self, clusters: int) -> Arena:
        """Return memory for the state of so many clusters."""
        words = np.zeros((clusters, int(self.starts[-1])), np.int64)
        handles = handles_within(words, np.diff(self.starts)).ravel()
        return Arena(np.zeros(clusters, STATE), np.zeros(clusters, TOTALS), words.ravel(), handles)


class DayJobs(NamedTuple):
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


class _Cluster(NamedTuple):
    """One cluster: its shape, records of its settings and single numbers, and bare columns of its state."""

    nodes: int
    cores: int
    settings: Any
    state: Any
    totals: Any
    #: Nodes in each power state, and those of them all of whose cores are free.
    in_state: IntArray
    vacant: IntArray
    #: By node; `load` is that in the authors' monitor.
    load: FloatArray
    power: IntArray
    until: IntArray
    free: IntArray
    busy: IntArray
    idle_minutes: IntArray
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


#: The number of a cluster's columns.
_WIDTH = len(_Cluster._fields) - _Cluster._fields.index("in_state")


class Arena(NamedTuple):
    """Memory of a batch of clusters: for each its records, a row of words, and the handles of its columns."""

    states: Records
    totals: Records
    words: IntArray
    handles: IntArray


def build_model(
    days: Days,
    platform: Platform,
    tau: float = 0.5,
    variant: Variant = "paper",
    until_done: bool = False,
) -> Model:
    """Return the arrays of days on a platform.

    Parameters
    ----------
    days, platform
        The days, and the cluster.
    tau
        Share of its walltime that a job may wait before the reward counts it as late.
    variant
        `paper` or `exact`, see `Variant`.
    until_done
        End a day as soon as all its jobs have ended.
    """
    if not 0 <= tau < np.inf:
        raise SimulationError(f"must be at least 0, but got {tau}", field="tau")
    power, nodes, pieces = platform.power, platform.nodes, platform.cores
    longest = int(np.diff(days.first).max(initial=0))
    users = int(days.user.max(initial=-1)) + 1
    slots = min(pieces, longest)
    lists = [MAX_CANDIDATES, MAX_CANDIDATES, longest, slots, slots, slots]
    scratch = [slots + MAX_CANDIDATES] * 2
    lengths = [4, 4, *[nodes] * 6, *lists, *[longest] * 3, *[pieces] * 3, *scratch, users, users]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    shape = (nodes, platform.cores_per_node, power.switch_on_time, power.switch_off_time, starts[-1])
    share = np.array([power.idle, power.switching_on, 0.0, power.switching_off]) / power.wasteful_peak
    flags = (variant == "exact", until_done)
    jobs = [days.submit, days.run, days.walltime, days.cores, days.rank, days.user]
    return Model(
        np.array([(*shape, tau, share, *flags)], SETTINGS),
        starts,
        np.concatenate(jobs).astype(np.int64),
        days.first,
        days.minutes,
    )


@kernel(inline="always")
def cluster_at(model, arena, index):
    """Return the cluster with that index in the batch; inlined, for a function returns copies of records."""
    settings, state, totals = model.settings[0], arena.states[index], arena.totals[index]
    values = (settings.nodes, settings.cores, settings, state, totals)
    return columns_at(_Cluster, values, arena.handles, index * _WIDTH)


@kernel()
def jobs_of(model, day):
    """Return the jobs of a day."""
    start, total = model.first[day], model.first[-1]
    count = model.first[day + 1] - start
    return DayJobs(
        count,
        section(model.columns, start, count),
        section(model.columns, total + start, count),
        section(model.columns, 2 * total + start, count),
        section(model.columns, 3 * total + start, count),
        section(model.columns, 4 * total + start, count),
        section(model.columns, 5 * total + start, count),
    )
