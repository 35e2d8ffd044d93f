"""Expressions as values of a dimension."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtune.errors import SpaceError
from gridtune.sweep.search.proposals import Evaluation, Proposer
from gridtune.sweep.space.plan import plan_space
from gridtune.sweep.space.points import random_points
from gridtune.sweep.space.schema import Dimension, parse_space
from gridtune.sweep.space.strategies import Adaptive, ExpressionTree

TREE = ExpressionTree(
    terminals=("walltime", "log(processors)", "wait + 1", 2.5), operators=("+", "*", "max"), depth=2
)
DIMENSIONS = {"order": Dimension(expression=TREE)}


def drawn(seed: int) -> str:
    rng = np.random.default_rng(seed)
    return TREE.draw(lambda _, alternatives: int(rng.integers(alternatives)))


def test_a_tree_is_read_from_its_choices() -> None:
    choices = {1: 1, 2: 3, 3: 2, 4: 0, 5: 0, 6: 2, 7: 3}
    assert TREE.draw(lambda node, _: choices[node]) == "(walltime * max((wait + 1), 2.5))"


@given(st.integers(0, 10_000))
def test_choices_make_the_expression_again(seed: int) -> None:
    text = drawn(seed)
    choices = TREE.choices(text)
    assert TREE.draw(lambda node, _: choices[node]) == text


def test_another_expression_has_no_choices() -> None:
    with pytest.raises(ValueError, match="not in"):
        TREE.choices("(walltime - 2.5)")


def test_random_points_are_expressions_and_the_first_stay() -> None:
    points = random_points(DIMENSIONS, 30, 1)
    assert len({point["order"] for point in points}) > 10
    assert random_points(DIMENSIONS, 10, 1) == points[: len(random_points(DIMENSIONS, 10, 1))]


def proposals(count: int, repeated: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return what NSGA-II proposes that looks for short expressions, the first ones from a journal."""
    options = Adaptive(trials=count, sampler="nsgaii", population=6, seed=3)
    proposer = Proposer(DIMENSIONS, options, ["min"], lambda point: point["order"])
    points = []
    for number in range(count):
        if number < len(repeated):
            point = repeated[number]
            proposer.repeat(point)
        else:
            proposed = proposer.propose()
            assert proposed is not None
            point = proposed
        points.append(point)
        proposer.tell(number, Evaluation([float(len(point["order"]))]))
    return points


def test_a_search_goes_on_where_its_journal_ends() -> None:
    whole = proposals(24, [])
    assert proposals(24, whole[:13]) == whole


def test_a_population_improves() -> None:
    lengths = [len(point["order"]) for point in proposals(60, [])]
    assert np.mean(lengths[-20:]) < np.mean(lengths[:20])


def test_a_faulty_terminal_is_named() -> None:
    space = {
        "name": "faulty",
        "fixed": {"trace": "quickstart"},
        "dimensions": {"order": {"expression": {"terminals": ["walltime", "log(runtime)"]}}},
        "objective": "wait_mean",
        "strategy": {"random": {"samples": 2}},
    }
    with pytest.raises(SpaceError, match="no field 'runtime'"):
        plan_space(parse_space(space))
