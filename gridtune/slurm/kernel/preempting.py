"""The choice of jobs that must make room for another one, compiled.

The rules are stated, in plain Python, in `tests/slurm/reference.py`; sources are its own and `_run_now` in
`src/plugins/select/cons_common/job_test.c` of Slurm 22.05.
"""

from __future__ import annotations

from gridtune.core.compiled import kernel
from gridtune.slurm.cluster import MODES
from gridtune.slurm.kernel.placing import choose, copy_free, gather, has, measure_room

#: Marks of candidates: to be tried first, and not needed.
_FIRST, _KEPT = 99_999, 1
#: The number of a mode, and a rank above all others.
_SUSPEND, _NO_RANK = MODES.index("suspend"), 1 << 60


@kernel()
def goes(world, record, job, now):
    """Tell whether a job that has started must make room for a record."""
    preemption, running, records = world.preemption, world.running, world.records
    kinds = world.rules.groups
    mine, other = records.group[record], records.group[running.record[job]]
    if mine < 0 or other < 0 or not preemption.may[mine * kinds + other]:
        return False
    if preemption.mode[other] == _SUSPEND:
        return records.tier[record] > records.tier[running.record[job]]
    return preemption.mode[other] > 0 and running.start[job] + preemption.exempt[other] <= now


@kernel()
def stays(world, job):
    """Tell whether a job that has started stays where it is, suspended, when it must make room."""
    group = world.records.group[world.running.record[job]]
    return group >= 0 and world.preemption.mode[group] == _SUSPEND


@kernel()
def _overlaps(world, nodes, job):
    """Return how many nodes of a bitmap a job that runs has."""
    running, count = world.running, 0
    for i in range(running.begin[job], running.begin[job] + running.parts[job]):
        count += has(nodes, 0, running.node[i])
    return count


@kernel()
def _rank(world, job):
    return world.preemption.rank[world.records.group[world.running.record[job]]]


@kernel()
def _comes_first(world, job, other):
    """Tell whether a candidate stands before another in the order in which they go."""
    running = world.running
    if world.rules.youngest_first:
        if running.start[job] != running.start[other]:
            return running.start[job] > running.start[other]
        return job < other
    if _rank(world, job) != _rank(world, other):
        return _rank(world, job) < _rank(world, other)
    if running.parts[job] != running.parts[other]:
        return running.parts[job] < running.parts[other]
    return job < other


@kernel()
def is_candidate(world, record, job, now):
    """Tell whether a job that has started must make room for a record, and is on nodes of its partition."""
    running, begin = world.running, world.records.partition[record] * world.rules.words
    if goes(world, record, job, now):
        for k in range(running.begin[job], running.begin[job] + running.parts[job]):
            if has(world.partitions, begin, running.node[k]):
                return True
    return False


@kernel(apart=True)
def find_candidates(world, record, now):
    """Put the jobs that must make room for a record into `preemption.order`; return how many they are."""
    order, count = world.preemption.order, 0
    for i in range(world.state.running):
        job = world.running.by_limit[i]
        if not is_candidate(world, record, job, now):
            continue
        place = count
        while place > 0 and _comes_first(world, job, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = job
        count += 1
    return count


@kernel()
def cpus_of(world, record, job, part, now):
    """Return how many processors a record may take, once a job has gone, of those that it has on a node.

    Of those that it shares with another job, one of which is suspended, it leaves none to a record as long as
    the other is there: that neither goes too, nor has ended before. Where both go, those above count.
    """
    running, shared = world.running, world.suspension
    cpus = running.cpus[part]
    if world.state.links == 0:
        return cpus
    going = goes(world, record, job, now)
    for i in range(world.state.links):
        above = shared.above[i] == job
        if shared.node[i] != running.node[part] or not (above or shared.below[i] == job):
            continue
        other = shared.below[i] if above else shared.above[i]
        if (above or not going) and goes(world, record, other, now):
            continue
        later = running.limit_end[other] - running.limit_end[job]
        if going or later > 0 or (later == 0 and other > job):
            cpus -= shared.cpus[i]
    return cpus


@kernel(apart=True)
def _let_go(world, record, job, now):
    """Add what a job leaves to a record to `world.later`: all that it has, or if suspended its processors."""
    running, later = world.running, world.later
    for i in range(running.begin[job], running.begin[job] + running.parts[job]):
        node = running.node[i]
        later.cpus[node] += cpus_of(world, record, job, i, now)
        if not stays(world, job):
            later.memory[node] += running.memory[i]
            later.gpus[node] += world.jobs.gpus[job]


@kernel(apart=True)
def choose_over(world, record, nodes, now):
    """Choose nodes as if the jobs that a record suspends had no processors; return how many, as `choose`.

    `world.later` is what is free then. The jobs are those of the lowest ranks with which it fits.
    """
    if world.rules.suspending == 0:
        return 0
    count, order, reached = find_candidates(world, record, now), world.preemption.order, -_NO_RANK
    copy_free(world)
    while True:
        next_rank = _NO_RANK
        for i in range(count):
            if stays(world, order[i]) and reached < _rank(world, order[i]) < next_rank:
                next_rank = _rank(world, order[i])
        if next_rank == _NO_RANK:
            return 0
        for i in range(count):
            if stays(world, order[i]) and _rank(world, order[i]) == next_rank:
                _let_go(world, record, order[i], now)
        measure_room(world, world.later, record, nodes)
        picked = choose(world, world.records.job[record])
        if picked > 0:
            return picked
        reached = next_rank


@kernel()
def free_of_preemptable(world, record, nodes, now):
    """Make `world.later` what is free once all jobs that must make room have gone; return how many do.

    They are those that have a node of a bitmap, and stand in `preemption.order`.
    """
    copy_free(world)
    if world.rules.preempting == 0:
        return 0
    count, kept, order = find_candidates(world, record, now), 0, world.preemption.order
    for i in range(count):
        if _overlaps(world, nodes, order[i]):
            _let_go(world, record, order[i], now)
            order[kept] = order[i]
            kept += 1
    return kept


@kernel()
def _order_again(world, count, found):
    """Order candidates anew: the last that was tried first, the others before it by their nodes chosen."""
    order, usable = world.preemption.order, world.preemption.usable
    if world.rules.strict_order:
        last = order[found]
        for i in range(found, 0, -1):
            order[i] = order[i - 1]
        order[0] = last
        return
    usable[order[found]] = _FIRST
    for i in range(found):
        usable[order[i]] = _overlaps(world, world.preemption.chosen, order[i])
    for i in range(found + 1, count):
        usable[order[i]] = 0
    for i in range(1, count):
        job, place = order[i], i
        while place > 0 and usable[order[place - 1]] < usable[job]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = job


@kernel()
def _try_in_order(world, record, nodes, count, now):
    """Let candidates go one by one until a record fits; return the place of the last, -1 if it never does.

    The processors of those that are suspended are free to it anyway.
    """
    order, usable, chosen = world.preemption.order, world.preemption.usable, world.preemption.chosen
    copy_free(world)
    for i in range(count):
        if stays(world, order[i]):
            _let_go(world, record, order[i], now)
    for i in range(count):
        if stays(world, order[i]) or _overlaps(world, nodes, order[i]) == 0:
            continue
        _let_go(world, record, order[i], now)
        measure_room(world, world.later, record, nodes)
        picked = choose(world, world.records.job[record])
        usable[order[i]] = 0
        if picked > 0:
            gather(world, picked, chosen)
            return i
    return -1


@kernel()
def find_victims(world, record, nodes, now):
    """Choose the jobs that must go for a record to fit into a bitmap's nodes.

    They are the first in `preemption.order`; return how many.
    """
    order, usable = world.preemption.order, world.preemption.usable
    count, tries = find_candidates(world, record, now), 0
    for i in range(count):
        usable[order[i]] = 0
    while True:
        found = _try_in_order(world, record, nodes, count, now)
        if found < 0:
            return 0
        tries += 1
        if tries - 1 > world.rules.reorder_count or count <= tries:
            for i in range(found + 1, count):
                usable[order[i]] = _KEPT
            break
        _order_again(world, count, found)
    victims = 0
    for i in range(count):
        if not stays(world, order[i]) and _overlaps(world, world.preemption.chosen, order[i]):
            if usable[order[i]]:
                break
            order[victims] = order[i]
            victims += 1
    return victims
