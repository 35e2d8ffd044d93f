"""`trainable`: any system as a trainable of Ray Tune, one iteration for each replicate."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

from gridtune.core.cells import Replicate, canonical_json, finite_json, validated
from gridtune.core.system import get_system
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import SweepError
from gridtune.sweep.execution.runner import prepare_worker, run_cell
from gridtune.sweep.space.code import SentCode
from gridtune.sweep.space.plan import PlannedSpace, Workloads, plan_space
from gridtune.sweep.space.schema import parse_space

_STATE = "state.json"


@dataclass(frozen=True)
class _Task:
    """Settings that all trials of a trainable share.

    Attributes
    ----------
    code
        The system, and the code of users that it needs.
    fixed
        Parameters that every trial has.
    steps
        The parameters that each iteration adds to a trial's, and the replicates that it runs.
    metrics
        Names of the metrics that are reported.
    workloads
        The logs, read already.
    """

    code: SentCode
    fixed: Mapping[str, Any]
    steps: Sequence[tuple[Mapping[str, Any], Sequence[Replicate]]]
    metrics: Sequence[str]
    workloads: Workloads


def trainable(
    system: str,
    *,
    fixed: Mapping[str, Any] | None = None,
    replicates: int | Mapping[str, int] = 1,
    resource: Mapping[str, Sequence[float]] | None = None,
    metrics: Iterable[str] | None = None,
    choices: Mapping[str, Sequence[Any]] | None = None,
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
        Number of seeds; or, as in a search space, `{"windows": 10}` or `{"shakes": 10, "amount": 600}`.
    resource
        A parameter and its ascending values, such as `{"iterations": [10, 30, 90]}` of `shutdown/ppo`. The
        result has the value under the parameter's name, for a scheduler's `time_attr`.
    metrics
        Metrics to report; by default every metric of the system.
    choices
        Values of `param_space` that workers need something for: logs, `{"trace": ["kth-sp2", "sdsc-sp2"]}`,
        which are read here, once, and travel to the workers; and policies that are registered in this
        session. Those that `fixed` names are known.
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
    GridtuneError
        If the system, a parameter, a metric or a plug-in is not known, or a log is not found.
    """
    content: dict[str, Any] = {
        "name": "tune",
        "system": system,
        "fixed": dict(fixed or {}),
        "dimensions": {
            name: list(values) for name, values in {**(choices or {}), **(resource or {})}.items()
        },
        "replicates": dict(replicates) if isinstance(replicates, Mapping) else {"seeds": replicates},
        "plugins": [str(path) for path in plugins],
    }
    load_plugins(plugins)
    reported = [metrics] if isinstance(metrics, str) else list(metrics or get_system(system).metrics)
    # What is reported may have no direction that is better; the user's own Tuner has one.
    objective = [{"metric": name, "direction": "min"} for name in reported]
    plan = plan_space(parse_space({**content, "objective": objective}))
    _read_workloads(plan)
    task = _Task(plan.code.sent, plan.space.fixed, _steps(plan, resource or {}), reported, plan.workloads)
    made: type[tune.Trainable] = tune.with_parameters(SystemTrainable, task=task)
    made.__name__ = system
    return made


def _steps(
    plan: PlannedSpace, resource: Mapping[str, Sequence[float]]
) -> list[tuple[dict[str, Any], list[Replicate]]]:
    repetitions = list(plan.replicates)
    if not resource:
        return [({}, [replicate]) for replicate in repetitions]
    if len(resource) > 1:
        raise SweepError("a resource is one parameter", field="resource", hint='such as {"until": [10, 30]}')
    ((name, values),) = resource.items()
    if list(values) != sorted(values):
        raise SweepError("the values of a resource must ascend", field=f"resource.{name}")
    return [({name: value}, repetitions) for value in values]


def _read_workloads(plan: PlannedSpace) -> None:
    """Read the logs that the space names."""
    space, system = plan.space, plan.system
    listed = space.dimensions.get("trace")
    for trace in [space.fixed.get("trace"), *((listed.values or ()) if listed else ())]:
        if trace is not None:
            try:
                parameters = validated(system, {**space.fixed, "trace": trace})
            except SweepError:
                # Parameters of the trials are needed, too.
                parameters = validated(system, {"trace": trace})
            plan.workloads.checksums(system.traces(parameters))


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
        self._system = task.code.load()
        self.reset_config(config)
        prepare_worker(self._system, [{**self._parameters, **task.steps[0][0]}], task.code.checksum)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin a trial."""
        # Samplers give numpy's numbers.
        plain = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in new_config.items()
        }
        self._parameters = {**self._task.fixed, **plain}
        for name in self._parameters:
            if name not in self._system.Parameters.model_fields:
                hint = self._system.parameter_hint(name)
                raise SweepError(f"{self._system.name} has no parameter {name!r}", hint=hint)
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
            run = run_cell(task.code.system, parameters, seed=replicate.seed, workloads=task.workloads)
            found = run.outcome.metrics
            self._values.append({name: float(found.get(name, math.nan)) for name in task.metrics})
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
        """Resume from a state; results of another configuration are left out."""
        state = json.loads((Path(checkpoint) / _STATE).read_text(encoding="utf-8"))
        self._steps_done = state["steps_done"]
        self._values = []
        if state["parameters"] == canonical_json(self._parameters):
            self._values = [
                {name: math.nan if value is None else float(value) for name, value in values.items()}
                for values in state["values"]
            ]
