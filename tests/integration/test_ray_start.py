"""Real deaths of Ray's processes while a sweep starts it or runs: it ends with an error, and soon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gridtune.sweep.journal.journal import read_journal
from tests.integration.processes import descendants, wait_for
from tests.sweep.spaces import toy_space

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processes from /proc"),
]


def process_of(driver: int, text: bytes) -> int | None:
    """Return the process below the driver that has a text in its program's name or its first arguments."""
    for pid in sorted(descendants(driver)):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:4]
        except OSError:
            continue
        if any(argument.endswith(text) for argument in arguments):
            return pid
    return None


@pytest.mark.parametrize(
    "process",
    [
        "/gcs_server",
        pytest.param("/raylet", marks=pytest.mark.slow),
        pytest.param("/dashboard/agent.py", marks=pytest.mark.slow),
        pytest.param("/runtime_env/agent/main.py", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_is_killed_while_ray_starts_ends_the_sweep(process: str, tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(yaml.safe_dump(toy_space()))
    command = [sys.executable, "-m", "gridtune", "sweep", str(space), "--out", str(tmp_path / "out")]
    command += ["--executor", "ray", "--workers", "1", "--no-tracking"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as driver:
        victims: list[int] = []

        def look() -> bool:
            victim = process_of(driver.pid, process.encode())
            victims.extend([victim] if victim else [])
            return bool(victims) or driver.poll() is not None

        wait_for(process, look)
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        errors = driver.communicate(timeout=300)[1]
    if not victims:
        assert driver.returncode == 0, errors
        pytest.skip("the sweep was over before Ray had started that process")
    # Ray, which misses the process too, may end the driver before it ends by itself.
    assert driver.returncode in (1, 2), errors
    assert "nothing that is finished is lost, and the same command goes on" in errors


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("process", ["/gcs_server", "/raylet"])
def test_a_process_that_is_killed_while_cells_run_ends_the_sweep_which_goes_on(
    process: str, tmp_path: Path
) -> None:
    space, out = tmp_path / "space.yaml", tmp_path / "out"
    cells = {"dimensions": {"x": list(range(200))}, "replicates": {"seeds": 1}, "fixed": {"nap": 0.1}}
    space.write_text(yaml.safe_dump(toy_space(**cells)))
    command = [sys.executable, "-m", "gridtune", "sweep", str(space), "--out", str(out), "--no-tracking"]
    ray = ["--executor", "ray", "--workers", "2"]
    with subprocess.Popen([*command, *ray], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as driver:
        wait_for("results", lambda: len(read_journal(out / "journal.jsonl")) > 0)
        victim = process_of(driver.pid, process.encode())
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        errors = driver.communicate(timeout=300)[1].decode()
    finished = read_journal(out / "journal.jsonl")
    # Ray may end the command before it ends by itself.
    assert driver.returncode in (1, 2), errors
    assert "nothing that is finished is lost, and the same command goes on" in errors
    assert 0 < len(finished) < 200
    again = subprocess.run([*command, "--executor", "inline"], capture_output=True, text=True, check=True)
    assert f"{200 - len(finished)} run now" in again.stdout
    assert len(read_journal(out / "journal.jsonl")) == 200
