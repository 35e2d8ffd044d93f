"""The shutdown simulator in plain Python: slow, clear, and what the compiled one has to equal.

It keeps every core by itself, sorts whole lists where the kernels keep them sorted, and shares no code with
them. The rules are spelt out in `docs/shutdown.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["ReferenceCluster", "ReferenceJob", "reference_day"]

IDLE, SWITCHING_ON, SLEEPING, SWITCHING_OFF, COMPUTING = range(5)
#: Jobs that the scheduler, the policies and the observation see.
SEEN = 10


@dataclass
class ReferenceJob:
    """One job; times in minutes. `start` and `finish` are None until they happen."""

    submit: int
    cores: int
    walltime: int
    run: int
    user: int
    start: int | None = None
    finish: int | None = None
    promise: int = -1
    held: list[int] = field(default_factory=list)

    @property
    def effective(self) -> int:
        """How long it really runs: until it is done or killed."""
        return min(self.run, self.walltime)


class ReferenceCluster:
    """A day on the cluster, one minute a step.

    Parameters
    ----------
    jobs
        In order of submission.
    nodes, cores
        Nodes, and cores of each.
    watts
        Power in each state: `idle`, `computing`, `off`, `switching_off`, `switching_on`.
    minutes
        How long switching takes: `off`, `on`.
    tau
        Share of its walltime that a job may wait.
    every_late_job
        Penalise every late job in the queue, not only those the reservation holds back.
    horizon
        Minutes of the day.
    """

    def __init__(
        self,
        jobs: Sequence[ReferenceJob],
        *,
        nodes: int,
        cores: int,
        watts: Mapping[str, float],
        minutes: Mapping[str, int],
        tau: float = 0.5,
        every_late_job: bool = False,
        horizon: int = 1440,
    ) -> None:
        self.jobs, self.nodes, self.cores = list(jobs), nodes, cores
        self.watts, self.minutes, self.tau = watts, minutes, tau
        self.every_late_job, self.horizon = every_late_job, horizon
        self.now = 0
        self.reserved = 0
        self.powered = [SLEEPING] * nodes
        self.until = [-1] * nodes
        self.owner: list[ReferenceJob | None] = [None] * (nodes * cores)
        self.load = [0.0] * nodes
        self.coming = [job for job in self.jobs if job.cores <= nodes * cores]
        self.queue: list[ReferenceJob] = []
        self.ready: list[ReferenceJob] = []
        self.running: list[ReferenceJob] = []
        self.node_minutes = [0] * 5
        self.by_node = [[0] * 5 for _ in range(nodes)]
        self.reported_idle = 0
        self.core_minutes = 0
        self.switched_on = [0] * nodes
        self.switched_off = [0] * nodes
        self.score = 0.0

    # What can be seen -------------------------------------------------------------------------------

    def cores_of(self, node: int) -> range:
        """Return the cores of a node."""
        return range(node * self.cores, (node + 1) * self.cores)

    def state_of(self, node: int) -> int:
        """Return a node's state, idle and computing told apart."""
        if self.powered[node] != IDLE:
            return self.powered[node]
        return COMPUTING if any(self.computes(core) for core in self.cores_of(node)) else IDLE

    def computes(self, core: int) -> bool:
        """Tell whether a core runs a job, rather than waiting for it to start."""
        owner = self.owner[core]
        return owner is not None and owner.start is not None

    def available(self, node: int) -> bool:
        """Tell whether no job holds a core of a node."""
        return all(self.owner[core] is None for core in self.cores_of(node))

    def free_cores(self) -> int:
        """Return the number of cores that no job holds."""
        return sum(owner is None for owner in self.owner)

    def candidates(self) -> list[ReferenceJob]:
        """Return the oldest waiting job, then the others by requested area: the first ten."""
        if not self.queue:
            return []
        return [
            self.queue[0],
            *sorted(self.queue[1:], key=lambda job: job.walltime * job.cores),
        ][:SEEN]

    # A step -----------------------------------------------------------------------------------------

    def step(self, action: int) -> float:
        """Keep `action` nodes reserved for the next minute; return the reward."""
        self._reserve(action)
        for job in self._selected(self.reserved):
            self._allocate(job)
        self._start_ready()
        reward = self._reward()
        self.score += reward
        self._account()
        self.now += 1
        self._events()
        if self.now < self.horizon:
            self._start_ready()
        self._selected(self.reserved)
        return reward

    def _reserve(self, action: int) -> None:
        self.reserved = action
        if action <= 0:
            return
        available = [node for node in range(self.nodes) if self.available(node)]
        self.reserved = min(action, len(available))
        if self.queue and self.queue[0].promise == 0:
            self.reserved = min(self.reserved, self.nodes - math.ceil(self.queue[0].cores / self.cores))
        asleep = sum(self.powered[node] in (SLEEPING, SWITCHING_OFF) for node in available)
        on = [node for node in available if self.powered[node] == IDLE]
        for node in on[: max(0, self.reserved - asleep)]:
            self.powered[node] = SWITCHING_OFF
            self.until[node] = self.now + self.minutes["off"]
            self.load[node] = 0.0
            self.switched_off[node] += 1

    def _agenda(self) -> list[int]:
        """Return the requested minutes left on every core."""
        left = []
        for owner in self.owner:
            if owner is None:
                left.append(0)
            elif owner.start is None:
                left.append(owner.walltime)
            else:
                left.append(owner.start + owner.walltime - self.now)
        return sorted(left)

    def _selected(self, hidden: int) -> list[ReferenceJob]:
        """Run the scheduler with this many nodes hidden: return whom it would start, note promises."""
        visible = self._agenda()[self.cores * hidden :]
        chosen, rest = [], self.candidates()
        while rest and rest[0].cores <= visible.count(0):
            job = rest.pop(0)
            job.promise = 0
            chosen.append(job)
            visible = sorted([job.walltime] * job.cores + visible[job.cores :])
        if not rest:
            return chosen
        priority = rest.pop(0)
        if not visible:
            priority.promise = 0
        else:
            priority.promise = visible[min(priority.cores, len(visible)) - 1]
        zeros = visible.count(0)
        for job in rest:
            if priority.promise > 0 and job.cores <= zeros and job.walltime <= priority.promise:
                chosen.append(job)
                zeros -= job.cores
        return chosen

    def _allocate(self, job: ReferenceJob) -> None:
        free = [core for core, owner in enumerate(self.owner) if owner is None]
        free.sort(key=lambda core: (self.powered[core // self.cores], core))
        job.held = free[: job.cores]
        for core in job.held:
            self.owner[core] = job
        self.queue.remove(job)
        self.ready.append(job)

    def _start_ready(self) -> None:
        for job in list(self.ready):
            nodes = {core // self.cores for core in job.held}
            if all(self.powered[node] == IDLE for node in nodes):
                self.ready.remove(job)
                self.running.append(job)
                job.start = self.now
                self._add_load(job, 1)
                continue
            for node in nodes:
                if self.powered[node] == SLEEPING:
                    self.powered[node] = SWITCHING_ON
                    self.until[node] = self.now + self.minutes["on"]
                    self.load[node] = 0.0
                    self.switched_on[node] += 1

    def _add_load(self, job: ReferenceJob, sign: int) -> None:
        for node in {core // self.cores for core in job.held}:
            share = sum(core // self.cores == node for core in job.held) / self.cores
            self.load[node] += sign * share

    def _events(self) -> None:
        for job in list(self.running):
            if job.start is not None and job.start + job.effective == self.now:
                self.running.remove(job)
                job.finish = self.now
                self._add_load(job, -1)
                for core in job.held:
                    self.owner[core] = None
        while self.coming and self.coming[0].submit <= self.now:
            self.queue.append(self.coming.pop(0))
        for node in range(self.nodes):
            if self.until[node] == self.now:
                self.powered[node] = IDLE if self.powered[node] == SWITCHING_ON else SLEEPING
                self.until[node] = -1

    # Measures ---------------------------------------------------------------------------------------

    def _reward(self) -> float:
        """Return minus the energy wasted in this minute and the requests that are late."""
        power = {
            IDLE: self.watts["idle"],
            SWITCHING_ON: self.watts["switching_on"],
            SWITCHING_OFF: self.watts["switching_off"],
        }
        most = max(power.values())
        wasted = sum(power.get(self.state_of(node), 0) / most for node in range(self.nodes)) / self.nodes
        return -(wasted + self._lateness())

    def _lateness(self) -> float:
        total = self.nodes * self.cores
        if self.every_late_job:
            return sum(job.cores for job in self.queue if self._late(job)) / total
        if self.reserved > 0 and self.queue:
            return sum(job.cores / total for job in self._selected(0) if self._late(job))
        return 0.0

    def _late(self, job: ReferenceJob) -> bool:
        return (self.now - job.submit) / job.walltime >= self.tau

    def _account(self) -> None:
        for node in range(self.nodes):
            state = self.state_of(node)
            self.node_minutes[state] += 1
            self.by_node[node][state] += 1
            if self.powered[node] == IDLE and not self.load[node] > 0:
                self.reported_idle += 1
        self.core_minutes += sum(self.computes(core) for core in range(len(self.owner)))

    def observe(self) -> list[float]:
        """Return the 48 numbers that a network sees."""
        total = self.nodes * self.cores
        counts = [0] * 5
        for core in range(total):
            powered = self.powered[core // self.cores]
            counts[COMPUTING if self.computes(core) else powered] += 1
        promise = self.queue[0].promise if self.queue else -1
        seen = [
            *(count / total for count in counts),
            self.now % 1440 / 1440,
            math.log(1 + min(len(self.queue), 1500)) / math.log(1501),
            math.log(2 + promise) / math.log(4402),
        ]
        inside = [*self.queue, *self.ready, *self.running]
        for job in self.candidates():
            same = sum(other.user == job.user for other in inside)
            wait = self.now - job.submit
            seen += [
                job.cores / total,
                math.log(1 + job.walltime) / math.log(4401),
                # Whoever may not wait at all is at the limit from the start.
                min(1.0, wait / (job.walltime * self.tau)) if self.tau > 0 else 1.0,
                min(1.0, same / 50),
            ]
        return seen + [0.0] * (8 + 4 * SEEN - len(seen))


def reference_day(
    cluster: ReferenceCluster, policy: Callable[[ReferenceCluster], int]
) -> list[tuple[int, float]]:
    """Live a whole day; return the action and the reward of every minute."""
    told = []
    while cluster.now < cluster.horizon:
        action = policy(cluster)
        told.append((action, cluster.step(action)))
    return told
