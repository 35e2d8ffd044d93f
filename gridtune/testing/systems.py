"""`SystemConformance`: the rules of every system."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import math
import pickle
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pyarrow as pa
import pytest

from gridtune.core.cells import (
    CellResult,
    finite_json,
    id_of_identity,
    identity_of,
    replicate_streams,
    validated,
)
from gridtune.core.measures import Direction
from gridtune.core.reproduction import Experiment, Reading, Reproduction
from gridtune.core.system import Outcome, System, SystemParameters, get_system
from gridtune.errors import SweepError
from gridtune.report.rankings.cells import BOUND
from gridtune.sweep.execution.cluster import ray_session
from gridtune.sweep.execution.runner import CellRun, run_cell
from gridtune.sweep.journal.results import results_table
from gridtune.sweep.space.overriding import trimmed_space
from gridtune.sweep.space.plan import Workloads, plan_space
from gridtune.sweep.space.points import space_points
from gridtune.sweep.space.schema import parse_space
from gridtune.sweep.space.starter import starter_text
from gridtune.training.system import TRAININGS_VARIABLE
from gridtune.workload.workload import Workload


def _value_in_code(system: System, place: str) -> Any:
    """Return the value at a place that a `Deviation` names; True for a function or class.

    Raises
    ------
    KeyError, AttributeError, ImportError, FileNotFoundError
        If there is no such place.
    """
    file, _, name = place.partition(":")
    if not name:
        return system.Parameters.model_fields[place].get_default(call_default_factory=True)
    if file.endswith(".yaml"):
        value: Any = trimmed_space(Experiment(file), quick=False).space.source.content
        for key in name.split("."):
            value = value[int(key)] if isinstance(value, list) else (value or {}).get(key)
        return value
    value = importlib.import_module(file)
    for attribute in name.split("."):
        value = getattr(value, attribute)
    return True if callable(value) else value


def _configurations(experiment: Experiment, system: System) -> list[tuple[str, dict[str, Any]]]:
    """Return label of the workload and parameters of each configuration of the whole experiment."""
    plan = trimmed_space(experiment, quick=False)
    every = [
        (stratum.label, {**plan.space.fixed, **stratum.parameters, **point})
        for stratum in plan.strata
        for point in space_points(plan.space)
    ]
    for _, parameters in every:
        log = experiment.logs.get(str(parameters.get("trace")))
        parameters["trace"] = parameters.get("trace") if log is None else log.real
    return every


def _selected(where: Mapping[str, Any], every: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the workload's label of each configuration that a reading selects."""
    return [
        label
        for label, parameters in every
        if all(
            (label if name == "workload" else parameters.get(name)) == value for name, value in where.items()
        )
    ]


def _readings_of(reproduction: Reproduction) -> Iterator[Reading]:
    """Yield the readings of all claims and tables."""
    numbers = [criterion.ours for claim in reproduction.claims for criterion in claim.criteria]
    cells = [ours for table in reproduction.tables for _, row in table.rows for _, ours in row]
    yield from (ours for ours in [*numbers, *cells] if isinstance(ours, Reading))


def _plain(value: Any) -> Any:
    """Return a value as a YAML file has it: tuples are lists."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: A training is named after its system and its algorithm.
_SYSTEM_NAME = re.compile(rf"{_NAME.pattern}(?:/{_NAME.pattern})?")
_SEED = 11


@dataclass
class _Sweep:
    """A finished sweep of a few cells: all that `System.report` may read of one."""

    system: str
    results: list[CellResult]
    directory: Path
    workloads: Workloads
    name: str = "conformance"
    table: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        self.table = results_table(self.results)

    def tables_of(self, result: Any) -> Mapping[str, pa.Table]:
        options: dict[str, Any] = {"seed": result.seed, "tables": True, "workloads": self.workloads}
        return run_cell(self.system, result.parameters, **options).outcome.tables


def _bits(metrics: Mapping[str, float]) -> dict[str, str]:
    """Return metrics as texts that are equal where the bits are, for NaN too."""
    return {name: float(value).hex() for name, value in metrics.items()}


class SystemConformance:
    """The rules of a system; a subclass names one and gives the parameters of a cell that takes little time.

    Attributes
    ----------
    system
        The system's name.
    example
        Parameters of a small cell.
    infinite
        Metrics that may be infinite.
    """

    system: ClassVar[str]
    example: ClassVar[Mapping[str, Any]]
    infinite: ClassVar[frozenset[str]] = frozenset()
    _workloads: ClassVar[Workloads]
    _first: ClassVar[CellRun]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._workloads = Workloads()

    @property
    def subject(self) -> System:
        """The system."""
        return get_system(self.system)

    @property
    def parameters(self) -> SystemParameters:
        """The example's parameters, validated."""
        return validated(self.subject, self.example)

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _ray(cls) -> Iterator[None]:
        """Run all cells on one Ray, where they need any."""
        needed = get_system(cls.system).needs_ray
        with ray_session(None, workers=1, cpus=1) if needed else contextlib.nullcontext():
            yield

    @pytest.fixture(autouse=True)
    def _no_checkpoints(
        self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Train from the beginning each time."""
        monkeypatch.setenv(TRAININGS_VARIABLE, str(tmp_path_factory.mktemp("trainings")))

    def cell(self, *, tables: bool = False, seed: int = _SEED) -> CellRun:
        """Run the example."""
        options: dict[str, Any] = {"seed": seed, "tables": tables, "workloads": self._workloads}
        return run_cell(self.system, self.example, **options)

    @property
    def first(self) -> CellRun:
        """The example, run once for all tests."""
        if "_first" not in vars(type(self)):
            type(self)._first = self.cell()
        return self._first

    def result(self, state: str = "done") -> CellResult:
        """Return what a sweep makes of the example."""
        if state != "done":
            return CellResult.of(self.first.cell, "failed", error="SimulationError: it failed")
        outcome = self.first.outcome
        return CellResult.of(
            self.first.cell, "done", metrics=outcome.metrics, notes=outcome.notes, seconds=0.1
        )

    # What it says of itself.

    def test_groups_name_its_parameters_once(self) -> None:
        """Help explains the parameters by groups, so a name that is misspelt would be lost."""
        names = [name for group in self.subject.Parameters.groups.values() for name in group]
        assert set(names) <= set(self.subject.Parameters.model_fields)
        assert len(names) == len(set(names))

    def test_is_registered_under_its_name(self) -> None:
        """The registry finds it by the name that it has."""
        assert isinstance(self.subject, System)
        assert self.subject.name == self.system
        assert _SYSTEM_NAME.fullmatch(self.system)

    def test_has_a_version_and_words(self) -> None:
        """It has a version, which is part of its cells' ids, and a docstring, which is its help."""
        assert isinstance(self.subject.version, str)
        assert self.subject.version
        assert (inspect.getdoc(type(self.subject)) or "").strip()

    def test_describes_every_parameter(self) -> None:
        """Each parameter has a description, and one that must be given an example too."""
        for name, parameter in self.subject.Parameters.model_fields.items():
            assert parameter.description, name
            assert parameter.examples or not parameter.is_required(), name

    def test_refuses_an_unknown_parameter(self) -> None:
        """A parameter that it does not have is refused, by name."""
        with pytest.raises(SweepError, match="no_such_parameter"):
            validated(self.subject, {**self.example, "no_such_parameter": 1})

    def test_parameters_travel(self) -> None:
        """Parameters are equal after pickling, which takes them to a worker."""
        assert pickle.loads(pickle.dumps(self.parameters)) == self.parameters

    def test_metrics_say_what_they_are(self) -> None:
        """Each metric has a unit, a formula, a source, and the direction min, max or none."""
        assert self.subject.metrics
        for name, metric in self.subject.metrics.items():
            assert _NAME.fullmatch(name), name
            assert metric.direction in get_args(Direction), name
            for text in (metric.unit, metric.formula, metric.source):
                assert text.strip(), name

    def test_bounds_are_of_metrics_of_the_same_unit(self) -> None:
        """A metric named `<metric>_bound` bounds a metric that there is, has its unit and is no goal."""
        metrics = self.subject.metrics
        for name in [name for name in metrics if name.endswith(BOUND)]:
            bounded = metrics[name.removesuffix(BOUND)]
            assert (metrics[name].unit, metrics[name].direction) == (bounded.unit, "none"), name
            assert bounded.direction != "none", name

    def test_renamed_parameters_have_names_now(self) -> None:
        """An old name of a parameter leads to one that there is, and is none itself."""
        fields, moved = self.subject.Parameters.model_fields, self.subject.Parameters.renamed_parameters
        assert set(moved.values()) <= set(fields)
        assert not set(moved) & set(fields)

    def test_published_figures_say_where_they_are_printed(self) -> None:
        """Each published figure has a source, the quantity and its unit, and is a finite number."""
        for name, figure in self.subject.published.items():
            assert all(text.strip() for text in (figure.source, figure.quantity, figure.unit)), name
            assert math.isfinite(figure.value), name

    def test_reproductions_name_what_there_is(self) -> None:
        """Spaces can be trimmed as declared; experiments and metrics have these names."""
        for reproduction in self.subject.reproductions.values():
            for experiment in reproduction.experiments.values():
                for quick in (False, True):
                    assert (
                        trimmed_space(experiment, quick=quick).system.name.partition("/")[0]
                        == self.subject.name
                    )
            for ours in _readings_of(reproduction):
                assert ours.experiment in reproduction.experiments, ours
                if ours.part is None:
                    read = {ours.metric, ours.reference or ours.metric}
                    assert read <= self.subject.metrics.keys(), ours
                names = {*ours.where, *ours.against} - {"workload"}
                assert names <= self.subject.Parameters.model_fields.keys(), ours
            assert {figure.experiment for figure in reproduction.figures} <= reproduction.experiments.keys()
            spaces = {
                name: _configurations(experiment, self.subject)
                for name, experiment in reproduction.experiments.items()
            }
            for ours in _readings_of(reproduction):
                for where in (ours.where, {**ours.where, **ours.against}):
                    labels = _selected(where, spaces[ours.experiment])
                    # One configuration of a workload, and not none.
                    assert labels, (ours, where)
                    assert len(set(labels)) == len(labels), (ours, where)
            for figure in reproduction.figures:
                for series in figure.series:
                    chosen = [{**series.where, **panel.where} for panel in figure.panels]
                    drawn = [_selected(one, spaces[figure.experiment]) for one in chosen]
                    assert any(drawn), (figure.title, series)
            for table in reproduction.tables:
                assert {len(cells) for _, cells in table.rows} == {len(table.columns)}, table.title

    def test_deviations_are_those_of_the_code(self) -> None:
        """Parameters, constants and spaces that a deviation rests on have the values that it states."""
        for name, reproduction in self.subject.reproductions.items():
            elements = [deviation.element for deviation in reproduction.deviations]
            assert len(set(elements)) == len(elements), name
            for deviation in reproduction.deviations:
                assert deviation.code, deviation.element
                for place, value in deviation.code.items():
                    assert _plain(_value_in_code(self.subject, place)) == value, (deviation.element, place)

    def test_search_spaces_are_its_own(self) -> None:
        """Each search space that comes with it loads, and searches it."""
        for path in self.subject.bundled_spaces:
            assert plan_space(path).space.system == self.system, path.name

    def test_proposes_what_it_can_search(self) -> None:
        """The search space that it proposes for a log, if any, is sound and has that log and a baseline."""
        count = np.arange(1500)
        columns = {"submit_time": count * 600, "run_time": count % 50 + 1, "requested_time": count % 50 + 60}
        log = Workload({**columns, "requested_processors": np.ones(1500, np.int64)}, machine_processors=8)
        starter = self.subject.suggest_space(log, 8)
        if starter is None:
            pytest.skip("it proposes nothing")
        text = starter_text(self.subject, starter, log, name="first", trace="log.swf", path="first.yaml")
        space = plan_space(parse_space(text)).space
        assert space.system == self.system
        assert space.fixed["trace"] == "log.swf"
        assert set(space.baseline) <= set(space.dimensions)
        assert space_points(space)

    # What a cell is.

    def test_the_order_of_parameters_does_not_matter(self) -> None:
        """A cell has the same id whichever parameter is named first."""
        backwards = validated(self.subject, dict(reversed(list(self.example.items()))))
        assert self._id_with(backwards) == self.first.cell.cell_id

    def _id_with(self, parameters: SystemParameters) -> str:
        load = self._workloads.load
        return id_of_identity(identity_of(self.subject, parameters, _SEED, self.first.cell.traces, load))

    def test_naming_a_default_changes_nothing(self) -> None:
        """A parameter at its default gives the same cell, named or not."""
        for name, parameter in self.subject.Parameters.model_fields.items():
            if name in self.example or parameter.is_required():
                continue
            default = parameter.get_default(call_default_factory=True, validated_data={})
            named = validated(self.subject, {**self.example, name: default})
            assert self._id_with(named) == self.first.cell.cell_id, name

    def test_code_is_named_by_checksums(self) -> None:
        """The code that a cell runs beside the system's own is named by SHA-256, the same each time."""
        code = self.subject.file_checksums(self.parameters)
        assert all(re.fullmatch(r"[0-9a-f]{64}", checksum) for checksum in code.values())
        assert dict(self.subject.file_checksums(self.parameters)) == dict(code)

    def test_traces_are_references(self) -> None:
        """The traces of a cell are texts, the same each time."""
        traces = list(self.subject.traces(self.parameters))
        assert all(isinstance(reference, str) and reference for reference in traces)
        assert list(self.subject.traces(self.parameters)) == traces

    # What a run does.

    def test_metrics_are_those_declared(self) -> None:
        """A run gives metrics, and none that the system does not declare."""
        assert self.first.outcome.metrics
        assert [name for name in self.first.outcome.metrics if name not in self.subject.metrics] == []

    def test_metrics_are_numbers(self) -> None:
        """Metrics are numbers; one that is not defined is NaN, and none is infinite unless it may be."""
        for name, value in self.first.outcome.metrics.items():
            assert isinstance(value, float | int | np.number), name
            assert not math.isinf(value) or name in self.infinite, name

    def test_notes_are_json(self) -> None:
        """Notes can be written as JSON."""
        json.dumps(finite_json(self.first.outcome.notes), allow_nan=False)

    def test_a_second_run_gives_the_same_bits(self) -> None:
        """A cell run again, after one of another replicate, gives the same metrics to the last bit."""
        expected = _bits(self.first.outcome.metrics)
        self.cell(seed=_SEED + 1)
        assert _bits(self.cell().outcome.metrics) == expected

    def test_another_instance_gives_the_same_bits(self) -> None:
        """State that an instance keeps between runs decides nothing: a new one gives the same."""
        expected = _bits(self.first.outcome.metrics)
        instance = type(self.subject)()
        self._run(instance, _SEED + 1)
        assert _bits(self._run(instance).metrics) == expected

    def test_draws_from_its_streams_alone(self) -> None:
        """Random numbers come from the replicate's streams; the global generators are left alone."""
        expected = _bits(self.first.outcome.metrics)
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        before = str(np.random.get_state()), random.getstate()  # noqa: NPY002
        assert _bits(self._run(type(self.subject)()).metrics) == expected
        assert (str(np.random.get_state()), random.getstate()) == before  # noqa: NPY002

    def _run(self, system: System, seed: int = _SEED) -> Outcome:
        streams = replicate_streams(seed, self.first.cell.traces)
        return system.run(self.parameters, streams=streams, load=self._workloads.load, tables=False)

    def test_leaves_its_workloads_as_they_were(self) -> None:
        """A run changes no column of the logs that it reads: other cells read them too."""
        self.first  # noqa: B018 (reads the logs)
        logs = {key: log.columns for key, log in self._workloads.loaded.items()}
        before = {key: {name: column.copy() for name, column in log.items()} for key, log in logs.items()}
        self.cell()
        for key, columns in before.items():
            for name, column in columns.items():
                np.testing.assert_array_equal(logs[key][name], column, err_msg=f"{key}: {name}")

    def test_preparing_is_harmless(self) -> None:
        """Preparing for nothing, or twice for the same cells, raises nothing."""
        self.subject.prepare([])
        self.subject.prepare([self.parameters])
        self.subject.prepare([self.parameters, self.parameters])

    def test_tables_change_no_metric(self) -> None:
        """With `tables` the metrics are the same, and the tables are Arrow's; without, there are none."""
        run = self.cell(tables=True)
        assert _bits(run.outcome.metrics) == _bits(self.first.outcome.metrics)
        assert all(isinstance(table, pa.Table) for table in run.outcome.tables.values())
        assert not self.first.outcome.tables

    # What it reports.

    @pytest.mark.parametrize("state", ["none", "failed"])
    def test_reports_nothing_of_a_sweep_without_results(self, state: str, tmp_path: Path) -> None:
        """Of a sweep without cells, or without one that is done, it writes nothing and raises nothing."""
        results = [] if state == "none" else [self.result("failed")]
        sweep = _Sweep(self.system, results, tmp_path, self._workloads)
        assert self.subject.report(sweep) == []
        assert list(tmp_path.iterdir()) == []

    def test_reports_into_the_folder_of_the_sweep(self, tmp_path: Path) -> None:
        """Of a sweep of one cell it writes the files that it says, in the sweep's folder."""
        files = self.subject.report(_Sweep(self.system, [self.result()], tmp_path, self._workloads))
        assert len(set(files)) == len(files)
        for path in files:
            assert path.is_file()
            assert tmp_path in path.parents
        assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(files)
