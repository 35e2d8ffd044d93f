"""A problem for programs that write schedulers: a file with a queue order or a policy in, a number out.

    python examples/evolve/evaluator.py examples/evolve/initial_program.py
    python examples/evolve/evaluator.py best_program.py --seed 1 --log my_log.swf.gz

`evaluate(path)` is what searches such as OpenEvolve call; `combined_score` is to be raised. It is the gain
over the best of 15 rules on each log, in percent of J, the geometric mean of bounded slowdown, area-weighted
response and mean wait. `gain_of_rollout` is that of gridtune's own look ahead: the number to beat. J is
multiplied by the longest wait over twice that of FCFS where this is above 1, as starving wide jobs is easy.

A program that fails a check of `gridtune policy score` gets −100: it knows the future, a clock or the logs.
Search with one seed, and judge the winner once on another one, and on logs that the search has not seen.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gridtune as gt
from gridtune.batch.policies.rollout import RECOMMENDED
from gridtune.study.leaks import score
from gridtune.workload.files import workload_of

DAY = 86_400
NAMES = ("fcfs", "sjf", "saf", "f1", "f2", "f4", "wfp3", "unicef", "xfactor")
RULES: dict[str, Mapping[str, Any]] = {
    **{name: {"order": name} for name in NAMES},
    **{f"{name}, 2 days": {"order": name, "guard": 2 * DAY} for name in ("sjf", "saf", "f1", "unicef")},
    **{f"{name}, 4 days": {"order": name, "guard": 4 * DAY} for name in ("saf", "f1")},
}
ROLLOUT = {
    "order": RECOMMENDED,
    "guard": 4 * DAY,
}
LOGS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("lublin", {"jobs": 2000, "processors": 128, "load": 0.8}),
    ("lublin", {"jobs": 2000, "processors": 64, "load": 1.0}),
    ("sessions", {"jobs": 2000, "processors": 128}),
)
WORST = -100.0


def cost(metrics: Mapping[str, float], fcfs: Mapping[str, float]) -> float:
    """Return J, more where the longest wait is over twice that of FCFS."""
    return metrics["delay_index"] * max(1.0, metrics["wait_max"] / max(1.0, 2 * fcfs["wait_max"]))


@cache
def floor(log: str) -> tuple[Mapping[str, float], float, float]:
    """Return the metrics of FCFS on a log, the least cost of all rules, and that of the rollout."""
    jobs, _ = gt.clean(workload_of(log))
    metrics = {
        name: gt.evaluate(gt.simulate(jobs, **one)) for name, one in {**RULES, "ahead": ROLLOUT}.items()
    }
    fcfs = metrics["fcfs"]
    return fcfs, min(cost(metrics[name], fcfs) for name in RULES), cost(metrics["ahead"], fcfs)


@cache
def generated(seed: int) -> tuple[str, ...]:
    """Return the files of logs that are drawn with a seed."""
    folder = Path(tempfile.mkdtemp(prefix="evolve-"))
    files = []
    for number, (kind, options) in enumerate(LOGS):
        jobs = gt.generate_workload(kind, **options, seed=1000 * seed + number)
        gt.write_workload(jobs, folder / f"{number}.swf")
        files.append(str(folder / f"{number}.swf"))
    return tuple(files)


def gain(ratios: Sequence[float]) -> float:
    """Return 1 less the geometric mean of ratios, in percent."""
    return 100 * (1 - math.exp(sum(map(math.log, ratios)) / len(ratios)))


def evaluate(program_path: str, seed: int = 0, logs: Sequence[str] = ()) -> dict[str, Any]:
    """Return the score of a program, the number to beat, and the checks that it fails."""
    files = [*generated(seed), *logs]
    floors = [floor(file) for file in files]
    ahead = gain([rollout / rule for _, rule, rollout in floors])
    with tempfile.TemporaryDirectory() as folder:
        result = score(str(program_path), logs=files, out=Path(folder))
    content: dict[str, Any] = {"gain_of_rollout": ahead, "microseconds_per_job": result.microseconds_per_job}
    failed = [f"{check.name}: {check.detail}" for check in result.checks if check.passed is False]
    if failed:
        return {"combined_score": WORST, "error": "; ".join(failed), **content}
    own = [result.logs[file]["metrics"]["this policy"] for file in files]
    ratios = [cost(metrics, fcfs) / rule for metrics, (fcfs, rule, _) in zip(own, floors, strict=True)]
    return {"combined_score": max(WORST, gain(ratios)), "gains": [gain([one]) for one in ratios], **content}


def main() -> None:
    """Print the score of a program as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=0, help="of the logs that are drawn (0)")
    parser.add_argument("--log", action="append", default=[], help="a further log; repeat for several")
    arguments = parser.parse_args()
    print(json.dumps(evaluate(arguments.program, arguments.seed, arguments.log), indent=2))


if __name__ == "__main__":
    main()
