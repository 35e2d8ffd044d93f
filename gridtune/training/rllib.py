"""The same training through RLlib's PPO: checkpoints, Tune and remote runners come with it.

RLlib takes episodes apart into lists of steps and puts them together again, in the runner and once more in
the learner, at several times the cost of stepping and learning. Here a rollout stays the few arrays that
it is: `RolloutRunner` steps a native vector environment and returns a `Rollout`, `RolloutLearner` cuts it
into minibatches. Network, loss and random numbers are those of `gridtune.training.ppo`, so that one runner
trains the same weights, bit for bit, as the loop there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
from ray.rllib.algorithms.ppo.ppo import PPO, PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.metrics import ALL_MODULES, NUM_MODULE_STEPS_TRAINED_LIFETIME
from torch import Tensor

from gridtune.errors import PolicyError
from gridtune.training.networks import ActorCritic, Reply, make_network
from gridtune.training.ppo import ADAM_EPSILON, Losses, PPOSettings, minibatches_of, ppo_losses, update_seed
from gridtune.training.rollouts import Minibatch, Rollout, collect

__all__ = ["NetworkModule", "RolloutLearner", "RolloutPPO", "RolloutRunner", "network_of", "ppo_config"]

#: In a batch: a `Minibatch`. From the module: the network's `Reply`.
_MINIBATCH, _REPLY = "minibatch", "reply"
#: Under this name the settings stand in the learner's part of the configuration.
_SETTINGS = "gridtune_ppo"
#: In the environments' configuration: what makes a vector environment of so many.
_MAKE_ENV = "make_env"
#: In a module's configuration, among much of RLlib's own: what `make_network` takes.
_NETWORK = "network"
#: How long runners may take to accept new weights.
_SYNC_SECONDS = 30.0


class NetworkModule(TorchRLModule, ValueFunctionAPI):
    """A network of `gridtune.training.networks` as RLlib wants it."""

    def setup(self) -> None:
        """Make the network."""
        self.network = make_network(**self.model_config[_NETWORK])

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        part: Minibatch = batch[_MINIBATCH]
        reply: Reply = self.network(part.observations, part.begins, part.state)
        return {Columns.ACTION_DIST_INPUTS: reply.logits, Columns.VF_PREDS: reply.values, _REPLY: reply}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return the values of a minibatch, shape (L, n)."""
        return self._forward(batch)[Columns.VF_PREDS]


class RolloutRunner(SingleAgentEnvRunner):
    """Steps a native vector environment, and hands over what it lived through as arrays."""

    env: Any

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._settings = _settings_of(self.config)

    def make_env(self) -> None:
        """Make the vector environment; a checkpoint brings the function along that makes it."""
        if self.env is not None:
            self.env.close()
        self.num_envs = self.config.num_envs_per_env_runner
        self.env = self.config.env_config[_MAKE_ENV](self.num_envs)

    def sample(self, **options: Any) -> list[Rollout]:
        """Live through the settings' `steps` in every environment from their beginning."""
        if any(options.get(name) for name in ("num_timesteps", "num_episodes", "random_actions")):
            raise PolicyError(
                "a runner of rollouts samples what its settings say, and by the policy alone",
                hint="score policies with gridtune.systems.shutdown.learners.playing.score_days",
            )
        # The first remote runner does what a local one would do.
        runner = max(0, (self.worker_index or 0) - 1)
        seed = update_seed(self._settings.seed, self._weights_seq_no, "rollout", runner)
        rollout = collect(self.env, self.module.network, self._settings.steps, seed=seed)
        ended = int((rollout.terminated | rollout.truncated).sum())
        self.num_env_steps_sampled_lifetime += self._increase_sampled_metrics(rollout.steps, ended)
        if ended:
            self._log_episode_metrics(rollout.steps / ended, rollout.mean_return, 0.0)
        return [rollout.to("cpu")]


class RolloutLearner(PPOTorchLearner):
    """Learns from rollouts as the loop in `gridtune.training.ppo` does."""

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
        """Make one update from the rollouts that stand where RLlib has episodes; return metrics."""
        rollouts: Sequence[Rollout] = training_data.episodes if episodes is None else episodes
        rollout = Rollout.side_by_side(rollouts).to(self._device)
        self.before_gradient_based_update(timesteps=timesteps or {})
        number, settings = self._weights_seq_no, self._settings
        optimiser = self.get_optimizer(DEFAULT_MODULE_ID)
        self._set_optimizer_lr(optimiser, settings.learning_rate_at(number))
        self._told: list[Tensor] = []
        network = self.module[DEFAULT_MODULE_ID].unwrapped().network
        for part in minibatches_of(rollout, network, settings, number):
            self._update({DEFAULT_MODULE_ID: {_MINIBATCH: part}})
        self._weights_seq_no += 1
        means = torch.stack(self._told).mean(0).tolist()
        losses = {f"loss_{name}": mean for name, mean in zip(Losses._fields, means, strict=True)}
        self.metrics.log_dict(losses, key=DEFAULT_MODULE_ID, window=1)
        trained = (ALL_MODULES, NUM_MODULE_STEPS_TRAINED_LIFETIME)
        self.metrics.log_value(trained, rollout.steps * settings.epochs, reduce="lifetime_sum")
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        """Return the loss of a minibatch."""
        losses = ppo_losses(fwd_out[_REPLY], batch[_MINIBATCH], self._settings, self._weights_seq_no)
        self._told.append(torch.stack([each.detach() for each in losses]))
        return losses.total


class RolloutPPO(PPO):
    """RLlib's PPO over rollouts."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Take up a checkpoint's state; runners have its weights when this returns."""
        super().set_state(state)
        # RLlib sends weights and does not wait: a runner may go on with its initial ones.
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
    gpus: float = 0,
) -> PPOConfig:
    """Return the configuration of a training through RLlib; its `build_algo()` gives the algorithm.

    Parameters
    ----------
    make_env
        Returns a Gymnasium vector environment of so many environments, as `PPOTrainer` takes it. Goes
        into checkpoints and to other processes, so it must be picklable.
    network, sequence
        What to train: see `gridtune.training.networks.make_network`. Its weights are drawn by the seed.
    settings
        By default the paper's.
    environments
        How many each runner steps.
    runners
        Processes that step environments; 0: the algorithm's own.
    gpus
        Of the learner.
    """
    chosen = settings or PPOSettings()
    probe = make_env(1)
    model = {
        "kind": network,
        "features": int(probe.single_observation_space.shape[0]),
        "actions": int(probe.single_action_space.n),
        "sequence": sequence,
        "seed": chosen.seed,
    }
    probe.close()
    config = PPOConfig(algo_class=RolloutPPO)
    seen, acted = probe.single_observation_space, probe.single_action_space
    config.environment(None, observation_space=seen, action_space=acted, env_config={_MAKE_ENV: make_env})
    config.env_runners(
        env_runner_cls=RolloutRunner,
        num_env_runners=runners,
        num_envs_per_env_runner=environments,
        batch_mode="complete_episodes",
    )
    config.rl_module(rl_module_spec=RLModuleSpec(NetworkModule, seen, acted, model_config={_NETWORK: model}))
    config.learners(
        learner_class=RolloutLearner,
        learner_config_dict={_SETTINGS: asdict(chosen)},
        num_learners=0,
        num_gpus_per_learner=gpus,
    )
    config.training(
        use_kl_loss=False,
        # What the runners return at one call is the batch; the settings say how it is cut.
        train_batch_size_per_learner=1,
        minibatch_size=1,
    )
    return config.framework("torch").debugging(log_level="ERROR")


def network_of(algorithm: Any) -> ActorCritic:
    """Return the network that an algorithm trains, to play or to write with `write_checkpoint`."""
    state = algorithm.learner_group.get_state(components="learner/" + COMPONENT_RL_MODULE)
    weights = state["learner"][COMPONENT_RL_MODULE][DEFAULT_MODULE_ID]
    network = make_network(**algorithm.config.rl_module_spec.model_config[_NETWORK])
    named = {name.removeprefix("network."): torch.as_tensor(value) for name, value in weights.items()}
    network.load_state_dict(named)
    return network.eval()


def _settings_of(config: Any) -> PPOSettings:
    return PPOSettings.from_dict(config.learner_config_dict[_SETTINGS])
