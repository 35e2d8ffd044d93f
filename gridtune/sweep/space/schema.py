"""`SearchSpace`: everything one sweep is determined by, as its YAML file has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from gridtune.batch.metrics.classes import split_name
from gridtune.core.cells import Replicate
from gridtune.core.system import SYSTEMS, default_system
from gridtune.errors import SpaceError
from gridtune.registry import name_hint
from gridtune.statistics.sample_size import fewest_replicates
from gridtune.sweep.space.documents import LinedYaml, YamlPath, read_yaml, space_error
from gridtune.sweep.space.strategies import (
    ITERATIONS,
    MOST_POINTS,
    MOST_REPLICATES,
    ExpressionTree,
    SpacePart,
    Strategy,
)
from gridtune.workload.catalogue import shipped_folder
from gridtune.workload.fields import LARGEST_TIME

#: From so many windows on, both halves can show a difference.
_ENOUGH_WINDOWS = 2 * fewest_replicates(0.05)
#: Whole numbers up to which an `integer` dimension may be spelt out by a grid.
_LARGEST_ENUMERATION = 10_000

Number = int | float


class Dimension(SpacePart):
    """The values one parameter can take: exactly one of the six kinds, and when it applies.

    Attributes
    ----------
    grid
        Every one of these values; never sampled, always crossed with everything else.
    choice
        One of these values; a sampling strategy draws it.
    uniform
        A real number from [low, high], each as likely as any other.
    loguniform
        A real number from [low, high], its logarithm evenly; low is above 0.
    integer
        A whole number from low to high, both included.
    expression
        An expression built of terminals and operators.
    when
        Other dimensions and the value or values they must have; otherwise this one is left out.
    """

    alternatives = ("grid", "choice", "uniform", "loguniform", "integer", "expression")

    grid: Annotated[tuple[Any, ...], Field(min_length=1)] | None = None
    choice: Annotated[tuple[Any, ...], Field(min_length=1)] | None = None
    uniform: tuple[float, float] | None = None
    loguniform: tuple[Annotated[float, Field(gt=0)], float] | None = None
    integer: tuple[int, int] | None = None
    expression: ExpressionTree | None = None
    when: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return {"grid": value}
        if not isinstance(value, Mapping):
            kinds = ", ".join(cls.alternatives)
            raise ValueError(
                f"a dimension is a list of values or one of {kinds}, but got {value!r}; "
                "a parameter with one value goes under `fixed`"
            )
        return value

    @field_validator("uniform", "loguniform", "integer")
    @classmethod
    def _ordered(cls, value: tuple[Number, Number] | None) -> tuple[Number, Number] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError(f"`low < high` must hold, but got [{value[0]}, {value[1]}]")
        return value

    @field_validator("grid", "choice")
    @classmethod
    def _distinct(cls, value: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        for index, item in enumerate(value or ()):
            if any(item == other and type(item) is type(other) for other in (value or ())[:index]):
                raise ValueError(f"the value {item!r} is here twice")
        return value

    @property
    def values(self) -> tuple[Any, ...] | None:
        """All values, where they can be counted out."""
        if self.integer is not None and self.integer[1] - self.integer[0] < _LARGEST_ENUMERATION:
            return tuple(range(self.integer[0], self.integer[1] + 1))
        return self.grid if self.grid is not None else self.choice

    def applies(self, point: Mapping[str, Any]) -> bool:
        """Return whether its condition holds at a point (a dimension left out fulfils none)."""
        return all(
            other in point and point[other] in (wanted if isinstance(wanted, list | tuple) else [wanted])
            for other, wanted in self.when.items()
        )

    @property
    def extremes(self) -> tuple[Any, ...]:
        """The values that are valid if all are: each listed one, or both ends of a range."""
        if self.expression is not None:
            return self.expression.extremes
        return self.grid or self.choice or self.uniform or self.loguniform or self.integer or ()

    def check_within(self, value: Any) -> None:
        """Refuse a value that is not among those of the dimension."""
        listed = self.grid or self.choice
        if self.expression is not None:
            hint = "give it under `fixed` in a space of its own"
            raise SpaceError("an expression cannot be narrowed", hint=hint)
        if listed is not None:
            inside, hint = value in listed, name_hint(str(value), map(str, listed))
        else:
            low, high = self.extremes
            number = isinstance(value, int | float) and not isinstance(value, bool)
            inside, hint = number and low <= value <= high, f"they are from {low} to {high}"
            if inside and self.integer is not None:
                inside, hint = value == int(value), "they are whole numbers"
        if not inside:
            raise SpaceError(f"{value!r} is not among its values in this space", hint=hint)


class Replicates(SpacePart):
    """Repetitions of every configuration: exactly one of seeds, windows, shakes.

    Attributes
    ----------
    seeds
        Repetitions with another seed each.
    windows
        Consecutive windows of the log, of about as many jobs each.
    held_back
        With `windows`: the last so many are kept from the search, and its best is replayed on them. By
        default half of 12 or more windows where a search has many trials, else 0.
    shakes
        Copies of the log with submissions moved at random by up to `amount` seconds.
    amount
        With `shakes`: seconds by which a submission is moved at most.
    until
        `settled`: begin with these and double them until the best is shown to differ from the baseline.
        All looks at the results share the error of 5 %.
    most
        With `until`: the number of replicates to end with; by default eight times those to begin with.
    """

    alternatives = ("seeds", "windows", "shakes")

    seeds: Annotated[int, Field(gt=0, le=MOST_REPLICATES)] | None = None
    windows: Annotated[int, Field(gt=0, le=MOST_POINTS)] | None = None
    held_back: Annotated[int, Field(ge=0)] | None = None
    shakes: Annotated[int, Field(gt=0, le=MOST_POINTS)] | None = None
    amount: Annotated[int, Field(gt=0, le=LARGEST_TIME)] | None = None
    until: Literal["settled"] | None = None
    most: Annotated[int, Field(gt=0, le=MOST_POINTS)] | None = None

    @model_validator(mode="after")
    def _together(self) -> Replicates:
        if (self.shakes is None) != (self.amount is None):
            raise ValueError("shakes and amount (seconds) go together")
        if self.held_back is not None and self.held_back >= (self.windows or 0):
            raise ValueError("held_back goes with more windows than are held back")
        if self.until and self.windows:
            raise ValueError("until: settled needs seeds or shakes: a log has no further windows")
        if self.most is not None and (self.until is None or self.most < self.count):
            raise ValueError("most goes with `until: settled`, and is at least the number to begin with")
        return self

    @property
    def end(self) -> int:
        """Number of replicates to end with at most."""
        return self.most or self.count * (8 if self.until else 1)

    def fresh(self, least: int) -> Replicates:
        """Return those that come after these: the windows held back, else as many as these, or more."""
        if self.windows is not None:
            return self.model_copy(update={"held_back": self.count})
        return self.model_copy(update={self.kind: max(self.count, least)})

    def more(self) -> Replicates:
        """Return twice as many, or as many as there may be."""
        return self.model_copy(update={self.kind: min(2 * self.count, self.end), "most": self.end})

    @property
    def count(self) -> int:
        """Number of replicates of every configuration."""
        return self.seeds or self.shakes or (self.windows or 1) - (self.held_back or 0)

    def replicate(self, number: int, window: str = "window") -> Replicate:
        """Return a repetition; its seed is its number, which counts from 0.

        Parameters
        ----------
        number
            The repetition.
        window
            The system's parameter for a window of the log (`SystemParameters.window_parameter`).
        """
        if self.windows is not None:
            part = f"{number + 1}/{self.windows}"
            return Replicate(f"window {part}", number, {window: part})
        if self.shakes is not None:
            return Replicate(f"shake {number}", number, {"shake": self.amount})
        return Replicate(f"seed {number}", number)


class Objective(SpacePart):
    """A metric to rank by.

    Attributes
    ----------
    metric
        Its name, such as `bounded_slowdown_mean`; a name alone can stand for all of this.
    direction
        Whether less (`min`) or more (`max`) is better; by default the metric's own direction.
    """

    metric: str
    direction: Literal["min", "max"] | None = None


class Resources(SpacePart):
    """Resources that the sweep may use.

    Attributes
    ----------
    workers
        Cells at once; by default as many as there are processors.
    cpus
        Processors for each cell; by default what the system says that its cells need.
    gpus
        GPUs for each cell, or a share of one; by default what the system says.
    memory
        GiB that a cell may take, beside what its worker has when it starts: one that needs more fails, and no
        other with it. A node runs no more workers than it has memory for. By default there is no limit.
    executor
        Where cells run: `inline` in this process, `ray` in workers, `auto` in this process while all of them
        are a few seconds of work.
    """

    executor: Literal["auto", "inline", "ray"] = "auto"
    workers: Annotated[int, Field(gt=0)] | None = None
    cpus: Annotated[float, Field(gt=0)] | None = None
    gpus: Annotated[float, Field(ge=0)] | None = None
    memory: Annotated[float, Field(gt=0)] | None = None


class SearchSpace(SpacePart):
    """A search space: everything one sweep is determined by.

    Attributes
    ----------
    name
        What the results' folder, the tables and the MLflow experiment are called.
    description
        What it asks, in a sentence.
    system
        The registered system whose parameters are searched.
    fixed
        Parameters that every cell has.
    workloads
        Parameter sets (trace, processors, …) that everything is crossed with; tables are split by them.
        A key `label` names one.
    dimensions
        Parameter to the values it can take.
    replicates
        Repetitions of every configuration.
    objective
        Metrics to rank by, the first first.
    baseline
        Parameters of the configuration that the others are compared with.
    subject_to
        Metric to a bound that configurations must keep: `<= 86400` or `<= 1.2 x baseline`.
    classes
        Classes of jobs, name to condition: metrics by class are named `wait_mean[wide]`.
    strategy
        Which configurations are run.
    resources
        Workers and processors.
    timeout
        Seconds after which a cell is ended and counts as timed out; None for never.
    plugins
        Python files that register policies or systems; relative to the space's file.
    """

    name: str
    description: str = ""
    system: str = Field(default_factory=lambda: default_system().name)
    fixed: dict[str, Any] = Field(default_factory=dict)
    workloads: tuple[dict[str, Any], ...] = ()
    dimensions: dict[str, Dimension] = Field(default_factory=dict)
    replicates: Replicates = Replicates(seeds=1)
    objective: Annotated[tuple[Objective, ...], Field(min_length=1)]
    baseline: dict[str, Any] = Field(default_factory=dict)
    subject_to: dict[str, str] = Field(default_factory=dict)
    classes: dict[str, str] = Field(default_factory=dict)
    strategy: Strategy = Strategy(grid={})
    resources: Resources = Resources()
    timeout: Annotated[float, Field(gt=0)] | None = None
    plugins: tuple[Path, ...] = ()

    _source: LinedYaml = PrivateAttr(default_factory=lambda: LinedYaml({}))

    @model_validator(mode="before")
    @classmethod
    def _train(cls, content: Any) -> Any:
        """Add what the strategy `train` says of parameters and resources.

        The iterations become a dimension, or a fixed parameter where there is one number; GPUs are asked for.
        """
        strategy = content.get("strategy") if isinstance(content, Mapping) else None
        train = strategy.get("train") if isinstance(strategy, Mapping) else None
        listed = train.get(ITERATIONS) if isinstance(train, Mapping) else None
        listed = [listed] if isinstance(listed, int) else listed
        if train is None or not isinstance(listed, list | tuple):
            return content
        keys = ("fixed", "dimensions", "baseline", "resources")
        parts: dict[str, dict[str, Any]] = {key: dict(content.get(key) or {}) for key in keys}
        for key in ("fixed", "dimensions"):
            if ITERATIONS in parts[key]:
                raise ValueError(f"the strategy train sets {ITERATIONS}, so it cannot be under `{key}` too")
        if len(listed) == 1:
            parts["fixed"][ITERATIONS] = listed[0]
        else:
            parts["dimensions"][ITERATIONS] = list(listed)
            if parts["baseline"]:
                parts["baseline"].setdefault(ITERATIONS, listed[-1])
        if train.get("num_gpus"):
            parts["resources"].setdefault("gpus", train["num_gpus"])
            parts["fixed"].setdefault("device", "cuda")
        return {**content, **parts}

    @model_validator(mode="before")
    @classmethod
    def _give_classes(cls, content: Any) -> Any:
        """Add classes of jobs, and what is measured of them, to the fixed parameters: they decide results."""
        if not isinstance(content, Mapping) or not isinstance(content.get("fixed") or {}, Mapping):
            return content
        fixed, classes = dict(content.get("fixed") or {}), content.get("classes")
        if classes and fixed.setdefault("classes", classes) != classes:
            raise ValueError("`classes` sets this parameter, so it cannot be under `fixed` too")
        stated = content.get("objective")
        objectives = stated if isinstance(stated, list | tuple) else [stated]
        names = [one.get("metric") if isinstance(one, Mapping) else one for one in objectives]
        bounded = content.get("subject_to")
        names += bounded if isinstance(bounded, Mapping) else []
        by_class = [metric for metric, of in map(split_name, map(str, names)) if of is not None]
        if by_class:
            fixed["by_class"] = sorted({*fixed.get("by_class", ()), *by_class})
        return {**content, "fixed": fixed} if fixed else content

    @model_validator(mode="after")
    def _hold_back(self) -> SearchSpace:
        """Hold back the later half of enough windows from a search, to confirm its best."""
        windows = self.replicates.windows or 0
        searches = Strategy.searches(self.strategy.model_dump(exclude_none=True))
        if searches and self.replicates.held_back is None and windows >= _ENOUGH_WINDOWS:
            held_back = self.replicates.model_copy(update={"held_back": windows // 2})
            object.__setattr__(self, "replicates", held_back)
        return self

    @field_validator("objective", mode="before")
    @classmethod
    def _list_of_objectives(cls, value: Any) -> Any:
        objectives = value if isinstance(value, list | tuple) else [value]
        return [{"metric": one} if isinstance(one, str) else one for one in objectives]

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", value):
            raise ValueError(
                "a name has only letters, digits, '.', '_' and '-', and begins with a letter or digit "
                f"(a folder is called by it), but got {value!r}"
            )
        return value

    @property
    def metrics(self) -> dict[str, YamlPath]:
        """The metrics that it names, as objectives and in constraints, each with its place."""
        named: dict[str, YamlPath] = {name: ("subject_to", name) for name in self.subject_to}
        return named | {one.metric: ("objective", index) for index, one in enumerate(self.objective)}

    @property
    def source(self) -> LinedYaml:
        """The document it was read from, for errors that name a line."""
        return self._source

    @property
    def base(self) -> Path | None:
        """The folder that relative paths are relative to."""
        return None if self._source.path is None else self._source.path.resolve().parent

    def value_place(self, name: str, index: int) -> YamlPath:
        """Return where the file has a dimension's value: a plain list names no kind."""
        content = self._source.content
        written = content.get("dimensions", {}).get(name) if isinstance(content, Mapping) else None
        kind = () if isinstance(written, list | tuple) else (self.dimensions[name].kind,)
        return ("dimensions", name, *kind, index)

    def fault(
        self, message: str, *place: str | int, hint: str | None = None, unknown: tuple[Any, ...] = ()
    ) -> SpaceError:
        """Return the error that something at a place of the file is wrong.

        Parameters
        ----------
        message, place
            What is wrong, and where.
        hint
            What to do about it.
        unknown
            The arguments of `name_hint`, which gives the hint then.
        """
        return SpaceError(
            message,
            path=self._source.path,
            line=self._source.line(place),
            field=".".join(map(str, place)) or None,
            hint=name_hint(*unknown) if unknown else hint,
        )


def parse_space(content: str | Mapping[str, Any], *, path: Path | None = None) -> SearchSpace:
    """Return the search space in a YAML text or a mapping, its form checked.

    Raises
    ------
    SpaceError
        With file, line and key; an unknown key comes with the one that was probably meant.
    """
    source = read_yaml(content, path) if isinstance(content, str) else LinedYaml(dict(content), {}, path)
    if not isinstance(source.content, Mapping):
        raise SpaceError(
            f"a search space is a mapping of keys, but got {type(source.content).__name__}",
            path=path,
            hint=_of_a_log(path) if isinstance(source.content, str) else None,
        )
    try:
        space = SearchSpace.model_validate(source.content)
    except ValidationError as fault:
        raise space_error(fault, SearchSpace, source) from None
    space._source = source
    return space


def read_space(path: str | Path) -> SearchSpace:
    """Return the search space in a file, its form checked."""
    path = find_space(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        there = sorted(file.name for file in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        hint = name_hint(path.name, there) if there else None
        raise SpaceError("no such file", path=path, hint=hint) from None
    except IsADirectoryError:
        hint = "give one of its .yaml files; gridtune report FOLDER shows results that are there"
        raise SpaceError("is a folder, not a search space", path=path, hint=hint) from None
    except UnicodeDecodeError:
        raise SpaceError("is not a text file", path=path, hint=_of_a_log(path)) from None
    except OSError as fault:
        raise SpaceError(f"cannot be read: {(fault.strerror or str(fault)).lower()}", path=path) from None
    return parse_space(text, path=path)


def _of_a_log(path: Path | None) -> str:
    """Return what to do with a file that may be a log."""
    name = "FILE" if path is None else path.name
    return f"of a log, gridtune init {name} makes a search space; docs/search_spaces.md explains its keys"


#: The folder that search spaces lie in, here and in what is installed.
SPACES = "search_spaces"


def find_space(path: str | Path) -> Path:
    """Return the file of a search space.

    Parameters
    ----------
    path
        A file. Where there is none: `search_spaces/NAME.yaml`, one that comes with gridtune; or
        `SYSTEM/NAME`, one that comes with a system.
    """
    file = Path(path)
    if file.exists() or len(file.parts) != 2:
        return file
    if file.parts[0] == SPACES:
        shipped = shipped_folder(SPACES) / file.name
        return shipped if shipped.is_file() else file
    if file.parts[0] not in SYSTEMS:
        return file
    spaces = {space.stem: space for space in SYSTEMS.find(file.parts[0]).bundled_spaces}
    return spaces.get(file.stem, file)
