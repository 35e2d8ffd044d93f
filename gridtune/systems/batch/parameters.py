"""The parameters of the batch system: of its log, its policy, and the power states of its nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from gridtune.batch.checks import check_order
from gridtune.batch.metrics import METRICS
from gridtune.batch.metrics.classes import BY_CLASS, check_class
from gridtune.batch.partitions import Partitions, read_sizes
from gridtune.batch.policies import SWITCHES, get_backfilling, get_queue_order
from gridtune.batch.policies.expression import Expression
from gridtune.batch.policies.queue_order import order_of_function
from gridtune.batch.policies.rollout import Rollout, get_order
from gridtune.batch.power import PowerPolicy
from gridtune.batch.predictors import PREDICTORS, Predictor
from gridtune.batch.replay import Dependencies
from gridtune.batch.simulator.scores import Undefined
from gridtune.core.system import LogParameters, Partition, Window, described, split_list
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


@described(__file__, grouped=False)
class Selection(LogParameters):
    """The parameters that select jobs of the log, and nothing else.

    `selected_jobs` sees no other parameter, and so the whole of it is the key that selections are cached by.
    """

    processors: Annotated[int, Field(gt=0)] | None = None
    partition: Partition | None = None
    user: int | None = None
    group: int | None = None
    part: Window | None = None
    window: Window | None = None
    window_mode: Literal["cut", "continuous"] = "cut"

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


@described(__file__)
class BatchParameters(Selection):
    """The parameters of one replay."""

    order: str = "fcfs"
    backfill: str = "easy"
    fill_order: str | None = None
    policy: Literal["order", "ppo"] = "order"
    checkpoint: str | None = None
    w1: Coefficient = None
    w2: Coefficient = None
    w3: Coefficient = None
    w4: Coefficient = None
    w5: Coefficient = None
    w6: Coefficient = None
    extra: bool | None = None
    strict: bool | None = None
    frozen: bool | None = None
    pass_per_event: bool | None = None
    compression: bool | None = None
    kill: Literal["auto"] | bool = "auto"
    walltime: Literal["log", "exact", "noise", "predicted"] = "log"
    noise: Annotated[float, Field(ge=0)] = 0.0
    predictor: str = "last-two"
    half_life: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    guard: Whole = None

    undefined_scores: Undefined = "fail"
    partitions: Partitions = "pooled"
    partition_processors: str | None = None
    dependencies: Dependencies = "ignore"
    load: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    run_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    copy_probability: Annotated[float, Field(ge=0, le=1)] = 0.0
    copy_shift: int = 0
    shake: Annotated[int, Field(ge=0)] = 0

    power: Literal["always_on", "timeout"] | None = None
    idle_timeout: Whole = None
    cores_per_node: Annotated[int, Field(ge=1)] | None = None
    boot: Whole = None
    shutdown: Whole = None
    idle_watts: Watts = None
    computing_watts: Watts = None
    sleeping_watts: Watts = None
    switching_off_watts: Watts = None
    switching_on_watts: Watts = None

    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.0
    cooldown: Annotated[float, Field(ge=0, lt=1)] = 0.0
    classes: JobClasses | None = None
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

    @field_validator("kill", mode="wrap")
    @classmethod
    def _check_kill(cls, value: Any, check: Callable[[Any], Any]) -> Any:
        try:
            return check(value)
        except ValueError:
            raise ValueError(f"must be auto, true or false, but got {value!r}") from None

    @field_validator("predictor")
    @classmethod
    def _check_predictor(cls, value: str) -> str:
        _made(PREDICTORS.find, value)
        return value

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
        # An order without source may read everything.
        read = [one.fields or _USAGES for one in (queue, fill) if one is not None]
        if not any(_USAGES & fields for fields in read):
            self._refuse_idle([(("half_life",), f"order={self.order}, which counts no use")])
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


_USAGES = frozenset({"user_usage", "group_usage"})


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
