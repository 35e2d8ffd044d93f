"""Gymnasium environments for a choice of slots: one, or many stepped in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from gridtune.core.cells import environment_parameters
from gridtune.core.system import get_system
from gridtune.core.vector_environment import CompiledEnv, CompiledVectorEnv
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.environment.choices import BOUND, FEATURES, ChoiceBatch
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.systems.provisioning.planning.problem import Plan, PlanProblem
from gridtune.systems.provisioning.submission import draw_problems
from gridtune.types import BoolArray, Float32Array, FloatArray

__all__ = ["ProvisioningEnv", "ProvisioningVectorEnv"]


#: The submissions of `make` without options: a bundled log.
_DEFAULT: dict[str, Any] = {"trace": "quickstart"}


@lru_cache(maxsize=4)
def _problems(instances: int, seed: int, options: str) -> list[PlanProblem]:
    parameters = ProvisioningParameters.model_validate_json(options)
    log = None if parameters.trace is None else parameters.reference.read()
    return draw_problems(parameters, log, instances, seed)


class ProvisioningEnv(CompiledEnv):
    """A workflow and slots, of which the agent keeps or drops one after the other.

    An episode begins with the plan of all slots. In each step the agent sees the first slot that the plan
    pays for and that it has not decided on, and takes an action: 1 keeps the slot, 0 drops it, and the
    workflow is planned again on the slots left. A slot without which there is no plan stays. The episode is
    over (`terminated`) when no slot is left to decide on.

    Observation: 16 numbers, named in `gridtune.systems.provisioning.environment.choices.FEATURES`. Reward:
    what a drop lowers α · cost / bound + (1 − α) · makespan / bound by, with the lower bounds of the
    problem. So the return of an episode is what the plan at its end is better by than that of all slots.
    (The paper normalises both costs over the front of a search, which an agent has not got.)

    Parameters
    ----------
    problems
        What episodes are drawn from; by default `instances` problems of the options.
    instances, instances_seed
        How many problems are drawn at first, and with which seed.
    alpha
        α of the reward.
    release
        Whether slots that no task uses are released.
    options
        The parameters of the `provisioning` system that say what is submitted to what, by its names:
        `trace`, `workflow`, `earliest`, … By default a bundled log and `cross_slot="always"`.

    Examples
    --------
    `reset(options={"instance": 3})` begins with the problem of that number, and `reset()` with a random one.
    """

    def __init__(
        self,
        problems: Sequence[PlanProblem] | None = None,
        *,
        instances: int = 64,
        instances_seed: int = 0,
        alpha: float = 0.5,
        release: bool = True,
        **options: Any,
    ) -> None:
        draws: dict[str, Any] = {"instances": instances, "instances_seed": instances_seed}
        vector = ProvisioningVectorEnv(1, problems, **draws, alpha=alpha, release=release, **options)
        self._batch = vector._batch
        super().__init__(vector)

    def plan(self) -> Plan:
        """Return the present plan, without the slots that are released."""
        batch = self._batch
        problem = batch.problems[int(batch.state.problem[0])]
        kept = batch.state.kept[0, : len(problem)]
        return problem.plan(problem.evaluate_released(kept).used[0] if batch.release else kept)


class ProvisioningVectorEnv(CompiledVectorEnv):
    """Many choices stepped in one compiled call; trajectories equal those of single environments.

    Parameters
    ----------
    num_envs
        Number of environments.
    problems, instances, instances_seed, alpha, release, options
        See `ProvisioningEnv`.
    copy
        Return copies. False returns the environment's own memory, which the next step overwrites.
    """

    episode = "instance"

    def __init__(
        self,
        num_envs: int = 1,
        problems: Sequence[PlanProblem] | None = None,
        *,
        instances: int = 64,
        instances_seed: int = 0,
        alpha: float = 0.5,
        release: bool = True,
        copy: bool = True,
        **options: Any,
    ) -> None:
        if problems is None:
            given = options if "offers" in options or "trace" in options else {**_DEFAULT, **options}
            parameters = environment_parameters(get_system("provisioning"), {"cross_slot": "always", **given})
            problems = _problems(instances, instances_seed, parameters.model_dump_json())
        elif options:
            raise SimulationError(f"{', '.join(options)} beside problems", field=next(iter(options)))
        self._batch = ChoiceBatch(problems, num_envs, alpha=alpha, release=release)
        observations = gym.spaces.Box(-BOUND, BOUND, (len(FEATURES),), np.float32)
        super().__init__(num_envs, (observations, gym.spaces.Discrete(2)), copy=copy)

    @property
    def costs(self) -> FloatArray:
        """Shape (num_envs, 2): cost and makespan of the present plans."""
        return self._batch.state.costs.copy()

    def _draw(self, where: BoolArray) -> None:
        self._draw_numbers(where, len(self._batch.problems))

    def _restart(self) -> None:
        self._advance(np.ones(self.num_envs, np.int64), self._everywhere)

    def _advance(self, actions: npt.ArrayLike, begins: BoolArray | None) -> dict[str, Any]:
        begins = self._never if begins is None else begins
        self._batch.step(np.ascontiguousarray(actions, np.int64), begins, self._numbers)
        return {}

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return self._batch.state.rewards, self._batch.state.over

    def _observe(self) -> Float32Array:
        rows = self._batch.state.rows
        return rows.copy() if self._copy else rows
