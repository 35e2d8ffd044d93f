"""The report of a sweep: the paper's tables beside ours as Markdown, and its figures.

Figures are of learning over batches (the paper's Figure 4), the shares of machines (its Table 3), recovery
from a change, and calibration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gridtune.core.cells import CellResult
from gridtune.core.style import BASELINE, MARKERS, PALETTE, figure, head, save
from gridtune.core.system import FinishedSweep
from gridtune.report.labels import markdown_table, number_text
from gridtune.report.rankings.cells import by_configuration
from gridtune.statistics.inference import bootstrap_interval, paired_difference
from gridtune.systems.dispatch.parameters import TABLE_1
from gridtune.systems.dispatch.published import TABLE_2, TABLE_3, TABLE_5, TABLE_6
from gridtune.types import FloatArray

__all__ = ["Method", "gather", "medians", "write"]

#: Seed of the resampling: the same intervals every time a report is made.
_SEED = 6
#: In the paper the machines' speeds change after this batch (counted from 1).
_CHANGED = 2


def _write_comparison(methods: Sequence[Method], sweep: FinishedSweep) -> list[Path]:
    """Write `comparison.md`, if there is anything to compare."""
    parts: list[str] = []
    for workload in dict.fromkeys(method.workload for method in methods):
        own = [method for method in methods if method.workload == workload]
        parts += [f"## {workload}\n"] if len({method.workload for method in methods}) > 1 else []
        parts += _assisting(own) + _deciding(own)
    if not parts:
        return []
    path = sweep.directory / "comparison.md"
    path.write_text(f"# {sweep.name}\n\n" + "\n".join(parts), encoding="utf-8")
    return [path]


def _number(value: Any, digits: int = 2) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


def _numbers(values: Iterable[float], digits: int = 2) -> str:
    return " ".join(_number(value, digits) for value in values)


def _between(low: Any, high: Any, digits: int = 2) -> str:
    """Return an interval, or a dash where a bound is NaN."""
    return "–" if np.isnan(low) or np.isnan(high) else f"{low:.{digits}f} … {high:.{digits}f}"


# Assistance -------------------------------------------------------------------------------------------


def _assisting(methods: Sequence[Method]) -> list[str]:
    """Return Tables 2 and 5: jobs in time relative to the base selector's, batch by batch."""
    helped = [method for method in methods if method.of("mode") == "assist"]
    if not helped:
        return []
    changing = any(method.of("change_after") for method in helped)
    header = ["base", "learner", *(["machines"] if changing else []), "pairs"]
    header += ["jobs in time with over without, by batch", "all batches", "95 %", "smallest", "published"]
    rows = []
    # The shared queue stands beside each selector, on the same machines.
    selectors = {(method.of("rule"), method.of("change_after")): method for method in helped}
    pulled = [
        method.over(selector)
        for (_, change), selector in selectors.items()
        for method in methods
        if method.of("rule") == "shared_queue" and method.of("change_after") == change
    ]
    for method in [*helped, *pulled]:
        relative = method.relative
        # Where no job of the reference was in time there is no ratio.
        pairs = relative[~np.isnan(relative)]
        interval = bootstrap_interval(
            medians(relative, axis=1), rng=np.random.default_rng(_SEED), statistic="median"
        )
        change = [("changed" if method.of("change_after") else "as they were")] if changing else []
        rows.append(
            [
                method.base,
                method.label,
                *change,
                str(pairs.size),
                _numbers(medians(relative, axis=0)),
                _number(np.median(pairs) if pairs.size else np.nan),
                _between(interval.low, interval.high),
                _number(pairs.min() if pairs.size else np.nan),
                _published_relative(method, changing),
            ]
        )
    number = "5" if changing else "2"
    text = (
        f"### Jobs in time (the paper's Table {number})\n\n"
        "Medians over paired batches; the interval is that of the median over replicates of a replicate's "
        "median batch. Published: one run, by batch.\n"
    )
    return [text, markdown_table(header, rows), *_assignments(helped)]


def _published_relative(method: Method, changing: bool) -> str:
    key = (str(method.of("rule", "random")), method.learner)
    if not method.like_the_paper or key not in TABLE_2:
        return ""
    if not changing:
        return _numbers(TABLE_2[key])
    before, after = TABLE_5[key]
    return _numbers((*before[:_CHANGED], *after) if method.of("change_after") else before)


def _assignments(helped: Sequence[Method]) -> list[str]:
    """Return Table 3: where jobs went under round robin, machines in the order of their speed."""
    rows: list[list[str]] = []
    header = ["learner on round robin"]
    for method, factors, shares, published in _shares_by_speed(helped):
        header[1:] = [f"{factor:g}" for factor in factors]
        rows.append([method.label, *(f"{share:.2f}" for share in shares)])
        if published is not None:
            rows.append([f"{method.label}, published", *(f"{share:.2f}" for share in published)])
    if not rows:
        return []
    return ["### Share of the jobs by machine, fastest first (Table 3)\n", markdown_table(header, rows)]


def _shares_by_speed(
    methods: Iterable[Method],
) -> Iterator[tuple[Method, list[float], list[float], list[float] | None]]:
    """Yield learners that assist round robin on machines that do not change, with where their jobs went.

    Beside each the machines' factors, the fastest first, and in that order the shares of the jobs, ours and
    the published ones, None where there are none.
    """
    for method in methods:
        where = (method.of("mode"), method.of("rule"), method.of("change_after") or 0)
        if where != ("assist", "round_robin", 0):
            continue
        factors = np.asarray(method.of("factors") or TABLE_1, np.float64)
        order = np.argsort(factors, kind="stable")
        published = TABLE_3.get(method.learner) if tuple(factors) == TABLE_1 else None
        if published is not None and method.like_the_paper:
            theirs = [published[place] for place in order]
        else:
            theirs = None
        yield method, factors[order].tolist(), method.assignments.mean(axis=0)[order].tolist(), theirs


# Deciding ---------------------------------------------------------------------------------------------


def _deciding(methods: Sequence[Method]) -> list[str]:
    """Return Table 6: mean tardiness, and its ratio to that of ERD with tabu search."""
    deciding = [method for method in methods if method.of("mode") != "assist"]
    benchmark = next((method for method in deciding if method.label == "ERD + tabu"), None)
    if benchmark is None:
        return []
    # The paper's dispatchers learned before the ten batches of this table; those of Figure 4 did not.
    like_paper = bool(benchmark.of("learning_jobs")) and not benchmark.of("trace")
    published = {name: np.mean(values) / np.mean(TABLE_6["erd"]) for name, values in TABLE_6.items()}
    rows = []
    for method in deciding:
        difference, bound = method.less(benchmark), method.bound.mean()
        key = method.learner if method.learner != "none" else str(method.of("rule"))
        beside = method.of("order") in (None, "due_date") and (
            method.learner != "none" or method.of("repair_every")
        )
        rows.append(
            [
                method.label,
                str(len(method.late)),
                number_text(float(method.late.mean())),
                "1" if method is benchmark else _number(1 + difference.relative, 3),
                ""
                if method is benchmark
                else _between(1 + difference.relative_low, 1 + difference.relative_high, 3),
                f"{method.in_time.sum() / method.jobs.sum():.3f}",
                "–" if not bound > 0 else f"+{100 * (method.late.mean() / bound - 1):.0f} %",
            ]
        )
        if like_paper:
            rows[-1].append(f"{published[key]:.3f}" if beside and key in published else "")
    header = [
        "dispatcher",
        "n",
        "mean tardiness, s",
        "over ERD + tabu",
        "95 % paired",
        "in time",
        "over the bound",
    ]
    title, note = "Mean tardiness", f"n replicates of {benchmark.tardiness.shape[1]} batches"
    if like_paper:
        header.append("published ratio")
        title += " (the paper's Table 6)"
        note += "; ratios are compared, as the paper does not name its unit"
    return [f"### {title}\n\n{note}.\n", markdown_table(header, rows)]


_NAMES = {
    "none": "alone",
    "j48": "J48",
    "naive_bayes": "naive Bayes",
    "lwl": "LWL",
    "edd": "EDD",
    "erd": "ERD",
    "spt": "SPT",
    "atc": "ATC",
}
_ORDERS = {
    "fifo": "by arrival",
    "due_date": "by due date",
    "shortest": "shortest first",
    "atc": "by apparent cost",
}
_SPEEDS = {"known": "speeds known", "nominal": "speeds 1", "learned": "speeds learned"}


@dataclass(frozen=True)
class Method:
    """A configuration and its replicates.

    Attributes
    ----------
    workload
        The workload; each has its own tables.
    parameters
        The configuration's.
    replicates
        Labels, in the order of the results.
    in_time, reference_in_time, tardiness, reference_tardiness
        Shape (replicates, batches): jobs in time and mean tardiness (s) by batch, and the reference's.
    jobs
        Shape (replicates, batches): jobs of each batch.
    bound
        Shape (replicates,): lower bound of the mean tardiness, s; NaN where a cell has none.
    assignments
        Shape (replicates, machines): share of the jobs.
    reliability
        Pooled over replicates: mean chance, share in time and jobs of each tenth of the chance.
    """

    workload: str
    parameters: Mapping[str, Any]
    replicates: tuple[str, ...]
    in_time: FloatArray
    reference_in_time: FloatArray
    tardiness: FloatArray
    reference_tardiness: FloatArray
    jobs: FloatArray
    bound: FloatArray
    assignments: FloatArray
    reliability: FloatArray

    def of(self, name: str, default: Any = None) -> Any:
        """Return a parameter; `default` where the sweep does not set it."""
        return self.parameters.get(name, default)

    @property
    def learner(self) -> str:
        """The learner's name; `none` without."""
        return str(self.of("learner") or "none")

    @property
    def relative(self) -> FloatArray:
        """Jobs in time over those of the reference, by replicate and batch; NaN where that has none."""
        there = np.where(self.reference_in_time == 0, np.nan, self.reference_in_time)
        relative: FloatArray = self.in_time / there
        return relative

    @property
    def late(self) -> FloatArray:
        """Mean tardiness of a replicate's jobs, s: shape (replicates,)."""
        late: FloatArray = (self.tardiness * self.jobs).sum(axis=1) / self.jobs.sum(axis=1)
        return late

    @property
    def label(self) -> str:
        """The method in words, without its base rule where a learner assists."""
        if self.of("policy", "rules") == "ppo":
            return "agent trained by PPO"
        name = _NAMES.get(self.learner, self.learner.replace("_", " "))
        if self.learner == "none":
            return self._rule
        if self.of("mode") == "direct":
            only = ", candidates in time" if self.of("candidates") == "in_time" else ""
            return f"{name}, {_ORDERS[str(self.of('order', 'fifo'))]}{only}"
        selects = ", attributes selected" if self.of("select_attributes") else ""
        return name + selects + (", sets aside" if self.of("set_aside") else "")

    @property
    def like_the_paper(self) -> bool:
        """True without what the paper has no numbers of: jobs set aside, selected attributes."""
        return not (self.of("set_aside") or self.of("select_attributes"))

    @property
    def _rule(self) -> str:
        """A rule that decides alone in words, with its options where they are set."""
        order, speeds = self.of("order"), self.of("speeds")
        if self.of("rule") == "shared_queue" and order == "shortest":
            order = None
        if self.of("rule") == "shared_queue" and speeds == "nominal":
            speeds = None
        options = [_ORDERS.get(str(order)), _SPEEDS.get(str(speeds))]
        if self.of("by_user"):
            options.append("run times learned")
        name = self.base + (" + tabu" if self.of("repair_every") else "")
        return ", ".join([name, *(option for option in options if option)])

    @property
    def base(self) -> str:
        """The base rule in words."""
        rule = str(self.of("rule", "random"))
        return _NAMES.get(rule, rule.replace("_", " "))

    def over(self, selector: Method) -> Method:
        """Return this rule's jobs in time over those of another method's reference, on the shared replicates.

        The result reads like a learner that assists that method's selector.
        """
        shared = [label for label in self.replicates if label in selector.replicates]
        own = [self.replicates.index(label) for label in shared]
        theirs = [selector.replicates.index(label) for label in shared]
        parameters = {**self.parameters, "rule": selector.of("rule"), "mode": "assist", "learner": self.label}
        return replace(
            self,
            parameters=parameters,
            in_time=self.in_time[own],
            reference_in_time=selector.reference_in_time[theirs],
        )

    def less(self, benchmark: Method) -> Any:
        """Compare mean tardiness with the benchmark's on the replicates that both have."""
        shared = [label for label in self.replicates if label in benchmark.replicates]
        sides = []
        for side in (self, benchmark):
            late = dict(zip(side.replicates, side.late, strict=True))
            sides.append(np.array([late[label] for label in shared]))
        return paired_difference(*sides, rng=np.random.default_rng(_SEED))

    @classmethod
    def of_cells(cls, cells: Sequence[CellResult]) -> Method:
        """Return the method of a configuration's cells."""

        def jobs(cell: CellResult) -> list[float]:
            # The system's version 1 noted only the jobs of all batches.
            batches = len(cell.notes["in_time_by_batch"])
            return [cell.metrics["jobs"] / batches] * batches

        def noted(name: str) -> FloatArray:
            rows = [cell.notes.get(name) or jobs(cell) for cell in cells]
            # Windows of a log may differ by a batch; batches that not all have are left out.
            shortest = min(map(len, rows))
            return np.array([row[:shortest] for row in rows], np.float64)

        bins = [cell.notes["reliability"] for cell in cells]
        return cls(
            cells[0].workload,
            dict(cells[0].configuration),
            tuple(cell.replicate for cell in cells),
            noted("in_time_by_batch"),
            noted("reference_in_time_by_batch"),
            noted("tardiness_by_batch"),
            noted("reference_tardiness_by_batch"),
            noted("jobs_by_batch"),
            np.array([cell.metrics.get("tardiness_mean_bound", np.nan) for cell in cells], np.float64),
            noted("assignments"),
            _pooled(bins),
        )


def gather(results: Iterable[CellResult]) -> list[Method]:
    """Return the methods of a sweep in the order of its results; cells that are not done are left out."""
    complete = (result for result in results if "in_time_by_batch" in result.notes)
    return [Method.of_cells(cells) for cells in by_configuration(complete)]


def medians(values: FloatArray, axis: int) -> FloatArray:
    """Return a matrix's medians along an axis of what is not NaN; NaN, without a warning, where all is."""
    rows = (row[~np.isnan(row)] for row in (values if axis == 1 else values.T))
    return np.array([np.median(row) if row.size else np.nan for row in rows])


def _pooled(bins: Sequence[Mapping[str, Sequence[float]]]) -> FloatArray:
    """Pool the tenths of all cells: shape (3, tenths with jobs)."""
    columns = [np.concatenate([tenths[name] for tenths in bins]) for name in ("chance", "in_time", "jobs")]
    chance, good, jobs = (np.asarray(column, np.float64) for column in columns)
    place = np.minimum((chance * 10).astype(np.int64), 9)
    total = np.bincount(place, jobs, 10)
    some = total > 0
    means = [np.bincount(place, values * jobs, 10)[some] / total[some] for values in (chance, good)]
    return np.array([*means, total[some]])


#: Batches that one point of the learning curve is the mean of, as in the paper.
_SPAN = 10
#: The fewest points worth a curve.
_POINTS = 5
_PAPERS = ("j48", "naive_bayes", "lwl")


def write(sweep: FinishedSweep) -> list[Path]:
    """Write the comparison with the paper, and figures of learning, shares, recovery and calibration."""
    methods, folder = gather(sweep.results), sweep.directory / "plots"
    files, workloads = _write_comparison(methods, sweep), {method.workload for method in methods}
    for workload in dict.fromkeys(method.workload for method in methods):
        own = [method for method in methods if method.workload == workload]
        end = f"-{workload}" if len(workloads) > 1 else ""
        files += _learning(own, folder / f"learning{end}.png")
        files += _shares(own, folder / f"assignments{end}.png")
        files += _recovery(own, folder / f"recovery{end}.png")
        files += _calibration(own, folder / f"calibration{end}.png")
    return files


def _learning(methods: Sequence[Method], path: Path) -> Iterator[Path]:
    """Draw moving means of the tardiness; insertion rules, which learn nothing, by their mean."""
    learning = [method for method in methods if method.of("mode") == "direct"]
    rules = [method for method in methods if method.learner == "none" and method.of("rule") in {"edd", "erd"}]
    if not learning or learning[0].tardiness.shape[1] < _SPAN + _POINTS - 1:
        return
    sizes = np.concatenate([method.jobs.ravel() for method in learning])
    fewest, most = int(sizes.min()), int(sizes.max())
    jobs = f"{most:,} jobs" if fewest == most else f"up to {most:,} jobs"
    with figure(8.5, 4.6) as (drawing, axes):
        for place, method in enumerate(learning):
            late = method.tardiness.mean(axis=0)
            moving = np.convolve(late, np.ones(_SPAN) / _SPAN, "valid")
            first = np.arange(1, len(moving) + 1)
            axes.plot(first, moving, **_style(place), markersize=4, label=method.label)
        for method, style in zip(rules, ("-", "--", ":", "-."), strict=False):
            axes.axhline(
                method.tardiness.mean(), color=BASELINE, linestyle=style, linewidth=1.2, label=method.label
            )
        label = f"first of {_SPAN} batches of {jobs}; a point is their mean"
        axes.set(xlabel=label, ylabel="mean tardiness, s")
        head(axes, "Learning from nothing", "means over replicates; lower is better")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        yield save(drawing, path)


def _shares(methods: Sequence[Method], path: Path) -> Iterator[Path]:
    """Draw the shares of the jobs by machine, beside the published ones: a panel for each learner."""
    shown = [row for row in _shares_by_speed(methods) if row[0].learner in _PAPERS]
    if not shown:
        return
    with figure(4.0 * len(shown), 3.6, 1, ncols=len(shown), sharey=True, squeeze=False) as (drawing, grid):
        for axes, (method, factors, shares, published) in zip(grid[0], shown, strict=True):
            machines = np.arange(len(factors))
            axes.bar(machines, shares, color=PALETTE[0], width=0.7, label="ours")
            if published is not None:
                axes.plot(machines, published, **_style(1), linestyle="", label="published")
            axes.axhline(1 / len(factors), color=BASELINE, linewidth=1.0, label="round robin alone")
            axes.set_xticks(machines, [f"{factor:g}" for factor in factors], fontsize=8)
            axes.set_xlabel("factor of the machine, the fastest first")
            head(axes, method.label)
        grid[0][0].set_ylabel("share of the jobs")
        grid[0][-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        yield save(drawing, path)


def _recovery(methods: Sequence[Method], path: Path) -> Iterator[Path]:
    """Draw jobs in time, with over without a learner, by batch: a panel for each base selector."""
    changed = [method for method in methods if method.of("mode") == "assist" and method.of("change_after")]
    if not changed:
        return
    bases = dict.fromkeys(method.base for method in changed)
    with _panels(changed, bases, 4.2, "jobs in time, with a learner over without", path) as (panels, styles):
        for axes, base in panels:
            own = [method for method in changed if method.base == base]
            for method in own:
                middle = medians(method.relative, axis=0)
                batches = np.arange(1, len(middle) + 1)
                axes.plot(batches, middle, **styles[method.label], label=method.label)
            after = int(own[0].of("change_after"))
            axes.axhline(1.0, color=BASELINE, linewidth=1.0)
            axes.axvline(after + 0.5, color="#999999", linestyle="--", linewidth=1.0)
            place = {"xy": (after + 0.55, 0.02), "xycoords": ("data", "axes fraction")}
            axes.annotate("speeds change", **place, fontsize=8, color="#666666")
            axes.set(xlabel="batch", xticks=np.arange(1, own[0].relative.shape[1] + 1))
    yield path


@contextmanager
def _panels(
    methods: Sequence[Method], bases: Iterable[str], height: float, label: str, path: Path
) -> Iterator[tuple[list[tuple[Any, str]], dict[str, dict[str, Any]]]]:
    """Yield a panel for each base and the style of each method's name; then write one legend beside all."""
    named = dict.fromkeys(method.label for method in methods)
    styles, bases = {name: _style(place) for place, name in enumerate(named)}, list(bases)
    with figure(4.0 * len(bases), height, 1, ncols=len(bases), sharey=True, squeeze=False) as (drawing, grid):
        yield list(zip(grid[0], bases, strict=True)), styles
        handles: dict[str, Any] = {}
        for axes, base in zip(grid[0], bases, strict=True):
            head(axes, base)
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(name, handle)
        grid[0][0].set_ylabel(label)
        place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "markerscale": 0.8}
        grid[0][-1].legend(handles.values(), handles, **place)
        save(drawing, path)


def _style(place: int) -> dict[str, Any]:
    """Return the color and marker of a place in the palette."""
    return {"color": PALETTE[place % len(PALETTE)], "marker": MARKERS[place % len(MARKERS)]}


def _calibration(methods: Sequence[Method], path: Path) -> Iterator[Path]:
    """Draw the share of jobs in time over the predicted chance: a panel for each base rule."""
    # Methods that predict chances, without changes, setting aside or another order of the queues.
    shown = [
        method
        for method in methods
        if not method.of("change_after")
        and not method.of("set_aside")
        and method.learner != "none"
        and method.reliability.shape[1] > 0
        and method.of("order") in (None, "due_date")
    ]
    if not shown:
        return
    bases = dict.fromkeys(method.base if method.of("mode") == "assist" else "direct" for method in shown)
    with _panels(shown, bases, 4.4, "share of jobs that did", path) as (panels, styles):
        for axes, base in panels:
            axes.plot([0, 1], [0, 1], color=BASELINE, linewidth=1.0)
            for method in (method for method in shown if base in (method.base, "direct")):
                style = styles[method.label]
                chance, share, jobs = method.reliability
                line = "--" if method.learner in _PAPERS else "-"
                axes.plot(chance, share, color=style["color"], linewidth=1.0, linestyle=line)
                axes.scatter(chance, share, s=8 + 80 * jobs / jobs.sum(), **style, label=method.label)
            axes.set_xlabel("predicted chance of ending in time")
    yield path
