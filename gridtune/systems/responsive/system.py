"""The `responsive` system: sequential jobs on a grid site, scheduled by simple rules or by learned values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from gridtune.core.system import (
    EnvironmentSpec,
    FinishedSweep,
    Outcome,
    Streams,
    System,
    SystemParameters,
    WorkloadLoader,
)
from gridtune.errors import SimulationError
from gridtune.systems.responsive.learners.playing import play
from gridtune.systems.responsive.learners.training import train
from gridtune.systems.responsive.metrics import RESPONSIVE_METRICS, counted_jobs, measure_site
from gridtune.systems.responsive.parameters import LEARNED, ResponsiveParameters
from gridtune.systems.responsive.simulator.jobs import SiteJobs, build_jobs, group_vos, vo_of
from gridtune.systems.responsive.simulator.outcome import SiteOutcome, outcome_of
from gridtune.systems.responsive.simulator.recorded import recorded_outcome
from gridtune.systems.responsive.simulator.replay import replay
from gridtune.systems.responsive.simulator.site import SiteModel
from gridtune.workload.cleaning import clean
from gridtune.workload.joining import joined_parts
from gridtune.workload.workload import Workload

__all__ = ["ResponsiveSystem"]

WEEK = 7 * 86_400


class ResponsiveSystem(System):
    """One queue of sequential jobs on identical cores, and whoever decides which of them runs next.

    The log is cleaned, a partition or group is taken, submissions are shaken, and what is left is cut in
    two: a first part to learn on and a last part to report on. Target shares that are not given are those
    of the work in the first part, so nothing of the last part is known before it is lived through.
    """

    name: ClassVar[str] = "responsive"
    version: ClassVar[str] = "1"
    environments: ClassVar[Mapping[str, EnvironmentSpec]] = {
        "Responsive-v0": EnvironmentSpec(
            "gridtune.systems.responsive.environment:ResponsiveEnv",
            "gridtune.systems.responsive.environment:ResponsiveVectorEnv",
        )
    }
    Parameters: ClassVar[type[SystemParameters]] = ResponsiveParameters

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, Workload] = LRUCache(8)

    metrics = RESPONSIVE_METRICS

    def traces(self, parameters: ResponsiveParameters) -> Iterable[str]:
        """Return the one log; where rules were asked for, the reader is told of them."""
        return (str(replace(parameters.reference, days=parameters.weeks)),)

    def prepare(self, parameters: Iterable[ResponsiveParameters]) -> None:
        """Compile the site and, where a policy is to be learned, its learner, on a handful of jobs."""
        count = np.arange(12)
        jobs = SiteJobs(count, count % 3 + 1, count % 2, count % 2, np.array([0.5, 0.5]))
        replay(jobs, parameters_model(2, ResponsiveParameters.model_validate({"trace": "none"})), "fcfs")
        # One of each kind of learner compiles all that the others need.
        kinds = {
            (each.policy, each.variant, each.site): each for each in parameters if each.policy in LEARNED
        }
        for each in kinds.values():
            small = each.model_copy(
                update={"pretraining_sweeps": 1, "sweeps": 1, "iterations": 1, "probes": 2}
            )
            _learned(jobs, jobs, parameters_model(max(2, each.floor), small), small, np.random.default_rng(0))

    def run(
        self, parameters: ResponsiveParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Learn where there is something to learn, live through the part reported on, and measure it."""
        workload = self._selected(parameters, load)
        cores = parameters.cores or workload.machine_processors
        if cores is None:
            raise SimulationError(
                "the log does not give the machine's size", field="cores", hint="pass cores="
            )
        first, last = split_log(workload, parameters, streams)
        training, jobs = site_jobs(first, last, parameters)
        model = parameters_model(cores, parameters)
        notes: dict[str, Any] = {
            "jobs": len(jobs),
            "training_jobs": len(training),
            "cores": cores,
            "shares": jobs.shares.tolist(),
            "cleaning": dict(workload.cleaning),
        }
        if parameters.policy in LEARNED:
            outcome, told = _learned(training, jobs, model, parameters, streams("learning"))
            notes |= told
        elif parameters.policy == "recorded":
            outcome = _recorded(last, jobs, cores)
        else:
            outcome = _ruled(jobs, model, parameters, streams)
        metrics = measure_site(jobs, outcome, weight=parameters.weight, left_out=parameters.left_out)
        counted = counted_jobs(len(jobs), parameters.left_out)
        return Outcome(metrics, notes, _tables(jobs, outcome, counted) if tables else {})

    def _selected(self, parameters: ResponsiveParameters, load: WorkloadLoader) -> Workload:
        (reference,) = self.traces(parameters)
        raw = load(reference)
        p = parameters
        key = (raw.checksum, p.weeks, p.clean, p.partition, p.group, p.first)
        if key not in self._selections:
            self._selections[key] = _select(raw, p)
        return self._selections[key]

    def report(self, sweep: FinishedSweep) -> list[Path]:
        """Write the publication's tables and figures, with the published numbers beside ours."""
        from gridtune.systems.responsive.report import write  # noqa: PLC0415 (matplotlib)

        return write(sweep)


def _select(raw: Workload, parameters: ResponsiveParameters) -> Workload:
    joined = _in_a_row(raw) if parameters.weeks else raw
    workload, _ = clean(joined, parameters.rules)
    if parameters.partition is not None:
        workload = workload.for_partition(parameters.partition)
    if parameters.group is not None:
        workload = workload.for_group(parameters.group)
    if parameters.first is not None:
        workload = workload.first(parameters.first)
    if len(workload) < 2:
        raise SimulationError(f"{len(workload)} jobs of {raw.name} are left by the selection: at least 2")
    return workload


def _in_a_row(joined: Workload) -> Workload:
    """Return the logs of a joined workload one after the other, each from the next whole week on."""
    _, first = joined_parts(joined)
    submit, begin = joined.submit_time.copy(), 0
    for start, end in pairwise(first.tolist()):
        submit[start:end] += begin
        begin = -(-(int(submit[start:end].max()) + 1) // WEEK) * WEEK
    return replace(joined, columns={**joined.columns, "submit_time": submit}, header={})


def split_log(
    workload: Workload, parameters: ResponsiveParameters, streams: Streams
) -> tuple[Workload, Workload]:
    """Return the jobs to learn on and those to report on; each job is in one of them, or in both."""
    if parameters.shake:
        workload = workload.shake(parameters.shake, streams("shaking"))
    cut = min(max(round(parameters.split * len(workload)), 1), len(workload) - 1)
    first, last = workload.take(slice(0, cut)), workload.take(slice(cut, None))
    reported = {"train": first, "test": last, "all": workload}[parameters.part]
    if parameters.window is not None:
        number, count = map(int, parameters.window.split("/"))
        reported = reported.windows(count)[number - 1]
    return first, reported


def site_jobs(first: Workload, last: Workload, parameters: ResponsiveParameters) -> tuple[SiteJobs, SiteJobs]:
    """Return both parts as the site sees them: VOs and their target shares are those of the first one."""
    if parameters.shares is not None:
        vos, shares = parameters.target_shares()
    else:
        vos = group_vos(first.group, parameters.vos)
        work = np.bincount(vo_of(first.group, vos), first.run_time, minlength=len(vos) + 1)
        # Two VOs may share nothing but a name: whoever did no work is still promised something.
        shares = np.maximum(work / max(work.sum(), 1), 1e-3)
        shares = shares / shares.sum()
    below = parameters.interactive_below
    train = build_jobs(first, vos=vos, shares=shares, interactive_below=below)
    return train, build_jobs(last, vos=vos, shares=shares, interactive_below=below)


def parameters_model(cores: int, parameters: ResponsiveParameters) -> SiteModel:
    """Return the site that the parameters describe."""
    return SiteModel(
        cores=cores,
        elastic=parameters.site == "elastic",
        floor=parameters.floor if "floor" in parameters.model_fields_set else min(parameters.floor, cores),
        largest=parameters.largest or 2 * cores,
        step=parameters.step,
        period=parameters.period,
        oracle=parameters.estimates == "oracle",
        window=parameters.median_of,
    )


def _ruled(
    jobs: SiteJobs, model: SiteModel, parameters: ResponsiveParameters, streams: Streams
) -> SiteOutcome:

    return replay(
        jobs,
        model,
        parameters.policy,  # type: ignore[arg-type]
        patience=parameters.patience,
        headroom=parameters.headroom or 0.0,
        rng=streams("decisions"),
    )


def _recorded(last: Workload, jobs: SiteJobs, cores: int) -> SiteOutcome:

    return recorded_outcome(jobs, last.wait_time, cores)


def _learned(
    training: SiteJobs,
    jobs: SiteJobs,
    model: SiteModel,
    parameters: ResponsiveParameters,
    rng: np.random.Generator,
) -> tuple[SiteOutcome, dict[str, Any]]:
    """Learn on one part and live through the other; return also what learning says about itself."""
    settings = parameters.learner()
    policy = train(training, model, settings, weight=parameters.weight, rng=rng)
    lived = play(policy, jobs, model, headroom=parameters.headroom or 0.0)
    return outcome_of(lived), {"learner": settings.to_dict()}


def _tables(jobs: SiteJobs, outcome: SiteOutcome, counted: slice) -> dict[str, pa.Table]:
    """Return a row for each job and one for each decision; `counted` is false where measures leave it out."""
    import pyarrow as pa  # noqa: PLC0415

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
    columns = {
        "submit": jobs.submit,
        "run": jobs.run,
        "vo": jobs.vo,
        "interactive": jobs.interactive == 1,
        "start": outcome.start,
        "counted": inside,
    }
    return {"jobs": pa.table(columns), "decisions": pa.table(decisions)}
