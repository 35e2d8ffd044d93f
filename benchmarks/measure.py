"""Timing that holds on a busy machine, and the tables it ends in."""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence


def interleave(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return each contestant's seconds, measured in turns (A B C, A B C, ...).

    Whatever else the machine does slows all of them alike, so ratios hold where absolute times wander.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            gc.collect()
            seconds[name].append(run())
    return seconds


def median_ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """Return the median of the ratios of times measured in the same round."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def rate(jobs: int, seconds: Sequence[float]) -> str:
    """Return jobs per second at the median time, for a table."""
    per_second = jobs / statistics.median(seconds)
    return f"{per_second / 1e6:.2f} M" if per_second >= 1e5 else f"{per_second:,.0f}"


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("| --- |" + " ---: |" * (len(header) - 1))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


def print_machine() -> None:
    """Print what the figures were measured on."""
    import numba  # noqa: PLC0415 - some benchmarks measure what importing it costs
    import numpy as np  # noqa: PLC0415

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(
        f"Measured on {cores} shared cores ({platform.machine()}, {processor_name()}), "
        f"Python {platform.python_version()}, numba {numba.__version__}, numpy {np.__version__}; "
        f"load average {os.getloadavg()[0]:.1f}.",
        flush=True,
    )


def processor_name() -> str:
    """Return the processor's name where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - not a file of ours
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with what all benchmarks take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each contestant (5)")
    return parser
