"""The curves of the papers' figures: one run of each policy, for which its cell is run again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gridtune.core.style import figure, head, plain_logarithms, save, series_colours
from gridtune.systems.responsive.metrics import PROMPT
from gridtune.systems.responsive.parameters import LEARNED
from gridtune.systems.responsive.report.alike import SITES, groups_alike, in_words, shared_part, span, wrapped
from gridtune.systems.responsive.report.pool_curves import draw_pools
from gridtune.systems.responsive.report.rows import REWARDS, Row, native_of, rows_of, site_of
from gridtune.types import BoolArray, FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

    from gridtune.core.system import FinishedSweep

__all__ = ["chosen_rows", "write_curves"]

#: Policies drawn in one figure: no more, so that their lines can be told apart.
MOST = 5
DAY = 86_400
#: Returns the curve of a run's jobs of one class.
_Curve = Callable[["_Run", BoolArray], tuple[FloatArray, FloatArray]]
_EXPLAINED = "policies joined by = coincide"
#: Instants at which curves over time are compared.
_INSTANTS = 500


class _Run:
    """The jobs and decisions of one cell that count."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        jobs, decisions = (
            {name: table[name].to_numpy() for name in table.column_names}
            for table in (tables["jobs"], tables["decisions"])
        )
        counted = jobs["counted"]
        wait = (jobs["start"] - jobs["submit"])[counted]
        self.interactive = jobs["interactive"][counted]
        self.wait = wait
        self.responsiveness = jobs["run"][counted] / (jobs["run"][counted] + wait)
        self.begin = int(jobs["submit"][0])
        # After the last submission the site only drains.
        shown = decisions["time"] <= jobs["submit"][-1]
        self.days = (decisions["time"][shown] - self.begin) / DAY
        self.fairness = decisions["fairness"][shown]
        self.utilisation = decisions["utilisation"][shown]
        self.pool = decisions["pool"][shown]
        self.track = tables.get("pool")


class _Drawn(NamedTuple):
    """What the figures of one site are of: the site, what its policies have in common, and their files."""

    where: str
    shared: str
    stem: Path

    def path(self, what: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}_{what}.png")

    @property
    def explained(self) -> str:
        return "; ".join(filter(None, [self.shared, _EXPLAINED]))


def write_curves(sweep: FinishedSweep) -> list[Path]:
    """Write W, waits, fairness and, if elastic, pool and utilisation, of each workload and kind of site."""
    rows, files = rows_of(sweep.results), []
    for number, workload in enumerate(dict.fromkeys(row.workload for row in rows), start=1):
        rigid: dict[str, _Run] = {}
        for site in REWARDS:
            runs = {
                f"{row.label}, {row.estimates}": _Run(sweep.tables_of(row.results[0]))
                for row in chosen_rows(site_of(rows, workload, site))
            }
            if not runs:
                continue
            shared, names = shared_part(list(runs))
            runs = {names[name]: run for name, run in runs.items()}
            stem = sweep.directory / "plots" / f"responsive_{number}_{site}"
            drawn = _Drawn(f"{workload}, {SITES[site]}", shared, stem)
            files.append(_draw_responsiveness(runs, drawn))
            files.append(_draw_delays(runs, drawn))
            files += _draw_fairness(runs, drawn)
            if site == "elastic":
                pools = {name: run.track for name, run in runs.items() if run.track is not None}
                files.append(draw_pools(pools, drawn.where, shared, drawn.path("pool")))
            if site == "elastic-paper":
                files.append(_draw_pool(runs, rigid, drawn))
            rigid = runs
    return files


def chosen_rows(rows: Sequence[Row]) -> list[Row]:
    """Return one row for each of a few policies: the native one, learned ones, then simple rules, by reward.

    A policy's row is the one with λ nearest to 0.5, without an oracle where there is such a row, and with the
    best reward. Learned policies leave a place to the best rule.
    """

    def preference(row: Row) -> tuple[Any, ...]:
        return (abs(row.weight - 0.5), row.estimates == "ORA", -row.mean(REWARDS[row.site]))

    def kind(row: Row) -> tuple[Any, ...]:
        # The curves of an event-driven site are those of its pools, each under its best policy.
        return (row.get("pool"),) if row.site == "elastic" else (row.policy, row.get("variant", "paper"))

    by_policy: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=preference):
        by_policy.setdefault(kind(row), row)
    ranked = sorted(by_policy.values(), key=lambda row: -row.mean(REWARDS[row.site]))
    own = native_of(rows)
    native = [row for row in ranked if row.policy == own]
    learned = [row for row in ranked if row.policy in LEARNED]
    rules = [row for row in ranked if row.policy not in (own, *LEARNED)]
    learned = learned[: MOST - len(native) - len(rules[:1])]
    return [*native, *learned, *rules[: MOST - len(native) - len(learned)]]


def _looks(runs: Mapping[str, _Run], drawn: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the style of each line: each is thinner than those before it, so that none hides another."""
    colours = series_colours(list(runs))
    widths = np.linspace(2.6, 1.0, len(drawn)) if len(drawn) > 1 else [1.6]
    return {
        name: {"color": colours[name], "linewidth": width} for name, width in zip(drawn, widths, strict=True)
    }


def _over_time(runs: Mapping[str, _Run], what: str) -> dict[str, FloatArray]:
    """Return each run's column at the same instants, so that runs can be compared: shape (instants,)."""
    instants = np.linspace(0, max(run.days[-1] for run in runs.values()), _INSTANTS)
    return {name: _at(instants, run.days, getattr(run, what)) for name, run in runs.items()}


@contextmanager
def _panels(
    runs: Mapping[str, _Run], drawn: _Drawn, curve: _Curve, grid: FloatArray
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure of two panels, interactive and batch jobs, with a curve of each run.

    Curves are compared at the places in `grid`: those that differ by less than a line's width are one line.
    """
    classes = {name: [run.interactive, ~run.interactive] for name, run in runs.items()}
    lines = {name: [curve(run, mine) for mine in classes[name]] for name, run in runs.items()}
    shapes = {
        name: np.stack([_at(grid, x, y) if len(x) else np.zeros(len(grid)) for x, y in curves], axis=1)
        for name, curves in lines.items()
    }
    groups = groups_alike(shapes, 1.0)
    with figure(11, 4.4, ncols=2) as (drawing, axes):
        for name, look in _looks(runs, groups).items():
            for panel, (x, y) in zip(axes, lines[name], strict=True):
                panel.step(x, y, where="post", label=wrapped(groups[name]), **look)
        for panel, kind in zip(axes, ("Interactive", "Batch"), strict=True):
            head(panel, f"{kind} jobs: {drawn.where}", drawn.explained if kind == "Interactive" else " ")
        drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
        yield drawing, axes


def _draw_responsiveness(runs: Mapping[str, _Run], drawn: _Drawn) -> Path:
    """Draw P(W > x), as figures 4, 5 and 8 of the first paper and 2 of the second."""

    def curve(run: _Run, mine: BoolArray) -> tuple[FloatArray, FloatArray]:
        values = np.sort(run.responsiveness[mine])
        return values, 1.0 - np.arange(len(values)) / max(len(values), 1)

    with _panels(runs, drawn, curve, np.linspace(0, 1, 201)) as (drawing, axes):
        for panel in axes:
            panel.set_xlim(0, 1.02)
            panel.set_xlabel("W")
        axes[0].set_ylabel("share of jobs with a larger W")
        return save(drawing, drawn.path("responsiveness"))


def _draw_delays(runs: Mapping[str, _Run], drawn: _Drawn) -> Path:
    """Draw P(wait ≤ x), as figures 7 and 10 of the first paper and 3 of the second."""

    def curve(run: _Run, mine: BoolArray) -> tuple[FloatArray, FloatArray]:
        values = np.maximum(np.sort(run.wait[mine]), 1).astype(np.float64)
        return values, (np.arange(len(values)) + 1) / max(len(values), 1)

    longest = max(run.wait.max(initial=1) for run in runs.values())
    with _panels(runs, drawn, curve, np.geomspace(1, max(longest, 2), 201)) as (drawing, axes):
        for panel in axes:
            panel.set_xscale("log")
            plain_logarithms(panel.xaxis)
            panel.set_xlabel(f"wait, s (left edge: 1 s and less; dashed: {PROMPT} s)")
            panel.axvline(PROMPT, color="#999999", linewidth=0.8, linestyle="--")
        axes[0].set_ylabel("share of jobs that wait no longer")
        return save(drawing, drawn.path("delay"))


def _draw_fairness(runs: Mapping[str, _Run], drawn: _Drawn) -> list[Path]:
    """Draw F over time and its difference to the native scheduler's, as figures 6 (2009) and 4 (2010)."""
    native = next((name for name in runs if name.startswith(("FCFS with caps", "fair share"))), None)
    if native is None:
        return []
    fairness, reference = _over_time(runs, "fairness"), runs[native]
    apart = {
        name: _at(reference.days, run.days, run.fairness) - reference.fairness
        for name, run in runs.items()
        if name != native
    }
    with figure(9.5, 6.2, 2, sharex=True) as (drawing, (above, below)):
        groups = groups_alike(fairness, span(fairness))
        for name, look in _looks(runs, groups).items():
            above.plot(runs[name].days, runs[name].fairness, label=wrapped(groups[name]), **look)
        groups = groups_alike(apart, span(apart)) if apart else {}
        for name, look in _looks(runs, groups).items():
            below.plot(reference.days, apart[name], label=wrapped(groups[name]), **look)
        head(above, f"Fairness: {drawn.where}", drawn.explained)
        head(below, f"Difference to {in_words(native)}", "positive: fairer")
        above.set_ylabel("F")
        below.set_ylabel("difference of F")
        below.set_xlabel("days since the first submission")
        for panel in (above, below):
            panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return [save(drawing, drawn.path("fairness"))]


def _draw_pool(runs: Mapping[str, _Run], rigid: Mapping[str, _Run], drawn: _Drawn) -> Path:
    """Draw pool and utilisation over time, as figure 9 of the first paper, next to a rigid site."""
    pools, used = _over_time(runs, "pool"), _over_time(runs, "utilisation")
    shapes = {name: np.stack([pools[name], used[name]], axis=1) for name in runs}
    groups = groups_alike(shapes, span(shapes))
    with figure(9.5, 6.2, 2, sharex=True) as (drawing, (above, below)):
        for name, look in _looks(runs, groups).items():
            run = runs[name]
            above.step(run.days, run.pool, where="post", label=wrapped(groups[name]), **look)
            below.plot(run.days, run.utilisation, **look)
        for name, run in list(rigid.items())[:1]:
            below.plot(
                run.days, run.utilisation, color="#222222", linestyle=":", label=wrapped([f"rigid: {name}"])
            )
        head(above, f"Cores of the pool: {drawn.where}", drawn.explained)
        head(below, "Utilisation U")
        above.set_ylabel("cores")
        below.set_ylabel("U")
        below.set_xlabel("days since the first submission")
        for panel in (above, below) if rigid else (above,):
            panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return save(drawing, drawn.path("pool"))


def _at(instants: FloatArray, steps: FloatArray, values: FloatArray) -> FloatArray:
    """Return the values of a step function, given at `steps`, at other instants."""
    place = np.maximum(np.searchsorted(steps, instants, side="right") - 1, 0)
    return np.asarray(values[place], np.float64)
