"""Jobs that run and wait on a cluster, as `squeue` prints it.

Source: https://slurm.schedmd.com/squeue.html
"""

from __future__ import annotations

import calendar
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.outages import PlacedReader, read_table
from gridtune.slurm.requests import Request, RequestCheck, features_of
from gridtune.workload.slurm import gpus_in, host_list

#: The command whose output is read.
_COMMAND = 'squeue -a -r -o "%i|%P|%u|%a|%q|%T|%V|%S|%M|%l|%C|%D|%m|%b|%f|%N|%r"'
#: Bits of a number that the task of an array takes; ids of jobs have no more.
TASK = 26
#: The columns that every file must have.
_COLUMNS = (
    *("JOBID", "PARTITION", "USER", "ACCOUNT", "QOS", "STATE"),
    *("SUBMIT_TIME", "START_TIME", "TIME", "TIME_LIMIT", "CPUS", "NODES"),
)
#: Reasons for which a job does not wait for its turn.
HELD = re.compile(r"Dependency.*|JobHeld.*|BeginTime|Licenses|Reservation|.*Limit.*|Invalid.*")


@dataclass(frozen=True)
class Queue:
    """The jobs of a cluster at an instant.

    Attributes
    ----------
    now
        Seconds since 1970, on the clock of the cluster.
    pending
        Jobs that wait for their turn.
    running
        Jobs that run, with their start and the numbers of their nodes.
    planned
        The start that Slurm plans for each pending job, in seconds, where it does.
    held
        Pending jobs that something else than their turn holds, by the reason, and jobs of other states; they
        are not in `pending`.
    """

    now: int
    pending: tuple[Request, ...]
    running: tuple[tuple[Request, int, tuple[int, ...]], ...]
    planned: Mapping[int, int]
    held: Mapping[str, int]


#: Seconds by which a given instant may differ from that of running jobs.
_LATE = 60


def read_queue(path: Path, cluster: SlurmCluster, now: int | None = None) -> Queue:
    """Read the output of `_COMMAND`.

    Parameters
    ----------
    path, cluster
        The file, and the cluster that it is of.
    now
        The instant at which squeue ran, seconds; by default start and elapsed time of what runs say it.

    Raises
    ------
    WorkloadError
        Naming the line: one that is cut off, a value that is none, an unknown partition, node or QOS, a job
        that no node can hold.
    """
    reader = QueueReader(path, cluster)
    for number, row in read_table(path, *_COLUMNS, hint=f"it takes all of the output of {_COMMAND}"):
        if row["JOBID"] != "JOBID":
            reader.add({name: value.strip() for name, value in row.items()}, number)
    ran = int(np.median(reader.instants)) if reader.instants else now
    if ran is None:
        raise WorkloadError("nothing runs, so the time of the file is unknown", path=path, hint="give --now")
    now = ran if now is None else now
    if abs(now - ran) > _LATE:
        given, said = (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(one)) for one in (now, ran))
        message = f"--now {given} is not when squeue ran: its running jobs started and ran until {said}"
        raise WorkloadError(message, path=path, hint="leave --now out")
    running = tuple((one, min(start, now), nodes) for one, start, nodes in reader.running)
    return Queue(now, tuple(reader.pending), running, reader.planned, reader.held)


class QueueReader(PlacedReader):
    """Reads jobs, each a row of `_COMMAND`."""

    def __init__(self, path: Path, cluster: SlurmCluster) -> None:
        super().__init__(path)
        self.cluster = cluster
        self.check = RequestCheck(cluster)
        self.number_of = {node.name: number for number, node in enumerate(cluster.nodes)}
        self.pending: list[Request] = []
        self.running: list[tuple[Request, int, tuple[int, ...]]] = []
        self.planned: dict[int, int] = {}
        self.held: Counter[str] = Counter()
        self.instants: list[int] = []

    def add(self, row: Mapping[str, str], line: int) -> None:
        """Take the job of a line."""
        self.place = (self.path, line)
        state, reason = row["STATE"], row.get("REASON", "")
        if state not in {"PENDING", "RUNNING", "CONFIGURING"}:
            self.held[state] += 1
            return
        request = self.request(row)
        if state != "PENDING":
            start = self._instant(row, "START_TIME")
            nodes = host_list(row.get("NODELIST", ""), self.path, line, "NODELIST")
            unknown = next((name for name in nodes if name not in self.number_of), None)
            if unknown is not None or not nodes:
                hint = "is it the slurm.conf of this cluster?"
                raise self.fault(f"no node {unknown!r}" if nodes else "no nodes", "NODELIST", hint)
            self.running.append((request, start, tuple(sorted(self.number_of[name] for name in nodes))))
            self.instants.append(start + self.seconds(row["TIME"], "TIME"))
        elif HELD.fullmatch(reason):
            self.held[reason] += 1
        else:
            self.pending.append(request)
            if row["START_TIME"] not in {"N/A", ""}:
                self.planned[request.number] = self._instant(row, "START_TIME")

    def request(self, row: Mapping[str, str]) -> Request:
        """Return the job of a row."""
        partitions = tuple(row["PARTITION"].split(","))
        unknown = next((name for name in partitions if name not in self.cluster.partitions), None)
        if unknown is not None:
            hint = f"there are {', '.join(self.cluster.partitions)}"
            raise self.fault(f"no partition {unknown!r} in slurm.conf", "PARTITION", hint)
        if self.cluster.qos and row["QOS"] not in {*self.cluster.qos, "", "(null)", "N/A"}:
            hint = f"sacctmgr's list has {', '.join(self.cluster.qos)}"
            raise self.fault(f"no QOS {row['QOS']!r}", "QOS", hint)
        cpus, nodes = self.whole(row["CPUS"], "CPUS"), self.whole(row["NODES"].partition("-")[0], "NODES")
        limit = row["TIME_LIMIT"]
        text = row.get("TRES_PER_NODE", "").replace("gres:", "").replace("gres/", "")
        try:
            gpus = gpus_in(text)
        except ValueError as error:
            raise self.fault(str(error), "TRES_PER_NODE") from None
        kind = next((kind for kind in gpus if kind), "")
        features = row.get("FEATURES", "")
        leader, component, _ = row["JOBID"].partition("+")
        request = Request(
            self._number(row["JOBID"]),
            self._instant(row, "SUBMIT_TIME"),
            0,
            -1 if limit in {"UNLIMITED", "INVALID", "NOT_SET"} else self.seconds(limit, "TIME_LIMIT"),
            row["USER"],
            row["ACCOUNT"],
            partitions,
            row["QOS"],
            cpus,
            cpus // nodes if nodes and cpus % nodes == 0 else 0,
            nodes=max(1, nodes),
            most_nodes=max(1, nodes),
            fewest=True,
            memory=self._memory(row.get("MIN_MEMORY", ""), -(-cpus // max(1, nodes))),
            gpus=sum(count or 1 for count in gpus.values()),
            gpu_type=kind,
            features=() if features in {"", "(null)"} else features_of(features),
            # Where jobs are preempted, components are taken as jobs: see RequestCheck.
            component_of=0 if self.cluster.preemption.preempts else self._number(leader) * bool(component),
        )
        try:
            self.check.check(request)
        except WorkloadError as error:
            raise self.fault(error.message, "JOBID", error.hint) from None
        return request

    def _number(self, text: str) -> int:
        """Return a job's number: of the task of an array one that no other job has."""
        match = re.fullmatch(r"(\d+)(?:_(\d+))?(?:\+(\d+))?", text)
        if match is None:
            raise self.fault(f"{text[:40]!r} is no job", "JOBID")
        job, task, part = (int(one or 0) for one in match.groups())
        return job if match[2] is None and match[3] is None else (job << TASK) + task + part

    def _memory(self, text: str, cpus: int) -> int:
        """Return MB per node of what squeue prints, "4000Mc" per processor."""
        match = re.fullmatch(r"([\d.]+)([KMGTP]?)([cn]?)", text)
        if match is None:
            return 0
        unit = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}[match[2]]
        return int(float(match[1]) * unit) * (cpus if match[3] == "c" else 1)

    def _instant(self, row: Mapping[str, str], field: str) -> int:
        try:
            return calendar.timegm(time.strptime(row[field], "%Y-%m-%dT%H:%M:%S"))
        except ValueError:
            raise self.fault(f"{row[field][:40]!r} is no time", field, "as 2026-01-05T08:30:00") from None
