"""`scripts/setup` decides rightly when to install; a stand-in for Python records what it would have done."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

# Answers what the script asks of Python, and notes each `pip install`; WAIT and FAIL make it slow or fail.
STAND_IN = r"""#!/usr/bin/env bash
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case "$1 ${2:-}" in
  "- ") cat >/dev/null; echo "${ANSWER:-fits}" ;;
  "-c "*) echo 3.11.9 ;;
  "-m venv")
    mkdir -p "$3/bin"
    cp "${BASH_SOURCE[0]}" "$3/bin/python"
    echo "version = 3.11.9" >"$3/pyvenv.cfg" ;;
  "-m pip")
    echo "Collecting something"
    echo "$*" >>"$LEDGER"
    [[ -z ${WAIT:-} ]] || { echo "$$" >"$WAIT"; sleep 60; }
    [[ -z ${FAIL:-} ]] || { echo "no such package: something"; exit 1; } ;;
esac
"""


class Clone:
    """A copy of what `scripts/setup` reads, with a Python that only pretends."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self.root = folder / "a clone"
        (self.root / "scripts").mkdir(parents=True)
        shutil.copy2(repository / "scripts" / "setup", self.root / "scripts" / "setup")
        for name in ("pyproject.toml", "constraints.txt"):
            shutil.copy2(repository / name, self.root / name)
        self.python = folder / "python3.11"
        self.python.write_text(STAND_IN, encoding="utf-8")
        self.python.chmod(0o755)
        self.ledger = folder / "ledger"
        self.ledger.touch()

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, "PYTHON": str(self.python), "LEDGER": str(self.ledger), **extra}

    def setup(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.root / "scripts" / "setup"), *arguments]
        return subprocess.run(
            command, env=self.environment(extra), capture_output=True, text=True, check=False, cwd="/"
        )

    @property
    def installs(self) -> int:
        return len(self.ledger.read_text(encoding="utf-8").splitlines())

    @property
    def stamp(self) -> Path:
        return self.root / ".venv" / ".setup-done"


@pytest.fixture
def clone(repository: Path, tmp_path: Path) -> Clone:
    return Clone(repository, tmp_path)


def test_a_second_run_does_nothing(clone: Clone) -> None:
    first = clone.setup()
    assert first.returncode == 0, first.stderr
    assert "-c" in clone.ledger.read_text(encoding="utf-8")
    assert "[dev]" in clone.ledger.read_text(encoding="utf-8")
    second = clone.setup()
    assert (second.returncode, second.stdout, clone.installs) == (0, "", 1)


def test_agents_are_added_when_asked_for_and_then_stay(clone: Clone) -> None:
    clone.setup()
    assert clone.setup("agents").returncode == 0
    assert clone.ledger.read_text(encoding="utf-8").splitlines()[1].endswith("[agents,dev]")
    assert clone.setup("agents").stdout == clone.setup().stdout == ""
    assert clone.installs == 2
    with (clone.root / "constraints.txt").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    clone.setup()
    assert clone.installs == 3


def test_an_unknown_argument_is_refused(clone: Clone) -> None:
    refused = clone.setup("agent")
    assert refused.returncode != 0
    assert "'agents'" in refused.stderr
    assert clone.installs == 0


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", ".venv/pyvenv.cfg"])
def test_what_decides_the_environment_makes_it_again(clone: Clone, name: str) -> None:
    clone.setup()
    with (clone.root / name).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert clone.setup().returncode == 0
    assert clone.installs == 2


def test_a_moved_clone_starts_afresh(clone: Clone) -> None:
    """Every command of an environment names the place it was made in."""
    clone.setup()
    clone.root = clone.root.rename(clone.root.with_name("moved"))
    left = clone.root / ".venv" / "made-elsewhere"
    left.touch()
    assert clone.setup().returncode == 0
    assert not left.exists()
    assert clone.installs == 2


def test_a_failed_install_is_told_and_tried_again(clone: Clone) -> None:
    failed = clone.setup(FAIL="1")
    assert failed.returncode != 0
    assert "no such package: something" in failed.stderr
    assert not clone.stamp.exists()
    assert clone.setup().returncode == 0
    assert clone.installs == 2


def test_a_killed_install_leaves_no_stamp_and_is_started_afresh(clone: Clone, tmp_path: Path) -> None:
    waiting = tmp_path / "waiting"
    process = subprocess.Popen(
        [str(clone.root / "scripts" / "setup")],
        env=clone.environment({"WAIT": str(waiting)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while not (waiting.exists() and waiting.read_text(encoding="utf-8")):
        assert time.monotonic() < deadline, "the install never started"
        time.sleep(0.02)

    beside = clone.setup()
    assert beside.returncode != 0
    assert f"process {process.pid}" in beside.stderr, "a run at work must not be trampled on"

    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not clone.stamp.exists()
    half_installed = clone.root / ".venv" / "half-installed"
    half_installed.touch()
    again = clone.setup()
    assert again.returncode == 0, again.stderr
    assert "cut short" in again.stdout
    assert not half_installed.exists()
    assert clone.stamp.exists()


def test_an_environment_made_by_hand_is_kept(clone: Clone) -> None:
    subprocess.run([str(clone.python), "-m", "venv", str(clone.root / ".venv")], check=True)
    own = clone.root / ".venv" / "own"
    own.touch()
    assert clone.setup().returncode == 0
    assert own.exists()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("is Python 3.10", "is Python 3.10"), ("lacks the venv module", "lacks the venv module")],
)
def test_an_unsuitable_python_is_told(clone: Clone, answer: str, expected: str) -> None:
    refused = clone.setup(ANSWER=answer)
    assert refused.returncode != 0
    assert expected in refused.stderr
    assert "3.11, 3.12 or 3.13" in refused.stderr
    assert not (clone.root / ".venv").exists()
