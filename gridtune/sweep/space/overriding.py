"""Search spaces changed before they are checked: single values overridden, Python objects made text."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridtune.core.reproduction import Experiment
from gridtune.core.system import default_system, get_system
from gridtune.errors import SpaceError
from gridtune.registry import name_hint
from gridtune.sweep.space.documents import LinedYaml
from gridtune.sweep.space.plan import PlannedSpace, SpaceSource, plan_space
from gridtune.sweep.space.schema import Dimension, parse_space
from gridtune.workload.files import write_workload
from gridtune.workload.workload import Workload

#: The name that chooses workloads by their labels.
_WORKLOAD = "workload"


def override(
    space: SpaceSource, settings: Mapping[str, Sequence[Any]], *, objective: str | None = None
) -> PlannedSpace:
    """Return the space with other values.

    Parameters
    ----------
    space
        A sound space.
    settings
        Name to its values. The name is

        - a dimension: it is narrowed to these values, which must be among its own; the baseline's value
          stays, for without it nothing could be compared;
        - a parameter that is fixed, or one that the space does not set: it is fixed to the value;
        - a parameter of the workloads, or `workload` for their labels: only workloads with one of these
          values stay;
        - `baseline.NAME`: another baseline; null takes the parameter out of it;
        - `replicates.KIND`: another number of seeds, windows or shakes;
        - `strategy.NAME.SETTING`: another setting of the strategy, such as `strategy.optuna.trials`.
    objective
        The metric to rank by, in place of the space's.

    Raises
    ------
    SpaceError
        If a name or a value makes no sense for this space.
    """
    plan = plan_space(space)
    space = plan.space
    content = copy.deepcopy(dict(space.source.content))
    overrides = _Overridden(plan, content)
    for name, values in settings.items():
        try:
            overrides.set(name, list(values))
        except SpaceError as fault:
            raise SpaceError(fault.message, field=f"--set {name}", hint=fault.hint) from None
    if objective is not None:
        if objective not in plan.system.metrics:
            message = f"{plan.system.name} has no metric {objective!r}"
            raise SpaceError(message, field="--objective", hint=plan.system.metric_hint(objective))
        stated = [one.model_dump(exclude_none=True) for one in space.objective if one.metric == objective]
        content["objective"] = stated or objective
    changed = ", ".join([*(f"--set {name}" for name in settings), *(["--objective"] if objective else [])])
    try:
        overridden = parse_space(content, path=space.source.path)
        # Lines of what has not been overridden are still those of the file.
        overridden._source = LinedYaml(content, space.source.lines, space.source.path)
        return plan_space(overridden)
    except SpaceError as fault:
        # The file itself is sound.
        raise SpaceError(fault.message, field=f"{changed}: {fault.field}", hint=fault.hint) from None


def trimmed_space(experiment: Experiment, *, quick: bool) -> PlannedSpace:
    """Return the space of a reproduction's experiment, with what it needs of it.

    Parameters
    ----------
    experiment
        The experiment.
    quick
        Whether to narrow it further, to what `gridtune reproduce --quick` runs.

    Raises
    ------
    SpaceError
        If there is no such space, or not what is asked of it.
    """
    trimmed = override(experiment.space, experiment.settings)
    return override(trimmed, experiment.quick or {}) if quick else trimmed


@dataclass(frozen=True)
class _Overridden:
    """The content of a space's file while values in it are overridden."""

    plan: PlannedSpace
    content: dict[str, Any]

    def set(self, name: str, values: list[Any]) -> None:
        """Override one name."""
        space, fields = self.plan.space, self.plan.system.Parameters.model_fields
        if name in space.dimensions:
            if name not in self.content["dimensions"]:
                raise SpaceError(
                    "it applies to no configuration that is left",
                    hint="the values that its `when` asks for are taken away by a `--set` before it",
                )
            return self._narrow(name, space.dimensions[name], values)
        if name == _WORKLOAD or any(name in workload for workload in space.workloads):
            return self._choose_workloads(name, values)
        prefix, rest = name.split(".", 1) if "." in name else ("", name)
        if prefix not in {"baseline", "replicates", "strategy"} and name not in fields:
            known = [*space.dimensions, *space.fixed, *fields]
            hint = name_hint(name, known, self.plan.system.Parameters.renamed_parameters)
            raise SpaceError(f"{self.plan.system.name} has no parameter {name!r}", hint=hint)
        if len(values) != 1:
            raise SpaceError(f"one value is needed, but got {len(values)}")
        (value,) = values
        if prefix == "baseline":
            dimension = space.dimensions.get(rest)
            if dimension is not None and value is not None and (dimension.grid or dimension.choice):
                dimension.check_within(value)
            return self._set_baseline(rest, value)
        if prefix == "replicates":
            kinds = ("seeds", "windows", "held_back", "shakes", "amount")
            if rest not in kinds:
                raise SpaceError(f"there are no {rest!r} of replicates", hint=name_hint(rest, kinds))
            # Shakes and their amount go together, as windows and those held back; others stand alone.
            both = rest == "held_back" or (rest in {"shakes", "amount"} and space.replicates.shakes)
            stated = space.replicates.model_dump(exclude_none=True) if both else {}
            self.content["replicates"] = {**stated, rest: value}
        elif prefix == "strategy":
            (kind, _, setting), strategy = rest.partition("."), self.content.get("strategy")
            if not isinstance(strategy, dict) or kind not in strategy or not setting:
                raise SpaceError(f"the space has no such setting; its strategy is {strategy or 'grid'}")
            self.content["strategy"] = {**strategy, kind: {**(strategy[kind] or {}), setting: value}}
        else:
            self.content["fixed"] = {**(self.content.get("fixed") or {}), name: value}
        return None

    def _set_baseline(self, name: str, value: Any) -> None:
        baseline = {**(self.content.get("baseline") or {}), name: value}
        if value is None:
            # It names nothing then, or that a dimension does not apply.
            del baseline[name]
        self.content["baseline"] = baseline

    def _narrow(self, name: str, dimension: Dimension, values: list[Any]) -> None:
        """Narrow a dimension, and take away the others that no longer apply."""
        wanted = [value for item in values for value in (item if isinstance(item, list) else [item])]
        baseline = (self.content.get("baseline") or {}).get(name)
        listed = dimension.grid or dimension.choice
        for value in wanted:
            dimension.check_within(value)
        kept = [*wanted, baseline] if baseline is not None and baseline not in wanted else wanted
        if listed is not None:
            kept = [value for value in listed if value in kept]
        written = self.content["dimensions"][name]
        when = {"when": written["when"]} if isinstance(written, Mapping) and "when" in written else {}
        kind = "grid" if dimension.grid is not None else "choice"
        self.content["dimensions"] = {**self.content["dimensions"], name: {kind: kept, **when}}
        self._drop_idle(name, kept)

    def _drop_idle(self, name: str, values: list[Any]) -> None:
        """Take away dimensions that apply only with values that another one no longer has."""
        for other, written in list(self.content["dimensions"].items()):
            condition = written.get("when", {}) if isinstance(written, Mapping) else {}
            if name not in condition:
                continue
            wanted = condition[name] if isinstance(condition[name], list | tuple) else [condition[name]]
            left = [value for value in wanted if value in values]
            if left:
                self.content["dimensions"][other] = {**written, "when": {**condition, name: left}}
                continue
            del self.content["dimensions"][other]
            if other in (self.content.get("baseline") or {}):
                self._set_baseline(other, None)
            self._drop_idle(other, [])

    def _choose_workloads(self, name: str, values: list[Any]) -> None:
        space = self.plan.space
        if name == _WORKLOAD:
            found: list[Any] = [stratum.label for stratum in self.plan.strata]
        else:
            found = [workload.get(name) for workload in space.workloads]
        for value in values:
            if value not in found:
                texts = [str(item) for item in dict.fromkeys(found) if item is not None]
                raise SpaceError(
                    f"no workload of this space has {value!r}", hint=name_hint(str(value), texts)
                )
        if not space.workloads:
            return
        # By place, as a space that was overridden before has fewer.
        left = [workload for workload, value in zip(space.workloads, found, strict=True) if value in values]
        self.content["workloads"] = [workload for workload in self.content["workloads"] if workload in left]


#: The folder in a sweep's where workloads are kept that were passed as objects.
_FOLDER = "workloads"
#: Digits of a workload's checksum that its file is called by.
_DIGITS = 12
#: The keys of a space that hold parameters.
_KEYS = ("fixed", "workloads", "dimensions", "baseline")


class SpaceObjects:
    """Parts of a search space that are no text: workloads, and functions.

    A workload is kept in the sweep's folder and named by its path, so that the sweep can be repeated and its
    report made again without this process. A function is named as the system registers it.

    Parameters
    ----------
    folder
        The sweep's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workloads: dict[Path, Workload] = {}

    def replaced(self, space: Mapping[str, Any]) -> dict[str, Any]:
        """Return the search space as a file could hold it; nothing is written yet.

        Raises
        ------
        GridtuneError
            If the system takes no function for a parameter, or the function cannot be registered.
        """
        system = space.get("system") or default_system().name
        return {
            key: self._replaced(value, "", system) if key in _KEYS else value for key, value in space.items()
        }

    def _replaced(self, value: Any, parameter: str, system: str) -> Any:
        if isinstance(value, Workload):
            return str(self._path(value))
        if isinstance(value, Mapping):
            # The parameter is the outer key: `grid` within `order` is still about `order`.
            return {key: self._replaced(item, parameter or str(key), system) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._replaced(item, parameter, system) for item in value]
        if not callable(value):
            return value
        if not getattr(value, "__name__", "").isidentifier():
            message = f"the function for {parameter!r} has no name"
            raise SpaceError(message, field=parameter, hint="define it with `def`, not as a lambda")
        return get_system(system).Parameters.register_function(parameter, value)

    def _path(self, workload: Workload) -> Path:
        name = re.sub(r"[^\w.-]+", "_", workload.name).strip("._") or "workload"
        folder = self._folder / _FOLDER / workload.checksum[:_DIGITS]
        path = (folder / f"{name}.parquet").resolve()
        self._workloads[path] = workload
        return path

    def write(self) -> None:
        """Write the workloads that are not there yet."""
        for path, workload in self._workloads.items():
            if not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_workload(workload, path)
