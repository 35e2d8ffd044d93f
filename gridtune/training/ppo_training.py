"""`PPOTraining`: a training with PPO in a vector environment whose machines are stepped in one compiled call.

Nothing here imports torch or RLlib before something is trained.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from gridtune.core.system import SystemParameters, WorkloadLoader
from gridtune.errors import PolicyError
from gridtune.training.system import Count, Training, TrainingParameters
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from gridtune.training.networks import ActorCritic

__all__ = [
    "EntropyDecay",
    "EntropyWeight",
    "Environments",
    "GradientNorm",
    "Lambda",
    "PPOParameters",
    "PPOTask",
    "PPOTraining",
    "Positive",
    "Rate",
    "Schedule",
    "Share",
    "UnitInterval",
    "split_log",
]

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]
UnitInterval = Annotated[float, Field(ge=0, le=1)]

# Hyper-parameters with their descriptions: a subclass that gives another default writes `lam: Lambda = 0.97`.
Schedule = Annotated[
    int, Field(ge=1, description="iterations over which learning rate and entropy weight fall")
]
Environments = Annotated[
    int, Field(ge=1, description="number of environments, each with an episode of its own")
]
Rate = Annotated[
    float, Field(gt=0, allow_inf_nan=False, description="initial learning rate; it falls to a tenth")
]
EntropyWeight = Annotated[float, Field(ge=0, description="initial weight of the entropy")]
EntropyDecay = Annotated[
    float, Field(gt=0, allow_inf_nan=False, description="final share of the entropy weight")
]
GradientNorm = Annotated[
    Positive | None, Field(description="maximum norm of gradients; null: no limit", examples=[0.5])
]
Lambda = Annotated[float, Field(ge=0, le=1, description="λ of the advantage estimate")]

#: The parameters that are settings of PPO by the same name.
_LEARNING = (
    *("learning_rate", "entropy_weight", "entropy_decay", "gradient_norm", "gamma", "lam"),
    "minibatches",
)


class PPOParameters(TrainingParameters):
    """The parameters that every training with PPO has; a subclass has those of its episodes, and `steps`."""

    schedule: Schedule = 100
    environments: Environments = 32
    runners: Annotated[int, Field(ge=0)] = Field(
        0, description="processes that step environments; 0: the one that learns"
    )
    minibatches: Count = Field(16, description="minibatches per epoch")
    learning_rate: Rate = 1e-3
    entropy_weight: EntropyWeight = 0.003
    entropy_decay: EntropyDecay = 1.0
    gradient_norm: GradientNorm = None
    gamma: UnitInterval = Field(0.99, description="discount of a decision")
    lam: Lambda = 0.95


@dataclass(frozen=True)
class PPOTask:
    """Task and network of an agent.

    Attributes
    ----------
    make_env
        Returns a vector environment of so many environments, see `gridtune.training.rllib.ppo_config`.
        Checkpoints have it, and so the jobs that it holds.
    network
        Kind of network, see `gridtune.training.networks.make_network`.
    steps
        Steps of each environment per iteration.
    frames
        Observations read for each decision, by networks that read several.
    initial
        A network whose weights are those to begin with.
    """

    make_env: Callable[[int], Any]
    network: str
    steps: int
    frames: int | None = None
    initial: ActorCritic | None = None


class PPOTraining(Training):
    """A training with PPO; a subclass defines `task` and `evaluate`."""

    Parameters: ClassVar[type[SystemParameters]] = PPOParameters
    changeable: ClassVar[tuple[str, ...]] = (*_LEARNING, "steps")

    @abstractmethod
    def task(self, parameters: Any, load: WorkloadLoader) -> PPOTask:
        """Return what is to be learned; `parameters` and `load` are as of `config`."""

    def config(self, parameters: Any, *, seed: int, load: WorkloadLoader) -> Any:
        """Return PPO on the task, all environments of a runner stepped in one compiled call."""
        from gridtune.training.ppo import PPOSettings  # noqa: PLC0415 (torch)
        from gridtune.training.rllib import ppo_config  # noqa: PLC0415 (RLlib)

        p, task = parameters, self.task(parameters, load)
        learning: dict[str, Any] = {name: getattr(p, name) for name in _LEARNING}
        settings = PPOSettings(**learning, steps=task.steps, updates=p.schedule, seed=seed)
        return ppo_config(
            task.make_env,
            task.network,
            settings,
            environments=p.environments,
            runners=p.runners,
            frames=task.frames,
            initial=task.initial,
            gpus=1 if p.device == "cuda" else 0,
        )


def split_log(log: Workload, held_out: float, least: int, *, field: str) -> tuple[Workload, Workload]:
    """Return the jobs of a log to learn on, and the last of them, which are held out for evaluation.

    Parameters
    ----------
    log
        Jobs in order of submission.
    held_out
        Share of them that is held out.
    least
        Jobs of an episode; both parts have at least so many.
    field
        The parameter that has this number, for the message.

    Raises
    ------
    PolicyError
        If there are too few jobs.
    """
    cut = round(len(log) * (1 - held_out))
    learned, last = log.take(slice(0, cut)), log.take(slice(cut, None))
    if min(len(learned), len(last)) < least:
        raise PolicyError(
            f"{len(log)} jobs are too few to learn and to hold out episodes of {least}", field=field
        )
    return learned, last
