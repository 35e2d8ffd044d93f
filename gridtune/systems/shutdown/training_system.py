"""The `shutdown_training` system: a cell is a PPO training up to some update, validated on held-out days.

A training continues from its last checkpoint, both when a cell asks for more updates and after its process
was killed. The random numbers of an update follow from the seed and the update's number, so the result is the
same as without an interruption.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from cachetools import LRUCache
from pydantic import Field, model_validator

from gridtune.core.extras import require_module
from gridtune.core.measure import Measure, MetricInfo
from gridtune.core.system import (
    Outcome,
    RenamedMetric,
    Streams,
    System,
    SystemParameters,
    WorkloadLoader,
)
from gridtune.systems.shutdown.metrics import SHUTDOWN_METRICS
from gridtune.systems.shutdown.simulator.days import Days, build_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.system import CLUSTERS
from gridtune.workload.references import WorkloadReference
from gridtune.workload.workload import Workload

__all__ = ["TRAININGS_VARIABLE", "TrainingParameters", "TrainingSystem"]

#: Environment variable for the folder of the trainings' checkpoints; by default one in the user's cache.
TRAININGS_VARIABLE = "GRIDTUNE_TRAININGS"
#: Metrics of the held-out days with sampled actions; with the prefix `greedy_`, of the likeliest actions.
_VALIDATED = ("score_per_day", "energy_waste_per_day", "switches_per_day", "stretch_mean", "qos_violations")

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class TrainingParameters(SystemParameters):
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
    until: Count | None = Field(None, description="number of updates; default: the whole schedule")
    schedule: Count = Field(160, description="updates over which learning rate and entropy weight fall")
    environments: Count = Field(16, description="number of environments, each with a day of its own")
    steps: Count | None = Field(
        None,
        description="steps of each environment per update; default 384 (decisions) with effects, else 1440 "
        "(minutes)",
    )
    validate_every: Count = Field(10, description="updates between validations")
    minibatches: Count = Field(16, description="minibatches per epoch")
    learning_rate: Positive = Field(5e-4, description="initial learning rate; it falls to a tenth")
    entropy_weight: Annotated[float, Field(ge=0)] = Field(0.005, description="initial weight of the entropy")
    entropy_decay: Positive = Field(1.0, description="final share of the entropy weight")
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(0.99, description="discount of a minute")
    lam: Annotated[float, Field(ge=0, le=1)] = Field(0.95, description="λ of the advantage estimate")

    @model_validator(mode="after")
    def _check_combinations(self) -> TrainingParameters:
        if self.until is not None and self.until > self.schedule:
            raise ValueError(f"until={self.until} is more than the {self.schedule} updates of the schedule")
        if self.frames is not None and self.network != "paper":
            raise ValueError(f"frames={self.frames} has no effect with network={self.network}")
        return self


_MEASURES: dict[str, Measure] = {name: SHUTDOWN_METRICS[name] for name in _VALIDATED}


class TrainingSystem(System):
    """PPO on a cluster's train days; one in ten is held out for validation."""

    name: ClassVar[str] = "shutdown_training"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = TrainingParameters
    renamed_metrics: ClassVar[Mapping[str, RenamedMetric]] = {
        "mean_stretch": RenamedMetric("stretch_mean"),
        "greedy_mean_stretch": RenamedMetric("greedy_stretch_mean"),
    }
    metrics: ClassVar[Mapping[str, MetricInfo]] = {
        **_MEASURES,
        **{f"greedy_{name}": measure for name, measure in _MEASURES.items()},
        "return_mean": Measure(
            "1", "max", "mean sum of rewards over the train days of the last update", source="gridtune"
        ),
        "updates": Measure("updates", "none", "number of updates", source="gridtune"),
        "days": Measure("days", "none", "train days, held-out ones included", source="gridtune"),
        "jobs": Measure("jobs", "none", "jobs of these days", source="gridtune"),
    }

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, Days] = LRUCache(8)

    def traces(self, parameters: TrainingParameters) -> Iterable[str]:
        """Return the one reference: the days."""
        return (str(WorkloadReference(parameters.trace, days=True)),)

    def preflight(self, parameters: TrainingParameters, load: WorkloadLoader) -> None:
        """Refuse to train without torch, or on a log without train days."""
        require_module("torch", user="training", extra="agents")
        self._train_days(parameters, load)

    def prepare(self, parameters: Iterable[TrainingParameters]) -> None:
        """Load torch."""
        import gridtune.systems.shutdown.learners.training  # noqa: F401, PLC0415 (torch)

    def _train_days(self, parameters: TrainingParameters, load: WorkloadLoader) -> Days:
        """Return the days to train on; the last few selections are cached."""
        workload = load(*self.traces(parameters))
        key = (workload.checksum, parameters.first)
        if key not in self._selections:
            self._selections[key] = _select_train_days(workload, parameters.first)
        return self._selections[key]

    def run(
        self, parameters: TrainingParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Train up to the update, from the last checkpoint if there is one; notes hold the learning curve."""
        from gridtune.systems.shutdown.learners.training import train_on_days  # noqa: PLC0415 (torch)
        from gridtune.training.ppo import PPOSettings  # noqa: PLC0415 (torch)

        p, workload = parameters, load(*self.traces(parameters))
        days = self._train_days(p, load)
        seed = int(streams("training").integers(2**31))
        folder, until = _folder(p, seed, workload.checksum), p.until or p.schedule
        curve = _curve(folder)
        if curve and curve[-1]["update"] > until and until not in {line["update"] for line in curve}:
            # It has passed this update without a validation.
            folder, curve = folder / f"until-{until}", []
        if not curve or curve[-1]["update"] < until:
            train_on_days(
                days,
                folder,
                platform=Platform(*CLUSTERS[p.cluster]),
                network=p.network,
                frames=p.frames,
                settings=PPOSettings(
                    steps=p.steps or (384 if p.network == "effects" else 1440),
                    minibatches=p.minibatches,
                    gamma=p.gamma,
                    lam=p.lam,
                    entropy_weight=p.entropy_weight,
                    entropy_decay=p.entropy_decay,
                    learning_rate=p.learning_rate,
                    updates=p.schedule,
                    seed=seed,
                ),
                until=until,
                environments=p.environments,
                validate_every=p.validate_every,
                threads=1,
                tau=p.tau,
                variant=p.variant,
            )
            curve = _curve(folder)
        return _outcome([line for line in curve if line["update"] <= until], days)


def _outcome(curve: list[dict[str, Any]], days: Days) -> Outcome:
    last = curve[-1]
    metrics = {name: float(last[f"sampled_{name}"]) for name in _VALIDATED}
    metrics |= {f"greedy_{name}": float(last[f"greedy_{name}"]) for name in _VALIDATED}
    counts = {"updates": float(last["update"]), "days": float(len(days)), "jobs": float(len(days.submit))}
    names = ("return_mean", "loss_entropy", "lr", *(f"sampled_{name}" for name in _VALIDATED))
    names += tuple(f"greedy_{name}" for name in _VALIDATED)
    columns = {name.removeprefix("sampled_"): [line[name] for line in curve] for name in names}
    notes = {"learning_curve": {"update": [line["update"] for line in curve], **columns}}
    return Outcome({**metrics, "return_mean": float(last["return_mean"]), **counts}, notes)


def _select_train_days(workload: Workload, first: int | None) -> Days:
    days = build_days(workload)
    train = np.flatnonzero(days.subset("train"))
    return days.take(train if first is None else train[:first])


def _folder(parameters: TrainingParameters, seed: int, checksum: str) -> Path:
    """Return the folder of the training's checkpoints: the same for every `until`."""
    determining = parameters.model_dump(mode="json", exclude={"until"})
    identity = json.dumps([TrainingSystem.version, determining, seed, checksum], sort_keys=True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    trainings = Path(os.environ.get(TRAININGS_VARIABLE) or cache / "gridtune" / "trainings")
    return trainings / sha256(identity.encode()).hexdigest()[:20]


def _curve(folder: Path) -> list[dict[str, Any]]:
    """Return the learning curve up to the last checkpoint; empty where there is none."""
    file = folder / "learning_curve.jsonl"
    if not file.exists() or not (folder / "last.pt").exists():
        return []
    # Older curves have the metric's old name.
    lines = file.read_text(encoding="utf-8").replace("mean_stretch", "stretch_mean").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]
