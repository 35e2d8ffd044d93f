"""Brokers with a learner: Algorithms 2 and 3, repair, examples, and that no one sees the future."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.errors import SimulationError
from gridtune.systems.dispatch.dispatchers.broker import Broker
from gridtune.systems.dispatch.dispatchers.learners import LEARNERS, Examples
from gridtune.systems.dispatch.parameters import DispatchParameters
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import MACHINE, dispatch

FACTORS = np.array([1.32, 0.8, 1.07, 0.9103])
#: Column of a row: seconds to the deadline.
LEFT = 1


class StubLearner:
    """A learner whose predictions are a function of the rows; it records its examples."""

    attributes = "observed"
    selection = None
    memory = None

    def __init__(self, chances) -> None:
        self._chances = chances
        self.calls: list[tuple[Examples, bool]] = []

    def refresh(self, examples, *, reselect, rng):
        self.calls.append((examples, reselect))

    def chances(self, rows):
        return self._chances(rows)


def constant(chance: float) -> StubLearner:
    return StubLearner(lambda rows: np.full(len(rows), chance))


def first_machine() -> StubLearner:
    """Prefers machine 0, whatever waits there."""
    return StubLearner(lambda rows: 0.5 + 0.1 * (rows[:, MACHINE] == 0))


def some_jobs(load: float, seed: int = 0, *, learning: int = 100, jobs: int = 300) -> DispatchJobs:
    p = DispatchParameters(
        batches=1,
        batch_jobs=jobs,
        learning_jobs=learning,
        offered_load=load,
        learning_offered_load=load,
        mean_length=500.0,
        slack=0.5,
        factors=tuple(FACTORS),
    )
    return p.make_jobs(np.random.default_rng(seed).spawn(4), None)


def machines(cpus: int = 1) -> Machines:
    return Machines(FACTORS, np.full(len(FACTORS), cpus))


def run(broker: Broker, jobs: DispatchJobs, cpus: int = 1):
    draws = {"rng": np.random.default_rng(1), "learning_rng": np.random.default_rng(2)}
    return broker.run(jobs, machines(cpus), **draws)


def alone(jobs: DispatchJobs, rule: str, **options):
    return dispatch(jobs, machines(), rule=rule, rng=np.random.default_rng(1), **options)


@pytest.mark.parametrize("rule", ["random", "round_robin", "first_available"])
def test_a_learner_that_knows_no_better_changes_nothing(rule):
    jobs = some_jobs(1.0)
    outcome = run(Broker(constant(0.9), rule=rule), jobs)
    np.testing.assert_array_equal(outcome.machine, alone(jobs, rule).machine)
    assert not outcome.overruled.any()


def test_assistance_takes_the_best_that_is_probable():
    """Algorithm 2: above ½ and better than the base's own; else the base's."""
    jobs = some_jobs(0.5)
    measured = jobs.batch >= 0
    best = lambda rows: np.where(rows[:, MACHINE] == 1, 0.8, 0.6)  # noqa: E731
    assert (run(Broker(StubLearner(best), rule="random"), jobs).machine[measured] == 1).all()
    hardly = lambda rows: np.where(rows[:, MACHINE] == 1, 0.4, 0.1)  # noqa: E731
    stayed = run(Broker(StubLearner(hardly), rule="random"), jobs)
    np.testing.assert_array_equal(stayed.machine, alone(jobs, "random").machine)
    assert np.isnan(stayed.chance[~measured]).all()
    assert set(stayed.chance[measured]) <= {0.4, 0.1}


def test_equally_good_machines_are_all_used():
    jobs = some_jobs(0.5)
    outcome = run(Broker(StubLearner(lambda rows: np.ones(len(rows))), direct=True), jobs)
    assert np.bincount(outcome.machine, minlength=4).min() > 30


def test_repair_sends_the_most_tardy_job_again():
    """All go to machine 0 by preference until they wait there too long; a repair takes them where it says."""
    jobs = some_jobs(1.0)
    crowded = lambda rows: np.where(rows[:, LEFT] > 0, rows[:, MACHINE] == 0, rows[:, MACHINE] == 3)  # noqa: E731
    learner = StubLearner(lambda rows: 0.5 + 0.1 * crowded(rows))
    crowding = run(Broker(learner, direct=True), jobs)
    repaired = run(Broker(learner, direct=True, repair_every=10, repair_steps=10), jobs)
    measured = jobs.batch >= 0
    assert (crowding.machine[measured] == 0).all()
    assert crowding.moves == 0
    # A job that is overdue goes to machine 3 and stays there, however often it is taken out again.
    assert repaired.moves == (repaired.machine[measured] == 3).sum() > 0
    assert set(repaired.machine[measured]) == {0, 3}
    late = lambda outcome: np.maximum(0, outcome.finish - jobs.deadline).sum()  # noqa: E731
    assert late(repaired) < late(crowding)


def test_a_job_put_back_where_it_stood_has_not_moved():
    jobs = some_jobs(1.0)
    always = first_machine()
    outcome = run(Broker(always, direct=True, repair_every=10, repair_steps=10), jobs)
    assert (outcome.placed > jobs.submit).any()
    assert outcome.moves == 0


def test_only_a_learner_that_assists_overrules():
    """In direct mode the base rule has no say: no decision is another than its own, repaired or not."""
    jobs = some_jobs(1.0)
    best = lambda rows: np.where(rows[:, MACHINE] == 1, 0.8, 0.6)  # noqa: E731
    assisted = run(Broker(StubLearner(best), rule="random"), jobs)
    measured = jobs.batch >= 0
    np.testing.assert_array_equal(assisted.overruled[measured], alone(jobs, "random").machine[measured] != 1)
    assert not run(Broker(StubLearner(best), direct=True, repair_every=10), jobs).overruled.any()


def test_examples_are_rows_as_of_placing_and_what_became_of_the_jobs():
    jobs = some_jobs(1.0)
    learner = constant(0.9)
    broker = Broker(learner, rule="random", refresh=50, memory=80, reselect=1.5)
    outcome = run(broker, jobs)
    first, reselect = learner.calls[0]
    assert reselect
    assert len(first.in_time) == 80
    for examples, _ in learner.calls:
        assert len(examples.in_time) <= 80
        assert set(examples.rows[:, MACHINE]) <= {0, 1, 2, 3}
    late = {(int(e), int(d - s)): f <= d for e, d, s, f in zip(
        jobs.estimate, jobs.deadline, jobs.submit, outcome.finish, strict=True)}  # fmt: skip
    for row, good in zip(first.rows, first.in_time, strict=True):
        assert late[(int(row[0]), int(row[LEFT]))] == good
    assert 5 <= len(learner.calls) <= 8
    assert [reselect for _, reselect in learner.calls].count(True) < len(learner.calls)
    arrivals = constant(0.9)
    run(Broker(arrivals, rule="random", refresh=10, refresh_on="arrivals"), jobs)
    assert len(arrivals.calls) == 300 // 10
    once = constant(0.9)
    run(Broker(once, rule="random", refresh=0), jobs)
    assert len(once.calls) == 1


@pytest.mark.parametrize(
    ("attributes", "row"), [("observed", [60, 200, 2, 0]), ("published", [60, 220, 1, 0])]
)
def test_the_published_attributes_are_the_deadline_and_the_queue(attributes, row):
    """At 40, in a batch that began at 20, a job is due at 240; one runs on machine 0 and one waits there."""
    submit, estimate = np.array([0, 20, 30, 40]), np.array([10, 100, 50, 60])
    jobs = DispatchJobs(submit, estimate, estimate, submit + 200, np.array([-1, 0, 0, 0]))
    questions: list[np.ndarray] = []

    def chances(rows: np.ndarray) -> np.ndarray:
        questions.append(rows.copy())
        return 0.5 - 0.1 * rows[:, MACHINE]

    learner = StubLearner(chances)
    learner.attributes = attributes
    two = Machines(np.array([2.0, 1.0]), np.ones(2, np.int64))
    draws = {"rng": np.random.default_rng(1), "learning_rng": np.random.default_rng(2)}
    Broker(learner, direct=True, rule="round_robin").run(jobs, two, **draws)
    np.testing.assert_array_equal(questions[-1], [row, [*row[:2], 0, 1]])


def test_published_attributes_of_jobs_that_tabu_search_moves_leave_themselves_out():
    """The last example of a queue's first job: nobody waits before it."""
    jobs = some_jobs(2.0)
    learner = constant(0.9)
    learner.attributes = "published"
    run(Broker(learner, direct=True, rule="erd", repair_every=10, refresh=0), jobs)
    ((examples, _),) = learner.calls
    assert examples.rows[:, 2].min() == 0
    batch = jobs.batch < 0
    assert examples.rows[:, 1].max() <= (jobs.deadline - jobs.submit.min())[batch].max()


def test_only_machines_predicted_in_time_are_candidates():
    """Algorithm 3: the best of them, which is the best of all; where there is none, the base rule's."""
    jobs = some_jobs(1.0)
    measured = jobs.batch >= 0
    good = lambda rows: np.where(rows[:, MACHINE] == 2, 0.7, 0.3)  # noqa: E731
    poor = lambda rows: np.where(rows[:, MACHINE] == 2, 0.4, 0.3)  # noqa: E731
    options = {"direct": True, "rule": "round_robin", "repair_every": 10}
    for strict in (False, True):
        chosen = run(Broker(StubLearner(good), strict=strict, **options), jobs)
        assert (chosen.machine[measured] == 2).all()
    loose = run(Broker(StubLearner(poor), **options), jobs)
    assert (loose.machine[measured] == 2).all()
    strict = run(Broker(StubLearner(poor), strict=True, **options), jobs)
    np.testing.assert_array_equal(strict.machine, alone(jobs, "round_robin").machine)
    assert strict.moves == 0


def test_locally_weighted_learning_keeps_to_as_many_jobs_as_it_may():
    jobs = some_jobs(1.0, learning=700, jobs=100)
    seen = {}
    for memory in (500, None):
        learner = LEARNERS["lwl"](4, memory=memory)
        counts = seen.setdefault(memory, [])
        fit = learner.fit

        def recorded(table, *rest, counts=counts, fit=fit):
            counts.append(len(table))
            fit(table, *rest)

        learner.fit = recorded
        run(Broker(learner, rule="random", memory=None, reselect=1e9), jobs)
    assert max(seen[500]) == 500
    assert max(seen[None]) == 700


def test_tabu_search_repairs_among_learning_jobs_and_leaves_the_learners_own_alone():
    jobs = some_jobs(1.5)
    measured = jobs.batch >= 0
    first = first_machine()
    options = {"direct": True, "rule": "erd", "repair_every": 10}
    searched = run(Broker(first, **options, repair_steps=10), jobs)
    theirs = alone(jobs, "erd", repair_every=10, repair_steps=10)
    # Until the learner's first decision both are one run.
    ended = ~measured & (searched.finish <= jobs.submit[measured][0])
    assert ended.sum() > 50
    for name in ("machine", "placed", "start", "finish"):
        np.testing.assert_array_equal(getattr(searched, name)[ended], getattr(theirs, name)[ended])
    assert (theirs.placed > jobs.submit)[ended].any()
    # Tabu search would have sent late ones away from the crowded machine, to which the learner sends all.
    assert (searched.machine[measured] == 0).all()
    assert (theirs.machine[measured] != 0).any()


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_learns_and_helps(name):
    """On machines that differ, under little load: more in time than at random, from seed to same seed."""
    jobs = some_jobs(0.5, learning=300, jobs=200)
    measured = jobs.batch >= 0
    broker = Broker(LEARNERS[name](4), rule="random", speeds="learned")
    outcome = run(broker, jobs)
    good, before = outcome.finish <= jobs.deadline, alone(jobs, "random").finish <= jobs.deadline
    assert good[measured].sum() > 1.05 * before[measured].sum()
    assert ((outcome.chance[measured] >= 0) & (outcome.chance[measured] <= 1)).all()
    again = run(Broker(LEARNERS[name](4), rule="random", speeds="learned"), jobs)
    np.testing.assert_array_equal(outcome.machine, again.machine)


@pytest.mark.parametrize("name", LEARNERS)
def test_one_outcome_or_few_examples_are_no_trouble(name):
    learner, rng = LEARNERS[name](4), np.random.default_rng(0)
    rows = np.abs(rng.random((40, 4))) + 1.0
    rows[:, MACHINE], rows[:, LEFT] = rng.integers(0, 4, 40), 10.0
    ones = np.ones(40, np.int64)
    learner.refresh(Examples(rows, ones), reselect=True, rng=rng)
    assert (learner.chances(rows) > 0.4).all()
    few = np.array([1, 0, 1, 1, 0])
    learner.refresh(Examples(rows[:5], few), reselect=True, rng=rng)
    assert np.isfinite(learner.chances(rows)).all()


def test_what_is_unknown_is_told():
    with pytest.raises(SimulationError, match="unknown rule"):
        run(Broker(LEARNERS["j48"](4), rule="fifo"), some_jobs(1.0))
