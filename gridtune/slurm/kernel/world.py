"""A replay before its first instant: the arrays of a cluster and its jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from gridtune.slurm.cluster import MODES, Node, Partition, SlurmCluster
from gridtune.slurm.kernel.ahead import STEPS, STRIDE, WITNESSES
from gridtune.slurm.kernel.arrays import (
    STATE,
    Dependencies,
    Forms,
    FreeColumns,
    JobArrays,
    JobColumns,
    LimitColumns,
    NodeColumns,
    Outages,
    Phases,
    Plans,
    Preempting,
    Records,
    RunningJobs,
    Scratch,
    Searches,
    Suspending,
    TimeSlices,
    World,
    rules_of,
)
from gridtune.slurm.kernel.running import MINUTES, NEVER, NODES
from gridtune.slurm.limits import AMOUNTS, limits_on
from gridtune.slurm.requests import DEPENDENCIES, Request, kinds_in
from gridtune.slurm.shares import ShareTree
from gridtune.slurm.versions import COUNTED_TASKS, FRESH_WEIGHTS, SHOWN_CPUS, TASKS_PER_NODE, release_of
from gridtune.types import AnyArray, IntArray

_Table = TypeVar("_Table", bound=NamedTuple)
#: Nodes in all lists of forms; where there are more forms, those of later jobs have no list.
_MOST_LISTED = 1_000_000
#: Kinds of searches that are kept.
_MOST_SEARCHES = 4096
#: MB of a node whose memory jobs need not share; all of a cluster's fit 64 bits.
_NEVER_FULL = 1 << 40


#: Columns of jobs that are attributes of requests, and of their cases.
_REQUESTED = ("submit", "begin", "failed")
_OF_CASES = (
    *("least_nodes", "wanted_nodes", "most_nodes", "tasks", "tasks_per_node", "cpus_per_task"),
    *("cpus_per_node", "memory", "gpus", "contiguous", "spread", "switches", "time_min", "least_time"),
)


def _column(values: Iterable[int]) -> IntArray:
    return np.array(list(values), dtype=np.int64)


def _full(size: int, value: int = 0) -> IntArray:
    return np.full(size, value, dtype=np.int64)


def _table(kind: Callable[..., _Table], size: int, **columns: AnyArray) -> _Table:
    """Return a table: the columns given, by name, and zeros in its others."""
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return kind(**{name: columns[name] if name in columns else _full(size) for name in names})


def new_world(
    cluster: SlurmCluster, requests: Sequence[Request], tree: ShareTree, phases: Phases, begin: int
) -> World:
    """Return a replay, from an instant on, of jobs in the order of submission; none has started yet."""
    count, jobs = len(cluster.nodes), len(requests)
    bits = _Bits(count)
    number_of = {name: number for number, name in enumerate(tree.users)}
    users = {name: number for number, name in enumerate(dict.fromkeys(request.user for request in requests))}
    numbers: dict[object, int] = {}
    case_of = _column(numbers.setdefault(request.case, len(numbers)) for request in requests)
    cases = [requests[first] for first in np.unique(case_of, return_index=True)[1]]

    def each(values: Iterable[int]) -> IntArray:
        """Return a column of jobs by the values of their cases."""
        return _column(values)[case_of]

    admitted = [
        [name for name in one.partitions if one.may_run_in(cluster.partitions[name])] for one in cases
    ]
    pairs = [(job, name) for job, case in enumerate(case_of.tolist()) for name in admitted[case]]
    leaf = _full(count, -1)
    for number, members in enumerate(cluster.leaves):
        leaf[list(members)] = number
    records = _records(cluster, cases, case_of, pairs, bits, leaf)
    release = release_of(cluster.version)
    most = each(one.most_parts(count, release) for one in cases)
    sizes = {
        "nodes": count,
        "words": bits.words,
        "users": len(users),
        "assocs": len(tree.users),
        "jobs": jobs,
        "heterogeneous": len({request.component_of for request in requests} - {0}),
    }
    rules = rules_of(cluster, phases, sizes)
    of_node = {
        "cpus": _column(node.cpus for node in cluster.nodes),
        "memory": _column(node.memory if cluster.memory_counts else _NEVER_FULL for node in cluster.nodes),
        "gpus": _column(sum(node.gpus.values()) for node in cluster.nodes),
    }
    of_job = {name: _column(getattr(one, name) for one in requests) for name in _REQUESTED}
    of_job |= {name: each(getattr(one, name) for one in cases) for name in _OF_CASES}
    if not cluster.memory_counts:
        of_job["memory"] = np.maximum(of_job["memory"], 0)
    limits, arrays = _limits(cluster, requests, pairs)
    out = {
        node
        for outage in cluster.outages
        if not outage.planned and outage.start <= begin < outage.end
        for node in outage.nodes
    }
    room = int(rules["most_slots"]) + 4
    alone = any(node.one_task for node in cluster.nodes)
    bitmaps = ("avail", "usable", "clear", "completing", "fits", "offered", "picked")
    return World(
        nodes=_table(
            NodeColumns,
            count,
            **of_node,
            **{
                name: _column(getattr(node, name) for node in cluster.nodes)
                for name in ("weight", "threads", "record")
            },
            leaf=leaf,
        ),
        jobs=JobColumns(
            **of_job,
            nodes=each(one.asked_nodes(release) for one in cases),
            covered=each(0 < len(one.node_list) >= one.asked_nodes(release) for one in cases),
            # Later releases show a job the processors of its tasks alone, if it asks for no GPUs.
            shown=each(
                one.cpus_per_node if release >= SHOWN_CPUS and one.tasks_per_node and not one.gpus else NEVER
                for one in cases
            ),
            run=_column(max(1, request.run_time) for request in requests),
            requeue=_column(
                cluster.requeue if request.requeue is None else request.requeue for request in requests
            ),
            user=_column(users[request.user] for request in requests),
            assoc=_column(number_of[request.account, request.user] for request in requests),
            **_named_nodes(cluster, requests, bits),
            threads=each(min(one.threads or NEVER, one.cpus_per_task if alone else NEVER) for one in cases),
            charged=each(one.threads == 0 for one in cases),
            patience=of_job["submit"]
            + each(min(one.switch_wait, cluster.clocks.max_switch_wait) for one in cases),
            deadline=each(one.deadline or NEVER for one in cases),
            records=np.searchsorted(records.job, np.arange(jobs + 1)).astype(np.int64),
        ),
        records=records,
        partitions=bits.rows(partition.nodes for partition in cluster.partitions.values()),
        outages=Outages(
            start=_column(outage.start for outage in cluster.outages),
            end=_column(outage.end for outage in cluster.outages),
            planned=_column(outage.planned for outage in cluster.outages),
            nodes=bits.rows(outage.nodes for outage in cluster.outages),
        ),
        limits=limits,
        arrays=arrays,
        dependencies=_dependencies(requests),
        preemption=_preempting(cluster, jobs, bits),
        suspension=_suspending(cluster, jobs, int(most.sum())),
        free=FreeColumns(**{name: column.copy() for name, column in of_node.items()}),
        later=FreeColumns(**{name: column.copy() for name, column in of_node.items()}),
        beside=FreeColumns(**{name: column.copy() for name, column in of_node.items()}),
        empty=FreeColumns(**of_node),
        running=_table(
            RunningJobs,
            jobs,
            start=_full(jobs, NEVER),
            begin=np.cumsum([0, *most], dtype=np.int64),
            **{name: _full(int(most.sum())) for name in ("node", "cpus", "memory")},
        ),
        slots=_table(TimeSlices, room, row=np.arange(room), nodes=bits.empty(room)),
        forms=_forms(cluster, int(records.form.max(initial=-1)) + 1, leaf, bits),
        searches=_searches(int(records.search.max(initial=-1)) + 1, count),
        plans=_plans(cluster, requests, bits),
        scratch=_table(
            Scratch,
            count,
            **{name: _full(len(cluster.leaves)) for name in ("leaf_nodes", "leaf_cpus", "leaf_used")},
        ),
        **{name: bits.empty(1) for name in bitmaps},
        pool=bits.of(set(range(count)) - out),
        intended=_full(count),
        failed=_full(len(cluster.partitions)),
        looked=_full(len(users)),
        waiting=_full(jobs),
        sizes=each(one.cpus for one in cases),
        eligible=of_job["submit"].copy(),
        order=_full(len(pairs)),
        priority=_full(len(pairs)),
        usage=np.zeros(len(tree.users)),
        factor=tree.factors(nothing := np.zeros(len(tree.users)), cluster.priorities, nothing),
        state=_state(cluster, phases, begin),
        rules=rules,
    )


def _plans(cluster: SlurmCluster, requests: Sequence[Request], bits: _Bits) -> Plans:
    parts = Counter(request.component_of for request in requests if request.component_of)
    numbers = {number: place for place, number in enumerate(parts)}
    return _table(
        Plans,
        len(requests),
        whole=_column(numbers.get(request.component_of, -1) for request in requests),
        parts=_column(parts.values()),
        places=bits.empty(len(requests) if parts else 0),
        latest=_full(len(parts) * len(cluster.partitions)),
        rank=_full(len(parts) * len(cluster.partitions)),
        used=bits.empty(1),
    )


def _named_nodes(cluster: SlurmCluster, requests: Sequence[Request], bits: _Bits) -> dict[str, AnyArray]:
    """Return the columns of the nodes that jobs must and must not have."""
    number_of = {node.name: number for number, node in enumerate(cluster.nodes)}
    places: dict[tuple[str, ...], int] = {(): -1}
    for request in requests:
        for names in (request.node_list, request.exclude):
            places.setdefault(names, (len(places) - 1) * bits.words)
    lists = [{number_of[name] for name in names if name in number_of} for names in places if names]
    return {
        "listed": _column(places[request.node_list] for request in requests),
        "barred": _column(places[request.exclude] for request in requests),
        "named": bits.rows(lists),
    }


def _state(cluster: SlurmCluster, phases: Phases, begin: int) -> AnyArray:
    state = np.zeros((), STATE)
    for name in ("due", "direct", "back"):
        state[name] = NEVER
    state["clock"], state["edge"] = begin, begin - 1
    state["last_pass"], state["last_tick"] = begin - 60, -NEVER
    state["next_backfill"] = begin + (phases.backfill - begin) % cluster.clocks.bf_interval
    return state


def _limits(
    cluster: SlurmCluster, requests: Sequence[Request], pairs: Sequence[tuple[int, str]]
) -> tuple[LimitColumns, JobArrays]:
    begin, entries = [0], []
    counters: dict[tuple[Hashable, str], int] = {}
    limits: dict[tuple[Hashable, ...], list[tuple[Hashable, str, int]]] = {}
    for job, partition in pairs:
        request = requests[job]
        qos = cluster.limiting_qos(request.qos, partition)
        whose = qos, request.account, request.user
        if whose not in limits:
            limits[whose] = [*limits_on(cluster.limits, cluster.accounts, *whose)]
        held = limits[whose]
        if request.array_most:
            held = [*held, (("array", request.array), "jobs", request.array_most)]
        preferring: set[str] = set()
        for key, of, number in held:
            counter = counters.setdefault((job if key is None else key, of), len(counters))
            place, preferred = AMOUNTS.index(of), 0
            if place == NODES and isinstance(key, tuple):
                each = key[0].each
                preferred = 0 if each in preferring else 1 + (each != "")
                preferring |= {each} - {""}
            entries.append((counter, place, 60 * number if place >= MINUTES else number, 1, preferred))
        for name, number in request.licence_counts.items():
            counter = counters.setdefault((("licence", name), ""), len(counters))
            entries.append((counter, -1, cluster.licences.get(name, 0), number, 0))
        begin.append(len(entries))
    arrays = {request.array: request.array_most for request in requests if request.array}
    numbers = {array: number for number, array in enumerate(arrays)}
    names = ("counter", "of", "most", "each", "preferred")
    columns = dict(zip(names, _columns(entries, 5), strict=True))
    shared = np.array([of == AMOUNTS[NODES] and not isinstance(key, int) for key, of in counters], np.bool_)
    table = LimitColumns(
        begin=_column(begin),
        used=_full(len(counters)),
        row=np.where(shared, np.cumsum(shared) - 1, -1),
        on=_full(int(shared.sum()) * len(cluster.nodes)),
        known=_full(len(counters)),
        **columns,
    )
    return table, _table(
        JobArrays,
        len(numbers) * len(cluster.partitions),
        array=_column(numbers.get(request.array, -1) if request.array else -1 for request in requests),
        most=_column(arrays.values()),
        counter=_column(counters.get((("array", array), "jobs"), -1) for array in arrays),
    )


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> AnyArray:
    """Return the columns of rows, contiguous each."""
    return np.array(rows, np.int64).reshape(-1, width).T.copy()


def _dependencies(requests: Sequence[Request]) -> Dependencies:
    """Make conditions of what jobs wait for; a job that is not in the log has ended."""
    members: dict[int, list[int]] = defaultdict(list)
    awaiting = requests if any(request.after or request.singleton for request in requests) else ()
    for job, request in enumerate(awaiting):
        members[request.array or request.number].append(job)
    conditions: list[tuple[int, int, int]] = []
    of: list[list[int]] = [[] for _ in requests]
    unmet = _full(len(requests))
    #: By user and name: the jobs that the next singleton waits for.
    before: dict[tuple[str, str], list[int]] = defaultdict(list)
    for job, request in enumerate(awaiting):
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
    return Dependencies(
        begin=np.cumsum([0, *map(len, of)], dtype=np.int64),
        of=_column(condition for some in of for condition in some),
        unmet=unmet,
        **dict(zip(("job", "kind", "left"), _columns(conditions, 3), strict=True)),
    )


def _preempting(cluster: SlurmCluster, jobs: int, bits: _Bits) -> Preempting:
    classes = cluster.preemption.classes
    values = list(classes.values())
    return _table(
        Preempting,
        jobs,
        may=_column(other in one.preempts for one in values for other in classes),
        mode=_column(MODES.index(one.mode) for one in values),
        **{name: _column(getattr(one, name) for one in values) for name in ("rank", "grace", "exempt")},
        since=_full(jobs, -NEVER),
        back=_full(jobs, NEVER),
        chosen=bits.empty(1),
    )


def _suspending(cluster: SlurmCluster, jobs: int, parts: int) -> Suspending:
    some, cores = cluster.preemption.suspends, _Bits(max(node.cpus for node in cluster.nodes))
    whole = [cores.of(range(node.cpus)) for node in cluster.nodes if some]
    maps = {
        name: np.concatenate([cores.empty(0), *whole])
        for name in ("whole", "free", "later", "beside", "active")
    }
    return _table(
        Suspending,
        jobs,
        since=_full(jobs, NEVER),
        over=_full(some * 3 * 2 * jobs),
        part=cores.empty(some * parts),
        taken=cores.empty(some * len(cluster.nodes)),
        held=_full(len(cluster.nodes)),
        sockets=_column(node.sockets for node in cluster.nodes),
        **maps,
    )


class _Bits:
    """Makes bitmaps of numbers of nodes."""

    def __init__(self, count: int) -> None:
        self.count, self.words = count, (count + 63) // 64

    def of(self, nodes: Iterable[int]) -> AnyArray:
        inside = np.zeros(64 * self.words, dtype=bool)
        inside[list(nodes)] = True
        return np.packbits(inside, bitorder="little").view(np.uint64)

    def empty(self, rows: int) -> AnyArray:
        return np.zeros(rows * self.words, np.uint64)

    def rows(self, some: Iterable[Iterable[int]]) -> AnyArray:
        """Return bitmaps one after the other."""
        return np.concatenate([self.empty(0), *map(self.of, some)])


def _forms(cluster: SlurmCluster, forms: int, leaf: IntArray, bits: _Bits) -> Forms:
    weights = np.array([node.weight for node in cluster.nodes])
    members = [np.flatnonzero(leaf == number).tolist() for number in range(len(cluster.leaves))]
    return _table(
        Forms,
        forms,
        **{name: _full(forms * bits.count) for name in ("node", "ended", "place")},
        marks=bits.empty(forms * (bits.count // STRIDE + 1)),
        levels=bits.rows(np.flatnonzero(weights == weight).tolist() for weight in np.unique(weights)),
        leaves=bits.rows(members),
        leaf_first=_column(min(nodes) // 64 if nodes else 0 for nodes in members),
        leaf_stop=_column(max(nodes) // 64 + 1 if nodes else 0 for nodes in members),
    )


def _searches(kinds: int, nodes: int) -> Searches:
    return _table(
        Searches,
        kinds,
        **{name: _full(kinds * STEPS) for name in ("begin", "end", "limit", "epoch")},
        seen=_full(kinds * STEPS * WITNESSES),
        ends=_full(WITNESSES),
        **{name: _full(nodes) for name in ("planned", "first", "last")},
    )


class _Counting(NamedTuple):
    """Rules to count nodes for a request: the processors that each must have, and three facts.

    `steady` is the size that each test gives to it, -1 if that varies. It is plain if a node with room for
    its part always takes it one node nearer to its end, whatever more that node has: then the choice by
    switches is one of numbers of nodes. `smallest` has the processors of the smallest node that suits.
    """

    need: int
    steady: int
    plain: bool
    smallest: int


def _counting(
    request: Request, whole: bool, suiting: Iterable[Node], by_switch: bool, release: int
) -> _Counting:
    """Return the rules; `by_switch` is True if all nodes that suit have a switch and none has GPUs."""
    least, one_node = request.least_nodes, request.most_nodes == 1
    even = request.most_nodes == least
    nodes = list(suiting)
    cpus, threads = {node.cpus for node in nodes}, {node.threads for node in nodes}
    rooms = (request.usable_on(node, 0, release) for node in nodes)
    share = min(rooms, default=0) if whole else request.cpus_per_node
    if request.gpus or (whole and len(cpus) > 1) or len(threads) != 1:
        steady = -1
    elif whole:
        steady = min(cpus, default=0) * least if even else -1
    else:
        each_node = request.tasks == 1 or (even and request.tasks_per_node)
        certain = each_node or (request.cpus_per_task == 1 and threads == {1})
        steady = request.cpus if certain else -1
        if steady >= 0 and not COUNTED_TASKS <= release < TASKS_PER_NODE:
            steady = max(steady, least * request.tasks_per_node * request.cpus_per_task)
        if steady >= 0 and threads != {1}:
            full = request.tasks == request.tasks_per_node * least or request.tasks == 1
            held = request.cores_on(nodes[0], request.cpus_per_node) * nodes[0].threads
            steady = held * least if full else -1
    plain = by_switch and steady >= 0 and even and least >= request.nodes and share * least >= request.cpus
    need = request.cpus if one_node and not whole else share
    return _Counting(need, steady, plain, min(cpus, default=0))


def _records(
    cluster: SlurmCluster,
    cases: Sequence[Request],
    case_of: IntArray,
    pairs: list[tuple[int, str]],
    bits: _Bits,
    leaf: IntArray,
) -> Records:
    places: dict[tuple[int, str], int] = {}
    jobs, all_cases = _column(job for job, _ in pairs), case_of.tolist()
    place_of = _column(places.setdefault((all_cases[job], name), len(places)) for job, name in pairs)
    kinds: dict[tuple[object, ...], int] = {}
    forms: dict[tuple[object, ...], int] = {}
    searches: dict[tuple[int, ...], int] = {}
    counting: dict[tuple[object, ...], _Counting] = {}
    # Where others must go, or nodes are reserved, counting does not do.
    most_forms = _MOST_LISTED // bits.count
    if any(outage.planned for outage in cluster.outages) or cluster.preemption.classes:
        most_forms = 0
    if release_of(cluster.version) < FRESH_WEIGHTS and any(limit.of == "node" for limit in cluster.limits):
        most_forms = 0
    suits, able = [bits.of(())], [bits.of(())]
    rows: list[tuple[int, ...]] = []
    fixed, billing = np.zeros(len(places)), np.ones((len(places), 5))
    weighed = ("cpu", "mem", "node", "gres/gpu")
    numbers = {name: number for number, name in enumerate(cluster.partitions)}
    groups = {name: number for number, name in enumerate(cluster.preemption.classes)}
    nodes = {name: kinds_in(cluster, partition) for name, partition in cluster.partitions.items()}
    most_factor = max((partition.factor for partition in cluster.partitions.values()), default=0) or 1
    best_qos = max((qos.priority for qos in cluster.qos.values()), default=0) or 1
    whole_of = {name: _resources(cluster, partition) for name, partition in cluster.partitions.items()}
    for k, (case_number, name) in enumerate(places):
        request, partition = cases[case_number], cluster.partitions[name]
        whole = request.is_whole_in(partition)
        kind = (name, *request.shape)
        asked = (request.tasks, request.tasks_per_node, request.cpus_per_task, request.nodes)
        case = (*kind, whole, *asked, request.most_nodes, request.fewest)
        if case not in counting:
            kinds_of = kinds_in(cluster, partition, request.exclude) if request.exclude else nodes[name]
            suiting = [one for one in kinds_of if request.suits(one[0], partition)]
            if kind not in kinds:
                kinds[kind] = len(suits) * bits.words
                suits.append(bits.of(n for _, members in suiting for n in members))
                has_gpus = (members for node, members in suiting if request.has_gpus(node))
                able.append(bits.of(n for members in has_gpus for n in members))
            by_switch = len(cluster.leaves) > 0 and not cluster.least_loaded
            by_switch = by_switch and all(not node.gpus and (leaf[own] >= 0).all() for node, own in suiting)
            one_of = (node for node, _ in suiting)
            counting[case] = _counting(request, whole, one_of, by_switch, release_of(cluster.version))
        per_cpu = request.memory_per_cpu_in(partition)
        counted, form = counting[case], -1
        apart = request.contiguous or request.node_list or request.exclude or request.component_of
        if counted.steady >= 0 and not (apart or request.spread or request.switches or request.memory < 0):
            form = forms.setdefault((kinds[kind], per_cpu, whole, counted.need), len(forms))
        group = groups.get(cluster.preemption.class_of(request.qos, name), -1)
        limit, full = request.planned_limit_in(partition), request.limit_in(partition)
        row = (numbers[name], partition.tier, limit, full, per_cpu, whole, kinds[kind], group)
        form = form if form < most_forms else -1
        search = -1
        if form >= 0:
            like = (form, request.least_nodes, counted.plain)
            search = searches.setdefault(like, len(searches))
        counted = counted._replace(plain=counted.plain and form >= 0)
        rows.append((*row, form, search if search < _MOST_SEARCHES else -1, *counted))
        weights = partition.billing or {"cpu": 1.0}
        billing[k, :4] = [weights.get(of, 0.0) for of in weighed]
        billing[k, 4] = cluster.qos[request.qos].usage_factor if request.qos in cluster.qos else 1.0
        fixed[k] = _fixed_priority(cluster, request, partition, most_factor, best_qos, whole_of[name])
    names = ("partition", "tier", "limit", "full", "per_cpu", "whole", "kind", "group", "form", "search")
    columns = dict(zip((*names, *_Counting._fields), _columns(rows, 14)[:, place_of].copy(), strict=True))
    return Records(
        job=jobs,
        fixed=fixed[place_of],
        billing=billing[place_of].ravel(),
        suits=np.concatenate(suits),
        able=np.concatenate(able),
        **columns,
    )


def _fixed_priority(
    cluster: SlurmCluster,
    request: Request,
    partition: Partition,
    most_factor: int,
    best_qos: int,
    whole: Mapping[str, int],
) -> float:
    """Return the parts of a priority that never change: partition, QOS, TRES, nice.

    `whole` has the resources of the partition.
    """
    rules = cluster.priorities
    if not rules.multifactor:
        return 0.0
    qos = cluster.qos[request.qos].priority if request.qos in cluster.qos else 0
    nodes = request.asked_nodes(release_of(cluster.version))
    amounts: dict[str, float] = {
        "cpu": request.cpus,
        "mem": max(request.memory, 0) * nodes or request.cpus * request.memory_per_cpu_in(partition),
        "node": nodes,
        "gres/gpu": request.gpus * nodes,
    }
    if rules.normal_tres:
        amounts = {name: amount / whole[name] if whole[name] else 0 for name, amount in amounts.items()}
    return (
        rules.partition * partition.factor / most_factor
        + rules.qos * qos / best_qos
        + sum(weight * amounts[name] for name, weight in rules.tres.items())
        - request.nice
    )


def _resources(cluster: SlurmCluster, partition: Partition) -> dict[str, int]:
    """Return what a partition has of each resource that `PriorityWeightTRES` weighs."""
    nodes = [cluster.nodes[number] for number in partition.nodes]
    return {
        "cpu": sum(node.cpus for node in nodes),
        "mem": sum(node.memory for node in nodes),
        "node": len(nodes),
        "gres/gpu": sum(sum(node.gpus.values()) for node in nodes),
    }
