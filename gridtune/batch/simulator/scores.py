"""Scores of queue orders, compiled, and their inputs: facts of jobs, and the use by users and groups.

An order's Python function becomes a compiled function; an expression becomes a program of one interpreter, a
compiled function for all of them.
"""

from __future__ import annotations

import contextlib
import math
import re
import traceback
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import njit, types
from numba.core.errors import NumbaError

from gridtune.batch.policies import QueueOrder
from gridtune.batch.policies.expression import BLOCK, OPERATIONS, Expression, JobView
from gridtune.batch.predictors.replayed import ENDED, STARTED, SUBMITTED, JobError, PredictedReplay
from gridtune.batch.simulator.nodes import NEVER
from gridtune.core.compiled import _pointer, address, array_at, callback, handles_of, kernel
from gridtune.errors import PolicyError
from gridtune.registry import is_ours
from gridtune.types import FloatArray, Int32Array, IntArray
from gridtune.workload.workload import Workload

#: What an infinite score, or one that is not a number, does: it fails the run, or the job goes last.
Undefined = Literal["fail", "last"]


class Facts(NamedTuple):
    """Columns of shape (n,) that orders may read beside a job's submission, walltime and size."""

    user: IntArray
    group: IntArray
    queue: IntArray
    partition: IntArray
    lot: FloatArray


def facts_of(workload: Workload, lots: FloatArray) -> Facts:
    """Return the facts of a workload's jobs; unknown where the log lacks a column."""
    owners = [np.ascontiguousarray(workload.column(name)) for name in Facts._fields[:4]]
    for column in owners:
        # Also where the log lacks the column: kernels are compiled for one type of each.
        column.setflags(write=False)
    return Facts._make([*owners, lots])


class _Usage(NamedTuple):
    """Processor-seconds used by each account (a user or a group).

    An account has used `used` until second `since`, and `rate` more in every second after it. `account[job]`
    is the account that a job is charged to.
    """

    account: Int32Array
    used: FloatArray
    since: IntArray
    rate: IntArray


#: Kinds of failure: a score that is infinite or not a number, and an exception. The larger one is kept.
_NOT_FINITE, _RAISED = 1, 2
#: Where a failure has the fields of its job: behind the half-life, its kind, the job and the time.
_FIELDS_FROM = 4


class ScoreInputs(NamedTuple):
    """All that scores depend on.

    `predicted` and `early` are the predictions of jobs that have been submitted (`PredictedReplay`, with
    `watch` and `tell`). `half_life[0]` is in seconds; 0: use never fades. The cells behind it note the
    first score that could not be used: the kind of failure, the job, the time, and the job's fields (a column
    of its own slows kernels that pass these on). `handles` are those of all the arrays before it; `job` and
    `score` have one cell each, for `score_job`. Jobs that have waited for more than `guard[0]` seconds score
    lowest.
    """

    submit: IntArray
    walltime: IntArray
    processors: IntArray
    facts: Facts
    users: _Usage
    groups: _Usage
    predicted: FloatArray
    early: FloatArray
    half_life: FloatArray
    handles: IntArray
    job: Int32Array
    score: FloatArray
    guard: IntArray
    watch: IntArray
    tell: Any


def score_inputs(
    submit: IntArray,
    walltime: IntArray,
    processors: IntArray,
    facts: Facts,
    half_life: float,
    guard: int | None = None,
    predictions: PredictedReplay | None = None,
) -> ScoreInputs:
    """Return the inputs before the first job arrives, when nothing has been used."""
    users, groups = _new_usage(facts.user), _new_usage(facts.group)
    said = PredictedReplay(len(submit)) if predictions is None else predictions
    fading = np.zeros(_FIELDS_FROM + len(JobView._fields))
    fading[0] = half_life
    columns = (submit, walltime, processors, facts, users, groups, said.mean, said.early_end, fading)
    flat: list[Any] = [submit, walltime, processors, *facts, *users, *groups]
    flat += [said.mean, said.early_end, fading, *said.memory]
    scratch = np.empty(1, np.int32), np.empty(1), np.array([NEVER if guard is None else guard])
    return ScoreInputs(*columns, handles_of(flat), *scratch, said.watch, said.tell)


def _new_usage(owner: IntArray) -> _Usage:
    least, most = int(owner.min(initial=0)), int(owner.max(initial=0))
    count = most - least + 1
    account = owner - least
    if count > max(64, len(owner) // 8):
        numbers, account = np.unique(owner, return_inverse=True)
        count = len(numbers)
    zeros = np.zeros(count, np.int64)
    return _Usage(account.astype(np.int32), np.zeros(count), zeros, zeros.copy())


@kernel()
def _usage_at(handles, place):
    return _Usage(
        array_at(handles, place, np.int32),
        array_at(handles, place + 1, np.float64),
        array_at(handles, place + 2, np.int64),
        array_at(handles, place + 3, np.int64),
    )


@kernel()
def _inputs_at(handles):
    """Return the inputs whose handles these are, for reading."""
    submit, walltime, processors = (
        array_at(handles, 0, np.int64), array_at(handles, 1, np.int64), array_at(handles, 2, np.int64)
    )  # fmt: skip
    facts = Facts(
        array_at(handles, 3, np.int64), array_at(handles, 4, np.int64), array_at(handles, 5, np.int64),
        array_at(handles, 6, np.int64), array_at(handles, 7, np.float64),
    )  # fmt: skip
    users, groups = _usage_at(handles, 8), _usage_at(handles, 12)
    predicted, early = array_at(handles, 16, np.float64), array_at(handles, 17, np.float64)
    fading = array_at(handles, 18, np.float64)
    scratch = handles, users.account, fading, handles, handles, 0  # not used
    return ScoreInputs(submit, walltime, processors, facts, users, groups, predicted, early, fading, *scratch)


@kernel(forceinline=True)
def used(usage, account, now, half_life):
    """Return an account's use until now; with a half-life, older use counts less."""
    seconds = now - usage.since[account]
    if half_life <= 0.0:
        return usage.used[account] + usage.rate[account] * seconds
    rate = math.log(2.0) / half_life
    remaining = math.exp(-rate * seconds)
    return usage.used[account] * remaining + usage.rate[account] * (1.0 - remaining) / rate


@kernel(forceinline=True)
def _charge(usage, job, width, now, half_life):
    account = usage.account[job]
    usage.used[account] = used(usage, account, now, half_life)
    usage.since[account] = now
    usage.rate[account] += width


@kernel(forceinline=True)
def charge(inputs, job, width, now):
    """Charge a job's accounts for `width` more processors from now on; a negative width ends the charge."""
    if inputs is None:
        return
    _charge(inputs.users, job, width, now, inputs.half_life[0])
    _charge(inputs.groups, job, width, now, inputs.half_life[0])
    if inputs.watch[0] and width > 0:
        inputs.tell(address(inputs.handles), STARTED, job, 0, now)


@kernel()
def note_submission(inputs, job, now):
    """Ask the predictor, if any, for a job that has been submitted."""
    if inputs is None:
        return
    if inputs.watch[0]:
        inputs.tell(address(inputs.handles), SUBMITTED, job, 0, now)


@kernel()
def note_run_time(inputs, job, run, now):
    """Tell the predictor, if any, the run time of a job that ends now."""
    if inputs is None:
        return
    if inputs.watch[0]:
        inputs.tell(address(inputs.handles), ENDED, job, run, now)


@kernel(forceinline=True)
def _view_of(inputs, job, now):
    """Return a waiting job as orders see it now."""
    facts, users, groups, half_life = inputs.facts, inputs.users, inputs.groups, inputs.half_life[0]
    return JobView(
        inputs.submit[job], inputs.walltime[job], inputs.processors[job], facts.user[job], facts.group[job],
        facts.queue[job], facts.partition[job], now - inputs.submit[job], now,
        used(users, users.account[job], now, half_life), used(groups, groups.account[job], now, half_life),
        facts.lot[job], inputs.predicted[job], inputs.early[job],
    )  # fmt: skip


@kernel(forceinline=True)
def _numbers_of(inputs, job, now):
    """Return a waiting job as orders see it now, all in floating point."""
    facts, users, groups, half_life = inputs.facts, inputs.users, inputs.groups, inputs.half_life[0]
    return JobView(
        float(inputs.submit[job]), float(inputs.walltime[job]), float(inputs.processors[job]),
        float(facts.user[job]), float(facts.group[job]), float(facts.queue[job]), float(facts.partition[job]),
        float(now - inputs.submit[job]), float(now), used(users, users.account[job], now, half_life),
        used(groups, groups.account[job], now, half_life), facts.lot[job], inputs.predicted[job],
        inputs.early[job],
    )  # fmt: skip


@kernel(inline="always")
def score_jobs(score, inputs, jobs, count, now, scores):
    """Write the scores now of the first `count` of some waiting jobs."""
    score.function(address(inputs.handles), address(jobs), count, now, address(scores), score.program)
    if now > inputs.guard[0]:
        for place in range(count):
            if now - inputs.submit[jobs[place]] > inputs.guard[0]:
                scores[place] = -math.inf  # of equal scores the job submitted first goes first


@kernel(forceinline=True)
def score_job(score, inputs, job, now):
    """Return a waiting job's score now."""
    inputs.job[0] = job
    score_jobs(score, inputs, inputs.job, 1, now, inputs.score)
    return inputs.score[0]


#: The machine-level type of every score: it takes the handles of the inputs, the jobs and their number, the
#: time, where to write the scores, and the address of a program.
SCORE = types.void(
    types.CPointer(types.int64), types.CPointer(types.int32), types.int64, types.int64,
    types.CPointer(types.float64), types.int64,
)  # fmt: skip

(
    CONSTANT, FIELD, ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, NEGATIVE, LOG, LOG2, LOG10, SQRT, EXP, ABS,
    MIN, MAX, LESS, GREATER,
) = range(len(OPERATIONS))  # fmt: skip
(
    SUBMIT, WALLTIME, PROCESSORS, USER, GROUP, QUEUE, PARTITION, WAIT, NOW, USER_USAGE, GROUP_USAGE, LOT,
    PREDICTION, _,
) = range(len(JobView._fields))  # fmt: skip


@kernel(forceinline=True)
def _field(inputs, field, job, now):  # noqa: PLR0911
    """Return the field at a place of a waiting job's `JobView`."""
    facts, users, groups, half_life = inputs.facts, inputs.users, inputs.groups, inputs.half_life[0]
    if field == SUBMIT:
        return float(inputs.submit[job])
    if field == WALLTIME:
        return float(inputs.walltime[job])
    if field == PROCESSORS:
        return float(inputs.processors[job])
    if field == USER:
        return float(facts.user[job])
    if field == GROUP:
        return float(facts.group[job])
    if field == QUEUE:
        return float(facts.queue[job])
    if field == PARTITION:
        return float(facts.partition[job])
    if field == WAIT:
        return float(now - inputs.submit[job])
    if field == NOW:
        return float(now)
    if field == USER_USAGE:
        return used(users, users.account[job], now, half_life)
    if field == GROUP_USAGE:
        return used(groups, groups.account[job], now, half_life)
    if field == LOT:
        return facts.lot[job]
    return inputs.predicted[job] if field == PREDICTION else inputs.early[job]


@kernel()
def _note_failure(inputs, kind, job, now):
    """Note a score that cannot be used, unless one of this kind has been noted before."""
    failure = inputs.half_life
    if kind <= failure[1]:
        return
    failure[1], failure[2], failure[3] = kind, job, now
    for field in range(failure.size - _FIELDS_FROM):
        failure[_FIELDS_FROM + field] = _field(inputs, field, job, now)


@kernel(inline="always")
def _of_one(code, x):  # noqa: PLR0911
    if code == NEGATIVE:
        return -x
    if code == LOG:
        return math.log(x)
    if code == LOG2:
        return math.log2(x)
    if code == LOG10:
        return math.log10(x)
    if code == SQRT:
        return math.sqrt(x)
    if code == EXP:
        return math.exp(x)
    return abs(x)


@kernel(inline="always", error_model="numpy")
def _of_two(code, x, y):
    if code == POWER:
        return math.pow(x, y)
    if code == MIN:
        return y if y < x else x
    if code == MAX:
        return y if y > x else x
    if code == LESS:
        return 1.0 if x < y else 0.0
    return 1.0 if x > y else 0.0


@kernel(error_model="numpy")
def _combine(program, code, top, count):
    """Apply an operation to a row of the stack and the one above it; the usual ones in loops of their own."""
    if code == ADD:
        for place in range(top, top + count):
            program[place] += program[place + BLOCK]
    elif code == SUBTRACT:
        for place in range(top, top + count):
            program[place] -= program[place + BLOCK]
    elif code == MULTIPLY:
        for place in range(top, top + count):
            program[place] *= program[place + BLOCK]
    elif code == DIVIDE:
        for place in range(top, top + count):
            program[place] /= program[place + BLOCK]
    else:
        for place in range(top, top + count):
            program[place] = _of_two(code, program[place], program[place + BLOCK])


@kernel(error_model="numpy", forceinline=True)
def _interpret(inputs, jobs, first, count, now, program):
    """Leave the values of a program for `count` jobs from the `first` on in its stack; return where."""
    length = int(program[0])
    top = 1 + 2 * length - BLOCK  # the stack begins above it
    for number in range(length):
        code, operand = int(program[1 + 2 * number]), program[2 + 2 * number]
        if code <= FIELD:
            top += BLOCK
            for place in range(top, top + count):
                program[place] = operand
            if code == FIELD:
                for place in range(count):
                    program[top + place] = _field(inputs, int(operand), jobs[first + place], now)
        elif NEGATIVE <= code <= ABS:
            for place in range(top, top + count):
                program[place] = _of_one(code, program[place])
        else:
            top -= BLOCK
            _combine(program, code, top, count)
    return top


@cache
def _interpreter() -> Any:
    """Return the interpreter as a compiled function of type `SCORE`.

    A score that is not a number becomes infinite. The first that is not finite is noted as a failure.
    """

    def score(handles, jobs, count, now, scores, address):
        inputs, program = _inputs_at(handles), _pointer(address, np.float64)
        for first in range(0, count, BLOCK):
            many = min(count - first, BLOCK)
            top = _interpret(inputs, jobs, first, many, now, program)
            for place in range(many):
                value = program[top + place]
                if not math.isfinite(value):
                    _note_failure(inputs, _NOT_FINITE, jobs[first + place], now)
                scores[first + place] = math.inf if math.isnan(value) else value

    return callback(SCORE, score)


class _Score(NamedTuple):
    """A score as kernels take it: a compiled function of type `SCORE`, and the address of its program.

    The order that it is of keeps the program alive. A compiled function that needs no program has 0.
    """

    function: Any
    program: int


def compile_score(order: QueueOrder) -> _Score:
    """Return the order's score as kernels take it: an expression as a program of the one interpreter.

    Kernels take functions by address, so they are compiled once for all orders, and their machine code stays
    in the cache on disk.

    Raises
    ------
    PolicyError
        If numba cannot compile the function; the message carries the compiler's reason. Or if it is a policy
        that decides.
    """
    if order.decides:
        hint = "it goes as order= of a replay of batch, with backfill=easy"
        raise PolicyError(f"policy {order.label!r} decides itself and has no scores of jobs", hint=hint)
    if isinstance(order.score, Expression):
        return _Score(_interpreter(), order.score.program.ctypes.data)
    return _Score(_compile_score(order.name, order.score, tuple(order.parameters.values())), 0)


@lru_cache(maxsize=256)
def _compile_score(name: str, function: Any, parameters: tuple[float, ...]) -> Any:
    if is_ours(function.__module__):
        inner = njit(function)

        def score(handles, jobs, count, now, scores, _):
            inputs = _inputs_at(handles)
            for place in range(count):
                scores[place] = float(inner(_view_of(inputs, jobs[place], now), *parameters))

        return callback(SCORE, score, _content_of(function, parameters))
    try:
        try:
            compiled = njit(error_model="numpy", boundscheck=True)(function)
            return _compile_checked(compiled, parameters, _numbers_of)
        except (NumbaError, AssertionError):  # it may need whole numbers, for an index or a range
            return _compile_checked(njit(boundscheck=True)(function), parameters, _view_of)
    # Some errors in a function fail an assertion within numba itself, or a conversion: of text, say.
    except (NumbaError, AssertionError, ValueError) as error:
        raise PolicyError(
            f"queue order {name!r} does not compile: {_reason(error)}",
            path=function.__code__.co_filename,
            line=_line_of(error, function),
            hint="plain arithmetic and `math` functions of the job's fields compile, and helpers under "
            "`@numba.njit`; see docs/simulation.md",
        ) from error


def _compile_checked(inner: Any, parameters: tuple[float, ...], view_of: Any) -> Any:
    """Return a user's function as one of type `SCORE` that notes its failures; these scores are infinite.

    The function sees numbers in floating point, as expressions do, so that products of integers cannot
    overflow, and it divides by zero as they do.
    """

    @njit
    def value_of(inputs, job, now):
        return float(inner(view_of(inputs, job, now), *parameters))

    def score(handles, jobs, count, now, scores, _):
        inputs = _inputs_at(handles)
        for place in range(count):
            value, failed = math.inf, _NOT_FINITE
            try:
                value = value_of(inputs, jobs[place], now)
            except Exception:
                failed = _RAISED
            if not math.isfinite(value):
                _note_failure(inputs, failed, jobs[place], now)
            scores[place] = math.inf if math.isnan(value) else value

    content = _content_of(inner.py_func, (*parameters, view_of.__name__))
    return callback(SCORE, score, content)


def _content_of(function: Any, settings: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return all that a function's machine code is made from, with settings of its own.

    None if it needs more than numbers, functions that Python has built in, and modules of functions: other
    things that it refers to may change while its code stays the same.
    """
    code, outer = function.__code__, function.__globals__
    values = {name: outer[name] for name in code.co_names if name in outer}
    known = all(
        type(value) in (int, float, bool) or value is math or value is np for value in values.values()
    )
    plain = all(isinstance(one, int | float | str | tuple | None) for one in code.co_consts)
    if code.co_freevars or not (known and plain):
        return None
    fixed = sorted((name, repr(value)) for name, value in values.items())
    constants = repr(code.co_consts)
    # Machine code names the module of its function, which must be there when it is read.
    return function.__module__, code.co_code, constants, code.co_names, code.co_varnames, *fixed, *settings


@contextlib.contextmanager
def naming_jobs(numbers: IntArray) -> Iterator[None]:
    """Have errors name a job by its number in the log; `numbers` has them by row."""
    try:
        yield
    except JobError as error:
        raise PolicyError(f"{error.reason}, for job {numbers[error.job]}", hint=error.hint) from None


def check_scores(orders: Iterable[QueueOrder], inputs: ScoreInputs, undefined: Undefined) -> None:
    """Raise an error if a score has failed since these inputs were made.

    Parameters
    ----------
    orders
        Those that the jobs have been scored by.
    inputs
        Their inputs, after the run.
    undefined
        Whether a score that is infinite or not a number is a failure; an exception always is one.

    Raises
    ------
    PolicyError
        For the first failure, with its reason.
    """
    _, kind, job, now, *fields = inputs.half_life.tolist()
    if kind == 0 or (kind == _NOT_FINITE and undefined == "last"):
        return
    reason = next(filter(None, (_failure_of(order, fields) for order in orders)), "a queue order fails")
    # Static orders are computed before any job is submitted.
    instant = max(now, fields[JobView._fields.index("submit_time")])
    hint = "what may divide by zero needs a guard, as in `walltime / max(wait, 1)`"
    if kind == _NOT_FINITE:
        hint += "; undefined_scores=last lets such jobs go last"
    raise JobError(int(job), f"{reason} at second {instant:,.0f}", hint)


def _failure_of(order: QueueOrder, fields: list[float]) -> str | None:
    """Return why an order does not score the job of these fields; None if, in plain Python, it does."""
    try:
        value = order(JobView(*(int(field) if field.is_integer() else field for field in fields)))
    except Exception as error:
        lines = [line for _, line in traceback.walk_tb(error.__traceback__)]
        file = getattr(getattr(order.score, "__code__", None), "co_filename", "the function")
        return f"queue order {order.label!r} fails: {error} ({file}, line {lines[-1]})"
    return None if math.isfinite(value) else f"queue order {order.label!r} gives {value} and no finite number"


def _plain(error: BaseException) -> str:
    """Return a message without the colours that the terminal or a library may have numba use."""
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error))


def _reason(error: Exception) -> str:
    """Return the compiler's reason, without the positions in its own code."""
    lines = [line.strip() for line in _plain(error).splitlines()]
    reasons = [line for line in lines if line and not line.startswith(("Failed in nopython mode", "- "))]
    ends = (place for place, line in enumerate(reasons) if line.startswith(("During:", 'File "')))
    return " ".join(reasons[: next(ends, len(reasons))])[:300] or type(error).__name__


def _line_of(error: BaseException, function: Any) -> int | None:
    """Return the line of a function that the compiler's message names, else the function's own."""
    file = re.escape(Path(function.__code__.co_filename).name)  # numba shortens the folders
    lines = re.findall(rf'File "[^"]*{file}", line (\d+)', _plain(error))
    return int(lines[-1]) if lines else function.__code__.co_firstlineno
