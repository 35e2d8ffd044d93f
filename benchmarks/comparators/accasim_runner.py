"""AccaSim in an environment of its own, which its requirements cannot share with gridtune's."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from gridtune.workload.workload import Workload

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".gridtune" / "benchmarks" / "accasim"
REQUIREMENTS = ROOT / "benchmarks" / "requirements.txt"
SCRIPT = Path(__file__).with_name("accasim_easy.py")


def install() -> Path:
    """Return the interpreter of an environment that has AccaSim, making it the first time."""
    python = HOME / "bin" / "python"
    if not (HOME / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "-r", str(REQUIREMENTS)]
        subprocess.run(pip, check=True)
        (HOME / "complete").touch()
    return python


def write_swf(workload: Workload, path: Path) -> None:
    """Write what AccaSim reads: jobs that end at their walltime, and no memory requests."""
    rows = zip(
        range(1, len(workload) + 1),
        workload.submit_time.tolist(),
        workload.run_time.tolist(),
        workload.processors.tolist(),
        workload.requested_time.tolist(),
        strict=True,
    )
    lines = (
        f"{job} {submit} -1 {min(run, walltime)} {width} -1 -1 {width} {walltime} -1 1 1 1 1 1 1 -1 -1\n"
        for job, submit, run, width, walltime in rows
    )
    path.write_text("".join(lines), encoding="ascii")


def run(python: Path, workload: Workload, processors: int, nodes: int) -> tuple[float, int]:
    """Return the seconds of AccaSim's simulation and how many jobs it dispatched."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.swf")
        write_swf(workload, log)
        command = [str(python), str(SCRIPT), str(log), str(processors), str(nodes), folder]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(printed[-2]), int(printed[-1])
