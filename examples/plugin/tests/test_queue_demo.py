"""The queue against a plain twin and against theory; the order, the metric and the format by hand."""

from __future__ import annotations

import heapq

import gridtune as gt
import numpy as np
import pytest
from gridtune.batch.policies import JobView, get_queue_order
from gridtune.errors import WorkloadError

from queue_demo.kernel import start_times
from queue_demo.theory import erlang_c, mean_wait


def twin(arrival, service, servers):
    """Serve customers of one queue in order of arrival, each by the server that is free first."""
    free = [0.0] * servers
    starts = []
    for at, takes in zip(arrival, service, strict=True):
        starts.append(max(at, heapq.heappop(free)))
        heapq.heappush(free, starts[-1] + takes)
    return starts


@pytest.mark.parametrize("servers", [1, 2, 7])
def test_a_shared_queue_is_served_as_by_the_twin(servers):
    rng = np.random.default_rng(servers)
    arrival, service = np.cumsum(rng.exponential(1.0, 300)), rng.exponential(0.9 * servers, 300)
    start = np.empty(300)
    start_times(arrival, service, np.full(300, -1), np.zeros(servers), start)
    assert start.tolist() == twin(arrival, service, servers)


def test_own_queues_are_queues_of_one_server():
    rng = np.random.default_rng(5)
    arrival, service = np.cumsum(rng.exponential(1.0, 300)), rng.exponential(1.5, 300)
    server, start = rng.integers(2, size=300), np.empty(300)
    start_times(arrival, service, server, np.zeros(2), start)
    for number in range(2):
        mine = server == number
        assert start[mine].tolist() == twin(arrival[mine], service[mine], 1)


def test_erlang_c_by_hand():
    # One server is busy for the share ρ of the time; of two, both are for 2ρ² / (1 + ρ).
    assert erlang_c(1, 0.6) == pytest.approx(0.6)
    assert erlang_c(2, 0.6) == pytest.approx(2 * 0.36 / 1.6)
    assert mean_wait(1, 0.5, 60.0) == pytest.approx(60.0)


@pytest.mark.parametrize("queue", ["shared", "random"])
def test_long_runs_come_near_to_theory(queue):
    parameters = {"servers": 3, "load": 0.7, "queue": queue, "customers": 400_000, "warmup": 5_000}
    metrics = gt.run_cell("queue_demo", parameters, seed=2).outcome.metrics
    assert metrics["wait_mean"] == pytest.approx(metrics["wait_mean_theory"], rel=0.03)
    assert metrics["waited_fraction"] == pytest.approx(metrics["waited_fraction_theory"], rel=0.01)
    assert metrics["response_mean"] == pytest.approx(metrics["wait_mean"] + 60.0, rel=0.01)


def test_the_order_by_hand():
    view = JobView(100, 50, 4, 1, 2, 3, 4, 3600, 3700, 10.0, 20.0, 0.25)
    assert get_queue_order("aged-area(hours=2)")(view) == 100.0
    assert get_queue_order("aged-area(hours=1)")(view) == 0.0


def test_the_metric_by_hand():
    seconds = np.array([0, 0, 0, 0])
    log = gt.Workload(
        {"submit_time": seconds, "run_time": seconds + 1800, "requested_processors": seconds + 1}
    )
    # On one processor they start after 0, 1,800, 3,600 and 5,400 s.
    schedule = gt.simulate(log, processors=1)
    assert gt.evaluate(schedule, only=["long_wait_fraction"])["long_wait_fraction"] == 0.25


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"submit_time": 1}', "does not have it"),
        ('{"submit_time": 1, "run_time": 2, "colour": 3}', "unknown field 'colour'"),
        ('{"submit_time": 1, "run_time": 2.5}', "must be a number, got 2.5"),
        ('{"submit_time": 1, "run_time": 9223372036854775808}', "beyond int64"),
        ("[1, 2]", "no JSON object"),
    ],
)
def test_what_the_format_refuses(line, message, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"submit_time": 0, "run_time": 5}}\n{line}\n')
    with pytest.raises(WorkloadError, match=message) as refused:
        gt.read_workload(path)
    assert refused.value.line == 2
