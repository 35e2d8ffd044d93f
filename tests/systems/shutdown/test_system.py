"""The shutdown system: its cells, its parameters, and the authors' figures on all their days."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gridtune.cli.run import run
from gridtune.errors import GridtuneError, SweepError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.shutdown.metrics import SHUTDOWN_METRICS

PLATFORM = """<?xml version="1.0"?>
<platform version="4.1"><zone id="AS0" routing="Full"><prop id="cores_per_node" value="2"/>
{hosts}
</zone></platform>
"""
HOST = (
    '<host id="{0}" pstate="0" speed="0.001f, 1f, 0.5f, 0.2f">'
    '<prop id="watt_per_state" value="5:5,{1}:200.0,150:150,90:90"/>'
    '<prop id="sleep_pstates" value="0:3:2"/></host>'
)


def day(jobs: list[tuple[int, int, int, int]]) -> str:
    """Return a Batsim file of (minute, cores, walltime, run) jobs, in minutes and megaflops."""
    return json.dumps(
        {
            "nb_res": 4,
            "jobs": [
                {"id": str(number), "subtime": at, "res": cores, "walltime": wall, "profile": str(run)}
                for number, (at, cores, wall, run) in enumerate(jobs, start=1)
            ],
            "profiles": {
                str(run): {"type": "parallel_homogeneous", "cpu": run * 1_000_000, "com": 0}
                for *_, run in jobs
            },
        }
    )


@pytest.fixture
def days(tmp_path: Path) -> Path:
    folder = tmp_path / "days"
    for split, name, jobs in (
        ("train", "a", [(1, 2, 10, 5), (40, 4, 30, 20)]),
        ("train", "b", [(5, 1, 10, 10)]),
        ("test", "c", [(3, 4, 10, 8), (4, 4, 10, 8), (5, 1, 2, 1)]),
    ):
        (folder / split).mkdir(parents=True, exist_ok=True)
        (folder / split / f"{name}.json").write_text(day(jobs))
    return folder


def metrics(trace: Path | str, **parameters: object) -> dict[str, float]:
    shape = {"nodes": 2, "cores_per_node": 2} if "cluster" not in parameters else {}
    return dict(run_cell("shutdown", {"trace": str(trace), **shape, **parameters}).outcome.metrics)


def test_one_job_by_hand(tmp_path):
    """Two cores at minute 1: one node boots for a minute, computes five, idles one, switches off three."""
    (tmp_path / "day.json").write_text(day([(1, 2, 10, 5)]))
    found = metrics(tmp_path, policy="timeout", timeout=1)
    assert found["energy_switching_on"] == 125
    assert found["energy_idle"] == 95
    assert found["energy_switching_off"] == 3 * 101
    assert found["energy_waste_total"] == 125 + 95 + 303
    assert found["energy_computing"] == 5 * 190
    assert found["energy_sleeping"] == 9 * (2 * 1440 - 1 - 5 - 1 - 3)
    assert found["energy_total"] == 125 + 95 + 303 + 950 + found["energy_sleeping"]
    assert (found["switches_total"], found["switches_on_total"]) == (2, 1)
    assert (found["wait_mean"], found["stretch_mean"], found["slowdown_mean"]) == (60, 0.1, 6 / 5)
    assert (found["jobs"], found["jobs_finished"], found["days"]) == (1, 1, 1)
    assert found["score_per_day"] == pytest.approx(-(125 + 95 + 303) / 125 / 2)
    assert metrics(tmp_path, policy="timeout", timeout=0)["energy_idle"] == 0
    assert metrics(tmp_path, policy="always_on")["energy_idle"] == 95 * (1440 - 7)


def test_selections(days):
    assert metrics(days)["days"] == 3
    assert metrics(days, subset="train")["jobs"] == 3
    assert metrics(days, subset="test")["jobs"] == 3
    assert metrics(days, part="2/3")["days"] == 1
    assert metrics(days, first=2)["days"] == 2
    assert (
        metrics(days, sequential_group=5)["jobs"] == 3
    )  # both gaps of the test day are shorter than five minutes
    with pytest.raises(GridtuneError, match="leaves no day of days"):
        metrics(days, sequential_group=3)


def test_folder_archive_and_single_days_agree(days, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "packed"), "xztar", days.parent, days.name)
    assert metrics(archive) == metrics(days)
    each = [metrics(path) for path in sorted(days.rglob("*.json"))]
    for name in ("energy_waste_total", "switches_total", "jobs", "days"):
        assert sum(one[name] for one in each) == metrics(days)[name]


def test_a_cell_is_known_by_content(days, tmp_path):
    def cell(trace: Path, **parameters: object) -> str:
        return run_cell("shutdown", {"trace": str(trace), "cluster": "orion", **parameters}).cell.cell_id

    moved = tmp_path / "elsewhere"
    shutil.copytree(days, moved)
    assert cell(days) == cell(moved)
    (moved / "test" / "c.json").rename(moved / "train" / "c.json")
    assert cell(days) != cell(moved)
    assert cell(days, timeout=2) != cell(days)


def test_platform_file(days, tmp_path):
    file = tmp_path / "platform.xml"
    file.write_text(PLATFORM.format(hosts="\n".join(HOST.format(i, 80) for i in range(4))))
    told = {
        "idle_watts": 80,
        "computing_watts": 200,
        "sleeping_watts": 5,
        "switching_off_watts": 90,
        "switching_on_watts": 150,
        "switch_off_minutes": 5,
        "switch_on_minutes": 2,
    }
    named = run_cell("shutdown", {"trace": str(days), "platform": str(file)})
    assert dict(named.outcome.metrics) == metrics(days, **told)
    assert named.outcome.notes["cluster"] == "2 × 2"
    file.write_text(PLATFORM.format(hosts="\n".join(HOST.format(i, 81) for i in range(4))))
    changed = run_cell("shutdown", {"trace": str(days), "platform": str(file)})
    assert changed.cell.cell_id != named.cell.cell_id


def test_random_reservations_come_from_the_seed(days):
    def cell(seed: int) -> dict[str, float]:
        parameters = {"trace": str(days), "policy": "random", "nodes": 2, "cores_per_node": 2}
        return dict(run_cell("shutdown", parameters, seed=seed).outcome.metrics)

    assert cell(1) == cell(1)
    assert cell(1) != cell(2)


def test_variants_differ_in_whom_they_call_late(tmp_path):
    # The wide job waits for the running one, whatever is reserved: only equation 5 blames that.
    (tmp_path / "day.json").write_text(day([(1, 3, 100, 100), (2, 4, 10, 10)]))
    paper = metrics(tmp_path, timeout=0)
    exact = metrics(tmp_path, timeout=0, variant="exact")
    assert exact["score"] < paper["score"]
    assert "energy_waste_reported" in paper
    assert "energy_waste_reported" not in exact
    same = set(exact) - {"score", "score_per_day"}
    assert {name: exact[name] for name in same} == {name: paper[name] for name in same}


def test_a_long_log_is_cut_or_lived_through():
    cut = metrics("taurus_days", cluster="taurus", first=3)
    assert cut["days"] == 3
    whole = metrics("taurus_days", cluster="taurus", cut="whole")
    assert whole["days"] == 1
    assert whole["jobs_finished"] == whole["jobs"] == 5000


def test_jobs_that_cannot_be_are_counted(days):
    found = metrics(days, nodes=1, cores_per_node=2)
    assert found["jobs_rejected"] == 3
    assert found["jobs"] == 6


def test_every_metric_is_told_with_its_direction(days):
    found = metrics(days)
    assert set(found) == set(SHUTDOWN_METRICS)
    for metric in SHUTDOWN_METRICS.values():
        assert metric.unit
        assert metric.formula
    nothing = metrics(days, nodes=1, cores_per_node=1, subset="test", first=1)
    assert nothing["jobs_finished"] == 1
    assert not any(math.isinf(value) for value in nothing.values())


def test_a_row_for_each_day(days):
    parameters = {"trace": str(days), "nodes": 2, "cores_per_node": 2}
    table = run_cell("shutdown", parameters, tables=True).outcome.tables["days"]
    assert table.column("day").to_pylist() == ["test/c", "train/a", "train/b"]
    assert sum(table.column("energy_waste").to_pylist()) == metrics(days)["energy_waste_total"]


def test_what_the_tables_tell(days):
    parameters = {"trace": str(days), "nodes": 2, "cores_per_node": 2, "subset": "train", "timeout": 0}
    tables = run_cell("shutdown", parameters, tables=True).outcome.tables
    jobs = tables["jobs"].to_pylist()
    assert [(job["submit"], job["start"], job["gap"]) for job in jobs] == [
        (1, 2, None),
        (40, 41, 39),
        (5, 6, None),
    ]


def test_the_adaptive_rule_lets_a_job_wait_for_a_node(tmp_path):
    """The second job waits two of the four minutes it may, and takes the first one's node."""
    (tmp_path / "day.json").write_text(day([(1, 2, 10, 5), (4, 2, 10, 5)]))
    at_once, patient = metrics(tmp_path, timeout=0), metrics(tmp_path, policy="adaptive")
    assert at_once["switches_on_total"] == 2
    assert patient["switches_on_total"] == 1
    assert (patient["wait_mean"], patient["qos_violations"]) == (120, 0)
    assert patient["waste_bound_starts"] == patient["energy_waste_total"] == 125 + 303
    assert metrics(tmp_path, policy="adaptive", max_wait=2) == at_once


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"timeout": 1, "policy": "oracle"}, "timeout=1 has no effect with policy=oracle"),
        ({"eagerness": 0.5}, "eagerness=0.5 has no effect with policy=timeout"),
        ({"max_stretch": 1}, "max_stretch=1.0 has no effect with policy=timeout"),
        ({"policy": "random", "cut": "whole"}, "days of a fixed length"),
        ({"part": "4/3"}, "must be `i/n`"),
        ({"platform": "nowhere.xml"}, "nowhere.xml"),
        ({"idle_watts": 0, "switching_off_watts": 0, "switching_on_watts": 0}, "wastes nothing"),
    ],
)
def test_what_does_not_go_together_is_told(parameters, told):
    with pytest.raises(SweepError, match=told):
        run_cell("shutdown", {"trace": "taurus_days", **parameters})


@pytest.mark.real_traces
@pytest.mark.parametrize(
    ("policy", "waste", "switches", "test_waste"),
    [
        pytest.param({"policy": "timeout", "timeout": 0}, 13_601, 64.2, 14_280, marks=pytest.mark.slow),
        pytest.param({"policy": "timeout", "timeout": 1}, 15_821, 61.7, 16_974, marks=pytest.mark.slow),
        pytest.param({"policy": "timeout", "timeout": 5}, 24_531, 55.9, 26_989, marks=pytest.mark.slow),
        pytest.param({"policy": "oracle"}, 11_450, 52.9, 12_455, marks=pytest.mark.slow),
        ({"policy": "adaptive"}, 10_165, 48.0, 11_447),
    ],
)
def test_the_authors_figures_on_all_days(trace_dir, policy, waste, switches, test_waste):
    archive = trace_dir / "grid5000" / "taurus-days.tar.xz"
    if not archive.exists():
        pytest.skip("no Taurus days")
    found = metrics(archive, cluster="taurus", **policy)
    assert (found["days"], found["jobs"]) == (1511, 49_408)
    assert found["energy_waste_per_day"] == pytest.approx(waste, abs=0.6)
    assert found["switches_per_day"] == pytest.approx(switches, abs=0.05)
    tested = metrics(archive, cluster="taurus", subset="test", **policy)
    assert tested["days"] == 304
    assert tested["energy_waste_per_day"] == pytest.approx(test_waste, abs=0.5)


@pytest.mark.real_traces
def test_all_days_from_the_command_line(trace_dir):
    archive = trace_dir / "grid5000" / "taurus-days.tar.xz"
    if not archive.exists():
        pytest.skip("no Taurus days")
    words = f"shutdown trace={archive} policy=timeout timeout=1 variant=paper --json".split()
    result = CliRunner().invoke(run, words, catch_exceptions=False)
    told = json.loads(result.output)["metrics"]
    assert told["energy_waste_total"] == 23_904_786
    assert told["switches_total"] == 93_156
    assert np.isfinite(told["score"])
