"""The settings of a slurm.conf as the parameters of a sweep."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from click.testing import CliRunner

from gridtune.cli.main import cli
from gridtune.errors import GridtuneError, WorkloadError
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.study import _configured
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.slurm.system import _SlurmParameters
from gridtune.testing import SystemConformance
from gridtune.workload import Workload, write_workload

FOLDER = Path(__file__).parent / "cluster"
CONF = (FOLDER / "slurm.conf").read_text()
LOG = "quickstart"
CELL = {"trace": LOG, "slurm": str(FOLDER), "first": 600}


class TestSlurmSystem(SystemConformance):
    system = "slurm"
    example: ClassVar[dict[str, Any]] = {**CELL, "bf_interval": 60}


@cache
def wait_mean(**parameters: Any) -> float:
    return run_cell("slurm", {**CELL, **parameters}, seed=1).outcome.metrics["wait_mean"]


def test_what_is_left_open_is_that_of_the_conf() -> None:
    now = _configured(read_cluster(FOLDER))
    assert (now["bf_interval"], now["weight_age"], now["scheduler"]) == (45, 1000, "sched/backfill")
    written = {"bf_interval": 45, "default_queue_depth": 100, "weight_age": 1000}
    assert wait_mean(**written) == wait_mean()
    assert wait_mean(bf_interval=1800) > wait_mean()
    assert wait_mean(changes="SchedulerParameters=bf_interval=1800") == wait_mean(bf_interval=1800)


class TestSlurmSystemWithAnOrder(SystemConformance):
    system = "slurm"
    example: ClassVar[dict[str, Any]] = {**CELL, "first": 200, "order": "saf", "guard": 3600}


@pytest.mark.slow
def test_an_order_takes_the_place_of_the_priority() -> None:
    assert wait_mean(order="sjf") == wait_mean(order="walltime") < wait_mean() < wait_mean(order="ljf")
    assert wait_mean(order="sjf", guard=0) == wait_mean(order="fcfs")
    # The weights of the priority decide nothing any more.
    assert wait_mean(order="sjf", weight_age=9) == wait_mean(order="sjf")


class TestSlurmSystemWithARollout(SystemConformance):
    system = "slurm"
    example: ClassVar[dict[str, Any]] = {**CELL, "first": 60, "order": "rollout(moves=5)", "guard": 3600}


@pytest.mark.slow
def test_a_rollout_chooses_among_its_portfolio() -> None:
    def wait(order, first=60, **parameters):
        return wait_mean(order=order, first=first, **parameters)

    assert wait("rollout(window=120, portfolio=sjf)") == wait("sjf")
    assert wait("rollout(portfolio=sjf | ljf)", first=120) < wait("sjf", first=120)
    assert wait("rollout", guard=0) == wait("fcfs") != wait("sjf")


def test_parameters_of_a_rollout_are_written_in_one_way() -> None:
    cell = _SlurmParameters(**CELL, order="rollout( moves = 60 , window=64)")
    assert cell.order == "rollout(moves=60)"


def test_a_function_of_ones_own_is_an_order() -> None:
    def reversed_sjf(job, factor=1.0):
        return -factor * job.walltime

    name = _SlurmParameters.register_function("order", reversed_sjf)
    assert wait_mean(order=f"{name}(factor=2)") == wait_mean(order="ljf")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({"order": "rollout(durations=predicted)"}, "durations=predicted: nothing there predicts run times"),
        ({"order": "rollout(portfolio=saf | random)"}, "order 'random' may read more of a job"),
        ({"order": "rollout(objective=waits)"}, "rollouts have no objective 'waits' .did you mean 'wait'"),
        ({"order": "rollout(depth=3)"}, "a rollout has no parameter 'depth'"),
        ({"order": "fair-user"}, "order 'fair-user' may read more of a job than its request and its wait"),
        ({"order": "random"}, "may read more of a job"),
        ({"order": "wait * prediction"}, "may read more of a job"),
        ({"order": "safe"}, "no queue order is named 'safe' .did you mean 'saf'"),
        ({"guard": 60}, "guard has no effect with Slurm's own priority"),
        ({"bf_interval": 60, "changes": "bf_interval=300"}, "bf_interval and changes both set bf_interval"),
        ({"order": "1 / wait"}, "queue order '1 / wait' gives inf and no finite number .* for job"),
    ],
)
def test_an_order_that_does_not_score_jobs_on_nodes_is_refused(cell, message) -> None:
    with pytest.raises(GridtuneError, match=message):
        run_cell("slurm", {**CELL, **cell}, seed=1)


def test_init_writes_a_study_whose_baseline_is_what_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["init", LOG, "--slurm", str(FOLDER), "--out", "study.yaml"])
    assert result.exit_code != 0
    assert "--slurm-version" in result.output + str(result.exception)
    given = ["--slurm-version", "24.11.5"]
    result = CliRunner().invoke(cli, ["init", LOG, "--slurm", str(FOLDER), *given, "--out", "study.yaml"])
    assert result.exit_code == 0, result.output
    space = yaml.safe_load(Path("study.yaml").read_text())
    assert space["system"] == "slurm"
    assert space["fixed"]["slurm"] == str(FOLDER)
    assert space["fixed"]["slurm_version"] == "24.11.5"
    assert space["baseline"] == {
        "bf_interval": 45,
        "bf_window": 1440,
        "default_queue_depth": 100,
        "weight_age": 1000,
    }
    assert space["dimensions"]["bf_interval"] == [22, 45, 90]
    dry = CliRunner().invoke(cli, ["sweep", "study.yaml", "--dry-run"])
    assert dry.exit_code == 0, dry.output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("PartitionName=x Nodes=n[1-3]", r"slurm\.conf:10.*'n3', which no line describes"),
        ("PartitionName=x MaxTime=-5", r"slurm\.conf:10.*'-5' is no time"),
        ("Include gone.conf", r"slurm\.conf:10: includes .*gone\.conf, which is not there"),
        ("Include slurm.conf", r"slurm\.conf:10: includes slurm\.conf, which includes it"),
        ("SchedulerParameters=bf_interval=-1", r"slurm\.conf:10.*no whole number"),
    ],
)
def test_a_faulty_configuration_leaves_no_study(tmp_path, line, message) -> None:
    (tmp_path / "slurm.conf").write_text(CONF + line + "\n")
    out = tmp_path / "study.yaml"
    with pytest.raises(WorkloadError, match=message):
        CliRunner().invoke(
            cli,
            ["init", LOG, "--slurm", str(tmp_path), "--slurm-version", "22.05", "--out", str(out)],
            catch_exceptions=False,
        )
    assert not out.exists()


def test_a_log_that_cannot_run_on_the_cluster_is_refused(tmp_path) -> None:
    log = Workload({"submit_time": [0], "run_time": [9], "requested_processors": [999]})
    write_workload(log, tmp_path / "wide.swf")
    with pytest.raises(GridtuneError, match="no job that this cluster could run"):
        run_cell("slurm", {"trace": str(tmp_path / "wide.swf"), "slurm": str(FOLDER)}, seed=1)


def test_results_name_the_jobs_that_a_cluster_could_not_run(tmp_path) -> None:
    sizes = [1, 999, 1, 1]
    jobs = {"submit_time": [0, 1, 2, 3], "run_time": [9] * 4, "requested_processors": sizes}
    write_workload(Workload({**jobs, "requested_time": [60] * 4}), tmp_path / "wide.swf")
    cell = {"trace": str(tmp_path / "wide.swf"), "slurm": str(FOLDER)}
    # The second window has no such job; results of one log have one remark.
    for window in ({}, {"window": "1/2"}, {"window": "2/2"}):
        notes = run_cell("slurm", {**cell, **window}, seed=1).outcome.notes
        assert "1 jobs left out: more than the cluster could ever hold" in notes["ignored"]


def test_configurations_are_compared_on_the_same_jobs(tmp_path) -> None:
    nodes = "SelectType=select/cons_tres\nNodeName=n[1-2] CPUs=4\nPartitionName=all Nodes=ALL\n"
    (tmp_path / "slurm.conf").write_text(nodes)
    jobs = {"submit_time": [0, 1, 2], "run_time": [90] * 3, "requested_processors": [2, 4, 16]}
    write_workload(Workload({**jobs, "requested_time": [120] * 3}), tmp_path / "log.swf")
    cell = {"trace": str(tmp_path / "log.swf"), "slurm": str(tmp_path)}
    larger = "NodeName=n3 CPUs=16; PartitionName=all Nodes=n[1-3]"
    for changes in ({}, {"changes": larger}):
        outcome = run_cell("slurm", {**cell, **changes}, seed=1).outcome
        assert outcome.metrics["jobs"] == 2
        assert "1 jobs left out: more than the cluster could ever hold" in outcome.notes["ignored"]
    for changes in ("NodeName=n[1-2] CPUs=2", "PartitionName=all MaxTime=1"):
        with pytest.raises(GridtuneError, match=r"after .*=\d+, [12] jobs of partition all could"):
            run_cell("slurm", {**cell, "changes": changes}, seed=1)


def test_jobs_that_are_suspended_count_as_such(tmp_path) -> None:
    rules = "SelectType=select/cons_tres\nPreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\n"
    rules += "NodeName=n1 CPUs=8\n"
    partitions = [f"PartitionName={tier} Nodes=ALL PriorityTier={tier}\n" for tier in (1, 2)]
    (tmp_path / "slurm.conf").write_text(rules + "".join(partitions))
    jobs = {
        "submit_time": [0, 100],
        "run_time": [500, 50],
        "requested_processors": [8, 8],
        "partition": [1, 2],
    }
    write_workload(Workload(jobs), tmp_path / "log.swf")
    cell = {"trace": str(tmp_path / "log.swf"), "slurm": str(tmp_path)}
    outcome = run_cell("slurm", cell, seed=1).outcome
    assert outcome.notes["suspended"] == {"jobs": 1, "times": 1, "seconds": 50}
    assert outcome.metrics["wait_max"] <= 3
    assert outcome.metrics["response_max"] == pytest.approx(550, abs=3)
    assert outcome.metrics["utilisation"] == pytest.approx(550 / outcome.metrics["makespan"])
    assert outcome.metrics["killed_jobs"] == 0
