"""The compiled part of a learning broker: all that happens between two decisions of its learner."""

from __future__ import annotations

from typing import NamedTuple

from gridtune.core.compiled import bare, kernel
from gridtune.systems.dispatch.simulator.predicting import (
    MACHINE,
    bare_broker_state,
    correct_estimate,
    describe,
    describe_waiting,
    learn,
    most_tardy_job,
    queue_tardiness,
)
from gridtune.systems.dispatch.simulator.rules import EDD, ORDERS, insertion, select_simply, tabu_search
from gridtune.systems.dispatch.simulator.site import (
    ARRIVED,
    MACHINES,
    NOBODY,
    NOW,
    SLOTS,
    advance,
    bare_site,
    follower_of,
    place,
    take_out,
)
from gridtune.types import FloatArray, IntArray

__all__ = ["Buffers", "next_decision", "next_repair"]

#: Places in `Buffers.settings`: the base rule; the order of queues; attributes; learning jobs, which the base
#: rule alone decides on; arrivals between tabu searches among these, and steps of one.
RULE, ORDER, COLUMNS, LEARNING_JOBS, EVERY, STEPS = range(6)


class Buffers(NamedTuple):
    """The columns that a learning broker shares with its kernels, for `n` jobs on `m` machines.

    Attributes
    ----------
    settings
        Shape (6,), int64: see above.
    draws
        Shape (n,), float64: the base selector's random number for each job.
    rows
        Shape (m, d), float64: attributes of the next job, a row for each machine.
    history
        Shape (n, d), float64: each job's row on its machine when it was placed.
    described
        Shape (n,), int64: the second at which that row was written, -1 for never.
    barred, late, barred_machine
        Shapes (n,), (m,), (m,), int64: scratch of the tabu search.
    """

    settings: IntArray
    draws: FloatArray
    rows: FloatArray
    history: FloatArray
    described: IntArray
    barred: IntArray
    late: IntArray
    barred_machine: IntArray


@kernel()
def next_decision(site_arrays, broker_arrays, buffers, job, machine):
    """Send a job, and go on until the learner has to decide on the next one.

    Parameters
    ----------
    site_arrays, broker_arrays, buffers
        The state of the run.
    job, machine
        Send this job (NOBODY: none) there, in the order of the queues.

    Returns
    -------
    int, int
        The job that has arrived, NOBODY once all have ended, and the machine that the base rule would choose;
        `buffers.rows` describes the job on every machine.
    """
    site, broker = bare_site(site_arrays), bare_broker_state(broker_arrays)
    settings, columns = buffers.settings, buffers.settings[COLUMNS]
    if job != NOBODY:
        _send(site, buffers, job, machine, follower_of(site, job, machine, settings[ORDER]))
    while True:
        job = advance(site)
        if job == NOBODY:
            return NOBODY, NOBODY
        learn(site, broker)
        correct_estimate(site, broker, job)
        if settings[RULE] < EDD:
            machine, follower = select_simply(site, job, settings[RULE], buffers.draws[job]), NOBODY
        else:
            machine, follower, _ = insertion(site, broker, job, settings[RULE])
        measured = job >= settings[LEARNING_JOBS]
        # An example's row must describe where the job stands: where its own rule puts it.
        order = settings[ORDER] if measured else ORDERS[settings[RULE]]
        describe(site, broker, job, order, columns, buffers.rows)
        if measured:
            return job, machine
        _send(site, buffers, job, machine, follower)
        if settings[EVERY] > 0 and site.memory[ARRIVED] % settings[EVERY] == 0:
            _search(site, broker, buffers)


@kernel()
def _send(site, buffers, job, machine, follower):
    for column in range(buffers.settings[COLUMNS]):
        buffers.history[job, column] = buffers.rows[machine, column]
    buffers.described[job] = site.memory[NOW]
    place(site, job, machine, follower)


@kernel()
def _search(site, broker, buffers):
    """Search once, and describe the moved jobs again."""
    scratch = (bare(buffers.late), bare(buffers.barred_machine), bare(buffers.barred))
    if tabu_search(site, broker, buffers.settings[STEPS], scratch[0], scratch[1], scratch[2]) == 0:
        return
    for machine in range(site.memory[MACHINES]):
        waiting = site.head[machine]
        while waiting != NOBODY:
            if site.placed[waiting] == site.memory[NOW]:
                describe_waiting(site, broker, waiting, buffers.settings[COLUMNS], buffers.history, waiting)
                buffers.described[waiting] = site.memory[NOW]
            waiting = site.after[waiting]
    # A job that arrived this second and started elsewhere than its row says is no example.
    for slot in range(site.memory[SLOTS]):
        running = site.slot[slot]
        if running != NOBODY and buffers.history[running, MACHINE] != site.machine[running]:
            buffers.described[running] = -1


@kernel()
def next_repair(site_arrays, broker_arrays, buffers, job, machine, wanted):
    """Send a job; if another is wanted, take out the most tardy job of the most tardy queue.

    Returns
    -------
    int
        The job, with `buffers.rows` describing it on every machine; NOBODY if none is wanted or predicted to
        be late.
    """
    site, broker = bare_site(site_arrays), bare_broker_state(broker_arrays)
    _send(site, buffers, job, machine, follower_of(site, job, machine, buffers.settings[ORDER]))
    latest, worst = 0, NOBODY
    if not wanted:
        return NOBODY
    for queue in range(site.memory[MACHINES]):
        late = queue_tardiness(site, broker, queue, NOBODY, NOBODY, NOBODY)
        if late > latest:
            latest, worst = late, queue
    if worst == NOBODY:
        return NOBODY
    job = most_tardy_job(site, broker, worst, bare(buffers.barred))
    if job != NOBODY:
        take_out(site, job)
        describe(site, broker, job, buffers.settings[ORDER], buffers.settings[COLUMNS], buffers.rows)
    return job
