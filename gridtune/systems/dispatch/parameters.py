"""The parameters of the `dispatch` system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from gridtune.core.system import Count, LogParameters, Window, described, split_list
from gridtune.errors import SimulationError
from gridtune.systems.dispatch.simulator.model import Changes, DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import INSERTING, Order, Rule, Speeds
from gridtune.types import IntArray
from gridtune.workload.cleaning import clean
from gridtune.workload.files import WorkloadReference
from gridtune.workload.workload import Workload

#: A batch lasts this many times as long as its arrivals, to run the jobs; the second is per unit of load.
_STRETCH, _RESERVE = 3.0, 1.5
#: Shortest and longest job over the mean.
_SHORTEST, _LONGEST = 0.2, 1.8
#: Rules that look at queues only.
SIMPLE = ("random", "round_robin", "first_available")

#: The reference of runs that may edit queues: the paper's better benchmark.
_BENCHMARK = {"rule": "erd", "speeds": "known", "repair_every": 10}

#: Speed factors of the paper's ten machines (Table 1).
TABLE_1 = (1.32, 1.26, 0.8, 1.33, 0.81, 0.91, 1.06, 1.35, 0.97, 1.52)


def _all(value: Any) -> Any:
    """Take the word none for None: all jobs."""
    return None if value == "none" else value


Factors = Annotated[
    tuple[Annotated[float, Field(ge=0.001, le=1000)], ...],
    BeforeValidator(split_list),
    Field(min_length=1),
]
#: Learners that need no training, and no learner.
_UNTRAINED = ("none", "drain")
#: Parameters of the decisions of rules and learners.
_OF_RULES = (
    *("mode", "rule", "learner", "order", "speeds", "forget"),
    *("repair_every", "refresh", "refresh_on", "memory", "reselect", "selection_jobs"),
    *("attributes", "select_attributes", "candidates", "lwl_jobs", "lwl_selection_jobs"),
)
Number = Annotated[int, Field(ge=0)]
#: So many jobs; None, the word none, for all.
SomeJobs = Annotated[Annotated[int, Field(gt=0)] | None, BeforeValidator(_all)]
SampledJobs = Annotated[Annotated[int, Field(ge=8)] | None, BeforeValidator(_all)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@described(__file__, grouped=False)
class InstanceParameters(LogParameters):
    """The jobs and the machines."""

    trace: str | None = None  # type: ignore[assignment]  # its base needs a log
    batch_jobs: Count = 1000
    offered_load: Positive = Field(0.8, serialization_alias="load")
    mean_length: Annotated[float, Field(ge=10, le=1e7)] = 1000.0
    slack: Annotated[float, Field(ge=0, le=1000)] = 1 / 3
    estimate_error: Annotated[float, Field(ge=0, le=5)] = 0.0
    factors: Factors = TABLE_1
    cpus: Annotated[int, Field(gt=0, le=1024)] = 1
    forget: Annotated[float, Field(gt=0, le=1)] = 0.95

    @property
    def capacity(self) -> float:
        """Work that the machines do in a second: Σ cpus/factor."""
        return sum(self.cpus / factor for factor in self.factors)

    @property
    def reference(self) -> WorkloadReference:
        """The log, with its cleaning rules."""
        return WorkloadReference(str(self.trace), self.rules)

    @model_validator(mode="after")
    def _check_trace(self) -> Self:
        if self.trace is not None and "?" in self.trace:
            raise ValueError("a trace's name has no question mark")
        return self


@described(__file__)
class DispatchParameters(InstanceParameters):
    """The parameters of one run: jobs, machines, and the dispatcher."""

    renamed_parameters: ClassVar[Mapping[str, str]] = {
        "load": "offered_load",
        "learning_load": "learning_offered_load",
    }

    window: Window | None = None
    batches: Count = 5
    learning_jobs: Number = 0
    first: Count | None = None
    learning_offered_load: Positive | None = Field(None, serialization_alias="learning_load")

    changed_factors: Factors | None = None
    change_after: Number = 0
    mean_up: Positive | None = None
    mean_down: Positive | None = None

    policy: Literal["rules", "ppo"] = "rules"
    checkpoint: str | None = None
    mode: Literal["alone", "assist", "direct"] = "alone"
    rule: Rule | None = None
    learner: Literal["none", "j48", "naive_bayes", "lwl", "drain"] = "none"
    order: Order | None = None
    speeds: Speeds | None = None
    repair_every: Number | None = None
    refresh: Number = 100
    refresh_on: Literal["finished", "arrivals"] = "finished"
    memory: SomeJobs = 10_000
    reselect: Annotated[float, Field(ge=1)] = 1.25
    selection_jobs: SampledJobs = 1000
    attributes: Literal["observed", "published"] = "observed"
    select_attributes: bool = False
    candidates: Literal["all", "in_time"] = "all"
    lwl_jobs: SomeJobs = 500
    lwl_selection_jobs: SampledJobs = 250

    @model_validator(mode="after")
    def _policy_alone(self) -> DispatchParameters:
        self._check_checkpoint("ppo")
        if self.policy == "ppo":
            self._refuse_idle([(_OF_RULES, "policy=ppo")])
            if self.change_after or self.mean_up is not None:
                raise ValueError("policy=ppo needs machines that neither change nor fail")
        return self

    @model_validator(mode="after")
    def _learner_and_mode(self) -> DispatchParameters:
        if (self.mode == "alone") != (self.learner == "none"):
            raise ValueError(f"mode={self.mode} cannot be combined with learner={self.learner}")
        if self.mode == "assist" and self.base_rule not in SIMPLE:
            raise ValueError(f"a learner assists a simple selector, not rule={self.rule}")
        if self.mode != "alone" and self.rule in {"atc", "shared_queue"}:
            raise ValueError(f"rule={self.rule} decides alone, not with mode={self.mode}")
        if not (self.learning_jobs or self.refresh or self.learner in _UNTRAINED):
            raise ValueError(
                f"with refresh=0 and learning_jobs=0 the learner {self.learner} would never learn: "
                "set one of them"
            )
        if self.order is not None and self.mode != "direct" and self.rule != "shared_queue":
            raise ValueError(
                f"order={self.order} has no effect with mode={self.mode} and rule={self.base_rule}"
            )
        if self.order == "atc" and self.learner not in _UNTRAINED:
            raise ValueError(f"the learner {self.learner} cannot be combined with order=atc")
        if self.learner == "drain" and self.speeds not in (None, "learned"):
            raise ValueError(f"the learner drain learns speeds, so not speeds={self.speeds}")
        if self.mode == "assist" and self.repair_every:
            raise ValueError("queues are not repaired with mode=assist: jobs stay where they were sent")
        if self.rule == "shared_queue" and self.repair_every:
            raise ValueError("a shared queue is not repaired: no job in it is bound to a machine")
        self._refuse_idle(self._without_effect())
        return self

    def _without_effect(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield names of parameters without effect, and the choice that leaves them without.

        `memory`, `refresh` and `refresh_on` are allowed without a learner: a space sets them once for all.
        """
        learner = f"learner={self.learner}"
        if self.mode == "direct" and self.learner == "drain":
            yield ("rule",), f"mode=direct and {learner}"
        if not self._predicts:
            rule = f"mode={self.mode}, rule={self.base_rule} and {learner}"
            yield ("speeds", "forget"), f"{rule}: no prediction depends on speeds"
        elif self.believed_speeds != "learned":
            yield ("forget",), f"speeds={self.believed_speeds}"
        if self.learner in _UNTRAINED:
            yield ("reselect", "selection_jobs", "attributes", "select_attributes"), learner
        if self.learner == "lwl":
            yield ("selection_jobs",), f"{learner}, which has lwl_selection_jobs"
        else:
            yield ("lwl_jobs", "lwl_selection_jobs"), learner
        if self.mode != "direct" or self.learner in _UNTRAINED:
            yield ("candidates",), f"mode={self.mode} and {learner}"
        if not self.refresh and self.learner not in _UNTRAINED:
            yield ("refresh_on", "reselect"), "refresh=0"

    @property
    def _predicts(self) -> bool:
        """True if a decision or an attribute depends on the believed speeds."""
        return self.base_rule not in SIMPLE or self.repairs > 0 or self.learner == "drain"

    @property
    def base_rule(self) -> Rule:
        """The rule that decides alone, is assisted, or dispatches the learning jobs with mode=direct."""
        return self.rule or ("erd" if self.mode == "direct" else "random")

    @property
    def queue_order(self) -> Order:
        """The order of the queues, where it is not the rule's own."""
        return self.order or ("shortest" if self.rule == "shared_queue" else "fifo")

    @property
    def deciding_rule(self) -> Rule:
        """The rule that dispatches all jobs; with the learner drain alone, insertion in the queues' order."""
        return INSERTING[self.queue_order] if self.mode == "direct" else self.base_rule

    @property
    def repairs(self) -> int:
        """Arrivals between repairs; 0 for none."""
        if self.repair_every is None:
            return 10 if self.mode == "direct" and self.learner != "drain" else 0
        return self.repair_every

    @property
    def believed_speeds(self) -> Speeds:
        """The source of speed factors."""
        if self.speeds is not None:
            return self.speeds
        if self.rule == "shared_queue":
            return "nominal"
        return "known" if self.mode == "alone" else "learned"

    @property
    def compared_with(self) -> DispatchParameters:
        """The parameters of the run's reference."""
        alone: dict[str, Any] = {
            "mode": "alone",
            "learner": "none",
            "order": None,
            "policy": "rules",
            "checkpoint": None,
        }
        # Repairs edit a selector's queues, too.
        if self.policy == "rules" and (
            self.mode == "assist" or (self.mode == "alone" and self.base_rule in SIMPLE and not self.repairs)
        ):
            return self.model_copy(update=alone)
        return self.model_copy(update={**alone, **_BENCHMARK})

    @model_validator(mode="after")
    def _machines_and_jobs(self) -> DispatchParameters:
        if self.change_after and self.changed_factors is None:
            raise ValueError(f"change_after={self.change_after} needs changed_factors")
        # A space that compares runs with and without the change has change_after=0 for the latter.
        if self.changed_factors is not None and "change_after" not in self.model_fields_set:
            raise ValueError("changed_factors has no effect without change_after (0: no change)")
        if self.change_after >= self.batches:
            raise ValueError(
                f"change_after={self.change_after} leaves none of batches={self.batches} after the change"
            )
        if self.changed_factors is not None and len(self.changed_factors) != len(self.factors):
            raise ValueError(f"{len(self.changed_factors)} changed factors for {len(self.factors)} machines")
        if (self.mean_up is None) != (self.mean_down is None):
            raise ValueError("mean_up and mean_down must both be set")
        if self.window is not None and self.trace is None:
            raise ValueError(f"window={self.window} has no effect without a trace")
        if self.change_after and self.trace is not None:
            raise ValueError(
                "a log has no pauses in which machines could change: set no change_after with a trace"
            )
        return self

    def log_part(self, log: Workload) -> Workload:
        """Return the part of a log that is run, in order of submission."""
        workload, _ = clean(log, ("sort_submits",))
        return workload if self.window is None else workload.part(self.window)

    def batch_starts(self) -> IntArray:
        """Return the second at which each batch of drawn jobs begins: shape (batches,).

        A batch lasts three times as long as its arrivals, as in the paper; under a load above 2 longer, so
        that the machines are empty before the next.
        """

        def period(jobs: int, load: float) -> int:
            return round(self.span(jobs, load) * max(_STRETCH, _RESERVE * load))

        first = period(self.learning_jobs, self.learning_offered_load or self.offered_load)
        return first + np.arange(self.batches, dtype=np.int64) * period(self.batch_jobs, self.offered_load)

    def span(self, jobs: int, load: float) -> float:
        """Return the seconds over which that many drawn jobs arrive."""
        return jobs * self.mean_length / (self.capacity * load)

    def make_jobs(self, streams: Sequence[np.random.Generator], log: Workload | None) -> DispatchJobs:
        """Return the jobs, drawn or those of a log's part.

        A job's deadline is submission + estimate + slack · U(0, 1) · estimate. Its estimate is its length, or
        a log's requested time, times a lognormal error of mean logarithm 0. Both go by what is known when the
        job comes, not by its true length.

        Parameters
        ----------
        streams
            Four streams of random numbers: of arrivals, lengths, estimates and deadlines, so that one can
            change without the others.
        log
            The log's part, in order of submission; None to draw jobs.

        Raises
        ------
        SimulationError
            If a log has too few jobs; or if it lacks requested times and there is no error of estimates: the
            broker would know how long these jobs really take.

        Notes
        -----
        The rule for deadlines is of Vladušič, section 2.2.2.
        """
        arrivals, lengths, errors, deadlines = streams
        if log is None:
            submit, length, batch = self._drawn(arrivals, lengths)
            estimate = length
        else:
            submit, length, batch, estimate = self._of_log(log)
        if self.estimate_error:
            factor = np.exp(self.estimate_error * errors.standard_normal(len(estimate)))
            estimate = np.rint(estimate * factor)
        estimate = np.maximum(1, estimate).astype(np.int64)
        spare = np.rint(self.slack * deadlines.random(len(estimate)) * estimate).astype(np.int64)
        jobs = DispatchJobs(submit, length, estimate, submit + estimate + spare, batch)
        if self.first is not None:
            jobs = jobs.take(np.arange(len(jobs)) < (batch < 0).sum() + self.first)
        return jobs

    def make_machines(self, jobs: DispatchJobs, rng: np.random.Generator) -> Machines:
        """Return the machines, with their changes; `rng` draws failures."""
        changes = Changes()
        if self.change_after and self.changed_factors is not None:
            changes += Changes.of_speeds(int(self.batch_starts()[self.change_after]), self.changed_factors)
        if self.mean_up is not None and self.mean_down is not None:
            horizon = int(jobs.submit.max(initial=0))
            changes += Changes.of_failures(len(self.factors), horizon, self.mean_up, self.mean_down, rng)
        return Machines(np.array(self.factors), np.full(len(self.factors), self.cpus), changes)

    def _drawn(
        self, arrivals: np.random.Generator, lengths: np.random.Generator
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return submission, length and batch of drawn jobs.

        The jobs of a batch arrive within the first part of its time, those to learn from within all of it
        unless a load is given.
        """
        learning = self.span(self.learning_jobs, self.learning_offered_load or self.offered_load)
        parts = [(0, self.learning_jobs, learning if self.learning_offered_load else learning * _STRETCH)]
        own = self.span(self.batch_jobs, self.offered_load)
        parts += [(start, self.batch_jobs, own) for start in self.batch_starts().tolist()]
        submit = np.concatenate(
            [start + np.sort(arrivals.integers(0, max(1, round(span)), jobs)) for start, jobs, span in parts]
        )
        batch = np.repeat(np.arange(-1, self.batches), [jobs for _, jobs, _ in parts])
        low, high = (max(1, round(part * self.mean_length)) for part in (_SHORTEST, _LONGEST))
        return submit, lengths.integers(low, high, len(submit), endpoint=True), batch

    def _of_log(self, log: Workload) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Return submission, length, batch and estimate of a log's jobs, the arrivals scaled to the load.

        The first `learning_jobs` jobs are for learning, then every `batch_jobs` jobs are a batch, without a
        pause between them. There are at most `batches` batches; jobs left over at the end are dropped. The
        estimate is the requested time; where it is unknown, the length if estimates have errors.
        """
        count = min(self.batches, (len(log) - self.learning_jobs) // self.batch_jobs)
        if count < 1:
            raise SimulationError(
                f"{len(log)} jobs are too few: {self.learning_jobs} to learn from and a batch of "
                f"{self.batch_jobs}"
            )
        batch = np.concatenate(
            [np.full(self.learning_jobs, -1), np.repeat(np.arange(count), self.batch_jobs)]
        )
        submit = log.submit_time[: len(batch)] - log.submit_time[0]
        length = np.maximum(1, log.run_time[: len(batch)])
        span = length.sum() / (self.capacity * self.offered_load)
        submit = np.rint(submit * (span / max(1, submit[-1]))).astype(np.int64)
        requested = log.requested_time[: len(batch)]
        unknown = requested < 1
        if unknown.any() and not self.estimate_error:
            raise SimulationError(
                f"{unknown.sum()} of {len(requested)} jobs have no requested time, and the broker must "
                "not know their run times",
                field="requested_time",
                hint="the cleaning rule missing_walltime, one of the default ones, gives them the log's "
                "largest; or make estimates of their run times with estimate_error=0.5",
            )
        return submit, length, batch, np.where(unknown, length, requested)
