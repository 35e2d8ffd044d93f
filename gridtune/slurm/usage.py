"""The decayed usage of accounts and users, as `sshare` shows it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from gridtune.slurm.cluster import Priorities
from gridtune.slurm.requests import Request

__all__ = ["decayed_usage"]


def decayed_usage(
    priorities: Priorities, now: int, ran: Iterable[tuple[Request, int, int]]
) -> dict[tuple[str, str], float]:
    """Return processor-seconds of each (account, user), those long ago counting less.

    Parameters
    ----------
    priorities
        Their half-life is how fast usage decays; 0 is never.
    now
        The instant, seconds.
    ran
        Jobs with start and end, in seconds, none after now.
    """
    usage: dict[tuple[str, str], float] = defaultdict(float)
    rate = math.log(2) / priorities.half_life if priorities.half_life else 0.0
    for request, start, end in ran:
        if rate:
            seconds = (math.exp(rate * (end - now)) - math.exp(rate * (start - now))) / rate
        else:
            seconds = end - start
        usage[request.account, request.user] += request.cpus * seconds
    return dict(usage)
