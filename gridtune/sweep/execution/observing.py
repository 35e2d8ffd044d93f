"""Interface to observers of a sweep: progress on a screen, MLflow, a test."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from gridtune.core.cells import CellResult
from gridtune.sweep.journal.results import OtherCode
from gridtune.sweep.space.schema import SearchSpace
from gridtune.workload.workload import Workload

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console, RenderableType
    from rich.live import Live


@dataclass(frozen=True)
class SweepPlan:
    """Work that a sweep is about to do.

    Attributes
    ----------
    space
        The search space.
    directory
        Where the journal and the results are.
    directions
        "min" or "max" for each of the space's objectives.
    total
        Cells of the sweep, those finished before included; the most there can be if `at_most`.
    finished
        Results there are already.
    workloads
        The traces, by the reference that cells name.
    other_code
        What the journal has of the same cells by other code; None if it has nothing.
    at_most
        Whether the strategy may stop configurations, so that fewer cells than `total` are run.
    """

    space: SearchSpace
    directory: Path
    directions: Sequence[str]
    total: int
    finished: Sequence[CellResult]
    workloads: Mapping[str, Workload]
    other_code: OtherCode | None = None
    at_most: bool = False


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep.

    Attributes
    ----------
    plan
        The plan it followed.
    results
        Every cell's result, in the table's order.
    table
        The same as a table, as `results.parquet` holds it.
    path
        `results.parquet`.
    ran
        How many cells were run this time.
    seconds
        Wall-clock seconds this time took.
    earlier
        Cells in the journal that the space does not have: those of an earlier one of the same name. Those of
        `other_code` are not among them.
    other_code
        What the journal has of the same cells by other code; None if it has nothing.
    """

    plan: SweepPlan
    results: Sequence[CellResult]
    table: pa.Table
    path: Path
    ran: int
    seconds: float
    earlier: int = 0
    other_code: OtherCode | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """Cells by state."""
        none = dict.fromkeys(("done", "failed", "timed_out", "lost"), 0)
        return none | Counter(result.state for result in self.results)

    @property
    def complete(self) -> bool:
        """True if every cell is done."""
        return self.counts["done"] == len(self.results)


class SweepObserver(Protocol):
    """Watches a sweep, in the driver's own thread; an exception ends the sweep (the journal is safe).

    A class that derives from it defines what it wants to hear of.
    """

    def started(self, plan: SweepPlan) -> None:
        """Take the plan, before the first cell runs."""
        return

    def finished(self, results: Sequence[CellResult]) -> None:
        """Take new results, after they are in the journal; each comes once."""
        return

    def ended(self, result: SweepResult) -> None:
        """Take the result, when `results.parquet` is written."""
        return


#: Seconds between two plain lines, at least.
_LINE_SECONDS = 5.0
_REFRESHES_PER_SECOND = 4
#: Seconds of work that a guess at the time left needs.
_SURE_SECONDS = 2.0
#: Workers take at most this many times the seconds of their cells.
_MOST_LOST = 2.0
_BAR_WIDTH = 40


def clock_text(seconds: float) -> str:
    """Return a time as a clock shows it, such as `1 d 2:03:04`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours}:{minutes:02}:{rest:02}" if hours or days else f"{minutes}:{rest:02}"
    return f"{days} d {clock}" if days else clock


class TimeLeft:
    """About how long the rest of a sweep takes, by what cells have taken so far.

    Parameters
    ----------
    clock
        Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Seconds of the cells so far, and their number.
        self._taken, self._timed = 0.0, 0
        #: Cells that are still to be run, also those that a strategy has not decided on.
        self._cells = 0
        self._busy, self._workers, self._since = 0, 1, clock()
        #: Seconds in which workers ran cells, and the same summed over the workers.
        self._running = self._worker_seconds = 0.0

    def started(self, plan: SweepPlan) -> None:
        """Take the plan."""
        self._cells = plan.total - len(plan.finished)

    def stage(self, busy: int) -> None:
        """Take the number of workers that run cells now."""
        now = self._clock()
        if self._busy:
            self._running += now - self._since
            self._worker_seconds += self._busy * (now - self._since)
        self._busy, self._workers, self._since = busy, busy or self._workers, now

    def finished(self, results: Sequence[CellResult]) -> None:
        """Take results."""
        self._cells -= len(results)
        seconds = [one.seconds for one in results if one.state == "done" and math.isfinite(one.seconds)]
        self._taken += sum(seconds)
        self._timed += len(seconds)

    @property
    def seconds(self) -> float | None:
        """The seconds; None as long as little has been run."""
        self.stage(self._busy)
        if not self._taken or self._running < _SURE_SECONDS:
            return None
        work = max(0, self._cells) * self._taken / self._timed
        # What workers lose between cells counts; what they waited for before the first ones hardly does.
        lost = min(max(self._worker_seconds / self._taken, 1.0), _MOST_LOST)
        return lost * work / self._workers


class Progress:
    """Shows how a sweep is doing; a `SweepObserver` that also shows what the sweep is busy with.

    On a terminal it is one screen that changes in place: cells done, running and failed, time taken and left.
    Elsewhere it is a line every few seconds. Which configuration leads is said at the end, with its interval.

    Parameters
    ----------
    console
        Where to show it; None for nowhere.
    """

    def __init__(self, console: Console | None) -> None:
        self._console = console
        #: The live screen is drawn by a thread of its own, while results come in.
        self._lock = threading.RLock()
        self._live: Live | None = None
        self._plan: SweepPlan | None = None
        self._states: Counter[str] = Counter()
        self._stage, self._busy = "starting", 0
        self._began = time.monotonic()
        self._left = TimeLeft()
        self._last_line = -_LINE_SECONDS

    def __enter__(self) -> Self:
        if self._console is not None and self._console.is_terminal:
            from rich.live import Live  # noqa: PLC0415

            self._live = Live(
                get_renderable=self.screen,
                console=self._console,
                refresh_per_second=_REFRESHES_PER_SECOND,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if kind is KeyboardInterrupt and self._plan is not None:
            left = self._total - sum(self._states.values())
            up_to, rest = "", f"runs the {left:,} that are left"
            if self._plan.at_most:
                up_to, rest = "up to ", "goes on"
            self._say(
                f"interrupted: {self._states['done']:,} of {up_to}{self._total:,} cells are done and kept in "
                f"{self._plan.directory}; the same command {rest}"
            )

    def stage(self, what: str, busy: int) -> None:
        """Show what the sweep is busy with, and with how many workers."""
        changed = what != self._stage
        with self._lock:
            self._stage, self._busy = what, busy
            self._left.stage(busy)
        if changed and what != "running":
            self._say(f"{what} …")

    def started(self, plan: SweepPlan) -> None:
        """Show the plan."""
        with self._lock:
            self._plan = plan
            self._states.update(result.state for result in plan.finished)
            self._left.started(plan)
        before = f", {len(plan.finished)} of them finished before" if plan.finished else ""
        total = f"up to {plan.total}" if plan.at_most else plan.total
        self._say(f"{plan.space.name}: {total} cells{before}; in {plan.directory}")
        if plan.other_code is not None:
            self._say(plan.other_code.message)

    def finished(self, results: Sequence[CellResult]) -> None:
        """Count results."""
        with self._lock:
            self._left.finished(results)
            self._states.update(result.state for result in results)
        if time.monotonic() - self._last_line >= _LINE_SECONDS:
            self._say(f"{self._counts()}; {self._times()}")

    def ended(self, result: SweepResult) -> None:
        """Show the totals."""
        counts = ", ".join(
            f"{count} {state.replace('_', ' ')}" for state, count in result.counts.items() if count
        )
        self._say(f"{counts or 'no cells'}; {result.ran} run now, in {clock_text(result.seconds)}")

    def _say(self, text: str) -> None:
        self._last_line = time.monotonic()
        if self._console is not None and self._live is None:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @property
    def _total(self) -> int:
        return self._plan.total if self._plan else 0

    def _counts(self) -> str:
        bad = {state: count for state, count in self._states.items() if state != "done" and count}
        of = " of up to " if self._plan is not None and self._plan.at_most else "/"
        parts = [f"{self._states['done']}{of}{self._total} done", f"{self._busy} running"]
        parts += [f"{count} {state.replace('_', ' ')}" for state, count in bad.items()] or ["0 failed"]
        return ", ".join(parts)

    def _times(self) -> str:
        elapsed = f"elapsed {clock_text(time.monotonic() - self._began)}"
        with self._lock:
            left = self._left.seconds
        if left is None:
            return elapsed
        about = "at most" if self._plan is not None and self._plan.at_most else "about"
        return f"{elapsed}, {about} {clock_text(left)} left"

    def screen(self) -> RenderableType:
        """Return the live screen as it is now."""
        from rich.console import Group  # noqa: PLC0415
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        with self._lock:
            name = self._plan.space.name if self._plan else "sweep"
            stage, total, counts, times = self._stage, self._total, self._counts(), self._times()
            finished = sum(self._states.values())
            bad = finished - self._states["done"]
        return Group(
            Text.assemble((name, "bold"), "  ", (stage, "dim")),
            ProgressBar(total=max(1, total), completed=finished, width=_BAR_WIDTH),
            Text(counts, style="red" if bad else ""),
            Text(times, style="dim"),
        )
