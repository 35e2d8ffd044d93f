"""Prepares tournaments of a log's jobs: which of them are alike to an order, and what bounds their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.formula import formula_of
from gridtune.batch.policies.job_view import CHANGING_FIELDS
from gridtune.batch.simulator.accounts import ScoreInputs
from gridtune.batch.simulator.bounds import Bounds, score_bounds
from gridtune.batch.simulator.classes import Classes, new_classes, number_rows
from gridtune.batch.simulator.shapes import Shapes
from gridtune.batch.simulator.tournament import GROUPS, USERS, WAIT, Rule, new_columns

__all__ = ["Entrants", "group_jobs", "nobody"]


#: The accounts whose use a score may read, and the basis of its bounds then.
_USAGES = {"user_usage": ("user", USERS), "group_usage": ("group", GROUPS)}


class Entrants(NamedTuple):
    """The jobs in their classes, with the rules of the queue's and of the backfilling's order."""

    classes: Classes
    shapes: Shapes
    rule: Rule
    fill_rule: Rule


class _Order(NamedTuple):
    """Two jobs that are equal in `fields` are alike to an order; `account` is the owner of the use."""

    fields: frozenset[str]
    basis: int
    bounds: Bounds
    account: str | None = None


@cache
def nobody() -> Entrants:
    """Return what tournaments need in which no job will ever be."""
    none = np.empty(0, np.int64)
    classes, places, shapes = new_classes([], none.astype(np.int32), none, none)
    kind, lines = np.zeros(places.leaves, np.int32), np.zeros((places.leaves, 6))
    rule = Rule(WAIT, 1.0, new_columns(kind, lines, places.top, 0))
    return Entrants(classes, shapes, rule, rule)


def group_jobs(orders: Sequence[QueueOrder], inputs: ScoreInputs) -> Entrants | None:
    """Group the jobs of a log for tournaments under some orders; None if nothing bounds the scores of one.

    Parameters
    ----------
    orders
        One, or the queue's and the backfilling's.
    inputs
        What their scores depend on.
    """
    facts, jobs = inputs.facts, len(inputs.submit)
    columns = {
        "submit_time": inputs.submit, "walltime": inputs.walltime, "processors": inputs.processors,
        "user": facts.user, "group": facts.group, "queue": facts.queue, "partition": facts.partition,
    }  # fmt: skip
    read = [bounded for order in orders if (bounded := _read_order(order, columns, jobs))]
    owners = {order.account for order in read if order.account}
    if len(read) < len(orders) or len(owners) > 1:
        return None
    account = np.zeros(jobs, np.int32)
    for owner in owners:
        account = (inputs.users if owner == "user" else inputs.groups).account
    fields = sorted(frozenset().union(*(order.fields for order in read)))
    classes, places, shapes = new_classes(
        [columns[field] for field in fields], account, inputs.processors, inputs.walltime
    )
    rules = []
    for order in read:
        kind = np.zeros(places.leaves, np.int32)
        if order.fields:
            kind[places.number] = number_rows([columns[field][places.first] for field in order.fields])[0]
        lines = np.zeros((places.leaves, 6))
        lines[places.number] = order.bounds.lines[places.first]
        rules.append(Rule(order.basis, order.bounds.root, new_columns(kind, lines, places.top, jobs)))
    return Entrants(classes, shapes, rules[0], rules[-1])


def _read_order(order: QueueOrder, columns: Mapping[str, npt.NDArray[Any]], jobs: int) -> _Order | None:
    formula = formula_of(order)
    bounds = None if formula is None else score_bounds(formula, columns, jobs)
    if formula is None or bounds is None:
        return None
    names, owner, basis = formula.names, None, WAIT
    fields = names - CHANGING_FIELDS
    for usage, (account, its_basis) in _USAGES.items():
        if usage in names:
            fields, owner, basis = fields | {account}, account, its_basis
    # Of jobs that differ in the submission only, the earliest stays first if a job gains by waiting.
    gains = bool((bounds.lines[:, 3] <= 0).all())
    if names & {"now", "submit_time"} or ("wait" in names and not gains):
        fields |= {"submit_time"}
    return _Order(fields, basis, bounds, owner)
