"""What runs of chaos found: as a line of JSON, added up, and as a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from benchmarks.measure import print_table
from gridtune.core.cells import CellResult
from gridtune.sweep.journal.journal import JOURNAL_NAME, read_journal
from gridtune.sweep.journal.results import TIMING_COLUMNS

__all__ = ["Outcome", "compare", "results_in", "total"]


@dataclass
class Outcome:
    """Faults and what came of them.

    Attributes
    ----------
    seeds
        Of the runs.
    seconds
        That the longest run took.
    cells
        Of a sweep.
    sweeps
        Sweeps that came to their end and were compared.
    faults
        How often each kind was done.
    waits
        Seconds without results after each fault, by kind.
    by_itself
        What ended although nobody killed it, by what it was.
    lost
        Cells that a finished sweep has not, and results that were in a journal and are not any more.
    twice
        Cells that are in a journal more than once.
    differing
        Tables that are not the undisturbed one; of a sweep without its end, journals with another result.
    unfinished
        Cells that a sweep has not because the time was up.
    problems
        What should not have happened, in words.
    """

    seeds: list[int]
    seconds: float = 0.0
    cells: int = 0
    sweeps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    waits: dict[str, list[float]] = field(default_factory=dict)
    by_itself: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    twice: int = 0
    differing: int = 0
    unfinished: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether something was compared, and nothing is wrong with it."""
        wrong = self.problems or self.lost or self.twice or self.differing
        return self.cells > 0 and not wrong

    def line(self) -> str:
        """Return it as one line of JSON."""
        waits = {kind: [round(wait, 2) for wait in waits] for kind, waits in self.waits.items()}
        shown = vars(self) | {"waits": waits, "seconds": round(self.seconds, 1)}
        return json.dumps(
            {"total": self.faults.total(), "equal": self.sweeps > 0 and not self.differing} | shown
        )

    @classmethod
    def of_line(cls, line: str) -> Outcome:
        """Return what `line` has written."""
        content: dict[str, Any] = json.loads(line)
        content = {name: content[name] for name in cls.__dataclass_fields__}
        return cls(
            **content | {"faults": Counter(content["faults"]), "by_itself": Counter(content["by_itself"])}
        )

    def report(self, kinds: Iterable[str]) -> None:
        """Print a table, a sentence, the problems, and the line."""
        rows = [
            [
                kind,
                str(self.faults[kind]),
                *((f"{median(waits):.1f}", f"{max(waits):.1f}") if waits else ("", "")),
            ]
            for kind in kinds
            if self.faults[kind]
            for waits in [self.waits.get(kind, [])]
        ]
        rows += [[f"{what}, by itself", str(count), "", ""] for what, count in self.by_itself.items()]
        print_table("Chaos", ["fault", "times", "s without results, median", "most"], rows)
        seeds = ", ".join(map(str, self.seeds))
        print(
            f"\n{self.faults.total()} faults in {self.sweeps} sweeps of {self.cells} cells, seed {seeds}: ",
            end="",
        )
        print(f"{self.lost} cells lost, {self.twice} twice, {self.differing} tables not as undisturbed")
        if self.unfinished:
            print(f"{self.unfinished} cells were left when the time was up")
        for problem in self.problems:
            print(problem)
        print(self.line(), flush=True)


def total(outcomes: Sequence[Outcome]) -> Outcome:
    """Add up runs of one space."""
    together = Outcome([seed for outcome in outcomes for seed in outcome.seeds])
    together.seconds = max((outcome.seconds for outcome in outcomes), default=0.0)
    for outcome in outcomes:
        together.cells = max(together.cells, outcome.cells)
        for name in ("sweeps", "lost", "twice", "differing", "unfinished", "problems", "faults", "by_itself"):
            setattr(together, name, getattr(together, name) + getattr(outcome, name))
        for kind, waits in outcome.waits.items():
            together.waits.setdefault(kind, []).extend(waits)
    return together


def compare(outcome: Outcome, undisturbed: Path, sweeps: Sequence[Path], finished: int) -> None:
    """Compare what sweeps have left behind with the undisturbed one.

    Parameters
    ----------
    outcome
        Takes what is found.
    undisturbed, sweeps
        Folders.
    finished
        How many of the sweeps, counted from the first, came to their end.
    """
    wanted, rows = read_journal(undisturbed / "journal.jsonl"), _rows(undisturbed)
    outcome.cells, outcome.sweeps = len(wanted), finished
    for number, out in enumerate(sweeps):
        results = read_journal(out / "journal.jsonl") if (out / "journal.jsonl").exists() else {}
        missing = sum(cell not in results or results[cell].state != "done" for cell in wanted)
        if number < finished:
            outcome.lost += missing
            outcome.differing += _rows(out) != rows
        else:
            outcome.unfinished += missing
            outcome.differing += any(
                _content(result) != _content(wanted.get(cell)) for cell, result in results.items()
            )
        outcome.twice += sum(count > 1 for count in _lines(out / "journal.jsonl").values())


def results_in(folder: Path) -> int:
    """Return the number of results in a sweep's journal so far, 0 before there is one."""
    try:
        return (folder / JOURNAL_NAME).read_bytes().count(b'\n{"cell_id"')
    except FileNotFoundError:
        return 0


def _content(result: CellResult | None) -> str:
    return "" if result is None else repr((result.state, result.metrics))


def _rows(folder: Path) -> list[str] | None:
    """Return the rows of a sweep's table without timings; None where there is no table."""
    table = folder / "results.parquet"
    if not table.exists():
        return None
    return list(map(repr, pq.read_table(table).drop_columns(list(TIMING_COLUMNS)).to_pylist()))


def _lines(journal: Path) -> Counter[str]:
    """Return how often each cell is in a journal; a line that was cut off is none."""
    cells: Counter[str] = Counter()
    for line in journal.read_bytes().splitlines() if journal.exists() else ():
        if line.startswith(b'{"cell_id"'):
            try:
                cells[json.loads(line)["cell_id"]] += 1
            except ValueError:
                continue
    return cells
