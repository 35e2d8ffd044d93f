"""`PPOTraining`: a training with PPO in a vector environment whose machines are stepped in one compiled call.

Nothing here imports torch or RLlib before something is trained.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from cachetools import LRUCache
from pydantic import Field

from gridtune.core.system import SystemParameters, WorkloadLoader, described
from gridtune.errors import PolicyError
from gridtune.training.system import Count, Training, TrainingParameters
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from gridtune.training.networks import ActorCritic

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]
UnitInterval = Annotated[float, Field(ge=0, le=1)]

EntropyWeight = Annotated[float, Field(ge=0)]

#: The parameters that are settings of PPO by the same name.
_LEARNING = (
    *("learning_rate", "entropy_weight", "entropy_decay", "gradient_norm", "gamma", "lam"),
    *("minibatches", "epochs"),
)


@described(__file__)
class PPOParameters(TrainingParameters):
    """The parameters that every training with PPO has; a subclass has those of its episodes, and `steps`.

    A subclass may give another default: the description stays.
    """

    schedule: Count = 100
    environments: Count = 32
    runners: Annotated[int, Field(ge=0)] = 0
    minibatches: Count = 16
    epochs: Count = 4
    learning_rate: Positive = 1e-3
    entropy_weight: EntropyWeight = 0.003
    entropy_decay: Positive = 1.0
    gradient_norm: Positive | None = None
    gamma: UnitInterval = 0.99
    lam: UnitInterval = 0.95


class PPOTraining(Training):
    """A training with PPO; a subclass defines `split`, `env_maker` and `scores`.

    Attributes
    ----------
    network
        Kind of network (`gridtune.training.networks.make_network`) where there is no parameter of that name.
    """

    Parameters: ClassVar[type[SystemParameters]] = PPOParameters
    changeable: ClassVar[tuple[str, ...]] = (*_LEARNING, "steps")
    network: ClassVar[str] = "mlp"

    def __init__(self) -> None:
        self._data: LRUCache[Hashable, tuple[Any, Any]] = LRUCache(8)

    def traces(self, parameters: Any) -> Iterable[str]:
        """Return the log, if there is one."""
        return () if parameters.trace is None else (str(parameters.reference),)

    @abstractmethod
    def split(self, parameters: Any, log: Workload | None) -> tuple[Any, Any]:
        """Return the data to learn on, and the data held out for evaluation.

        Parameters
        ----------
        parameters
            An instance of `Parameters`.
        log
            The workload of the reference that `traces` returned; None without one.
        """

    @abstractmethod
    def env_maker(self, parameters: Any, learned: Any) -> Callable[[int], Any]:
        """Return a function that makes a vector environment of so many environments on data to learn on.

        See `gridtune.training.rllib.ppo_config`. Checkpoints have the function and the data that it holds.
        """

    @abstractmethod
    def scores(
        self, parameters: Any, network: ActorCritic, held_out: Any, rng: np.random.Generator
    ) -> Mapping[str, float]:
        """Return metrics of the network as it is now on the data held out."""

    def preflight(self, parameters: Any, load: WorkloadLoader) -> None:
        """Refuse to train without torch, or on too few data."""
        super().preflight(parameters, load)
        self._split(parameters, load)

    def config(self, parameters: Any, *, seed: int, load: WorkloadLoader) -> Any:
        """Return PPO on the task, all environments of a runner stepped in one compiled call."""
        from gridtune.training.ppo import PPOSettings  # noqa: PLC0415 (torch)
        from gridtune.training.rllib import ppo_config  # noqa: PLC0415 (RLlib)

        p = parameters
        learning: dict[str, Any] = {name: getattr(p, name) for name in _LEARNING}
        settings = PPOSettings(**learning, steps=p.steps, updates=p.schedule, seed=seed)
        return ppo_config(
            self.env_maker(p, self._split(p, load)[0]),
            getattr(p, "network", self.network),
            settings,
            environments=p.environments,
            runners=p.runners,
            frames=getattr(p, "frames", None),
            gpus=1 if p.device == "cuda" else 0,
        )

    def evaluate(
        self, parameters: Any, algorithm: Any, *, rng: np.random.Generator, load: WorkloadLoader
    ) -> Mapping[str, float]:
        """Return the scores of the agent on the data held out."""
        from gridtune.training.rllib import network_of  # noqa: PLC0415 (RLlib)

        return self.scores(parameters, network_of(algorithm), self._split(parameters, load)[1], rng)

    def _split(self, parameters: Any, load: WorkloadLoader) -> tuple[Any, Any]:
        """Return the data to learn on and those held out; the last few are cached."""
        logs = [load(reference) for reference in self.traces(parameters)]
        key = (parameters, *(log.checksum for log in logs))
        if key not in self._data:
            self._data[key] = self.split(parameters, logs[0] if logs else None)
        return self._data[key]


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
