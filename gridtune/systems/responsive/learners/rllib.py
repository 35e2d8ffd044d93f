"""The same learning as an RLlib algorithm, with RLlib's checkpoints, Tune and remote runners.

A runner is a `Sampler` on a site of its own, the learner is one of `learning`, and `train()` is a sweep: the
runners advance in step, with SARSA by `relearn` decisions at a time, the learner learns from all of them in
turn, and they take over its readout. With one runner the weights equal those of `training.Trainer` bit for
bit. For SARSA with remote runners, set `relearn` to some hundred decisions, because every readout is sent
through RLlib.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

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
from gridtune.systems.responsive.learners.inputs import shared_inputs
from gridtune.systems.responsive.learners.networks import ReservoirArrays, draw_network
from gridtune.systems.responsive.learners.sampling import Sampler, Samples
from gridtune.systems.responsive.learners.settings import PAPER, LearnerSettings
from gridtune.systems.responsive.learners.training import QPolicy, new_learner
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.site import SiteModel

__all__ = ["ESNQ", "ESNQConfig", "ESNQLearner", "ESNQModule", "ESNQRunner", "policy_of"]


#: Key of a module's configuration: what its networks are drawn from.
_NETWORK = "network"
_SWEEP, _STATE = "sweep", "reservoirs"
#: Keys of the environment's observations.
_ROWS, _MASK = "observations", "action_mask"


class ESNQModule(TorchRLModule):
    """Networks of candidate values, with all their weights as buffers."""

    def setup(self) -> None:
        """Draw the networks."""
        network = self.model_config[_NETWORK]
        settings = LearnerSettings.from_dict(network["settings"])
        shared = np.asarray(network["shared"], np.bool_)
        for name, array in draw_network(settings, shared, network["seed"])._asdict().items():
            self.register_buffer(name, torch.as_tensor(array))
        self.register_buffer(_SWEEP, torch.tensor(settings.first_sweep))

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
        rows = shown[_ROWS].to(torch.float64)
        if rows.shape[-1] != len(self.inputs[0]):
            message = f"the network reads {len(self.inputs[0])} numbers of a candidate, not {rows.shape[-1]}"
            raise PolicyError(message, hint="environments show inputs=paper and inputs=extended")
        state = earlier[_STATE].expand(len(rows), *self.bias.shape)
        moved = self._moved(rows, state)
        visible = int(self.sizes[0])
        parts = [torch.ones_like(moved[..., :1]), moved[..., :visible]]
        if self.readout.shape[1] > 1 + visible:
            parts.append(rows[:, :, None, :].expand(*moved.shape[:3], -1))
        values = (torch.cat(parts, -1) * self.readout).sum(-1).mean(-1)
        if _MASK in shown:
            values = values.masked_fill(shown[_MASK] == 0, -math.inf)
        best = values.argmax(1)
        after = moved[torch.arange(len(best)), best]
        return {Columns.ACTION_DIST_INPUTS: values, Columns.STATE_OUT: {_STATE: after}}

    def _moved(self, rows: Tensor, state: Tensor) -> Tensor:
        """Return the state after each candidate: (B, n, m, k)."""
        from_inputs = torch.einsum("bnd,mdk->bnmk", rows, self.inputs)
        from_state = torch.einsum("bmj,mij->bmi", state, self._recurrent())
        activation = torch.sigmoid(from_inputs + (from_state + self.bias)[:, None])
        leak = self.leak[0]
        return (1 - leak) * state[:, None] + leak * activation

    def _recurrent(self) -> Tensor:
        networks, neurons = self.bias.shape
        dense = torch.zeros(networks, neurons, neurons, dtype=torch.float64)
        for network in range(networks):
            target = torch.repeat_interleave(torch.arange(neurons), torch.diff(self.first[network]))
            size = len(target)
            dense[network, target, self.source[network, :size]] = self.weight[network, :size]
        return dense


#: Key of a learner's state: that of its regression.
_REGRESSION = "regression"
#: Time limits for a sample, and for the transfer of weights.
_SAMPLE_SECONDS, _SYNC_SECONDS = 3600.0, 30.0

JobsOf = Callable[[int], SiteJobs]


class _Fragment(NamedTuple):
    """A runner's number, from 0, its samples (None if its sweep was over already), and whether it is over."""

    runner: int
    samples: Samples | None
    over: bool


class ESNQRunner(SingleAgentEnvRunner):
    """Runs over the jobs of a site of its own."""

    def make_env(self) -> None:
        """Make the sampler; a checkpoint contains the jobs, or the function that returns them."""
        config = self.config
        # The first remote runner has the number of a local one.
        self._number = max(0, (self.worker_index or 0) - 1)
        jobs = config.jobs(self._number) if callable(config.jobs) else config.jobs
        settings = config.settings
        self._sampler = Sampler(
            jobs, config.site_model, settings, config.weight, config.own_seed, self._number
        )
        self._last_sweep = -1

    def sample(self, **_: Any) -> _Fragment:
        """Continue the run with the module's networks."""
        return self.fragment(int(self.module.sweep), self.module.arrays)

    def fragment(self, sweep: int, arrays: ReservoirArrays) -> _Fragment:
        """Continue the run of a sweep with these networks."""
        if sweep != self._last_sweep:
            self._sampler.begin(sweep, arrays)
            self._last_sweep = sweep
        samples = None if self._sampler.over else self._sampler.sample(arrays)
        return _Fragment(self._number, samples, self._sampler.over)

    def get_spaces(self) -> dict[str, Any]:
        """Return the spaces of the configuration."""
        spaces = (self.config.observation_space, self.config.action_space)
        return {DEFAULT_MODULE_ID: spaces, "__env__": spaces, "__env_single__": spaces}

    def assert_healthy(self) -> None:
        """Check that there is a sampler."""
        assert self._sampler is not None

    def stop(self) -> None:
        """Do nothing."""


class ESNQLearner(TorchLearner):
    """A learner of readouts from fragments, without gradients."""

    def build(self) -> None:
        """Build the module, and the learner of its readout."""
        super().build()
        self._core = new_learner(self._networks.arrays, self.config.settings, self.config.own_seed)

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

    def update(
        self, *, training_data: Any = None, episodes: Sequence[_Fragment] | None = None, **_: Any
    ) -> Any:
        """Learn from fragments, which take the place of RLlib's episodes; return metrics."""
        fragments: Sequence[_Fragment] = training_data.episodes if episodes is None else episodes
        statistics = self._learn(fragments)
        return self._reported(statistics, over=all(fragment.over for fragment in fragments))

    def sweep(self, runner: ESNQRunner) -> Any:
        """Make a whole sweep with a runner in this process, and learn from it; return metrics."""
        number, over = int(self._networks.sweep), False
        statistics: dict[str, float] = {}
        while not over:
            fragment = runner.fragment(number, self._core.arrays)
            statistics, over = self._learn([fragment]), fragment.over
        return self._reported(statistics, over=True)

    def _learn(self, fragments: Sequence[_Fragment]) -> dict[str, float]:
        samples = [fragment.samples for fragment in fragments if fragment.samples is not None]
        return self._core.update(int(self._networks.sweep), samples)

    def _reported(self, statistics: dict[str, float], *, over: bool) -> Any:
        networks = self._networks
        networks.take(self._core.arrays)
        networks.sweep += int(over)
        self._weights_seq_no += 1
        self.metrics.log_dict(statistics, key=DEFAULT_MODULE_ID, window=1)
        return self.metrics.reduce()

    def get_state(self, components: Any = None, *, not_components: Any = None, **options: Any) -> Any:
        """Return RLlib's state, and that of the regression."""
        state = super().get_state(components, not_components=not_components, **options)
        if self._check_component(_REGRESSION, components, not_components):
            state[_REGRESSION] = self._core.state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        super().set_state(state)
        self._core.arrays = self._networks.arrays
        if _REGRESSION in state:
            self._core.restore(state[_REGRESSION])


class ESNQ(Algorithm):
    """Learning of candidate values; an iteration is a sweep."""

    @classmethod
    def get_default_config(cls) -> ESNQConfig:
        """Return a configuration with the papers' settings."""
        return ESNQConfig()

    def training_step(self) -> None:
        """Run a sweep and learn from it."""
        group, over = self.env_runner_group, False
        if group.num_remote_env_runners() == 0:
            # Every decision may change the readout: nothing is sent from one object to the other meanwhile.
            results = self.learner_group.foreach_learner(
                lambda learner: learner.sweep(group.local_env_runner)
            )
            self.metrics.aggregate([result.get() for result in results], key=LEARNER_RESULTS)
            self._sync()
            return
        while not over:
            fragments = group.foreach_env_runner(
                lambda runner: runner.sample(),
                local_env_runner=False,
                timeout_seconds=_SAMPLE_SECONDS,
            )
            if not fragments:
                raise PolicyError("no runner returned samples", hint="see Ray's log of the runners")
            fragments = sorted(fragments, key=lambda fragment: fragment.runner)
            results = self.learner_group.update(episodes=fragments)
            self.metrics.aggregate(results, key=LEARNER_RESULTS)
            self._sync()
            over = all(fragment.over for fragment in fragments)

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a checkpoint, and send its readout to the runners."""
        super().set_state(state)
        self._sync()

    def _sync(self) -> None:
        # Without a time limit RLlib does not wait, and a runner may go on with old weights.
        self.env_runner_group.sync_weights(
            from_worker_or_learner_group=self.learner_group,
            timeout_seconds=_SYNC_SECONDS,
            inference_only=True,
        )


class ESNQConfig(AlgorithmConfig):
    """The configuration of `ESNQ`; `build_algo()` gives the algorithm.

    Examples
    --------
    >>> config = ESNQConfig().site(jobs, SiteModel(cores=81))  # doctest: +SKIP
    >>> config.training(learner={"method": "fitted_q"}, weight=0.5)  # doctest: +SKIP
    >>> config.env_runners(num_env_runners=2)  # doctest: +SKIP
    """

    def __init__(self, algo_class: type[ESNQ] | None = None) -> None:
        super().__init__(algo_class=algo_class or ESNQ)
        self.jobs: SiteJobs | JobsOf | None = None
        self.site_model = SiteModel()
        self.learner: dict[str, Any] = PAPER.to_dict()
        self.weight = 0.5
        self.seed = 0
        self.learning_seed: int | None = None
        self.env_runner_cls = ESNQRunner
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

    def site(self, jobs: SiteJobs | JobsOf, model: SiteModel | None = None) -> ESNQConfig:
        """Set the jobs and the site; `env_config["make_env"]` returns environments for playing on them.

        Parameters
        ----------
        jobs
            Jobs, or a picklable function that returns those of a runner by its number, from 0.
        model
            The site; by default the papers' 81 cores.
        """
        self.jobs = jobs
        self.site_model = model or SiteModel()
        first = jobs(0) if callable(jobs) else jobs
        self._organisations = len(first.shares)
        make_env = partial(ResponsiveVectorEnv, jobs=first, model=self.site_model)
        return self.environment(env_config={"make_env": make_env})

    def training(
        self,
        *,
        learner: Mapping[str, Any] | LearnerSettings | Any = NotProvided,
        weight: Any = NotProvided,
        learning_seed: Any = NotProvided,
        **options: Any,
    ) -> ESNQConfig:
        """Set how to learn.

        Parameters
        ----------
        learner
            Settings of `LearnerSettings` by name; the others stay as they are. Tune can choose them.
        weight
            λ of the reward.
        learning_seed
            The seed of networks and sweeps, of up to 62 bits; by default that of `debugging`, of 32 bits.
        **options
            RLlib's own options.
        """
        super().training(**options)
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
        if self.num_learners:
            raise PolicyError(
                f"num_learners must be 0, because one process solves for the readout, "
                f"but got {self.num_learners}"
            )
        _ = self.settings

    def get_default_learner_class(self) -> type[ESNQLearner]:
        """Return the learner."""
        return ESNQLearner

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return the specification of the module."""
        settings = self.settings
        shared = shared_inputs(self._organisations, self.site_model.elastic, settings.inputs)
        network = {"settings": settings.to_dict(), "shared": shared.tolist(), "seed": self.own_seed}
        observations = gym.spaces.Box(-np.inf, np.inf, (len(shared),), np.float64)
        return RLModuleSpec(
            ESNQModule,
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
