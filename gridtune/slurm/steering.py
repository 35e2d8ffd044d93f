"""A real Slurm whose queue is put into the order of a policy, by the nice values of waiting jobs.

At each look the state is read from `squeue` and `sinfo`, the policy orders the jobs as a pass of a replay
would, and jobs that stand at the wrong place get another nice value. A decision is a line of the audit file,
which is on disk before the first command, so that all changes can be undone after a kill at any instant.

Sources: https://slurm.schedmd.com/squeue.html, `_update_job` in job_mgr.c and `_get_priority_internal` in
priority_multifactor.c: a new nice value changes the priority at once, under priority/basic too.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from gridtune.errors import SimulationError, WorkloadError
from gridtune.slurm.cluster import Outage, SlurmCluster
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.queue import HELD, QueueReader
from gridtune.slurm.replay import queue_order
from gridtune.slurm.requests import Request
from gridtune.slurm.versions import version_of
from gridtune.workload.slurm import host_list

#: What orders a queue: see `replay`.
_Policy: TypeAlias = Any
#: Between the priorities of two jobs, where all get new ones.
_GAP = 16
#: The least priority that is set: Slurm keeps 0 for held jobs, and sets 1 for all that come below it.
_LEAST = 2
#: Slurm takes nice values up to this, on either side of 0.
_MOST_NICE = (1 << 31) - 3
#: Seconds by which the clocks of this machine and of slurmctld may differ, and by which this one may jump.
_CLOCKS = 60
#: States of jobs that wait or run, perhaps with others beside; and states in which nothing can be done.
_WAITS, _RUNS = "PENDING", "RUNNING"
_OTHER = frozenset(
    {"SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "REQUEUED"}
    | {"REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REVOKED", "POWER_UP_NODE"}
    | {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"}
    | {"OUT_OF_MEMORY", "LAUNCH_FAILED", "UPDATE_DB", "RECONFIG_FAIL", "EXPEDITING"}
)
#: States of nodes, of which each has one, and those of nodes that start no jobs.
_NODES = frozenset({"IDLE", "ALLOCATED", "MIXED", "DOWN", "ERROR", "FUTURE", "UNKNOWN"})
_OUT = frozenset({"DOWN", "ERROR", "FUTURE", "UNKNOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "INVALID_REG"})
#: Messages of scontrol on a job that has ended meanwhile.
_GONE = ("Invalid job id", "already completing or completed", "Job has already finished")
_FOREVER = 1 << 59


class _Standing(NamedTuple):
    """A job that may be moved: its priority, without its nice value, and as it is now."""

    number: int
    base: int
    priority: int


def _new_priorities(ranked: Sequence[_Standing]) -> dict[int, int]:
    """Return new priorities for as few jobs as possible, by number, after which all stand in this order.

    All stay within the priorities that they have without nice values, as far as these leave room: the jobs
    change places among themselves, and other jobs stay where they were relative to them.
    """
    if not ranked:
        return {}
    bases = [one.base for one in ranked]
    room = _GAP * (len(ranked) + 1)
    low = max(_LEAST, min(*bases, max(bases) - room))
    high = max(*bases, low + room)
    stay = _longest_falling([one.priority if low <= one.priority <= high else None for one in ranked])
    new: dict[int, int] = {}
    above, begin = high + 1, 0
    for place in [*stay, len(ranked)]:
        below = ranked[place].priority if place < len(ranked) else low - 1
        many = place - begin
        if above - below <= many:
            step = (high - low) // len(ranked)
            evenly = {one: high - k * step for k, one in enumerate(ranked)}
            return {one.number: value for one, value in evenly.items() if value != one.priority}
        for k in range(many):
            new[ranked[begin + k].number] = above - (above - below) * (k + 1) // (many + 1)
        above, begin = below, place + 1
    return new


def _longest_falling(values: Sequence[int | None]) -> list[int]:
    """Return the places of a longest sequence of values each below the one before; None is in none."""
    ends: list[int] = []  # the negative of the greatest last value, by length
    last: list[int] = []
    before: dict[int, int | None] = {}
    for place, value in enumerate(values):
        if value is None:
            continue
        length = bisect_left(ends, -value)
        ends[length : length + 1], last[length : length + 1] = [-value], [place]
        before[place] = last[length - 1] if length else None
    found: list[int] = []
    place_of: int | None = last[-1] if last else None
    while place_of is not None:
        found.append(place_of)
        place_of = before[place_of]
    return found[::-1]


@dataclass(frozen=True)
class _Job:
    """A job as squeue shows it; `request` is None for one that is not understood or not waiting its turn."""

    number: int
    states: frozenset[str]
    priority: int
    nice: int
    partitions: frozenset[str]
    part: str
    reason: str
    request: Request | None
    #: Of one that runs: its start, the numbers of its nodes, and its processors on each.
    runs: tuple[int, tuple[int, ...], tuple[int, ...]] | tuple[()]


@dataclass
class _Audit:
    """The file of decisions, locked while it is open for writing.

    A line has the values before and after each change: nice values, or priorities with `by` priority.
    """

    path: Path
    by: str
    writes: bool
    #: The value of each job before its first change, and the two that it may have since its last.
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.writes and not self.path.exists():
            return
        mode = "r+b" if self.path.exists() else "w+b"
        self._file = self.path.open(mode if self.writes else "rb")
        if self.writes:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                message, hint = "another process steers by this file", "end it: two would set the same jobs"
                raise SimulationError(message, path=self.path, hint=hint) from None
        text = self._file.read()
        # No change of a line without an end has been made: it is written before the commands.
        whole = text[: text.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                self._note(json.loads(line))
            except (ValueError, KeyError, TypeError):
                raise SimulationError(
                    f"is no decision: {line[:40]!r}", path=self.path, line=number, hint="name another file"
                ) from None
        if self.writes:
            self._file.truncate(len(whole))
            self._file.seek(len(whole))

    def _note(self, decision: Mapping[str, Any]) -> None:
        if decision["by"] != self.by:
            hint = "give that, or another file after an undo"
            raise SimulationError(f"has decisions --by {decision['by']}", path=self.path, hint=hint)
        for number, (was, new) in decision["set"].items():
            self.first.setdefault(int(number), was)
            self.last[int(number)] = was, new

    def write(self, decision: Mapping[str, Any]) -> None:
        """Add a decision, and return once it is on disk."""
        decision = {**decision, "by": self.by}
        self._file.write(json.dumps(decision).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._note(json.loads(json.dumps(decision)))


@dataclass
class _Steerer:
    """Talks to Slurm's commands."""

    cluster: SlurmCluster
    audit: _Audit
    policy: _Policy
    guard: int | None
    partitions: frozenset[str]
    above: int | None
    most: int
    timeout: float
    #: Jobs that others have changed, and values that Slurm has taken.
    strange: set[int] = field(default_factory=set)
    taken: dict[int, int] = field(default_factory=dict)
    looks: int = 0
    clocks: tuple[float, float] | None = None

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm."""
        try:
            return subprocess.run(words, capture_output=True, text=True, timeout=self.timeout, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SimulationError(f"{' '.join(words)}: {error}", hint="is slurmctld up?") from None

    def ask(self, command: str, kinds: Sequence[str]) -> tuple[str, list[Any]]:
        """Return the first of some lists that a command prints as JSON, with its name."""
        done, place = self.run(command, "--json"), f"{command} --json"
        if done.returncode:
            raise SimulationError(f"{place} fails: {done.stderr.strip()[:200]}", hint="is slurmctld up?")
        try:
            answer = json.loads(done.stdout)
            faults = answer.get("errors")
            kind = next(kind for kind in kinds if isinstance(answer.get(kind), list))
        except (ValueError, AttributeError, StopIteration):
            text = f"{place} prints no whole answer: …{done.stdout[-60:]!r}"
            raise SimulationError(text, hint="the openapi plugins of Slurm print JSON") from None
        if faults:
            raise SimulationError(f"{place} reports {faults}")
        return kind, answer[kind]

    def now(self) -> int:
        """Return the instant, if the clock has not jumped."""
        wall, steady = time.time(), time.monotonic()
        if self.clocks is not None:
            jump = (wall - self.clocks[0]) - (steady - self.clocks[1])
            if abs(jump) > _CLOCKS:
                raise SimulationError(f"the clock has jumped by {jump:,.0f} s", hint="start again")
        self.clocks = wall, steady
        return int(wall)

    def jobs(self) -> tuple[int, list[_Job]]:
        """Return the instant, and all jobs."""
        _, rows = self.ask("squeue", ["jobs"])
        now, jobs = self.now(), []
        reader = QueueReader(Path("squeue --json"), self.cluster)
        for place, row in enumerate(rows, start=1):
            try:
                jobs.append(_job_of(row, place, reader, now))
            except (KeyError, TypeError, ValueError) as error:
                text = f"squeue --json, job {place}: no or another {error}"
                raise SimulationError(text, hint="is it a release from 22.05 to 26.05?") from None
        return now, jobs

    def out_of_service(self) -> tuple[int, ...]:
        """Return the numbers of the nodes that start no jobs now."""
        kind, rows = self.ask("sinfo", ["sinfo", "nodes"])
        number_of, out = {node.name: number for number, node in enumerate(self.cluster.nodes)}, set()
        for place, row in enumerate(rows, start=1):
            try:
                nested = kind == "sinfo"
                state = row["node"]["state"] if nested else [row["state"], *row["state_flags"]]
                names = ",".join(row["nodes"]["nodes"]) if nested else row["name"]
            except (KeyError, TypeError) as error:
                raise SimulationError(f"sinfo --json, row {place}: no {error}") from None
            states = {name.upper() for name in state}
            if not states & _NODES:
                raise SimulationError(f"sinfo --json: nodes {names} are in an unknown state {state}")
            if states & _OUT:
                out |= {number_of.get(one, -1) for one in host_list(names, Path("sinfo --json"), place)}
        return tuple(sorted(out - {-1}))

    def decide(self) -> tuple[dict[str, Any], dict[int, int]]:
        """Look once; return the decision as a line of the audit, and the order of jobs as it should be."""
        now, jobs = self.jobs()
        out = self.out_of_service()
        cluster = replace(self.cluster, outages=(Outage(now, _FOREVER, out),) if out else ())
        waiting = [one for one in jobs if one.request is not None and not one.runs]
        requests = [one.request for one in waiting if one.request is not None]
        running = [(one.request, *one.runs) for one in jobs if one.request is not None and one.runs]
        order = [waiting[k] for k in queue_order(cluster, requests, running, now, self.policy, self.guard)]
        left = {one.number: reason for one in jobs if (reason := self._left(one))}
        mine = [self._standing(one) for one in order if one.number not in left]
        new = _new_priorities(mine)
        set_to: dict[str, tuple[int, int]] = {}
        for one in mine:
            if one.number in new and len(set_to) < self.most:
                set_to[str(one.number)] = self._change(one, new[one.number])
        self.looks += 1
        counts = Counter(left.values())
        places = {one.number: place for place, one in enumerate(mine)}
        return {"at": now, "jobs": len(mine), "left": dict(counts), "set": set_to}, places

    def _left(self, job: _Job) -> str:
        """Return why a job that waits is left alone, "" for one that is not, or that does not wait."""
        if job.states != {_WAITS}:
            return ""
        if job.priority == 0 or HELD.fullmatch(job.reason):
            return "held"
        if job.part or job.request is None:
            return job.part or "not understood"
        if self.partitions and not job.partitions <= self.partitions:
            return "of other partitions"
        self._find_strange(job)
        if job.number in self.strange:
            return "set by others"
        above = self.above is not None and self._standing(job).base > self.above
        return "above the limit" if above else ""

    def _find_strange(self, job: _Job) -> None:
        """Note a job that others have changed before the first look; later that is a reason to stop."""
        value, ours = self._value(job), self.audit.last.get(job.number)
        if self.audit.by == "priority":
            if job.nice != 0:
                self.strange.add(job.number)
            return
        taken = self.taken.get(job.number, value)
        if value in (ours or (0,)) and value == taken:
            return
        # A priority set by hand makes Slurm take a nice value without effect.
        if self.looks and ours and value not in ours and job.number not in self.strange:
            text = f"job {job.number} has nice {value}, set by others after {ours[1]} was"
            raise SimulationError(text, hint="does another program set priorities?")
        self.strange.add(job.number)

    def _value(self, job: _Job) -> int:
        return job.nice if self.audit.by == "nice" else job.priority

    def _standing(self, job: _Job) -> _Standing:
        base = job.priority + job.nice
        if self.audit.by == "priority" and job.priority == self.audit.last.get(job.number, (0, 0))[1]:
            base = self.audit.first[job.number]
        return _Standing(job.number, base, job.priority)

    def _change(self, one: _Standing, priority: int) -> tuple[int, int]:
        """Return the value before and after a change."""
        if self.audit.by == "priority":
            return one.priority, priority
        return one.base - one.priority, max(-_MOST_NICE, min(_MOST_NICE, one.base - priority))

    def apply(self, changes: Mapping[str, tuple[int, int]]) -> None:
        """Set values; jobs that have ended meanwhile are passed over."""
        for number, (_, new) in changes.items():
            if self._command("update", f"job={number}", f"{self.audit.by}={new}"):
                self.taken[int(number)] = new

    def _command(self, *words: str) -> bool:
        """Run scontrol; return False for a job that has ended."""
        done = self.run("scontrol", *words)
        text = (done.stderr or done.stdout).strip()
        if done.returncode and not any(message in text for message in _GONE):
            hint = "it needs an operator of Slurm: sacctmgr modify user NAME set adminlevel=operator"
            raise SimulationError(f"scontrol {' '.join(words)} fails: {text[:200]}", hint=hint)
        return done.returncode == 0

    def undo(self) -> tuple[dict[str, tuple[int, int]], int]:
        """Give jobs the values back that they had; return these, and how many jobs others have changed."""
        now, jobs = self.jobs()
        back, others = self._to_restore(jobs)
        if back:
            self.audit.write({"at": now, "undo": True, "set": back})
        for number, (_, first) in back.items():
            if self.audit.by == "nice":
                self._command("update", f"job={number}", f"nice={first}")
            else:
                self._command("release", number)
        if back and self.audit.by == "nice" and (rest := self._to_restore(self.jobs()[1])[0]):
            raise SimulationError(f"jobs {', '.join(rest)} still have other nice values", hint="undo again")
        return back, others

    def _to_restore(self, jobs: Sequence[_Job]) -> tuple[dict[str, tuple[int, int]], int]:
        back, others = {}, 0
        for job in jobs:
            value, first = self._value(job), self.audit.first.get(job.number)
            if first is None or value == first:
                continue
            # A running job keeps its nice value, which counts if it is requeued. A held one gets its own
            # priority with its release.
            if self.audit.by == "priority" and (job.states != {_WAITS} or job.priority == 0):
                continue
            if value in self.audit.last[job.number]:
                back[str(job.number)] = value, first
            else:
                others += self.audit.by == "nice"  # priorities change by themselves
        return back, others


def _number(value: Any) -> int | None:
    """Return a number of Slurm's JSON, plain or with the words set and infinite; None where it has none."""
    if isinstance(value, dict):
        return int(value["number"]) if value["set"] and not value["infinite"] else None
    return None if value is None else int(value)


def _job_of(row: Mapping[str, Any], place: int, reader: QueueReader, now: int) -> _Job:
    """Return a job of squeue's JSON."""
    state, number = row["job_state"], int(row["job_id"])
    states = frozenset([state] if isinstance(state, str) else state)
    if not states or not states <= _OTHER | {_WAITS, _RUNS}:
        raise SimulationError(f"job {number} is in an unknown state {state}", hint="nothing is done")
    submit, start, limit = (_number(row[f"{name}_time"]) or 0 for name in ("submit", "start", "eligible"))
    if submit > now + _CLOCKS or (_RUNS in states and start > now + _CLOCKS):
        text = f"job {number} is of the future: the clocks of this machine and of slurmctld differ"
        raise SimulationError(text, hint="set both by NTP")
    waits = states == {_WAITS}
    array = (_number(row["array_job_id"]) or 0) > 0
    part = "of an array" if array else "of a heterogeneous job" if _number(row["het_job_id"]) else ""
    priority, reason = _number(row["priority"]) or 0, str(row["state_reason"])
    request: Request | None = None
    if (waits and priority and not HELD.fullmatch(reason)) or states == {_RUNS}:
        reader.place = (reader.path, place)
        texts = _row_of(row, max(submit, limit) if waits else submit)
        try:
            request = reader.request(texts)
        except WorkloadError:
            if not waits:
                raise
    runs: tuple[int, tuple[int, ...], tuple[int, ...]] | tuple[()] = ()
    if states == {_RUNS} and request is not None:
        cpus = _cpus_of(row["job_resources"], reader)
        request = replace(request, tasks_per_node=0)
        runs = min(start, now), tuple(cpus), tuple(cpus.values())
    partitions = frozenset(str(row["partition"]).split(","))
    nice = _number(row["nice"]) or 0
    nice -= (nice >= 1 << 31) << 32  # 22.05 prints it without a sign
    return _Job(number, states, priority, nice, partitions, part, reason, request, runs)


def _cpus_of(resources: Mapping[str, Any], reader: QueueReader) -> dict[int, int]:
    """Return a running job's processors by the number of the node; 22.05 lists the cores instead."""
    if "allocated_nodes" not in resources:
        nodes = resources["nodes"]["allocation"]
        return {reader.number_of[one["name"]]: int(one["cpus"]["count"]) for one in nodes}
    cpus = {}
    for one in resources["allocated_nodes"]:
        number = reader.number_of[one["nodename"]]
        cores = sum(len(socket["cores"]) for socket in one["sockets"].values())
        cpus[number] = cores * reader.cluster.nodes[number].threads
    return cpus


def _row_of(row: Mapping[str, Any], submit: int) -> dict[str, str]:
    """Return a job as a row of `squeue -o`."""
    per_cpu, per_node = _number(row["memory_per_cpu"]), _number(row["memory_per_node"])
    return {
        "JOBID": str(row["job_id"]),
        "PARTITION": row["partition"],
        "USER": row["user_name"],
        "ACCOUNT": row["account"],
        "QOS": row["qos"],
        "SUBMIT_TIME": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(submit)),
        "TIME_LIMIT": "UNLIMITED" if (limit := _number(row["time_limit"])) is None else str(limit),
        "CPUS": str(_number(row["cpus"])),
        "NODES": str(_number(row["node_count"])),
        "MIN_MEMORY": f"{per_cpu}Mc" if per_cpu else f"{per_node}Mn" if per_node else "",
        "TRES_PER_NODE": row["tres_per_node"] or "",
        "FEATURES": row["features"] or "",
    }


def steer(
    *,
    slurm: Path,
    policy: str | None = None,
    guard: int | None = None,
    partition: Sequence[str] = (),
    above: int | None = None,
    by: Literal["nice", "priority"] = "nice",
    interval: int = 60,
    most: int = 100,
    looks: int | None = None,
    timeout: int = 30,
    audit: Path = Path("steer.jsonl"),
    apply: bool = False,
    undo: bool = False,
    slurm_version: str | None = None,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Steer the queue of a real Slurm; yield each decision, and lines that describe it.

    Parameters
    ----------
    slurm
        The folder of the cluster's slurm.conf.
    policy
        The order of the queue: a name, an expression or a rollout, as for `order=` of the system slurm.
    guard
        Seconds; jobs that have waited longer go first.
    partition
        Steer jobs of this partition alone; by default those of all.
    above
        Leave jobs alone whose priority, without their nice value, is above this.
    by
        Set nice values, or explicit priorities, which end the control of multifactor until an undo.
    interval
        Seconds from a decision to the next look.
    most
        The most changes of a decision.
    looks
        Stop after so many decisions; by default one with --dry-run, and none with --apply.
    timeout
        Seconds after which a command of Slurm that does not answer is a reason to stop.
    audit
        The file of decisions, from which they are undone.
    apply
        Change the queue; without it the changes are printed and not made.
    undo
        Restore what the decisions of the file have changed, and stop.
    slurm_version
        Release, such as 24.11.5; by default that of scontrol_show_config.txt in the folder.

    Raises
    ------
    SimulationError
        For any doubt about the state of Slurm. What was changed so far stays: see `undo`.
    """
    if policy is None and not undo:
        raise SimulationError("no policy to steer by", field="--policy", hint="such as --policy saf")
    cluster = read_cluster(slurm, version=version_of(slurm_version, slurm, None))
    file = _Audit(audit, by, writes=apply or undo)
    steerer = _Steerer(cluster, file, policy, guard, frozenset(partition), above, most, timeout)
    if undo:
        back, others = steerer.undo()
        lines = [f"{len(back)} jobs have their {by} value back"]
        lines += [f"{others} others were changed by others since, and left alone"] if others else []
        yield {"undo": True, "set": back, "others": others}, lines
        return
    done = 0
    while True:
        decision, places = steerer.decide()
        changes = decision["set"]
        if apply and changes:
            file.write(decision)
            steerer.apply(changes)
        yield decision, _lines(decision, places, by, apply)
        done += 1
        if done == (looks or (None if apply else 1)):
            return
        time.sleep(interval)


def _lines(decision: Mapping[str, Any], places: Mapping[int, int], by: str, apply: bool) -> list[str]:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(decision["at"]))
    left = ", ".join(f"{count} {reason}" for reason, count in decision["left"].items())
    text = f"{when}: {len(decision['set'])} of {decision['jobs']} jobs {'moved' if apply else 'would move'}"
    lines = [f"{text}{f'; left alone: {left}' if left else ''}"]
    if not apply:
        lines += [
            f"  job {number}: place {places[int(number)] + 1}, {by} {was} -> {new}"
            for number, (was, new) in decision["set"].items()
        ]
    return lines
