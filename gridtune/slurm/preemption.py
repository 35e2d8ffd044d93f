"""Preemption: which jobs may take the place of which.

Source: https://slurm.schedmd.com/preempt.html. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["MODES", "PreemptClass", "Preemption"]

#: What becomes of a job whose place is taken.
MODES = ("off", "cancel", "requeue", "suspend")


@dataclass(frozen=True)
class PreemptClass:
    """A QOS or a partition, as preemption knows it.

    Attributes
    ----------
    rank
        Jobs of the lowest go first: the priority of the QOS, or the tier.
    mode
        One of `MODES`: what becomes of its jobs.
    grace, exempt
        Seconds from the warning to the end, and seconds after its start in which a job is safe. A job that
        is suspended has neither.
    preempts
        Names of the classes whose jobs must make room for its jobs.
    """

    rank: int = 0
    mode: str = "off"
    grace: int = 0
    exempt: int = 0
    preempts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Preemption:
    """Rules by which jobs make room for others: by their QOS, by their partition, or "", not at all.

    Attributes
    ----------
    classes
        By the name of the QOS or partition. Jobs of others neither go nor make go.
    youngest_first, strict_order, reorder_count
        `PreemptParameters`.
    pause
        Seconds after which a job that made others go may do so again.
    """

    by: str = ""
    classes: Mapping[str, PreemptClass] = field(default_factory=dict)
    youngest_first: bool = False
    strict_order: bool = False
    reorder_count: int = 1
    pause: int = 40

    def class_of(self, qos: str, partition: str) -> str:
        """Return the name of the class of a job in a partition, "" for none."""
        name = {"qos": qos, "partition": partition}.get(self.by, "")
        return name if name in self.classes else ""
