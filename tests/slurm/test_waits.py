"""Predicted starts of pending jobs: what is read, what may be known, and what is drawn."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gridtune.cli.main import cli
from gridtune.errors import WorkloadError
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.forecast import Past, forecast
from gridtune.slurm.queue import read_queue
from gridtune.slurm.requests import Request

CONF = """\
SelectType=select/cons_tres
NodeName=n[1-2] CPUs=4 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES
"""
HEAD = (
    "JOBID|PARTITION|USER|ACCOUNT|QOS|STATE|SUBMIT_TIME|START_TIME|TIME|TIME_LIMIT|CPUS|NODES|MIN_MEMORY"
    "|TRES_PER_NODE|FEATURES|NODELIST|REASON\n"
)
RUNS = (
    "7|all|u|a|normal|RUNNING|2026-01-05T00:00:00|2026-01-05T01:00:00|30:00|1:00:00|4|1"
    "|10M|N/A|(null)|n1|None"
)
RUNS_TOO = RUNS.replace("7|", "8|", 1).replace("n1", "n2")
WAITS = "9_2|all|v|b|normal|PENDING|2026-01-05T00:10:00|N/A|0:00|20:00|8|2|10M|N/A|(null)||Priority"
HELD = "10|all|v|b|normal|PENDING|2026-01-05T00:10:00|N/A|0:00|20:00|8|2|10M|N/A|(null)||JobHeldUser"
SACCT = """\
JobID|User|Account|Partition|QOS|Submit|Start|End|State|AllocCPUS|ReqCPUS|AllocNodes|TimelimitRaw
1|u|a|all|normal|2026-01-04T00:00:00|2026-01-04T00:00:00|2026-01-04T00:45:00|COMPLETED|4|4|1|60
2|u|a|all|normal|2026-01-04T01:00:00|2026-01-04T01:00:00|2026-01-04T01:45:00|COMPLETED|4|4|1|60
3|u|a|all|normal|2026-01-05T01:00:00|2026-01-05T01:10:00|2026-01-05T09:00:00|COMPLETED|4|4|1|600
"""


@pytest.fixture
def cluster(tmp_path: Path) -> SlurmCluster:
    (tmp_path / "slurm.conf").write_text(CONF)
    (tmp_path / "scontrol_show_config.txt").write_text("SLURM_VERSION = 22.05.8\n")
    (tmp_path / "sacctmgr_qos.txt").write_text("Name|Priority\nnormal|0\n")
    return read_cluster(tmp_path)


def written(folder: Path, *lines: str) -> Path:
    path = folder / "squeue.txt"
    path.write_text(HEAD + "".join(f"{line}\n" for line in lines))
    return path


def test_squeue_is_read(tmp_path: Path, cluster: SlurmCluster) -> None:
    ends = RUNS.replace("7|", "11|", 1).replace("RUNNING", "COMPLETING")
    path = written(tmp_path, RUNS, RUNS_TOO, WAITS, HELD, ends)
    queue = read_queue(path, cluster)
    packed = path.with_suffix(".txt.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_queue(packed, cluster) == queue
    (job,) = queue.pending
    assert queue.held == {"JobHeldUser": 1, "COMPLETING": 1}
    assert (job.cpus, job.nodes, job.memory, job.time_limit) == (8, 2, 10, 1200)
    (_, start, nodes), _ = queue.running
    assert nodes == (0,)
    assert queue.now - start == 1800


def test_a_job_whose_nodes_boot_has_them(tmp_path: Path, cluster: SlurmCluster) -> None:
    boots = RUNS_TOO.replace("RUNNING", "CONFIGURING")
    assert len(read_queue(written(tmp_path, RUNS, boots, WAITS), cluster).running) == 2


@pytest.mark.parametrize("hours", [-30, 22])
def test_another_instant_than_that_of_squeue_is_refused(
    tmp_path: Path, cluster: SlurmCluster, hours: int
) -> None:
    path = written(tmp_path, RUNS, WAITS)
    now = read_queue(path, cluster).now
    assert read_queue(path, cluster, now + 30).now == now + 30
    with pytest.raises(WorkloadError, match=r"is not when squeue ran: .* until 2026-01-05T01:30:00"):
        read_queue(path, cluster, now + hours * 3600)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (WAITS[:40], r"squeue\.txt:3: has \d of 17 columns: the file is cut off"),
        (WAITS.replace("all", "gone"), r"squeue\.txt:3, field PARTITION: no partition 'gone'"),
        (RUNS.replace("n1", "n9"), r"squeue\.txt:3, field NODELIST: no node 'n9'"),
        (WAITS.replace("|8|2|", "|80|2|"), r"squeue\.txt:3.* can hold it"),
        (WAITS.replace("|normal|", "|gone|"), r"squeue\.txt:3, field QOS: no QOS 'gone'(.|\n)*has normal"),
        (RUNS.replace("|n1|", "||"), r"squeue\.txt:3, field NODELIST: no nodes"),
        (WAITS.replace("|8|2|", "|-8|2|"), r"squeue\.txt:3, field CPUS: '-8' is no whole number"),
        (WAITS.replace("20:00", "soon"), r"squeue\.txt:3, field TIME_LIMIT: 'soon' is no time"),
        (WAITS.replace("2026-01-05T00:10:00", "now"), r"squeue\.txt:3, field SUBMIT_TIME"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, cluster: SlurmCluster, line: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        read_queue(written(tmp_path, RUNS, line), cluster)


def test_the_past_decides_when_a_job_starts(tmp_path: Path, cluster: SlurmCluster) -> None:
    """Jobs of u ran three quarters of their limits; both that run end after 45 of 60 minutes."""
    (tmp_path / "sacct.txt").write_text(SACCT)
    command = [
        "slurm",
        "waits",
        "--squeue",
        str(written(tmp_path, RUNS, RUNS_TOO, WAITS)),
        "--slurm",
        str(tmp_path),
    ]
    command += ["--log", str(tmp_path / "sacct.txt"), "--draws", "10", "--json"]
    report = json.loads(CliRunner().invoke(cli, command, catch_exceptions=False).output)
    (row,) = report["pending"]
    assert report["now"] == "2026-01-05T01:30:00"
    assert row["job"] == "9_2"
    assert "2026-01-05T01:45:00" <= row["from"] <= row["to"] <= "2026-01-05T01:47:00"
    # What happens after now makes no difference.
    later = SACCT.replace("09:00:00", "03:00:00") + SACCT.splitlines()[-1].replace("3|u", "4|u").replace(
        "-05T01", "-05T02"
    )
    (tmp_path / "sacct.txt").write_text(later + "\n")
    assert json.loads(CliRunner().invoke(cli, command, catch_exceptions=False).output) == report


def test_a_fit_without_trust_predicts_no_starts(tmp_path: Path, cluster: SlurmCluster) -> None:
    fit = tmp_path / "fit.yaml"
    fit.write_text("settings: {nodes_in_service: 1.0, release_delay: 0}\ntrust: 'no'\n")
    command = ["slurm", "waits", "--squeue", str(written(tmp_path, RUNS, WAITS)), "--slurm", str(tmp_path)]
    command += ["--fit", str(fit), "--draws", "2", "--json"]
    refused = CliRunner().invoke(cli, command)
    assert "starts cannot be predicted" in str(refused.exception)
    report = json.loads(CliRunner().invoke(cli, [*command, "--anyway"], catch_exceptions=False).output)
    assert report["trust"]["level"] == "no"
    assert len(report["pending"]) == 1


def test_run_times_of_what_runs_and_waits_are_not_looked_at(cluster: SlurmCluster) -> None:
    ended = [Request(k, 0, 50 * k, 1000, user="u", partitions=("all",)) for k in range(1, 9)]
    job = Request(20, 500, 7, 1000, user="u", partitions=("all",), tasks=8, nodes=2)
    running = [(Request(k, 0, 7, 1000, user="u", partitions=("all",), tasks=4), 900, (k,)) for k in (0, 1)]

    def starts(pending: list[Request], busy: list[tuple[Request, int, tuple[int, ...]]]) -> np.ndarray:
        return forecast(cluster, pending, busy, Past(1000, ended), draws=4, seed=0)

    one = starts([job], running)
    other = starts([replace(job, run_time=999)], [(replace(r, run_time=9999), s, n) for r, s, n in running])
    assert (one == other).all()
    assert len(np.unique(one)) > 1


def test_later_jobs_come_until_the_last_one_has_started(tmp_path: Path) -> None:
    """Jobs of a higher tier always hold a node, so that one that needs both waits as long as they come."""
    (tmp_path / "slurm.conf").write_text(CONF + "PartitionName=top Nodes=ALL PriorityTier=2\n")
    cluster = read_cluster(tmp_path)
    past = [Request(k, 500 * k, 600, 600, partitions=("top",), tasks=4) for k in range(1, 41)]
    ended = [one for one in past if one.submit < 19_000]
    job = Request(99, 19_900, 0, 600, partitions=("all",), tasks=8, nodes=2)
    busy = [(Request(98, 19_000, 0, 7000, partitions=("all",), tasks=4), 19_500, (0,))]
    starts = forecast(cluster, [job], busy, Past(20_000, ended, past), draws=5, seed=0)
    assert starts.min() > 35_000


def test_jobs_that_still_run_say_that_jobs_run_long(cluster: SlurmCluster) -> None:
    """Five jobs ended at a tenth of their limit, five run beyond the half: half of the next ones are long."""
    kind = Request(0, 0, 100, 1000, user="u", partitions=("all",))
    ended = [replace(kind, number=k) for k in range(1, 6)]
    busy = [(replace(kind, number=k, run_time=0), 500, (k % 2,)) for k in range(6, 11)]
    first, second = (replace(kind, number=k, submit=900, tasks=8, nodes=2) for k in (20, 21))
    starts = forecast(cluster, [first, second], busy, Past(1000, ended), draws=40, seed=0)
    long = starts[:, 1] - starts[:, 0] > 500
    assert 0.25 < long.mean() < 0.75


def test_a_lull_may_last(tmp_path: Path) -> None:
    """Nothing came in the second half of the past: in most draws, not in all, nothing comes for a while."""
    (tmp_path / "slurm.conf").write_text(CONF + "PartitionName=top Nodes=ALL PriorityTier=2\n")
    cluster = read_cluster(tmp_path)
    past = [Request(k, 500 * k, 600, 600, partitions=("top",), tasks=4) for k in range(1, 21)]
    job = Request(99, 19_900, 0, 600, partitions=("all",), tasks=8, nodes=2)
    busy = [(Request(98, 19_000, 0, 1200, partitions=("all",), tasks=4), 19_500, (0,))]
    starts = forecast(cluster, [job], busy, Past(20_000, past, past), draws=40, seed=0)
    assert 0.65 < (starts < 21_300).mean() < 1
