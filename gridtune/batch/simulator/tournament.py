"""A tournament of waiting jobs under an order that changes while they wait, compiled.

A binary tree stands over *classes* of jobs. The jobs of a class are alike in processors, walltime and all
else that the orders read, but for the submission; and the orders put the one submitted earlier first, for
ever. So only the fronts of the classes are compared. A leaf has its class's front job; every other node has
the better of its two children's jobs, so that the root has the queue's head. A node also has the time until
which the result of its comparison holds: for ever between jobs that are alike to the order; else until the
bounds of their scores (`grouping.score_bounds`) meet. A pass only repeats comparisons that may have changed.
(A *kinetic tournament*: Basch, Guibas and Hershberger 1999, doi:10.1006/jagm.1998.0988.)

Each node has the shortest walltime and the fewest processors that wait below it, too: the search for the best
job that may be backfilled leaves out what cannot have one, and what has no better one. The *shapes*
that wait, pairs of processors and walltime, tell at once if there is any: they are numbered by processors,
then walltime, and marked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.batch.simulator.nodes import NEVER, start_of
from gridtune.batch.simulator.scores import ScoreInputs, score_job, used
from gridtune.core.compiled import kernel, record_at
from gridtune.core.marks import Marks, mark, new_marks, next_marked, unmark
from gridtune.types import AnyArray, FloatArray, Int32Array, IntArray


class Shapes(NamedTuple):
    """The number of waiting jobs of each shape; `wider[s]` is the first shape with more processors than s."""

    processors: IntArray
    walltime: IntArray
    wider: Int32Array
    waiting: Int32Array
    marked: Marks


@kernel()
def add_shape(shapes, shape):
    """Count one more waiting job of a shape."""
    shapes.waiting[shape] += 1
    if shapes.waiting[shape] == 1:
        mark(shapes.marked, shape)


@kernel()
def drop_shape(shapes, shape):
    """Count one waiting job less of a shape."""
    shapes.waiting[shape] -= 1
    if shapes.waiting[shape] == 0:
        unmark(shapes.marked, shape)


@kernel()
def something_fits(shapes, free):
    """Tell whether a job of at most `free` processors waits."""
    shape = next_marked(shapes.marked, 0)
    return shape >= 0 and shapes.processors[shape] <= free


@kernel()
def can_start(shapes, free, extra, window):
    """Tell whether a job waits that fits, and is no wider than `extra` or takes no longer than `window`."""
    shape = next_marked(shapes.marked, 0)
    while shape >= 0 and shapes.processors[shape] <= free:
        if shapes.processors[shape] <= extra or shapes.walltime[shape] <= window:
            return True
        shape = next_marked(shapes.marked, shapes.wider[shape])
    return False


class Classes(NamedTuple):
    """The classes, numbered by account, processors and walltime, and who of them waits.

    `of[job]` is a job's class, `behind[job]` the job that waits behind it there. `front[c]` and `last[c]` are
    the ends of a class's queue; `front[c]` is -1 if it is empty. `shape[c]` is its shape (see `Shapes`).
    """

    of: Int32Array
    behind: Int32Array
    front: Int32Array
    last: Int32Array
    processors: IntArray
    walltime: IntArray
    shape: Int32Array


@kernel()
def _number(table, numbers, firsts, slots):
    """Assign equal rows of a table the same number, by hashing; return how many numbers there are."""
    count, mask = 0, slots.size - 1
    for row in range(table.shape[0]):
        mixed = np.uint64(0)
        for value in table[row]:
            mixed = (mixed ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        slot = np.int64(mixed) & mask
        while slots[slot] >= 0:
            first, same = firsts[slots[slot]], True
            for column in range(table.shape[1]):
                same &= table[first, column] == table[row, column]
            if same:
                break
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = count
            firsts[count] = row
            count += 1
        numbers[row] = slots[slot]
    return count


def number_rows(columns: Sequence[npt.NDArray[np.integer]]) -> tuple[Int32Array, Int32Array]:
    """Return a number for each row, equal for equal rows, and the first row of each number."""
    table = np.stack(columns, axis=1).astype(np.int64)
    rows = len(table)
    numbers, firsts = np.empty(rows, np.int32), np.empty(rows, np.int32)
    slots = np.full(1 << (2 * rows).bit_length(), -1, np.int32)
    count = _number(table, numbers, firsts, slots)
    return numbers, firsts[:count].copy()


class _Places(NamedTuple):
    """Where the classes are in the tree: the first job and the number of each.

    The classes of an account are leaves of a subtree of their own, so that some leaves are not in use;
    `top[account]` is that subtree's root. `leaves` is the number of leaves, a power of two.
    """

    first: Int32Array
    number: IntArray
    top: IntArray
    leaves: int


def new_classes(
    columns: Sequence[IntArray], account: Int32Array, processors: IntArray, walltime: IntArray
) -> tuple[Classes, _Places, Shapes]:
    """Group jobs that are equal in some columns, the account, the processors and the walltime; none waits."""
    numbers, firsts = number_rows([*columns, account, processors, walltime])
    order = np.lexsort((walltime[firsts], processors[firsts], account[firsts]))
    sorted_firsts = firsts[order]
    places = _places(sorted_firsts, account[sorted_firsts])
    place = np.empty(len(firsts), np.int32)
    place[order] = places.number
    width, length = processors[sorted_firsts], walltime[sorted_firsts]
    by_shape = np.lexsort((length, width))
    opens = np.ones(len(firsts), np.bool_)
    opens[1:] = (np.diff(width[by_shape]) != 0) | (np.diff(length[by_shape]) != 0)
    shape = np.empty(len(firsts), np.int32)
    shape[by_shape] = np.cumsum(opens) - 1

    def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        numbered = np.zeros(places.leaves, values.dtype)
        numbered[places.number] = values
        return numbered

    empty = np.full(places.leaves, -1, np.int32)
    behind = np.full(len(numbers), -1, np.int32)
    ends = (empty, empty.copy())
    classes = Classes(place[numbers], behind, *ends, spread(width), spread(length), spread(shape))
    wide, long = width[by_shape][opens], length[by_shape][opens]
    wider = np.searchsorted(wide, wide, side="right").astype(np.int32)
    waiting = np.zeros(len(wide), np.int32)
    return classes, places, Shapes(wide, long, wider, waiting, new_marks(len(wide)))


def _places(first: Int32Array, account: Int32Array) -> _Places:
    """Assign each account a subtree that is large enough, the largest first.

    Classes are sorted by account.
    """
    counts = np.bincount(account)
    blocks = np.array([1 << max(0, int(count) - 1).bit_length() for count in counts], np.int64)
    order = np.argsort(-blocks, kind="stable")
    starts = np.empty(len(blocks), np.int64)
    starts[order] = np.cumsum(blocks[order]) - blocks[order]
    leaves = 1 << max(1, (int(blocks.sum()) - 1).bit_length())
    within = np.arange(len(first)) - (np.cumsum(counts) - counts)[account]
    return _Places(first, starts[account] + within, (leaves + starts) // blocks, leaves)


#: What the bounds of a score depend on: the wait; also the use by the user, by the group.
WAIT, USERS, GROUPS = range(3)
#: A node: its job, the job that this was compared with (-1: none), until when the comparison holds, until
#: when all below do, and the shortest walltime and fewest processors below. It fills a cache line.
_FIELDS = ("best", "other", "until", "soonest", "shortest", "narrowest")
_NODE = np.dtype({"names": _FIELDS, "formats": [np.int64] * len(_FIELDS), "itemsize": 64})

#: The rounding error of a use that fades, for each second of its half-life and processor in use.
_NOISE = 1e-14


class Columns(NamedTuple):
    """The arrays of a tournament.

    Jobs of classes of one `kind[c]` are alike to the order: the one submitted first is first. Six `lines` of
    a class bound its score (`score_bounds`). `top[account]` is the root of the subtree of an account's
    classes. `key[job]` is a score, computed at time `keyed[job]`.
    """

    kind: Int32Array
    lines: FloatArray
    top: IntArray
    nodes: AnyArray
    key: FloatArray
    keyed: IntArray
    stack: IntArray


class Tournament(NamedTuple):
    """A tournament over `leaves` classes, a power of two, under an order.

    The bounds of the order's score depend on `basis`, and are those of its `root`-th power.
    """

    leaves: int
    machine: int
    basis: int
    root: float
    score: Any
    inputs: ScoreInputs
    classes: Classes
    columns: Columns


def new_columns(kind: Int32Array, lines: FloatArray, top: IntArray, jobs: int) -> Columns:
    """Return the arrays of a tournament in which nobody waits; `lines` has six columns."""
    leaves = len(kind)
    nodes = np.zeros(2 * leaves, _NODE)
    nodes[:] = (-1, -1, NEVER, NEVER, NEVER, NEVER)
    keyed = np.full(jobs, -1, np.int64)
    stack = np.empty(2 * leaves.bit_length() + 2, np.int64)
    return Columns(kind, lines.ravel(), top, nodes, np.empty(jobs), keyed, stack)


@kernel(inline="always")
def _usage(tree):
    return tree.inputs.users if tree.basis == USERS else tree.inputs.groups


@kernel(inline="always")
def _wait(tree, job, now):
    return float(now - tree.inputs.submit[job])


@kernel(forceinline=True)
def _key(tree, job, now):
    """Return a job's score now, computed once in a second."""
    columns = tree.columns
    if columns.keyed[job] != now:
        columns.keyed[job] = now
        columns.key[job] = score_job(tree.score, tree.inputs, job, now)
    return columns.key[job]


@kernel(forceinline=True)
def _lead(tree, one, other, now):
    """Return how far one job's upper line is below another's lower line."""
    lines, line, other_line = tree.columns.lines, 6 * tree.classes.of[one], 6 * tree.classes.of[other]
    lead = lines[other_line] * _wait(tree, other, now) + lines[other_line + 2]
    lead -= lines[line + 3] * _wait(tree, one, now) + lines[line + 5]
    if tree.basis >= USERS:
        usage, half_life = _usage(tree), tree.inputs.half_life[0]
        account, other_account = usage.account[one], usage.account[other]
        use = used(usage, account, now, half_life)
        if account == other_account:
            return lead - (lines[line + 4] - lines[line + 1]) * use
        lead += lines[other_line + 1] * used(usage, other_account, now, half_life) - lines[line + 4] * use
        noise = _NOISE * half_life * abs(lines[line + 4])
        lead -= noise * (usage.rate[account] + usage.rate[other_account])
    return lead


@kernel(forceinline=True)
def _until(tree, first, second, lead, now):
    """Return until when a job that leads another stays before it for sure."""
    lines, line, other_line = tree.columns.lines, 6 * tree.classes.of[first], 6 * tree.classes.of[second]
    speed = lines[line + 3] - lines[other_line]
    if tree.basis >= USERS:
        usage = _usage(tree)
        account, other_account = usage.account[first], usage.account[second]
        if account == other_account:
            speed += (lines[line + 4] - lines[line + 1]) * tree.machine
        else:
            rise = lines[line + 4] * _growth(tree, account, now)
            other_rise = lines[other_line + 1] * _growth(tree, other_account, now)
            if tree.inputs.half_life[0] > 0.0:  # both fade away
                rise, other_rise = max(rise, 0.0), min(other_rise, 0.0)
            speed += rise - other_rise
    if speed <= 0.0:
        return NEVER
    seconds = lead / speed
    return now + np.int64(seconds) if seconds < 1e18 else NEVER


@kernel(forceinline=True)
def _growth(tree, account, now):
    """Return by how much an account's use grows in a second, now."""
    usage, half_life = _usage(tree), tree.inputs.half_life[0]
    if half_life <= 0.0:
        return float(usage.rate[account])
    return usage.rate[account] - math.log(2.0) / half_life * used(usage, account, now, half_life)


@kernel(forceinline=True)
def _before(tree, one, other, now):
    """Tell whether one of two jobs is before the other now."""
    kind, of = tree.columns.kind, tree.classes.of
    if kind[of[one]] == kind[of[other]]:
        return one < other
    if _lead(tree, one, other, now) > 0.0:
        return True
    if _lead(tree, other, one, now) > 0.0:
        return False
    key, other_key = _key(tree, one, now), _key(tree, other, now)
    return key < other_key or (key == other_key and one < other)


@kernel(forceinline=True)
def _compare(tree, one, other, now):
    """Return which of two jobs is first now, and until when it is."""
    kind, of = tree.columns.kind, tree.classes.of
    if kind[of[one]] == kind[of[other]]:
        return min(one, other), NEVER
    lead = _lead(tree, one, other, now)
    if lead > 0.0:
        return one, _until(tree, one, other, lead, now)
    lead = _lead(tree, other, one, now)
    if lead > 0.0:
        return other, _until(tree, other, one, lead, now)
    return (one if _before(tree, one, other, now) else other), now


@kernel(apart=True)
def _replay_node(tree, place, now, again):
    """Compare a node's children where that does not stand any more; return whether the node changed."""
    nodes = tree.columns.nodes
    node, left, right = record_at(nodes, place), record_at(nodes, 2 * place), record_at(nodes, 2 * place + 1)
    best, one, other = node.best, left.best, right.best
    loser = node.other
    changed = False
    if one < 0 or other < 0:
        first = max(one, other)
        changed = first != best
        node.best, node.other, node.until = first, -1, NEVER
    elif (
        again
        or node.until < now
        or not ((best == one and loser == other) or (best == other and loser == one))
    ):
        first, until = _compare(tree, one, other, now)
        changed = first != best
        node.best, node.other, node.until = first, one + other - first, until
    soonest = min(node.until, left.soonest, right.soonest)
    shortest = min(left.shortest, right.shortest)
    narrowest = min(left.narrowest, right.narrowest)
    changed |= soonest != node.soonest or shortest != node.shortest or narrowest != node.narrowest
    node.soonest, node.shortest, node.narrowest = soonest, shortest, narrowest
    return changed


@kernel(apart=True)
def replay_class(tree, place, now):
    """Take note that a class has another front job."""
    classes, leaf = tree.classes, record_at(tree.columns.nodes, tree.leaves + place)
    front = classes.front[place]
    leaf.best = front
    leaf.shortest = classes.walltime[place] if front >= 0 else NEVER
    leaf.narrowest = classes.processors[place] if front >= 0 else NEVER
    place = (tree.leaves + place) >> 1
    while place > 0 and _replay_node(tree, place, now, False):
        place >>= 1


@kernel(apart=True)
def replay_account(tree, job, now):
    """Take note that the use by a job's accounts grows at another rate from now on."""
    if tree.basis < USERS:
        return
    nodes, top = tree.columns.nodes, tree.columns.top[_usage(tree).account[job]]
    best, place = record_at(nodes, top).best, top >> 1
    while place > 0 and best >= 0:
        node = record_at(nodes, place)
        compared = best in (node.best, node.other)
        if not (_replay_node(tree, place, now, compared) or compared):
            break
        place >>= 1


@kernel(apart=True)
def refresh(tree, now):
    """Begin a pass: repeat the comparisons that may have changed."""
    nodes, place = tree.columns.nodes, np.int64(1)
    while record_at(nodes, 1).soonest < now:
        if record_at(nodes, 2 * place).soonest < now:
            place = 2 * place
        elif record_at(nodes, 2 * place + 1).soonest < now:
            place = 2 * place + 1
        else:
            _replay_node(tree, place, now, False)
            place = max(np.int64(1), place >> 1)


@kernel(inline="always")
def foremost(tree):
    """Return the head of the queue, -1 if nobody waits."""
    return record_at(tree.columns.nodes, 1).best


@kernel(apart=True)
def best_fit(tree, now, free, extra, window, states):
    """Return the first job, in the order, that may be backfilled, or -1.

    A job may if it needs at most `free` processors, and at most `extra` or at most `window` seconds; with
    power states of nodes, from the time when its own are on.
    """
    nodes, classes, stack = tree.columns.nodes, tree.classes, tree.columns.stack
    best, size = np.int64(-1), 1
    stack[0] = 1
    while size > 0:
        size -= 1
        number = stack[size]
        node = record_at(nodes, number)
        job, narrowest = node.best, node.narrowest
        if narrowest > free or (narrowest > extra and node.shortest > window):
            continue
        if best >= 0 and not _before(tree, job, best, now):
            continue
        place = classes.of[job]
        width = classes.processors[place]
        if width <= free and (
            width <= extra or classes.walltime[place] <= window - (start_of(states, width, now) - now)
        ):
            best = job
        elif number < tree.leaves:
            better = 2 * number if record_at(nodes, 2 * number).best == job else 2 * number + 1
            stack[size], stack[size + 1] = 4 * number + 1 - better, better
            size += 2
    return best


@kernel(apart=True)
def within_bounds(tree, job, now):
    """Tell whether a job's score is within its bounds now."""
    score = score_job(tree.score, tree.inputs, job, now)
    y = score if tree.root == 1.0 else math.copysign(math.pow(abs(score), tree.root), score)
    lines, line, wait, use = tree.columns.lines, 6 * tree.classes.of[job], _wait(tree, job, now), 0.0
    if tree.basis >= USERS:
        use = used(_usage(tree), _usage(tree).account[job], now, tree.inputs.half_life[0])
    least = lines[line] * wait + lines[line + 1] * use + lines[line + 2]
    return least <= y <= lines[line + 3] * wait + lines[line + 4] * use + lines[line + 5]
