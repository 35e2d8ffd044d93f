"""Small logs for tests, and the reference simulator's view of them."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from gridtune.batch.estimates import estimate_walltimes
from gridtune.batch.policies import get_backfilling, get_queue_order
from gridtune.batch.policies.rollout import Rollout, get_order
from gridtune.batch.predictors import PREDICTORS
from gridtune.workload.workload import Workload
from tests.batch.simulator.conservative_twin import conservative_schedule_twin
from tests.batch.simulator.prediction_twin import PredictionTwin
from tests.batch.simulator.reference import ReferenceJob, ReferenceOrder, reference_schedule
from tests.batch.simulator.rollout_twin import RolloutTwin


def make_log(rows, machine=None, origin=0):
    """Return a workload of (submit, run, walltime, processors[, user[, group]]) rows."""
    table = np.array([[*row, *(-1,) * (6 - len(row))] for row in rows], dtype=np.int64).reshape(-1, 6)
    names = ("submit_time", "run_time", "requested_time", "requested_processors", "user", "group")
    columns = dict(zip(names, table.T, strict=True))
    columns["submit_time"] = columns["submit_time"] + origin
    columns["job_id"] = np.arange(1, len(table) + 1)
    return Workload(columns, machine_processors=machine)


@st.composite
def logs(draw, machine=8, jobs=24, overrun=True):
    """Draw logs full of ties: few instants, few lengths, every width."""
    size = draw(st.integers(1, jobs))
    rows, submit = [], 0
    for _ in range(size):
        submit += draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 7]))
        walltime = draw(st.sampled_from([1, 1, 2, 3, 4, 5, 8, 13, 20]))
        longest = walltime + 6 if overrun else walltime
        run = draw(st.integers(0, longest))
        width = draw(st.one_of(st.sampled_from([1, 2, machine]), st.integers(1, machine)))
        rows.append((submit, run, walltime, width, draw(st.integers(0, 2)), draw(st.integers(0, 1))))
    return make_log(rows, machine, origin=draw(st.sampled_from([0, 5, 1_000_000])))


def guarded(order, guard):
    """Return the order under which jobs that have waited for longer than the guard go first."""
    return lambda job: -math.inf if guard is not None and job.wait > guard else order(job)


def reference_starts(
    workload,
    *,
    order,
    backfill,
    fill_order=None,
    kill=True,
    half_life=0.0,
    lots=None,
    walltime="log",
    nodes=None,
    guard=None,
    predictor=None,
):
    """Return the start times of the plain-Python twins for arguments of `simulate`."""
    estimates, _ = estimate_walltimes(workload, walltime, 0.0, None)
    run = np.minimum(workload.run_time, estimates) if kill else workload.run_time
    origin = int(workload.submit_time[0])
    lots = np.zeros(len(workload)) if lots is None else lots
    jobs = [
        ReferenceJob(
            number=row,
            submit=int(workload.submit_time[row]) - origin,
            run=int(run[row]),
            walltime=int(estimates[row]),
            processors=int(workload.processors[row]),
            user=int(workload.user[row]),
            group=int(workload.group[row]),
            lot=float(lots[row]),
        )
        for row in range(len(workload))
    ]
    rule = get_backfilling(backfill)
    if rule.kind == "conservative":
        columns = (
            [getattr(job, name) for job in jobs] for name in ("submit", "run", "walltime", "processors")
        )
        changing = ReferenceOrder(jobs, guarded(get_queue_order(order), guard), half_life)
        ranks = range(len(jobs))
        starts, _, _ = conservative_schedule_twin(
            *columns, ranks, workload.machine_processors, rule.compression, order=changing
        )
        return np.array(starts) + origin
    for job in jobs:
        job.requested = job.walltime
    policy = get_order(order)
    rollout = RolloutTwin(policy, guard) if isinstance(policy, Rollout) else None
    starts = reference_schedule(
        jobs,
        workload.machine_processors,
        rule,
        None if rollout else guarded(policy, guard),
        None if fill_order is None else guarded(get_queue_order(fill_order), guard),
        half_life,
        nodes,
        rollout,
        None if predictor is None else PredictionTwin(PREDICTORS.find(predictor)(), jobs, walltime),
    )
    return np.array(starts) + origin
