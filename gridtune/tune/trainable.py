"""`trainable`: any system as a trainable of Ray Tune, one iteration for each replicate."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from ray import tune

from gridtune.core.cells import Replicate, canonical_json, finite_json, validated
from gridtune.core.refusals import metric_hint, parameter_hint
from gridtune.core.system import System, get_system
from gridtune.errors import SweepError
from gridtune.sweep.plan import space_replicates
from gridtune.sweep.plugins import Plugin, load_plugins, read_plugin
from gridtune.sweep.runner import run_cell
from gridtune.sweep.space import Replicates
from gridtune.sweep.warm import prepare_worker
from gridtune.sweep.workloads import Workloads

__all__ = ["SystemTrainable", "trainable"]

_STATE = "state.json"


@dataclass(frozen=True)
class _Task:
    """What every trial of a trainable has in common.

    Attributes
    ----------
    system
        The system's name.
    fixed
        Parameters that every trial has.
    replicates
        The repetitions.
    steps
        What each iteration adds to a trial's parameters, and the replicates that it runs.
    metrics
        Names of the metrics that are reported.
    plugins
        The user's policies and systems.
    workloads
        The logs, read already.
    """

    system: str
    fixed: Mapping[str, Any]
    steps: Sequence[tuple[Mapping[str, Any], Sequence[Replicate]]]
    metrics: Sequence[str]
    plugins: Sequence[Plugin]
    workloads: Workloads


def trainable(
    system: str,
    *,
    fixed: Mapping[str, Any] | None = None,
    replicates: int | Mapping[str, int] = 1,
    resource: Mapping[str, Sequence[float]] | None = None,
    metrics: Iterable[str] | None = None,
    traces: Iterable[str] = (),
    plugins: Iterable[str | Path] = (),
) -> type[tune.Trainable]:
    """Return a class for `tune.Tuner` that runs a system with a trial's configuration as parameters.

    Each iteration runs one replicate and reports the mean of each metric over the replicates so far, so that
    a scheduler can stop a trial early; `training_iteration` is the number of replicates. All trials have the
    same replicates: the same windows, the same random numbers. With a `resource` an iteration is one of its
    values instead, with all replicates.

    Parameters
    ----------
    system
        The registered system's name.
    fixed
        Parameters that every trial has; `param_space` gives the others, by the system's names.
    replicates
        How many seeds; or, as in a search space, `{"windows": 10}` or `{"shakes": 10, "amount": 600}`.
    resource
        A parameter and its ascending values, such as `{"until": [10, 30, 90]}` of `shutdown_training`. The
        result has the value under the parameter's name, for a scheduler's `time_attr`.
    metrics
        What is reported; by default every metric of the system.
    traces
        Logs that `param_space` chooses among; those in `fixed` are known. They are read here, once, and
        travel to the workers.
    plugins
        Python files that register policies or systems.

    Returns
    -------
    type
        A subclass of `ray.tune.Trainable`. It can be reset for another trial (`reuse_actors=True`), saved and
        restored, so schedulers that pause trials or copy them (PBT) work. A trial that takes over the state
        of another goes on with the next replicate; its means are of the replicates that its own
        configuration has run.

    Raises
    ------
    SweepError
        If the system, a parameter, a metric or a plug-in is not known.
    """
    sources = [read_plugin(Path(path)) for path in plugins]
    load_plugins(sources)
    simulated = get_system(system)
    fixed = dict(fixed or {})
    _check_names(simulated, [*fixed, *(resource or {})])
    reported = list(simulated.metrics if metrics is None else metrics)
    for name in reported:
        if name not in simulated.metrics:
            raise SweepError(f"{system} has no metric {name!r}", hint=metric_hint(simulated, name))
    workloads = Workloads()
    for trace in [None, *traces]:
        _read_traces(simulated, fixed if trace is None else {**fixed, "trace": trace}, workloads)
    task = _Task(system, fixed, _steps(simulated, replicates, resource or {}), reported, sources, workloads)
    made: type[tune.Trainable] = tune.with_parameters(SystemTrainable, task=task)
    made.__name__ = system
    return made


def _steps(
    system: System, replicates: int | Mapping[str, int], resource: Mapping[str, Sequence[float]]
) -> list[tuple[dict[str, Any], list[Replicate]]]:
    try:
        asked = {"seeds": replicates} if isinstance(replicates, int) else replicates
        repetitions = space_replicates(Replicates(**asked), system.Parameters.window_parameter)
    except (ValidationError, TypeError) as refused:
        reason = refused.errors()[0]["msg"] if isinstance(refused, ValidationError) else str(refused)
        raise SweepError(f"replicates={replicates!r} are refused: {reason}", field="replicates") from None
    if not resource:
        return [({}, [replicate]) for replicate in repetitions]
    if len(resource) > 1:
        raise SweepError("a resource is one parameter", field="resource", hint='such as {"until": [10, 30]}')
    ((name, values),) = resource.items()
    if not values or list(values) != sorted(values):
        raise SweepError("the values of a resource ascend", field=f"resource.{name}")
    return [({name: value}, repetitions) for value in values]


def _check_names(system: System, names: Iterable[str]) -> None:
    for name in names:
        if name not in system.Parameters.model_fields:
            raise SweepError(f"{system.name} has no parameter {name!r}", hint=parameter_hint(system, name))


def _read_traces(system: System, parameters: Mapping[str, Any], workloads: Workloads) -> None:
    """Read the logs of some parameters; where the trials' own are still missing, of those that are there."""
    try:
        checked: Any = validated(system, parameters)
    except SweepError:
        if "trace" not in parameters:
            return
        checked = validated(system, {"trace": parameters["trace"]})
    workloads.checksums(system.traces(checked))


class SystemTrainable(tune.Trainable):
    """Runs a system, one iteration for each replicate; `trainable` makes classes of it."""

    def setup(self, config: dict[str, Any], task: _Task | None = None) -> None:
        """Load the system and what it needs.

        Raises
        ------
        SweepError
            If the configuration has a parameter that the system does not know, or refuses.
        """
        if task is None:
            raise SweepError("this class has no system", hint="use gridtune.tune.trainable")
        self._task = task
        load_plugins(task.plugins)
        self._system = get_system(task.system)
        self.reset_config(config)
        prepare_worker(self._system, [{**self._parameters, **task.steps[0][0]}], task.plugins)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin a trial."""
        # Samplers give numpy's numbers.
        plain = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in new_config.items()
        }
        self._parameters = {**self._task.fixed, **plain}
        _check_names(self._system, self._parameters)
        self._steps_done = 0
        #: The metrics of every replicate since the configuration is what it is.
        self._values: list[dict[str, float]] = []
        return True

    def step(self) -> dict[str, Any]:
        """Run the next replicate, and return the mean of each metric over the replicates so far.

        Raises
        ------
        GridtuneError
            If the system refuses the parameters, or the run fails: the trial has failed.
        """
        task = self._task
        added, replicates = task.steps[min(self._steps_done, len(task.steps) - 1)]
        if added:
            self._values.clear()
        for replicate in replicates:
            parameters = {**self._parameters, **added, **replicate.parameters}
            run = run_cell(task.system, parameters, seed=replicate.seed, workloads=task.workloads)
            self._values.append(
                {name: float(run.outcome.metrics.get(name, math.nan)) for name in task.metrics}
            )
        self._steps_done += 1
        means = {name: float(np.mean([values[name] for values in self._values])) for name in task.metrics}
        return {
            **means,
            **added,
            "replicates": len(self._values),
            "done": self._steps_done >= len(task.steps),
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write how far the trial is, and what it has found."""
        state = {
            "parameters": canonical_json(self._parameters),
            "steps_done": self._steps_done,
            "values": finite_json(self._values),
        }
        (Path(checkpoint_dir) / _STATE).write_text(json.dumps(state), encoding="utf-8")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a state; what another configuration found is left out."""
        state = json.loads((Path(checkpoint) / _STATE).read_text(encoding="utf-8"))
        self._steps_done = state["steps_done"]
        self._values = []
        if state["parameters"] == canonical_json(self._parameters):
            self._values = [
                {name: math.nan if value is None else float(value) for name, value in values.items()}
                for values in state["values"]
            ]
