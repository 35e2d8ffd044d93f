"""`scripts/slurm_submit` and array jobs, under a real Slurm of the test's own."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.run import run_space
from tests.integration.processes import wait_for
from tests.integration.slurm import Slurm, own_slurm, why_not
from tests.sweep.spaces import content, runs_in, toy_space

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.timeout(1800)]

CELLS = 150


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with own_slurm() as own:
        yield own


def written(path: Path, **changes: object) -> Path:
    path.write_text(yaml.safe_dump(toy_space(**changes)))
    return path


@pytest.mark.slow
def test_a_job_whose_time_is_up_goes_on_as_the_same_job(
    slurm: Slurm, repository: Path, tmp_path: Path
) -> None:
    notebook = tmp_path / "notebook"
    notebook.mkdir()
    changes = {"dimensions": {"x": list(range(CELLS))}, "replicates": {"seeds": 1}}
    space = written(tmp_path / "toys.yaml", fixed={"nap": 0.1, "notebook": str(notebook)}, **changes)
    submit = [str(repository / "scripts" / "slurm_submit"), str(space), "--nodes", "2", "--time", "30"]
    job = slurm.run(*submit, "--cpus", "1", "--no-tracking", cwd=tmp_path)
    out = tmp_path / "results" / "toys"
    journal = out / "journal.jsonl"

    def output() -> str:
        return "\n".join(log.read_text(errors="replace") for log in out.glob("slurm-*.log"))

    wait_for("the first cells", lambda: len(read_journal(journal)) >= 20)
    # What Slurm sends by itself some minutes before the limit.
    slurm.run("scancel", "--batch", "--signal=USR1", job)

    def requeued() -> bool:
        facts = slurm.job(job)
        return facts.get("Restarts") == "1" and facts["JobState"] == "PENDING"

    wait_for("the requeue", requeued)
    kept = read_journal(journal)
    before = runs_in(notebook)
    assert 20 <= len(kept) < CELLS, output()
    assert "stopped before the time limit; queued again" in output()
    wait_for("the end", lambda: slurm.job(job)["JobState"] not in {"PENDING", "RUNNING", "COMPLETING"})
    assert slurm.job(job)["JobState"] == "COMPLETED", output()
    assert "queued again" in output()
    # Nothing lost, nothing of the journal run again, and the table of an undisturbed run.
    runs = runs_in(notebook)
    finished = [f"{result.parameters['x']:g}-a-good-None" for result in kept.values()]
    best = {"3-a-good-None"}  # its artefacts are made for the report
    assert {name for name in finished if runs[name] != before[name]} <= best
    undisturbed = run_space(space, directory=tmp_path / "undisturbed", executor="inline")
    assert content(pq.read_table(out / "results.parquet")) == content(undisturbed.table)
    assert not list(Path("/tmp").glob(f"gt-ray-{job}-*"))


def test_an_array_job_needs_no_ray(slurm: Slurm, repository: Path, tmp_path: Path) -> None:
    space = written(tmp_path / "toys.yaml")
    gridtune = f"PYTHONPATH={shlex.quote(str(repository))} {sys.executable} -m gridtune"
    command = (
        f"{gridtune} sweep {space} --shard $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT --executor inline"
    )
    batch = ["sbatch", "--wait", "--parsable", "--array=1-3", "--wrap", command]
    slurm.run(*batch, cwd=tmp_path)
    shards = sorted((tmp_path / "results" / "toys" / "shards").iterdir())
    assert len(shards) == 3
    merge = [sys.executable, "-m", "gridtune", "merge", *map(str, shards), "--out", "merged", "--no-tracking"]
    merged = subprocess.run(merge, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert merged.returncode == 0, merged.stderr
    undivided = run_space(space, directory=tmp_path / "undivided", executor="inline")
    assert content(pq.read_table(tmp_path / "merged" / "results.parquet")) == content(undivided.table)


def submit(repository: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(repository / "scripts" / "slurm_submit"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_script_says_what_the_job_is(repository: Path, tmp_path: Path) -> None:
    space, out = written(tmp_path / "toys.yaml"), tmp_path / "with space"
    options = ["--nodes", 4, "--time", "4:00:00", "--stop-before", 300, "--sbatch=--partition=long"]
    done = submit(repository, space, *options, "--out", out, "--workers", 64, "--write-only")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(out / "slurm.sbatch")
    script = (out / "slurm.sbatch").read_text()
    for option in (
        "--job-name=gridtune-toys",
        "--nodes=4",
        "--time=4:00:00",
        "--signal=B:USR1@300",
        "--requeue",
        "--exclusive",
        "--partition=long",
    ):
        assert f"#SBATCH {option}\n" in script
    (command,) = [line for line in script.splitlines() if line.startswith("exec ")]
    words = shlex.split(command)
    assert words[1] == str(repository / "scripts" / "slurm_job")
    assert words[3:] == [str(space), str(out), "--workers", "64"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "scripts/slurm_submit SPACE"),
        (("SPACE", "--time", "1"), "--nodes needs a number"),
        (("SPACE", "--nodes", "2"), "--time is missing"),
        (("SPACE", "--nodes", "two", "--time", "1"), "--nodes needs a number, but got 'two'"),
        (("SPACE", "--nodes"), "--nodes needs a value"),
        (("no.yaml", "--nodes", "2", "--time", "1", "--write-only"), "no search space at no.yaml"),
        (("BROKEN", "--nodes", "2", "--time", "1", "--write-only"), "unknown key"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_queued(
    repository: Path, tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    paths = {"SPACE": written(tmp_path / "a.yaml"), "BROKEN": written(tmp_path / "b.yaml", dimension={})}
    refused = submit(repository, *(paths.get(argument, argument) for argument in arguments))
    assert refused.returncode == 2
    assert expected in refused.stderr
    assert not (tmp_path / "results").exists()
