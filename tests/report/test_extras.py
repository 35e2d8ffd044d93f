"""Tables and figures of a system's own, found by the system's name."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from gridtune.errors import GridtuneError
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.material import ReportMaterial, write_extras
from gridtune.report.summary import summarise
from tests.report.synthetic import sweep_table

MODULE = "gridtune.report.gardening"


def material(folder: Path, system: str = "gardening") -> ReportMaterial:
    facts = SweepFacts("1", "orders", "", system, "1", (ObjectiveFacts("mean_wait", "min", "s"),))
    table = sweep_table({"order": ["fcfs", "sjf"]})
    return ReportMaterial(summarise(table, replace(facts, dimensions=("order",))), table, [], folder)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    found: Any = types.ModuleType(MODULE)
    found.__spec__ = ModuleSpec(MODULE, None)
    monkeypatch.setitem(sys.modules, MODULE, found)
    return found


def test_the_systems_own_module_writes(module: Any, tmp_path: Path) -> None:
    def write(given: ReportMaterial) -> list[Path]:
        path = given.directory / "beds.md"
        path.write_text(f"{given.table.num_rows} cells of {given.summary.facts.name}")
        return [path]

    module.write = write
    assert write_extras(material(tmp_path)) == [tmp_path / "beds.md"]
    assert (tmp_path / "beds.md").read_text() == "40 cells of orders"


def test_a_system_without_its_own_has_nothing(tmp_path: Path) -> None:
    assert write_extras(material(tmp_path, "no_such_system")) == []


def test_a_trace_that_has_moved_costs_the_extras_alone(module: Any, tmp_path: Path) -> None:
    def write(given: ReportMaterial) -> list[Path]:
        raise GridtuneError("the log has moved")

    module.write = write
    assert write_extras(material(tmp_path)) == []


def test_a_fault_of_ours_is_not_hidden(module: Any, tmp_path: Path) -> None:
    def write(given: ReportMaterial) -> list[Path]:
        raise TypeError("wrong")

    module.write = write
    with pytest.raises(TypeError, match="wrong"):
        write_extras(material(tmp_path))
