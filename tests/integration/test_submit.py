"""`scripts/submit` against a real Ray cluster of the test's own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

HERE = "127.0.0.1"
PATIENCE_S = 90


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on; held open together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HERE, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def processes_of(folder: Path) -> dict[int, str]:
    """Return the processes whose command line or environment names a folder: process number to command."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            named = command + (entry / "environ").read_bytes()
        except OSError:
            continue  # it ended, or is not ours
        if os.fsencode(folder) in named:
            found[int(entry.name)] = os.fsdecode(command.replace(b"\0", b" ")).strip()
    return found


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
        given = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self.environment = {
            **given,
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
        while subprocess.run(
            ["ray", "job", "list", "--address", self.address],
            env=self.environment,
            capture_output=True,
            check=False,
        ).returncode:
            if time.monotonic() > deadline or self.process.poll() is not None:
                pytest.fail((self.folder / "head.log").read_text(encoding="utf-8", errors="replace"))
            time.sleep(0.5)

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

    def submit(self, repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `scripts/submit` as a user would, who has the token and nothing else of Ray's settings."""
        environment = {**self.environment, "RAY_API_SERVER_ADDRESS": self.address}
        del environment["RAY_AUTH_MODE"]
        return subprocess.run(
            [str(repository / "scripts" / "submit"), *arguments],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
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


def test_a_study_runs_on_the_cluster(cluster: Cluster, repository: Path) -> None:
    space = repository / "search_spaces" / "quickstart.yaml"
    done = cluster.submit(repository, str(space), "--workers", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout + done.stderr
    home = cluster.folder / "home"
    tables = list((home / "results").rglob("results.parquet"))
    assert len(tables) == 1, f"results under {home}: {sorted(home.rglob('*'))}"
    states = pq.read_table(tables[0])["state"].to_pylist()
    assert states
    assert set(states) == {"done"}
    assert (home / "mlflow.db").exists()

    again = cluster.submit(repository, str(space))
    assert again.returncode == 0, again.stdout + again.stderr
    assert pq.read_table(tables[0])["state"].to_pylist() == states


def test_a_job_that_fails_fails_here(cluster: Cluster, repository: Path) -> None:
    failed = cluster.submit(
        repository, str(repository / "search_spaces" / "quickstart.yaml"), "--no-such-option"
    )
    assert failed.returncode != 0
    assert "No such option" in failed.stdout + failed.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "scripts/submit SPACE"),
        (("no_such_space.yaml",), "no search space at no_such_space.yaml"),
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


def test_a_space_elsewhere_is_refused(repository: Path, tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.touch()
    command = [str(repository / "scripts" / "submit"), str(space)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "search_spaces/" in refused.stderr
