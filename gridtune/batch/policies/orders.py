"""The built-in queue orders: functions of a `JobView`; the smallest score goes first."""

# They all take a JobView and return a float.
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

import math

from gridtune.batch.policies.queue_order import queue_order


@queue_order("fcfs")
def _first_come_first_served(job):
    """First come, first served."""
    return job.submit_time


@queue_order("sjf")
def _shortest_job_first(job):
    """Shortest job first, by the walltime, as the run time is unknown."""
    return job.walltime


@queue_order("ljf")
def _longest_job_first(job):
    """Longest job first, by the walltime."""
    return -job.walltime


@queue_order("saf")
def _smallest_area_first(job):
    """Smallest area (processors × walltime) first."""
    return job.processors * job.walltime


@queue_order("laf")
def _largest_area_first(job):
    """Largest area (processors × walltime) first."""
    return -job.processors * job.walltime


@queue_order("narrowest")
def _narrowest_first(job):
    """Fewest processors first."""
    return job.processors


@queue_order("widest")
def _widest_first(job):
    """Most processors first."""
    return -job.processors


@queue_order("wfp3")
def _wfp3(job, exponent=3.0):
    """WFP3 (Tang et al. 2009): processors × (wait / walltime)³, largest first."""
    return -job.processors * math.pow(job.wait / max(job.walltime, 1), exponent)


@queue_order("unicef")
def _unicef(job):
    """UNICEF (Tang et al. 2009): wait / (log₂(processors) × walltime), largest first; log₂ at least 1."""
    return -job.wait / (max(math.log2(job.processors), 1.0) * max(job.walltime, 1))


@queue_order("xfactor")
def _expansion_factor(job):
    """Largest expansion factor first: (wait + walltime) / walltime."""
    return -(job.wait + job.walltime) / max(job.walltime, 1)


@queue_order("f1")
def _f1(job):
    """F1 (Carastan-Santos and de Camargo 2017): log₁₀(walltime) × processors + 870 log₁₀(submit)."""
    return math.log10(max(job.walltime, 1)) * job.processors + 870.0 * math.log10(max(job.submit_time, 1))


@queue_order("f2")
def _f2(job):
    """F2 (Carastan-Santos and de Camargo 2017): √walltime × processors + 25,600 log₁₀(submit)."""
    return math.sqrt(job.walltime) * job.processors + 25600.0 * math.log10(max(job.submit_time, 1))


@queue_order("f3")
def _f3(job):
    """F3 (Carastan-Santos and de Camargo 2017): walltime × processors + 6,860,000 log₁₀(submit)."""
    return job.walltime * job.processors + 6860000.0 * math.log10(max(job.submit_time, 1))


@queue_order("f4")
def _f4(job):
    """F4 (Carastan-Santos and de Camargo 2017): walltime × √processors + 530,000 log₁₀(submit)."""
    return job.walltime * math.sqrt(job.processors) + 530000.0 * math.log10(max(job.submit_time, 1))


@queue_order("edf")
def _earliest_deadline_first(job, slack=0.0):
    """Earliest deadline first; the deadline is submission + walltime × (1 + slack)."""
    return job.submit_time + job.walltime * (1.0 + slack)


@queue_order("fair-user")
def _fair_share_by_user(job):
    """Fair share: the user with the least processor-seconds used so far first."""
    return job.user_usage


@queue_order("fair-group")
def _fair_share_by_group(job):
    """Fair share: the group with the least processor-seconds used so far first."""
    return job.group_usage


@queue_order("random")
def _random_order(job):
    """Random order: each job draws its place at submission."""
    return job.lot
