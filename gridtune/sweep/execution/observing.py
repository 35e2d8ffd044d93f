"""Interface to observers of a sweep: progress on a screen, MLflow, a test."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

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
    renaming
        Which names in the journal are no longer used; None if there are none.
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
    renaming: str | None = None
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

    On a terminal it is one screen that changes in place: cells done, running and failed, the best
    configuration so far, time taken and left. Elsewhere it is a line every few seconds.

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
        self._best: BestSoFar | None = None
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
        best = BestSoFar(plan)
        with self._lock:
            self._plan, self._best = plan, best
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
            if self._best is not None:
                self._best.add(results)
        if time.monotonic() - self._last_line >= _LINE_SECONDS:
            best = self._best.lines() if self._best else []
            self._say("; ".join([self._counts(), self._times(), *best]))

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
            best = self._best.lines() if self._best else []
        return Group(
            Text.assemble((name, "bold"), "  ", (stage, "dim")),
            ProgressBar(total=max(1, total), completed=finished, width=_BAR_WIDTH),
            Text(counts, style="red" if bad else ""),
            Text(times, style="dim"),
            *map(Text, best),
        )


#: Share of the results that lines may leave out: the screen asks for them four times a second.
_STALE_SHARE = 0.02


class BestSoFar:
    """The leading configuration of each workload.

    Replicates differ more than configurations do: a mean over the easy windows of a log says nothing against
    a mean over the hard ones. So configurations are compared on replicates that all of them have finished;
    those with fewer replicates are left out until that leaves more to compare.

    Parameters
    ----------
    plan
        The sweep's.
    """

    def __init__(self, plan: SweepPlan) -> None:
        self._metric = plan.space.objective[0].metric
        self._sign = 1 if plan.directions[0] == "min" else -1
        self._varied = list(plan.space.dimensions)
        #: Workload to configuration to replicate to value.
        self._values: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        self._configurations: dict[str, Mapping[str, Any]] = {}
        self._lines: list[str] = []
        #: Results taken in, and those of them that the lines take into account.
        self._count, self._counted = 0, 0
        self.add(plan.finished)

    def add(self, results: Sequence[CellResult]) -> None:
        """Take results in."""
        for result in results:
            value = result.metrics.get(self._metric, math.nan)
            if result.state == "done" and not math.isnan(value):
                self._values[result.workload][result.configuration_id][result.replicate] = value
                self._configurations[result.configuration_id] = result.configuration
                self._count += 1

    def lines(self) -> list[str]:
        """Return a line for each workload; of very many results, the last few may not be in it yet."""
        if self._count - self._counted > self._count * _STALE_SHARE:
            self._counted = self._count
            self._lines = [self._line(workload, values) for workload, values in sorted(self._values.items())]
        return self._lines

    def _line(self, workload: str, values: Mapping[str, Mapping[str, float]]) -> str:
        common, compared = _comparable(values)
        means = {name: sum(values[name][each] for each in common) / len(common) for name in compared}
        best = min(means, key=lambda name: self._sign * means[name])
        line = f"best so far on {workload}: {self._label(best)}, {self._metric} {_short(means[best])}"
        others = len(values) - len(compared)
        return f"{line} ({len(compared)} compared, {others} with fewer replicates)" if others else line

    def _label(self, configuration_id: str) -> str:
        configuration = self._configurations[configuration_id]
        varied = {name: configuration[name] for name in self._varied if name in configuration}
        parts = [
            value if isinstance(value, str) else f"{name}={_short(value)}" for name, value in varied.items()
        ]
        return " · ".join(parts) or "the only configuration"


def _comparable(values: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[str]]:
    """Return replicates, and the configurations that have finished all of them: as many of both as can be.

    Configurations are taken in from the one with most replicates on. Each may leave fewer replicates that all
    have; of the sets so made, the one with the most values counts.
    """
    by_count = sorted(values, key=lambda name: -len(values[name]))
    common = list(values[by_count[0]])
    best, most = (common, by_count[:1]), 0
    for count, name in enumerate(by_count, start=1):
        common = [replicate for replicate in common if replicate in values[name]]
        if count * len(common) >= most:
            best, most = (common, by_count[:count]), count * len(common)
    return best


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
