"""A log replayed on a cluster that schedules as Slurm does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.rollout import Rollout
from gridtune.batch.simulator.scores import check_scores, naming_jobs
from gridtune.core.usage import paused_seconds
from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.kernel.arrays import Phases
from gridtune.slurm.kernel.clocks import ADVANCE, PRIORITISE, SETTLE, resume, take_turn
from gridtune.slurm.kernel.ordering import DecidedOrder, Ordering, new_ordering, order_for_nodes, sort_now
from gridtune.slurm.kernel.running import NEVER
from gridtune.slurm.kernel.world import new_world
from gridtune.slurm.requests import Request, RequestCheck
from gridtune.slurm.shares import ShareTree
from gridtune.types import FloatArray, IntArray


@dataclass(frozen=True)
class Result:
    """The schedule of the requests, in their order.

    Attributes
    ----------
    start, end
        Seconds; -1 for a job that never starts, since what it waits for fails or a limit holds it. One that
        is cancelled as it could not end by its deadline has that instant for both, and no nodes.
    nodes, cpus
        The numbers of each job's nodes, and its processors on each.
    partition
        The partition that each ran in, "" for one that never starts.
    pauses
        The suspensions, shape (k, 3): the place of the job, from when and until when.
    """

    start: IntArray
    end: IntArray
    nodes: tuple[IntArray, ...]
    cpus: tuple[IntArray, ...]
    partition: tuple[str, ...]
    pauses: IntArray = field(default_factory=lambda: np.empty((0, 3), np.int64))

    @property
    def run_time(self) -> IntArray:
        """Seconds from start to end, without those in which a job was suspended."""
        return np.subtract(self.end, self.start) - paused_seconds(self.pauses, len(self.start))

    def check_all_start(self, requests: Sequence[Request]) -> None:
        """Refuse a schedule in which a job never starts: it has no wait.

        Raises
        ------
        WorkloadError
            Naming the first such job.
        """
        never = np.flatnonzero(self.start < 0)
        if len(never):
            first = requests[never[0]]
            raise WorkloadError(
                f"{len(never)} of {len(requests)} jobs never start; the first is job {first.number} of "
                f"{first.user or 'a user without a name'}",
                hint="a limit of its QOS, account or user keeps it waiting: raise it, or leave such jobs out",
            )


@dataclass(frozen=True)
class ClusterState:
    """The state that a replay begins with.

    Attributes
    ----------
    now
        Seconds. Jobs submitted before that do not run wait from this instant on.
    running
        By the position of a request: its start in seconds, and the numbers of its nodes. It runs in the first
        of its partitions that has all of them.
    usage
        Decayed processor-seconds of each (account, user), the raw usage of `sshare`.
    cpus
        By the position of a request: its processors on each of its nodes, where they are known.
    """

    now: int
    running: Mapping[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    usage: Mapping[tuple[str, str], float] = field(default_factory=dict)
    cpus: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def replay(
    cluster: SlurmCluster,
    requests: Sequence[Request],
    phases: Phases | None = None,
    start: ClusterState | None = None,
    order: str | QueueOrder | Rollout | Callable[..., float] | None = None,
    guard: int | None = None,
    needed: int | None = None,
) -> Result:
    """Replay jobs on a cluster that is empty at first, or in a state.

    Parameters
    ----------
    cluster, requests
        The cluster, and the jobs in any order.
    phases
        Those of the scheduler's clocks.
    start
        Jobs that run at the beginning, and since when.
    order
        The queue order in place of Slurm's priority, if any: see `order_for_nodes`. Tiers of partitions stay
        before it. Scores are computed at each main and each backfill pass.
    guard
        With an order: seconds; jobs that have waited for longer go first, the oldest first.
    needed
        The replay ends once so many of the first requests have started; others may be left without a start.

    Raises
    ------
    WorkloadError
        If the cluster cannot hold a job, or nodes cannot hold all that runs on them.
    PolicyError
        If it is no order for nodes, or does not score a job.
    """
    check = RequestCheck(cluster)
    for request in requests:
        check.check(request)
    rule = None if order is None else order_for_nodes(order)
    return _ClusterReplay(cluster, requests, phases or Phases(), start, rule, guard).run(needed)


def queue_order(
    cluster: SlurmCluster,
    pending: Sequence[Request],
    running: Sequence[tuple[Request, int, tuple[int, ...], tuple[int, ...]]],
    now: int,
    order: str | QueueOrder | Rollout | Callable[..., float],
    guard: int | None = None,
) -> list[int]:
    """Return the places of pending jobs in the order in which a pass of `replay` looks at them now.

    Parameters
    ----------
    cluster, order, guard
        As of `replay`.
    pending, running
        Jobs that wait, whose submission is the instant from which they only wait for their turn; and jobs
        that run, with their start, the numbers of their nodes, and the processors on each. Scores do not look
        at the latter.
    now
        Seconds.

    Raises
    ------
    WorkloadError, PolicyError
        As of `replay`.
    """
    rule, check = order_for_nodes(order), RequestCheck(cluster)
    busy = running if isinstance(rule, Rollout) else ()
    # A run time beyond now is all that a state asks of a running job; it is not looked at.
    requests = [*pending, *(replace(one, run_time=now - start + 1) for one, start, *_ in busy)]
    for request in requests:
        check.check(request)
    if not pending:
        return []
    places = range(len(pending), len(requests))
    state = ClusterState(
        now,
        {place: (start, nodes) for place, (_, start, nodes, _) in zip(places, busy, strict=True)},
        cpus={place: cpus for place, (*_, cpus) in zip(places, busy, strict=True)},
    )
    return _ClusterReplay(cluster, requests, Phases(), state, rule, guard).ordered(len(pending))


def in_threads(drawn: Callable[[int], FloatArray], draws: int) -> FloatArray:
    """Return the arrays of all draws, one below the other; as many run at once as there are cores."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    with ThreadPoolExecutor(max(1, min(cores, draws))) as threads:
        return np.array(list(threads.map(drawn, range(draws))), np.float64)


class _ClusterReplay:
    """A replay under way."""

    def __init__(
        self,
        cluster: SlurmCluster,
        requests: Sequence[Request],
        phases: Phases,
        start: ClusterState | None = None,
        order: QueueOrder | Rollout | None = None,
        guard: int | None = None,
    ) -> None:
        self.cluster, self.requests, self.phases = cluster, requests, phases
        self.order = sorted(range(len(requests)), key=lambda k: requests[k].rank)
        ordered = [requests[k] for k in self.order]
        self.tree = ShareTree(cluster.accounts, [(request.account, request.user) for request in ordered])
        first = ordered[0].submit if ordered else 0
        self.begin = start.now if start is not None else first
        self.world = new_world(cluster, ordered, self.tree, phases, self.begin)
        self.ordering: Ordering | None = None
        self.pauses: list[IntArray] = []
        if order is not None:
            self.world.rules["scored"] = 1
            self.ordering, self.inputs, self.scores = new_ordering(order, guard, ordered, self.world)
        if start is not None:
            self._resume(start)

    def _resume(self, start: ClusterState) -> None:
        """Put what runs on its nodes."""
        world = self.world
        world.state["last_tick"] = start.now
        position_of = {k: position for position, k in enumerate(self.order)}
        names = list(self.cluster.partitions)
        # Without `cpus` a job of one node has all of its processors there, so the others get the rest.
        fewest_first = sorted(start.running.items(), key=lambda item: (len(item[1][1]), item[1]))
        for k, (began, nodes) in fewest_first:
            request, position = self.requests[k], position_of[k]
            records = range(world.jobs.records[position], world.jobs.records[position + 1])
            record = next(
                (
                    record
                    for record in records
                    if set(nodes)
                    <= set(self.cluster.partitions[names[world.records.partition[record]]].nodes)
                ),
                None,
            )
            there = f"job {request.number} runs at {start.now}"
            if not request.submit <= began <= start.now < began + max(1, request.run_time):
                raise WorkloadError(
                    f"{there}, but not by its times: submitted {request.submit}, started {began}, run time "
                    f"{request.run_time} s",
                    hint="submit <= start <= now < start + run time must hold",
                )
            if record is None or not nodes or len(set(nodes)) != len(nodes):
                raise WorkloadError(
                    f"{there} on nodes {', '.join(map(str, nodes)) or '(none)'}, outside its partitions",
                    hint=f"its partitions are {', '.join(request.partitions)}",
                )
            places = np.array(nodes, dtype=np.int64)
            world.scratch.most[places] = start.cpus.get(k, world.nodes.cpus[places])
            if not resume(world, record, np.sort(places), began, start.now):
                raise WorkloadError(
                    f"{there}, but its nodes cannot hold it beside the others",
                    hint="compare processors, memory and GPUs of what runs with slurm.conf",
                )
        number_of = {name: number for number, name in enumerate(self.tree.users)}
        for user, used in start.usage.items():
            if user in number_of:
                world.usage[number_of[user]] = used
        world.factor[:] = self.tree.factors(world.usage, self.cluster.priorities, world.usage)

    def run(self, needed: int | None = None) -> Result:
        """Run until every job has ended, or so many of the first requests have started."""
        world, rules, first = self.world, self.cluster.priorities, self.begin
        # Each call of a kernel looks for its machine code by types; with callbacks that takes milliseconds.
        types = map(take_turn.typeof_pyval, (world, self.ordering, ADVANCE, NEVER))
        self.turn = take_turn.compile(tuple(types))
        wanted = np.flatnonzero(np.array(self.order) < (needed or 0))
        tick = first + (self.phases.tick - first) % rules.period
        while (rules.multifactor or needed is not None) and self._goes_on():
            if needed is not None and (world.running.start[wanted] < NEVER).all():
                return self._result()
            self._advance(tick)
            if rules.multifactor:
                before = world.usage.copy()
                self.turn(world, self.ordering, SETTLE, tick)
                world.factor[:] = self.tree.factors(world.usage, rules, before)
                self.turn(world, self.ordering, PRIORITISE, tick)
            tick += rules.period
        if not world.state["stuck"]:
            self._advance(NEVER)
        self._check_scores()
        return self._result()

    def ordered(self, count: int) -> list[int]:
        """Return the first `count` requests in the order of the queue in which they all wait."""
        assert self.ordering is not None
        world, length = self.world, 0
        for job, k in enumerate(self.order):
            if k < count:
                for record in range(world.jobs.records[job], world.jobs.records[job + 1]):
                    world.order[length], length = record, length + 1
        sort_now(self.ordering, length, self.begin)
        self._check_scores()
        jobs = world.records.job[world.order[:length]].tolist()
        return [self.order[job] for job in dict.fromkeys(jobs)]

    def _check_scores(self) -> None:
        """Raise an error if a score has failed."""
        if self.ordering is not None:
            numbers = np.array([self.requests[k].number for k in self.order])
            looks = self.ordering.ahead is not None
            with naming_jobs(numbers if looks else numbers[self.world.records.job]):
                if isinstance(self.scores, DecidedOrder):
                    self.scores.check()
                else:
                    check_scores(self.scores, self.inputs, "last" if looks else "fail")

    def _advance(self, until: int) -> None:
        """Go on to an instant, and keep the suspensions that are over, for few of which a kernel has room."""
        state, full = self.world.state, True
        while full:
            self.turn(self.world, self.ordering, ADVANCE, until)
            count = int(state["pauses"])
            if count > 0:
                self.pauses.append(self.world.suspension.over[: 3 * count].reshape(-1, 3).copy())
            state["pauses"], full = 0, count > len(self.order)

    def _goes_on(self) -> bool:
        """Tell whether jobs may still start."""
        state = self.world.state
        some = state["arrived"] < len(self.order) or state["waiting"] or state["running"]
        some = some or state["back"] < NEVER
        left = state["started"] - state["requeued"] < len(self.order)
        return bool(some and left and not state["stuck"])

    def _result(self) -> Result:
        running, count = self.world.running, len(self.order)
        start, end = np.empty(count, np.int64), np.empty(count, np.int64)
        nodes: list[IntArray] = [np.empty(0, np.int64)] * count
        cpus, partition, names = [*nodes], [""] * count, list(self.cluster.partitions)
        for position, k in enumerate(self.order):
            if running.start[position] == NEVER:
                start[k], end[k] = -1, -1
                continue
            start[k], end[k] = running.start[position], running.real_end[position]
            parts = slice(running.begin[position], running.begin[position] + running.parts[position])
            nodes[k], cpus[k] = running.node[parts].copy(), running.cpus[parts].copy()
            partition[k] = names[self.world.records.partition[running.record[position]]]
        pauses = np.concatenate([np.empty((0, 3), np.int64), *self.pauses])
        pauses[:, 0] = np.array(self.order, np.int64)[pauses[:, 0]]
        return Result(start, end, tuple(nodes), tuple(cpus), tuple(partition), pauses)
