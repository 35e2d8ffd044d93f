"""The `slurm` system: a log replayed on a cluster that schedules as Slurm does, under its own settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from cachetools import LRUCache
from pydantic import BeforeValidator, Field, field_validator, model_validator

from gridtune.batch.checks import check_policy
from gridtune.batch.metrics import METRICS, JobColumns, evaluate
from gridtune.batch.metrics.classes import BY_CLASS, default_classes, split_name
from gridtune.batch.policies.queue_order import order_of_function
from gridtune.core.remarks import RECORDED, Trust, log_remarks
from gridtune.core.schedules.schedule import JobState, Schedule
from gridtune.core.sources import file_checksums
from gridtune.core.system import (
    CleanRules,
    LogParameters,
    Outcome,
    Streams,
    System,
    SystemParameters,
    Window,
    WorkloadLoader,
    described,
    split_list,
)
from gridtune.errors import PolicyError, WorkloadError
from gridtune.slurm.cluster import SlurmCluster
from gridtune.slurm.comparison import (
    MODELLED_FACTS,
    Agreement,
    LoggedJobs,
    anchored,
    causes_of,
    logged_jobs,
    reach_of,
)
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.kernel.arrays import Phases
from gridtune.slurm.kernel.ordering import order_for_nodes
from gridtune.slurm.replay import replay
from gridtune.slurm.requests import Request
from gridtune.slurm.study import SETTINGS, Effective
from gridtune.slurm.versions import VERIFIED, release_of, version_of
from gridtune.types import FloatArray
from gridtune.workload.cleaning import clean
from gridtune.workload.workload import Workload

#: Files beside a slurm.conf that decide about schedules, where they are there.
_BESIDE = "*.conf", "sacctmgr*", "sshare.txt", "*.script"
Setting = Annotated[int, Field(ge=0)] | None
Interval = Annotated[int, Field(gt=0)] | None
Share = Annotated[float, Field(gt=0, le=1)]


@described(__file__)
class _SlurmParameters(LogParameters):
    """The parameters of one replay: a setting that is left open is that of the slurm.conf."""

    #: Slurm has its own limit for jobs without a walltime.
    clean: CleanRules = ("sort_submits", "drop_never_started")
    slurm: str
    window: Window | None = None
    window_mode: Literal["cut", "continuous"] = "cut"
    scheduler: Literal["sched/backfill", "sched/builtin"] | None = None
    sched_interval: Interval = None
    default_queue_depth: Setting = None
    bf_interval: Interval = None
    bf_window: Interval = None
    bf_resolution: Interval = None
    bf_max_job_test: Interval = None
    bf_max_job_user: Setting = None
    weight_age: Setting = None
    weight_fair_share: Setting = None
    weight_job_size: Setting = None
    weight_partition: Setting = None
    weight_qos: Setting = None
    order: str | None = None
    guard: Setting = None
    changes: str = ""
    slurm_version: str = Field(
        VERIFIED[0],
        description="the release whose rules hold, from 22.05 to 26.05; "
        f"runs of a real Slurm confirm those of {', '.join(VERIFIED)}",
        examples=["24.11.5"],
    )
    nodes_in_service: Share = 1.0
    release_delay: Annotated[int, Field(ge=0)] = 0
    warmup: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    cooldown: Annotated[float, Field(ge=0, lt=0.5)] = 0.0

    by_class: Annotated[tuple[str, ...], BeforeValidator(split_list)] = ()

    @classmethod
    def register_function(cls, parameter: str, function: Callable[..., Any]) -> str:
        """Take a function as a queue order, under the name it is registered by or else its own."""
        if parameter != "order":
            return super().register_function(parameter, function)
        return order_of_function(function).name

    @field_validator("order")
    @classmethod
    def _check_order(cls, value: str | None) -> str | None:
        try:
            return None if value is None else order_for_nodes(value).canonical(value)
        except PolicyError as error:
            raise ValueError(error.in_one_line) from None

    @field_validator("slurm_version")
    @classmethod
    def _check_version(cls, value: str) -> str:
        try:
            release_of(value)
        except WorkloadError as error:
            raise ValueError(error.in_one_line) from None
        return value

    @model_validator(mode="after")
    def _check_settings(self) -> _SlurmParameters:
        changed = {word.partition("=")[0].lower() for word in self.changes.replace(";", " ").split()}
        for parameter, name in SETTINGS.items():
            if getattr(self, parameter) is not None and name.lower() in changed:
                raise ValueError(f"{parameter} and changes both set {name}: leave it out of one")
        if self.order is None:
            self._refuse_idle([(("guard",), "Slurm's own priority; it goes with an order")])
        return self

    def left_out(self, jobs: int) -> tuple[float, float]:
        """Return what metrics leave out at both ends of so many replayed jobs, as `evaluate` takes it."""
        window = None if self.window_mode == "cut" else self.window
        return self.outside(window, jobs, self.warmup, self.cooldown)

    @property
    def settings(self) -> tuple[str, ...]:
        """The changes, as `read_cluster` takes it."""
        given = {name: getattr(self, parameter) for parameter, name in SETTINGS.items()}
        more = (change.strip() for change in self.changes.split(";"))
        return (
            *(f"{name}={value}" for name, value in given.items() if value is not None),
            *filter(None, more),
        )


class SlurmSystem(System):
    """Jobs on the nodes of a cluster, scheduled as Slurm does by its slurm.conf and changes to it.

    A log does not record when scheduler passes ran, so each replay draws random phases; all configurations of
    a replicate use the same ones.
    """

    name: ClassVar[str] = "slurm"
    version: ClassVar[str] = "8"
    Parameters: ClassVar[type[SystemParameters]] = _SlurmParameters
    metrics = METRICS
    watched_metrics: ClassVar[tuple[str, ...]] = ("wait_max", "area_weighted_response")

    def __init__(self) -> None:
        self._clusters: LRUCache[Hashable, SlurmCluster] = LRUCache(8)
        self._jobs: LRUCache[Hashable, tuple[Workload, LoggedJobs]] = LRUCache(4)

    def traces(self, parameters: _SlurmParameters) -> Iterable[str]:
        """Return the log, with the cleaning rules where they were set by name."""
        return (str(parameters.reference),)

    def file_checksums(self, parameters: _SlurmParameters) -> Mapping[str, str]:
        """Return the checksums of slurm.conf and of what lies beside it."""
        place = Path(parameters.slurm)
        folder = place if place.is_dir() else place.parent
        files = {path for pattern in _BESIDE for path in folder.glob(pattern) if path.is_file()}
        return file_checksums(
            {path.name: path for path in sorted(files | ({place} if place.is_file() else set()))}
        )

    def modelled_features(self, parameters: _SlurmParameters) -> Collection[str]:
        """Return what a replay models; accounts as shares, QOS by their priorities and limits."""
        return MODELLED_FACTS

    def preflight(self, parameters: _SlurmParameters, load: WorkloadLoader) -> None:
        """Refuse configurations and orders that are faulty, and a log of which nothing can run there."""
        workload, _ = self._selected(parameters, load)
        if parameters.order is not None:
            check_policy(order_for_nodes(parameters.order), workload)

    def prepare(self, parameters: Iterable[_SlurmParameters]) -> None:
        """Compile the kernels by replaying two jobs under each order."""
        for cell in {cell.order: cell for cell in parameters}.values():
            cluster = self._cluster(cell)
            name = next(name for name, partition in cluster.partitions.items() if partition.nodes)
            replay(cluster, [Request(k, k, 9, 60, partitions=(name,)) for k in (1, 2)], order=cell.order)

    def run(
        self, parameters: _SlurmParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Replay the jobs of a window on the empty cluster; `tables` adds the schedule as a table."""
        workload, jobs = self._selected(parameters, load)
        effective = Effective.of(dict(parameters))
        cluster = anchored(self._cluster(parameters), workload)
        cluster, requests = effective.applied(cluster, jobs.requests)
        phases = Phases.draw(cluster, streams("phases"))
        result = replay(cluster, requests, phases, order=parameters.order, guard=parameters.guard)
        result.check_all_start(requests)
        killed = result.run_time < workload.run_time
        pauses = result.pauses if len(result.pauses) else None
        schedule = Schedule(
            workload,
            cluster.cpus,
            result.start,
            result.end,
            np.array([request.time_limit for request in jobs.requests], np.int64),
            np.where(killed, JobState.KILLED, JobState.COMPLETED).astype(np.int8),
            {
                "order": parameters.order or "slurm",
                "backfill": "sched/backfill" if cluster.backfill else "sched/builtin",
                **({} if parameters.guard is None else {"guard": parameters.guard}),
            },
            pauses=pauses,
        )
        notes = {
            "jobs": len(workload),
            "processors": cluster.cpus,
            "cleaning": dict(workload.cleaning),
            "left_out": dict(jobs.left_out),
            "taken_otherwise": dict(jobs.changed),
            "not_modelled": list(cluster.not_modelled),
            **log_remarks(workload.contents, self.modelled_features(parameters)),
        }
        # By the whole log, so that windows agree.
        _, whole = self._selected(parameters.model_copy(update={"window": None}), load)
        log = [str(notes["ignored"])] if "ignored" in notes else []
        if ignored := [*whole.remarks, *log, *cluster.not_modelled]:
            notes["ignored"] = "; ".join(ignored)
        if pauses is not None:
            seconds = int(np.diff(pauses[:, 1:]).sum())
            notes["suspended"] = {
                "jobs": len(np.unique(pauses[:, 0])),
                "times": len(pauses),
                "seconds": seconds,
            }
        warmup, cooldown = parameters.left_out(len(workload))
        classes = default_classes(load(str(parameters.reference)))
        by_class = dict.fromkeys((*BY_CLASS, *parameters.by_class))
        metrics = evaluate(schedule, warmup=warmup, cooldown=cooldown, classes=classes, by_class=by_class)
        kept = replace(JobColumns.trimmed(schedule, warmup, cooldown), classes=classes)
        waits = kept.kept(result.start - np.array([request.submit for request in requests]))
        recorded = kept.kept(jobs.recorded)
        agreement = Agreement.of(recorded, waits[None].astype(np.float64))
        real = {"": recorded} | {name: recorded[kept.of_class(name).members] for name in classes}
        sums = {name: [int((one >= 0).sum()), int(one[one >= 0].sum())] for name, one in real.items()}
        notes |= {"classes": dict(classes), RECORDED: {**agreement.as_dict(), "by_class": sums}}
        return Outcome(metrics, notes, {"schedule": schedule.to_table()} if tables else {}, schedule)

    def trust(self, notes: Sequence[Mapping[str, Any]]) -> Trust | None:
        """Return the trust in answers on a log, by the waits of the baseline's cells."""
        parts = [Agreement.read(note[RECORDED]) for note in notes if RECORDED in note]
        return Agreement.pooled(parts).trust if parts else None

    def reach(
        self, metric: str, pair: FloatArray, notes: Sequence[Mapping[str, Any]], windows: bool
    ) -> float:
        """Return the reach of a mean wait as `whatif` has it: two runs of one Slurm differ.

        Seeds are draws of one run. The clocks of windows are drawn one by one: their interval covers them.
        """
        name, of = split_name(metric)
        both = np.isfinite(pair).all(axis=(0, 1)) & (pair[1, 0] > 0)
        if name != "wait_mean" or not both.any():
            return 0.0
        waits, counts = pair[0, :, both].T, pair[1, 0, both]
        means = waits @ counts / counts.sum()
        recorded = [
            note[RECORDED]["by_class"][of or ""] for note in notes if "by_class" in note.get(RECORDED, {})
        ]
        known, seconds = np.sum(recorded, axis=0) if recorded else (0, 0)
        ratio = float(max(1.0, seconds / known) / max(1.0, means[0])) if known else None
        if windows or len(counts) == 1:
            return reach_of(causes_of(means, np.zeros(2), counts.sum(), ratio))
        return reach_of(causes_of(means, waits.std(axis=1, ddof=1), counts.mean(), ratio))

    def _cluster(self, parameters: _SlurmParameters) -> SlurmCluster:
        """Return the cluster. The last eight are cached, by the content of their files."""
        key = self._key(parameters)
        if key not in self._clusters:
            folder, version = Path(parameters.slurm), parameters.slurm_version
            cluster = read_cluster(folder, parameters.settings, version)
            stated = version_of(None, folder, None, version)
            if version == VERIFIED[0] and not stated.startswith(f"{version}."):
                reason = "no file states it" if stated == version else f"scontrol states {stated}"
                note = f"slurm_version: {version} is assumed, and {reason}"
                cluster = replace(cluster, not_modelled=(*cluster.not_modelled, note))
            self._clusters[key] = cluster
        return self._clusters[key]

    def _key(self, parameters: _SlurmParameters) -> Hashable:
        checksums = tuple(self.file_checksums(parameters).items())
        return parameters.slurm, parameters.settings, parameters.slurm_version, checksums

    def _selected(self, parameters: _SlurmParameters, load: WorkloadLoader) -> tuple[Workload, LoggedJobs]:
        """Return the jobs of the window that the cluster can run, as in the log and as Slurm sees them."""
        raw, cluster = load(str(parameters.reference)), self._cluster(parameters)
        window = parameters.window if parameters.window_mode == "cut" else None
        key = (raw.checksum, self._key(parameters), parameters.clean, parameters.first, window)
        if key not in self._jobs:
            workload, _ = clean(raw, parameters.rules)
            if window is not None:
                workload = workload.part(window)
            if parameters.first is not None:
                workload = workload.first(parameters.first)
            if not parameters.changes:
                jobs = logged_jobs(workload, cluster)
            else:
                # Configurations are compared on the jobs that slurm.conf as it is can run.
                running = self._cluster(parameters.model_copy(update={"changes": ""}))
                able = logged_jobs(workload, running)
                if excluded := able.able_in(cluster, running)[2]:
                    hint = "leave it out, or give a copy of slurm.conf that has it to all configurations"
                    raise WorkloadError(f"after {parameters.changes}, {'; '.join(excluded)}", hint=hint)
                workload = workload.take(able.rows)
                jobs = replace(logged_jobs(workload, cluster), left_out=able.left_out)
            self._jobs[key] = workload.take(jobs.rows), jobs
        return self._jobs[key]
