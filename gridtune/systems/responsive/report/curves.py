"""The curves behind the papers' figures: one life under each policy, its cells run once more for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridtune.report.style import figure, head, save, series_colours
from gridtune.systems.responsive.parameters import LEARNED
from gridtune.systems.responsive.report.alike import groups_alike, wrapped
from gridtune.systems.responsive.report.rows import NATIVE, Row, rows_of, site_of

if TYPE_CHECKING:
    import pyarrow as pa

    from gridtune.core.cells import CellResult
    from gridtune.core.system import FinishedSweep

__all__ = ["chosen_rows", "write_curves"]

Floats = npt.NDArray[np.float64]
#: Lives under one policy each: what is drawn side by side, and no more, so that lines can be told apart.
MOST = 5
DAY = 86_400
#: Gives the curve of a life's jobs of one class.
_Curve = Callable[["_Life", npt.NDArray[np.bool_]], tuple[Floats, Floats]]
_EXPLAINED = "policies joined by = lie on each other"
#: Instants at which curves over time are compared.
_INSTANTS = 500
#: Delays that jobs of either class are asked to stay below, seconds.
PROMPT = 120


class _Life:
    """The jobs and decisions of one cell that count."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        jobs = {name: column.to_numpy() for name, column in zip(*_columns(tables["jobs"]), strict=True)}
        decisions = {
            name: column.to_numpy() for name, column in zip(*_columns(tables["decisions"]), strict=True)
        }
        counted = jobs["counted"]
        wait = (jobs["start"] - jobs["submit"])[counted]
        self.interactive = jobs["interactive"][counted]
        self.wait = wait
        self.responsiveness = jobs["run"][counted] / (jobs["run"][counted] + wait)
        self.begin = int(jobs["submit"][0])
        # After the last submission nothing but the drain is left to see.
        shown = decisions["time"] <= jobs["submit"][-1]
        self.days = (decisions["time"][shown] - self.begin) / DAY
        self.fairness = decisions["fairness"][shown]
        self.utilisation = decisions["utilisation"][shown]
        self.pool = decisions["pool"][shown]


def _columns(table: pa.Table) -> tuple[list[str], list[Any]]:
    return table.column_names, table.columns


def write_curves(sweep: FinishedSweep) -> list[Path]:
    """Write, for each workload and kind of site, W, delays, fairness and, elastic, pool and utilisation."""
    rows, files = rows_of(sweep.results), []
    for number, workload in enumerate(dict.fromkeys(row.workload for row in rows), start=1):
        rigid: dict[str, _Life] = {}
        for site in ("rigid", "elastic"):
            lives = {
                f"{row.label}, {row.estimates}": _Life(sweep.tables_of(_first(row)))
                for row in chosen_rows(site_of(rows, workload, site))
            }
            if not lives:
                continue
            stem = sweep.directory / "plots" / f"responsive_{number}_{site}"
            where = f"{workload}, {site}"
            files.append(_draw_responsiveness(lives, where, stem))
            files.append(_draw_delays(lives, where, stem))
            files += _draw_fairness(lives, where, stem)
            if site == "elastic":
                files.append(_draw_pool(lives, rigid, where, stem))
            rigid = lives
    return files


def chosen_rows(rows: Sequence[Row]) -> list[Row]:
    """Return a row each of few policies: the native one, learned ones, then simple rules, by reward.

    Of a policy's rows that with λ near 0.5, no oracle, the best pool and settings; an oracle is taken where a
    policy has nothing else. Learned ones leave a place to the best rule.
    """

    def preference(row: Row) -> tuple[Any, ...]:
        return (abs(row.weight - 0.5), row.estimates == "ORA", -row.mean(f"{row.site}_reward"))

    by_policy: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=preference):
        by_policy.setdefault((row.policy, row.get("variant", "paper")), row)
    ranked = sorted(by_policy.values(), key=lambda row: -row.mean(f"{row.site}_reward"))
    native = [row for row in ranked if row.policy == NATIVE]
    learned = [row for row in ranked if row.policy in LEARNED]
    rules = [row for row in ranked if row.policy not in (NATIVE, *LEARNED)]
    learned = learned[: MOST - len(native) - len(rules[:1])]
    return [*native, *learned, *rules[: MOST - len(native) - len(learned)]]


def _first(row: Row) -> CellResult:
    return row.results[0]


def _named(stem: Path, what: str) -> Path:
    return stem.with_name(f"{stem.name}_{what}.png")


def _looks(lives: Mapping[str, _Life], drawn: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return how the lines of the drawn lives look: each thinner than those before it, so that none hides."""
    colours = series_colours(list(lives))
    widths = np.linspace(2.6, 1.0, len(drawn)) if len(drawn) > 1 else [1.6]
    return {
        name: {"color": colours[name], "linewidth": width} for name, width in zip(drawn, widths, strict=True)
    }


def _over_time(lives: Mapping[str, _Life], what: str) -> dict[str, Floats]:
    """Return each life's column at the same instants, where they can be compared: shape (instants,)."""
    instants = np.linspace(0, max(life.days[-1] for life in lives.values()), _INSTANTS)
    return {name: _at(instants, life.days, getattr(life, what)) for name, life in lives.items()}


def _span(shapes: Mapping[str, Floats]) -> Floats:
    """Return what the curves span together: shape (), or (axes,)."""
    return np.asarray(np.ptp(np.concatenate(list(shapes.values())), axis=0))


@contextmanager
def _panels(lives: Mapping[str, _Life], where: str, curve: _Curve, grid: Floats) -> Iterator[tuple[Any, Any]]:
    """Give a figure of two panels, interactive and batch jobs, with a curve of each life.

    `grid` has the places at which curves are compared: shares that differ there by less than a line's width
    are one line.
    """
    classes = {name: [life.interactive == each for each in (True, False)] for name, life in lives.items()}
    drawn = {name: [curve(life, mine) for mine in classes[name]] for name, life in lives.items()}
    shapes = {
        name: np.stack([_at(grid, x, y) if len(x) else np.zeros(len(grid)) for x, y in curves], axis=1)
        for name, curves in drawn.items()
    }
    groups = groups_alike(shapes, 1.0)
    with figure(11, 4.4, ncols=2) as (drawing, axes):
        for name, look in _looks(lives, groups).items():
            for panel, (x, y) in zip(axes, drawn[name], strict=True):
                panel.step(x, y, where="post", label=wrapped(groups[name]), **look)
        for panel, kind in zip(axes, ("Interactive", "Batch"), strict=True):
            head(panel, f"{kind} jobs: {where}", _EXPLAINED if kind == "Interactive" else " ")
        drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
        yield drawing, axes


def _draw_responsiveness(lives: Mapping[str, _Life], where: str, stem: Path) -> Path:
    """Draw P(W > x), as figures 4, 5 and 8 of the first paper and 2 of the second."""

    def curve(life: _Life, mine: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        values = np.sort(life.responsiveness[mine])
        return values, 1.0 - np.arange(len(values)) / max(len(values), 1)

    with _panels(lives, where, curve, np.linspace(0, 1, 201)) as (drawing, axes):
        for panel in axes:
            panel.set_xlim(0, 1.02)
            panel.set_xlabel("W")
        axes[0].set_ylabel("share of jobs with a larger W")
        return save(drawing, _named(stem, "responsiveness"))


def _draw_delays(lives: Mapping[str, _Life], where: str, stem: Path) -> Path:
    """Draw P(wait ≤ x), as figures 7 and 10 of the first paper and 3 of the second."""

    def curve(life: _Life, mine: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        values = np.maximum(np.sort(life.wait[mine]), 1).astype(np.float64)
        return values, (np.arange(len(values)) + 1) / max(len(values), 1)

    longest = max(life.wait.max(initial=1) for life in lives.values())
    with _panels(lives, where, curve, np.geomspace(1, max(longest, 2), 201)) as (drawing, axes):
        for panel in axes:
            panel.set_xscale("log")
            panel.set_xlabel("delay, s (1 s and less at the left edge)")
            panel.axvline(PROMPT, color="#999999", linewidth=0.8, linestyle="--")
        axes[0].set_ylabel("share of jobs that wait no longer")
        return save(drawing, _named(stem, "delay"))


def _draw_fairness(lives: Mapping[str, _Life], where: str, stem: Path) -> list[Path]:
    """Draw F over time and its difference to the native scheduler's, as figures 6 and 4."""
    native = next((name for name in lives if name.startswith("fair share")), None)
    if native is None:
        return []
    fairness, usual = _over_time(lives, "fairness"), lives[native]
    apart = {
        name: _at(usual.days, life.days, life.fairness) - usual.fairness
        for name, life in lives.items()
        if name != native
    }
    with figure(9.5, 6.2, 2, sharex=True) as (drawing, (above, below)):
        groups = groups_alike(fairness, _span(fairness))
        for name, look in _looks(lives, groups).items():
            above.plot(lives[name].days, lives[name].fairness, label=wrapped(groups[name]), **look)
        groups = groups_alike(apart, _span(apart)) if apart else {}
        for name, look in _looks(lives, groups).items():
            below.plot(usual.days, apart[name], label=wrapped(groups[name]), **look)
        head(above, f"Fairness: {where}", _EXPLAINED)
        head(below, "Difference to fair share", "positive: fairer")
        above.set_ylabel("F")
        below.set_ylabel("F − F of fair share")
        below.set_xlabel("days since the first submission")
        for panel in (above, below):
            panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return [save(drawing, _named(stem, "fairness"))]


def _draw_pool(lives: Mapping[str, _Life], rigid: Mapping[str, _Life], where: str, stem: Path) -> Path:
    """Draw pool and utilisation over time, as figure 9 of the first paper, with a rigid site beside."""
    pools, used = _over_time(lives, "pool"), _over_time(lives, "utilisation")
    shapes = {name: np.stack([pools[name], used[name]], axis=1) for name in lives}
    groups = groups_alike(shapes, _span(shapes))
    with figure(9.5, 6.2, 2, sharex=True) as (drawing, (above, below)):
        for name, look in _looks(lives, groups).items():
            life = lives[name]
            above.step(life.days, life.pool, where="post", label=wrapped(groups[name]), **look)
            below.plot(life.days, life.utilisation, **look)
        for name, life in list(rigid.items())[:1]:
            below.plot(life.days, life.utilisation, color="#222222", linestyle=":", label=f"rigid: {name}")
        head(above, f"Cores of the pool: {where}", _EXPLAINED)
        head(below, "Utilisation U")
        above.set_ylabel("cores")
        below.set_ylabel("U")
        below.set_xlabel("days since the first submission")
        for panel in (above, below) if rigid else (above,):
            panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return save(drawing, _named(stem, "pool"))


def _at(wanted: Floats, known: Floats, values: Floats) -> Floats:
    """Return a step function's values at other instants."""
    place = np.maximum(np.searchsorted(known, wanted, side="right") - 1, 0)
    return np.asarray(values[place], np.float64)
