"""Shards: a sweep's cells divided among processes that know nothing of each other, and put together again.

Which cells are in a shard depends on their ids alone, so array jobs on any machines divide a space without
talking to each other. Each shard is a folder with a journal; `merge_journals` makes one journal of several.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from gridtune.core.cells import Cell, CellResult, finite_json
from gridtune.errors import SweepError
from gridtune.storage import draft_of
from gridtune.sweep.journal.journal import JOURNAL_NAME, Journal, read_journal, read_proposals
from gridtune.sweep.remote.results import Place, SweepView
from gridtune.sweep.space.schema import SearchSpace

#: The file in a shard's folder.
SHARD_FILE = "shard.json"


@dataclass(frozen=True)
class Shard:
    """One part of a sweep's cells.

    Attributes
    ----------
    number
        From 1 to `count`.
    count
        Parts in all.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as `3/16` names.

        Raises
        ------
        SweepError
            If it is none.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise SweepError(
                f"{text!r} is no shard", hint="the third of sixteen is 3/16; the first number counts from 1"
            )
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def check(self, space: SearchSpace) -> None:
        """Refuse a space whose cells depend on each other's results.

        Raises
        ------
        SweepError
            If its strategy is an adaptive search.
        """
        if space.strategy.adaptive is not None:
            raise SweepError(
                "the strategy of this space decides by results which cells run next, so it cannot be divided",
                field="strategy",
                hint="run it on a Ray cluster instead: docs/clusters.md",
            )

    def cells(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return this shard's cells, in their order: sizes of shards differ by one at most.

        Cells are dealt out in the order of their ids, which are hashes. So costly configurations and windows
        are spread over all shards.
        """
        dealt = sorted({cell.cell_id for cell in cells})[self.number - 1 :: self.count]
        own = set(dealt)
        return [cell for cell in cells if cell.cell_id in own]


@dataclass(frozen=True)
class ShardFacts:
    """Facts in the folder of a shard about the sweep that it is part of.

    Attributes
    ----------
    shard
        Such as `3/16`.
    cells
        Cells of the whole sweep.
    digest
        SHA-256 of the ids of all of them.
    """

    shard: str
    cells: int
    digest: str

    @classmethod
    def of(cls, shard: Shard, cells: Sequence[Cell]) -> Self:
        """Return the facts of a shard of these cells."""
        ids = sorted({cell.cell_id for cell in cells})
        return cls(str(shard), len(ids), hashlib.sha256("\n".join(ids).encode()).hexdigest())

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return what a folder says; None if it is no shard's."""
        try:
            return cls(**json.loads((folder / SHARD_FILE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as fault:
            raise SweepError(f"is not what a shard writes: {fault}", path=folder / SHARD_FILE) from None

    def write(self, folder: Path) -> None:
        """Leave the facts in a folder that is this shard's alone.

        Raises
        ------
        SweepError
            If the folder is another shard's.
        """
        earlier = ShardFacts.read(folder)
        if earlier is not None and earlier.shard != self.shard:
            raise SweepError(
                f"this folder is that of shard {earlier.shard}, not of {self.shard}",
                path=folder,
                hint="give each shard a folder of its own",
            )
        with draft_of(folder / SHARD_FILE) as draft:
            draft.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


def missing_shards(views: Iterable[SweepView]) -> list[str]:
    """Return the shards that are not among some sweeps; [] also where none of them is a shard.

    Raises
    ------
    SweepError
        If they are shards of different divisions, or of different sweeps.
    """
    found = [(view.place, facts) for view in views if (facts := ShardFacts.read(view.folder)) is not None]
    if not found:
        return []
    there, first = found[0]
    count, numbers = Shard.parse(first.shard).count, set[int]()
    for place, facts in found:
        shard = Shard.parse(facts.shard)
        if shard.count != count:
            message = f"is shard {shard}, but {there} is one of {count}: they divide a sweep differently"
            raise SweepError(message, path=place, hint="leave one division out")
        if facts.digest != first.digest:
            raise SweepError(
                f"is a shard of another sweep than {there}: their cells differ "
                f"({facts.cells:,} and {first.cells:,} in all)",
                path=place,
                hint="did the space, a log, the code or gridtune's version change between them? "
                "Run the older shards again",
            )
        numbers.add(shard.number)
    return [f"{number}/{count}" for number in range(1, count + 1) if number not in numbers]


def merge_journals(
    views: Sequence[SweepView], out: Path, mirror: Callable[[bytes], None] | None = None
) -> int:
    """Append to the journal in `out` what the journals of other sweeps have; return how many cells that is.

    A result that is done counts before one that failed. Nothing is written if two results contradict.

    Parameters
    ----------
    views
        The sweeps.
    out
        The folder.
    mirror
        As of `Journal`.

    Raises
    ------
    SweepError
        If there is no journal, a sweep was adaptive, or two of them have different results of a cell.
    """
    origin: dict[str, Place] = {}
    merged: dict[str, CellResult] = {}
    own = [SweepView(out, out, None)] if (out / JOURNAL_NAME).exists() else []
    for view in [*own, *views]:
        path = view.folder / JOURNAL_NAME
        if not path.exists():
            raise SweepError("no sweep is there", path=view.place, hint="give the folders of shards")
        if read_proposals(path):
            raise SweepError("this sweep was adaptive, and cannot be merged with another", path=view.place)
        for cell_id, result in read_journal(path).items():
            earlier = merged.get(cell_id)
            if earlier is not None and {earlier.state, result.state} == {"done"}:
                _check_same(earlier, origin[cell_id], result, view.place)
            if result.adds_to(earlier):
                merged[cell_id], origin[cell_id] = result, view.place
    with Journal(out / JOURNAL_NAME, mirror=mirror) as journal:
        # What a sweep has written here since counts, too.
        new = [result for cell_id, result in merged.items() if result.adds_to(journal.results.get(cell_id))]
        journal.append(new)
    return len(new)


def _check_same(first: CellResult, there: Place, second: CellResult, here: Place) -> None:
    for name in dict.fromkeys([*first.metrics, *second.metrics]):
        values = [finite_json(result.metrics.get(name)) for result in (first, second)]
        if values[0] != values[1]:
            parameters = ", ".join(f"{key}={value}" for key, value in second.configuration.items())
            of = ", ".join(filter(None, (second.workload, parameters, second.replicate)))
            raise SweepError(
                f"the folders {there} and {here} contradict each other: the cell {second.cell_id} ({of}) "
                f"has {name} {' and '.join(map(str, values))}",
                hint=f"`gridtune results rerun {second.cell_id} FOLDER` shows the right one; omit the other",
            )
