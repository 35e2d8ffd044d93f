"""Machine code of scores is kept on disk, and never stands for another function."""

from __future__ import annotations

import math

import numba
import pytest

from gridtune.batch.policies import QueueOrder, get_queue_order
from gridtune.batch.simulator.scores import compile_score

FORMULA = "return WEIGHT * weight * job.processors - math.log(job.walltime + 1.0)"


def compiled(body: str = FORMULA, weight: float = 2.0, **outer: object) -> object:
    """Return the score of a function with this body, as in a process of its own."""
    names = {"__name__": "script", "math": math, "WEIGHT": 3.0, **outer}
    exec(f"def score(job, weight):\n    {body}\n", names)
    return compile_score(QueueOrder("own", names["score"], "", {"weight": weight})).function


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))


def test_the_same_function_is_compiled_once():
    assert [compiled().cache_hits, compiled().cache_hits] == [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"weight": 2.5},
        {"WEIGHT": 4.0},
        {"WEIGHT": 3},
        {"body": FORMULA.replace("1.0", "2.0")},
        {"__name__": "another"},
    ],
)
def test_another_one_is_compiled_again(change):
    compiled()
    assert compiled(**change).cache_hits == 0


def test_what_may_change_unseen_is_compiled_in_every_process():
    for helper in (numba.njit(lambda weight: weight), (3.0, 4.0)):
        body = "return job.wait * WEIGHT[1]" if isinstance(helper, tuple) else "return WEIGHT(job.wait)"
        assert [compiled(body, WEIGHT=helper).cache_hits for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("order", ["sjf", "wfp3", "f1", "fair-user", "unicef", "edf"])
def test_shipped_orders_are_kept(order):
    compile_score.__globals__["_compile_score"].cache_clear()
    compile_score(get_queue_order(order))
    compile_score.__globals__["_compile_score"].cache_clear()
    assert compile_score(get_queue_order(order)).function.cache_hits == 1
