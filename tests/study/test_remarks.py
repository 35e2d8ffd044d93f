"""What results ignored stands in everything that a sweep leaves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gridtune as gt
from gridtune.study.export import exported_configuration
from gridtune.study.stored import read_sweep


def test_a_sweep_says_what_it_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = np.arange(300)
    log = gt.Workload(
        {"submit_time": count * 9, "run_time": count % 50 + 1, "requested_memory": count % 2 * 1024},
        machine_processors=4,
    )
    gt.write_workload(log, tmp_path / "log.swf")
    space = {
        "name": "orders",
        "fixed": {"trace": str(tmp_path / "log.swf")},
        "dimensions": {"order": ["fcfs", "sjf", "saf"]},
        "baseline": {"order": "fcfs"},
        "replicates": {"windows": 3},
        "objective": "wait_mean",
    }
    folder = tmp_path / "out"
    study = gt.run_sweep(space, directory=folder, tracking=False, executor="inline", output="json")
    remarks = [
        "ignored: memory, in 150 jobs (of the log's 300)",
        "walltimes: missing in 300 of the log's 300 jobs; each of these gets the log's longest",
        "warning: sjf, saf cannot order jobs by walltime: all walltimes are the same",
    ]
    assert study.as_dict()["remarks"] == remarks
    said = capsys.readouterr().err
    assert all(remark in said for remark in remarks)
    for name in ("ranking.md", "report.html"):
        text = (folder / name).read_text()
        assert all(remark in text.replace("&#x27;", "'") for remark in remarks), name
    journal = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    cells = [line for line in journal if "cell_id" in line]
    assert len(cells) == 9
    assert all(cell["notes"]["ignored"] in remarks[0] for cell in cells)
    assert exported_configuration(read_sweep(folder))["remarks"] == remarks
