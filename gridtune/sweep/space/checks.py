"""Checks of a search space against the system it searches; every error names its line."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gridtune.batch.metrics.classes import CLASS_NAMES, split_name
from gridtune.core.cells import refusal_hint, refusal_text
from gridtune.core.system import SYSTEMS, System, get_system
from gridtune.core.user_code.checksums import refresh_checksums
from gridtune.core.user_code.plugins import load_plugins
from gridtune.errors import GridtuneError, SpaceError, SweepError
from gridtune.sweep.space.constraints import Constraint
from gridtune.sweep.space.documents import YamlPath as Place
from gridtune.sweep.space.points import in_order
from gridtune.sweep.space.schema import SearchSpace
from gridtune.sweep.space.strategies import SAMPLERS
from gridtune.training.system import Training


def check_space(space: SearchSpace) -> System:
    """Load the space's plug-ins, find its system, and check every name the space uses.

    Returns
    -------
    System
        The system searched.
    """
    _load_plugins(space)
    refresh_checksums()
    try:
        system = get_system(space.system)
    except SweepError as fault:
        raise space.fault(fault.message, "system", hint=fault.hint) from None
    _check_training(space, system)
    _check_metrics(space, system)
    _check_names(space, system)
    _check_conditions(space)
    _check_values(space, system)
    _check_stopping(space)
    _check_sampler(space)
    return system


def _check_metrics(space: SearchSpace, system: System) -> None:
    """Refuse objectives and constraints on metrics or classes of jobs that there are not."""
    classes = list(space.fixed.get("classes") or CLASS_NAMES)
    for metric, at in space.metrics.items():
        place = (*at, "metric") if at[0] == "objective" else at
        base, of = split_name(metric)
        if metric not in system.metrics:
            message, unknown = f"{system.name} has no metric {metric!r}", base
            if of is not None and base in system.metrics:
                raise space.fault(f"{message}: {base} is not given for classes of jobs", *place)
            raise space.fault(message, *place, unknown=(unknown, system.metrics))
        if of is not None and of not in classes:
            raise space.fault(f"there is no class of jobs {of!r}", *place, unknown=(of, classes))
    for index, objective in enumerate(space.objective):
        if objective.direction is None and system.metrics[objective.metric].direction == "none":
            message = f"{objective.metric!r} has no direction that is better"
            hint = f"say which: {{metric: {objective.metric}, direction: min}}"
            raise space.fault(message, "objective", index, hint=hint)
    for metric, text in space.subject_to.items():
        try:
            constraint = Constraint.read(metric, text)
        except ValueError as fault:
            hint = 'such as "<= 1.2 x baseline"'
            raise space.fault(str(fault), "subject_to", metric, hint=hint) from None
        if constraint.of_baseline and not space.baseline:
            hint = "name one under `baseline`, or give a number"
            raise space.fault("there is no baseline to compare with", "subject_to", metric, hint=hint)
    if space.subject_to and space.strategy.stopping:
        message = f"{space.strategy.kind} stops configurations by the objective alone, not by bounds"
        raise space.fault(message, "subject_to", hint="with bounds, use grid, random, sobol or optuna")


def _check_training(space: SearchSpace, system: System) -> None:
    """Refuse to train what is no training, or to change in its midst what cannot change there."""
    options = space.strategy.train
    if options is None:
        return
    if not isinstance(system, Training):
        trainings = [f"{system.name}/{algorithm}" for algorithm in system.trainings]
        hint = f"system: {' or '.join(trainings)}" if trainings else "it has none"
        raise space.fault(
            f"the strategy train needs a training, and {system.name} is none", "system", hint=hint
        )
    changed = [name for name in space.dimensions if name in system.changeable]
    if options.scheduler == "pbt":
        if not changed:
            names = ", ".join(system.changeable) or "none"
            message = f"pbt needs a dimension that may change while {system.name} trains"
            raise space.fault(message, "strategy", "train", "scheduler", hint=f"these may: {names}")
        for name in changed:
            if space.dimensions[name].when:
                message = "a parameter that pbt changes can have no condition"
                raise space.fault(message, "dimensions", name, "when", hint="leave the condition out")


def _load_plugins(space: SearchSpace) -> None:
    folder = space.base or Path.cwd()
    for index, path in enumerate(space.plugins):
        if not (folder / path).is_file():
            message = f"there is no plug-in file {folder / path}"
            raise space.fault(message, "plugins", index, hint="paths are relative to the space's file")
    try:
        load_plugins(folder / path for path in space.plugins)
    except GridtuneError as fault:
        line = space.source.line(("plugins",))
        if space.source.path is None or line is None:
            raise
        hint = fault.hint or f"it is a plug-in of {space.source.path}:{line}"
        raise type(fault)(
            fault.message, path=fault.path, line=fault.line, field=fault.field, hint=hint
        ) from fault


def _check_names(space: SearchSpace, system: System) -> None:
    fields, renamed = system.Parameters.model_fields, system.Parameters.renamed_parameters
    places: dict[str, Place] = {}
    for at, name, _ in _stated_values(space):
        if at[0] == "baseline":
            continue
        # Of a dimension and of all classes their own place, not that of each value.
        place = at[: {"dimensions": 2, "classes": 1}.get(str(at[0]))]
        if name not in fields:
            message = f"{system.name} has no parameter {name!r}"
            having = [other for other, one in SYSTEMS.items() if name in one.Parameters.model_fields]
            if having and "system" not in space.model_fields_set:
                hint = f"without a key `system` the space is of {space.system}; "
                hint += f"it is a parameter of {', '.join(having)}"
                raise space.fault(message, *place, hint=hint)
            raise space.fault(message, *place, unknown=(name, fields, renamed))
        other = places.setdefault(name, place)
        if other[0] != place[0]:
            raise space.fault(f"the parameter is set in `{other[0]}` already", *place)
    for name in space.baseline:
        if name not in places or places[name][0] == "workloads":
            message = f"the baseline names {name!r}, which is no dimension"
            raise space.fault(message, "baseline", name, unknown=(name, space.dimensions, renamed))
    for kind, name in (("windows", system.Parameters.window_parameter), ("shakes", "shake")):
        if getattr(space.replicates, kind) is None:
            continue
        if name not in fields:
            raise space.fault(f"{system.name} knows no {kind}", "replicates", kind, hint="use seeds")
        if name in places:
            raise space.fault(f"`{kind}` sets this parameter already", *places[name])


def _check_conditions(space: SearchSpace) -> None:
    for name, dimension in space.dimensions.items():
        for other, wanted in dimension.when.items():
            place = ("dimensions", name, "when", other)
            if other not in space.dimensions or other == name:
                others = [dimension for dimension in space.dimensions if dimension != name]
                raise space.fault(f"{other!r} is no other dimension", *place, unknown=(other, others))
            values = space.dimensions[other].values
            for value in wanted if isinstance(wanted, list | tuple) else [wanted]:
                if values is not None and value not in values:
                    unknown = (str(value), map(str, values))
                    raise space.fault(f"{other} never is {value!r}", *place, unknown=unknown)
    try:
        in_order(space.dimensions)
    except SpaceError as fault:
        raise space.fault(fault.message, "dimensions", str(fault.field)) from None


def _check_values(space: SearchSpace, system: System) -> None:
    """Check each value by itself; values that do not go together show when cells are made."""
    for place, name, value in _stated_values(space):
        try:
            system.Parameters.model_validate({name: value})
        except ValidationError as refused:
            for error in refused.errors():
                if error["loc"][:1] == (name,):
                    raise space.fault(
                        refusal_text(error, value), *place, hint=refusal_hint(error, value)
                    ) from None


def _stated_values(space: SearchSpace) -> Iterator[tuple[Place, str, Any]]:
    """Yield the place, the parameter and the value of all that the space sets."""
    for name, value in space.fixed.items():
        # Classes have a key of their own.
        if name != "classes" or not space.classes:
            yield ("fixed", name), name, value
    for name, condition in space.classes.items():
        yield ("classes", name), "classes", {name: condition}
    for index, workload in enumerate(space.workloads):
        yield from (
            (("workloads", index, name), name, workload[name]) for name in workload if name != "label"
        )
    for name, dimension in space.dimensions.items():
        for index, value in enumerate(dimension.extremes):
            yield space.value_place(name, index), name, value
    for name, value in space.baseline.items():
        # Null in the baseline also says that a conditional dimension does not apply there.
        if value is not None or name not in space.dimensions or not space.dimensions[name].when:
            yield ("baseline", name), name, value


def _check_stopping(space: SearchSpace) -> None:
    """Refuse early stopping without steps: a resource that is no ascending list, or a single replicate."""
    options, kind = space.strategy.stopping, space.strategy.kind
    if space.replicates.until and space.strategy.adaptive:
        message = f"{kind} chooses by results, so more replicates begin another search"
        raise space.fault(message, "replicates", "until", hint="use grid, random or sobol")
    if options is None:
        return
    if options.resource is None:
        if space.replicates.count < 2:
            message = f"{kind} stops configurations between replicates, but there is only one"
            hint = "ask for more under `replicates`, or name a `resource`"
            raise space.fault(message, "strategy", kind, hint=hint)
        return
    resource, place = options.resource, ("strategy", kind, "resource")
    dimension = space.dimensions.get(resource)
    if dimension is None:
        unknown = (resource, space.dimensions)
        raise space.fault(f"no dimension is named {resource!r}", *place, unknown=unknown)
    rungs = list(dimension.grid or ())
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in rungs)
    if len(rungs) < 2 or not numbers or rungs != sorted(rungs):
        message = f"the values of {resource!r} must be a list of two or more ascending numbers"
        raise space.fault(message, *place, hint=f"such as {resource}: [1000, 3000, 9000]")
    for name, other in space.dimensions.items():
        if resource in other.when or (name == resource and other.when):
            message = f"{name!r} has a condition, but every configuration needs each value of {resource!r}"
            raise space.fault(message, "dimensions", name, "when", hint="leave the condition out")


def _check_sampler(space: SearchSpace) -> None:
    """Refuse a sampler that is not installed or does not go with the objectives; Optuna is not imported."""
    options = space.strategy.adaptive
    if options is None:
        return
    sampler, place = SAMPLERS[options.sampler], ("strategy", space.strategy.kind)
    missing = [name for name in sampler.needs if importlib.util.find_spec(name) is None]
    if missing:
        raise space.fault(
            f"the sampler {options.sampler} needs {' and '.join(missing)}, which is not installed",
            *place,
            "sampler",
            hint=f"pip install {' '.join(missing)}",
        )
    if len(space.objective) > 1 and not sampler.several_objectives:
        able = ", ".join(name for name, info in SAMPLERS.items() if info.several_objectives)
        message = f"the sampler {options.sampler} takes one objective, but there are {len(space.objective)}"
        raise space.fault(message, *place, "sampler", hint=f"use one of {able}, or give one objective")
    if space.subject_to and sampler.reads_results and not sampler.constraints:
        able = ", ".join(name for name, info in SAMPLERS.items() if info.constraints)
        message = f"the sampler {options.sampler} takes no constraints"
        raise space.fault(message, *place, "sampler", hint=f"use one of {able}, or leave out subject_to")
    if options.population is not None and not sampler.population:
        able = ", ".join(name for name, info in SAMPLERS.items() if info.population)
        message = f"the sampler {options.sampler} has no population"
        raise space.fault(message, *place, "population", hint=f"{able} have one; or leave it out")
