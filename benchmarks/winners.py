"""How often the best of many trials, or a sweep that is looked at again, shows a gain that is not there.

python -m benchmarks.winners best      # the interval of the best of 200 trials, none of which differs
python -m benchmarks.winners again     # sweeps that get more replicates until a difference is shown
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.coverage import DIFFERENT, RESAMPLES, cells, sweeps
from benchmarks.measure import arguments, print_table
from gridtune.report.facts import SweepFacts
from gridtune.report.rankings import ranking
from gridtune.report.rankings.cells import read_cells
from gridtune.report.rankings.ranking import Ranking, Row, rank
from gridtune.statistics.inference import paired_difference
from gridtune.sweep.space.schema import Replicates
from gridtune.types import FloatArray

#: A tenth of the resamples of a report: the bootstrap takes most of the time, and the winner's interval is
#: that of Student's t.
ranking.paired_difference = partial(paired_difference, resamples=RESAMPLES)  # type: ignore[assignment]
#: Kinds of sweeps, the skewed one first.
KINDS = ("lognormal(0.3) around lognormal(1)", "normal", "lognormal(1) around lognormal(1)")
TRIALS = 200


def ranked(values: FloatArray, error: float = 0.05) -> Ranking:
    """Return the ranking of configurations × seeds, the first being the baseline."""
    found = read_cells(cells(values, replicate="seed"), {"number": 0})
    return rank(found, objective="objective", direction="min", error=error)


def best_of(ranking: Ranking) -> Row:
    """Return the row of the best configuration but the baseline."""
    return next(row for row in ranking.rows if not row["is_baseline"])


def best(repeats: int) -> None:
    """Measure the shown interval of the best of many trials: none differs, or each has its own true mean."""
    rng = np.random.default_rng(39)
    drawn = sweeps()
    rows = []
    for name in KINDS:
        for seeds in (6, 10, 20) if name == KINDS[0] else (10,):
            wrong, covered = 0, 0
            gains, widths = [], []
            for _ in range(repeats):
                values = drawn[name](rng, TRIALS + 1, seeds)
                row = best_of(ranked(values))
                wrong += not row["relative_low"] <= 0 <= row["relative_high"]
                gains.append(row["relative"])
                widths.append(row["relative_high"] - row["relative_low"])
                factors = np.exp(np.append(0, rng.normal(0, 0.2, TRIALS)))
                row = best_of(ranked(values * factors[:, None]))
                true = factors[row["param.number"]] - 1
                covered += row["relative_low"] <= true <= row["relative_high"]
            shares = [f"{100 * count / repeats:.1f} %" for count in (wrong, covered)]
            rows.append(
                [name, seeds, f"{100 * np.median(gains):+.0f} %", f"{np.median(widths):.2f}", *shares]
            )
    header = [
        "values",
        "seeds",
        "median gain shown",
        "median width",
        "excludes 0",
        "covers, if trials differ",
    ]
    title = f"The best of {TRIALS} trials, none of which differs from the baseline: {repeats:,} sweeps"
    print_table(title, header, rows)


#: Looks that double the seeds, as by hand and as `until: settled` does.
LOOKS = (10, 20, 40, 80)


def looks(planned: bool) -> list[float]:
    """Return the error of each look, as the facts of a sweep have it."""
    errors: list[float] = []
    facts: SweepFacts | None = None
    for seeds in LOOKS:
        replicates = Replicates(seeds=seeds, **({"until": "settled", "most": LOOKS[-1]} if planned else {}))
        now = SweepFacts("", "", "", "", "", (), replicates=seeds)
        facts = now._looking(facts, replicates, judged=True)
        errors.append(facts.error)
    return errors


def again(repeats: int) -> None:
    """Measure false verdicts on the best where seeds are added until one is given."""
    rng = np.random.default_rng(40)
    drawn = sweeps()
    kinds = {"as if each look were the first": [0.05] * len(LOOKS)}
    kinds |= {"by hand": looks(planned=False), "until: settled": looks(planned=True)}
    rows = []
    for count in (1, 20):
        for name in KINDS[:2]:
            wrong = dict.fromkeys(kinds, 0)
            for _ in range(repeats):
                values = drawn[name](rng, count + 1, LOOKS[-1])
                for kind, errors in kinds.items():
                    found = (
                        ranked(values[:, :seeds], error) for seeds, error in zip(LOOKS, errors, strict=True)
                    )
                    wrong[kind] += any(best_of(one)["verdict"] in DIFFERENT for one in found)
            rows.append([name, count, *(f"{100 * hits / repeats:.1f} %" for hits in wrong.values())])
    title = f"False verdicts on the best, looking at {', '.join(map(str, LOOKS))} seeds: {repeats:,} sweeps"
    print_table(title, ["values", "trials", *kinds], rows)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("what", nargs="+", choices=["best", "again"])
    parser.add_argument("--sweeps", type=int, default=400, help="sweeps of each kind (400)")
    options = parser.parse_args()
    for what in options.what:
        {"best": best, "again": again}[what](options.sweeps)


if __name__ == "__main__":
    main()
