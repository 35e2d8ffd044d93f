"""Advice on a slurm.conf: a search, judged as a what-if, and never in contradiction to one."""

from __future__ import annotations

import html
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gridtune as gt
from gridtune.cli.main import cli
from gridtune.errors import WorkloadError
from gridtune.report.summarising import summarise
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.study import SETTINGS, _configured
from gridtune.study.advice import Site
from gridtune.study.run import FactsWriter
from gridtune.sweep.run import run_space
from gridtune.sweep.space.plan import plan_space
from gridtune.workload import Workload, write_workload

REPOSITORY = Path(__file__).resolve().parents[2]
CLUSTER = REPOSITORY / "tests/systems/slurm/cluster"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of what an operator has: without backfill, a node in ten is out of service."""
    folder = tmp_path_factory.mktemp("advice") / "site"
    example = REPOSITORY / "examples/slurm_log.py"
    subprocess.run([sys.executable, example, folder, "--jobs", "300"], check=True, capture_output=True)
    (folder / "fit.yaml").write_text("settings: {nodes_in_service: 0.9}\ntrust: 'yes'\n")
    return folder


def advised(folder: Path, out: Path, **options):
    options = {"trials": 12, "draws": 6, "executor": "inline", "fit": folder / "fit.yaml", **options}
    return gt.advise(folder / "sacct.txt", slurm=folder, out=out, **options)


def test_the_missing_backfill_is_found_and_is_the_whole_change(site, tmp_path):
    said: list[str] = []
    advice = advised(site, tmp_path, say=said.append)
    answer = advice.answer
    assert answer.trust.level == "yes"
    assert answer.advice.startswith("Make this change")
    assert answer.best == "SchedulerType=sched/backfill"
    assert advice.judged.difference == ["-SchedulerType=sched/builtin", "+SchedulerType=sched/backfill"]
    assert len(answer.lines) <= 11
    assert "(the search did not see them)" in answer.bounds[1]
    assert next(iter(advice.missing)) == "sacctmgr_qos.txt"
    assert said[0] == f"missing: `sacctmgr show qos -P > {site}/sacctmgr_qos.txt` writes it"
    page = advice.page.read_text()
    assert "+SchedulerType=sched/backfill" in page
    assert all(html.escape(command) in page for command in advice.missing.values())
    # The command that stores the prediction gives the same answer.
    command = answer.next_steps[-1].split("`")[1].split()[3:]
    command[command.index("change.json")] = str(tmp_path / "change.json")
    result = CliRunner().invoke(cli, ["slurm", "whatif", *command, "--draws", "6", "--json"])
    told = json.loads(result.output)
    assert told["gain"] + told["size"] == answer.gain + answer.size.partition("; most")[0]
    assert (tmp_path / "change.json").is_file()


def test_without_trust_nothing_is_searched_and_the_help_is_named(site, tmp_path):
    advice = advised(site, tmp_path, fit=None)
    assert advice.answer.advice.startswith("No answer")
    assert (advice.judged, advice.answer.gain) == (None, "")
    assert f"`gridtune slurm fit {site}/sacct.txt --slurm {site}`" in advice.answer.next_steps[-1]
    assert not (tmp_path / "search").exists()


def test_the_running_configuration_is_kept_where_nothing_waits(tmp_path):
    times = np.arange(60) * 9000
    one, zero = np.ones(60, np.int64), np.zeros(60, np.int64)
    log = Workload(
        {
            "submit_time": times,
            "wait_time": zero,
            "run_time": 600 * one,
            "requested_time": 900 * one,
            "requested_processors": one,
        }
    )
    write_workload(log, tmp_path / "sacct.parquet")
    command = [
        "slurm",
        "advise",
        str(tmp_path / "sacct.parquet"),
        "--slurm",
        str(CLUSTER),
        "--json",
        "--anyway",
    ]
    command += ["--slurm-version", "22.05.8", "--trials", "3", "--draws", "2", "--executor", "inline"]
    result = CliRunner().invoke(cli, [*command, "--out", str(tmp_path / "out")])
    told = json.loads(result.stdout)
    assert told["advice"].startswith("Not to be trusted. Keep the running configuration:")
    assert (told["slurm_conf"], told["best"], told["classes"]) == ([], "", {})
    assert told["missing"]["sacctmgr_qos.txt"].startswith("sacctmgr show qos -P > ")


def test_a_folder_without_a_conf_names_the_command(tmp_path):
    said: list[str] = []
    with pytest.raises(WorkloadError, match=r"slurm\.conf: no such file"):
        gt.advise("quickstart", slurm=tmp_path, slurm_version="22.05.8", out=tmp_path, say=said.append)
    assert said[0] == f"missing: `cat /etc/slurm/slurm.conf > {tmp_path}/slurm.conf` writes it"


@pytest.mark.slow
def test_a_sweep_and_a_whatif_never_contradict_each_other(tmp_path):
    """Every setting is changed alone."""
    log, draws = gt.read_workload("quickstart").first(200), 6
    write_workload(log, tmp_path / "log.parquet")
    now = _configured(read_cluster(CLUSTER))
    other = {
        name: 0 if name.startswith("weight_") and value else 10 * (value or 100)
        for name, value in now.items()
        if name != "scheduler"
    }
    other |= {"scheduler": "sched/builtin", "bf_resolution": 3600, "bf_max_job_user": 1}
    assert other.keys() == SETTINGS.keys()
    space = {
        "name": "each",
        "system": "slurm",
        "fixed": {"trace": str(tmp_path / "log.parquet"), "slurm": str(CLUSTER), "window_mode": "continuous"},
        "dimensions": {name: [now[name], value] for name, value in other.items()},
        "replicates": {"seeds": draws},
        "objective": "wait_mean",
        "baseline": now,
    }
    writer = FactsWriter()
    points = [now, *({**now, name: value} for name, value in other.items())]
    options = {"directory": tmp_path / "sweep", "executor": "inline"}
    swept = run_space(replace(plan_space(space), chosen=points), observers=[writer], **options)
    ranking = summarise(swept.table, writer.facts, swept.results).rankings["wait_mean"]
    (rows,) = ranking.strata.values()
    # What `gt.whatif` asks; one site replays the running configuration once.
    site, decided = Site(log, CLUSTER, "22.05.8", None), 0
    for name, value in other.items():
        (row,) = [row for row in rows if row[f"param.{name}"] == value and not row["is_baseline"]]
        told = site.whatif([f"{SETTINGS[name]}={value}"], draws=draws, seed=0, anyway=True)
        effect = told.effects["all jobs"]
        assert 1 + effect.relative == pytest.approx(1 + row["relative"], rel=0.15), name
        if row["relative"] != 0:
            # Beside the clocks, intervals of a sweep hold the differences between two runs, too.
            reaches = [
                math.log((1 + high) / (1 + relative))
                for relative, high in (
                    (row["relative"], row["relative_high"]),
                    (effect.relative, effect.high),
                )
            ]
            assert reaches[0] > 0.7 * reaches[1], name
        verdicts = {effect.effect, row["verdict"]}
        assert not verdicts >= {"better", "worse"}, name
        decided += "not sure" not in verdicts
    # Predictions cover how two runs of one Slurm differ: of a short log they decide little.
    assert decided >= 1
