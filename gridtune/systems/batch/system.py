"""The `batch` system: a job log replayed on one machine under a queue order and a backfilling rule."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from cachetools import LRUCache

from gridtune.batch.checks import check_policy, check_runnable
from gridtune.batch.estimates import kill_decided
from gridtune.batch.metrics import METRICS, evaluate
from gridtune.batch.metrics.classes import BY_CLASS, default_classes
from gridtune.batch.partitions import partition_sizes
from gridtune.batch.policies import BACKFILLING_WARNINGS, SWITCHES
from gridtune.batch.policies.rollout import get_order
from gridtune.batch.replay import models_of, simulate
from gridtune.core.schedules.schedule import Schedule, validate_schedule
from gridtune.core.sources import file_checksums
from gridtune.core.system import Outcome, Streams, SuggestedSpace, System, SystemParameters, WorkloadLoader
from gridtune.errors import GridtuneError
from gridtune.systems.batch.parameters import BatchParameters
from gridtune.workload.workload import Workload

#: Parameters that `simulate` takes under the same name.
_SIMULATED = tuple(
    name for name in (*signature(simulate).parameters, *SWITCHES) if name in BatchParameters.model_fields
)


class BatchSystem(System):
    """Rigid parallel jobs on a pool of identical processors.

    The log is cleaned first; then jobs are selected (partition, user, group, part, window, first), scaled
    (times, load), doubled (copies) and shaken, in this order, and the result is replayed.
    """

    name: ClassVar[str] = "batch"
    version: ClassVar[str] = "2"
    default: ClassVar[bool] = True
    Parameters: ClassVar[type[SystemParameters]] = BatchParameters
    metrics = METRICS
    value_warnings: ClassVar[Mapping[str, Mapping[str, str]]] = {"backfill": BACKFILLING_WARNINGS}
    watched_metrics: ClassVar[tuple[str, ...]] = ("wait_max", "area_weighted_response")
    environments: ClassVar[Mapping[str, str]] = {"Batch-v0": "gridtune.batch.environment:BatchEnv"}
    trainings: ClassVar[Mapping[str, str]] = {"ppo": "gridtune.systems.batch.learners.ppo:BatchPPO"}
    papers = (Path(__file__).with_name("paper.yaml"),)

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, Workload] = LRUCache(8)
        self._replays: LRUCache[Hashable, Schedule] = LRUCache(2)

    def file_checksums(self, parameters: BatchParameters) -> Mapping[str, str]:
        """Return the checksum of the trained policy."""
        if parameters.checkpoint is None:
            return {}
        from gridtune.tracking.checkpoints import find_policy  # noqa: PLC0415 (for this policy alone)

        return file_checksums({"checkpoint": find_policy(parameters.checkpoint)})

    def values_from_log(self, parameters: BatchParameters, load: WorkloadLoader) -> Mapping[str, Any]:
        """Return whether jobs are killed, left out where they are as it always was, and partitions' sizes."""
        log = load(str(parameters.reference))
        decided: dict[str, Any] = dict(kill_decided(log, parameters.kill))
        if parameters.partitions == "separate":
            # A header may say the sizes, which is no part of a log's checksum.
            sizes = partition_sizes(log, parameters.partition_sizes)
            decided["partition_processors"] = ",".join(f"{name}={size}" for name, size in sizes.items())
        return decided

    def modelled_features(self, parameters: BatchParameters) -> Collection[str]:
        """Return what a replay models; of a single partition, the partition."""
        alone = parameters.partition is not None
        return models_of("separate" if alone else parameters.partitions, parameters.dependencies)

    def preflight(self, parameters: BatchParameters, load: WorkloadLoader) -> None:
        """Refuse orders that do not compile or lack a field, machines too small for a job, faulty logs."""
        if parameters.policy == "ppo":
            from gridtune.errors import require_module  # noqa: PLC0415 (for this policy alone)

            require_module("torch", user="policy=ppo", extra="agents")
        selected, p = self._selected(parameters, load), parameters
        if p.policy == "order":
            for text in filter(None, (p.order, p.fill_order)):
                check_policy(get_order(text, p.coefficients), selected)
        check_runnable(selected, p.processors, p.partitions, self._sizes(p, load), p.power_policy())

    def suggest_space(self, workload: Workload, processors: int | None) -> SuggestedSpace:
        """Propose queue orders and backfilling; without walltimes only orders that do not use them."""
        informed = bool((workload.requested_time > 0).any())
        classes = default_classes(workload)
        bounds = {"wait_max": "<= 1.2 x baseline", "wait_mean[wide]": "<= 1.05 x baseline"}
        return SuggestedSpace(
            question=f"Which queue order and which backfilling are best on {workload.name}?",
            dimensions={
                "order": ["fcfs", "sjf", "saf", "wfp3", "f1"]
                if informed
                else ["fcfs", "narrowest", "widest"],
                "backfill": ["none", "easy", "conservative"] if informed else ["none", "easy"],
            },
            baseline={"order": "fcfs", "backfill": "easy"},
            objective=("bounded_slowdown_mean", "area_weighted_response", "wait_max"),
            subject_to={
                name: bound for name, bound in bounds.items() if "[" not in name or "wide" in classes
            },
            classes=classes,
            fixed={} if processors == workload.machine_processors else {"processors": processors},
        )

    def prepare(self, parameters: Iterable[BatchParameters]) -> None:
        """Compile the kernels by replaying three jobs under each combination of rules."""
        seconds = np.array([0, 1, 2], dtype=np.int64)
        jobs = Workload(
            {
                "submit_time": seconds,
                "run_time": seconds + 2,
                "requested_time": seconds + 3,
                "requested_processors": np.array([1, 2, 1], dtype=np.int64),
                "user": seconds,
                "group": seconds,
            }
        )
        rng = np.random.default_rng(0)
        played = [cell for cell in parameters if cell.policy == "order"]
        for rules in {tuple(_rules(cell).items()) for cell in played}:
            options = {**dict(rules), "processors": 2, "partitions": "pooled", "partition_processors": None}
            if options["power"] is not None:
                options["power"] = replace(options["power"], cores_per_node=1)
            # An order that fails on these jobs may suit the log; a cell names its own job that fails.
            with suppress(GridtuneError):
                evaluate(simulate(jobs, rng=rng, **options))

    def run(
        self, parameters: BatchParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Replay the selected jobs, scaled, doubled and shaken; `tables` adds the schedule as a table."""
        schedule = self._replayed(parameters, streams, load)
        workload = schedule.workload
        warmup, cooldown = parameters.left_out(len(workload), parameters.warmup, parameters.cooldown)
        classes: Mapping[str, str] | None = parameters.classes
        if classes is None:
            # By the whole log, so that windows agree.
            classes = default_classes(load(str(parameters.reference)))
        metrics = evaluate(
            schedule,
            warmup=warmup,
            cooldown=cooldown,
            classes=classes,
            by_class=(*BY_CLASS, *parameters.by_class),
        )
        notes = {
            "jobs": len(workload),
            "processors": schedule.processors,
            "cleaning": dict(workload.cleaning),
            "classes": dict(classes),
            **schedule.notes,
        }
        return Outcome(metrics, notes, {"schedule": schedule.to_table()} if tables else {}, schedule)

    def _replayed(self, parameters: BatchParameters, streams: Streams, load: WorkloadLoader) -> Schedule:
        """Return the schedule. The last two of continuous replays are cached: their windows share them."""
        # A replay does not depend on what is measured, and classes, a mapping, have no hash.
        everywhere = {"window": None, "warmup": 0.0, "cooldown": 0.0, "classes": None, "by_class": ()}
        key = (load(str(parameters.reference)).checksum, parameters.model_copy(update=everywhere))
        shared = parameters.window_mode == "continuous" and not parameters.draws_numbers
        if shared and key in self._replays:
            return self._replays[key]
        schedule = self._replay(parameters, streams, load)
        validate_schedule(schedule)
        if shared:
            self._replays[key] = schedule
        return schedule

    def _replay(self, parameters: BatchParameters, streams: Streams, load: WorkloadLoader) -> Schedule:
        workload = _scaled(self._selected(parameters, load), parameters, streams)
        if parameters.policy == "ppo":
            from gridtune.systems.batch.learners.candidate_network import play_log  # noqa: PLC0415 (torch)
            from gridtune.tracking.checkpoints import find_policy  # noqa: PLC0415 (for this policy alone)

            file = find_policy(str(parameters.checkpoint))
            return play_log(file, workload, parameters.processors, kill=parameters.kill)
        options = {**_rules(parameters), "partition_processors": self._sizes(parameters, load)}
        return simulate(workload, rng=streams("simulation"), **options)

    def _sizes(self, parameters: BatchParameters, load: WorkloadLoader) -> dict[str, int] | None:
        """Return the size of each partition by the whole log: a window has seen less of it."""
        if parameters.partitions == "pooled":
            return None
        sizes = partition_sizes(load(str(parameters.reference)), parameters.partition_sizes)
        return {str(number): size for number, size in sizes.items()}

    def _selected(self, parameters: BatchParameters, load: WorkloadLoader) -> Workload:
        """Return the selected jobs. The last eight selections are cached: cells of a block share them."""
        raw, selection = load(str(parameters.reference)), parameters.selection
        key = (raw.checksum, selection)
        if key not in self._selections:
            self._selections[key] = selection.selected_jobs(raw)
        return self._selections[key]


def _scaled(workload: Workload, parameters: BatchParameters, streams: Streams) -> Workload:
    """Return the jobs with their times scaled, copies added and submissions shaken, in this order."""
    if parameters.run_scale != 1:
        workload = workload.scale_run_time(parameters.run_scale)
    if parameters.load != 1:
        workload = workload.scale_load(parameters.load)
    if parameters.copy_probability:
        workload = workload.add_shifted_copy(
            parameters.copy_probability, parameters.copy_shift, streams("copies")
        )
    if parameters.shake:
        workload = workload.shake(parameters.shake, streams("shaking"))
    return workload


def _rules(parameters: BatchParameters) -> dict[str, Any]:
    """Return the parameters that `simulate` takes, as it takes them."""
    rules = {name: getattr(parameters, name) for name in _SIMULATED}
    for name in ("order", "fill_order"):
        if parameters.coefficients and rules[name] is not None:
            rules[name] = get_order(rules[name], parameters.coefficients).label
    return {**rules, "power": parameters.power_policy()}
