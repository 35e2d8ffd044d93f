"""Prepares tournaments of a log's jobs: which of them are alike to an order, and what bounds their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from gridtune.batch.simulator.tournament import GROUPS, SCORES, USERS, WAIT, Columns, new_columns

__all__ = ["Entrants", "Rule", "group_jobs"]

Int32s = npt.NDArray[np.int32]

#: The accounts whose use a score may read, and the basis of its bounds then.
_USAGES = {"user_usage": ("user", USERS), "group_usage": ("group", GROUPS)}
#: The fields that do not change on which those that do depend.
_BEHIND = {"user_usage": {"user"}, "group_usage": {"group"}, "prediction": {"user", "walltime"}}


class Rule(NamedTuple):
    """What a tournament needs of an order; `basis` is one of `tournament`, `root` that of `Bounds`."""

    basis: int
    root: float
    columns: Columns


class Entrants(NamedTuple):
    """The jobs in their classes, with one rule for each order."""

    classes: Classes
    shapes: Shapes
    rules: list[Rule]


class _Order(NamedTuple):
    """Two jobs that are equal in `fields` are alike to an order; `account` is the owner of the use."""

    fields: frozenset[str]
    basis: int
    bounds: Bounds | None
    account: str | None = None


def group_jobs(orders: Sequence[QueueOrder], inputs: ScoreInputs, bounded: bool) -> Entrants:
    """Group the jobs of a log for tournaments under some orders.

    Parameters
    ----------
    orders
        One, or the queue's and the backfilling's.
    inputs
        What their scores depend on.
    bounded
        Whether to use bounds; else every score is computed in every pass.
    """
    facts, jobs = inputs.facts, len(inputs.submit)
    columns = {
        "submit_time": inputs.submit, "walltime": inputs.walltime, "processors": inputs.processors,
        "user": facts.user, "group": facts.group, "queue": facts.queue, "partition": facts.partition,
    }  # fmt: skip
    read = [_read_order(order, columns, jobs, bounded) for order in orders]
    columns["job"] = np.arange(jobs)
    owner = next((order.account for order in read if order.account), None)
    account = np.zeros(jobs, np.int32)
    if owner is not None:
        account = (inputs.users if owner == "user" else inputs.groups).account
    fields = sorted(frozenset().union(*(order.fields for order in read)))
    classes, places, shapes = new_classes(
        [columns[field] for field in fields], account, inputs.processors, inputs.walltime
    )
    rules = []
    for order in read:
        basis = order.basis if order.account in (None, owner) else SCORES
        kind = np.zeros(places.leaves, np.int32)
        if order.fields:
            kind[places.number] = number_rows([columns[field][places.first] for field in order.fields])[0]
        lines, root = np.zeros((places.leaves, 6)), 1.0
        if order.bounds is not None:
            lines[places.number], root = order.bounds.lines[places.first], order.bounds.root
        rules.append(Rule(basis, root, new_columns(kind, lines, places.top, jobs)))
    return Entrants(classes, shapes, rules)


def _read_order(
    order: QueueOrder, columns: Mapping[str, npt.NDArray[Any]], jobs: int, bounded: bool
) -> _Order:
    formula = formula_of(order) if bounded else None
    if formula is None:
        return _Order(frozenset({"job"}), SCORES, None)
    fields, owner, names = formula.names - CHANGING_FIELDS, None, formula.names
    for name in names & _BEHIND.keys():
        fields |= _BEHIND[name]
    bounds, basis = score_bounds(formula, columns, jobs), WAIT
    for usage, (account, its_basis) in _USAGES.items():
        if usage in names and bounds is not None:
            owner, basis = account, its_basis
    # Of jobs that differ in the submission only, the earliest stays first if a job gains by waiting.
    gains = bounds is not None and bool((bounds.lines[:, 3] <= 0).all())
    if names & {"now", "submit_time"} or ("wait" in names and not gains):
        fields |= {"submit_time"}
    return _Order(fields, SCORES if bounds is None else basis, bounds, owner)
