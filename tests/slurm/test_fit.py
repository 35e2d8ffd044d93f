"""Fitting a cluster to recorded waits: what may be known, what is made of it, and how near it comes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from matplotlib.figure import Figure

from gridtune.cli.main import cli
from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.comparison import Agreement, logged_jobs
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.forecast import known_at
from gridtune.slurm.replay import Phases, replay
from gridtune.slurm.requests import Request
from gridtune.slurm.study import Effective
from gridtune.study.advice import whatif
from gridtune.study.fitting import Fit, fit
from gridtune.workload import Workload, write_workload

CONF = """\
SelectType=select/cons_tres
NodeName=n[01-10] CPUs=4 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES
"""


@pytest.fixture
def cluster(tmp_path: Path) -> SlurmCluster:
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "scontrol_show_config.txt").write_text("SLURM_VERSION = 22.05.8\n")
    return read_cluster(tmp_path)


def log(**columns: list[int]) -> Workload:
    return Workload({name: np.array(column) for name, column in columns.items()})


def test_a_part_of_a_log_says_nothing_of_later() -> None:
    """One job has ended, one runs, one waits, one comes later."""
    whole = log(
        submit_time=[0, 10, 20, 500],
        wait_time=[5, 10, 200, 0],
        run_time=[50, 900, 77, 60],
        requested_time=[60, 1000, 1200, 60],
        requested_processors=[1, 1, 1, 1],
        state=[3, 4, 5, 6],
        end_time=[55, 920, 297, 560],
    )
    part = known_at(whole, 100)
    assert part.run_time.tolist() == [50, 80, 1200]
    assert part.wait_time.tolist() == [5, 10, -1]
    assert part.column("state").tolist() == [3, -1, -1]
    assert part.column("end_time").tolist() == [55, -1, -1]
    # Another future is not seen.
    other = {name: column.copy() for name, column in whole.columns.items()}
    other["run_time"][1:], other["wait_time"][2:] = 555, [333, 9]
    other["state"][1:], other["end_time"][1:] = 9, 9999
    changed = known_at(Workload(other), 100)
    assert all((changed.column(name) == part.column(name)).all() for name in part.columns)


def test_nodes_out_of_service_leave_room_for_the_widest_job(cluster: SlurmCluster) -> None:
    small = [Request(k, 0, 100, 200, partitions=("all",), tasks=4) for k in range(1, 11)]
    half, _ = Effective(nodes_in_service=0.5).applied(cluster, small)
    starts = replay(half, small, Phases()).start
    assert (starts < 100).sum() == 5
    wide = [*small, Request(11, 0, 100, 200, partitions=("all",), tasks=40, nodes=10)]
    whole, _ = Effective(nodes_in_service=0.5).applied(cluster, wide)
    assert replay(whole, wide, Phases()).start.min() >= 0


def test_waits_count_from_the_release_of_a_job(cluster: SlurmCluster) -> None:
    jobs = logged_jobs(
        log(
            submit_time=[0, 0],
            eligible_time=[0, 40],
            wait_time=[10, 100],
            run_time=[5, 5],
            requested_processors=[1, 1],
        ),
        cluster,
    )
    assert [request.submit for request in jobs.requests] == [0, 40]
    assert jobs.recorded.tolist() == [10, 60]


def test_errors_are_those_of_the_middle_draw() -> None:
    recorded = np.array([100, 200, 400, -1])
    waits = np.array([[100.0, 200, 500, 9], [100, 220, 400, 9], [110, 230, 600, 9]])
    agreement = Agreement.of(recorded, waits)
    assert (agreement.jobs, agreement.recorded_mean, agreement.recorded_median) == (3, 700 / 3, 200)
    assert agreement.median_error == 20
    assert agreement.mean_error == pytest.approx(waits[:, :3].mean() / (700 / 3) - 1)
    assert agreement.rank == pytest.approx(1)
    assert agreement.level == "signs only"
    assert Agreement.of(recorded, np.tile([101.0, 201, 401, 0], (3, 1))).level == "yes"
    assert Agreement.of(recorded, np.tile([400.0, 200, 100, 0], (3, 1))).level == "no"


def test_a_log_that_cannot_be_that_of_the_machine_is_named(cluster: SlurmCluster) -> None:
    """Jobs waited for hours on an idle machine, and asked for minutes in a column of seconds."""
    count = 60
    minutes = log(
        submit_time=[1000 * k for k in range(count)],
        wait_time=[25_000] * count,
        run_time=[600] * count,
        requested_time=[20] * count,
        requested_processors=[1] * count,
    )
    jobs = logged_jobs(minutes, cluster)
    reasons = " ".join(jobs.diagnoses(minutes, cluster.cpus, np.zeros((2, count))))
    assert "nothing ever waits here" in reasons
    assert "in minutes" in reasons
    waits = np.full((2, count), 900.0)
    assert "% used beside a wait of 6.9 h" in next(jobs.diagnoses(minutes, 40, waits))


def test_a_file_that_is_no_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fit.yaml"
    for text in ("settings: 3", "settings: {nodes_in_service: 0}", "settings: {nodes: 1}", "[", "other: 1"):
        path.write_text(text)
        with pytest.raises(WorkloadError, match=r"fit\.yaml"):
            Effective.read(path)
    path.write_text("settings: {nodes_in_service: 0.8, release_delay: 4}")
    assert Effective.read(path) == Effective(0.8, 4)


def test_settings_that_fit_the_searched_jobs_alone_are_dropped(
    tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    submit = np.cumsum(rng.integers(1, 90, 200))
    run = rng.integers(100, 900, 200)
    requests = [
        Request(k, int(submit[k]), int(run[k]), 1800, partitions=("all",), tasks=4) for k in range(len(run))
    ]
    start = replay(cluster, requests, Phases(7, 7, 7, 7)).start
    recorded = log(
        submit_time=submit.tolist(),
        wait_time=(start - submit).tolist(),
        run_time=run.tolist(),
        requested_time=[1800] * len(run),
        requested_processors=[4] * len(run),
    )
    found = {"nodes_in_service": 0.5, "release_delay": 0}, 3, (1.0, 0.5)
    monkeypatch.setattr("gridtune.study.fitting._search", lambda *_: found)
    result = fit(recorded, slurm=tmp_path, slurm_version="22.05", draws=2, out=tmp_path / "fit")
    assert result.settings == {"nodes_in_service": 1.0, "release_delay": 0}
    assert any(reason.startswith("fitted settings were dropped: on ") for reason in result.reasons)
    assert "fitted settings were dropped" in str(result.answer.trust)


def test_a_class_that_is_far_off_is_named_at_full_trust_too(
    tmp_path: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every job's wait is near but those of one user, who has a tenth of the jobs."""
    rng = np.random.default_rng(3)
    count, ann = 400, np.arange(400) % 10 == 0
    submit, run = np.cumsum(rng.integers(1, 90, count)), rng.integers(100, 900, count)
    requests = [
        Request(k, int(submit[k]), int(run[k]), 1800, partitions=("all",), tasks=4) for k in range(count)
    ]
    waits = replay(cluster, requests, Phases(7, 7, 7, 7)).start - submit
    assert waits.mean() > 600

    def fitted(wait: Any) -> Fit:
        recorded = Workload(
            {
                "submit_time": submit,
                "wait_time": wait.astype(np.int64),
                "run_time": run,
                "requested_time": np.full(count, 1800),
                "requested_processors": np.full(count, 4),
                "user": np.where(ann, 1, 2),
            },
            names={"user": {1: "ann", 2: "bob"}},
        )
        monkeypatch.setattr(
            "gridtune.study.fitting._search", lambda *_: (Effective().settings, 1, (1.0, 1.0))
        )
        whatif_log.append(recorded)
        return fit(recorded, slurm=tmp_path, slurm_version="22.05", draws=2, out=tmp_path / "fit")

    whatif_log: list[Workload] = []
    near, found = fitted(waits).answer, fitted(np.where(ann, waits / 1.6, waits))
    off = found.answer
    assert near.trust
    assert off.trust
    assert near.trust.level == off.trust.level == "yes"
    assert "ann" not in near.trust.reason
    assert "but not for all jobs" not in near.advice
    assert re.search(
        r"; farthest off: 16 jobs of user ann waited .* do not rely on effects on them", off.trust.reason
    )
    assert "is trusted, but not for all jobs: " in off.advice
    # The answers to a change have it, too.
    change = "bf_interval=120"
    changed = whatif(whatif_log[1], slurm=tmp_path, slurm_version="22.05", change=change, draws=2)
    answer = changed.answer
    assert answer.trust
    # Printed, both are their answers.
    assert str(found).startswith(f"{off.advice}\n  trust         yes: simulated waits match")
    assert str(found).endswith("% of the processors")
    assert str(changed).startswith(f"{answer.advice}\n  gain          mean wait ")
    assert "farthest off: 40 jobs of user ann waited" in answer.trust.reason


@pytest.mark.slow
def test_hidden_nodes_are_found(tmp_path: Path, cluster: SlurmCluster) -> None:
    """The log is of a cluster of six nodes, the slurm.conf has ten."""
    rng = np.random.default_rng(1)
    submit = np.cumsum(rng.integers(1, 160, 240))
    run = rng.integers(100, 2000, 240)
    requests = [
        Request(k, int(submit[k]), int(run[k]), 2 * int(run[k]), partitions=("all",), tasks=4)
        for k in range(len(run))
    ]
    six, _ = Effective(nodes_in_service=0.6).applied(cluster, requests)
    start = replay(six, requests, Phases(7, 7, 7, 7)).start
    recorded = log(
        submit_time=submit.tolist(),
        wait_time=(start - submit).tolist(),
        run_time=run.tolist(),
        requested_time=(2 * run).tolist(),
        requested_processors=[4] * len(run),
    )
    write_workload(recorded, tmp_path / "log.parquet")
    command = ["slurm", "fit", str(tmp_path / "log.parquet"), "--trials", "30", "--draws", "3", "--json"]
    out = tmp_path / "fit"
    result = CliRunner().invoke(
        cli, [*command, "--slurm", str(tmp_path), "--out", str(out)], catch_exceptions=False
    )
    report = json.loads(result.stdout)
    # Slow releases are nearly the same as fewer nodes.
    assert 0.5 < report["settings"]["nodes_in_service"] < 0.8
    assert report["trust"] == report["answer"]["trust"]["level"] == "yes"
    assert report["described"]["mean_error"] < -0.5
    assert (out / "fit.html").read_text().count("<img") == 1
    settings = Effective.read(out / "fit.yaml")
    assert settings.nodes_in_service == report["settings"]["nodes_in_service"]
    whatif = [
        "slurm",
        "whatif",
        str(tmp_path / "log.parquet"),
        "--slurm",
        str(tmp_path),
        "--fit",
        str(out / "fit.yaml"),
    ]
    answer = CliRunner().invoke(cli, [*whatif, "--draws", "2", "--change", "bf_interval=300", "--json"])
    everything = json.loads(answer.output)["classes"]["all jobs"]
    assert everything["simulated"] == pytest.approx(everything["recorded"], rel=0.1)
    study = tmp_path / "study.yaml"
    init = ["init", *whatif[2:], "--out", str(study)]
    assert CliRunner().invoke(cli, init, catch_exceptions=False).exit_code == 0
    fixed = yaml.safe_load(study.read_text())["fixed"]
    assert fixed["nodes_in_service"] == settings.nodes_in_service
    assert fixed["release_delay"] == settings.release_delay
    refused = CliRunner().invoke(cli, ["init", whatif[2], "--fit", str(out / "fit.yaml")])
    assert "go with --slurm" in refused.output


def test_waits_over_time_begin_with_the_first_job() -> None:
    submit = 10**6 + 3600 * np.arange(40)
    waits = 60.0 * np.arange(40)
    jobs = SimpleNamespace(requests=[SimpleNamespace(submit=one) for one in submit], recorded=waits)
    drawn: Any = SimpleNamespace(jobs=jobs, fitted=waits[None], described=waits[None], cut=submit[24])
    axes = Figure().add_subplot()
    Fit._over_time(drawn, axes)
    recorded = axes.lines[0]
    np.testing.assert_allclose(recorded.get_xdata(), np.arange(40) * 0.975 + 0.4875, atol=0.001)
    np.testing.assert_allclose(recorded.get_ydata(), waits / 3600)
    assert axes.lines[-1].get_xdata()[0] == 24
