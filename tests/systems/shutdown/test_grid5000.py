"""GRID'5000-like days against the published tables they are calibrated to."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.errors import WorkloadError
from gridtune.systems.shutdown.simulator.platform import TRACES
from gridtune.workload.generators import generate_workload
from gridtune.workload.workload import Workload

JOBS = 40_000


def generate(cluster: str, jobs: int = JOBS, **parameters: float) -> Workload:
    processors = TRACES[cluster].cores
    return generate_workload(
        "grid5000", jobs=jobs, seed=5, cluster=cluster, processors=processors, **parameters
    )


@pytest.mark.parametrize("cluster", TRACES)
def test_days_agree_with_the_tables(cluster):
    model, log = TRACES[cluster], generate(cluster)
    minute, day = log.submit_time // 60, log.submit_time // 86_400
    assert (log.submit_time % 60 == 0).all()
    assert ((minute % 1440 >= 1) & (minute % 1440 < 1440)).all()
    sizes = np.bincount(day)
    assert sizes.min() >= 2
    mean = model.jobs / sum(model.days)
    assert sizes.mean() == pytest.approx(mean, abs=4 * sizes.std() / np.sqrt(len(sizes)))

    same_day = np.diff(day) == 0
    close = (np.diff(minute) < 5) & same_day
    shares = np.bincount(day[1:], close, len(sizes)) / (sizes - 1)
    group = np.searchsorted((0.25, 0.5, 0.75, 1.0), shares, side="right")
    found = np.bincount(group, minlength=5) / len(sizes)
    # A day of few jobs has few shares it can have: rounding moves some across an edge.
    assert found == pytest.approx(np.array(model.days) / sum(model.days), abs=0.06)
    sequential = {"taurus": 0.541, "orion": 0.397, "graphite": 0.560, "econome": 0.668}[cluster]
    assert close.sum() / len(log) == pytest.approx(sequential, abs=0.04)


@pytest.mark.parametrize("cluster", TRACES)
def test_load_is_the_published_utilisation(cluster):
    model, log = TRACES[cluster], generate(cluster, 5000)
    days = int(log.submit_time.max() // 86_400) + 1
    load = (log.run_time * log.processors).sum() / (model.cores * 86_400 * days)
    assert load == pytest.approx(model.utilisation / 100, rel=0.005)
    assert (log.run_time <= log.requested_time).all()
    assert log.processors.max() <= model.cores


def test_bursts_are_of_one_user_and_mostly_of_one_job():
    log = generate("taurus")
    minute = log.submit_time // 60
    close = (np.diff(minute) < 5) & (np.diff(log.submit_time // 86_400) == 0)
    assert (np.diff(log.user)[close] == 0).all()
    repeated = (np.diff(log.processors) == 0) & (np.diff(log.requested_time) == 0)
    assert 0.75 < repeated[close].mean() < 0.95


def test_load_moves_durations_and_nothing_else():
    low, high = generate("taurus", 3000, load=0.3), generate("taurus", 3000, load=0.6)
    np.testing.assert_array_equal(low.submit_time, high.submit_time)
    np.testing.assert_array_equal(low.processors, high.processors)
    np.testing.assert_array_equal(low.user, high.user)
    assert (low.requested_time <= high.requested_time).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cluster": "grisou"}, "no cluster is named 'grisou'"),
        ({"cluster": "orion"}, "orion has 48 cores, not 168"),
        ({"load": 50.0}, "at best, not 50.0"),
    ],
)
def test_impossible_parameters_are_refused(parameters, message):
    with pytest.raises(WorkloadError, match=message):
        generate_workload("grid5000", jobs=500, seed=1, **parameters)
