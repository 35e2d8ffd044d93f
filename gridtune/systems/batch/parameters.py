"""The parameters of the batch system: of its log, its policy, and the power states of its nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from gridtune.batch.checks import check_order
from gridtune.batch.metrics import METRICS
from gridtune.batch.metrics.classes import BY_CLASS, check_class
from gridtune.batch.partitions import Partitions, read_sizes
from gridtune.batch.policies import SWITCHES, backfilling_name, get_backfilling, get_queue_order
from gridtune.batch.policies.expression import Expression
from gridtune.batch.policies.queue_order import order_of_function
from gridtune.batch.policies.rollout import Rollout, get_order
from gridtune.batch.power import PowerPolicy
from gridtune.batch.predictors import PREDICTORS, Predictor
from gridtune.batch.replay import Dependencies
from gridtune.batch.simulator.scores import Undefined
from gridtune.core.system import LogParameters, Partition, Window, split_list
from gridtune.errors import MetricError, PolicyError, SimulationError
from gridtune.workload.cleaning import clean
from gridtune.workload.workload import Workload

#: Parameters that an expression as the order may name.
_COEFFICIENTS = ("w1", "w2", "w3", "w4", "w5", "w6")
#: The value of one, a parameter by itself so that a search can vary it.
Coefficient = Annotated[float, Field(allow_inf_nan=False)] | None


def _read_classes(value: Any) -> Any:
    """Read `{wide: processors >= 32}` as a mapping: the command line has none."""
    if not isinstance(value, str):
        return value
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        raise ValueError(f"classes are name: condition in braces, but got {value!r}") from None


def _check_classes(value: dict[str, str]) -> dict[str, str]:
    for name, condition in value.items():
        _made(check_class, name, condition)
    return value


#: Classes of jobs, name to condition.
JobClasses = Annotated[dict[str, str], BeforeValidator(_read_classes), AfterValidator(_check_classes)]

#: A whole number, and a power in watts, of nodes.
Whole = Annotated[int, Field(ge=0)] | None
Watts = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None


class Selection(LogParameters):
    """The parameters that select jobs of the log, and nothing else.

    `selected_jobs` sees no other parameter, and so the whole of it is the key that selections are cached by.
    """

    processors: Annotated[int, Field(gt=0)] | None = Field(
        None,
        description="number of processors of the machine; default: as in the log's header",
        examples=[128],
    )
    partition: Partition | None = Field(None, description="only jobs of this partition (number or name)")
    user: int | None = Field(None, description="only jobs of this user")
    group: int | None = Field(None, description="only jobs of this group")
    part: Window | None = Field(
        None,
        description="the i-th of n parts of the log, before windows: one to search, another to judge",
        examples=["1/2"],
    )
    window: Window | None = Field(
        None, description="the i-th of n consecutive windows of about as many jobs", examples=["3/10"]
    )
    window_mode: Literal["cut", "continuous"] = Field(
        "cut",
        description="cut: the window's jobs alone are replayed, on an empty machine; continuous: all "
        "jobs are, and metrics are of the window's",
    )

    def left_out(self, jobs: int, warmup: float, cooldown: float) -> tuple[float, float]:
        """Return what metrics leave out at both ends of so many replayed jobs, as `evaluate` takes it."""
        window = None if self.window_mode == "cut" else self.window
        return self.outside(window, jobs, warmup, cooldown)

    @property
    def selection(self) -> Selection:
        """These parameters alone."""
        return Selection.model_construct(**{name: getattr(self, name) for name in Selection.model_fields})

    def selected_jobs(self, raw: Workload) -> Workload:
        """Return the jobs of a log that are replayed: those of one partition, user, group, part, window.

        Raises
        ------
        SimulationError
            If no job is left.
        """
        workload, _ = clean(raw, self.rules, processors=self.processors)
        if self.partition is not None:
            workload = workload.for_partition(self.partition)
        if self.user is not None:
            workload = workload.for_user(self.user)
        if self.group is not None:
            workload = workload.for_group(self.group)
        for window in (self.part, self.window if self.window_mode == "cut" else None):
            if window is not None:
                workload = workload.part(window)
        if self.first is not None:
            workload = workload.first(self.first)
        if len(workload) == 0:
            raise SimulationError(f"no job of {raw.name} is left by the selection")
        return workload


class BatchParameters(Selection):
    """The parameters of one replay."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Common": ("trace", "processors", "order", "backfill", "kill", "walltime", "window", "load"),
        "Jobs": (
            *("clean", "first", "partition", "user", "group", "part", "window_mode", "run_scale"),
            *("copy_probability", "copy_shift", "shake"),
            *("partitions", "partition_processors", "dependencies"),
        ),
        "Policy": (
            *("policy", "checkpoint", "fill_order", "w1", "w2", "w3", "w4", "w5", "w6", "half_life", "guard"),
            *(
                "undefined_scores",
                "noise",
                "predictor",
                "extra",
                "strict",
                "frozen",
                "pass_per_event",
                "compression",
            ),
        ),
        "Energy": (
            *("power", "idle_timeout", "cores_per_node", "boot", "shutdown"),
            *("idle_watts", "computing_watts", "sleeping_watts", "switching_off_watts", "switching_on_watts"),
        ),
        "Metrics": ("warmup", "cooldown", "classes", "by_class"),
    }

    order: str = Field(
        "fcfs",
        description="queue order: fcfs, sjf, saf, wfp3, f1, …, one of a plug-in, an expression, or "
        "rollout(…), which looks ahead",
        examples=["fcfs", "log(walltime) + 0.3 * processors"],
    )
    backfill: str = Field(
        "easy",
        description="backfilling: none, easy, conservative, conservative-no-compression, easy-per-event, …",
    )
    fill_order: str | None = Field(
        None, description="order in which backfilling tries the waiting jobs; default: the queue's own"
    )
    policy: Literal["order", "ppo"] = Field(
        "order",
        description="order: the queue order with its backfilling; ppo: a network from `gridtune train "
        "batch`, which decides instead of both",
    )
    checkpoint: str | None = Field(
        None,
        description="with policy=ppo: the trained policy: the folder of a training, a file, or an MLflow run "
        "(its id, or runs:/ID/PATH)",
        examples=["results/train-batch"],
    )
    w1: Coefficient = Field(
        None, description="the number that w1 stands for in an expression", examples=[0.5]
    )
    w2: Coefficient = Field(None, description="the same for w2")
    w3: Coefficient = Field(None, description="the same for w3")
    w4: Coefficient = Field(None, description="the same for w4")
    w5: Coefficient = Field(None, description="the same for w5")
    w6: Coefficient = Field(None, description="the same for w6")
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
    kill: Literal["auto"] | bool = Field(
        "auto",
        description="end jobs at their walltime? auto: unless more than 1 % of the whole log's jobs outlived "
        "theirs by more than five minutes",
    )
    walltime: Literal["log", "exact", "noise", "predicted"] = Field(
        "log",
        description="estimates the scheduler gets, for reservations too: the log's, the exact run times, "
        "the log's × noise, or what the predictor says at submission",
    )
    noise: Annotated[float, Field(ge=0)] = Field(
        0.0, description="with walltime=noise: standard deviation of the walltime's logarithm", examples=[0.5]
    )
    predictor: str = Field(
        "last-two",
        description="where an order's `prediction` and `early_end`, rollout(durations=predicted) and "
        "walltime=predicted come from: last-two, template, early-end, or one of a plug-in",
        examples=["early-end"],
    )
    half_life: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="fair-share orders: seconds after which past use counts half", examples=[86400]
    )

    guard: Whole = Field(
        None,
        description="seconds; jobs that have waited for longer go first under every order, the oldest first",
        examples=[172800],
    )

    undefined_scores: Undefined = Field(
        "fail",
        description="a score of an expression or of an order of one's own that is infinite or not a number: "
        "fail: the run fails, and names the job; last: such a job goes last, for searches of formulas",
    )
    partitions: Partitions = Field(
        "pooled",
        description="pooled: all jobs on one machine; separate: each partition is a machine of its own, with "
        "its own queue",
    )
    partition_processors: str | None = Field(
        None,
        description="with partitions=separate: processors of partitions by name or number; default: as "
        "imported from slurm.conf, else the most in use at once as recorded",
        examples=["batch=512,gpu=64"],
    )
    dependencies: Dependencies = Field(
        "ignore",
        description="log: a job that depends on another is submitted its think time after that has ended in "
        "the simulation; ignore: when the log has it",
    )
    load: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        1.0, description="factor on the load: times between submissions are divided by it", examples=[1.2]
    )
    run_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        1.0, description="factor on run times and walltimes"
    )
    copy_probability: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="probability with which a job is submitted a second time, `copy_shift` later"
    )
    copy_shift: int = Field(0, description="seconds from a job's submission to that of its copy")
    shake: Annotated[int, Field(ge=0)] = Field(
        0,
        description="each submission is moved at random by up to this many seconds: replicates of one log",
        examples=[60],
    )

    power: Literal["always_on", "timeout"] | None = Field(
        None,
        description="measure energy: always_on: no node is ever switched off; timeout: idle nodes are "
        "switched off after idle_timeout; default: no power states",
        examples=["timeout"],
    )
    idle_timeout: Whole = Field(
        None,
        description="with power=timeout: seconds after which an idle node is switched off (Slurm's "
        "SuspendTime); default 600",
        examples=[300],
    )
    cores_per_node: Annotated[int, Field(ge=1)] | None = Field(
        None, description="with power: processors of a node, which is switched as a whole; default 1"
    )
    boot: Whole = Field(None, description="with power: seconds to switch a node on; default 60")
    shutdown: Whole = Field(None, description="with power: seconds to switch a node off; default 180")
    idle_watts: Watts = Field(None, description="with power: power of a node without work; default 95")
    computing_watts: Watts = Field(
        None, description="with power: power of a node with all cores busy; default 190"
    )
    sleeping_watts: Watts = Field(None, description="with power: power of a node that is off; default 9")
    switching_off_watts: Watts = Field(None, description="with power: power while switching off; default 101")
    switching_on_watts: Watts = Field(None, description="with power: power while switching on; default 125")

    warmup: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="fraction of the jobs, the first to be submitted, that metrics leave out"
    )
    cooldown: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="fraction of the jobs, the last to be submitted, that metrics leave out"
    )
    classes: JobClasses | None = Field(
        None,
        description="classes of jobs that metrics are given for, such as wait_mean[wide], each a name and a "
        "condition; default: narrow, wide, short and long by the log",
        examples=["{wide: processors >= 32, long: run_time > 14400}"],
    )
    by_class: Annotated[tuple[str, ...], BeforeValidator(split_list)] = Field(
        (), description=f"metrics of jobs that are given for each class beside {', '.join(BY_CLASS)}"
    )

    @classmethod
    def register_function(cls, parameter: str, function: Callable[..., Any]) -> str:
        """Take a function as a queue order, under the name it is registered by or else its own."""
        if parameter == "predictor" and isinstance(function, type) and issubclass(function, Predictor):
            return function.name
        if parameter not in ("order", "fill_order"):
            return super().register_function(parameter, function)
        return order_of_function(function).name

    @field_validator("order", "fill_order")
    @classmethod
    def _check_order(cls, value: str | None) -> str | None:
        return None if value is None else _expression_or_name(value)[0]

    @field_validator("predictor")
    @classmethod
    def _check_predictor(cls, value: str) -> str:
        _made(PREDICTORS.find, value)
        return value

    @field_validator("backfill")
    @classmethod
    def _canonical_backfill(cls, value: str) -> str:
        return backfilling_name(value)

    @model_validator(mode="after")
    def _check_backfilling(self) -> BatchParameters:
        switches = {name: getattr(self, name) for name in SWITCHES}
        rule = _made(get_backfilling, self.backfill, **switches)
        # Numbers that an expression names are looked at elsewhere.
        unknown = dict.fromkeys(_COEFFICIENTS, math.nan)
        queue = _made(get_order, self.order, unknown)
        fill = None if self.fill_order is None else _made(get_queue_order, self.fill_order, unknown)
        _made(check_order, queue, fill, rule, self.walltime, power=self.power)
        if not (self.walltime == "predicted" or queue.predicts or (fill is not None and fill.predicts)):
            self._refuse_idle([(("predictor",), f"order={self.order}, which reads no prediction")])
        return self

    @model_validator(mode="after")
    def _check_policy(self) -> BatchParameters:
        self._check_checkpoint("ppo")
        if self.policy == "ppo":
            decided = ("power", "dependencies", "order", "backfill", "fill_order", "walltime", "half_life")
            scored = ("guard", "undefined_scores", *SWITCHES)
            self._refuse_idle([((*decided, *scored), "policy=ppo")])
        if self.power is not None and self.partitions == "separate":
            raise ValueError(
                f"power={self.power} goes with pooled partitions; run one by itself: partition=NAME"
            )
        _made(self.power_policy)
        return self

    @model_validator(mode="after")
    def _check_coefficients(self) -> BatchParameters:
        texts = [text for text in (self.order, self.fill_order) if text is not None]
        named = frozenset().union(*(_expression_or_name(text)[1] for text in texts))
        for name in _COEFFICIENTS:
            if name in named and getattr(self, name) is None:
                raise ValueError(f"the expression names {name}, which has no value")
        self._refuse_idle([(sorted({*_COEFFICIENTS} - named), "an order that does not name it")])
        return self

    @field_validator("by_class")
    @classmethod
    def _check_by_class(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _made(METRICS.find, name).of_jobs:
                raise ValueError(f"{name} is no metric of jobs, so it is not given by class")
        return tuple(sorted({*value} - {*BY_CLASS}))

    def power_policy(self) -> PowerPolicy | None:
        """Return the power states of nodes and their rule; None without power states."""
        options = {name: getattr(self, name) for name in self.groups["Energy"] if name != "power"}
        return PowerPolicy.of(self.power, **options)

    @property
    def coefficients(self) -> dict[str, float]:
        """The numbers that names in expressions stand for."""
        values = {name: getattr(self, name) for name in _COEFFICIENTS}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def draws_numbers(self) -> bool:
        """True if a replay may depend on random numbers; an order without source may."""
        orders = [get_order(text, self.coefficients) for text in (self.order, self.fill_order) if text]
        read = [order.fields for order in orders]
        drawn = self.noise or self.shake or self.copy_probability or self.policy == "ppo"
        return bool(drawn) or any(not fields or "lot" in fields for fields in read)

    @property
    def partition_sizes(self) -> dict[str, int] | None:
        """The sizes of partitions that are given."""
        return None if self.partition_processors is None else read_sizes(self.partition_processors)

    @model_validator(mode="after")
    def _check_combinations(self) -> BatchParameters:
        if self.partitions == "separate":
            alone = ("processors", "partition", "policy")
            self._refuse_idle([(alone, "partitions=separate")])
        else:
            self._refuse_idle([(("partition_processors",), "partitions=pooled")])
        _ = self.partition_sizes
        if self.noise and self.walltime != "noise":
            raise ValueError(f"noise={self.noise} has no effect with walltime={self.walltime}")
        if self.warmup + self.cooldown >= 1:
            both = f"warmup={self.warmup} and cooldown={self.cooldown}"
            raise ValueError(f"{both} together leave out every job")
        if self.copy_shift and not self.copy_probability:
            raise ValueError(f"copy_shift={self.copy_shift} has no effect with copy_probability=0")
        return self


def _expression_or_name(text: str) -> tuple[str, frozenset[str]]:
    """Return an expression in its one form, with the coefficients in it, or an order's name as it is."""
    order = _made(get_order, text, coefficients=dict.fromkeys(_COEFFICIENTS, math.nan))
    scores = [one.score for one in (order.portfolio if isinstance(order, Rollout) else (order,))]
    names = frozenset().union(*(score.names for score in scores if isinstance(score, Expression)))
    return order.canonical(text), names & {*_COEFFICIENTS}


def _made(make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return what a function makes of parameters; its error becomes one of the parameters."""
    try:
        return make(*arguments, **options)
    except (MetricError, PolicyError, SimulationError) as error:
        raise ValueError(error.in_one_line) from None
