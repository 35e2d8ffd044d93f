"""The speed of the batch simulator, compared with other implementations of EASY on the same logs in one run.

    python -m benchmarks.batch_speed                 # everything, some minutes
    python -m benchmarks.batch_speed easy growth     # these sections

CPU time of one thread, the simulation alone: for gridtune the whole call of `simulate`, for the others the
time that their simulation reports, without start-up and reading. The benchmark fails unless each of them has
simulated every job, and the start times of gridtune, C++ and plain numba are equal.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gridtune as gt
from benchmarks import logs
from benchmarks.comparators import accasim_runner, cpp, plain_numba
from benchmarks.measure import arguments, interleave, median_ratio, print_machine, print_table, rate
from benchmarks.memory import forget_highest, resident
from gridtune.batch.policies import queue_order_names
from gridtune.core.schedules.schedule import Schedule
from gridtune.workload.workload import Workload

MILLION = 1_000_000
#: The loads at which thousands of jobs wait for conservative backfilling.
CROWDS = (1.5, 2.0)
#: Orders that never change and that the C++ loop has, beside fcfs.
STATIC = ("sjf", "saf", "widest")


def timed_simulation(workload: Workload, processors: int, **settings: str) -> Callable[[], float]:
    """Return a function that simulates once and returns its seconds; it is compiled already."""

    def simulate(jobs: Workload) -> Schedule:
        rng = np.random.default_rng(1) if settings.get("order") == "random" else None
        return gt.simulate(jobs, processors=processors, rng=rng, **settings)

    def run() -> float:
        before = time.process_time()
        schedule = simulate(workload)
        seconds = time.process_time() - before
        if len(schedule) != len(workload) or (schedule.start_time < workload.submit_time).any():
            raise AssertionError("not every job was simulated")
        return seconds

    simulate(workload.first(100))
    return run


def contest(workload: Workload, processors: int, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Measure gridtune, C++ and plain numba on one log, and check that their start times are equal."""
    columns = logs.columns(workload)
    expected = gt.simulate(workload, processors=processors, order="fcfs", backfill="easy").start_time
    file = folder / "columns.bin"
    cpp.write_columns(columns, processors, file)
    program = cpp.build(folder)

    def check(name: str, started: int, starts: np.ndarray) -> None:
        if started != len(workload) or not np.array_equal(starts, expected):
            differing = int((starts != expected).sum())
            raise AssertionError(f"{name}: {started} of {len(workload)} jobs, {differing} other start times")

    def run_cpp() -> float:
        seconds, started, starts = cpp.run(program, file, cpu=True)
        check("C++", started, starts)
        return seconds

    def run_numba() -> float:
        before = time.process_time()
        starts, started = plain_numba.simulate(*columns, processors, True)
        seconds = time.process_time() - before
        check("plain numba", started, starts)
        return seconds

    run_numba()
    contestants = {
        "gridtune": timed_simulation(workload, processors, order="fcfs", backfill="easy"),
        "C++": run_cpp,
        "plain numba": run_numba,
    }
    return interleave(contestants, rounds)


def real_logs() -> list[tuple[str, Workload, int]]:
    """Return the real logs that are there: name, jobs and processors."""
    return [(name, *log) for name in (*logs.REAL, *logs.MORE) if (log := logs.real(name))]


def easy(rounds: int) -> None:
    """EASY on generated logs with short and with longer queues, and on real logs."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        generated = [(f"Lublin, load {load}", logs.lublin(MILLION, load), 256) for load in (0.5, 0.75)]
        for name, workload, processors in [*generated, *real_logs()]:
            seconds = contest(workload, processors, Path(folder), rounds)
            ours, c, loop = seconds["gridtune"], seconds["C++"], seconds["plain numba"]
            jobs = len(workload)
            ratios = (f"{median_ratio(ours, c):.2f}", f"{median_ratio(ours, loop):.2f}")
            rows.append((name, f"{jobs:,}", processors, *(rate(jobs, s) for s in (ours, c, loop)), *ratios))
    header = ("log", "jobs", "processors", "gridtune jobs/s", "C++ jobs/s", "plain numba jobs/s")
    print_table("EASY, first come first served", (*header, "time / C++", "time / numba"), rows)


def static_orders(rounds: int) -> None:
    """EASY under other orders that never change, beside C++."""
    rows = []
    generated = ("Lublin, load 0.5", logs.lublin(100_000, 0.5), 256)
    with tempfile.TemporaryDirectory() as folder:
        program, file = cpp.build(Path(folder)), Path(folder) / "columns.bin"
        for name, workload, processors in [generated, *real_logs()]:
            cpp.write_columns(logs.columns(workload), processors, file)
            ratios = [static_ratio(workload, processors, order, program, file, rounds) for order in STATIC]
            rows.append((name, f"{len(workload):,}", *ratios))
    print_table("EASY under other static orders: gridtune's time / C++'s", ("log", "jobs", *STATIC), rows)


def static_ratio(
    workload: Workload, processors: int, order: str, program: Path, file: Path, rounds: int
) -> str:
    """Return gridtune's time over that of C++ under an order; the start times must be equal."""
    expected = gt.simulate(workload, processors=processors, order=order).start_time

    def run_cpp() -> float:
        seconds, _, starts = cpp.run(program, file, "easy", order, cpu=True)
        if not np.array_equal(starts, expected):
            raise AssertionError(f"{order}: C++ has other start times")
        return seconds

    ours = timed_simulation(workload, processors, order=order, backfill="easy")
    seconds = interleave({"gridtune": ours, "C++": run_cpp}, rounds)
    return f"{median_ratio(seconds['gridtune'], seconds['C++']):.2f}"


def conservative(rounds: int) -> None:
    """Conservative backfilling with compression, beside a C++ loop over a vector."""
    rows = []
    logged = [(name, *log, rounds) for name in logs.REAL if (log := logs.real(name))]
    logged += [(f"generated, load {load}", logs.crowded(100_000, load), 8192, 1) for load in CROWDS]
    with tempfile.TemporaryDirectory() as folder:
        program, file = cpp.build(Path(folder), "conservative"), Path(folder) / "columns.bin"
        for name, workload, processors, times in logged:
            cpp.write_columns(logs.columns(workload), processors, file)
            schedule = gt.simulate(workload, processors=processors, backfill="conservative")

            def run_cpp(name: str = name, expected: np.ndarray = schedule.start_time) -> float:
                seconds, _, starts = cpp.run(program, file, cpu=True)
                if not np.array_equal(starts, expected):
                    raise AssertionError(f"{name}: C++ has another schedule")
                return seconds

            ours = timed_simulation(workload, processors, order="fcfs", backfill="conservative")
            seconds = interleave({"gridtune": ours, "C++": run_cpp}, times)
            jobs, longest = len(workload), int(schedule.queue_length.values.max())
            rates = (rate(jobs, seconds["gridtune"]), rate(jobs, seconds["C++"]))
            ratio = f"{median_ratio(seconds['gridtune'], seconds['C++']):.2f}"
            rows.append((name, f"{jobs:,}", f"{longest:,}", *rates, ratio))
    header = ("log", "jobs", "longest queue", "gridtune jobs/s", "C++ jobs/s", "time / C++")
    print_table("Conservative backfilling with compression, fcfs", header, rows)


def metrics(rounds: int) -> None:
    """Every metric of a schedule, and what memory it takes beside it."""
    rows = []
    for jobs in (100_000, MILLION, 10 * MILLION):
        schedule = gt.simulate(logs.lublin(jobs, 0.9), processors=256)

        def run(schedule: Schedule = schedule) -> float:
            before = time.process_time()
            gt.evaluate(schedule)
            return time.process_time() - before

        run()
        before = resident("VmRSS")
        forget_highest()
        seconds = min(interleave({"": run}, rounds)[""])
        top = (resident("VmHWM") - before) / 1e9
        rows.append((f"{jobs:,}", f"{seconds:.3f}", f"{seconds / jobs * 1e9:.0f}", f"{top:.2f}"))
    header = ("jobs", "CPU seconds", "ns per job", "GB beside the schedule")
    print_table("All metrics of a schedule (`evaluate`)", header, rows)


def others(rounds: int) -> None:
    """AccaSim on the first jobs of a log."""
    python, jobs, processors = accasim_runner.install(), 5_000, 256
    workload = logs.lublin(jobs, 0.75)

    def run(nodes: int) -> Callable[[], float]:
        def once() -> float:
            seconds, dispatched = accasim_runner.run(python, workload, processors, nodes)
            if dispatched != jobs:
                raise AssertionError(f"AccaSim dispatched {dispatched} of {jobs} jobs")
            return seconds

        return once

    names = {"AccaSim, one node": 1, "AccaSim, a node per processor": processors}
    contestants = {name: run(nodes) for name, nodes in names.items()}
    contestants["gridtune"] = timed_simulation(workload, processors, order="fcfs", backfill="easy")
    seconds = interleave(contestants, min(rounds, 3))
    rows = [
        (name, rate(jobs, spent), f"{median_ratio(spent, seconds['gridtune']):,.0f}")
        for name, spent in seconds.items()
    ]
    print_table(f"Beside AccaSim ({jobs:,} jobs)", ("simulator", "jobs/s", "times gridtune's time"), rows)
    print("\nAccaSim's EASY does not protect the blocked job's reservation, so its schedule is another one.")


def growth(rounds: int) -> None:
    """Measure the cost of a long queue."""
    rows = []
    for jobs in (100_000, MILLION):
        low, high = logs.lublin(jobs, 0.8), logs.lublin(jobs, 1.2)
        settings = {"order": "fcfs", "backfill": "easy"}
        seconds = interleave(
            {"0.8": timed_simulation(low, 256, **settings), "1.2": timed_simulation(high, 256, **settings)},
            rounds,
        )
        longest = int(gt.simulate(high, processors=256, **settings).queue_length.values.max())
        nanoseconds = [statistics.median(seconds[load]) / jobs * 1e9 for load in ("0.8", "1.2")]
        ratio = median_ratio(seconds["1.2"], seconds["0.8"])
        rows.append((f"{jobs:,}", *(f"{value:.0f}" for value in nanoseconds), f"{ratio:.2f}", f"{longest:,}"))
    header = ("jobs", "ns per job at load 0.8", "at load 1.2", "growth", "longest queue at 1.2")
    print_table("A queue that grows (Lublin, EASY)", header, rows)


def policies(rounds: int) -> None:
    """Every queue order, and conservative backfilling."""
    log = logs.real("CTC (reconstructed)")
    name = "CTC (reconstructed)" if log else "Lublin, load 0.9"
    workload, processors = log or (logs.lublin(77_000, 0.9), 256)
    jobs = len(workload)
    backfills = ("none", "easy", "conservative", "conservative-no-compression")
    rows = []
    for order in queue_order_names():
        measured = {}
        for backfill in backfills if order == "fcfs" else backfills[:2]:
            run = timed_simulation(workload, processors, order=order, backfill=backfill)
            measured[backfill] = rate(jobs, interleave({"": run}, min(rounds, 3))[""])
        rows.append((order, *(measured.get(backfill, "") for backfill in backfills)))
    print_table(f"Jobs/s on {name}, {processors} processors", ("order", *backfills), rows)


SECTIONS = {
    "easy": easy,
    "static": static_orders,
    "conservative": conservative,
    "metrics": metrics,
    "others": others,
    "growth": growth,
    "policies": policies,
}


def main() -> None:
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all of them by default")
    options = parser.parse_args()
    print_machine()
    for section in options.sections or SECTIONS:
        SECTIONS[section](options.rounds)


if __name__ == "__main__":
    main()
