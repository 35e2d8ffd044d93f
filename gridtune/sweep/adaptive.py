"""`AdaptiveQueue`: deals out the cells of an adaptive search, as any executor takes them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from gridtune.core.cells import Cell, CellResult
from gridtune.sweep.blocks import Block, BlockQueue
from gridtune.sweep.space.plan import Planner
from gridtune.sweep.tuning.lockstep import LockstepSearch, Record, directions_of
from gridtune.sweep.tuning.trials import SearchTrial

__all__ = ["AdaptiveQueue", "differing_text", "directions_of"]


def differing_text(count: int) -> str:
    """Return the message about proposals of the journal that would be others now."""
    proposals = "1 proposal" if count == 1 else f"{count} proposals"
    return (
        f"{proposals} of the journal would be different now, by another version of Optuna or because cells "
        "were run again; the journal's are kept"
    )


class AdaptiveQueue(BlockQueue):
    """Deals out blocks of cells, each of one step of one trial of a `LockstepSearch`.

    Parameters
    ----------
    planner
        Makes a configuration's cells.
    finished
        Results there are already, by cell id. Cells without one run, also those of old proposals.
    recorded
        Proposals that the journal has.
    record
        Takes new proposals, before their cells run.
    workers
        Workers at once; what is proposed does not depend on it.
    timeout
        Seconds a cell may take, or None.
    """

    def __init__(
        self,
        planner: Planner,
        finished: Mapping[str, CellResult],
        *,
        recorded: Iterable[Mapping[str, Any]] = (),
        record: Record | None = None,
        workers: int,
        timeout: float | None = None,
    ) -> None:
        super().__init__([], workers=workers, timeout=timeout)
        self._found: dict[str, CellResult] = dict(finished)
        self._trial_of: dict[str, SearchTrial] = {}
        self.search = LockstepSearch(planner, self._found, recorded=recorded, record=record)

    def cells(self) -> list[Cell]:
        """Return the cells of every step begun so far, each once."""
        return list({cell.cell_id: cell for cell in self.search.cells}.values())

    @property
    def left(self) -> int:
        """Cells without a result: of the steps begun, and of a first step of each configuration to come."""
        missing = {cell.cell_id for trial in self.search.in_turn for cell in self.missing(trial)}
        return len(missing) + self.search.cells_each * self.search.unproposed

    @property
    def results(self) -> Mapping[str, CellResult]:
        """The results there are, by cell id."""
        return self._found

    def missing(self, trial: SearchTrial) -> list[Cell]:
        """Return the cells without a result of the step that a trial is at."""
        return [cell for cell in trial.cells if cell.cell_id not in self._found]

    def ready(self) -> list[tuple[SearchTrial, list[Cell]]]:
        """Return the trials with cells that no worker has, and these cells, the most urgent first."""
        busy = {cell.cell_id for cells in [*self._out.values(), *self._suspects] for cell in cells}
        pieces = []
        for trial in self.search.in_turn:
            cells = [cell for cell in self.missing(trial) if cell.cell_id not in busy]
            busy.update(cell.cell_id for cell in cells)
            if cells:
                pieces.append((trial, cells))
        return pieces

    def pieces(self, without: Container[SearchTrial] = ()) -> int:
        """Return how many blocks could be taken now, leaving out some trials."""
        return len(self._suspects) + sum(trial not in without for trial, _ in self.ready())

    def trial_of(self, block: Block) -> SearchTrial:
        """Return the trial that a block is of."""
        return self._trial_of[block.cells[0].cell_id]

    def take(self, *, without: Container[SearchTrial] = ()) -> Block | None:
        """Return the cells of the step whose results are needed first, or None if all are being run.

        Parameters
        ----------
        without
            Trials to leave out.
        """
        if self._suspects:
            return self.hand_out(self._suspects.popleft(), careful=True)
        ready = (piece for piece in self.ready() if piece[0] not in without)
        return self._hand_out_piece(next(ready, None))

    def take_of(self, trial: SearchTrial) -> Block | None:
        """Return the cells of a trial's step that no worker has, or None."""
        return self._hand_out_piece(next((piece for piece in self.ready() if piece[0] is trial), None))

    def _hand_out_piece(self, piece: tuple[SearchTrial, list[Cell]] | None) -> Block | None:
        if piece is None:
            return None
        trial, cells = piece
        self._trial_of.update(dict.fromkeys([cell.cell_id for cell in cells], trial))
        return self.hand_out(cells)

    def recall(self, number: int) -> None:
        """Take back what a block's worker has not run."""
        careful = self._timeout is None and self._blocks[number].careful
        cells = self._out.pop(number, [])
        if careful and cells:
            self._suspects.appendleft(tuple(cells))

    def note(self, results: Sequence[CellResult]) -> None:
        """Take results, and let the search go on as far as it can."""
        self._found.update({result.cell_id: result for result in results})
        self.search.advance()
