"""The nodes of a machine and their power states in plain Python: the specification of the kernel.

It shares no code with the kernel. There are no lists of nodes: whenever a job needs cores, all nodes are
sorted by the rule, and the state of an idle node follows from when it became idle. What each node did is kept
second by second.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["NodesTwin"]


@dataclass
class _Node:
    number: int
    free: int
    touched: int
    since: int = 0
    ready: int = 0
    warm: bool = True
    spent: dict[int, str] = field(default_factory=dict)
    used: list[tuple[int, int]] = field(default_factory=list)


class NodesTwin:
    """Nodes that are switched off after a timeout; all times count from second 0, when they idle."""

    def __init__(
        self,
        nodes: int,
        cores: int,
        timeout: int | None,
        boot: int,
        shutdown: int,
    ) -> None:
        self.cores, self.timeout, self.boot, self.shutdown = cores, timeout, boot, shutdown
        self.nodes = [_Node(number, cores, number) for number in range(nodes)]
        self.touches = nodes
        self.held: dict[int, list[tuple[_Node, int]]] = {}

    def _idle_state(self, node: _Node, now: int) -> str:
        """Return the state at `now` of a node without jobs, if nothing happens to it."""
        if self.timeout is None:
            return "idle"
        late = now - node.since - self.timeout
        if late <= 0:
            return "idle"
        return "switching off" if late < self.shutdown else "sleeping"

    def _order(self, node: _Node, now: int) -> tuple[int, int]:
        if node.free < self.cores:
            return (0 if node.warm else 3), -node.touched
        state = self._idle_state(node, now)
        if state == "idle":
            return 1, -node.touched
        return (4, -node.touched) if state == "sleeping" else (5, node.touched)

    def _ready(self, node: _Node, now: int) -> int:
        """Return when a node with free cores can compute if it is needed from now on."""
        if node.free < self.cores:
            return node.ready
        begins = {"idle": None, "sleeping": now}.get(self._idle_state(node, now), self._asleep(node))
        return now if begins is None else begins + self.boot

    def _asleep(self, node: _Node) -> int:
        return node.since + (self.timeout or 0) + self.shutdown

    def _touch(self, node: _Node) -> None:
        node.touched = self.touches
        self.touches += 1

    def _warm_up(self, now: int) -> None:
        for node in sorted(self.nodes, key=lambda node: -node.touched):
            if 0 < node.free < self.cores and not node.warm and node.ready <= now:
                node.warm = True
                self._touch(node)

    def _chosen(self, width: int, now: int) -> list[tuple[_Node, int]]:
        chosen = []
        for node in sorted(self.nodes, key=lambda node: self._order(node, now)):
            taken = min(width, node.free)
            width -= taken
            if taken:
                chosen.append((node, taken))
        assert width == 0
        return chosen

    def start_of(self, width: int, now: int) -> int:
        """Return when a job that gets cores now starts."""
        # Nodes that have become ready are taken before idle ones: the start is `now` with either.
        for node in self.nodes:
            assert node.free < self.cores or node.ready <= now
        late = [node for node in self.nodes if 0 < node.free < self.cores and not node.warm]
        ready = [node for node in late if node.ready <= now]
        for node in ready:
            node.warm = True
        start = max(now, *(self._ready(node, now) for node, _ in self._chosen(width, now)))
        for node in ready:
            node.warm = False
        return start

    def claim(self, job: int, width: int, run: int, now: int) -> int:
        """Let a job hold cores from now on; return when it starts."""
        self._warm_up(now)
        chosen = self._chosen(width, now)
        start = max(now, *(self._ready(node, now) for node, _ in chosen))
        for node, taken in chosen:
            if node.free == self.cores:
                node.ready = self._wake(node, now)
            node.free -= taken
            node.warm = node.ready <= now
            node.used.append((start, start + run))
            self._touch(node)
        self.held[job] = chosen
        return start

    def _wake(self, node: _Node, now: int) -> int:
        state = self._idle_state(node, now)
        ends = self._asleep(node) if state == "switching off" else now
        self._fill(node, ends)
        ready = ends if state == "idle" else ends + self.boot
        node.spent.update(dict.fromkeys(range(ends, ready), "switching on"))
        return ready

    def _fill(self, node: _Node, until: int) -> None:
        """Note what an idle node did until it was needed."""
        if self.timeout is None:
            return
        for second in range(node.since + self.timeout, until):
            node.spent[second] = "switching off" if second < self._asleep(node) else "sleeping"

    def vacate(self, job: int, now: int) -> None:
        """Free the cores of a job that ends now."""
        self._warm_up(now)
        for node, cores in reversed(self.held.pop(job)):
            node.free += cores
            node.warm = True
            if node.free == self.cores:
                node.since = now
            self._touch(node)

    def counts(self, state: str, seconds: int) -> list[int]:
        """Return the number of nodes in a state in each second, after the last job has ended."""
        for node in self.nodes:
            self._fill(node, seconds)
            for start, end in node.used:
                node.spent.update(dict.fromkeys(range(start, end), "computing"))
        return [
            sum(node.spent.get(second, "idle") == state for node in self.nodes) for second in range(seconds)
        ]
