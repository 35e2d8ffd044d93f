"""From a search space to its configurations and cells."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from gridtune.core.cells import Cell, Replicate, configuration_id_of, id_of_identity, identity_of
from gridtune.core.system import System, SystemParameters
from gridtune.errors import GridtuneError, SpaceError, TraceError, WorkloadError
from gridtune.sweep.space.checks import check_configuration, faulty_value
from gridtune.sweep.space.points import active_part, grid_points, position, random_points, sobol_points
from gridtune.sweep.space.schema import Replicates, SearchSpace
from gridtune.workload.files import WorkloadReference
from gridtune.workload.workload import Workload

__all__ = [
    "Configuration",
    "Planner",
    "Stratum",
    "Workloads",
    "most_cells",
    "short_name",
    "space_points",
    "space_replicates",
    "space_strata",
    "understood_baseline",
]

#: Cells of a sweep at most: each takes memory in the driver.
_MOST_CELLS = 5_000_000


@dataclass(frozen=True)
class Stratum:
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
    stratum: Stratum
    configured: Mapping[str, Any]
    parameters: SystemParameters
    traces: Mapping[str, str]
    configuration: Mapping[str, Any]


class _Repetitions(Sequence[Replicate]):
    """A space's repetitions, each made when it is asked for: there may be a hundred million."""

    def __init__(self, count: int, make: Callable[[int], Replicate]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Replicate: ...

    @overload
    def __getitem__(self, index: slice) -> list[Replicate]: ...

    def __getitem__(self, index: int | slice) -> Replicate | list[Replicate]:
        if isinstance(index, slice):
            return [self._make(number) for number in range(self._count)[index]]
        return self._make(range(self._count)[index])


def space_replicates(replicates: Replicates, window: str = "window") -> Sequence[Replicate]:
    """Return the repetitions a space asks for; the seed of each is its number.

    Parameters
    ----------
    replicates
        What the space says.
    window
        The system's parameter for a window of the log (`SystemParameters.window_parameter`).
    """
    count, windows = replicates.count, replicates.windows

    def make(number: int) -> Replicate:
        if windows is not None:
            part = f"{number + 1}/{windows}"
            return Replicate(f"window {part}", number, {window: part})
        if replicates.shakes is not None:
            return Replicate(f"shake {number}", number, {"shake": replicates.amount})
        return Replicate(f"seed {number}", number)

    return _Repetitions(count, make)


def space_strata(space: SearchSpace, system: System) -> list[Stratum]:
    """Return the workloads that everything is crossed with."""
    plain = [
        {name: value for name, value in workload.items() if name != "label"}
        for workload in space.workloads or ({},)
    ]
    labels = [str(workload.get("label", "")) for workload in space.workloads] or [""]
    traces = [str({**space.fixed, **workload}.get("trace", "")) for workload in plain]
    strata = []
    for index, (label, trace, parameters) in enumerate(zip(labels, traces, plain, strict=True)):
        # A trace alone names the workload unless another workload is the same trace, cut otherwise.
        others = {} if traces.count(trace) == 1 else parameters
        rest = [f"{name}={value}" for name, value in others.items() if name != "trace"]
        strata.append(Stratum(label or ", ".join([short_name(trace), *rest]) or system.name, parameters))
        if strata[-1].label in [stratum.label for stratum in strata[:-1]]:
            message = f"two workloads would be called {strata[-1].label!r}"
            raise space.fault(message, "workloads", index, hint="give each a `label`")
    return strata


def short_name(trace: str) -> str:
    """Return a log's name without its folder and the suffixes of its format: versions have dots, too."""
    return re.sub(r"(?<=.)(\.[A-Za-z]+)+$", "", trace.replace("\\", "/").rpartition("/")[2])


def space_points(space: SearchSpace) -> list[dict[str, Any]]:
    """Return the points a strategy that knows them up front will run; the baseline is among them.

    For an adaptive strategy that is the baseline alone.
    """
    return _with_baseline(space, _strategy_points(space))


def _strategy_points(space: SearchSpace) -> list[dict[str, Any]]:
    strategy, dimensions = space.strategy, space.dimensions
    try:
        if strategy.drawn is not None:
            kind, options = strategy.drawn
            draw = random_points if kind == "random" else sobol_points
            return draw(dimensions, options.samples, options.seed)
        return [] if strategy.adaptive is not None else grid_points(dimensions)
    except GridtuneError as fault:
        place = str(fault.field or "dimensions").split(".")
        raise space.fault(fault.message, *place, hint=fault.hint) from None


def most_cells(space: SearchSpace) -> int:
    """Return how many cells an adaptive strategy comes to at most; 0 for another strategy, which knows."""
    adaptive, stopping = space.strategy.adaptive, space.strategy.stopping
    if adaptive is None:
        return 0
    steps = 1
    if stopping is not None and stopping.resource is not None:
        steps = len(space.dimensions[stopping.resource].grid or ())
    configurations = adaptive.trials * steps + len(space_points(space))
    return configurations * len(space.workloads or ({},)) * space.replicates.count


def _with_baseline(space: SearchSpace, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    wanted = {name: value for name, value in space.baseline.items() if name in space.dimensions}
    fixed = {name: value for name, value in space.baseline.items() if name not in wanted}
    for name, value in fixed.items():
        if space.fixed[name] != value:
            raise space.fault(f"every cell has {name}={space.fixed[name]!r}", "baseline", name)
    if not wanted or any(_agrees(point, wanted) for point in points):
        return points
    if space.strategy.drawn is None and space.strategy.adaptive is None:
        parameters = ", ".join(f"{name}={value}" for name, value in wanted.items())
        raise space.fault(f"no configuration of the grid has {parameters}", "baseline")
    return [_baseline_point(space, wanted), *points]


def _baseline_point(space: SearchSpace, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the baseline as a point of a sampled space, where it must be a whole one."""
    dimensions = space.dimensions
    missing = [name for name, dimension in dimensions.items() if name not in wanted and not dimension.when]
    if not missing:
        try:
            point = active_part(dimensions, wanted)
        except KeyError as conditional:
            missing = [str(conditional.args[0])]
    if missing:
        message = f"the baseline leaves {', '.join(missing)} open, which a sample hardly hits"
        raise space.fault(message, "baseline", hint="give every dimension that applies a value")
    for name, value in wanted.items():
        if name not in point and value is not None:
            message = f"{name} does not apply to the baseline: its `when` is not fulfilled"
            raise space.fault(message, "baseline", name, hint="leave it out or say `null`")
    if space.strategy.adaptive is not None:
        _check_listed(space, point)
    return point


def _check_listed(space: SearchSpace, point: Mapping[str, Any]) -> None:
    """Refuse a baseline's value that no configuration has: an adaptive strategy cannot take it."""
    for name, value in point.items():
        listed = space.dimensions[name].grid or space.dimensions[name].choice
        if listed and position(listed, value) is None:
            hint = f"it is one of {', '.join(map(str, listed))}"
            raise space.fault(f"{name} never is {value!r}", "baseline", name, hint=hint)


def understood_baseline(space: SearchSpace, system: System) -> dict[str, Any]:
    """Return the baseline as the system understands it, which is how cells and tables have it."""
    wanted = {name: value for name, value in space.baseline.items() if name in space.dimensions}
    first = {name: dimension.extremes[0] for name, dimension in space.dimensions.items()}
    # Parameters are checked as a whole, so those of one of the baseline's configurations are.
    agreeing = (point for point in space_points(space) if _agrees(point, wanted))
    point = next(agreeing, None) or active_part(space.dimensions, {**first, **wanted})
    parameters = {**space.fixed, **space_strata(space, system)[0].parameters, **point}
    validated = check_configuration(space, system, parameters).model_dump(mode="json")
    return {name: validated[name] if name in parameters else value for name, value in space.baseline.items()}


def _agrees(point: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(point.get(name) == value for name, value in wanted.items())


class Planner:
    """Makes the cells of a space.

    Parameters
    ----------
    space, system
        What is searched.
    workloads
        Gives the traces' checksums.
    """

    def __init__(self, space: SearchSpace, system: System, workloads: Workloads) -> None:
        self.space = space
        self.system = system
        self.strata = space_strata(space, system)
        self.replicates = space_replicates(space.replicates, system.Parameters.window_parameter)
        self.workloads = workloads

    def cells(self, points: Iterable[Mapping[str, Any]] | None = None) -> list[Cell]:
        """Return the cells of these points (by default the space's), each once.

        The order is that of the results: by workload, then point, then replicate.
        """
        if points is not None:
            return self._cells(list(points))
        with self.blaming_values():
            return self._cells(space_points(self.space))

    @contextlib.contextmanager
    def blaming_values(self) -> Iterator[None]:
        """Where configurations are refused, name the value that is at fault, if it is a single one."""
        try:
            yield
        except SpaceError as fault:
            shared = {**self.space.fixed, **self.strata[0].parameters}
            blamed = faulty_value(self.space, self.system, shared, _strategy_points(self.space))
            raise (blamed or fault) from None

    def _cells(self, points: Sequence[Mapping[str, Any]]) -> list[Cell]:
        count = len(points) * len(self.strata) * len(self.replicates)
        if count > _MOST_CELLS:
            message = f"{count:,} cells, but a sweep takes at most {_MOST_CELLS:,}"
            raise self.space.fault(message, "replicates", hint="give fewer replicates or values")
        cells: dict[str, Cell] = {}
        replicates = list(self.replicates)
        for configuration in self.configurations(points):
            for replicate in replicates:
                cell = self.cell(configuration, replicate)
                cells.setdefault(cell.cell_id, cell)
        return list(cells.values())

    def configurations(self, points: Iterable[Mapping[str, Any]] | None = None) -> Iterator[Configuration]:
        """Yield the configurations of these points (by default the space's), by workload, then point."""
        points = space_points(self.space) if points is None else list(points)
        for stratum in self.strata:
            for point in points:
                yield self._configuration(stratum, point)

    def understood(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return a point's values as the system understands them: 1 and 1.0 are the same load."""
        parameters = {**self.space.fixed, **self.strata[0].parameters, **point}
        validated = check_configuration(self.space, self.system, parameters).model_dump(mode="json")
        return {name: validated[name] for name in point}

    def _configuration(self, stratum: Stratum, point: Mapping[str, Any]) -> Configuration:
        configured = {**self.space.fixed, **stratum.parameters, **point}
        parameters = check_configuration(self.space, self.system, configured)
        traces = self._traces(parameters, stratum)
        self._check_windows(traces, stratum)
        understood = parameters.model_dump(mode="json")
        return Configuration(
            configuration_id_of(self.system, parameters, traces, self.workloads.load),
            stratum,
            configured,
            parameters,
            traces,
            {name: understood[name] for name in configured},
        )

    def cell(self, configuration: Configuration, replicate: Replicate) -> Cell:
        """Return the cell of a configuration and a replicate."""
        parameters = configuration.parameters
        if replicate.parameters:
            full = {**configuration.configured, **replicate.parameters}
            parameters = check_configuration(self.space, self.system, full)
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

    def corners(self) -> list[dict[str, Any]]:
        """Return points that together take every listed value and every end of a range once."""
        dimensions = self.space.dimensions
        longest = max((len(dimension.extremes) for dimension in dimensions.values()), default=0)
        return [
            active_part(
                dimensions,
                {
                    name: dimension.extremes[i % len(dimension.extremes)]
                    for name, dimension in dimensions.items()
                },
            )
            for i in range(longest)
        ]

    def _traces(self, parameters: SystemParameters, stratum: Stratum) -> dict[str, str]:
        try:
            return self.workloads.checksums(self.system.traces(parameters))
        except (TraceError, WorkloadError) as fault:
            place: tuple[str | int, ...] = ("dimensions", "trace")
            if "trace" in self.space.fixed:
                place = ("fixed", "trace")
            elif "trace" in stratum.parameters:
                place = ("workloads", self.strata.index(stratum), "trace")
            message = fault.message
            if isinstance(fault, WorkloadError):
                # What is wrong inside a log is found in the log; where the space names it comes first.
                at = "" if fault.line is None else f":{fault.line}"
                column = "" if fault.field is None else f", field {fault.field}"
                message = f"the log cannot be used: {fault.path or 'in memory'}{at}{column}: {message}"
            raise self.space.fault(message, *place, hint=fault.hint) from None

    def _check_windows(self, traces: Iterable[str], stratum: Stratum) -> None:
        """Refuse more windows than jobs: the cells of those without a job could only fail."""
        windows = self.space.replicates.windows
        if windows is None:
            return
        jobs = sum(len(self.workloads.load(reference)) for reference in traces)
        if 0 < jobs < windows:
            message = f"{stratum.label} has {jobs:,} jobs, too few for {windows:,} windows"
            raise self.space.fault(message, "replicates", "windows", hint="give fewer windows")

    def run_order(self, cells: Iterable[Cell]) -> dict[str, tuple[int, int]]:
        """Return each cell's place for running: cells that share a workload and replicate together.

        They share the selected workload, which a worker then makes once.
        """
        labels = {stratum.label: index for index, stratum in enumerate(self.strata)}
        repeats = {replicate.label: index for index, replicate in enumerate(self.replicates)}
        return {cell.cell_id: (labels[cell.workload], repeats[cell.replicate.label]) for cell in cells}


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
        """What has been read so far, by reference."""
        return self._read
