"""PPO through RLlib, at the speed of a plain loop.

RLlib splits episodes into lists of steps and joins them again, in the runner and in the learner, at several
times the cost of stepping and learning. Here a rollout stays a few arrays: `_RolloutRunner` steps a native
vector environment and returns a `Rollout`, `_RolloutLearner` cuts it into minibatches. Checkpoints, Tune and
remote runners are RLlib's.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo.ppo import PPO, PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.framework import get_device
from ray.rllib.utils.metrics import ALL_MODULES, NUM_MODULE_STEPS_TRAINED_LIFETIME
from torch import Tensor

from gridtune.errors import PolicyError
from gridtune.training.acting import Actor
from gridtune.training.networks import ActorCritic, make_network
from gridtune.training.ppo import ADAM_EPSILON, Losses, PPOSettings, Rollout, collect, ppo_losses, update_seed

#: RLlib's field of each setting that it has a field for.
_FIELDS = {
    "epochs": "num_epochs",
    "gamma": "gamma",
    "lam": "lambda_",
    "clip": "clip_param",
    "value_weight": "vf_loss_coeff",
    "entropy_weight": "entropy_coeff",
    "learning_rate": "lr",
    "gradient_norm": "grad_clip",
}
#: The other settings, which are in `learner_config_dict` by their own names.
_OTHERS = sorted({setting.name for setting in fields(PPOSettings)} - _FIELDS.keys())
#: Further fields that are free, of those that RLlib's methods below set.
_FREE = {
    *("observation_space", "action_space", "env_config", "rl_module_spec", "learner_config_dict"),
    *("num_env_runners", "num_envs_per_env_runner", "num_gpus_per_learner", "local_gpu_idx"),
    *("num_cpus_per_env_runner", "num_gpus_per_env_runner", "custom_resources_per_env_runner"),
    *("num_cpus_per_learner", "sample_timeout_s", "restart_failed_sub_environments"),
}
_METHODS = ("environment", "env_runners", "learners", "training", "evaluation")
#: Callbacks of RLlib's own runner, which rollouts do not call.
_NEVER_CALLED = (
    *("on_environment_created", "on_sample_end"),
    *("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end"),
)
#: Key in the environments' configuration: the function that makes a vector environment.
_MAKE_ENV = "make_env"
#: Key in a module's configuration: the arguments of `make_network`.
_NETWORK = "network"
#: Time limit for runners to accept new weights.
_SYNC_SECONDS = 30.0


#: Keys of a network's state: what it carries on, and the observations that it looks back on.
_CARRIED, _EARLIER = "carried", "earlier"


class _NetworkModule(TorchRLModule):
    """A network of `gridtune.training.networks` as an RLlib module.

    A batch has `obs`: one observation of each episode, shape (B, features), or T of them in a row, shape
    (B, T, features); the outputs have the same axes. For a network that remembers, `state_in` is the last
    reply's `state_out`; without it, episodes begin.
    """

    def setup(self) -> None:
        """Make the network."""
        self.network = make_network(**self.model_config[_NETWORK])

    def is_stateful(self) -> bool:
        """Return whether the network remembers."""
        return bool(self.get_initial_state())

    def get_initial_state(self) -> dict[str, Tensor]:
        """Return the state of one episode that begins; empty for a network that does not remember."""
        shapes = {
            _CARRIED: self.network.state_shape,
            _EARLIER: (self.network.lookback, self.network.features),
        }
        return {name: torch.zeros(shape) for name, shape in shapes.items() if math.prod(shape)}

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        network, seen = self.network, batch[Columns.OBS]
        episodes, once = len(seen), seen.dim() == 2
        steps = seen.unsqueeze(0) if once else seen.transpose(0, 1)
        state = batch.get(Columns.STATE_IN) or {
            name: part.to(seen.device).expand(episodes, *part.shape)
            for name, part in self.get_initial_state().items()
        }
        # Observations before an episode are zeros, so it need not be said where it begins.
        if _EARLIER in state:
            steps = torch.cat([state[_EARLIER].transpose(0, 1), steps])
        begins = torch.zeros(steps.shape[:2], dtype=torch.bool, device=seen.device)
        carried = state.get(_CARRIED, network.initial_state(episodes))
        logits, values, carried = network(steps, begins, carried)
        reply: dict[str, Any] = {
            name: part[0] if once else part.transpose(0, 1)
            for name, part in ((Columns.ACTION_DIST_INPUTS, logits), (Columns.VF_PREDS, values))
        }
        if state:
            after = {_CARRIED: carried, _EARLIER: steps[len(steps) - network.lookback :].transpose(0, 1)}
            reply[Columns.STATE_OUT] = {name: after[name] for name in state}
        return reply


class _RolloutRunner(SingleAgentEnvRunner):
    """Steps a native vector environment and returns the rollout as arrays."""

    env: Any

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._settings = _settings_of(self.config)

    def make_module(self) -> None:
        """Make the module, where the learner has its own if that is this process."""
        super().make_module()
        if not self.worker_index and self.config.num_gpus_per_learner:
            self.module.to(get_device(self.config, self.config.num_gpus_per_learner))
        self._actor = Actor(self.module.network, self.config.num_envs_per_env_runner)

    def make_env(self) -> None:
        """Make the vector environment with the function in the configuration."""
        if self.env is not None:
            self.env.close()
        self.num_envs = self.config.num_envs_per_env_runner
        self.env = self.config.env_config[_MAKE_ENV](self.num_envs)

    def sample(
        self, *, num_timesteps: int | None = None, num_episodes: int | None = None, **options: Any
    ) -> list[Rollout]:
        """Reset every environment and make the settings' `steps`; for an evaluation, as often as it takes.

        `Algorithm.evaluate` asks for a number of steps or of episodes, and gets at least so many. Its random
        numbers are its own, so that a training goes on as if there had been none.
        """
        if options.get("random_actions"):
            raise PolicyError("a rollout runner samples actions from its policy", field="random_actions")
        if num_timesteps is None and num_episodes is None:
            # The first remote runner has the seed of a local one.
            return [self._rollout("rollout", max(0, (self.worker_index or 0) - 1))]
        rollouts: list[Rollout] = []
        steps = episodes = 0
        while steps < (num_timesteps or 0) or episodes < (num_episodes or 0):
            rollout = self._rollout("evaluation", len(rollouts))
            if num_episodes and not rollout.episodes:
                reason = f"no episode ends within {self._settings.steps} steps, so none can be evaluated"
                raise PolicyError(reason, hint="set more `steps`")
            rollouts.append(rollout)
            steps, episodes = steps + rollout.steps, episodes + rollout.episodes
        return rollouts

    def _rollout(self, purpose: str, number: int) -> Rollout:
        seed = update_seed(self._settings.seed, self._weights_seq_no, purpose, number)
        rollout = collect(self.env, self._actor, self._settings.steps, seed=seed)
        self.num_env_steps_sampled_lifetime += self._increase_sampled_metrics(rollout.steps, rollout.episodes)
        if rollout.episodes:
            self._log_episode_metrics(rollout.steps / rollout.episodes, rollout.mean_return, 0.0)
        return rollout


class _RolloutLearner(PPOTorchLearner):
    """Learns from rollouts, minibatch by minibatch."""

    def build(self) -> None:
        """Build the module and its optimiser."""
        super().build()
        self._settings = _settings_of(self.config)

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Register Adam; each update sets its learning rate."""
        parameters = self.get_parameters(self.module[module_id])
        rate = _settings_of(self.config).learning_rate
        optimiser = torch.optim.Adam(parameters, lr=rate, eps=ADAM_EPSILON)
        self.register_optimizer(module_id=module_id, optimizer=optimiser, params=parameters)

    def update(
        self,
        *,
        training_data: Any = None,
        episodes: Sequence[Rollout] | None = None,
        timesteps: dict[str, Any] | None = None,
        **_: Any,
    ) -> Any:
        """Make one update from rollouts, which take the place of RLlib's episodes; return metrics."""
        rollouts: Sequence[Rollout] = training_data.episodes if episodes is None else episodes
        rollout = Rollout.side_by_side(rollouts).to(self._device)
        self.before_gradient_based_update(timesteps=timesteps or {})
        number, settings = self._weights_seq_no, self._settings
        optimiser = self.get_optimizer(DEFAULT_MODULE_ID)
        self._set_optimizer_lr(optimiser, settings.learning_rate_at(number))
        network = self.module[DEFAULT_MODULE_ID].unwrapped().network
        all_losses: list[Tensor] = []
        # RLlib's own `_update` sorts gradients by module and logs each, which takes a tenth of all time.
        for part in rollout.minibatches(network, settings, number):
            losses = ppo_losses(network(part.observations, part.begins, part.state), part, settings, number)
            optimiser.zero_grad()
            losses.total.backward()
            if settings.gradient_norm is not None:
                torch.nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_norm)
            optimiser.step()
            all_losses.append(torch.stack([loss.detach() for loss in losses]))
        self._weights_seq_no += 1
        means = torch.stack(all_losses).mean(0).tolist()
        named = {f"loss_{name}": mean for name, mean in zip(Losses._fields, means, strict=True)}
        self.metrics.log_dict(named, key=DEFAULT_MODULE_ID, window=1)
        trained = (ALL_MODULES, NUM_MODULE_STEPS_TRAINED_LIFETIME)
        self.metrics.log_value(trained, rollout.steps * settings.epochs, reduce="lifetime_sum")
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()


class _RolloutPPO(PPO):
    """RLlib's PPO over rollouts."""

    def setup(self, config: Any) -> None:
        """Check the configuration and create runners and learner.

        Raises
        ------
        PolicyError
            If a field is set that this algorithm does not read.
        """
        _check_fields(config)
        super().setup(config)

    def set_state(self, state: dict[str, Any]) -> None:
        """Set a checkpoint's state; runners have its weights when this returns."""
        super().set_state(state)
        # RLlib sends weights without waiting, and a runner might use its initial ones.
        self.env_runner_group.sync_weights(
            from_worker_or_learner_group=self.learner_group,
            timeout_seconds=_SYNC_SECONDS,
            inference_only=True,
        )


def ppo_config(
    make_env: Callable[[int], Any],
    network: str = "recurrent",
    settings: PPOSettings | None = None,
    *,
    environments: int = 16,
    runners: int = 0,
    sequence: int | None = None,
    frames: int | None = None,
    gpus: float = 0,
) -> PPOConfig:
    """Return the configuration of a training through RLlib; `build_algo()` creates the algorithm.

    Parameters
    ----------
    make_env
        Returns a Gymnasium vector environment of so many environments, with next-step autoreset, discrete
        actions and flat observations. It is stored in checkpoints and sent to other processes, so it must be
        picklable.
    network, sequence, frames
        See `gridtune.training.networks.make_network`. The settings' seed draws the weights.
    settings
        By default the paper's. Each is in RLlib's field of that meaning, such as `lr` or `lambda_`, and may
        be changed there; those without a field are in `learner_config_dict`.
    environments
        Number of environments of each runner.
    runners
        Number of processes that step environments; 0: the algorithm's own process.
    gpus
        GPUs of the learner.
    """
    settings = settings or PPOSettings()
    probe = make_env(1)
    model: dict[str, Any] = {
        "kind": network,
        "features": int(probe.single_observation_space.shape[0]),
        "actions": int(probe.single_action_space.n),
        "sequence": sequence,
        "frames": frames,
        "seed": settings.seed,
    }
    probe.close()
    config = _base_config()
    spaces = {"observation_space": probe.single_observation_space, "action_space": probe.single_action_space}
    config.environment(**spaces, env_config={_MAKE_ENV: make_env})
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=environments)
    config.rl_module(rl_module_spec=RLModuleSpec(_NetworkModule, **spaces, model_config={_NETWORK: model}))
    others = {name: getattr(settings, name) for name in _OTHERS}
    config.learners(learner_config_dict=others, num_gpus_per_learner=gpus)
    for name, field in _FIELDS.items():
        setattr(config, field, getattr(settings, name))
    return config


def _base_config() -> PPOConfig:
    """Return the configuration without settings, network and environment."""
    config = PPOConfig(algo_class=_RolloutPPO)
    config.env_runners(env_runner_cls=_RolloutRunner, batch_mode="complete_episodes")
    config.learners(learner_class=_RolloutLearner, num_learners=0)
    # The batch is what the runners return at one call; `minibatches` says how it is cut.
    config.training(use_kl_loss=False, train_batch_size_per_learner=1, minibatch_size=1)
    return config.framework("torch").debugging(log_level="ERROR")


def _check_fields(config: Any) -> None:
    """Refuse a field that would be ignored, and settings out of range."""
    base = _base_config()
    methods = [getattr(kind, name) for kind in (PPOConfig, AlgorithmConfig) for name in _METHODS]
    names = {name for method in methods for name in inspect.signature(method).parameters}
    # RLlib's seed is of global random numbers, which nothing here draws from.
    refused = (names | {"seed"}) - _FREE - set(_FIELDS.values())
    for attribute, value in vars(base).items():
        name, given = attribute.lstrip("_"), getattr(config, attribute)
        if name in refused and given != value:
            raise PolicyError(
                f"is not read by PPO over rollouts, but got {given!r}",
                field=name,
                hint=f"leave it out; it reads {', '.join(_FIELDS.values())}, and in learner_config_dict "
                f"{', '.join(_OTHERS)}",
            )
    classes = config.callbacks_class if isinstance(config.callbacks_class, list) else [config.callbacks_class]
    for name in _NEVER_CALLED:
        written = any(getattr(kind, name) is not getattr(RLlibCallback, name) for kind in classes)
        if written or getattr(config, f"callbacks_{name}"):
            hint = "use on_train_result or on_evaluate_end, or RLlib's PPO without gridtune's runner"
            raise PolicyError("is never called by PPO over rollouts", field=name, hint=hint)
    _settings_of(config)


def network_of(algorithm: Any) -> ActorCritic:
    """Return the network that an algorithm trains, for playing or for `write_checkpoint`."""
    state = algorithm.learner_group.get_state(components="learner/" + COMPONENT_RL_MODULE)
    weights = state["learner"][COMPONENT_RL_MODULE][DEFAULT_MODULE_ID]
    network = make_network(**algorithm.config.rl_module_spec.model_config[_NETWORK])
    named = {name.removeprefix("network."): torch.as_tensor(value) for name, value in weights.items()}
    network.load_state_dict(named)
    return network.eval()


def _settings_of(config: Any) -> PPOSettings:
    """Return the settings in the fields of a configuration."""
    others = config.learner_config_dict
    if sorted(others) != _OTHERS:
        raise PolicyError(
            f"must have {', '.join(_OTHERS)}, but got {', '.join(sorted(others))}",
            field="learner_config_dict",
        )
    values = {name: getattr(config, field) for name, field in _FIELDS.items()}
    for name, field in _FIELDS.items():
        if not isinstance(values[name], int | float) and (name, values[name]) != ("gradient_norm", None):
            raise PolicyError(f"must be a number, but got {values[name]!r}", field=field)
    return PPOSettings(**values, **others)
