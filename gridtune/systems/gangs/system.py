"""The `gangs` system: training jobs that need several GPUs at once share a pool, round by round."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, ClassVar, Self

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from pydantic import BeforeValidator, Field, model_validator

from gridtune.core.measures import Measure, read_metrics
from gridtune.core.system import (
    Count,
    LogParameters,
    Outcome,
    Partition,
    Streams,
    System,
    SystemParameters,
    Window,
    WorkloadLoader,
    described,
    split_list,
)
from gridtune.errors import SimulationError
from gridtune.systems.gangs.simulator import Gangs, GpuPool, Policy, simulate
from gridtune.types import IntArray
from gridtune.workload.cleaning import clean
from gridtune.workload.files import WorkloadReference
from gridtune.workload.workload import Workload

#: GPU-seconds after which a job falls to the next queue, ascending.
_Thresholds = Annotated[tuple[Count, ...], BeforeValidator(split_list)]


@described(__file__)
class _GangsParameters(LogParameters):
    """A pool of GPUs, the training jobs that arrive, and the policy that chooses which of them run."""

    trace: str | None = None  # type: ignore[assignment]  # its base needs a log
    policy: Policy = "las"
    queues: _Thresholds = ()
    gpus: Count | None = None
    gpus_per_node: Count = 8
    load: Annotated[float, Field(gt=0, le=10)] | None = None
    round: Count = 360
    restart: Annotated[int, Field(ge=0)] = 30
    partition: Partition | None = None
    window: Window | None = None
    drawn_jobs: Count | None = None

    @property
    def reference(self) -> WorkloadReference:
        """The log, with the rules that clean it as it is read: all but those that go by the pool's size."""
        rules = tuple(rule for rule in self.rules if rule not in ("drop_wider", "clamp_wider"))
        return WorkloadReference(str(self.trace), rules)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.trace is None:
            self._refuse_idle([(("partition", "clean"), "drawn jobs")])
        if self.policy != "las":
            self._refuse_idle([(("queues",), f"policy={self.policy}")])
        if any(low >= high for low, high in pairwise(self.queues)):
            raise ValueError(f"queues must ascend, but are {', '.join(map(str, self.queues))}")
        if self.gpus is not None and self.gpus % self.gpus_per_node:
            raise ValueError(f"gpus={self.gpus} are no whole nodes of gpus_per_node={self.gpus_per_node}")
        if self.restart >= self.round:
            raise ValueError(f"restart={self.restart} must be shorter than round={self.round}")
        return self

    def cut(self, jobs: Workload) -> Workload:
        """Return the jobs of the window, and of these the first ones."""
        jobs = jobs if self.window is None else jobs.part(self.window)
        return jobs if self.first is None else jobs.first(self.first)

    def size(self, jobs: Workload) -> int:
        """Return the GPUs of the pool, or refuse it."""
        size = self.gpus or jobs.machine_processors
        if size is None:
            raise SimulationError(
                f"{jobs.name} does not say how many GPUs there are", field="gpus", hint="gpus=512"
            )
        if size % self.gpus_per_node:
            raise SimulationError(
                f"{size} GPUs are no whole nodes of {self.gpus_per_node}", field="gpus_per_node"
            )
        return size

    def loaded(self, jobs: Workload) -> Workload:
        """Return jobs with the offered load that is asked for, or refuse them."""
        if len(jobs) == 0:
            raise SimulationError(f"no job of {jobs.name} is left by the selection")
        size, widest = self.size(jobs), int(jobs.processors.max())
        if widest > size:
            hint = "clean=default,drop_wider leaves such jobs out"
            raise SimulationError(f"a job asks for {widest} of {size} GPUs", field="gpus", hint=hint)
        if (jobs.processors * jobs.run_time.astype(np.float64)).sum() > _MOST_WORK:
            raise SimulationError(f"jobs of {jobs.name} ask for more than 2^53 GPU-seconds", field="trace")
        wanted = self.load or (_LOAD if self.trace is None else None)
        if wanted is None:
            return jobs
        if jobs.submit_time[0] == jobs.submit_time[-1]:
            raise SimulationError(
                f"all jobs of {jobs.name} are submitted at once: no load fits", field="load"
            )
        return jobs.scale_load(wanted / _offered(jobs.submit_time, jobs.run_time, jobs.processors, size))


#: GPUs and offered load of jobs without a log, and how many there are.
_GPUS, _LOAD, _JOBS = 64, 0.8, 5000
#: GPU-seconds that jobs may ask for together: sums of them stay exact.
_MOST_WORK = 2**53


class GangsSystem(System):
    """Training jobs on a pool of GPUs, all of a job's GPUs at once, and preempted where the policy does so.

    A log is cleaned first; then its partition, window and first jobs are selected, in this order, drawn from,
    and scaled to the offered load. Without a log, jobs are drawn as Gavel's generator does, and the window is
    of them.
    """

    name: ClassVar[str] = "gangs"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = _GangsParameters
    metrics = read_metrics(__file__, Measure)
    watched_metrics: ClassVar[tuple[str, ...]] = (
        *("jct_mean_single", "jct_mean_node", "jct_mean_wide", "jct_mean_short", "jct_mean_long"),
        *("jct_p99", "jct_max"),
    )

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, Workload] = LRUCache(16)

    def modelled_features(self, parameters: _GangsParameters) -> Collection[str]:
        """Return GPUs; of a single partition, the partition."""
        return ("gpus",) if parameters.partition is None else ("gpus", "partitions")

    def preflight(self, parameters: _GangsParameters, load: WorkloadLoader) -> None:
        """Refuse pools that are too small for a job, and logs that do not say what is needed."""
        if parameters.trace is not None:
            parameters.loaded(self._selected(parameters, load))

    def prepare(self, parameters: Iterable[_GangsParameters]) -> None:
        """Compile the kernels, by running two jobs."""
        jobs = np.ones(2, np.int64)
        simulate(jobs, jobs, jobs, "las", GpuPool(1, 1, 360, 30))

    def run(
        self, parameters: _GangsParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Run the jobs to their ends; `tables` adds a row for each job, and one for each stay on a node."""
        p = parameters
        if p.trace is None:
            jobs = p.cut(_draw_jobs(p.drawn_jobs or _JOBS, streams("jobs")))
        else:
            jobs = self._selected(p, load)
            if p.drawn_jobs is not None:
                # With repetition, at the same rate as a Poisson process.
                rng = streams("jobs")
                gap = float(jobs.submit_time[-1] - jobs.submit_time[0]) / len(jobs)
                drawn = jobs.take(rng.integers(len(jobs), size=p.drawn_jobs))
                jobs = drawn.submitted(_arrivals(p.drawn_jobs, gap, rng))
        jobs = p.loaded(jobs)
        submit, gpus, pool = jobs.submit_time - jobs.submit_time[0], jobs.processors, p.size(jobs)
        clock = GpuPool(pool // p.gpus_per_node, p.gpus_per_node, p.round, p.restart)
        gangs = simulate(submit, jobs.run_time, gpus, p.policy, clock, queues=p.queues, spans=tables)
        rows = {}
        if tables:
            columns = {"submit": submit, "run_time": jobs.run_time, "gpus": gpus, "start": gangs.start}
            columns |= {"end": gangs.end, "held": gangs.held, "starts": gangs.starts}
            rows["jobs"] = pa.table(columns)
            rows["spans"] = pa.table(
                dict(zip(("job", "node", "gpus", "from", "to"), gangs.spans.T, strict=True))
            )
        metrics = _measure(submit, jobs.run_time, gpus, gangs, pool, p.gpus_per_node)
        return Outcome(metrics, {"cleaning": dict(jobs.cleaning)}, rows)

    def _selected(self, p: _GangsParameters, load: WorkloadLoader) -> Workload:
        """Return the jobs of the log that are run, with their own times, and their GPUs as processors."""
        log = load(str(p.reference))
        key = (log.checksum, p.gpus, p.rules, p.partition, p.window, p.first)
        if key not in self._selections:
            gpus = np.maximum(log.column("requested_gpus"), log.column("allocated_gpus"))
            if (gpus > 0).any():
                # Jobs with GPUs, and these as their processors.
                log = replace(log.take(gpus > 0), machine_processors=None)
                log = replace(log, columns={**log.columns, "requested_processors": gpus[gpus > 0]})
            jobs, _ = clean(log, p.rules, processors=p.gpus)
            if p.partition is not None:
                jobs = jobs.for_partition(p.partition)
            self._selections[key] = p.cut(jobs)
        return self._selections[key]


def _draw_jobs(count: int, rng: np.random.Generator) -> Workload:
    """Draw jobs as Gavel's generator does, on a machine of 64 GPUs, with about its default load.

    Source: `scheduler/utils.py` of the authors' program: 70 % of the jobs have one GPU, 10 % two, 15 % four
    and 5 % eight; run times are log-uniform, four in five from 31 minutes to 17 hours, the others to a week;
    arrivals are a Poisson process.
    """
    gpus = rng.choice([1, 2, 4, 8], count, p=[0.7, 0.1, 0.15, 0.05])
    exponent = np.where(rng.random(count) < 0.8, rng.uniform(1.5, 3, count), rng.uniform(3, 4, count))
    run_time = np.rint(60 * 10**exponent)
    submit = _arrivals(count, (gpus * run_time).mean() / (_LOAD * _GPUS), rng)
    columns = {"submit_time": submit, "run_time": run_time, "requested_processors": gpus}
    return Workload(columns, name="drawn jobs", machine_processors=_GPUS)


def _arrivals(count: int, gap: float, rng: np.random.Generator) -> IntArray:
    """Draw the submissions of a Poisson process with this mean gap, whole seconds."""
    return rng.exponential(gap, count).cumsum().astype(np.int64)


def _offered(submit: IntArray, run_time: IntArray, gpus: IntArray, size: int) -> float:
    return float((gpus * run_time).sum() / (size * max(1, int(submit[-1] - submit[0]))))


def _measure(
    submit: IntArray, run_time: IntArray, gpus: IntArray, gangs: Gangs, size: int, per_node: int
) -> Mapping[str, float]:
    jct = gangs.end - submit
    classes = {
        "single": gpus == 1,
        "node": (gpus > 1) & (gpus <= per_node),
        "wide": gpus > per_node,
        "short": run_time <= np.quantile(run_time, 0.5),
        "long": run_time >= np.quantile(run_time, 0.9),
    }
    by_class = {
        f"jct_mean_{name}": jct[which].mean() if which.any() else np.nan for name, which in classes.items()
    }
    return {
        "jct_mean": jct.mean(),
        "jct_median": np.median(jct),
        "jct_p99": np.quantile(jct, 0.99),
        "jct_max": jct.max(),
        **by_class,
        "wait_mean": (jct - gangs.held).mean(),
        "makespan": gangs.end.max(),
        "utilisation": gangs.used / (size * submit[-1]) if submit[-1] > 0 else np.nan,
        "preemptions": gangs.starts.mean() - 1,
        "offered_load": _offered(submit, run_time, gpus, size) if submit[-1] > 0 else np.nan,
        "jobs": len(jct),
        "gpus": size,
    }
