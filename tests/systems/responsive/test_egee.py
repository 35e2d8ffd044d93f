"""The grid site's workload has the published statistics, whatever the seed, and what is known of bursts."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.errors import WorkloadError
from gridtune.systems.responsive.egee import TARGET_SHARES
from gridtune.systems.responsive.metrics import measure_site
from gridtune.systems.responsive.simulator.replay import replay
from gridtune.systems.responsive.simulator.site import SiteModel, build_jobs
from gridtune.workload.describe import offered_load
from gridtune.workload.generators import generate_workload


def site(seed: int = 1, **parameters):
    return generate_workload("egee", jobs=9500, seed=seed, **parameters)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_published_table(seed: int) -> None:
    """Table 1 of Perez et al. 2009; the median of interactive jobs is 160 or 190 s, by paper."""
    workload = site(seed, load=0.56)
    run = workload.run_time
    short = run < 900
    assert short.sum() == pytest.approx(4480, abs=5)
    assert (~short).sum() == pytest.approx(5020, abs=5)
    assert run[short].mean() == pytest.approx(160, rel=0.01)
    assert 160 <= np.median(run[short]) <= 190
    assert run[short].std() == pytest.approx(108, rel=0.01)
    assert run[~short].mean() == pytest.approx(34_927, rel=0.01)
    assert np.median(run[~short]) == pytest.approx(15_615, rel=0.01)
    assert run[~short].std() == pytest.approx(78_755, rel=0.02)
    assert offered_load(workload) == pytest.approx(0.56, rel=1e-3)
    assert offered_load(site(seed)) == pytest.approx(0.56, abs=0.04)
    assert (workload.processors == 1).all()
    # "More than seven weeks" of use to 0.56 would be more work than the table has.
    assert 40 < np.ptp(workload.submit_time) / 86_400 < 60


def test_seven_vos_each_with_both_classes() -> None:
    workload = site()
    assert sorted(set(workload.group.tolist())) == [1, 2, 3, 4, 5, 6, 7]
    for group in range(1, 8):
        run = workload.for_group(group).run_time
        assert (run < 900).any()
        assert (run >= 900).any()
    assert sum(TARGET_SHARES) == pytest.approx(1)
    # The largest VO asks for less than its share, the third for more.
    assert (workload.group == 1).mean() < TARGET_SHARES[0]


def test_it_is_bursty() -> None:
    """Service demand in 10,000 s (figure 3) varies far more than that of independent jobs would."""
    workload = site()
    interval = (workload.submit_time - workload.submit_time[0]) // 10_000

    def dispersion(run: np.ndarray, where: np.ndarray) -> float:
        demand = np.bincount(where, run)
        return float(demand.std() / demand.mean())

    rng = np.random.default_rng(0)
    alone = rng.integers(interval.max() + 1, size=len(workload))
    assert dispersion(workload.run_time, interval) > 1.5 * dispersion(workload.run_time, alone)


def test_jobs_of_a_burst_are_alike() -> None:
    workload = site()
    log = np.log(workload.run_time[workload.run_time >= 900])
    owner = workload.user[workload.run_time >= 900]
    same = owner[1:] == owner[:-1]
    apart = np.abs(np.diff(log))
    assert np.median(apart[same]) < np.median(apart[~same])


def measures_of(rule: str, model: SiteModel, seeds: range) -> np.ndarray:
    """Medians over seeds of W by class, its deviation over interactive jobs, and the share within 2 min."""
    names = (
        "interactive_responsiveness_mean",
        "interactive_responsiveness_std",
        "batch_responsiveness_mean",
        "interactive_wait_below_120",
    )
    rows = []
    for seed in seeds:
        jobs = build_jobs(site(seed, load=0.56), vos=np.arange(1, 7), shares=TARGET_SHARES)
        metrics = measure_site(jobs, replay(jobs, model, rule), weight=0.5)
        rows.append([metrics[name] for name in names])
    return np.median(rows, axis=0)


def test_both_published_results_hold_on_it() -> None:
    """The real site, NAT, limits each user's running jobs; the learners of 2009 (RIG-EST-0.5) do not."""
    seeds = range(100, 106)
    native = measures_of("capped_fcfs", SiteModel(start_latency=3), seeds)
    assert native == pytest.approx([0.628, 0.418, 0.830, 0.63], abs=0.05)
    free = measures_of("fcfs", SiteModel(), seeds)
    assert free == pytest.approx([0.864, 0.319, 0.894, 0.86], abs=0.05)


def test_parameters_out_of_range() -> None:
    with pytest.raises(WorkloadError, match="load"):
        site(load=0.0)
