"""The `responsive` system: sequential jobs on a grid site, scheduled by simple rules or learned values."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from gridtune.core.sources import file_checksums
from gridtune.core.system import Outcome, Streams, System, SystemParameters, WorkloadLoader
from gridtune.errors import SimulationError, require_module
from gridtune.systems.responsive.learners.training import learn_online, load_policy, train
from gridtune.systems.responsive.metrics import RESPONSIVE_METRICS, counted_jobs, measure_site
from gridtune.systems.responsive.parameters import LEARNED, ResponsiveParameters
from gridtune.systems.responsive.simulator.relaxation import responsiveness_bound
from gridtune.systems.responsive.simulator.replay import SiteReplay, replay
from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel, check_run_times, check_sequential
from gridtune.tracking.checkpoints import find_policy
from gridtune.workload.cleaning import clean
from gridtune.workload.workload import Workload


class ResponsiveSystem(System):
    """One queue of sequential jobs on identical cores, and a policy that chooses which of them runs next.

    The log is cleaned, a partition or group is selected and submissions are shaken. The remaining jobs are
    split in two: a first part to learn on and a last part to report on. The default target shares are those
    of the work in the first part, so that a policy knows nothing of the last part beforehand.
    """

    name: ClassVar[str] = "responsive"
    version: ClassVar[str] = "1"
    environments: ClassVar[Mapping[str, str]] = {
        "Responsive-v0": "gridtune.systems.responsive.environment:ResponsiveEnv"
    }
    trainings: ClassVar[Mapping[str, str]] = {"esnq": "gridtune.systems.responsive.esnq:ResponsiveESNQ"}
    Parameters: ClassVar[type[SystemParameters]] = ResponsiveParameters
    metrics = RESPONSIVE_METRICS
    papers = (Path(__file__).with_name("paper.yaml"),)

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, Workload] = LRUCache(8)

    def modelled_features(self, parameters: ResponsiveParameters) -> Collection[str]:
        """Return what the simulator models: a chosen partition."""
        return () if parameters.partition is None else ("partitions",)

    def file_checksums(self, parameters: ResponsiveParameters) -> Mapping[str, str]:
        """Return the checksum of the learned policy."""
        if parameters.checkpoint is None:
            return {}
        return file_checksums({"checkpoint": find_policy(parameters.checkpoint, file="best.npz")})

    def preflight(self, parameters: ResponsiveParameters, load: WorkloadLoader) -> None:
        """Refuse what is missing: the site's size, jobs, torch for a network; and jobs that are parallel."""
        if parameters.policy in LEARNED and LEARNED[parameters.policy][1] == "ffnn":
            require_module("torch", user=f"policy={parameters.policy}", extra="agents")
        workload = self.selected(parameters, load)
        parameters.size_of(workload.machine_processors)
        check_sequential(workload)
        if parameters.policy == "capped_fcfs" and not (workload.user >= 0).any():
            raise SimulationError("the log names no users", field="policy", hint="capped_fcfs needs them")

    def prepare(self, parameters: Iterable[ResponsiveParameters]) -> None:
        """Compile the site and the learners that the cells need, on a handful of jobs."""
        count = np.arange(12)
        jobs = SiteJobs(count, count % 3 + 1, count % 2, count % 2, np.array([0.5, 0.5]))
        replay(jobs, ResponsiveParameters.model_validate({"trace": "none"}).site_model(2), "fcfs")
        # One cell of each kind of learner compiles everything that the others need.
        kinds = {(cell.policy, cell.site): cell for cell in parameters if cell.policy in LEARNED}
        for cell in kinds.values():
            small = cell.model_copy(
                update={"pretraining_sweeps": 1, "sweeps": min(cell.learner().sweeps, 1), "iterations": 1}
            )
            _run_learner(
                jobs, jobs, small.site_model(max(2, cell.floor or 2)), small, np.random.default_rng(0)
            )

    def run(
        self, parameters: ResponsiveParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Train the policy if it learns, simulate the part to report on, and measure it."""
        workload = self.selected(parameters, load)
        cores = parameters.size_of(workload.machine_processors)
        first, last = parameters.split_log(workload, streams)
        training, jobs = parameters.site_jobs(first, last)
        model = parameters.site_model(cores)
        notes: dict[str, Any] = {
            "jobs": len(jobs),
            "training_jobs": len(training),
            "cores": cores,
            "shares": jobs.shares.tolist(),
            "cleaning": dict(workload.cleaning),
        }
        if parameters.policy in LEARNED:
            outcome, learner = _run_learner(training, jobs, model, parameters, streams("learning"))
            notes["learner"] = learner
        elif parameters.policy == "learned":
            policy = load_policy(find_policy(str(parameters.checkpoint), file="best.npz"))
            outcome = SiteReplay.of(policy.play(jobs, model, headroom=parameters.headroom or 0.0))
            notes["learner"] = policy.settings.to_dict()
        else:
            outcome = replay(
                jobs,
                model,
                parameters.policy,  # type: ignore[arg-type]
                headroom=parameters.asked_headroom,
                rng=streams("decisions"),
            )
        metrics = measure_site(jobs, outcome, weight=parameters.weight, left_out=parameters.left_out)
        counted = counted_jobs(len(jobs), parameters.left_out)
        if parameters.bound:
            most = model.largest if model.elastic else cores
            reached = metrics["responsiveness_mean"]
            metrics["responsiveness_mean_bound"] = responsiveness_bound(jobs, most, counted, reached)
        return Outcome(metrics, notes, _tables(jobs, outcome, counted) if tables else {})

    def selected(self, parameters: ResponsiveParameters, load: WorkloadLoader) -> Workload:
        """Return the jobs of the partition or group, cleaned; the last few selections are cached."""
        (reference,) = self.traces(parameters)
        raw = load(reference)
        p = parameters
        key = (raw.checksum, p.clean, p.partition, p.first)
        if key not in self._selections:
            workload, _ = clean(raw, p.rules)
            if p.partition is not None:
                workload = workload.for_partition(p.partition)
            if p.first is not None:
                workload = workload.first(p.first)
            if len(workload) < 2:
                raise SimulationError(
                    f"the selection leaves {len(workload)} jobs of {raw.name}, but at least 2 are needed"
                )
            check_run_times(workload.run_time)
            self._selections[key] = workload
        return self._selections[key]


def _run_learner(
    training: SiteJobs,
    jobs: SiteJobs,
    model: SiteModel,
    parameters: ResponsiveParameters,
    rng: np.random.Generator,
) -> tuple[SiteReplay, dict[str, Any]]:
    """Train a policy and run it, one after the other or at once; return the outcome and the settings."""
    settings, weight, headroom = parameters.learner(), parameters.weight, parameters.asked_headroom
    if parameters.protocol == "online":
        site = learn_online(training, jobs, model, settings, weight=weight, headroom=headroom, rng=rng)
    else:
        site = train(training, model, settings, weight=weight, rng=rng).play(jobs, model, headroom=headroom)
    return SiteReplay.of(site), settings.to_dict()


def _tables(jobs: SiteJobs, outcome: SiteReplay, counted: slice) -> dict[str, pa.Table]:
    """Return a row for each job and for each decision; `counted` is false where metrics leave it out.

    On an event-driven site also the pool over time.
    """
    inside = np.zeros(len(jobs), np.bool_)
    inside[counted] = True
    job = np.argsort(outcome.decision)
    decisions = {
        "time": outcome.time,
        "job": job,
        "pool": outcome.pool,
        "fairness": outcome.fairness,
        "utilisation": outcome.utilisation,
        "counted": inside[job],
    }
    wait = outcome.start - jobs.submit
    columns = {
        "submit": jobs.submit,
        "run": jobs.run,
        "vo": jobs.vo,
        "interactive": jobs.interactive == 1,
        "start": outcome.start,
        "wait": wait,
        "responsiveness": jobs.run / (jobs.run + wait),
        "counted": inside,
    }
    tables = {"jobs": pa.table(columns), "decisions": pa.table(decisions)}
    if len(outcome.track):
        names = ("time", "pool", "up", "running", "waiting")
        tables["pool"] = pa.table(dict(zip(names, outcome.track.T, strict=True)))
    return tables
