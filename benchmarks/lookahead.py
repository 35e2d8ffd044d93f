"""Rollouts beside queue orders on continuous logs: one replay each, statistics by weeks.

J is the geometric mean of bounded slowdown, area-weighted response and mean wait. Its change to an order has
a 95 % interval: a bootstrap over blocks of two weeks, the same for both, by when jobs are submitted.

    python -m benchmarks.lookahead kth-sp2:2/2 ctc-sp2-reconstructed:2/2 FILE
    python -m benchmarks.lookahead "kth-sp2*1.5" lublin,jobs=6000,seed=1,processors=256,load=1.3
    python -m benchmarks.lookahead --choose results/chosen kth-sp2 FILE:1/5

A log may end in `:` and the part to be played, or in `*` and a factor of its load. A generator is named with
its parameters.
With `--choose`, `gridtune policy choose` tries its policies on the first 40 % of each log, and its choice is
compared with the others on the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gridtune as gt
from gridtune.batch.policies.rollout import RECOMMENDED
from gridtune.report.labels import row_parameters
from gridtune.study.choosing import choose
from gridtune.study.predicting import block_sums, delay_of, resampled_blocks
from gridtune.workload.catalogue import resolve_trace

DAY = 86_400
NAMES = ("fcfs", "sjf", "saf", "f1", "f2", "f4", "wfp3", "unicef", "xfactor")
RULES: dict[str, Mapping[str, Any]] = {
    **{name: {"order": name} for name in NAMES},
    **{
        f"{name}, {days} days": {"order": name, "guard": days * DAY}
        for days, names in ((2, ("sjf", "saf", "f1", "unicef")), (4, ("saf", "f1")))
        for name in names
    },
}
ROLLOUTS: dict[str, Mapping[str, Any]] = {
    "index": {"order": RECOMMENDED, "guard": 4 * DAY},
    "shorter guard": {"order": RECOMMENDED.replace("backlog=100", "backlog=50"), "guard": 3 * DAY},
    "search": {"order": "rollout(objective=balanced, moves=60)", "guard": 4 * DAY},
    "wait": {"order": "rollout(moves=60)", "guard": 4 * DAY},
    "by area": {"order": "rollout(objective=area, moves=60)"},
}
#: Columns of `delay_of`.
AREA, J = 1, 3


class Comparison:
    """All policies on one log, and one that was chosen for it."""

    def __init__(self, label: str, log: gt.Workload, chosen: Mapping[str, Any] | None = None) -> None:
        self.label, self.jobs, self.chosen = label, len(log), chosen
        policies = {**RULES, **ROLLOUTS}
        policies |= {} if chosen is None else {"chosen": chosen}
        schedules = {name: gt.simulate(log, **options) for name, options in policies.items()}
        blocks = {name: block_sums(schedule) for name, schedule in schedules.items()}
        drawn = resampled_blocks(len(blocks["fcfs"]))
        self.value = {name: delay_of(one) for name, one in blocks.items()}
        self.resampled = {name: delay_of(one[drawn]) for name, one in blocks.items()}
        self.longest = {name: schedule.wait_time.max() / DAY for name, schedule in schedules.items()}

    def best(self, column: int) -> str:
        """Return the rule that is best by a column of `delay_of`."""
        return min(RULES, key=lambda name: self.value[name][column])

    def change(self, name: str, other: str, column: int = J) -> str:
        """Return the change of a column from another policy to this one, in %, with its interval."""
        ratios = self.resampled[name][:, column] / self.resampled[other][:, column]
        low, high = 100 * np.quantile(ratios, [0.025, 0.975]) - 100
        change = 100 * self.value[name][column] / self.value[other][column] - 100
        return f"{change:+.1f} [{low:+.0f}, {high:+.0f}]"


def table(heads: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    print(f"\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def report(comparisons: list[Comparison]) -> None:
    """Print the tables of all logs."""
    heads = [f"{one.label}: {one.jobs:,} jobs" for one in comparisons]
    rows = []
    for name in comparisons[0].value:
        cells = []
        for one in comparisons:
            slowdown, response, wait, index = one.value[name]
            times = f"{response / 1000:.1f}, {wait:,.0f}, {index:,.0f}, {one.longest[name]:.1f}"
            cells.append(f"{slowdown:.1f}, {times}")
        rows.append([name, *cells])
    table(["slowdown, response 1,000 s, mean wait s, J, longest d", *heads], rows)
    for name in [name for name in (*ROLLOUTS, "chosen") if name in comparisons[0].value]:
        best = [
            "the best in hindsight",
            *(f"{one.change(name, one.best(J))}: {one.best(J)}" for one in comparisons),
        ]
        changes = [[rule, *(one.change(name, rule) for one in comparisons)] for rule in RULES]
        table([f"{name}: change of J, %", *heads], [best, *changes])
    responses = [f"{one.change('by area', one.best(AREA), AREA)}: {one.best(AREA)}" for one in comparisons]
    table(["by area: change of response, %", *heads], [["the best in hindsight", *responses]])
    for one in comparisons:
        if one.chosen is not None:
            print(f"\nchosen for {one.label}: {dict(one.chosen)}")


def log_of(text: str) -> tuple[str, gt.Workload]:
    """Return the label and the jobs of a log as the command line has it."""
    if "," in text:
        kind, *settings = text.split(",")
        values = {key: float(value) for key, _, value in (one.partition("=") for one in settings)}
        return text, gt.generate_workload(
            kind, **{k: v if k == "load" else int(v) for k, v in values.items()}
        )
    reference, _, part = text.partition(":")
    reference, _, factor = reference.partition("*")
    number, count = map(int, (part or "1/1").split("/"))
    path = Path(reference) if Path(reference).exists() else resolve_trace(reference)
    log = gt.clean(gt.read_workload(path))[0].windows(count)[number - 1]
    label = f"{text.replace(reference, Path(reference).name.partition('.')[0])}".replace(":", " ")
    return label, log.scale_load(float(factor)) if factor else log


def compared(text: str, choices: Path | None) -> Comparison:
    """Return the comparison on a part of a log, or on what follows the part that a policy is chosen on."""
    label, log = log_of(text)
    if choices is None:
        return Comparison(label, log)
    folder = choices / label.replace(" ", "-").replace("/", "-")
    choice = choose(log, out=folder, say=print, executor="inline")
    if choice.left_out:
        print(f"{label}: not tried: {', '.join(choice.left_out)}")
    # Also where the rest does not confirm it, and `choose` keeps the baseline.
    row = row_parameters(choice.chosen.row or {})
    chosen = {name: row[name] for name in ("order", "backfill", "guard") if row.get(name) is not None}
    return Comparison(label, log.take(slice(choice.jobs[0], None)), chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", help="files or catalogued traces, with a part: kth-sp2:2/2")
    parser.add_argument(
        "--choose", type=Path, metavar="FOLDER", help="judge the choice of `gridtune policy choose`"
    )
    arguments = parser.parse_args()
    report([compared(text, arguments.choose) for text in arguments.logs])


if __name__ == "__main__":
    main()
