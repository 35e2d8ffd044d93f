"""What a race costs and what it finds, beside the full grid; and how often it is wrong where nothing differs.

python -m benchmarks.racing grids     # cells and verdicts, on bundled search spaces
python -m benchmarks.racing same      # wrong verdicts and lost winners in simulated sweeps
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.logs import ROOT
from benchmarks.measure import arguments, print_machine, print_table
from gridtune.core.cells import Cell, CellResult
from gridtune.report.facts import SweepFacts
from gridtune.report.summary import summarise
from gridtune.statistics.racing import Race, RaceRules, RaceTest, race_looks
from gridtune.sweep import plan_space, run_space
from gridtune.sweep.execution.observing import SweepPlan
from gridtune.sweep.journal.results import results_table
from gridtune.sweep.search.racing import RaceQueue
from gridtune.sweep.space.schema import SearchSpace
from gridtune.types import FloatArray

SPACES = ("queue_orders", "backfilling", "load", "quickstart")
#: Orders of the replicates that each race is run in: the sweep's own, and shuffled ones.
ORDERS = 20
RACES: tuple[dict[str, Any], ...] = (
    {"error": 0.05},
    {"error": 0.1},
    {"error": 0.2},
    {"error": 0.05, "verdicts": False},
    *({"error": error, "budget": 0.5} for error in (0.05, 0.2)),
    *({"error": error, "budget": 0.4, "first": 2} for error in (0.05, 0.2)),
)
CONFIGURATIONS, WORKLOADS, REPLICATES = 21, 2, 10
SWEEPS = 1_000


def race_space(space: SearchSpace, race: Mapping[str, Any]) -> SearchSpace:
    """Return a space as a race for its first objective."""
    content = space.model_dump(mode="json", exclude_defaults=True)
    content |= {"strategy": {"race": race}, "objective": content["objective"][:1]}
    return plan_space(content).space


@dataclass
class Grid:
    """All cells of a bundled search space, run once."""

    space: SearchSpace
    cells: Sequence[Cell]
    results: Mapping[str, CellResult]

    @classmethod
    def run(cls, name: str) -> Grid:
        """Run every cell of a space in this process."""
        plan = plan_space(ROOT / "search_spaces" / f"{name}.yaml")
        cells = plan.cells()
        with tempfile.TemporaryDirectory() as folder:
            sweep = run_space(plan, directory=folder, executor="inline")
        return cls(plan.space, cells, {result.cell_id: result for result in sweep.results})

    def shuffled(self, seed: int | None) -> dict[str, CellResult]:
        """Return the results with replicates exchanged, for all configurations of a workload alike."""
        labels = list(dict.fromkeys(cell.replicate.label for cell in self.cells))
        rng = np.random.default_rng(seed)
        order: dict[str, dict[str, str]] = {}
        for cell in self.cells:
            if cell.workload not in order:
                drawn = labels if seed is None else [labels[index] for index in rng.permutation(len(labels))]
                order[cell.workload] = dict(zip(labels, drawn, strict=True))
        at = {(cell.configuration_id, cell.replicate.label): cell.cell_id for cell in self.cells}
        return {
            cell.cell_id: replace(
                self.results[cell.cell_id],
                metrics=self.results[
                    at[cell.configuration_id, order[cell.workload][cell.replicate.label]]
                ].metrics,
            )
            for cell in self.cells
        }

    def answers(self, race: Mapping[str, Any] | None, seed: int | None) -> tuple[Answers, int]:
        """Return what a race, or without one the full grid, says, and the cells it takes."""
        space = self.space if race is None else race_space(self.space, race)
        finished = self.shuffled(seed)
        cells = self.cells
        planner = plan_space(space)
        system = planner.system
        if race is not None:
            cells = RaceQueue(planner, self.cells, finished, workers=1).cells()
        table = results_table([finished[cell.cell_id] for cell in cells])
        objective = space.objective[0]
        direction = objective.direction or system.metrics[objective.metric].direction
        plan = SweepPlan(space, Path("none"), [direction] * len(space.objective), len(cells), [], [])
        ranking = summarise(table, SweepFacts.of(plan)).rankings[objective.metric]
        return Answers.of(ranking), len(cells)


@dataclass
class Answers:
    """Verdicts, means, and the best configuration of each table."""

    verdicts: dict[tuple[Any, ...], str]
    means: dict[tuple[Any, ...], float]
    best: dict[tuple[Any, ...], str]
    contenders: set[tuple[Any, ...]]

    @classmethod
    def of(cls, ranking: pa.Table) -> Answers:
        """Return the answers of a ranking."""
        names = ranking.column_names[: ranking.column_names.index("rank")]
        answers = cls({}, {}, {}, set())
        for row in ranking.to_pylist():
            stratum = tuple(row[name] for name in names)
            key = (*stratum, row["configuration_id"])
            if row["verdict"] != "baseline":
                answers.verdicts[key] = row["verdict"]
            answers.means[key] = row["mean"]
            answers.best.setdefault(stratum, row["configuration_id"])
            if "can be best" in row.get("race", ""):
                answers.contenders.add(key)
        return answers


def print_grids() -> None:
    """Print what races of bundled spaces cost and find."""
    for name in SPACES:
        grid = Grid.run(name)
        full, _ = grid.answers(None, None)
        rows = []
        for race in RACES:
            if "budget" in race and name != "queue_orders":
                continue
            runs = [compared(grid, full, race, seed) for seed in (None, *range(1, ORDERS))]
            means = np.mean(runs, axis=0)
            own = runs[0]
            settings = ", ".join(f"{key} {value}" for key, value in race.items())
            rows.append(
                (
                    settings,
                    *(f"{value:.0%}" for value in own[:3]),
                    *(f"{value:.0%}" for value in means[:2]),
                    f"{means[5]:.1%}",
                    *(f"{value:.0%}" for value in means[2:4]),
                    f"{means[4]:.1%}",
                )
            )
        print_table(
            f"`{name}`: {len(grid.cells)} cells",
            ["race", "cells", "verdicts", "best", *HEADER],
            rows,
        )


HEADER = [
    "cells, mean",
    "verdicts, mean",
    "opposite",
    "best, mean",
    "best not given up",
    "the best one's mean above the grid's",
]


def compared(grid: Grid, full: Answers, race: Mapping[str, Any], seed: int | None) -> list[float]:
    """Return the share of cells, of equal verdicts, of equal winners, of winners kept; loss; opposites."""
    answers, cells = grid.answers(race, seed)
    equal = [answers.verdicts[key] == verdict for key, verdict in full.verdicts.items()]
    opposite = [
        {answers.verdicts[key], verdict} == {"better", "worse"} for key, verdict in full.verdicts.items()
    ]
    best = [answers.best[stratum] == winner for stratum, winner in full.best.items()]
    kept = [(*stratum, winner) in answers.contenders for stratum, winner in full.best.items()]
    losses = [
        abs(full.means[(*stratum, answers.best[stratum])] / full.means[(*stratum, winner)] - 1)
        for stratum, winner in full.best.items()
    ]
    shares = [equal, best, kept, losses, opposite]
    return [cells / len(grid.cells), *(float(np.mean(share)) for share in shares)]


#: Draws the logarithms of a workload's values, shape (configurations, replicates).
Draw = Callable[[np.random.Generator], FloatArray]


def _noise(rng: np.random.Generator, kind: str) -> FloatArray:
    shape = (CONFIGURATIONS, REPLICATES)
    if kind == "normal":
        return rng.standard_normal(shape)
    return rng.standard_t({"t3": 3, "Cauchy": 1}[kind], shape)


def _alike(kind: str, rng: np.random.Generator) -> FloatArray:
    return 0.3 * _noise(rng, kind)


def _uneven(rng: np.random.Generator) -> FloatArray:
    return 0.3 * np.exp(0.5 * rng.standard_normal((CONFIGURATIONS, 1))) * _noise(rng, "normal")


def _two_groups(rng: np.random.Generator) -> FloatArray:
    spread = np.where(np.arange(CONFIGURATIONS) < 5, 4.0, 1.0)[:, None]
    return 0.1 * spread * _noise(rng, "normal")


def _beside_losers(rng: np.random.Generator) -> FloatArray:
    values = 0.1 * _noise(rng, "normal")
    values[6:] += np.arange(1, CONFIGURATIONS - 5)[:, None]
    return values


#: Populations in which the first configurations, the baseline among them, have equal mean logarithms.
POPULATIONS: dict[str, tuple[Draw, int]] = {
    "identical, lognormal": (functools.partial(_alike, "normal"), CONFIGURATIONS),
    "identical, log-t with 3 degrees": (functools.partial(_alike, "t3"), CONFIGURATIONS),
    "identical, log-Cauchy": (functools.partial(_alike, "Cauchy"), CONFIGURATIONS),
    "six alike beside 15 clear losers": (_beside_losers, 6),
    "noise uneven: log-sd 0.5": (_uneven, CONFIGURATIONS),
    "noise uneven: five of 21 four times as noisy": (_two_groups, CONFIGURATIONS),
}


def print_same() -> None:
    """Print how often races are wrong where nothing, or nothing but noise, differs."""
    rows = []
    for name, (draw, equal) in POPULATIONS.items():
        for budget in (None, CONFIGURATIONS * REPLICATES * WORKLOADS // 2):
            rng = np.random.default_rng(20_111)
            runs = [one_sweep(rng, draw, equal, budget) for _ in range(SWEEPS)]
            wrong = np.mean([run[0] for run in runs])
            # Of each of the equal ones, how often it was given up on the first workload or the second.
            lost = np.mean([run[1] for run in runs], axis=0)
            cells = np.mean([run[2] for run in runs])
            rows.append(
                (name, "half" if budget else "all", f"{wrong:.1%}", f"{lost.max():.1%}", f"{cells:.0%}")
            )
    print_table(
        f"{SWEEPS:,} simulated sweeps of {CONFIGURATIONS} configurations on {WORKLOADS} workloads, "
        f"{REPLICATES} replicates, error 0.05",
        ["population", "budget", "sweeps with a wrong verdict", "a best one given up", "cells"],
        rows,
    )


def one_sweep(
    rng: np.random.Generator, draw: Draw, equal: int, budget: int | None
) -> tuple[bool, FloatArray, float]:
    """Race a simulated sweep; return whether a verdict is wrong, who was given up, and the share of cells."""
    looks = race_looks(3, REPLICATES)
    share = 0.05 / (WORKLOADS + 1)
    values = [draw(rng) + rng.standard_normal(REPLICATES) for _ in range(WORKLOADS)]
    bases = np.zeros(CONFIGURATIONS, dtype=np.int64)
    race = Race([bases] * WORKLOADS, RaceRules(looks, share), budget=budget)
    rows = [np.exp(np.clip(each, -300, 300)) for each in values]
    while race.advance(rows):
        pass
    pooled = RaceTest(bases, RaceRules(looks, share, WORKLOADS))
    reached = np.min(race.replicates, axis=0)
    for number, look in enumerate(looks):
        present = [np.where((reached >= look)[:, None], each[:, :look], np.nan) for each in rows]
        pooled.look(np.stack(present, axis=-1).reshape(CONFIGURATIONS, -1), number)
    wrong = any(bool(test.verdict[:equal].any()) for test in (*race.tests, pooled))
    lost = np.any([~test.contender[:equal] for test in race.tests], axis=0)
    return wrong, lost.astype(np.float64), race.taken / (CONFIGURATIONS * REPLICATES * WORKLOADS)


PARTS: dict[str, Callable[[], None]] = {"grids": print_grids, "same": print_same}


def wanted_parts() -> Iterator[str]:
    """Yield the parts asked for, all by default."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what is measured (all)")
    yield from parser.parse_args().parts or PARTS


def main() -> None:
    parts = list(wanted_parts())
    print_machine()
    for part in parts:
        PARTS[part]()


if __name__ == "__main__":
    main()
