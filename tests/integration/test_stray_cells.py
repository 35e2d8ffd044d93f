"""Cells whose code crashes, exits, forks, hangs, prints or leaves something behind cost one cell at most."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processes import started, wait_for
from tests.integration.test_interrupt import heeds_interrupts  # noqa: F401

pytestmark = pytest.mark.integration

PLUGIN = """
import ctypes
import os
import signal
import threading
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

import gridtune as gt
from gridtune.core.measures import Measure


class Parameters(gt.SystemParameters):
    kind: str = "good"


class Stray(gt.System):
    name: ClassVar[str] = "stray"
    version: ClassVar[str] = "1"
    Parameters = Parameters
    metrics = {"loss": Measure("s", "min", "1", source="test")}

    def run(self, parameters, *, streams, load, tables):
        match parameters.kind:
            case "forks" if os.fork() == 0:
                return gt.Outcome({"loss": -1.0})
            case "fails-forked" if os.fork() == 0:
                raise ArithmeticError
            case "strays":
                os.chdir("/")
            case "threads":
                threading.Thread(target=threading.Event().wait).start()
            case "prints":
                print("x" * 1_000_000, "the end", flush=True)
            case "aborts":
                os.kill(os.getpid(), signal.SIGABRT)
            case "exits":
                os._exit(3)
            case "hangs":
                Path("hangs.new").write_text(str(os.getpid()))
                Path("hangs.new").rename("hangs.txt")
                # It keeps the interpreter's lock, as a compiled kernel does.
                ctypes.PyDLL(None).pause()
        job = {"job_id": [1], "submit_time": [0], "start_time": [0], "end_time": [1], "processors": [1]}
        schedule = {"schedule": pa.table(job)} if tables else {}
        return gt.Outcome({"loss": float(parameters.kind != "forks")}, {"processors": 1}, schedule)


gt.register_system(Stray())
"""


def write_space(folder: Path, kinds: str, more: str = "") -> None:
    (folder / "stray.py").write_text(PLUGIN)
    space = "name: stray\nsystem: stray\nplugins: [stray.py]\nreplicates: {seeds: 1}\nobjective: loss\n"
    (folder / "space.yaml").write_text(f"{space}dimensions: {{kind: [{kinds}]}}\n{more}")


COMMAND = [sys.executable, "-m", "gridtune", "sweep", "space.yaml", "--out", "out", "--json"]
COMMAND += ["--no-tracking", "--no-figures", "--executor"]


def cells_in(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "out" / "journal.jsonl").read_text().splitlines()]
    return [record for record in records if "cell_id" in record]


def test_each_cell_has_its_state_and_the_report_is_where_it_was_wanted(tmp_path: Path) -> None:
    write_space(tmp_path, "good, forks, fails-forked, strays, threads, prints, aborts, exits")
    done = subprocess.run([*COMMAND, "inline"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    cells = cells_in(tmp_path)
    states = {cell["identity"]["parameters"].get("kind", "good"): cell for cell in cells}
    ended = {"aborts": "was ended by SIGABRT", "exits": "ended with exit code 3"}
    for kind, cell in states.items():
        assert cell["state"] == ("lost" if kind in ended else "done"), cell
        assert ended.get(kind, "") in (cell["error"] or "")
    assert len(cells) == len(states) == 8
    assert states["forks"]["metrics"] == {"loss": 0.0}
    printed = (tmp_path / "out" / "output.log").read_bytes()
    assert (len(printed), b"the end" in printed) == (2**16, True)
    assert len(done.stderr) < 10_000
    # One process printed its answer, once. It has run the best again, which forks.
    assert json.loads(done.stdout)["cells"] == 8
    assert len(list((tmp_path / "out" / "schedules").glob("*-best.parquet"))) == 1
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_cell_that_hangs_is_ended_after_its_timeout(tmp_path: Path) -> None:
    write_space(tmp_path, "hangs", "timeout: 0.5\n")
    done = subprocess.run([*COMMAND, "inline"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, [cell["state"] for cell in cells_in(tmp_path)]) == (1, ["timed_out"])


@contextlib.contextmanager
def hanging(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Give a sweep, in a session of its own, and the number of the process whose cell hangs."""
    write_space(folder, "good, hangs")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([*COMMAND, "auto"], cwd=folder, start_new_session=True, **pipes) as driver:
        wait_for("the cell", lambda: driver.poll() is not None or (folder / "hangs.txt").exists())
        yield driver, int((folder / "hangs.txt").read_text())


@pytest.mark.usefixtures("heeds_interrupts")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_cell_outlives_its_sweep(tmp_path: Path, how: signal.Signals) -> None:
    with hanging(tmp_path) as (driver, cell):
        descriptor = os.pidfd_open(cell)
        # All that a terminal tells: the cell's process is in a group of its own.
        (os.kill if how == signal.SIGKILL else os.killpg)(driver.pid, how)
        output, _ = driver.communicate()
        assert driver.returncode == (-how if how == signal.SIGKILL else 130), output
        select.select([descriptor], [], [])
        os.close(descriptor)
        wait_for("its end", lambda: started(cell) is None)
    assert [one["metrics"] for one in cells_in(tmp_path)] in ([], [{"loss": 1.0}])


def test_a_cell_whose_process_is_killed_from_outside_is_lost_alone(tmp_path: Path) -> None:
    with hanging(tmp_path) as (driver, first):
        killed = {first}
        os.kill(first, signal.SIGKILL)
        while driver.poll() is None:
            time.sleep(0.02)
            process = int((tmp_path / "hangs.txt").read_text())
            if process not in killed:
                killed.add(process)
                os.kill(process, signal.SIGKILL)
        output, _ = driver.communicate()
    assert (driver.returncode, len(killed)) == (1, 4), output
    good, lost = sorted(cells_in(tmp_path), key=lambda one: str(one["state"]))
    assert (good["state"], lost["state"]) == ("done", "lost")
    assert "SIGKILL, as where memory runs out" in lost["error"]


def test_a_script_without_a_guard_is_run_once(tmp_path: Path) -> None:
    write_space(tmp_path, "good, exits")
    script = tmp_path / "script.py"
    script.write_text(
        "import gridtune as gt\nprint('once')\n"
        "print(gt.run_sweep('space.yaml', tracking=False, output='quiet', figures=False).sweep.counts)\n"
    )
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "once"
    assert "'done': 1" in second
    assert "'lost': 1" in second
