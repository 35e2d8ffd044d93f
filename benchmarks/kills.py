"""A sweep whose driver is killed at random: what is lost, what is done twice, what is run again.

    python -m benchmarks.kills
    python -m benchmarks.kills --executor inline --kills 20 --cells 400

Runs `gridtune sweep` on cells that note when they begin, kills it with SIGKILL again and again, and starts
it again each time. A third of the kills come while it starts, the others while cells run. In the end:

- lost: cells that were in the journal after one kill and not after a later one, or are not in the table;
- twice: cells with more than one line in the journal;
- undone: runs that were done or under way and are not in the journal, and how long before the kill the oldest
  of them had begun. A worker sends its results every half second.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from benchmarks.measure import arguments, print_machine, print_table
from gridtune.sweep.journal.journal import read_journal

NAP = 0.05
#: Longest start that is interrupted, and longest time between enough cells and the kill, seconds.
START, AFTER = 4.0, 0.5

SYSTEM = """
import os, time
from gridtune import Outcome, System, SystemParameters, register_system
from gridtune.core.measures import Measure

class Parameters(SystemParameters):
    number: int
    notebook: str
    nap: float

class Notes(System):
    name, version, Parameters = "notes", "1", Parameters
    metrics = {"value": Measure("1", "min", "number mod 7", source="this benchmark")}

    def run(self, parameters, *, streams, load, tables):
        with open(f"{parameters.notebook}/{parameters.number}", "a") as page:
            page.write(f"{time.time()}\\n")
        time.sleep(parameters.nap)
        return Outcome({"value": float(parameters.number % 7)})

register_system(Notes())
"""


def descendants(pid: int) -> list[int]:
    """Return the processes below one, from /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    below, waiting = [], [pid]
    while waiting:
        found = children.get(waiting.pop(), [])
        below += found
        waiting += found
    return below


def kill(driver: subprocess.Popen[bytes]) -> float:
    """Kill the driver, then what it leaves behind; return when nothing of it ran any more.

    A worker begins cells until it is killed itself. Counted from the death of the driver, these would be
    runs that the next kill undid, begun long before it.
    """
    below = descendants(driver.pid)
    driver.kill()
    driver.wait()
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return time.time()


def interrupted_run(command: list[str], journal: Path, enough: int | None, moment: random.Random) -> float:
    """Start the sweep and kill it, while it starts or when the journal has `enough` cells; return when."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        if enough is None:
            time.sleep(moment.uniform(0, START))
            return kill(driver)
        while driver.poll() is None and len(read_journal(journal)) < enough:
            time.sleep(0.05)
        time.sleep(moment.uniform(0, AFTER))
        return kill(driver)


def runs_lost(page: Path, *, kept: bool, last: float) -> list[float]:
    """Return when the runs of a cell began that a kill undid.

    Parameters
    ----------
    page
        When its runs began, a line each.
    kept
        Whether the journal has it after the last kill.
    last
        When the last kill was: later runs were not undone.
    """
    lines = page.read_text().splitlines() if page.exists() else []
    runs = [began for began in map(float, lines) if began < last]
    return runs[:-1] if kept else runs


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="(100)")
    parser.add_argument("--cells", type=int, default=2000, help="(2000)")
    parser.add_argument("--executor", choices=["ray", "inline"], default="ray", help="(ray)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    options = parser.parse_args()
    print_machine()
    moment = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "notebook").mkdir()
        (folder / "notes.py").write_text(SYSTEM)
        space = {
            "name": "kills",
            "system": "notes",
            "plugins": ["notes.py"],
            "fixed": {"notebook": str(folder / "notebook"), "nap": NAP},
            "dimensions": {"number": list(range(options.cells))},
            "objective": "value",
        }
        (folder / "space.yaml").write_text(yaml.safe_dump(space))
        command = [sys.executable, "-m", "gridtune", "sweep", str(folder / "space.yaml"), "--no-tracking"]
        command += ["--json", "--out", str(folder / "out"), "--executor", options.executor]
        command += ["--workers", "2"] if options.executor == "ray" else []
        journal = folder / "out" / "journal.jsonl"
        kills, done, numbers, lost = [], set[str](), set[int](), 0
        for left in range(options.kills, 0, -1):
            while_starting = (not done and left == options.kills) or moment.random() < 1 / 3
            # Some cells must be left for the last kill.
            step = max(1, (options.cells - len(done)) // (left + 1))
            enough = None if while_starting else len(done) + moment.randint(1, step)
            kills.append(interrupted_run(command, journal, enough, moment))
            results = read_journal(journal)
            found = set(results)
            lost += len(done - found)
            done, numbers = found, {int(result.configuration["number"]) for result in results.values()}
            print(f"{len(kills)} kills, {len(done)} cells", file=sys.stderr, flush=True)
        ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        report = json.loads(ended.stdout)
        lines = Counter(
            json.loads(line)["cell_id"] for line in journal.read_text().splitlines() if '"cell_id"' in line
        )
        table = pq.read_table(folder / "out" / "results.parquet")
        lost += options.cells - len(set(table["cell_id"].to_pylist()))
        ages = [
            min(at - began for at in kills if at >= began)
            for number in range(options.cells)
            for began in runs_lost(folder / "notebook" / str(number), kept=number in numbers, last=kills[-1])
        ]
        rows = [
            ("kills", options.kills),
            ("cells", options.cells),
            ("done", report["done"]),
            ("lost", lost),
            ("in the journal twice", sum(count > 1 for count in lines.values())),
            ("runs that a kill undid", len(ages)),
            ("a kill, on average", f"{len(ages) / options.kills:.1f}"),
            ("the oldest of them began before its kill, s", f"{max(ages, default=0.0):.2f}"),
        ]
    print_table(f"A sweep with --executor {options.executor}, killed", ("", ""), rows)


if __name__ == "__main__":
    main()
