"""Figures of delays: slowdown by inter-arrival time, and the most delayed jobs (figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.core.style import figure, head, save
from gridtune.systems.shutdown.report.policy_runs import PolicyRun

__all__ = ["plot_delayed_runs", "plot_slowdown"]

#: Classes of jobs by minutes since the previous submission: where each begins, and its name.
_EDGES = (0, 1, 5, 15, 60, 240)
_CLASSES = ("0", "1–4", "5–14", "15–59", "60–239", "240 or more")
#: Share of the jobs, by slowdown, whose run times are shown; the paper takes 10,000 jobs of four clusters.
_TOP = 0.2


def _started(run: PolicyRun) -> dict[str, npt.NDArray[Any]]:
    """Return run time, slowdown and gap of the jobs that started, in minutes."""
    start = run.column("jobs", "start").astype(float)
    started = ~np.isnan(start)
    run_time = run.column("jobs", "run")[started].astype(float)
    wait = start[started] - run.column("jobs", "submit")[started]
    gap = run.column("jobs", "gap").astype(float)[started]
    return {"run_time": run_time, "slowdown": (wait + run_time) / run_time, "gap": gap}


def plot_slowdown(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
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
        panel.set_xlabel("minutes since the previous submission")
        panel.set_ylabel("log₁₀ of the slowdown")
        head(panel, f"Who is delayed: {workload}", "boxes: quartiles; whiskers: 5 to 95 % of the jobs")
        drawing.legend(loc="outside right upper")
        return [save(drawing, path)]


def plot_delayed_runs(runs: Sequence[PolicyRun], workload: str, path: Path) -> list[Path]:
    """Draw the distribution of run times of the jobs with the highest slowdown."""
    with figure(7.5, 4.2) as (drawing, panel):
        for run in runs:
            jobs = _started(run)
            count = max(1, int(_TOP * len(jobs["run_time"])))
            top = np.argsort(-jobs["slowdown"], kind="stable")[:count]
            run_times = np.sort(jobs["run_time"][top])
            share = np.arange(1, count + 1) / count
            panel.step(run_times, share, where="post", label=run.title, color=run.colour)
        panel.set_xscale("log")
        panel.set_xlabel("run time, minutes")
        panel.set_ylabel("share of jobs that run no longer")
        panel.set_ylim(0, 1.02)
        head(panel, f"The most delayed jobs: {workload}", f"the {100 * _TOP:g} % with the highest slowdown")
        drawing.legend(*panel.get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]
