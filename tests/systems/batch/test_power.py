"""Energy in the batch system: parameters, and the shutdown system's numbers where the models meet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gridtune as gt
from gridtune.batch.power import PowerPolicy
from gridtune.core.cells import validated
from gridtune.core.system import get_system
from gridtune.core.usage import NodePower, NodeState
from gridtune.errors import GridtuneError, SweepError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.shutdown.simulator.platform import Platform
from gridtune.systems.shutdown.simulator.replay import replay
from tests.batch.logs import make_log
from tests.conftest import examples
from tests.systems.shutdown.simulator.twins import make_days

NODES = 40


@examples(60)
@given(
    jobs=st.lists(
        st.tuples(st.integers(1, 8), st.integers(1, 3), st.integers(1, 10)), min_size=1, max_size=12
    )
)
def test_switching_off_at_once_is_the_shutdown_systems(jobs):
    # The models meet where T(0) switches off each node that becomes idle, at once, with more nodes than
    # jobs ever ask for and one job a minute, so that no job waits for cores and the order is no matter. (T(k)
    # switches off the first idle node, not the one whose timeout has passed, and its scheduler is another.)
    # The shutdown system begins with all nodes asleep; here they have an hour for that after a first job.
    submits = np.cumsum([gap for gap, _, _ in jobs]) + 1
    rows = [(int(t), width, run + 5, run, 0) for t, (_, width, run) in zip(submits, jobs, strict=True)]
    power = NodePower()
    days = make_days([rows], 1440)
    results, _ = replay(days, Platform(NODES, 1, power), rule="timeout", timeout=0, until_done=True)
    idle, switching_on, sleeping, switching_off, computing = list(results.totals[0])[:5]

    seconds = [(60 * t, 60 * run, 60 * wall, width) for t, width, wall, run, _ in rows]
    log = make_log([(-3600, 60, 60, 1), *seconds], machine=NODES, origin=10_000)
    policy = PowerPolicy(
        idle_timeout=0,
        power=NodePower(switch_on_time=60 * power.switch_on_time, switch_off_time=60 * power.switch_off_time),
    )
    schedule = gt.simulate(log, power=policy)
    np.testing.assert_array_equal(schedule.start_time[1:] - 10_000, 60 * results.start)
    opens, closes = int(log.submit_time[1]), int(schedule.end_time.max())
    expected = {
        NodeState.IDLE: idle,
        NodeState.SWITCHING_ON: switching_on,
        NodeState.SLEEPING: sleeping - NODES * submits[0],  # until the first submission
        NodeState.SWITCHING_OFF: switching_off,
        NodeState.COMPUTING: computing,
    }
    for state, minutes in expected.items():
        assert schedule.nodes.node_seconds(state, opens, closes) == 60 * minutes, state.name


CELL = {"trace": "quickstart", "first": 300, "power": "timeout", "idle_timeout": 60}


def test_a_cell_measures_energy():
    metrics = run_cell("batch", CELL).outcome.metrics
    assert 0 < metrics["energy_total_bound"] < metrics["energy_total"]
    on = run_cell("batch", {"trace": "quickstart", "first": 300, "power": "always_on"}).outcome.metrics
    assert metrics["energy_total"] < on["energy_total"]
    assert on["energy_to_always_on"] == pytest.approx(1)
    plain = run_cell("batch", {"trace": "quickstart", "first": 300}).outcome.metrics
    assert {name: on[name] for name in plain} == pytest.approx(dict(plain), nan_ok=True)
    assert not set(plain) & {"energy_total", "boot_wait_mean"}


def test_each_parameter_reaches_the_policy():
    given = {"idle_timeout": 7, "cores_per_node": 4, "boot": 11, "shutdown": 13}
    watts = {"idle_watts": 1, "computing_watts": 2, "sleeping_watts": 3}
    watts |= {"switching_off_watts": 4, "switching_on_watts": 5}
    parameters = validated(get_system("batch"), {**CELL, **given, **watts})
    expected = NodePower(1, 2, 3, 4, 5, switch_off_time=13, switch_on_time=11)
    assert parameters.power_policy() == PowerPolicy(4, 7, expected)
    defaults = validated(get_system("batch"), {"trace": "quickstart", "power": "timeout"}).power_policy()
    assert defaults == PowerPolicy(idle_timeout=600)
    assert defaults.power == NodePower(switch_off_time=180, switch_on_time=60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": None}, "idle_timeout=60 has no effect without power states"),
        ({"power": "always_on"}, "idle_timeout=60 has no effect with power=always_on"),
        ({"power": None, "idle_timeout": None, "boot": 5}, "boot=5 has no effect"),
        ({"backfill": "easy-per-event"}, "one pass per instant"),
        ({"cores_per_node": 7}, "do not make whole nodes of 7"),
        ({"policy": "ppo", "checkpoint": "none"}, "power has no effect with policy=ppo"),
        ({"partitions": "separate"}, "power=timeout goes with pooled partitions.*partition=NAME"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(GridtuneError, match=message):
        run_cell("batch", {**CELL, **options})


def test_a_misspelt_parameter():
    with pytest.raises(SweepError, match="idle_time"):
        run_cell("batch", {**CELL, "idle_time": 3})


@pytest.mark.real_traces
def test_the_published_energies(repository, trace_dir, monkeypatch):
    monkeypatch.setenv("GRIDTUNE_TRACE_DIR", str(trace_dir))
    page = (repository / "docs" / "power.md").read_text(encoding="utf-8")
    settings = {
        "**always on**": {"power": "always_on"},
        "off at once": {"power": "timeout", "idle_timeout": 0},
        "off after 1800 s": {"power": "timeout", "idle_timeout": 1800},
    }
    for name, chosen in settings.items():
        windows = [{"trace": "kth-sp2", "window": f"{number}/10", **chosen} for number in range(1, 11)]
        metrics = [run_cell("batch", window).outcome.metrics for window in windows]
        means = {
            key: np.mean([row[key] for row in metrics]) for key in ("energy_total", "energy_total_bound")
        }
        assert f"| {name} | fcfs | easy | {means['energy_total']:,.0f} |" in page
        if name == "**always on**":
            assert f"| *bound* | fcfs | easy | {means['energy_total_bound']:,.0f} |" in page
