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

from gridtune.sweep.journal.journal import read_journal
from gridtune.sweep.run import space_cells
from tests.integration.processes import alive, descendants, end, is_agent, started, wait_for
from tests.sweep.spaces import runs_in, toy_space

pytestmark = pytest.mark.integration

CELLS, NAP = 160, 0.05
#: Cells that may be under way, or done and not yet sent, when the driver dies: two workers' half seconds.
UNSENT = int(2 * (0.5 + NAP) / NAP) + 2


def command(space: Path, out: Path) -> list[str]:
    options = ["--out", str(out), "--workers", "2", "--no-tracking"]
    return [sys.executable, "-m", "gridtune", "sweep", str(space), *options]


#: Bounds of the share of cells that are done when the driver is killed; 0 is while Ray starts. None is near
#: the end: what two workers do between a result and the kill must not be all that is left.
KILLS = [(0.0, 0.0), (0.05, 0.4)]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processes from /proc")
@pytest.mark.timeout(1200)
@pytest.mark.slow
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
    names = {cell.cell_id: f"{cell.configuration['x']:g}-a-good-None" for cell in space_cells(space)}
    journal = out / "journal.jsonl"
    random_moment = random.Random(os.environ.get("GRIDTUNE_KILL_SEED", time.time_ns()))
    before: Counter[str] = Counter()
    agents: dict[int, str | None] = {}
    for number, bounds in enumerate(KILLS, start=1):
        share = random_moment.uniform(*bounds)
        with subprocess.Popen(command(path, out), stdout=subprocess.DEVNULL) as driver:
            if share:
                enough = round(share * CELLS)
                wait_for("the sweep", lambda enough=enough: len(read_journal(journal)) >= enough)
            else:
                wait_for("the journal", journal.exists)
            time.sleep(random_moment.uniform(0, 0.5 if share else 4))
            below = {pid: started(pid) for pid in descendants(driver.pid)}
            agents.update({pid: start for pid, start in below.items() if is_agent(pid)})
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
        finished = set(read_journal(journal))
        assert len(finished) < CELLS, "it was killed too late to test anything"
        # The Ray it had started goes with it; a helper that had only been forked does not look like one yet.
        rest = {pid: start for pid, start in below.items() if pid not in agents}
        wait_for("the end of Ray", lambda rest=rest: not alive(rest))
        runs = runs_in(notebook)
        # What was in the journal has not been run again, and little that was run is not in it.
        assert all(runs[name] == count for name, count in before.items())
        before = Counter({names[cell_id]: runs[names[cell_id]] for cell_id in finished})
        assert sum(name not in before for name in runs) <= UNSENT * number

    ended = subprocess.run([*command(path, out), "--json"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["ran"] == CELLS - len(finished)
    assert report["done"] == CELLS
    runs = runs_in(notebook)
    again = {name for name, count in before.items() if runs[name] != count}
    assert again <= {"3-a-good-None"}  # the best one's artefacts are made for the report
    assert len(runs) == CELLS
    table = pq.read_table(out / "results.parquet")
    assert sorted(table["cell_id"].to_pylist()) == sorted(names)
    assert set(table["state"].to_pylist()) == {"done"}
    assert not list(out.glob(".tune*"))
    end(agents)  # they would take a minute to notice
    wait_for("the end of Ray's agents", lambda: not alive(agents))
