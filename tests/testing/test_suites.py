"""Each suite fails on what breaks its rules."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pydantic import Field

from gridtune.batch.metrics import METRICS, Metric
from gridtune.batch.policies.queue_order import ORDERS, QueueOrder
from gridtune.core.measures import Measure
from gridtune.core.system import SYSTEMS, Outcome, System, SystemParameters
from gridtune.errors import MetricError, WorkloadError
from gridtune.testing import (
    FormatConformance,
    MetricConformance,
    QueueOrderConformance,
    SystemConformance,
)
from gridtune.workload.formats.log import FORMATS, Format, RawLog

pytestmark = pytest.mark.usefixtures("registrations")

#: What a failed assertion raises, and what `pytest.raises` does when nothing was raised.
FAILURES = (AssertionError, pytest.fail.Exception)


class GoodParameters(SystemParameters):
    scale: float = Field(1.0, description="scale")


class Good(System):
    """A normal number."""

    name = "good"
    version = "1"
    Parameters: ClassVar = GoodParameters
    metrics: ClassVar = {"number": Measure("1", "min", "scale × z", source="gridtune")}

    def run(self, parameters: Any, *, streams: Any, load: Any, tables: bool) -> Outcome:
        number = float(streams("number").standard_normal())
        made = {"numbers": pa.table({"number": [number]})} if tables else {}
        return Outcome(self.measured(number * parameters.scale, tables), self.noted(), made)

    def measured(self, number: float, tables: bool) -> dict[str, float]:
        return {"number": number}

    def noted(self) -> dict[str, Any]:
        return {}


class Undeclared(Good):
    def measured(self, number, tables):
        return {"number": number, "other": 1.0}


class Infinite(Good):
    def measured(self, number, tables):
        return {"number": math.inf}


class DrawsElsewhere(Good):
    def measured(self, number, tables):
        return {"number": number + 0 * np.random.random()}  # noqa: NPY002


class Counts(Good):
    runs = 0

    def measured(self, number, tables):
        self.runs += 1
        return {"number": float(self.runs)}


class Remembers(Good):
    first: float | None = None

    def measured(self, number, tables):
        if self.first is None:
            self.first = number
        return {"number": self.first}


class MeasuresTables(Good):
    def measured(self, number, tables):
        return {"number": number + tables}


class NotesArrays(Good):
    def noted(self):
        return {"numbers": np.arange(3)}


class ReportsNothing(Good):
    def report(self, sweep):
        path = sweep.directory / "report.txt"
        path.write_text("nothing")
        return [path]


class NeedsResults(Good):
    def report(self, sweep):
        return list(sweep.table["metric.number"])[:0]


class ForgetsFiles(Good):
    def report(self, sweep):
        for name in ("a.txt", "b.txt") if len(sweep.results) and sweep.results[0].metrics else ():
            (sweep.directory / name).write_text(name)
        return []


class Wordless(Good):
    class Parameters(SystemParameters):
        scale: float = 1.0


class Unsourced(Good):
    metrics: ClassVar = {"number": Measure("1", "min", "z", source="")}


class RenamedToNothing(Good):
    class Parameters(GoodParameters):
        renamed_parameters: ClassVar = {"old": "gone"}


class ReadsClock(Good):
    def file_checksums(self, parameters):
        return {"clock": "now"}


class Misspells(Good):
    class Parameters(GoodParameters):
        count: int = Field("2", description="not what it becomes when it is given")  # type: ignore[assignment]


def suite_of(system: type[System]) -> SystemConformance:
    suite: Any = type("Suite", (SystemConformance,), {"system": "good", "example": {"scale": 2.0}})
    SYSTEMS.put("good", system())
    return suite()


SystemTest = Callable[..., None]
S = SystemConformance


def call(rule: Callable[..., None], suite: Any, folder: Path) -> None:
    if rule is S.test_reports_nothing_of_a_sweep_without_results:
        rule(suite, "none", folder)
    elif rule is S.test_reports_into_the_folder_of_the_sweep:
        rule(suite, folder)
    else:
        rule(suite)


@pytest.mark.parametrize(
    ("system", "rule"),
    [
        (Undeclared, S.test_metrics_are_those_declared),
        (Infinite, S.test_metrics_are_numbers),
        (DrawsElsewhere, S.test_draws_from_its_streams_alone),
        (Counts, S.test_a_second_run_gives_the_same_bits),
        (Counts, S.test_another_instance_gives_the_same_bits),
        (Remembers, S.test_another_instance_gives_the_same_bits),
        (MeasuresTables, S.test_tables_change_no_metric),
        (NotesArrays, S.test_notes_are_json),
        (ReportsNothing, S.test_reports_nothing_of_a_sweep_without_results),
        (NeedsResults, S.test_reports_nothing_of_a_sweep_without_results),
        (ForgetsFiles, S.test_reports_into_the_folder_of_the_sweep),
        (Wordless, S.test_describes_every_parameter),
        (Unsourced, S.test_metrics_say_what_they_are),
        (RenamedToNothing, S.test_renamed_parameters_have_names_now),
        (ReadsClock, S.test_code_is_named_by_checksums),
        (Misspells, S.test_naming_a_default_changes_nothing),
    ],
)
def test_a_system_that_breaks_a_rule_fails(system, rule, tmp_path):
    with pytest.raises((*FAILURES, KeyError, TypeError)):
        call(rule, suite_of(system), tmp_path)
    good, folder = suite_of(Good), tmp_path / "good"
    folder.mkdir()
    call(rule, good, folder)


def metric_of(function: Any, **changes: Any) -> Metric:
    words = {"unit": "1", "direction": "min", "formula": "f", "source": "here", "description": "Words."}
    return Metric(name="broken", function=function, family="own", **{**words, **changes})


def shortened(jobs):
    jobs.wait[:] = 0
    return 0.0


M = MetricConformance


@pytest.mark.parametrize(
    ("function", "rule", "arguments"),
    [
        (lambda jobs: 0.0, M.test_is_undefined_of_nothing, (0, 0)),
        (lambda jobs: jobs.wait[0], M.test_is_undefined_of_nothing, (0, 0)),
        (lambda jobs: np.inf, M.test_is_a_finite_number_of_a_sound_schedule, ()),
        (lambda jobs: float(jobs.schedule.wait_time[0]), M.test_does_not_depend_on_the_order_of_rows, ({},)),
        (lambda jobs: np.divide(1.0, len(jobs) - 1), M.test_takes_any_number_of_jobs, (1,)),
    ],
)
def test_a_metric_that_breaks_a_rule_fails(function, rule, arguments):
    METRICS.put("broken", metric_of(function))
    with np.errstate(all="ignore"), pytest.raises((*FAILURES, MetricError)):
        rule(MetricConformance(), "broken", *arguments)


def test_a_metric_that_changes_its_columns_fails():
    def spoils(jobs):
        jobs.schedule.start_time[:] += 1
        return 0.0

    METRICS.put("broken", metric_of(spoils))
    with pytest.raises(FAILURES):
        MetricConformance().test_leaves_the_schedule_as_it_was("broken")


Q = QueueOrderConformance


@pytest.mark.parametrize(
    ("score", "static", "rule"),
    [
        (lambda job: math.inf if job.wait > 1000 else 0.0, False, Q.test_scores_are_finite),
        (lambda job: job.wait, True, Q.test_a_static_order_does_not_change_with_time),
        (lambda job: -1.0 if job.processors > 1 else hash("a") % 2, False, Q.test_says_what_it_does),
    ],
)
def test_an_order_that_breaks_a_rule_fails(score, static, rule):
    ORDERS.put("broken", QueueOrder("broken", score, "", static=static))
    with pytest.raises(FAILURES):
        rule(QueueOrderConformance(), "broken")


def test_an_order_that_knows_run_times_fails(monkeypatch):
    """It looks them up by the second of submission, as a loader that leaks them would let it."""
    leak = {}
    order = QueueOrder("broken", lambda job: 0.0, "words")

    def peeking(workload, **options):
        leak.update(zip(workload.submit_time.tolist(), workload.run_time.tolist(), strict=True))
        starts = workload.submit_time + workload.run_time % 97
        schedule = simulate(workload, **options)
        return dataclasses.replace(schedule, start_time=starts, end_time=starts + workload.run_time)

    from gridtune.batch.replay import simulate  # noqa: PLC0415

    ORDERS.put("broken", order)
    monkeypatch.setattr("gridtune.testing.registries.simulate", peeking)
    with pytest.raises(FAILURES):
        QueueOrderConformance().test_does_not_see_run_times("broken", 7)


def records(workload):
    names = list(workload.columns)
    return [
        dict(zip(names, map(int, row), strict=True)) for row in zip(*workload.columns.values(), strict=True)
    ]


def read_lines(stream, *, strict: bool = True, ordered: bool = False):
    jobs = []
    for line, text in enumerate(stream.read().decode("utf-8", "replace").splitlines(), start=1):
        try:
            jobs.append(json.loads(text))
        except ValueError:
            if strict:
                raise WorkloadError("is no job", path=stream.path, line=line) from None
    if ordered:
        jobs.sort(key=lambda job: job["submit_time"])
    columns = {name: np.array([job[name] for job in jobs]) for name in jobs[0]} if jobs else {}
    empty = {"submit_time": np.zeros(0, int), "run_time": np.zeros(0, int)}
    return RawLog(columns or empty, lambda row, field: row + 1)


def write_lines(workload, file, *, stamp: list[int] | None = None, left_out: str = ""):
    if stamp is not None:
        stamp.append(1)
    for job in records(workload):
        job.pop(left_out, None)
        file.write(f"{json.dumps(job)}{' ' * len(stamp or ())}\n".encode())


GOOD_FORMAT = Format("broken", ".broken", read_lines, write_lines, "lines")
F = FormatConformance


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"suffix": ".swf"}, F.test_suffix),
        ({"suffix": ".BROKEN"}, F.test_suffix),
        ({"summary": ""}, F.test_says_what_it_holds),
        ({"write": lambda work, file: write_lines(work, file, left_out="user")}, F.test_checksums_survive),
        ({"read": lambda stream: read_lines(stream, ordered=True)}, F.test_jobs_keep_their_order),
        (
            {"read": lambda stream: read_lines(stream, strict=False)},
            F.test_a_malformed_line_is_refused_with_its_number,
        ),
        (
            {"write": lambda work, file, stamp=[]: write_lines(work, file, stamp=stamp)},
            F.test_equal_workloads_give_equal_bytes,
        ),
    ],
)
def test_a_format_that_breaks_a_rule_fails(changes, rule, tmp_path):
    arguments = (tmp_path,) if "tmp_path" in rule.__code__.co_varnames else ()
    FORMATS.put("broken", GOOD_FORMAT)
    rule(FormatConformance(), "broken", *arguments)
    FORMATS.put("broken", dataclasses.replace(GOOD_FORMAT, **changes))
    with pytest.raises(FAILURES):
        rule(FormatConformance(), "broken", *arguments)
