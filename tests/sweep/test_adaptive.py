"""Adaptive strategies: the same configurations with any number of workers, any order of results, any kill."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import optuna
import pytest

from gridtune.core.cells import CellResult
from gridtune.errors import GridtuneWarning, SpaceError
from gridtune.sweep.execution.blocks import Block
from gridtune.sweep.execution.observing import SweepPlan, SweepResult
from gridtune.sweep.run import run_space
from gridtune.sweep.search import proposals
from gridtune.sweep.search.adaptive import AdaptiveQueue
from gridtune.sweep.search.proposals import _new_study
from gridtune.sweep.space.plan import PlannedSpace, plan_space
from gridtune.sweep.space.strategies import Adaptive, SamplerName
from tests.sweep.spaces import content, toy_space

SPACE: dict[str, Any] = {
    "dimensions": {
        "x": {"uniform": [0, 10]},
        "word": {"choice": ["a", "b"]},
        "depth": {"integer": [1, 9], "when": {"word": "b"}},
    },
    "strategy": {"optuna": {"trials": 30, "seed": 1, "parallel": 4}},
    "baseline": {"x": 9, "word": "a"},
}
RESOURCE: dict[str, Any] = {
    "dimensions": {"x": {"uniform": [0, 10]}, "word": {"choice": ["a", "b"]}, "depth": [1, 3, 9]},
    "strategy": {"asha": {"trials": 27, "resource": "depth", "seed": 1, "parallel": 4}},
    "baseline": {},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "optuna": {},
    "asha": {**RESOURCE},
    "asha over replicates": {
        "replicates": {"seeds": 6},
        "strategy": {"asha": {"trials": 20, "seed": 1, "parallel": 3, "reduction": 2}},
    },
}


def planner_of(**changes: Any) -> PlannedSpace:
    return plan_space(toy_space(**{**SPACE, **changes}))


def loss_of(configuration: Mapping[str, Any], seed: int = 0) -> float:
    return float((configuration["x"] - 3) ** 2 + seed / 7)


def results_of(block: Block, failing: str = "") -> list[CellResult]:
    return [
        CellResult.of(cell, "failed", error="no")
        if cell.configuration["word"] == failing
        else CellResult.of(
            cell,
            "done",
            metrics={
                "loss": loss_of(cell.configuration, cell.seed),
                "gain": cell.configuration["x"] + 0.05 * (cell.seed % 3 - 1),
            },
            seconds=0.1,
        )
        for cell in block.cells
    ]


class Journal:
    """What a sweep leaves behind: results and proposals."""

    def __init__(self) -> None:
        self.results: dict[str, CellResult] = {}
        self.proposals: list[Mapping[str, Any]] = []

    def queue(self, planner: PlannedSpace, workers: int = 1) -> AdaptiveQueue:
        recorded = list(self.proposals)
        return AdaptiveQueue(
            planner, self.results, recorded=recorded, record=self.proposals.extend, workers=workers
        )

    def drive(
        self, queue: AdaptiveQueue, *, workers: int = 1, seed: int = 0, limit: int = 10_000, failing: str = ""
    ) -> list[CellResult]:
        """Run up to so many cells with workers whose speed is drawn at random."""
        draw = random.Random(seed)
        busy: list[Block] = []
        finished: list[CellResult] = []
        while queue.left and len(finished) < limit:
            while len(busy) < workers and (block := queue.take()) is not None:
                busy.append(block)
            block = busy.pop(draw.randrange(len(busy)))
            results = results_of(block, failing)
            queue.report(block.number, results)
            self.results.update({result.cell_id: result for result in results})
            queue.note(results)
            finished += results
        return finished


def ran(changes: Mapping[str, Any], **options: Any) -> tuple[Journal, list[str]]:
    journal = Journal()
    queue = journal.queue(planner_of(**changes))
    journal.drive(queue, **options)
    return journal, [cell.cell_id for cell in queue.cells()]


@pytest.mark.parametrize("changes", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize(("workers", "seed"), [(2, 0), (3, 1), (7, 2)])
def test_cells_depend_on_no_number_or_speed_of_workers(
    changes: dict[str, Any], workers: int, seed: int
) -> None:
    alone, cells = ran(changes)
    together, same = ran(changes, workers=workers, seed=seed)
    assert cells == same
    assert set(alone.results) == set(together.results) == set(cells)
    assert alone.proposals == together.proposals


@pytest.mark.parametrize("changes", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("stops", [[1], [7, 8, 20], [3, 60]])
def test_after_kills_the_same_cells_run_and_each_once(changes: dict[str, Any], stops: list[int]) -> None:
    undisturbed, cells = ran(changes)
    journal, runs = Journal(), 0
    for turn, stop in enumerate([*stops, 10_000]):
        # A killed sweep loses the blocks under way, and has its proposals.
        queue = journal.queue(planner_of(**changes))
        runs += len(journal.drive(queue, workers=1 + turn, seed=turn, limit=stop))
    assert [cell.cell_id for cell in queue.cells()] == cells
    assert runs == len(cells) == len(journal.results)
    assert journal.proposals == undisturbed.proposals
    assert queue.search.warning is None


@pytest.mark.parametrize("changes", STRATEGIES.values(), ids=STRATEGIES)
def test_a_finished_search_is_replayed_from_its_journal(changes: dict[str, Any]) -> None:
    journal, cells = ran(changes, workers=3)
    again = journal.queue(planner_of(**changes), workers=2)
    assert [cell.cell_id for cell in again.cells()] == cells
    assert again.left == 0
    assert again.take() is None


def test_a_proposal_needs_only_those_that_are_parallel_before_it() -> None:
    """With four at once the fifth is made when the first has ended, whatever the others do."""
    journal = Journal()
    queue = journal.queue(planner_of(baseline={}))
    blocks = list(iter(queue.take, None))
    assert len(journal.proposals) == 4
    results = [result for block in blocks if block is not None for result in results_of(block)]
    points = [entry["point"] for entry in journal.proposals]

    def finish(number: int) -> None:
        queue.note([one for one in results if one.configuration["x"] == points[number]["x"]])

    for late in (2, 1):
        finish(late)
        assert len(journal.proposals) == 4
    finish(0)
    assert len(journal.proposals) == 7


def test_it_runs_the_baseline_and_so_many_configurations_once() -> None:
    journal = Journal()
    results = journal.drive(journal.queue(planner_of()))
    assert len(results) == 2 * 31
    assert len(journal.results) == len(results)
    assert results[0].configuration["x"] == 9


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_it_learns(sampler: str) -> None:
    strategy = {"optuna": {"trials": 80, "seed": 1, "sampler": sampler}}
    dimensions = {"x": {"uniform": [0, 10]}, "rate": {"uniform": [0, 1]}, "word": {"choice": ["a", "b"]}}
    changes = {"strategy": strategy, "replicates": {"seeds": 1}, "baseline": {}, "dimensions": dimensions}
    journal = Journal()
    losses = [loss_of(result.configuration) for result in journal.drive(journal.queue(planner_of(**changes)))]
    assert np.median(losses[-40:]) < np.median(losses[:10]) / 3


@pytest.mark.parametrize("sampler", [{"sampler": "tpe"}, {"sampler": "nsgaii", "population": 8}])
def test_under_a_constraint_it_finds_the_best_that_keeps_it(sampler: dict[str, Any]) -> None:
    """The loss is least at x = 3, and the bound asks for x ≥ 5.4."""
    changes: dict[str, Any] = {
        "strategy": {"optuna": {"trials": 80, "seed": 1, **sampler}},
        "replicates": {"seeds": 6},
        "baseline": {"x": 9, "word": "a"},
        "dimensions": {"x": {"uniform": [0, 10]}, "word": {"choice": ["a", "b"]}},
    }
    middle = []
    for bounds in ({}, {"subject_to": {"gain": ">= 0.6 x baseline"}}):
        journal = Journal()
        queue = journal.queue(planner_of(**changes, **bounds))
        journal.drive(queue)
        # With those that were tried before, and are therefore not run again.
        suggested = [trial.params["x"] for trial in queue.search._proposer._study.trials]
        middle.append(np.median(suggested[-40:]))
    assert abs(middle[0] - 3) < 1
    assert abs(middle[1] - 5.5) < 0.8
    tried = [result.configuration["x"] for result in journal.results.values()]
    assert min(x for x in tried if x >= 5.42) < 5.8


def test_constraints_make_another_search_and_their_order_of_arrival_changes_nothing() -> None:
    changes = {"subject_to": {"gain": ">= 0.6 x baseline"}, "replicates": {"seeds": 3}}
    _, alone = ran(changes)
    for workers, seed in ((3, 1), (7, 2)):
        assert ran(changes, workers=workers, seed=seed)[1] == alone


def test_a_sampler_without_constraints_is_refused_with_them() -> None:
    space = {"subject_to": {"gain": ">= 5"}, "strategy": {"optuna": {"trials": 5, "sampler": "cmaes"}}}
    with pytest.raises(SpaceError, match="the sampler cmaes takes no constraints"):
        planner_of(**space)


def test_proposals_of_the_journal_win_over_another_optuna() -> None:
    journal, _ = ran({})
    moved = {**journal.proposals[5], "point": {"x": 1.25, "word": "a"}}
    planner = planner_of()
    moved["configurations"] = [planner.cells([moved["point"]])[0].configuration_id]
    journal.proposals[5:] = [moved]
    queue = journal.queue(planner)
    journal.drive(queue)
    assert 1.25 in [trial.point["x"] for trial in queue.search.trials]
    assert (queue.search.warning or "").startswith("1 proposal of the journal")
    assert len(queue.search.trials) == 31


def test_more_trials_go_on_from_those_there_are() -> None:
    few, cells = ran({"strategy": {"optuna": {"trials": 20, "seed": 1, "parallel": 4}}})
    assert few.queue(planner_of()).cells()[: len(cells)] != []
    queue = few.queue(planner_of())
    few.drive(queue)
    assert [cell.cell_id for cell in queue.cells()] == ran({})[1]


def test_another_search_begins_with_its_own_proposals_and_uses_cells_that_are_there() -> None:
    journal, cells = ran({})
    seeded = {"strategy": {"optuna": {"trials": 30, "seed": 2, "parallel": 4}}}
    queue = journal.queue(planner_of(**seeded))
    journal.drive(queue)
    other = [cell.cell_id for cell in queue.cells()]
    assert set(other) & set(cells) == {cell.cell_id for cell in planner_of().cells()}  # the baseline's
    # The first search is still in the journal.
    assert journal.queue(planner_of()).left == 0


def test_the_order_in_which_dimensions_are_listed_does_not_matter() -> None:
    journal, cells = ran({})
    turned = {"dimensions": dict(reversed(SPACE["dimensions"].items()))}
    assert set(ran(turned)[1]) == set(cells)
    assert journal.queue(planner_of(**turned)).left == 0


def test_proposals_whose_cells_are_now_others_are_dropped() -> None:
    journal, _ = ran({})
    changed = planner_of(fixed={"nap": 0.5})
    queue = journal.queue(changed)
    assert len(queue.search.trials) == 4


def test_a_finite_space_is_exhausted_and_not_repeated() -> None:
    changes = {"dimensions": {"x": [1, 2, 3], "word": ["a", "b"]}, "baseline": {}}
    journal, cells = ran(changes)
    assert len(cells) == len(journal.results) == 12


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_search_goes_on_when_configurations_fail(name: str) -> None:
    journal, cells = ran(STRATEGIES[name], failing="b")
    trials = journal.queue(planner_of(**STRATEGIES[name])).search.trials
    assert {trial.status for trial in trials} == {"TERMINATED", "ERROR"}
    assert all(trial.finished_steps == 1 for trial in trials if trial.status == "ERROR")
    assert ran(STRATEGIES[name], failing="b", workers=5)[1] == cells


def test_failed_cells_that_are_to_be_retried_run_again_and_no_others() -> None:
    journal, cells = ran({})
    failed = cells[10:12]
    for cell_id in failed:
        del journal.results[cell_id]
    queue = journal.queue(planner_of())
    assert [result.cell_id for result in journal.drive(queue)] == failed
    assert [cell.cell_id for cell in queue.cells()] == cells


@pytest.mark.parametrize("changes", STRATEGIES.values(), ids=STRATEGIES)
def test_a_sweep_in_this_process_is_resumed_and_replayed_without_optuna(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = toy_space(**{**SPACE, **changes})

    class Stop:
        """Ends a sweep after its first results."""

        def started(self, plan: SweepPlan) -> None: ...

        def finished(self, results: Sequence[CellResult]) -> None:
            raise KeyboardInterrupt

        def ended(self, result: SweepResult) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        run_space(space, directory=tmp_path / "out", executor="inline", observers=[Stop()])
    whole = run_space(space, directory=tmp_path / "whole", executor="inline")
    resumed = run_space(space, directory=tmp_path / "out", executor="inline")
    assert whole.complete
    assert content(resumed.table) == content(whole.table)
    monkeypatch.setitem(sys.modules, "optuna", None)
    again = run_space(space, directory=tmp_path / "out", executor="inline")
    assert again.ran == 0
    assert content(again.table) == content(whole.table)


def test_proposals_that_would_be_others_now_are_kept_with_a_warning(tmp_path: Path) -> None:
    space = toy_space(**SPACE)
    first = run_space(space, directory=tmp_path, executor="inline")
    larger = {**space, "strategy": {"optuna": {**SPACE["strategy"]["optuna"], "trials": 32}}}
    with (
        mock.patch("optuna.samplers.TPESampler", lambda seed, **_: optuna.samplers.RandomSampler(seed + 1)),
        pytest.warns(GridtuneWarning, match="proposals of the journal would be different now"),
    ):
        second = run_space(larger, directory=tmp_path, executor="inline")
    assert second.ran == 4
    assert {cell.cell_id for cell in first.results} < {cell.cell_id for cell in second.results}


SAMPLERS = ["tpe", "cmaes", "nsgaii", "nsgaiii", "random", "sobol"]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_takes_conditional_dimensions_and_resumes(sampler: str) -> None:
    changes = {"strategy": {"optuna": {"trials": 24, "seed": 1, "sampler": sampler, "parallel": 3}}}
    _, cells = ran(changes)
    journal = Journal()
    journal.drive(journal.queue(planner_of(**changes)), limit=25)
    queue = journal.queue(planner_of(**changes))
    journal.drive(queue, workers=3)
    assert [cell.cell_id for cell in queue.cells()] == cells
    assert queue.search.warning is None
    points = [trial.point for trial in queue.search.trials]
    assert all(("depth" in point) == (point["word"] == "b") for point in points)


def test_gaussian_processes_are_a_sampler() -> None:
    pytest.importorskip("torch")
    changes = {"strategy": {"optuna": {"trials": 12, "seed": 1, "sampler": "gp", "parallel": 2}}}
    assert ran(changes)[1] == ran(changes, workers=2)[1]


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "cmaes"])
def test_several_objectives_are_told(sampler: str) -> None:
    changes = {
        "strategy": {"optuna": {"trials": 6, "seed": 1, "sampler": sampler, "parallel": 1}},
        "objective": ["loss", "gain"],
    }
    journal = Journal()
    queue = journal.queue(planner_of(**changes))
    while queue.left:
        block = queue.take()
        assert block is not None
        results = [CellResult.of(cell, "done", metrics={"loss": 1.0, "gain": 2.0}) for cell in block.cells]
        queue.report(block.number, results)
        queue.note(results)
    study = queue.search._proposer._study
    assert [trial.values for trial in study.trials] == [[1.0, 2.0]] * 7


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        (
            {"strategy": {"optuna": {"trials": 5, "sampler": "cmaes"}}},
            "optuna.sampler",
            "one objective",
        ),
        (
            {"strategy": {"optuna": {"trials": 5, "population": 5}}},
            "optuna.population",
            "no population",
        ),
        ({"strategy": {"asha": {"trials": 5}}, "replicates": {"seeds": 1}}, "asha", "only one"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(SpaceError, match=words) as fault:
        planner_of(**{"objective": ["loss", "gain"], **changes})
    assert fault.value.field == f"strategy.{field}"


def test_a_sampler_whose_package_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridtune.sweep.space.checks.importlib.util.find_spec", lambda name: None)
    with pytest.raises(SpaceError, match="gp needs scipy and torch, which is not installed") as fault:
        planner_of(strategy={"optuna": {"trials": 5, "sampler": "gp"}})
    assert fault.value.hint == "pip install scipy torch"


# Early stopping.


def losses_by_depth(journal: Journal) -> dict[int, list[float]]:
    losses: dict[int, list[float]] = {}
    for result in journal.results.values():
        if result.seed == 0:
            depth = int(result.configuration["depth"])
            losses.setdefault(depth, []).append(loss_of(result.configuration))
    return losses


def test_good_configurations_get_more_of_the_resource() -> None:
    journal, _ = ran(STRATEGIES["asha"])
    losses = losses_by_depth(journal)
    assert len(losses[1]) > len(losses[3]) > len(losses[9]) > 0
    assert np.median(losses[9]) < np.median(losses[1])
    assert len(losses[1]) >= 27


def test_a_larger_value_is_better_where_the_objective_says_so() -> None:
    changes = {**RESOURCE, "objective": [{"metric": "loss", "direction": "max"}]}
    losses = losses_by_depth(ran(changes)[0])
    assert np.median(losses[9]) > np.median(losses[1])


def test_over_replicates_bad_configurations_have_fewer() -> None:
    changes = STRATEGIES["asha over replicates"]
    journal, _ = ran(changes)
    trials = journal.queue(planner_of(**changes)).search.trials[1:]
    most = max(trial.finished_steps for trial in trials)
    kept = [loss_of(trial.point) for trial in trials if trial.finished_steps == most]
    stopped = [loss_of(trial.point) for trial in trials if trial.finished_steps < most]
    assert most == len(trials[0].steps)
    assert stopped
    assert np.median(kept) < np.median(stopped)


def test_the_baseline_is_never_stopped() -> None:
    changes = {**STRATEGIES["asha over replicates"], "baseline": {"x": 10, "word": "a"}}
    journal, _ = ran(changes)
    results = [result for result in journal.results.values() if result.configuration["x"] == 10]
    assert len(results) == 6


@pytest.mark.parametrize(
    "dimensions",
    [
        {"x": [1, 2]},
        {"x": [1, 2], "depth": [3, 1]},
        {"x": [1, 2], "depth": {"integer": [1, 9]}},
        {"x": [1, 2], "depth": {"grid": [1, 3], "when": {"x": 1}}},
        {"x": {"grid": [1, 2], "when": {"depth": 1}}, "depth": [1, 3]},
    ],
)
def test_the_resource_is_an_ascending_list_of_every_configuration(dimensions: dict[str, Any]) -> None:
    with pytest.raises(SpaceError, match=r"ascending|no dimension|condition"):
        planner_of(dimensions=dimensions, strategy={"asha": {"trials": 9, "resource": "depth"}}, baseline={})


def test_a_baseline_off_the_rungs_is_refused() -> None:
    with pytest.raises(SpaceError, match="depth never is 2"):
        planner_of(**{**RESOURCE, "baseline": {"x": 1, "word": "a", "depth": 2}}).cells()


# Baselines.


@pytest.mark.parametrize(
    ("baseline", "field", "words"),
    [
        ({"x": 1, "word": "c"}, "baseline.word", "word never is 'c'"),
        ({"x": 1, "word": "b"}, "baseline", "leaves depth open"),
        ({"x": 1, "word": "a", "depth": 3}, "baseline.depth", "depth does not apply to the baseline"),
    ],
)
def test_a_baseline_outside_the_space_is_refused(baseline: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(SpaceError, match=words) as fault:
        planner_of(baseline=baseline).cells()
    assert fault.value.field == field


def test_a_number_listed_as_another_kind_is_the_same_baseline() -> None:
    changes = {"dimensions": {"x": {"choice": [1.0, 2.0]}}, "baseline": {"x": 1}}
    assert [cell.configuration["x"] for cell in planner_of(**changes).cells()] == [1.0, 1.0]


@pytest.mark.parametrize("name", proposals.SAMPLERS)
@pytest.mark.parametrize("directions", [["min"], ["min", "max"]])
def test_no_option_of_a_sampler_is_left_to_the_version_of_optuna(
    name: SamplerName, directions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = optuna.samplers.RandomSampler()
    kind, given = getattr(optuna.samplers, proposals.SAMPLERS[name].name), dict[str, Any]()

    def make(**options: Any) -> Any:
        given.update(options)
        return made

    defaults = {key: one.default for key, one in inspect.signature(kind).parameters.items()}
    monkeypatch.setattr(optuna.samplers, proposals.SAMPLERS[name].name, make)
    _new_study(Adaptive(trials=1, seed=1, sampler=name), directions, 1)
    # None stands for what has no other default; `inc_popsize` goes with a restart, which is never made.
    left = {key for key, value in defaults.items() if value is not None} - given.keys()
    assert left <= {"inc_popsize"}
    if name == "tpe":
        assert given["multivariate"] is (len(directions) == 1)
