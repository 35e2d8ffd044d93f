"""The time of a decision: rules, insertion with tabu search, learners, and the environment.

    python -m benchmarks.dispatch_speed

Set-up of `search_spaces/dispatch_direct.yaml`: eight machines with two processors each, 10,000 jobs to learn
from, then batches of 1,000. Times are CPU seconds of the thread, so that other load on the machine does not
count. A whole run is timed, with its repairs, and divided by its jobs; for learners, without the learning.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.measure import arguments, interleave, print_machine, print_table
from gridtune.systems.dispatch.dispatchers.broker import Broker
from gridtune.systems.dispatch.dispatchers.learners import LEARNERS
from gridtune.systems.dispatch.environment import DispatchVectorEnv
from gridtune.systems.dispatch.parameters import TABLE_1, DispatchParameters
from gridtune.systems.dispatch.simulator.model import DispatchJobs, Machines
from gridtune.systems.dispatch.simulator.replay import dispatch

FACTORS = np.array(TABLE_1[:8])
MACHINES = Machines(FACTORS, np.full(8, 2))
PREDICTIONS = 2000


def drawn(batches: int, learning: int) -> DispatchJobs:
    p = DispatchParameters(
        batches=batches,
        batch_jobs=1000,
        learning_jobs=learning,
        offered_load=1.6,
        learning_offered_load=1.6,
        factors=TABLE_1[:8],
        cpus=2,
    )
    return p.make_jobs(np.random.default_rng(0).spawn(4), None)


def rule(jobs: DispatchJobs, **options: object) -> Callable[[], float]:
    def run() -> float:
        began = time.thread_time()
        dispatch(jobs, MACHINES, rng=np.random.default_rng(1), **options)
        return time.thread_time() - began

    return run


class _Stopwatch:
    """A learner, with the time of its learning; it keeps the rows it was asked about."""

    def __init__(self, name: str) -> None:
        self.learner = LEARNERS[name](8)
        self.attributes, self.memory, self.selection = self.learner.attributes, self.learner.memory, None
        self.learning = 0.0
        self.rows: list[np.ndarray] = []

    def refresh(self, *examples: object, **options: object) -> None:
        began = time.thread_time()
        self.learner.refresh(*examples, **options)
        self.learning += time.thread_time() - began

    def chances(self, rows: np.ndarray) -> np.ndarray:
        if len(self.rows) < PREDICTIONS:
            self.rows.append(rows.copy())
        return self.learner.chances(rows)


def learned(name: str, jobs: DispatchJobs) -> list[str]:
    """Return a row: the time of learning once, of a job in a run, and of one prediction for all machines."""
    watch = _Stopwatch(name)
    broker = Broker(
        watch,
        direct=True,
        rule="erd",
        order="due_date",
        speeds="learned",
        repair_every=10,
        refresh=0,
    )
    began = time.thread_time()
    broker.run(jobs, MACHINES, rng=np.random.default_rng(1), learning_rng=np.random.default_rng(2))
    whole = time.thread_time() - began - watch.learning
    began = time.thread_time()
    for rows in watch.rows:
        watch.learner.chances(rows)
    prediction = (time.thread_time() - began) / len(watch.rows)
    jobs_measured = int((jobs.batch >= 0).sum())
    return [name, f"{watch.learning:.2f}", f"{whole / jobs_measured * 1e3:.3f}", f"{prediction * 1e3:.3f}"]


def stepped(count: int) -> list[str]:
    """Return a row: decisions a second of so many environments, round robin, over whole episodes."""
    env = DispatchVectorEnv(count, factors=tuple(FACTORS), cpus=2, batch_jobs=200)
    env.reset(seed=0)
    steps = max(400, 100_000 // count)
    began = time.thread_time()
    for step in range(steps):
        env.step(np.full(count, step % len(FACTORS)))
    return [str(count), f"{steps * count / (time.thread_time() - began):,.0f}"]


def main() -> None:
    rounds = arguments(__doc__ or "").parse_args().rounds
    print_machine()
    jobs = drawn(10, 0)
    contestants = {
        "ERD + tabu search": rule(jobs, rule="erd", repair_every=10),
        "EDD + tabu search": rule(jobs, rule="edd", repair_every=10),
        "ERD alone": rule(jobs, rule="erd"),
        "drain model, shortest first": rule(jobs, rule="spt", speeds="learned"),
        "drain model, by arrival": rule(jobs, rule="erd", speeds="learned"),
        "shared queue, shortest first": rule(jobs, rule="shared_queue", speeds="nominal"),
        "shared queue, by apparent cost": rule(jobs, rule="shared_queue", order="atc", speeds="nominal"),
        "first available": rule(jobs, rule="first_available"),
    }
    for run in contestants.values():
        run()
    seconds = interleave(contestants, rounds)
    benchmark = np.array(seconds["ERD + tabu search"])
    rows = [
        [
            name,
            f"{np.median(times) / len(jobs) * 1e6:.2f}",
            f"{np.median(np.array(times) / benchmark):.2f}",
        ]
        for name, times in seconds.items()
    ]
    print_table("Compiled rules, whole runs of 10,000 jobs", ["", "µs per job", "× ERD + tabu search"], rows)
    jobs = drawn(2, 10_000)
    learned("naive_bayes", jobs)
    header = ["", "learning, s", "ms per job, repairs included", "ms per prediction"]
    print_table(
        "Learners, from 10,000 examples, eight machines a prediction",
        header,
        [learned(name, jobs) for name in LEARNERS],
    )
    stepped(1)
    rows = [stepped(count) for count in (1, 16, 256)]
    print_table("gridtune/Dispatch-v0, episodes of 200 jobs", ["environments", "decisions per second"], rows)


if __name__ == "__main__":
    main()
