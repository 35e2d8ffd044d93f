"""An event-driven pool in plain Python, second by second and core by core; the compiled one must equal it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.systems.responsive.simulator.reference import ReferenceDecision, ReferenceJob, ReferenceSite


@dataclass
class ReferenceCore:
    """One core: when it is up, its job, and since when it has been idle."""

    ready: int
    job: ReferenceJob | None = None
    idle_since: int | None = None


@dataclass
class ReferencePool(ReferenceSite):
    """A site whose pool is sized by a rule, or an agent, at events and ticks; see `Autoscaler`."""

    rule: str = "demand"
    boot: int = 600
    idle: int = 600
    timer: int = 60
    at_events: bool = True
    cooldown: int = 0
    headroom: float = 1.0
    jobs_per_core: float = 1.0
    all_cores: list[ReferenceCore] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.all_cores = [ReferenceCore(self.now, None, self.now) for _ in range(self.cores)]
        self.target, self.next_tick, self.tick_due = self.cores, self.now, False
        self.wishes: list[int] = []
        self.boots, self.paid = 0, 0
        self.core_seconds = 0

    def idle_cores(self) -> list[ReferenceCore]:
        """Return the cores that are up and without a job, the longest idle first."""
        idle = [core for core in self.all_cores if core.idle_since is not None]
        return sorted(idle, key=lambda core: core.idle_since or 0)

    def until_decision(self) -> bool:
        """Advance until a decision is due; return False once every job is completed."""
        while not (self.tick_due or (self.waiting and self.idle_cores())):
            if not (self.waiting or self.running or self.coming):
                return False
            if not self.happen():
                self.paid += len(self.all_cores)
                self.now += 1
        return True

    def happen(self) -> bool:
        """Let happen what is due in this second; return whether anything was."""
        ended = sorted((job for job in self.running if job.end <= self.now), key=lambda job: job.number)
        booted = [
            core
            for core in self.all_cores
            if core.ready <= self.now and not (core.job or core.idle_since is not None)
        ]
        submitted = [job for job in self.coming if job.submit <= self.now]
        tick = self.now == self.next_tick
        for job in ended:
            self.running.remove(job)
            self.done.append(job)
            core = next(core for core in self.all_cores if core.job is job)
            core.job, core.idle_since = None, self.now
        for core in booted:
            core.idle_since = self.now
        for job in submitted:
            self.coming.remove(job)
            self.waiting.append(job)
            if not self.coming:
                self.core_seconds = self.paid
        if tick:
            self.next_tick += self.timer
        events = bool(ended or booted or submitted)
        if self.rule == "agent":
            if tick and not self.coming and not self.waiting:
                self.target = self.floor
            elif tick:
                self.tick_due = True
        elif tick or (events and self.at_events):
            wish = self.rules()[self.rule]()
            if tick or not self.wishes:
                self.wishes.append(wish)
            self.wishes[-1] = max(self.wishes[-1], wish)
            window = -(-self.cooldown // self.timer)
            self.target = self.limited(max(self.wishes[-window:]) if window > 1 else wish)
        return self.order_and_release() or events or tick

    def limited(self, size: int) -> int:
        """Return a size within the pool's limits."""
        return max(min(size, self.largest), self.floor)

    def rules(self) -> dict[str, Callable[[], int]]:
        """Return the rules by name."""
        present = len(self.running) + len(self.waiting)
        return {
            "demand": lambda: math.ceil(self.headroom * present),
            "queue": lambda: math.ceil(present / self.jobs_per_core),
        }

    def order_and_release(self) -> bool:
        """Order the cores that are missing, release those that are idle; return whether there were any."""
        missing = max(0, self.target - len(self.all_cores))
        self.all_cores += [ReferenceCore(self.now + self.boot) for _ in range(missing)]
        self.boots += missing
        released = 0
        for core in self.idle_cores():
            spare = len(self.idle_cores()) - len(self.waiting)
            surplus = len(self.all_cores) - max(self.target, self.floor)
            if min(spare, surplus) <= 0 or self.now - (core.idle_since or 0) < self.idle:
                break
            self.all_cores.remove(core)
            released += 1
        return missing + released > 0

    def request(self, size: int) -> None:
        """Carry out an agent's request."""
        self.tick_due = False
        self.target = self.limited(size)
        self.order_and_release()

    def begin_job(self, place: int, size: int) -> None:
        """Start the waiting job at that place on the core that became idle last."""
        job = self.waiting.pop(place)
        accounts = self.fairness(), self.utilisation()
        core = self.idle_cores()[-1]
        job.start, core.job, core.idle_since = self.now, job, None
        self.running.append(job)
        if self.rule == "agent":
            self.request(size)
        self.decisions.append(ReferenceDecision(job.number, self.now, *accounts, len(self.all_cores)))

    def may_change(self) -> bool:
        """Tell whether a decision chooses among sizes: never."""
        return False

    def utilisation(self) -> float:
        """Return U at this instant."""
        return sum(job.run for job in self.done) / self.paid if self.paid else 0.0

    def options(self) -> list[int]:
        """Return the present size: decisions choose jobs only."""
        return [len(self.all_cores)]
