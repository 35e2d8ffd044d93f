"""A sweep of very many cells: bytes on disk, memory, and time until its table.

    python -m benchmarks.many_cells
    python -m benchmarks.many_cells --cells 1000000
    python -m benchmarks.many_cells --rank 4000

Cells are made up: configurations on 50 seeds each under ten loads, with 15 metrics, most of full precision.
Each step is a process of its own. *Writing* appends results to a journal as a driver does, 50 at a time, and
writes `results.parquet`; *resuming* opens the journal; *table* is `gridtune report` up to the rankings.
Memory is the process's highest. `--rank` times `rank` of so many configurations on ten replicates.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.coverage import cells
from benchmarks.measure import arguments, print_machine, print_table
from benchmarks.memory import resident
from gridtune.core.cells import CellResult, canonical_json, id_of_identity
from gridtune.report.facts import ObjectiveFacts, SweepFacts
from gridtune.report.rankings.cells import read_cells
from gridtune.report.rankings.ranking import rank
from gridtune.sweep.journal.journal import Journal
from gridtune.sweep.journal.results import results_table, write_table

SEEDS, BLOCK = 50, 50
METRICS = tuple(
    f"{name}_{part}" for name in ("wait", "bounded_slowdown", "response") for part in ("mean", "p95")
)
#: Of full precision, rounded to whole numbers, and the same in each cell.
METRICS += ("utilisation", "queue_length_mean", "backlog_mean", "delay_index", "user_wait_mean")
WHOLE, CONSTANT = ("wait_max", "makespan", "killed_jobs"), "jobs"
CHECKSUM = "f3f2d581c20f6ddd55f3fc230bce1f83bced5b89fa8110ffd6edda3e2c4f87bf"
NOTES = {
    "jobs": 500,
    "processors": 256,
    "cleaning": {"sort_submits": 0, "drop_never_started": 0, "missing_walltime": 0},
    "classes": {"narrow": "processors <= 8", "wide": "processors >= 128"},
}


def made_up(count: int) -> Iterator[CellResult]:
    """Yield results of so many cells."""
    rng = np.random.default_rng(1)
    hardness = rng.lognormal(5, 1, SEEDS)
    for number in range(count // SEEDS):
        configuration = {"trace": "quickstart", "order": f"order{number // 10}", "backfill": "easy"}
        configuration |= {"load": number % 10 / 10, "kill": True}
        values = hardness[:, None] * rng.lognormal(0.001 * (number // 10 % 40), 0.3, (SEEDS, len(METRICS)))
        whole = np.round(1_000 * rng.lognormal(3, 1, (SEEDS, len(WHOLE))))
        identity = {
            "code": {},
            "parameters": configuration,
            "system": "batch",
            "traces": [CHECKSUM],
            "version": "2",
        }
        configuration_id = id_of_identity(canonical_json(identity))
        for seed in range(SEEDS):
            text = canonical_json({**identity, "seed": seed})
            metrics = dict(zip(METRICS, values[seed].tolist(), strict=True))
            metrics |= dict(zip(WHOLE, whole[seed].tolist(), strict=True)) | {CONSTANT: 500.0}
            yield CellResult(
                cell_id=id_of_identity(text),
                configuration_id=configuration_id,
                workload="quickstart",
                configuration=configuration,
                replicate=f"seed {seed}",
                seed=seed,
                traces={"quickstart": CHECKSUM},
                parameters=configuration,
                state="done",
                metrics=metrics,
                notes=NOTES,
                seconds=float(values[seed, 0] / 1e4),
                worker=f"node:{1000 + number % 16}",
                identity=text,
            )


def write(folder: Path, count: int) -> None:
    results, block = [], []
    with Journal(folder / "journal.jsonl") as journal:
        for result in made_up(count):
            block.append(result)
            if len(block) == BLOCK:
                journal.append(block)
                results += block
                block = []
        journal.append(block)
    write_table(results_table([*results, *block]), folder / "results.parquet")
    SweepFacts(
        sweep_id="0123456789abcdef",
        name="many",
        description="",
        system="made up",
        system_version="2",
        objectives=(ObjectiveFacts("bounded_slowdown_mean", "min", ""),),
        baseline={"order": "order0"},
        dimensions=("order", "load"),
        replicates=SEEDS,
        cells=count,
        workloads={"quickstart": CHECKSUM},
        space={"name": "many"},
    ).write(folder)


def resume(folder: Path, count: int) -> None:
    with Journal(folder / "journal.jsonl") as journal:
        assert len(journal.results) == count


def table(folder: Path, count: int) -> None:
    from rich.console import Console  # noqa: PLC0415

    from gridtune.study.report import report_study  # noqa: PLC0415
    from gridtune.study.study import Study  # noqa: PLC0415

    class ShownError(Exception):
        pass

    def show(study: Study) -> None:
        assert study.table.num_rows == count
        study.print_rankings(Console(file=io.StringIO(), width=120))
        raise ShownError

    with contextlib.suppress(ShownError):
        report_study(folder, show=show)


STEPS = {"writing": write, "resuming": resume, "table": table}


def step(name: str, folder: Path, count: int) -> None:
    """Do one step in this process, and print its seconds, CPU seconds and highest memory."""
    began, used = time.perf_counter(), time.process_time()
    STEPS[name](folder, count)
    spent = [time.perf_counter() - began, time.process_time() - used, resident("VmHWM") / 1e6]
    print(json.dumps(spent))


def measured(count: int) -> list[str]:
    """Return a row of a table: what so many cells take."""
    with tempfile.TemporaryDirectory() as name:
        row = [f"{count:,}"]
        for own in STEPS:
            command = [
                sys.executable,
                "-m",
                "benchmarks.many_cells",
                "--step",
                own,
                name,
                "--cells",
                str(count),
            ]
            spent = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            row.append("{:.1f} s ({:.1f} CPU), {:,.0f} MB".format(*spent))
        folder = Path(name)
        journal = [folder / "journal.jsonl", *(folder / "journal").glob("*")]
        for files in (journal, [folder / "results.parquet"]):
            row.append(f"{sum(file.stat().st_size for file in files) / 1e6:,.1f}")
        return row


def rank_seconds(configurations: int) -> float:
    """Return the CPU seconds that it takes to rank configurations on ten replicates."""
    rng = np.random.default_rng(2)
    values = rng.lognormal(5, 1, 10) * rng.lognormal(0, 0.3, (configurations, 10))
    found = cells(values, replicate="seed")
    began = time.process_time()
    rank(read_cells(found, {"number": 0}), objective="objective", direction="min")
    return time.process_time() - began


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--cells", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--rank", type=int, help="only time `rank` of so many configurations")
    parser.add_argument("--step", nargs=2, help="do one step in a folder, in this process")
    options = parser.parse_args()
    if options.step:
        step(options.step[0], Path(options.step[1]), options.cells[0])
        return
    print_machine()
    if options.rank:
        seconds = [f"{rank_seconds(options.rank):.2f}" for _ in range(options.rounds)]
        print_table(
            f"CPU seconds to rank {options.rank:,} configurations",
            ["first", *["again"] * (options.rounds - 1)],
            [seconds],
        )
        return
    header = ["cells", *STEPS, "journal MB", "results.parquet MB"]
    print_table("Sweeps of made-up cells", header, map(measured, options.cells))


if __name__ == "__main__":
    main()
