"""Cells whose code forks, or leaves the folder, in the process of the sweep itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

PLUGIN = """
import os
from typing import ClassVar, Literal

import gridtune as gt
from gridtune.core.measures import Measure


class Parameters(gt.SystemParameters):
    kind: Literal["good", "forks", "fails-forked", "strays"] = "good"


class Stray(gt.System):
    name: ClassVar[str] = "stray"
    version: ClassVar[str] = "1"
    Parameters = Parameters
    metrics = {"loss": Measure("s", "min", "1", source="test")}

    def run(self, parameters, *, streams, load, tables):
        if parameters.kind in ("forks", "fails-forked") and os.fork() == 0:
            if parameters.kind == "fails-forked":
                raise ArithmeticError
            return gt.Outcome({"loss": -1.0})
        if parameters.kind == "strays":
            os.chdir("/")
        return gt.Outcome({"loss": 1.0})


gt.register_system(Stray())
"""
SPACE = """
name: stray
system: stray
plugins: [stray.py]
dimensions: {kind: [good, forks, fails-forked, strays]}
replicates: {seeds: 2}
objective: loss
"""


def test_each_cell_counts_once_and_the_report_is_where_it_was_wanted(tmp_path: Path) -> None:
    (tmp_path / "stray.py").write_text(PLUGIN)
    (tmp_path / "space.yaml").write_text(SPACE)
    command = [sys.executable, "-m", "gridtune", "sweep", "space.yaml", "--out", "out", "--json"]
    options = ["--executor", "inline", "--no-tracking", "--no-figures"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines()]
    cells = [record for record in records if "cell_id" in record]
    assert [cell["state"] for cell in cells] == ["done"] * 8
    assert {cell["metrics"]["loss"] for cell in cells} == {1.0}
    assert len({cell["worker"] for cell in cells}) == 1
    assert (tmp_path / "out" / "report.html").is_file()
    # One process printed its answer, once.
    assert json.loads(done.stdout)["cells"] == 8
