"""Conformance suites of what is registered by name: trace formats, metrics, queue orders and predictors.

Each suite runs its tests once for each name, on small workloads and schedules.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt
import pytest

from gridtune.batch.metrics import METRICS, JobColumns, Metric, evaluate
from gridtune.batch.policies import JobView, QueueOrder, get_queue_order
from gridtune.batch.policies.expression import CHANGING_FIELDS
from gridtune.batch.policies.queue_order import ORDERS
from gridtune.batch.predictors import EARLY, PREDICTORS, PredictedJob, Prediction, Predictor
from gridtune.batch.replay import simulate
from gridtune.batch.simulator.scores import Facts, ScoreInputs, compile_score, score_inputs, score_job
from gridtune.core.measures import Direction
from gridtune.core.schedules.schedule import JobState, Schedule, validate_schedule
from gridtune.core.usage import NodePower, NodeState, NodeStates
from gridtune.errors import GridtuneWarning, WorkloadError
from gridtune.registry import Registry
from gridtune.workload import read_workload, write_workload
from gridtune.workload.fields import SWF_FIELDS
from gridtune.workload.formats import FORMATS, Format, find_format
from gridtune.workload.generators import generate_workload
from gridtune.workload.workload import Workload


class _RegistryConformance:
    """Runs each of its tests once for each name.

    Attributes
    ----------
    names
        Names to test; by default all that are registered.
    """

    registry: ClassVar[Registry[Any]]
    names: ClassVar[Sequence[str] | None] = None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test the names, one at a time."""
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", list(self.registry if self.names is None else self.names))

    def test_is_registered_under_its_name(self, name: str) -> None:
        """The registry finds it, and it has the name that it is registered under."""
        assert name in self.registry
        assert self.registry.find(name).name == name


#: Submit, start, end, processors, requested walltime, user, killed: on four processors. The third job
#: overtakes the second; the fourth runs for no time and asked for no walltime; the last is killed.
_ROWS = (
    (0, 0, 100, 2, 200, 1, False),
    (10, 100, 150, 4, 100, 2, False),
    (20, 20, 80, 2, 60, 1, False),
    (30, 150, 150, 1, -1, 2, False),
    (40, 150, 154, 1, 4, 3, True),
)
_MACHINE = 4


def _sample_workload(jobs: int = 60, *, processors: int = 16, seed: int = 1) -> Workload:
    """Return jobs of several users, groups, queues and partitions that fill a small machine."""
    rng = np.random.default_rng(seed)
    run = rng.integers(1, 400, jobs)
    width = rng.integers(1, processors + 1, jobs)
    return Workload(
        {
            "job_id": np.arange(1, jobs + 1),
            # Some jobs are submitted in the same second.
            "submit_time": np.cumsum(rng.integers(0, 120, jobs)),
            "run_time": run,
            "allocated_processors": width,
            "requested_processors": width,
            "requested_time": run + rng.integers(0, 300, jobs),
            "user": rng.integers(1, 6, jobs),
            "group": rng.integers(1, 4, jobs),
            "queue": rng.integers(1, 3, jobs),
            "partition": rng.integers(1, 3, jobs),
            "status": np.ones(jobs, dtype=np.int64),
        },
        name="sample",
        machine_processors=processors,
    )


def _sample_schedule(jobs: int = len(_ROWS)) -> Schedule:
    """Return a schedule of the first few of five jobs, which wait, overtake, take no time and are killed."""
    columns = np.array(_ROWS[:jobs], dtype=np.int64).reshape(-1, len(_ROWS[0])).T
    submit, start, end, width, requested, user, killed = columns
    run = end - start
    workload = Workload(
        {
            "submit_time": submit,
            # On the machine of the log each job waited a little longer.
            "wait_time": start - submit + 5,
            "run_time": np.where(killed, run + 10, run),
            "requested_processors": width,
            "requested_time": requested,
            "user": user,
            "group": user,
        },
        machine_processors=_MACHINE,
    )
    state = np.where(killed, JobState.KILLED, JobState.COMPLETED).astype(np.int8)
    walltime = np.where(requested > 0, requested, run)
    return Schedule(workload, _MACHINE, start, end, walltime, state, nodes=_sample_nodes(jobs))


def _sample_nodes(jobs: int) -> NodeStates:
    """Return what the two nodes of the schedule's machine do: one sleeps from 90 until 98."""
    computing, idle, asleep = NodeState.COMPUTING, NodeState.IDLE, NodeState.SLEEPING
    changes = [
        (0, idle, computing, 1),
        (20, idle, computing, 1),
        (80, computing, idle, 1),
        (86, idle, NodeState.SWITCHING_OFF, 1),
        (90, NodeState.SWITCHING_OFF, asleep, 1),
        (98, asleep, NodeState.SWITCHING_ON, 1),
        (100, NodeState.SWITCHING_ON, computing, 1),
        (150, computing, idle, 1),
        (154, computing, idle, 1),
    ]
    table = np.array(changes, dtype=np.int64)
    before, after = table[:, 1].astype(np.int8), table[:, 2].astype(np.int8)
    number, boot_wait = table[:, 3].astype(np.int32), np.arange(jobs, dtype=np.int64)
    return NodeStates(2, 2, NodePower(), 0, table[:, 0], before, after, number, boot_wait)


def _permuted(schedule: Schedule) -> Schedule:
    """Return the same schedule with its rows in reverse."""
    rows, nodes = np.arange(len(schedule))[::-1], schedule.nodes
    return replace(
        schedule,
        workload=schedule.workload.take(rows),
        start_time=schedule.start_time[rows],
        end_time=schedule.end_time[rows],
        walltime=schedule.walltime[rows],
        state=schedule.state[rows],
        nodes=nodes and replace(nodes, boot_wait=nodes.boot_wait[rows]),
    )


#: A run time that stands out in a text.
_RUN_TIME = 987_654


def _write(name: str, workload: Workload, folder: Path, packed: str = "") -> Path:
    if FORMATS.find(name).write is None:
        pytest.skip("the format is only read")
    path = folder / f"log{FORMATS.find(name).suffix}{packed}"
    with warnings.catch_warnings():
        # Some formats hold less than a workload, and say so.
        warnings.simplefilter("ignore", GridtuneWarning)
        write_workload(workload, path)
    return path


def _lost(name: str, workload: Workload) -> set[str]:
    return set(FORMATS.find(name).cannot_hold(workload))


def _text(path: Path) -> str | None:
    """Return what a file holds, or None where it is no text."""
    content = path.read_bytes()
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


class FormatConformance(_RegistryConformance):
    """The rules of a trace format."""

    registry: ClassVar[Registry[Format]] = FORMATS

    def test_suffix(self, name: str) -> None:
        """The suffix is in lower case, begins with a dot, and is that of no other format."""
        suffix = FORMATS.find(name).suffix
        assert re.fullmatch(r"(\.[a-z0-9_-]+)+", suffix)
        assert not suffix.endswith((".gz", ".xz", ".tar"))
        assert [other.name for other in FORMATS.values() if other.suffix == suffix] == [name]

    def test_is_found_by_its_suffix(self, name: str) -> None:
        """A file's suffix names the format, in small letters or in capitals, compressed or not."""
        form = FORMATS.find(name)
        for suffix in (form.suffix, form.suffix.upper(), f"{form.suffix}.gz", f"{form.suffix}.xz"):
            assert find_format(f"log{suffix}") == (form, "log")

    def test_says_what_it_holds(self, name: str) -> None:
        """The summary is a line for people."""
        summary = FORMATS.find(name).summary
        assert summary.strip()
        assert "\n" not in summary

    @pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
    def test_what_is_written_is_read_back(self, name: str, packed: str, tmp_path: Path) -> None:
        """Every column that the format can hold comes back as it was, compressed or not."""
        workload = _sample_workload()
        read = read_workload(_write(name, workload, tmp_path, packed))
        assert len(read) == len(workload)
        for field in set(SWF_FIELDS) - _lost(name, workload):
            np.testing.assert_array_equal(read.column(field), workload.column(field), err_msg=field)

    def test_checksums_survive(self, name: str, tmp_path: Path) -> None:
        """Jobs that the format can hold whole have the same checksum when they are read back."""
        workload = _sample_workload()
        lost = _lost(name, workload)
        columns = {key: column for key, column in workload.columns.items() if key not in lost}
        bare = replace(workload, columns=columns, machine_processors=None)
        read = read_workload(_write(name, bare, tmp_path))
        assert read.checksum == bare.checksum
        assert read_workload(_write(name, read, tmp_path)).checksum == read.checksum

    def test_equal_workloads_give_equal_bytes(self, name: str, tmp_path: Path) -> None:
        """Written twice, a workload gives the same file: no date, no name of a machine is in it."""
        first = _write(name, _sample_workload(), tmp_path).read_bytes()
        assert _write(name, _sample_workload(), tmp_path).read_bytes() == first

    def test_jobs_keep_their_order(self, name: str, tmp_path: Path) -> None:
        """A log whose jobs do not stand by submit time is read in the order of the file."""
        workload = _sample_workload().take(np.arange(60)[::-1])
        read = read_workload(_write(name, workload, tmp_path))
        np.testing.assert_array_equal(read.submit_time, workload.submit_time)

    @pytest.mark.parametrize("content", [b"", b"\xff\x00 no log\n"], ids=["empty", "noise"])
    def test_what_is_no_log_is_refused(self, name: str, content: bytes, tmp_path: Path) -> None:
        """An empty file and one of noise are refused, naming the file."""
        path = tmp_path / f"log{FORMATS.find(name).suffix}"
        path.write_bytes(content)
        with pytest.raises(WorkloadError) as refused:
            read_workload(path)
        assert refused.value.path == path

    def test_a_file_that_was_cut_short_is_refused(self, name: str, tmp_path: Path) -> None:
        """Half of a compressed file gives an error, not half of the jobs."""
        path = _write(name, _sample_workload(), tmp_path, ".gz")
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(WorkloadError):
            read_workload(path)

    def test_a_malformed_line_is_refused_with_its_number(self, name: str, tmp_path: Path) -> None:
        """In a text, a line that is no job is an error that names file and line."""
        path = _write(name, _sample_workload(), tmp_path)
        text = _text(path)
        if text is None:
            return
        path.write_text(f"{text.rstrip()}\nthis is no job\n", encoding="utf-8")
        with pytest.raises(WorkloadError) as refused:
            read_workload(path)
        assert refused.value.path == path
        assert refused.value.line == len(text.rstrip().splitlines()) + 1

    def test_an_impossible_value_is_refused_with_its_line(self, name: str, tmp_path: Path) -> None:
        """In a text, a job of negative run time is an error that names its line."""
        workload = _sample_workload()
        run = workload.run_time.copy()
        run[-1] = _RUN_TIME
        path = _write(name, replace(workload, columns={**workload.columns, "run_time": run}), tmp_path)
        text = _text(path)
        if text is None:
            return
        assert str(_RUN_TIME) in text
        path.write_text(text.replace(str(_RUN_TIME), f"-{_RUN_TIME}"), encoding="utf-8")
        with pytest.raises(WorkloadError) as refused:
            read_workload(path)
        assert refused.value.line is not None
        assert str(_RUN_TIME) in text.splitlines()[refused.value.line - 1]


def _value(name: str, schedule: Schedule, **trimming: Any) -> float:
    return evaluate(schedule, only=[name], **trimming)[name]


class MetricConformance(_RegistryConformance):
    """The rules of a metric."""

    registry: ClassVar[Registry[Metric]] = METRICS

    def test_says_what_it_is(self, name: str) -> None:
        """Unit, formula, source and description are not empty, and the direction is min, max or none."""
        metric = METRICS.find(name)
        for text in (metric.unit, metric.formula, metric.source, metric.description):
            assert text.strip()
        assert metric.direction in get_args(Direction)

    def test_is_a_finite_number_of_a_sound_schedule(self, name: str) -> None:
        """Of five jobs of three users it is a finite number."""
        value = METRICS.find(name).function(JobColumns.trimmed(_sample_schedule()))
        assert isinstance(value, float | int | np.number)
        assert math.isfinite(value)

    @pytest.mark.parametrize(("jobs", "warmup"), [(0, 0), (5, 5)], ids=["no jobs", "all left out"])
    def test_is_undefined_of_nothing(self, name: str, jobs: int, warmup: int) -> None:
        """Without jobs it is NaN and raises nothing; only a count, which has no better direction, is 0."""
        value = _value(name, _sample_schedule(jobs), warmup=warmup)
        assert math.isnan(value) or (value == 0 and METRICS.find(name).direction == "none")

    @pytest.mark.parametrize("jobs", [1, 2, 3, 4])
    def test_takes_any_number_of_jobs(self, name: str, jobs: int) -> None:
        """Of one job, or of a few, it raises nothing and is never infinite."""
        assert not math.isinf(_value(name, _sample_schedule(jobs)))

    @pytest.mark.parametrize("trimming", [{}, {"warmup": 1, "cooldown": 1}], ids=["all", "trimmed"])
    def test_does_not_depend_on_the_order_of_rows(self, name: str, trimming: dict[str, float]) -> None:
        """The same jobs in another order of rows give the same value."""
        schedule = _sample_schedule()
        value = _value(name, _permuted(schedule), **trimming)
        assert value == pytest.approx(_value(name, schedule, **trimming), rel=1e-12, nan_ok=True)

    def test_leaves_the_schedule_as_it_was(self, name: str) -> None:
        """It changes no column, and a second call gives the same value."""
        schedule = _sample_schedule()
        work = schedule.workload
        columns: list[npt.NDArray[Any]] = [
            schedule.start_time,
            schedule.end_time,
            schedule.walltime,
            schedule.state,
        ]
        columns += [work.submit_time, work.run_time, work.requested_time, work.processors]
        before = [column.copy() for column in columns]
        jobs = JobColumns.trimmed(schedule)
        first = METRICS.find(name).function(jobs)
        assert first == METRICS.find(name).function(jobs)
        for column, copy in zip(columns, before, strict=True):
            np.testing.assert_array_equal(column, copy)


_SECONDS = (0, 1, 3_600, 40_000_000)
_PROCESSORS = (1, 2, 100_000)


def _views() -> Iterator[JobView]:
    """Yield jobs from the smallest to the largest, just submitted and long waiting."""
    cases = itertools.product(_SECONDS, _SECONDS, _PROCESSORS, _SECONDS)
    for owner, (submit, walltime, processors, wait) in enumerate(cases):
        used = float(wait * processors)
        facts = owner, owner, 1, 1
        changing = wait, submit + wait, used, 2 * used
        yield JobView(submit, walltime, processors, *facts, *changing, 0.25, walltime / 2, 0.375)


def _inputs(views: list[JobView]) -> ScoreInputs:
    """Return inputs from which compiled scores see these jobs, each of a user and a group of its own."""
    column = {name: np.array(values) for name, *values in zip(JobView._fields, *views, strict=True)}
    facts = Facts(*(column[name] for name in Facts._fields))
    inputs = score_inputs(column["submit_time"], column["walltime"], column["processors"], facts, 0.0)
    for usage, used in ((inputs.users, "user_usage"), (inputs.groups, "group_usage")):
        usage.used[:], usage.since[:] = column[used], column["now"]
    inputs.predicted[:], inputs.early[:] = column["prediction"], column["early_end"]
    return inputs


def _schedule(order: str, workload: Workload, backfill: str) -> Schedule:
    return simulate(workload, order=order, backfill=backfill, rng=np.random.default_rng(3))


#: Replays a log under the policy that a test is about.
_Replay = Callable[[Workload], Schedule]


def _assert_sound(log: Workload, replay: _Replay) -> None:
    """Check that the schedule is sound, and that a second replay gives the same one."""
    schedule = replay(log)
    validate_schedule(schedule)
    np.testing.assert_array_equal(schedule.start_time, replay(log).start_time)


def _assert_blind(log: Workload, replay: _Replay, job: int, *, longer: int) -> None:
    """Check that nothing before the end of a job changes if it runs longer, within its walltime."""
    log = replace(log, columns={**log.columns, "requested_time": log.run_time + longer * 9 // 8})
    run = np.array(log.run_time)
    run[job] += longer
    early, late = replay(log), replay(replace(log, columns={**log.columns, "run_time": run}))
    decided = early.start_time < early.end_time[job]
    assert decided.any()
    np.testing.assert_array_equal(late.start_time[decided], early.start_time[decided])
    assert (late.start_time[~decided] >= early.end_time[job]).all()


class QueueOrderConformance(_RegistryConformance):
    """The rules of a queue order; of a policy that decides, those that are not about scores."""

    registry: ClassVar[Registry[QueueOrder]] = ORDERS

    def test_says_what_it_does(self, name: str) -> None:
        """Its docstring begins with a line that tells people what goes first."""
        assert get_queue_order(name).description.strip()

    def test_parameters_can_be_set_by_name(self, name: str) -> None:
        """The label, such as `wfp3(exponent=3)`, names the same order with the same parameters."""
        order = get_queue_order(name)
        assert get_queue_order(order.label) == order
        assert all(math.isfinite(value) for value in order.parameters.values())

    def test_scores_are_finite(self, name: str) -> None:
        """Every job has a finite score: also one of no walltime, of one processor, of the first second."""
        order = get_queue_order(name)
        if order.decides:
            return
        assert [view for view in _views() if not math.isfinite(order(view))] == []

    def test_compiled_it_is_what_python_makes_of_it(self, name: str) -> None:
        """The compiled score is that of the plain Python function."""
        order = get_queue_order(name)
        if order.decides:
            return
        compiled, views = compile_score(order), list(_views())
        inputs = _inputs(views)
        for job, view in enumerate(views):
            score = score_job(compiled, inputs, job, view.now)
            assert score == pytest.approx(order(view), rel=1e-12, abs=1e-12)

    def test_a_static_order_does_not_change_with_time(self, name: str) -> None:
        """An order that counts as static scores a job the same whenever it is asked."""
        order = get_queue_order(name)
        if not order.static:
            return
        for view in _views():
            later = view._replace(**{field: 3 * getattr(view, field) + 5 for field in CHANGING_FIELDS})
            assert order(later) == order(view)

    @pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
    def test_schedules_are_sound_and_repeatable(self, name: str, backfill: str) -> None:
        """Under each kind of backfilling the schedule is sound, and a second run gives the same one."""
        if backfill == "easy" or not get_queue_order(name).decides:
            _assert_sound(_sample_workload(), lambda log: _schedule(name, log, backfill))

    @pytest.mark.parametrize("job", [0, 7, 20, 41])
    def test_does_not_see_run_times(self, name: str, job: int) -> None:
        """Had a job run longer, within its walltime, nothing before its end would have changed."""
        _assert_blind(_sample_workload(), lambda log: _schedule(name, log, "easy"), job, longer=450)


#: Policies that read predictions in every way.
_POLICIES = (
    {"order": "walltime * (1 - early_end) + prediction - wait"},
    {"order": "rollout(durations=predicted, window=12)"},
    {"order": "saf", "walltime": "predicted"},
)


def _log() -> Workload:
    return generate_workload("sessions", jobs=300, processors=32, seed=2)


def _job(number: int, **changes: int) -> PredictedJob:
    usual = PredictedJob(number, 3600 * number, 3600, 4, number % 3, 1, 1, 1)
    return usual._replace(**changes)


def _told(predictor: Predictor, jobs: int) -> None:
    """Let jobs of three users be submitted, predicted and end, one after the other; some end at once."""
    for number in range(jobs):
        job = _job(number)
        predictor.submitted(job, job.submit_time)
        predictor.predict(job, job.submit_time)
        run = 5 if number % 2 else 3000
        predictor.ended(job._replace(elapsed=run), run, job.submit_time + run)


class PredictorConformance(_RegistryConformance):
    """The rules of a predictor."""

    registry: ClassVar[Registry[type[Predictor]]] = PREDICTORS
    names: ClassVar[Sequence[str] | None] = None

    def test_says_what_it_does(self, name: str) -> None:
        """Its docstring begins with a line that tells people what it goes by."""
        assert (inspect.getdoc(PREDICTORS.find(name)) or "").strip()

    @pytest.mark.parametrize("jobs", [0, 1, 2, 600])
    def test_predictions_are_sound(self, name: str, jobs: int) -> None:
        """Before and after jobs have ended, of every kind of job, predictions are finite and in order."""
        predictor = PREDICTORS.find(name)()
        _told(predictor, jobs)
        for changes in ({}, {"walltime": 1}, {"user": -1, "group": -1}, {"processors": 4096}):
            job = _job(1000, **changes)
            predictor.submitted(job, job.submit_time)
            predictor.predict(job, job.submit_time).check()

    def test_a_job_that_runs_is_not_expected_to_have_ended(self, name: str) -> None:
        """A job that has run for a tenth of its walltime does not end early any more."""
        predictor = PREDICTORS.find(name)()
        _told(predictor, 600)
        job = _job(1000)
        predictor.submitted(job, job.submit_time)
        predictor.predict(job, job.submit_time)
        running = job._replace(elapsed=int(EARLY * job.walltime) + 1)
        prediction = predictor.predict(running, job.submit_time + running.elapsed)
        prediction.check()
        assert prediction.early_end == 0
        assert prediction.mean >= running.elapsed

    def test_asking_changes_nothing(self, name: str) -> None:
        """Asked twice it says the same."""
        predictor = PREDICTORS.find(name)()
        _told(predictor, 600)
        job = _job(1000)
        predictor.submitted(job, job.submit_time)
        said: Callable[[], Prediction] = lambda: predictor.predict(job, job.submit_time)  # noqa: E731
        assert said() == said()

    @pytest.mark.parametrize("policy", _POLICIES, ids=["order", "rollout", "walltime"])
    def test_schedules_are_sound_and_repeatable(self, name: str, policy: dict[str, str]) -> None:
        """Schedules under its predictions are sound, and a second replay remembers nothing."""
        _assert_sound(_log(), lambda log: _replayed(log, name, policy))

    @pytest.mark.parametrize("policy", _POLICIES, ids=["order", "rollout", "walltime"])
    @pytest.mark.parametrize("job", [30, 200, 280])
    def test_does_not_see_run_times(self, name: str, policy: dict[str, str], job: int) -> None:
        """Had a job run longer, within its walltime, nothing before its end would have changed."""
        _assert_blind(_log(), lambda log: _replayed(log, name, policy), job, longer=8000)


def _replayed(workload: Workload, name: str, policy: dict[str, str]) -> Schedule:
    return simulate(workload, predictor=name, kill=True, **policy)  # type: ignore[arg-type]
