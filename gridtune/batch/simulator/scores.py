"""Turns a queue order's Python function into the ranks or the compiled score function that kernels take."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cfunc, njit, types
from numba.core.errors import NumbaError

from gridtune.batch.policies import JobView, QueueOrder
from gridtune.batch.simulator.accounts import Facts
from gridtune.core.compiled import kernel
from gridtune.errors import PolicyError

__all__ = ["SCORE", "compile_score", "static_ranks"]

Int64s = npt.NDArray[np.int64]

#: The machine-level type of a score function: the fields of `JobView`, flat.
SCORE = types.float64(*[types.int64] * 9, *[types.float64] * 3)


def compile_score(order: QueueOrder) -> Any:
    """Return the order's score as a compiled function, typed `SCORE` whatever the order.

    Kernels take it by address, so they are compiled once for all orders, and their machine code stays in the
    cache on disk.

    Raises
    ------
    PolicyError
        If numba cannot compile the function; the message carries the compiler's reason.
    """
    return _compile_score(order.name, order.score, tuple(order.parameters.values()))


@lru_cache(maxsize=256)
def _compile_score(name: str, function: Any, parameters: tuple[float, ...]) -> Any:
    inner = njit(function)

    def score(submit, walltime, width, user, group, queue, part, wait, now, by_user, by_group, lot):
        job = JobView(submit, walltime, width, user, group, queue, part, wait, now, by_user, by_group, lot)
        return float(inner(job, *parameters))

    try:
        return cfunc(SCORE)(score)
    # Some errors in a function fail an assertion within numba itself.
    except (NumbaError, AssertionError) as error:
        raise PolicyError(
            f"queue order {name!r} does not compile: {_reason(error)}",
            hint="plain arithmetic and `math` functions of the job's fields compile; see docs/simulation.md",
        ) from error


def _reason(error: Exception) -> str:
    """Return the compiler's reason, without the positions in its own code."""
    lines = [line.strip() for line in str(error).splitlines()]
    reasons = [line for line in lines if line and not line.startswith(("Failed in nopython mode", "- "))]
    ends = (place for place, line in enumerate(reasons) if line.startswith(("During:", 'File "')))
    return " ".join(reasons[: next(ends, len(reasons))])[:300] or type(error).__name__


@kernel()
def _score_all(score, submit, walltime, processors, facts):
    """Return every job's score at its submission, with nothing used yet."""
    scores = np.empty(submit.size)
    for job in range(submit.size):
        scores[job] = score(
            submit[job], walltime[job], processors[job], facts.user[job], facts.group[job],
            facts.queue[job], facts.partition[job], 0, submit[job], 0.0, 0.0, facts.lot[job],
        )  # fmt: skip
    return scores


def static_ranks(
    order: QueueOrder, submit: Int64s, walltime: Int64s, processors: Int64s, facts: Facts
) -> npt.NDArray[np.int32]:
    """Return each job's place in a static order, shape (n,), int32.

    Raises
    ------
    PolicyError
        If a score is not a number.
    """
    if order.name == "fcfs":
        return np.arange(len(submit), dtype=np.int32)
    scores = _score_all(compile_score(order), submit, walltime, processors, facts)
    if np.isnan(scores).any():
        row = int(np.argmax(np.isnan(scores)))
        raise PolicyError(f"queue order {order.name!r} gives no number for the job in row {row}")
    ranks = np.empty(len(submit), np.int32)
    ranks[np.argsort(scores, kind="stable")] = np.arange(len(submit), dtype=np.int32)
    return ranks
