"""The responsive system: what its parameters do, and that a part reported on stays unseen."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest

from gridtune.core.system import get_system
from gridtune.errors import GridtuneError, SimulationError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.responsive.esnq import ResponsiveESNQ, _ESNQParameters
from gridtune.systems.responsive.metrics import counted_jobs
from gridtune.systems.responsive.parameters import ResponsiveParameters
from gridtune.systems.responsive.simulator.replay import Rule, replay
from gridtune.systems.responsive.simulator.site import SiteModel
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace

SHARES = "1=0.53,2=0.02,3=0.17,4=0.08,5=0.01,6=0.16,other=0.03"


def run(seed: int = 1, tables: bool = False, **parameters):
    return run_cell("responsive", {"trace": "egee", **parameters}, seed=seed, tables=tables).outcome


def streams(purpose: str) -> np.random.Generator:
    return np.random.default_rng(len(purpose))


@pytest.mark.parametrize("policy", [rule for rule in get_args(Rule) if rule != "capped_fcfs"])
@pytest.mark.parametrize("site", [{}, {"site": "elastic-paper"}, {"site": "elastic-paper", "headroom": 1.2}])
def test_every_simple_rule_runs(policy, site):
    metrics = run(policy=policy, first=600, bound=True, **site).metrics
    assert metrics["jobs"] == 300 - 2 * 37
    assert not any(math.isnan(value) for value in metrics.values())
    assert set(metrics) == set(get_system("responsive").metrics)


def test_the_cell_is_the_replay_of_the_last_part():
    outcome = run(policy="sjf", estimates="oracle", shares=SHARES, tables=True)
    parameters = ResponsiveParameters(trace="egee", shares=SHARES)
    first, last = parameters.split_log(read_workload(resolve_trace("egee")), streams)
    assert (len(first), len(last)) == (4750, 4750)
    _, jobs = parameters.site_jobs(first, last)
    starts = replay(jobs, SiteModel(oracle=True), "sjf").start
    assert outcome.tables["jobs"]["start"].to_numpy().tolist() == starts.tolist()
    assert outcome.tables["jobs"]["counted"].to_numpy().sum() == outcome.metrics["jobs"] == 3750
    assert outcome.tables["decisions"].num_rows == 4750


def test_target_shares_come_from_the_part_to_learn_on():
    """Whatever the last part holds, the shares stay."""
    log = read_workload(resolve_trace("egee"))
    parameters = ResponsiveParameters(trace="egee")
    first, last = parameters.split_log(log, streams)
    _, jobs = parameters.site_jobs(first, last)
    _, other = parameters.site_jobs(first, last.first(100).scale_run_time(50))
    assert jobs.shares.tolist() == other.shares.tolist()
    work = np.bincount(first.group, first.run_time)[1:]
    np.testing.assert_allclose(jobs.shares, work / work.sum(), atol=2e-3)


def test_parts_and_windows():
    whole = run(part="all", left_out=0).metrics["jobs"]
    train, test = (run(part=part, split=0.25, left_out=0).metrics["jobs"] for part in ("train", "test"))
    assert (whole, train, test) == (9500, 2375, 7125)
    windows = [run(window=f"{i}/3", left_out=0).metrics["jobs"] for i in (1, 2, 3)]
    assert sum(windows) == 4750


def test_interactive_jobs_gain_from_going_first():
    metrics = {name: run(policy=name).metrics for name in ("fcfs", "interactive_first")}
    assert (
        metrics["interactive_first"]["interactive_wait_mean"] < 0.3 * metrics["fcfs"]["interactive_wait_mean"]
    )
    assert metrics["interactive_first"]["core_hours"] == metrics["fcfs"]["core_hours"]


def test_an_elastic_site_trades_cores_for_waits():
    fixed, sized = (
        run(site="elastic-paper", policy="sjf").metrics,
        run(site="elastic-paper", policy="sjf", headroom=2).metrics,
    )
    assert fixed["pool_mean"] == pytest.approx(81)
    assert sized["pool_mean"] != fixed["pool_mean"]
    assert sized["interactive_responsiveness_mean"] > fixed["interactive_responsiveness_mean"]


@pytest.mark.parametrize("pool", ["demand", "keda"])
def test_every_rule_sizes_an_event_driven_pool(pool):
    outcome = run(policy="sjf", first=600, site="elastic", pool=pool, floor=5, tables=True)
    metrics = outcome.metrics
    assert set(metrics) <= set(get_system("responsive").metrics)
    assert metrics["boots"] > 0
    assert metrics["cost"] > metrics["core_hours"] > 0
    track = outcome.tables["pool"].to_pandas()
    assert (track.pool >= track.up).all()
    assert (track.up >= track.running).all()


def test_the_papers_elastic_site_keeps_its_ids():
    """It was called `elastic` when there was no other."""
    parameters = ResponsiveParameters(trace="egee", site="elastic-paper")
    in_ids = {"mode": "json", "exclude_defaults": True, "by_alias": True}
    assert parameters.model_dump(**in_ids)["site"] == "elastic"
    events = ResponsiveParameters(trace="egee", site="elastic")
    assert events.model_dump(**in_ids)["site"] == "event-driven"
    rigid = ResponsiveParameters(trace="egee", site="rigid")
    assert "site" not in rigid.model_dump(**in_ids)
    for site in (parameters, events, rigid):
        assert ResponsiveParameters.model_validate(site.model_dump(mode="json")) == site


def test_replicates_are_the_same_for_all_policies():
    """Shaken submissions depend on the seed alone."""
    one, same, other = (
        run(seed=seed, policy=policy, shake=600, tables=True).tables["jobs"]["submit"].to_pylist()
        for seed, policy in ((1, "fcfs"), (1, "sjf"), (2, "sjf"))
    )
    assert one == same != other


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"shares": "1=0.5,2=0.6,other=0"}, "add up to"),
        ({"shares": "0.5,0.5"}, "group=share"),
        ({"headroom": 1.5}, "no effect"),
        ({"policy": "sjf", "neurons": 50}, "neurons has no effect"),
        ({"largest": 100}, "largest has no effect with site=rigid"),
        ({"policy": "esn-sarsa", "iterations": 10}, "iterations has no effect"),
        ({"policy": "ffnn-fq", "leak": 0.5}, "leak has no effect"),
        ({"policy": "esn-sarsa", "sweeps": 0, "pretraining_sweeps": 0}, "without pretraining"),
        ({"site": "elastic-paper", "largest": 50}, "floor <= cores <= largest"),
        ({"site": "elastic-paper", "floor": 90}, "floor <= cores <= largest"),
        ({"resized_at": "ends"}, "resized_at has no effect with site=rigid"),
        (
            {"site": "elastic-paper", "policy": "esn-fq", "resized_at": "ends"},
            "resized_at has no effect with policy=esn-fq",
        ),
        ({"boot_seconds": 60}, "boot_seconds has no effect with site=rigid"),
        ({"site": "elastic-paper", "pool": "keda"}, "pool has no effect with site=elastic-paper"),
        ({"site": "elastic", "pool_charged": "after"}, "pool_charged has no effect with site=elastic"),
        ({"site": "elastic", "pool": "keda", "headroom": 2.0}, "headroom has no effect with pool=keda"),
        ({"site": "elastic", "jobs_per_core": 2.0}, "jobs_per_core has no effect with pool=demand"),
        ({"site": "elastic", "pool": "learned"}, "'demand'"),
        ({"policy": "esn-counterfactual"}, "'fair_index'"),
        ({"policy": "gittins"}, "'fair_index'"),
        ({"site": "elastic", "pool": "hpa"}, "'keda'"),
        ({"policy": "capped_fcfs", "site": "elastic-paper"}, "needs site=rigid"),
        ({"policy": "sjf", "user_cap": 5}, "user_cap has no effect"),
        ({"policy": "esn-sarsa", "leak": 0.0}, "leak"),
        ({"policy": "sjf", "protocol": "online"}, "esn-sarsa or ffnn-sarsa"),
        ({"policy": "esn-fq", "protocol": "online"}, "esn-sarsa or ffnn-sarsa"),
        ({"policy": "esn-sarsa", "protocol": "online", "sweeps": 2}, "sweeps has no effect with protocol"),
        ({"polcy": "sjf"}, "polcy"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, words):
    with pytest.raises((GridtuneError, ValueError), match=words):
        run(**wrong)


def test_a_feed_forward_network_is_not_fitted_again_at_every_decision():
    pytest.importorskip("torch")
    cells = {"esn-sarsa": {}, "ffnn-sarsa": {}, "given": {"policy": "ffnn-sarsa", "relearn": 40}}
    relearn = {
        name: ResponsiveParameters(trace="egee", **{"policy": name, **more}).learner().relearn
        for name, more in cells.items()
    }
    assert relearn == {"esn-sarsa": 1, "ffnn-sarsa": 500, "given": 40}


ONLINE = {
    "policy": "esn-sarsa",
    "site": "elastic-paper",
    "first": 400,
    "input_scale": 0.1,
    "protocol": "online",
}


def test_learning_online_is_a_run_over_the_whole_log():
    outcome = run(**ONLINE)
    assert outcome.metrics["jobs"] == 400 - 2 * 50
    assert outcome.notes["training_jobs"] == 200
    assert outcome.notes["learner"]["sweeps"] == 1
    assert run(**ONLINE, part="test").metrics["jobs"] == 200 - 2 * 25
    assert outcome.metrics == run(**ONLINE).metrics != run(seed=2, **ONLINE).metrics


def test_frozen_is_the_protocol_by_default():
    in_ids = {"mode": "json", "exclude_defaults": True, "by_alias": True}
    learner = {"trace": "egee", "policy": "esn-sarsa"}
    plain, frozen = (ResponsiveParameters(**learner, **more) for more in ({}, {"protocol": "frozen"}))
    assert plain.model_dump(**in_ids) == frozen.model_dump(**in_ids) == learner
    online = ResponsiveParameters(**learner, protocol="online")
    assert online.model_dump(**in_ids) == {**learner, "protocol": "online", "part": "all"}


def test_a_learner_is_one_more_policy():
    """Few jobs, one short training: reproducible by its seed, and the settings are noted."""
    small = {"first": 400, "cores": 8, "neurons": 10, "pretraining_sweeps": 1, "sweeps": 1, "iterations": 1}
    one, same, other = (run(seed=seed, policy="esn-fq", **small) for seed in (1, 1, 2))
    assert one.metrics == same.metrics
    assert one.metrics != other.metrics
    assert one.notes["learner"]["method"] == "fitted_q"
    assert one.notes["learner"]["neurons"] == 10
    assert one.notes["training_jobs"] == 200


@pytest.mark.parametrize(("text", "partition"), [("12", 12), (12, 12), ("rl.ac.uk", "rl.ac.uk")])
def test_a_partition_is_a_number_or_a_name(text, partition):
    """The command line has only text."""
    assert ResponsiveParameters.model_validate({"trace": "egee", "partition": text}).partition == partition


@pytest.mark.real_traces
def test_a_real_site(trace_dir, monkeypatch):
    """LCG-2005, site 12 on 81 cores, the second half: who waits for how long under which rule."""
    monkeypatch.setenv("GRIDTUNE_TRACE_DIR", str(trace_dir))
    site = {"trace": "lcg-2005", "partition": 12, "cores": 81}
    outcomes = {policy: run(policy=policy, **site) for policy in ("fcfs", "fair_share", "interactive_first")}
    assert outcomes["fcfs"].notes["jobs"] == 4595
    delays = {policy: outcome.metrics["interactive_wait_mean"] for policy, outcome in outcomes.items()}
    assert delays == pytest.approx({"fcfs": 1150.4, "fair_share": 143.4, "interactive_first": 61.7}, abs=0.1)
    assert outcomes["fcfs"].metrics["core_hours"] == pytest.approx(7290.7, abs=0.1)


def esnq(**parameters):
    """Return a training on the bundled log, its parameters, and what loads the log."""
    training, log = ResponsiveESNQ(), read_workload(resolve_trace("egee"))
    return training, _ESNQParameters(trace="egee", **parameters), lambda _: log


def test_a_training_is_judged_where_jobs_wait():
    """Nobody waits in the last fifth of the first half, and all policies score the same there."""
    training, parameters, load = esnq()
    learned_on, held_out, model, _ = training._chosen_jobs(parameters, load)
    training.preflight(parameters, load)
    assert (len(learned_on), len(held_out)) == (3800, 950)
    starts = {rule: replay(held_out, model, rule).start for rule in ("fcfs", "lifo")}
    assert (starts["fcfs"] > held_out.submit).mean() > 0.1
    assert (starts["fcfs"] != starts["lifo"]).any()
    assert not set(held_out.submit) <= set(learned_on.submit)
    parts = (load(None).take(part) for part in (slice(0, 3800), slice(3800, 4750)))
    last = parameters.cell.site_jobs(*parts)[1]
    counted = counted_jobs(len(last), None)
    assert (replay(last, model, "fcfs").start == last.submit)[counted].all()
    # Where jobs wait in the last part, it stays.
    assert training._chosen_jobs(*esnq(cores=20)[1:]).held_out.submit.tolist() == last.submit.tolist()


def test_jobs_that_never_wait_are_no_evaluation():
    training, parameters, load = esnq(first=200)
    with pytest.raises(SimulationError, match="nobody waits"):
        training.preflight(parameters, load)
    for more in ({"held_out": 0}, {"cores": 5}, {"site": "elastic-paper"}):
        training.preflight(*esnq(first=200, **more)[1:])
