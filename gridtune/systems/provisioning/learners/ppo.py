"""`provisioning/ppo`: PPO that keeps or drops slots, judged beside simple rules and a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from gridtune.core.system import Measure, SystemParameters, WorkloadLoader
from gridtune.systems.provisioning.environment.choices import ChoiceBatch
from gridtune.systems.provisioning.parameters import ProvisioningParameters
from gridtune.systems.provisioning.planning.bounds import cost_bound, makespan_bound
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.genetic import Memetic
from gridtune.systems.provisioning.search.rules import heuristic_plans
from gridtune.systems.provisioning.submission import draw_problems
from gridtune.training.ppo_training import (
    EntropyWeight,
    Environments,
    PPOParameters,
    PPOTask,
    PPOTraining,
    Schedule,
    UnitInterval,
)
from gridtune.training.system import TRAINING_MEASURES, Count
from gridtune.types import FloatArray, IntArray

if TYPE_CHECKING:
    from gridtune.training.networks import ActorCritic

__all__ = ["ProvisioningPPO", "ProvisioningPPOParameters", "play"]


#: Parts of the log's time: workflows are submitted in the first to learn from, in the second to judge.
LEARNED, JUDGED = (0.1, 0.6), (0.6, 0.8)
#: Seeds of random workflows: neither those of cells nor each other's.
LEARNED_WORKFLOWS, JUDGED_WORKFLOWS = 1_000, 100_000
#: Random workflows by default: the paper's on a site (section 5), and on random slots (section 3).
ON_A_SITE: Mapping[str, float] = {"run_time": 1000.0, "task_processors": 22.0, "communication": 0.0}
ON_SLOTS: Mapping[str, float] = {"run_time": 100.0, "task_processors": 1.0, "communication": 1.0}
#: Plans that the search it is compared with evaluates, and of how many simple rules.
EVALUATIONS, RULES = 1_000, 40

_VALUE = "α · cost / bound + (1 − α) · makespan / bound of the plan, mean over the problems held out"


class ProvisioningPPOParameters(PPOParameters):
    """The parameters of one training; those of the submissions are as in `provisioning`."""

    trace: str | None = Field(None, description="the site's log; default: random slots of four sites")
    processors: Count | None = Field(None, description="the site's size; default: what the log's header says")
    copy_probability: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="probability with which each job of the log is submitted a second time"
    )
    workflow: str = Field("random", description="random, cybershake, or a file")
    tasks: Count = Field(100, description="with workflow=random: number of tasks")
    run_time: Annotated[float, Field(ge=1)] | None = Field(
        None,
        description="… mean run time of a task, seconds; default: 1000 with a trace, 100 on random slots",
    )
    task_processors: Annotated[float, Field(ge=1)] | None = Field(
        None, description="… mean processors of a task; default: 22 with a trace, 1 on random slots"
    )
    communication: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="… mean time of a transfer between sites, in parts of the mean run time; default: 0 with "
        "a trace, 1 on random slots",
    )
    alpha: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="trade-off: 0 the makespan alone, 1 the cost alone"
    )
    network: Literal["mlp", "recurrent"] = Field("mlp", description="network to train, see docs/agents.md")
    instances: Count = Field(512, description="problems to learn from")
    held_out: Count = Field(64, description="problems to judge on")
    environments: Environments = 64
    steps: Count = Field(96, description="steps of each environment per iteration")
    schedule: Schedule = 200
    entropy_weight: EntropyWeight = 0.01
    # The return is what the last plan improves by.
    gamma: UnitInterval = Field(1.0, description="discount of a decision")

    @model_validator(mode="after")
    def _submissions_make_sense(self) -> ProvisioningPPOParameters:
        self.submissions(*LEARNED, 0)
        return self

    def submissions(self, earliest: float, latest: float, workflow_seed: int) -> ProvisioningParameters:
        """Return parameters of the system for submissions in a part of the log's time."""
        names = ("trace", "processors", "copy_probability", "workflow")
        given = {name: getattr(self, name) for name in names}
        if self.workflow == "random":
            default = ON_SLOTS if self.trace is None else ON_A_SITE
            given |= {"tasks": self.tasks}
            given |= {
                name: value if getattr(self, name) is None else getattr(self, name)
                for name, value in default.items()
            }
        if self.trace is None:
            given["offers"] = "poisson"
        else:
            given |= {"earliest": earliest, "latest": latest}
        if self.workflow == "random":
            given["workflow_seed"] = workflow_seed
        return ProvisioningParameters(**given, cross_slot="always")


class ProvisioningPPO(PPOTraining):
    """PPO that keeps or drops slots, judged beside simple rules and a search on other problems."""

    name: ClassVar[str] = "provisioning/ppo"
    version: ClassVar[str] = "2"
    Parameters: ClassVar[type[SystemParameters]] = ProvisioningPPOParameters
    objective: ClassVar[str] = "trade_off"
    metrics: ClassVar[Mapping[str, Measure]] = {
        "trade_off": Measure.own("1", "min", f"{_VALUE}: the agent's, by its likeliest actions"),
        "trade_off_bound": Measure.own("1", "none", "1: both bounds in one plan"),
        "trade_off_all": Measure.own("1", "none", f"{_VALUE} of all slots"),
        "trade_off_rules": Measure.own("1", "none", f"{_VALUE}: best of {RULES} plans of rules"),
        "trade_off_memetic": Measure.own(
            "1", "none", f"{_VALUE}: best of {EVALUATIONS:,} plans of the memetic search"
        ),
        "plans": Measure.own("plans", "none", "mean number of plans that the agent makes"),
        **TRAINING_MEASURES,
    }

    def __init__(self) -> None:
        self._references: dict[str, dict[str, float]] = {}

    def traces(self, parameters: ProvisioningPPOParameters) -> Iterable[str]:
        """Return the site's log, if there is one."""
        submissions = parameters.submissions(*LEARNED, 0)
        return () if parameters.trace is None else (str(submissions.reference),)

    def task(self, parameters: ProvisioningPPOParameters, load: WorkloadLoader) -> PPOTask:
        """Return the choice of slots in the problems to learn from."""
        from gridtune.systems.provisioning.environment.environment import (  # noqa: PLC0415 (gymnasium)
            ProvisioningVectorEnv,
        )

        p = parameters
        problems = self._problems(p, load, LEARNED, LEARNED_WORKFLOWS, p.instances)
        # Checkpoints have the problems.
        make = partial(ProvisioningVectorEnv, problems=problems, alpha=p.alpha)
        return PPOTask(make, p.network, p.steps)

    def evaluate(
        self,
        parameters: ProvisioningPPOParameters,
        algorithm: Any,
        *,
        rng: np.random.Generator,
        load: WorkloadLoader,
    ) -> Mapping[str, float]:
        """Return the value of the agent's plans, of rules' and of a search's, on problems held out."""
        from gridtune.training.rllib import network_of  # noqa: PLC0415 (RLlib)

        p = parameters
        problems = self._problems(p, load, JUDGED, JUDGED_WORKFLOWS, p.held_out)
        batch, plans = play(network_of(algorithm), problems)
        reached = [
            _value(problem, costs, p.alpha)
            for problem, costs in zip(problems, batch.state.costs, strict=True)
        ]
        key = p.model_dump_json(exclude={"iterations", "validate_every"})
        if key not in self._references:
            self._references[key] = _reference_values(problems, p.alpha)
        return {
            "trade_off": float(np.mean(reached)),
            "trade_off_bound": 1.0,
            "plans": float(plans.mean()),
            **self._references[key],
        }

    def _problems(
        self,
        parameters: ProvisioningPPOParameters,
        load: WorkloadLoader,
        part: tuple[float, float],
        workflow_seed: int,
        count: int,
    ) -> list[PlanProblem]:
        submissions = parameters.submissions(*part, workflow_seed)
        logs = [load(reference) for reference in self.traces(parameters)]
        return draw_problems(submissions, logs[0] if logs else None, count, seed=workflow_seed)


def _value(problem: PlanProblem, costs: FloatArray, alpha: float) -> float:
    """Return the least value of plans with these costs, shape (…, 2)."""
    least = cost_bound(problem.workflow, problem.slots)
    shortest = makespan_bound(problem.workflow, problem.slots, extend=problem.extend, now=problem.now)
    weighted = np.atleast_2d(costs) / [least, shortest] @ [alpha, 1 - alpha]
    return float(weighted.min())


def _reference_values(problems: Sequence[PlanProblem], alpha: float) -> dict[str, float]:
    """Return the mean values of all slots, of simple rules, and of a search."""
    values: dict[str, list[float]] = {"all": [], "rules": [], "memetic": []}
    for number, problem in enumerate(problems):
        costs = problem.evaluate_released(heuristic_plans(problem, RULES)).costs
        front = Memetic(problem, np.random.default_rng(number)).run(EVALUATIONS)
        plans = {"all": costs[:1], "rules": costs, "memetic": front.costs}
        for name, points in plans.items():
            values[name].append(_value(problem, points, alpha))
    return {f"trade_off_{name}": float(np.mean(numbers)) for name, numbers in values.items()}


def play(
    network: ActorCritic, problems: Sequence[PlanProblem], *, release: bool = True
) -> tuple[ChoiceBatch, IntArray]:
    """Play one episode of each problem, all of them side by side.

    Parameters
    ----------
    network
        The agent.
    problems
        With equal scheduler and rules.
    release
        Whether plans release the slots that no task uses.

    Returns
    -------
    batch
        Its state has the slots kept, and the costs of the plans.
    plans
        Shape (problems,): how many plans were made for each.
    """
    import torch  # noqa: PLC0415 (slow to import)

    count, nowhere = len(problems), np.zeros(len(problems), np.bool_)
    batch = ChoiceBatch(problems, count, release=release)
    begins = ~nowhere
    batch.step(np.ones(count, np.int64), begins, np.arange(count))
    plans, state = np.ones(count, np.int64), network.initial_state(count)
    with torch.no_grad():
        while not batch.state.over.all():
            rows = torch.as_tensor(batch.state.rows[None])
            logits, _, state = network(rows, torch.as_tensor(begins[None]), state)
            actions = logits[0].argmax(-1).numpy()
            plans += (actions == 0) & ~batch.state.over
            batch.step(actions, nowhere, np.arange(count))
            begins = nowhere
    return batch, plans
