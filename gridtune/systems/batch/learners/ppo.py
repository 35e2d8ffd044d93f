"""`batch/ppo`: PPO on windows of one part of a log, the last jobs of which are held out for evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from gridtune.batch.estimates import kill_decided
from gridtune.core.measures import Measure
from gridtune.core.system import LogParameters, SystemParameters, Window, WorkloadLoader, described
from gridtune.systems.batch.parameters import Selection
from gridtune.training.ppo_training import (
    Positive,
    PPOParameters,
    PPOTraining,
    Share,
    UnitInterval,
    split_log,
)
from gridtune.training.system import TRAINING_MEASURES, Count
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    from gridtune.training.networks import ActorCritic

#: At most so many windows are evaluated.
_WINDOWS = 40


@described(__file__)
class _BatchPPOParameters(PPOParameters, LogParameters):
    """The parameters of one training."""

    processors: Count | None = None
    window: Window | None = "1/2"
    held_out: Share = 0.2
    load: Positive = 1.0
    jobs: Count = 256
    candidates: Count = 128
    warm: Annotated[int, Field(ge=0)] = 0
    predict: bool = False
    mode: Literal["pick", "backfill"] = "pick"
    backfill: Literal["none", "easy"] = "easy"
    order: str = "fcfs"
    protect: bool = True
    reward: str = "bounded_slowdown_mean"
    iterations: Count = 60
    schedule: Count = 60
    steps: Count = 256
    entropy_decay: Positive = 0.1
    gradient_norm: Positive | None = 0.5
    gamma: UnitInterval = 0.999
    lam: UnitInterval = 0.97

    @model_validator(mode="after")
    def _check_combinations(self) -> _BatchPPOParameters:
        if self.mode == "backfill":
            self._refuse_idle([(("backfill",), "mode=backfill")])
        else:
            self._refuse_idle([(("protect",), "mode=pick")])
        if self.mode == "pick" and self.backfill == "none":
            self._refuse_idle([(("order",), "backfill=none")])
        return self

    @property
    def decisions(self) -> dict[str, Any]:
        """The options of `BatchVectorEnv` that say what the policy decides."""
        names = ("candidates", "predict", "mode", "backfill", "order", "protect")
        return {name: getattr(self, name) for name in names}

    def options(self, *, relative: bool) -> dict[str, Any]:
        others = {name: getattr(self, name) for name in ("processors", "jobs", "warm", "reward")}
        return {**self.decisions, **others, "relative": relative}


class BatchPPO(PPOTraining):
    """PPO on windows of a log, each beginning on an empty machine or, with `warm`, in a state of a replay.

    The rewards of an episode add up to the share by which its metric is better than with the first candidate
    at every decision: first come, first served, with the same backfilling. With reward=delay, which is
    relative already, they add up to minus the cost.
    """

    name: ClassVar[str] = "batch/ppo"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = _BatchPPOParameters
    objective: ClassVar[str] = "improvement_mean"
    network: ClassVar[str] = "candidates"
    metrics: ClassVar[Mapping[str, Measure]] = {
        "improvement_mean": Measure.own(
            "1",
            "max",
            "Σ (bᵢ − mᵢ) / bᵢ / n over held-out windows i; mᵢ: the metric under the likeliest choices, bᵢ: "
            "under the first candidate at every decision",
        ),
        "improved_share": Measure.own(
            "1", "max", "share of the held-out windows in which mᵢ is better than bᵢ"
        ),
        **TRAINING_MEASURES,
    }

    def values_from_log(self, parameters: _BatchPPOParameters, load: WorkloadLoader) -> Mapping[str, Any]:
        """Return whether jobs are killed, which the log decides."""
        return kill_decided(load(str(parameters.reference)), "auto")

    def preflight(self, parameters: _BatchPPOParameters, load: WorkloadLoader) -> None:
        """Refuse to train without torch, on too few jobs, or where there is nothing to decide."""
        super().preflight(parameters, load)
        learned, _ = self._split(parameters, load)
        _make_env(learned, parameters.options(relative=True), 1).reset(seed=0)

    def split(self, parameters: _BatchPPOParameters, log: Workload | None) -> tuple[Workload, Workload]:
        """Return the jobs to learn on, and those held out."""
        assert log is not None
        names = Selection.model_fields.keys() & _BatchPPOParameters.model_fields.keys()
        selection = Selection(**{name: getattr(parameters, name) for name in names})
        parts = split_log(
            selection.selected_jobs(log), parameters.held_out, parameters.warm + parameters.jobs, field="jobs"
        )
        return parts[0].scale_load(parameters.load), parts[1].scale_load(parameters.load)

    def env_maker(self, parameters: _BatchPPOParameters, learned: Workload) -> Callable[[int], Any]:
        """Return the environments of windows of the jobs to learn on."""
        return partial(_make_env, learned, parameters.options(relative=parameters.reward != "delay"))

    def scores(
        self,
        parameters: _BatchPPOParameters,
        network: ActorCritic,
        held_out: Workload,
        rng: np.random.Generator,
    ) -> Mapping[str, float]:
        """Return the improvement on held-out windows, one after the other, with the likeliest choices."""
        from gridtune.systems.batch.learners.candidate_network import play_windows  # noqa: PLC0415 (torch)

        count = min(len(held_out) // (parameters.warm + parameters.jobs), _WINDOWS)
        machines = _make_env(held_out, parameters.options(relative=True), count)
        first = np.linspace(0, machines.starts - 1, count).astype(np.int64)
        improvement = play_windows(network, machines, first)
        return {
            "improvement_mean": float(improvement.mean()),
            "improved_share": float((improvement > 0).mean()),
        }

    def policy_notes(self, parameters: _BatchPPOParameters) -> Mapping[str, Any]:
        """Return what the policy decides."""
        from gridtune.systems.batch.learners.candidate_network import ENVIRONMENT  # noqa: PLC0415 (torch)

        return {ENVIRONMENT: parameters.decisions}


def _make_env(workload: Workload, options: Mapping[str, Any], count: int) -> Any:
    """Return a vector environment of this many machines; checkpoints have its arguments, and so the jobs."""
    from gridtune.batch.environment import BatchVectorEnv  # noqa: PLC0415 (gymnasium)

    return BatchVectorEnv(count, workload, flat=True, copy=False, **options)
