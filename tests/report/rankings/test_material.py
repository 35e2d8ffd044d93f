"""A system's own tables and figures, and what becomes of a report that fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridtune.core.system import SYSTEMS, FinishedSweep, Outcome, System, SystemParameters
from gridtune.errors import GridtuneError
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.schedules import ReportMaterial
from gridtune.report.summarising import summarise
from gridtune.study.report import _of_system
from tests.report.synthetic import sweep_table


class Gardening(System):
    name, version, metrics = "gardening", "1", {}
    Parameters = SystemParameters
    fault: Exception | None = None

    def run(self, parameters, **options) -> Outcome:
        return Outcome({})

    def report(self, sweep: FinishedSweep) -> list[Path]:
        if self.fault is not None:
            raise self.fault
        path = sweep.directory / "beds.md"
        path.write_text(f"{sweep.table.num_rows} cells of {sweep.name}")
        return [path]


@pytest.fixture
def material(tmp_path: Path, registrations: None) -> ReportMaterial:
    SYSTEMS.put("gardening", Gardening())
    facts = SweepFacts("1", "orders", "", "gardening", "1", (ObjectiveFacts("wait_mean", "min", "s"),))
    table = sweep_table({"order": ["fcfs", "sjf"]})
    return ReportMaterial(summarise(table, replace(facts, dimensions=("order",))), table, [], tmp_path)


def test_the_system_writes_its_own(material: ReportMaterial, tmp_path: Path) -> None:
    assert _of_system("gardening", lambda system: system.report(material)) == ([tmp_path / "beds.md"], None)
    assert (tmp_path / "beds.md").read_text() == "40 cells of orders"


@pytest.mark.parametrize("fault", [GridtuneError("the log has moved"), TypeError("wrong")])
def test_a_report_that_fails_is_told_and_costs_nothing_else(
    material: ReportMaterial, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr(Gardening, "fault", fault)
    files, error = _of_system("gardening", lambda system: system.report(material))
    assert files == []
    assert error is not None
    assert "'gardening' failed" in error
    assert str(fault) in error
