"""Whole runs under a rule, in compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gridtune.core.compiled import bare, kernel
from gridtune.errors import SimulationError
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.predicting import (
    chance_in_time,
    correct_estimate,
    learn,
    new_broker_state,
    predicted_finish,
)
from gridtune.systems.dispatch.simulator.rules import (
    EDD,
    SHARED_QUEUE,
    insertion,
    select_simply,
    tabu_search,
)
from gridtune.systems.dispatch.simulator.site import (
    NOBODY,
    Site,
    advance,
    follower_of,
    new_site,
    place,
)
from gridtune.types import BoolArray, FloatArray, IntArray

__all__ = [
    "ASSISTANCE",
    "INSERTING",
    "ORDERS",
    "PROBABLE",
    "RULES",
    "SPEEDS",
    "Assistance",
    "DispatchReplay",
    "Order",
    "Rule",
    "Speeds",
    "dispatch",
]


Rule = Literal["random", "round_robin", "first_available", "edd", "erd", "spt", "atc", "shared_queue"]
#: Orders of a queue: last come last; by deadline; by estimate; by apparent tardiness cost.
Order = Literal["fifo", "due_date", "shortest", "atc"]
#: Sources of a broker's speed factors.
Speeds = Literal["known", "learned", "nominal"]
Assistance = Literal["none", "assist", "set_aside"]

#: The rule that inserts into queues of each order.
INSERTING: dict[str, Rule] = {"fifo": "erd", "due_date": "edd", "shortest": "spt", "atc": "atc"}
#: Ways that a learner assists: not; by Algorithm 2; besides, it sets aside jobs that will be late everywhere.
ALONE, ASSIST, SET_ASIDE = range(3)
#: The numbers of all names, which are in the order of `rules`, `site`, `predicting` and the line above.
RULES, ORDERS, SPEEDS, ASSISTANCE = (
    {name: number for number, name in enumerate(get_args(names))}
    for names in (Rule, Order, Speeds, Assistance)
)
#: Ended jobs before any is set aside: sending all jobs to one queue because the first predictions failed
#: would teach nothing better for long.
ENOUGH = 30
#: A learner predicts that a job ends in time from this probability on.
PROBABLE = 0.5


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
        Shape (n,), bool: whether an assisting learner sent it elsewhere than the base selector would have;
        a learner that decides by itself overrules nobody.
    restarts, moves
        Jobs restarted after failures; moves of jobs from one machine's queue to another's.
    learning
        Facts about the learner's examples and selections, JSON-serialisable; empty without a learner.
    """

    machine: IntArray
    placed: IntArray
    start: IntArray
    finish: IntArray
    chance: FloatArray
    overruled: BoolArray
    restarts: int
    moves: int
    learning: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, site: Site, chance: FloatArray, overruled: BoolArray) -> DispatchReplay:
        """Return the results of a site's jobs."""
        restarts, moves = int(site.state["restarts"]), int(site.state["moves"])
        return cls(site.machine, site.placed, site.start, site.finish, chance, overruled, restarts, moves)


class Settings(NamedTuple):
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
    assistance: Assistance = "none",
    forget: float = 0.95,
    by_user: bool = False,
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
    assistance
        The way that the model of completion times assists a simple selector. `assist`: a job goes to the
        machine where it most probably ends in time, if that is probable (at least ½) and more so than on the
        selector's own. `set_aside`: besides, a job that will probably be late everywhere goes where it
        ends last, out of the others' way. `none`: it does not.
    forget
        With learned speeds: the weight of a job relative to the next one on its machine.
    by_user
        Whether decisions go by the mean run time of the last two ended jobs of the same user, where that is
        less than the estimate.
    rng
        Draws one number for each job, whatever the rule.

    Raises
    ------
    SimulationError
        If a name is unknown or a number out of range.
    """
    names = (
        ("rule", rule, RULES),
        ("order", order, ORDERS),
        ("speeds", speeds, SPEEDS),
        ("assistance", assistance, ASSISTANCE),
    )
    for name, value, allowed in names:
        if value not in allowed:
            raise SimulationError(f"no {name} is named {value!r}", hint=f"one of {', '.join(allowed)}")
    if not 0 < forget <= 1:
        raise SimulationError(f"must be above 0 and at most 1, but got {forget}", field="forget")
    if repair_every < 0 or repair_steps < 0:
        raise SimulationError("repairs cannot be counted below 0", field="repair_every")
    if not lookahead > 0:
        raise SimulationError(f"must be above 0, but got {lookahead}", field="lookahead")
    if by_user and jobs.user is None:
        raise SimulationError("nobody knows whose jobs they are", field="by_user")
    shared = rule == "shared_queue"
    if shared and (repair_every or assistance != "none"):
        raise SimulationError("nothing repairs or assists a shared queue: no job is bound to a machine in it")
    by_cost = rule == "atc" or (shared and order == "atc")
    site = new_site(jobs, machines, shared=shared, lookahead=lookahead if by_cost else 0.0)
    broker = new_broker_state(site, SPEEDS[speeds], forget, jobs.user if by_user else None)
    settings = Settings(RULES[rule], ORDERS[order], repair_every, repair_steps, rng.random(len(jobs)))
    chance, overruled = np.full(len(jobs), np.nan), np.zeros(len(jobs), np.bool_)
    _run_rule(site, broker, settings, ASSISTANCE[assistance], chance, overruled)
    return DispatchReplay.of(site, chance, overruled)


@kernel()
def _run_rule(site_arrays, broker_arrays, settings, assistance, chance, overruled):
    """Decide for every job by a rule, until all have ended; fill in `chance` and `overruled` of each job."""
    site, broker, rule = bare(site_arrays), bare(broker_arrays), settings.rule
    while True:
        job = advance(site)
        if job == NOBODY:
            break
        learn(site, broker)
        correct_estimate(site, broker, job)
        now = site.state.now
        if rule < EDD:
            machine = select_simply(site, job, rule, settings.draws[job])
            follower = NOBODY
            if assistance != ALONE:
                target, likely = _assist(site, broker, job, machine, assistance)
                overruled[job] = target != machine
                chance[job], machine = likely, target
                broker.predicted[job] = predicted_finish(site, broker, machine, job, NOBODY) - now
        elif rule == SHARED_QUEUE:
            machine = site.state.machines
            follower = follower_of(site, job, machine, settings.order)
        else:
            machine, follower, ending = insertion(site, broker, job, rule)
            broker.predicted[job] = ending - now
            chance[job] = chance_in_time(site, broker, job, broker.predicted[job])
        place(site, job, machine, follower)
        if settings.repair_every > 0 and site.state.arrived % settings.repair_every == 0:
            tabu_search(site, broker, settings.repair_steps)


@kernel()
def _assist(site, broker, job, machine, assistance):
    """Return the machine on which a job most probably ends in time, if that is probable, and how probably.

    Of several machines as good the one where it ends last: it leaves the faster ones to others. So does a
    job that will hardly end in time anywhere, if it is to be set aside: it goes where it ends last of all.
    """
    now, likeliest, slowest = site.state.now, machine, machine
    best, latest, own, last, aside = -1.0, 0, 0.0, -1, 0.0
    for other in range(site.state.machines):
        ending = predicted_finish(site, broker, other, job, NOBODY)
        likely = 0.0
        if site.down[other] == 0:
            likely = chance_in_time(site, broker, job, ending - now)
            if ending > last:
                slowest, last, aside = other, ending, likely
        if other == machine:
            own = likely
        if likely > best or (likely == best and ending > latest):
            likeliest, best, latest = other, likely, ending
    if best >= PROBABLE:
        return (likeliest, best) if best > own else (machine, own)
    set_aside = assistance == SET_ASIDE and broker.learning.ratios >= ENOUGH
    return (slowest, aside) if set_aside else (machine, own)
