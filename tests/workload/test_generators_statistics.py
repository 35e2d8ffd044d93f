"""Generated numbers follow the distributions they are said to follow.

Seeds are fixed, so nothing here is flaky; each bound is the 1 % point (Kolmogorov–Smirnov: 1.628/√n) or
four standard errors of what is compared. For whole numbers that bound of the K–S distance is conservative.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, log2, sqrt

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from gridtune.errors import WorkloadError
from gridtune.workload.generators import generate_workload
from gridtune.workload.generators.draws import Cycle, _modal_estimates, draw_estimates, stream, zipf
from gridtune.workload.generators.lublin import POPULATIONS

Law = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


def ks_distance(whole: npt.NDArray[np.int64], law: Law) -> float:
    """Return the largest distance between the share of numbers ≤ k and the law at k + 1, over whole k.

    The law is that of the continuous value before it was rounded down.
    """
    values, counts = np.unique(whole, return_counts=True)
    return float(np.abs(np.cumsum(counts) / len(whole) - law(values + 1.0)).max())


def ks_bound(count: int) -> float:
    return 1.628 / sqrt(count)


@pytest.mark.parametrize("population", ["batch", "interactive", "all"])
def test_lublin_run_times(population: str) -> None:
    """Run times are e to a hyper-gamma value cut at 12, mixed by p = slope · size + base."""
    model = POPULATIONS[population]
    workload = generate_workload("lublin", jobs=60_000, seed=1, population=population)
    for size in (1, 8, 64):
        run = workload.run_time[workload.processors == size]
        p = min(max(model.mix_slope * size + model.mix_base, 0.0), 1.0)

        def law(x: npt.NDArray[np.float64], p: float = p) -> npt.NDArray[np.float64]:
            def mixture(y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
                (a1, a2), (b1, b2) = model.run_time_shapes, model.run_time_scales
                return p * stats.gamma.cdf(y, a1, scale=b1) + (1 - p) * stats.gamma.cdf(y, a2, scale=b2)

            return mixture(np.minimum(np.log(x), 12.0)) / mixture(np.array([12.0]))

        assert len(run) > 300
        assert ks_distance(run, law) < ks_bound(len(run))
        # The neighbouring size's mixture or another population's components would be seen.
        if len(run) > 10_000:
            assert ks_distance(run, lambda x, law=law: law(1.1 * x)) > ks_bound(len(run))


@pytest.mark.parametrize(("population", "processors"), [("batch", 256), ("all", 128), ("batch", 100)])
def test_lublin_sizes(population: str, processors: int) -> None:
    """Shares of every size agree with the two-stage uniform law, worked out on a fine grid."""
    model, count = POPULATIONS[population], 100_000
    size = generate_workload(
        "lublin", jobs=count, seed=2, population=population, processors=processors
    ).processors
    high = log2(processors) - model.high_below_machine
    medium = high - model.medium_below_high
    middle = (np.arange(1_000_000) + 0.5) / 1_000_000
    stages = (
        (model.first_uniform, model.low + middle * (medium - model.low)),
        (1 - model.first_uniform, medium + middle * (high - medium)),
    )
    expected = np.zeros(processors + 1)
    expected[1] += model.serial
    for share, exponent in stages:
        any_size = np.minimum(np.rint(2.0**exponent), processors).astype(int)
        power = 2 ** np.minimum(np.rint(exponent), int(log2(processors))).astype(int)
        for weight, drawn in (
            (model.power_of_two, power),
            (1 - model.serial - model.power_of_two, any_size),
        ):
            expected += weight * share * np.bincount(drawn, minlength=processors + 1) / len(middle)
    assert expected.sum() == pytest.approx(1.0)
    shares = np.bincount(size, minlength=processors + 1) / count
    error = np.sqrt(expected * (1 - expected) / count)
    assert (np.abs(shares - expected) <= 4 * error + 2e-6).all()
    power_share = shares[2 ** np.arange(1, int(log2(processors)) + 1)].sum()
    assert power_share >= model.power_of_two - 4 * sqrt(0.25 / count)


@pytest.mark.parametrize("population", ["batch", "all"])
def test_lublin_gaps(population: str) -> None:
    """With the daily cycle undone, the gaps' logarithms are gamma distributed, cut at 13."""
    model, count = POPULATIONS[population], 20_000
    submit = generate_workload("lublin", jobs=count, seed=3, population=population).submit_time
    slots = np.arange(11, 59)
    share = np.diff(
        [stats.gamma.cdf(slots + side, model.day_shape, scale=model.day_scale) for side in (-0.5, 0.5)],
        axis=0,
    )[0]
    rate = np.zeros(48)
    rate[(slots - 1) % 48] = share / share.mean()
    even_edges = np.concatenate([[0.0], np.cumsum(rate) * 1800])
    days, within = np.divmod(submit + 0.5, 86_400)
    even = days * 86_400 + np.interp(within, np.arange(49) * 1800.0, even_edges)
    gaps = np.sort(np.diff(even))
    shape = model.gap_shape * model.rush_to_all

    def law(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        cut = stats.gamma.cdf(13.0, shape, scale=model.gap_scale)
        return stats.gamma.cdf(np.log(x), shape, scale=model.gap_scale) / cut

    long_enough = gaps > 20  # whole seconds blur shorter ones
    distance = np.abs(np.arange(1, len(gaps) + 1) / len(gaps) - law(np.maximum(gaps, 1.0)))[long_enough]
    assert distance.max() < ks_bound(len(gaps))


@pytest.mark.parametrize("population", ["batch", "interactive", "all"])
def test_lublin_days(population: str) -> None:
    """Half-hour i, counted from 1 at midnight, has the gamma law's mass on [i − ½, i + ½], for i = 11…58."""
    model = POPULATIONS[population]
    clock = model.day().clock_time(np.linspace(0, 86_400, 864_000, endpoint=False))
    shares = np.bincount((clock // 1800).astype(int), minlength=48) / len(clock)
    mass = np.zeros(48)
    for slot in range(11, 59):
        ends = [slot - 0.5, slot + 0.5]
        mass[(slot - 1) % 48] = np.diff(stats.gamma.cdf(ends, model.day_shape, scale=model.day_scale))[0]
    assert shares == pytest.approx(mass / mass.sum(), abs=1e-5)
    assert 13 <= shares.argmax() / 2 < 17


def test_lublin_parameters_are_the_published_ones() -> None:
    """The shares, and the geometric means of run times and gaps, that the published values imply."""
    expected = {
        # serial, power of two, exp of the mean logarithm: short runs, long runs, gaps (s); busiest hour
        "batch": (0.2927, 0.6686, 222.99, 21_374.6, 226.22, 16.157),
        "interactive": (0.1541, 0.6250, 12.592, 127.64, 70.061, 16.357),
        "all": (0.2440, 0.5760, 51.832, 11_614.4, 163.25, 16.197),
    }
    assert set(POPULATIONS) == set(expected)
    for name, model in POPULATIONS.items():
        (a1, a2), (b1, b2) = model.run_time_shapes, model.run_time_scales
        gap = model.gap_shape * model.rush_to_all * model.gap_scale
        figures = (model.serial, model.power_of_two, *np.exp([a1 * b1, a2 * b2, gap]))
        assert (*figures, model.day_shape * model.day_scale / 2) == pytest.approx(expected[name], rel=1e-4)


def test_cycle_follows_its_weights() -> None:
    cycle = Cycle([1.0, 2.0, 5.0], 100.0)
    clock = cycle.clock_time(np.arange(0, 3000, 0.01))
    assert (np.diff(clock) > 0).all()
    slots = np.bincount((clock % 300 // 100).astype(int))
    assert slots / len(clock) == pytest.approx(np.array([1, 2, 5]) / 8, abs=1e-4)
    assert cycle.clock_time([300.0, 600.0]) == pytest.approx([300.0, 600.0])


def test_users_follow_zipf() -> None:
    count = 50_000
    user = zipf(stream(1, "user"), count, 20, 1.2)
    weights = np.arange(1, 21) ** -1.2
    expected = weights / weights.sum()
    shares = np.bincount(user, minlength=21)[1:] / count
    assert (np.abs(shares - expected) < 4 * np.sqrt(expected * (1 - expected) / count)).all()


def test_modal_estimates_have_the_published_popularity() -> None:
    """Where every job fits, the shares are exactly the model's; the maximum leads."""
    estimates = _modal_estimates(stream(1, "e"), np.ones(100_000, dtype=np.int64), 172_800)
    values, counts = np.unique(estimates, return_counts=True)
    rest = [14.0491 * np.exp(-0.177531 * rank) + 0.462513 for rank in range(2, 21)]
    expected = np.sort([89.0 - sum(rest), *rest]) / 89.0
    assert np.sort(counts) / 100_000 == pytest.approx(expected, abs=2e-5)
    assert values[counts.argmax()] == 172_800
    assert len(values) == 20
    assert (values % 300 == 0).all()


def test_modal_estimates_fit_and_tell_no_more() -> None:
    rng = np.random.default_rng(1)
    run = np.minimum(np.exp(rng.normal(7, 2.5, 20_000)).astype(np.int64) + 1, 172_800)
    estimates = _modal_estimates(stream(1, "e"), run, 172_800)
    assert (estimates >= run).all()
    # Among the shortest jobs an estimate says nothing about the run time.
    short = run < 300
    assert abs(stats.spearmanr(run[short], estimates[short]).statistic) < 4 / sqrt(short.sum())


def test_no_estimate_is_shorter_than_the_longest_run_time() -> None:
    with pytest.raises(
        WorkloadError, match="the longest run time is 601 s, above the longest estimate 600 s"
    ):
        _modal_estimates(stream(1, "e"), np.array([5, 601]), 600)


def test_other_estimates() -> None:
    run = np.arange(1, 5001)
    rng = np.random.default_rng(2)
    assert np.array_equal(draw_estimates("exact", rng, run, maximum=1, factor=0.0), run)
    ratio = draw_estimates("factor", rng, run, maximum=1, factor=3.0) / run
    assert ratio.min() >= 1.0
    large = ratio[run > 1000]
    assert stats.kstest(large, stats.uniform(1, 3).cdf).statistic < ks_bound(len(large))


def test_poisson_gaps_and_run_times() -> None:
    count, mean, load, processors = 100_000, 20_000.0, 0.7, 4
    workload = generate_workload("poisson", jobs=count, seed=1, load=load, processors=processors)
    gap = np.diff(workload.submit_time)
    mean_gap = mean / (processors * load)
    # Differences of rounded-down times: centred on the true gap.
    assert ks_distance(gap, lambda x: 1 - np.exp(-(x - 0.5) / mean_gap)) < ks_bound(count - 1)
    assert ks_distance(workload.run_time, lambda x: 1 - np.exp(-(x - 0.5) / mean)) < ks_bound(count)
    for values, expected in ((gap, mean_gap), (workload.run_time, mean)):
        assert values.mean() == pytest.approx(expected, rel=4 / sqrt(count))
        # An exponential's sample variance has a relative standard error of √(8/n).
        assert values.var() == pytest.approx(expected**2, rel=4 * sqrt(8 / count))
    correlation = np.corrcoef(gap, workload.run_time[1:])[0, 1]
    assert abs(correlation) < 4 / sqrt(count)
    assert (workload.processors == 1).all()


def test_deterministic_service() -> None:
    workload = generate_workload("poisson", jobs=100, seed=1, service="deterministic", mean_run_time=5000.0)
    assert set(workload.run_time) == {5000}


def test_sessions_have_heavy_batches() -> None:
    """P(batch ≥ k) = k^−tail, seen in runs of one user's program with small gaps."""
    workload = generate_workload(
        "sessions", jobs=40_000, seed=1, users=1, batch_gap=0.0, sessions_per_day=5.0, batches_per_session=1.0
    )
    sizes = np.unique(workload.submit_time, return_counts=True)[1]
    for least in (2, 5, 20):
        expected = least**-1.5
        share = (sizes >= least).mean()
        assert share == pytest.approx(expected, abs=4 * sqrt(expected / len(sizes)) + 0.002)
    assert sizes.max() >= 150


def test_sessions_are_bursty_and_keep_office_hours() -> None:
    workload = generate_workload("sessions", jobs=50_000, seed=1)
    gaps = np.diff(workload.submit_time)
    assert gaps.std() / gaps.mean() > 2.0
    weekday = workload.submit_time // 86_400 % 7
    hour = workload.submit_time // 3600 % 24
    rates = np.bincount(weekday, minlength=7)
    assert rates[5:].mean() / rates[:5].mean() == pytest.approx(0.3, abs=0.08)
    assert ((hour >= 9) & (hour < 19)).mean() > 0.6
    # A user's program keeps its size.
    pairs = np.unique(np.stack([workload.column("executable"), workload.processors]), axis=1)
    assert pairs.shape[1] == len(np.unique(workload.column("executable")))


def test_sessions_jobs_of_a_batch_are_alike() -> None:
    """Within a batch the logarithms of run times spread by `similarity`, over all jobs by far more."""
    workload = generate_workload(
        "sessions", jobs=30_000, seed=2, users=1, batch_gap=0.0, batches_per_session=1.0, similarity=0.3,
        run_time=20_000.0, run_time_spread=0.5, longest_run_time=10**7,
    )  # fmt: skip
    _, batch = np.unique(workload.submit_time, return_inverse=True)
    logarithm = np.log(workload.run_time)
    # Where the request is far away it cuts no job short.
    median = np.array([np.median(logarithm[batch == number]) for number in range(batch.max() + 1)])
    roomy = (np.log(workload.requested_time) > median[batch] + 1.5) & (np.bincount(batch)[batch] > 1)
    _, batch, counts = np.unique(batch[roomy], return_inverse=True, return_counts=True)
    logarithm = logarithm[roomy]
    mean = np.bincount(batch, logarithm) / counts
    free = len(batch) - len(counts)
    within = sqrt(((logarithm - mean[batch]) ** 2).sum() / free)
    assert free > 4000
    assert within == pytest.approx(0.3, rel=4 / sqrt(2 * free))
    assert logarithm.std() > 1.5 * within


def test_million_jobs_take_seconds() -> None:
    workload = generate_workload("lublin", jobs=1_000_000, seed=1, load=0.75)
    assert len(workload) == 1_000_000
    assert log(workload.run_time.max()) <= 12.0
