"""Rollouts beside queue orders on continuous logs: one replay each, statistics by weeks.

J is the geometric mean of bounded slowdown, area-weighted response and mean wait. Its change to an order has
a 95 % interval: a bootstrap over blocks of two weeks, the same for both, by when jobs are submitted.

    python benchmarks/lookahead.py kth-sp2:2/2 ctc-sp2-reconstructed:2/2 FILE
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

import gridtune as gt
from gridtune.core.schedules.schedule import Schedule
from gridtune.workload.catalogue import resolve_trace

DAY = 86_400
NAMES = ("fcfs", "sjf", "saf", "f1", "f2", "f4", "wfp3", "unicef", "xfactor")
RULES = {
    **{name: {"order": name} for name in NAMES},
    **{
        f"{name}, {days} days": {"order": name, "guard": days * DAY}
        for days, names in ((2, ("sjf", "saf", "f1", "unicef")), (4, ("saf", "f1")))
        for name in names
    },
}
SEARCH = {"order": "rollout(objective=balanced, moves=60)", "guard": 4 * DAY}
ROLLOUTS = {
    "rollout": {"order": "rollout", "guard": 2 * DAY},
    "search": SEARCH,
    "by area": {"order": "rollout(objective=area, moves=60)"},
}
#: The same with every run time known.
CLAIRVOYANT = {
    f"{name}, clairvoyant": {**options, "walltime": "exact"}
    for name, options in (("unicef", {"order": "unicef"}), ("search", SEARCH))
}
BLOCK = 14 * DAY
RESAMPLES = 4_000
#: Columns of `means`.
AREA, J = 1, 3


def sums(schedule: Schedule) -> npt.NDArray[np.float64]:
    """Return sums over each block: jobs, slowdowns, areas, weighted responses, waits; shape (blocks, 5)."""
    work = schedule.workload
    block = (work.submit_time - work.submit_time[0]) // BLOCK
    run = (schedule.end_time - schedule.start_time).astype(float)
    wait, area = schedule.wait_time.astype(float), work.processors * run
    slowdown = np.maximum((wait + run) / np.maximum(run, 10), 1)
    columns = (np.ones(len(wait)), slowdown, area, area * (wait + run), wait)
    return np.stack([np.bincount(block, column) for column in columns], axis=-1)


def means(blocks: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return slowdown, area-weighted response, mean wait and J, shape (..., 4), of sums over blocks."""
    jobs, slowdown, area, response, wait = np.moveaxis(blocks.sum(axis=-2), -1, 0)
    three = np.stack([slowdown / jobs, response / area, wait / jobs], axis=-1)
    return np.concatenate([three, np.cbrt(three.prod(axis=-1, keepdims=True))], axis=-1)


class Comparison:
    """All policies on one log."""

    def __init__(self, label: str, log: gt.Workload) -> None:
        self.label, self.jobs = label, len(log)
        policies = {**RULES, **ROLLOUTS, **CLAIRVOYANT}
        schedules = {name: gt.simulate(log, **options) for name, options in policies.items()}
        blocks = {name: sums(schedule) for name, schedule in schedules.items()}
        self.blocks = len(blocks["fcfs"])
        drawn = np.random.default_rng(1).integers(self.blocks, size=(RESAMPLES, self.blocks))
        self.value = {name: means(one) for name, one in blocks.items()}
        self.resampled = {name: means(one[drawn]) for name, one in blocks.items()}
        self.longest = {name: schedule.wait_time.max() / DAY for name, schedule in schedules.items()}

    def best(self, column: int) -> str:
        """Return the rule that is best by a column of `means`."""
        return min(RULES, key=lambda name: self.value[name][column])

    def change(self, name: str, other: str, column: int = J) -> str:
        """Return the change of a column from another policy to this one, in %, with its interval."""
        ratios = self.resampled[name][:, column] / self.resampled[other][:, column]
        low, high = 100 * np.quantile(ratios, [0.025, 0.975]) - 100
        change = 100 * self.value[name][column] / self.value[other][column] - 100
        return f"{change:+.1f} [{low:+.0f}, {high:+.0f}]"

    def ahead(self, name: str) -> bool:
        """Return whether a policy is ahead of every rule but FCFS in slowdown and in response."""
        others = [self.value[rule][:2] for rule in RULES if rule != "fcfs"]
        return all((self.value[name][:2] < other).all() for other in others)


def table(heads: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    print(f"\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def report(comparisons: list[Comparison]) -> None:
    """Print the tables of all logs."""
    heads = [f"{one.label}: {one.jobs:,} jobs" for one in comparisons]
    rows = []
    for name in (*RULES, *ROLLOUTS, *CLAIRVOYANT):
        cells = []
        for one in comparisons:
            slowdown, response, wait, _ = one.value[name]
            cells.append(f"{slowdown:.1f}, {response / 1000:.1f}, {wait:,.0f}, {one.longest[name]:.1f}")
        rows.append([name, *cells])
    table(["slowdown, response 1,000 s, mean wait s, longest d", *heads], rows)
    for name in ROLLOUTS:
        best = [
            "the best in hindsight",
            *(f"{one.change(name, one.best(J))}: {one.best(J)}" for one in comparisons),
        ]
        changes = [
            [rule, *(one.change(name, rule) for one in comparisons)] for rule in (*RULES, *CLAIRVOYANT)
        ]
        table([f"{name}: change of J, %", *heads], [best, *changes])
        ahead = [one.ahead(name) for one in comparisons]
        print(f"\n{name}, ahead of all rules but FCFS in slowdown and response: {ahead}")
    responses = [f"{one.change('by area', one.best(AREA), AREA)}: {one.best(AREA)}" for one in comparisons]
    table(["by area: change of response, %", *heads], [["the best in hindsight", *responses]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", help="files or catalogued traces, with a part: kth-sp2:2/2")
    comparisons = []
    for text in parser.parse_args().logs:
        reference, _, part = text.partition(":")
        number, count = map(int, (part or "1/1").split("/"))
        path = Path(reference) if Path(reference).exists() else resolve_trace(reference)
        log, _ = gt.clean(gt.read_workload(path))
        label = f"{Path(reference).name.partition('.')[0]} {part}".strip()
        comparisons.append(Comparison(label, log.windows(count)[number - 1]))
    report(comparisons)


if __name__ == "__main__":
    main()
