"""The paper's figures 1 and 2: what timeouts and a reservation do with two jobs."""

from __future__ import annotations

from gridtune.core.usage import NodePower
from gridtune.systems.shutdown.metrics import measure_days
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from tests.systems.shutdown.simulator.twins import make_days

# Switching off takes two minutes, switching on one.
FOUR_NODES = Platform(4, 1, NodePower(switch_off_time=2, switch_on_time=1))


def lived(jobs, **policy):
    """Return starts of jobs of (submission, cores, run time), waste and switches of 20 minutes."""
    days = make_days([[(submit, cores, 20, run, 1) for submit, cores, run in jobs]], 20)
    results, _ = replay(days, FOUR_NODES, **policy)
    measures = measure_days(days, results, FOUR_NODES)
    return results.start.tolist(), float(measures["energy_waste"][0]), float(measures["switches"][0])


def test_figure_1_a_longer_timeout_spares_the_second_job_a_boot() -> None:
    # Job 1 has all nodes from minute 2 (t0) to 4 (t2); job 2 comes at 7 (t5) and stays.
    jobs = [(1, 4, 2), (7, 4, 19)]
    short, wasted, switches = lived(jobs, rule="timeout", timeout=2)
    # Off from t4 to t6, on at t7.
    assert short == [2, 9]
    assert (wasted, switches) == (4 * (125 + 2 * 95 + 2 * 101 + 125), 12)
    long, less, fewer = lived(jobs, rule="timeout", timeout=4)
    assert long == [2, 7]
    assert (less, fewer) == (4 * (125 + 3 * 95), 4)


def test_figure_2_a_reservation_makes_the_second_job_wait_for_the_nodes_of_the_first() -> None:
    # Job 1 has two nodes until minute 5; job 2 comes a minute before.
    jobs = [(1, 2, 3), (4, 2, 16)]
    woken, wasted, switches = lived(jobs, rule="timeout", timeout=0)
    waited, less, fewer = lived(jobs, rule="oracle")
    assert woken == waited == [2, 5]
    assert (less, fewer) == (2 * 125, 2)
    assert (wasted, switches) == (2 * (125 + 125 + 2 * 101), 6)
