"""The provisioning system: cells on a small log and on random slots, and what parameters may not be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridtune.errors import SimulationError, SweepError
from gridtune.sweep.execution.runner import run_cell
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.workload import write_workload
from gridtune.workload.workload import Workload


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A log of 400 jobs that crowd a site of 16 processors."""
    rng = np.random.default_rng(4)
    columns = {
        "submit_time": np.sort(rng.integers(0, 200_000, 400)),
        "run_time": rng.integers(1, 4000, 400),
        "requested_processors": rng.integers(1, 9, 400),
    }
    columns["requested_time"] = columns["run_time"] * 2
    path = tmp_path_factory.mktemp("logs") / "busy.swf"
    write_workload(Workload(columns, machine_processors=16), path)
    return str(path)


SMALL = {"tasks": 20, "depth": 4, "run_time": 500, "task_processors": 3, "population": 8, "iterations": 3}


#: What decides nothing where slots are taken by a simple rule.
OF_A_SEARCH = ("population", "iterations")
RULES = ("all", "open", "rules", "pilot")


def run(seed=1, tables=False, **parameters):
    small = {**SMALL}
    if parameters.get("search") in (*RULES, "exact"):
        small = {name: value for name, value in SMALL.items() if name not in OF_A_SEARCH}
    return run_cell("provisioning", {**small, **parameters}, seed=seed, tables=tables).outcome


@pytest.mark.parametrize("search", ["moga", "memetic", "nsga2", "nsga3", "random", *RULES])
def test_every_search_finds_a_plan_that_can_be_held(trace, search):
    cross_slot = {} if search == "pilot" else {"cross_slot": "always"}
    metrics = run(trace=trace, search=search, **cross_slot).metrics
    assert metrics["feasible"] == 1
    assert metrics["workflow_makespan"] >= metrics["workflow_makespan_bound"] > 0
    assert metrics["workflow_makespan_best_effort"] >= metrics["workflow_makespan_bound"]
    assert metrics["allocation_cost_bound"] == pytest.approx(metrics["allocation_cost_best_effort"])
    assert metrics["jobs"] == 400
    # The queue's cost is the least there can be; a change of nothing is a change of 0.
    assert metrics["allocation_cost"] >= metrics["allocation_cost_best_effort"] * (1 - 1e-12)
    wanted = metrics["workflow_makespan"] / metrics["workflow_makespan_best_effort"] - 1
    assert metrics["workflow_makespan_change"] == pytest.approx(wanted)
    assert metrics["workflow_makespan_no_worse"] == (
        metrics["workflow_makespan"] <= metrics["workflow_makespan_best_effort"]
    )
    assert 0 <= metrics["hypervolume"] <= 1 or math.isnan(metrics["hypervolume"])


def test_taking_what_can_be_divided_costs_no_more_than_the_queue(trace):
    for seed in range(6):
        metrics = run(trace=trace, search="open", seed=seed).metrics
        assert metrics["allocation_cost_change"] == pytest.approx(0, abs=1e-12)


def test_rules_evaluate_few_plans(trace):
    counts = {search: run(trace=trace, search=search).metrics["evaluations"] for search in RULES}
    assert counts["all"] == counts["open"] == 1
    assert counts["pilot"] <= 8 < counts["rules"] <= 40
    fronts = {search: run(trace=trace, search=search, alpha=0).metrics for search in ("all", "rules")}
    assert fronts["rules"]["workflow_makespan"] <= fronts["all"]["workflow_makespan"]


def test_a_pilot_job_is_a_rectangle(trace):
    """Its slot is one job of the queue: all of it is reserved and paid for, and every task runs inside."""
    for alpha in (0, 1):
        outcome = run(trace=trace, search="pilot", alpha=alpha, tables=True)
        metrics, slots, tasks = outcome.metrics, outcome.tables["slots"], outcome.tables["tasks"]
        (job,) = [row for row in slots.to_pylist() if row["taken"]]
        assert metrics["allocation_cost"] == job["processors"] * job["duration"] / 3600
        assert metrics["slots_taken"] == 1
        assert min(tasks["plan_start"].to_pylist()) >= job["start"] >= outcome.notes["submitted"]
        assert max(tasks["plan_finish"].to_pylist()) == job["start"] + job["duration"]
    narrow, wide = (run(trace=trace, search="pilot", alpha=alpha).metrics for alpha in (1, 0))
    assert narrow["allocation_cost"] <= wide["allocation_cost"]
    assert narrow["workflow_makespan"] >= wide["workflow_makespan"]
    assert run(trace=trace, search="pilot", pilot_widths=2).metrics["evaluations"] == 2


def test_every_plan_of_few_slots_can_be_evaluated():
    few = {"offers": "poisson", "task_processors": 1, "tasks": 5, "depth": 2, "run_time": 100}
    few |= {"slot_sites": "5", "slot_until": 6000, "cross_slot": "always"}
    exact = run(**few, search="exact")
    assert exact.metrics["evaluations"] == 2 ** exact.metrics["slots"]
    assert run(**few, search="memetic").metrics["hypervolume"] <= exact.metrics["hypervolume"] + 1e-12
    with pytest.raises(SimulationError, match="too many to evaluate all"):
        run(**few | {"slot_until": 60_000}, search="exact")


def test_best_effort_is_the_same_as_beside_a_plan(trace):
    alone = run(trace=trace, approach="best_effort").metrics
    beside = run(trace=trace, search="all").metrics
    assert (
        alone["workflow_makespan"]
        == alone["workflow_makespan_best_effort"]
        == beside["workflow_makespan_best_effort"]
    )
    assert alone["workflow_makespan_change"] == 0
    assert (
        run(trace=trace, approach="best_effort", seed=2).metrics["workflow_makespan"]
        != alone["workflow_makespan"]
    )


def test_alpha_trades_cost_for_makespan_on_one_front():
    slots = {"offers": "poisson", "task_processors": 1, "tasks": 60, "run_time": 100, "communication": 1}
    effort = {"population": 40, "iterations": 8, "seed": 0}
    by_alpha = {alpha: run(**slots, **effort, alpha=alpha).metrics for alpha in (0, 0.5, 1)}
    assert len({metrics["hypervolume"] for metrics in by_alpha.values()}) == 1
    assert by_alpha[0]["front"] > 1
    assert by_alpha[0]["workflow_makespan"] < by_alpha[1]["workflow_makespan"]
    assert by_alpha[0]["allocation_cost"] > by_alpha[1]["allocation_cost"]
    assert (
        by_alpha[0]["workflow_makespan"]
        <= by_alpha[0.5]["workflow_makespan"]
        <= by_alpha[1]["workflow_makespan"]
    )
    assert all(math.isnan(metrics["workflow_makespan_change"]) for metrics in by_alpha.values())


def test_sites_of_random_slots_may_be_told_in_words():
    few = {"offers": "poisson", "task_processors": 1, "search": "all"}
    assert run(**few, slot_sites="7,9").metrics["slots"] == run(**few, slot_sites=(7, 9)).metrics["slots"]
    assert run(**few, slot_sites="7,9").metrics["slots"] < run(**few).metrics["slots"]


def test_copies_and_inflation_load_the_site(trace):
    def load(**changes):
        return run(trace=trace, approach="best_effort", **changes).metrics["offered_load"]

    assert load(inflation=0.2) == pytest.approx(1.2 * load(), rel=0.01)
    assert load(copy_probability=1, copy_shift=0) == pytest.approx(2 * load())
    assert load() < load(copy_probability=0.5, copy_shift=0) < load(copy_probability=1, copy_shift=0)


def test_equal_cells_come_out_equal_and_tables_agree(trace):
    first, again = (run(trace=trace, tables=True, cross_slot="always") for _ in range(2))
    assert first.metrics == pytest.approx(again.metrics, nan_ok=True)
    assert first.notes == again.notes
    front, slots, tasks = (first.tables[name] for name in ("front", "slots", "tasks"))
    assert front.num_rows == first.metrics["front"] == len(first.notes["front"])
    assert sum(slots["taken"].to_pylist()) == first.metrics["slots_taken"]
    finish = max(tasks["plan_finish"].to_pylist())
    assert finish - first.notes["submitted"] == pytest.approx(first.metrics["workflow_makespan"])
    assert first.tables["solutions"].num_rows == first.metrics["feasible_plans"]


def test_a_workflow_may_come_from_a_file(trace, tmp_path):
    path = tmp_path / "two.dax"
    tasks = '<job id="a" runtime="100.2"/><job id="b" runtime="50"/><child ref="b"><parent ref="a"/></child>'
    path.write_text(f"<adag>{tasks}</adag>")
    parameters = {"trace": trace, "workflow": str(path), "search": "all"}
    metrics = run_cell("provisioning", parameters, seed=1).outcome.metrics
    assert metrics["tasks"] == 2
    # 101 s and 50 s, of one processor each: a site counts in whole seconds.
    assert metrics["allocation_cost_best_effort"] == 151 / 3600
    cells = [run_cell("provisioning", parameters).cell]
    path.write_text(f"<adag>{tasks.replace('50', '60')}</adag>")
    cells.append(run_cell("provisioning", parameters).cell)
    assert cells[0].cell_id != cells[1].cell_id


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "offers=site needs a trace"),
        ({"offers": "poisson", "trace": "x.swf"}, "offers=poisson takes no trace"),
        ({"offers": "poisson", "approach": "best_effort"}, "best effort needs a queue"),
        ({"trace": "x.swf", "earliest": 0.9}, "`earliest <= latest` must hold"),
        ({"trace": "x.swf", "tasks": 3}, "`depth <= tasks` must hold"),
        ({"trace": "x.swf", "workflow": "montage"}, "neither random or cybershake nor a file"),
        ({"offers": "poisson", "slot_sites": "7,x"}, "slot_sites.1"),
        ({"trace": "x.swf", "alpha": 2}, "must be at most 1, but got 2"),
        (
            {"trace": "x.swf", "search": "memetic", "mutation": 3},
            "mutation has no effect with search=memetic",
        ),
        ({"offers": "poisson", "search": "pilot"}, "a pilot job needs a queue"),
        ({"trace": "x.swf", "pilot_widths": 3}, "pilot_widths has no effect with search=moga"),
        *(
            ({"trace": "x.swf", "search": "pilot", name: value}, f"{name} has no effect with search=pilot")
            for name, value in {
                "release": True,
                "cross_slot": "always",
                "seeded": True,
            }.items()
        ),
        ({"trace": "x.swf", "search": "random", "seeded": True}, "seeded has no effect with search=random"),
        ({"trace": "x.swf", "search": "open", "seeded": True}, "seeded has no effect with search=open"),
        ({"trace": "x.swf", "slot_gap": 5}, "slot_gap has no effect with offers=site"),
        ({"offers": "poisson", "copy_probability": 0.5}, "copy_probability has no effect"),
        ({"trace": "x.swf", "workflow": "cybershake", "tasks": 50}, "tasks has no effect"),
        *(
            ({"trace": "x.swf", name: value}, f"{name} has no effect with offers=site")
            for name, value in {"communication": 1, "latency": 5, "bandwidth": 1e6}.items()
        ),
        *(
            ({"trace": "x.swf", name: 7}, f"{name} has no effect with copy_probability=0")
            for name in ("copy_seed", "copy_shift")
        ),
        *(
            ({"offers": "poisson", name: value}, f"{name} has no effect with offers=poisson")
            for name, value in {
                "earliest": 0.2,
                "latest": 0.5,
                "copy_shift": 7,
                "copy_seed": 7,
            }.items()
        ),
        *(
            ({"offers": "poisson", "slot_sites": "9", name: 2}, f"{name} has no effect with a single site")
            for name in ("communication", "latency", "bandwidth")
        ),
        ({"offers": "poisson", "bandwidth": 1e6}, "bandwidth has no effect with workflow=random"),
        (
            {"offers": "poisson", "workflow": "cybershake", "bandwidth": 1e6},
            "bandwidth has no effect with workflow=cybershake",
        ),
        *(
            ({"offers": "poisson", "workflow": "cybershake", name: 2}, f"{name} has no effect with workflow=")
            for name in ("workflow_seed", "communication")
        ),
        (
            {"trace": "x.swf", "workflow_clean": ["zero_negative_times"]},
            "workflow_clean has no effect with workflow=random",
        ),
        ({"trace": "x.swf", "workflow": "a.dax", "workflow_seed": 2}, "workflow_seed has no effect"),
        *(
            ({"trace": "x.swf", "search": "all", name: value}, f"{name} has no effect with search=all")
            for name, value in {"population": 10, "iterations": 10}.items()
        ),
        ({"trace": "x.swf", "serach": "moga"}, "serach"),
    ],
)
def test_parameters_that_cannot_be(parameters, message):
    with pytest.raises(SweepError, match=message):
        run_cell("provisioning", parameters)


@pytest.mark.parametrize(
    "parameters",
    [
        {"trace": "x.swf", "copy_probability": 0.2, "copy_seed": 7, "copy_shift": 60},
        {"offers": "poisson", "latency": 5},  # counts where nothing is sent, too
        {"offers": "poisson", "workflow": "cybershake", "latency": 5},
        {"offers": "poisson", "workflow": "a.json", "latency": 5, "bandwidth": 1e6},
        {"trace": "x.swf", "workflow": "a.json", "workflow_clean": ["zero_negative_times"]},
        {"trace": "x.swf", "approach": "best_effort", "search": "all", "alpha": 0},
    ],
)
def test_parameters_that_decide_something_are_taken(parameters):
    ProvisioningParameters.model_validate(parameters)


def test_a_latency_counts_where_nothing_is_sent():
    few = {"offers": "poisson", "task_processors": 1, "search": "all"}
    assert run(**few, latency=200).metrics["workflow_makespan"] > run(**few).metrics["workflow_makespan"]


def test_slots_that_happen_to_be_too_narrow_are_no_plan_and_no_failure():
    """A task that a site could hold, where no slots wide enough are on offer: counted, not left out."""
    narrow = {"offers": "poisson", "slot_sites": "8,16", "slot_until": 3000, "cross_slot": "never"}
    few = {"tasks": 5, "depth": 2, "run_time": 100, "population": 10, "iterations": 4}
    cells = [run(**narrow, **few, task_processors=10, seed=seed).metrics for seed in range(1, 7)]
    assert {metrics["feasible"] for metrics in cells} == {0, 1}
    for metrics in cells:
        assert metrics["evaluations"] in {0, 40}
        if metrics["feasible"] == 0:
            assert metrics["front"] == 0
            assert math.isnan(metrics["workflow_makespan"])


def test_tasks_wider_than_the_site_name_their_parameter(trace):
    with pytest.raises(SimulationError, match="field task_processors"):
        run(trace=trace, task_processors=1000)
