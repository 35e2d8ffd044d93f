"""`scripts/submit` against a real Ray cluster of the test's own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from benchmarks.ray_nodes import HERE, PATIENCE_S, processes_of
from gridtune.sweep.execution.cluster import free_ports
from gridtune.workload import read_workload
from gridtune.workload.files import write_workload
from tests.sweep.spaces import TOY, toy_space

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]


@dataclass
class Cluster:
    """A head node of the test's own: its own folder, ports and token."""

    folder: Path
    environment: dict[str, str] = field(init=False)
    address: str = field(init=False)
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        ports = free_ports(6)
        names = (
            "port",
            "dashboard-port",
            "dashboard-agent-listen-port",
            "dashboard-agent-grpc-port",
            "metrics-export-port",
            "ray-client-server-port",
        )
        # MLflow sets a variable to the store of an earlier test in this process.
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "MLFLOW_"))
        }
        self.environment = {
            **inherited,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "GRIDTUNE_HOME": str(self.folder / "home"),
        }
        self.address = f"http://{HERE}:{ports[1]}"
        arguments = [f"--{name}={port}" for name, port in zip(names, ports, strict=True)]
        with (self.folder / "head.log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *("ray", "start", "--head", "--block", "--num-cpus=2", "--node-ip-address", HERE),
                    *("--dashboard-host", HERE, "--temp-dir", str(self.folder / "ray"), *arguments),
                ],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait_until_jobs_are_taken()

    def _wait_until_jobs_are_taken(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        request = urllib.request.Request(
            f"{self.address}/api/jobs/",
            headers={"Authorization": f"Bearer {self.environment['RAY_AUTH_TOKEN']}"},
        )
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=PATIENCE_S):
                return
            if time.monotonic() > deadline or self.process.poll() is not None:
                pytest.fail((self.folder / "head.log").read_text(encoding="utf-8", errors="replace"))
            time.sleep(0.2)

    def add_node(self) -> subprocess.Popen[bytes]:
        """Start a second node on this machine, and wait until it has joined."""
        (port,) = (item.partition("=")[2] for item in self.process.args if str(item).startswith("--port="))
        join = ["ray", "start", f"--address={HERE}:{port}", "--block", "--num-cpus=2"]
        output = self.folder / "second.log"
        with output.open("wb") as log:
            node = subprocess.Popen(
                [*join, "--node-ip-address", HERE],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + PATIENCE_S
        while "Ray runtime started" not in output.read_text(encoding="utf-8", errors="replace"):
            if time.monotonic() > deadline or node.poll() is not None:
                pytest.fail(output.read_text(encoding="utf-8", errors="replace"))
            time.sleep(0.2)
        return node

    def stop(self) -> None:
        """End the head node, then by their numbers whatever of it is left."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for process in processes_of(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def submit(self, repository: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start `scripts/submit` as a user would, who has the token and nothing else of Ray's settings."""
        environment = {**self.environment, "RAY_API_SERVER_ADDRESS": self.address}
        del environment["RAY_AUTH_MODE"]
        return subprocess.Popen(
            [str(repository / "scripts" / "submit"), *arguments],
            env=environment,
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Ray's sockets need a short path, shorter than pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="gt-"))
    own = Cluster(folder)
    try:
        own.start()
        yield own
    finally:
        own.stop()
        left = processes_of(folder)
        # A killed process is gone only when the system has buried it, and its helpers end after it.
        deadline = time.monotonic() + PATIENCE_S
        while left and time.monotonic() < deadline:
            time.sleep(0.2)
            left = processes_of(folder)
        shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"still running: {left}"


@pytest.mark.slow
def test_a_study_runs_on_the_cluster_and_a_job_that_fails_fails_here(
    cluster: Cluster, repository: Path, tmp_path: Path
) -> None:
    # A study that lies anywhere, with a plug-in and a log beside it.
    shutil.copy(TOY, tmp_path / "toy.py")
    (tmp_path / "logs").mkdir()
    log = read_workload("quickstart")
    write_workload(log, tmp_path / "logs" / "mine.swf")
    content = toy_space(plugins=["toy.py"], workloads=[{"trace": "logs/mine.swf"}])
    space = str(tmp_path / "mine.yaml")
    Path(space).write_text(yaml.safe_dump(content))
    with (
        cluster.submit(repository, space, "--workers", "1") as study,
        cluster.submit(repository, space, "--no-such-option") as mistake,
    ):
        output, _ = study.communicate()
        refusal, _ = mistake.communicate()
    assert study.returncode == 0, output
    assert "succeeded" in output
    home = cluster.folder / "home"
    tables = list((home / "results").rglob("results.parquet"))
    assert len(tables) == 1, f"results under {home}: {sorted(home.rglob('*'))}"
    table = pq.read_table(tables[0])
    assert set(table["state"].to_pylist()) == {"done"}
    assert set(table["metric.size"].to_pylist()) == {float(len(log))}
    assert (home / "mlflow.db").exists(), output
    assert mistake.returncode != 0
    assert "no such option" in refusal


@pytest.mark.cluster
def test_a_tune_script_runs_on_the_cluster(cluster: Cluster, repository: Path) -> None:
    script = str(repository / "scripts" / "tune_provisioning_moga.py")
    options = ["--samples", "2", "--replicates", "2", "--plans", "20"]
    with cluster.submit(repository, script, *options) as tuning:
        output, _ = tuning.communicate()
    assert tuning.returncode == 0, output
    assert "hypervolume" in output
    home = cluster.folder / "home"
    assert (home / "results" / "tune" / "tune_provisioning_moga").is_dir()
    assert (home / "mlflow.db").exists()


@pytest.mark.cluster
def test_a_study_runs_on_two_nodes_of_one_machine(cluster: Cluster, repository: Path, tmp_path: Path) -> None:
    # The second node unpacks the package again, in the same folder.
    node = cluster.add_node()
    try:
        (tmp_path / "two.yaml").write_text(yaml.safe_dump(toy_space(name="two", plugins=[str(TOY)])))
        with cluster.submit(repository, str(tmp_path / "two.yaml")) as study:
            output, _ = study.communicate()
    finally:
        node.terminate()
        node.wait(PATIENCE_S)
    assert study.returncode == 0, output
    assert "ModuleNotFoundError" not in output


@pytest.mark.cluster
def test_a_plain_job_names_the_folder_that_it_needs(cluster: Cluster, repository: Path) -> None:
    excludes = '{"excludes": [".venv", ".git", ".cache", "results"]}'
    command = ["ray", "job", "submit", "--address", cluster.address, "--working-dir", "."]
    command += ["--runtime-env-json", excludes, "--", "env", "-u", "GRIDTUNE_HOME"]
    done = subprocess.run(
        [*command, "python", "scripts/sweep_backfilling.py"],
        env=cluster.environment,
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "-- env GRIDTUNE_HOME=/FOLDER python scripts/" in done.stdout


def test_it_waits_for_a_head_node_that_takes_no_jobs_yet(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(repository / "scripts" / "submit", tmp_path / "scripts")
    (tmp_path / "space.yaml").touch()
    ray = tmp_path / "bin" / "ray"
    ray.write_text(
        "#!/bin/sh\ncd $(dirname $0)\n[ -f asked ] && echo taken && exit 3\n"
        "touch asked; echo 'No available agent to submit job' >&2; exit 1\n"
    )
    ray.chmod(0o755)
    done = subprocess.run(
        [tmp_path / "scripts" / "submit", tmp_path / "space.yaml"],
        env={"PATH": f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "taken\n")
    assert "has no agent for jobs yet: waiting" in done.stderr
    assert "No available agent" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "scripts/submit SPACE"),
        (("no_such_space.yaml",), "no search space or script at no_such_space.yaml"),
        (("/dev/null/../../etc/hostname",), "no search space"),
    ],
)
def test_bad_arguments_are_told_without_a_cluster(
    repository: Path, arguments: tuple[str, ...], expected: str
) -> None:
    command = [str(repository / "scripts" / "submit"), *arguments]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert expected in refused.stderr


def test_a_file_beside_the_spaces_folder_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    space = tmp_path / "mine" / "space.yaml"
    (tmp_path / "plugin.py").touch()
    space.write_text("name: mine\nplugins: [../plugin.py]\n")
    command = [str(repository / "scripts" / "submit"), str(space)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "names ../plugin.py, outside its folder: move it there" in refused.stderr
