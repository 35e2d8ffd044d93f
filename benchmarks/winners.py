"""Rates of false gains: of the best of many trials, and of sweeps that are looked at again.

python -m benchmarks.winners best      # the interval of the best of 200 trials, none of which differs
python -m benchmarks.winners again     # sweeps that get more seeds until a difference is shown
"""

from __future__ import annotations

import numpy as np

from benchmarks.coverage import cells, sweeps
from benchmarks.measure import arguments, print_table
from gridtune.report.facts import SweepFacts
from gridtune.report.rankings.cells import SEED, read_cells
from gridtune.report.rankings.ranking import RankingHead, Row, rank
from gridtune.statistics import joint_paired_p_values, paired_difference
from gridtune.sweep.space.schema import Replicates
from gridtune.types import FloatArray

#: Kinds of sweeps.
KINDS = ("lognormal(0.3) around lognormal(1)", "normal", "lognormal(1) around lognormal(1)")
TRIALS = 200


def best_of(values: FloatArray, error: float = 0.05) -> dict[str, float]:
    """Return the best configuration's place, difference and p-value, as `rank` gives them.

    Parameters
    ----------
    values
        Shape (configurations, seeds); the first is the baseline.
    error
        As of `rank`.

    Only the best one's interval is computed, which saves most of the time.
    """
    place = int(values[1:].mean(axis=1).argmin())
    rng = np.random.default_rng(SEED)
    own = paired_difference(values[1 + place], values[0], rng=rng, confidence=1 - error)
    columns = {}
    for name in ("relative", "relative_low", "relative_high"):
        columns[name] = np.full(len(values) - 1, np.nan)
        columns[name][place] = getattr(own, name)
    columns |= RankingHead("objective", "min", error=error).joint_columns(columns, values[1:], values[0], 0.0)
    return {"place": place, **{name: float(column[place]) for name, column in columns.items()}}


def by_rank(values: FloatArray, error: float = 0.05) -> Row:
    """Return the same row of a ranking of the sweep's cells."""
    found = read_cells(cells(values, replicate="seed"), {"number": 0})
    ranking = rank(found, objective="objective", direction="min", error=error)
    return next(row for row in ranking.rows if not row["is_baseline"])


def excludes_zero(row: Row) -> bool:
    return bool(row["p_value"] <= 0.05 and not row["relative_low"] < 0 < row["relative_high"])


def best(repeats: int) -> None:
    """Measure the shown interval of the best of many trials: none differs, or each has its own true mean."""
    rng = np.random.default_rng(39)
    drawn = sweeps()
    rows = []
    for name in KINDS:
        for seeds in (6, 10) if name == KINDS[0] else (10,):
            wrong, covered = 0, 0
            gains, widths = [], []
            for _ in range(repeats):
                values = drawn[name](rng, TRIALS + 1, seeds)
                row = best_of(values)
                wrong += not row["relative_low"] <= 0 <= row["relative_high"] or excludes_zero(row)
                gains.append(row["relative"])
                widths.append(row["relative_high"] - row["relative_low"])
                factors = np.exp(np.append(0, rng.normal(0, 0.2, TRIALS)))
                row = best_of(values * factors[:, None])
                true = factors[1 + int(row["place"])] - 1
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


def p_value_of_best(values: FloatArray) -> float:
    p_values = joint_paired_p_values(values[1:], values[0], rng=np.random.default_rng(SEED))
    return float(p_values[values[1:].mean(axis=1).argmin()])


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
                p_values = [p_value_of_best(values[:, :n]) for n in LOOKS]
                for kind, errors in kinds.items():
                    wrong[kind] += any(
                        # The interval is asked only where the test finds a difference.
                        p_value <= error and excludes_zero(best_of(values[:, :n], error))
                        for n, error, p_value in zip(LOOKS, errors, p_values, strict=True)
                    )
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
