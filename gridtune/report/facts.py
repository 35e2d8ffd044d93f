"""Facts of a sweep, stored beside its results so that they can be reported and tracked again later."""

from __future__ import annotations

import contextlib
import json
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from gridtune.core.measures import Measure
from gridtune.core.sources import code_checksums, software_versions
from gridtune.core.system import SYSTEMS, get_system
from gridtune.errors import MetricError, SweepError
from gridtune.registry import name_hint
from gridtune.report.labels import (
    PARAMETER_PREFIX,
    distinct,
    file_text,
    in_table,
    parameter_names,
    value_text,
)
from gridtune.report.rankings.ranking import LEVEL
from gridtune.statistics.sample_size import fewest_replicates
from gridtune.storage import draft_of
from gridtune.sweep.execution.observing import SweepPlan
from gridtune.sweep.space.constraints import Constraint
from gridtune.sweep.space.plan import PlannedSpace, Workloads
from gridtune.sweep.space.schema import Replicates
from gridtune.sweep.space.strategies import Strategy

if TYPE_CHECKING:
    import pyarrow as pa

#: The file in a sweep's folder.
FACTS_FILE = "sweep.json"
_SCHEMA = 1
_Stored = TypeVar("_Stored")
#: Values of a parameter that an error lists.
_LISTED = 12
#: The chance of a wrong verdict that all looks at more and more replicates of a sweep have together.
_MOST_ERROR = 0.06
#: The least of a look, so that its intervals are finite.
_LEAST_ERROR = 1e-7


@dataclass(frozen=True)
class ObjectiveFacts:
    """A metric to rank by.

    Attributes
    ----------
    metric
        Its name.
    direction
        "min" or "max".
    unit
        "" for a ratio.
    """

    metric: str
    direction: str
    unit: str = ""

    @property
    def measure(self) -> Measure:
        """Its unit and direction."""
        return Measure.own(self.unit or "1", "max" if self.direction == "max" else "min", self.metric)


@dataclass(frozen=True)
class SweepFacts:
    """Facts of a sweep.

    Attributes
    ----------
    sweep_id
        Made up once for a folder of results: tracking knows by it that a sweep goes on.
    name, description, system, system_version
        Of the search space and the system it searches.
    objectives
        Metrics to rank by, the first first.
    baseline
        Parameters of the configuration that the others are compared with.
    dimensions
        Parameters searched, in the space's order.
    replicates
        Repetitions of every configuration.
    cells
        Cells the sweep is to have.
    workloads
        Trace reference to SHA-256 of its content.
    base
        The folder that relative trace paths are relative to, or None.
    plugins
        Files with the user's own policies, absolute.
    space
        The search space as its file has it.
    source
        The search space's file as it was named, or None.
    command, folder
        The command that ran it last, and the folder it was given in; "" where it was not the command line.
    versions, code
        Software it ran with: package to version, and what the code is to its SHA-256.
    error, spent
        The chance of a wrong verdict that this look at the replicates may have, and that of the looks before
        at fewer or more of them. The first look has 5 %, each later one half of what is left of 6 %. With
        `until: settled` all looks share 5 %.
    confirmed
        Rows of the best configurations of a search, on fresh replicates that it did not see.
    """

    sweep_id: str
    name: str
    description: str
    system: str
    system_version: str
    objectives: Annotated[tuple[ObjectiveFacts, ...], Field(min_length=1)]
    baseline: Mapping[str, Any] = field(default_factory=dict)
    dimensions: tuple[str, ...] = ()
    replicates: int = 1
    cells: int = 0
    workloads: Mapping[str, str] = field(default_factory=dict)
    base: str | None = None
    plugins: tuple[str, ...] = ()
    space: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    command: str = ""
    folder: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    error: float = 1 - LEVEL
    spent: float = 0.0
    confirmed: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, plan: SweepPlan, *, command: str = "") -> Self:
        """Return the facts of a sweep about to run; one that goes on keeps its id.

        Parameters
        ----------
        plan
            What the sweep is about to do.
        command
            The command that runs it; "" if it is not the command line.
        """
        space = plan.space
        system = get_system(space.system)
        objectives = tuple(
            ObjectiveFacts(objective.metric, direction, _unit(system.metrics[objective.metric].unit))
            for objective, direction in zip(space.objective, plan.directions, strict=True)
        )
        base = space.base
        stored = cls.read(plan.directory) if (plan.directory / FACTS_FILE).exists() else None
        plugins = [((base or Path.cwd()) / path).resolve() for path in space.plugins]
        return cls(
            sweep_id=stored.sweep_id if stored else uuid.uuid4().hex,
            name=space.name,
            description=space.description,
            system=space.system,
            system_version=system.version,
            objectives=objectives,
            baseline=PlannedSpace(space, system, Workloads(base)).baseline,
            dimensions=tuple(space.dimensions),
            replicates=space.replicates.count,
            cells=plan.total,
            workloads={name: workload.checksum for name, workload in plan.workloads.items()},
            base=None if base is None else str(base),
            plugins=tuple(map(str, plugins)),
            space=space.model_dump(mode="json", exclude_defaults=True),
            source=None if space.source.path is None else str(space.source.path),
            command=command,
            folder=str(Path.cwd()) if command else "",
            versions=software_versions(),
            code=code_checksums(system, plugins),
        )._looking(stored, space.replicates, judged=(plan.directory / DERIVED_FILE).exists())

    def _looking(self, stored: SweepFacts | None, replicates: Replicates, *, judged: bool) -> Self:
        """Return the same facts with the error that looks at fewer or more replicates have left.

        Source: Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70, 1983,
        with the spending function of O'Brien and Fleming's type.
        """
        spent = 0.0
        if stored and (stored.system, stored.workloads) == (self.system, self.workloads):
            if stored.replicates == self.replicates:
                return replace(self, error=stored.error, spent=stored.spent)
            # With fewer, no test shows any difference.
            shown = judged and stored.replicates >= fewest_replicates(1 - LEVEL)
            spent = stored.spent + (stored.error if shown else 0.0)
        whole = 1 - LEVEL
        if replicates.until:
            normal = NormalDist()
            reach = normal.inv_cdf(1 - whole / 2) / math.sqrt(self.replicates / replicates.end)
            whole = 2 * normal.cdf(-reach)
        error = whole - spent if whole > spent else (_MOST_ERROR - spent) / 2
        return replace(self, error=max(error, _LEAST_ERROR), spent=spent)

    @property
    def base_folder(self) -> Path | None:
        """The folder that relative paths of traces start at."""
        return None if self.base is None else Path(self.base)

    @property
    def constraints(self) -> list[Constraint]:
        """The bounds that configurations must keep."""
        stated = self.space.get("subject_to", {})
        return [Constraint.read(metric, text) for metric, text in stated.items()]

    @property
    def naming_parameters(self) -> list[str]:
        """The parameters that name a configuration, in the order of its name.

        Those that the baseline leaves open are conditions, such as the trace: they come last.
        """
        return sorted(self.dimensions, key=lambda name: bool(self.baseline) and name not in self.baseline)

    @property
    def searches(self) -> bool:
        """True if fresh replicates must confirm the best: of many trials, or as windows are held back."""
        held_back = self.space.get("replicates", {}).get("held_back")
        return bool(held_back) or Strategy.searches(self.space.get("strategy") or {})

    @property
    def has_fresh(self) -> bool:
        """True if there are replicates that a search did not see: not for windows, unless held back."""
        replicates = self.space.get("replicates", {})
        return "windows" not in replicates or bool(replicates.get("held_back"))

    @property
    def is_race(self) -> bool:
        """True for a sweep of an earlier gridtune with the strategy `race`."""
        return "race" in (self.space.get("strategy") or {})

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Return the facts kept in a sweep's folder.

        Raises
        ------
        SweepError
            If there are none, or a newer gridtune wrote them.
        """
        path = directory / FACTS_FILE
        if not path.exists():
            hint = f"there is no {FACTS_FILE} in it"
            raise SweepError("the folder has no results of a sweep", path=directory, hint=hint)
        return read_stored(cls, path, _SCHEMA, "was written by another version of gridtune")

    def write(self, directory: Path) -> Path:
        """Keep the facts in a sweep's folder; the file is never there by half."""
        directory.mkdir(parents=True, exist_ok=True)
        return write_json({"schema": _SCHEMA, **asdict(self)}, directory / FACTS_FILE, indent=2)

    def for_report(
        self,
        table: pa.Table,
        *,
        objective: str | Sequence[str] | None = None,
        baseline: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the facts of a report: these, with other objectives or another baseline where given.

        Raises
        ------
        GridtuneError
            If the sweep's table of cells has no such metric or no such configuration.
        """
        names = [objective] if isinstance(objective, str) else list(dict.fromkeys(objective or ()))
        chosen = [self.with_objective(name).objectives[0] for name in names]
        facts = replace(self, objectives=tuple(chosen)) if chosen else self
        for name in names:
            if f"metric.{name}" not in table.column_names:
                raise SweepError(f"no cell has the metric {name!r}")
        if baseline is None:
            return facts
        changed = facts.with_baseline(baseline, table)
        # A list stands in the table as text; the same configuration is no other report.
        same = changed.baseline == in_table(table, facts.baseline)
        return facts if same else changed

    def with_objective(self, metric: str) -> Self:
        """Return the same facts with another metric to rank by, in the direction that is its own."""
        system = get_system(self.system)
        described = system.metrics.get(metric)
        if described is None:
            message = f"the system {self.system!r} has no metric {metric!r}"
            raise MetricError(message, hint=system.metric_hint(metric))
        if described.direction == "none":
            raise MetricError(f"{metric!r} is no goal: neither more nor less of it is better")
        objective = ObjectiveFacts(metric, described.direction, _unit(described.unit))
        return replace(self, objectives=(objective,))

    def with_baseline(self, baseline: Mapping[str, Any], table: pa.Table) -> Self:
        """Return the same facts with another configuration to compare with.

        Parameters
        ----------
        baseline
            Parameters that make a configuration the baseline.
        table
            The sweep's cells, one row each.

        Raises
        ------
        SweepError
            If the sweep has no such parameter, no such value of it, or no configuration with all of them.
        """
        renamed: Mapping[str, str] = {}
        if self.system in SYSTEMS:
            renamed = get_system(self.system).Parameters.renamed_parameters
        values = {name: _value_in(table, name, value, renamed) for name, value in baseline.items()}
        if not has_configuration(table, values):
            text = ", ".join(f"{name}={value_text(value)}" for name, value in values.items())
            raise SweepError(f"no configuration has {text} at once")
        return replace(self, baseline=values)

    def folder_of(self, other: SweepFacts) -> str:
        """Return the name of the folder for a report that is not this, the sweep's own; "" for the own one.

        Parameters
        ----------
        other
            What the report is about: the same sweep with another objective, another baseline or both.
        """
        parts = []
        if other.objectives != self.objectives:
            parts += [objective.metric for objective in other.objectives]
        if dict(other.baseline) != dict(self.baseline):
            parts += [f"{name}={value_text(value)}" for name, value in other.baseline.items()]
        return file_text("-".join(["report", *parts])) if parts else ""


def write_json(content: Any, path: Path, *, indent: int = 1) -> Path:
    """Write a file of JSON and return its path; the file is never there by half."""
    text = json.dumps(content, indent=indent, ensure_ascii=False, default=str)
    with draft_of(path) as draft:
        draft.write_text(text + "\n", encoding="utf-8")
    return path


def read_stored(kind: type[_Stored], path: Path, schema: Any, other: str) -> _Stored:
    """Return the value of a data class that a file of JSON holds beside its schema.

    Parameters
    ----------
    kind
        The class.
    path, schema
        The file, and the schema it must have.
    other
        What the error says of a file with another one.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        raise SweepError(f"cannot be read: {fault}", path=path) from None
    if not isinstance(content, dict) or content.pop("schema", None) != schema:
        raise SweepError(other, path=path)
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as fault:
        first = fault.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise SweepError(f"is damaged: {first['msg'].lower()}", path=path, field=field) from None


def _value_in(table: pa.Table, name: str, value: Any, renamed: Mapping[str, str]) -> Any:
    """Return the value of a parameter that was meant, as the sweep's table has it."""
    names = parameter_names(table)
    if name not in names:
        hint = name_hint(name, names, renamed)
        raise SweepError(f"the sweep has no parameter {name!r}", hint=hint)
    values = distinct(table[PARAMETER_PREFIX + name].to_pylist())
    value = in_table(table, {name: value})[name]
    for candidate in values:
        # As tables print it: a sampled number has six digits.
        if candidate == value or value_text(candidate) == value_text(value):
            return candidate
    more = f", … and {len(values) - _LISTED} more" if len(values) > _LISTED else ""
    listed = ", ".join("null" if one is None else value_text(one) for one in values[:_LISTED])
    raise SweepError(f"no configuration has {name}={value_text(value)}", hint=f"{name} has {listed}{more}")


def has_configuration(table: pa.Table, parameters: Mapping[str, Any]) -> bool:
    """Return whether a row of a table of cells has all of these parameters, in the table's form."""
    columns = [table[PARAMETER_PREFIX + name].to_pylist() for name in parameters]
    wanted = tuple(parameters.values())
    return any(row == wanted for row in zip(*columns, strict=True)) or not parameters


def _unit(unit: str) -> str:
    return "" if unit == "1" else unit


#: The list in a sweep's folder.
DERIVED_FILE = "derived.json"


def list_derived(folder: Path, written: Iterable[Path], *, remove_others: bool = False) -> list[Path]:
    """List files that were written into a sweep's folder as derived from its cells.

    A sweep whose space has changed writes other tables and figures than before. Only what is on the list is
    ever removed: the journal, the facts and whatever a person has put into the folder are not on it.

    Parameters
    ----------
    folder
        The sweep's folder.
    written
        Files in it.
    remove_others
        Remove the files on the list that were not written again, and folders left empty by it.

    Returns
    -------
    list of Path
        The files that were removed.
    """
    names = {path.relative_to(folder).as_posix() for path in written}
    try:
        listed = set(map(str, json.loads((folder / DERIVED_FILE).read_text(encoding="utf-8"))["files"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # Without a list nothing is known to be derived, and so nothing is removed.
        listed = set()
    removed = []
    for name in sorted(listed - names) if remove_others else ():
        path = folder / name
        if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
            continue
        path.unlink()
        removed.append(path)
        for parent in path.parents:
            if parent == folder:
                break
            # A folder that still holds something refuses.
            with contextlib.suppress(OSError):
                parent.rmdir()
    write_json({"files": sorted(names if remove_others else listed | names)}, folder / DERIVED_FILE)
    return removed
