"""Gymnasium environments of a broker: one, or many stepped in one compiled call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.cells import environment_parameters
from gridtune.core.system import get_system
from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv
from gridtune.errors import SimulationError
from gridtune.systems.dispatch.jobs import make_jobs, make_machines
from gridtune.systems.dispatch.parameters import DispatchParameters
from gridtune.systems.dispatch.simulator.batch import FEATURES, BrokerBatch
from gridtune.systems.dispatch.simulator.model import DispatchJobs
from gridtune.systems.dispatch.simulator.replay import ORDERS
from gridtune.types import BoolArray, Float32Array, FloatArray
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import DEFAULT_RULES, clean
from gridtune.workload.workload import Workload

__all__ = ["DispatchEnv", "DispatchVectorEnv"]

Reward = Literal["tardiness", "response"]

#: Logarithms of what fits into int64 are within this.
_BOUND = 50.0
#: Parameters of an episode by default.
_DEFAULTS: dict[str, Any] = {"batches": 1, "batch_jobs": 500, "offered_load": 1.6, "order": "shortest"}


@lru_cache(maxsize=4)
def _first_part(trace: str, rules: tuple[str, ...], split: float) -> Workload:
    """Return the first part of a log, the one to learn on, in order of submission."""
    workload = read_workload(resolve_trace(trace), clean=rules or DEFAULT_RULES)
    workload, _ = clean(workload, ("sort_submits",))
    return workload.take(slice(0, max(1, round(split * len(workload)))))


class DispatchEnv(CompiledEnv):
    """A broker that sends each arriving job to one of several machines with queues of their own.

    Observation: for each machine in turn the attributes of the arriving job there
    (`gridtune.systems.dispatch.simulator.predicting`, without the machine's number), which any broker can
    observe or has learned, as sign(x)·log(1 + |x|) and seconds in thousands: shape (machines · 8,).
    Action: the machine. Reward: minus the seconds that jobs were late since the last decision, over jobs ×
    mean length: an episode's rewards add up to minus its mean tardiness over its mean length. The episode is
    over (`terminated`) when all jobs have ended.

    Parameters
    ----------
    reward
        `tardiness`, or `response`: seconds count from a job's submission.
    split
        With a trace: the share of it, from its beginning, that episodes are taken from: consecutive jobs from
        a random one on.
    log
        Instead of a trace: jobs in order of submission, clean; episodes are taken from all of it.
    parameters
        Of the system `dispatch`, for jobs, machines and the order of the queues. By default a batch of 500
        jobs at load 1.6, the shortest first. Machines do not change.

    Examples
    --------
    `reset(options={"jobs": jobs})` begins an episode with as many `DispatchJobs`, and `reset()` draws them.
    """

    def __init__(
        self,
        *,
        reward: Reward = "tardiness",
        split: float = 0.5,
        log: Workload | None = None,
        **parameters: Any,
    ) -> None:
        vector = DispatchVectorEnv(reward=reward, split=split, log=log, **parameters)
        self.brokers = vector.brokers
        super().__init__(vector)


class DispatchVectorEnv(CompiledVectorEnv):
    """Many brokers stepped in one compiled call; trajectories equal those of single environments.

    Parameters
    ----------
    num_envs
        Number of brokers.
    reward, split, log, parameters
        See `DispatchEnv`.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.
    """

    episode = "jobs"

    def __init__(
        self,
        num_envs: int = 1,
        *,
        reward: Reward = "tardiness",
        split: float = 0.5,
        log: Workload | None = None,
        copy: bool = True,
        **parameters: Any,
    ) -> None:
        options = {**_DEFAULTS, **parameters, "mode": "direct", "learner": "drain"}
        p = environment_parameters(get_system("dispatch"), options)
        assert isinstance(p, DispatchParameters)
        if p.learning_jobs:
            raise SimulationError(
                "an environment has no jobs to learn from beforehand", field="learning_jobs"
            )
        if reward not in ("tardiness", "response"):
            raise SimulationError(f"must be 'tardiness' or 'response', but got {reward!r}", field="reward")
        if not 0 < split <= 1:
            raise SimulationError(f"must be above 0 and at most 1, but got {split}", field="split")
        if log is not None and p.trace is not None:
            raise SimulationError("a log and a trace are one too many", field="trace")
        if p.trace is not None:
            log = _first_part(p.trace, p.rules, split)
        self._parameters, self._log, self._jobs = p, log, p.batches * p.batch_jobs
        if log is not None and len(log) < self._jobs:
            raise SimulationError(f"{len(log)} jobs are too few for episodes of {self._jobs}")
        jobs = self._draw_jobs(np.random.default_rng(0))
        machines = make_machines(p, jobs, np.random.default_rng(0))
        costs: dict[str, Any] = {"until_deadline": reward == "tardiness", "forget": p.forget}
        self.brokers = BrokerBatch(jobs, machines, order=ORDERS[p.queue_order], count=num_envs, **costs)
        features = gym.spaces.Box(-_BOUND, _BOUND, (len(machines) * FEATURES,), np.float32)
        super().__init__(num_envs, (features, gym.spaces.Discrete(len(machines))), copy=copy)

    def _draw_jobs(self, rng: np.random.Generator) -> DispatchJobs:
        """Draw an episode's jobs, or consecutive ones of the log."""
        streams = [np.random.default_rng(seed) for seed in rng.integers(2**63, size=4)]
        if self._log is None:
            return make_jobs(self._parameters, streams, None)
        first = int(rng.integers(len(self._log) - self._jobs + 1))
        return make_jobs(self._parameters, streams, self._log.take(slice(first, first + self._jobs)))

    def _draw(self, where: BoolArray) -> None:
        for i in np.flatnonzero(where).tolist():
            self.brokers.begin(i, self._draw_jobs(self._rngs[i]))

    def _choose(self, numbers: DispatchJobs) -> None:
        for i in range(self.num_envs):
            self.brokers.begin(i, numbers)

    def _infos(self, begun: BoolArray) -> dict[str, Any]:
        return {}

    def _restart(self) -> None:
        self.brokers.step(np.zeros(self.num_envs, np.int64), self._everywhere)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        self.brokers.step(actions, self._never if begins is None else begins)
        return {}

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self.brokers.observed.rewards, self.brokers.observed.over

    def _observe(self) -> Float32Array:
        features = self.brokers.observed.features
        return features.copy() if self._copy else features
