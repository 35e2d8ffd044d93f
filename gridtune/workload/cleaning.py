"""Cleaning: named rules that edit a log. A rule applies only on request, and a report counts what it did.

A rule is a function of columns. `clean` applies rules to a workload; reading with `clean=[...]` applies them
before the file's content is checked, so that a lenient rule can fix lines that would be an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.arguments import require
from gridtune.errors import WorkloadError
from gridtune.registry import Registry
from gridtune.types import BoolArray, IntArray
from gridtune.workload.contents import FACTS_KEY
from gridtune.workload.fields import FIELDS, FLOAT_FIELDS, NAMED_FIELDS, UNKNOWN
from gridtune.workload.workload import Workload

#: What a simulation needs, and no more: order, a run time and a walltime for every job.
DEFAULT_RULES = ("sort_submits", "drop_never_started", "missing_walltime")

#: Rules for what reading refuses: they help only when given to `read_workload(path, clean=[...])`.
LENIENT_RULES = (
    "round_fractions",
    "unknown_negative_times",
    "drop_negative_submit",
    "drop_zero_processors",
    "drop_wider",
    "clamp_wider",
)


class Jobs(NamedTuple):
    """The jobs that a rule takes and returns.

    Attributes
    ----------
    columns
        Field to column, all of one length; a column the log lacks is not there. Other keys than SWF's
        fields are book-keeping that travels along.
    processors
        The machine's size, or None.
    """

    columns: Mapping[str, npt.NDArray[Any]]
    processors: int | None

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a field's column, unknown throughout where the log lacks it."""
        if name in self.columns:
            return self.columns[name]
        return np.full(len(self.columns["submit_time"]), UNKNOWN, dtype=np.int64)

    @property
    def width(self) -> npt.NDArray[Any]:
        """Processors of each job: asked for or, where that is not known, got."""
        requested = self.column("requested_processors")
        return np.where(requested > 0, requested, self.column("allocated_processors"))

    def machine(self, rule: str) -> int:
        """Return the machine's size for a rule that needs it."""
        if self.processors is None:
            raise WorkloadError(
                f"the rule {rule!r} needs the machine's size, which this log does not give",
                hint="pass processors=",
            )
        return self.processors

    def take(self, index: npt.NDArray[Any]) -> Jobs:
        """Return the jobs an index array or mask selects."""
        return self._replace(columns={name: column[index] for name, column in self.columns.items()})

    def put(self, name: str, where: BoolArray, values: npt.ArrayLike) -> tuple[Jobs, int]:
        """Return the jobs with one field's values replaced where the mask holds, and how many there are."""
        if not (touched := int(where.sum())):
            return self, 0
        column = np.where(where, values, self.column(name))
        return self._replace(columns={**self.columns, name: column}), touched

    def outlived(self) -> BoolArray:
        """Return which jobs ran longer than a known walltime."""
        requested = self.column("requested_time")
        return np.asarray((requested >= 0) & (self.columns["run_time"] > requested))


#: Takes jobs, returns the edited jobs and how many it touched.
RuleFunction = Callable[[Jobs], tuple[Jobs, int]]


@dataclass(frozen=True)
class _CleaningRule:
    """A named rule.

    Attributes
    ----------
    name
        Its name for users.
    apply
        The function of jobs.
    summary
        The first line of the function's docstring.
    """

    name: str
    apply: RuleFunction
    summary: str


@dataclass(frozen=True)
class CleaningReport:
    """The effect of cleaning.

    Attributes
    ----------
    counts
        Rule to the number of jobs it touched, in the order applied; a rule that found nothing counts 0.
    jobs_before, jobs_after
        The number of jobs.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    jobs_before: int = 0
    jobs_after: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return {"jobs_before": self.jobs_before, "jobs_after": self.jobs_after, "counts": dict(self.counts)}


_RULES: Registry[_CleaningRule] = Registry(
    "cleaning rule", "gridtune.cleaning_rules", WorkloadError, code=lambda rule: rule.apply
)


def cleaning_rule(function: RuleFunction) -> RuleFunction:
    """Register a function of jobs as the cleaning rule of its name, without a leading underscore.

    A name is never overwritten.

    A package announces its rules by entry points of the group `gridtune.cleaning_rules`.
    """
    name = function.__name__.removeprefix("_")
    summary = (function.__doc__ or "").strip().split("\n")[0]
    if not summary:
        raise WorkloadError(f"the cleaning rule {name!r} needs a docstring that says what it does")
    _RULES.register(name, _CleaningRule(name, function, summary))
    return function


def cleaning_rules() -> dict[str, _CleaningRule]:
    """Return every registered rule by name."""
    return dict(_RULES)


def apply_rules(jobs: Jobs, rules: Iterable[str]) -> tuple[Jobs, CleaningReport]:
    """Apply rules by name, in the order given."""
    names = [rules] if isinstance(rules, str) else list(rules)
    before = len(jobs.columns["submit_time"])
    counts: Counter[str] = Counter()
    for name in names:
        jobs, touched = _RULES.find(name).apply(jobs)
        counts[name] += touched
    return jobs, CleaningReport(dict(counts), before, len(jobs.columns["submit_time"]))


def clean(
    workload: Workload, rules: Iterable[str] = DEFAULT_RULES, processors: int | None = None
) -> tuple[Workload, CleaningReport]:
    """Apply named cleaning rules to a workload.

    Parameters
    ----------
    workload
        Left as it is.
    rules
        Names, applied in this order; `cleaning_rules()` lists them.
    processors
        The machine's size for rules about width, where it is not the log's own.

    Returns
    -------
    tuple of Workload and CleaningReport
        The cleaned workload, whose `cleaning` adds up what was done to it, and this run's report.
    """
    require(workload, Workload, "workload", error=WorkloadError, hint="read_workload(PATH) reads a log")
    size = workload.machine_processors if processors is None else processors
    jobs, report = apply_rules(Jobs(workload.columns, size), rules)
    done = Counter(workload.cleaning)
    done.update(report.counts)
    return replace(workload, columns=jobs.columns, cleaning=dict(done)), report


def _dropping(name: str, summary: str, faulty: Callable[[Jobs], BoolArray]) -> None:
    """Register the rule that drops some jobs."""

    def apply(jobs: Jobs) -> tuple[Jobs, int]:
        gone = faulty(jobs)
        return (jobs.take(~gone) if gone.any() else jobs), int(gone.sum())

    _RULES.register(name, _CleaningRule(name, apply, summary))


def _setting(
    name: str, summary: str, field: str, values: Callable[[Jobs], tuple[BoolArray, npt.ArrayLike]]
) -> None:
    """Register the rule that gives some jobs other values of a field."""
    _RULES.register(name, _CleaningRule(name, lambda jobs: jobs.put(field, *values(jobs)), summary))


@cleaning_rule
def _sort_submits(jobs: Jobs) -> tuple[Jobs, int]:
    """Put jobs in order of submission, ties as they stood; counts jobs that came earlier than one before."""
    submit = jobs.columns["submit_time"]
    touched = int((submit < np.maximum.accumulate(submit)).sum())
    return (jobs.take(np.argsort(submit, kind="stable")) if touched else jobs), touched


_dropping(
    "drop_never_started",
    "Drop jobs whose run time is unknown: they were cancelled before they started.",
    lambda jobs: jobs.columns["run_time"] < 0,
)


@cleaning_rule
def _missing_walltime(jobs: Jobs) -> tuple[Jobs, int]:
    """Give jobs without a walltime the log's largest walltime or, if no job has one, its largest run time.

    All get the same limit, at least 1 s, so that it says nothing about the single job. A walltime of 0
    counts as missing.
    """
    requested = jobs.column("requested_time")
    missing = requested <= 0
    if not missing.any():
        return jobs, 0
    times = jobs.columns["run_time"] if missing.all() else requested
    return jobs.put("requested_time", missing, max(1, int(times.max())))


_dropping("drop_zero_run_time", "Drop jobs that ran for 0 s.", lambda jobs: jobs.columns["run_time"] == 0)
_setting(
    "raise_zero_run_time",
    "Let jobs that ran for 0 s run for 1 s.",
    "run_time",
    lambda jobs: (jobs.columns["run_time"] == 0, 1),
)
_dropping(
    "drop_wider",
    "Drop jobs wider than the machine.",
    lambda jobs: jobs.width > jobs.machine("drop_wider"),
)
_setting(
    "clamp_wider",
    "Give jobs wider than the machine the whole machine instead.",
    "requested_processors",
    lambda jobs: (jobs.width > jobs.machine("clamp_wider"), jobs.machine("clamp_wider")),
)
_dropping(
    "drop_unknown_processors",
    "Drop jobs of which neither the requested nor the allocated processors are known.",
    lambda jobs: jobs.width < 0,
)
_dropping(
    "drop_zero_processors",
    "Drop jobs on zero processors, which reading refuses.",
    lambda jobs: (
        (jobs.width <= 0)
        & ((jobs.column("requested_processors") == 0) | (jobs.column("allocated_processors") == 0))
    ),
)
_dropping(
    "drop_negative_submit",
    "Drop jobs submitted before the log's clock starts, which reading refuses.",
    lambda jobs: jobs.columns["submit_time"] < 0,
)


@cleaning_rule
def _unknown_negative_times(jobs: Jobs) -> tuple[Jobs, int]:
    """Take run and requested times below -1, which reading refuses, as unknown."""
    touched = np.zeros(len(jobs.columns["submit_time"]), dtype=bool)
    for name in ("run_time", "requested_time"):
        below = jobs.column(name) < UNKNOWN
        jobs, _ = jobs.put(name, below, UNKNOWN)
        touched |= below
    return jobs, int(touched.sum())


@cleaning_rule
def _round_fractions(jobs: Jobs) -> tuple[Jobs, int]:
    """Round fractions in whole-number fields, which reading refuses, to the nearest, half to even."""
    touched = np.zeros(len(jobs.columns["submit_time"]), dtype=bool)
    columns = dict(jobs.columns)
    for name, column in jobs.columns.items():
        if name in FLOAT_FIELDS or name not in FIELDS or column.dtype.kind != "f":
            continue
        rounded = np.rint(column)
        touched |= rounded != column
        columns[name] = rounded.astype(np.int64)
    return jobs._replace(columns=columns), int(touched.sum())


_setting(
    "raise_walltime_to_run_time",
    "Raise known walltimes below the run time to the run time (this tells a scheduler the run time).",
    "requested_time",
    lambda jobs: (jobs.outlived(), jobs.columns["run_time"]),
)
_setting(
    "clip_run_time_to_walltime",
    "Cut run times beyond a known walltime down to the walltime.",
    "run_time",
    lambda jobs: (jobs.outlived(), jobs.column("requested_time")),
)


_setting(
    "use_allocated_processors",
    "Let jobs ask for the processors they got, where that is known and differs.",
    "requested_processors",
    lambda jobs: (
        (jobs.column("allocated_processors") > 0)
        & (jobs.column("allocated_processors") != jobs.column("requested_processors")),
        jobs.column("allocated_processors"),
    ),
)
_dropping(
    "drop_cancelled",
    "Drop jobs that the log says were cancelled (status 5).",
    lambda jobs: jobs.column("status") == 5,
)


@cleaning_rule
def _start_at_zero(jobs: Jobs) -> tuple[Jobs, int]:
    """Move the log's clock so that the first submission is at 0."""
    submit = jobs.columns["submit_time"]
    if len(submit) == 0 or submit.min() == 0:
        return jobs, 0
    return jobs._replace(columns={**jobs.columns, "submit_time": submit - submit.min()}), len(submit)


#: Named fields that say nothing of people, and are needed to read results: they stay.
_OPEN = frozenset({"partition", "queue", "qos", "features", "gpu_type", "state"})
#: What of the header stays: it is gridtune's own or says when the log began.
_HEADER = frozenset(
    {"Import", "UnixStartTime", "StartTime", "PartitionProcs", "GPUs", "MaxProcs", "MaxNodes"}
    | {FACTS_KEY, "AllocatedToRequested"}
)


def anonymised(workload: Workload) -> Workload:
    """Return the log with users, groups, accounts and programs numbered in order of their first job.

    Their names go, and with them every line of the header that is not gridtune's own. Names of partitions,
    queues, qualities of service, features, GPUs and states stay.
    """
    columns = dict(workload.columns)
    for name in set(NAMED_FIELDS) - _OPEN:
        if name in columns:
            columns[name] = _renumbered(columns[name])
    return replace(
        workload,
        columns=columns,
        source=None,
        names={name: names for name, names in workload.names.items() if name in _OPEN},
        header={key: values for key, values in workload.header.items() if key in _HEADER},
    )


def _renumbered(column: IntArray) -> IntArray:
    """Return numbers from 1 in order of first appearance; unknown stays unknown."""
    values, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    known = np.flatnonzero(values != UNKNOWN)
    numbers = np.full(len(values), UNKNOWN, np.int64)
    numbers[known[np.argsort(first[known])]] = np.arange(1, len(known) + 1)
    return numbers[inverse]
