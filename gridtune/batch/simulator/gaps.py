"""The least energy that nodes without work can take, compiled: the kernel behind the bound of energy.

With given starts, a number of nodes at least must be on at any time. Level k is on while k nodes are needed.
However jobs are placed on nodes, at least as many nodes are on as levels, and come on and go off as often; so
the energy is at least the sum of what each level's gaps cost by themselves. A gap costs the cheaper of idling
through it and of a switch off and on again, which takes foresight: the node is on when the gap ends. Before
its first use a level is taken to be off, and after its last to stay off once it has switched.
"""

from __future__ import annotations

import numpy as np

from gridtune.core.compiled import kernel

__all__ = ["least_gap_energy"]

#: A gap at the beginning, between two uses, at the end of time, and a level that is never used.
_FIRST, _BETWEEN, _LAST, _WHOLE = range(4)


@kernel()
def _cost(kind, length, power):
    """Return the least energy of a node over a gap; `power`: see `least_gap_energy`."""
    idle, off, switching_on, switching_off, boot, shutdown = power
    if kind == _WHOLE:
        return min(idle, off) * length
    down = 0.0 if kind == _FIRST else min(shutdown, length)
    up = 0.0 if kind == _LAST else boot
    if down + up > length:
        return idle * length
    return min(idle * length, switching_off * down + switching_on * up + off * (length - down - up))


@kernel()
def least_gap_energy(times, needed, nodes, opens, closes, power):
    """Return the least energy of the nodes that are not needed, in watt-seconds.

    Parameters
    ----------
    times, needed
        Shape (k,), int64: from second `times[i]` on, `needed[i]` nodes are; before the first, none.
    nodes
        The number of nodes.
    opens, closes
        The seconds from which and until which energy counts.
    power
        Watts of a node that is idle, off, switching on, switching off; seconds to switch on, and off.
    """
    since, count = np.empty(times.size + 1, np.int64), np.empty(times.size + 1, np.int64)
    since[0], count[0] = opens, nodes
    entries, used, energy = 1, 0, 0.0
    for place in range(times.size):
        now = min(max(times[place], opens), closes)
        if needed[place] < used:
            since[entries], count[entries] = now, used - needed[place]
            entries += 1
        while used < needed[place]:
            last = entries - 1
            taken = min(count[last], needed[place] - used)
            kind = _FIRST if last == 0 else _BETWEEN
            energy += taken * _cost(kind, float(now - since[last]), power)
            count[last] -= taken
            used += taken
            if count[last] == 0 and last > 0:
                entries = last
        used = needed[place]
    for entry in range(entries):
        energy += count[entry] * _cost(_WHOLE if entry == 0 else _LAST, float(closes - since[entry]), power)
    return energy
