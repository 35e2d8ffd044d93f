"""The parameters of a cell of the provisioning system."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from gridtune.core.system import CleanRules, Count, LogParameters, described
from gridtune.errors import SimulationError
from gridtune.systems.provisioning.planning.problem import PlanProblem
from gridtune.systems.provisioning.search.fronts import Archive, enumerate_front, heuristic_plans
from gridtune.systems.provisioning.search.genetic import KINDS
from gridtune.systems.provisioning.simulator.site import ReservationSite, SiteState
from gridtune.systems.provisioning.simulator.slots import Slots, poisson_slots
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.cleaning import clean
from gridtune.workload.fields import LARGEST_TIME
from gridtune.workload.workflows import Workflow, cybershake_workflow, generate_workflow, read_workflow
from gridtune.workload.workload import Workload

#: Searches that evaluate many plans.
SEARCHES = ("moga", "memetic", "nsga2", "nsga3", "random")
#: Workflows that are generated, not read.
GENERATED = ("random", "cybershake")

#: Random slots may be too narrow for a workflow: so many are drawn for each problem at most.
_DRAWS = 100
#: Workflows that no drawn slots held, before the first that some did hold, after which drawing is given up.
_WORKFLOWS = 3
#: The most plans of simple rules: as many as the memetic search begins with.
_RULES = 40

#: Parameters of a random workflow.
_RANDOM_WORKFLOW = (
    "tasks",
    "depth",
    "run_time",
    "task_processors",
    "fan_in",
    "communication",
    "workflow_seed",
)
#: Parameters of the site's log.
_LOG = ("processors", "first", "clean", "copy_probability", "copy_shift", "copy_seed", "inflation")

Part = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _split(value: Any) -> Any:
    """Take `10,20` for a list of two, and a number for a list of one: the command line has no lists."""
    if isinstance(value, str):
        return tuple(value.split(","))
    return (value,) if isinstance(value, (int, float)) else value


Counts = Annotated[tuple[Count, ...], BeforeValidator(_split), Field(min_length=1)]
Prices = Annotated[tuple[NotNegative, ...], BeforeValidator(_split), Field(min_length=1)]


@described(__file__)
class ProvisioningParameters(LogParameters):
    """The parameters of one submission of a workflow."""

    offers: Literal["site", "poisson"] = "site"
    trace: str | None = None  # type: ignore[assignment]  # unlike its base, this needs no log
    processors: Count | None = None
    copy_probability: Part = 0.0
    copy_shift: int = 604_800
    copy_seed: Annotated[int, Field(ge=0)] = 1
    inflation: NotNegative = 0.0
    earliest: Part = 0.1
    latest: Part = 0.8

    slot_price: Prices = (1.0,)
    slot_fixed_price: Prices = (0.0,)
    slot_sites: Counts = (10, 20, 30, 40)
    slot_length: Positive = 1000.0
    slot_gap: Positive = 1000.0
    slot_until: Annotated[int, Field(ge=0)] = 30_000
    latency: NotNegative = 0.0
    bandwidth: Positive = 1e8

    workflow: str = "random"
    workflow_clean: CleanRules = ()
    workflow_seed: Annotated[int, Field(ge=0)] = 1
    tasks: Count = 100
    depth: Count = 10
    run_time: Annotated[float, Field(ge=1)] = 1000.0
    task_processors: Annotated[float, Field(ge=1)] = 22.0
    fan_in: Annotated[float, Field(ge=1)] = 2.0
    communication: NotNegative = 0.0

    approach: Literal["provisioned", "best_effort"] = "provisioned"
    scheduler: Literal["heft", "greedy", "min-min", "max-min"] = "heft"
    cross_slot: Literal["never", "narrow", "always"] = "narrow"
    search: Literal[
        "moga", "memetic", "nsga2", "nsga3", "random", "exact", "rules", "all", "open", "pilot"
    ] = "moga"
    pilot_widths: Annotated[int, Field(ge=2)] = 8
    population: Annotated[int, Field(ge=2)] = 100
    iterations: Count = 20
    evaluations: Count | None = None
    crossover_points: Annotated[int, Field(ge=1, le=8)] = 2
    crossover_rate: Part = 0.9
    mutation: NotNegative = 1.0
    seeded: bool = False
    release: bool = False
    alpha: Part = 0.5

    @model_validator(mode="after")
    def _belong_together(self) -> ProvisioningParameters:
        if (self.trace is None) == (self.offers == "site"):
            raise ValueError(f"offers={self.offers} {'needs a' if self.trace is None else 'takes no'} trace")
        if self.offers == "poisson" and self.approach == "best_effort":
            raise ValueError("best effort needs a queue: offers=site")
        if self.offers == "poisson" and self.search == "pilot":
            raise ValueError("a pilot job needs a queue: offers=site")
        if not self.earliest <= self.latest:
            raise ValueError(f"`earliest <= latest` must hold, but got {self.earliest} and {self.latest}")
        sites = len(self.slot_sites) if self.offers == "poisson" else 1
        for name in ("slot_price", "slot_fixed_price"):
            if len(getattr(self, name)) not in (1, sites):
                raise ValueError(f"{name} has {len(getattr(self, name))} values for {sites} sites")
        if self.depth > self.tasks:
            raise ValueError(f"`depth <= tasks` must hold, but got {self.depth} and {self.tasks}")
        # The content of a file decides its format; a name without a suffix or folder is a slip.
        if not (self.workflow_is_generated or {".", "/"}.intersection(self.workflow)):
            names = " or ".join(GENERATED)
            raise ValueError(
                f"workflow={self.workflow!r} is neither {names} nor a file: write ./NAME for one"
            )
        self._refuse_idle(self._without_effect())
        return self

    def _without_effect(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield names of parameters without effect, and the choice that leaves them so."""
        yield from self._without_effect_on_slots()
        yield from self._without_effect_on_transfers()
        if self.workflow != "random":
            yield _RANDOM_WORKFLOW, f"workflow={self.workflow}"
        if self.workflow_is_generated:
            yield ("workflow_clean",), f"workflow={self.workflow}"
        if self.approach == "best_effort":
            return  # best effort may be given what is fixed for a whole sweep
        if self.search != "moga":
            yield ("crossover_points", "crossover_rate", "mutation"), f"search={self.search}"
        if self.search in ("memetic", "random") or self.search not in SEARCHES:
            yield ("seeded",), f"search={self.search}"
        if self.search not in SEARCHES:
            yield ("population", "iterations", "evaluations"), f"search={self.search}"
        if self.evaluations is not None:
            yield ("iterations",), "evaluations"
        if self.search == "random":
            yield ("population",) if self.evaluations else (), "search=random and evaluations"
        if self.search == "pilot":
            yield ("cross_slot", "release"), "search=pilot, one slot that is paid for as a whole"
        else:
            yield ("pilot_widths",), f"search={self.search}"

    def _without_effect_on_slots(self) -> Iterator[tuple[Iterable[str], str]]:
        if self.offers == "site":
            yield ("slot_sites", "slot_length", "slot_gap", "slot_until"), "offers=site"
            if not self.copy_probability:
                yield ("copy_shift", "copy_seed"), "copy_probability=0"
            return
        # The workflow is submitted at second 0.
        yield (*_LOG, "earliest", "latest"), "offers=poisson"

    def _without_effect_on_transfers(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield parameters of the network: data moves between sites only; latency counts without data too."""
        transfers = ("communication", "latency", "bandwidth")
        if self.offers == "site":
            yield transfers, "offers=site, a single site"
        elif len(self.slot_sites) == 1:
            yield transfers, "a single site in slot_sites"
        elif self.workflow == "random":
            # Volumes are proportional to the bandwidth, so that transfers take the same time.
            yield ("bandwidth",), "workflow=random, whose transfers take the time that communication says"
        elif self.workflow == "cybershake":
            yield ("bandwidth",), "workflow=cybershake, which moves no data"

    @property
    def workflow_is_generated(self) -> bool:
        """True if the workflow is generated, not read from a file."""
        return self.workflow in GENERATED

    def build_site(self, raw: Workload) -> ReservationSite:
        """Return the site that replays a log, as far as these parameters select it."""
        workload, _ = clean(raw, self.rules, processors=self.processors)
        if self.first is not None:
            workload = workload.first(self.first)
        size = self.processors or workload.machine_processors
        if size is None:
            raise SimulationError("the log does not give the site's size", field="processors")
        if len(workload) == 0:
            raise SimulationError(f"no job of {raw.name} is left by the selection")
        if self.copy_probability:
            rng = np.random.default_rng(self.copy_seed)
            workload = workload.add_shifted_copy(self.copy_probability, self.copy_shift, rng)
        return ReservationSite(workload, size, inflation=self.inflation)

    def build_workflow(self, site: ReservationSite | None) -> Workflow:
        """Return the workflow, generated or read; its tasks can be as wide as the (largest) site."""
        widest = max(self.slot_sites) if site is None else site.processors
        if self.workflow == "cybershake":
            return cybershake_workflow()
        if self.workflow != "random":
            return read_workflow(resolve_trace(self.workflow), clean=self.workflow_clean).in_whole_seconds()
        if self.task_processors > widest:
            message = f"cannot be {self.task_processors:g} on a site of {widest} processors"
            raise SimulationError(message, field="task_processors")
        return generate_workflow(
            seed=self.workflow_seed,
            tasks=self.tasks,
            depth=self.depth,
            run_time=self.run_time,
            processors=self.task_processors,
            max_processors=widest,
            fan_in=self.fan_in,
            communication=self.communication,
            bandwidth=self.bandwidth,
        )

    def draw_slots(
        self, site: ReservationSite | None, instants: np.random.Generator, rng: np.random.Generator
    ) -> tuple[int, Slots]:
        """Return the second at which a workflow is submitted, and the slots on offer then, or random ones."""
        if site is not None:
            now = int((self.earliest + (self.latest - self.earliest) * instants.random()) * site.span)
            return now, site.at(now).slots(price=self.slot_price[0], fixed=self.slot_fixed_price[0])
        slots = poisson_slots(
            rng, processors=self.slot_sites, length=self.slot_length, gap=self.slot_gap, until=self.slot_until
        )
        return 0, slots.priced(self.slot_price, self.slot_fixed_price)

    def plan_problem(self, workflow: Workflow, slots: Slots, now: int) -> PlanProblem | None:
        """Return the choice among the slots on offer; None if random ones are too narrow for a task."""
        if self.offers == "poisson" and workflow.widest <= max(self.slot_sites):
            widths = slots.most_at_once(together=self.cross_slot != "never")
            if workflow.widest > widths.max(initial=0):
                return None
        return PlanProblem(
            workflow,
            slots,
            self.scheduler,
            latency=self.latency,
            bandwidth=self.bandwidth,
            cross_slot=self.cross_slot,
            now=now,
        )

    def pilot_problem(self, workflow: Workflow, state: SiteState) -> PlanProblem:
        """Return the choice of a pilot job: each slot on offer is a whole job, and a plan takes one of them.

        A job of some width requests the makespan that the scheduler reaches on so many processors, and its
        slot is where the queue would start it now. It is paid for as a whole. Widths go from the widest
        task's to the site's, each larger by about the same factor.
        """
        workflow.check_fits([state.processors])
        widths = np.unique(
            np.geomspace(workflow.widest, state.processors, self.pilot_widths).round().astype(np.int64)
        )
        alone = (PlanProblem(workflow, Slots.of(0, LARGEST_TIME, width), self.scheduler) for width in widths)
        lengths = [max(1, math.ceil(problem.evaluate(np.ones((1, 1)))[0, 1])) for problem in alone]
        starts = [state.earliest_start(*job) for job in zip(widths.tolist(), lengths, strict=True)]
        jobs = Slots.of(starts, lengths, widths, price=self.slot_price[0], fixed=self.slot_fixed_price[0])
        return PlanProblem(workflow, jobs, self.scheduler, now=state.now)

    def draw_problems(self, log: Workload | None, count: int, seed: int) -> list[PlanProblem]:
        """Return planning problems at random instants of a log, or on random slots.

        With `workflow=random` each problem has its own workflow, from `workflow_seed` on.

        Parameters
        ----------
        log
            What `trace` names; None with random slots.
        count, seed
            How many, and the seed of instants and slots.
        """
        rng = np.random.default_rng(seed)
        site = None if log is None else self.build_site(log)
        read = None if self.workflow == "random" else self.build_workflow(site)
        problems: list[PlanProblem] = []
        for number in range(count):
            seeded = self.model_copy(update={"workflow_seed": self.workflow_seed + number})
            workflow = read or seeded.build_workflow(site)
            for _ in range(_DRAWS):
                now, slots = self.draw_slots(site, rng, rng)
                problem = self.plan_problem(workflow, slots, now)
                if (
                    problem is not None
                    and np.isfinite(problem.evaluate(np.ones((1, len(problem)), np.bool_))).all()
                ):
                    problems.append(problem)
                    break
            if not problems and number + 1 >= min(count, _WORKFLOWS):
                raise SimulationError(
                    f"no slots that were drawn hold the workflow: {number + 1} × {_DRAWS} draws",
                    field="offers",
                    hint="for random slots the paper has run_time=100 task_processors=1 communication=1",
                )
        return problems

    def run_search(self, problem: PlanProblem, rng: np.random.Generator) -> Archive:
        """Return the front of the search; that of a few plans where simple rules choose the slots."""
        if self.search == "exact":
            return enumerate_front(problem)
        if self.search in SEARCHES:
            options: dict[str, Any] = {"population": self.population, "release": self.release}
            if self.search == "memetic":
                options["offspring"] = self.population
            elif self.search != "random":
                options["seeding"] = self.seeded
            if self.search == "moga":
                rate = min(1.0, self.mutation / len(problem))
                options |= {"crossover_points": self.crossover_points, "crossover_rate": self.crossover_rate}
                options["mutation_rate"] = rate
            search = KINDS[self.search](problem, rng, **options)
            return search.run(self.evaluations or self.population * self.iterations)
        if self.search == "pilot":  # each slot is a job, and one of them is submitted
            plans = np.eye(len(problem), dtype=np.bool_)
        elif self.search == "rules":
            plans = heuristic_plans(problem, _RULES)
        elif self.search == "all":
            plans = np.ones((1, len(problem)), np.bool_)
        else:
            plans = problem.slots.divisible[None, :]
        if self.release:
            costs, plans = problem.evaluate_released(plans)
        else:
            costs = problem.evaluate(plans)
        archive = Archive(len(problem))
        archive.add(costs, plans)
        return archive
