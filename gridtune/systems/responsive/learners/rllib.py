"""The same learning as an RLlib algorithm: checkpoints, Tune and remote runners come with it.

A runner is a `Sampler` on a site of its own, the learner is one of `learning` beside this module, and
`train()` is a sweep: runners live on in step, SARSA's for `relearn` decisions at a time, the learner learns
from all of them in turn, and they take over its readout. One runner comes to the same weights, bit for bit,
as `training.Trainer`. For SARSA through Ray a `relearn` of some hundred decisions
is advisable, as each readout travels through RLlib.

Nothing learns by gradients, so reservoirs and readout are buffers of the module: RLlib sends and stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.inputs import shared_inputs
from gridtune.systems.responsive.learners.learning import new_learner
from gridtune.systems.responsive.learners.policy import QPolicy
from gridtune.systems.responsive.learners.reservoir import draw_network
from gridtune.systems.responsive.learners.sampling import Sampler, Samples
from gridtune.systems.responsive.learners.settings import PAPER, LearnerSettings
from gridtune.systems.responsive.learners.training import first_sweep
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.site import SiteModel

__all__ = ["ESNQ", "ESNQConfig", "ESNQLearner", "ESNQModule", "ESNQRunner", "policy_of"]

#: In a module's configuration, among much of RLlib's own: what its networks are drawn from.
_NETWORK = "network"
#: In a learner's state: what its regression goes on from.
_REGRESSION = "regression"
_SWEEP, _STATE = "sweep", "reservoirs"
#: How long runners may take to live on, and to accept new weights.
_SAMPLE_SECONDS, _SYNC_SECONDS = 3600.0, 30.0

JobsOf = Callable[[int], SiteJobs]


@dataclass(frozen=True)
class Fragment:
    """What a runner lived through.

    Attributes
    ----------
    runner
        Its number, from 0.
    samples
        What there is to learn from; none where its sweep was over already.
    over
        Whether its sweep is over.
    """

    runner: int
    samples: Samples | None
    over: bool


class ESNQModule(TorchRLModule):
    """Networks of candidate values, with everything they are as buffers."""

    def setup(self) -> None:
        """Draw the networks."""
        network = self.model_config[_NETWORK]
        settings = LearnerSettings.from_dict(network["settings"])
        shared = np.asarray(network["shared"], np.bool_)
        for name, array in draw_network(settings, shared, network["seed"])._asdict().items():
            self.register_buffer(name, torch.as_tensor(array))
        self.register_buffer(_SWEEP, torch.tensor(first_sweep(settings)))

    @property
    def arrays(self) -> ReservoirArrays:
        """The networks, as compiled code takes them."""
        return ReservoirArrays(*(getattr(self, name).numpy() for name in ReservoirArrays._fields))

    def take(self, arrays: ReservoirArrays) -> None:
        """Become these networks."""
        for name, array in arrays._asdict().items():
            getattr(self, name).copy_(torch.as_tensor(array))

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return all buffers as they are: RLlib's own would halve their precision."""
        return {name: array.numpy().copy() for name, array in self.named_buffers()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take up a state."""
        for name, array in self.named_buffers():
            array.copy_(torch.as_tensor(state[name]))

    def is_stateful(self) -> bool:
        """Return True: the reservoirs remember."""
        return True

    def get_initial_state(self) -> dict[str, Tensor]:
        """Return the state that every run begins with: shape (m, k)."""
        return {_STATE: torch.zeros_like(self.bias)}

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return candidates' values, (B, n), as logits, and the state after the best: rows are (B, n, d)."""
        rows, state = batch[Columns.OBS].to(torch.float64), batch[Columns.STATE_IN][_STATE]
        moved = self._moved(rows, state)
        seen = int(self.sizes[0])
        parts = [torch.ones_like(moved[..., :1]), moved[..., :seen]]
        if self.readout.shape[1] > 1 + seen:
            parts.append(rows[:, :, None, :].expand(*moved.shape[:3], -1))
        values = (torch.cat(parts, -1) * self.readout).sum(-1).mean(-1)
        best = values.argmax(1)
        after = moved[torch.arange(len(best)), best]
        return {Columns.ACTION_DIST_INPUTS: values, Columns.STATE_OUT: {_STATE: after}}

    def _moved(self, rows: Tensor, state: Tensor) -> Tensor:
        """Return the state that each candidate would lead to: (B, n, m, k)."""
        fed = torch.einsum("bnd,mdk->bnmk", rows, self.inputs)
        remembered = torch.einsum("bmj,mij->bmi", state, self._recurrent())
        driven = torch.sigmoid(fed + (remembered + self.bias)[:, None])
        leak = self.leak[0]
        return (1 - leak) * state[:, None] + leak * driven

    def _recurrent(self) -> Tensor:
        networks, neurons = self.bias.shape
        dense = torch.zeros(networks, neurons, neurons, dtype=torch.float64)
        for network in range(networks):
            target = torch.repeat_interleave(torch.arange(neurons), torch.diff(self.first[network]))
            size = len(target)
            dense[network, target, self.source[network, :size]] = self.weight[network, :size]
        return dense


class ESNQRunner(SingleAgentEnvRunner):
    """Lives through the jobs of a site of its own."""

    def make_env(self) -> None:
        """Make the site; a checkpoint brings its jobs along, or the function that gives them."""
        config = self.config
        # The first remote runner does what a local one would do.
        self._number = max(0, (self.worker_index or 0) - 1)
        jobs = config.jobs(self._number) if callable(config.jobs) else config.jobs
        settings = config.settings
        self._sampler = Sampler(jobs, config.site_model, settings, config.weight, config.seed, self._number)
        self._lived = -1

    def sample(self, **_: Any) -> Fragment:
        """Live on by the module's values."""
        sweep, arrays = int(self.module.sweep), self.module.arrays
        if sweep != self._lived:
            self._sampler.begin(sweep, arrays)
            self._lived = sweep
        samples = None if self._sampler.over else self._sampler.sample(arrays)
        return Fragment(self._number, samples, self._sampler.over)

    def get_spaces(self) -> dict[str, Any]:
        """Return the spaces of the configuration."""
        spaces = (self.config.observation_space, self.config.action_space)
        return {DEFAULT_MODULE_ID: spaces, "__env__": spaces, "__env_single__": spaces}

    def assert_healthy(self) -> None:
        """Refuse to work without a site."""
        assert self._sampler is not None

    def stop(self) -> None:
        """Do nothing: there is nothing to close."""


class ESNQLearner(TorchLearner):
    """Learns readouts from fragments, without gradients."""

    def build(self) -> None:
        """Build the module and what learns its readout."""
        super().build()
        self._core = new_learner(self._networks.arrays, self.config.settings, self.config.seed)

    @property
    def _networks(self) -> Any:
        return self.module[DEFAULT_MODULE_ID].unwrapped()

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Do nothing: there is nothing to descend."""

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        """Return nothing to descend."""
        return torch.zeros(())

    def update(
        self, *, training_data: Any = None, episodes: Sequence[Fragment] | None = None, **_: Any
    ) -> Any:
        """Learn from the fragments that stand where RLlib has episodes; return metrics."""
        fragments: Sequence[Fragment] = training_data.episodes if episodes is None else episodes
        networks = self._networks
        samples = [each.samples for each in fragments if each.samples is not None]
        told = self._core.update(int(networks.sweep), samples)
        networks.take(self._core.arrays)
        if all(each.over for each in fragments):
            networks.sweep += 1
        self._weights_seq_no += 1
        self.metrics.log_dict(told, key=DEFAULT_MODULE_ID, window=1)
        return self.metrics.reduce()

    def get_state(self, components: Any = None, *, not_components: Any = None, **options: Any) -> Any:
        """Return RLlib's state, and what the regression goes on from."""
        state = super().get_state(components, not_components=not_components, **options)
        if self._check_component(_REGRESSION, components, not_components):
            state[_REGRESSION] = self._core.state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Take up a state."""
        super().set_state(state)
        self._core.arrays = self._networks.arrays
        if _REGRESSION in state:
            self._core.restore(state[_REGRESSION])


class ESNQ(Algorithm):
    """Learned values of candidates; an iteration is a sweep."""

    @classmethod
    def get_default_config(cls) -> ESNQConfig:
        """Return a configuration with the papers' values."""
        return ESNQConfig()

    def training_step(self) -> None:
        """Live and learn a sweep."""
        over = False
        while not over:
            group = self.env_runner_group
            fragments = group.foreach_env_runner(
                lambda runner: runner.sample(),
                local_env_runner=group.num_remote_env_runners() == 0,
                timeout_seconds=_SAMPLE_SECONDS,
            )
            if not fragments:
                raise PolicyError("no runner has lived through its jobs", hint="see Ray's log of the runners")
            fragments = sorted(fragments, key=lambda fragment: fragment.runner)
            results = self.learner_group.update(episodes=fragments)
            self.metrics.aggregate(results, key=LEARNER_RESULTS)
            self._sync()
            over = all(fragment.over for fragment in fragments)

    def set_state(self, state: dict[str, Any]) -> None:
        """Take up a checkpoint's state; runners have its readout when this returns."""
        super().set_state(state)
        self._sync()

    def _sync(self) -> None:
        # RLlib sends weights and does not wait: a runner may go on with its old ones.
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
        self.env_runner_cls = ESNQRunner
        self.num_env_runners = 0
        self.num_learners = 0
        self.framework_str = "torch"
        self.log_level = "ERROR"

    @property
    def settings(self) -> LearnerSettings:
        """How to learn."""
        return LearnerSettings.from_dict(self.learner)

    def site(self, jobs: SiteJobs | JobsOf, model: SiteModel | None = None) -> ESNQConfig:
        """Set what runners live through.

        Parameters
        ----------
        jobs
            Jobs, or a picklable function that gives those of the runner of a number, from 0.
        model
            The site; by default the papers' 81 cores.
        """
        self.jobs = jobs
        self.site_model = model or SiteModel()
        given = jobs(0) if callable(jobs) else jobs
        self._organisations = len(given.shares)
        return self

    def training(
        self,
        *,
        learner: Mapping[str, Any] | LearnerSettings | Any = NotProvided,
        weight: Any = NotProvided,
        **options: Any,
    ) -> ESNQConfig:
        """Set how to learn.

        Parameters
        ----------
        learner
            Parameters of `LearnerSettings` by name, over those that are set already; Tune may choose them.
        weight
            λ of the reward.
        **options
            RLlib's own.
        """
        super().training(**options)
        if learner is not NotProvided:
            given = learner.to_dict() if isinstance(learner, LearnerSettings) else dict(learner)
            self.learner = {**self.learner, **given}
        if weight is not NotProvided:
            self.weight = weight
        return self

    def validate(self) -> None:
        """Refuse what cannot be trained."""
        super().validate()
        if self.jobs is None:
            raise PolicyError("there are no jobs to learn on", hint="ESNQConfig().site(jobs, model)")
        if self.num_learners:
            raise PolicyError(
                f"one readout is solved in one place: num_learners must be 0, but is {self.num_learners}"
            )
        _ = self.settings

    def get_default_learner_class(self) -> type[ESNQLearner]:
        """Return the learner."""
        return ESNQLearner

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Return what makes the module."""
        settings = self.settings
        shared = shared_inputs(self._organisations, self.site_model.elastic, settings.inputs)
        network = {"settings": settings.to_dict(), "shared": shared.tolist(), "seed": self.seed}
        seen = gym.spaces.Box(-np.inf, np.inf, (len(shared),), np.float64)
        return RLModuleSpec(
            ESNQModule,
            observation_space=seen,
            action_space=gym.spaces.Discrete(2),
            model_config={_NETWORK: network},
        )


def policy_of(algorithm: Algorithm) -> QPolicy:
    """Return what an algorithm has learned so far."""
    config = algorithm.config
    state = algorithm.learner_group.get_state(components="learner/" + COMPONENT_RL_MODULE)
    weights = state["learner"][COMPONENT_RL_MODULE][DEFAULT_MODULE_ID]
    arrays = ReservoirArrays(*(np.asarray(weights[name]) for name in ReservoirArrays._fields))
    return QPolicy(arrays, config.settings, config._organisations, config.site_model.elastic, config.weight)
