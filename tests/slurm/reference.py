"""Slurm's rules in plain Python: the specification that the compiled kernel is held against.

Sets of nodes are whole numbers, bit n for node n. Rules: SchedMD's source, release 22.05 unless said
otherwise, and the runs of a real Slurm 22.05.8 that `benchmarks/slurm_agreement.py` compares with. Nothing is
shared with the kernel but the descriptions of cluster and jobs, and orders as plain functions. Rollouts are
those of the batch kernel's twin.
"""
# ruff: noqa: PLR0911, PLR0912, SIM102, E501

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

from gridtune.batch.policies import JobView
from gridtune.batch.policies.rollout import Rollout
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.limits import limits_on
from gridtune.slurm.requests import Request
from tests.batch.simulator.rollout_twin import RolloutTwin

#: Seconds of the first group of ends that a predicted start looks at.
FIRST_WINDOW = 30
#: A replay ends when jobs have made room in so many seconds and nothing else has happened.
CIRCLES = 200


def with_minutes(amounts, seconds):
    """Return amounts, and what each is times minutes."""
    return amounts | {f"{of} minutes": amount * seconds / 60 for of, amount in amounts.items()}


def numbers(mask):
    """Return the numbers of the nodes in a set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def mask_of(nodes):
    """Return the set of some numbers of nodes."""
    return sum(1 << node for node in set(nodes))


class Release:
    """The rules of a cluster's release."""

    def holds_since(self, release):
        """Tell whether the rules that a release brought hold, 24_11_00 for those of 24.11.0."""
        year, month, *patch = self.cluster.version.split(".")
        return 10_000 * int(year) + 100 * int(month) + int(patch[0] if patch else 99) >= release

    def asked_nodes(self, request):
        """Return how many nodes sbatch asks for: by later releases those that the tasks need."""
        return request.least_nodes if self.holds_since(23_11_02) else request.nodes


@dataclass
class Running:
    """A job that runs: its part of each node, and when it must have ended."""

    job: int
    nodes: tuple
    cpus: tuple
    memory: tuple
    gpus: int
    mask: int
    start: int
    end: int
    partition: str
    #: Its time limit, which backfill may have shortened.
    limit: int
    #: Where jobs are suspended: the processors that it has of each node, as bits.
    cores: tuple = ()
    #: Whether it has been told to make room, and its grace runs.
    warned: bool = False
    #: When it was suspended, None while it runs, and for how long it was before.
    since: int | None = None
    suspended: int = 0


@dataclass
class Record:
    """A job waiting in one of its partitions; the least rank of those of a tier goes first."""

    job: int
    partition: str
    priority: float
    rank: float = 0


@dataclass
class Plan:
    """What a backfill pass reserves for a job: seconds, and a set of nodes."""

    job: int
    partition: str
    start: int
    end: int
    nodes: int
    reserved: bool = True


@dataclass
class Free:
    """The free room of each node; `cores` are its processors, as bits, where jobs are suspended."""

    cpus: list
    memory: list
    gpus: list
    cores: list

    def copy(self):
        return Free(list(self.cpus), list(self.memory), list(self.gpus), list(self.cores))

    def take(self, part, sign):
        for node, cpus, memory in zip(part.nodes, part.cpus, part.memory, strict=True):
            self.cpus[node] -= sign * cpus
            self.memory[node] -= sign * memory
            self.gpus[node] -= sign * part.gpus


class Reference(Release):
    """A cluster at one instant: what runs, what is free, what waits is handed to the passes."""

    def __init__(self, cluster: SlurmCluster, requests: list[Request]):
        self.cluster, self.requests = cluster, requests
        nodes = cluster.nodes
        # Memory that does not count never runs out.
        self.memory = [n.memory if cluster.memory_counts else 10**12 for n in nodes]
        self.free = Free(
            [n.cpus for n in nodes],
            list(self.memory),
            [sum(n.gpus.values()) for n in nodes],
            [(1 << n.cpus) - 1 for n in nodes],
        )
        self.empty = self.free.copy()
        self.suspending = any(one.mode == "suspend" for one in cluster.preemption.classes.values())
        self.running = {}
        self.completing = 0
        # GPUs near the processors of each node, as the last test of a GPU job left them: such a node counts as
        # a little lighter, for every job, until a job that could use it is tried in earnest.
        self.near_gpus = [0] * len(nodes)
        # What each node weighs more, as the last job that was tried in earnest left it: see `weigh`.
        self.extra = [0] * len(nodes)
        # Nodes that a test takes last, as they are completing.
        self.heavy = 0
        # Names of the nodes that the job must have for which nodes are chosen: they are taken first.
        self.listed = ()
        self.available = (1 << len(nodes)) - 1
        self.reserved = [(o.start, o.end, mask_of(o.nodes)) for o in cluster.outages if o.planned]
        # The processors of each job that its size counts: those asked for, later those of its last test.
        self.sizes = [request.cpus for request in requests]
        self.eligible = [request.submit for request in requests]
        self.limits = {
            (job, name): [
                (key or ("job", job), of, most)
                for key, of, most in limits_on(
                    cluster.limits, cluster.accounts, cluster.limiting_qos(r.qos, name), r.account, r.user
                )
            ]
            + ([(("array", r.array), "jobs", r.array_most)] if r.array_most else [])
            for job, r in enumerate(requests)
            for name in r.partitions
        }
        # The last tick of the decay thread, up to which minutes have passed; `on` are the nodes of jobs under a limit.
        self.used, self.on, self.ticked = {}, {}, -math.inf
        self.licences = Counter()
        self.number_of = {node.name: number for number, node in enumerate(nodes)}
        self.part_nodes = {name: mask_of(p.nodes) for name, p in cluster.partitions.items()}
        self.fitting = {}
        self.leaves = [mask_of(leaf) for leaf in cluster.leaves]
        # The processors that each node chosen last gives at most.
        self.most_of = {}
        # Jobs that the last pass made go, those it warned, and when each job last made others go.
        self.preempted, self.warned, self.since = [], [], {}
        # The present instant, and jobs that the last pass cancelled, too late for their deadlines.
        self.now, self.late = 0, []
        # Components that started in the last pass where others of their heterogeneous job had no place.
        self.parted = []
        # The jobs suspended or resumed of late, and all suspensions that are over: (job, from, until).
        self.changed, self.pauses = [], []

    def go_to(self, now):
        """Take nodes that are out of service now out of those available."""
        self.now, self.available = now, (1 << len(self.cluster.nodes)) - 1
        for outage in self.cluster.outages:
            if not outage.planned and outage.start <= now < outage.end:
                self.available &= ~mask_of(outage.nodes)

    def unreserved(self, start, limit):
        """Return the nodes whose reservations a job that starts then could not run into."""
        kept = -1
        for begin, end, nodes in self.reserved:
            if begin < start + limit and end > start:
                kept &= ~nodes
        return kept

    # Resources

    def candidates(self, job, partition):
        """Return the nodes of a partition that suit a job; GPUs are not looked at."""
        key = job, partition
        if key not in self.fitting:
            p = self.cluster.partitions[partition]
            self.fitting[key] = mask_of(
                n for n in p.nodes if self.requests[job].suits(self.cluster.nodes[n], p)
            )
        return self.fitting[key]

    def room(self, free, node, request, partition):
        """Return the processors that a node can give to a job; 0 where it cannot take its part."""
        memory, whole = free.memory[node], self.cluster.nodes[node]
        if request.gpus and not request.has_gpus(whole):
            return 0
        if self.takes_all_memory(request) and memory < whole.memory:
            return 0
        threads, each = self.threads(request, node), request.cpus_per_task
        cpus = free.cpus[node] // whole.threads * threads
        if whole.one_task and each > threads:
            # Each task has cores to itself.
            cpus = free.cpus[node] // whole.threads // -(-each // threads) * each
        elif self.holds_since(23_02_00) and not request.gpus:
            cpus -= cpus % each
        if request.exclusive or partition.exclusive:
            need = max(request.memory, 0) or free.cpus[node] * request.memory_per_cpu_in(partition)
            # What is suspended keeps memory and GPUs of a node without processors.
            fits = not self.suspending or (memory >= need and free.gpus[node] >= request.gpus)
            return cpus if free.cpus[node] == whole.cpus and fits else 0
        if request.memory > 0:
            if memory < request.memory:
                return 0
        elif per_cpu := request.memory_per_cpu_in(partition):
            if whole.one_task and each == 1:
                cpus = min(cpus, memory // (per_cpu * whole.threads))
            while cpus > 0 and cpus * per_cpu > memory:
                cpus -= threads
            cpus -= cpus % each
        return cpus if cpus >= request.cpus_per_node and free.gpus[node] >= request.gpus else 0

    def threads(self, request, node):
        """Return how many threads of each core of a node a job can use."""
        whole = self.cluster.nodes[node]
        most = min(whole.threads, request.cpus_per_task) if whole.one_task else whole.threads
        return min(most, request.threads or most)

    def takes_all_memory(self, request):
        """Tell whether a job takes all memory of nodes of which nobody has some."""
        return request.memory < 0 and self.cluster.memory_counts

    def weight(self, node):
        """Return what nodes are taken by, the lightest first."""
        heavy = 0x100 if self.heavy >> node & 1 else 0
        if self.cluster.nodes[node].name in self.listed:
            heavy -= 1 << 40
        return (self.cluster.nodes[node].weight + self.extra[node] << 16) - self.near_gpus[node] + heavy

    def weigh(self, job, partition):
        """Weigh the nodes of a job: those that the others under its limit on nodes have are taken first.

        Of nodes alike the others count as heavier, if there are such nodes at all (`_find_grp_node_bitmap` and
        `_build_node_list` in node_scheduler.c).
        """
        found, known = (
            {},
            [
                limit
                for limit in self.limits[job, partition]
                if limit[1] == "node" and limit[0] != ("job", job)
            ],
        )
        for key, _, _ in known:
            each = key[0].each
            if each or key in self.on:
                found.setdefault(each, key)
        has = [self.on[key] for key in found.values() if key in self.on]
        alike = {}
        for node in numbers(self.candidates(job, partition)):
            alike.setdefault(self.cluster.nodes[node].record, []).append(node)
        for members in alike.values():
            first = [node for node in members if any(on[node] > 0 for on in has)]
            for node in members:
                self.near_gpus[node], self.extra[node] = 0, int(bool(first) and node not in first)

    def place_now(self, job, partition, avail, now):
        """Choose nodes to start a job on at once, over others if need be; return what is free for it, and them."""
        self.weigh(job, partition)
        self.heavy = 0
        return self.fit(self.free, self.running, job, partition, avail, now)

    def place(self, free, job, partition, avail, waits=True):
        """Choose nodes for a job among `avail`; return them in ascending order, or None if they do not do.

        A job that `waits` for few switches gets none on more of them.
        """
        request, p = self.requests[job], self.cluster.partitions[partition]
        if waits and self.looks_at_all(request, p) and free.cpus is not self.empty.cpus:
            # The choice must do as if no job had processors of the nodes that have the memory and the GPUs, too.
            idle = Free(self.empty.cpus, free.memory, free.gpus, self.empty.cores)
            if self.place(idle, job, partition, avail) is None:
                return None
        room, self.most_of, self.listed = {}, {}, request.node_list
        must = {self.number_of[name] for name in request.node_list}
        for node in numbers(avail & self.candidates(job, partition)):
            cpus = self.room(free, node, request, p)
            if cpus:
                room[node] = cpus
                if self.holds_since(23_02_00) and request.tasks_per_node and not request.gpus:
                    if not request.is_whole_in(p):
                        room[node] = min(cpus, request.cpus_per_node)
                if request.gpus:
                    self.near_gpus[node] = min(255, free.gpus[node])
        if self.holds_since(26_05_00) and request.wanted_nodes == 1:
            single = 1 in {request.most_nodes, request.tasks}
            if single or (request.tasks <= request.tasks_per_node and not self.cluster.least_loaded):
                # It can use one node only, and the switches are not looked at.
                able = [node for node in room if room[node] >= request.cpus]
                first = sorted(able, key=lambda node: (self.weight(node), node))[:1]
                self.most_of = dict.fromkeys(able, request.cpus)
                return first if first and must <= {*first} else None
        # Where small nodes lead to a dead end, they are left out, the smallest first.
        while len(room) >= request.least_nodes and must <= room.keys():
            if request.spread and self.holds_since(25_05_00):
                # The turns may take more of a node than is free, but there is no place for all tasks then.
                enough = sum(room.values()) >= request.cpus
                chosen = self._choose_by_turns(request, room) if enough else None
            elif self.cluster.least_loaded or request.spread:
                chosen = self._choose_by_load(request, room, free)
            elif self.leaves and not request.contiguous:
                # Of a job of several numbers of nodes fewer may have few enough switches.
                least = request.least_nodes if self.holds_since(23_02_00) else request.wanted_nodes
                for need in range(request.wanted_nodes, least - 1, -1):
                    chosen = self._choose_by_switch(request, room, need)
                    apart = waits and chosen is not None and self.are_apart(request, chosen)
                    if not apart:
                        break
                if apart:
                    return None
            else:
                chosen = self._choose_by_order(request, room)
            if chosen is not None:
                return sorted(chosen)
            least = min(room.values())
            room = {node: cpus for node, cpus in room.items() if cpus > least}
        return None

    def is_patient(self, request):
        """Tell whether a job still waits for as few switches as it asks for."""
        wait = min(request.switch_wait, self.cluster.clocks.max_switch_wait)
        return request.switches > 0 and self.now - request.submit < wait

    def looks_at_all(self, request, partition):
        """Tell whether Slurm chooses among all processors of nodes first: before 24.11, or where jobs are suspended."""
        shared = not self.holds_since(24_11_00) or self.suspending
        return shared and self.is_patient(request) and not request.is_whole_in(partition)

    def are_apart(self, request, chosen):
        """Tell whether nodes have more switches than a job asks for, and it still waits for fewer."""
        switches = sum(any(leaf >> n & 1 for n in chosen) for leaf in self.leaves)
        return self.is_patient(request) and switches > request.switches

    def _choose_by_switch(self, request, room, need):
        """topology/tree: nodes of the lightest weights that do, from the switches with the fewest of them."""
        cpus, most = request.cpus, self.most_nodes(request, room)
        chosen, offered, spare = [], [], need - request.least_nodes
        for weight in sorted({self.weight(n) for n in room}):
            # What is lighter does not do by itself and is taken whole.
            for node in offered:
                if most:
                    chosen.append(node)
                    cpus -= self.take(request, room, node, need - spare, cpus)
                    need, most = need - 1, most - 1
            offered = [n for n in room if self.weight(n) == weight]
            heavier = any(self.weight(n) > weight for n in room)
            asked = need if heavier and self.holds_since(23_02_00) else need - spare
            if len(offered) >= asked and sum(room[n] for n in offered) >= cpus:
                break
        else:
            return None
        leaves = [[n for n in offered if leaf >> n & 1] for leaf in self.leaves]
        used = [any(leaf >> n & 1 for n in chosen) for leaf in self.leaves]
        while (need > 0 or cpus > 0) and most > 0:
            best = None
            for i, leaf in enumerate(leaves):
                if not leaf:
                    continue
                if best is None:
                    best = i
                    continue
                enough = [
                    len(leaves[k]) >= need
                    and (sum(room[n] for n in leaves[k]) >= cpus or not self.holds_since(23_02_00))
                    for k in (i, best)
                ]
                if used[i] or used[best]:
                    # Those that it has nodes of already, in order.
                    better = used[i] and not used[best]
                elif enough[0] != enough[1]:
                    better = enough[0]
                else:
                    a, b = len(leaf), len(leaves[best])
                    better = a < b if enough[0] else a > b
                if better:
                    best = i
            if best is None:
                break
            for node in leaves[best]:
                if (need > 0 or cpus > 0) and most > 0:
                    chosen.append(node)
                    cpus -= self.take(request, room, node, need - spare, cpus)
                    need, most = need - 1, most - 1
            leaves[best], used[best] = [], True
        return chosen if need <= spare and cpus <= 0 else None

    def most_nodes(self, request, room):
        """Return how many nodes a job gets at most: one for each task."""
        return min(request.tasks, request.most_nodes or len(room))

    def take(self, request, room, node, need, cpus):
        """Return the processors that a node chosen gives: some are left for each node still needed."""
        left = max(need - 1, 0) * self.threads(request, node)
        given = min(room[node], max(cpus - left, request.cpus_per_node))
        self.most_of[node] = given
        return given

    def _choose_by_load(self, request, room, free):
        """CR_LLN: the lightest nodes, of these those with the largest share of idle processors first.

        A job that is spread takes them in order.
        """
        need, cpus, most = request.wanted_nodes, request.cpus, self.most_nodes(request, room)
        chosen, spare = [], request.wanted_nodes - request.least_nodes
        order = sorted(
            room,
            key=lambda n: (
                self.weight(n),
                0 if request.spread else -Fraction(free.cpus[n], self.cluster.nodes[n].cpus),
                n,
            ),
        )
        for node in order:
            if (need > 0 or cpus > 0) and most > 0:
                chosen.append(node)
                cpus -= self.take(request, room, node, need - spare, cpus)
                need, most = need - 1, most - 1
        return chosen if need <= spare and cpus <= 0 else None

    def _choose_by_turns(self, request, room):
        """--spread-job since 25.05: the lightest nodes, as many as wanted; tasks go round them, one at a time.

        By a fault a class of weights gives one node even if there are enough, unless the job's list has the
        most. Source: `_eval_nodes_spread`, where the most is a number without a sign.
        """
        each, need, cpus = request.cpus_per_task, request.wanted_nodes, request.cpus
        most, used, classes, before = self.most_nodes(request, room), {}, {}, None
        for node in sorted(room):
            if self.cluster.nodes[node].name in request.node_list:
                used[node], need, most, cpus = each, need - 1, most - 1, cpus - each
            classes.setdefault(self.weight(node), []).append(node)
        if most < 0:
            return None
        while True:
            for _, members in sorted(classes.items()) if most else ():
                for node in members:
                    if node not in used:
                        used[node] = each
                        need, most, cpus = need - 1, most - 1, cpus - each
                        if most == 0 or need <= 0:
                            break
            while cpus > 0 and (able := [node for node in sorted(used) if used[node] < room[node]]):
                for node in able:
                    if cpus > 0:
                        used[node] += each
                        cpus -= each
            if cpus <= 0 or most in (0, before):
                break
            need, before = need or 1, most
        left, need = request.cpus, request.least_nodes
        for node in sorted(used):
            spare = max(need - 1, 0) * self.threads(request, node)
            given, self.most_of[node] = max(used[node], request.cpus_per_node), room[node]
            if given > left - spare:
                given = self.most_of[node] = max(left - spare, request.cpus_per_node)
            left, need = left - given, need - 1
        return [*used] if left <= 0 and need <= 0 else None

    def _choose_by_order(self, request, room):
        """No topology: runs of neighbours of one weight, the lightest and then the tightest that suffices."""
        need, cpus, most = request.wanted_nodes, request.cpus, self.most_nodes(request, room)
        runs, spare = [], request.wanted_nodes - request.least_nodes
        for node in sorted(room):
            weight = self.weight(node)
            # Where the nodes must be neighbours, a run has the weight of its last node.
            if runs and runs[-1][1][-1] == node - 1 and (request.contiguous or runs[-1][0] == weight):
                runs[-1][1].append(node)
                runs[-1] = weight, runs[-1][1]
            else:
                runs.append((weight, [node]))
        chosen = []
        while runs and (need > 0 or cpus > 0) and most > 0:
            best = None
            must = {self.number_of[name] for name in request.node_list} if request.contiguous else set()
            for weight, run in runs:
                if not must <= {*run}:
                    continue
                size = sum(room[n] for n in run)
                suffices = size >= cpus and len(run) >= need - spare
                if best is None or weight < best[0]:
                    better = True
                elif weight > best[0]:
                    better = False
                elif suffices != best[2]:
                    better = suffices
                else:
                    better = size < best[1] if suffices else size > best[1]
                if better or (request.contiguous and suffices and not best[2]):
                    best = (weight, size, suffices, run)
            if best is None or (request.contiguous and not best[2]):
                break
            run = best[3]
            if need <= 1:
                single = [n for n in run if room[n] >= cpus]
                order = [min(single, key=lambda n: room[n])] if single else run
            else:
                order = run
            for node in order:
                if (need > 0 or cpus > 0) and most > 0:
                    chosen.append(node)
                    cpus -= self.take(request, room, node, need - spare, cpus)
                    need, most = need - 1, most - 1
            runs.remove((best[0], run))
        return chosen if need <= spare and cpus <= 0 else None

    def share(self, free, job, partition, nodes, now, limit=None):
        """Return a job's parts of the nodes chosen: tasks go round the nodes, one at a time."""
        request, p = self.requests[job], self.cluster.partitions[partition]
        whole = request.exclusive or p.exclusive
        if whole:
            cpus = [self.cluster.nodes[n].cpus for n in nodes]
        else:
            cpus = [0] * len(nodes)
            room = [min(self.room(free, n, request, p), self.most_of.get(n, math.inf)) for n in nodes]
            if request.tasks_per_node:
                room = [min(cpus, request.cpus_per_node) for cpus in room]
            left, each = request.tasks, request.cpus_per_task
            if not self.holds_since(24_11_01) or self.holds_since(25_11_00):
                left = max(left, len(nodes) * request.tasks_per_node)
            threads = [self.cluster.nodes[n].threads for n in nodes]

            def give(i, tasks):
                nonlocal left
                while left and tasks and cpus[i] + each <= room[i]:
                    cpus[i], left, tasks = cpus[i] + each, left - 1, tasks - 1

            for i in range(len(nodes)):
                give(i, 1)
            # Then what is left of the cores begun, and as many tasks a turn as a core has room for.
            for i in range(len(nodes)):
                give(i, cpus[i] % threads[i] // each)
            while left and any(cpus[i] + each <= room[i] for i in range(len(nodes))):
                for i in range(len(nodes)):
                    give(i, max(1, threads[i] // each))
        charged = cpus
        if not whole:
            charged, cpus = zip(
                *(self.held(request, *pair) for pair in zip(nodes, cpus, strict=True)), strict=True
            )
        memory = [max(request.memory, 0) or c * request.memory_per_cpu_in(p) for c in charged]
        if self.takes_all_memory(request):
            memory = [self.cluster.nodes[node].memory for node in nodes]
        cores = (
            [self.cores_of(free, *part) for part in zip(nodes, cpus, strict=True)] if self.suspending else ()
        )
        limit = request.limit_in(p) if limit is None else limit
        return Running(
            job, tuple(nodes), tuple(cpus), tuple(memory), request.gpus, mask_of(nodes), now,
            now + limit, partition, limit, tuple(cores),
        )  # fmt: skip

    def held(self, request, node, cpus):
        """Return, for the processors used of a node, those that memory is given for and those of whole cores."""
        whole, threads, each = self.cluster.nodes[node], self.threads(request, node), request.cpus_per_task
        cores = -(-cpus // threads)
        if whole.one_task and each > threads:
            cores = cpus // each * -(-each // threads)
        return cpus if request.threads else cores * whole.threads, cores * whole.threads

    def cores_of(self, free, node, count):
        """Return so many of the free processors of a node, as bits: those of the socket that fits best first.

        Without CR_CORE_DEFAULT_DIST_BLOCK the sockets give one each in turn.
        """
        whole, left, chosen = self.cluster.nodes[node], free.cores[node], 0
        per = -(-whole.cpus // whole.sockets)
        sockets = [((1 << per) - 1) << (per * k) for k in range(whole.sockets)]
        need = count
        while count > 0 and left:
            if self.cluster.socket_by_socket:
                sizes = [(left & socket).bit_count() for socket in sockets]
                enough = [size for size in sizes if size >= need]
                best = sizes.index(min(enough) if enough else max(sizes))
                rounds = [sockets[best]] * sizes[best]
            else:
                rounds = sockets
            for socket in rounds:
                low = left & socket & -(left & socket)
                if count > 0 and low:
                    chosen, left, count = chosen | low, left & ~low, count - 1
        return chosen

    def tell_size(self, free, job, partition, chosen):
        """Note the processors that a test gave to a job: its size counts them from then on."""
        self.sizes[job] = sum(self.share(free, job, partition, chosen, 0).cpus)

    def begin(self, part, now=None):
        self.free.take(part, 1)
        self.running[part.job] = part
        self.follow(part, part.start if now is None else now)
        self.count(part, 1)

    def end(self, job, now=None):
        part = self.running.pop(job)
        self.free.take(part, -1)
        self.follow(part, now)
        self.count(part, -1)
        return part

    # Suspension: src/slurmctld/gang.c, and `_job_test` in src/plugins/select/cons_common/job_test.c

    def suspends(self, part):
        """Tell whether a job is suspended where it must make room: it keeps its memory and its GPUs."""
        group = self.group(part.job, part.partition)
        return group is not None and group.mode == "suspend"

    def tier(self, part):
        return self.cluster.partitions[part.partition].tier

    def follow(self, part, now):
        """Count the free processors of a job's nodes again, and suspend or resume others.

        A job stands still while one that runs in a partition of a higher tier has some of its processors.
        """
        if not self.suspending:
            return
        self.leave_to(self.free, self.running, part.nodes)
        active = []
        for other in sorted(self.running.values(), key=self.tier, reverse=True):
            below = any(self.tier(one) > self.tier(other) and shares(one, other) for one in active)
            if not below:
                active.append(other)
            if below == (other.since is not None):
                continue
            if below:
                other.since = now
            else:
                if now > other.since:
                    self.pauses.append((other.job, other.since, now))
                other.suspended += now - other.since
                other.end += now - other.since
                other.since = None
            self.changed.append(other)

    def leave_to(self, free, present, nodes):
        """Make free, of some nodes, the processors that none of some jobs has."""
        for node in nodes:
            free.cores[node] = self.empty.cores[node]
            for part in present.values():
                if node in part.nodes:
                    free.cores[node] &= ~part.cores[part.nodes.index(node)]
            free.cpus[node] = free.cores[node].bit_count()

    def let_go(self, free, present, part, *, stays=False):
        """Take a job from those present, and add what it leaves; one that stays there, suspended, its processors."""
        del present[part.job]
        free.take(part, 0 if stays else -1)
        if self.suspending:
            self.leave_to(free, present, part.nodes)

    def fit(self, free, present, job, partition, avail, now):
        """Choose nodes for a job beside those present; return what is free for it, and them.

        Where nothing is free it takes processors of jobs that it suspends, those of the lowest partitions that
        do, the last ones of slurm.conf first. Where that does not do, jobs of other partitions of its own tier
        share theirs with it, and both run.
        """
        chosen = self.place(free, job, partition, avail)
        if chosen is not None or not self.suspending:
            return free, chosen
        by_partition, partitions = self.cluster.preemption.by == "partition", self.cluster.partitions
        names = list(partitions)
        over = [p for p in self.preemptable(job, partition, now) if p.job in present and self.suspends(p)]
        steps = {}
        for part in over:
            key = self.group(part.job, part.partition).rank, -by_partition * names.index(part.partition)
            steps.setdefault(key, []).append(part)
        groups = [group for _, group in sorted(steps.items())]
        if by_partition:
            groups.append([
                part for part in present.values()
                if part.partition != partition and self.tier(part) == partitions[partition].tier
                and self.group(part.job, part.partition).mode != "off"
            ])  # fmt: skip
        free, left = free.copy(), dict(present)
        for group in groups:
            for part in group:
                self.let_go(free, left, part, stays=True)
            chosen = self.place(free, job, partition, avail) if group else None
            if chosen is not None:
                break
        return free, chosen

    def part_on(self, job, partition, nodes, now, evenly=False):
        """Return a job's part of the nodes on which it is known to have started, all nodes alike or as chosen."""
        # Which switch comes first may depend on nodes that were not chosen.
        avail = self.available & self.part_nodes[partition] & ~self.completing
        free, chosen = self.fit(self.free, self.running, job, partition, avail, now)
        if evenly or chosen != nodes:
            free, chosen = self.fit(self.free, self.running, job, partition, mask_of(nodes), now)
        if evenly:
            self.most_of = {}
        return self.share(self.free if chosen is None else free, job, partition, nodes, now)

    # Preemption

    def group(self, job, partition):
        """Return the class of a job that preemption knows, None without one."""
        preemption = self.cluster.preemption
        return preemption.classes.get(preemption.class_of(self.requests[job].qos, partition))

    def preemptable(self, job, partition, now):
        """Return what runs and must make room for a job, in the order in which it would go."""
        preemption, mine = self.cluster.preemption, self.group(job, partition)
        going = []
        for part in sorted(self.running.values(), key=lambda part: self.requests[part.job].rank):
            group = self.group(part.job, part.partition)
            if not mine or not group or not part.mask & self.part_nodes[partition]:
                continue
            name, partitions = (
                preemption.class_of(self.requests[part.job].qos, part.partition),
                self.cluster.partitions,
            )
            if group.mode == "suspend":
                may = partitions[partition].tier > partitions[part.partition].tier
            else:
                may = group.mode != "off" and part.start + group.exempt <= now
            if name in mine.preempts and may:
                going.append((group.rank, part))
        if preemption.youngest_first:
            return sorted((part for _, part in going), key=lambda part: -part.start)
        return [part for _, part in sorted(going, key=lambda pair: (pair[0], len(pair[1].nodes)))]

    def find_victims(self, job, partition, avail, now):
        """Return the jobs that must go for another to fit, [] if that would not help.

        They go one by one until it fits. Then those that were not needed are sought: the candidates are ordered
        anew, the last first, the others by how many of the nodes chosen they have.
        """
        order, preemption = self.preemptable(job, partition, now), self.cluster.preemption
        count, usable, tries = len(order), {part.job: 0 for part in order}, 0
        while True:
            free, present, chosen = self.free.copy(), dict(self.running), None
            for part in order:
                if not part.mask & avail or self.suspends(part):
                    continue
                self.let_go(free, present, part)
                _, chosen = self.fit(free, present, job, partition, avail, now)
                usable[part.job] = 0
                if chosen is not None:
                    break
            if chosen is None:
                return []
            tries, place = tries + 1, order.index(part)
            if tries - 1 > preemption.reorder_count or count <= tries:
                usable.update({part.job: 1 for part in order[place + 1 :]})
                break
            if preemption.strict_order:
                order.insert(0, order.pop(place))
                continue
            for other in order[:place]:
                usable[other.job] = (other.mask & mask_of(chosen)).bit_count()
            usable[order[place].job] = 99_999
            usable.update({other.job: 0 for other in order[place + 1 :]})
            order.sort(key=lambda part: -usable[part.job])
        victims = []
        for part in order:
            if part.mask & mask_of(chosen) and not self.suspends(part):
                if usable[part.job]:
                    break
                victims.append(part)
        return victims

    def make_room(self, job, partition, avail, now):
        """Make others go for a job that found no place; return whether there are such others."""
        victims = self.find_victims(job, partition, avail, now)
        if victims and now - self.since.get(job, -math.inf) >= self.cluster.preemption.pause:
            self.since[job] = now
            for part in victims:
                self.preempt(part, now)
        return bool(victims)

    def preempt(self, part, now):
        grace = self.group(part.job, part.partition).grace
        if grace and not part.warned:
            part.warned, part.end = True, min(part.end, now + grace)
            self.warned.append(part)
        elif not grace or now >= part.end:
            self.end(part.job, now)
            self.completing |= part.mask
            self.preempted.append(part)

    def requeues(self, part):
        """Tell whether a job that had to go starts again later."""
        own = self.requests[part.job].requeue
        allowed = self.cluster.requeue if own is None else own
        return self.group(part.job, part.partition).mode == "requeue" and allowed

    # Limits

    def count(self, part, sign):
        """Add a job's resources to what its limits count, or take them away."""
        for name, count in self.requests[part.job].licence_counts.items():
            self.licences[name] += sign * count
        for key, of, _ in self.limits[part.job, part.partition]:
            if of == "node":
                on = self.on.setdefault(key, Counter())
                for node in part.nodes:
                    on[node] += sign
                self.used[key, of] = sum(count > 0 for count in on.values())
            elif "minutes" not in of:
                self.used[key, of] = self.used.get((key, of), 0) + sign * self.amounts(part)[of]

    def minutes(self, key, of):
        """Return what runs under a limit times the minutes that its time limit leaves, as of the last tick."""
        total = 0
        for part in self.running.values():
            if any((key, of) == limit[:2] for limit in self.limits[part.job, part.partition]):
                left = max(0, part.limit - max(0, self.ticked - part.start))
                total += self.amounts(part)[of.removesuffix(" minutes")] * left / 60
        return total

    def too_many(self, job, partition):
        """Tell whether a job would be one too many: looked at before nodes are."""
        return any(
            of == "jobs" and self.used.get((key, of), 0) + 1 > most
            for key, of, most in self.limits[job, partition]
        )

    def lacks_licences(self, job):
        """Tell whether too many of the licences that a job needs are in use."""
        there_are = self.cluster.licences
        counts = self.requests[job].licence_counts
        return any(self.licences[name] + count > there_are.get(name, 0) for name, count in counts.items())

    def too_much(self, job, partition, part=None, planned=(), limit=None):
        """Tell whether a job would take too much of a resource, by what it asks for or by what it got.

        A node that others under a limit have already counts once: one that it got, of its list or, by later
        releases, planned for it.
        """
        r, p = self.requests[job], self.cluster.partitions[partition]
        count = len(planned) or r.least_nodes
        asked = {
            "cpu": self.sizes[job],
            "mem": max(r.memory, 0) * count or self.sizes[job] * r.memory_per_cpu_in(p),
            "node": count,
            "gres/gpu": r.gpus * count,
        }
        known = [self.number_of[name] for name in r.node_list] or (
            planned if self.holds_since(24_11_04) else ()
        )
        asked["billing"] = self.billing(partition, asked)
        limit = r.limit_in(p) if limit is None else limit
        amounts = self.amounts(part) if part else with_minutes(asked, limit)
        for key, of, most in self.limits[job, partition]:
            used = self.used.get((key, of), 0) + (self.minutes(key, of) if "minutes" in of else 0)
            if of == "node":
                nodes = part.nodes if part else known
                used -= sum(self.on.get(key, {}).get(node, 0) > 0 for node in nodes)
            if of != "jobs" and used + amounts[of] > most + 1e-9:
                return True
        return False

    def amounts(self, part):
        """Return what limits count of a job that starts."""
        amounts = {
            "jobs": 1,
            "cpu": sum(part.cpus),
            "mem": sum(part.memory),
            "node": len(part.nodes),
            "gres/gpu": part.gpus * len(part.nodes),
        }
        amounts["billing"] = self.billing(part.partition, amounts)
        return with_minutes(amounts, part.limit)

    def billing(self, partition, amounts):
        """Return the whole number that limits on billing count."""
        return int(self.weighted(partition, amounts))

    def weighted(self, partition, amounts):
        """Return resources weighed by a partition; without weights the processors."""
        weights, total = self.cluster.partitions[partition].billing or {"cpu": 1.0}, 0.0
        for of in ("cpu", "mem", "node", "gres/gpu"):
            total += weights.get(of, 0.0) * amounts[of]
        return total

    def billed(self, part):
        """Return what a second of a job adds to its user's usage: processors, or by the partition's weights."""
        qos, amounts = self.cluster.qos.get(self.requests[part.job].qos), self.amounts(part)
        if self.requests[part.job].component_of:
            # Its bill is made before it starts, by its last test, maybe in another partition.
            amounts["cpu"] = 0 if self.holds_since(26_05_00) else self.sizes[part.job]
        return self.weighted(part.partition, amounts) * (qos.usage_factor if qos else 1.0)

    # The main pass

    def cancels(self, job, now):
        """Tell whether a job could not end by its deadline any more, and so is cancelled."""
        request = self.requests[job]
        late = bool(request.deadline) and now + request.least_time > request.deadline
        if late:
            self.late.append(job)
        return late

    def until_deadline(self, job, partition, now):
        """Return the limit asked for, cut at the job's deadline in whole minutes."""
        request = self.requests[job]
        limit = request.limit_in(self.cluster.partitions[partition])
        return min(limit, (request.deadline - now) // 60 * 60) if request.deadline else limit

    def main_pass(self, queue, now, depth=math.inf):
        """Start what can start, in order, until a partition is blocked; return the parts begun."""
        avail, failed, begun, started, rejected, count = self.available, set(), [], set(), set(), 0
        self.preempted, self.warned, self.late = [], [], []
        if depth >= 1 << 60 and self.holds_since(23_11_04):
            for record in queue:
                if record.job not in started and self.cancels(record.job, now):
                    started.add(record.job)
        for record in queue:
            job, partition = record.job, record.partition
            request = self.requests[job]
            # One task that cannot start stands for all that are left of its array.
            if job in started or (request.array, partition) in rejected:
                continue
            if count > depth and not request.component_of:
                break
            count += 1
            nodes = self.part_nodes[partition]
            if request.component_of:
                if partition in failed and self.holds_since(24_11_00):
                    break
                # Only backfill starts it.
                count -= 1
                failed.add(partition)
                avail &= ~nodes
                continue
            if partition in failed:
                avail &= ~nodes
                continue
            if self.cancels(job, now):
                started.add(job)
                continue
            limit = self.until_deadline(job, partition, now)
            usable = avail & nodes
            chosen, held, tested = None, self.too_many(job, partition), False
            if not held and usable.bit_count() >= self.asked_nodes(request):
                tested, held = True, self.lacks_licences(job)
                if held:
                    tested = False
            if tested:
                usable &= self.unreserved(now, limit)
                free, chosen = self.place_now(job, partition, usable & ~self.completing, now)
                # Its nodes may be drained, reserved or taken out: it blocks nobody.
                held = chosen is None and not self._could_run(job, partition, usable)
            if chosen is not None:
                part = self.share(free, job, partition, chosen, now, limit)
                held = self.too_much(job, partition, part)
            elif not held:
                held = self.too_much(job, partition, limit=limit)
            if chosen is not None and not held:
                self.begin(part)
                begun.append(part)
                started.add(job)
                continue
            if not held:
                self.make_room(job, partition, usable & ~self.completing, now)
            if request.array:
                rejected.add((request.array, partition))
            if tested and request.node_list and len(request.node_list) >= self.asked_nodes(request):
                # Its nodes are kept for it, and it blocks nobody else.
                avail &= ~mask_of(self.number_of[name] for name in request.node_list)
                continue
            if not held and not (tested and self.reserves_nothing(record, now)):
                failed.add(partition)
                avail &= ~nodes
        return begun

    def reserves_nothing(self, record, now):
        """Tell whether a job has waited for too short a time, or has too low a priority, to keep nodes free."""
        clocks = self.cluster.clocks
        return (
            record.priority < clocks.bf_min_prio_reserve
            or now - self.eligible[record.job] < clocks.bf_min_age_reserve
        )

    def _could_run(self, job, partition, avail):
        """Tell whether a job could start on some nodes, were they empty."""
        return self.place(self.empty, job, partition, avail, waits=False) is not None

    # The backfill pass

    def grid_before(self, instant):
        """Return the last multiple of `bf_resolution`, counted from 1970, until an instant."""
        return instant - (instant + self.cluster.zero) % self.cluster.clocks.bf_resolution

    def backfill_pass(self, queue, now):
        """Start or plan each job in order; return the parts begun and the plans."""
        clocks = self.cluster.clocks
        window = 60 * clocks.bf_window
        first, last = now, now + window
        if self.holds_since(24_11_00):
            first, last = self.grid_before(first), self.grid_before(last)
        slots = [[first, last, self.available]]
        self.slots_made = 1
        self.preempted, self.warned, self.late = [], [], []
        self.parted, self.components, self.latest = [], {}, {}
        begun, plans, tested, looked = [], [], 0, {}
        started, rejected, planned = set(), set(), {}
        for record in queue:
            if tested >= clocks.bf_max_job_test or self.slots_made == math.inf:
                break
            job = record.job
            request = self.requests[job]
            array = request.array, record.partition
            if job in started or array in rejected:
                continue
            since = self.others_start(job)
            if since > now + window:
                continue
            if clocks.bf_max_job_user:
                looked[request.user] = looked.get(request.user, 0) + 1
                if looked[request.user] > clocks.bf_max_job_user:
                    continue
            if self.too_many(job, record.partition) or self.lacks_licences(job):
                if request.array:
                    rejected.add(array)
                continue
            if self.cancels(job, now):
                started.add(job)
                continue
            before = len(plans)
            counted, part = self._plan(record, slots, now, plans, max(now, since))
            tested += counted
            if request.array and part is None:
                planned[array] = planned.get(array, 0) + len(plans) - before
                left = clocks.bf_max_job_array_resv
                if request.array_most and self.holds_since(23_02_04):
                    running = self.used.get((("array", request.array), "jobs"), 0)
                    left = min(left, request.array_most - running)
                if len(plans) == before or planned[array] >= left:
                    rejected.add(array)
            if part is not None:
                begun.append(part)
                started.add(job)
                if clocks.bf_max_job_start and len(begun) >= clocks.bf_max_job_start:
                    break
        for number, planned in self.components.items():
            if clocks.bf_max_job_start and len(begun) >= clocks.bf_max_job_start:
                break
            if self.may_all_start(number, planned, now):
                begun += self.start_all(planned, now)
        return begun, plans

    # Heterogeneous jobs

    def others_start(self, job):
        """Return from when on the other components of a job let it start, and note that it was looked at."""
        if not (number := self.requests[job].component_of):
            return 0
        mine = self.components.setdefault(number, {})
        mine.setdefault(job, [math.inf, "", 0])
        return max((start for other, (start, _, _) in mine.items() if other != job), default=0)

    def note_component(self, job, partition, start, nodes):
        """Note a plan of a component; its earliest start counts, wherever that is, and its last nodes."""
        mine = self.components[self.requests[job].component_of][job]
        mine[2] = nodes
        if start < mine[0]:
            mine[:2] = start, partition

    def deadlocks(self, job, partition, start):
        """Tell whether a job that starts later in this partition starts earlier in another of this job's."""
        number, here = self.requests[job].component_of, self.latest.setdefault(partition, {})
        here[number] = max(here.get(number, start), start)
        for other_partition, there in self.latest.items():
            if other_partition == partition or number not in there:
                continue
            # The latest first; sorting keeps the order of those alike.
            for other in sorted(here, key=lambda one: -here[one]):
                if other == number:
                    break
                if other in there and there[other] < here[number]:
                    return True
        return False

    def may_all_start(self, number, planned, now):
        """Tell whether all components of a job are planned for now, and together within the limits."""
        count = sum(request.component_of == number for request in self.requests)
        if len(planned) < count or max(start for start, _, _ in planned.values()) > now:
            return False
        used, fits = dict(self.used), True
        for job, (_, partition, nodes) in planned.items():
            request, p = self.requests[job], self.cluster.partitions[partition]
            known = numbers(nodes)
            fits = not self.too_many(job, partition) and not self.too_much(job, partition, planned=known)
            if not fits:
                break
            asked = {
                "jobs": 1,
                "cpu": self.sizes[job],
                "mem": max(request.memory, 0) * len(known) or self.sizes[job] * request.memory_per_cpu_in(p),
                "node": len(known),
                "gres/gpu": request.gpus * len(known),
            }
            asked["billing"] = self.billing(partition, asked)
            for key, of, _ in self.limits[job, partition]:
                amount = with_minutes(asked, request.limit_in(p))[of]
                if of != "node":
                    self.used[key, of] = self.used.get((key, of), 0) + amount
        self.used = used
        return fits

    def start_all(self, planned, now):
        """Start all components of a job on any nodes, none twice; where one has no place, none starts."""
        begun, taken = [], 0
        for job, (_, partition, _) in planned.items():
            limit = self.requests[job].limit_in(self.cluster.partitions[partition])
            usable = self.available & self.part_nodes[partition] & self.unreserved(now, limit)
            usable &= ~self.completing & ~taken
            part = None
            if not self.too_many(job, partition) and not self.lacks_licences(job):
                free, nodes = self.place_now(job, partition, usable, now)
                part = nodes and self.share(free, job, partition, nodes, now, limit)
            if not part or self.too_much(job, partition, part, limit=limit):
                for earlier in begun:
                    self.end(earlier.job, now)
                    self.completing |= earlier.mask
                self.parted += begun
                return []
            self.begin(part)
            begun.append(part)
            taken |= part.mask
        return begun

    def _plan(self, record, slots, now, plans, begin):
        clocks = self.cluster.clocks
        resolution, window = clocks.bf_resolution, 60 * clocks.bf_window
        dated = self.holds_since(24_11_00)
        job, partition = record.job, record.partition
        request = self.requests[job]
        limit = request.planned_limit_in(self.cluster.partitions[partition])
        most = clocks.bf_job_part_count_reserve
        mine = sum(plan.partition == partition and plan.reserved for plan in plans)
        now_only = self.reserves_nothing(record, now) or 0 < most <= mine

        def slice_of(start):
            low, end = self.grid_before(start), start + limit + (resolution - 1 if dated else 0)
            least = low + resolution if self.holds_since(23_02_00) else 0
            return low, max(self.grid_before(end), least)

        counted = 0
        while True:
            if begin > slots[0][0] + window:
                return counted, None
            later, end = 0, max(begin, now) + limit
            pool = self.part_nodes[partition]
            avail = pool
            for i, (slot_begin, slot_end, nodes) in enumerate(slots):
                if slot_end > begin and i + 1 < len(slots) and not later:
                    if pool & slots[i + 1][2] & ~(avail & nodes):
                        later = slot_end
                if slot_end <= begin:
                    continue
                if slot_begin > end:
                    if dated and not later and i + 2 < len(slots):
                        later = slots[i + 1][1]
                    break
                avail &= nodes
            avail &= self.unreserved(max(begin, now), limit)
            edges = [
                self.grid_before(end + resolution - 1) + 1 for _, end, _ in self.reserved if begin <= end
            ]
            if edges and min(edges) < now + window and (not later or min(edges) < later):
                later = min(edges)
            avail &= ~mask_of(self.number_of[name] for name in request.exclude if name in self.number_of)
            missing = mask_of(self.number_of[name] for name in request.node_list) & ~avail
            usable = avail & self.candidates(job, partition)
            start = None
            if not missing and avail.bit_count() >= self.asked_nodes(request):
                counted = 1
                start, chosen = self.will_run(job, partition, usable, now, now_only, begin, later)
            if start is None:
                if later and not now_only:
                    begin = later
                    continue
                return counted, None
            start = max(start, begin)
            if dated and now < start <= now + window and not now_only:
                if overlaps(slots, *slice_of(start), mask_of(chosen)):
                    begin = start if start > begin else start + resolution
                    continue
            if start <= now and mask_of(chosen) & self.completing:
                start, later = now + 1, 0
            if request.component_of:
                self.note_component(job, partition, start, mask_of(chosen))
            elif start <= now:
                free, nodes = self.place_now(job, partition, usable & ~self.completing, now)
                part = nodes and self.share(free, job, partition, nodes, now, limit)
                if self.too_much(job, partition, part, limit=limit):
                    return counted, None
                if part:
                    part.limit = self.longest_limit(part, slots, now)
                    part.end = now + part.limit
                    self.begin(part)
                    return counted, part
                # Others must go first; the nodes are reserved meanwhile.
                self.make_room(job, partition, usable & ~self.completing, now)
                later = 0
            if now_only and not (request.component_of and start <= now):
                return counted, None
            if later and start > later:
                begin = later
                continue
            (low, high), mask = slice_of(start), mask_of(chosen)
            if start > now + window:
                plans.append(Plan(job, partition, start, high, mask, reserved=False))
                return counted, None
            if overlaps(slots, low, high, mask):
                # Without progress 22.05 would try the same until its time is up; later releases go on like this.
                begin = start if start > begin else start + resolution
                continue
            if request.component_of and self.deadlocks(job, partition, start):
                return counted, None
            if self.too_much(job, partition, planned=chosen, limit=limit):
                return counted, None
            plans.append(Plan(job, partition, start, high, mask))
            if self.slots_made < (clocks.bf_node_space_size or clocks.bf_max_job_test):
                self.slots_made += reserve(slots, low, high, mask)
            else:
                self.slots_made = math.inf
            return counted, None

    def longest_limit(self, part, slots, now):
        """Return the limit of a job that backfill starts: until plans and reservations of its nodes begin.

        Before 25.05.3 a job without a deadline gets the shortest that it allows.
        """
        request, full = self.requests[part.job], self.until_deadline(part.job, part.partition, now)
        if not request.time_min or (not request.deadline and not self.holds_since(25_05_03)):
            return part.limit if request.time_min else full
        taken = [begin for begin, _, nodes in slots if part.mask & ~nodes]
        taken += [begin for begin, _, nodes in self.reserved if part.mask & nodes]
        left = [(begin - now) // 60 * 60 for begin in taken if now < begin < now + full]
        asked = request.limit_in(self.cluster.partitions[part.partition])
        return max(min([full, *left]), min(request.time_min, asked))

    def will_run(self, job, partition, avail, now, now_only=False, begin=None, later=0):
        """Return when and where a job could start if running jobs end at their limits; None if never.

        Jobs are taken away in the order of their ends, in groups that reach ever farther; the job starts at
        the last end of its group. From 24.11 on a test from `begin` on, now if not given, that lies later does
        not look at what is free now. Jobs that end before then are taken away first, those after `later` never.
        """
        begin, dated = now if begin is None else begin, self.holds_since(24_11_00)
        if self.holds_since(23_11_00):
            for node in numbers(avail):
                self.near_gpus[node] = self.extra[node] = 0
            self.heavy = 0 if dated and begin > now else self.completing
        free, present = self.free, dict(self.running)
        chosen = None
        if not (dated and begin > now):
            free, chosen = self.fit(free, present, job, partition, avail, now)
        if dated:
            self.heavy = 0
        if chosen is not None:
            self.tell_size(free, job, partition, chosen)
            return now, chosen
        if dated and now_only:
            return None, None
        base, window, horizon = self.free.copy(), FIRST_WINDOW, 0
        order = self.preemptable(job, partition, now)
        going = [part for part in order if part.mask & avail]
        gone = {part.job for part in order} if going else set()
        for part in going:
            self.let_go(base, present, part, stays=self.suspends(part))
        if going:
            free, chosen = self.fit(base, present, job, partition, avail, now)
            if chosen is not None:
                # Its start lies later, but now is when the others must go.
                self.tell_size(free, job, partition, chosen)
                return now, chosen
        if now_only:
            return None, None
        ending = sorted(self.running.values(), key=lambda part: (part.end, self.requests[part.job].rank))
        ending, ended = [part for part in ending if part.job not in gone], set()
        if dated:
            first = begin + self.holds_since(25_05_00)
            early = [part for part in ending if part.end < first and part.mask & avail]
            ending = [part for part in ending if part.end >= first]
            for part in early:
                self.let_go(base, present, part)
                ended.add(part.job)
            free, chosen = self.fit(base, present, job, partition, avail, now)
            if chosen is not None:
                self.tell_size(free, job, partition, chosen)
                return now, chosen
        linear = self.cluster.clocks.bf_window_linear
        i = 0
        while i < len(ending):
            last, following = None, None
            while i < len(ending):
                part = ending[i]
                i += 1
                if dated and later and part.end > later:
                    i = len(ending)
                    break
                if not part.mask & avail:
                    continue
                if not horizon:
                    horizon = part.end + FIRST_WINDOW - (part.end + self.cluster.zero) % FIRST_WINDOW
                last = part
                self.let_go(base, present, part)
                ended.add(part.job)
                following = ending[i].end if i < len(ending) else None
                if following is None or following > horizon + window:
                    break
            if last is None:
                break
            while True:
                window = window + linear if linear else window * 2
                if following is None or following <= horizon + window:
                    break
            free, chosen = self.fit(base, present, job, partition, avail, now)
            if chosen is not None:
                self.tell_size(free, job, partition, chosen)
                if self.holds_since(25_05_01):
                    mask = mask_of(chosen)
                    # The choice may leave out all that was freed: then it is the last job taken away.
                    last = ([last] + [p for p in ending[:i] if p.job in ended and p.mask & mask])[-1]
                if last.end > now:
                    return last.end, chosen
                # It has passed its limit and will be killed.
                guess = last.end + self.cluster.kill_wait + self.cluster.overtime
                return (guess if guess > now else now + 1), chosen
        return None, None


def shares(one, other):
    """Tell whether two jobs have processors in common."""
    return any(
        node in other.nodes and cores & other.cores[other.nodes.index(node)]
        for node, cores in zip(one.nodes, one.cores, strict=True)
    )


def overlaps(slots, start, end, mask):
    """Tell whether nodes have a plan between two instants."""
    return any(e > start and b < end and mask & ~nodes for b, e, nodes in slots)


def reserve(slots, start, end, mask):
    """Take nodes out of all slots between two instants, splitting those that reach over them.

    Return the number of slots made. One that is merged away still counts in Slurm's table.
    """
    start, before = max(start, slots[0][0]), len(slots)
    for i, slot in enumerate(slots):
        if slot[1] > start:
            slots.insert(i + 1, [start, slot[1], slot[2]])
            slot[1] = start
            break
        if slot[1] == start:
            break
    else:
        return 0
    for k in range(i + 1, len(slots)):
        if end < slots[k][1]:
            slots.insert(k + 1, [end, slots[k][1], slots[k][2]])
            slots[k][1] = end
            break
        if end == slots[k][1]:
            break
    made = len(slots) - before
    for slot in slots:
        if slot[0] >= start and slot[1] <= end:
            slot[2] &= ~mask
        if slot[0] >= end:
            break
    for i in range(len(slots) - 1):
        if slots[i][2] == slots[i + 1][2]:
            slots[i][1] = slots[i + 1][1]
            del slots[i + 1]
            break
    return made


def fair_tree(accounts, usage):
    """Return the factor of each (account, user); `usage` has each of them and each account, decayed.

    The accounts that tie are not merged: the release's own code stops before (fair_tree.c).
    """
    children = {}
    for account, parent in accounts.parent_of.items():
        children.setdefault(parent, []).append((account, accounts.shares_of[account], None))
    for (account, user), shares in accounts.users.items():
        children.setdefault(account, []).append((account, shares, user))
    total = len(accounts.users)
    factors, state = {}, [total, total]

    def visit(parent, used, tied_from_above):
        siblings = children.get(parent, [])
        shares = sum(share for _, share, _ in siblings)
        levels = []
        for name, share, user in siblings:
            own = usage.get((name, user) if user is not None else name, 0.0)
            level = 0.0 if not share else math.inf if not own or not used else (share / shares) / (own / used)
            levels.append((-level, user is None, name, user, own))
        levels.sort(key=lambda entry: entry[:2])
        before = None
        for i, (level, _, name, user, own) in enumerate(levels):
            tied = tied_from_above if i == 0 and tied_from_above else before == level
            if user is not None:
                if not tied:
                    state[0] = state[1]
                factors[name, user] = state[0] / total
                state[1] -= 1
            else:
                visit(name, own, tied)
            before = level

    visit(
        "root",
        sum(usage.get(a, 0.0) for a, p in accounts.parent_of.items() if p == "root")
        + sum(usage.get(("root", u), 0.0) for a, u in accounts.users if a == "root"),
        False,
    )
    return factors


def classic(accounts, usage, before, dampening):
    """Return the factor of each (account, user) by the classic formula; `before` is usage before the tick.

    The decay thread looks at accounts first, then adds usage, then looks at users (priority_multifactor.c,
    `_set_children_usage_efctv` and `_get_fairshare_priority`).
    """
    children = {}
    for account, parent in accounts.parent_of.items():
        children.setdefault(parent, []).append((account, accounts.shares_of[account], account))
    for (account, user), shares in accounts.users.items():
        children.setdefault(account, []).append(((account, user), shares, None))
    factors = {}

    def whole(used):
        top = [name for name, _, _ in children.get("root", [])]
        return sum(used.get(name, 0.0) for name in top)

    def visit(parent, norm, effective):
        shares = sum(share for _, share, _ in children.get(parent, []))
        for name, share, account in children.get(parent, []):
            used, part = usage if account is None else before, share / shares if shares else 0
            own = used.get(name, 0.0) / whole(used) if whole(used) else 0.0
            actual = own if parent == "root" else own + (effective - own) * part
            if account is not None:
                visit(account, norm * part, actual)
            else:
                factors[name] = 2 ** (-actual / (norm * part) / max(1, dampening)) if norm * part else 0.0

    visit("root", 1.0, 0.0)
    return factors


class Priority(Release):
    """Priorities as they are stored: computed at submission and at each tick of the decay thread."""

    def __init__(self, cluster, requests):
        self.cluster, self.requests = cluster, requests
        self.usage, self.last = {}, None
        self.factors = self.shares({})

    def tick(self, now, intervals):
        """Decay usage and add that of the jobs that ran since; `intervals`: (job, billed, start, end)."""
        rules = self.cluster.priorities
        last = self.last if self.last is not None else now
        rate = 1 - 0.693 / rules.half_life if rules.half_life else 1.0
        decay, before = rate ** (now - last), dict(self.usage)
        for key in self.usage:
            self.usage[key] *= decay
        for job, cpus, start, end in intervals:
            run = min(now, end) - max(start, self.last if self.last is not None else start)
            if run > 0:
                self.add(job, cpus, run)
        self.last = now
        self.factors = self.shares(before)

    def shares(self, before):
        """Return the factor of each (account, user); `before` is usage before the last tick."""
        rules, accounts = self.cluster.priorities, self.cluster.accounts
        if rules.fair_tree:
            return fair_tree(accounts, self.usage)
        return classic(accounts, self.usage, before, rules.dampening)

    def add(self, job, cpus, run):
        """Add a run's decayed use to its user and every account above."""
        rules, request = self.cluster.priorities, self.requests[job]
        rate = 1 - 0.693 / rules.half_life if rules.half_life else 1.0
        self.use(request.account, request.user, cpus * run * rate**run)

    def use(self, account, user, used):
        """Add to a user's usage, and to that of every account above."""
        self.usage[account, user] = self.usage.get((account, user), 0.0) + used
        while account != "root":
            self.usage[account] = self.usage.get(account, 0.0) + used
            account = self.cluster.accounts.parent_of.get(account, "root")

    def parts(self, job, partition, now, eligible, cpus):
        """Return age, fair share, size, partition, QOS and TRES of a job, weighted."""
        cluster, rules, request = self.cluster, self.cluster.priorities, self.requests[job]
        age = min(1.0, max(0, now - eligible) / rules.max_age) if rules.max_age else 0.0
        asked = self.asked_nodes(request)
        n, c = asked / len(cluster.nodes), cpus / cluster.cpus
        size = (1 - n + 1 - c) / 2 if rules.favor_small else (n + c) / 2
        most = max(p.factor for p in cluster.partitions.values()) or 1
        best = max((q.priority for q in cluster.qos.values()), default=0) or 1
        qos = cluster.qos[request.qos].priority if request.qos in cluster.qos else 0
        p = cluster.partitions[partition]
        amounts = {
            "cpu": request.cpus,
            "mem": max(request.memory, 0) * asked or request.cpus * request.memory_per_cpu_in(p),
            "node": asked,
            "gres/gpu": request.gpus * asked,
        }
        if rules.normal_tres:
            nodes = [cluster.nodes[n] for n in p.nodes]
            whole = {
                "cpu": sum(n.cpus for n in nodes),
                "mem": sum(n.memory for n in nodes),
                "node": len(nodes),
                "gres/gpu": sum(sum(n.gpus.values()) for n in nodes),
            }
            amounts = {name: amount / whole[name] if whole[name] else 0 for name, amount in amounts.items()}
        tres = sum(weight * amounts[name] for name, weight in rules.tres.items())
        return (
            rules.age * age,
            rules.fair_share * self.factors.get((request.account, request.user), 0.0),
            rules.size * min(1.0, max(0.0, size)),
            rules.partition * cluster.partitions[partition].factor / most,
            rules.qos * qos / best,
            tres,
        )

    def of(self, job, partition, now, eligible, cpus):
        """Return the priority as a whole number, at least 1; `cpus` are those that its size counts."""
        age, share, size, *rest = self.parts(job, partition, now, eligible, cpus)
        return max(1, int(age + share + size + (sum(rest) - self.requests[job].nice)))


def view_of(request, partition, waited, now):
    """Return what an order sees of a job that has waited so long; times are from the first submission."""
    limit = request.limit_in(partition)
    return JobView(now - waited, limit, request.cpus, 0, 0, 0, 0, waited, now, 0, 0, 0)


def own_cpus(state, part):
    """Return a job's processors of each of its nodes, without those that one of a higher tier shares."""
    if not state.suspending:
        return part.cpus
    own = list(part.cores)
    for other in state.running.values():
        one, two = ((-state.tier(p), state.requests[p.job].rank) for p in (other, part))
        if one < two:
            for k, node in enumerate(part.nodes):
                if node in other.nodes:
                    own[k] &= ~other.cores[other.nodes.index(node)]
    return [cores.bit_count() for cores in own]


def planned_places(policy, guard, state, waiting, order, now, first):
    """Return the place of each waiting job in a rollout's order: nodes in service are one pool of processors."""
    cluster, requests = state.cluster, state.requests
    inside = numbers(state.available)
    running = [
        SimpleNamespace(
            number=part.job,
            start=part.start - first,
            walltime=part.end - part.start,
            processors=sum(c for n, c in zip(part.nodes, own_cpus(state, part), strict=True) if n in inside),
        )
        for part in state.running.values()
    ]
    free = sum(state.free.cpus[node] for node in inside)
    most = free + sum(part.processors for part in running)
    jobs, views = [], {}
    for job in sorted(waiting, key=order.index):
        request, name = requests[job], requests[job].partitions[0]
        partition, width = cluster.partitions[name], request.cpus
        if request.exclusive or partition.exclusive:
            sizes = [cluster.nodes[n].cpus for n in numbers(state.candidates(job, name))]
            # No node suits a job that leaves out the one that it lists: it never starts.
            smallest = min(sizes, default=0)
            width = max(width, request.least_nodes * smallest)
        view = view_of(request, partition, now - state.eligible[job], now - first)
        views[order.index(job)] = view
        jobs.append(
            SimpleNamespace(
                number=order.index(job),
                submit=view.submit_time,
                walltime=view.walltime,
                processors=min(width, most),
            )
        )
    machine = SimpleNamespace(
        waiting=jobs,
        running=running,
        free=free,
        released=(),
        accounts=SimpleNamespace(view=lambda job, _: views[job.number]),
    )
    sequence = RolloutTwin(policy, guard).sequence(machine, now - first)
    return {order[job.number]: place for place, job in enumerate(sequence)}


def reference_replay(cluster, requests, phases, start=None, score=None, guard=None, pauses=None):
    """Replay jobs second by second; return {job: (start, end, nodes)}, and the suspensions in `pauses`, a list.

    With a score, a function of a job's view or a rollout, the queue is ordered by it instead of the priority.
    """
    state, priority = Reference(cluster, requests), Priority(cluster, requests)
    clocks, rules = cluster.clocks, cluster.priorities
    order = sorted(range(len(requests)), key=lambda j: requests[j].rank)
    submitted, waiting, stored, ends, schedule = 0, [], {}, {}, {}
    now = requests[order[0]].submit if start is None else start.now
    due, last_pass, touched = math.inf, now - 60, False
    next_backfill = now + (phases.backfill - now) % clocks.bf_interval

    def value(job, partition):
        return (
            priority.of(job, partition, now, state.eligible[job], state.sizes[job])
            if rules.multifactor
            else (1 << 32) - order.index(job)
        )

    def queue():
        first = requests[order[0]].submit
        looks = isinstance(score, Rollout) and waiting
        places = planned_places(score, guard, state, waiting, order, now, first) if looks else {}
        records = [
            Record(j, name, stored[j, name], places[j] if looks else rank(j, name))
            for j in waiting
            for name in requests[j].partitions
            if requests[j].may_run_in(cluster.partitions[name])
        ]
        tiers = {name: p.tier for name, p in cluster.partitions.items()}
        return sorted(records, key=lambda r: (-tiers[r.partition], r.rank, order.index(r.job)))

    def rank(job, partition):
        if score is None:
            return -stored[job, partition]
        # A job waits from when nothing but the queue stood before it.
        waited, first = now - state.eligible[job], requests[order[0]].submit
        if guard is not None and waited > guard:
            return -math.inf
        return score(view_of(requests[job], cluster.partitions[partition], waited, now - first))

    def note(part):
        job = part.job
        overdue = max(part.end + cluster.overtime, now)
        ends[job] = part.start + part.suspended + max(1, requests[job].run_time)
        if ends[job] > overdue:
            ends[job] = min(ends[job], overdue + (phases.timeout - overdue) % 30)
        schedule[job] = (part.start, ends[job], part.nodes)

    if start is not None:
        state.ticked = now
        # Those of fewest nodes first: a job of one node has all of its processors there, others get the rest.
        placed = sorted(start.running.items(), key=lambda item: (len(item[1][1]), item[1]))
        for job, (began, nodes) in placed:
            partition = next(
                p for p in requests[job].partitions if set(nodes) <= set(cluster.partitions[p].nodes)
            )
            part = state.part_on(job, partition, sorted(nodes), began, evenly=True)
            state.begin(part, start.now)
            note(part)
        for (account, user), used in start.usage.items():
            if (account, user) in cluster.accounts.users:
                priority.use(account, user, used)
        priority.last = now
        priority.factors = priority.shares(priority.usage)

    held, succeeded = set(), {}
    members = {}
    for job, request in enumerate(requests):
        members.setdefault(request.array or request.number, []).append(job)

    def may_start(job):
        """Tell whether all or any of what a job waits for has ended as it must; others than in the log have."""
        request = requests[job]
        as_it_must = {"afterany": (True, False), "afterok": (True,), "afternotok": (False,)}
        met = [
            all(succeeded.get(parent) in as_it_must[kind] for parent in members.get(number, ()))
            for kind, number in request.after
        ]
        if request.singleton:
            before = order[: order.index(job)]
            mine = request.user, request.name
            met.append(all(j in succeeded for j in before if (requests[j].user, requests[j].name) == mine))
        return not met or (any(met) if request.after_any else all(met))

    def arrive(job):
        begin = requests[job].begin
        if begin > now:
            state.eligible[job] = back[job] = begin
        else:
            waiting.append(job)
        stored.update({(job, name): value(job, name) for name in requests[job].partitions})

    back, direct = {}, math.inf
    requeued, requeued_before, ended_before, circles, since = 0, 0, 0, 0, now

    def follow_suspensions():
        """Note who was suspended and who goes on."""
        for part in state.changed:
            if part.since is not None:
                ends[part.job] = math.inf
            elif part.job in state.running:
                note(part)
        state.changed = []

    def follow_pass():
        """Note who had to go in a pass."""
        nonlocal direct, touched, requeued
        follow_suspensions()
        for job in state.late:
            waiting.remove(job)
            schedule[job], succeeded[job] = (now, now, ()), False
            release()
        for part in state.warned:
            job, overdue = part.job, max(part.end, now + 1)
            ends[job] = min(ends[job], overdue + (phases.timeout - overdue) % 30)
        for part in state.parted:
            job = part.job
            waiting.remove(job)
            back[job], requeued, direct = now + 121, requeued + 1, min(direct, now + 1)
        state.parted = []
        for part in state.preempted:
            job = part.job
            use_until_now(part)
            direct = min(direct, now + 1)
            if state.requeues(part):
                back[job], requeued = now + 121, requeued + 1
                schedule.pop(job)
            else:
                schedule[job] = (part.start, now, part.nodes)
                succeeded[job] = False
                release()

    def use_until_now(part):
        last = priority.last if priority.last is not None else part.start
        if now > max(part.start, last):
            priority.add(part.job, state.billed(part), now - max(part.start, last))

    def release():
        """Let jobs wait for nodes that have waited for the end of others."""
        for child in sorted((j for j in held if may_start(j)), key=order.index):
            held.remove(child)
            state.eligible[child] = now
            arrive(child)

    def ask(when):
        """Ask for a main pass."""
        nonlocal due, touched
        grid = when - (when - phases.full) % clocks.sched_interval
        due, touched = min(due, max(when, max(last_pass, grid) + clocks.batch_sched_delay)), True

    def has_had_time(job):
        """Tell whether a job could have run twice since something else than making room has happened."""
        request = requests[job]
        partition = next(name for name in request.partitions if request.may_run_in(cluster.partitions[name]))
        lasts = min(max(1, request.run_time), request.limit_in(cluster.partitions[partition]))
        return now - max(since, request.begin) >= 2 * lasts

    edges = {edge for outage in cluster.outages for edge in (outage.start, outage.end)}
    settled = max(edges | {requests[order[-1]].submit})
    while submitted < len(order) or waiting or state.running or back:
        state.go_to(now)
        state.completing = 0
        touched = touched or now in edges
        if rules.multifactor and (now - phases.tick) % rules.period == 0:
            running = [(p.job, state.billed(p), p.start, math.inf) for p in state.running.values()]
            priority.tick(now, running)
            state.ticked = now
            state.eligible = [back.get(job, since) for job, since in enumerate(state.eligible)]
            stored.update(
                {(j, name): value(j, name) for j in [*waiting, *back] for name in requests[j].partitions}
            )
            touched = True
        while due_now := [(ends[j], order.index(j)) for j in state.running if ends[j] <= now]:
            job = order[min(due_now)[1]]
            part = state.end(job, now)
            follow_suspensions()
            use_until_now(part)
            ask(now + 1)
            killed = now - part.start - part.suspended < max(1, requests[job].run_time)
            if killed:
                # Its nodes are not usable before the message of the last one's epilog, which makes a pass.
                state.completing |= part.mask
                direct = min(direct, now + 1)
            if part.warned and killed and state.requeues(part):
                back[job], requeued = now + 121, requeued + 1
                schedule.pop(job)
                continue
            schedule[job] = (part.start, now, part.nodes)
            succeeded[job] = not requests[job].failed and not killed
            release()
        for job in sorted((j for j in back if back[j] <= now), key=order.index):
            state.eligible[job] = back.pop(job)
            asks = state.eligible[job] > requests[job].begin
            if state.holds_since(24_05_05):
                stored.update({(job, name): value(job, name) for name in requests[job].partitions})
            waiting.append(job)
            # Nothing looks at a job when its time to begin has come.
            if asks:
                ask(now)
        while submitted < len(order) and requests[order[submitted]].submit <= now:
            job = order[submitted]
            if job not in schedule:
                if may_start(job):
                    arrive(job)
                else:
                    held.add(job)
            submitted += 1
            ask(now)
        full = (now - phases.full) % clocks.sched_interval == 0
        if full or now >= min(due, direct):
            if full or now >= due:
                due, last_pass = math.inf, now
            if now >= direct:
                direct, touched = math.inf, True
            begun = state.main_pass(queue(), now, math.inf if full else clocks.default_queue_depth)
            touched = touched or bool(begun or state.late)
            for part in begun:
                waiting.remove(part.job)
                note(part)
            follow_pass()
            # Nothing will ever change again where limits hold what is left.
            ended = submitted == len(order) and not state.running and not back and all(e < now for e in edges)
            if (
                full
                and not begun
                and not state.late
                and ended
                and direct == math.inf
                and not (touched and cluster.backfill)
            ):
                break
        if cluster.backfill and touched and now >= next_backfill and (waiting or state.running):
            begun, _ = state.backfill_pass(queue(), now)
            parted = state.parted
            for part in begun:
                waiting.remove(part.job)
                note(part)
            follow_pass()
            touched, next_backfill = bool(begun or state.late or parted), now + clocks.bf_interval
        if len(succeeded) > ended_before or now <= settled:
            circles, since = 0, now
        elif requeued > requeued_before:
            circles += 1
            if circles >= CIRCLES and all(map(has_had_time, set(range(len(order))) - set(succeeded))):
                for job in state.running:
                    schedule.pop(job)
                break
        requeued_before, ended_before = requeued, len(succeeded)
        now += 1
    if pauses is not None:
        pauses += state.pauses
    return schedule
