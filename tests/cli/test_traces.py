"""`gridtune traces`: what a user types and reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridtune.cli.traces import traces
from gridtune.errors import GridtuneError
from gridtune.workload import read_workload
from gridtune.workload.catalogue import CATALOGUE, bundled_traces

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("GRIDTUNE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRIDTUNE_TRACE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(traces, list(words))

    return invoke


@pytest.mark.parametrize(
    "command", [[], ["list"], ["describe"], ["import"], ["convert"], ["generate"], ["fetch"]]
)
def test_help_teaches(run: Run, command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    if command != ["list"]:
        examples = result.output.partition("Examples:\n")[2]
        assert "gridtune traces" in examples.splitlines()[0]


def test_list(run: Run) -> None:
    result = run("list")
    assert result.exit_code == 0
    for name in (*bundled_traces(), *CATALOGUE, "lublin", "sessions", "poisson"):
        assert name in result.output


def test_list_json(run: Run) -> None:
    listing = json.loads(run("list", "--json").output)
    assert set(listing["bundled"]) == set(bundled_traces())
    assert {"swf", "gwf", "batsim", "parquet", "csv"} <= set(listing["formats"])
    kth = next(log for log in listing["logs"] if log["name"] == "kth-sp2")
    assert kth["path"] is None
    assert kth["jobs"] == 28_476
    assert set(listing["generators"]) == {"egee", "grid5000", "lublin", "poisson", "sessions"}


def test_describe(run: Run) -> None:
    result = run("describe", "quickstart")
    assert result.exit_code == 0, result.output
    assert "5,000" in result.output
    assert "256 processors" in result.output
    assert "0.850" in result.output


def test_describe_json(run: Run) -> None:
    result = run("describe", "quickstart", "--json", "--processors", "512")
    statistics = json.loads(result.output)
    assert statistics["jobs"] == 5000
    assert statistics["offered_load"] == pytest.approx(0.425, rel=0.01)
    assert statistics["recorded_utilisation"] is None


def test_describe_what_is_not_there(run: Run) -> None:
    result = run("describe", "quikstart")
    assert isinstance(result.exception, GridtuneError)
    assert "did you mean 'quickstart'" in str(result.exception)


@pytest.mark.parametrize("target", ["q.swf", "q.swf.xz", "q.csv", "q.parquet"])
def test_convert(run: Run, target: str, tmp_path: Path) -> None:
    result = run("convert", "quickstart", target)
    assert result.exit_code == 0, result.output
    assert "5,000 jobs" in result.output
    there, here = read_workload(tmp_path / target), read_workload(bundled_traces()["quickstart"])
    for column in ("submit_time", "run_time", "requested_time", "processors", "user"):
        assert (getattr(there, column) == getattr(here, column)).all()


DUMP = """JobID|User|Account|Partition|Submit|Start|End|Timelimit|ReqCPUS|State
1|ann|physics|cpu|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T09:00:00|02:00:00|8|COMPLETED
1.batch||physics||2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T09:00:00||8|COMPLETED
2|bob|physics|gpu|2024-03-01T08:05:00|2024-03-01T08:06:00|2024-03-01T08:07:00|01:00:00|16|FAILED
"""


def test_import(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dump.txt").write_text(DUMP)
    conf = "NodeName=n[1-4] CPUs=32\nPartitionName=cpu Nodes=n[1-3]\nPartitionName=gpu Nodes=n4\n"
    (tmp_path / "slurm.conf").write_text(conf)
    result = run("import", "dump.txt", "mine.parquet", "--slurm-conf", "slurm.conf")
    assert result.exit_code == 0, result.output
    assert "2 jobs" in result.output
    assert "machine: 128 processors" in result.output
    assert "note: 1 steps of jobs left out" in result.output
    log = read_workload(tmp_path / "mine.parquet")
    assert log.machine_processors == 128
    assert log.names["user"] == {1: "ann", 2: "bob"}
    assert log.for_partition("cpu").machine_processors == 96
    refused = run("import", "dump.txt", "mine.parquet")
    assert refused.exit_code == 2
    assert "mine.parquet exists; --force replaces it" in refused.output


def test_import_keeps_gpus(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dump.txt").write_text(DUMP)
    (tmp_path / "slurm.conf").write_text("NodeName=n[1-4] CPUs=32 Gres=gpu\nPartitionName=cpu Nodes=n[1-3]\n")
    (tmp_path / "gpus.conf").write_text("Name=gpu Type=a100 Count=4\n")
    machine = ("--slurm-conf", "slurm.conf", "--gres-conf", "gpus.conf")
    result = run("import", "dump.txt", "mine.parquet", *machine)
    assert result.exit_code == 0, result.output
    assert "GPUs: 12 a100" in result.output
    assert read_workload(tmp_path / "mine.parquet").header["PartitionProcs"] == ("1 96",)
    # A table that counts its nodes gets its machine in nodes.
    (tmp_path / "nodes.csv").write_text("Submit,Start,End,NNodes,Partition\n0,1,2,2,cpu\n3,4,5,1,cpu\n")
    assert (
        "machine: 3 processors"
        in run("import", "nodes.csv", "n.parquet", "--slurm-conf", "slurm.conf").output
    )
    refused = run("import", "dump.txt", "other.parquet", "--gres-conf", "gpus.conf")
    assert "--gres-conf goes with --slurm-conf" in refused.output


def test_a_format_can_be_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dump").write_text(DUMP.replace("JobID", "JobIDRaw"))
    assert run("convert", "dump", "mine.parquet", "--format", "sacct").exit_code == 0
    assert len(read_workload(tmp_path / "mine.parquet")) == 2
    assert run("describe", "dump", "--format", "sacct", "--json").exit_code == 0


def test_import_says_who_nobody_was(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dump.txt").write_text(DUMP)
    result = run("import", "dump.txt", "mine.parquet", "--anonymise", "--processors", "64")
    assert result.exit_code == 0, result.output
    content = (tmp_path / "mine.parquet").read_bytes()
    assert not any(name in content for name in (b"ann", b"bob", b"physics"))
    log = read_workload(tmp_path / "mine.parquet")
    assert log.user.tolist() == [1, 2]
    assert log.names["partition"] == {1: "cpu", 2: "gpu"}
    assert log.machine_processors == 64


def test_import_of_a_table(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("When,Secs,Cores\n2024-05-01T10:00,60,4\n")
    result = run("import", "jobs.csv", "j.parquet", "--columns", "submit=When,elapsed=Secs,processors=Cores")
    assert result.exit_code == 0, result.output
    assert "no job has a walltime" in result.output


def test_nothing_is_overwritten_unasked(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "mine.swf"
    target.write_text("precious")
    for words in (["convert", "quickstart", "mine.swf"], ["generate", "lublin", "mine.swf", "jobs=5"]):
        result = run(*words)
        assert result.exit_code == 2
        assert "mine.swf exists; --force replaces it" in result.output
        assert target.read_text() == "precious"
    assert run("convert", "quickstart", "mine.swf", "--force").exit_code == 0
    assert len(read_workload(target)) == 5000


def test_generate(run: Run, tmp_path: Path) -> None:
    result = run("generate", "lublin", "mine.swf.gz", "jobs=50", "seed=3", "processors=64", "load=0.5")
    assert result.exit_code == 0, result.output
    workload = read_workload(tmp_path / "mine.swf.gz")
    assert (len(workload), workload.machine_processors) == (50, 64)


def test_generate_show(run: Run) -> None:
    result = run("generate", "sessions", "--show")
    assert result.exit_code == 0
    assert "think_time" in result.output
    assert "Defaults: processors=128" in result.output


def test_generate_needs_a_target(run: Run) -> None:
    result = run("generate", "lublin")
    assert result.exit_code == 2
    assert "Missing argument 'TARGET'" in result.output


@pytest.mark.parametrize("parameters", [["jobs=zero"], ["load=-1"], ["laod=1"]])
def test_generate_nothing_from_bad_parameters(run: Run, parameters: list[str], tmp_path: Path) -> None:
    result = run("generate", "lublin", "mine.swf.gz", *parameters)
    assert isinstance(result.exception, GridtuneError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.real_traces
def test_fetch_from_a_mirror(run: Run, trace_dir: Path, tmp_path: Path) -> None:
    result = run("fetch", "kth-sp2", "--mirror", str(trace_dir))
    assert result.exit_code == 0, result.output
    path = Path(result.stdout.strip())
    assert path.parent == tmp_path / "cache"
    assert "Lars Malinowsky" in result.stderr
    assert "NOT VERIFIED" not in result.stderr
    assert json.loads(run("describe", "kth-sp2", "--json").output)["jobs"] == 28_476


def test_fetch_unverified_says_so(run: Run, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "HPC2N-2002-2.2-cln.swf.gz").write_bytes(bundled_traces()["mm4"].read_bytes())
    refused = run("fetch", "hpc2n", "--mirror", str(mirror))
    assert "--unverified" in str(refused.exception)
    result = run("fetch", "hpc2n", "--mirror", str(mirror), "--unverified")
    assert result.exit_code == 0
    assert "NOT VERIFIED" in result.stderr
