"""The arrays of a replay: cluster, jobs and limits, the running jobs and the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.versions import release_of
from gridtune.types import AnyArray, FloatArray, IntArray

#: Counters and instants of a replay, seconds.
#:
#: Jobs: `arrived` were submitted, `running` run, `started` counts starts, `requeued` those that had to make
#: room and wait again, `gone` those that will not; `waiting` are the records in the queue.
#: Clocks: `clock` is the present instant, `due` that of the next main pass asked for, `direct` of one after
#: a job was killed, `last_pass` of the last main pass, `next_backfill` of the next backfill pass, `last_tick`
#: of the last decay of usage, `back` when the next requeued job may start, `edge` when the pool was made.
#: Passes: `passes` numbers main and backfill passes, `epoch` also what starts within one, `planned` counts
#: plans; `touched` is 1 if the queue has changed since the last backfill pass. `slots` are the slices of
#: backfill's table, `slots_made` counts them, `crooked` is 1 if they are out of order.
#: Suspension: jobs that are `paused`, `pauses` that are over and not yet taken out, `tests` and `fits` number
#: the tests in which jobs are taken away, and the attempts to place one beside others.
#: Ends: `stuck` is 1 if nothing will ever change, `ended` counts ends, and `circles` the seconds `since` the
#: last one or arrival in which jobs have made room.
#: Searches: `looked` is the place of the step that failed earlier with which the one under way is compared.
#: Heterogeneous jobs: `components` are those that a backfill pass has looked at.
#: Tests: nodes that have room for a job, their processors for it, and the most of one (`room_…`).
STATE = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("arrived", "running", "started", "requeued", "gone", "waiting"),
            *("clock", "due", "direct", "last_pass", "next_backfill", "last_tick", "back", "edge"),
            *("passes", "epoch", "planned", "touched", "slots", "slots_made", "crooked"),
            *("paused", "pauses", "tests", "fits", "stuck", "ended", "circles", "since"),
            *("looked", "components"),
            *("room_nodes", "room_cpus", "room_most"),
        )
    ]
)


@dataclass(frozen=True)
class Phases:
    """Phases of the scheduler's clocks, in seconds; a log does not record them.

    Attributes
    ----------
    full, backfill, timeout, tick
        Of full main passes, backfill passes, looks at time limits, and priorities.
    """

    full: int = 0
    backfill: int = 0
    timeout: int = 0
    tick: int = 0

    @staticmethod
    def draw(cluster: SlurmCluster, stream: np.random.Generator) -> Phases:
        """Draw each phase from its whole period; full passes and looks at limits come from one clock."""
        clocks = cluster.clocks
        full, backfill, tick = (
            int(stream.integers(period))
            for period in (clocks.sched_interval, clocks.bf_interval, cluster.priorities.period)
        )
        return Phases(full, backfill, full % 30, tick)


class NodeColumns(NamedTuple):
    """The cluster's nodes, (n,) each; `leaf` is the number of the leaf switch, -1 without one.

    `near` and `extra` are what it weighs less and more, as the last tests left it; `record` is Slurm's of it.
    """

    cpus: IntArray
    memory: IntArray
    gpus: IntArray
    weight: IntArray
    leaf: IntArray
    near: IntArray
    threads: IntArray
    record: IntArray
    extra: IntArray


class JobColumns(NamedTuple):
    """Requests of jobs, in the order of submission, (jobs,) each, most under the names of `Request`.

    `assoc` is the number of the account's user; `shown` the most processors that it sees on a node; `records`
    says where each job's records begin. `listed` and `barred` say where the bitmaps of the nodes that it must
    and must not have begin in `named`, -1 without one; `covered` is 1 if it needs no others than those.
    `threads` are the most of a core that it uses; `charged` is 1 if it gets memory for whole cores. Until
    `patience` it waits for as few `switches` as it asks for.
    """

    submit: IntArray
    run: IntArray
    nodes: IntArray
    least_nodes: IntArray
    wanted_nodes: IntArray
    most_nodes: IntArray
    tasks: IntArray
    tasks_per_node: IntArray
    cpus_per_task: IntArray
    cpus_per_node: IntArray
    memory: IntArray
    gpus: IntArray
    shown: IntArray
    failed: IntArray
    requeue: IntArray
    user: IntArray
    assoc: IntArray
    begin: IntArray
    records: IntArray
    listed: IntArray
    barred: IntArray
    covered: IntArray
    threads: IntArray
    charged: IntArray
    contiguous: IntArray
    spread: IntArray
    switches: IntArray
    patience: IntArray
    time_min: IntArray
    least_time: IntArray
    deadline: IntArray
    named: AnyArray


class Records(NamedTuple):
    """Jobs in each of their partitions, (records,) each; `fixed` is the part of priority that never changes.

    `kind` is where the bitmaps of its nodes begin in `suits` and `able`: the partition's nodes that have the
    processors, the memory and the features, and those of them that have the GPUs too. `group` is the number
    of the class that preemption knows, -1 without one. `limit` is the time limit by which backfill looks for
    a start, `full` the one asked for.

    `billing` has five numbers a record: what a processor, a MB, a node and a GPU add to the usage of its
    user, and the factor of its QOS.
    `search` is the number of the kind of search for its start, -1 for none: see `Searches`.

    `form` is the number of the form of request, -1 where counting nodes does not do, and `need` are the
    processors that a node must have for it. `steady` is the size that every test gives to the job; `plain` is
    1 where the choice of nodes is by their numbers alone. `smallest` has the processors of the smallest node.
    """

    job: IntArray
    partition: IntArray
    tier: IntArray
    limit: IntArray
    full: IntArray
    per_cpu: IntArray
    whole: IntArray
    fixed: FloatArray
    kind: IntArray
    group: IntArray
    form: IntArray
    need: IntArray
    steady: IntArray
    plain: IntArray
    smallest: IntArray
    billing: FloatArray
    search: IntArray
    suits: AnyArray
    able: AnyArray


class Outages(NamedTuple):
    """Times without some nodes, (outages,) each, and the bitmaps of these nodes, one after the other."""

    start: IntArray
    end: IntArray
    planned: IntArray
    nodes: AnyArray


class LimitColumns(NamedTuple):
    """Limits on each record and what counts towards them: entries, those of a record from `begin` on.

    `of` is the place in `AMOUNTS`, -1 for a licence, `counter` that in `used`. `each` is how many a job takes
    of jobs or licences. Minutes are in seconds. A counter of nodes that several jobs share has a `row` in
    `on`, (rows * n,): how many of them each node has. Others have -1. Where it is `preferred`, such nodes are
    taken first; of those that count all jobs (1, others have 2) the first that is `known`: a job has started
    under it.
    """

    begin: IntArray
    counter: IntArray
    of: IntArray
    most: IntArray
    each: IntArray
    used: IntArray
    row: IntArray
    on: IntArray
    preferred: IntArray
    known: IntArray


class JobArrays(NamedTuple):
    """The array of each job, -1 for none; of each array the most tasks at a time and its place in `used`.

    `rejected` and `planned`, (arrays * partitions,), hold the number of the pass in which a task could not
    start, and how many were planned in one.
    """

    array: IntArray
    most: IntArray
    counter: IntArray
    rejected: IntArray
    planned: IntArray


class Dependencies(NamedTuple):
    """Conditions of jobs on others, each met once the `left` of them have ended as they must.

    Those a job is part of stand in `of` from `begin` on. `unmet` is how many must be met yet, per job.
    """

    begin: IntArray
    of: IntArray
    job: IntArray
    kind: IntArray
    left: IntArray
    unmet: IntArray


class Preempting(NamedTuple):
    """Classes of preemption, and jobs that make room.

    Of each class, (classes,): mode, rank, seconds of grace and safety. `may` is 1 where the first of two
    classes, (classes * classes,), makes jobs of the second go. Of each job, (jobs,): `since` when it made
    others go last, `back` when it may start again, `NEVER` if it waits for none, and `warned`, 1 once
    its grace has begun. `gone`, `order` and `usable` are room for lists of jobs, `chosen` for a bitmap.
    """

    may: IntArray
    mode: IntArray
    rank: IntArray
    grace: IntArray
    exempt: IntArray
    since: IntArray
    back: IntArray
    warned: IntArray
    gone: IntArray
    order: IntArray
    usable: IntArray
    chosen: AnyArray


class Suspending(NamedTuple):
    """Jobs that are suspended, and the processors that each job has, as bits: so many words a node.

    Of each job, (jobs,): `since` when it is suspended, `NEVER` if it is not, for how many `seconds` it was
    before, the last test that took it away (`gone`), the last attempt that did (`left_out`), and whether it
    must stand still (`below`). `over` has suspensions that are over: job, from when and until when of each.

    `part` has the processors of each part of a job, `taken` those chosen for the next one; of each node,
    `whole` are all, `free`, `later` and `beside` those free in the table of this name, `active` those of jobs
    that run, `held` is how many all jobs have in sum, and `sockets` the number of its sockets.
    """

    since: IntArray
    seconds: IntArray
    over: IntArray
    gone: IntArray
    left_out: IntArray
    below: IntArray
    part: AnyArray
    taken: AnyArray
    whole: AnyArray
    free: AnyArray
    later: AnyArray
    beside: AnyArray
    active: AnyArray
    held: IntArray
    sockets: IntArray


class FreeColumns(NamedTuple):
    """Free resources of each node, (n,) each; those of jobs that are suspended are not."""

    cpus: IntArray
    memory: IntArray
    gpus: IntArray


class Scratch(NamedTuple):
    """Room to work in: processors that each node can give, all idle ones, those left during a choice, and it.

    `alone` are those of `room` or, where a choice looks at them, those if no processor were taken.
    `most` are those that a node chosen gives at most: so many were wanted when it was chosen. `charged` are
    the processors that memory is given for.
    """

    room: IntArray
    alone: IntArray
    idle: IntArray
    left: IntArray
    most: IntArray
    chosen: IntArray
    cpus: IntArray
    charged: IntArray
    weight: IntArray
    leaf_nodes: IntArray
    leaf_cpus: IntArray
    leaf_used: IntArray
    first: IntArray
    last: IntArray
    size: IntArray


class RunningJobs(NamedTuple):
    """Jobs that run or ran.

    Of each job, (jobs,): its record, start (`NEVER` before it), limit, the end by it and the real end; where
    its parts of nodes begin in `node`, `cpus` and `memory`, and how many they are.

    `by_limit` and `by_end` have the jobs that run, in the order of either end.
    """

    record: IntArray
    start: IntArray
    limit: IntArray
    limit_end: IntArray
    real_end: IntArray
    begin: IntArray
    parts: IntArray
    node: IntArray
    cpus: IntArray
    memory: IntArray
    by_limit: IntArray
    by_end: IntArray


class TimeSlices(NamedTuple):
    """Backfill's table of time slices: begin, end, number of nodes without a plan, row of their bitmap.

    It is `coming` if the next slice has nodes that it lacks.
    """

    begin: IntArray
    end: IntArray
    size: IntArray
    row: IntArray
    coming: IntArray
    nodes: AnyArray


class Forms(NamedTuple):
    """Lists of nodes for each form of request, (forms * n,), and bitmaps to choose from them.

    `node` are those that have room now, then those that will; `ended` says how many running jobs, in the
    order of their limits, must have ended before; `place` is that of each node in the list. A list has a
    `length`, and was made in an `epoch`: a pass and each start in it begin one. `marks` are the bitmaps of a
    list's first 0, 16, 32... nodes.

    `levels` and `leaves` are bitmaps of the nodes of each weight, the lightest first, and of each leaf
    switch, with words from `leaf_first` to before `leaf_stop`.
    """

    epoch: IntArray
    length: IntArray
    node: IntArray
    ended: IntArray
    place: IntArray
    marks: AnyArray
    levels: AnyArray
    leaves: AnyArray
    leaf_first: IntArray
    leaf_stop: IntArray


class Searches(NamedTuple):
    """Steps at which searches for a start failed in a pass, (kinds * STEPS,): kinds are of a form and number.

    So many have `failed` of each kind, (kinds,), in the pass in which they were `made`. A step tried starts
    from `begin` to before `end`, for a `limit`, in an `epoch`; ends ascend. It failed for want of
    nodes; or because the group of ends goes beyond it, which stays so while three nodes, `seen`, have
    no plan: they are -1 in the first case. `ends` are the places, by limits, of the three jobs on which the
    last group found depends; the last is -1 where more matters.

    `first` and `last` are of each node, (n,): from and until when it is planned in the pass `planned`.
    """

    made: IntArray
    failed: IntArray
    begin: IntArray
    end: IntArray
    limit: IntArray
    epoch: IntArray
    seen: IntArray
    ends: IntArray
    planned: IntArray
    first: IntArray
    last: IntArray


class Plans(NamedTuple):
    """Of each job, (jobs,): the `whole` heterogeneous job that it is a component of, -1 for other jobs.

    Its components are `parts`. In a pass (`made`) each has its `earliest` start, `NEVER` without one, its
    `record`, and the nodes of its last plan (`places`); `seen` are those looked at, in order. Of each such
    job and partition, `latest` is the last start planned there, `-NEVER` without one, and `rank` its place
    among those of other jobs. `used` is the bitmap of nodes on which components have started.
    """

    whole: IntArray
    parts: IntArray
    made: IntArray
    earliest: IntArray
    record: IntArray
    places: AnyArray
    seen: IntArray
    latest: IntArray
    rank: IntArray
    used: AnyArray


class World(NamedTuple):
    """The whole of a replay. `state` is a record of counters, `rules` one of constants; kernels take it bare.

    `partitions` has a bitmap of each one's nodes; `avail`, `usable`, `clear`, `pool` and `completing` are one
    bitmap each, the last two of nodes in service and of those whose job was killed this second; so are `fits`
    and `offered`, room to count in, and `picked`, the nodes chosen. `empty` is
    what is free where nothing runs; `intended` are nodes chosen before.
    `failed` says, in a main pass, which partitions are blocked, and counts plans of each in a backfill pass.
    `sizes` are the processors of each job that its priority counts: asked for, or given by its last test.
    """

    nodes: NodeColumns
    jobs: JobColumns
    records: Records
    partitions: AnyArray
    outages: Outages
    limits: LimitColumns
    arrays: JobArrays
    dependencies: Dependencies
    preemption: Preempting
    suspension: Suspending
    free: FreeColumns
    later: FreeColumns
    beside: FreeColumns
    empty: FreeColumns
    running: RunningJobs
    slots: TimeSlices
    forms: Forms
    searches: Searches
    plans: Plans
    scratch: Scratch
    avail: AnyArray
    usable: AnyArray
    clear: AnyArray
    pool: AnyArray
    completing: AnyArray
    fits: AnyArray
    offered: AnyArray
    picked: AnyArray
    intended: IntArray
    failed: IntArray
    looked: IntArray
    waiting: IntArray
    sizes: IntArray
    eligible: IntArray
    order: IntArray
    priority: IntArray
    usage: FloatArray
    factor: FloatArray
    state: AnyArray
    rules: AnyArray


def rules_of(cluster: SlurmCluster, phases: Phases, counts: Mapping[str, int]) -> AnyArray:
    """Return the constants of a replay as a record; kernels read its fields by name."""
    clocks, priorities, preemption = cluster.clocks, cluster.priorities, cluster.preemption
    whole = {
        **vars(clocks),
        **counts,
        **{
            name: getattr(preemption, name)
            for name in ("youngest_first", "strict_order", "reorder_count", "pause")
        },
        "bf_window": 60 * clocks.bf_window,
        "most_slots": clocks.bf_node_space_size or clocks.bf_max_job_test,
        "backfill": cluster.backfill,
        "multifactor": priorities.multifactor,
        "max_age": priorities.max_age,
        "favor_small": priorities.favor_small,
        "kill_wait": cluster.kill_wait,
        "overtime": cluster.overtime,
        "release": release_of(cluster.version),
        "leaves": len(cluster.leaves),
        "partitions": len(cluster.partitions),
        "outages": len(cluster.outages),
        "cpus": cluster.cpus,
        "zero": cluster.zero,
        "levels": len({node.weight for node in cluster.nodes}),
        "groups": len(preemption.classes),
        "preempting": preemption.preempts,
        "suspending": preemption.suspends,
        "by_partition": preemption.by == "partition",
        "socket_by_socket": cluster.socket_by_socket,
        "least_loaded": cluster.least_loaded,
        "one_task": any(node.one_task for node in cluster.nodes),
        "core_words": (max(node.cpus for node in cluster.nodes) + 63) // 64,
        "full_phase": phases.full,
        "timeout_phase": phases.timeout,
        "scored": False,
    }
    real = {
        **{name: getattr(priorities, name) for name in ("age", "fair_share", "size")},
        "rate": 1 - 0.693 / priorities.half_life if priorities.half_life else 1.0,
    }
    kinds = [*((name, np.int64) for name in whole), *((name, np.float64) for name in real)]
    return np.array((*whole.values(), *real.values()), np.dtype(kinds))
