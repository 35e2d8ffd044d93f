"""The paper's tables beside ours, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gridtune.core.system import FinishedSweep
from gridtune.report.labels import number_text
from gridtune.statistics.inference import bootstrap_interval, paired_difference
from gridtune.systems.dispatch.parameters import TABLE_1
from gridtune.systems.dispatch.published import TABLE_2, TABLE_3, TABLE_5, TABLE_6
from gridtune.systems.dispatch.report.rows import Method, medians
from gridtune.types import FloatArray

__all__ = ["write_comparison"]


#: Seed of the resampling: the same intervals every time a report is made.
_SEED = 6
#: In the paper the machines' speeds change after this batch (counted from 1).
_CHANGED = 2


def write_comparison(methods: Sequence[Method], sweep: FinishedSweep) -> list[Path]:
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


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _number(value: Any, digits: int = 2) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


def _numbers(values: Iterable[float], digits: int = 2) -> str:
    return " ".join(_number(value, digits) for value in values)


def _between(low: Any, high: Any, digits: int = 2) -> str:
    """Return an interval, or a dash where a bound is NaN."""
    return "–" if np.isnan(low) or np.isnan(high) else f"{low:.{digits}f} … {high:.{digits}f}"


def _interval(values: FloatArray) -> str:
    """Return the median's bootstrap interval over replicates, each of which counts as one."""
    interval = bootstrap_interval(values, rng=np.random.default_rng(_SEED), statistic="median")
    return _between(interval.low, interval.high)


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
    for method in [*helped, *_pulled(methods, helped)]:
        relative = method.relative
        # Where no job of the reference was in time there is no ratio.
        pairs = relative[~np.isnan(relative)]
        change = [("changed" if method.of("change_after") else "as they were")] if changing else []
        rows.append(
            [
                method.base,
                method.label,
                *change,
                str(pairs.size),
                _numbers(medians(relative, axis=0)),
                _number(np.median(pairs) if pairs.size else np.nan),
                _interval(medians(relative, axis=1)),
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
    return [text, _table(header, rows), *_assignments(helped)]


def _pulled(methods: Sequence[Method], helped: Sequence[Method]) -> list[Method]:
    """Return the shared queue beside each selector, on the same machines."""
    shared = [method for method in methods if method.of("rule") == "shared_queue"]
    selectors = {(method.of("rule"), method.of("change_after")): method for method in helped}
    return [
        method.over(selector)
        for (_, change), selector in selectors.items()
        for method in shared
        if method.of("change_after") == change
    ]


def _published_relative(method: Method, changing: bool) -> str:
    key = (str(method.of("rule", "random")), method.learner)
    if method.of("set_aside") or key not in TABLE_2:
        return ""
    if not changing:
        return _numbers(TABLE_2[key])
    before, after = TABLE_5[key]
    return _numbers((*before[:_CHANGED], *after) if method.of("change_after") else before)


def _assignments(helped: Sequence[Method]) -> list[str]:
    """Return Table 3: where jobs went under round robin, machines in the order of their speed."""
    methods = [
        method for method in helped if method.of("rule") == "round_robin" and not method.of("change_after")
    ]
    if not methods:
        return []
    factors = np.asarray(methods[0].of("factors") or TABLE_1, np.float64)
    order = np.argsort(factors, kind="stable")
    rows = []
    for method in methods:
        rows.append([method.label, *(f"{share:.2f}" for share in method.assignments.mean(axis=0)[order])])
        published = TABLE_3.get(method.learner)
        if published is not None and not method.of("set_aside") and tuple(factors) == TABLE_1:
            rows.append([f"{method.label}, published", *(f"{published[place]:.2f}" for place in order)])
    header = ["learner on round robin", *(f"{factors[place]:g}" for place in order)]
    return ["### Share of the jobs by machine, fastest first (Table 3)\n", _table(header, rows)]


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
        difference = _paired(method, benchmark)
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
                _over_bound(method),
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
    return [f"### {title}\n\n{note}.\n", _table(header, rows)]


def _over_bound(method: Method) -> str:
    """Return by how much mean tardiness is above what no dispatcher can fall below."""
    bound = method.bound.mean()
    return "–" if not bound > 0 else f"+{100 * (method.late.mean() / bound - 1):.0f} %"


def _paired(method: Method, benchmark: Method) -> Any:
    """Compare mean tardiness with the benchmark's on the replicates that both have."""
    shared = [label for label in method.replicates if label in benchmark.replicates]
    sides = []
    for side in (method, benchmark):
        late = dict(zip(side.replicates, side.late, strict=True))
        sides.append(np.array([late[label] for label in shared]))
    return paired_difference(*sides, rng=np.random.default_rng(_SEED))
