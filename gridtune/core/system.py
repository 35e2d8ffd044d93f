"""`System`: the contract that everything which can be swept fulfils, and the registry of systems.

A system is a simulator with its policies, its parameters and its metrics. Once a package announces it, it can
be run as a single cell, swept, tracked and reported. The systems that come with gridtune are announced by
entry points, exactly as somebody else's are:

    [project.entry-points."gridtune.systems"]
    queue_demo = "queue_demo.system:QueueDemo"
"""

from __future__ import annotations

import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from gridtune.arguments import require
from gridtune.core.measures import Measure
from gridtune.errors import SweepError
from gridtune.registry import NamedValues, Registry, name_hint
from gridtune.types import FloatArray
from gridtune.workload.cleaning import DEFAULT_RULES
from gridtune.workload.files import WorkloadReference, reference_text
from gridtune.workload.workload import Workload

if TYPE_CHECKING:  # evaluating a schedule loads this module, and needs no tables
    import pyarrow as pa

    from gridtune.core.remarks import Trust
    from gridtune.core.reproduction import PublishedFigure, Reproduction
    from gridtune.core.schedules.schedule import Schedule


class SystemParameters(BaseModel):
    """The parameters of one cell: validated, frozen, and refused when a name is unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Old names of parameters to their names now, for messages. A renamed parameter keeps its cells' ids if
    #: its field has the old name as `serialization_alias`.
    renamed_parameters: ClassVar[Mapping[str, str]] = {}
    #: The parameter that a space's `replicates: {windows: N}` sets to 1/N, 2/N, … Windows of one N must not
    #: overlap: rankings take them as independent replicates.
    window_parameter: ClassVar[str] = "window"
    #: Titles to names of parameters, for help: the first group is explained, of the others `--help` shows the
    #: names and `--help --all` the rest. What no group names is "Other parameters". Without groups, all of
    #: them are explained.
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def register_function(cls, parameter: str, function: Callable[..., Any]) -> str:
        """Register a function that was passed for a parameter, and return its name as a value of it.

        Raises
        ------
        SweepError
            If the parameter takes no function, which is so by default.
        """
        raise SweepError(f"{parameter!r} takes no function", field=parameter)

    def _check_checkpoint(self, learned: str) -> None:
        """Refuse the policy of that name without a checkpoint, and a checkpoint with another policy."""
        policy, checkpoint = getattr(self, "policy", None), getattr(self, "checkpoint", None)
        if (checkpoint is None) == (policy == learned):
            missing = "needs a checkpoint" if checkpoint is None else "takes no checkpoint"
            raise ValueError(f"policy={policy} {missing}")

    def _refuse_idle(self, idle: Iterable[tuple[Iterable[str], str]]) -> None:
        """Refuse parameters that are set and decide nothing: one would make new cells for the same results.

        Parameters
        ----------
        idle
            Names of parameters, and the choice that leaves them without effect.
        """
        for names, choice in idle:
            for name in names:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name} has no effect with {choice}")


_P = TypeVar("_P", bound=SystemParameters)


def described(module: str, *, grouped: bool = True) -> Callable[[type[_P]], type[_P]]:
    """Return a decorator that takes the texts of a class's parameters from a TOML file of the module's name.

    `[parameters.NAME]` has the `description` (without it, the first base's holds) and `examples` of a
    parameter, `[groups]` the titles for help, which a class that others of the module derive from does not
    have (`grouped=False`).
    """
    declared = tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))

    def describe(parameters: type[_P]) -> type[_P]:
        if grouped and "groups" in declared:
            titles = {title: tuple(names) for title, names in declared["groups"].items()}
            parameters.groups = MappingProxyType(titles)
        for name in parameters.__annotations__.keys() & parameters.model_fields.keys():
            field, text = parameters.model_fields[name], declared["parameters"].get(name, {})
            inherited = getattr(parameters.__base__, "model_fields", {}).get(name, field)
            field.description = text.get("description", field.description or inherited.description)
            field.examples = text.get("examples", field.examples)
        return parameters

    return describe


@dataclass(frozen=True)
class Outcome:
    """The result of one cell.

    Attributes
    ----------
    metrics
        Metric name to value; NaN where it is not defined.
    notes
        Facts worth keeping beside them (the cleaning report, counts): JSON-serialisable.
    tables
        Larger artefacts by name (the schedule), made only when asked for.
    schedule
        The schedule itself, where the system makes one; it stays in the process.
    """

    metrics: Mapping[str, float]
    notes: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", NamedValues(self.metrics))


#: Gives the stream of random numbers for a purpose: same replicate and purpose, same numbers.
Streams = Callable[[str], np.random.Generator]
#: Gives the workload a reference names; loaded once per process and kept.
WorkloadLoader = Callable[[str], Workload]


class FinishedSweep(Protocol):
    """Material of a system's own tables and figures (`gridtune.report.schedules.ReportMaterial`)."""

    @property
    def name(self) -> str:
        """The sweep's name."""

    @property
    def table(self) -> pa.Table:
        """One row per cell: `workload`, `configuration_id`, `replicate`, `state`, `param.*`, `metric.*`."""

    @property
    def results(self) -> Sequence[Any]:
        """The same as `gridtune.core.cells.CellResult`, with notes."""

    @property
    def directory(self) -> Path:
        """Where files go: the sweep's folder; figures into its `plots/`."""

    def tables_of(self, result: Any) -> Mapping[str, pa.Table]:
        """Run a cell again and return the tables its system makes of it (`Outcome.tables`)."""


class System(ABC):
    """A simulator with its parameters and metrics.

    A subclass sets `name`, `version`, `Parameters` and `metrics`, and defines `run`. Everything else has a
    default. `Parameters` is the class of a cell's parameters: each has a type, a description and, unless it
    must be given, a default; a parameter `trace` is the reference of the log.
    `gridtune.testing.SystemConformance` checks what is said here.

    Attributes
    ----------
    name
        Its name in search spaces and on the command line.
    version
        Part of every cell's id: raise it when results change, so that old cells are not taken for new.
    metrics
        Every metric by name: its unit, the direction that is better, its formula and where that comes from.
    value_warnings
        Parameters to values to what a reader of results with that value must know: notes below a ranking.
    watched_metrics
        Metrics that a verdict looks at beside the objectives, to show what the best configuration costs.
    search_spaces
        Folder of the search spaces that come with the system, or None.
    papers
        YAML files of publications whose experiments can be run again (`gridtune.core.reproduction`).
    environments
        Gymnasium environments: the name after `gridtune/`, such as `Shutdown-v0`, to the class,
        `module:NameEnv`. The vectorised twin is `NameVectorEnv` of the same module.
    trainings
        RLlib algorithms that train an agent for it: name to `module:Class` of a subclass of
        `gridtune.training.system.Training`, which is imported when it is asked for.
    needs_ray
        True if a cell needs Ray even if it is run by itself, so that sweeps always start Ray.
    default
        True if search spaces and commands that name no system mean this one (`default_system`).
    """

    name: ClassVar[str]
    version: ClassVar[str]
    Parameters: ClassVar[type[SystemParameters]]
    metrics: ClassVar[Mapping[str, Measure]]
    value_warnings: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    watched_metrics: ClassVar[tuple[str, ...]] = ()
    search_spaces: ClassVar[Path | None] = None
    papers: ClassVar[tuple[Path, ...]] = ()
    environments: ClassVar[Mapping[str, str]] = {}
    trainings: ClassVar[Mapping[str, str]] = {}
    needs_ray: ClassVar[bool] = False
    default: ClassVar[bool] = False

    @property
    def reproductions(self) -> Mapping[str, Reproduction]:
        """The content of `papers`, by the name that `gridtune reproduce` takes."""
        from gridtune.core.reproduction import read_reproduction  # noqa: PLC0415 (for papers alone)

        return {paper.name: paper for paper in map(read_reproduction, self.papers)}

    @property
    def published(self) -> Mapping[str, PublishedFigure]:
        """Numbers that the publications report, by a short name."""
        papers = self.reproductions.values()
        return {name: number for paper in papers for name, number in paper.published.items()}

    @property
    def bundled_spaces(self) -> list[Path]:
        """The files of the search spaces that come with it."""
        return [] if self.search_spaces is None else sorted(self.search_spaces.glob("*.yaml"))

    def parameter_hint(self, name: str) -> str:
        """Return what to write instead of a parameter that the system does not have."""
        return name_hint(name, self.Parameters.model_fields, self.Parameters.renamed_parameters)

    def metric_hint(self, name: str) -> str:
        """Return what to write instead of a metric that the system does not have."""
        return name_hint(name, self.metrics)

    def traces(self, parameters: Any) -> Iterable[str]:
        """Return the references of the workloads that a cell reads, by default its log."""
        if isinstance(parameters, LogParameters) and parameters.trace is not None:
            return (str(parameters.reference),)
        return ()

    def file_checksums(self, parameters: Any) -> Mapping[str, str]:
        """Return name and SHA-256 of every file that decides the result of a cell with these parameters.

        It becomes part of the cell's id, as the code of users does by itself: what is registered, and the
        system if it is a user's (`gridtune.core.user_code.checksums`). By default there are no files.
        """
        return {}

    def values_from_log(self, parameters: Any, load: WorkloadLoader) -> Mapping[str, Any]:
        """Return the parameters that a log decides where they are left open, with their values for ids.

        So two cells have one id if and only if they are the same run, whether a value was set or decided.
        None leaves a parameter out of the id, as a default is. By default nothing is decided.
        """
        return {}

    def modelled_features(self, parameters: Any) -> Collection[str]:
        """Return what a cell with these parameters models of what a log may say.

        Names are those of `gridtune.core.remarks.MODELLED`. What a log says beside is named in each of its
        results as ignored. By default a cell models nothing of it.
        """
        return ()

    def preflight(self, parameters: Any, load: WorkloadLoader) -> None:
        """Raise a `GridtuneError` if a cell with these parameters could only fail.

        Called in the driver before workers start, for a few configurations on each workload: is the machine
        large enough, has the log what is needed, is what must be installed there? Its `field` may name the
        parameter to blame. Nothing is simulated. By default nothing is checked.
        """
        return

    def prepare(self, parameters: Iterable[Any]) -> None:
        """Compile what cells with these parameters need, so that the first of them starts warm."""
        return

    def resources(self, parameters: Any) -> CellResources:
        """Return what a cell with these parameters occupies while it runs: by default one processor."""
        return CellResources()

    def suggest_space(self, workload: Workload, processors: int | None) -> SuggestedSpace | None:
        """Return what to search first on a log, for `gridtune init`; None to propose nothing, the default.

        Parameters
        ----------
        workload
            The log, not cleaned.
        processors
            The machine's size, as the log or the user says it; None if neither does.
        """
        return None

    @abstractmethod
    def run(self, parameters: Any, *, streams: Streams, load: WorkloadLoader, tables: bool) -> Outcome:
        """Run one cell.

        Parameters
        ----------
        parameters
            An instance of `Parameters`.
        streams
            Gives the generator of random numbers for a purpose. All configurations of a replicate get the
            same numbers for the same purpose.
        load
            Gives the workload of a reference that `traces` returned.
        tables
            True to make `Outcome.tables`.
        """

    def trust(self, notes: Sequence[Mapping[str, Any]]) -> Trust | None:
        """Return the trust in answers on a log, by the notes of the baseline's cells; None if not graded."""
        return None

    def reach(
        self, metric: str, pair: FloatArray, notes: Sequence[Mapping[str, Any]], windows: bool
    ) -> float:
        """Return how far a real difference may be from a simulated one, beside chance among replicates.

        It is the reach of an interval of 95 %, in the logarithm of the ratio of two means; by default 0.

        Parameters
        ----------
        metric
            The metric.
        pair
            Its values and the numbers of jobs, of the baseline and another configuration each, shape
            (2, 2, replicates).
        notes
            Notes of cells on this log.
        windows
            True if the replicates are windows of the log.
        """
        return 0.0

    def report(self, sweep: FinishedSweep) -> list[Path]:
        """Write the tables and figures that only this system has, and return their paths.

        Called after every sweep of the system, beside the ranking. It takes what it needs from the results,
        and writes nothing of a sweep that does not have it. By default there is nothing.
        """
        return []


def _instance(loaded: Any) -> System:
    system = loaded() if isinstance(loaded, type) else loaded
    if not isinstance(system, System):
        raise SweepError(f"{loaded!r} is no system: it does not derive from gridtune.System")
    return system


class _Systems(Registry[System]):
    """The registry of systems, which finds a system's trainings by `SYSTEM/ALGORITHM`, too."""

    def __getitem__(self, name: str) -> System:
        system, slash, algorithm = name.partition("/")
        if not slash or name in self.imported:
            return super().__getitem__(name)
        return _made(resolve_name(super().__getitem__(system).trainings[algorithm]))


@cache
def _made(training: type) -> System:
    """Return the one instance of a training's class."""
    return _instance(training)


#: All systems by name; those that packages announce are imported when they are asked for.
SYSTEMS: Registry[System] = _Systems("system", "gridtune.systems", SweepError, convert=_instance, code=type)


def register_system(system: System) -> System:
    """Add a system under its name; a name is never overwritten."""
    system = _instance(system)
    SYSTEMS.register(system.name, system)
    return system


def get_system(name: str) -> System:
    """Return the system of that name, or the training `SYSTEM/ALGORITHM`.

    Raises
    ------
    SweepError
        If there is none; the hint guesses which was meant.
    """
    return SYSTEMS.find(
        require(name, str, "a system", error=SweepError, hint="`gridtune list systems` lists them")
    )


def default_system() -> System:
    """Return the system that search spaces and commands mean that name none.

    Raises
    ------
    SweepError
        If no system that is installed says that it is the default.
    """
    for name in SYSTEMS.names():
        if SYSTEMS[name].default:
            return SYSTEMS[name]
    raise SweepError("no system is the default", hint="name one; `gridtune list systems` lists them")


@dataclass(frozen=True)
class CellResources:
    """Resources of a running cell; a system names them, and a search space can override them.

    Attributes
    ----------
    cpus, gpus
        Processors and GPUs of the process that runs it.
    memory
        Bytes that the cell may take beside what its process has when it starts; 0 for no limit.
    helpers
        Further processes of one processor each that the cell starts on Ray, such as RLlib's runners.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    memory: float = 0.0
    helpers: int = 0

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The same as the bundles of a placement group, the cell's own first."""
        own = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(round(self.memory))}
        return [{name: amount for name, amount in own.items() if amount}, *[{"CPU": 1.0}] * self.helpers]

    @classmethod
    def largest(cls, needs: Iterable[Self]) -> Self:
        """Return what is enough for each of several cells, as a worker runs them one after another."""
        every = map(astuple, list(needs) or [cls()])
        return cls(*map(max, zip(*every, strict=True)))


#: Jobs that a window should have at least, and the numbers of windows to choose from: six pairs are the
#: fewest with which a sign-flip test can prove anything at 5 %, ten are as many as most questions need.
_WINDOW_JOBS, _FEWEST, _MOST = 200, 6, 10


@dataclass(frozen=True)
class SuggestedSpace:
    """Search space that a system proposes for a log.

    Attributes
    ----------
    question
        The question of the search, in a sentence.
    dimensions
        Parameter to its values; or, as a search space writes it, to `{grid: values, when: condition}`.
    baseline
        Parameters of the configuration to compare with.
    objective
        The metric to rank by, or several, the first first.
    fixed
        Parameters that every cell has, beside the log: the machine's size where the log does not say it.
    needs_size
        True if it needs the machine's size.
    subject_to
        Metric to the bound that configurations must keep.
    classes
        Classes of jobs, name to condition.
    """

    question: str
    dimensions: Mapping[str, Sequence[Any] | Mapping[str, Any]]
    baseline: Mapping[str, Any]
    objective: str | Sequence[str]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    needs_size: bool = True
    subject_to: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)

    @property
    def objectives(self) -> Sequence[str]:
        """The metrics to rank by."""
        return (self.objective,) if isinstance(self.objective, str) else self.objective


def starter_windows(jobs: int) -> int | None:
    """Return into how many windows a log of so many jobs should be cut; None if it is too short for that."""
    windows = min(_MOST, jobs // _WINDOW_JOBS)
    return windows if windows >= _FEWEST else None


_WINDOW = re.compile(r"(\d+)/(\d+)")


def split_list(value: Any) -> Any:
    """Read `one,two` as a list of two: the command line has no lists."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _check_window(value: str) -> str:
    match = _WINDOW.fullmatch(value)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"must be `i/n` with 1 ≤ i ≤ n, such as 3/10, but got {value!r}")
    return value


def _number_of(value: Any) -> Any:
    """Read `12` from the command line as a number: no partition's name is a number."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


#: A partition of a log by its number or its name.
Partition = Annotated[int | str, BeforeValidator(_number_of)]
#: Cleaning rules in order; `default` stands for the default ones, `none` for no rule.
CleanRules = Annotated[tuple[str, ...], BeforeValidator(split_list)]
#: `i/n`: part i of n; a search space's windows set it.
Window = Annotated[str, AfterValidator(_check_window)]
#: A number of at least 1.
Count = Annotated[int, Field(gt=0)]


@described(__file__)
class LogParameters(SystemParameters):
    """The log that a cell reads, and the rules that clean it.

    A system that can do without a log redefines `trace` with the default None.
    """

    trace: Annotated[str, BeforeValidator(reference_text)]
    clean: CleanRules = ("default",)
    first: Count | None = None

    @staticmethod
    def outside(window: str | None, jobs: int, warmup: float, cooldown: float) -> tuple[float, float]:
        """Return what metrics leave out at both ends of so many replayed jobs, as `evaluate` takes it.

        All of them are replayed, and the shares are those of a window; None stands for the whole.
        """
        if window is None:
            return warmup, cooldown
        number, count = map(int, window.split("/"))
        first, last = jobs * (number - 1) // count, jobs * number // count
        return first + int(warmup * (last - first)), jobs - last + int(cooldown * (last - first))

    @property
    def rules(self) -> tuple[str, ...]:
        """The cleaning rules by name, in order, each once."""
        groups = {"default": DEFAULT_RULES, "none": ()}
        return tuple(dict.fromkeys(rule for name in self.clean for rule in groups.get(name, (name,))))

    @property
    def reference(self) -> WorkloadReference:
        """The log; the reader applies cleaning rules only if they are named one by one."""
        unnamed = self.clean in {("default",), ("none",), ()}
        return WorkloadReference(self.trace, None if unnamed else self.rules)
