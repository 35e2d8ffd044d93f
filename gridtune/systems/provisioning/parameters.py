"""The parameters of a cell of the provisioning system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from gridtune.core.log_parameters import CleanRules, Count, LogParameters
from gridtune.workload.workflows.files import WORKFLOW_SUFFIXES

__all__ = ["SEARCHES", "ProvisioningParameters"]

#: Ways to choose slots that look at many plans.
SEARCHES = ("moga", "memetic", "nsga2", "nsga3")
#: Workflows that are made, not read.
MADE = ("random", "cybershake")

#: Of a workflow that is drawn; only `workflow=random` is.
_OF_A_DRAW = ("tasks", "depth", "run_time", "task_processors", "fan_in", "communication", "workflow_seed")
#: Of the log that a site lives through.
_OF_A_LOG = ("processors", "first", "clean", "copy_probability", "copy_shift", "copy_seed", "inflation")

Part = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _split(value: Any) -> Any:
    """Take `10,20` for a list of two: the command line has no lists."""
    return tuple(value.split(",")) if isinstance(value, str) else value


Counts = Annotated[tuple[Count, ...], BeforeValidator(_split), Field(min_length=1)]


class ProvisioningParameters(LogParameters):
    """The parameters of one submission of a workflow."""

    offers: Literal["site", "poisson"] = Field(
        "site",
        description="where slots come from. site: a cluster that lives through a log under conservative "
        "backfilling; poisson: made at random, on several sites",
    )
    trace: str | None = Field(  # type: ignore[assignment]  # unlike its base, this needs no log
        None, description="with offers=site: the log", examples=["ctc-sp2-reconstructed"]
    )
    processors: Count | None = Field(
        None, description="the site's size; default: what the log's header says", examples=[430]
    )
    copy_probability: Part = Field(
        0.0, description="probability with which each job of the log comes a second time"
    )
    copy_shift: int = Field(604_800, description="seconds by which copies come later; 604800 is a week")
    copy_seed: Annotated[int, Field(ge=0)] = Field(1, description="of the draw of the jobs that are copied")
    inflation: NotNegative = Field(
        0.0,
        description="how much too long the log's jobs ask for, in parts of their run time",
        examples=[0.1],
    )
    earliest: Part = Field(
        0.1, description="the workflow comes at a random second, from this part of the log's time on"
    )
    latest: Part = Field(0.8, description="… to this part of it")

    slot_sites: Counts = Field((10, 20, 30, 40), description="with offers=poisson: processors of each site")
    slot_length: Positive = Field(1000.0, description="… mean length of a slot, seconds")
    slot_gap: Positive = Field(1000.0, description="… mean time between starts of slots of a site, seconds")
    slot_until: Annotated[int, Field(ge=0)] = Field(30_000, description="… second after which none starts")
    latency: NotNegative = Field(0.0, description="… seconds before data moves between two sites")
    bandwidth: Positive = Field(1e8, description="… bytes per second between two sites")

    workflow: str = Field(
        "random",
        description="random: made level by level; cybershake: 8,039 tasks of a seismic hazard analysis; or a "
        f"file: {', '.join(WORKFLOW_SUFFIXES)}, each also .gz or .xz",
        examples=["cybershake", "Montage_100.dax.xml.gz"],
    )
    workflow_clean: CleanRules = Field(
        (), description="cleaning rules of a workflow's file: zero_negative_times, zero_negative_sizes"
    )
    workflow_seed: Annotated[int, Field(ge=0)] = Field(1, description="of a random workflow")
    tasks: Count = Field(100, description="with workflow=random: number of tasks")
    depth: Count = Field(10, description="… number of levels")
    run_time: Annotated[float, Field(ge=1)] = Field(1000.0, description="… mean run time of a task, seconds")
    task_processors: Annotated[float, Field(ge=1)] = Field(22.0, description="… mean processors of a task")
    fan_in: Annotated[float, Field(ge=1)] = Field(2.0, description="… mean number of parents of a task")
    communication: NotNegative = Field(
        0.0, description="… mean time of a transfer between sites, in parts of the mean run time"
    )

    approach: Literal["provisioned", "best_effort"] = Field(
        "provisioned",
        description="provisioned: slots are chosen and held for the whole workflow; best_effort: each task "
        "is submitted to the queue when its parents have ended",
    )
    scheduler: Literal["heft", "greedy", "min-min", "max-min"] = Field(
        "heft", description="what lays the workflow onto the slots of a plan"
    )
    cross_slot: Literal["never", "narrow", "always"] = Field(
        "narrow",
        description="whether a task may draw on several slots: never; narrow, where no single one is wide "
        "enough; always, where it ends sooner so",
    )
    extend: bool = Field(True, description="may tasks run past the end of extensible slots?")
    search: Literal["moga", "memetic", "nsga2", "nsga3", "all", "open"] = Field(
        "moga",
        description="how slots are chosen: moga, the paper's genetic algorithm; memetic: from plans of "
        "simple rules to their neighbours; nsga2, nsga3; all: take all slots; open: take the divisible ones",
    )
    population: Annotated[int, Field(ge=2)] = Field(
        100, description="plans that a search looks at in one iteration"
    )
    iterations: Count = Field(20, description="generations, the first one included")
    crossover_points: Annotated[int, Field(ge=1, le=8)] = Field(
        2, description="with search=moga: places at which two plans swap bits"
    )
    crossover_rate: Part = Field(0.9, description="… share of pairs that swap at all")
    mutation: NotNegative = Field(
        1.0, description="… bits of a plan that flip on average; 1 is the paper's 1/n for each bit"
    )
    seeded: bool = Field(
        False, description="are plans of simple rules in the first generation? The paper's are all random"
    )
    release: bool = Field(
        False, description="is a slot given back that no task uses? In the paper it is paid all the same"
    )
    alpha: Part = Field(
        0.5, description="what counts in choosing from the front: 0 the makespan alone, 1 the cost alone"
    )

    @model_validator(mode="after")
    def _belong_together(self) -> ProvisioningParameters:
        if (self.trace is None) == (self.offers == "site"):
            raise ValueError(f"offers={self.offers} {'needs a' if self.trace is None else 'takes no'} trace")
        if self.offers == "poisson" and self.approach == "best_effort":
            raise ValueError("best effort needs a queue: offers=site")
        if not self.earliest <= self.latest:
            raise ValueError(f"`earliest <= latest` must hold, but got {self.earliest} and {self.latest}")
        if self.depth > self.tasks:
            raise ValueError(f"`depth <= tasks` must hold, but got {self.depth} and {self.tasks}")
        if not (self.workflow_is_made or self._is_file()):
            made = " or ".join(MADE)
            raise ValueError(f"workflow={self.workflow!r} is neither {made} nor a file of a known suffix")
        self._refuse_idle(self._without_effect())
        return self

    def _without_effect(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield names of parameters that decide nothing, and the choice that makes it so."""
        yield from self._without_effect_on_slots()
        yield from self._without_effect_on_transfers()
        if self.workflow != "random":
            yield _OF_A_DRAW, f"workflow={self.workflow}"
        if self.workflow_is_made:
            yield ("workflow_clean",), f"workflow={self.workflow}"
        if self.approach == "best_effort":
            return  # what is fixed for a whole sweep may be said of best effort, too
        if self.search != "moga":
            yield ("crossover_points", "crossover_rate", "mutation"), f"search={self.search}"
        if self.search in ("memetic", "all", "open"):
            yield ("seeded",), f"search={self.search}"
        if self.search not in SEARCHES:
            yield ("population", "iterations", "alpha"), f"search={self.search}"

    def _without_effect_on_slots(self) -> Iterator[tuple[Iterable[str], str]]:
        if self.offers == "site":
            yield ("slot_sites", "slot_length", "slot_gap", "slot_until"), "offers=site"
            if not self.copy_probability:
                yield ("copy_shift", "copy_seed"), "copy_probability=0"
            return
        # A workflow comes at second 0 of slots made at random, and none of these can be extended.
        yield (*_OF_A_LOG, "earliest", "latest", "extend"), "offers=poisson"

    def _without_effect_on_transfers(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield what is idle of the network: data moves between sites only, and takes its latency if none."""
        transfers = ("communication", "latency", "bandwidth")
        if self.offers == "site":
            yield transfers, "offers=site, a single site"
        elif len(self.slot_sites) == 1:
            yield transfers, "a single site in slot_sites"
        elif self.workflow == "random":
            # Volumes are drawn in proportion to the bandwidth, so that the transfers' times stay.
            yield ("bandwidth",), "workflow=random, whose transfers take the time that communication says"
        elif self.workflow == "cybershake":
            yield ("bandwidth",), "workflow=cybershake, which moves no data"

    @property
    def workflow_is_made(self) -> bool:
        """Whether the workflow comes from no file."""
        return self.workflow in MADE

    def _is_file(self) -> bool:
        name = self.workflow.lower().removesuffix(".gz").removesuffix(".xz")
        return name.endswith(WORKFLOW_SUFFIXES)
