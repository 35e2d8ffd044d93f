"""`SuggestedSpace`: the search space that a system proposes for a log, for `gridtune init`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridtune.workload.workload import Workload

__all__ = ["SuggestedSpace", "has_walltimes", "starter_windows"]

#: Jobs that a window should have at least, and the numbers of windows to choose from: six pairs are the
#: fewest with which a sign-flip test can prove anything at 5 %, ten are as many as most questions need.
_WINDOW_JOBS, _FEWEST, _MOST = 200, 6, 10


@dataclass(frozen=True)
class SuggestedSpace:
    """What a system proposes to search first on a log.

    Attributes
    ----------
    question
        What the search asks, in a sentence.
    dimensions
        Parameter to its values; or, as a search space writes it, to `{grid: values, when: condition}`.
    baseline
        Parameters of the configuration to compare with.
    objective
        The metric to rank by.
    fixed
        Parameters that every cell has, beside the log: the machine's size where the log does not say it.
    replicates
        As a search space writes it; None for windows of the log.
    needs_size
        Whether it needs to know the machine's size.
    """

    question: str
    dimensions: Mapping[str, Sequence[Any] | Mapping[str, Any]]
    baseline: Mapping[str, Any]
    objective: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    replicates: Mapping[str, int] | None = None
    needs_size: bool = True


def starter_windows(jobs: int) -> int | None:
    """Return into how many windows a log of so many jobs should be cut; None if it is too short for that."""
    windows = min(_MOST, jobs // _WINDOW_JOBS)
    return windows if windows >= _FEWEST else None


def has_walltimes(workload: Workload) -> bool:
    """Whether any job of the log says how long it may run."""
    requested = workload.columns.get("requested_time")
    return requested is not None and bool((requested > 0).any())
