"""How fast the responsive site decides and learns, on one core.

    python -m benchmarks.responsive_speed [--jobs 9500]

One decision is timed among 1,000 waiting jobs with a reservoir of 100 neurons. Trainings are complete: a run
under earliest deadline first with its sweeps, then five runs with decisions of their own, over jobs that are
drawn like the papers' (4,480 of 9,500 interactive, run times log-normal, in bursts). Seconds are of the
thread's own CPU time, so that a busy machine does not count; everything is compiled before.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.measure import arguments, print_machine, print_table
from gridtune.systems.responsive.learners import networks
from gridtune.systems.responsive.learners.networks import draw_network
from gridtune.systems.responsive.learners.runs import (
    new_learner_state,
    shared_inputs,
)
from gridtune.systems.responsive.learners.settings import PAPER, LearnerSettings
from gridtune.systems.responsive.learners.training import train
from gridtune.systems.responsive.simulator.candidates import count_candidates, fill_features
from gridtune.systems.responsive.simulator.site import SiteJobs, SiteModel
from gridtune.systems.responsive.simulator.stepping import advance_until_decision, start_job

SHARES = np.array([0.53, 0.02, 0.17, 0.08, 0.01, 0.16, 0.03])
RIGID = SiteModel(cores=81)
ELASTIC = SiteModel(cores=81, elastic=True, largest=162)
WAITING = 1000


def jobs_like_the_papers(count: int) -> SiteJobs:
    rng = np.random.default_rng(0)
    interactive = (rng.random(count) < 4480 / 9500).astype(np.int64)
    short, long = rng.lognormal(4.9, 0.6, count), rng.lognormal(9.66, 1.27, count)
    run = np.where(interactive == 1, np.minimum(short, 899), np.clip(long, 900, 400_000)).astype(np.int64) + 1
    bursts = np.sort(rng.integers(0, int(run.sum() / 81 / 0.56), max(1, count // 20)))
    submit = np.sort(rng.choice(bursts, count) + rng.integers(0, 3600, count))
    return SiteJobs(submit, run, rng.choice(len(SHARES), count, p=SHARES), interactive, SHARES)


def timed(run: Callable[[], object]) -> float:
    began = time.thread_time()
    run()
    return time.thread_time() - began


def decision(settings: LearnerSettings) -> float:
    """Return milliseconds of a decision among 1,000: rows, values, and moving on."""
    count = np.arange(WAITING + 1)
    jobs = SiteJobs(0 * count, 1000 + count, count % 7, count % 2, SHARES)
    model = replace(RIGID, cores=2)
    arrays = draw_network(settings, shared_inputs(7, False), 0)
    site, learner = jobs.new_site(model), new_learner_state(arrays)
    advance_until_decision(site)
    start_job(site, 0, 2)
    advance_until_decision(site)
    assert count_candidates(site) == WAITING
    rows, q = np.empty((WAITING, arrays.columns.size)), np.empty(WAITING)

    def decide() -> None:
        fill_features(site, rows[: count_candidates(site)])
        networks.score_candidates(arrays, learner.state, rows, learner.scratch, q)
        networks.advance(arrays, learner.state, rows[int(np.argmax(q))], learner.scratch)

    decide()
    return 1000 * statistics.median(timed(decide) for _ in range(200))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--jobs", type=int, default=9500, help="jobs of a training (9500)")
    options = parser.parse_args()
    jobs, few = jobs_like_the_papers(options.jobs), jobs_like_the_papers(300)
    print_machine()
    kinds = {"SARSA": PAPER, "fitted Q": replace(PAPER, method="fitted_q")}
    alone = replace(PAPER, readout_connectivity=1.0)
    rows = [
        [name, f"{decision(settings):.3f}"]
        for name, settings in [*kinds.items(), ("all neurons seen", alone)]
    ]
    print_table("One decision among 1,000 waiting jobs, 100 neurons: ms", ["", "ms"], rows)
    table = []
    for name, settings in kinds.items():
        for site, model in (("rigid", RIGID), ("elastic", ELASTIC)):
            rng = np.random.default_rng(1)
            small = train(few, model, replace(settings, sweeps=min(settings.sweeps, 1)), rng=rng)
            small.play(few, model)
            seconds = timed(lambda s=settings, m=model: train(jobs, m, s, rng=np.random.default_rng(1)))
            table.append([f"{name}, {site}", settings.sweeps, f"{seconds:.1f}"])
            print(f"  {name}, {site}: {seconds:.1f} s", flush=True)
    title = f"A complete training over {options.jobs:,} jobs, one core: CPU seconds"
    print_table(title, ["", "sweeps", "s"], table)


if __name__ == "__main__":
    main()
