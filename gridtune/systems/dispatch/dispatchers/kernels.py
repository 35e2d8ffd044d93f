"""The compiled part of a learning broker: everything between two questions to its learner."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gridtune.core.compiled import bare, kernel
from gridtune.systems.dispatch.simulator.attributes import MACHINE, describe, describe_waiting
from gridtune.systems.dispatch.simulator.events import advance, place, take_out
from gridtune.systems.dispatch.simulator.predicting import (
    bare_belief,
    follower_of,
    learn,
    most_tardy_job,
    queue_tardiness,
)
from gridtune.systems.dispatch.simulator.selecting import EDD, ORDERS, insertion, select_simply, tabu_search
from gridtune.systems.dispatch.simulator.state import ARRIVED, MACHINES, NOBODY, NOW, SLOTS, bare_site

__all__ = ["Notes", "next_question", "next_repair"]

#: Of `Notes.told`: the base rule; the order of queues; number of attributes; jobs that the base rule alone
#: decides on; arrivals between tabu searches among these, and steps of one.
RULE, ORDER, COLUMNS, UNTAUGHT, EVERY, STEPS, TOLD = range(7)


class Notes(NamedTuple):
    """What a broker is told, asks with and notes down, for `n` jobs on `m` machines.

    Attributes
    ----------
    told
        Shape (6,), int64: see above.
    chance
        Shape (n,), float64: the base selector's random number for each job.
    rows
        Shape (m, d), float64: the question, a row a machine.
    history
        Shape (n, d), float64: each job's row on its machine, as of its placing.
    noted
        Shape (n,), int64: the second at which it was noted, -1 for never.
    barred, late, barred_machine
        Shapes (n,), (m,), (m,), int64: scratch of the tabu search.
    """

    told: npt.NDArray[np.int64]
    chance: npt.NDArray[np.float64]
    rows: npt.NDArray[np.float64]
    history: npt.NDArray[np.float64]
    noted: npt.NDArray[np.int64]
    barred: npt.NDArray[np.int64]
    late: npt.NDArray[np.int64]
    barred_machine: npt.NDArray[np.int64]


@kernel()
def next_question(held_site, held_belief, notes, job, machine):
    """Send a job, and go on until the learner has to be asked about the next one.

    Parameters
    ----------
    held_site, held_belief, notes
        Where everything stands.
    job, machine
        Send this job (NOBODY: none) there, in the order of the queues.

    Returns
    -------
    int, int
        The job that has come, NOBODY once all have ended, and the machine that the base rule would choose;
        `notes.rows` describes the job on every machine.
    """
    site, belief = bare_site(held_site), bare_belief(held_belief)
    told, columns = notes.told, notes.told[COLUMNS]
    if job != NOBODY:
        _send(site, notes, job, machine, follower_of(site, job, machine, told[ORDER]))
    while True:
        job = advance(site)
        if job == NOBODY:
            return NOBODY, NOBODY
        learn(site, belief)
        if told[RULE] < EDD:
            machine, follower = select_simply(site, job, told[RULE], notes.chance[job]), NOBODY
        else:
            machine, follower, _ = insertion(site, belief, job, told[RULE])
        taught = job >= told[UNTAUGHT]
        # What is learned from has to tell where a job stood: where its own rule puts it.
        order = told[ORDER] if taught else ORDERS[told[RULE]]
        describe(site, belief, job, order, columns, notes.rows)
        if taught:
            return job, machine
        _send(site, notes, job, machine, follower)
        if told[EVERY] > 0 and site.memory[ARRIVED] % told[EVERY] == 0:
            _search(site, belief, notes)


@kernel()
def _send(site, notes, job, machine, follower):
    for column in range(notes.told[COLUMNS]):
        notes.history[job, column] = notes.rows[machine, column]
    notes.noted[job] = site.memory[NOW]
    place(site, job, machine, follower)


@kernel()
def _search(site, belief, notes):
    """Search once, and note anew the jobs that were moved."""
    scratch = (bare(notes.late), bare(notes.barred_machine), bare(notes.barred))
    if tabu_search(site, belief, notes.told[STEPS], scratch[0], scratch[1], scratch[2]) == 0:
        return
    for machine in range(site.memory[MACHINES]):
        waiting = site.head[machine]
        while waiting != NOBODY:
            if site.placed[waiting] == site.memory[NOW]:
                describe_waiting(site, belief, waiting, notes.told[COLUMNS], notes.history, waiting)
                notes.noted[waiting] = site.memory[NOW]
            waiting = site.after[waiting]
    # Who came this very second and began elsewhere than its row says tells nothing.
    for slot in range(site.memory[SLOTS]):
        running = site.slot[slot]
        if running != NOBODY and notes.history[running, MACHINE] != site.machine[running]:
            notes.noted[running] = -1


@kernel()
def next_repair(held_site, held_belief, notes, job, machine, wanted):
    """Send a job; if another is wanted, take out the most tardy job of the most tardy queue.

    Returns
    -------
    int
        The job, with `notes.rows` describing it on every machine; NOBODY if none is wanted or predicted late.
    """
    site, belief = bare_site(held_site), bare_belief(held_belief)
    _send(site, notes, job, machine, follower_of(site, job, machine, notes.told[ORDER]))
    latest, worst = 0, NOBODY
    if not wanted:
        return NOBODY
    for queue in range(site.memory[MACHINES]):
        late = queue_tardiness(site, belief, queue, NOBODY, NOBODY, NOBODY)
        if late > latest:
            latest, worst = late, queue
    if worst == NOBODY:
        return NOBODY
    job = most_tardy_job(site, belief, worst, bare(notes.barred))
    if job != NOBODY:
        take_out(site, job)
        describe(site, belief, job, notes.told[ORDER], notes.told[COLUMNS], notes.rows)
    return job
