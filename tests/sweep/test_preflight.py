"""What is found before anything runs: logs, machines, missing packages, full disks."""

from __future__ import annotations

import importlib.util
import shutil
from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gridtune.core.system import get_system
from gridtune.errors import MissingExtraError, SpaceError, SweepError, require_module
from gridtune.sweep.journal.disk import check_writable
from gridtune.sweep.run import run_space, space_cells

Usage = namedtuple("Usage", "total used free")

SMALL_MACHINE = {
    "name": "small",
    "fixed": {"trace": "quickstart"},
    "dimensions": {"processors": [256, 4]},
    "objective": "wait_mean",
}


def test_a_machine_that_is_too_small_is_found_before_anything_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    with pytest.raises(SpaceError, match="wider than the machine's 4 processors") as caught:
        run_space(SMALL_MACHINE, directory=folder)
    assert caught.value.field == "dimensions.processors"
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_a_cleaning_rule_that_mends_it_is_taken_into_account() -> None:
    fixed = {"trace": "quickstart", "clean": "drop_never_started,drop_wider"}
    assert len(space_cells({**SMALL_MACHINE, "fixed": fixed})) == 2


def test_a_dashboard_is_no_cluster_to_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    with pytest.raises(SweepError, match="takes jobs and runs no cells") as caught:
        run_space(SMALL_MACHINE, directory=tmp_path / "out")
    assert "scripts/submit SPACE --address http://head:8265" in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("system", "parameters", "user"),
    [
        ("shutdown", {"trace": "taurus_days", "policy": "ppo", "checkpoint": "taurus-lstm"}, "policy=ppo"),
        ("shutdown/ppo", {"trace": "taurus_days"}, "training"),
    ],
)
def test_a_missing_package_is_named_with_what_brings_it(
    system: str, parameters: Mapping[str, Any], user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torch" else there(name, *more)
    )
    space = {"name": "a", "system": system, "fixed": parameters, "objective": "energy_waste_per_day"}
    with pytest.raises(MissingExtraError, match=rf"{user} needs torch") as caught:
        space_cells(space)
    assert caught.value.hint == "pip install 'gridtune[agents]'"


def test_what_is_installed_is_not_complained_about() -> None:
    require_module("json", user="a test", extra="none")


def test_a_full_disk_is_found_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(2**40, 2**40 - 2**20, 2**20))
    with pytest.raises(SweepError, match=r"only 1 MB are free") as caught:
        check_writable(tmp_path / "not" / "there" / "yet", free=50 * 2**20)
    assert "--out" in str(caught.value)


@pytest.mark.parametrize("given", [True, False])
def test_trainings_over_ray_client_are_refused_with_the_reason(
    given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "ray://head:10001"
    if not given:
        monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(type(get_system("batch")), "needs_ray", True)
    with pytest.raises(SweepError, match="cannot be trained over Ray Client") as caught:
        run_space(SMALL_MACHINE, directory=tmp_path / "out", address=address if given else None)
    assert "--address head:6379" in str(caught.value)
    assert "scripts/submit SPACE --address http://head:8265" in str(caught.value)
    assert not (tmp_path / "out").exists()
