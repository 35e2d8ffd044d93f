"""The `dispatch` system: a broker sends jobs with deadlines to machines that have queues of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from gridtune.core.remarks import WALLTIMES
from gridtune.core.sources import file_checksums
from gridtune.core.system import Outcome, Streams, System, SystemParameters, WorkloadLoader
from gridtune.errors import require_module
from gridtune.systems.dispatch.metrics import DISPATCH_METRICS, dispatch_notes, measure_dispatch
from gridtune.systems.dispatch.parameters import DispatchParameters
from gridtune.systems.dispatch.simulator.model import DispatchJobs
from gridtune.systems.dispatch.simulator.replay import DispatchReplay, dispatch
from gridtune.tracking.checkpoints import find_policy

#: Columns of the table of jobs: of what they are, and of what became of them.
_OF_JOBS = ("batch", "submit", "length", "estimate", "deadline")
_OF_OUTCOMES = ("machine", "placed", "start", "finish", "chance", "overruled")


class DispatchSystem(System):
    """Jobs with deadlines, sent to machines of different speed that have queues of their own.

    A run is compared with a reference on the same jobs and the same random numbers: the same simple selector
    without a learner; or, where queues are edited, insertion by release with tabu search.
    """

    name: ClassVar[str] = "dispatch"
    version: ClassVar[str] = "4"
    Parameters: ClassVar[type[SystemParameters]] = DispatchParameters

    metrics = DISPATCH_METRICS
    papers = (Path(__file__).with_name("paper.yaml"),)
    trainings: ClassVar[Mapping[str, str]] = {"ppo": "gridtune.systems.dispatch.learners.ppo:DispatchPPO"}
    environments: ClassVar[Mapping[str, str]] = {
        "Dispatch-v0": "gridtune.systems.dispatch.environment:DispatchEnv"
    }

    def file_checksums(self, parameters: DispatchParameters) -> Mapping[str, str]:
        """Return the checksum of the trained policy."""
        if parameters.checkpoint is None:
            return {}
        return file_checksums({"checkpoint": find_policy(parameters.checkpoint)})

    def preflight(self, parameters: DispatchParameters, load: WorkloadLoader) -> None:
        """Refuse to play a policy without torch."""
        super().preflight(parameters, load)
        if parameters.policy == "ppo":
            require_module("torch", user="policy=ppo", extra="agents")

    def modelled_features(self, parameters: DispatchParameters) -> Collection[str]:
        """Return what the simulator models of a log: requested times, as estimates of the lengths."""
        return (WALLTIMES,)

    def prepare(self, parameters: Iterable[DispatchParameters]) -> None:
        """Compile what these runs need, by running a few jobs."""
        few = {"batches": 1, "batch_jobs": 20, "learning_jobs": 60, "offered_load": 3.0}
        learners = {cell.learner for cell in parameters} - {"none", "drain"}
        learning = ({**few, "mode": "direct", "learner": name, "repair_every": 5} for name in learners)
        for options in (few, *learning):
            p = DispatchParameters.model_validate(options)
            rng = np.random.default_rng(0)
            _run(p, p.make_jobs(rng.spawn(4), None), rng.spawn(3))

    def run(
        self, parameters: DispatchParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Run the jobs under the broker and under its reference; `tables` adds a row for each job."""
        p = parameters
        log = None if p.trace is None else load(*self.traces(p))
        part = None if log is None else p.log_part(log)
        drawing = ("arrivals", "lengths", "estimates", "deadlines")
        jobs = p.make_jobs([streams(purpose) for purpose in drawing], part)
        # Both arms draw from streams of the same purposes, each from its beginning.
        running = ("failures", "selector", "learning")
        machines = p.make_machines(jobs, streams("failures"))
        outcome = _run(p, jobs, [streams(purpose) for purpose in running])
        reference = _run(p.compared_with, jobs, [streams(purpose) for purpose in running])
        notes = dispatch_notes(jobs, outcome, reference, len(p.factors))
        if part is not None:
            unknown = int((part.requested_time[: len(jobs)] < 1).sum())
            notes |= {"cleaning": dict(part.cleaning), "without_requested_time": unknown}
        job_tables = {}
        if tables:
            columns = {name: getattr(jobs, name) for name in _OF_JOBS}
            columns |= {name: getattr(outcome, name) for name in _OF_OUTCOMES}
            job_tables["jobs"] = pa.table(columns)
        return Outcome(measure_dispatch(jobs, machines, outcome, reference), notes, job_tables)


def _run(p: DispatchParameters, jobs: DispatchJobs, streams: list[np.random.Generator]) -> DispatchReplay:
    failing, selecting, learning = streams
    machines = p.make_machines(jobs, failing)
    if p.checkpoint is not None:
        from gridtune.systems.dispatch.learners.ppo import play_file  # noqa: PLC0415 (PPO)

        return play_file(find_policy(p.checkpoint), jobs, machines)
    common: dict[str, Any] = {"repair_every": p.repairs, "forget": p.forget}
    if p.learner in {"none", "drain"}:
        return dispatch(
            jobs,
            machines,
            rule=p.deciding_rule,
            order=p.queue_order,
            speeds=p.believed_speeds,
            assisted=p.mode == "assist",
            rng=selecting,
            **common,
        )
    from gridtune.systems.dispatch.dispatchers.broker import Broker  # noqa: PLC0415
    from gridtune.systems.dispatch.dispatchers.learners import LEARNERS  # noqa: PLC0415

    options: dict[str, Any] = {"attributes": p.attributes, "selects_attributes": p.select_attributes}
    if p.learner == "lwl":
        options |= {"memory": p.lwl_jobs, "limit": p.lwl_selection_jobs}
    else:
        options["limit"] = p.selection_jobs
    broker = Broker(
        LEARNERS[p.learner](len(machines), **options),
        direct=p.mode == "direct",
        rule=p.base_rule,
        order=p.queue_order,
        speeds=p.believed_speeds,
        strict=p.candidates == "in_time",
        **{name: getattr(p, name) for name in ("refresh", "refresh_on", "memory", "reselect")},
        **common,
    )
    return broker.run(jobs, machines, rng=selecting, learning_rng=learning)
