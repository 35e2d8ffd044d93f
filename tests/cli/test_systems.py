"""`gridtune list systems` tells what the contract says of each system."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from gridtune.cli.main import cli
from gridtune.core.reproduction import PublishedFigure
from gridtune.core.system import SYSTEMS, get_system
from gridtune.errors import SweepError


def output_of(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["list", "systems", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_all_systems_are_listed() -> None:
    listed = json.loads(output_of("--json"))
    assert sorted(listed) == SYSTEMS.names()
    table = output_of()
    assert all(name in table for name in SYSTEMS.names())


def test_one_system_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = get_system("batch")
    figure = PublishedFigure("Doe 2001, table 3", "mean wait under FCFS", 1234.5, "s")
    monkeypatch.setattr(type(batch), "published", {"fcfs": figure})
    system = json.loads(output_of("batch", "--json"))
    assert system["metrics"]["wait_mean"]["source"] == batch.metrics["wait_mean"].source
    assert system["published"]["fcfs"]["value"] == 1234.5
    text = output_of("batch")
    assert set(batch.metrics) <= set(text.split())


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(SweepError, match="did you mean 'batch'"):
        CliRunner().invoke(cli, ["list", "systems", "bach"], catch_exceptions=False)
    assert "bach" not in SYSTEMS
