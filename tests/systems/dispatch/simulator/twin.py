"""The dispatch simulator in plain Python: slow and clear; the compiled one must equal it.

Queues are lists, every second's events are searched for in all machines, and no code is shared with the
kernels. The rules are spelt out in `docs/dispatch.md`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["ReferenceBroker", "ReferenceJob", "ReferenceMachine", "ReferenceSite"]


@dataclass
class ReferenceJob:
    """One job; times in seconds, None until they happen."""

    number: int
    submit: int
    length: int
    estimate: int
    deadline: int
    machine: int | None = None
    placed: int | None = None
    start: int | None = None
    end: int | None = None
    finish: int | None = None
    predicted: int = 0
    chance: float | None = None
    overruled: bool = False


@dataclass
class ReferenceMachine:
    """One machine with its queue, and the jobs it runs."""

    factor: float
    cpus: int
    downs: int = 0
    queue: list[ReferenceJob] = field(default_factory=list)
    running: list[ReferenceJob] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether a processor is free and the machine is up."""
        return self.downs == 0 and len(self.running) < self.cpus


class ReferenceSite:
    """Machines and the jobs that come, second by second.

    Parameters
    ----------
    jobs
        In order of submission.
    machines
        The machines.
    changes
        Time, machine, kind (`speed`, `failure`, `repair`) and value of each, in order of time.
    """

    def __init__(
        self,
        jobs: Sequence[ReferenceJob],
        machines: Sequence[ReferenceMachine],
        changes: Sequence[tuple[int, int, str, float]] = (),
    ) -> None:
        self.jobs, self.machines = list(jobs), list(machines)
        self.coming, self.changes = deque(self.jobs), deque(changes)
        self.ended: list[ReferenceJob] = []
        # Where machines pull: what waits for any of them.
        self.shared: list[ReferenceJob] | None = None
        self.lookahead: float | None = None
        self.believed = [1.0] * len(self.machines)
        self.now = self.restarts = self.moves = 0

    def next_job(self) -> ReferenceJob | None:
        """Let time pass until a job comes and return it; None once all have ended."""
        while len(self.ended) < len(self.jobs):
            running = [job for machine in self.machines for job in machine.running]
            times = [job.end for job in running if job.end is not None]
            times += [self.changes[0][0]] if self.changes else []
            times += [self.coming[0].submit] if self.coming else []
            self.now = min(times)
            for job in sorted(running, key=lambda job: job.number):
                if job.end == self.now:
                    self._of(job).running.remove(job)
                    job.finish = self.now
                    self.ended.append(job)
            while self.changes and self.changes[0][0] == self.now:
                self._change(*self.changes.popleft()[1:])
            self.start_all()
            if self.coming and self.coming[0].submit == self.now:
                return self.coming.popleft()
        return None

    def _of(self, job: ReferenceJob) -> ReferenceMachine:
        if job.machine is None:
            raise ValueError(f"job {job.number} is nowhere")
        return self.machines[job.machine]

    def _change(self, index: int, kind: str, value: float) -> None:
        machine = self.machines[index]
        if kind == "speed":
            for job in machine.running:
                left = (job.end or 0) - self.now
                job.end = self.now + max(1, round(left * (value / machine.factor)))
            machine.factor = value
        elif kind == "failure":
            machine.downs += 1
            thrown = sorted(machine.running, key=lambda job: job.number)
            for job in thrown:
                job.start = job.end = None
            queue = machine.queue if self.shared is None else self.shared
            queue[:0] = thrown
            machine.running.clear()
            self.restarts += len(thrown)
        else:
            machine.downs -= 1

    def start_all(self) -> None:
        """Start jobs on all machines, from their own queues or from the shared one."""
        if self.shared is None:
            for index, machine in enumerate(self.machines):
                while machine.idle and machine.queue:
                    self._start(index, machine.queue)
            return
        while self.shared and any(machine.idle for machine in self.machines):
            idle = [index for index, machine in enumerate(self.machines) if machine.idle]
            index = min(idle, key=lambda index: self.believed[index])
            self.shared[self._next(index, self.shared)].placed = self.now
            self._start(index, self.shared)

    def _next(self, index: int, queue: Sequence[ReferenceJob]) -> int:
        """Return the position of the job that a machine takes."""
        if self.lookahead is None:
            return 0
        costs = apparent_costs(queue, self.believed[index], self.lookahead, self.now)
        return costs.index(max(costs))

    def _start(self, index: int, queue: list[ReferenceJob]) -> None:
        machine = self.machines[index]
        job = queue.pop(self._next(index, queue))
        job.machine, job.start = index, self.now
        job.end = self.now + max(1, round(job.length * machine.factor))
        machine.running.append(job)

    def place(self, job: ReferenceJob, index: int, position: int) -> None:
        """Put a job into a queue at a position."""
        self.moves += job.machine is not None and job.machine != index
        job.machine, job.placed = index, self.now
        self.machines[index].queue.insert(position, job)
        self.start_all()


def apparent_costs(queue: Sequence[ReferenceJob], factor: float, lookahead: float, now: int) -> list[float]:
    """Return each job's apparent tardiness cost, as a logarithm: the most urgent has the largest."""
    mean = sum(job.estimate for job in queue) / len(queue) * factor
    costs = []
    for job in queue:
        seconds = job.estimate * factor
        slack = max(0.0, job.deadline - seconds - now)
        costs.append(-slack / (lookahead * mean) - math.log(seconds))
    return costs


def first_above(own: int, keys: Sequence[int]) -> int:
    """Return the position of the first larger key, or the queue's end."""
    larger = [position for position, key in enumerate(keys) if key > own]
    return larger[0] if larger else len(keys)


class ReferenceBroker:
    """Rules, predictions and tabu search on a `ReferenceSite`.

    Parameters
    ----------
    site
        Where it sends jobs.
    rule
        `random`, `round_robin`, `first_available`, `edd`, `erd`, `spt`, `atc` or `shared_queue`.
    speeds
        `known`, `learned` or `nominal`.
    chances
        A random number for each job.
    order, lookahead, repair_every, repair_steps, assisted, forget
        As in `gridtune.systems.dispatch.simulator.replay.dispatch`.
    """

    def __init__(
        self,
        site: ReferenceSite,
        rule: str,
        speeds: str,
        chances: Sequence[float],
        *,
        order: str = "shortest",
        lookahead: float = 2.0,
        repair_every: int = 0,
        repair_steps: int = 10,
        assisted: bool = False,
        forget: float = 0.95,
    ) -> None:
        self.site, self.rule, self.speeds, self.chances = site, rule, speeds, chances
        self.repair_every, self.repair_steps = repair_every, repair_steps
        self.assisted, self.forget = assisted, forget
        self.order, self.lookahead = order, lookahead
        self.factors = site.believed
        if rule == "shared_queue":
            site.shared = []
        if rule == "atc" or (rule == "shared_queue" and order == "atc"):
            site.lookahead = lookahead
        self.sums = [(0.0, 0.0, 0.0)] * len(site.machines)
        self.ratios: deque[float] = deque(maxlen=200)
        self.learned = self.recorded = 0

    def run(self) -> None:
        """Decide on every job."""
        while (job := self.site.next_job()) is not None:
            self.learn()
            if self.site.shared is not None:
                job.placed = self.site.now
                self.site.shared.insert(self.place_in(self.site.shared, job), job)
                self.site.start_all()
                continue
            index, position = self.decide(job)
            self.site.place(job, index, position)
            if self.repair_every and (job.number + 1) % self.repair_every == 0:
                self.tabu_search()

    def learn(self) -> None:
        """Take notice of the jobs that have ended."""
        for job in self.site.ended[self.learned :]:
            index = job.machine or 0
            if job.finish is None or job.placed is None or job.start is None:
                raise ValueError(f"job {job.number} has not ended")
            if job.predicted > 0:
                self.recorded += 1
                self.ratios.append((job.finish - job.placed) / job.predicted)
            log_factor = math.log((job.finish - job.start) / job.estimate)
            weight, logs, squares = (self.forget * value for value in self.sums[index])
            self.sums[index] = weight + 1.0, logs + log_factor, squares + log_factor * log_factor
        if self.speeds == "learned" and self.learned < len(self.site.ended):
            self.estimate_factors()
        self.learned = len(self.site.ended)
        if self.speeds == "known":
            self.factors[:] = [machine.factor for machine in self.site.machines]

    def estimate_factors(self) -> None:
        """Shrink each machine's mean logarithm towards the mean of all."""
        sums = [sums for sums in self.sums if sums[0] > 0]
        weight = sum(own for own, _, _ in sums)
        overall = sum(logs for _, logs, _ in sums) / weight
        scatter = sum(squares - logs * logs / own for own, logs, squares in sums)
        variance = max(0.0, scatter) / max(1.0, weight - len(sums))
        for index, (own, logs, _) in enumerate(self.sums):
            apart = 0.0
            if own > 0:
                apart = (logs / own - overall) * (0.25 * 0.25 / (0.25 * 0.25 + variance / own))
            self.factors[index] = math.exp(overall + apart + 0.5 * variance)

    def place_in(self, queue: Sequence[ReferenceJob], job: ReferenceJob) -> int:
        """Return the position of a job in the shared queue."""
        if self.order == "due_date":
            return first_above(job.deadline, [waiting.deadline for waiting in queue])
        if self.order == "shortest":
            return first_above(job.estimate, [waiting.estimate for waiting in queue])
        return len(queue)

    # Predictions ------------------------------------------------------------------------------------

    def ends(self, index: int, queue: Sequence[ReferenceJob]) -> list[int]:
        """Return when each job of a queue would end on that machine."""
        machine, now = self.site.machines[index], self.site.now
        free = [max(now, (job.start or 0) + self.seconds(job, index)) for job in machine.running]
        free += [now] * (machine.cpus - len(free))
        ends = []
        for job in queue:
            earliest = min(free)
            free.remove(earliest)
            free.append(earliest + self.seconds(job, index))
            ends.append(free[-1])
        return ends

    def seconds(self, job: ReferenceJob, index: int) -> int:
        """Return how long a job is expected to run."""
        return max(1, round(job.estimate * self.factors[index]))

    def tardiness(self, index: int, queue: Sequence[ReferenceJob]) -> int:
        """Return the predicted tardiness of a queue."""
        return sum(
            max(0, end - job.deadline) for end, job in zip(self.ends(index, queue), queue, strict=True)
        )

    def chance(self, job: ReferenceJob, predicted: int) -> float:
        """Return how probably a job with that prediction ends in time."""
        allowed = (job.deadline - self.site.now) / predicted
        in_time = sum(ratio <= allowed for ratio in self.ratios)
        return (in_time + 0.5) / (len(self.ratios) + 1.0)

    # Choosing ---------------------------------------------------------------------------------------

    def candidates(self) -> list[int]:
        """Return the machines that are up, or all if none is."""
        machines = self.site.machines
        return [index for index, machine in enumerate(machines) if machine.downs == 0] or list(
            range(len(machines))
        )

    def decide(self, job: ReferenceJob) -> tuple[int, int]:
        """Return machine and position for a job that comes."""
        now = self.site.now
        if self.rule in {"edd", "erd", "spt", "atc"}:
            index, position, end = self.insert(job)
            job.predicted = end - now
            job.chance = self.chance(job, job.predicted)
            return index, position
        index = self.select(job)
        if self.assisted:
            own = index
            index = self.assist(job, own)
            job.overruled = index != own
            job.predicted = self.end_of(job, index) - now
        return index, len(self.site.machines[index].queue)

    def end_of(self, job: ReferenceJob, index: int) -> int:
        """Return when a job would end as the last of a queue."""
        return self.ends(index, [*self.site.machines[index].queue, job])[-1]

    def select(self, job: ReferenceJob) -> int:
        """Return the simple selector's machine."""
        count = len(self.site.machines)
        if self.rule == "round_robin":
            return job.number % count
        first = int(self.chances[job.number] * count)
        if self.rule == "random":
            return first
        order = [(first + step) % count for step in range(count)]
        order = [index for index in order if index in self.candidates()]
        for index in order:
            if self.site.machines[index].idle:
                return index
        return min(order, key=lambda index: len(self.site.machines[index].queue))

    def assist(self, job: ReferenceJob, own: int) -> int:
        """Return the machine for a job that a simple selector would send to `own`."""
        ends = {index: self.end_of(job, index) for index in range(len(self.site.machines))}
        up = [index for index in ends if self.site.machines[index].downs == 0]
        chances = {
            index: self.chance(job, ends[index] - self.site.now) if index in up else 0.0 for index in ends
        }
        best = max(ends, key=lambda index: (chances[index], ends[index]))
        target = best if chances[best] >= 0.5 and chances[best] > chances[own] else own
        job.chance = chances[target]
        return target

    def insert(self, job: ReferenceJob) -> tuple[int, int, int]:
        """Return machine, position and predicted end where tardiness grows least."""
        places = []
        for index in self.candidates():
            machine = self.site.machines[index]
            queue = machine.queue
            if self.rule == "erd":
                position = len(queue)
            elif self.rule == "edd":
                position = first_above(job.deadline, [waiting.deadline for waiting in queue])
            elif self.rule == "atc":
                *others, own = apparent_costs(
                    [*queue, job], self.factors[index], self.lookahead, self.site.now
                )
                position = next((place for place, cost in enumerate(others) if cost < own), len(queue))
            else:
                position = first_above(job.estimate, [waiting.estimate for waiting in queue])
            with_it = [*queue[:position], job, *queue[position:]]
            end = self.ends(index, with_it)[position]
            if self.rule == "spt":
                growth = max(0, end - job.deadline)
                growth += (len(queue) - position) * self.seconds(job, index) // machine.cpus
            else:
                growth = self.tardiness(index, with_it) - self.tardiness(index, queue)
            places.append((growth, end, index, position))
        _, end, index, position = min(places)
        return index, position, end

    def tabu_search(self) -> None:
        """Move jobs by tabu search."""
        machines = self.site.machines
        barred_machines: set[int] = set()
        barred_jobs: set[int] = set()
        for _ in range(self.repair_steps):
            late = [self.tardiness(index, machine.queue) for index, machine in enumerate(machines)]
            open_ones = [index for index in range(len(machines)) if index not in barred_machines]
            if not open_ones:
                return
            source = max(open_ones, key=lambda index: late[index])
            if late[source] == 0:
                return
            queue = machines[source].queue
            lateness = [
                (end - job.deadline, -position)
                for position, (job, end) in enumerate(zip(queue, self.ends(source, queue), strict=True))
                if end > job.deadline and job.number not in barred_jobs
            ]
            others = [index for index in self.candidates() if index != source]
            if not lateness or not others:
                barred_machines.add(source)
                continue
            job = queue[-max(lateness)[1]]
            target = min(others, key=lambda index: late[index])
            position = first_above(job.deadline, [waiting.deadline for waiting in machines[target].queue])
            rest = [waiting for waiting in queue if waiting is not job]
            joined = [*machines[target].queue[:position], job, *machines[target].queue[position:]]
            if self.tardiness(source, rest) + self.tardiness(target, joined) < late[source] + late[target]:
                queue.remove(job)
                self.site.place(job, target, position)
                job.predicted = 0
                barred_jobs.add(job.number)
            else:
                barred_machines.add(source)
