"""One machine, compiled: it advances to the next decision, and carries it out.

The rules are those of `gridtune.batch.simulator.scored`: at an instant all completions, then all submissions,
then one scheduling pass, in which decisions are asked for. Where every answer has the same effect, none is.
"""

from __future__ import annotations

from gridtune.batch.simulator.decisions.state import (
    ARRIVED,
    BACKFILL_MODE,
    BASE,
    BY_SUBMISSION,
    EASY,
    FILLED,
    FIRST,
    FREE,
    HEAD,
    MEMORY,
    NOW,
    OPEN,
    PAID,
    PROTECT,
    QUEUED,
    SCALE,
    SETTLED,
    SHADOW,
    SHARE,
    SHOWN,
    SPARE,
    TURN,
    WAITING,
)
from gridtune.batch.simulator.running import add_running, drop_request, pop_ended, reservation
from gridtune.core.compiled import kernel

__all__ = ["advance", "choose", "cost_so_far", "reset", "run_first_choices"]

NEVER = 2**62


@kernel()
def reset(machine, jobs, costs, first):
    """Empty the machine, and begin the window whose first job has that number."""
    memory, sums = machine.memory, machine.sums
    filled = memory[FILLED]
    for place in range(MEMORY):
        memory[place] = 0
    memory[FIRST], memory[FREE], memory[FILLED] = first, machine.settings.processors, filled
    memory[NOW], memory[HEAD] = jobs.submit[first], -1
    machine.running.n[0] = machine.running.n[1] = 0
    total = 0.0
    for row in range(first, first + machine.settings.jobs):
        total += costs.part[row]
    sums[SETTLED] = sums[PAID] = sums[BASE] = 0.0
    sums[SHARE] = 1.0 / total if total > 0.0 else 0.0
    sums[SCALE] = 1.0


@kernel()
def _cost(machine, jobs, costs, job, now):
    """Return the cost of a job that starts now."""
    row = machine.memory[FIRST] + job
    waited = now - jobs.submit[row] + costs.offset[row]
    return machine.sums[SHARE] * costs.weight[row] * max(costs.floor[row], waited)


@kernel()
def cost_so_far(machine, jobs, costs):
    """Return the cost of the jobs submitted so far, if those that wait started now."""
    cost = machine.sums[SETTLED]
    for place in range(machine.memory[WAITING]):
        cost += _cost(machine, jobs, costs, machine.queue[place], machine.memory[NOW])
    return cost


@kernel()
def _launch(machine, jobs, costs, place):
    """Start the job at a place of the queue."""
    memory, queue = machine.memory, machine.queue
    job, now = queue[place], memory[NOW]
    memory[WAITING] -= 1
    for later in range(place, memory[WAITING]):
        queue[later] = queue[later + 1]
    row = memory[FIRST] + job
    width, walltime = jobs.processors[row], jobs.walltime[row]
    machine.start[job] = now
    memory[FREE] -= width
    memory[TURN] += 1
    memory[QUEUED] -= width * walltime
    add_running(machine.running, now + jobs.run[row], memory[TURN], now + walltime, job, width)
    machine.sums[SETTLED] += _cost(machine, jobs, costs, job, now)


@kernel()
def _next_instant(machine, jobs):
    """Go to the next instant, with its completions and submissions; return whether there is one."""
    memory, running, first = machine.memory, machine.running, machine.memory[FIRST]
    arrival, count = NEVER, machine.settings.jobs
    if memory[ARRIVED] < count:
        arrival = jobs.submit[first + memory[ARRIVED]]
    if running.n[0] == 0 and arrival == NEVER:
        return False
    now = arrival
    if running.n[0] > 0 and running.end[0] < arrival:
        now = running.end[0]
    while running.n[0] > 0 and running.end[0] == now:
        job = pop_ended(running)
        row = first + job
        drop_request(running, machine.start[job] + jobs.walltime[row], job)
        memory[FREE] += jobs.processors[row]
    while memory[ARRIVED] < count and jobs.submit[first + memory[ARRIVED]] == now:
        row = first + memory[ARRIVED]
        machine.queue[memory[WAITING]] = memory[ARRIVED]
        memory[QUEUED] += jobs.processors[row] * jobs.walltime[row]
        memory[WAITING] += 1
        memory[ARRIVED] += 1
    memory[NOW], memory[OPEN], memory[HEAD] = now, 1, -1
    return True


@kernel()
def _reserve(machine, jobs, job):
    """Make a reservation for a job that does not fit now."""
    memory = machine.memory
    width = jobs.processors[memory[FIRST] + job]
    memory[HEAD] = job
    memory[SHADOW], memory[SPARE] = reservation(machine.running, memory[NOW], memory[FREE], width)


@kernel()
def _spares_head(machine, jobs, row):
    """Tell whether a job that starts now leaves the head's reservation alone."""
    memory = machine.memory
    ends = memory[NOW] + jobs.walltime[row]
    return ends <= memory[SHADOW] or jobs.processors[row] <= memory[SPARE]


@kernel()
def _start_beside_head(machine, jobs, costs, place):
    memory = machine.memory
    row = memory[FIRST] + machine.queue[place]
    if memory[NOW] + jobs.walltime[row] > memory[SHADOW]:
        memory[SPARE] -= jobs.processors[row]
    _launch(machine, jobs, costs, place)


@kernel()
def _backfill(machine, jobs, costs):
    """Start all jobs that leave the head's reservation alone, in the environment's own order."""
    memory, queue, first = machine.memory, machine.queue, machine.memory[FIRST]
    by_submission, begin = machine.settings.flags & BY_SUBMISSION != 0, 0
    while memory[FREE] > 0:
        best = -1
        for place in range(begin, memory[WAITING]):
            row = first + queue[place]
            if queue[place] == memory[HEAD] or jobs.processors[row] > memory[FREE]:
                continue
            better = best < 0 or machine.rank[queue[place]] < machine.rank[queue[best]]
            if better and _spares_head(machine, jobs, row):
                best = place
                if by_submission:
                    break
        if best < 0:
            return
        _start_beside_head(machine, jobs, costs, best)
        # Who could not be backfilled before cannot be now.
        begin = best if by_submission else 0


@kernel()
def _asks_for_head(machine, jobs, costs):
    """Tell whether it matters which of the candidates comes first. If it does not, go on."""
    memory, queue, first = machine.memory, machine.queue, machine.memory[FIRST]
    settings = machine.settings
    shown = min(memory[WAITING], settings.candidates)
    seen = memory[WAITING] if settings.flags & EASY else shown
    fits, total = False, 0
    for place in range(seen):
        width = jobs.processors[first + queue[place]]
        fits |= width <= memory[FREE]
        total += width
    memory[OPEN] = 1 if fits else 0
    if not fits:
        return False
    if seen == memory[WAITING] and total <= memory[FREE]:
        while memory[WAITING] > 0:
            _launch(machine, jobs, costs, 0)
        memory[OPEN] = 0
        return False
    for place in range(shown):
        machine.shown[place] = place
    memory[SHOWN] = shown
    return True


@kernel()
def _asks_for_backfill(machine, jobs, costs):
    """Start heads while they fit; then tell whether a job could be backfilled."""
    memory, queue, first = machine.memory, machine.queue, machine.memory[FIRST]
    settings = machine.settings
    while memory[HEAD] < 0 and memory[WAITING] > 0:
        best = 0
        for place in range(1, 0 if settings.flags & BY_SUBMISSION else memory[WAITING]):
            if machine.rank[queue[place]] < machine.rank[queue[best]]:
                best = place
        if jobs.processors[first + queue[best]] > memory[FREE]:
            _reserve(machine, jobs, queue[best])
        else:
            _launch(machine, jobs, costs, best)
    shown = 0
    if memory[FREE] > 0:
        for place in range(memory[WAITING]):
            row = first + queue[place]
            if shown == settings.candidates:
                break
            if queue[place] == memory[HEAD] or jobs.processors[row] > memory[FREE]:
                continue
            if not settings.flags & PROTECT or _spares_head(machine, jobs, row):
                machine.shown[shown] = place
                shown += 1
    memory[SHOWN] = shown
    memory[OPEN] = 1 if shown > 0 else 0
    return shown > 0


@kernel()
def advance(machine, jobs, costs):
    """Go on to the next decision; return whether there is one. If not, every job has started."""
    memory = machine.memory
    while True:
        if memory[OPEN]:
            if machine.settings.flags & BACKFILL_MODE:
                if _asks_for_backfill(machine, jobs, costs):
                    return True
            elif _asks_for_head(machine, jobs, costs):
                return True
        elif not _next_instant(machine, jobs):
            return False


@kernel()
def choose(machine, jobs, costs, action):
    """Carry out a decision: a candidate by its number; one that is not there stands for the first.

    To choose the head: start it, or reserve for it and end the pass, with backfilling behind it where that is
    set. To backfill: start it; the action after the last slot starts none and ends the pass.
    """
    memory, settings = machine.memory, machine.settings
    if settings.flags & BACKFILL_MODE and action == settings.candidates:
        memory[OPEN] = 0
        return
    slot = action if 0 <= action < memory[SHOWN] else 0
    place = machine.shown[slot]
    if settings.flags & BACKFILL_MODE:
        head = memory[HEAD]
        _start_beside_head(machine, jobs, costs, place)
        if not settings.flags & PROTECT:
            _reserve(machine, jobs, head)
        return
    job = machine.queue[place]
    if jobs.processors[memory[FIRST] + job] <= memory[FREE]:
        _launch(machine, jobs, costs, place)
        return
    if settings.flags & EASY:
        _reserve(machine, jobs, job)
        _backfill(machine, jobs, costs)
    memory[OPEN] = 0


@kernel()
def run_first_choices(machine, jobs, costs):
    """Choose the first candidate at every decision, until all jobs have started."""
    while advance(machine, jobs, costs):
        choose(machine, jobs, costs, 0)
