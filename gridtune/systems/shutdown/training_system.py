"""The `shutdown_training` system: a cell is a training with PPO up to some update, judged on held-out days.

A training whose cell asks for more updates than were made before goes on from the last checkpoint, as does
one whose process was ended: what is random in an update follows from the seed and the update's number, so
the result is that of a training that was never interrupted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from cachetools import LRUCache
from pydantic import Field, model_validator

from gridtune.core.measure import Measure, MetricInfo
from gridtune.core.system import (
    Outcome,
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

#: Names the folder that trainings keep their checkpoints in; by default one in the user's cache.
TRAININGS_VARIABLE = "GRIDTUNE_TRAININGS"
#: What a learning curve and the metrics have, drawn by probability and (with `greedy_` before it) greedily.
_JUDGED = (
    *("score_per_day", "energy_waste_per_day", "switches_per_day"),
    *("mean_stretch", "qos_violations"),
)

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class TrainingParameters(SystemParameters):
    """The parameters of one training."""

    trace: str = Field(description="the days: a folder or archive of logs", examples=["taurus_days"])
    first: Count | None = Field(None, description="only the first so many train days")
    cluster: Literal["taurus", "orion", "graphite", "econome"] = Field(
        "taurus", description="shape: 14 × 12, 4 × 12, 4 × 16 or 22 × 16 nodes × cores"
    )
    tau: Annotated[float, Field(ge=0)] = Field(0.5, description="share of its walltime a job may wait")
    variant: Literal["paper", "exact"] = Field("paper", description="whom the reward calls late")
    network: Literal["paper", "recurrent", "mlp", "effects"] = Field(
        "effects", description="what is trained, see docs/agents.md"
    )
    frames: Count | None = Field(
        None, description="with network=paper: observations that are read for each decision; default 20"
    )
    until: Count | None = Field(None, description="updates to make; default: all of the schedule")
    schedule: Count = Field(160, description="updates over which learning rate and entropy's weight fall")
    environments: Count = Field(16, description="days that are lived through side by side")
    steps: Count | None = Field(
        None,
        description="steps of each between updates; default 384 with effects (decisions), else 1440",
    )
    validate_every: Count = Field(10, description="updates between looks at the held-out days")
    minibatches: Count = Field(16, description="parts that an epoch is cut into")
    learning_rate: Positive = Field(5e-4, description="at the beginning; it falls to a tenth")
    entropy_weight: Annotated[float, Field(ge=0)] = Field(0.005, description="at the beginning")
    entropy_decay: Positive = Field(1.0, description="what the entropy's weight falls to, as a share")
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(0.99, description="discount of a minute")
    lam: Annotated[float, Field(ge=0, le=1)] = Field(0.95, description="λ of the advantage estimate")

    @model_validator(mode="after")
    def _belong_together(self) -> TrainingParameters:
        if self.until is not None and self.until > self.schedule:
            raise ValueError(f"until={self.until} is beyond the schedule's {self.schedule} updates")
        if self.frames is not None and self.network != "paper":
            raise ValueError(f"frames={self.frames} has no effect with network={self.network}")
        return self


_MEASURES: dict[str, Measure] = {name: SHUTDOWN_METRICS[name] for name in _JUDGED}


class TrainingSystem(System):
    """PPO on a cluster's train days: one in ten is held back, and judges."""

    name: ClassVar[str] = "shutdown_training"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = TrainingParameters
    metrics: ClassVar[Mapping[str, MetricInfo]] = {
        # Of the days held back, with actions drawn by probability and with the likeliest ones.
        **_MEASURES,
        **{f"greedy_{name}": measure for name, measure in _MEASURES.items()},
        "return_mean": Measure("1", "max", "mean over train days of the last update of their rewards"),
        "updates": Measure("updates", "none", "updates made"),
        "days": Measure("days", "none", "train days, with those held back"),
        "jobs": Measure("jobs", "none", "jobs of these days"),
    }

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, Days] = LRUCache(8)

    def traces(self, parameters: TrainingParameters) -> Iterable[str]:
        """Return the one reference: the days."""
        return (str(WorkloadReference(parameters.trace, days=True)),)

    def prepare(self, parameters: Iterable[TrainingParameters]) -> None:
        """Load what is slow to load."""
        import gridtune.systems.shutdown.learners.training  # noqa: F401, PLC0415

    def run(
        self, parameters: TrainingParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Train up to the update, from the last checkpoint if there is one; the notes hold the curve."""
        from gridtune.systems.shutdown.learners.training import train_on_days  # noqa: PLC0415
        from gridtune.training.ppo import PPOSettings  # noqa: PLC0415

        p, workload = parameters, load(*self.traces(parameters))
        key = (workload.checksum, p.first)
        if key not in self._selections:
            self._selections[key] = _train_days(workload, p.first)
        days = self._selections[key]
        seed = int(streams("training").integers(2**31))
        folder, until = _folder(p, seed, workload.checksum), p.until or p.schedule
        curve = _curve(folder)
        if curve and curve[-1]["update"] > until and until not in {line["update"] for line in curve}:
            # It has gone on without a look at this update.
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
        lived = [line for line in curve if line["update"] <= until]
        return _outcome(lived, days)


def _outcome(curve: list[dict[str, Any]], days: Days) -> Outcome:
    last = curve[-1]
    metrics = {name: float(last[f"sampled_{name}"]) for name in _JUDGED}
    metrics |= {f"greedy_{name}": float(last[f"greedy_{name}"]) for name in _JUDGED}
    counts = {"updates": float(last["update"]), "days": float(len(days)), "jobs": float(len(days.submit))}
    told = ("return_mean", "loss_entropy", "lr", *(f"sampled_{name}" for name in _JUDGED))
    told += tuple(f"greedy_{name}" for name in _JUDGED)
    columns = {name.removeprefix("sampled_"): [line[name] for line in curve] for name in told}
    notes = {"learning_curve": {"update": [line["update"] for line in curve], **columns}}
    return Outcome({**metrics, "return_mean": float(last["return_mean"]), **counts}, notes)


def _train_days(workload: Workload, first: int | None) -> Days:
    import numpy as np  # noqa: PLC0415

    days = build_days(workload)
    train = np.flatnonzero(days.subset("train"))
    return days.take(train if first is None else train[:first])


def _folder(parameters: TrainingParameters, seed: int, checksum: str) -> Path:
    """Return where the training keeps its checkpoints: the same for every `until`."""
    determined = parameters.model_dump(mode="json", exclude={"until"})
    told = json.dumps([TrainingSystem.version, determined, seed, checksum], sort_keys=True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    home = Path(os.environ.get(TRAININGS_VARIABLE) or cache / "gridtune" / "trainings")
    return home / sha256(told.encode()).hexdigest()[:20]


def _curve(folder: Path) -> list[dict[str, Any]]:
    """Return the learning curve up to the last checkpoint; empty where there is none."""
    file = folder / "learning_curve.jsonl"
    if not file.exists() or not (folder / "last.pt").exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]
