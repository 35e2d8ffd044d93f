"""The figures that the paper's text reports. Its plots show more, without numbers.

G. Singh, C. Kesselman, E. Deelman, "A provisioning model and its comparison with best-effort for
performance-cost optimization in grids", HPDC 2007; on the log of CTC SP2 with 430 nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gridtune.core.system import PublishedFigure

__all__ = ["PUBLISHED"]


def _figure(where: str, quantity: str, value: float, unit: str) -> PublishedFigure:
    return PublishedFigure(f"Singh, Kesselman, Deelman, HPDC 2007, {where}", quantity, value, unit)


#: By the search space `provisioning_<space>` that repeats the experiment, and the quantity: `space/quantity`.
PUBLISHED: Mapping[str, PublishedFigure] = MappingProxyType(
    {
        "slots/slots": _figure("section 3", "slots on offer", 124, "slots"),
        "slots/feasible_plans": _figure("section 3, figure 1", "feasible plans evaluated", 1742, "plans"),
        "slots/front": _figure("section 3, figure 1", "plans on the front", 40, "plans"),
        "slots/merged_front": _figure(
            "section 3, figure 3", "plans on the merged front, most of them of HEFT", 39, "plans"
        ),
        "cybershake/best_effort": _figure("section 6", "makespan of best effort at 63 % load", 476_811, "s"),
        "cybershake/change_at_63": _figure(
            "section 6", "change of the makespan by provisioning at 63 % load", -23, "%"
        ),
        "cybershake/change_at_94": _figure(
            "section 6", "change of the makespan by provisioning at 94 % load", -56, "%"
        ),
        "inflation/requests_10_too_long": _figure(
            "section 7", "change of CyberShake's makespan, requests 10 % too long", 3, "%"
        ),
        "inflation/requests_20_too_long": _figure(
            "section 7", "change of CyberShake's makespan, requests 20 % too long", 7.7, "%"
        ),
    }
)
