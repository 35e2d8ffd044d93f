"""What the paper's text reports, as data with the place where each figure stands.

G. Singh, C. Kesselman, E. Deelman, "A provisioning model and its comparison with best-effort for
performance-cost optimization in grids", HPDC 2007. Its figures give more, without numbers.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PUBLISHED", "PUBLISHED_ON", "Published"]

#: The log behind all of them, as the paper names it.
PUBLISHED_ON = "CTC SP2, 430 nodes"


class Published(NamedTuple):
    """One published figure.

    Attributes
    ----------
    experiment
        The sweep that repeats it.
    what
        What it is.
    value
        As the paper writes it.
    source
        Where it stands.
    """

    experiment: str
    what: str
    value: str
    source: str


PUBLISHED = (
    Published("slots", "slots on offer", "124", "section 3"),
    Published("slots", "feasible plans met", "1,742", "section 3, figure 1"),
    Published("slots", "plans on the front", "40", "section 3, figure 1"),
    Published(
        "slots", "merged plans that no other dominates", "39, most of them HEFT's", "section 3, figure 3"
    ),
    Published("cybershake", "best effort at 63 % load, makespan", "132.4 h (476,811 s)", "section 6"),
    Published("cybershake", "provisioned at 63 % load, makespan", "−23 %", "section 6"),
    Published("cybershake", "provisioned at 94 % load, makespan", "−56 %", "section 6"),
    Published("inflation", "requests 10 % too long, CyberShake, makespan", "+3 %", "section 7"),
    Published("inflation", "requests 20 % too long, CyberShake, makespan", "+7.7 %", "section 7"),
)
