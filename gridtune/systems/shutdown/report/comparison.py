"""The paper's tables 1 to 3 with ours beside them, and lower bounds of the waste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from gridtune.systems.shutdown.report.lives import Life
from gridtune.systems.shutdown.report.published import DAYS, OVERALL, TRACES, Overall

__all__ = ["write_comparison"]

#: Columns of table 3 by the day's measure.
_COLUMNS = {
    "delay": "mean_qos_delay_all",
    "waste": "energy_waste",
    "switches": "switches",
    "stretch": "mean_stretch",
}


def write_comparison(by_workload: Mapping[str, Sequence[Life]], directory: Path) -> list[Path]:
    """Write `shutdown_tables.md`: what was lived through, and how each policy did, with the paper beside."""
    lines = [
        "Ours are of the trace that stands over each table; the paper's, in brackets, of its own days.",
        "",
    ]
    for workload, lives in by_workload.items():
        lines += [f"## {workload}", "", *_trace_table(lives[0]), "", *_overall_table(lives), ""]
        lines += [*_spread_table(lives), "", *_bound_table(lives), ""]
    path = directory / "shutdown_tables.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return [path]


def _trace_table(life: Life) -> Iterator[str]:
    """Tell tables 1 and 2: jobs, sequential submissions, utilisation, days by group."""
    gaps = life.column("jobs", "gap").astype(float)
    known = gaps[~np.isnan(gaps)]
    sequential = 100 * float(np.mean(known < 5)) if len(known) else np.nan
    groups = np.bincount(life.column("days", "group").astype(int), minlength=6)[1:]
    theirs = TRACES.get(life.cluster or "")
    used = 100 * float(np.mean(life.column("days", "utilisation")))
    yield "| cores | jobs | sequential, % | utilisation, % | days in groups 1 to 5 |"
    yield "| ---: | ---: | ---: | ---: | --- |"
    jobs = len(life.tables["jobs"])
    ours = [f"{life.cores}", f"{jobs:,}", f"{sequential:.1f}", f"{used:.1f}", _list(groups.tolist())]
    yield _row(ours)
    if theirs is not None and life.cluster is not None:
        told = [theirs.cores, f"{theirs.jobs:,}", theirs.sequential, theirs.utilisation]
        yield _row([f"({each})" for each in told] + [f"({_list(DAYS[life.cluster])})"])


def _overall_table(lives: Sequence[Life]) -> Iterator[str]:
    """Tell table 3: means over days, the paper's behind ours."""
    yield "| policy | delay, min | waste, W·min | switches | stretch |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    published = OVERALL.get(lives[0].cluster or "", {})
    for life in lives:
        theirs = published.get(life.label)
        yield _row([life.label, *(_beside(life, name, theirs) for name in _COLUMNS)])
    if "DS" in published:
        told = published["DS"]
        yield _row(["the paper's agent", *(f"({_number(getattr(told, name))})" for name in _COLUMNS)])


def _beside(life: Life, name: str, theirs: Overall | None) -> str:
    mean = float(np.nanmean(life.column("days", _COLUMNS[name])))
    return _number(mean) + (f" ({_number(getattr(theirs, name))})" if theirs is not None else "")


def _spread_table(lives: Sequence[Life]) -> Iterator[str]:
    """Tell how days differ: standard deviation, least and most of waste, switches and stretch."""
    names = ("waste", "switches", "stretch")
    yield _row(["policy", *(f"{name}: std, min, max" for name in names)])
    yield "| --- | ---: | ---: | ---: |"
    for life in lives:
        cells = []
        for name in names:
            values = life.column("days", _COLUMNS[name]).astype(float)
            values = values[~np.isnan(values)]
            cells.append(", ".join(_number(each) for each in (values.std(), values.min(), values.max())))
        yield _row([life.label, *cells])


def _bound_table(lives: Sequence[Life]) -> Iterator[str]:
    """Tell how far above the least possible each policy's waste is, and who waits beyond τ."""
    yield "| policy | waste | least with its starts | least within τ | late | stretch beyond τ | started |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for life in lives:
        means = (
            _number(float(np.nanmean(life.column("days", name))))
            for name in ("energy_waste", "waste_bound_starts", "waste_bound_within_tau")
        )
        late = int(life.column("days", "qos_violations_all").sum())
        beyond = float(np.nanmean(life.column("days", "stretch_beyond_tau")))
        started = int(life.column("days", "jobs_started").sum())
        yield _row([life.label, *means, f"{late:,}", f"{beyond:.3f}", f"{started:,}"])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
