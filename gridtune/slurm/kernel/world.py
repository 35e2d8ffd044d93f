"""A replay before its first instant: the arrays of a cluster and its jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gridtune.slurm.cluster import MODES, VERSIONS, Node, Partition, SlurmCluster
from gridtune.slurm.kernel.ahead import STRIDE
from gridtune.slurm.kernel.arrays import (
    RULES,
    STATE,
    Arrays,
    Dependencies,
    Forms,
    Free,
    Jobs,
    Limits,
    Nodes,
    Outages,
    Plans,
    Preempting,
    Records,
    Running,
    Scratch,
    Slots,
    Suspending,
    World,
)
from gridtune.slurm.kernel.running import MINUTES, NEVER
from gridtune.slurm.limits import AMOUNTS, limits_on
from gridtune.slurm.requests import DEPENDENCIES, Request, kinds_in
from gridtune.slurm.shares import ShareTree
from gridtune.types import AnyArray, IntArray

__all__ = ["Phases", "new_world"]

#: Nodes in all lists of forms; where there are more forms, those of later jobs have no list.
_MOST_LISTED = 1_000_000


@dataclass(frozen=True)
class Phases:
    """When the scheduler's clocks first strike, in seconds: nothing in a log says it.

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


def _column(values: Iterable[int]) -> IntArray:
    return np.array(list(values), dtype=np.int64)


def _empty(size: int, value: int = 0) -> IntArray:
    return np.full(size, value, dtype=np.int64)


def new_world(
    cluster: SlurmCluster, requests: Sequence[Request], tree: ShareTree, phases: Phases, begin: int
) -> World:
    """Return a replay, from an instant on, of jobs in the order of submission; none has started yet."""
    count, jobs = len(cluster.nodes), len(requests)
    words = (count + 63) // 64
    bits = _Bits(count, words)
    partitions = list(cluster.partitions)
    number_of = {name: number for number, name in enumerate(tree.users)}
    users = {name: number for number, name in enumerate(dict.fromkeys(request.user for request in requests))}
    pairs = [(job, name) for job, request in enumerate(requests) for name in request.partitions]
    leaf = _empty(count, -1)
    for number, members in enumerate(cluster.leaves):
        leaf[list(members)] = number
    records = _records(cluster, requests, pairs, bits, leaf)
    most = [_most_parts(request, count) for request in requests]
    rules = _rules(cluster, phases)
    for name, size in zip(
        ("nodes", "words", "users", "assocs", "jobs"),
        (count, words, len(users), len(tree.users), jobs),
        strict=True,
    ):
        rules[name] = size
    clocks = cluster.clocks

    gpus = _column(sum(node.gpus.values()) for node in cluster.nodes)
    cpus, memory = (
        _column(node.cpus for node in cluster.nodes),
        _column(node.memory for node in cluster.nodes),
    )
    first_record = np.searchsorted(records.job, np.arange(jobs + 1))
    state = np.zeros((), STATE)
    state["due"], state["last_pass"], state["last_tick"], state["clock"] = NEVER, begin - 60, -NEVER, begin
    state["edge"], state["direct"], state["back"] = begin - 1, NEVER, NEVER
    state["next_backfill"] = begin + (phases.backfill - begin) % clocks.bf_interval
    out = {
        node
        for outage in cluster.outages
        if not outage.planned and outage.start <= begin < outage.end
        for node in outage.nodes
    }
    most_slots = int(rules["most_slots"])
    return World(
        Nodes(cpus, memory, gpus, _column(node.weight for node in cluster.nodes), leaf, _empty(count)),
        Jobs(
            _column(request.submit for request in requests),
            _column(max(1, request.run_time) for request in requests),
            _column(request.nodes for request in requests),
            _column(request.least_nodes for request in requests),
            _column(request.most_nodes for request in requests),
            _column(request.tasks for request in requests),
            _column(request.tasks_per_node for request in requests),
            _column(request.cpus_per_task for request in requests),
            _column(request.cpus_per_node for request in requests),
            _column(request.memory for request in requests),
            _column(request.gpus for request in requests),
            _column(request.failed for request in requests),
            _column(cluster.requeue if request.requeue is None else request.requeue for request in requests),
            _column(users[request.user] for request in requests),
            _column(number_of[request.account, request.user] for request in requests),
            first_record.astype(np.int64),
        ),
        records,
        np.array([bits.of(cluster.partitions[name].nodes) for name in partitions], dtype=np.uint64).reshape(
            -1
        ),
        Outages(
            _column(outage.start for outage in cluster.outages),
            _column(outage.end for outage in cluster.outages),
            _column(outage.planned for outage in cluster.outages),
            np.concatenate([bits.of(()), *(bits.of(outage.nodes) for outage in cluster.outages)])[words:],
        ),
        *_limits(cluster, requests),
        _dependencies(requests),
        _preempting(cluster, jobs, words),
        _suspending(cluster, jobs),
        Free(cpus.copy(), memory.copy(), gpus.copy()),
        Free(cpus.copy(), memory.copy(), gpus.copy()),
        Free(cpus, memory, gpus),
        Running(
            _empty(jobs),
            _empty(jobs, NEVER),
            _empty(jobs),
            _empty(jobs),
            np.cumsum([0, *most], dtype=np.int64),
            _empty(jobs),
            *(_empty(sum(most)) for _ in range(3)),
            *(_empty(jobs) for _ in range(2)),
        ),
        Slots(
            _empty(most_slots + 4),
            _empty(most_slots + 4),
            _empty(most_slots + 4),
            np.arange(most_slots + 4),
            np.zeros((most_slots + 4) * words, np.uint64),
        ),
        _forms(cluster, int(records.form.max(initial=-1)) + 1, leaf, bits),
        Plans(_empty(jobs, -1), np.zeros(jobs * words, np.uint64)),
        Scratch(
            *(_empty(count) for _ in range(5)),
            *(_empty(len(cluster.leaves)) for _ in range(3)),
            *(_empty(count) for _ in range(3)),
        ),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        bits.of(set(range(count)) - out),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        _empty(count),
        _empty(len(partitions)),
        _empty(len(users)),
        _empty(jobs),
        _column(request.cpus for request in requests),
        _column(request.submit for request in requests),
        _empty(len(pairs)),
        _empty(len(pairs)),
        np.zeros(len(tree.users)),
        tree.factors(np.zeros(len(tree.users)), cluster.priorities),
        state,
        rules,
    )


def _limits(cluster: SlurmCluster, requests: Sequence[Request]) -> tuple[Limits, Arrays]:
    begin, entries = [0], []
    counters: dict[Hashable, int] = {}
    numbers: dict[int, int] = {}
    most: list[int] = []
    array_counters: list[int] = []
    limits: dict[tuple[str, str, str], list[tuple[Hashable, str, int]]] = {}
    for job, request in enumerate(requests):
        whose = request.qos, request.account, request.user
        if whose not in limits:
            limits[whose] = [*limits_on(cluster.limits, cluster.accounts, *whose)]
        held = limits[whose]
        if request.array_most:
            held = [*held, (("array", request.array), "jobs", request.array_most)]
        for key, of, number in held:
            counter = counters.setdefault((job if key is None else key, of), len(counters))
            place = AMOUNTS.index(of)
            entries.append((counter, place, 60 * number if place >= MINUTES else number))
        begin.append(len(entries))
        if request.array and request.array not in numbers:
            numbers[request.array] = len(numbers)
            most.append(request.array_most)
            array_counters.append(entries[-1][0] if request.array_most else -1)
    counter_, of_, most_ = np.array(entries, np.int64).reshape(-1, 3).T.copy()
    keys = len(numbers) * len(cluster.partitions)
    return Limits(_column(begin), counter_, of_, most_, _empty(len(counters))), Arrays(
        _column(numbers.get(request.array, -1) if request.array else -1 for request in requests),
        _column(most),
        _column(array_counters),
        _empty(keys),
        _empty(keys),
    )


def _dependencies(requests: Sequence[Request]) -> Dependencies:
    """Make conditions of what jobs wait for; a job that is not in the log has ended."""
    members: dict[int, list[int]] = defaultdict(list)
    for job, request in enumerate(requests):
        members[request.array or request.number].append(job)
    conditions: list[tuple[int, int, int]] = []
    of: list[list[int]] = [[] for _ in requests]
    unmet = _empty(len(requests))
    #: By user and name: the jobs that the next singleton waits for.
    before: dict[tuple[str, str], list[int]] = defaultdict(list)
    for job, request in enumerate(requests):
        awaited = [(kind, members[number]) for kind, number in request.after if number in members]
        same = before[request.user, request.name]
        if request.singleton and same:
            awaited.append(("afterany", same.copy()))
        if request.singleton and not request.after_any:
            # Once it has ended, all before it have.
            same.clear()
        same.append(job)
        if request.after_any and len(awaited) < len(request.after) + request.singleton:
            continue
        unmet[job] = min(1, len(awaited)) if request.after_any else len(awaited)
        for kind, parents in awaited:
            for parent in parents:
                of[parent].append(len(conditions))
            conditions.append((job, DEPENDENCIES.index(kind), len(parents)))
    job_, kind_, left = np.array(conditions, np.int64).reshape(-1, 3).T.copy()
    begin = np.cumsum([0, *map(len, of)], dtype=np.int64)
    flat = _column(condition for some in of for condition in some)
    return Dependencies(begin, flat, job_, kind_, left, unmet)


def _preempting(cluster: SlurmCluster, jobs: int, words: int) -> Preempting:
    classes = cluster.preemption.classes
    values = list(classes.values())
    return Preempting(
        _column(other in one.preempts for one in values for other in classes),
        _column(MODES.index(one.mode) for one in values),
        _column(one.rank for one in values),
        _column(one.grace for one in values),
        _column(one.exempt for one in values),
        _empty(jobs, -NEVER),
        _empty(jobs, NEVER),
        _empty(jobs),
        _empty(jobs),
        _empty(jobs),
        _empty(jobs),
        np.zeros(words, np.uint64),
    )


def _suspends(cluster: SlurmCluster) -> bool:
    return any(one.mode == "suspend" for one in cluster.preemption.classes.values())


def _suspending(cluster: SlurmCluster, jobs: int) -> Suspending:
    """Make room for links, fewer for each processor than there are classes, and for suspensions."""
    some = _suspends(cluster)
    links = (_empty(some * cluster.cpus * len(cluster.preemption.classes)) for _ in range(4))
    return Suspending(_empty(jobs, NEVER), _empty(jobs), _empty(some * 3 * 2 * jobs), *links)


class _Bits:
    """Makes bitmaps of numbers of nodes."""

    def __init__(self, count: int, words: int) -> None:
        self.count, self.words = count, words

    def of(self, nodes: Iterable[int]) -> AnyArray:
        inside = np.zeros(64 * self.words, dtype=bool)
        inside[list(nodes)] = True
        return np.packbits(inside, bitorder="little").view(np.uint64)


def _forms(cluster: SlurmCluster, forms: int, leaf: IntArray, bits: _Bits) -> Forms:
    count, words = bits.count, bits.words
    weights = np.array([node.weight for node in cluster.nodes])
    levels = [bits.of(np.flatnonzero(weights == weight).tolist()) for weight in np.unique(weights)]
    members = [np.flatnonzero(leaf == number).tolist() for number in range(len(cluster.leaves))]
    return Forms(
        _empty(forms),
        _empty(forms),
        _empty(forms * count),
        _empty(forms * count),
        np.zeros(forms * (count // STRIDE + 1) * words, np.uint64),
        np.concatenate(levels),
        np.concatenate([bits.of(()), *map(bits.of, members)])[words:],
        _column(min(nodes) // 64 if nodes else 0 for nodes in members),
        _column(max(nodes) // 64 + 1 if nodes else 0 for nodes in members),
    )


class _Counting(NamedTuple):
    """How nodes are counted for a request: the processors that each must have, and two facts.

    `steady` is the size that each test gives to it, -1 if that varies. It is plain if a node with room for
    its part always takes it one node nearer to its end, whatever more that node has: then the choice by
    switches is one of numbers of nodes.
    """

    need: int
    steady: int
    plain: bool


def _counting(request: Request, whole: bool, suiting: Iterable[Node], by_switch: bool) -> _Counting:
    """Say how nodes are counted; `by_switch` is True if all that suit have a switch and none has GPUs."""
    least, one_node = request.least_nodes, request.most_nodes == 1
    even = request.most_nodes == least
    cpus = {node.cpus for node in suiting}
    share = min(cpus, default=0) if whole else request.cpus_per_node
    if request.gpus or (whole and len(cpus) > 1):
        steady = -1
    elif whole or request.tasks_per_node:
        steady = share * least if even else -1
    else:
        steady = request.cpus if request.cpus_per_task == 1 or request.tasks == 1 else -1
    plain = by_switch and steady >= 0 and even and least >= request.nodes and share * least >= request.cpus
    return _Counting(request.cpus if one_node and not whole else share, steady, plain)


def _records(
    cluster: SlurmCluster,
    requests: Sequence[Request],
    pairs: list[tuple[int, str]],
    bits: _Bits,
    leaf: IntArray,
) -> Records:
    kinds: dict[tuple[object, ...], int] = {}
    forms: dict[tuple[object, ...], int] = {}
    counting: dict[tuple[object, ...], _Counting] = {}
    leaves = len(cluster.leaves) > 0
    # Where others must go, or nodes are reserved, counting does not do.
    most_forms = _MOST_LISTED // bits.count
    if any(outage.planned for outage in cluster.outages) or _preempts(cluster):
        most_forms = 0
    suits, able = [bits.of(())], [bits.of(())]
    columns: list[tuple[int, ...]] = []
    fixed = np.zeros(len(pairs))
    numbers = {name: number for number, name in enumerate(cluster.partitions)}
    groups = {name: number for number, name in enumerate(cluster.preemption.classes)}
    nodes = {name: kinds_in(cluster, partition) for name, partition in cluster.partitions.items()}
    most_factor = max((partition.factor for partition in cluster.partitions.values()), default=0) or 1
    best_qos = max((qos.priority for qos in cluster.qos.values()), default=0) or 1
    for k, (job, name) in enumerate(pairs):
        request, partition = requests[job], cluster.partitions[name]
        key = (name, *request.shape)
        per_cpu = 0 if request.memory else partition.memory_per_cpu
        whole = int(request.is_whole_in(partition))
        if key not in kinds:
            kinds[key] = len(suits) * bits.words
            suiting = [kind for kind in nodes[name] if request.suits(kind[0], partition)]
            suits.append(bits.of(n for _, numbers in suiting for n in numbers))
            able.append(bits.of(n for node, numbers in suiting if request.has_gpus(node) for n in numbers))
        row = (job, numbers[name], partition.tier, request.limit_in(partition), per_cpu, whole, kinds[key])
        asked = (
            request.tasks,
            request.tasks_per_node,
            request.cpus_per_task,
            request.nodes,
            request.most_nodes,
        )
        if (kinds[key], whole, *asked) not in counting:
            suiting = [kind for kind in nodes[name] if request.suits(kind[0], partition)]
            by_switch = leaves and all(not node.gpus and (leaf[some] >= 0).all() for node, some in suiting)
            counting[kinds[key], whole, *asked] = _counting(
                request, bool(whole), (node for node, _ in suiting), by_switch
            )
        counted = counting[kinds[key], whole, *asked]
        form = -1
        if counted.steady >= 0:
            form = forms.setdefault((kinds[key], per_cpu, whole, counted.need), len(forms))
        group = groups.get(cluster.preemption.class_of(request.qos, name), -1)
        columns.append((*row, group, form if form < most_forms else -1, *counted))
        fixed[k] = _fixed_priority(cluster, request, partition, most_factor, best_qos)
    first, last = np.split(np.array(columns, np.int64).reshape(-1, 12).T.copy(), [6])
    return Records._make([*first, fixed, *last, np.concatenate(suits), np.concatenate(able)])


def _preempts(cluster: SlurmCluster) -> bool:
    return any(one.preempts for one in cluster.preemption.classes.values())


def _fixed_priority(
    cluster: SlurmCluster, request: Request, partition: Partition, most_factor: int, best_qos: int
) -> float:
    """Return the parts of a priority that never change: partition, QOS, TRES, nice."""
    rules = cluster.priorities
    if not rules.multifactor:
        return 0.0
    qos = cluster.qos[request.qos].priority if request.qos in cluster.qos else 0
    amounts = {
        "cpu": request.cpus,
        "mem": request.memory * request.least_nodes or request.cpus * partition.memory_per_cpu,
        "node": request.least_nodes,
        "gres/gpu": request.gpus * request.least_nodes,
    }
    return (
        rules.partition * partition.factor / most_factor
        + rules.qos * qos / best_qos
        + sum(weight * amounts[name] for name, weight in rules.tres.items())
        - request.nice
    )


def _most_parts(request: Request, nodes: int) -> int:
    """Return on how many nodes a job can be at most."""
    tasks = request.least_nodes if request.tasks_per_node else max(request.tasks, request.least_nodes)
    return min(nodes, request.most_nodes or tasks)


def _rules(cluster: SlurmCluster, phases: Phases) -> AnyArray:
    rules = np.zeros((), RULES)
    clocks, priorities = cluster.clocks, cluster.priorities
    values = {
        **{name: value for name, value in vars(clocks).items() if name in (RULES.names or ())},
        "bf_window": 60 * clocks.bf_window,
        "most_slots": clocks.bf_node_space_size or clocks.bf_max_job_test,
        "backfill": cluster.backfill,
        "multifactor": priorities.multifactor,
        "max_age": priorities.max_age,
        "kill_wait": cluster.kill_wait,
        "overtime": cluster.overtime,
        "later_rules": cluster.version != VERSIONS[0],
        "leaves": len(cluster.leaves),
        "partitions": len(cluster.partitions),
        "full_phase": phases.full,
        "timeout_phase": phases.timeout,
        "age": priorities.age,
        "fair_share": priorities.fair_share,
        "size": priorities.size,
        "favor_small": priorities.favor_small,
        "cpus": cluster.cpus,
        "outages": len(cluster.outages),
        "groups": len(cluster.preemption.classes),
        "preempting": _preempts(cluster),
        "suspending": _suspends(cluster),
        "levels": len({node.weight for node in cluster.nodes}),
        **{
            name: getattr(cluster.preemption, name)
            for name in ("youngest_first", "strict_order", "reorder_count", "pause")
        },
        "rate": 1 - 0.693 / priorities.half_life if priorities.half_life else 1.0,
    }
    for name, value in values.items():
        rules[name] = value
    return rules
