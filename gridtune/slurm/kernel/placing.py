"""The choice of nodes for a job, compiled: Slurm's evaluation of nodes with and without a tree of switches.

The rules are stated, in plain Python, in `tests/slurm/reference.py`; sources are its own and
`src/plugins/select/cons_tres` of Slurm 22.05. Sets of nodes are bitmaps of 64-bit words.
"""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel
from gridtune.slurm.versions import (
    COUNTED_TASKS,
    FIRST_NODE,
    FREE_SWITCHES,
    OTHER_SPREAD,
    SHOWN_CPUS,
    SWITCH_CPUS,
    TASKS_PER_NODE,
)

#: A node's number over 64 is the word of a bitmap that has its bit, and the rest is the bit's place there.
_WORD, _PLACE, _BIT = np.int64(6), np.int64(63), np.uint64(1)
#: Masks that count the bits of a word: by pairs, by fours, by eights, and of the lowest bit of each byte.
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_EIGHTS, _BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_TWO, _FOUR, _TOP_BYTE = np.uint64(2), np.uint64(4), np.uint64(56)
_HEAVIEST = 1 << 60
#: What nodes that are completing are heavier by: in `nodes.near`, which is below 0 for them alone.
HEAVIER = 256
#: What the nodes of a job's list are lighter by: they are taken first.
_LISTED = 1 << 40


@kernel()
def has(bitmaps, begin, node):
    """Tell whether the bitmap that begins at a word holds a node."""
    return (bitmaps[begin + (node >> _WORD)] >> np.uint64(node & _PLACE)) & _BIT != 0


@kernel()
def add_node(bitmap, node):
    """Add a node to a bitmap."""
    bitmap[node >> _WORD] |= _BIT << np.uint64(node & _PLACE)


@kernel()
def ones(word):
    """Return how many bits of a word are set."""
    word = word - ((word >> _BIT) & _PAIRS)
    word = (word & _FOURS) + ((word >> _TWO) & _FOURS)
    return np.int64((((word + (word >> _FOUR)) & _EIGHTS) * _BYTES) >> _TOP_BYTE)


@kernel()
def gather(world, count, bitmap):
    """Make a bitmap of the nodes chosen."""
    for w in range(world.rules.words):
        bitmap[w] = 0
    for i in range(count):
        add_node(bitmap, world.scratch.chosen[i])


@kernel()
def copy_free(world, free, other):
    """Copy what is free."""
    for node in range(world.rules.nodes):
        other.cpus[node], other.memory[node] = free.cpus[node], free.memory[node]
        other.gpus[node] = free.gpus[node]


@kernel()
def _threads(world, job, node):
    """Return how many threads of each core of a node a job can use."""
    return min(world.nodes.threads[node], world.jobs.threads[job])


@kernel()
def room_of(world, free, record, node):
    """Return the processors that a node can give to a job; 0 where it cannot take its part."""
    nodes, jobs, records, rules = world.nodes, world.jobs, world.records, world.rules
    job, per_cpu = records.job[record], records.per_cpu[record]
    if free.cpus[node] < (nodes.cpus[node] if records.whole[record] else jobs.cpus_per_node[job]):
        return 0
    threads, each = _threads(world, job, node), jobs.cpus_per_task[job]
    cores, memory = free.cpus[node] // nodes.threads[node], free.memory[node]
    cpus = cores * threads
    if rules.one_task and each > threads:
        # Each task has cores to itself.
        cpus = cores // ((each + threads - 1) // threads) * each
    elif rules.release >= SHOWN_CPUS and jobs.gpus[job] == 0:
        cpus -= cpus % each
    if jobs.memory[job] < 0 and memory < nodes.memory[node]:
        return 0
    if records.whole[record]:
        # Jobs that are suspended keep memory and GPUs of a node without processors.
        need = (max(jobs.memory[job], 0) + free.cpus[node] * per_cpu) * rules.suspending
        fits = memory >= need and free.gpus[node] >= jobs.gpus[job] * rules.suspending
        return cpus if fits else 0
    if jobs.memory[job] > 0:
        if memory < jobs.memory[job]:
            return 0
    elif per_cpu > 0:
        if rules.one_task and each == 1:
            cpus = min(cpus, memory // (per_cpu * nodes.threads[node]))
        lacking = max(0, cpus - memory // per_cpu)
        cpus = max(0, cpus - (lacking + threads - 1) // threads * threads)
        cpus -= cpus % each
    fits = cpus >= jobs.cpus_per_node[job] and free.gpus[node] >= jobs.gpus[job]
    return min(cpus, jobs.shown[job]) if fits else 0


@kernel()
def enough(world, free, record, nodes):
    """Tell whether enough nodes of a bitmap have room for their parts of a plain job."""
    records, found, node = world.records, 0, 0
    least, able = world.jobs.least_nodes[records.job[record]], records.kind[record]
    while found < least and node < world.rules.nodes:
        if has(nodes, 0, node) and has(records.able, able, node):
            found += room_of(world, free, record, node) >= records.need[record]
        node += 1
    return found >= least


@kernel()
def _patience(world, job):
    """Return 1 if a job still waits for few switches, 2 if it also looks at processors that others have."""
    if world.jobs.switches[job] == 0 or world.state.clock >= world.jobs.patience[job]:
        return 0
    return 2 if world.rules.release < FREE_SWITCHES or world.rules.suspending else 1


@kernel()
def measure_node(world, free, record, node):
    """Write the processors that a node can give to a job into `scratch.room` and `scratch.alone`.

    A job with GPUs prefers nodes with more free ones, from then on, but not those that are completing.
    """
    scratch, near, job = world.scratch, world.nodes.near, world.records.job[record]
    scratch.room[node] = scratch.alone[node] = room_of(world, free, record, node)
    scratch.idle[node] = free.cpus[node]
    if _patience(world, job) == 2 and not world.records.whole[record]:
        kept, free.cpus[node] = free.cpus[node], world.nodes.cpus[node]
        scratch.alone[node] = room_of(world, free, record, node)
        free.cpus[node] = kept
    if world.jobs.gpus[job] > 0 and scratch.alone[node] > 0:
        near[node] = min(255, free.gpus[node]) - HEAVIER * (near[node] < 0)


@kernel()
def measure_room(world, free, record, nodes):
    """Write into `scratch.room` the processors that each node of a bitmap can give to a job."""
    records = world.records
    kind = records.kind[record]
    for node in range(world.rules.nodes):
        world.scratch.room[node] = world.scratch.alone[node] = 0
    for w in range(world.rules.words):
        word, node = nodes[w] & records.able[kind + w], w * 64
        while word != 0:
            if word & _BIT != 0:
                measure_node(world, free, record, node)
            word >>= _BIT
            node += 1


@kernel()
def are_many(world, bitmap, enough):
    """Tell whether a set has so many nodes."""
    count = 0
    for w in range(world.rules.words):
        count += ones(bitmap[w])
    return count >= enough


@kernel()
def choose(world, job, waits=True):
    """Choose nodes by `scratch.room`; return how many `scratch.chosen` has, ascending; 0 if they do not do.

    Where small nodes lead to a dead end, they are left out, the smallest first. A job that waits for a number
    of switches gets none on more of them.
    """
    patience = _patience(world, job) if waits else 0
    if patience == 2 and _choose_among(world, job, world.scratch.alone, True) == 0:
        return 0
    return _choose_among(world, job, world.scratch.room, patience > 0)


@kernel()
def _choose_among(world, job, room, patient):
    nodes, jobs, scratch = world.nodes, world.jobs, world.scratch
    left, cpus = scratch.left, jobs.tasks[job] * jobs.cpus_per_task[job]
    count, total, largest, size = 0, 0, 0, world.rules.nodes
    for node in range(size):
        left[node] = room[node]
        if left[node] > 0:
            count += 1
            total += left[node]
            largest = max(largest, left[node])
            scratch.weight[node] = ((nodes.weight[node] + nodes.extra[node]) << 16) - nodes.near[node]
            if _must_have(world, job, node):
                scratch.weight[node] -= _LISTED
    if jobs.most_nodes[job] > 0 and jobs.most_nodes[job] * largest < cpus:
        return 0
    first = not world.rules.least_loaded or jobs.tasks[job] == 1 or jobs.most_nodes[job] == 1
    if (
        first
        and world.rules.release >= FIRST_NODE
        and world.running.begin[job + 1] - world.running.begin[job] == 1
    ):
        return _first_node(world, job, cpus)
    while count >= jobs.least_nodes[job] and total >= cpus and _has_listed(world, job, 0, size):
        most = min(jobs.tasks[job], jobs.most_nodes[job] if jobs.most_nodes[job] > 0 else count)
        if jobs.spread[job] and world.rules.release >= OTHER_SPREAD:
            taken = _by_turns(world, job, cpus, most)
        elif world.rules.least_loaded or jobs.spread[job]:
            taken = _by_load(world, job, cpus, most)
        elif world.rules.leaves > 0 and not jobs.contiguous[job]:
            need = jobs.wanted_nodes[job]
            taken = _by_switch(world, job, need, cpus, most)
            while patient and taken > 0 and _are_apart(world, job):
                need -= 1
                if need < jobs.least_nodes[job] or world.rules.release < SWITCH_CPUS:
                    return 0
                taken = _by_switch(world, job, need, cpus, most)
        else:
            taken = _by_order(world, job, cpus, most)
        if taken > 0:
            _sort(scratch.chosen, taken)
            return taken
        smallest = total
        for node in range(size):
            if 0 < left[node] < smallest:
                smallest = left[node]
        for node in range(size):
            if left[node] == smallest:
                left[node] = 0
                count -= 1
                total -= smallest
    return 0


@kernel()
def _are_apart(world, job):
    """Tell whether the nodes chosen have more switches than a job asks for."""
    count = 0
    for leaf in range(world.rules.leaves):
        count += world.scratch.leaf_used[leaf]
    return count > world.jobs.switches[job]


@kernel()
def _must_have(world, job, node):
    """Tell whether a node is in a job's list."""
    listed = world.jobs.listed[job]
    return listed >= 0 and has(world.jobs.named, listed, node)


@kernel()
def _has_listed(world, job, first, last):
    """Tell whether all nodes of a job's list are left, and within a run."""
    if world.jobs.listed[job] >= 0:
        for node in range(world.rules.nodes):
            inside = first <= node <= last and world.scratch.left[node] != 0
            if not inside and _must_have(world, job, node):
                return False
    return True


@kernel()
def _first_node(world, job, cpus):
    """Choose the lightest node that suffices, the first of equal ones, without regard to switches."""
    left, weight, best = world.scratch.left, world.scratch.weight, -1
    for node in range(world.rules.nodes):
        if 0 < left[node] >= cpus and (best < 0 or weight[node] < weight[best]):
            best = node
    if best < 0 or (world.jobs.listed[job] >= 0 and not _must_have(world, job, best)):
        return 0
    world.scratch.chosen[0], world.scratch.most[best] = best, cpus
    return 1


@kernel()
def _take(world, job, node, taken, need, cpus):
    """Choose a node; return the processors that it gives: some are left for each node still needed."""
    scratch = world.scratch
    left = max(need - 1, 0) * _threads(world, job, node)
    given = min(scratch.left[node], max(cpus - left, world.jobs.cpus_per_node[job]))
    scratch.chosen[taken], scratch.most[node] = node, given
    return given


@kernel()
def _sort(numbers, count):
    for i in range(1, count):
        number, k = numbers[i], i
        while k > 0 and numbers[k - 1] > number:
            numbers[k] = numbers[k - 1]
            k -= 1
        numbers[k] = number


@kernel()
def fits_better(enough, size, best_enough, best_size):
    """Tell whether some nodes are better than others: the fewest that suffice, else the most."""
    if enough != best_enough:
        return enough
    return size < best_size if enough else size > best_size


@kernel()
def _by_switch(world, job, need, cpus, most):
    """topology/tree: nodes of the lightest weights that do, from the switches with the fewest of them."""
    spare = need - world.jobs.least_nodes[job]
    nodes, scratch, size, leaves = world.nodes, world.scratch, world.rules.nodes, world.rules.leaves
    left, weight = scratch.left, scratch.weight
    leaf_nodes, leaf_cpus, used = scratch.leaf_nodes, scratch.leaf_cpus, scratch.leaf_used
    taken, before, least, old = 0, -_HEAVIEST, 0, world.rules.release < SWITCH_CPUS
    for leaf in range(leaves):
        used[leaf] = 0
    while True:
        least = _HEAVIEST
        for node in range(size):
            if left[node] > 0 and before < weight[node] < least:
                least = weight[node]
        if least == _HEAVIEST:
            return 0
        for leaf in range(leaves):
            leaf_nodes[leaf] = leaf_cpus[leaf] = 0
        offered, offered_cpus, heavier = 0, 0, False
        for node in range(size):
            heavier = heavier or (left[node] > 0 and weight[node] > least)
            if left[node] > 0 and weight[node] == least:
                offered += 1
                offered_cpus += left[node]
                if nodes.leaf[node] >= 0:
                    leaf_nodes[nodes.leaf[node]] += 1
                    leaf_cpus[nodes.leaf[node]] += left[node]
        # Later releases look for as many as it asks for at most, while there are others.
        asked = need if heavier and not old else need - spare
        if offered >= asked and offered_cpus >= cpus:
            break
        # What is lighter does not do by itself and is taken whole.
        for node in range(size):
            if left[node] > 0 and weight[node] == least and most > 0:
                cpus -= _take(world, job, node, taken, need - spare, cpus)
                taken, need, most = taken + 1, need - 1, most - 1
                if nodes.leaf[node] >= 0:
                    used[nodes.leaf[node]] = 1
        before = least
    while (need > 0 or cpus > 0) and most > 0:
        best, best_enough = -1, False
        for leaf in range(leaves):
            if leaf_nodes[leaf] == 0:
                continue
            enough = leaf_nodes[leaf] >= need and (leaf_cpus[leaf] >= cpus or old)
            # Those that it has nodes of already come first, in order.
            better = best < 0 or used[leaf] > used[best]
            if not better and used[leaf] + used[best] == 0:
                better = fits_better(enough, leaf_nodes[leaf], best_enough, leaf_nodes[best])
            if better:
                best, best_enough = leaf, enough
        if best < 0:
            break
        for node in range(size):
            inside = left[node] > 0 and weight[node] == least and nodes.leaf[node] == best
            if inside and (need > 0 or cpus > 0) and most > 0:
                cpus -= _take(world, job, node, taken, need - spare, cpus)
                taken, need, most = taken + 1, need - 1, most - 1
        leaf_nodes[best] = 0
        used[best] = 1
    return taken if need <= spare and cpus <= 0 else 0


@kernel()
def _by_order(world, job, cpus, most):
    """No topology: runs of neighbours of one weight, the lightest and then the tightest that suffices."""
    scratch, need = world.scratch, world.jobs.wanted_nodes[job]
    spare, left, weight = need - world.jobs.least_nodes[job], scratch.left, scratch.weight
    first, last, sizes = scratch.first, scratch.last, scratch.size
    runs, taken, joined = 0, 0, world.jobs.contiguous[job]
    for node in range(world.rules.nodes):
        if left[node] <= 0:
            continue
        # Where the nodes must be neighbours, a run has the weight of its last node.
        follows = runs > 0 and last[runs - 1] == node - 1
        if follows and (joined or weight[last[runs - 1]] == weight[node]):
            last[runs - 1] = node
            sizes[runs - 1] += left[node]
        else:
            first[runs], last[runs], sizes[runs] = node, node, left[node]
            runs += 1
    while (need > 0 or cpus > 0) and most > 0:
        best, best_enough = -1, False
        for run in range(runs):
            if sizes[run] == 0 or (joined and not _has_listed(world, job, first[run], last[run])):
                continue
            enough = sizes[run] >= cpus and last[run] - first[run] + 1 >= need - spare
            if best < 0 or weight[last[run]] < weight[last[best]] or (joined and enough and not best_enough):
                better = True
            elif weight[last[run]] > weight[last[best]]:
                better = False
            else:
                better = fits_better(enough, sizes[run], best_enough, sizes[best])
            if better:
                best, best_enough = run, enough
        if best < 0 or (joined and not best_enough):
            break
        single = -1
        if need <= 1:
            for node in range(first[best], last[best] + 1):
                if left[node] >= cpus and (single < 0 or left[node] < left[single]):
                    single = node
        for node in range(first[best], last[best] + 1):
            if (single < 0 or node == single) and (need > 0 or cpus > 0) and most > 0:
                cpus -= _take(world, job, node, taken, need - spare, cpus)
                taken, need, most = taken + 1, need - 1, most - 1
        sizes[best] = 0
    return taken if need <= spare and cpus <= 0 else 0


@kernel()
def _by_load(world, job, cpus, most):
    """CR_LLN: the lightest nodes, of these those with the largest share of idle processors first.

    A job that is spread takes them in order.
    """
    scratch, whole, need = world.scratch, world.nodes.cpus, world.jobs.wanted_nodes[job]
    spare, left, weight, idle = need - world.jobs.least_nodes[job], scratch.left, scratch.weight, scratch.idle
    taken = 0
    while (need > 0 or cpus > 0) and most > 0:
        best = -1
        for node in range(world.rules.nodes):
            if left[node] <= 0:
                continue
            emptier = best >= 0 and idle[node] * whole[best] > idle[best] * whole[node]
            emptier = emptier and not world.jobs.spread[job]
            if best < 0 or weight[node] < weight[best] or (weight[node] == weight[best] and emptier):
                best = node
        if best < 0:
            break
        cpus -= _take(world, job, best, taken, need - spare, cpus)
        taken, need, most = taken + 1, need - 1, most - 1
        # It is out of the choice, and in the next one where these do not do.
        left[best] = -left[best]
    for i in range(taken):
        left[scratch.chosen[i]] = -left[scratch.chosen[i]]
    return taken if need <= spare and cpus <= 0 else 0


@kernel()
def _by_turns(world, job, cpus, most):
    """--spread-job of later releases: the lightest nodes, as many as wanted, between which tasks take turns.

    By a fault a class of weights gives one node even if there are enough, unless the job's list has the most.
    """
    scratch, jobs, nodes = world.scratch, world.jobs, world.rules.nodes
    left, weight, used, each = scratch.left, scratch.weight, scratch.size, jobs.cpus_per_task[job]
    need, asked, before, growing = jobs.wanted_nodes[job], cpus, -nodes - 1, True
    for node in range(nodes):
        used[node] = each * _must_have(world, job, node)
        if used[node] > 0:
            need, most, cpus = need - 1, most - 1, cpus - each
    if most < 0:
        return 0
    while growing:
        heaviest, lightest = -_HEAVIEST, _HEAVIEST if most == 0 else -_HEAVIEST
        while lightest < _HEAVIEST:
            lightest = _HEAVIEST
            for node in range(nodes):
                if left[node] > 0 and heaviest < weight[node] < lightest:
                    lightest = weight[node]
            for node in range(nodes):
                if left[node] > 0 and weight[node] == lightest and used[node] == 0:
                    used[node] = each
                    need, most, cpus = need - 1, most - 1, cpus - each
                    if most == 0 or need <= 0:
                        break
            heaviest = lightest
        turns = cpus > 0
        while turns:
            turns = False
            for node in range(nodes):
                if cpus > 0 and 0 < used[node] < left[node]:
                    used[node] += each
                    cpus -= each
                    turns = cpus > 0
        growing = cpus > 0 and most not in (0, before)
        need, before = max(need, 1) if need == 0 else need, most
    taken, cpus, need = 0, asked, jobs.least_nodes[job]
    for node in range(nodes):
        if used[node] > 0:
            given = max(used[node], jobs.cpus_per_node[job])
            spare = max(need - 1, 0) * _threads(world, job, node)
            scratch.chosen[taken], scratch.most[node] = node, left[node]
            if given > cpus - spare:
                given = scratch.most[node] = max(cpus - spare, jobs.cpus_per_node[job])
            taken, cpus, need = taken + 1, cpus - given, need - 1
    return taken if need <= 0 and cpus <= 0 else 0


@kernel()
def share(world, free, record, count):
    """Fill in `scratch.cpus`, a job's part of each node chosen: tasks go round them, one at a time.

    None gives more than was wanted of it when it was chosen (`eval_nodes_cpus_to_use` in eval_nodes.c).
    """
    nodes, jobs, records, scratch = world.nodes, world.jobs, world.records, world.scratch
    job, chosen, cpus = records.job[record], scratch.chosen, scratch.cpus
    left, each = jobs.tasks[job], jobs.cpus_per_task[job]
    if not COUNTED_TASKS <= world.rules.release < TASKS_PER_NODE:
        left = max(left, count * jobs.tasks_per_node[job])
    for i in range(count):
        cpus[i] = nodes.cpus[chosen[i]] if records.whole[record] else 0
        scratch.charged[i] = cpus[i]
    if records.whole[record]:
        return
    for i in range(count):
        left -= _give(world, free, record, i, min(left, 1))
    # Then what is left of the cores begun, and as many tasks a turn as a core has room for.
    for i in range(count):
        left -= _give(world, free, record, i, min(left, cpus[i] % nodes.threads[chosen[i]] // each))
    before = left + 1
    while 0 < left < before:
        before = left
        for i in range(count):
            left -= _give(world, free, record, i, min(left, max(1, nodes.threads[chosen[i]] // each)))
    for i in range(count):
        scratch.charged[i] = cpus[i]
        threads = _threads(world, job, chosen[i])
        cores = (cpus[i] + threads - 1) // threads
        if world.rules.one_task and each > threads:
            cores = cpus[i] // each * ((each + threads - 1) // threads)
        cpus[i] = cores * nodes.threads[chosen[i]]
        if jobs.charged[job]:
            scratch.charged[i] = cpus[i]


@kernel()
def _give(world, free, record, i, tasks):
    """Give tasks to a node chosen, as many as it has room for; return how many."""
    jobs, scratch, job = world.jobs, world.scratch, world.records.job[record]
    node, each = scratch.chosen[i], jobs.cpus_per_task[job]
    room = min(room_of(world, free, record, node), scratch.most[node])
    if jobs.tasks_per_node[job] > 0:
        room = min(room, jobs.cpus_per_node[job])
    given = max(0, min(tasks, (room - scratch.cpus[i]) // each))
    scratch.cpus[i] += given * each
    return given
