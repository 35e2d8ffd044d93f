"""Fair share by hand: the classic formula, the Fair Tree, and how usage decays."""

from __future__ import annotations

import numpy as np
import pytest

from gridtune.slurm.cluster import Priorities
from gridtune.slurm.requests import Request
from gridtune.slurm.shares import ShareTree, decayed_usage
from gridtune.workload.slurm import SlurmAccounts

#: Of root's shares p has three quarters and q one; of those of p, u has a third, v two thirds, and idle none.
ACCOUNTS = SlurmAccounts(
    {"p": "root", "q": "root"},
    {"p": 3, "q": 1},
    {("p", "u"): 1, ("p", "v"): 2, ("q", "w"): 1, ("p", "idle"): 0},
)


@pytest.mark.parametrize(("dampening", "divisor"), [(0, 1), (1, 1), (5, 5)])
def test_the_classic_formula(dampening: int, divisor: int) -> None:
    tree = ShareTree(ACCOUNTS, [])
    usage = {("p", "u"): 100.0, ("p", "v"): 200.0, ("q", "w"): 100.0, ("p", "idle"): 0.0}
    rules = Priorities(fair_tree=False, dampening=dampening)
    used = np.array([usage[user] for user in tree.users])
    factors = tree.factors(used, rules, used)
    # u used 1/4 of all, and p 3/4: 1/4 + (3/4 - 1/4) / 3 = 5/12 counts against the share of 1/4. Of v,
    # 1/2 + (3/4 - 1/2) · 2/3 = 2/3 counts against 1/2; of w, 1/4 against 1/4.
    exponents = {("p", "u"): 5 / 3, ("p", "v"): 4 / 3, ("q", "w"): 1.0}
    expected = {user: 2 ** (-exponent / divisor) for user, exponent in exponents.items()}
    assert dict(zip(tree.users, factors, strict=True)) == pytest.approx({**expected, ("p", "idle"): 0.0})


def test_the_classic_formula_takes_accounts_as_they_were_before_the_tick() -> None:
    tree = ShareTree(ACCOUNTS, [])
    usage = {("p", "u"): 100.0, ("p", "v"): 200.0, ("q", "w"): 100.0, ("p", "idle"): 0.0}
    used = np.array([usage[user] for user in tree.users])
    factors = tree.factors(used, Priorities(fair_tree=False), np.zeros(len(used)))
    # As in recorded runs: p had used nothing yet, so 1/4 + (0 - 1/4) / 3 = 1/6 counts against 1/4.
    assert factors[tree.users.index(("p", "u"))] == pytest.approx(2 ** (-2 / 3))


def test_the_fair_tree() -> None:
    tree = ShareTree(ACCOUNTS, [])
    usage = {("p", "u"): 100.0, ("p", "v"): 300.0, ("q", "w"): 100.0, ("p", "idle"): 0.0}
    used = np.array([usage[user] for user in tree.users])
    factors = tree.factors(used, Priorities(), used)
    # q used a fifth of all and has a quarter. In p, u used a quarter and has a third.
    expected = {("q", "w"): 1.0, ("p", "u"): 0.75, ("p", "v"): 0.5, ("p", "idle"): 0.25}
    assert dict(zip(tree.users, factors, strict=True)) == expected


def test_who_is_in_no_file_has_a_share_of_one_and_nothing_is_used_at_first() -> None:
    tree = ShareTree(ACCOUNTS, [("p", "new"), ("other", "x")])
    factors = tree.factors(np.zeros(len(tree.users)), Priorities(fair_tree=False), np.zeros(len(tree.users)))
    of = dict(zip(tree.users, factors, strict=True))
    assert of == {**dict.fromkeys(of, 1.0), ("p", "idle"): 0.0}
    assert {part for part, name, _ in tree.below["root"] if name == "other"} == {1 / 5}
    assert {part for part, _, number in tree.below["p"] if tree.users[number] == ("p", "new")} == {1 / 4}


def test_usage_halves_in_a_half_life() -> None:
    def job(user: str, cpus: int) -> Request:
        return Request(1, 0, 100, 100, user, "p", ("all",), tasks=cpus)

    ran = [(job("u", 2), 100, 200), (job("v", 1), 900, 1000), (job("v", 3), 990, 1000)]
    assert decayed_usage(Priorities(half_life=0), 1000, ran) == {("p", "u"): 200, ("p", "v"): 130}
    decayed = decayed_usage(Priorities(half_life=400), 1000, ran)
    seconds = {start: 0.5 ** ((1000 - np.arange(start + 0.5, end)) / 400) for _, start, end in ran}
    assert decayed["p", "u"] == pytest.approx(2 * seconds[100].sum(), rel=1e-5)
    assert decayed["p", "v"] == pytest.approx(seconds[900].sum() + 3 * seconds[990].sum(), rel=1e-5)
