"""Schedules say what of the log was ignored, assumed or cut off; and whether jobs are killed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gridtune as gt
from gridtune.core.cells import CellResult
from gridtune.core.remarks import merged_remarks, remark_lines
from gridtune.core.usage import step_function
from gridtune.errors import SimulationError
from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.journal.results import results_table
from gridtune.sweep.run import space_cells


def overrunning(jobs: int = 200, share: float = 0.3, **columns: object) -> gt.Workload:
    rng = np.random.default_rng(3)
    run = rng.integers(2000, 5000, jobs)
    requested = np.where(np.arange(jobs) < share * jobs, run // 2, run + 600)
    plain = {
        "job_id": np.arange(1, jobs + 1),
        "submit_time": np.arange(jobs) * 60,
        "run_time": run,
        "requested_time": requested,
        "requested_processors": rng.integers(1, 5, jobs),
    }
    return gt.Workload({**plain, **columns}, machine_processors=16)


def test_auto_kills_only_where_the_machine_did():
    log = overrunning()
    kept, killed = gt.simulate(log), gt.simulate(log, kill=True)
    assert (kept.run_time == log.run_time).all()
    assert kept.notes["kill"].startswith("no: 60 of the log's 200 jobs")
    assert (killed.run_time[:60] == log.requested_time[:60]).all()
    lost = (log.run_time - killed.run_time) * log.processors
    share = lost.sum() / (log.run_time * log.processors).sum()
    assert killed.notes["killed"] == {"jobs": 60, "work_lost": pytest.approx(share)}
    few = gt.simulate(overrunning(share=0.02))
    assert (few.settings["kill"], few.notes["killed"]["jobs"]) == (True, 4)
    assert "kill" not in few.notes


def test_all_windows_agree():
    windows = overrunning().windows(4)
    assert [gt.simulate(window).settings["kill"] for window in windows] == [False] * 4


def test_a_kill_that_is_no_choice_is_refused():
    with pytest.raises(SimulationError, match="'auto', True or False"):
        gt.simulate(overrunning(), kill="yes")


def test_ids_tell_kills_apart(tmp_path):
    for name, share in (("kills", 0.0), ("lets", 0.3)):
        gt.write_workload(overrunning(share=share), tmp_path / f"{name}.swf")

    def cell_id(trace: str, **parameters: object) -> str:
        space = {
            "name": "ids",
            "fixed": {"trace": str(tmp_path / trace), **parameters},
            "objective": "wait_mean",
        }
        (cell,) = space_cells({**space, "dimensions": {"order": ["fcfs"]}})
        assert run_cell("batch", {**cell.parameters}).cell.cell_id == cell.cell_id
        return cell.cell_id

    # What was run before, and is right, keeps its id; the same run has one id, asked for or decided.
    assert cell_id("kills.swf") == cell_id("kills.swf", kill=True) == cell_id("kills.swf", kill="auto")
    assert cell_id("kills.swf") != cell_id("kills.swf", kill=False)
    assert cell_id("lets.swf") == cell_id("lets.swf", kill=False) != cell_id("lets.swf", kill=True)


def test_results_say_what_is_ignored(tmp_path):
    log = overrunning(
        share=0, partition=np.arange(200) % 4, requested_memory=np.where(np.arange(200) < 9, 1, -1)
    )
    ignored = "partitions (4, pooled), in 200 jobs; memory, in 9 jobs (of the log's 200)"
    assert gt.simulate(log).notes == {"ignored": ignored}
    gt.write_workload(log, path := tmp_path / "log.swf")
    notes = run_cell("batch", {"trace": str(path), "window": "2/4"}).outcome.notes
    assert notes["ignored"] == ignored
    single = run_cell("batch", {"trace": str(path), "partition": 1, "processors": 16}).outcome.notes
    assert single["ignored"] == "memory, in 9 jobs (of the log's 200)"
    assert not gt.simulate(overrunning(share=0)).notes


def test_orders_that_cannot_work_without_walltimes_are_named():
    log = overrunning(requested_time=np.full(200, -1))
    # Its scores are those of plain queueing.
    assert (gt.simulate(log, order="sjf").start_time == gt.simulate(log).start_time).all()
    for order in ("sjf", "saf", "wfp3", "log(walltime) + processors"):
        assert gt.simulate(log, order=order).notes["orders"] == [
            gt.simulate(log, order=order).settings["order"]
        ]
    for order in ("fcfs", "narrowest", "-processors"):
        assert "orders" not in gt.simulate(log, order=order).notes
    assert "orders" not in gt.simulate(log, order="sjf", walltime="exact").notes
    assert gt.simulate(log, backfill="easy", fill_order="sjf").notes["orders"] == ["sjf"]
    assert "missing in 200 of the log's 200 jobs" in gt.simulate(log).notes["walltimes"]


def fitting(**columns: object) -> gt.Workload:
    count = np.arange(300)
    plain = {
        "submit_time": count * 600,
        "run_time": count % 7 * 100 + 60,
        "requested_processors": count % 3 + 1,
    }
    return gt.Workload({**plain, **columns}, machine_processors=64)


def test_a_machine_on_which_nothing_waits_is_named():
    log = fitting()
    alone = gt.simulate(log).notes["machine"]
    use = step_function(log.submit_time, log.submit_time + log.run_time, log.processors)
    peak = int(use.values.max())
    assert alone.startswith("nothing ever waits in this log on 64 processors")
    assert f"never need more than {peak} at once" in alone
    assert "machine" in gt.simulate(log, processors=peak).notes
    assert "machine" not in gt.simulate(log, processors=peak - 1).notes
    # The log as it is never waits; a run under ten times its load does.
    assert "machine" not in gt.simulate(log.scale_load(100), processors=peak).notes


def test_recorded_waits_that_the_machine_cannot_explain_are_named():
    log = fitting(wait_time=np.full(300, 7200))
    use = (log.run_time * log.processors).sum() / (64 * ((log.submit_time + 7200 + log.run_time).max()))
    assert (
        f"the log uses {100 * use:.0f} % of 64 processors, but its jobs waited 2.0 h"
        in (gt.simulate(log).notes["machine"])
    )
    # All windows agree, and short waits and a busy machine are no reason to doubt.
    assert "the log uses" in gt.simulate(log.windows(3)[1]).notes["machine"]
    assert "the log uses" not in gt.simulate(fitting(wait_time=np.full(300, 600))).notes["machine"]
    assert "machine" not in gt.simulate(log, processors=3).notes


def test_a_machine_as_large_as_the_widest_job_is_named_unless_the_log_says_it():
    log = overrunning(share=0)
    unknown = replace(log, machine_processors=None)
    assert gt.simulate(unknown, processors=4).notes["machine"].startswith("4 processors is the width of the")
    assert "machine" not in gt.simulate(unknown, processors=5).notes
    assert "machine" not in gt.simulate(log, processors=4).notes


def test_walltimes_in_minutes_are_named():
    run = np.arange(300) % 50 * 60 + 600
    notes = gt.simulate(overrunning(300, run_time=run, requested_time=run // 30)).notes
    assert notes["units"].startswith("walltimes look like minutes, but count as seconds: 300 of 300 jobs")
    assert notes["kill"].endswith("its walltimes look like minutes")
    for fit in (run + 60, run // 2):
        assert "units" not in gt.simulate(overrunning(300, run_time=run, requested_time=fit)).notes


@pytest.mark.parametrize(("unit", "seconds"), [("hours", 3600), ("milliseconds", 0.001)])
def test_walltimes_in_other_units_are_named(unit, seconds):
    run = np.arange(300) % 50 * 60 + 4 * 3600
    limit = np.ceil(run * 1.5 / 1000) * 1000 / seconds
    notes = gt.simulate(overrunning(300, run_time=run, requested_time=limit.astype(np.int64))).notes
    assert notes["units"].startswith(f"walltimes look like {unit}, but count as seconds")


def test_many_results_are_summed_up():
    notes = [
        {"ignored": "memory, in 9 jobs", "orders": ["sjf"], "killed": {"jobs": 2, "work_lost": 0.01}},
        {"orders": ["saf", "sjf"], "killed": {"jobs": 5, "work_lost": 0.25}},
        {"jobs": 4},
    ]
    assert remark_lines(merged_remarks(notes), most=True) == [
        "ignored: memory, in 9 jobs",
        "warning: sjf, saf cannot order jobs by walltime: all walltimes are the same",
        "killed: up to 5 jobs were cut at their walltime, 25.00 % of the work",
    ]
    assert remark_lines({"jobs": 4}) == []


def test_a_sweeps_table_has_the_remarks(tmp_path):
    gt.write_workload(overrunning(share=0.02, partition=np.ones(200, np.int64)), tmp_path / "log.swf")
    space = {"name": "x", "fixed": {"trace": str(tmp_path / "log.swf")}, "objective": "wait_mean"}
    space |= {"dimensions": {"kill": [True, False]}}
    cells = [CellResult.of(cell, "done", notes=_notes(cell)) for cell in space_cells(space)]
    table = results_table(cells)
    assert table["remark.killed_jobs"].to_pylist() == [4, None]
    lost = gt.simulate(gt.read_workload(tmp_path / "log.swf"), kill=True).notes["killed"]["work_lost"]
    assert table["remark.work_lost"].to_pylist() == [lost, None]


def _notes(cell):
    return run_cell("batch", cell.parameters, seed=cell.seed).outcome.notes
