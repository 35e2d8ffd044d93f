"""The figures of a sweep: trade-offs over its cells, and the papers' curves of one run of each policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from gridtune.core.style import MARKERS, figure, group_thousands, head, plain_logarithms, save, series_colours
from gridtune.systems.responsive.metrics import PROMPT
from gridtune.systems.responsive.parameters import LEARNED
from gridtune.systems.responsive.report.tables import (
    REWARDS,
    SITES,
    Row,
    groups_alike,
    in_words,
    native_of,
    shared_part,
    site_of,
    wrapped,
)
from gridtune.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from gridtune.core.system import FinishedSweep

__all__ = ["chosen_rows", "write_curves", "write_trade_offs"]


#: Series in one figure: more of them would share colours.
_MOST = 6
_OTHERS = "other rules"
#: Line styles of the rules that learners are compared with.
_DASHES = (":", "-.", (0, (5, 1)), (0, (1, 3)))
_EXPLAINED_FRONT = "means over replicates; rules joined by = coincide"
_COST = {
    "rigid": ("fairness_mean", "mean F", True),
    "elastic": ("cost", "cost", False),
    "elastic-paper": ("core_hours", "core-hours", False),
}


def write_trade_offs(sweep: FinishedSweep) -> list[Path]:
    """Write, for each workload and kind of site, the front and, where λ varies, its effect."""
    files = []
    for rows, site, workload, stem in _sites(sweep):
        if len(rows) < 2:
            continue
        files.append(_front(rows, site, workload, stem.with_name(f"{stem.name}_front.png")))
        if len({row.weight for row in rows}) > 1:
            files.append(_by_weight(rows, site, workload, stem.with_name(f"{stem.name}_lambda.png")))
    return files


def _sites(sweep: FinishedSweep) -> Iterator[tuple[list[Row], str, str, Path]]:
    """Yield the rows of each workload and kind of site, both, and what their figures' names begin with."""
    rows = Row.of(sweep.results)
    for number, workload in enumerate(dict.fromkeys(row.workload for row in rows), start=1):
        for site in REWARDS:
            if mine := site_of(rows, workload, site):
                yield mine, site, workload, sweep.directory / "plots" / f"responsive_{number}_{site}"


def non_dominated(rows: Sequence[Row], cost: str, more_is_better: bool) -> list[Row]:
    """Return the rows that no other dominates in mean W and in its cost, by W."""

    def better(one: Row, other: Row) -> bool:
        gain = one.mean("responsiveness_mean") - other.mean("responsiveness_mean")
        saving = (one.mean(cost) - other.mean(cost)) * (1 if more_is_better else -1)
        return gain >= 0 and saving >= 0 and gain + saving > 0

    front = [row for row in rows if not any(better(other, row) for other in rows)]
    return sorted(front, key=lambda row: row.mean("responsiveness_mean"))


def _front(rows: Sequence[Row], site: str, workload: str, path: Path) -> Path:
    cost, words, more_is_better = _COST[site]
    front = non_dominated(rows, cost, more_is_better)
    groups = _distinct_series(rows, cost)
    shown = _most_relevant(groups, front)
    colours = series_colours(list(shown))
    with figure(9.5, 5) as (drawing, axes):
        for members in (members for name, members in groups.items() if name not in shown):
            look: dict[str, Any] = {"color": "#CFCFCF", "marker": "o", "zorder": 2, "label": _OTHERS}
            axes.plot(*_points(members, cost).T, linestyle="none", **look)
        for index, (name, members) in enumerate(shown.items()):
            # Each marker is smaller than those before it, so that none hides another.
            look = {"color": colours[name], "marker": MARKERS[index], "markersize": 8.5 - index * 0.7}
            axes.plot(*_points(members, cost).T, linestyle="none", zorder=3 + index, label=name, **look)
        # Between two points of the front only the worse one is reachable, so they are joined by steps.
        steps = _points(front, cost)[:: -1 if more_is_better else 1]
        where = "pre" if more_is_better else "post"
        axes.step(*steps.T, where=where, color="#222222", linewidth=1, zorder=1, label="not dominated")
        group_thousands(axes.xaxis)
        axes.set(xlabel=words, ylabel="mean W over all jobs")
        head(axes, f"Responsiveness against {words}", f"{workload}, {SITES[site]}; {_EXPLAINED_FRONT}")
        handles, labels = axes.get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True))
        # The series in the background comes last.
        labels = sorted(entries, key=lambda label: label == _OTHERS)
        drawing.legend([entries[label] for label in labels], labels, loc="outside right upper")
        return save(drawing, path)


def _points(rows: Sequence[Row], cost: str) -> FloatArray:
    """Return cost and W of each row, shape (n, 2)."""
    return np.array([[row.mean(cost), row.mean("responsiveness_mean")] for row in rows])


def _distinct_series(rows: Sequence[Row], cost: str) -> dict[str, list[Row]]:
    """Return rows by policy and estimates, each series by λ; series that coincide have a joint name."""
    series: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.weight):
        series.setdefault(row.series, []).append(row)
    groups = groups_alike({name: _points(members, cost) for name, members in series.items()})
    return {wrapped(names): [row for name in names for row in series[name]] for names in groups.values()}


def _most_relevant(groups: Mapping[str, list[Row]], front: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the groups to draw in colour: those on the front, the native rule, then the best."""
    own = native_of([row for rows in groups.values() for row in rows])

    def preference(name: str) -> tuple[Any, ...]:
        rows = groups[name]
        best = max(row.mean("responsiveness_mean") for row in rows)
        native = any(row.policy == own for row in rows)
        return (not any(row in front for row in rows), not native, -best)

    return {name: groups[name] for name in sorted(groups, key=preference)[:_MOST]}


def _by_weight(rows: Sequence[Row], site: str, workload: str, path: Path) -> Path:
    cost, words, _ = _COST[site]
    panels = (
        ("interactive_responsiveness_mean", "W, interactive"),
        ("batch_responsiveness_mean", "W, batch"),
        (cost, words),
    )
    learned, levels = _over_weights(rows, learned=True), _levels(_over_weights(rows, learned=False))
    colours = series_colours(list(dict.fromkeys(name.rpartition(", ")[0] for name in learned)))
    with figure(12, 4.6, ncols=3) as (drawing, axes):
        for panel, (metric, label) in zip(axes, panels, strict=True):
            for index, (name, members) in enumerate(levels.items()):
                # A rule does not depend on λ: a level to compare learners with.
                look = {"color": "#8A8A8A", "linestyle": _DASHES[index], "linewidth": 1.2}
                panel.axhline(members[0].mean(metric), label=name, zorder=1, **look)
            for name, members in learned.items():
                policy, _, estimates = name.rpartition(", ")
                panel.errorbar(
                    [row.weight for row in members],
                    [row.mean(metric) for row in members],
                    yerr=[0 if len(row) < 2 else row.spread(metric) for row in members],
                    marker="o" if estimates == "ORA" else "s",
                    linestyle="--" if estimates == "ORA" else "-",
                    color=colours[policy],
                    capsize=2,
                    label=name,
                )
            panel.set(xlabel="λ, weight of responsiveness", title=label)
        group_thousands(axes[2].yaxis)
        replicates = max(map(len, rows))
        title = f"{workload}, {SITES[site]}; bars: standard deviation over {replicates} replicates"
        drawing.suptitle(title, x=0.01, ha="left")
        handles, labels = axes[0].get_legend_handles_labels()
        drawing.legend(handles, [wrapped([label]) for label in labels], loc="outside lower center", ncols=3)
        return save(drawing, path)


def _over_weights(rows: Sequence[Row], *, learned: bool) -> dict[str, list[Row]]:
    """Return the rows of learners or rules that were run with more than one λ, by name and by λ."""
    by_name: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.weight):
        if ("-" in row.policy) == learned:
            by_name.setdefault(f"{row.label}, {row.estimates}", []).append(row)
    return {name: members for name, members in by_name.items() if len(members) > 1}


def _levels(ruled: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """Return a few rules to compare learners with: the native one, SJF, SJF with an oracle, FCFS."""
    own = native_of([row for rows in ruled.values() for row in rows])
    order = [(own, "EST"), ("sjf", "EST"), ("sjf", "ORA"), ("fcfs", "EST")]
    names = [
        name for which in order for name, (row, *_) in ruled.items() if (row.policy, row.estimates) == which
    ]
    return {name: ruled[name] for name in names[: len(_DASHES)]}


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
        self.submit, self.run, self.vo = jobs["submit"], jobs["run"], jobs["vo"]
        self.overhead = wait / jobs["run"][counted]
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
    """Subject of the figures of one site: the site, the settings that its policies share, and their files."""

    where: str
    shared: str
    stem: Path

    def path(self, what: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}_{what}.png")

    @property
    def explained(self) -> str:
        return "; ".join(filter(None, [self.shared, _EXPLAINED]))


def write_curves(sweep: FinishedSweep) -> list[Path]:
    """Write the jobs, W, waits, fairness and, if elastic, pool and utilisation, of each workload and site."""
    files = []
    rigid: dict[str, dict[str, _Run]] = {}
    # On the rigid site, to be drawn with those of the elastic one: figure 8 of the first paper.
    learned: dict[str, _Run] = {}
    for rows, site, workload, stem in _sites(sweep):
        chosen = chosen_rows(rows)
        runs = {f"{row.label}, {row.estimates}": _Run(sweep.tables_of(row.results[0])) for row in chosen}
        shared, names = shared_part(list(runs))
        runs = {names[name]: run for name, run in runs.items()}
        drawn = _Drawn(f"{workload}, {SITES[site]}", shared, stem)
        beside = learned if site == "elastic-paper" and workload in rigid else {}
        files.append(_draw_responsiveness({**runs, **beside}, drawn))
        files.append(_draw_delays({**runs, **beside}, drawn))
        files += _draw_fairness(runs, drawn)
        if site == "rigid":
            rigid = {workload: runs}
            learned = {
                f"rigid: {name}": run
                for row, (name, run) in zip(chosen, runs.items(), strict=True)
                if row.policy in LEARNED
            }
            files.append(_draw_workload(*next(iter(runs.items())), drawn))
        if site == "elastic":
            files.append(_draw_pools(runs, drawn))
        if site == "elastic-paper":
            files.append(_draw_pool(runs, rigid.get(workload, {}), drawn))
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


def _looks(runs: Mapping[str, Any], drawn: Collection[str]) -> dict[str, dict[str, Any]]:
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


#: Seconds over which the jobs that arrive are added up (figure 3 of the first paper).
_INTERVAL = 10_000


def _draw_workload(name: str, run: _Run, drawn: _Drawn) -> Path:
    """Draw run times by VO, waits relative to them, and work that arrives, as figures 1 to 3 (2009)."""
    with figure(13, 4.2, ncols=3) as (drawing, (times, overheads, requests)):
        for vo in np.unique(run.vo):
            mine = np.sort(run.run[run.vo == vo])
            times.step(mine, np.arange(1, len(mine) + 1) / len(mine), where="post", label=f"VO {vo + 1}")
        times.legend(loc="upper left")
        for mine, kind in ((run.interactive, "interactive"), (~run.interactive, "batch")):
            values = np.maximum(np.sort(run.overhead[mine]), 1e-3)
            overheads.step(values, np.arange(1, len(values) + 1) / max(len(values), 1), label=kind)
        overheads.legend(loc="lower right")
        for panel, unit in (
            (times, "run time, s"),
            (overheads, "wait / run time (left edge: 0.001, less)"),
        ):
            panel.set_xscale("log")
            panel.set(xlabel=unit, ylabel="share of jobs with no more", ylim=(0, 1.02))
        place = (run.submit - run.begin) // _INTERVAL
        asked = np.bincount(place, run.run) / _INTERVAL
        requests.step(np.arange(len(asked)) * _INTERVAL / DAY, asked, where="post", linewidth=0.8)
        requests.set(xlabel="days since the first submission", ylabel="cores")
        group_thousands(requests.yaxis)
        head(times, "Run times by VO", drawn.where)
        head(overheads, "Wait over run time", in_words(name))
        head(requests, "Work that arrives", f"seconds of run time a second, over {_INTERVAL:,} s")
        return save(drawing, drawn.path("workload"))


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
        head(axes[0], "Interactive jobs", drawn.where)
        head(axes[1], "Batch jobs", drawn.explained)
        drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
        yield drawing, axes


def _draw_responsiveness(runs: Mapping[str, _Run], drawn: _Drawn) -> Path:
    """Draw P(W > x), as figures 4, 5 and 8 of the first paper and 2 of the second."""

    def curve(run: _Run, mine: BoolArray) -> tuple[FloatArray, FloatArray]:
        values = np.sort(run.responsiveness[mine])
        return values, 1.0 - np.arange(len(values)) / max(len(values), 1)

    with _panels(runs, drawn, curve, np.linspace(0, 1, 201)) as (drawing, axes):
        for panel in axes:
            panel.set(xlim=(0, 1.02), xlabel="W")
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
    heads = [
        (f"Fairness: {drawn.where}", drawn.explained, "F"),
        (f"Difference to {in_words(native)}", "positive: fairer", "difference of F"),
    ]
    path = drawn.path("fairness")
    with _timelines(path, (9.5, 6.2), heads) as (above, below):
        groups = groups_alike(fairness)
        for name, look in _looks(runs, groups).items():
            above.plot(runs[name].days, runs[name].fairness, label=wrapped(groups[name]), **look)
        groups = groups_alike(apart)
        for name, look in _looks(runs, groups).items():
            below.plot(reference.days, apart[name], label=wrapped(groups[name]), **look)
    return [path]


@contextmanager
def _timelines(
    path: Path, size: tuple[float, float], heads: Sequence[tuple[str, str, str]]
) -> Iterator[Sequence[Any]]:
    """Yield panels one below the other over the days; `heads`: their titles, explanations and units."""
    with figure(*size, len(heads), sharex=True) as (drawing, panels):
        yield panels
        for panel, (title, explained, unit) in zip(panels, heads, strict=True):
            head(panel, title, explained)
            panel.set_ylabel(unit)
            if panel.get_legend_handles_labels()[0]:
                panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        panels[-1].set_xlabel("days since the first submission")
        save(drawing, path)


def _draw_pool(runs: Mapping[str, _Run], rigid: Mapping[str, _Run], drawn: _Drawn) -> Path:
    """Draw pool and utilisation over time, as figure 9 of the first paper, next to a rigid site."""
    pools, used = _over_time(runs, "pool"), _over_time(runs, "utilisation")
    shapes = {name: np.stack([pools[name], used[name]], axis=1) for name in runs}
    groups = groups_alike(shapes)
    heads = [(f"Cores of the pool: {drawn.where}", drawn.explained, "cores"), ("Utilisation U", "", "U")]
    path = drawn.path("pool")
    with _timelines(path, (9.5, 6.2), heads) as (above, below):
        for name, look in _looks(runs, groups).items():
            run = runs[name]
            above.step(run.days, run.pool, where="post", label=wrapped(groups[name]), **look)
            below.plot(run.days, run.utilisation, **look)
        for name, run in list(rigid.items())[:1]:
            look = {"color": "#222222", "linestyle": ":", "label": wrapped([f"rigid: {name}"])}
            below.plot(run.days, run.utilisation, **look)
    return path


def _at(instants: FloatArray, steps: FloatArray, values: FloatArray) -> FloatArray:
    """Return the values of a step function, given at `steps`, at other instants."""
    place = np.maximum(np.searchsorted(steps, instants, side="right") - 1, 0)
    return np.asarray(values[place], np.float64)


def _draw_pools(runs: Mapping[str, _Run], drawn: _Drawn) -> Path:
    """Draw the event-driven pool of each run over time, and under it core-hours and waits added up.

    Pools and queues jump so often that the lines of several hide each other; their sums do not.
    """
    tracks = {name: run.track for name, run in runs.items() if run.track is not None}
    days, cores, sums = {}, {}, {}
    for name, track in tracks.items():
        time, cores[name], waiting = (track[column].to_numpy() for column in ("time", "pool", "waiting"))
        days[name] = (time - time[0]) / DAY
        sums[name] = [_hours_so_far(time, cores[name]), _hours_so_far(time, waiting)]
    instants = np.linspace(0, max(moments[-1] for moments in days.values()), _INSTANTS)
    groups = groups_alike(
        {
            name: np.stack([np.interp(instants, days[name], hours) for hours in both], axis=1)
            for name, both in sums.items()
        }
    )
    explained = ["booting cores included", drawn.shared, f"{_EXPLAINED} in both sums"]
    heads = [
        (f"Cores paid for: {drawn.where}", "; ".join(filter(None, explained)), "cores"),
        ("Core-hours paid for so far", "", "core-hours"),
        ("Hours that jobs have waited so far", "", "job-hours"),
    ]
    path = drawn.path("pool")
    with _timelines(path, (10.5, 8.4), heads) as panels:
        for name, look in _looks(groups, groups).items():
            label = wrapped(groups[name])
            panels[0].step(days[name], cores[name], where="post", label=label, alpha=0.8, **look)
            for panel, hours in zip(panels[1:], sums[name], strict=True):
                panel.plot(days[name], hours, **look)
        for panel in panels:
            group_thousands(panel.yaxis)
    return path


def _hours_so_far(time: IntArray, level: IntArray) -> FloatArray:
    """Return the integral of a step function up to each instant, in hours: shape (n,)."""
    return np.concatenate([[0.0], np.cumsum(np.diff(time) * level[:-1])]) / 3_600
