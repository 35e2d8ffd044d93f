"""The paper's tables 1 to 3 with ours beside them, and lower bounds of the waste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from gridtune.systems.shutdown.report.policy_runs import PolicyRun
from gridtune.systems.shutdown.report.published import DAYS, OVERALL, TRACES, Overall
from gridtune.systems.shutdown.simulator.days import SEQUENTIAL_GAP

__all__ = ["write_comparison"]

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
        lines += [f"## {workload}", "", *_trace_table(runs[0]), "", *_overall_table(runs), ""]
        lines += [*_spread_table(runs), "", *_bound_table(runs), ""]
    path = directory / "shutdown_tables.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return [path]


def _trace_table(run: PolicyRun) -> Iterator[str]:
    """Yield tables 1 and 2: jobs, sequential submissions, utilisation, days by group."""
    gaps = run.column("jobs", "gap").astype(float)
    gaps = gaps[~np.isnan(gaps)]
    sequential = 100 * float(np.mean(gaps < SEQUENTIAL_GAP)) if len(gaps) else np.nan
    groups = np.bincount(run.column("days", "group").astype(int), minlength=6)[1:]
    published = TRACES.get(run.cluster or "")
    utilisation = 100 * float(np.mean(run.column("days", "utilisation")))
    yield "| cores | jobs | sequential, % | utilisation, % | days in groups 1 to 5 |"
    yield "| ---: | ---: | ---: | ---: | --- |"
    jobs = len(run.tables["jobs"])
    yield _row(
        [f"{run.cores}", f"{jobs:,}", f"{sequential:.1f}", f"{utilisation:.1f}", _list(groups.tolist())]
    )
    if published is not None and run.cluster is not None:
        jobs_text, days = f"{published.jobs:,}", _list(DAYS[run.cluster])
        cells = (published.cores, jobs_text, published.sequential, published.utilisation, days)
        yield _row([f"({cell})" for cell in cells])


def _overall_table(runs: Sequence[PolicyRun]) -> Iterator[str]:
    """Yield table 3: means over days, the paper's behind ours."""
    yield "| policy | delay, min | waste, W·min | switches | stretch |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    published = OVERALL.get(runs[0].cluster or "", {})
    for run in runs:
        row = published.get(run.label)
        yield _row([run.label, *(_mean_and_published(run, name, row) for name in _COLUMNS)])
    if "DS" in published:
        agent = published["DS"]
        yield _row(["the paper's agent", *(f"({_number(getattr(agent, name))})" for name in _COLUMNS)])


def _mean_and_published(run: PolicyRun, name: str, published: Overall | None) -> str:
    mean = float(np.nanmean(run.column("days", _COLUMNS[name])))
    return _number(mean) + (f" ({_number(getattr(published, name))})" if published is not None else "")


def _spread_table(runs: Sequence[PolicyRun]) -> Iterator[str]:
    """Yield how days differ: standard deviation, minimum and maximum of waste, switches and stretch."""
    names = ("waste", "switches", "stretch")
    yield _row(["policy", *(f"{name}: std, min, max" for name in names)])
    yield "| --- | ---: | ---: | ---: |"
    for run in runs:
        cells = []
        for name in names:
            values = run.column("days", _COLUMNS[name]).astype(float)
            values = values[~np.isnan(values)]
            cells.append(", ".join(_number(value) for value in (values.std(), values.min(), values.max())))
        yield _row([run.label, *cells])


def _bound_table(runs: Sequence[PolicyRun]) -> Iterator[str]:
    """Yield how far each policy's waste is above the bounds, and how many jobs wait beyond τ."""
    yield "| policy | waste | bound, starts | bound, starts within τ | late | stretch beyond τ | started |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for run in runs:
        means = (
            _number(float(np.nanmean(run.column("days", name))))
            for name in ("energy_waste", "waste_bound_starts", "waste_bound_within_tau")
        )
        late = int(run.column("days", "qos_violations_all").sum())
        beyond = float(np.nanmean(run.column("days", "stretch_beyond_tau")))
        started = int(run.column("days", "jobs_started").sum())
        yield _row([run.label, *means, f"{late:,}", f"{beyond:.3f}", f"{started:,}"])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
