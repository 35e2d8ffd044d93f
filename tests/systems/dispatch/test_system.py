"""The dispatch system: its cells, its parameters, and what learning gains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridtune.errors import GridtuneError, SimulationError, SweepError
from gridtune.sweep.execution.runner import run_cell
from gridtune.sweep.run import space_cells
from gridtune.systems.dispatch.metrics import DISPATCH_METRICS
from gridtune.systems.dispatch.parameters import DispatchParameters
from gridtune.systems.dispatch.simulator.model import DispatchJobs
from gridtune.workload.workload import Workload

SMALL = {"batches": 2, "batch_jobs": 150, "learning_jobs": 150}
CROWDED = {"factors": (1.32, 1.26, 0.8, 1.33), "cpus": 2, "offered_load": 1.6, "learning_offered_load": 1.6}


def outcome(*, seed: int = 0, tables: bool = False, **parameters: Any) -> Any:
    return run_cell("dispatch", {**SMALL, **parameters}, seed=seed, tables=tables).outcome


def metrics(*, seed: int = 0, **parameters: Any) -> dict[str, float]:
    return dict(outcome(seed=seed, **parameters).metrics)


def jobs_of(p: DispatchParameters, log: Workload | None = None) -> DispatchJobs:
    return p.make_jobs(np.random.default_rng(0).spawn(4), log)


def log_of(submit: np.ndarray, length: np.ndarray, requested: np.ndarray) -> Workload:
    jobs = {"submit_time": submit, "run_time": length, "requested_time": requested}
    return Workload(jobs)


# Jobs ---------------------------------------------------------------------------------------------------


def test_drawn_jobs_come_in_batches_at_the_load_asked_for():
    p = DispatchParameters(batches=3, batch_jobs=2000, learning_jobs=1000, factors=(1.0,), cpus=9)
    jobs, starts = jobs_of(p), p.batch_starts()
    for batch in range(3):
        own = jobs.batch == batch
        come = jobs.submit[own]
        assert own.sum() == 2000
        assert come.min() >= starts[batch]
        span = (starts[1] - starts[0]) / 3
        assert come.max() < starts[batch] + span
        assert jobs.length[own].sum() / (9.0 * span) == pytest.approx(0.8, rel=0.05)
    learning = jobs.batch == -1
    assert learning.sum() == 1000
    assert jobs.length[learning].sum() / (9.0 * starts[0]) == pytest.approx(0.8 / 3, rel=0.05)
    assert (jobs.estimate == jobs.length).all()
    spare = (jobs.deadline - jobs.submit - jobs.length) / jobs.length
    assert spare.min() >= 0
    assert spare.max() == pytest.approx(1 / 3, abs=0.01)
    assert spare.mean() == pytest.approx(1 / 6, abs=0.01)


def test_batches_last_long_enough_to_run_their_jobs():
    """Three times as long as their arrivals, or one and a half times as long as the machines work."""
    one = {"batches": 2, "batch_jobs": 90, "mean_length": 100.0, "factors": (1.0,)}
    for load, period in ((1.0, 27_000), (2.0, 13_500), (4.0, 13_500)):
        p = DispatchParameters(**one, offered_load=load)
        assert p.batch_starts().tolist() == [0, period]
        assert jobs_of(p).submit[:90].max() == pytest.approx(90 * 100 / load, rel=0.1)


def test_deadlines_do_not_tell_how_long_a_job_really_takes():
    jobs = jobs_of(DispatchParameters(batches=1, batch_jobs=5000, slack=0.0, estimate_error=0.7))
    assert (jobs.deadline - jobs.submit == jobs.estimate).all()
    off = np.log(jobs.estimate / jobs.length)
    assert off.std() == pytest.approx(0.7, abs=0.03)
    assert off.mean() == pytest.approx(0.0, abs=0.03)


def test_a_logs_jobs_keep_their_pattern_and_get_the_load():
    rng = np.random.default_rng(0)
    submit = np.sort(rng.integers(5000, 90_000, 500))
    length, estimate = rng.integers(0, 900, 500), rng.integers(1, 2000, 500)
    counts = {"batches": 3, "batch_jobs": 100, "learning_jobs": 50}
    p = DispatchParameters(**counts, offered_load=1.2, factors=(1.0,), cpus=4)
    log = log_of(submit, length, estimate)
    jobs = jobs_of(p, log)
    assert len(jobs) == 350
    assert np.bincount(jobs.batch + 1).tolist() == [50, 100, 100, 100]
    assert jobs.length.sum() / (4.0 * jobs.submit[-1]) == pytest.approx(1.2, rel=0.01)
    gaps, there = np.diff(jobs.submit), np.diff(submit[:350])
    assert np.corrcoef(gaps, there)[0, 1] > 0.99
    assert (jobs.estimate == estimate[:350]).all()
    with pytest.raises(GridtuneError, match="too few"):
        jobs_of(p, log.first(80))


def test_a_log_without_requested_times_does_not_tell_the_broker_its_run_times():
    rng = np.random.default_rng(0)
    submit, length = np.arange(4000) * 10, rng.integers(100, 900, 4000)
    estimate = np.where(np.arange(4000) % 2, -1, 5000)
    one, log = {"batches": 1, "batch_jobs": 4000, "slack": 0.0}, log_of(submit, length, estimate)
    with pytest.raises(SimulationError, match="2000 of 4000 jobs have no requested time") as refused:
        jobs_of(DispatchParameters(**one), log)
    assert refused.value.field == "requested_time"
    assert "missing_walltime" in str(refused.value)
    jobs = jobs_of(DispatchParameters(**one, estimate_error=0.5), log)
    off = np.log(jobs.estimate / np.where(estimate < 1, length, 5000))
    for half in (off[::2], off[1::2]):
        assert half.std() == pytest.approx(0.5, abs=0.03)
        assert half.mean() == pytest.approx(0.0, abs=0.03)
    assert (jobs.deadline - jobs.submit == jobs.estimate).all()


# Cells --------------------------------------------------------------------------------------------------


def test_alone_a_selector_is_its_own_reference():
    results = metrics(rule="first_available")
    assert set(results) == set(DISPATCH_METRICS)
    assert (results["jobs"], results["batches"]) == (300, 2)
    assert results["relative_in_time_median"] == results["relative_in_time_min"] == 1.0
    assert results["overruled_share"] == 0
    assert metrics(rule="erd", repair_every=10, offered_load=2.0)["relative_tardiness"] == 1.0


def test_where_queues_are_edited_the_reference_is_erd_with_tabu_search():
    expected = outcome(rule="erd", repair_every=10, **CROWDED).notes
    for edited in ({"rule": "random", "repair_every": 3}, {"rule": "spt"}):
        results = outcome(**edited, **CROWDED)
        assert results.notes["reference_tardiness_by_batch"] == expected["tardiness_by_batch"]
        assert results.metrics["relative_tardiness"] != 1.0


def test_both_arms_meet_the_same_jobs_and_the_same_chance():
    """What the assisted run calls its reference is the selector's own run, batch by batch."""
    for rule in ("random", "first_available"):
        own = outcome(rule=rule).notes
        helped = outcome(rule=rule, mode="assist", learner="naive_bayes").notes
        assert helped["reference_in_time_by_batch"] == own["in_time_by_batch"]
        assert helped["reference_tardiness_by_batch"] == own["tardiness_by_batch"]
    expected = outcome(rule="erd", repair_every=10, **CROWDED).notes["tardiness_by_batch"]
    learned = outcome(mode="direct", learner="drain", order="shortest", **CROWDED).notes
    assert learned["reference_tardiness_by_batch"] == expected


@pytest.mark.parametrize("learner", ["j48", "naive_bayes", "lwl", "drain"])
def test_every_learner_in_both_modes(learner):
    assisting = metrics(mode="assist", rule="random", learner=learner)
    deciding = metrics(mode="direct", learner=learner, order="due_date", **CROWDED)
    for results in (assisting, deciding):
        assert results["jobs"] == 300
        assert 0 <= results["in_time_share"] <= 1
        assert results["tardiness_mean"] >= 0
        assert 0 <= results["brier"] <= 1
    assert (deciding["moves"] > 0) == (learner != "drain")
    assert metrics(mode="assist", rule="random", learner=learner) == pytest.approx(assisting, nan_ok=True)


def test_who_decides_directly_learns_from_erd_with_tabu_search():
    def learning_jobs(**parameters: Any) -> list[dict[str, Any]]:
        table = outcome(tables=True, **parameters, **CROWDED).tables["jobs"].to_pylist()
        begin = min(row["submit"] for row in table if row["batch"] >= 0)
        return [row | {"chance": None} for row in table if row["finish"] <= begin]

    learned = learning_jobs(mode="direct", learner="naive_bayes")
    assert len(learned) > 50
    assert any(row["placed"] > row["submit"] for row in learned)
    erd = {"rule": "erd", "speeds": "learned"}
    assert learned == learning_jobs(**erd, repair_every=10)
    assert learned != learning_jobs(**erd)
    # A rule that is set replaces the default.
    random = learning_jobs(mode="direct", learner="naive_bayes", rule="random")
    assert random == learning_jobs(rule="random")


def test_a_learned_dispatcher_is_less_late_than_insertion_with_tabu_search():
    results = [
        metrics(mode="direct", learner="drain", order="shortest", batch_jobs=400, seed=seed, **CROWDED)
        for seed in range(5)
    ]
    assert max(values["relative_tardiness"] for values in results) < 0.9


@pytest.mark.parametrize("order", ["shortest", "atc"])
def test_one_shared_queue_without_speeds_is_hardly_worse_than_any_learner(order):
    shared = [
        metrics(rule="shared_queue", order=order, batch_jobs=400, seed=seed, **CROWDED) for seed in range(5)
    ]
    learned = [
        metrics(mode="direct", learner="drain", order=order, batch_jobs=400, seed=seed, **CROWDED)
        for seed in range(5)
    ]
    late = [np.mean([values["tardiness_mean"] for values in results]) for results in (shared, learned)]
    assert late[0] < 1.03 * late[1]
    assert max(values["relative_tardiness"] for values in shared) < 0.9


@pytest.mark.parametrize("rule", ["random", "round_robin", "first_available"])
def test_a_learner_helps_every_selector(rule):
    results = [
        metrics(mode="assist", rule=rule, learner="drain", batch_jobs=400, batches=3, seed=seed)
        for seed in range(5)
    ]
    assert np.median([values["relative_in_time_median"] for values in results]) > 1.05


def test_recovery_within_a_batch_after_all_machines_changed():
    shape = {"factors": (1.5, 1.5, 0.8, 0.8), "changed_factors": (0.8, 0.8, 1.5, 1.5), "change_after": 1}
    options = {
        "mode": "assist",
        "rule": "first_available",
        "learner": "drain",
        "batches": 3,
        "batch_jobs": 400,
    }
    relative = []
    for seed in range(5):
        notes = outcome(seed=seed, **options, **shape).notes
        there = notes["reference_in_time_by_batch"]
        relative.append([a / b for a, b in zip(notes["in_time_by_batch"], there, strict=True)])
    before, _, after = np.median(relative, axis=0)
    assert after > 0.95 * before


def test_changes_failures_and_errors_are_felt():
    shape = {"factors": (0.8, 0.9, 1.1)}
    calm = metrics(rule="first_available", **shape)
    slow = metrics(rule="first_available", changed_factors=(8.0, 9.0, 11.0), change_after=1, **shape)
    assert slow["tardiness_mean"] > 2 * calm["tardiness_mean"]
    failing = metrics(rule="first_available", mean_up=5000, mean_down=3000, **shape)
    assert failing["restarts"] > 10
    assert failing["tardiness_mean"] > calm["tardiness_mean"]
    wrong = metrics(rule="erd", estimate_error=1.0, offered_load=1.2, **shape)
    assert wrong["tardiness_mean"] != metrics(rule="erd", offered_load=1.2, **shape)["tardiness_mean"]
    worse = metrics(rule="erd", speeds="nominal", offered_load=1.2, factors=(0.3, 3.0, 3.0))
    assert (
        worse["tardiness_mean"]
        > metrics(rule="erd", offered_load=1.2, factors=(0.3, 3.0, 3.0))["tardiness_mean"]
    )


def test_a_row_for_each_job_and_notes_that_are_json():
    results = outcome(tables=True, mode="assist", learner="drain", rule="random", first=20)
    table = results.tables["jobs"]
    assert table.num_rows == 150 + 20
    assert results.metrics["jobs"] == 20
    assert set(table["batch"].to_pylist()) == {-1, 0}
    json.dumps(results.notes)


def test_a_log(tmp_path: Path):
    rng = np.random.default_rng(0)
    submit = np.sort(rng.integers(0, 40_000, 300))
    lines = [
        f"{i + 1} {submit[i]} -1 {rng.integers(1, 500)} 4 -1 -1 4 600 -1 1 1 1 -1 1 1 -1 -1"
        for i in range(300)
    ]
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    options = {
        "batches": 4,
        "batch_jobs": 50,
        "learning_jobs": 50,
        "factors": (0.8, 1.2),
        "offered_load": 1.0,
    }
    results = metrics(trace=str(path), rule="edd", **options)
    assert (results["jobs"], results["batches"]) == (200, 4)
    half = metrics(trace=str(path), rule="edd", window="2/2", **options)
    assert (half["jobs"], half["batches"]) == (100, 2)
    # Estimates are the log's requested times, all alike here.
    table = run_cell("dispatch", {"trace": str(path), **options}, tables=True).outcome.tables["jobs"]
    assert set(table["estimate"].to_pylist()) == {600}


def test_a_log_without_requested_times(tmp_path: Path):
    lines = [f"{i + 1} {30 * i} -1 {50 + i} 4 -1 -1 4 -1 -1 1 1 1 -1 1 1 -1 -1" for i in range(100)]
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    options = {"trace": str(path), "batches": 1, "batch_jobs": 40, "learning_jobs": 40, "offered_load": 1.0}
    # By default each job gets the log's largest run time, which tells nothing about the single job.
    results = run_cell("dispatch", options, tables=True).outcome
    assert set(results.tables["jobs"]["estimate"].to_pylist()) == {149}
    assert results.notes["without_requested_time"] == 0
    assert results.notes["cleaning"]["missing_walltime"] == 100
    with pytest.raises(SimulationError, match="80 of 80 jobs have no requested time"):
        run_cell("dispatch", {**options, "clean": "none"})
    unsure = run_cell("dispatch", {**options, "clean": "none", "estimate_error": 0.5}, tables=True).outcome
    assert unsure.notes["without_requested_time"] == 80
    table = unsure.tables["jobs"]
    assert np.mean(np.equal(table["estimate"], table["length"])) < 0.1


@pytest.mark.parametrize(
    "parameters",
    [
        {"rule": "erd", "speeds": "learned", "forget": 0.5},
        {"rule": "random", "repair_every": 5, "speeds": "nominal"},
        {"mode": "assist", "learner": "drain", "forget": 0.5},
        {"mode": "direct", "learner": "j48", "selection_jobs": 50, "reselect": 2.0},
        {"mode": "direct", "learner": "drain", "order": "atc"},
        {"rule": "shared_queue", "order": "atc", "speeds": "learned", "forget": 0.5},
        {"rule": "atc", "repair_every": 10},
    ],
)
def test_what_has_an_effect_is_taken(parameters):
    assert DispatchParameters.model_validate(parameters)


def test_what_only_looks_as_if_it_did_not_go_together_runs():
    """Drain learns by itself; and change_after=0 is the arm without the change, of a space that has both."""
    few = {"learning_jobs": 0, "batch_jobs": 30}
    assert metrics(mode="direct", learner="drain", refresh=0, **few)["jobs"] == 60
    same = metrics(changed_factors=(1.0,) * 10, change_after=0, **few)
    assert same == pytest.approx(metrics(**few), nan_ok=True)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"learner": "j48"}, "mode=alone cannot be combined with learner=j48"),
        ({"mode": "assist"}, "mode=assist cannot be combined with learner=none"),
        ({"mode": "assist", "learner": "j48", "rule": "edd"}, "a learner assists a simple selector"),
        ({"order": "shortest"}, "order=shortest has no effect"),
        ({"mode": "direct", "learner": "drain", "speeds": "known"}, "the learner drain learns speeds"),
        ({"mode": "assist", "learner": "j48", "repair_every": 5}, "jobs stay where they were sent"),
        ({"change_after": 1}, "needs changed_factors"),
        ({"changed_factors": (1.0,), "change_after": 1}, "1 changed factors for 10 machines"),
        ({"changed_factors": (1.0,) * 10}, "changed_factors has no effect without change_after"),
        ({"changed_factors": (1.0,) * 10, "change_after": 2}, "change_after=2 leaves none of batches=2"),
        (
            {"mode": "direct", "learner": "j48", "refresh": 0, "learning_jobs": 0},
            "refresh=0 and learning_jobs=0 the learner j48 would never learn",
        ),
        ({"mode": "direct", "learner": "boosting"}, "learner.*'none', 'j48'"),
        ({"mode": "direct", "learner": "drain", "rule": "erd"}, "rule has no effect with mode=direct"),
        ({"speeds": "nominal"}, "speeds has no effect with mode=alone, rule=random and learner=none"),
        ({"mode": "assist", "learner": "j48", "speeds": "known"}, "speeds has no effect with mode=assist"),
        ({"forget": 0.5}, "forget has no effect with mode=alone"),
        ({"rule": "erd", "forget": 0.5}, "forget has no effect with speeds=known"),
        ({"reselect": 2.0}, "reselect has no effect with learner=none"),
        ({"rule": "shared_queue", "forget": 0.5}, "forget has no effect with speeds=nominal"),
        ({"rule": "shared_queue", "repair_every": 10}, "a shared queue is not repaired"),
        ({"rule": "atc", "order": "atc"}, "order=atc has no effect with mode=alone and rule=atc"),
        ({"mode": "direct", "learner": "j48", "rule": "shared_queue"}, "rule=shared_queue decides alone"),
        ({"mode": "direct", "learner": "j48", "order": "atc"}, "j48 cannot be combined with order=atc"),
        ({"mode": "assist", "learner": "j48", "rule": "shared_queue"}, "a learner assists a simple selector"),
        ({"mode": "assist", "learner": "drain", "selection_jobs": 50}, "selection_jobs has no effect"),
        ({"mode": "assist", "learner": "lwl", "selection_jobs": 50}, "which has lwl_selection_jobs"),
        ({"mode": "assist", "learner": "j48", "lwl_jobs": 50}, "lwl_jobs has no effect with learner=j48"),
        ({"mode": "assist", "learner": "drain", "attributes": "published"}, "attributes has no effect"),
        ({"mode": "assist", "learner": "j48", "candidates": "in_time"}, "candidates has no effect"),
        ({"mode": "direct", "learner": "drain", "candidates": "in_time"}, "candidates has no effect"),
        ({"mode": "assist", "learner": "j48", "refresh": 0, "reselect": 2.0}, "reselect has no effect"),
        ({"mean_up": 5.0}, "mean_up and mean_down must both be set"),
        ({"window": "1/2"}, "no effect without a trace"),
        ({"factors": (0.0,)}, "0.001"),
    ],
)
def test_what_cannot_be_combined_is_refused(parameters, message):
    with pytest.raises(SweepError, match=message):
        metrics(**parameters)


def test_none_is_a_word_for_all_jobs():
    """As the descriptions say, on the command line and in a space."""
    names = ("memory", "selection_jobs", "lwl_jobs", "lwl_selection_jobs")
    j48 = DispatchParameters(mode="assist", learner="j48", memory="none", selection_jobs="none")
    lwl = DispatchParameters(mode="assist", learner="lwl", lwl_jobs="none", lwl_selection_jobs="none")
    assert [getattr(j48, name) for name in names] == [None, None, 500, 250]
    assert [getattr(lwl, name) for name in names] == [10_000, 1000, None, None]


def test_the_learners_of_the_published_space_learn_from_everything():
    space = Path(__file__).parents[3] / "search_spaces/dispatch_published.yaml"
    learning = [cell.parameters for cell in space_cells(space) if cell.parameters["mode"] == "assist"]
    assert {parameters["learner"] for parameters in learning} == {"j48", "naive_bayes", "lwl"}
    for parameters in learning:
        p = DispatchParameters.model_validate(parameters)
        assert (p.memory, p.reselect, p.attributes) == (None, 1, "published")
        own = (p.lwl_jobs, p.lwl_selection_jobs) if p.learner == "lwl" else (p.selection_jobs,)
        assert set(own) == {None}
