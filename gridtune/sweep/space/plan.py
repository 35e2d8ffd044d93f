"""From a search space to its configurations and cells."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gridtune.arguments import require_path
from gridtune.core.cells import Cell, CellResult, Replicate, id_of_identity, identity_of, refusal_text
from gridtune.core.system import CellResources, System, SystemParameters
from gridtune.errors import GridtuneError, MissingExtraError, SpaceError, TraceError, WorkloadError
from gridtune.sweep.space.checks import check_space
from gridtune.sweep.space.code import SweepCode
from gridtune.sweep.space.points import active_part, agrees, space_points, strategy_points
from gridtune.sweep.space.schema import SearchSpace, parse_space, read_space
from gridtune.sweep.space.strategies import Strategy
from gridtune.workload.files import WorkloadReference, reference_text
from gridtune.workload.workload import Workload

#: Cells of a sweep at most: each takes memory in the driver.
_MOST_CELLS = 5_000_000


@dataclass(frozen=True)
class _Stratum:
    """A workload that every configuration is run on.

    Attributes
    ----------
    label
        What tables call it.
    parameters
        What it adds to a configuration.
    """

    label: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Configuration:
    """A configuration on a workload: cells without their replicate.

    Attributes
    ----------
    configuration_id
        Its id.
    stratum
        The workload.
    configured
        Its parameters as the space has them.
    parameters
        The same as the system knows them, with its defaults.
    traces
        SHA-256 of each trace its cells read, by its reference.
    configuration
        The parameters that the space sets, as the system understands them: 1 and 1.0 are the same load.
    """

    configuration_id: str
    stratum: _Stratum
    configured: Mapping[str, Any]
    parameters: SystemParameters
    traces: Mapping[str, str]
    configuration: Mapping[str, Any]


def short_name(trace: str) -> str:
    """Return a log's name without its folder and the suffixes of its format: versions have dots, too."""
    return re.sub(r"(?<=.)(\.[A-Za-z]+)+$", "", trace.partition("?")[0].replace("\\", "/").rpartition("/")[2])


class Workloads:
    """Workloads by reference, each read when first asked for and then kept.

    Parameters
    ----------
    base
        The folder that relative paths are relative to, beside the current one.
    """

    def __init__(self, base: Path | None = None) -> None:
        self._base = base
        self._read: dict[str, Workload] = {}

    def load(self, reference: str) -> Workload:
        """Return the workload a reference names: a file or catalogue name, and rules to read it with."""
        if reference not in self._read:
            self._read[reference] = WorkloadReference.parse(reference).read(self._base)
        return self._read[reference]

    def checksums(self, references: Iterable[str]) -> dict[str, str]:
        """Return the content's SHA-256 by reference."""
        return {reference: self.load(reference).checksum for reference in references}

    @property
    def loaded(self) -> Mapping[str, Workload]:
        """Workloads that have been read so far, by reference."""
        return self._read


@dataclass(frozen=True, eq=False)
class PlannedSpace:
    """A checked search space with the system and the workloads that its cells are made of.

    It is made once for a sweep, by `plan_space`; configurations and workloads are kept once they were needed.

    Attributes
    ----------
    space
        The search space.
    system
        The system that it searches.
    workloads
        The traces.
    first
        The number of the first replicate: above 0 for those that a search did not see.
    chosen
        The points that are known up front; by default those of the space.
    """

    space: SearchSpace
    system: System
    workloads: Workloads
    first: int = 0
    chosen: Sequence[Mapping[str, Any]] | None = None

    @cached_property
    def strata(self) -> list[_Stratum]:
        """The workloads that every configuration is run on."""
        space, strata = self.space, list[_Stratum]()
        plain = [
            {name: value for name, value in workload.items() if name != "label"}
            for workload in space.workloads or ({},)
        ]
        labels = [str(workload.get("label", "")) for workload in space.workloads] or [""]
        traces = [str(reference_text({**space.fixed, **workload}.get("trace", ""))) for workload in plain]
        for index, (label, trace, parameters) in enumerate(zip(labels, traces, plain, strict=True)):
            # A trace alone names the workload unless another workload is the same trace, cut otherwise.
            others = {} if traces.count(trace) == 1 else parameters
            rest = [f"{name}={value}" for name, value in others.items() if name != "trace"]
            strata.append(
                _Stratum(label or ", ".join([short_name(trace), *rest]) or self.system.name, parameters)
            )
            if strata[-1].label in [stratum.label for stratum in strata[:-1]]:
                message = f"two workloads would be called {strata[-1].label!r}"
                raise space.fault(message, "workloads", index, hint="give each a `label`")
        return strata

    def _replicate(self, number: int) -> Replicate:
        number += self.first
        return self.space.replicates.replicate(number, self.system.Parameters.window_parameter)

    @cached_property
    def replicates(self) -> list[Replicate]:
        """The repetitions of every configuration."""
        return list(map(self._replicate, range(self.space.replicates.count)))

    @property
    def has_more(self) -> bool:
        """True where a sweep `until: settled` may still have more replicates."""
        return self.space.replicates.count < self.space.replicates.end

    def with_more_replicates(self) -> PlannedSpace:
        """Return the plan with twice as many replicates, or as many as `until: settled` may come to."""
        changed = {"replicates": self.space.replicates.more()}
        return replace(self, space=self.space.model_copy(update=changed))

    def fresh(self, chosen: Iterable[Mapping[str, Any]], *, least: int) -> PlannedSpace:
        """Return the plan of chosen points alone, on replicates that come after these."""
        space, replicates = self.space, self.space.replicates
        changes = {"replicates": replicates.fresh(least), "strategy": Strategy(grid={})}
        points = [{name: one[name] for name in space.dimensions if name in one} for one in chosen]
        return replace(self, space=space.model_copy(update=changes), first=replicates.count, chosen=points)

    @property
    def directions(self) -> list[str]:
        """The direction that is better of each objective, "min" or "max": the space's, else the metric's."""
        metrics = self.system.metrics
        return [one.direction or metrics[one.metric].direction for one in self.space.objective]

    @cached_property
    def baseline(self) -> dict[str, Any]:
        """The baseline as the system understands it, which is how cells and tables have it."""
        space = self.space
        wanted = {name: value for name, value in space.baseline.items() if name in space.dimensions}
        first = {name: dimension.extremes[0] for name, dimension in space.dimensions.items()}
        # Parameters are checked as a whole, so those of one of the baseline's configurations are.
        agreeing = (point for point in space_points(space) if agrees(point, wanted))
        point = next(agreeing, None) or active_part(space.dimensions, {**first, **wanted})
        understood = self.understood({**space.fixed, **self.strata[0].parameters, **point})
        return {name: understood.get(name, value) for name, value in space.baseline.items()}

    @cached_property
    def code(self) -> SweepCode:
        """The code of users that its cells need."""
        return SweepCode(self.space, self.system)

    @cached_property
    def configurations(self) -> Mapping[str, Configuration]:
        """The configurations that are known up front, by id, in the order of the results."""
        try:
            configurations: dict[str, Configuration] = {}
            points = space_points(self.space) if self.chosen is None else self.chosen
            for configuration in self._configurations(points):
                configurations.setdefault(configuration.configuration_id, configuration)
                # What the system refuses with a replicate, it refuses with the first.
                self._cell(configuration, self._replicate(0))
            return configurations
        except SpaceError as fault:
            raise (self._faulty_value() or fault) from None

    @property
    def count(self) -> int:
        """Number of cells that are known up front: there may be a hundred million."""
        return len(self.configurations) * self.space.replicates.count

    @property
    def most(self) -> int:
        """Number of cells at most: those that are known up front, unless the strategy decides."""
        strategy, stopping = self.space.strategy, self.space.strategy.stopping
        if strategy.adaptive is None:
            return self.count
        steps = 1
        if stopping is not None and stopping.resource is not None:
            steps = len(self.space.dimensions[stopping.resource].grid or ())
        configurations = strategy.adaptive.trials * steps + len(space_points(self.space))
        return configurations * len(self.strata) * self.space.replicates.count

    def iterate(self) -> Iterator[Cell]:
        """Yield each cell that is known up front: by workload, then point, then replicate."""
        for configuration in self.configurations.values():
            for number in range(self.space.replicates.count):
                yield self._cell(configuration, self._replicate(number))

    def cells(self, points: Iterable[Mapping[str, Any]] | None = None) -> list[Cell]:
        """Return the cells of these points (by default the space's), each once, in the order of `iterate`.

        Raises
        ------
        SpaceError
            If the system refuses a configuration, or there are more cells than fit into memory.
        """
        if points is None and self.count > _MOST_CELLS:
            message = f"{self.count:,} cells, but a sweep takes at most {_MOST_CELLS:,}"
            raise self.space.fault(message, "replicates", hint="give fewer replicates or values")
        configurations = self.configurations.values() if points is None else self._configurations(points)
        cells: dict[str, Cell] = {}
        for configuration in configurations:
            for replicate in self.replicates:
                cell = self._cell(configuration, replicate)
                cells.setdefault(cell.cell_id, cell)
        return list(cells.values())

    def has(self, result: CellResult) -> bool:
        """Return whether a result is of a cell that is known up front."""
        configuration = self.configurations.get(result.configuration_id)
        if configuration is None or not 0 <= result.seed < self.space.replicates.count:
            return False
        # A replicate's seed is its number.
        return self._cell(configuration, self._replicate(result.seed)).cell_id == result.cell_id

    def understood(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return a point's values as the system understands them: 1 and 1.0 are the same load."""
        parameters = {**self.space.fixed, **self.strata[0].parameters, **point}
        validated = self._checked(parameters).model_dump(mode="json")
        return {name: validated[name] for name in point}

    def _checked(self, parameters: Mapping[str, Any]) -> SystemParameters:
        """Return the parameters of one configuration as the system knows them.

        Raises
        ------
        SpaceError
            If the system refuses them together.
        """
        space, system = self.space, self.system
        try:
            return system.Parameters.model_validate(dict(parameters))
        except ValidationError as refused:
            error = refused.errors()[0]
            name = str(error["loc"][0]) if error["loc"] else ""
            if error["type"] == "missing":
                message, hint = f"{system.name} needs the parameter {name!r}", "put it under `fixed`"
                raise space.fault(message, "fixed", name, hint=hint) from None
            configuration = ", ".join(f"{key}={value}" for key, value in parameters.items())
            reason = refusal_text(error, parameters.get(name))
            message = f"{system.name} refuses the configuration {configuration}: {reason}"
            hint = "give a dimension that applies only sometimes its `when`"
            raise space.fault(message, "dimensions", *([name] if name else []), hint=hint) from None
        except GridtuneError as refused:
            raise space.fault(refused.message, "dimensions", hint=refused.hint) from None

    def _faulty_value(self) -> SpaceError | None:
        """Return the fault of the first listed value that every configuration with it is refused for.

        Some checks see whole configurations only, so a misspelt value shows as a refused configuration, or as
        a baseline that no cell has; the place of the value itself is more useful. There is none where no
        single value is at fault, or every configuration is refused.
        """
        shared = {**self.space.fixed, **self.strata[0].parameters}
        points = strategy_points(self.space)
        outcomes = [(point, self._refusal({**shared, **point})) for point in points]
        if all(refusal for _, refusal in outcomes):
            return None
        for name, dimension in self.space.dimensions.items():
            for index, value in enumerate(dimension.grid or dimension.choice or ()):
                refusals = [refusal for point, refusal in outcomes if name in point and point[name] is value]
                if refusals and all(refusals):
                    return self.space.fault(str(refusals[0]), *self.space.value_place(name, index))
        return None

    def _refusal(self, parameters: dict[str, Any]) -> str | None:
        try:
            self.system.Parameters.model_validate(parameters)
        except ValidationError as refused:
            error = refused.errors()[0]
            return refusal_text(error, error["input"])
        except GridtuneError as refused:
            return refused.message
        return None

    def _configurations(self, points: Iterable[Mapping[str, Any]]) -> Iterator[Configuration]:
        points = list(points)
        found: dict[str, _Stratum] = {}
        for index, stratum in enumerate(self.strata):
            for point in points:
                configured = {**self.space.fixed, **stratum.parameters, **point}
                parameters = self._checked(configured)
                traces = self._traces(parameters, stratum)
                understood = parameters.model_dump(mode="json")
                identity = identity_of(self.system, parameters, None, traces, self.workloads.load)
                identifier = id_of_identity(identity)
                if (first := found.setdefault(identifier, stratum)) is not stratum:
                    message = f"{stratum.label} is the same workload as {first.label}, with another label"
                    hint = "leave one of them out, or let them differ in a parameter"
                    raise self.space.fault(message, "workloads", index, hint=hint)
                shown = {name: understood[name] for name in configured}
                yield Configuration(identifier, stratum, configured, parameters, traces, shown)

    def _cell(self, configuration: Configuration, replicate: Replicate) -> Cell:
        parameters = configuration.parameters
        if replicate.parameters:
            full = {**configuration.configured, **replicate.parameters}
            parameters = self._checked(full)
        traces = configuration.traces
        identity = identity_of(self.system, parameters, replicate.seed, traces, self.workloads.load)
        return Cell(
            id_of_identity(identity),
            configuration.configuration_id,
            configuration.stratum.label,
            configuration.configuration,
            replicate,
            traces,
            identity,
        )

    def _traces(self, parameters: SystemParameters, stratum: _Stratum) -> dict[str, str]:
        try:
            traces = self.workloads.checksums(self.system.traces(parameters))
        except (TraceError, WorkloadError) as fault:
            message = fault.message
            if isinstance(fault, WorkloadError):
                # What is wrong inside a log is found in the log; where the space names it comes first.
                at = "" if fault.line is None else f":{fault.line}"
                column = "" if fault.field is None else f", field {fault.field}"
                message = f"the log cannot be used: {fault.path or 'in memory'}{at}{column}: {message}"
            place = self._place("trace", stratum) or ("dimensions", "trace")
            raise self.space.fault(message, *place, hint=fault.hint) from None
        windows = self.space.replicates.windows or 0
        jobs = sum(len(self.workloads.load(reference)) for reference in traces) if windows else 0
        if 0 < jobs < windows:
            # The cells of windows without a job could only fail.
            message = f"{stratum.label} has {jobs:,} jobs, too few for {windows:,} windows"
            raise self.space.fault(message, "replicates", "windows", hint="give fewer windows")
        return traces

    def _place(self, name: str, stratum: _Stratum) -> tuple[str | int, ...]:
        """Return where the space sets a parameter; () where it does not."""
        if name in stratum.parameters:
            return ("workloads", self.strata.index(stratum), name)
        return next(((key, name) for key in ("dimensions", "fixed") if name in getattr(self.space, key)), ())

    def corners(self) -> list[dict[str, Any]]:
        """Return points that together take every listed value and every end of a range once."""
        dimensions = self.space.dimensions
        values = {name: dimension.extremes for name, dimension in dimensions.items()}
        return [
            active_part(dimensions, {name: listed[index % len(listed)] for name, listed in values.items()})
            for index in range(max(map(len, values.values()), default=0))
        ]

    def _corner_parameters(self) -> Iterator[tuple[_Stratum, SystemParameters]]:
        for stratum in self.strata:
            for point in self.corners() or [{}]:
                # The cells are checked one by one, with better words.
                with contextlib.suppress(ValidationError):
                    stated = {**self.space.fixed, **stratum.parameters, **point}
                    yield stratum, self.system.Parameters.model_validate(stated)

    @cached_property
    def needs(self) -> CellResources:
        """Resources of a worker that can run each cell: the system's, or the space's instead."""
        stated = self.space.resources
        needs = CellResources.largest(self.system.resources(one) for _, one in self._corner_parameters())
        return replace(
            needs,
            cpus=needs.cpus if stated.cpus is None else stated.cpus,
            gpus=needs.gpus if stated.gpus is None else stated.gpus,
            memory=needs.memory if stated.memory is None else stated.memory * 2**30,
        )

    def preflight(self) -> None:
        """Ask the system whether it can run the space's configurations on its workloads.

        Every listed value and both ends of every range are tried once on each workload, in few
        configurations; nothing is simulated.

        Raises
        ------
        SpaceError
            If it cannot, at the place of the space that is to blame.
        MissingExtraError
            If it needs a package that is not installed: nothing in the space is wrong.
        """
        for stratum, parameters in self._corner_parameters():
            try:
                self.system.preflight(parameters, self.workloads.load)
            except (SpaceError, MissingExtraError):
                raise
            except GridtuneError as fault:
                place = self._place(fault.field or "", stratum) or self._place("trace", stratum)
                message = f"{self.system.name} cannot run {stratum.label}: {fault.message}"
                raise self.space.fault(message, *place, hint=fault.hint) from None

    def run_order(self, cells: Iterable[Cell]) -> dict[str, tuple[int, int]]:
        """Return each cell's place for running: cells that share a workload and replicate together.

        They share the selected workload, which a worker then makes once.
        """
        labels = {stratum.label: index for index, stratum in enumerate(self.strata)}
        repeats = {replicate.label: index for index, replicate in enumerate(self.replicates)}
        return {cell.cell_id: (labels[cell.workload], repeats[cell.replicate.label]) for cell in cells}


#: A search space: planned, parsed, a mapping of the keys of its file, or the path of the file.
SpaceSource = PlannedSpace | SearchSpace | Mapping[str, Any] | str | Path


def plan_space(space: SpaceSource) -> PlannedSpace:
    """Return a search space read, checked against its system, and ready to make its cells.

    Raises
    ------
    SpaceError
        If anything about it is wrong, with file, line, key and, for a misspelt word, the one meant.
    """
    if isinstance(space, PlannedSpace):
        return space
    given: Any = space
    if not isinstance(given, SearchSpace | Mapping | str | Path):
        kinds = "a path to a YAML file, a mapping of the same keys or a SearchSpace"
        raise SpaceError(f"a search space is {kinds}, but got {type(given).__name__}")
    if isinstance(space, SearchSpace):
        parsed = space
    else:
        parsed = parse_space(space) if isinstance(space, Mapping) else read_space(space)
    return PlannedSpace(parsed, check_space(parsed), Workloads(parsed.base))


def load_space(path: str | Path) -> SearchSpace:
    """Read a search space and check it against the system it searches.

    Raises
    ------
    SpaceError
        If anything about it is wrong; with file, line, key and, for a misspelt word, the one meant.
    """
    require_path(path, "a search space's file", error=SpaceError)
    return plan_space(path).space
