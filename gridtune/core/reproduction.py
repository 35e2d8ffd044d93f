"""Publications as data: published numbers, experiments, claims, tables, figures and deviations.

Each publication is a YAML file of a system, which `read_reproduction` checks. `gridtune reproduce` runs its
experiments, compares our numbers with the published ones and reaches a verdict on each claim.

A list item with `for: {name: [values]}` stands for one item per value, or per combination of values. In its
texts `{name}` is replaced by the value; a text that is nothing else becomes the value itself, of any type.
With `each`, the items are those below it. `values` at the top gives names to the whole file.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from itertools import product, zip_longest
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from gridtune.errors import SweepError

_STRICT = ConfigDict(extra="forbid")
#: Makes one published number of several.
_STATISTICS: dict[str, Callable[..., float]] = {
    "mean": statistics.mean,
    "median": statistics.median,
    "min": min,
}


def _merged(parts: Any) -> Any:
    """Return mappings that are listed as one; later ones win."""
    if not isinstance(parts, list):
        return parts
    return {name: value for part in parts for name, value in part.items()}


#: Parameters and their values; a file may list several mappings, which are merged.
_Selection = Annotated[Mapping[str, Any], BeforeValidator(_merged)]


@dataclass(frozen=True, config=_STRICT)
class PublishedFigure:
    """A number that a publication reports.

    Attributes
    ----------
    source
        Where it is printed: the publication, with table, figure or equation.
    quantity
        The measured quantity, in words.
    value
        The number, in `unit`.
    unit
        "s", "1" (a ratio), "%".
    """

    source: str
    quantity: str
    value: float
    unit: str

    @classmethod
    def of_table(
        cls,
        source: str,
        columns: Mapping[str, Sequence[str]],
        rows: Mapping[str, Sequence[float | None]],
        separator: str = " ",
    ) -> dict[str, PublishedFigure]:
        """Return the numbers of a published table by name.

        Parameters
        ----------
        source
            The table.
        columns
            Name to quantity and unit.
        rows
            Name to the numbers by column, None for what is not printed.
        separator
            Stands between a row's and a column's name in the name of their number.
        """
        return {
            f"{row}{separator}{column}": cls(source, f"{quantity}: {row}", value, unit)
            for row, values in rows.items()
            for (column, (quantity, unit)), value in zip(columns.items(), values, strict=True)
            if value is not None
        }


@dataclass(frozen=True, config=_STRICT)
class Log:
    """A log of an experiment.

    Attributes
    ----------
    real
        The log's name or file name: `--full` needs it.
    stand_in
        The log that `--quick` reads if the real one is missing: a trace that comes with gridtune, or the
        arguments of `generate_workload`; None if nothing stands in.
    """

    real: str
    stand_in: str | Mapping[str, Any] | None = None


@dataclass(frozen=True, config=_STRICT)
class Experiment:
    """A search space that a reproduction runs.

    Attributes
    ----------
    space
        The space, as `gridtune sweep` takes it.
    settings
        The part of it that the reproduction needs, as `gridtune sweep --set` takes it: name to values.
    quick
        The part that `--quick` runs, likewise; None if `--quick` leaves the experiment out.
    logs
        Traces that the space names, to the logs that are read.
    """

    space: str
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    quick: Mapping[str, Sequence[Any]] | None = field(default_factory=dict)
    logs: Mapping[str, Log] = field(default_factory=dict)


@dataclass(frozen=True, config=_STRICT)
class Reading:
    """Reading of one of our numbers from an experiment's results: a mean over replicates.

    Attributes
    ----------
    experiment
        The experiment, by its name in the reproduction.
    metric
        The metric.
    where
        Parameters of the one configuration; None for a parameter that is not set. `workload` is the label of
        the workload: without it, the replicates of all workloads count.
    against
        Parameters that differ in the configuration it is compared with.
    relation
        "value": the metric's mean. "difference", "ratio", "change" (%): of the mean to that of `against`, on
        the same replicates.
    reference
        The metric that it is compared with, if that is another.
    factor
        Factor from the metric's unit to the published one.
    part
        Where the metric and the reference are notes that list a number for each batch or the like: the mean
        of those from the first place to before the second (None: to the end) is read.
    """

    experiment: str
    metric: str
    where: _Selection
    against: _Selection = field(default_factory=dict)
    relation: Literal["value", "difference", "ratio", "change"] = "value"
    reference: str = ""
    factor: float = 1.0
    part: tuple[int, int | None] | None = None


@dataclass(frozen=True, config=_STRICT)
class Recorded:
    """One of our numbers from an earlier run, too long or of another kind to be run again with the rest.

    Attributes
    ----------
    value, low, high
        The number, with its 95 % interval where it has one.
    command
        The command that made it.
    """

    value: float
    command: str
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True, config=_STRICT)
class Criterion:
    """Criterion of a claim: one of our numbers is near the published one, or within limits.

    Attributes
    ----------
    text
        Name of the number, in words.
    ours
        Where it comes from.
    published
        The published number.
    within
        Largest distance of ours from the published one, as a part of it.
    at_least, at_most
        Limits instead. Ours holds if its whole 95 % interval does.
    unit
        The number's unit; "1" for a ratio.
    fitted
        True if the data was calibrated to the published number: that ours is near it is no evidence.
    """

    text: str
    ours: Reading | Recorded
    published: float | None = None
    within: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "1"
    fitted: bool = False

    def __post_init__(self) -> None:
        limits = self.at_least is not None or self.at_most is not None
        if limits == (self.within is not None):
            raise ValueError(f"{self.text!r} needs either `within` or limits")
        if self.within is not None and self.published is None:
            raise ValueError(f"{self.text!r} needs a published number to be near to")


@dataclass(frozen=True, config=_STRICT)
class Claim:
    """A statement of a publication, with the criteria by which it holds here.

    Attributes
    ----------
    text
        The claim.
    source
        Where it stands in the publication.
    criteria
        All hold: reproduced; some: partly; none, and some surely fail: not reproduced.
    remark
        Explanation for a reader; no numbers, for those are measured.
    check
        True for a check of ours, which does not count among the publication's claims.
    """

    text: str
    source: str
    criteria: Sequence[Criterion]
    remark: str = ""
    check: bool = False


@dataclass(frozen=True, config=_STRICT)
class PaperTable:
    """A published table, with ours in the same rows and columns.

    In a file a column is its head, or a mapping of `head` and of fields of a `Reading`; a row has a `label`,
    the other fields (`ours`: one mapping, or a list by column) and the `published` numbers by column.

    Attributes
    ----------
    title
        Its subject.
    source
        The table of the publication.
    columns
        Heads of the columns, with units.
    rows
        Head and cells of each row. A cell is the published number and ours, None where there is none.
    """

    title: str
    source: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[float | None, Reading | Recorded | None]]]]


@dataclass(frozen=True, config=_STRICT)
class Series:
    """Configurations of an experiment that one line, set of points or set of bars of a figure stands for.

    Attributes
    ----------
    label
        Its name in the legend.
    where
        Parameters that they share, as in a `Reading`.
    """

    label: str
    where: _Selection = field(default_factory=dict)


@dataclass(frozen=True, config=_STRICT)
class Panel:
    """A coordinate system of a figure, with the same series as the others.

    Attributes
    ----------
    y, y_label
        A metric (its mean over replicates with its 95 % interval), a note that lists numbers (its means over
        replicates by place), or a column of `table`; and the axis's label.
    x, x_label
        A parameter or metric beside a metric; a column beside a column; "" for the place in a note or table.
    over
        The metric or note by which `y` is divided.
    kind
        "lines", "points", "bars", "shares" (the share of the rows whose `y` is no larger), or "bins" (median
        and quartiles of `y` in classes of `x` that begin at `bins`).
    where
        Parameters that the configurations have in this panel, beside those of the series.
    table, joined
        The table of a cell's run that holds the columns: of all replicates one after the other, or, if not
        `joined`, of the first.
    rows
        Columns and the value that the rows of the table to be drawn have.
    largest
        A column and a number: only the rows with so many largest values, at most a fifth of all, are drawn.
    x_factor, y_factor
        Factors from the units of the values to those of the labels.
    sum_up, mean_of
        True to draw the cumulative sum of `y`; the number of places to average over.
    logarithmic
        The axes with a logarithmic scale: "x", "y", "xy" or "".
    title
        The panel's title.
    """

    y: str
    x: str = ""
    x_label: str = ""
    y_label: str = ""
    over: str = ""
    kind: Literal["lines", "points", "bars", "shares", "bins"] = "lines"
    where: _Selection = field(default_factory=dict)
    table: str = ""
    joined: bool = False
    rows: Mapping[str, Any] = field(default_factory=dict)
    largest: tuple[str, int] | None = None
    bins: Sequence[float] = ()
    x_factor: float = 1.0
    y_factor: float = 1.0
    sum_up: bool = False
    mean_of: int = 1
    logarithmic: Literal["", "x", "y", "xy"] = ""
    title: str = ""


@dataclass(frozen=True, config=_STRICT)
class PaperFigure:
    """A published figure and ours.

    Attributes
    ----------
    title
        Its subject.
    source
        The figure of the publication.
    experiment
        The experiment that ours is drawn from: also if its search space is swept by itself.
    file
        Its name in the report's `plots/`.
    published
        Description of the published one.
    series, panels
        Our figure.
    """

    title: str
    source: str
    experiment: str
    file: str
    published: str
    series: Sequence[Series] = ()
    panels: Sequence[Panel] = ()


@dataclass(frozen=True, config=_STRICT)
class Deviation:
    """A difference between a publication and this reproduction.

    Attributes
    ----------
    element
        The published method, in a few words; unique in its reproduction.
    source
        Where it stands in the publication.
    here
        The method here.
    reason
        Why.
    code
        Code that the deviation rests on, with its value, so that a test can tell when it is out of date: a
        parameter of the system with its default, `module:name` with its value (True for a function or class
        that must be there), or `search_spaces/FILE.yaml:key.key` with its value there (None: nothing).
    """

    element: str
    source: str
    here: str
    reason: str
    code: Mapping[str, Any]


@dataclass(frozen=True, config=_STRICT)
class Reproduction:
    """The experiments of a publication (or of several on the same) with their claims, tables and figures.

    Attributes
    ----------
    title
        Its subject.
    publications
        The publications, as one cites them.
    data
        The data of the publications, and ours.
    experiments
        The experiments, by a short name.
    claims, tables, figures
        Comparisons with the publications.
    deviations
        All differences from the publications.
    published
        The published numbers, by a short name.
    name
        Its name for `gridtune reproduce`.
    """

    title: str
    publications: Sequence[str]
    data: str
    experiments: Mapping[str, Experiment]
    claims: Sequence[Claim]
    tables: Sequence[PaperTable] = ()
    figures: Sequence[PaperFigure] = ()
    deviations: Sequence[Deviation] = ()
    published: Mapping[str, PublishedFigure] = field(default_factory=dict)
    name: str = ""


@cache
def read_reproduction(path: Path) -> Reproduction:
    """Return the reproduction that a YAML file declares.

    Raises
    ------
    SweepError
        If the file cannot be read or has a fault; the error names the field.
    """
    try:
        written = yaml.safe_load(path.read_text(encoding="utf-8"))
        names: dict[str, Any] = {}
        with _within(""):
            for name, value in written.pop("values", {}).items():
                names[name] = _expanded(value, names, f"values.{name}")
            written = _expanded(written, names)
        return TypeAdapter(Reproduction).validate_python(_resolved(written))
    except ValidationError as fault:
        first = fault.errors()[0]
        raise SweepError(first["msg"], path=path, field=".".join(map(str, first["loc"]))) from None
    except SweepError as fault:
        raise SweepError(fault.message, path=path, field=fault.field) from None
    except (yaml.YAMLError, OSError) as fault:
        raise SweepError(f"cannot be read: {fault}", path=path) from None


@contextmanager
def _within(place: str) -> Iterator[None]:
    """Name the field in which something is missing or has another form."""
    try:
        yield
    except KeyError as fault:
        raise SweepError(f"there is no {fault.args[0]!r}", field=place) from None
    except (AttributeError, TypeError, ValueError) as fault:
        raise SweepError(str(fault), field=place) from None


def _expanded(node: Any, names: Mapping[str, Any], place: str = "") -> Any:
    """Return a part of a file with its repetitions written out and its texts filled in."""
    if isinstance(node, str):
        with _within(place):
            pieces = list(Formatter().parse(node))
            if len(pieces) == 1 and pieces[0][1] and pieces[0][0] == pieces[0][2] == "":
                return Formatter().get_field(pieces[0][1], (), names)[0]
            return Formatter().vformat(node, (), names)
    if isinstance(node, list):
        return [
            item for number, part in enumerate(node) for item in _repeated(part, names, f"{place}.{number}")
        ]
    if isinstance(node, dict):
        return {
            _expanded(name, names, place): _expanded(part, names, f"{place}.{name}".strip("."))
            for name, part in node.items()
        }
    return node


def _repeated(part: Any, names: Mapping[str, Any], place: str) -> Iterator[Any]:
    if not isinstance(part, dict) or "for" not in part:
        yield _expanded(part, names, place)
        return
    loops = _expanded(part["for"], names, place)
    item = part.get("each", {name: value for name, value in part.items() if name != "for"})
    items = item if isinstance(item, list) else [item]
    for values in product(*loops.values()):
        yield from _expanded(items, {**names, **dict(zip(loops, values, strict=True))}, place)


def _resolved(content: Any) -> dict[str, Any]:
    """Return the fields of a `Reproduction`: names of numbers are replaced, tables have readings in cells."""
    with _within(""):
        published: dict[str, PublishedFigure] = {}
        for place, table in enumerate(content.get("published", ())):
            with _within(f"published.{place}"):
                published |= PublishedFigure.of_table(**table)
        for place, claim in enumerate(content["claims"]):
            for number, criterion in enumerate(claim["criteria"]):
                with _within(f"claims.{place}.criteria.{number}.published"):
                    printed = criterion.get("published")
                    if isinstance(printed, str):
                        criterion["unit"] = published[printed].unit
                    criterion["published"] = _number(printed, published)
        tables = []
        for place, table in enumerate(content.get("tables", ())):
            with _within(f"tables.{place}"):
                tables.append(_table(table, published))
        return {**content, "published": published, "tables": tables}


def _number(printed: Any, published: Mapping[str, PublishedFigure]) -> float | None:
    """Return a published number: as it is, by its name, or made of several that are named."""
    if isinstance(printed, str):
        return published[printed].value
    if not isinstance(printed, dict):
        return printed
    statistic = _STATISTICS[printed.get("statistic", "mean")]
    first, *other = (
        statistic([published[name].value for name in ([side] if isinstance(side, str) else side)])
        for side in (printed["of"], printed.get("to"))
        if side is not None
    )
    if not other:
        return float(first)
    ratio = first / other[0]
    return float((ratio - 1) * 100 if printed["relation"] == "change" else ratio)


def _table(table: Mapping[str, Any], published: Mapping[str, PublishedFigure]) -> dict[str, Any]:
    columns = [{"head": column} if isinstance(column, str) else column for column in table["columns"]]
    rows = []
    for row in table["rows"]:
        ours = row.get("ours")
        parts = ours if isinstance(ours, list) else [ours] * len(columns)
        numbers = [_number(printed, published) for printed in row.get("published", ())]
        readings = [_reading(column, part) for column, part in zip(columns, parts, strict=True)]
        rows.append((row["label"], list(zip_longest(numbers, readings))))
    return {**table, "columns": [column["head"] for column in columns], "rows": rows}


def _reading(column: Mapping[str, Any], row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the fields of a cell's reading: those of its column and of its row, which has precedence."""
    if row is None:
        return None
    both = {name: value for name, value in {**column, **row}.items() if name != "head"}
    for name in {"where", "against"} & both.keys():
        both[name] = {**_merged(column.get(name, {})), **_merged(row.get(name, {}))}
    return both
