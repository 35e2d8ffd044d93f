"""The choice of jobs that must make room for another one, compiled.

The rules are stated, in plain Python, in `tests/slurm/reference.py`; sources are its own and `_run_now` in
`src/plugins/select/cons_common/job_test.c` of Slurm 22.05.
"""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.slurm.cluster import MODES
from gridtune.slurm.kernel.placing import choose, copy_free, fits_better, gather, has, measure_room, ones

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
def _find_candidates(world, record, now):
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


@kernel(apart=True)
def leave_to(world, free, cores, job, part, test, attempt):
    """Make free, of the node of a job's part, the processors that no other job present has.

    Those that a test and an attempt to place a job took away, if these are not 0, are not present.
    """
    running, shared, words = world.running, world.suspension, world.rules.core_words
    node = running.node[part]
    place = node * words
    if shared.held[node] == world.nodes.cpus[node] - world.free.cpus[node]:
        for w in range(words):
            cores[place + w] |= shared.part[part * words + w]
    else:
        for w in range(words):
            cores[place + w] = shared.whole[place + w]
        for i in range(world.state.running):
            other = running.by_limit[i]
            away = (test > 0 and shared.gone[other] == test) or (
                attempt > 0 and shared.left_out[other] == attempt
            )
            if away or other == job:
                continue
            for k in range(running.begin[other], running.begin[other] + running.parts[other]):
                if running.node[k] == node:
                    for w in range(words):
                        cores[place + w] &= ~shared.part[k * words + w]
    free.cpus[node] = 0
    for w in range(words):
        free.cpus[node] += ones(cores[place + w])


@kernel(apart=True)
def _let_go(world, job, stays_there):
    """Take a job away in the present test; add what it leaves, all or its processors, to `world.later`."""
    running, later, shared, test = world.running, world.later, world.suspension, world.state.tests
    if world.rules.suspending:
        shared.gone[job] = test
    for k in range(running.begin[job], running.begin[job] + running.parts[job]):
        node = running.node[k]
        if world.rules.suspending:
            leave_to(world, later, shared.later, job, k, test, 0)
        else:
            later.cpus[node] += running.cpus[k]
        if not stays_there:
            later.memory[node] += running.memory[k]
            later.gpus[node] += world.jobs.gpus[job]


@kernel()
def _begin_test(world):
    """Let `world.later` begin with what is free now, and no job be taken away."""
    copy_free(world, world.free, world.later)
    world.state.tests += 1
    if world.rules.suspending:
        for i in range(world.rules.nodes * world.rules.core_words):
            world.suspension.later[i] = world.suspension.free[i]


@kernel()
def _step_of(world, record, job, now):
    """Return the place of a job among those that leave their processors to a record, 0 for none.

    Jobs that it suspends come first, those of the lowest partitions first, then others of its tier.
    """
    records, preemption, other = world.records, world.preemption, world.running.record[job]
    partitions, partition = world.rules.partitions, records.partition[other]
    if is_candidate(world, record, job, now) and stays(world, job):
        place = partitions - partition if world.rules.by_partition else 0
        return 1 + _rank(world, job) * (partitions + 1) + place
    beside = world.rules.by_partition and partition != records.partition[record]
    if beside and records.tier[other] == records.tier[record] and preemption.mode[records.group[other]] > 0:
        return _NO_RANK
    return 0


@kernel(apart=True)
def fit(world, free, cores, test, record, nodes, now):
    """Choose nodes for a job that found no place on what is free; return how many, as `choose`.

    It takes processors of jobs that it suspends, or shares them: see `_step_of`. `world.beside` is what is
    free for it then. Jobs that a test took away, if it is not 0, are not there.
    """
    if world.rules.suspending == 0:
        return 0
    shared, state, running, reached = world.suspension, world.state, world.running, 0
    copy_free(world, free, world.beside)
    for i in range(world.rules.nodes * world.rules.core_words):
        shared.beside[i] = cores[i]
    state.fits += 1
    while reached < _NO_RANK:
        step = _NO_RANK + 1
        for i in range(state.running):
            job = running.by_limit[i]
            own = _step_of(world, record, job, now)
            if reached < own < step and not (test > 0 and shared.gone[job] == test):
                step = own
        if step > _NO_RANK:
            return 0
        for i in range(state.running):
            job = running.by_limit[i]
            if _step_of(world, record, job, now) == step and not (test > 0 and shared.gone[job] == test):
                shared.left_out[job] = state.fits
                for k in range(running.begin[job], running.begin[job] + running.parts[job]):
                    leave_to(world, world.beside, shared.beside, job, k, test, state.fits)
        measure_room(world, world.beside, record, nodes)
        picked = choose(world, world.records.job[record])
        if picked > 0:
            return picked
        reached = step
    return 0


@kernel(apart=True)
def take_cores(world, cores, count):
    """Choose the processors of the nodes in `scratch.chosen` among those free: `suspension.taken`."""
    shared, words, scratch = world.suspension, world.rules.core_words, world.scratch
    for i in range(count):
        node, left = scratch.chosen[i], scratch.cpus[i]
        begin, sockets = node * words, shared.sockets[node]
        per = (world.nodes.cpus[node] + sockets - 1) // sockets
        for w in range(words):
            shared.taken[i * words + w] = 0
        while left > 0:
            socket = _best_socket(world, cores, i, scratch.cpus[i]) if world.rules.socket_by_socket else -1
            before = left
            for one in range(sockets):
                core = socket * per if socket >= 0 else one * per
                last = core + per
                while core < last and left > 0:
                    free = has(cores, begin, core) and not has(shared.taken, i * words, core)
                    if free and core < world.nodes.cpus[node]:
                        shared.taken[i * words + (core >> 6)] |= np.uint64(1) << np.uint64(core & 63)
                        left -= 1
                        if socket < 0:
                            break
                    core += 1
                if socket >= 0:
                    break
            if left == before:
                break


@kernel()
def _best_socket(world, cores, place, need):
    """Return the socket of a node chosen with the fewest processors left that suffice, else with the most."""
    shared, words, node = world.suspension, world.rules.core_words, world.scratch.chosen[place]
    sockets, best, most = shared.sockets[node], 0, -1
    per = (world.nodes.cpus[node] + sockets - 1) // sockets
    for socket in range(sockets):
        size = 0
        for core in range(socket * per, min(world.nodes.cpus[node], (socket + 1) * per)):
            size += has(cores, node * words, core) and not has(shared.taken, place * words, core)
        if most < 0 or fits_better(size >= need, size, most >= need, most):
            best, most = socket, size
    return best


@kernel()
def free_of_preemptable(world, record, nodes, now):
    """Make `world.later` what is free once all jobs that must make room have gone; return how many do.

    They are those that have a node of a bitmap, and stand in `preemption.order`.
    """
    _begin_test(world)
    if world.rules.preempting == 0:
        return 0
    count, kept, order = _find_candidates(world, record, now), 0, world.preemption.order
    for i in range(count):
        if _overlaps(world, nodes, order[i]):
            _let_go(world, order[i], stays(world, order[i]))
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
    """Take candidates away one by one until a record fits; return the place of the last, -1 for none."""
    order, usable, chosen = world.preemption.order, world.preemption.usable, world.preemption.chosen
    _begin_test(world)
    for i in range(count):
        if stays(world, order[i]) or _overlaps(world, nodes, order[i]) == 0:
            continue
        _let_go(world, order[i], False)
        measure_room(world, world.later, record, nodes)
        picked = choose(world, world.records.job[record])
        if picked == 0:
            later = world.suspension.later
            picked = fit(world, world.later, later, world.state.tests, record, nodes, now)
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
    count, tries = _find_candidates(world, record, now), 0
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
