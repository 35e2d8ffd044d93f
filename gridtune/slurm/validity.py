"""Checks of every schedule of a cluster of nodes, for any rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from gridtune.errors import ScheduleError
from gridtune.slurm.cluster import Node, SlurmCluster
from gridtune.slurm.limits import limits_on
from gridtune.slurm.replay import Result
from gridtune.slurm.requests import Request

__all__ = ["validate_result"]

#: Time limits are looked at every so many seconds.
_LOOK = 30
#: An interval in which something is in use: start, end, how much.
_Use = tuple[int, int, int]


def validate_result(cluster: SlurmCluster, requests: Sequence[Request], result: Result) -> None:
    """Check that a schedule is valid; a job that made room for others is judged by its last start.

    Raises
    ------
    ScheduleError
        Naming the job, or the node or limit and the instant: a start before the submission or before the end
        of what the job waits for, nodes that do not suit it or are out of service, too few processors, a
        wrong run time, a suspension before or after it, more on a node than it has, more at a time than a
        limit allows. Jobs that are suspended use no processors, but all else that they have.
    """
    most: dict[Hashable, int] = {}
    uses: dict[Hashable, list[_Use]] = defaultdict(list)
    pauses: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for job, since, until in result.pauses.tolist():
        pauses[job].append((since, until))
    for job, request in enumerate(requests):
        if result.start[job] < 0:
            continue
        for fault in _faults(cluster, request, result, job, pauses[job]):
            raise ScheduleError(f"job {request.number} (row {job}) {fault}")
        interval = int(result.start[job]), int(result.end[job])
        on_node = zip(*_shares(cluster, request, result, job), strict=True)
        whole = request.is_whole_in(cluster.partitions[result.partition[job]])
        for number, amounts in zip(result.nodes[job].tolist(), on_node, strict=True):
            node = cluster.nodes[number]
            has = {"cpu": node.cpus, "mem": node.memory, "gres/gpu": sum(node.gpus.values())}
            for (of, amount), used in zip(has.items(), amounts, strict=True):
                most[f"node {node.name}", of] = amount
                # Memory per processor may come to more than a whole node has: Slurm lets the job run.
                uses[f"node {node.name}", of].append((*interval, min(used, amount) if whole else used))
            # As long as it is suspended, its processors are free.
            uses[f"node {node.name}", "cpu"] += [(*pause, -amounts[0]) for pause in pauses[job]]
        cpus, memory, gpus = (sum(part) for part in _shares(cluster, request, result, job))
        nodes = len(result.nodes[job])
        total = {"jobs": 1, "cpu": cpus, "mem": memory, "node": nodes, "gres/gpu": gpus}
        whose = request.qos, request.account, request.user
        for whom, of, number in limits_on(cluster.limits, cluster.accounts, *whose):
            if of not in total:
                continue  # minutes change with every tick of the scheduler
            limited = job if whom is None else whom, of
            most[limited] = number
            uses[limited].append((*interval, total[of]))
        if request.array_most:
            array = f"array {request.array}", "jobs"
            most[array] = request.array_most
            uses[array].append((*interval, 1))
    for key, intervals in uses.items():
        _check_use(key, most[key], intervals)
    _check_dependencies(requests, result)


def _shares(
    cluster: SlurmCluster, request: Request, result: Result, job: int
) -> tuple[list[int], list[int], list[int]]:
    """Return the processors, MB and GPUs of a job on each of its nodes."""
    cpus = result.cpus[job].tolist()
    per_cpu = cluster.partitions[result.partition[job]].memory_per_cpu
    return cpus, [request.memory or per_cpu * count for count in cpus], [request.gpus] * len(cpus)


def _faults(
    cluster: SlurmCluster, request: Request, result: Result, job: int, pauses: list[tuple[int, int]]
) -> Iterator[str]:
    """Yield what is wrong with a job by itself."""
    start, end, nodes = int(result.start[job]), int(result.end[job]), result.nodes[job].tolist()
    cpus, partition = result.cpus[job].tolist(), cluster.partitions[result.partition[job]]
    limit, run = request.limit_in(partition), max(1, request.run_time)
    if start < request.submit:
        yield f"starts at {start}, before it is submitted at {request.submit}"
    if partition.name not in request.partitions:
        yield f"runs in the partition {partition.name}"
    most = request.most_nodes or len(cluster.nodes)
    if not request.least_nodes <= len(nodes) <= most or len(set(nodes)) < len(nodes):
        yield f"has {len(nodes)} nodes, not {request.least_nodes} to {most}"
    whole = request.is_whole_in(partition)
    for number, share in zip(nodes, cpus, strict=True):
        node = cluster.nodes[number]
        if number not in partition.nodes or not _suits(request, node, cluster, partition.name):
            yield f"is on node {node.name}, which does not suit it"
        if share < request.cpus_per_node or (whole and share != node.cpus):
            yield f"has {share} processors of node {node.name}"
    if sum(cpus) < request.cpus or (not whole and not request.tasks_per_node and sum(cpus) > request.cpus):
        yield f"has {sum(cpus)} processors, not {request.cpus}"
    # Each time that it is resumed, its limit is looked at again.
    ran = end - start - sum(until - since for since, until in pauses)
    most_time = limit + cluster.overtime + _LOOK * (1 + len(pauses))
    if any(since < start or until > end for since, until in pauses):
        yield "is suspended when it has not started or has ended"
    goes = cluster.preemption.class_of(request.qos, partition.name) in cluster.preemption.classes
    if ran != run and (ran > run or (ran < limit and not goes) or ran > most_time):
        yield f"runs for {ran} s, not {run}; its limit is {limit} s"
    for outage in cluster.outages:
        reach = start + limit if outage.planned else start + 1
        if outage.start < reach and outage.end > start and set(outage.nodes) & set(nodes):
            yield f"starts at {start} on nodes that are out of service from {outage.start} to {outage.end}"


def _suits(request: Request, node: Node, cluster: SlurmCluster, partition: str) -> bool:
    return request.suits(node, cluster.partitions[partition]) and request.has_gpus(node)


def _check_use(key: Hashable, most: int, intervals: list[_Use]) -> None:
    """Refuse more at a time than there is; an end makes room for a start at the same instant."""
    start, end, amount = np.array(intervals, dtype=np.int64).T
    times = np.concatenate([start, end])
    change = np.concatenate([amount, -amount])
    order = np.lexsort((change, times))
    used = np.cumsum(change[order])
    if used.max() > most:
        place = int(np.argmax(used > most))
        raise ScheduleError(f"{used[place]} of {most} in use at {times[order][place]}: {key}")


def _check_dependencies(requests: Sequence[Request], result: Result) -> None:
    members: dict[int, list[int]] = defaultdict(list)
    named: dict[tuple[str, str], list[int]] = defaultdict(list)
    order, run_time = sorted(range(len(requests)), key=lambda job: requests[job].rank), result.run_time
    for job in order:
        members[requests[job].array or requests[job].number].append(job)
    for job in order:
        request, start = requests[job], int(result.start[job])

        def ended(parents: list[int], kind: str, start: int = start) -> bool:
            well = [run_time[k] >= max(1, requests[k].run_time) for k in parents]
            fine = [ok and not requests[k].failed for ok, k in zip(well, parents, strict=True)]
            right = {"afterok": all(fine), "afternotok": not any(fine)}.get(kind, True)
            return right and all(0 <= result.end[k] <= start for k in parents)

        met = [ended(members[number], kind) for kind, number in request.after if number in members]
        mine = named[request.user, request.name]
        if request.singleton and mine:
            met.append(ended(mine, "afterany"))
        if request.after_any and len(met) < len(request.after) + request.singleton:
            met = []
        if start >= 0 and met and not (any(met) if request.after_any else all(met)):
            raise ScheduleError(
                f"job {request.number} (row {job}) starts at {start}, before the end of what it waits for"
            )
        mine.append(job)
