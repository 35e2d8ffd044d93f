"""Real kills: whatever moment the driver dies at, the same command runs exactly the missing cells."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from gridtune.sweep import read_journal, space_cells
from tests.sweep.spaces import runs_in, toy_space

pytestmark = pytest.mark.integration

CELLS, NAP = 240, 0.05
#: Cells that may be under way, or done and not yet sent, when the driver dies: two workers' half seconds.
UNSENT = int(2 * (0.5 + NAP) / NAP) + 2


def command(space: Path, out: Path) -> list[str]:
    options = ["--out", str(out), "--workers", "2", "--no-tracking"]
    return [sys.executable, "-m", "gridtune", "sweep", str(space), *options]


def descendants(pid: int) -> set[int]:
    """Return the process ids below one, from /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def started(pid: int) -> str | None:
    """Return when a process was started, which tells it from a later one of the same number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def alive(processes: dict[int, str | None]) -> set[int]:
    """Return those that still run."""
    return {pid for pid, start in processes.items() if start is not None and started(pid) == start}


def is_agent(pid: int) -> bool:
    """Whether it is one of Ray's two helpers that take a minute to notice that their cluster is gone."""
    try:
        return b"Agent" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def wait_for(what: str, seconds: float, done: object) -> None:
    end = time.monotonic() + seconds
    while not done():  # type: ignore[operator]
        assert time.monotonic() < end, f"{what} took longer than {seconds} s"
        time.sleep(0.02)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processes from /proc")
@pytest.mark.timeout(600)
def test_the_same_command_goes_on_after_any_kill(tmp_path: Path) -> None:
    notebook, out, path = tmp_path / "notebook", tmp_path / "out", tmp_path / "space.yaml"
    notebook.mkdir()
    space = toy_space(
        notebook,
        fixed={"notebook": str(notebook), "nap": NAP},
        dimensions={"x": list(range(CELLS))},
        replicates={"seeds": 1},
    )
    path.write_text(yaml.safe_dump(space))
    journal = out / "journal.jsonl"
    chance = random.Random(os.environ.get("GRIDTUNE_KILL_SEED", time.time_ns()))
    before: Counter[str] = Counter()
    agents: dict[int, str | None] = {}
    # Once while Ray starts, then twice somewhere among the results. The last cells are out of bounds: what
    # two workers do in the second between a result and the kill must not be all that is left.
    for share in (0.0, chance.uniform(0.02, 0.35), chance.uniform(0.4, 0.7)):
        with subprocess.Popen(command(path, out), stdout=subprocess.DEVNULL) as driver:
            if share:
                enough = round(share * CELLS)
                wait_for("the sweep", 120, lambda enough=enough: len(read_journal(journal)) >= enough)
            else:
                wait_for("the journal", 60, journal.exists)
            time.sleep(chance.uniform(0, 0.5 if share else 4))
            below = {pid: started(pid) for pid in descendants(driver.pid)}
            agents.update({pid: start for pid, start in below.items() if is_agent(pid)})
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
        kept = set(read_journal(journal))
        assert len(kept) < CELLS, "it was killed too late to test anything"
        # The Ray it had started goes with it; a helper that had only been forked does not look like one yet.
        rest = {pid: start for pid, start in below.items() if pid not in agents}
        wait_for("the end of Ray", 150, lambda rest=rest: not alive(rest))
        runs = runs_in(notebook)
        # What was in the journal has not been run again, and little that was run is not in it.
        assert all(runs[name] == count for name, count in before.items())
        names = {cell.cell_id: f"{cell.configuration['x']:g}-a-good-None" for cell in space_cells(space)}
        before = Counter({names[cell_id]: runs[names[cell_id]] for cell_id in kept})
        assert sum(name not in before for name in runs) <= UNSENT * 3

    ended = subprocess.run([*command(path, out), "--json"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["ran"] == CELLS - len(kept)
    assert report["done"] == CELLS
    runs = runs_in(notebook)
    again = {name for name, count in before.items() if runs[name] != count}
    assert again <= {"3-a-good-None"}  # the best one's artefacts are made for the report
    assert len(runs) == CELLS
    table = pq.read_table(out / "results.parquet")
    assert sorted(table["cell_id"].to_pylist()) == sorted(names)
    assert set(table["state"].to_pylist()) == {"done"}
    assert not list(out.glob(".tune*"))
    wait_for("the end of Ray's agents", 120, lambda: not alive(agents))
