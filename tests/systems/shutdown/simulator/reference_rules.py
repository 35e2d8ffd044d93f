"""The rules in plain Python: what the compiled ones have to equal, on the twin's cluster."""

from __future__ import annotations

import copy
import math

from tests.systems.shutdown.simulator.reference import (
    IDLE,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    ReferenceCluster,
    ReferenceJob,
)

__all__ = ["ReferenceAdaptive", "ReferenceLookahead", "ReferenceOracle", "ReferenceTimeout"]


class ReferenceTimeout:
    """T(k): keep off what sleeps and what has been idle for `timeout` minutes."""

    def __init__(self, timeout: int) -> None:
        self.timeout = timeout
        self.idle: dict[int, int] = {}

    def __call__(self, cluster: ReferenceCluster) -> int:
        """Return how many nodes to keep reserved."""
        free = cluster.free_cores()
        free -= self.claimed(cluster, free)
        return self.reservation(cluster, free)

    def claimed(self, cluster: ReferenceCluster, free: int) -> int:
        """Return how many cores the waiting jobs that can start will take."""
        claimed, opened, promise = 0, False, 0
        for position, job in enumerate(cluster.candidates()):
            if position == 0:
                opened = job.promise == 0 or job.cores <= free
                promise = job.promise
                claimed += job.cores if opened else 0
            elif job.cores <= free - claimed and (opened or job.walltime <= promise):
                claimed += job.cores
        return claimed

    def reservation(self, cluster: ReferenceCluster, free: int) -> int:
        """Count nodes off, and idle for long enough, as long as free cores are left."""
        reserved = 0
        for node in range(cluster.nodes):
            if free < cluster.cores:
                break
            idle = cluster.state_of(node) == IDLE
            self.idle[node] = self.idle.get(node, 0) + 1 if idle else -1
            if self.idle[node] >= self.timeout or cluster.powered[node] in (SLEEPING, SWITCHING_OFF):
                reserved += 1
                free -= cluster.cores
        return reserved


class ReferenceOracle(ReferenceTimeout):
    """OR*: as T(0), but a job that can still wait for running ones to end claims no cores.

    It knows how long jobs really run.
    """

    def __init__(self, max_stretch: float) -> None:
        super().__init__(0)
        self.max_stretch = max_stretch

    def claimed(self, cluster: ReferenceCluster, free: int) -> int:
        """Return how many cores are needed now."""
        releases = sorted(
            job.run - (cluster.now - job.start)
            for job in cluster.running
            if job.start is not None
            for _ in range(job.cores)
        )

        def can_wait(job: ReferenceJob) -> bool:
            waited = cluster.now - job.submit
            if not releases or waited / job.walltime >= self.max_stretch:
                return False
            release = releases[min(job.cores, len(releases)) - 1]
            return (cluster.now + release - job.submit) / job.walltime < self.max_stretch

        claimed, opened, promise = 0, False, 0
        for position, job in enumerate(cluster.candidates()):
            if position == 0:
                forced = job.promise == 0
                opened = forced or job.cores <= free
                promise = job.promise
                claims = forced or (opened and not can_wait(job))
            else:
                fits = job.cores <= free - claimed and (opened or job.walltime <= promise)
                claims = fits and not can_wait(job)
            if claims:
                claimed += job.cores
                releases = sorted(releases + [job.walltime] * job.cores)
        return claimed


class ReferenceAdaptive:
    """Let jobs wait for nodes that are on: `adaptive` of `replay`."""

    def __init__(
        self,
        *,
        timeout: float = 0,
        max_stretch: float = 0.5,
        max_wait: float = 60,
        eagerness: float = 0.6,
    ) -> None:
        self.timeout, self.max_stretch, self.max_wait = timeout, max_stretch, max_wait
        self.eagerness = eagerness
        self.idle_since: dict[int, int] = {}

    def __call__(self, cluster: ReferenceCluster) -> int:
        """Return how many nodes to keep reserved."""
        unheld = [node for node in range(cluster.nodes) if cluster.available(node)]
        idle = [node for node in unheld if cluster.powered[node] == IDLE]
        self.idle_since = {node: self.idle_since.get(node, cluster.now) for node in idle}
        return min(self.best(cluster, len(unheld)), len(unheld) - self.kept(cluster, idle))

    def best(self, cluster: ReferenceCluster, unheld: int) -> int:
        """Return the reservation whose dry pass is the best."""
        if not cluster.queue:
            return unheld
        head = cluster.queue[0]
        most = unheld
        if head.promise == 0:
            most = min(most, cluster.nodes - math.ceil(head.cores / cluster.cores))
        return max(range(most + 1), key=lambda reserved: (*self.worth(cluster, reserved), reserved))

    def worth(self, cluster: ReferenceCluster, reserved: int) -> tuple[float, float, float]:
        """Return what a reservation starts: pressing cores; the balance of cores; all cores."""
        started = self.dry_pass(cluster, reserved)
        cores = sum(job.cores for job in started)
        awake = sum(
            owner is None and cluster.powered[core // cluster.cores] in (IDLE, SWITCHING_ON)
            for core, owner in enumerate(cluster.owner)
        )
        woken = math.ceil(max(0, cores - awake) / cluster.cores) * cluster.cores
        pressing = sum(job.cores for job in started if self.presses(cluster, job))
        return pressing, self.eagerness * cores - woken, cores

    def dry_pass(self, cluster: ReferenceCluster, reserved: int) -> list[ReferenceJob]:
        """Return whom the scheduler would start; promises stay as they are."""
        promises = [job.promise for job in cluster.queue]
        started = cluster._selected(reserved)
        for job, promise in zip(cluster.queue, promises, strict=True):
            job.promise = promise
        return started

    def presses(self, cluster: ReferenceCluster, job: ReferenceJob) -> bool:
        """Tell whether a job can wait no longer than a boot takes."""
        start = cluster.now + 1 + cluster.minutes["on"]
        patience = min(self.max_stretch * job.walltime, self.max_wait)
        return start - job.submit >= patience

    def kept(self, cluster: ReferenceCluster, idle: list[int]) -> int:
        """Return how many idle nodes stay on."""
        return sum(cluster.now - self.idle_since[node] < self.timeout for node in idle)


class ReferenceLookahead(ReferenceAdaptive):
    """Play choices forward, the adaptive rule after them: `lookahead` of `replay`."""

    first_guess, growth, margin, late_cost = 0.1, 2.0, 0.5, 2.0

    def __call__(self, cluster: ReferenceCluster) -> int:
        """Return how many nodes to keep reserved."""
        usual = super().__call__(cluster)
        if not cluster.queue:
            return usual
        unheld = [node for node in range(cluster.nodes) if cluster.available(node)]
        kept = self.kept(cluster, [node for node in unheld if cluster.powered[node] == IDLE])
        best, most = self.best(cluster, len(unheld)), len(unheld)
        if cluster.queue[0].promise == 0:
            most = min(most, cluster.nodes - math.ceil(cluster.queue[0].cores / cluster.cores))
        started = before = set(map(id, self.dry_pass(cluster, best)))
        pressed = self.urgent(cluster, best)
        least = self.cost(cluster, best) - self.margin * self.cycle(cluster)
        for reserved in range(most, -1, -1):
            jobs = set(map(id, self.dry_pass(cluster, reserved)))
            if jobs not in (started, before) and self.urgent(cluster, reserved) >= pressed:
                cost = self.cost(cluster, reserved)
                if cost < least:
                    best, least = reserved, cost
            before = jobs
            if len(jobs) == len(cluster.candidates()):
                break
        return min(best, len(unheld) - kept)

    def urgent(self, cluster: ReferenceCluster, reserved: int) -> int:
        """Return the cores of the jobs that start and may not wait any longer."""
        return sum(job.cores for job in self.dry_pass(cluster, reserved) if self.presses(cluster, job))

    def cycle(self, cluster: ReferenceCluster) -> float:
        """Return the energy of a boot and a shutdown."""
        on, off = (self.share(cluster, name) for name in ("switching_on", "switching_off"))
        return on * cluster.minutes["on"] + off * cluster.minutes["off"]

    def share(self, cluster: ReferenceCluster, state: str) -> float:
        """Return a state's power as a share of the largest wasted one."""
        return cluster.watts[state] / max(
            cluster.watts[name] for name in ("idle", "switching_on", "switching_off")
        )

    def guess(self, cluster: ReferenceCluster, job: ReferenceJob) -> int:
        """Return how long a job is guessed to take."""
        ended = [
            (other.finish, other.start, other.finish - other.start)
            for other in cluster.jobs
            if other.user == job.user and other.finish is not None and other.start is not None
        ]
        age = 0 if job.start is None else cluster.now - job.start
        took = max(ended)[2] if ended else -1
        if took <= age:
            took = max(int(job.walltime * self.first_guess), int(age * self.growth))
        return min(max(took, age + 1), job.walltime)

    def cost(self, cluster: ReferenceCluster, action: int) -> float:
        """Return the cost of an action that the adaptive rule follows, on a copy without the future."""
        played, rule = copy.deepcopy(cluster), copy.copy(self)
        rule.idle_since = dict(self.idle_since)
        played.node_minutes, played.coming = [0] * 5, []
        played.jobs = [job for job in played.jobs if job.submit <= played.now]
        for job in (*played.queue, *played.ready, *played.running):
            job.run = self.guess(cluster, job)
        patient = [job for job in played.queue if played.now - job.submit < played.tau * job.walltime]
        while played.now < played.horizon:
            played.step(action)
            if not played.queue and not played.ready:
                break
            action = ReferenceAdaptive.__call__(rule, played)
        on = sum(state in (IDLE, SWITCHING_ON) for state in played.powered) * played.minutes["off"]
        off = sum(
            until - played.now
            for until, state in zip(played.until, played.powered, strict=True)
            if state == SWITCHING_OFF
        )
        late = sum(
            job.start is not None and job.start - job.submit >= played.tau * job.walltime for job in patient
        )
        idle, switching_on, switching_off = (
            self.share(cluster, name) for name in ("idle", "switching_on", "switching_off")
        )
        wasted = idle * played.node_minutes[IDLE] + switching_on * played.node_minutes[SWITCHING_ON]
        wasted += switching_off * (played.node_minutes[SWITCHING_OFF] + on + off)
        return wasted + late * self.late_cost * self.cycle(cluster)
