"""The page of metrics, written from the registry.

``python -m gridtune.batch.metrics.page > docs/metrics.md`` writes it; a test compares the committed page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gridtune.batch.metrics import METRICS, Metric
from gridtune.batch.metrics.columns import TAU
from gridtune.batch.metrics.per_job import FAMILY as QUANTITY_FAMILY
from gridtune.batch.metrics.per_job import QUANTITIES, Quantity
from gridtune.statistics import bootstrap_interval
from gridtune.statistics.resampling import Method

__all__ = ["measured_coverage", "metrics_page"]

#: What intervals are tried on: samples of so many replicates, and how many samples.
_SIZES = (3, 5, 10, 20, 30)
_SAMPLES = 2_000
_METHODS: tuple[Method, ...] = ("expanded", "percentile", "bca")

_HEAD = f"""\
# Metrics

`python -m gridtune.batch.metrics.page > docs/metrics.md` writes this page from the registry of metrics.
`gridtune.evaluate(schedule)` returns them all by name, `only=[...]` some of them.

Values are not rounded. A metric of nothing is NaN, and the counts say of how many jobs or users the others
are. Quantiles are interpolated linearly between order statistics. A metric of your own is a decorated
function of the job columns; see `gridtune.batch.metrics.metric`.

## Notation

| symbol | meaning |
| --- | --- |
| i, n | a kept job; how many there are |
| qᵢ, sᵢ, eᵢ | when it was submitted, started and ended, s |
| wᵢ = sᵢ − qᵢ | its wait, s |
| rᵢ = eᵢ − sᵢ | its run time, s: what it ran in the schedule, so less than the log's where it was killed |
| uᵢ | the walltime that its user asked for, s |
| pᵢ, aᵢ = pᵢ rᵢ | its processors; its area, processor-seconds |
| m | the machine's processors |
| τ | {TAU} s |
| t₀, t₁ | when the window opens and closes |
| u, k | a user with a kept job; how many there are |

## Warm-up, cool-down and the window

A simulation begins with an empty machine and ends with one that drains; neither is what a policy is
chosen for. `evaluate(schedule, warmup=0.1, cooldown=0.1)` leaves out the first and the last tenth of the
jobs in order of submission (a `float` below 1 is a fraction, an `int` a number of jobs). The
others are *kept*:

- Metrics of jobs and users are about the kept jobs. (A job can be overtaken by one that is left out.)
- Metrics of the system are about the *window*. It opens with the first kept submission, t₀. It closes at
  t₁, when the first job left out at the end is submitted or, where none is, when the last kept job
  ends. Inside the window every job counts for what it does there, kept or not; sums over i in the formulas
  of L, B and used(t) run over all jobs.

Without trimming the window is the makespan, and the utilisation the textbook's. At an instant everything that
happens has happened: a job that starts in the second of its submission is never in the queue.
"""

_ENDINGS = """\
Each row stands for six metrics, named with the endings `_mean`, `_median`, `_p90`, `_p95`, `_p99` and `_max`:
`wait_mean`, `wait_median` and so on.

"""

_FAIR_START = """\
## Start-time unfairness against a fair start

`overtaken_*` above is what can be told from a schedule alone. Whether later arrivals *delayed* a job takes
the schedule in which they never came: `fair_start_times(workload, simulate)` gives each job's start in the
schedule of the jobs submitted no later than it (Sabin, Kochhar and Sadayappan, ICPP 2004), at the price of a
simulation for each, and `start_time_unfairness(schedule, fair_start)` compares: the share of jobs
that started after it, #{i : sᵢ > FSTᵢ} / n, and by how much, Σ max(0, sᵢ − FSTᵢ) / n and the maximum (s;
Sabin and Sadayappan, JSSPP 2005). Under conservative backfilling with exact walltimes nobody is delayed
by later arrivals; under EASY some jobs are.
"""

_COMPARING = """
## Comparing configurations

All of these take replicates along the last axis and NaN for a missing one, and any number of configurations
at once.

"""

_FUNCTIONS = {
    "interquartile_mean": "mean of the middle half of the replicates; the two on its borders count in part "
    "(Agarwal et al., NeurIPS 2021)",
    "bootstrap_interval": "confidence interval of a mean, median or interquartile mean (Efron, JASA 82, "
    "1987; Hesterberg, The American Statistician 69, 2015)",
    "paired_difference": "mean difference on the same replicates with its interval, also relative to the "
    "second's mean, and the p-value of the sign-flip test",
    "probability_of_improvement": "share of replicates on which one beats the other, ties counting half",
    "sign_flip_p_value": "exact randomisation test for pairs (Fisher, 1935): n pairs cannot give less than "
    "2 / 2ⁿ",
    "adjust_p_values": "Holm's or Benjamini and Hochberg's correction for many comparisons",
}

_COVERAGE = f"""
How often intervals that are called 95 % cover the true mean, measured on {_SAMPLES:,} samples each, with
1,000 resamples:

"""

_TAIL = """
So the default, `expanded` (the percentile interval moved out to where Student's t would have it), keeps its
word from ten replicates on where they scatter evenly; where they are few and skewed, every interval is too
narrow. Differences on the same replicates usually are less skewed than the values themselves: prefer
`paired_difference`, and ten replicates or more. Two or three are too few for any method, and fewer than two
give NaN. Replicates that all agree give an interval of no width: they hold no information about spread.

## Sources

"""


def metrics_page() -> str:
    """Return the page in Markdown."""
    sources = _sources()
    listed = "".join(f"{number}. {source}\n" for source, number in sources.items())
    comparing = [_COMPARING, *_functions(), _COVERAGE, *_coverage_table(), _TAIL]
    return "".join([_HEAD, *_families(sources), _FAIR_START, *comparing, listed])


def _sources() -> dict[str, int]:
    """Give the sources numbers, in the order in which the metrics first name them."""
    named = [source for entry in METRICS.values() for source in entry.source.split("; ")]
    return {source: number for number, source in enumerate(dict.fromkeys(named), start=1)}


def _families(sources: Mapping[str, int]) -> Iterator[str]:
    entries = list(METRICS.values())
    for family in dict.fromkeys(entry.family for entry in entries):
        yield f"\n## {family}\n\n"
        if family == QUANTITY_FAMILY:
            yield _ENDINGS
            yield from _rows([(f"{item.name}_…", item, "min") for item in QUANTITIES.values()], sources)
        else:
            members = [entry for entry in entries if entry.family == family]
            yield from _rows([(entry.name, entry, entry.direction) for entry in members], sources)
    yield "\n"


def _rows(rows: Sequence[tuple[str, Metric | Quantity, str]], sources: Mapping[str, int]) -> Iterator[str]:
    yield "| metric | unit | better | formula | what it tells | source |\n"
    yield "| --- | --- | --- | --- | --- | --- |\n"
    for name, item, direction in rows:
        better = {"min": "less", "max": "more", "none": "–"}[direction]
        numbers = ", ".join(f"[{sources[source]}]" for source in item.source.split("; "))
        yield f"| `{name}` | {item.unit} | {better} | {item.formula} | {item.description} | {numbers} |\n"


def _functions() -> Iterator[str]:
    yield "| function | what it gives |\n| --- | --- |\n"
    for name, words in _FUNCTIONS.items():
        yield f"| `{name}` | {words} |\n"


def measured_coverage() -> dict[tuple[str, int, str], float]:
    """Measure how often nominal 95 % intervals of the mean cover it.

    Returns
    -------
    dict
        (kind of numbers, replicates, method) to the share of samples whose interval held the true mean.
    """
    rng = np.random.default_rng(20_240_229)
    shares: dict[tuple[str, int, str], float] = {}
    for kind in ("normal", "exponential"):
        for n in _SIZES:
            noise = rng.standard_normal if kind == "normal" else rng.standard_exponential
            samples, mean = noise((_SAMPLES, n)), 0.0 if kind == "normal" else 1.0
            for method in _METHODS:
                covered = 0
                # Samples of one call share their resampling indices; many calls keep that from showing.
                for some in np.split(samples, 40):
                    low, high = bootstrap_interval(some, rng=rng, method=method, resamples=1_000)
                    covered += int(np.sum((low <= mean) & (high >= mean)))
                shares[kind, n, method] = covered / _SAMPLES
    return shares


def _coverage_table() -> Iterator[str]:
    shares = measured_coverage()
    yield "| replicates are | method |" + "".join(f" n = {n} |" for n in _SIZES) + "\n"
    yield "| --- | --- |" + " --- |" * len(_SIZES) + "\n"
    for kind, words in (("normal", "normal"), ("exponential", "skewed (exponential)")):
        for method in _METHODS:
            cells = "".join(f" {shares[kind, n, method] * 100:.0f} % |" for n in _SIZES)
            yield f"| {words} | {method} |{cells}\n"


if __name__ == "__main__":
    sys.stdout.write(metrics_page())
