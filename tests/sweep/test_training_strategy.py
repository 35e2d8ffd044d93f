"""The strategy `train`: rungs, halving, population based training; what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gridtune.errors import SpaceError
from gridtune.sweep.run import run_space
from gridtune.sweep.space.plan import plan_space
from gridtune.sweep.space.schema import parse_space
from gridtune.training.system import _segments_of, with_segment

PLUGIN = Path(__file__).with_name("toy_training.py")


def space(name: str = "toy", system: str = "toytrained/ppo", **train: Any) -> dict[str, Any]:
    options = {"trials": 8, "iterations": [1, 2, 3], "seed": 3, **train}
    return {
        "name": name,
        "system": system,
        "plugins": [str(PLUGIN)],
        "dimensions": {"rate": {"uniform": [0.0, 1.0]}, "network": {"choice": ["plain", "other"]}},
        "strategy": {"train": options},
        "objective": "score",
    }


def results_of(content: dict[str, Any], folder: Path) -> dict[str, tuple[Any, ...]]:
    done = run_space(content, directory=folder, executor="inline")
    return {
        result.cell_id: (
            result.parameters["iterations"],
            result.parameters["rate"],
            result.parameters["network"],
            result.parameters.get("history"),
            result.metrics["score"],
        )
        for result in done.results
    }


def test_all_go_on_without_a_scheduler_and_few_with_halving(tmp_path: Path) -> None:
    rungs = [cell[0] for cell in results_of(space(), tmp_path / "none").values()]
    assert [rungs.count(number) for number in (1, 2, 3)] == [8, 8, 8]
    rungs = [cell[0] for cell in results_of(space(scheduler="asha"), tmp_path / "asha").values()]
    assert rungs.count(1) == 8
    assert 1 <= rungs.count(3) < 8
    single = results_of(space(iterations=2), tmp_path / "single")
    assert {cell[0] for cell in single.values()} == {2}
    assert len(single) == 8


def test_the_worst_go_on_as_copies_of_the_best(tmp_path: Path) -> None:
    cells = results_of(space(scheduler="pbt"), tmp_path)
    copies = [cell for cell in cells.values() if cell[3] is not None]
    # A quarter of eight, at each of the two rungs before the last; those of the first have one cell more.
    assert {cell[0] for cell in copies} == {2, 3}
    assert [cell[0] for cell in cells.values()].count(3) == 8
    beginnings = {(cell[1], cell[2]): cell[4] for cell in cells.values() if cell[0] == 1}
    best = sorted(beginnings.values())[-2:]
    for iterations, rate, network, history, score in copies:
        (first, before), *_ = _segments_of(history)
        assert first == 1 or iterations == 3
        assert 0 <= rate <= 1
        if first == 1:
            # It has what one of the best two had learned, its network, and goes on at a rate of its own.
            assert beginnings[(float(before["rate"]), network)] in best
            assert score > beginnings[(float(before["rate"]), network)]


def test_population_based_training_goes_on_after_a_stop_as_if_there_had_been_none(tmp_path: Path) -> None:
    whole = results_of(space(scheduler="pbt"), tmp_path / "whole")
    assert whole == results_of(space(scheduler="pbt"), tmp_path / "again")
    journal = (tmp_path / "whole" / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "halted").mkdir()
    (tmp_path / "halted" / "journal.jsonl").write_text("".join(journal[: len(journal) // 2]))
    assert results_of(space(scheduler="pbt"), tmp_path / "halted") == whole


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"scheduler": "pbt", "iterations": 3}, "needs several numbers of iterations"),
        ({"iterations": [3, 1]}, "iterations must ascend"),
        ({"scheduler": "pbtt"}, "must be 'none', 'asha' or 'pbt'"),
        ({"system": "toytrained"}, "needs a training, and toytrained is none"),
        ({"system": "toytrained/dqn"}, "no system is named 'toytrained/dqn'"),
    ],
)
def test_faults_have_their_place(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(SpaceError, match=fault):
        plan_space(parse_space(space(**changes)))


def test_what_cannot_change_while_it_trains_is_no_population() -> None:
    content = space(scheduler="pbt")
    del content["dimensions"]["rate"]
    with pytest.raises(SpaceError, match="pbt needs a dimension that may change") as caught:
        plan_space(parse_space(content))
    assert caught.value.hint == "these may: rate"


def test_gpus_are_asked_for_and_used() -> None:
    parsed = parse_space(space(num_gpus=0.5))
    assert parsed.resources.gpus == 0.5
    assert parsed.fixed == {"device": "cuda"}


def test_a_history_is_written_and_read() -> None:
    text = with_segment(with_segment(None, 10, {"rate": 0.1, "network": "plain"}), 20, {"rate": 1e-05})
    assert text == "10: network='plain', rate=0.1; 20: rate=1e-05"
    assert _segments_of(text) == [(10, {"network": "plain", "rate": "0.1"}), (20, {"rate": "1e-05"})]
    with pytest.raises(ValueError, match="must be `ITERATION"):
        _segments_of("ten: rate")
