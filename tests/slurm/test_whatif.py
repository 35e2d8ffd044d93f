"""Predictions of a changed configuration against what a real Slurm then did."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from gridtune.slurm.comparison import LoggedJobs, logged_jobs, replayed_waits
from gridtune.slurm.configuration import read_cluster
from gridtune.workload.files import WorkloadReference
from gridtune.workload.workload import Workload

pytestmark = pytest.mark.slow

#: What mean waits of the real Slurm's repeats differ by at most, twice; per cent.
REPEATS = {"mf1": 6, "bf1": 13, "wi_bf": 4, "fcfs1": 1}


def log_of(folder: Path) -> Workload:
    return WorkloadReference.parse(str(folder / "sacct_all.txt.xz")).read()


def described(folder: Path, target: Path) -> Path:
    """Return a folder with a run's configuration and the priorities of QOS, which only a later run wrote."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("events*", "golden*", "prio*", "sacct_*"))
    shutil.copy(folder.parent / "wi_bf" / "sacctmgr_qos.txt", target)
    return target


def recorded(run: Path, jobs: LoggedJobs) -> np.ndarray:
    """Return the waits of jobs in another run, by their numbers; -1 where that was cut before their start."""
    log = log_of(run)
    waits = np.where(log.column("run_time") >= 0, log.column("wait_time"), -1)
    by_number = dict(zip(log.column("job_id").tolist(), waits.tolist(), strict=True))
    return np.array([by_number[request.number] for request in jobs.requests])


@pytest.mark.parametrize("base", ["mf1", "bf1"])
def test_a_log_under_another_configuration_waits_as_that_run_did(golden_dir, tmp_path, base):
    runs = golden_dir / "slurm"
    if not all((runs / run).is_dir() for run in REPEATS):
        pytest.skip("no runs of a real Slurm")
    clusters = {run: read_cluster(described(runs / run, tmp_path / run)) for run in REPEATS}
    jobs = logged_jobs(log_of(runs / base), clusters[base])
    waits = {run: replayed_waits(cluster, jobs.requests, 20, 0) for run, cluster in clusters.items()}
    classes = {one.name: one.members for one in jobs.classes()}
    for run, repeats in REPEATS.items():
        real = recorded(runs / run, jobs)
        started = np.flatnonzero(real >= 0)
        predicted = waits[run][:, started].mean()
        assert predicted == pytest.approx(real[started].mean(), rel=repeats / 100), run
        if run != base:
            change = predicted - waits[base][:, started].mean()
            assert np.sign(change) == np.sign((real - jobs.recorded)[started].mean()), run
    if base == "mf1":
        # Small jobs double, and wide ones wait a little longer.
        change = {
            name: waits["wi_bf"][:, members].mean() / waits["mf1"][:, members].mean() - 1
            for name, members in classes.items()
        }
        assert change["1 to 2 processors"] == pytest.approx(1.1, abs=0.2)
        assert 0 < change["13 to 48 processors"] < 0.2
        assert 0.5 < change["all jobs"] < 0.75
