"""Build and run the comparators in C++: `easy.cpp` and `conservative.cpp`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np

FLAGS = ("-O3", "-march=native", "-std=c++17", "-Wall", "-Wextra")


def compiler() -> str | None:
    """Return the C++ compiler's path, or None where there is none."""
    return shutil.which("g++") or shutil.which("c++")


def build(folder: Path, name: str = "easy") -> Path:
    """Compile a comparator into a folder."""
    path = compiler()
    if path is None:
        raise FileNotFoundError("no C++ compiler (g++) on the PATH")
    program = folder / name
    source = Path(__file__).with_name(f"{name}.cpp")
    subprocess.run([path, *FLAGS, str(source), "-o", str(program)], check=True)
    return program


def write_columns(columns: list[np.ndarray], processors: int, path: Path) -> None:
    """Write submit, run, requested and width in the comparator's binary layout."""
    head = np.array([len(columns[0]), processors], dtype="<i8")
    path.write_bytes(b"".join(part.astype("<i8").tobytes() for part in (head, *columns)))


def run(
    program: Path, columns: Path, rule: str = "easy", order: str = "fcfs", *, cpu: bool = False
) -> tuple[float, int, np.ndarray]:
    """Return the simulation's seconds (without reading and writing), jobs started and start times.

    The seconds are wall-clock time, or CPU time on demand.
    """
    starts = columns.with_suffix(".starts")
    command = [str(program), str(columns), str(starts), rule, order]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(printed[2 if cpu else 0]), int(printed[1]), np.fromfile(starts, dtype="<i8")
