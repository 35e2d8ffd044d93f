"""How fast plans are evaluated, and how good the front of each search is after equally many evaluations.

    python -m benchmarks.provisioning_speed speed
    python -m benchmarks.provisioning_speed steps
    python -m benchmarks.provisioning_speed searches [--seeds 20] [--evaluations 2000]
    python -m benchmarks.provisioning_speed parts [--copied]

`steps` steps the environment gridtune/Provisioning-v0, alone and many at once, with random actions.
`searches` compares searches, `parts` removes the parts of the memetic one in turn. The CTC rows need the real
log, in the folder that GRIDTUNE_TRACE_DIR names. Times are the thread's own CPU time, so that a busy machine
does not matter.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.logs import real
from benchmarks.measure import arguments, interleave, print_machine, print_table
from gridtune.statistics.inference import paired_difference
from gridtune.statistics.pareto import Scale, hypervolume
from gridtune.systems.provisioning.planning.problem import SCHEDULERS, PlanProblem
from gridtune.systems.provisioning.search.fronts import heuristic_plans, non_dominated
from gridtune.systems.provisioning.search.genetic import Memetic, Moga, Nsga2, Nsga3, RandomSearch
from gridtune.systems.provisioning.simulator.site import ReservationSite
from gridtune.systems.provisioning.simulator.slots import poisson_slots
from gridtune.workload.workflows import cybershake_workflow, generate_workflow

NODES, WEEK = 430, 604_800
KINDS = {"moga": Moga, "memetic": Memetic, "nsga2": Nsga2, "nsga3": Nsga3, "random": RandomSearch}
MOGA = {"population": 100}

#: The searches, the published one first: the name and the parameters of each.
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "MOGA as published, 100 × 20": ("moga", MOGA),
    "MOGA as published, 200 × 10": ("moga", {"population": 200}),
    "MOGA as published, 20 × 100": ("moga", {"population": 20}),
    "pymoo NSGA-II, 100 × 20": ("nsga2", {"population": 100}),
    "pymoo NSGA-II, 50 × 40": ("nsga2", {"population": 50}),
    "pymoo NSGA-II, 20 × 100": ("nsga2", {"population": 20}),
    "… seeded, releasing": ("nsga2", {"population": 20, "seeding": True, "release": True}),
    "pymoo NSGA-III, 100 × 20": ("nsga3", {"population": 100}),
    "random plans, releasing": ("random", {"release": True}),
    "all slots, releasing: 1 evaluation": ("rules", {"most": 1}),
    "simple rules, releasing: at most 40 evaluations": ("rules", {"most": 40}),
    "memetic": ("memetic", {}),
}
#: The published search with each addition, and the memetic one without each of its parts.
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "MOGA as published, 100 × 20": ("moga", MOGA),
    "… seeded": ("moga", {**MOGA, "seeding": True}),
    "… releasing": ("moga", {**MOGA, "release": True}),
    "… seeded, releasing": ("moga", {**MOGA, "seeding": True, "release": True}),
    "pymoo NSGA-II, seeded, releasing": ("nsga2", {**MOGA, "seeding": True, "release": True}),
    "memetic": ("memetic", {}),
    "… paying for unused slots": ("memetic", {"release": False}),
    "… seeded with all slots only": ("memetic", {"seeds": 1}),
    "… without crossover": ("memetic", {"crossover_rate": 0.0}),
    "… never dropping slots": ("memetic", {"drop_rate": 0.0, "swap_rate": 0.5}),
    "… population of 20": ("memetic", {"population": 20}),
    "… population of 100": ("memetic", {"population": 100}),
}


def seconds_of(
    run: Callable[[], object], clock: Callable[[], float] = time.thread_time
) -> Callable[[], float]:
    def timed() -> float:
        began = clock()
        run()
        return clock() - began

    return timed


def ctc_site(copied: float = 0.0) -> ReservationSite | None:
    """Return the CTC log on 430 nodes, with a share of its jobs submitted again a week later."""
    ctc = real("CTC (reconstructed)")
    if ctc is None:
        return None
    log = ctc[0]
    if copied:
        log = log.add_shifted_copy(copied, WEEK, np.random.default_rng(1))
    return ReservationSite(log, NODES)


def slots_problem(seed: int, scheduler: str = "heft", until: int = 30_000) -> PlanProblem:
    """Return the paper's first experiment: four sites, some 124 slots, 100 tasks of 100 s."""
    slots = poisson_slots(np.random.default_rng([1, seed]), until=until)
    workflow = generate_workflow(
        run_time=100, processors=1, max_processors=10, communication=1, rng=np.random.default_rng([2, seed])
    )
    return PlanProblem(workflow, slots, scheduler, bandwidth=1e8, cross_slot="never")


def site_problem(site: ReservationSite, seed: int, cross_slot: str = "always") -> PlanProblem:
    """Return the paper's second one: 100 tasks of 1,000 s and 22 processors, at some instant of the log."""
    now = int((0.1 + 0.7 * np.random.default_rng([3, seed]).random()) * site.span)
    workflow = generate_workflow(rng=np.random.default_rng([2, seed]))
    return PlanProblem(workflow, site.at(now).slots(), cross_slot=cross_slot, now=now)


def speed(rounds: int) -> None:
    runs: dict[str, tuple[str, Callable[[], object]]] = {}
    slots = slots_problem(1)
    rng = np.random.default_rng(1)
    plans = rng.random((1000, len(slots))) < 0.5
    for name in SCHEDULERS:
        problem = slots_problem(1, name)
        what = f"1,000 plans, {name}, 100 tasks on {len(slots)} slots"
        runs[what] = ("", lambda problem=problem: problem.evaluate(plans))
    for name in ("moga", "memetic", "nsga2"):
        parameters = {} if name == "memetic" else MOGA
        what = f"{name}, 10,000 evaluations, {len(slots)} slots × 100 tasks"
        runs[what] = (
            "≤ 5 s" if name == "moga" else "",
            lambda name=name, parameters=parameters: KINDS[name](
                slots, np.random.default_rng(1), **parameters
            ).run(10_000),
        )
    for copied in (0.0, 0.4):
        site = ctc_site(copied)
        if site is None:
            continue
        # Of some instants, the one with most slots on offer.
        instants = np.linspace(0.1, 0.8, 15) * site.span
        offers = max((site.at(int(now)).slots() for now in instants), key=len)
        problem = PlanProblem(cybershake_workflow(), offers, cross_slot="narrow", now=int(offers.start.min()))
        every, half = np.ones((1, len(offers)), bool), rng.random((100, len(offers))) < 0.5
        where = f"8,039 tasks on {len(offers)} CTC slots"
        runs[f"HEFT, {where}"] = ("≤ 0.01 s", lambda problem=problem, every=every: problem.evaluate(every))
        runs[f"100 evaluations, {where}"] = (
            "≤ 1 s",
            lambda problem=problem, half=half: problem.evaluate(half),
        )
    timed = {name: seconds_of(run) for name, (_, run) in runs.items()}
    for run in timed.values():
        run()
    seconds = interleave(timed, rounds)
    rows = [[name, f"{statistics.median(seconds[name]):.4f}", aim] for name, (aim, _) in runs.items()]
    print_table("CPU seconds, one core", ["", "seconds", "aim"], rows)


def steps(rounds: int, count: int = 256) -> None:
    """Time steps of the environment: one by one, and of many environments in one call."""
    from gridtune.systems.provisioning.environment import (  # noqa: PLC0415
        ProvisioningEnv,
        ProvisioningVectorEnv,
    )

    problems = {"four sites": [slots_problem(seed) for seed in range(32)]}
    site = ctc_site(0.4)
    if site is not None:
        problems["CTC, 100 tasks"] = [site_problem(site, seed) for seed in range(32)]
    rows = []
    for what, pool in problems.items():
        many, one = ProvisioningVectorEnv(count, pool), ProvisioningEnv(pool)
        for env in (many, one):
            env.reset(seed=1)
            env.action_space.seed(1)
        actions = [many.action_space.sample() for _ in range(100)]

        def together(env=many, actions=actions) -> None:
            for chosen in actions:
                env.step(chosen)

        def alone(env=one) -> None:
            for action in range(2000):
                if env.step(action % 3 > 0)[2]:
                    env.reset()

        seconds = interleave({"many": seconds_of(together), "one": seconds_of(alone)}, rounds)
        rates = (100 * count / statistics.median(seconds["many"]), 2000 / statistics.median(seconds["one"]))
        rows.append([what, *(f"{rate:,.0f}" for rate in rates)])
    print_table("Steps per CPU second, one core", ["problems", f"{count} in one call", "one by one"], rows)


def front_of(kind: str, problem: PlanProblem, seed: int, evaluations: int, parameters: dict[str, Any]) -> Any:
    """Return the costs of the plans that a search, or the plans of simple rules, come to."""
    if kind == "rules":
        costs = problem.evaluate_released(heuristic_plans(problem, **parameters)).costs
        return costs[non_dominated(costs)]
    parts = {name: value for name, value in parameters.items() if hasattr(KINDS[kind], name)}
    arguments = {name: value for name, value in parameters.items() if name not in parts}
    search = KINDS[kind](problem, np.random.default_rng([4, seed]), **arguments)
    for name, value in parts.items():
        setattr(search, name, value)
    return search.run(evaluations).costs


def compare(
    title: str,
    searches: Mapping[str, tuple[str, dict[str, Any]]],
    problems: Callable[[int], PlanProblem],
    seeds: int,
    evaluations: int,
) -> None:
    """Print the mean hypervolume that each search reaches, and its ratio to the first one's."""
    volume: dict[str, list[float]] = {name: [] for name in searches}
    seconds: dict[str, list[float]] = {name: [] for name in searches}
    sizes = []
    for seed in range(seeds):
        problem = problems(seed)
        sizes.append(len(problem))
        fronts = {}
        for name, (kind, parameters) in searches.items():
            began = time.thread_time()
            fronts[name] = front_of(kind, problem, seed, evaluations, parameters)
            seconds[name].append(time.thread_time() - began)
        scale = Scale.of(list(fronts.values()))
        for name, front in fronts.items():
            volume[name].append(hypervolume(front, scale))
    first = next(iter(searches))
    rows = []
    for name in searches:
        change = paired_difference(volume[name], volume[first], rng=np.random.default_rng(5))
        ratio, low, high = (1 + part for part in (change.relative, change.relative_low, change.relative_high))
        against = "1" if name == first else f"{ratio:.3f} [{low:.3f}, {high:.3f}]"
        wins = np.mean(np.array(volume[name]) > np.array(volume[first]))
        cells = [f"{np.mean(volume[name]):.4f}", against, f"{wins:.0%}", f"{np.mean(seconds[name]):.2f}"]
        rows.append([name, *cells])
    heading = f"{title}: {evaluations:,} evaluations, {seeds} instances, {min(sizes)} to {max(sizes)} slots"
    header = ["search", "hypervolume", "× the published one's [95 %]", "better on", "CPU s"]
    print_table(heading, header, rows)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("what", choices=("speed", "steps", "searches", "parts"))
    parser.add_argument("--seeds", type=int, default=20, help="instances of each kind (20)")
    parser.add_argument("--evaluations", type=int, default=2000, help="of each search (2000)")
    copied_help = "shares of the CTC log's jobs that are submitted twice, a table for each (0 0.4)"
    parser.add_argument("--copied", type=float, nargs="*", default=[0.0, 0.4], help=copied_help)
    options = parser.parse_args()
    print_machine()
    if options.what == "speed":
        speed(options.rounds)
        return
    if options.what == "steps":
        steps(options.rounds)
        return
    searches = SEARCHES if options.what == "searches" else PARTS
    compare("Four sites", searches, slots_problem, options.seeds, options.evaluations)
    for copied in options.copied:
        site = ctc_site(copied)
        if site is not None:
            busy = site.utilisation(int(0.1 * site.span), int(0.8 * site.span))
            title = f"CTC, {busy:.0%} of {NODES} nodes busy"
            compare(
                title,
                searches,
                lambda seed, site=site: site_problem(site, seed),
                options.seeds,
                options.evaluations,
            )


if __name__ == "__main__":
    main()
