"""Turns a queue order's Python function into the ranks or the compiled score function that kernels take."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, njit
from numba.core.errors import NumbaError

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.expression import Expression
from gridtune.batch.simulator.accounts import Facts, inputs_at, score_inputs, score_jobs, view_of
from gridtune.batch.simulator.interpreter import SCORE, interpreter
from gridtune.core.compiled import kernel
from gridtune.errors import PolicyError
from gridtune.types import Int32Array, IntArray

__all__ = ["Score", "compile_score", "static_ranks"]


class Score(NamedTuple):
    """A score as kernels take it: a compiled function of type `SCORE`, and the address of its program.

    The order that it is of keeps the program alive. A compiled function that needs no program has 0.
    """

    function: Any
    program: int


def compile_score(order: QueueOrder) -> Score:
    """Return the order's score as kernels take it: an expression as a program of the one interpreter.

    Kernels take functions by address, so they are compiled once for all orders, and their machine code stays
    in the cache on disk.

    Raises
    ------
    PolicyError
        If numba cannot compile the function; the message carries the compiler's reason.
    """
    if isinstance(order.score, Expression):
        return Score(interpreter(), order.score.program.ctypes.data)
    return Score(_compile_score(order.name, order.score, tuple(order.parameters.values())), 0)


@lru_cache(maxsize=256)
def _compile_score(name: str, function: Any, parameters: tuple[float, ...]) -> Any:
    inner = njit(function)

    def score(handles, jobs, count, now, scores, _):
        inputs = inputs_at(handles)
        for place in range(count):
            scores[place] = float(inner(view_of(inputs, jobs[place], now), *parameters))

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
    # With colours, where the terminal or a library that is installed has numba use them.
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in plain.splitlines()]
    reasons = [line for line in lines if line and not line.startswith(("Failed in nopython mode", "- "))]
    ends = (place for place, line in enumerate(reasons) if line.startswith(("During:", 'File "')))
    return " ".join(reasons[: next(ends, len(reasons))])[:300] or type(error).__name__


#: Bits of a key that a step of the sort goes by.
_DIGIT = 11


@kernel()
def _ranks(scores):
    """Return each score's place among all, ascending, equal ones in their order: a radix sort of their bits.

    A score's key is its bits, so changed that keys compare as scores do; only bits that differ are sorted.
    """
    jobs, sign = scores.size, np.uint64(1) << np.uint64(63)
    keys = (scores + 0.0).view(np.uint64)  # −0 becomes 0
    differing = np.uint64(0)
    for job in range(jobs):
        keys[job] ^= ~np.uint64(0) if keys[job] & sign else sign
        differing |= keys[job] ^ keys[0]
    order, ranks = np.arange(jobs).astype(np.int32), np.empty(jobs, np.int32)
    sorted_keys, places = np.empty(jobs, np.uint64), np.empty(1 << _DIGIT, np.int64)
    shift, mask = np.uint64(0), np.uint64((1 << _DIGIT) - 1)
    while shift < np.uint64(64) and differing >> shift != 0:
        while (differing >> shift) & np.uint64(1) == 0:
            shift += np.uint64(1)
        places[:] = 0
        for job in range(jobs):
            places[np.int64((keys[job] >> shift) & mask)] += 1
        before = 0
        for digit in range(places.size):
            count = int(places[digit])
            places[digit] = before
            before += count
        for job in range(jobs):
            bucket = np.int64((keys[job] >> shift) & mask)
            sorted_keys[places[bucket]], ranks[places[bucket]] = keys[job], order[job]
            places[bucket] += 1
        keys, sorted_keys, order, ranks = sorted_keys, keys, ranks, order
        shift += np.uint64(_DIGIT)
    for place in range(jobs):
        ranks[order[place]] = place
    return ranks


@kernel()
def _score_all(score, inputs):
    """Return every job's score; an order that never changes does not read the time."""
    jobs, scores = np.arange(inputs.submit.size).astype(np.int32), np.empty(inputs.submit.size)
    score_jobs(score, inputs, jobs, scores.size, 0, scores)
    return scores


def static_ranks(
    order: QueueOrder, submit: IntArray, walltime: IntArray, processors: IntArray, facts: Callable[[], Facts]
) -> Int32Array:
    """Return each job's place in a static order, shape (n,), int32; `facts` is called if it is needed.

    Raises
    ------
    PolicyError
        If a score is not a number.
    """
    if order.name == "fcfs":
        return np.arange(len(submit), dtype=np.int32)
    scores = _score_all(compile_score(order), score_inputs(submit, walltime, processors, facts(), 0.0))
    if np.isnan(scores).any():
        row = int(np.argmax(np.isnan(scores)))
        raise PolicyError(f"queue order {order.name!r} gives no number for the job in row {row}")
    ranks: Int32Array = _ranks(scores)
    return ranks
