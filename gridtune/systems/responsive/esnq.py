"""`responsive/esnq`: candidate values learned by ESN-Q, an RLlib algorithm whose iterations are sweeps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, create_model, model_validator

from gridtune.core.measures import Measure
from gridtune.core.system import Count, Streams, SystemParameters, WorkloadLoader, described
from gridtune.errors import SimulationError
from gridtune.systems.responsive.metrics import RESPONSIVE_METRICS, counted_jobs, measure_site
from gridtune.systems.responsive.parameters import LearnedPolicy, ResponsiveParameters
from gridtune.systems.responsive.simulator.replay import SiteReplay, replay
from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel
from gridtune.systems.responsive.system import (
    ResponsiveSystem,
)
from gridtune.training.system import TRAINING_MEASURES, Training, TrainingParameters
from gridtune.workload.workload import Workload

#: Parameters of a cell that a training does not have, or calls otherwise.
_OTHERS = (
    *("policy", "checkpoint", "user_cap"),
    *("part", "window", "shake", "sweeps", "iterations", "protocol"),
)
_OF_CELLS: dict[str, Any] = {
    name: (field.annotation, field)
    for name, field in ResponsiveParameters.model_fields.items()
    if name not in _OTHERS
}
_CellParameters: Any = create_model("_CellParameters", __base__=TrainingParameters, **_OF_CELLS)


@described(__file__)
class _ESNQParameters(_CellParameters):
    """The parameters of one training: those of a cell with a learner, and how long it learns."""

    policy: LearnedPolicy = "esn-sarsa"
    iterations: Count = 6
    validate_every: Count = 1
    fits: Count | None = None
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.2

    @model_validator(mode="after")
    def _check_cell(self) -> _ESNQParameters:
        _ = self.cell
        return self

    @property
    def cell(self) -> ResponsiveParameters:
        """The parameters of the cell that learns so."""
        values = {name: getattr(self, name) for name in (*_OF_CELLS, "policy")}
        sweeps = self.iterations - (values["pretraining_sweeps"] != 0)
        return ResponsiveParameters.model_validate({**values, "sweeps": sweeps, "iterations": self.fits})

    def choose_jobs(self, workload: Workload) -> _ChosenJobs:
        """Hold out the last jobs, or if nobody waits there the part as long with the longest waits."""
        cell = self.cell
        first, _ = cell.split_log(workload)
        cores, cut = cell.size_of(workload.machine_processors), round((1 - self.held_out) * len(first))
        length = len(first) - cut
        if length == 0:
            return self.jobs_and_model(first, first, cores)
        every, parts = np.arange(len(first)), []
        for begin in range(cut, -1, -length):
            held_out = every[begin : begin + length]
            learned_on = first.take(np.delete(every, held_out))
            parts.append(self.jobs_and_model(learned_on, first.take(held_out), cores))
            if parts[0].wait > 0:
                break
        return max(parts, key=lambda part: part.wait)

    def jobs_and_model(self, learned_on: Workload, held_out: Workload, cores: int) -> _ChosenJobs:
        """Return jobs to learn on and jobs that were held out, and how long the latter wait."""
        cell = self.cell
        first, second = cell.site_jobs(learned_on, held_out)
        model = cell.site_model(cores)
        # On an elastic site the sizes of the pool tell policies apart, whether jobs wait or not.
        if model.elastic or not self.held_out:
            return _ChosenJobs(first, second, model, math.inf)
        waits = replay(second, model, "fcfs").start - second.submit - model.start_latency
        wait = float(waits[counted_jobs(len(second), cell.left_out)].mean())
        return _ChosenJobs(first, second, model, wait)


class _ChosenJobs(NamedTuple):
    """The jobs to learn on and to evaluate on, the site, and the mean wait of the latter for a core, in s."""

    learned_on: SiteJobs
    held_out: SiteJobs
    model: SiteModel
    wait: float


class ResponsiveESNQ(Training):
    """Candidate values of a grid site's jobs, learned as those of the system's cells are.

    With `held_out=0`, `pretraining_sweeps` above 0 and the same seed, the last policy is that of a cell with
    `sweeps` one less than `iterations`, bit for bit.
    """

    name: ClassVar[str] = "responsive/esnq"
    version: ClassVar[str] = "2"
    Parameters: ClassVar[type[SystemParameters]] = _ESNQParameters
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
        self._last: tuple[Workload, _ESNQParameters, _ChosenJobs] | None = None

    def traces(self, parameters: _ESNQParameters) -> Iterable[str]:
        """Return the reference of the log."""
        return self._system.traces(parameters.cell)

    def preflight(self, parameters: _ESNQParameters, load: WorkloadLoader) -> None:
        """Refuse what a cell would refuse, and an evaluation on jobs that never wait."""
        super().preflight(parameters, load)
        self._system.preflight(parameters.cell, load)
        chosen = self._chosen_jobs(parameters, load)
        if parameters.held_out and chosen.wait == 0:
            raise SimulationError(
                f"nobody waits in any part of {len(chosen.held_out)} jobs, "
                "so no policy is better than another",
                field="held_out",
                hint="fewer cores=, or held_out=0 to evaluate on the jobs that are learned on",
            )

    def seed(self, streams: Streams) -> int:
        """Return the seed that a cell's learner has."""
        return int(streams("learning").integers(2**62))

    def config(self, parameters: _ESNQParameters, *, seed: int, load: WorkloadLoader) -> Any:
        """Return ESN-Q on the first part of the log."""
        from gridtune.systems.responsive.learners.rllib import ESNQConfig  # noqa: PLC0415 (RLlib)

        cell = parameters.cell
        chosen = self._chosen_jobs(parameters, load)
        config = ESNQConfig().site(chosen.learned_on, chosen.model)
        return config.training(learner=cell.learner(), weight=cell.weight, learning_seed=seed)

    def evaluate(
        self, parameters: _ESNQParameters, algorithm: Any, *, rng: np.random.Generator, load: WorkloadLoader
    ) -> Mapping[str, float]:
        """Return the metrics of the jobs that are held out."""
        from gridtune.systems.responsive.learners.rllib import policy_of  # noqa: PLC0415 (RLlib)

        cell = parameters.cell
        _, held_out, model, _ = self._chosen_jobs(parameters, load)
        site = policy_of(algorithm).play(held_out, model, headroom=cell.headroom or 0.0)
        outcome = SiteReplay.of(site)
        metrics = measure_site(held_out, outcome, weight=cell.weight, left_out=cell.left_out)
        reward = "rigid_reward_mean" if cell.site == "rigid" else "elastic_reward_mean"
        return {**metrics, "reward_mean": metrics[reward]}

    def write_policy(
        self, parameters: _ESNQParameters, algorithm: Any, path: Path, notes: Mapping[str, Any]
    ) -> None:
        """Write the networks with their readouts."""
        from gridtune.systems.responsive.learners.rllib import policy_of  # noqa: PLC0415 (RLlib)

        policy_of(algorithm).save(path)

    def _chosen_jobs(self, parameters: _ESNQParameters, load: WorkloadLoader) -> _ChosenJobs:
        """Return the jobs to learn on and to evaluate on; every evaluation of a training asks for them."""
        workload = self._system.selected(parameters.cell, load)
        if self._last is None or self._last[0] is not workload or self._last[1] != parameters:
            self._last = workload, parameters, parameters.choose_jobs(workload)
        return self._last[2]
