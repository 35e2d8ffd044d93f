"""`shutdown/ppo`: PPO on a cluster's train days; one in ten is held out for evaluation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from cachetools import LRUCache
from pydantic import Field, model_validator

from gridtune.core.sources import file_checksums
from gridtune.core.system import Measure, SystemParameters, WorkloadLoader
from gridtune.errors import PolicyError
from gridtune.systems.shutdown.metrics import SHUTDOWN_METRICS
from gridtune.systems.shutdown.parameters import CLUSTERS
from gridtune.systems.shutdown.simulator.days import Days, build_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.state import View
from gridtune.systems.shutdown.trained import find_policy
from gridtune.training.ppo_training import (
    EntropyWeight,
    Environments,
    PPOParameters,
    PPOTask,
    PPOTraining,
    Rate,
    Schedule,
    UnitInterval,
)
from gridtune.training.system import TRAINING_MEASURES, Count
from gridtune.workload.files import WorkloadReference
from gridtune.workload.workload import Workload

__all__ = ["ShutdownPPO", "ShutdownPPOParameters", "hold_out"]

#: One train day in this many is held out for evaluation.
HELD_OUT = 10
#: Metrics of the held-out days with sampled actions; with the prefix `greedy_`, of the likeliest actions.
_EVALUATED = ("score_per_day", "energy_waste_per_day", "switches_per_day", "stretch_mean", "qos_violations")


class ShutdownPPOParameters(PPOParameters):
    """The parameters of one training."""

    trace: str = Field(description="the days: a folder or archive of logs", examples=["taurus_days"])
    first: Count | None = Field(None, description="only the first N train days")
    cluster: Literal["taurus", "orion", "graphite", "econome"] = Field(
        "taurus", description="shape: 14 × 12, 4 × 12, 4 × 16 or 22 × 16 nodes × cores"
    )
    tau: Annotated[float, Field(ge=0)] = Field(
        0.5, description="a job is late once it has waited this share of its walltime"
    )
    variant: Literal["paper", "exact"] = Field(
        "paper", description="late jobs that the reward counts, see docs/shutdown.md"
    )
    network: Literal["paper", "recurrent", "mlp", "effects"] = Field(
        "effects", description="network to train, see docs/agents.md"
    )
    frames: Count | None = Field(
        None, description="with network=paper: observations read for each decision; default 20"
    )
    initial: str | None = Field(
        None, description="policy to begin with instead of random weights: what `checkpoint` takes"
    )
    iterations: Count = Field(160, description="iterations of PPO, each an update from new days")
    schedule: Schedule = 160
    environments: Environments = 16
    chain: Count = Field(
        1,
        description="days in an episode: with more than one, time goes on at midnight, episodes are "
        "truncated instead of terminated, and metrics are those of episodes",
    )
    steps: Count | None = Field(
        None,
        description="steps of each environment per iteration; default 384 (decisions) with effects, else "
        "1440 (minutes)",
    )
    learning_rate: Rate = 5e-4
    entropy_weight: EntropyWeight = 0.005
    gamma: UnitInterval = Field(0.99, description="discount of a minute")

    @model_validator(mode="after")
    def _check_combinations(self) -> ShutdownPPOParameters:
        if self.network != "paper":
            self._refuse_idle([(("frames",), f"network={self.network}")])
        return self

    @property
    def platform(self) -> Platform:
        """The cluster."""
        return Platform(*CLUSTERS[self.cluster])

    @property
    def view(self) -> View:
        """Observation of the network."""
        return "effects" if self.network == "effects" else "paper"


_MEASURES: dict[str, Measure] = {name: SHUTDOWN_METRICS[name] for name in _EVALUATED}


class ShutdownPPO(PPOTraining):
    """PPO on a cluster's train days; one in ten is held out for evaluation."""

    name: ClassVar[str] = "shutdown/ppo"
    version: ClassVar[str] = "2"
    Parameters: ClassVar[type[SystemParameters]] = ShutdownPPOParameters
    objective: ClassVar[str] = "score_per_day"
    metrics: ClassVar[Mapping[str, Measure]] = {
        **_MEASURES,
        **{f"greedy_{name}": measure for name, measure in _MEASURES.items()},
        **TRAINING_MEASURES,
    }

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, tuple[Days, Days]] = LRUCache(8)

    def traces(self, parameters: ShutdownPPOParameters) -> Iterable[str]:
        """Return the one reference: the days."""
        return (str(WorkloadReference(parameters.trace, days=True)),)

    def file_checksums(self, parameters: ShutdownPPOParameters) -> Mapping[str, str]:
        """Return the checksum of the initial policy."""
        if parameters.initial is None:
            return {}
        return file_checksums({"initial": find_policy(parameters.initial)})

    def preflight(self, parameters: ShutdownPPOParameters, load: WorkloadLoader) -> None:
        """Refuse to train without torch, or on a log with too few train days."""
        super().preflight(parameters, load)
        self._days(parameters, load)

    def task(self, parameters: ShutdownPPOParameters, load: WorkloadLoader) -> PPOTask:
        """Return the days to learn on, and the network with its initial weights."""
        from gridtune.systems.shutdown.environment import ShutdownVectorEnv  # noqa: PLC0415 (gymnasium)
        from gridtune.training.networks import load_policy  # noqa: PLC0415 (torch)

        p, (days, _) = parameters, self._days(parameters, load)
        model: dict[str, Any] = {name: getattr(p, name) for name in ("tau", "variant", "view", "chain")}
        model["decisions"] = p.view == "effects"
        # Checkpoints have these arguments, and so the days.
        return PPOTask(
            partial(ShutdownVectorEnv, days=days, platform=p.platform, copy=False, **model),
            p.network,
            p.steps or (384 if p.network == "effects" else 1440),
            frames=p.frames,
            initial=None if p.initial is None else load_policy(find_policy(p.initial)),
        )

    def evaluate(
        self,
        parameters: ShutdownPPOParameters,
        algorithm: Any,
        *,
        rng: np.random.Generator,
        load: WorkloadLoader,
    ) -> Mapping[str, float]:
        """Return the metrics of the held-out days, with sampled and with the likeliest actions."""
        from gridtune.systems.shutdown.learners.playing import score_days  # noqa: PLC0415 (torch)
        from gridtune.training.rllib import network_of  # noqa: PLC0415 (RLlib)

        p, network = parameters, network_of(algorithm)
        _, held_out = self._days(p, load)
        if p.chain > 1:
            held_out = held_out.chained(p.chain)
        metrics: dict[str, float] = {}
        for prefix, generator in (("", rng), ("greedy_", None)):
            scores = score_days(network, held_out, p.platform, rng=generator, tau=p.tau, variant=p.variant)
            metrics |= {prefix + name: scores[name] for name in _EVALUATED}
        return metrics

    def _days(self, parameters: ShutdownPPOParameters, load: WorkloadLoader) -> tuple[Days, Days]:
        """Return the days to train on and those held out; the last few selections are cached."""
        workload = load(*self.traces(parameters))
        key = (workload.checksum, parameters.first)
        if key not in self._selections:
            self._selections[key] = hold_out(_select_train_days(workload, parameters.first))
        return self._selections[key]


def hold_out(days: Days, one_in: int = HELD_OUT) -> tuple[Days, Days]:
    """Return the days to train on and those to evaluate on: every tenth one."""
    held_out = np.arange(len(days)) % one_in == one_in - 1
    if held_out.all() or not held_out.any():
        raise PolicyError(f"{len(days)} days are too few to hold out one in {one_in}")
    return days.take(~held_out), days.take(held_out)


def _select_train_days(workload: Workload, first: int | None) -> Days:
    days = build_days(workload)
    train = np.flatnonzero(days.subset("train"))
    return days.take(train if first is None else train[:first])
