"""A queue order."""

from __future__ import annotations

import gridtune as gt
from gridtune.batch.policies import JobView

__all__ = ["aged_area"]


@gt.queue_order("aged-area")
def aged_area(job: JobView, hours: float = 24.0) -> float:
    """Smallest area first; a job's area shrinks while it waits, to nothing after `hours`."""
    return job.processors * job.walltime * (1.0 - job.wait / (3600.0 * hours))
