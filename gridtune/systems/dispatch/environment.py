"""Gymnasium environments of a broker: one, or many stepped in one compiled call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.cells import environment_parameters
from gridtune.core.system import get_system
from gridtune.core.vector_environment import CompiledVectorEnv
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


class _Episodes:
    """The source of episodes: drawn jobs, or consecutive jobs of a log."""

    def __init__(self, split: float = 0.5, log: Workload | None = None, **parameters: Any) -> None:
        agent = {"mode": "direct", "learner": "drain"}
        options = {**_DEFAULTS, **parameters, **agent}
        p = environment_parameters(get_system("dispatch"), options)
        assert isinstance(p, DispatchParameters)
        self.parameters = p
        if p.learning_jobs:
            raise SimulationError(
                "an environment has no jobs to learn from beforehand", field="learning_jobs"
            )
        if not 0 < split <= 1:
            raise SimulationError(f"must be above 0 and at most 1, but got {split}", field="split")
        if log is not None and p.trace is not None:
            raise SimulationError("a log and a trace are one too many", field="trace")
        if p.trace is not None:
            log = _first_part(p.trace, p.rules, split)
        self.log = log
        self.jobs = p.batches * p.batch_jobs
        if self.log is not None and len(self.log) < self.jobs:
            raise SimulationError(f"{len(self.log)} jobs are too few for episodes of {self.jobs}")

    def batch(self, count: int, reward: Reward) -> BrokerBatch:
        """Return brokers for these episodes."""
        if reward not in ("tardiness", "response"):
            raise SimulationError(f"must be 'tardiness' or 'response', but got {reward!r}", field="reward")
        p = self.parameters
        jobs = self.draw(np.random.default_rng(0))
        return BrokerBatch(
            jobs,
            make_machines(p, jobs, np.random.default_rng(0)),
            order=ORDERS[p.queue_order],
            count=count,
            until_deadline=reward == "tardiness",
            forget=p.forget,
        )

    def spaces(self) -> tuple[gym.spaces.Box, gym.spaces.Discrete[np.int64]]:
        """Return one broker's spaces of observations and actions."""
        machines = len(self.parameters.factors)
        features = gym.spaces.Box(-_BOUND, _BOUND, (machines * FEATURES,), np.float32)
        return features, gym.spaces.Discrete(machines)

    def draw(self, rng: np.random.Generator) -> DispatchJobs:
        """Draw an episode's jobs."""
        streams = [np.random.default_rng(seed) for seed in rng.integers(2**63, size=4)]
        if self.log is None:
            return make_jobs(self.parameters, streams, None)
        first = int(rng.integers(len(self.log) - self.jobs + 1))
        return make_jobs(self.parameters, streams, self.log.take(slice(first, first + self.jobs)))


@lru_cache(maxsize=4)
def _first_part(trace: str, rules: tuple[str, ...], split: float) -> Workload:
    """Return the first part of a log, the one to learn on, in order of submission."""
    workload = read_workload(resolve_trace(trace), clean=rules or DEFAULT_RULES)
    workload, _ = clean(workload, ("sort_submits",))
    return workload.take(slice(0, max(1, round(split * len(workload)))))


class DispatchEnv(gym.Env[Float32Array, Any]):
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
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]

    def __init__(
        self,
        *,
        reward: Reward = "tardiness",
        split: float = 0.5,
        log: Workload | None = None,
        **parameters: Any,
    ) -> None:
        self._episodes = _Episodes(split, log, **parameters)
        self.brokers = self._episodes.batch(1, reward)
        self.observation_space, self.action_space = self._episodes.spaces()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """Begin an episode with jobs that are drawn, or with `options["jobs"]`, as many `DispatchJobs`."""
        super().reset(seed=seed)
        jobs = (options or {}).get("jobs")
        self.brokers.begin(0, self._episodes.draw(self.np_random) if jobs is None else jobs)
        self.brokers.step(np.zeros(1, np.int64), np.ones(1, np.bool_))
        return self.brokers.observed.features[0].copy(), {}

    def step(self, action: Any) -> tuple[Float32Array, float, bool, bool, dict[str, Any]]:
        """Send the job to a machine, and advance to the next job."""
        self.brokers.step(np.array([action]))
        observed = self.brokers.observed
        return observed.features[0].copy(), float(observed.rewards[0]), bool(observed.over[0]), False, {}


class DispatchVectorEnv(CompiledVectorEnv):
    """Many brokers stepped in one compiled call; trajectories equal those of single environments.

    Parameters
    ----------
    num_envs
        Number of brokers.
    reward, options
        See `DispatchEnv`.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        reward: Reward = "tardiness",
        copy: bool = True,
        **options: Any,
    ) -> None:
        self._episodes = _Episodes(**options)
        self.brokers = self._episodes.batch(num_envs, reward)
        super().__init__(num_envs, self._episodes.spaces(), copy=copy)

    def _draw(self, where: BoolArray) -> None:
        for i in np.flatnonzero(where).tolist():
            self.brokers.begin(i, self._episodes.draw(self._rngs[i]))

    def _restart(self) -> None:
        self.brokers.step(np.zeros(self.num_envs, np.int64), ~self._never)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray) -> None:
        self.brokers.step(actions, begins)

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self.brokers.observed.rewards, self.brokers.observed.over

    def _observe(self) -> Float32Array:
        features = self.brokers.observed.features
        return features.copy() if self._copy else features
