"""A broker that may hold jobs, learned by evolution, beside the shared queue, which also binds late.

    python -m benchmarks.dispatch_holding [--trace kth-sp2 --load 1 --jobs 200] [--seeds 3] [--binding]

The policy scores each machine, and holding the job, by a small network of what the environment shows of them
and of how machines compare with the best one. It begins as the shared queue (hold a job unless a processor is
free) or, with `--start earliest`, as the rule that binds a job where it ends first. Its weights are searched
by a separable CMA-ES (Ros and Hansen, PPSN 2008): all candidates of a generation play the same fresh
episodes. Of the generations' means the one that is best on held-out episodes is kept, and played on others.
With a log, episodes are of its first 40 %, of the next 10 %, and of the second half. `--binding` takes
holding away. Beside it stands a rule with one number, chosen on held-out episodes, too: a job waits if a
machine that is busy is predicted to end it so much sooner than the free ones.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.measure import print_machine, print_table
from gridtune.statistics import paired_difference
from gridtune.systems.dispatch.environment import FEATURES, BrokerBatch
from gridtune.systems.dispatch.metrics import tardiness
from gridtune.systems.dispatch.parameters import TABLE_1, DispatchParameters
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import ORDERS, dispatch
from gridtune.types import FloatArray
from gridtune.workload import read_workload
from gridtune.workload.catalogue import resolve_trace
from gridtune.workload.workload import Workload

#: A row as it is shown, less the best machine's, and whether it is a machine's or that of holding; units.
INPUTS, UNITS = 2 * FEATURES + 2, 8
#: Weights of the inputs, of the units, and of the score.
WEIGHTS = INPUTS + INPUTS * UNITS + UNITS
CANDIDATES, EPISODES, JUDGED = 40, 16, 50
PATIENCE = (0, 1, 2, 3, 5, 8, 12, 20, 40, 100, 1000)
#: Which of the numbers are the jobs at a machine, its speed factor and the time to the predicted end.
_JOBS, _SPEED, _ENDING, _MACHINE, _HOLDING = 2, 5, 6, INPUTS - 2, INPUTS - 1


@dataclass(frozen=True)
class Task:
    """Jobs to draw or to take from parts of a log, and machines.

    Attributes
    ----------
    parameters
        The system's, for an episode.
    parts
        The log's part for learning, choosing and judging; None for drawn jobs.
    """

    parameters: DispatchParameters
    parts: tuple[Workload, Workload, Workload] | None

    def episodes(self, count: int, part: int, seed: int) -> list[DispatchJobs]:
        """Return episodes of a part: consecutive jobs from random ones on, or drawn ones."""
        jobs = self.parameters.batch_jobs
        found = []
        for rng in np.random.default_rng([part, seed]).spawn(count):
            log = None
            if self.parts is not None:
                first = int(rng.integers(len(self.parts[part]) - jobs + 1))
                log = self.parts[part].take(slice(first, first + jobs))
            found.append(self.parameters.make_jobs(rng.spawn(4), log))
        return found

    def machines(self, jobs: DispatchJobs) -> Machines:
        """Return the machines, which are the same in all episodes."""
        return self.parameters.make_machines(jobs, np.random.default_rng(0))


def play(task: Task, episodes: list[DispatchJobs], weights: FloatArray, hold: bool) -> tuple[FloatArray, int]:
    """Return the mean tardiness of each candidate in each episode, and the number of decisions.

    Parameters
    ----------
    task, episodes
        The machines, and the jobs.
    weights
        Shape (candidates, `WEIGHTS`).
    hold
        Whether jobs can be held.
    """
    machines = task.machines(episodes[0])
    count, rows = len(weights) * len(episodes), len(machines) + hold
    brokers = BrokerBatch(episodes[0], machines, order=ORDERS["shortest"], count=count, hold=hold)
    for index in range(count):
        brokers.begin(index, episodes[index % len(episodes)])
    brokers.step(np.zeros(count, np.int64), np.ones(count, np.bool_))
    linear, first, second = np.split(weights, [INPUTS, INPUTS + INPUTS * UNITS], axis=1)
    first = first.reshape(-1, INPUTS, UNITS).astype(np.float32)
    linear, second = linear[:, :, None].astype(np.float32), second[:, :, None].astype(np.float32)
    inputs = np.zeros((count, rows, INPUTS), np.float32)
    inputs[:, : len(machines), _MACHINE] = inputs[:, len(machines) :, _HOLDING] = 1
    decisions = 0
    while not brokers.observed.over.all():
        decisions += int((~brokers.observed.over).sum())
        shown = brokers.observed.features.reshape(count, rows, FEATURES)
        inputs[:, :, :FEATURES] = shown
        of_machines = shown[:, : len(machines)]
        inputs[:, : len(machines), FEATURES:_MACHINE] = of_machines - of_machines.min(axis=1, keepdims=True)
        seen = inputs.reshape(len(weights), -1, INPUTS)
        scores = seen @ linear + np.tanh(seen @ first) @ second
        brokers.step(scores.reshape(count, rows).argmax(axis=1))
    late = [tardiness(episodes[i % len(episodes)], brokers.outcome(i)).mean() for i in range(count)]
    return np.reshape(late, (len(weights), len(episodes))), decisions


def first_weights(start: str, rng: np.random.Generator, patience: float = 0.0) -> FloatArray:
    """Return the weights of a rule, with all units but its own drawn at random and without effect.

    With `patience` a free machine is not taken if the ratio of its predicted end to the soonest is about
    exp(5 / patience).
    """
    linear, units, scores = np.zeros(INPUTS), 0.3 * rng.standard_normal((INPUTS, UNITS)), np.zeros(UNITS)
    if start == "earliest":
        linear[FEATURES + _ENDING], linear[_HOLDING] = -1.0, -1.0
    else:
        # One unit tells whether both processors of a machine are taken: log(1 + 2) is 1.1.
        units[:, 0] = 0.0
        units[[_JOBS, _MACHINE, _HOLDING], 0] = 60.0, -54.0, -900.0
        scores[0], linear[_HOLDING], linear[FEATURES + _SPEED] = -5.0, -5.0, -1.0
        linear[FEATURES + _ENDING] = -patience
    return np.concatenate([linear, units.ravel(), scores])


def search(
    task: Task, seed: int, generations: int, hold: bool, start: str
) -> tuple[FloatArray, list[tuple[int, float]]]:
    """Return the weights that are best on held-out episodes, and the curve: decisions, mean tardiness."""
    rng = np.random.default_rng(seed)
    mean, sigma, spread = first_weights(start, rng), 0.1, np.ones(WEIGHTS)
    parents = CANDIDATES // 2
    shares = np.log(parents + 0.5) - np.log(np.arange(1, parents + 1))
    shares /= shares.sum()
    effective = 1 / (shares**2).sum()
    # The usual constants, with the larger rate of learning of the separable form.
    of_step = (effective + 2) / (WEIGHTS + effective + 5)
    of_path = 4 / (WEIGHTS + 4)
    of_spread = min(1.0, (WEIGHTS + 2) / 3 * 2 / ((WEIGHTS + 1.3) ** 2 + effective))
    of_ranks = min(
        1 - of_spread, (WEIGHTS + 2) / 3 * 2 * (effective - 2 + 1 / effective) / ((WEIGHTS + 2) ** 2)
    )
    damping, length = 1 + of_step, np.sqrt(WEIGHTS) * (1 - 1 / (4 * WEIGHTS))
    path, step = np.zeros(WEIGHTS), np.zeros(WEIGHTS)
    chosen = task.episodes(JUDGED, 1, seed)
    best, least, decisions = mean, float(play(task, chosen, mean[None], hold)[0].mean()), 0
    curve = [(0, least)]
    for generation in range(generations):
        drawn = rng.standard_normal((CANDIDATES // 2, WEIGHTS))
        drawn = np.concatenate([drawn, -drawn])
        late, made = play(
            task,
            task.episodes(EPISODES, 0, 1000 * seed + generation),
            mean + sigma * np.sqrt(spread) * drawn,
            hold,
        )
        decisions += made
        winners = drawn[np.argsort(late.mean(axis=1))[:parents]]
        moved = shares @ winners
        mean = mean + sigma * np.sqrt(spread) * moved
        step = (1 - of_step) * step + np.sqrt(of_step * (2 - of_step) * effective) * moved
        path = (1 - of_path) * path + np.sqrt(of_path * (2 - of_path) * effective) * np.sqrt(spread) * moved
        ranks = spread * (shares @ winners**2)
        spread = (1 - of_spread - of_ranks) * spread + of_spread * path**2 + of_ranks * ranks
        sigma *= np.exp(of_step / damping * (np.linalg.norm(step) / length - 1))
        if generation % 10 == 9 or generation == generations - 1:
            held_out = float(play(task, chosen, mean[None], hold)[0].mean())
            curve.append((decisions, held_out))
            if held_out < least:
                best, least = mean, held_out
    return best, curve


def rules(task: Task, episodes: list[DispatchJobs]) -> dict[str, FloatArray]:
    """Return the mean tardiness of each episode under each rule, the shared queue first."""
    machines = task.machines(episodes[0])
    settings: dict[str, dict[str, str]] = {
        "shared queue": {"rule": "shared_queue", "speeds": "learned"},
        "shared queue, speeds unknown": {"rule": "shared_queue", "speeds": "nominal"},
        "shared queue, speeds known": {"rule": "shared_queue", "speeds": "known"},
        "shared queue, most urgent first (ATC)": {
            "rule": "shared_queue",
            "order": "atc",
            "speeds": "learned",
        },
        "drain": {"rule": "spt", "speeds": "learned"},
        "SPT, speeds known": {"rule": "spt"},
    }
    late = {}
    for name, setting in settings.items():
        late[name] = np.array(
            [
                tardiness(jobs, dispatch(jobs, machines, rng=np.random.default_rng(0), **setting)).mean()  # type: ignore[arg-type]
                for jobs in episodes
            ]
        )
    return late


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trace", help="a log in place of drawn jobs")
    parser.add_argument("--load", type=float, default=1.6, help="offered load (1.6)")
    parser.add_argument("--jobs", type=int, default=500, help="jobs of an episode (500)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--generations", type=int, default=60)
    parser.add_argument("--start", choices=["shared", "earliest"], default="shared")
    parser.add_argument("--binding", action="store_true", help="jobs cannot be held")
    options = parser.parse_args()
    given = {"batches": 1, "batch_jobs": options.jobs, "offered_load": options.load, "cpus": 2}
    broker = {"mode": "direct", "learner": "drain", "order": "shortest"}
    parts = None
    if options.trace is None:
        given["factors"] = TABLE_1[:8]
    else:
        log = read_workload(resolve_trace(options.trace), clean=("sort_submits",))
        cuts = [round(share * len(log)) for share in (0, 0.4, 0.5, 1)]
        parts = tuple(log.take(slice(*cut)) for cut in itertools.pairwise(cuts))
    task = Task(DispatchParameters.model_validate(given | broker), parts)  # type: ignore[arg-type]
    print_machine()
    judged = task.episodes(JUDGED, 2, 0)
    late, rows = rules(task, judged), []
    if not options.binding:
        patient = np.stack([first_weights("shared", np.random.default_rng(0), c) for c in PATIENCE])
        best = int(play(task, task.episodes(JUDGED, 1, 0), patient, hold=True)[0].mean(axis=1).argmin())
        name = f"shared queue that waits for the soonest end, patience {PATIENCE[best]}"
        late[name] = play(task, judged, patient[best][None], hold=True)[0][0]
    for seed in range(options.seeds):
        begun = time.process_time()
        weights, curve = search(task, seed, options.generations, not options.binding, options.start)
        late[f"learned, seed {seed}"] = play(task, judged, weights[None], not options.binding)[0][0]
        points = ", ".join(f"{decisions / 1e6:.1f} M {value:,.0f}" for decisions, value in curve)
        print(f"seed {seed}, {time.process_time() - begun:.0f} CPU s; held out: {points}", flush=True)
    base = late["shared queue"]
    for name, values in late.items():
        found = paired_difference(values, base, rng=np.random.default_rng(0))
        change = (
            ""
            if values is base
            else f"{found.relative:+.1%} [{found.relative_low:+.1%}, {found.relative_high:+.1%}]"
        )
        rows.append([name, f"{values.mean():,.0f}", change])
    print_table(f"Mean tardiness, s, in {JUDGED} episodes", ["", "mean", "to the shared queue, 95 %"], rows)


if __name__ == "__main__":
    main()
