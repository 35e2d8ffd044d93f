"""Figures of what jobs pay: slowdown by inter-arrival time and the most delayed jobs (figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.report.style import figure, head, save
from gridtune.systems.shutdown.report.lives import Life

__all__ = ["plot_delayed_runs", "plot_slowdown"]

#: Minutes since the submission before at which another class of jobs begins.
_EDGES = (0, 1, 5, 15, 60, 240)
_CLASSES = ("0", "1–4", "5–14", "15–59", "60–239", "240 or more")
#: Jobs with the highest slowdown whose run times are shown: the paper takes 10,000 of four clusters' jobs.
_TOP = 0.2


def _started(life: Life) -> dict[str, npt.NDArray[Any]]:
    start = life.column("jobs", "start").astype(float)
    known = ~np.isnan(start)
    run = life.column("jobs", "run")[known].astype(float)
    wait = start[known] - life.column("jobs", "submit")[known]
    gap = life.column("jobs", "gap").astype(float)[known]
    return {"run": run, "slowdown": (wait + run) / run, "gap": gap}


def plot_slowdown(lives: Sequence[Life], workload: str, path: Path) -> list[Path]:
    """Draw quartiles of the slowdown of jobs by the time since the submission before."""
    with figure(9.5, 4.4) as (drawing, panel):
        width = 0.8 / len(lives)
        for place, life in enumerate(lives):
            jobs = _started(life)
            known = ~np.isnan(jobs["gap"])
            kind = np.searchsorted(_EDGES, jobs["gap"][known], side="right") - 1
            groups = [np.log10(jobs["slowdown"][known][kind == each]) for each in range(len(_EDGES))]
            boxes = panel.boxplot(
                [each if len(each) else [np.nan] for each in groups],
                positions=np.arange(len(_EDGES)) + (place - (len(lives) - 1) / 2) * width,
                widths=width * 0.85,
                whis=(5, 95),
                showfliers=False,
                patch_artist=True,
                medianprops={"color": "#222222"},
            )
            for box in boxes["boxes"]:
                box.set(facecolor=life.colour, edgecolor="none")
            panel.plot([], [], color=life.colour, linewidth=6, label=life.label)
        panel.set_xticks(range(len(_EDGES)), _CLASSES)
        panel.set_xlabel("minutes since the submission before")
        panel.set_ylabel("log₁₀ of the slowdown")
        head(panel, f"Who is delayed: {workload}", "boxes: quartiles; whiskers: 5 to 95 % of the jobs")
        drawing.legend(loc="outside right upper")
        return [save(drawing, path)]


def plot_delayed_runs(lives: Sequence[Life], workload: str, path: Path) -> list[Path]:
    """Draw how long the jobs with the highest slowdown run: shares that run no longer."""
    with figure(7.5, 4.2) as (drawing, panel):
        for life in lives:
            jobs = _started(life)
            count = max(1, int(_TOP * len(jobs["run"])))
            top = np.argsort(-jobs["slowdown"], kind="stable")[:count]
            runs = np.sort(jobs["run"][top])
            share = np.arange(1, count + 1) / count
            panel.step(runs, share, where="post", label=life.label, color=life.colour)
        panel.set_xscale("log")
        panel.set_xlabel("minutes they run")
        panel.set_ylabel("share that run no longer")
        panel.set_ylim(0, 1.02)
        head(panel, f"The most delayed jobs: {workload}", f"the {100 * _TOP:g} % with the highest slowdown")
        drawing.legend(*panel.get_legend_handles_labels(), loc="outside right upper")
        return [save(drawing, path)]
