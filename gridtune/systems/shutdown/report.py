"""The report of a sweep: the paper's tables with ours beside them, and its figures 3 and 6 to 8.

A policy stands for its best configuration, whose cells are simulated again for their tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gridtune.core.cells import CellResult
from gridtune.core.style import MARKERS, PALETTE, figure, group_thousands, head, save
from gridtune.core.system import FinishedSweep
from gridtune.report.labels import markdown_table
from gridtune.report.rankings.cells import by_configuration
from gridtune.systems.shutdown.reproduction import OVERALL, SPREADS, Overall, Spread
from gridtune.systems.shutdown.simulator.days import SEQUENTIAL_GAP
from gridtune.systems.shutdown.simulator.platform import TRACES
from gridtune.types import AnyArray

__all__ = [
    "GROUPS",
    "MOST_DELAYED",
    "PolicyRun",
    "plot_cumulative",
    "plot_nodes",
    "policy_runs",
    "shown_runs",
    "write_comparison",
    "write_report",
]

#: The paper's groups of days by their share of sequential submissions, per cent.
GROUPS = ("[0, 25)", "[25, 50)", "[50, 75)", "[75, 100)", "100")
#: The order of policies in tables and figures; figures show no others if there are at least two of them.
_ORDER = ("T(0)", "T(1)", "T(5)", "OR*", "adaptive", "lookahead", "PPO")
#: What legends add to the paper's names.
_TITLES = {"T(0)": "T(0): off when idle", "OR*": "OR*: knows run times"}
#: The most policies in a table, and in a figure.
_MOST_TABULATED, _MOST_SHOWN = 14, 6
_SHAPE = ("platform", "nodes", "cores_per_node")
_NAMES = {
    "lookahead": "lookahead",
    "hindsight": "hindsight",
    "oracle": "OR*",
    "adaptive": "adaptive",
    "ppo": "PPO",
    "random": "random",
    "always_on": "always on",
}


@dataclass(frozen=True)
class PolicyRun:
    """A policy's run over the days of a workload.

    Attributes
    ----------
    label
        Name of the policy in tables and figures.
    cluster
        The paper's cluster of the same shape, or None.
    cores
        Cores of the cluster.
    tables
        Those of `gridtune.systems.shutdown.metrics.day_tables`, all parts joined.
    colour, marker
        Of its lines in figures.
    """

    label: str
    cluster: str | None
    cores: int
    tables: Mapping[str, pa.Table]
    colour: str
    marker: str

    @property
    def title(self) -> str:
        """The policy in words, as legends have it."""
        return _TITLES.get(self.label) or re.sub(r"^T\((\d+)\)$", r"T(\1): off after \1 idle min", self.label)

    def column(self, table: str, name: str) -> AnyArray:
        """Return a column as an array; missing values are NaN."""
        return np.asarray(self.tables[table][name].to_numpy(zero_copy_only=False))


def shown_runs(runs: Sequence[PolicyRun]) -> list[PolicyRun]:
    """Return the runs that figures show: the policies of the paper, otherwise the first few."""
    known_policies = [run for run in runs if run.label in _ORDER]
    return (known_policies if len(known_policies) > 1 else list(runs))[:_MOST_SHOWN]


def policy_runs(sweep: FinishedSweep) -> dict[str, list[PolicyRun]]:
    """Return the runs of each workload: one for each policy, in its best configuration.

    The cells are simulated again for their tables.
    """
    best: dict[str, dict[str, list[CellResult]]] = {}
    done = by_configuration(sweep.results)
    workloads = dict.fromkeys(results[0].workload for results in done)
    for results in sorted(done, key=lambda results: sweep.ranks.get(results[0].configuration_id, np.inf)):
        by_label = best.setdefault(results[0].workload, {})
        by_label.setdefault(_label(results[0].parameters), results)
    runs = {}
    for workload in workloads:
        by_label = best[workload]
        labels = sorted(by_label, key=lambda label: (_position(label), len(label), label))[:_MOST_TABULATED]
        runs[workload] = [_run(sweep, label, by_label[label], index) for index, label in enumerate(labels)]
    return runs


def _label(parameters: Mapping[str, Any]) -> str:
    policy = parameters.get("policy") or "timeout"
    if policy == "timeout":
        timeout = parameters.get("timeout")
        return f"T({1 if timeout is None else timeout})"
    return _NAMES.get(policy, policy)


def _position(label: str) -> int:
    return _ORDER.index(label) if label in _ORDER else len(_ORDER)


def _run(sweep: FinishedSweep, label: str, results: Sequence[CellResult], index: int) -> PolicyRun:
    """Join the parts of a configuration; other replicates have the same days, so take the first."""
    parts = [result for result in results if result.parameters.get("part") is not None]
    part_tables = [sweep.tables_of(result) for result in parts or results[:1]]
    parameters = results[0].parameters
    other_shape = any(parameters.get(name) is not None for name in _SHAPE)
    nodes, cores = map(int, str(results[0].notes["cluster"]).split(" × "))
    tables = {name: _joined([tables[name] for tables in part_tables]) for name in part_tables[0]}
    # The nodes of one day, not of one day of each part.
    tables |= {name: part_tables[0][name] for name in ("nodes",) if name in part_tables[0]}
    cluster = None if other_shape else parameters.get("cluster") or "taurus"
    colour, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
    return PolicyRun(label, cluster, nodes * cores, tables, colour, marker)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(
        [table.append_column("part", pa.array([part] * len(table))) for part, table in enumerate(tables)]
    )


#: Columns of table 3 by the day's measure.
_COLUMNS = {
    "delay": "qos_delay_all_minutes",
    "waste": "energy_waste",
    "switches": "switches",
    "stretch": "stretch_mean",
}


def write_comparison(by_workload: Mapping[str, Sequence[PolicyRun]], directory: Path) -> list[Path]:
    """Write `shutdown_tables.md`: the traces and the results of each policy, with the paper's beside them."""
    lines = [
        "Our figures are for the trace named above each table, the paper's, in brackets, for its own days.",
        "",
    ]
    for workload, runs in by_workload.items():
        lines += [f"## {workload}", "", _trace_table(runs[0]), _overall_table(runs)]
        lines += [_spread_table(runs), _bound_table(runs)]
    path = directory / "shutdown_tables.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return [path]


def _trace_table(run: PolicyRun) -> str:
    """Return tables 1 and 2: jobs, sequential submissions, utilisation, days by group."""
    gaps = run.column("jobs", "gap").astype(float)
    gaps = gaps[~np.isnan(gaps)]
    sequential = 100 * float(np.mean(gaps < SEQUENTIAL_GAP)) if len(gaps) else np.nan
    groups = np.bincount(run.column("days", "group").astype(int), minlength=6)[1:]
    published = TRACES.get(run.cluster or "")
    utilisation = 100 * float(np.mean(run.column("days", "utilisation")))
    heads = ["cores", "jobs", "sequential, %", "utilisation, %", "days in groups 1 to 5"]
    jobs = f"{len(run.tables['jobs']):,}"
    rows = [[f"{run.cores}", jobs, f"{sequential:.1f}", f"{utilisation:.1f}", _list(groups.tolist())]]
    if published is not None:
        facts = (published.cores, f"{published.jobs:,}", published.sequential, published.utilisation)
        rows.append([f"({cell})" for cell in (*facts, _list(published.days))])
    return markdown_table(heads, rows, left=0)


def _overall_table(runs: Sequence[PolicyRun]) -> str:
    """Return table 3: means over days, the paper's behind ours."""
    published = OVERALL.get(runs[0].cluster or "", {})
    rows = [
        [run.label, *(_mean_and_published(run, name, published.get(run.label)) for name in _COLUMNS)]
        for run in runs
    ]
    if "DS" in published:
        agent = published["DS"]
        rows.append(["the paper's agent", *(f"({_number(getattr(agent, name))})" for name in _COLUMNS)])
    return markdown_table(["policy", "delay, min", "waste, W·min", "switches", "stretch"], rows)


def _mean_and_published(run: PolicyRun, name: str, published: Overall | None) -> str:
    mean = float(np.nanmean(run.column("days", _COLUMNS[name])))
    return _number(mean) + (f" ({_number(getattr(published, name))})" if published is not None else "")


def _spread_table(runs: Sequence[PolicyRun]) -> str:
    """Return how days differ in table 3: standard deviation, minimum and maximum, the paper's behind ours."""
    published, rows = SPREADS.get(runs[0].cluster or "", {}), []

    def cell(ours: Sequence[float], spread: Spread | None) -> str:
        behind = "" if spread is None else f"({', '.join(map(_number, spread))})"
        return " ".join(filter(None, (", ".join(map(_number, ours)), behind)))

    for run in runs:
        spreads = published.get(run.label, [None] * len(_COLUMNS))
        cells = []
        for column, spread in zip(_COLUMNS.values(), spreads, strict=True):
            values = run.column("days", column).astype(float)
            values = values[~np.isnan(values)]
            cells.append(cell((values.std(), values.min(), values.max()) if len(values) else (), spread))
        rows.append([run.label, *cells])
    if "DS" in published:
        rows.append(["the paper's agent", *(cell((), spread) for spread in published["DS"])])
    return markdown_table(["policy", *(f"{name}: std, min, max" for name in _COLUMNS)], rows)


def _bound_table(runs: Sequence[PolicyRun]) -> str:
    """Return how far each policy's waste is above the bounds, and how many jobs wait beyond τ."""
    heads = ["policy", "waste", "bound, starts", "bound, starts within τ", "late", "stretch beyond τ"]
    rows = []
    for run in runs:
        means = (
            _number(float(np.nanmean(run.column("days", name))))
            for name in ("energy_waste", "waste_bound_starts", "waste_bound_within_tau")
        )
        late = int(run.column("days", "qos_violations_all").sum())
        beyond = float(np.nanmean(run.column("days", "stretch_beyond_tau")))
        started = int(run.column("days", "jobs_started").sum())
        rows.append([run.label, *means, f"{late:,}", f"{beyond:.3f}", f"{started:,}"])
    return markdown_table([*heads, "started"], rows)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def plot_cumulative(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw cumulative waste by group of days, as a share of the largest sum.

    Groups of a single day are left out.
    """
    groups = runs[0].column("days", "group").astype(int)
    tests = np.array(["test" in PurePosixPath(name).parts for name in runs[0].column("days", "day")])
    present = [group for group in range(1, 6) if (groups == group).sum() > 1]
    if not present:
        return []
    columns = len(present) if len(present) < 3 else 2 if len(present) == 4 else 3
    rows = -(-len(present) // columns)
    size = 3.2 * columns + 1.4, 3.1 * rows + 0.5
    with figure(*size, rows, ncols=columns, squeeze=False, sharey=True) as (drawing, axes):
        for panel in axes.flat[len(present) :]:
            panel.set_visible(False)
        for panel, group in zip(axes.flat, present, strict=False):
            order = np.flatnonzero(groups == group)
            _add_up(panel, runs, order[np.argsort(tests[order], kind="stable")], tests)
            head(panel, f"group {group}", f"{GROUPS[group - 1]} % sequential")
        for panel in axes[:, 0]:
            panel.set_ylabel("cumulative waste, share of the largest")
        drawing.suptitle(f"Cumulative waste: {workload}", x=0.01, ha="left", fontweight="bold")
        drawing.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]


def _add_up(panel: Axes, runs: Sequence[PolicyRun], order: AnyArray, tests: AnyArray) -> None:
    """Draw each policy's cumulative waste over the days in this order, with a line before the test days."""
    sums = {run.label: np.cumsum(run.column("days", "energy_waste")[order]) for run in runs}
    largest = max(total[-1] for total in sums.values())
    days = np.arange(1, len(order) + 1)
    for run in runs:
        panel.plot(days, sums[run.label] / largest, label=run.title, color=run.colour)
    border = int((~tests[order]).sum())
    if 0 < border < len(order):
        panel.axvline(border, color="#666666", linestyle="--", linewidth=1)
    panel.set_xlabel("days" if not tests.any() or tests.all() else "days, training then test")
    panel.set_ylim(0, 1.03)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def _plot_groups(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw sequential and other jobs by group of days, and how they ended (the paper: by year)."""
    run = runs[0]
    days = run.column("days", "group").astype(int)
    part, day = run.column("jobs", "part"), run.column("jobs", "day").astype(int)
    day_part = run.column("days", "part")
    first = np.searchsorted(day_part, part)
    group = days[first + day]
    gap = run.column("jobs", "gap").astype(float)
    killed = run.column("jobs", "run") >= run.column("jobs", "walltime")
    sequential = gap < SEQUENTIAL_GAP
    with figure(7.5, 4.2) as (drawing, panel):
        bottom = np.zeros(5)
        kinds = {
            "sequential, ended by itself": sequential & ~killed,
            "sequential, killed at its walltime": sequential & killed,
            "other, ended by itself": ~sequential & ~killed,
            "other, killed at its walltime": ~sequential & killed,
        }
        for (name, selected), colour in zip(kinds.items(), PALETTE, strict=False):
            counts = np.bincount(group[selected], minlength=6)[1:]
            panel.bar(range(1, 6), counts, bottom=bottom, color=colour, label=name, width=0.7)
            bottom += counts
        panel.set_xticks(range(1, 6), [f"{n}\n{share} %" for n, share in enumerate(GROUPS, start=1)])
        panel.set(xlabel="group of days, by share of sequential submissions", ylabel="jobs")
        group_thousands(panel.yaxis)
        head(
            panel, f"Sequential submissions: {workload}", f"less than {SEQUENTIAL_GAP} minutes after another"
        )
        panel.legend()
        return [save(drawing, path)]


#: Classes of jobs by minutes since the previous submission: where each begins, and its name.
_EDGES = (0, 1, 5, 15, 60, 240)
_CLASSES = ("0", "1–4", "5–14", "15–59", "60–239", "240 or more")
#: The jobs whose run times are shown: the paper's number with the highest slowdowns, at most a fifth of all.
MOST_DELAYED, _TOP = 10_000, 0.2


def _started(run: PolicyRun) -> dict[str, npt.NDArray[Any]]:
    """Return run time, slowdown and gap of the jobs that started, in minutes."""
    start = run.column("jobs", "start").astype(float)
    started = ~np.isnan(start)
    run_time = run.column("jobs", "run")[started].astype(float)
    wait = start[started] - run.column("jobs", "submit")[started]
    gap = run.column("jobs", "gap").astype(float)[started]
    return {"run_time": run_time, "slowdown": (wait + run_time) / run_time, "gap": gap}


def _plot_slowdown(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw quartiles of the slowdown of jobs by the time since the previous submission."""
    with figure(9.5, 4.4) as (drawing, panel):
        width = 0.8 / len(runs)
        for index, run in enumerate(runs):
            jobs = _started(run)
            follows = ~np.isnan(jobs["gap"])
            kind = np.searchsorted(_EDGES, jobs["gap"][follows], side="right") - 1
            slowdown = np.log10(jobs["slowdown"][follows])
            groups = [slowdown[kind == number] for number in range(len(_EDGES))]
            boxes = panel.boxplot(
                [group if len(group) else [np.nan] for group in groups],
                positions=np.arange(len(_EDGES)) + (index - (len(runs) - 1) / 2) * width,
                widths=width * 0.85,
                whis=(5, 95),
                showfliers=False,
                patch_artist=True,
                medianprops={"color": "#222222"},
            )
            for box in boxes["boxes"]:
                box.set(facecolor=run.colour, edgecolor="none")
            panel.plot([], [], color=run.colour, linewidth=6, label=run.title)
        panel.set_xticks(range(len(_EDGES)), _CLASSES)
        panel.set(xlabel="minutes since the previous submission", ylabel="log₁₀ of the slowdown")
        head(panel, f"Who is delayed: {workload}", "boxes: quartiles; whiskers: 5 to 95 % of the jobs")
        drawing.legend(loc="outside right upper")
        return [save(drawing, path)]


def _plot_delayed_runs(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw the distribution of run times of the jobs with the highest slowdown."""
    with figure(7.5, 4.2) as (drawing, panel):
        for run in runs:
            jobs = _started(run)
            count = max(1, min(MOST_DELAYED, int(_TOP * len(jobs["run_time"]))))
            top = np.argsort(-jobs["slowdown"], kind="stable")[:count]
            run_times = np.sort(jobs["run_time"][top])
            share = np.arange(1, count + 1) / count
            panel.step(run_times, share, where="post", label=run.title, color=run.colour)
        panel.set(
            xscale="log",
            xlabel="run time, minutes",
            ylabel="share of jobs that run no longer",
            ylim=(0, 1.02),
        )
        head(panel, f"The most delayed jobs: {workload}", f"the {count:,} with the highest slowdown")
        drawing.legend(*panel.get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]


_STATES = ("idle", "switching on", "asleep", "switching off", "computing")
_COLOURS = ("#D55E00", "#E69F00", "#EFEFEF", "#CC79A7", "#0072B2")
_ASLEEP = 2
#: Queue lengths that occur in fewer minutes are left out: their means are noise.
_FEWEST = 100
_LONGEST = 30
_MINUTES_AN_HOUR = 60


def _plot_reservations(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw the mean number of reserved nodes by queue length."""
    if any("queue" not in run.tables for run in runs):
        return []
    with figure(8.5, 4.2) as (drawing, panel):
        for run in runs:
            waiting = run.column("queue", "waiting")
            minutes = run.column("queue", "minutes").astype(float)
            sums = np.bincount(waiting, minutes * run.column("queue", "reserved_mean"))
            counts = np.bincount(waiting, minutes)
            lengths = np.flatnonzero(counts >= _FEWEST)
            lengths = lengths[lengths <= _LONGEST]
            look = {"color": run.colour, "marker": run.marker, "markersize": 4}
            panel.plot(lengths, sums[lengths] / counts[lengths], label=run.title, **look)
        panel.set(xlabel="jobs waiting at the beginning of the minute", ylabel="mean of nodes reserved")
        panel.set_ylim(bottom=0)
        head(
            panel, f"Reservations by queue length: {workload}", f"lengths that last {_FEWEST} minutes or more"
        )
        drawing.legend(*panel.get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]


def plot_nodes(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw each node's states over one busy day, a panel for each policy."""
    if any("nodes" not in run.tables for run in runs):
        return []
    nodes = 1 + int(runs[0].column("nodes", "node").max())
    height = 1.3 + min(0.08 * nodes + 0.5, 2.0) * len(runs)
    with figure(8.5, height, len(runs), sharex=True, squeeze=False) as (drawing, axes):
        for panel, run in zip(axes[:, 0], runs, strict=True):
            state = run.column("nodes", "state")
            for kind in (2, 4, 0, 3, 1):
                in_state = state == kind
                start, end = (run.column("nodes", name)[in_state] for name in ("start", "end"))
                panel.barh(
                    run.column("nodes", "node")[in_state],
                    (end - start) / _MINUTES_AN_HOUR,
                    left=start / _MINUTES_AN_HOUR,
                    height=0.82,
                    color=_COLOURS[kind],
                    linewidth=0,
                )
            panel.set_ylim(nodes - 0.4, -0.6)
            panel.set_yticks([0, nodes - 1], ["node 1", f"node {nodes}"])
            panel.tick_params(labelsize=11)
            panel.grid(False)
            panel.set_title(run.title, fontsize=12, pad=4)
        axes[-1, 0].set_xlabel("hour of the day", fontsize=12)
        axes[-1, 0].set_xlim(*_awake(runs))
        for kind in (4, 0, 1, 3, 2):
            axes[0, 0].bar([0], [0], color=_COLOURS[kind], label=_STATES[kind])
        drawing.suptitle(
            f"One day: {workload}, {_day_summary(runs[0])}", x=0.01, ha="left", fontsize=13, fontweight="bold"
        )
        drawing.legend(
            *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=11
        )
        return [save(drawing, path)]


def _day_summary(run: PolicyRun) -> str:
    """Return how many jobs the day of the nodes has, and its group."""
    day = int(run.column("nodes", "day")[0])
    # The nodes are those of the first part only.
    jobs = int(((run.column("jobs", "day") == day) & (run.column("jobs", "part") == 0)).sum())
    group = int(run.column("days", "group")[day])
    return f"{jobs} jobs, {GROUPS[group - 1]} % sequential"


def _awake(runs: Sequence[PolicyRun]) -> tuple[float, float]:
    """Return the hours between which some node is not asleep, with half an hour before and after."""
    begins, ends = [], []
    for run in runs:
        awake = run.column("nodes", "state") != _ASLEEP
        begins += [run.column("nodes", "start")[awake].min(initial=1440)]
        ends += [run.column("nodes", "end")[awake].max(initial=0)]
    return max(min(begins) / _MINUTES_AN_HOUR - 0.5, 0.0), max(ends) / _MINUTES_AN_HOUR + 0.5


#: Figures of a workload: the end of the file's name, and what draws it.
_FIGURES = {
    "cumulative_waste": plot_cumulative,
    "sequential": _plot_groups,
    "reservations": _plot_reservations,
    "slowdown": _plot_slowdown,
    "delayed_runs": _plot_delayed_runs,
    "nodes": plot_nodes,
}


def write_report(sweep: FinishedSweep) -> list[Path]:
    """Write the comparison with the paper and, for each workload, the figures of its policies."""
    by_workload = policy_runs(sweep)
    if not by_workload:
        return []
    files = write_comparison(by_workload, sweep.directory)
    for number, (workload, runs) in enumerate(by_workload.items(), start=1):
        for name, draw in _FIGURES.items():
            path = sweep.directory / "plots" / f"shutdown_{number}_{name}.png"
            files += draw(shown_runs(runs), workload, path)
    return files
