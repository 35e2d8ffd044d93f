"""The parameters of the `gangs` system."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from gridtune.core.system import Count, LogParameters, Partition, Window, split_list
from gridtune.systems.gangs.simulator import Policy
from gridtune.workload.files import WorkloadReference

__all__ = ["GangsParameters"]

#: GPU-seconds after which a job falls to the next queue, ascending.
Thresholds = Annotated[tuple[Count, ...], BeforeValidator(split_list)]


class GangsParameters(LogParameters):
    """A pool of GPUs, the training jobs that arrive, and the policy that chooses which of them run."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Common": ("trace", "policy", "queues", "gpus", "gpus_per_node", "load", "round", "restart"),
        "Jobs": ("clean", "first", "partition", "window", "drawn_jobs"),
    }

    trace: str | None = Field(  # type: ignore[assignment]  # its base needs a log
        None,
        description="a log of training jobs; a job's GPUs are its processors, unless the log says GPUs "
        "beside them; default: drawn jobs",
        examples=["my_gpu_jobs.csv"],
    )
    policy: Policy = Field(
        "las",
        description="which jobs run: fifo, in order of submission; backfill, the same, but jobs that do not "
        "fit are passed over; sjf, shortest run time; las, least attained GPU-seconds; srtf, shortest "
        "remaining time; srsf, fewest remaining GPU-seconds. las, srtf and srsf preempt; sjf, srtf and srsf "
        "are clairvoyant: they know run times",
    )
    queues: Thresholds = Field(
        (),
        description="with policy=las: GPU-seconds after which a job falls to the next queue, ascending; "
        "within a queue the first to be submitted goes first; default: no queues, exact attained service",
        examples=["3250"],
    )
    gpus: Count | None = Field(
        None, description="GPUs of the pool; default: the machine's size by the log, 64 for drawn jobs"
    )
    gpus_per_node: Count = Field(
        8,
        description="GPUs of a node: a job has its GPUs on one node, a wider one on whole nodes and the rest "
        "on one",
    )
    load: Annotated[float, Field(gt=0, le=10)] | None = Field(
        None,
        description="offered load: Σ GPUs · run time over what the pool can do from the first to the last "
        "submission; times between submissions are scaled to it; default: as in the log, 0.8 for drawn jobs",
        examples=[0.9],
    )
    round: Count = Field(360, description="seconds from one decision of the policy to the next")
    restart: Annotated[int, Field(ge=0)] = Field(
        30, description="seconds that a job's GPUs do no work after it was preempted or moved to another node"
    )
    partition: Partition | None = Field(None, description="only jobs of this partition (virtual cluster)")
    window: Window | None = Field(
        None, description="the i-th of n consecutive windows of about as many jobs", examples=["3/10"]
    )
    drawn_jobs: Count | None = Field(
        None,
        description="with a log: draw so many of the selected jobs at random, with repetition, that arrive "
        "as a Poisson process; default: the log's jobs as they are. Without: jobs to draw, before a window "
        "is cut from them; default: 5000",
    )

    @property
    def reference(self) -> WorkloadReference:
        """The log, with the rules that clean it as it is read: all but those that go by the pool's size."""
        rules = tuple(rule for rule in self.rules if rule not in ("drop_wider", "clamp_wider"))
        return WorkloadReference(str(self.trace), rules)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.trace is None:
            self._refuse_idle([(("partition", "clean"), "drawn jobs")])
        if self.policy != "las":
            self._refuse_idle([(("queues",), f"policy={self.policy}")])
        if any(low >= high for low, high in pairwise(self.queues)):
            raise ValueError(f"queues must ascend, but are {', '.join(map(str, self.queues))}")
        if self.gpus is not None and self.gpus % self.gpus_per_node:
            raise ValueError(f"gpus={self.gpus} are no whole nodes of gpus_per_node={self.gpus_per_node}")
        if self.restart >= self.round:
            raise ValueError(f"restart={self.restart} must be shorter than round={self.round}")
        return self
