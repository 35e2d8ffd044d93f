"""`responsive/esnq`: candidate values learned by ESN-Q, an RLlib algorithm whose iterations are sweeps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, create_model, model_validator

from gridtune.core.system import Count, Measure, Streams, SystemParameters, WorkloadLoader
from gridtune.errors import SimulationError
from gridtune.systems.responsive.learners.inputs import observed_model
from gridtune.systems.responsive.learners.training import play
from gridtune.systems.responsive.metrics import RESPONSIVE_METRICS, counted_jobs, measure_site
from gridtune.systems.responsive.parameters import LINEAR_WEIGHTS, LearnedPolicy, ResponsiveParameters
from gridtune.systems.responsive.simulator.jobs import SiteJobs
from gridtune.systems.responsive.simulator.replay import SiteReplay, replay
from gridtune.systems.responsive.simulator.site import SiteModel
from gridtune.systems.responsive.system import (
    ResponsiveSystem,
    parameters_model,
    site_jobs,
    split_log,
)
from gridtune.training.system import TRAINING_MEASURES, Training, TrainingParameters
from gridtune.workload.workload import Workload

__all__ = ["ESNQParameters", "ResponsiveESNQ"]

#: Parameters of a cell that a training does not have, or calls otherwise.
_OTHERS = (
    *("policy", "checkpoint", "patience", "user_cap", *LINEAR_WEIGHTS),
    *("part", "window", "shake", "sweeps", "iterations", "protocol"),
)
_OF_CELLS: dict[str, Any] = {
    name: (field.annotation, field)
    for name, field in ResponsiveParameters.model_fields.items()
    if name not in _OTHERS
}
_CellParameters: Any = create_model("_CellParameters", __base__=TrainingParameters, **_OF_CELLS)


class ESNQParameters(_CellParameters):
    """The parameters of one training: those of a cell with a learner, and how long it learns."""

    policy: LearnedPolicy = Field("esn-sarsa", description="what learns (network-method)")
    iterations: Count = Field(
        6, description="sweeps over the jobs; unless pretraining_sweeps=0, the first is under a simple rule"
    )
    validate_every: Count = Field(1, description="sweeps between evaluations")
    fits: Count | None = Field(
        None, description="N: iterations of fitted Q after each sweep (a cell's `iterations`)"
    )
    held_out: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.2,
        description="share of the jobs to learn on, the last ones, that is held out for evaluation; on a "
        "rigid site, if nobody waits there, the part as long with the longest waits; 0: none is, and those "
        "that are learned on are evaluated",
    )
    runners: Annotated[int, Field(ge=0)] = Field(
        0, description="processes that run over the jobs; 0: the one that learns"
    )

    @model_validator(mode="after")
    def _check_cell(self) -> ESNQParameters:
        _ = self.cell
        return self

    @property
    def cell(self) -> ResponsiveParameters:
        """The parameters of the cell that learns so."""
        values = {name: getattr(self, name) for name in (*_OF_CELLS, "policy")}
        sweeps = self.iterations - (values["pretraining_sweeps"] != 0)
        return ResponsiveParameters.model_validate({**values, "sweeps": sweeps, "iterations": self.fits})


class ResponsiveESNQ(Training):
    """Candidate values of a grid site's jobs, learned as those of the system's cells are.

    With `held_out=0`, `pretraining_sweeps` above 0 and the same seed, the last policy is that of a cell with
    `sweeps` one less than `iterations`, bit for bit.
    """

    name: ClassVar[str] = "responsive/esnq"
    version: ClassVar[str] = "2"
    Parameters: ClassVar[type[SystemParameters]] = ESNQParameters
    objective: ClassVar[str] = "reward_mean"
    policy_file: ClassVar[str] = "best.npz"
    metrics: ClassVar[Mapping[str, Measure]] = {
        **RESPONSIVE_METRICS,
        "reward_mean": Measure(
            "1",
            "max",
            "rigid_reward_mean; elastic_reward_mean where the pool changes",
            source=RESPONSIVE_METRICS["rigid_reward_mean"].source,
        ),
        **TRAINING_MEASURES,
    }

    def __init__(self) -> None:
        self._system = ResponsiveSystem()

    def traces(self, parameters: ESNQParameters) -> Iterable[str]:
        """Return the reference of the log."""
        return self._system.traces(parameters.cell)

    def preflight(self, parameters: ESNQParameters, load: WorkloadLoader) -> None:
        """Refuse what a cell would refuse, and an evaluation on jobs that never wait."""
        super().preflight(parameters, load)
        self._system.preflight(parameters.cell, load)
        _, held_out, model = self._site(parameters, load)
        if parameters.held_out and not model.elastic and not _mean_wait(held_out, model, parameters.left_out):
            raise SimulationError(
                f"nobody waits in any part of {len(held_out)} jobs, so no policy is better than another",
                field="held_out",
                hint="fewer cores=, or held_out=0 to evaluate on the jobs that are learned on",
            )

    def seed(self, streams: Streams) -> int:
        """Return the seed that a cell's learner has."""
        return int(streams("learning").integers(2**62))

    def config(self, parameters: ESNQParameters, *, seed: int, load: WorkloadLoader) -> Any:
        """Return ESN-Q on the first part of the log."""
        from gridtune.systems.responsive.learners.rllib import ESNQConfig  # noqa: PLC0415 (RLlib)

        cell = parameters.cell
        learned_on, _, model = self._site(parameters, load)
        config = ESNQConfig().site(learned_on, observed_model(model, cell.learner().inputs))
        config.training(learner=cell.learner(), weight=cell.weight, learning_seed=seed)
        return config.env_runners(num_env_runners=parameters.runners)

    def evaluate(
        self, parameters: ESNQParameters, algorithm: Any, *, rng: np.random.Generator, load: WorkloadLoader
    ) -> Mapping[str, float]:
        """Return the metrics of the jobs that are held out."""
        from gridtune.systems.responsive.learners.rllib import policy_of  # noqa: PLC0415 (RLlib)

        cell = parameters.cell
        _, held_out, model = self._site(parameters, load)
        site = play(policy_of(algorithm), held_out, model, headroom=cell.headroom or 0.0)
        metrics = measure_site(
            held_out,
            SiteReplay.of(site),
            weight=cell.weight,
            left_out=cell.left_out,
            wait_limit=cell.wait_limit or math.inf,
        )
        reward = "rigid_reward_mean" if cell.site == "rigid" else "elastic_reward_mean"
        return {**metrics, "reward_mean": metrics[reward]}

    def write_policy(
        self, parameters: ESNQParameters, algorithm: Any, path: Path, notes: Mapping[str, Any]
    ) -> None:
        """Write the networks with their readouts."""
        from gridtune.systems.responsive.learners.rllib import policy_of  # noqa: PLC0415 (RLlib)

        policy_of(algorithm).save(path)

    def _site(self, parameters: ESNQParameters, load: WorkloadLoader) -> tuple[SiteJobs, SiteJobs, SiteModel]:
        """Return the jobs to learn on, those to evaluate on, and the site."""
        cell = parameters.cell
        workload = self._system.selected(cell, load)
        first, _ = split_log(workload, cell)
        cores, cut = cell.size_of(workload.machine_processors), round((1 - parameters.held_out) * len(first))
        length = len(first) - cut
        if length == 0:
            return _jobs_and_model(first, first, cell, cores)
        every, parts = np.arange(len(first)), []
        for begin in range(cut, -1, -length):
            held_out = every[begin : begin + length]
            part = _jobs_and_model(first.take(np.delete(every, held_out)), first.take(held_out), cell, cores)
            # On an elastic site the sizes of the pool tell policies apart, whether jobs wait or not.
            wait = math.inf if part[2].elastic else _mean_wait(*part[1:], cell.left_out)
            parts.append((wait, part))
            if parts[0][0] > 0:
                break
        return max(parts, key=lambda each: each[0])[1]


def _jobs_and_model(
    learned_on: Workload, held_out: Workload, cell: ResponsiveParameters, cores: int
) -> tuple[SiteJobs, SiteJobs, SiteModel]:
    jobs = site_jobs(learned_on, held_out, cell)
    return *jobs, parameters_model(cores, cell, jobs[0])


def _mean_wait(jobs: SiteJobs, model: SiteModel, left_out: int | None) -> float:
    """Return the mean wait for a core under first come, first served, of the jobs that metrics count."""
    wait = replay(jobs, model, "fcfs").start - jobs.submit - model.start_latency
    return float(wait[counted_jobs(len(jobs), left_out)].mean())
