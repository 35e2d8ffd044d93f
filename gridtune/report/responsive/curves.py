"""The curves behind the papers' figures: one life under each policy, its cells run once more for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gridtune.report.responsive.rows import NATIVE, Row, rows_of, site_of
from gridtune.report.style import figure, head, save, series_colours

if TYPE_CHECKING:
    import pyarrow as pa

    from gridtune.report.extras import Material
    from gridtune.sweep.cells import CellResult

__all__ = ["chosen_rows", "write_curves"]

Floats = npt.NDArray[np.float64]
#: Lives under one policy each: what is drawn side by side, and no more, so that lines can be told apart.
MOST = 5
DAY = 86_400
#: Draws a life's jobs of one class into a panel, in a style.
_Draw = Callable[[Any, "_Life", npt.NDArray[np.bool_], dict[str, str]], None]
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


def write_curves(material: Material) -> list[Path]:
    """Write, for each workload and kind of site, W, delays, fairness and, elastic, pool and utilisation."""
    rows, files = rows_of(material.results), []
    for number, workload in enumerate(dict.fromkeys(row.workload for row in rows), start=1):
        rigid: dict[str, _Life] = {}
        for site in ("rigid", "elastic"):
            lives = {
                f"{row.label}, {row.estimates}": _Life(material.tables_of(_first(row)))
                for row in chosen_rows(site_of(rows, workload, site))
            }
            if not lives:
                continue
            stem = material.directory / "plots" / f"responsive_{number}_{site}"
            where = f"{workload}, {site}"
            files.append(_draw_responsiveness(lives, where, stem))
            files.append(_draw_delays(lives, where, stem))
            files += _draw_fairness(lives, where, stem)
            if site == "elastic":
                files.append(_draw_pool(lives, rigid, where, stem))
            rigid = lives
    return files


def chosen_rows(rows: Sequence[Row]) -> list[Row]:
    """Return one row of each policy, the native one first, then by reward: λ near 0.5, no oracle, best pool.

    An oracle is taken where a policy has nothing else.
    """

    def preference(row: Row) -> tuple[Any, ...]:
        return (abs(row.weight - 0.5), row.estimates == "ORA", -row.mean(f"{row.site}_reward"))

    by_policy: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=preference):
        by_policy.setdefault((row.policy, row.get("variant", "paper")), row)
    ranked = sorted(
        by_policy.values(),
        key=lambda row: (row.policy != NATIVE, -row.mean(f"{row.site}_reward")),
    )
    return ranked[:MOST]


def _first(row: Row) -> CellResult:
    return row.results[0]


def _named(stem: Path, what: str) -> Path:
    return stem.with_name(f"{stem.name}_{what}.png")


@contextmanager
def _panels(lives: Mapping[str, _Life], where: str, draw: _Draw) -> Iterator[tuple[Any, Any]]:
    """Give a figure of two panels, interactive and batch jobs, with a curve of each life."""
    colours = series_colours(list(lives))
    with figure(11, 4.4, ncols=2) as (drawing, axes):
        for panel, interactive in zip(axes, (True, False), strict=True):
            for name, life in lives.items():
                draw(panel, life, life.interactive == interactive, {"color": colours[name], "label": name})
            head(panel, f"{'Interactive' if interactive else 'Batch'} jobs: {where}")
        drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
        yield drawing, axes


def _draw_responsiveness(lives: Mapping[str, _Life], where: str, stem: Path) -> Path:
    """Draw P(W > x), as figures 4, 5 and 8 of the first paper and 2 of the second."""

    def draw(panel: Any, life: _Life, mine: npt.NDArray[np.bool_], style: dict[str, str]) -> None:
        values = np.sort(life.responsiveness[mine])
        above = 1.0 - np.arange(len(values)) / max(len(values), 1)
        panel.step(values, above, where="post", **style)
        panel.set_xlim(0, 1.02)
        panel.set_xlabel("W")

    with _panels(lives, where, draw) as (drawing, axes):
        axes[0].set_ylabel("share of jobs with a larger W")
        return save(drawing, _named(stem, "responsiveness"))


def _draw_delays(lives: Mapping[str, _Life], where: str, stem: Path) -> Path:
    """Draw P(wait ≤ x), as figures 7 and 10 of the first paper and 3 of the second."""

    def draw(panel: Any, life: _Life, mine: npt.NDArray[np.bool_], style: dict[str, str]) -> None:
        values = np.sort(life.wait[mine])
        share = (np.arange(len(values)) + 1) / max(len(values), 1)
        panel.step(np.maximum(values, 1), share, where="post", **style)
        panel.set_xscale("log")
        panel.set_xlabel("delay, s (1 s and less at the left edge)")

    with _panels(lives, where, draw) as (drawing, axes):
        for panel in axes:
            panel.axvline(PROMPT, color="#999999", linewidth=0.8, linestyle="--")
        axes[0].set_ylabel("share of jobs that wait no longer")
        return save(drawing, _named(stem, "delay"))


def _draw_fairness(lives: Mapping[str, _Life], where: str, stem: Path) -> list[Path]:
    """Draw F over time and its difference to the native scheduler's, as figures 6 and 4."""
    native = next((name for name in lives if name.startswith("fair share")), None)
    if native is None:
        return []
    colours = series_colours(list(lives))
    with figure(11, 4.4, ncols=2) as (drawing, (left, right)):
        for name, life in lives.items():
            left.plot(life.days, life.fairness, color=colours[name], label=name, linewidth=1.2)
            if name != native:
                own = _at(lives[native].days, life.days, life.fairness)
                right.plot(
                    lives[native].days, own - lives[native].fairness, color=colours[name], linewidth=1.2
                )
        head(left, f"Fairness: {where}")
        head(right, "Difference to fair share")
        left.set_ylabel("F")
        for panel in (left, right):
            panel.set_xlabel("days since the first submission")
        drawing.legend(*left.get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, _named(stem, "fairness"))]


def _draw_pool(lives: Mapping[str, _Life], rigid: Mapping[str, _Life], where: str, stem: Path) -> Path:
    """Draw pool and utilisation over time, as figure 9 of the first paper, with a rigid site beside."""
    colours = series_colours(list(lives))
    with figure(11, 4.4, ncols=2) as (drawing, (left, right)):
        for name, life in lives.items():
            left.step(life.days, life.pool, where="post", color=colours[name], label=name, linewidth=1.0)
            right.plot(life.days, life.utilisation, color=colours[name], linewidth=1.2)
        if rigid:
            name, life = next(iter(rigid.items()))
            right.plot(life.days, life.utilisation, color="#222222", linestyle=":", label=f"rigid: {name}")
        head(left, f"Cores of the pool: {where}")
        head(right, "Utilisation U")
        for panel in (left, right):
            panel.set_xlabel("days since the first submission")
        handles, labels = left.get_legend_handles_labels()
        more, words = right.get_legend_handles_labels()
        drawing.legend(handles + more, labels + words, loc="outside right upper")
        return save(drawing, _named(stem, "pool"))


def _at(wanted: Floats, known: Floats, values: Floats) -> Floats:
    """Return a step function's values at other instants."""
    place = np.maximum(np.searchsorted(known, wanted, side="right") - 1, 0)
    return np.asarray(values[place], np.float64)
