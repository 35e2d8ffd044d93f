"""Effects and interactions from configurations' means: put in, and found again."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from gridtune.report.page.effects import effects_of

A, B = ["x", "y", "z"], [1, 2, 3, 4]
GRID = list(product(A, B))
COLUMNS = {"a": [a for a, _ in GRID], "b": [b for _, b in GRID]}


def effects(means: list[float], columns: dict[str, list] | None = None, **options: object):
    settings = {"direction": "min", "logarithmic": False, **options}
    return effects_of(columns or COLUMNS, means, **settings)  # type: ignore[arg-type]


def test_effects_that_add_up_have_no_interaction() -> None:
    found = effects([10.0 * A.index(a) + b for a, b in GRID])
    assert found is not None
    assert found["complete"]
    assert [effect["name"] for effect in found["main"]] == ["a", "b"]
    # The variances by hand: of 0, 10, 20 and of 1, 2, 3, 4.
    by_hand = {"a": 200 / 3, "b": 1.25}
    for effect in found["main"]:
        assert effect["share"] == pytest.approx(by_hand[effect["name"]] / (200 / 3 + 1.25))
    assert found["main"][0]["means"] == pytest.approx([2.5, 12.5, 22.5])
    assert found["main"][0]["best"] == [1, 11, 21]
    assert found["main"][0]["counts"] == [4, 4, 4]
    assert found["interactions"][0]["share"] == pytest.approx(0, abs=1e-12)


def test_what_only_the_pair_explains_is_its_interaction() -> None:
    signs = list(product([-1, 1], [-1, 1]))
    found = effects(
        [float(a * b) for a, b in signs], {"a": [a for a, _ in signs], "b": [b for _, b in signs]}
    )
    assert found is not None
    assert [effect["share"] for effect in found["main"]] == pytest.approx([0, 0])
    assert found["interactions"][0]["share"] == pytest.approx(1)
    assert found["interactions"][0]["means"] == [[1, -1], [-1, 1]]


def test_shares_of_a_full_grid_add_up_to_one() -> None:
    values = np.random.default_rng(1).normal(size=len(GRID)).tolist()
    found = effects(values)
    assert found is not None
    assert sum(part["share"] for part in [*found["main"], *found["interactions"]]) == pytest.approx(1)


def test_factors_are_additive_in_logarithms() -> None:
    found = effects([10.0 ** A.index(a) * b for a, b in GRID], logarithmic=True, direction="max")
    assert found is not None
    assert found["interactions"][0]["share"] == pytest.approx(0, abs=1e-12)
    geometric = math.prod(B) ** 0.25
    assert found["main"][0]["means"] == pytest.approx([geometric, 10 * geometric, 100 * geometric])
    assert found["main"][0]["best"] == [4, 40, 400]


def test_sampled_numbers_are_put_into_ranges_and_noise_explains_nothing() -> None:
    rng = np.random.default_rng(2)
    x, noise = rng.uniform(0, 1, 200), rng.uniform(0, 1, 200)
    found = effects((3 * x).tolist(), {"x": x.tolist(), "noise": noise.tolist()})
    assert found is not None
    assert not found["complete"]
    x_effect, noise_effect = found["main"]
    assert x_effect["name"] == "x"
    assert len(x_effect["labels"]) == 6
    assert x_effect["means"] == sorted(x_effect["means"])
    assert x_effect["share"] > 0.9
    assert max(x_effect["counts"]) - min(x_effect["counts"]) <= 1
    assert noise_effect["share"] < 0.05
    assert found["interactions"][0]["share"] < 0.05


def test_a_conditional_parameter_has_a_level_where_it_does_not_apply() -> None:
    column = [None if a == "x" else b for a, b in GRID]
    found = effects([float(b) for _, b in GRID], {"a": COLUMNS["a"], "b": column})
    assert found is not None
    assert not found["complete"]
    (b,) = (effect for effect in found["main"] if effect["name"] == "b")
    assert b["labels"] == ["1", "2", "3", "4", "–"]
    assert b["counts"] == [2, 2, 2, 2, 4]


def test_a_single_list_of_words_keeps_its_words() -> None:
    orders = [f"order{number}" for number in range(9)]
    found = effects([float(number) for number in range(9)], {"order": orders})
    assert found is not None
    assert found["main"][0]["labels"] == orders
    assert found["main"][0]["share"] == pytest.approx(1)
    assert found["interactions"] == []


def test_many_words_are_left_out_and_said_so() -> None:
    names = [f"name{number}" for number in range(60)]
    found = effects([float(number) for number in range(60)], {"name": names, "b": [n % 2 for n in range(60)]})
    assert found is not None
    assert found["leftOut"] == ["name"]


@pytest.mark.parametrize("means", [[1.0, 2.0], [math.nan] * 12, []])
def test_too_little_has_no_effects(means: list[float]) -> None:
    assert effects(means, {name: column[: len(means)] for name, column in COLUMNS.items()}) is None


def test_equal_means_have_no_variance_to_share() -> None:
    found = effects([5.0] * 12)
    assert found is not None
    assert [effect["share"] for effect in found["main"]] == [0, 0]


def test_a_number_with_ever_new_values_is_a_scatter_and_a_pair_of_them_a_contour() -> None:
    rng = np.random.default_rng(1)
    columns = {"x": rng.random(40).tolist(), "y": rng.random(40).tolist(), "word": ["a", "b"] * 20}
    found = effects(rng.random(40).tolist(), columns)
    assert found is not None
    assert {effect["name"]: effect["binned"] for effect in found["main"]} == {
        "x": True,
        "y": True,
        "word": False,
    }
    pairs = {frozenset((pair["down"], pair["across"])): pair["binned"] for pair in found["interactions"]}
    assert pairs == {frozenset("xy"): True, frozenset(("x", "word")): False, frozenset(("y", "word")): False}
