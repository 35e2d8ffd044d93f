"""Rules that choose a machine, whole runs under one, and runs between two decisions of a learner, compiled.

Sources: Vladušič, "Using the black-box approach with machine learning methods in order to improve job
scheduling in GRID environments", sections 2.2.2 and 2.3; Klusáček, Matyska, Rudová, "Alea: grid scheduling
simulation environment", PPAM 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.errors import SimulationError
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.predicting import (
    REMEMBERED,
    learn,
    most_tardy_job,
    new_broker_state,
    predicted_finish,
    queue_tardiness,
)
from gridtune.systems.dispatch.simulator.site import (
    ATC,
    DUE_DATE,
    NEVER,
    NOBODY,
    MachineQueues,
    advance,
    follower_of,
    new_site,
    place,
    take_out,
)
from gridtune.types import BoolArray, FloatArray, IntArray

Rule = Literal["random", "round_robin", "first_available", "edd", "erd", "spt", "atc", "shared_queue"]
#: Orders of a queue: last come last; by deadline; by estimate; by apparent tardiness cost.
Order = Literal["fifo", "due_date", "shortest", "atc"]
#: Sources of a broker's speed factors.
Speeds = Literal["known", "learned", "nominal"]

#: The rule that inserts into queues of each order.
INSERTING: dict[str, Rule] = {"fifo": "erd", "due_date": "edd", "shortest": "spt", "atc": "atc"}
#: The numbers of all names, which are in the order of those below, in `site` and in `predicting`.
RULES, ORDERS, SPEEDS = (
    {name: number for number, name in enumerate(get_args(names))} for names in (Rule, Order, Speeds)
)
#: A learner predicts that a job ends in time from this probability on.
PROBABLE = 0.5


@kernel()
def _any_up(site):
    """Tell whether a machine is up."""
    up = 0
    for machine in range(site.state.machines):
        if site.down[machine] == 0:
            up += 1
    return up > 0


@kernel()
def _chance_in_time(site, broker, job, predicted):
    """Return the chance that a job placed now ends in time, if it is predicted to end in that many seconds.

    The share of remembered jobs that would have: those whose seconds over predicted seconds was at most
    what the deadline leaves this one, with one half added to either side (Krichevsky and Trofimov).
    """
    ratios = min(broker.learning.ratios, REMEMBERED)
    allowed, in_time = (site.deadline[job] - site.state.now) / predicted, 0
    for entry in range(ratios):
        if broker.ratio[entry] <= allowed:
            in_time += 1
    return (in_time + 0.5) / (ratios + 1.0)


@dataclass(frozen=True)
class DispatchReplay:
    """The results of `n` jobs.

    Attributes
    ----------
    machine, placed, start, finish
        Shape (n,), int64: where it ran, second of the last decision about it, of its start and of its end.
    chance
        Shape (n,), float64: probability that it would end in time, as predicted when it came or when a
        learner's repair placed it last (tabu search predicts none); NaN where nobody predicted it.
    overruled
        Shape (n,), bool: True if an assisting learner sent it elsewhere than the base selector would have;
        a learner that decides by itself overrules nobody.
    restarts, moves
        Jobs restarted after failures; moves of jobs from one machine's queue to another's.
    """

    machine: IntArray
    placed: IntArray
    start: IntArray
    finish: IntArray
    chance: FloatArray
    overruled: BoolArray
    restarts: int
    moves: int

    @classmethod
    def of(cls, site: MachineQueues, chance: FloatArray, overruled: BoolArray) -> DispatchReplay:
        """Return the results of a site's jobs."""
        restarts, moves = int(site.state["restarts"]), int(site.state["moves"])
        return cls(site.machine, site.placed, site.start, site.finish, chance, overruled, restarts, moves)


class DispatchRules(NamedTuple):
    """The settings of a compiled run.

    Attributes
    ----------
    rule, order
        The rule, and the order of the shared queue or, with a learner, of the queues.
    repair_every, repair_steps
        Arrivals between tabu searches (0: none), and steps of one.
    draws
        Shape (n,), float64: a random number for each job.
    """

    rule: int
    order: int
    repair_every: int
    repair_steps: int
    draws: FloatArray


def dispatch(
    jobs: DispatchJobs,
    machines: Machines,
    *,
    rule: Rule = "erd",
    order: Order = "shortest",
    lookahead: float = 2.0,
    speeds: Speeds = "known",
    repair_every: int = 0,
    repair_steps: int = 10,
    assisted: bool = False,
    forget: float = 0.95,
    rng: np.random.Generator,
) -> DispatchReplay:
    """Run all jobs under a rule without leaving the compiled code.

    Parameters
    ----------
    jobs, machines
        The jobs, and the machines they run on.
    rule
        `random`, `round_robin`, `first_available`: simple selectors; jobs go to the end of the queue.
        `edd`, `erd`, `spt`, `atc`: into the queue where predicted tardiness grows least, by due date, by
        release (last), before longer jobs, by apparent tardiness cost. `shared_queue`: all jobs wait in one
        queue, from which the next free processor takes one; of several free ones the fastest machine's.
    order
        Of the shared queue.
    lookahead
        k of the apparent tardiness cost: mean run times ahead that a deadline counts.
    speeds
        Speed factors that predictions use: `known`; `learned` from the jobs that have ended; `nominal`: 1.
    repair_every, repair_steps
        Tabu search of `repair_steps` steps after every `repair_every` arrivals; 0 for none.
    assisted
        Whether the model of completion times assists a simple selector: a job goes to the machine where it
        most probably ends in time, if that is probable (at least ½) and more so than on the selector's own.
    forget
        With learned speeds: the weight of a job relative to the next one on its machine.
    rng
        Draws one number for each job, whatever the rule.

    Raises
    ------
    SimulationError
        If a name is unknown or a number out of range.
    """
    for name, value, allowed in (
        ("rule", rule, RULES),
        ("order", order, ORDERS),
        ("speeds", speeds, SPEEDS),
    ):
        if value not in allowed:
            raise SimulationError(f"no {name} is named {value!r}", hint=f"one of {', '.join(allowed)}")
    if not 0 < forget <= 1:
        raise SimulationError(f"must be above 0 and at most 1, but got {forget}", field="forget")
    if repair_every < 0 or repair_steps < 0:
        raise SimulationError("repairs cannot be counted below 0", field="repair_every")
    if not lookahead > 0:
        raise SimulationError(f"must be above 0, but got {lookahead}", field="lookahead")
    shared = rule == "shared_queue"
    if shared and (repair_every or assisted):
        raise SimulationError("nothing repairs or assists a shared queue: no job is bound to a machine in it")
    by_cost = rule == "atc" or (shared and order == "atc")
    site = new_site(jobs, machines, shared=shared, lookahead=lookahead if by_cost else 0.0)
    broker = new_broker_state(site, SPEEDS[speeds], forget)
    settings = DispatchRules(RULES[rule], ORDERS[order], repair_every, repair_steps, rng.random(len(jobs)))
    chance, overruled = np.full(len(jobs), np.nan), np.zeros(len(jobs), np.bool_)
    _run_rule(site, broker, settings, assisted, chance, overruled)
    return DispatchReplay.of(site, chance, overruled)


@kernel()
def _run_rule(site_arrays, broker_arrays, settings, assisted, chance, overruled):
    """Decide for every job by a rule, until all have ended; fill in `chance` and `overruled` of each job."""
    site, broker, rule = bare(site_arrays), bare(broker_arrays), settings.rule
    while True:
        job = advance(site)
        if job == NOBODY:
            break
        learn(site, broker)
        now = site.state.now
        if rule < EDD:
            machine = _select_simply(site, job, rule, settings.draws[job])
            follower = NOBODY
            if assisted:
                target, likely = _assist(site, broker, job, machine)
                overruled[job] = target != machine
                chance[job], machine = likely, target
                broker.predicted[job] = predicted_finish(site, broker, machine, job, NOBODY) - now
        elif rule == SHARED_QUEUE:
            machine = site.state.machines
            follower = follower_of(site, job, machine, settings.order)
        else:
            machine, follower, ending = _insertion(site, broker, job, rule)
            broker.predicted[job] = ending - now
            chance[job] = _chance_in_time(site, broker, job, broker.predicted[job])
        place(site, job, machine, follower)
        if settings.repair_every > 0 and site.state.arrived % settings.repair_every == 0:
            _tabu_search(site, broker, settings.repair_steps)


@kernel()
def _assist(site, broker, job, machine):
    """Return the machine on which a job most probably ends in time, if that is probable, and how probably.

    Of several machines as good the one where it ends last: it leaves the faster ones to others.
    """
    now, likeliest = site.state.now, machine
    best, latest, own = -1.0, 0, 0.0
    for other in range(site.state.machines):
        ending = predicted_finish(site, broker, other, job, NOBODY)
        likely = 0.0
        if site.down[other] == 0:
            likely = _chance_in_time(site, broker, job, ending - now)
        if other == machine:
            own = likely
        if likely > best or (likely == best and ending > latest):
            likeliest, best, latest = other, likely, ending
    return (likeliest, best) if best >= PROBABLE and best > own else (machine, own)


#: Rules: the first three look at queues only, the next four insert, the last lets machines pull.
RANDOM, ROUND_ROBIN, FIRST_AVAILABLE, EDD, ERD, SPT, APPARENT_COST, SHARED_QUEUE = range(8)


@kernel()
def _select_simply(site, job, rule, draw):
    """Return a machine by one of the simple selectors.

    Parameters
    ----------
    site, job
        The job to send.
    rule
        `RANDOM`; `ROUND_ROBIN`, by the job's number; or `FIRST_AVAILABLE`: from a random machine on the
        first idle one, else the first of those with the fewest waiting jobs; machines that are down are
        left out while others are up.
    draw
        Random number from [0, 1), for the random machine.
    """
    machines = site.state.machines
    if rule == ROUND_ROBIN:
        return job % machines
    first = int(draw * machines)
    if rule == RANDOM:
        return first
    up, best = _any_up(site), NOBODY
    for step in range(machines):
        machine = (first + step) % machines
        if up and site.down[machine] > 0:
            continue
        if site.down[machine] == 0 and site.running[machine] < site.cpus[machine]:
            return machine
        if best == NOBODY or site.waiting[machine] < site.waiting[best]:
            best = machine
    return best


@kernel()
def _insertion(site, broker, job, rule):
    """Return the machine whose predicted tardiness grows least by a job, the job it goes before, and its end.

    Of several machines the one where the job ends first. Under `SPT` the growth is estimated: the job's own
    tardiness, and its share of a processor's time for each job that it goes before.
    Machines that are down are left out while others are up.
    """
    up, best, before = _any_up(site), NOBODY, NOBODY
    least, earliest = NEVER, NEVER
    for machine in range(site.state.machines):
        if up and site.down[machine] > 0:
            continue
        behind = 0
        if rule == SPT:
            follower, behind = site.head[machine], site.waiting[machine]
            while follower != NOBODY and site.estimate[follower] <= site.estimate[job]:
                follower, behind = site.after[follower], behind - 1
        elif rule == ERD:
            follower = NOBODY
        else:
            follower = follower_of(site, job, machine, DUE_DATE if rule == EDD else ATC)
        ending = predicted_finish(site, broker, machine, job, follower)
        growth = max(0, ending - site.deadline[job])
        if rule == SPT:
            seconds = max(1, int(np.rint(site.estimate[job] * broker.factor[machine])))
            growth += behind * seconds // site.cpus[machine]
        elif follower != NOBODY:
            growth = queue_tardiness(site, broker, machine, job, follower, NOBODY)
            growth -= queue_tardiness(site, broker, machine, NOBODY, NOBODY, NOBODY)
        if growth < least or (growth == least and ending < earliest):
            best, before, least, earliest = machine, follower, growth, ending
    return best, before, earliest


@kernel()
def _tabu_search(site, broker, steps):
    """Move waiting jobs between machines while that lessens the predicted tardiness of all.

    A step takes the most tardy machine that is not barred, its most tardy job that is not barred, and puts
    it by due date into the queue of the machine of least tardiness. If the tardiness of all falls, the job
    stays there and is barred; else it goes back and its machine is barred, as is one without such a job.
    A moved job has no prediction.

    Parameters
    ----------
    site, broker
        The queues, and what to predict by; `broker.predicted` of moved jobs becomes 0.
    steps
        At most this many.

    Returns
    -------
    int
        Jobs that were moved.
    """
    late, barred_machine, barred_job = broker.late, broker.barred_machine, broker.barred_job
    moved, up = 0, _any_up(site)
    for machine in range(site.state.machines):
        late[machine] = queue_tardiness(site, broker, machine, NOBODY, NOBODY, NOBODY)
        barred_machine[machine] = 0
    for _ in range(steps):
        source, target = _most_and_least(site, late, barred_machine, up)
        if source == NOBODY or late[source] == 0:
            break
        job = most_tardy_job(site, broker, source)
        if NOBODY in (job, target):
            barred_machine[source] = 1
            continue
        follower = follower_of(site, job, target, DUE_DATE)
        left = queue_tardiness(site, broker, source, NOBODY, NOBODY, job)
        grown = queue_tardiness(site, broker, target, job, follower, NOBODY)
        if left + grown < late[source] + late[target]:
            take_out(site, job)
            place(site, job, target, follower)
            # A prediction for its old place says nothing about how good predictions are here.
            broker.predicted[job] = 0
            late[source] = left
            late[target] = queue_tardiness(site, broker, target, NOBODY, NOBODY, NOBODY)
            barred_job[job] = 1
            moved += 1
        else:
            barred_machine[source] = 1
    if moved > 0:
        for job in range(site.state.jobs):
            barred_job[job] = 0
    return moved


@kernel()
def _most_and_least(site, late, barred, up):
    """Return the most tardy machine that is not barred, and the least tardy of the others that is up."""
    source, target = NOBODY, NOBODY
    for machine in range(site.state.machines):
        if barred[machine] == 0 and (source == NOBODY or late[machine] > late[source]):
            source = machine
    for machine in range(site.state.machines):
        if machine == source or (up and site.down[machine] > 0):
            continue
        if target == NOBODY or late[machine] < late[target]:
            target = machine
    return source, target


#: Column of a row: the machine, the only category; before it the estimate, the deadline and the queue.
MACHINE = 3


class Buffers(NamedTuple):
    """The columns that a learning broker shares with its kernels, for `n` jobs on `m` machines.

    Attributes
    ----------
    settings
        Of the base rule, with the order of the queues; tabu search repairs among learning jobs only.
    learning_jobs
        Jobs that the base rule alone decides on, the first ones.
    clock
        Shape (n,), int64: deadlines on the clock of each batch, for published attributes; else empty.
    rows
        Shape (m, 4), float64: attributes of the next job, a row for each machine.
    history
        Shape (n, 4), float64: each job's row on its machine when it was placed.
    described
        Shape (n,), int64: the second at which that row was written, -1 for never.
    """

    settings: DispatchRules
    learning_jobs: int
    clock: IntArray
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
        if settings.rule < EDD:
            machine, follower = _select_simply(site, job, settings.rule, settings.draws[job]), NOBODY
        else:
            machine, follower, _ = _insertion(site, broker, job, settings.rule)
        _describe(site, buffers, job)
        if job >= buffers.learning_jobs:
            return job, machine
        _send(site, buffers, job, machine, follower)
        if settings.repair_every > 0 and site.state.arrived % settings.repair_every == 0:
            _search(site, broker, buffers)


@kernel()
def _describe(site, buffers, job):
    """Write a row for each machine: the attributes of a job that stands in no queue if it went there now."""
    for machine in range(site.state.machines):
        _fill_row(site, buffers, job, machine, buffers.rows[machine])


@kernel()
def _fill_row(site, buffers, job, machine, row):
    row[0], row[MACHINE] = site.estimate[job], machine
    if buffers.clock.size > 0:
        row[1], row[2] = buffers.clock[job], site.waiting[machine]
    else:
        row[1] = site.deadline[job] - site.state.now
        row[2] = site.waiting[machine] + site.running[machine]


@kernel()
def _send(site, buffers, job, machine, follower):
    for column in range(buffers.rows.shape[1]):
        buffers.history[job, column] = buffers.rows[machine, column]
    buffers.described[job] = site.state.now
    place(site, job, machine, follower)


@kernel()
def _search(site, broker, buffers):
    """Search once, and describe the moved jobs again."""
    if _tabu_search(site, broker, buffers.settings.repair_steps) == 0:
        return
    for machine in range(site.state.machines):
        waiting = site.head[machine]
        while waiting != NOBODY:
            if site.placed[waiting] == site.state.now:
                # As if it had just been put there.
                _fill_row(site, buffers, waiting, machine, buffers.history[waiting])
                buffers.history[waiting, 2] -= 1
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
        _describe(site, buffers, job)
    return job
