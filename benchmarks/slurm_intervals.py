"""Intervals of `gridtune slurm whatif` against the differences that two recorded runs of a real Slurm show.

    python -m benchmarks.slurm_intervals BEFORE:AFTER... [--draws 20] [--misses]
    python -m benchmarks.slurm_intervals BEFORE:AFTER... --learn
    python -m benchmarks.slurm_intervals RUN...

BEFORE and AFTER are folders of runs of the same jobs, as for `slurm_agreement`. The waits of each class under
the configuration of AFTER are predicted from the log of BEFORE alone. A difference is inside if its interval
holds the one of the recorded mean waits; it is narrow if the ends are within 30 % of the simulated ratio.
Pairs whose log is not trusted are refused, as by the command. `--learn` prints the constants of
`gridtune.slurm.comparison` that have the best interval score on these pairs. For a RUN, its own mean wait is
compared with the interval of one run around the simulated mean; the error of the replay is not in it.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from benchmarks.measure import print_machine, print_table
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.comparison import (
    _REACH,
    Agreement,
    Comparison,
    LoggedJobs,
    anchored,
    logged_jobs,
    replayed_waits,
)
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.versions import version_of
from gridtune.study.advice import WhatIf, whatif
from gridtune.types import FloatArray
from gridtune.workload.files import workload_of
from gridtune.workload.workload import Workload

#: The ends of a narrow interval are so far from the simulated ratio at most.
_NARROW = 0.3
#: What an interval of 95 % pays for each unit by which it misses, in the interval score.
_MISS = 2 / 0.05


@dataclass(frozen=True)
class Difference:
    """The difference of one class: recorded, simulated, the interval's ends, and the causes of its width."""

    pair: str
    jobs: str
    recorded: float
    simulated: float
    low: float
    high: float
    causes: FloatArray

    @property
    def inside(self) -> bool:
        """True if the interval holds the recorded difference."""
        return self.low <= self.recorded <= self.high

    @property
    def reach(self) -> float:
        """The upper end over the simulated ratio, less 1."""
        return (1 + self.high) / (1 + self.simulated) - 1


def log_of(run: Path) -> Path:
    """Return the dump of sacct of a run."""
    return next(run.glob("sacct_all.txt*"))


def names_of(run: Path, workload: Workload, rows: np.ndarray) -> list[tuple[str, str]]:
    """Return the row of the workload and the task of the array of each job; numbers differ between runs."""
    with (run / "golden.csv").open() as file:
        names = {
            int(row["job_id"]): (row.get("wid") or row["job_id"], row.get("array_task") or "")
            for row in csv.DictReader(file)
        }
    return [names.get(number, ("", "")) for number in workload.column("job_id")[rows].tolist()]


def jobs_of(run: Path) -> tuple[Workload, SlurmCluster, LoggedJobs]:
    """Return a run's log, its cluster, and the jobs, without recorded waits of those that had not ended."""
    workload = workload_of(log_of(run))
    cluster = anchored(read_cluster(run, version=version_of(None, run, workload)), workload)
    jobs = logged_jobs(workload, cluster)
    waits = np.where(workload.column("run_time")[jobs.rows] >= 0, jobs.recorded, -1)
    return workload, cluster, replace(jobs, recorded=waits)


def own_row(run: Path, draws: int) -> list[str]:
    """Return a row of a run's own mean wait: the trust, recorded and simulated seconds, and the interval."""
    _, cluster, jobs = jobs_of(run)
    waits = replayed_waits(cluster, jobs.requests, draws, 0)
    graded = Agreement.of(jobs.recorded, waits)
    spread, shortness, _ = Comparison(jobs, waits, waits).causes(np.flatnonzero(jobs.recorded >= 0))
    reach = np.sqrt((_REACH[0] * spread + _REACH[1] * shortness) / 2)
    low, high = graded.simulated_mean * np.exp([-reach, reach])
    seconds = [f"{value:,.0f}" for value in (graded.recorded_mean, graded.simulated_mean, low, high)]
    return [run.name, graded.level, *seconds, "yes" if low <= graded.recorded_mean <= high else "no"]


def recorded_waits(run: Path) -> dict[tuple[str, str], int]:
    """Return the waits of the jobs of a run that have ended."""
    workload, _, jobs = jobs_of(run)
    return dict(zip(names_of(run, workload, jobs.rows), jobs.recorded.tolist(), strict=True))


def differences(before: Path, after: Path, draws: int) -> tuple[WhatIf, list[Difference]]:
    """Compare the effects that are predicted from one run's log with the other run, class by class."""
    answer = whatif(log_of(before), slurm=before, to=after, draws=draws, anyway=True)
    both, later = recorded_waits(before), recorded_waits(after)
    names = names_of(before, answer.log, answer.jobs.rows)
    real = np.array([(both.get(name, -1), later.get(name, -1)) for name in names], dtype=np.float64)
    ended = real.min(axis=1) >= 0
    found = []
    for one in answer.comparison.classes:
        members = one.members[ended[one.members]]
        # The intervals of the command are not those of the part that a run has that was cut.
        if len(members) < 0.9 * len(one.members):
            continue
        first, second = real[members].mean(axis=0)
        effect = answer.effects[one.name]
        if first <= 0 or second <= 0 or effect.relative is None or effect.low is None or effect.high is None:
            continue
        pair = f"{before.name} → {after.name}"
        causes = answer.comparison.causes(one.members)
        ends = effect.relative, effect.low, effect.high
        found.append(Difference(pair, one.name, second / first - 1, *ends, causes))
    return answer, found


def learned(found: list[Difference]) -> FloatArray:
    """Return the constants with the least mean interval score, in the logarithm of ratios."""
    errors = np.array([abs(np.log((1 + one.recorded) / (1 + one.simulated))) for one in found])
    causes = np.array([one.causes for one in found])

    def score(logarithms: FloatArray) -> float:
        reach = np.sqrt(causes @ np.exp(logarithms))
        return float((2 * reach + _MISS * np.maximum(errors - reach, 0)).mean())

    tries = (minimize(score, np.log([k, 100 * k, k]), method="Nelder-Mead") for k in (0.5, 2, 8))
    best: FloatArray = np.exp(min(tries, key=lambda one: one.fun).x)
    return best


def summary(name: str, found: list[Difference]) -> list[str]:
    """Return a row of the table."""
    inside, narrow = sum(one.inside for one in found), sum(one.reach < _NARROW for one in found)
    reach = np.median([one.reach for one in found])
    return [
        name,
        "",
        "",
        "",
        str(len(found)),
        f"{inside / len(found):.1%}",
        f"{narrow / len(found):.1%}",
        f"{reach:.0%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "pairs", nargs="+", metavar="RUN", help="a folder, or BEFORE:AFTER, two folders of the same jobs"
    )
    parser.add_argument("--draws", type=int, default=20, help="replays of each configuration (20)")
    parser.add_argument("--misses", action="store_true", help="list the differences outside their intervals")
    parser.add_argument("--learn", action="store_true", help="print the constants that fit these pairs best")
    arguments = parser.parse_args()
    print_machine()
    runs = [Path(text) for text in arguments.pairs if ":" not in text]
    if runs:
        columns = ("run", "trust", "recorded s", "simulated s", "from", "to", "inside")
        print_table("Mean waits of runs", columns, [own_row(run, arguments.draws) for run in runs])
    rows, everything, refused = [], [], []
    for text in arguments.pairs:
        if ":" not in text:
            continue
        before, after = map(Path, text.split(":"))
        answer, found = differences(before, after, arguments.draws)
        if answer.trust.level == "no":
            refused.append(f"{before.name} → {after.name}")
        elif found:
            everything += found
            whole = found[0]
            _, _, _, _, *counts = summary("", found)
            shown = (
                f"{whole.recorded:+.0%}",
                f"{whole.simulated:+.0%}",
                f"{whole.low:+.0%} … {whole.high:+.0%}",
            )
            rows.append([whole.pair, *shown, *counts])
    if not everything:
        return
    heads = (
        "pair",
        "recorded",
        "simulated",
        "95 % of all jobs",
        "differences",
        "inside",
        "narrow",
        "median reach",
    )
    print_table("Differences of mean waits by class", heads, [*rows, summary("all", everything)])
    print(f"refused, as the log is not trusted: {', '.join(refused) or 'none'}")
    for one in everything if arguments.misses else ():
        if not one.inside:
            ends = f"{one.low:+.0%} … {one.high:+.0%}"
            print(f"  {one.pair}, {one.jobs}: recorded {one.recorded:+.0%}, interval {ends}")
    if arguments.learn:
        print("constants:", ", ".join(f"{value:.3g}" for value in learned(everything)))


if __name__ == "__main__":
    main()
