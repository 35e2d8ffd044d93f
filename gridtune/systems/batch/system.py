"""The `batch` system: a job log replayed on one machine under a queue order and a backfilling rule."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from cachetools import LRUCache
from pydantic import Field, field_validator, model_validator

from gridtune.batch.metrics import METRICS, evaluate
from gridtune.batch.policies import get_backfilling, get_queue_order
from gridtune.batch.replay import simulate
from gridtune.core.log_parameters import LogParameters, Partition, Window
from gridtune.core.schedule import validate_schedule
from gridtune.core.system import (
    Outcome,
    Streams,
    System,
    SystemParameters,
    WorkloadLoader,
)
from gridtune.errors import PolicyError, SimulationError
from gridtune.workload.cleaning import clean
from gridtune.workload.workload import Workload

__all__ = ["BatchParameters", "BatchSystem"]

#: Parameters that `simulate` takes under the same name.
_SIMULATED = (
    "processors",
    "order",
    "backfill",
    "fill_order",
    "walltime",
    "noise",
    "kill",
    "half_life",
)
_SWITCHES = ("extra", "strict", "frozen", "pass_per_event", "compression")


class BatchParameters(LogParameters):
    """The parameters of one replay."""

    processors: Annotated[int, Field(gt=0)] | None = Field(
        None, description="the machine's size; default: what the log's header says", examples=[128]
    )

    order: str = Field("fcfs", description="queue order: fcfs, sjf, saf, wfp3, f1, … or one of a plug-in")
    backfill: str = Field(
        "easy", description="backfilling: none, easy, conservative, conservative-compression, …"
    )
    fill_order: str | None = Field(
        None, description="order in which backfilling tries the waiting jobs; default: the queue's own"
    )
    extra: bool | None = Field(
        None, description="EASY: may a backfilled job use processors that the head job leaves over?"
    )
    strict: bool | None = Field(
        None, description="EASY: must a backfilled job end before the shadow time, not at it?"
    )
    frozen: bool | None = Field(
        None, description="EASY: does the shadow time stay as it was when the head job blocked?"
    )
    pass_per_event: bool | None = Field(
        None, description="EASY: a pass after each event of an instant instead of one after all?"
    )
    compression: bool | None = Field(
        None, description="conservative: do reservations move up when a job ends early?"
    )
    kill: bool = Field(True, description="end jobs at their walltime")
    walltime: Literal["log", "exact", "noise"] = Field(
        "log", description="estimates the scheduler gets: the log's, the exact run time, or the log's × noise"
    )
    noise: Annotated[float, Field(ge=0)] = Field(
        0.0, description="with walltime=noise: standard deviation of the walltime's logarithm", examples=[0.5]
    )
    half_life: Annotated[float, Field(gt=0)] | None = Field(
        None, description="fair-share orders: seconds after which past use counts half", examples=[86400]
    )

    partition: Partition | None = Field(None, description="only jobs of this partition (number or name)")
    user: int | None = Field(None, description="only jobs of this user")
    group: int | None = Field(None, description="only jobs of this group")
    window: Window | None = Field(
        None, description="the i-th of n consecutive windows of about as many jobs", examples=["3/10"]
    )
    load: Annotated[float, Field(gt=0)] = Field(
        1.0, description="factor on the load: times between submissions are divided by it", examples=[1.2]
    )
    run_scale: Annotated[float, Field(gt=0)] = Field(1.0, description="factor on run times and walltimes")
    copy_probability: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="probability with which each job gets a copy, `copy_shift` later"
    )
    copy_shift: int = Field(0, description="seconds by which copies come later")
    shake: Annotated[int, Field(ge=0)] = Field(
        0,
        description="seconds by which submissions are moved at random, for replicates of one log",
        examples=[60],
    )

    warmup: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="metrics leave out this fraction of the jobs, the first ones"
    )
    cooldown: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="metrics leave out this fraction of the jobs, the last ones"
    )

    @field_validator("order", "fill_order")
    @classmethod
    def _order_is_known(cls, value: str | None) -> str | None:

        if value is not None:
            _told(get_queue_order, value)
        return value

    @model_validator(mode="after")
    def _policies_go_together(self) -> BatchParameters:

        switches = {name: getattr(self, name) for name in _SWITCHES}
        rule = _told(get_backfilling, self.backfill, **switches)
        if self.fill_order is not None and rule.kind != "easy":
            raise ValueError(f"fill_order goes with EASY backfilling, not with {self.backfill!r}")
        return self

    @model_validator(mode="after")
    def _belong_together(self) -> BatchParameters:
        if self.noise and self.walltime != "noise":
            raise ValueError(f"noise={self.noise} has no effect with walltime={self.walltime}")
        if self.warmup + self.cooldown >= 1:
            both = f"warmup={self.warmup} and cooldown={self.cooldown}"
            raise ValueError(f"{both} together leave out every job")
        if self.copy_shift and not self.copy_probability:
            raise ValueError(f"copy_shift={self.copy_shift} has no effect with copy_probability=0")
        return self


def _told(look_up: Callable[..., Any], *names: Any, **switches: Any) -> Any:
    """Look a policy up; what is wrong with its name becomes what is wrong with the parameter."""
    try:
        return look_up(*names, **switches)
    except PolicyError as fault:
        raise ValueError(f"{fault.message} ({fault.hint})" if fault.hint else fault.message) from None


class BatchSystem(System):
    """Rigid parallel jobs on a pool of identical processors.

    The log is cleaned first; then jobs are selected (partition, user, group, window, first), scaled (run
    times, load), doubled (copies) and shaken, in this order, and what is left is replayed.
    """

    name: ClassVar[str] = "batch"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = BatchParameters

    def __init__(self) -> None:
        self._selections: LRUCache[Hashable, Workload] = LRUCache(8)

    metrics = METRICS

    def traces(self, parameters: BatchParameters) -> Iterable[str]:
        """Return the one log a replay reads; where rules were asked for, the reader is told of them."""
        return (str(parameters.reference),)

    def code(self, parameters: BatchParameters) -> Mapping[str, str]:
        """Return the sources' checksums of the user's own orders that the replay runs."""
        named = [name for name in (parameters.order, parameters.fill_order) if name is not None]
        scores = {name: get_queue_order(name).score for name in named}
        own = {name: score for name, score in scores.items() if not score.__module__.startswith("gridtune.")}
        return {name: _source_checksum(score) for name, score in own.items()}

    def prepare(self, parameters: Iterable[BatchParameters]) -> None:
        """Compile the kernels these replays run, by replaying three jobs under each rule."""
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
        for rules in {tuple(_rules(each).items()) for each in parameters}:
            simulate(jobs, rng=rng, **{**dict(rules), "processors": 2})

    def run(
        self, parameters: BatchParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        """Replay the log and measure the schedule; `tables` adds the schedule itself."""
        workload = _scaled(self._selected(parameters, load), parameters, streams)
        schedule = simulate(workload, rng=streams("simulation"), **_rules(parameters))
        validate_schedule(schedule)
        metrics = evaluate(schedule, warmup=parameters.warmup, cooldown=parameters.cooldown)
        notes = {
            "jobs": len(workload),
            "processors": schedule.processors,
            "cleaning": dict(workload.cleaning),
        }
        return Outcome(metrics, notes, {"schedule": schedule.to_table()} if tables else {})

    def _selected(self, parameters: BatchParameters, load: WorkloadLoader) -> Workload:
        """Return the cleaned selection of the log; the last few are kept, for a block's cells share them."""
        (reference,) = self.traces(parameters)
        raw = load(reference)
        p = parameters
        key = (raw.checksum, p.processors, p.clean, p.partition, p.user, p.group, p.window, p.first)
        if key not in self._selections:
            self._selections[key] = _select(raw, parameters)
        return self._selections[key]


def _source_checksum(function: Callable[..., Any]) -> str:
    """Return the SHA-256 of the file a function stands in: it may call its neighbours."""
    file = inspect.getsourcefile(function)
    source = Path(file).read_text(encoding="utf-8") if file else inspect.getsource(function)
    return hashlib.sha256(source.encode()).hexdigest()


def _select(raw: Workload, parameters: BatchParameters) -> Workload:
    workload, _ = clean(raw, parameters.rules, processors=parameters.processors)
    if parameters.partition is not None:
        workload = workload.for_partition(parameters.partition)
    if parameters.user is not None:
        workload = workload.for_user(parameters.user)
    if parameters.group is not None:
        workload = workload.for_group(parameters.group)
    if parameters.window is not None:
        number, count = map(int, parameters.window.split("/"))
        workload = workload.windows(count)[number - 1]
    if parameters.first is not None:
        workload = workload.first(parameters.first)
    if len(workload) == 0:
        raise SimulationError(f"no job of {raw.name} is left by the selection")
    return workload


def _scaled(workload: Workload, parameters: BatchParameters, streams: Streams) -> Workload:
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
    """Return what `simulate` is told; switches that are not set keep the rule's own value."""
    rules = {name: getattr(parameters, name) for name in _SIMULATED}
    switches = {name: getattr(parameters, name) for name in _SWITCHES}
    return rules | {name: value for name, value in switches.items() if value is not None}
