"""`gridtune simulate`, as a user types it."""

from __future__ import annotations

import json
import runpy
import textwrap

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import gridtune as gt
from gridtune.cli.simulate import simulate
from gridtune.core.cells import finite_json
from gridtune.core.system import get_system
from gridtune.errors import SweepError, WorkloadError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.batch import system


@pytest.fixture
def quickstart(repository):
    return str(repository / "traces" / "quickstart.swf.gz")


def run(*arguments):
    return CliRunner().invoke(simulate, [str(argument) for argument in arguments], catch_exceptions=False)


def test_table_names_the_policy_and_its_metrics(quickstart):
    printed = run(quickstart, "--order", "sjf")
    assert printed.exit_code == 0
    for part in ("sjf", "easy", "wait_mean", "utilisation", "5,000 jobs"):
        assert part in printed.output


def test_json_is_one_object_that_agrees_with_python(quickstart):
    printed = json.loads(run(quickstart, "-o", "saf", "-b", "none", "-p", 256, "--json").stdout)
    schedule = gt.simulate(gt.read_workload(quickstart), order="saf", backfill="none")
    assert printed["metrics"]["wait_mean"] == pytest.approx(float(schedule.wait_time.mean()))
    assert printed["jobs"] == len(schedule)
    assert printed["settings"]["order"] == "saf"


def test_out_holds_the_schedule(quickstart, tmp_path):
    run(quickstart, "--out", tmp_path / "deep" / "schedule.parquet")
    table = pq.read_table(tmp_path / "deep" / "schedule.parquet")
    schedule = gt.simulate(gt.read_workload(quickstart))
    assert table["start_time"].to_pylist() == schedule.start_time.tolist()
    assert set(table["state"].to_pylist()) <= {"completed", "killed"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["schedule.parquet"]


def test_a_plugin_brings_an_order(quickstart, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        textwrap.dedent(
            '''
            import gridtune as gt

            @gt.queue_order("cli-test-old-and-narrow")
            def old_and_narrow(job, weight=1.0):
                """Narrow jobs first, old ones soon."""
                return job.processors - weight * job.wait / 3600
            '''
        )
    )
    order = "cli-test-old-and-narrow(weight=2)"
    printed = json.loads(run(quickstart, "--plugin", plugin, "--order", order, "--json").stdout)
    assert printed["settings"]["order"] == order
    # A weight so large that only the wait counts is first come, first served.
    aged = run(quickstart, "--order", "cli-test-old-and-narrow(weight=1e9)", "--json").stdout
    fcfs = run(quickstart, "--order", "fcfs", "--json").stdout
    assert json.loads(aged)["metrics"] == json.loads(fcfs)["metrics"]


def test_bad_names_and_files_say_what_to_do(quickstart, tmp_path):
    with pytest.raises(SweepError, match="did you mean"):
        run(quickstart, "--order", "sjff")
    broken = tmp_path / "broken.swf"
    broken.write_text("1 0 -1 ten 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n")
    with pytest.raises(WorkloadError, match=r"broken.swf:1.*run_time"):
        run(broken)


def test_cleaning_is_reported(tmp_path):
    log = tmp_path / "cancelled.swf"
    ran, cancelled = (
        "1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1",
        "2 5 -1 -1 1 -1 -1 1 20 -1 5 1 1 1 1 1 -1 -1",
    )
    log.write_text(f"; MaxProcs: 4\n{ran}\n{cancelled}\n")
    printed = run(log)
    assert "cleaned: drop_never_started: 1\n" in printed.output
    assert json.loads(run(log, "--json").stdout)["jobs"] == 1


def test_pictures_are_drawn(quickstart, tmp_path):
    printed = run(
        quickstart, "--first", 60, "--plot", tmp_path / "use.png", "--gantt", tmp_path / "gantt.png"
    )
    assert printed.exit_code == 0
    for name in ("use.png", "gantt.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_lenient_rules_reach_the_reader(tmp_path):
    log = tmp_path / "wide.swf"
    wide, narrow = "1 0 -1 10 9 -1 -1 9 20 -1 1 1 1 1 1 1 -1 -1", "2 5 -1 5 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1"
    log.write_text(f"; MaxProcs: 4\n{wide}\n{narrow}\n")
    with pytest.raises(WorkloadError, match="wider than the machine"):
        run(log)
    assert json.loads(run(log, "--clean", "drop_wider", "--json").stdout)["cleaning"] == {"drop_wider": 1}


def test_a_negative_seed_is_refused(quickstart):
    refused = run(quickstart, "--seed", -1)
    assert refused.exit_code == 2
    assert "-1 is not in the range x>=0" in refused.output


def test_compiling_is_announced_only_when_something_compiles(quickstart, monkeypatch, tmp_path):
    text, real = "compiling the simulator: once", system.simulate
    assert run(quickstart, "--first", 10).exit_code == 0
    assert text not in run(quickstart, "--first", 10).output
    file = tmp_path / "fresh.py"  # no cache has it
    file.write_text("from numba import njit\n@njit(cache=True)\ndef kernel(x):\n    return x + 1\n")
    compiled = runpy.run_path(str(file))["kernel"]

    def compiling_at_first(workload, **settings):
        compiled(len(workload))
        return real(workload, **settings)

    monkeypatch.setattr(system, "simulate", compiling_at_first)
    assert run(quickstart, "--first", 10).output.count(text) == 1


def test_one_shaken_run_leads_to_sweeps_of_them(quickstart):
    once = run(quickstart, "--first", 300, "--shake", 9)
    assert "`replicates: {shakes: N}` gives intervals" in once.output
    assert run(quickstart, "--shake-by", 9).exit_code == 2


def test_its_options_are_the_parameters_of_a_cell(quickstart):
    options = {name for option in simulate.params for name in option.opts}
    assert not options & {"--order", "--load"}
    listed = run("--help").output
    for name in get_system("batch").Parameters.model_fields.keys() - {"trace"}:
        assert f"--{name.replace('_', '-')} " in listed
    chosen = {"order": "random", "part": "1/2", "walltime": "noise", "noise": 0.5, "kill": False}
    given = [text for name, value in chosen.items() if name != "kill" for text in (f"--{name}", value)]
    printed = json.loads(run(quickstart, *given, "--no-kill", "--seed", 7, "--json").stdout)
    cell = run_cell("batch", {"trace": quickstart, **chosen}, seed=7)
    assert printed["metrics"] == finite_json(dict(cell.outcome.metrics))


def test_what_the_log_says_and_is_ignored_is_said(tmp_path):
    log = tmp_path / "dependent.swf"
    first, second = (
        "1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1",
        "2 5 -1 9 1 -1 -1 1 20 512 1 1 1 1 1 2 1 3",
    )
    log.write_text(f"; MaxProcs: 4\n{first}\n{second}\n")
    ignored = (
        "dependencies, in 1 jobs; think times, in 1 jobs; partitions (2, pooled), in 2 jobs; "
        "memory, in 1 jobs (of the log's 2)"
    )
    assert f"ignored: {ignored}" in run(log).output
    notes = json.loads(run(log, "--json").stdout)["notes"]
    assert notes["ignored"] == ignored
    assert f"machine: {notes['machine']}" in run(log).output
    assert notes["machine"].startswith("nothing ever waits in this log on 4 processors")
    assert "warning: sjf cannot order jobs by walltime" in run(log, "--order", "sjf").output
