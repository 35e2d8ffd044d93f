"""The same days for the kernels and for the plain-Python twin."""

from __future__ import annotations

import numpy as np

from gridtune.core.usage import NodePower
from gridtune.systems.shutdown.simulator.days import Days
from gridtune.systems.shutdown.simulator.platform import Platform
from tests.systems.shutdown.simulator.reference import ReferenceCluster, ReferenceJob
from tests.systems.shutdown.simulator.reference_rules import ReferenceOracle, ReferenceTimeout

TAURUS = Platform()

#: The goldens' names of policies: what `replay` is told, and the twin's policy.
POLICIES = {
    "T0": ({"rule": "timeout", "timeout": 0}, lambda: ReferenceTimeout(0)),
    "T1": ({"rule": "timeout", "timeout": 1}, lambda: ReferenceTimeout(1)),
    "T5": ({"rule": "timeout", "timeout": 5}, lambda: ReferenceTimeout(5)),
    "T10": ({"rule": "timeout", "timeout": 10}, lambda: ReferenceTimeout(10)),
    "OR": ({"rule": "oracle", "max_stretch": 0.5}, lambda: ReferenceOracle(0.5)),
}


def make_days(days: list[list[tuple[int, int, int, int, int]]], minutes: int) -> Days:
    """Return days from (submit, cores, walltime, run, user) tuples in order of submission."""
    jobs = np.array([job for day in days for job in day], np.int64).reshape(-1, 5)
    first = np.cumsum([0, *(len(day) for day in days)]).astype(np.int64)
    submit, cores, walltime, run, user = (np.ascontiguousarray(column) for column in jobs.T)
    names = tuple(f"day-{number}" for number in range(len(days)))
    lengths = np.full(len(days), minutes, np.int64)
    return Days(names, first, lengths, np.arange(len(jobs)), submit, run, walltime, cores, user)


def twin_of(
    days: Days, day: int, platform: Platform = TAURUS, *, tau: float = 0.5, variant: str = "paper"
) -> ReferenceCluster:
    """Return the twin's cluster at the beginning of a day."""
    part = slice(days.first[day], days.first[day + 1])
    columns = (days.submit, days.cores, days.walltime, days.run, days.user)
    jobs = [ReferenceJob(*job) for job in zip(*(column[part].tolist() for column in columns), strict=True)]
    power: NodePower = platform.power
    return ReferenceCluster(
        jobs,
        nodes=platform.nodes,
        cores=platform.cores_per_node,
        watts={
            "idle": power.idle,
            "computing": power.computing,
            "off": power.off,
            "switching_off": power.switching_off,
            "switching_on": power.switching_on,
        },
        minutes={"off": power.switch_off_time, "on": power.switch_on_time},
        tau=tau,
        every_late_job=variant == "exact",
        horizon=int(days.minutes[day]),
    )


def recorded(cluster: ReferenceCluster, action: int) -> list[int]:
    """Return what a recorded minute holds, of a twin that has just lived through it."""
    states = [cluster.state_of(node) for node in range(cluster.nodes)]
    promise = cluster.queue[0].promise if cluster.queue else -1
    counts = [states.count(state) for state in range(5)]
    return [action, cluster.reserved, *counts, len(cluster.queue), promise]


def totals_of(cluster: ReferenceCluster) -> list[int]:
    """Return the twin's accounts in the order of `DayResults.totals`."""
    return [
        *cluster.node_minutes,
        cluster.reported_idle,
        cluster.core_minutes,
        sum(cluster.switched_on),
        sum(cluster.switched_off),
    ]
