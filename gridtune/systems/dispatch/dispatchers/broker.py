"""A broker with a learner: Algorithms 2 (assist) and 3 (direct), refreshed as jobs end or arrive.

The broker decides; between two of its decisions everything happens in compiled code.

Source: Vladušič, "Using the black-box approach with machine learning methods in order to improve job
scheduling in GRID environments", sections 2.2 and 2.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.dispatchers.learners import Examples, Learner
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.predicting import new_broker_state
from gridtune.systems.dispatch.simulator.replay import (
    ORDERS,
    PROBABLE,
    RULES,
    SPEEDS,
    Buffers,
    DispatchReplay,
    DispatchRules,
    Order,
    Rule,
    Speeds,
    next_decision,
    next_repair,
)
from gridtune.systems.dispatch.simulator.site import NOBODY, new_site
from gridtune.types import BoolArray, FloatArray, IntArray


@dataclass
class Broker:
    """Sends jobs to machines as its learner advises.

    Parameters
    ----------
    learner
        The learner that advises it.
    direct
        Whether the learner decides (Algorithm 3), or assists the base rule (Algorithm 2).
    rule
        The base rule. It alone decides on the learning jobs, and on all jobs until something is learned.
    order
        Of the queues.
    speeds
        The source of speed factors for tardiness predictions.
    repair_every, repair_steps
        After every `repair_every` arrivals, `repair_steps` times: the most tardy job of the most tardy queue
        is taken out and placed by the learner. Among learning jobs tabu search repairs instead, where the
        base rule inserts.
    refresh, refresh_on
        Refresh the learner after this many jobs, those that `finished` or `arrivals`; 0 for only once, after
        the learning jobs.
    memory
        Learn from this many of the last ended jobs; None for all.
    reselect
        Select the model's settings again once the ended jobs are this many times those at the last selection;
        1 for every refresh.
    forget
        See `gridtune.systems.dispatch.simulator.replay.dispatch`.
    strict
        With `direct`: only machines on which the job is predicted to end in time are candidates (Algorithm
        3). Where there is none, of which it says nothing, the base rule decides, or in a repair the job goes
        back to its machine.
    """

    learner: Learner
    direct: bool = False
    rule: Rule = "random"
    order: Order = "fifo"
    speeds: Speeds = "known"
    repair_every: int = 0
    repair_steps: int = 10
    refresh: int = 100
    refresh_on: Literal["finished", "arrivals"] = "finished"
    memory: int | None = 10_000
    reselect: float = 1.25
    forget: float = 0.95
    strict: bool = False

    def run(
        self,
        jobs: DispatchJobs,
        machines: Machines,
        *,
        rng: np.random.Generator,
        learning_rng: np.random.Generator,
    ) -> DispatchReplay:
        """Run all jobs.

        Parameters
        ----------
        jobs, machines
            The jobs, and the machines they run on; learning jobs (batch -1) come first.
        rng
            Draws one number for each job for the base rule, then one for ties: the first are those that
            `dispatch` draws, so that both arms of a comparison have the same random numbers.
        learning_rng
            Draws what fitting and model selection need.

        Raises
        ------
        SimulationError
            If a name is unknown, or the rule or order is none that a learner has: `atc`, `shared_queue`.
        """
        names = (self.rule in RULES, self.order in ORDERS, self.speeds in SPEEDS)
        if not all(names) or self.rule in {"atc", "shared_queue"} or self.order == "atc":
            raise SimulationError(f"unknown rule, order or speeds: {self.rule}, {self.order}, {self.speeds}")
        self._prepare(jobs, machines, rng)
        self.rng, self.ready = learning_rng, False
        self.learned_at = self.selected_at = 0
        job, own = next_decision(self.site, self.state, self.buffers, NOBODY, NOBODY)
        while job != NOBODY:
            self._refresh_if_due()
            machine, chance = self._choose(job, own)
            # A learner that decides directly overrules nobody, neither at an arrival nor in a repair.
            self.chance[job], self.overruled[job] = chance, not self.direct and machine != own
            if self.direct and self.repair_every and (job + 1) % self.repair_every == 0:
                self._repair(job, machine)
                job = machine = NOBODY
            job, own = next_decision(self.site, self.state, self.buffers, job, machine)
        return DispatchReplay.of(self.site, self.chance, self.overruled)

    def _prepare(self, jobs: DispatchJobs, machines: Machines, rng: np.random.Generator) -> None:
        n, m = len(jobs), len(machines)
        self.site = new_site(jobs, machines)
        self.state = new_broker_state(self.site, SPEEDS[self.speeds], self.forget)
        every = self.repair_every if self.rule in {"edd", "erd"} else 0
        published = self.learner.attributes == "published"
        self.buffers = Buffers(
            DispatchRules(RULES[self.rule], ORDERS[self.order], every, self.repair_steps, rng.random(n)),
            learning_jobs=int((jobs.batch < 0).sum()),
            clock=_clock(jobs) if published else np.zeros(0, np.int64),
            rows=np.zeros((m, 4)),
            history=np.zeros((n, 4)),
            described=np.full(n, -1, np.int64),
        )
        self.ties = (rng.random(n) * m).astype(np.int64)
        self.chance, self.overruled = np.full(n, np.nan), np.zeros(n, np.bool_)

    # Learning ---------------------------------------------------------------------------------------

    def _refresh_if_due(self) -> None:
        """Learn when the first job after the learning jobs has arrived, and then every `refresh` jobs."""
        finished, arrived = int(self.site.state["finished"]), int(self.site.state["arrived"])
        counted = finished if self.refresh_on == "finished" else arrived
        due = self.refresh > 0 and counted - self.learned_at >= self.refresh
        if finished == 0 or (self.ready and not due):
            return
        if not self.ready and not due and self.buffers.learning_jobs == 0:
            return
        self.learned_at = counted
        examples = self._examples(finished)
        reselect = finished >= self.reselect * self.selected_at
        if len(examples.in_time) == 0:
            return
        if reselect:
            self.selected_at = finished
        self.learner.refresh(examples, reselect=reselect, rng=self.rng)
        self.ready = True

    def _examples(self, finished: int) -> Examples:
        """Return the jobs that have ended last, those whose row describes where they ran."""
        ended = self.site.ended[:finished]
        jobs = ended[self.buffers.described[ended] == self.site.placed[ended]]
        limits = [limit for limit in (self.memory, self.learner.memory) if limit is not None]
        jobs = jobs[max(0, len(jobs) - min(limits, default=len(jobs))) :]
        in_time = (self.site.finish[jobs] <= self.site.deadline[jobs]).astype(np.int64)
        return Examples(self.buffers.history[jobs], in_time)

    # Deciding ---------------------------------------------------------------------------------------

    def _choose(self, job: int, own: int) -> tuple[int, float]:
        """Return the machine for a job, and its chance of ending in time there."""
        if not self.ready:
            return own, np.nan
        chances = self.learner.chances(self.buffers.rows)
        up = self.site.down == 0
        if not up.any():
            return own, float(chances[own])
        if self.direct:
            candidates = up & (chances >= PROBABLE) if self.strict else up
            machine = own
            if candidates.any():
                machine = self._best(job, chances, candidates)
            return machine, float(chances[machine])
        chances = np.where(up, chances, 0.0)
        best = self._best(job, chances, up)
        machine = best if chances[best] >= PROBABLE and chances[best] > chances[own] else own
        return machine, float(chances[machine])

    def _best(self, job: int, values: FloatArray, allowed: BoolArray) -> int:
        """Return the allowed machine of the largest value; of several the first from a random one on."""
        rolled = np.roll(np.where(allowed, values, -np.inf), -int(self.ties[job]))
        return int((rolled.argmax() + self.ties[job]) % len(values))

    def _repair(self, job: int, machine: int) -> None:
        """Place a job, then let the learner place tardy ones again."""
        steps = self.repair_steps if self.ready else 0
        for step in range(steps + 1):
            job = next_repair(self.site, self.state, self.buffers, job, machine, step < steps)
            if job == NOBODY:
                return
            machine, self.chance[job] = self._choose(job, int(self.site.machine[job]))


def _clock(jobs: DispatchJobs) -> IntArray:
    """Return each job's deadline on the clock of its batch, which begins at the batch's first submission.

    The paper simulates batch by batch, so its deadlines are small numbers again in each.
    """
    _, batch = np.unique(jobs.batch, return_inverse=True)
    first = np.full(int(batch.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, batch, jobs.submit)
    clock: IntArray = jobs.deadline - first[batch]
    return clock
