"""The compiled part of a learning broker: all that happens between two decisions of its learner."""

from __future__ import annotations

from typing import NamedTuple

from gridtune.core.compiled import bare, kernel
from gridtune.systems.dispatch.simulator.predicting import (
    MACHINE,
    correct_estimate,
    describe,
    describe_waiting,
    learn,
    most_tardy_job,
    queue_tardiness,
)
from gridtune.systems.dispatch.simulator.replay import Settings
from gridtune.systems.dispatch.simulator.rules import EDD, ORDERS, insertion, select_simply, tabu_search
from gridtune.systems.dispatch.simulator.site import (
    NOBODY,
    advance,
    follower_of,
    place,
    take_out,
)
from gridtune.types import FloatArray, IntArray

__all__ = ["Buffers", "next_decision", "next_repair"]


class Buffers(NamedTuple):
    """The columns that a learning broker shares with its kernels, for `n` jobs on `m` machines.

    Attributes
    ----------
    settings
        Of the base rule, with the order of the queues; tabu search repairs among learning jobs only.
    learning_jobs
        Jobs that the base rule alone decides on, the first ones.
    rows
        Shape (m, d), float64: attributes of the next job, a row for each machine.
    history
        Shape (n, d), float64: each job's row on its machine when it was placed.
    described
        Shape (n,), int64: the second at which that row was written, -1 for never.
    """

    settings: Settings
    learning_jobs: int
    rows: FloatArray
    history: FloatArray
    described: IntArray


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
    site, broker = bare(site_arrays), bare(broker_arrays)
    settings = buffers.settings
    if job != NOBODY:
        _send(site, buffers, job, machine, follower_of(site, job, machine, settings.order))
    while True:
        job = advance(site)
        if job == NOBODY:
            return NOBODY, NOBODY
        learn(site, broker)
        correct_estimate(site, broker, job)
        if settings.rule < EDD:
            machine, follower = select_simply(site, job, settings.rule, settings.draws[job]), NOBODY
        else:
            machine, follower, _ = insertion(site, broker, job, settings.rule)
        measured = job >= buffers.learning_jobs
        # An example's row must describe where the job stands: where its own rule puts it.
        order = settings.order if measured else ORDERS[settings.rule]
        describe(site, broker, job, order, buffers.rows)
        if measured:
            return job, machine
        _send(site, buffers, job, machine, follower)
        if settings.repair_every > 0 and site.state.arrived % settings.repair_every == 0:
            _search(site, broker, buffers)


@kernel()
def _send(site, buffers, job, machine, follower):
    for column in range(buffers.rows.shape[1]):
        buffers.history[job, column] = buffers.rows[machine, column]
    buffers.described[job] = site.state.now
    place(site, job, machine, follower)


@kernel()
def _search(site, broker, buffers):
    """Search once, and describe the moved jobs again."""
    if tabu_search(site, broker, buffers.settings.repair_steps) == 0:
        return
    for machine in range(site.state.machines):
        waiting = site.head[machine]
        while waiting != NOBODY:
            if site.placed[waiting] == site.state.now:
                describe_waiting(site, broker, waiting, buffers.history, waiting)
                buffers.described[waiting] = site.state.now
            waiting = site.after[waiting]
    # A job that arrived this second and started elsewhere than its row says is no example.
    for slot in range(site.state.slots):
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
    site, broker = bare(site_arrays), bare(broker_arrays)
    _send(site, buffers, job, machine, follower_of(site, job, machine, buffers.settings.order))
    latest, worst = 0, NOBODY
    if not wanted:
        return NOBODY
    for queue in range(site.state.machines):
        late = queue_tardiness(site, broker, queue, NOBODY, NOBODY, NOBODY)
        if late > latest:
            latest, worst = late, queue
    if worst == NOBODY:
        return NOBODY
    job = most_tardy_job(site, broker, worst)
    if job != NOBODY:
        take_out(site, job)
        describe(site, broker, job, buffers.settings.order, buffers.rows)
    return job
