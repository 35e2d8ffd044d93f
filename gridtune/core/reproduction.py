"""Experiments of a publication that a system can run again, and its claims.

A `Reproduction` is data. `gridtune reproduce` runs its experiments, reads our numbers from their results,
holds them against the published ones and says of each claim whether it was reproduced.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal

__all__ = [
    "Claim",
    "Criterion",
    "Deviation",
    "Experiment",
    "GeneratedLog",
    "Log",
    "PaperFigure",
    "PaperTable",
    "PublishedFigure",
    "Reading",
    "Recorded",
    "Relation",
    "Reproduction",
    "TableRow",
]

#: What a number is: one configuration's, or its comparison with another on the same replicates.
Relation = Literal["value", "difference", "ratio", "change"]


@dataclass(frozen=True)
class PublishedFigure:
    """A number that a publication reports, to be held against ours.

    Attributes
    ----------
    source
        Where it is printed: the publication, with table, figure or equation.
    quantity
        What was measured, in words.
    value
        The number, in `unit`.
    unit
        "s", "1" (a ratio), "%".
    """

    source: str
    quantity: str
    value: float
    unit: str


@dataclass(frozen=True)
class GeneratedLog:
    """A log that a registered generator makes, as `generate_workload` does.

    Attributes
    ----------
    generator
        Its name.
    jobs, seed
        How many jobs, and the seed.
    parameters
        The model's own.
    """

    generator: str
    jobs: int
    seed: int
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Log:
    """A log of an experiment, and what stands in for it where it is not on the machine.

    Attributes
    ----------
    real
        The log's name or file name: what `--full` needs.
    stand_in
        What `--quick` reads where there is no such log: a trace that comes with gridtune, or one to generate;
        None where `--quick` does without.
    """

    real: str
    stand_in: str | GeneratedLog | None = None


@dataclass(frozen=True)
class Experiment:
    """A search space that a reproduction runs.

    Attributes
    ----------
    space
        The space, as `gridtune sweep` takes it.
    settings
        What of it the reproduction needs, as `gridtune sweep --set` takes it: name to values.
    quick
        What `--quick` narrows it to, likewise; None where `--quick` leaves the experiment out.
    logs
        Traces that the space names, to the logs that are read.
    """

    space: str
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    quick: Mapping[str, Sequence[Any]] | None = field(default_factory=dict)
    logs: Mapping[str, Log] = field(default_factory=dict)


@dataclass(frozen=True)
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
        What is different for the configuration it is compared with.
    relation
        "value": the metric's mean. "difference", "ratio", "change" (%): of the mean to that of `against`, on
        the same replicates.
    reference
        The metric that it is compared with, if that is another.
    factor
        What the number is multiplied by, to have the published unit.
    part
        Where the metric and the reference are notes that list a number for each batch or the like: the mean
        of those from the first place to before the second (None: to the end) is read.
    """

    experiment: str
    metric: str
    where: Mapping[str, Any]
    against: Mapping[str, Any] = field(default_factory=dict)
    relation: Relation = "value"
    reference: str = ""
    factor: float = 1.0
    part: tuple[int, int | None] | None = None


@dataclass(frozen=True)
class Recorded:
    """One of our numbers from an earlier run, too long or of another kind to be run again with the rest.

    Attributes
    ----------
    value, low, high
        The number, with its 95 % interval where it has one.
    command
        What made it.
    """

    value: float
    command: str
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Criterion:
    """Criterion of a claim: one of our numbers is near the published one, or within limits.

    Attributes
    ----------
    text
        What the number is.
    ours
        Where it comes from.
    published
        The published number: the name of one of the system's figures, or the number where the text states it.
    within
        How far ours may be from the published one, as a part of it.
    at_least, at_most
        Limits instead. Ours holds if its whole 95 % interval does.
    unit
        The number's unit; "1" for a ratio.
    """

    text: str
    ours: Reading | Recorded
    published: str | float | None = None
    within: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "1"

    def __post_init__(self) -> None:
        limits = self.at_least is not None or self.at_most is not None
        if limits == (self.within is not None):
            raise ValueError(f"{self.text!r} needs either `within` or limits")
        if self.within is not None and self.published is None:
            raise ValueError(f"{self.text!r} needs a published number to be near to")


@dataclass(frozen=True)
class Claim:
    """Something that a publication says, and how to see whether it holds here.

    Attributes
    ----------
    text
        The claim.
    source
        Where it stands in the publication.
    criteria
        What must hold. All of them: reproduced; some: partly; none, and some surely not: not reproduced.
    remark
        What a reader must know besides; no numbers, for those are measured.
    """

    text: str
    source: str
    criteria: Sequence[Criterion]
    remark: str = ""


@dataclass(frozen=True)
class TableRow:
    """A row of a published table, or one of ours beside it (without published numbers).

    Attributes
    ----------
    label
        Its head.
    cells
        By column the published number and ours, either of them None where there is none. The published one is
        the name of one of the system's published figures, or a number made of several.
    """

    label: str
    cells: Sequence[tuple[str | float | None, Reading | Recorded | None]]

    @classmethod
    def of(
        cls,
        label: str,
        ours: Iterable[Reading | Recorded | None],
        published: Iterable[str | float | None] = (),
    ) -> TableRow:
        """Return the row with these numbers by column; the side that ends first has none in the others."""
        return cls(label, list(zip_longest(published, ours)))


@dataclass(frozen=True)
class PaperTable:
    """A published table, with ours in the same rows and columns.

    Attributes
    ----------
    title
        What it shows.
    source
        Which table it is.
    columns
        Heads of the columns, with units.
    rows
        As many cells each as there are columns.
    """

    title: str
    source: str
    columns: Sequence[str]
    rows: Sequence[TableRow]


@dataclass(frozen=True)
class PaperFigure:
    """A published figure and ours.

    Attributes
    ----------
    title
        What it shows.
    source
        Which figure it is.
    experiment
        The experiment whose report has ours.
    file
        Its name in the report's `plots/`.
    published
        What the published one shows, in words.
    """

    title: str
    source: str
    experiment: str
    file: str
    published: str


@dataclass(frozen=True)
class Deviation:
    """A difference between a publication and what is done here.

    Attributes
    ----------
    element
        What the publication does, in a few words; unique in its reproduction.
    source
        Where it stands in the publication.
    here
        What is done here instead.
    reason
        Why.
    code
        What of the code says so, with its value, so that a test can tell when the deviation is out of date: a
        parameter of the system with its default, `module:name` with its value (True for a function or class
        that must be there), or `search_spaces/FILE.yaml:key.key` with what stands there (None: nothing).
    """

    element: str
    source: str
    here: str
    reason: str
    code: Mapping[str, Any]


@dataclass(frozen=True)
class Reproduction:
    """The experiments of a publication (or of several on the same) with their claims, tables and figures.

    Attributes
    ----------
    title
        What it is about.
    publications
        The publications, as one cites them.
    data
        On what the publications measured, and on what we do.
    experiments
        What is run, by a short name.
    claims, tables, figures
        What is compared.
    documents
        Further tables: experiment and name of a Markdown file that the system's own report of it writes.
    deviations
        All that is done in another way than in the publications.
    """

    title: str
    publications: Sequence[str]
    data: str
    experiments: Mapping[str, Experiment]
    claims: Sequence[Claim]
    tables: Sequence[PaperTable] = ()
    figures: Sequence[PaperFigure] = ()
    documents: Sequence[tuple[str, str]] = ()
    deviations: Sequence[Deviation] = ()
