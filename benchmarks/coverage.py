"""How often intervals cover the true value, and how often the verdict of a ranking is wrong or found.

python -m benchmarks.coverage means         # intervals of a mean, beside other methods
python -m benchmarks.coverage pairs         # of paired and relative differences, on real logs too
python -m benchmarks.coverage verdicts      # A/A sweeps and sweeps with a difference, through `rank`
python -m benchmarks.coverage windows       # how alike neighbouring windows of a log are
python -m benchmarks.coverage dependence    # A/A sweeps and power where neighbouring windows are alike
python -m benchmarks.coverage tails         # verdicts on a policy that is a disaster in one window of twenty
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from benchmarks.measure import arguments, print_table
from benchmarks.populations import PAIRS, SINGLE, WINDOWS, Pair, window_pairs, window_values
from gridtune.report.rankings.cells import read_cells
from gridtune.report.rankings.combined import rank_overall
from gridtune.report.rankings.ranking import rank
from gridtune.statistics import bootstrap_interval, mean_interval, paired_difference
from gridtune.statistics.inference import Interval
from gridtune.statistics.intervals import t_quantile
from gridtune.statistics.sample_size import PairedSpread, replicates_needed
from gridtune.types import FloatArray

SIZES = (5, 6, 8, 10, 20, 30)
#: Samples are drawn in so many parts: those of one call share their resampling indices.
PARTS = 40
RESAMPLES = 1_000


def student(samples: FloatArray) -> Interval:
    """Return Student's interval of the mean."""
    n = samples.shape[1]
    mean, half = samples.mean(axis=1), t_quantile(n, 0.95) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    return Interval(mean - half, mean + half)


def studentised(samples: FloatArray, rng: np.random.Generator) -> Interval:
    """Return the studentised bootstrap interval (bootstrap-t; Efron and Tibshirani, 1993, section 12.5)."""
    n = samples.shape[1]
    drawn = samples[:, rng.integers(n, size=(RESAMPLES, n))]
    mean, error = samples.mean(axis=1), samples.std(axis=1, ddof=1)
    errors = drawn.std(axis=2, ddof=1)
    t = (drawn.mean(axis=2) - mean[:, None]) / np.where(errors > 1e-12 * error[:, None], errors, np.nan)
    low, high = np.nanquantile(t, [0.025, 0.975], axis=1)
    return Interval(mean - high * error, mean - low * error)


def mean_methods(rng: np.random.Generator) -> dict[str, Callable[[FloatArray], Interval]]:
    """Return the intervals of a mean that are compared, the default first."""
    return {
        "mean_interval": mean_interval,
        "expanded": lambda samples: bootstrap_interval(samples, rng=rng, resamples=RESAMPLES),
        "Student": student,
        "studentised": lambda samples: studentised(samples, rng),
    }


def mean_coverage(
    name: str, method: str, n: int, rng: np.random.Generator, samples: int = 2_000
) -> tuple[float, float]:
    """Return the percentage of samples whose interval covers the true mean, and the median width."""
    draw, mean = SINGLE[name]
    interval = mean_methods(rng)[method]
    parts = [interval(draw(rng, (samples // PARTS, n))) for _ in range(PARTS)]
    low, high = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    return 100 * float(np.mean((low <= mean) & (high >= mean))), float(np.median(high - low))


def pair_coverage(
    pair: Pair, n: int, rng: np.random.Generator, samples: int = 2_000
) -> dict[str, tuple[float, float]]:
    """Return the same for a paired difference, and for the relative one."""
    found: dict[str, list[tuple[FloatArray, FloatArray]]] = {"difference": [], "relative": []}
    for _ in range(PARTS):
        a, b = pair.draw(rng, (samples // PARTS, n))
        result = paired_difference(a, b, rng=rng, resamples=RESAMPLES)
        found["difference"].append((result.low, result.high))
        found["relative"].append((result.relative_low, result.relative_high))
    coverage = {}
    for kind, ends in found.items():
        low, high = (np.concatenate(end) for end in zip(*ends, strict=True))
        true = getattr(pair, kind)
        covered = 100 * float(np.mean((low <= true) & (high >= true)))
        coverage[kind] = covered, float(np.nanmedian(high - low))
    return coverage


def means(samples: int) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for name in SINGLE:
        for method in mean_methods(rng):
            measured = [mean_coverage(name, method, n, rng, samples) for n in SIZES]
            width = measured[SIZES.index(10)][1] / mean_coverage(name, "Student", 10, rng, samples)[1]
            rows.append([name, method, *(f"{covered:.0f} %" for covered, _ in measured), f"{width:.2f}"])
    header = ["replicates are", "interval", *(f"n = {n}" for n in SIZES), "width / Student's at n = 10"]
    print_table(f"Coverage of the mean, nominally 95 %, {samples:,} samples each", header, rows)


def pairs(samples: int) -> None:
    rng = np.random.default_rng(2)
    for kind in ("difference", "relative"):
        rows = []
        for name, pair in {**PAIRS, **window_pairs()}.items():
            measured = [pair_coverage(pair, n, rng, samples)[kind] for n in SIZES]
            rows.append([name, *(f"{percent:.0f} %" for percent, _ in measured)])
        header = ["pairs are", *(f"n = {n}" for n in SIZES)]
        print_table(f"Coverage of the {kind}, nominally 95 %, {samples:,} samples each", header, rows)


def overall(samples: int) -> None:
    rng = np.random.default_rng(4)
    logs = {log: np.array(list(window_values(log).values())) for log in WINDOWS}
    names = list(window_values("KTH"))[1:]
    true = np.mean([values[1:].mean(axis=1) / values[0].mean() - 1 for values in logs.values()], axis=0)
    rows = []
    for n in (6, 10, 20):
        hits = np.zeros(len(names))
        for _ in range(samples):
            drawn = [
                cells(values[:, rng.integers(values.shape[1], size=n)], log) for log, values in logs.items()
            ]
            found = read_cells(pa.concat_tables(drawn), {"number": 0})
            single = rank(found, objective="objective", direction="min")
            ranking = rank_overall(found, single.head)
            for row in [] if ranking is None else ranking.rows:
                if not row["is_baseline"]:
                    place = row["param.number"] - 1
                    hits[place] += row["relative_low"] <= true[place] <= row["relative_high"]
        rows.append([f"n = {n}", *(f"{100 * hit / samples:.0f} %" for hit in hits)])
    title = f"Coverage over KTH and CTC (reconstructed), n windows of each, {samples:,} sweeps"
    print_table(title, ["windows", *names], rows)


def cells(values: FloatArray, log: str = "log", replicate: str = "window") -> pa.Table:
    """Return a table of cells of configurations × replicates; the first is the baseline."""
    count, n = values.shape
    configuration = np.repeat(np.arange(count), n)
    return pa.table(
        {
            "configuration_id": [f"{number:03d}" for number in configuration],
            "workload": [log] * values.size,
            "replicate": [f"{replicate} {number + 1}/{n}" for number in range(n)] * count,
            "state": ["done"] * values.size,
            "param.number": configuration,
            "metric.objective": values.ravel(),
        }
    )


def verdicts_of(values: FloatArray, replicate: str = "window") -> list[str]:
    """Return the verdict of each configuration but the baseline, as the report gives them."""
    found = read_cells(cells(values, replicate=replicate), {"number": 0})
    ranking = rank(found, objective="objective", direction="min")
    rows = sorted(ranking.rows, key=lambda row: row["configuration_id"])
    return [row["verdict"] for row in rows[1:]]


Sweep = Callable[[np.random.Generator, int, int], FloatArray]


def sweeps() -> dict[str, Sweep]:
    """Return how values of configurations × replicates are drawn where nothing differs."""

    def skewed(hardship: float, noise: float) -> Sweep:
        return lambda rng, count, n: rng.lognormal(0, hardship, n) * rng.lognormal(0, noise, (count, n))

    drawn: dict[str, Sweep] = {
        "normal": lambda rng, count, n: 20 + rng.normal(0, 2, n) + rng.normal(0, 1, (count, n)),
        "Student's t, 2 df": lambda rng, count, n: 100 + rng.standard_t(2, (count, n)),
        "exponential": lambda rng, count, n: rng.standard_exponential((count, n)),
        "lognormal(0.3) around lognormal(1)": skewed(1, 0.3),
        "lognormal(1) around lognormal(1)": skewed(1, 1),
        "lognormal(1.5) around lognormal(1.5)": skewed(1.5, 1.5),
    }
    for log in WINDOWS:
        values = window_values(log)
        if values:
            drawn[f"{log}: slowdowns, policies shuffled in each window"] = _shuffled(
                np.array(list(values.values()))
            )
    return drawn


def _shuffled(values: FloatArray) -> Sweep:
    """Return A/A sweeps of real values: in each window drawn, each configuration gets a policy at random."""

    def draw(rng: np.random.Generator, count: int, n: int) -> FloatArray:
        windows = rng.integers(values.shape[1], size=n)
        return values[rng.integers(len(values), size=(count, n)), windows]

    return draw


def wrong_sweeps(draw: Sweep, rng: np.random.Generator, count: int, n: int, repeats: int) -> float:
    """Return the percentage of A/A sweeps with at least one verdict of better or worse."""
    wrong = sum(not DIFFERENT.isdisjoint(verdicts_of(draw(rng, count + 1, n))) for _ in range(repeats))
    return 100 * wrong / repeats


#: Factors on 5 of 20 configurations, by the sweep they are found in.
EFFECTS: Mapping[str, Iterable[float]] = {
    "normal": (1.1, 1.2),
    "lognormal(0.3) around lognormal(1)": (1.5, 2, 18),
    "lognormal(1) around lognormal(1)": (3, 6, 18),
    "lognormal(1.5) around lognormal(1.5)": (6, 18),
}


def verdicts(repeats: int) -> None:
    rng = np.random.default_rng(3)
    drawn = sweeps()
    rows = [
        [name, *(f"{wrong_sweeps(draw, rng, 20, n, repeats):.1f} %" for n in (6, 10, 20))]
        for name, draw in drawn.items()
    ]
    header = ["values", "n = 6", "n = 10", "n = 20"]
    print_table(f"A/A sweeps with any difference reported: {repeats:,} of 20 configurations", header, rows)
    rows = []
    for name, effects in EFFECTS.items():
        for effect in effects:
            found = []
            for _ in range(repeats // 5):
                values = drawn[name](rng, 21, 10)
                values[1:6] *= effect
                found += [verdict == "worse" for verdict in verdicts_of(values)[:5]]
            rows.append([name, f"× {effect}", f"{100 * np.mean(found):.0f} %"])
    title = f"Differences found at n = 10: 5 of 20 configurations differ, {repeats // 5:,} sweeps"
    print_table(title, ["values", "true ratio", "verdict worse"], rows)


def window_sweep(rng: np.random.Generator, count: int, n: int, correlation: float) -> FloatArray:
    """Return an A/A sweep over n windows whose neighbours are alike, shape (count, n).

    Logarithms of a window's hardship, normal(0, 1), and of each configuration's noise, normal(0, 0.3), are
    autoregressive series.
    """
    series = rng.standard_normal((count + 1, n))
    for place in range(1, n):
        series[:, place] = correlation * series[:, place - 1] + np.sqrt(1 - correlation**2) * series[:, place]
    return np.asarray(np.exp(series[0] + 0.3 * series[1:]))


#: Verdicts that say that a configuration differs.
DIFFERENT = frozenset({"better", "better typically", "worse"})
#: A true ratio that about half of the sweeps of two configurations find, by windows.
HALF_FOUND = {6: 0.55, 10: 0.67, 20: 0.77, 30: 0.82}


def dependence(repeats: int) -> None:
    """Measure A/A errors and power where neighbouring windows correlate."""
    rng = np.random.default_rng(8)
    wrong, found = [], []
    for count in (2, 21):
        for n, ratio in HALF_FOUND.items():
            errors, powers = [], []
            alone = 0
            for correlation in (0.0, 0.3, 0.5, 0.8):
                draws = [window_sweep(rng, count, n, correlation) for _ in range(repeats)]
                hits = sum(not DIFFERENT.isdisjoint(verdicts_of(values)) for values in draws)
                errors.append(f"{100 * hits / repeats:.1f} %")
                better = 0
                for values in draws[: repeats // 2]:
                    values[1] *= ratio
                    better += verdicts_of(values)[0] in {"better", "better typically"}
                    # Seeds are independent, and nothing is allowed for.
                    if correlation == 0:
                        alone += verdicts_of(values, "seed")[0] in {"better", "better typically"}
                powers.append(f"{100 * better / (repeats // 2):.0f} %")
            wrong.append([count, n, *errors])
            found.append([count, n, f"× {ratio}", f"{100 * alone / (repeats // 2):.0f} %", *powers])
    of = ["ρ = 0", "ρ = 0.3", "ρ = 0.5", "ρ = 0.8"]
    print_table(
        f"A/A sweeps with any difference: {repeats:,} sweeps", ["configurations", "windows", *of], wrong
    )
    head = ["configurations", "windows", "true ratio", *of]
    print_table(f"One better configuration found: {repeats // 2:,} sweeps", head, found)


def tail_sweep(
    rng: np.random.Generator, n: int, *, hardship: float, disasters: float = 0.05, count: int = 2
) -> FloatArray:
    """Return a sweep whose second configuration is 30 % better, and 16 times worse in a share of windows."""
    values = rng.lognormal(0, hardship, n) * rng.lognormal(0, 0.2, (count, n))
    values[1] *= np.where(rng.random(n) < disasters, 16.0, 0.7)
    return np.asarray(values)


def tails(repeats: int) -> None:
    """Measure what is said of a policy that is better typically, with and without rare disasters."""
    rng = np.random.default_rng(9)
    rows = []
    for hardship in (0.0, 0.5, 1.0):
        for disasters in (0.05, 0.0):
            for n in (10, 20, 30):
                verdicts = [
                    verdicts_of(tail_sweep(rng, n, hardship=hardship, disasters=disasters))[0]
                    for _ in range(repeats)
                ]
                shares = (
                    f"{100 * verdicts.count(verdict) / repeats:.0f} %"
                    for verdict in ("better", "better typically", "not sure", "worse")
                )
                rows.append([f"lognormal({hardship:g})", f"{disasters:.0%}", n, *shares])
    for n in (10, 20, 30):
        verdicts = []
        for _ in range(repeats):
            values = np.full((2, n), 1.0)
            # Mean 3, median 1.6: 0.56 of the baseline in half of the windows, equal in the mean.
            values[1] = (1 + rng.pareto(1.5, n)) / 3
            verdicts.append(verdicts_of(values * rng.lognormal(0, 0.2, (2, n)))[0])
        shares = (
            f"{100 * verdicts.count(verdict) / repeats:.0f} %"
            for verdict in ("better", "better typically", "not sure", "worse")
        )
        rows.append(["Pareto(1.5), equal means", "", n, *shares])
    header = ["hardship", "disasters", "windows", "better", "better typically", "not sure", "worse"]
    print_table(f"30 % better, 16 times worse in disasters: {repeats:,} sweeps", header, rows)


def conditions(repeats: int) -> None:
    """Measure how often overall rankings are wrong where windows of an A/A sweep have several loads."""
    rng = np.random.default_rng(7)
    draw = sweeps()["lognormal(0.3) around lognormal(1)"]
    rows = []
    for loads in (2, 4):
        wrong = 0
        for _ in range(repeats):
            values = draw(rng, 21, 10)
            tables = []
            for load in range(loads):
                table = cells(values * rng.lognormal(0, 0.1, values.shape))
                constant = {"param.load": float(load), "trace_checksum": "log"}
                for name, value in constant.items():
                    table = table.append_column(name, pa.array([value] * table.num_rows))
                tables.append(table)
            found = read_cells(pa.concat_tables(tables), {"number": 0}, ("workload", "load"))
            ranking = rank_overall(found, rank(found, objective="objective", direction="min").head)
            verdicts = set() if ranking is None else {row["verdict"] for row in ranking.rows}
            wrong += not DIFFERENT.isdisjoint(verdicts)
        rows.append([loads, f"{100 * wrong / repeats:.1f} %"])
    print_table(f"A/A sweeps over conditions: {repeats:,} of 20 configurations", ["loads", "wrong"], rows)


def power(repeats: int) -> None:
    """Measure how often differences are found with the replicates that pilots of 10 ask for."""
    rng = np.random.default_rng(6)
    drawn = sweeps()
    rows = []
    for name, effect in (
        ("normal", 1.05),
        ("normal", 1.1),
        ("lognormal(0.3) around lognormal(1)", 1.25),
        ("lognormal(0.3) around lognormal(1)", 2),
        ("lognormal(1) around lognormal(1)", 4),
        ("lognormal(1) around lognormal(1)", 18),
    ):
        draw = drawn[name]
        # One pair from each pilot, so that pilots are independent.
        pilots = np.array([draw(rng, 2, 10) for _ in range(400)])
        spread = PairedSpread.of(pilots[:, 0], pilots[:, 1])
        asked = replicates_needed(np.log(effect), spread.deviation, comparisons=20)
        texts = []
        for n in np.quantile(asked, [0.1, 0.5, 0.9]).astype(int):
            found = []
            for _ in range(repeats):
                values = draw(rng, 21, n)
                values[1:6] *= effect
                found += [verdict == "worse" for verdict in verdicts_of(values)[:5]]
            texts.append(f"{n}: {100 * np.mean(found):.0f} %")
        rows.append([name, f"× {effect}", *texts])
    header = ["values", "true ratio", "a tenth ask for at most", "half", "nine tenths"]
    print_table(
        f"Replicates that pilots of 10 ask for, and differences found: {repeats:,} sweeps", header, rows
    )


def windows() -> None:
    rows = []
    for log in WINDOWS:
        values = window_values(log)
        for name in list(values)[1:]:
            ratios = np.log(values[name] / values["fcfs easy"])
            slowdowns = np.log(values[name])
            rows.append([log, name, *(f"{_lag_one(sample):+.2f}" for sample in (slowdowns, ratios))])
    header = ["log", "policy", "log slowdown", "log of the ratio to fcfs easy"]
    print_table("Correlation of neighbouring windows", header, rows)


def _lag_one(sample: FloatArray) -> float:
    centred = sample - sample.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "what",
        nargs="+",
        choices=[
            "means",
            "pairs",
            "overall",
            "verdicts",
            "conditions",
            "power",
            "windows",
            "dependence",
            "tails",
        ],
    )
    parser.add_argument("--samples", type=int, default=4_000, help="samples of each coverage (4,000)")
    parser.add_argument("--sweeps", type=int, default=1_000, help="A/A sweeps of each kind (1,000)")
    options = parser.parse_args()
    for what in options.what:
        if what in {"means", "pairs"}:
            {"means": means, "pairs": pairs}[what](options.samples)
        elif what == "overall":
            overall(options.sweeps)
        elif what == "verdicts":
            verdicts(options.sweeps)
        elif what == "conditions":
            conditions(options.sweeps)
        elif what == "power":
            power(options.sweeps // 5)
        elif what in {"dependence", "tails"}:
            {"dependence": dependence, "tails": tails}[what](options.sweeps)
        else:
            windows()


if __name__ == "__main__":
    main()
