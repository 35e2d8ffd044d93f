"""The same learning as an RLlib algorithm, with RLlib's checkpoints and Tune.

The learner holds a `training.Trainer`, and `train()` is one of its sweeps: the weights equal those of the
trainer bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.metrics import LEARNER_RESULTS
from torch import Tensor

from gridtune.errors import PolicyError
from gridtune.systems.responsive.environment import ResponsiveVectorEnv
from gridtune.systems.responsive.learners.networks import (
    ReservoirArrays,
    advance,
    draw_network,
    score_candidates,
)
from gridtune.systems.responsive.learners.runs import shared_inputs
from gridtune.systems.responsive.learners.settings import PAPER, LearnerSettings
from gridtune.systems.responsive.learners.training import QPolicy, Trainer
from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel

#: Key of a module's configuration: what its networks are drawn from.
_NETWORK = "network"
_STATE = "reservoirs"
#: Keys of the environment's observations.
_ROWS, _MASK = "observations", "action_mask"


class _ESNQModule(TorchRLModule):
    """Networks of candidate values, with all their weights as buffers."""

    def setup(self) -> None:
        """Draw the networks."""
        network = self.model_config[_NETWORK]
        settings = LearnerSettings.from_dict(network["settings"])
        shared = np.asarray(network["shared"], np.bool_)
        for name, array in draw_network(settings, shared, network["seed"])._asdict().items():
            self.register_buffer(name, torch.as_tensor(array))
        self.register_buffer("sweep", torch.tensor(settings.first_sweep))
        self.register_buffer("fits", torch.tensor(0))

    @property
    def arrays(self) -> ReservoirArrays:
        """The networks as arrays for compiled code."""
        return ReservoirArrays(*(getattr(self, name).numpy() for name in ReservoirArrays._fields))

    def take(self, arrays: ReservoirArrays) -> None:
        """Take over these networks."""
        for name, array in arrays._asdict().items():
            getattr(self, name).copy_(torch.as_tensor(array))

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return all buffers in double precision, unlike RLlib's own method."""
        return {name: array.numpy().copy() for name, array in self.named_buffers()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        for name, array in self.named_buffers():
            array.copy_(torch.as_tensor(state[name]))

    def is_stateful(self) -> bool:
        """Return True: reservoirs have a state."""
        return True

    def get_initial_state(self) -> dict[str, Tensor]:
        """Return the initial state of every run: shape (m, k)."""
        return {_STATE: torch.zeros_like(self.bias)}

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return values of candidates, (B, n), as logits, and the state after the best.

        `obs` is the candidates' rows, (B, n, d), or what `gridtune/Responsive-v0` shows: empty slots have the
        value -inf. Without `state_in`, runs begin.
        """
        seen, earlier = batch[Columns.OBS], batch.get(Columns.STATE_IN) or self.get_initial_state()
        shown = seen if isinstance(seen, Mapping) else {_ROWS: seen}
        rows, arrays = shown[_ROWS].to(torch.float64).numpy(), self.arrays
        if rows.shape[-1] != len(arrays.columns):
            raise PolicyError(
                f"the network reads {len(arrays.columns)} numbers of a candidate, not {rows.shape[-1]}"
            )
        state = earlier[_STATE].expand(len(rows), *self.bias.shape).numpy().copy()
        values, scratch = np.empty(rows.shape[:2]), np.empty((2, self.bias.shape[1]))
        for place, candidates in enumerate(rows):
            score_candidates(arrays, state[place], candidates, scratch, values[place])
            if _MASK in shown:
                values[place, shown[_MASK][place].numpy() == 0] = -np.inf
            advance(arrays, state[place], candidates[values[place].argmax()], scratch)
        after = {_STATE: torch.as_tensor(state)}
        return {Columns.ACTION_DIST_INPUTS: torch.as_tensor(values), Columns.STATE_OUT: after}


class _ESNQRunner(SingleAgentEnvRunner):
    """Runs nothing: the learner simulates its own site."""

    def make_env(self) -> None:
        """Do nothing."""

    def get_spaces(self) -> dict[str, Any]:
        """Return the spaces of the configuration."""
        spaces = (self.config.observation_space, self.config.action_space)
        return {DEFAULT_MODULE_ID: spaces, "__env__": spaces, "__env_single__": spaces}

    def assert_healthy(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


class _ESNQLearner(TorchLearner):
    """A learner of readouts by sweeps over the jobs, without gradients."""

    def build(self) -> None:
        """Build the module, and the trainer."""
        super().build()
        config = self.config
        self._trainer = Trainer(
            config.jobs, config.site_model, config.settings, config.weight, config.own_seed
        )

    @property
    def _networks(self) -> Any:
        return self.module[DEFAULT_MODULE_ID].unwrapped()

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Do nothing: there are no gradients."""

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        """Return a loss of 0: there are no gradients."""
        return torch.zeros(())

    def sweep(self) -> Any:
        """Make a sweep and learn from it; return metrics."""
        statistics, networks = self._trainer.step(), self._networks
        networks.take(self._trainer.learner.arrays)
        networks.sweep += 1
        networks.fits.fill_(self._trainer.learner.fits)
        self._weights_seq_no += 1
        self.metrics.log_dict(statistics, key=DEFAULT_MODULE_ID, window=1)
        return self.metrics.reduce()

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        super().set_state(state)
        self._trainer.sweep = int(self._networks.sweep)
        self._trainer.learner.arrays = self._networks.arrays
        self._trainer.learner.fits = int(self._networks.fits)


class _ESNQ(Algorithm):
    """Learning of candidate values; an iteration is a sweep."""

    @classmethod
    def get_default_config(cls) -> ESNQConfig:
        """Return a configuration with the papers' settings."""
        return ESNQConfig()

    def training_step(self) -> None:
        """Run a sweep and learn from it."""
        results = self.learner_group.foreach_learner(lambda learner: learner.sweep())
        self.metrics.aggregate([result.get() for result in results], key=LEARNER_RESULTS)
        self._sync()

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a checkpoint, and copy its networks to the module for playing."""
        super().set_state(state)
        self._sync()

    def _sync(self) -> None:
        self.env_runner_group.sync_weights(
            from_worker_or_learner_group=self.learner_group, inference_only=True
        )


class ESNQConfig(AlgorithmConfig):
    """The configuration of `_ESNQ`; `build_algo()` gives the algorithm.

    Examples
    --------
    >>> config = ESNQConfig().site(jobs, SiteModel(cores=81))  # doctest: +SKIP
    >>> config.training(learner={"method": "fitted_q"}, weight=0.5)  # doctest: +SKIP
    """

    def __init__(self, algo_class: type[_ESNQ] | None = None) -> None:
        super().__init__(algo_class=algo_class or _ESNQ)
        self.jobs: SiteJobs | None = None
        self.site_model = SiteModel()
        self.learner: dict[str, Any] = PAPER.to_dict()
        self.weight = 0.5
        self.seed = 0
        self.learning_seed: int | None = None
        self.env_runner_cls = _ESNQRunner
        self.num_env_runners = 0
        self.num_learners = 0
        self.framework_str = "torch"
        self.log_level = "ERROR"

    @property
    def settings(self) -> LearnerSettings:
        """The settings of the learner."""
        return LearnerSettings.from_dict(self.learner)

    @property
    def own_seed(self) -> int:
        """The seed of networks and sweeps."""
        return int(self.seed or 0) if self.learning_seed is None else self.learning_seed

    def site(self, jobs: SiteJobs, model: SiteModel | None = None) -> ESNQConfig:
        """Set the jobs and the site; `env_config["make_env"]` returns environments for playing on them.

        Parameters
        ----------
        jobs
            The jobs to learn on.
        model
            The site; by default the papers' 81 cores.
        """
        self.jobs = jobs
        self.site_model = model or SiteModel()
        self._organisations = len(jobs.shares)
        make_env = partial(ResponsiveVectorEnv, jobs=jobs, model=self.site_model)
        return self.environment(env_config={"make_env": make_env})

    def training(
        self,
        *,
        learner: Mapping[str, Any] | LearnerSettings | Any = NotProvided,
        weight: Any = NotProvided,
        learning_seed: Any = NotProvided,
        **options: Any,
    ) -> ESNQConfig:
        """Set the learner.

        Parameters
        ----------
        learner
            Settings of `LearnerSettings` by name; the others stay as they are. Tune can choose them.
        weight
            λ of the reward.
        learning_seed
            The seed of networks and sweeps, of up to 62 bits; by default that of `debugging`, of 32 bits.
        options
            Further options of RLlib, such as `lr`; they have no effect on this learner.

        Raises
        ------
        PolicyError
            If an option of RLlib is changed: a dictionary of the whole configuration only restates them.
        """
        for name, value in options.items():
            if value is not NotProvided and value != getattr(self, name, NotProvided):
                raise PolicyError(
                    f"has no effect on an echo state network, but got {value!r}",
                    field=name,
                    hint="set the learner: training(learner={…}, weight=…, learning_seed=…)",
                )
        if learner is not NotProvided:
            settings = learner.to_dict() if isinstance(learner, LearnerSettings) else dict(learner)
            self.learner = {**self.learner, **settings}
        if weight is not NotProvided:
            self.weight = weight
        if learning_seed is not NotProvided:
            self.learning_seed = learning_seed
        return self

    def validate(self) -> None:
        """Check the configuration."""
        super().validate()
        if self.jobs is None:
            raise PolicyError("there are no jobs to learn on", hint="ESNQConfig().site(jobs, model)")
        for name in ("num_learners", "num_env_runners"):
            if getattr(self, name):
                raise PolicyError(f"must be 0: one process learns, but got {getattr(self, name)}", field=name)
        _ = self.settings

    def get_default_learner_class(self) -> type[_ESNQLearner]:
        """Return the learner."""
        return _ESNQLearner

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the specification of the module."""
        settings = self.settings
        shared = shared_inputs(self._organisations, self.site_model.elastic)
        network = {"settings": settings.to_dict(), "shared": shared.tolist(), "seed": self.own_seed}
        observations = gym.spaces.Box(-np.inf, np.inf, (len(shared),), np.float64)
        return RLModuleSpec(
            _ESNQModule,
            observation_space=observations,
            action_space=gym.spaces.Discrete(2),
            model_config={_NETWORK: network},
        )


def policy_of(algorithm: Algorithm) -> QPolicy:
    """Return the policy that an algorithm has learned so far."""
    config = algorithm.config
    state = algorithm.learner_group.get_state(components="learner/" + COMPONENT_RL_MODULE)
    weights = state["learner"][COMPONENT_RL_MODULE][DEFAULT_MODULE_ID]
    arrays = ReservoirArrays(*(np.asarray(weights[name]) for name in ReservoirArrays._fields))
    return QPolicy(arrays, config.settings, config._organisations, config.site_model.elastic, config.weight)
