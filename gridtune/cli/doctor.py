"""`gridtune doctor`: check the installation, one check for each thing that a sweep needs."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import chdir
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import click

from gridtune.cli.main import EXIT_FAILED_CELLS
from gridtune.cli.parameters import command
from gridtune.cli.tables import print_json
from gridtune.errors import GridtuneError

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}
#: What a check finds: its level, its message, and advice or "". "warn": it works, but something is missing or
#: tight; "fail": something will not work.
_Findings = Iterator[tuple[Literal["ok", "warn", "fail"], str, str]]


@command()
def doctor(*, full: bool = False, kernels: bool = False, as_json: bool = False) -> None:
    """Check the installation and this machine: each line is ok, warn or fail, with what to do.

    Looked at are Python, plug-ins, the cache of compiled kernels and Ray. `pip check` looks at packages,
    `gridtune traces list` at logs, `gridtune ui` at the tracking store; a sweep refuses a full disk. The exit
    code is 1 if anything fails.

    \b
    Examples:
      gridtune doctor
      gridtune doctor --full
      gridtune doctor --kernels
      gridtune doctor --json

    Parameters
    ----------
    full
        Also start Ray and run a task on it.
    kernels
        Compile the kernels of all bundled policies and systems for everyone who uses this installation, in
        one or two minutes, and check nothing else.
    """
    checks: dict[str, Callable[[], _Findings]] = {
        "Python": _python,
        "plug-ins": _plug_ins,
        "kernels": lambda: _kernels(kernels),
        "Ray": lambda: _ray(full),
    }
    if kernels:
        checks = {"kernels": checks["kernels"]}
    findings = []

    def caught(check: Callable[[], _Findings]) -> _Findings:
        try:
            yield from check()
        except GridtuneError as fault:
            yield "fail", fault.message, fault.hint or ""
        except Exception as fault:
            yield "fail", f"{type(fault).__name__}: {fault}", ""

    for name, check in checks.items():
        for level, message, hint in caught(check):
            findings.append({"check": name, "level": level, "message": message, "hint": hint})
            if as_json:
                continue
            click.echo(f"{click.style(f'{level:5}', fg=_STYLES[level])} {name:10} {message}")
            if hint:
                click.echo(f"{'':16} {hint}")
    levels = [finding["level"] for finding in findings]
    if as_json:
        print_json({"sound": "fail" not in levels, "findings": findings})
    else:
        words = {"warn": "to look at", "fail": "failed"}
        counts = [f"{levels.count(level)} {word}" for level, word in words.items() if level in levels]
        click.echo(", ".join(counts) or "all is well")
    if "fail" in levels:
        sys.exit(EXIT_FAILED_CELLS)


def _python() -> _Findings:
    names = ("gridtune", "ray", "mlflow", "numba", "numpy")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    yield "ok", f"Python {platform.python_version()}, {versions}", ""


def _plug_ins() -> _Findings:
    """Import everything that installed packages announce."""
    groups = sorted(group for group in metadata.entry_points().groups if group.startswith("gridtune."))
    points = [point for group in groups for point in metadata.entry_points(group=group)]
    if not points:
        yield "fail", "no system, order or format is announced", "install gridtune again: pip install -e ."
        return
    good = optional = 0
    for point in points:
        package = point.dist.name if point.dist else "its package"
        try:
            point.load()
            good += 1
        except ModuleNotFoundError as fault:
            if package == "gridtune":
                # Of an extra.
                optional += 1
                continue
            text = f"{point.group} {point.name} needs {fault.name}, which is not installed"
            yield "warn", text, "pip install 'gridtune[agents]' if it is torch or gymnasium"
        except Exception as fault:
            text = f"{point.group} {point.name} cannot be imported: {type(fault).__name__}: {fault}"
            yield "fail", text, f"mend or uninstall {package}; it is {point.value}"
    others = f"; {optional} are of the extra `agents`" if optional else ""
    yield "ok", f"{good} of {len(points)} imported, in {len(groups)} groups{others}", ""


def _kernels(make: bool) -> _Findings:
    """Replay three jobs, and see whether the kernels came from the cache on the disk.

    Parameters
    ----------
    make
        Run a small cell of each kind first, on all processors: this installation keeps their machine code.
    """
    from gridtune.core.machine_code import KernelCache

    if make:
        import yaml

        from gridtune.sweep.execution.runner import run_cell

        began, folder = time.time(), KernelCache.INSTALLATION
        folder.mkdir(exist_ok=True)
        content = yaml.safe_load(Path(__file__).with_name("kernels.yaml").read_text(encoding="utf-8"))
        os.environ["PYTHONWARNINGS"] = "ignore"  # of so few jobs, in the other processes
        left, running = content["cells"], dict[Future[Any], tuple[str, int]]()
        work = {name: sum(seconds for seconds, _ in cells) for name, cells in left.items()}
        installing = setattr, (KernelCache, "installs", True)
        with (
            tempfile.TemporaryDirectory() as place,
            chdir(place),
            ProcessPoolExecutor(processes := os.cpu_count() or 1, get_context("spawn"), *installing) as pool,
            click.progressbar(length=sum(work.values()), label="compiling kernels", file=sys.stderr) as bar,
        ):
            for name, text in content["files"].items():
                Path(place, name).write_text(text, encoding="utf-8")
            while any(work.values()) or running:
                # Cells of a system share kernels, which two processes would compile twice.
                idle = set(filter(work.get, work)) - {name for name, _ in running.values()}
                for name in sorted(idle, key=work.__getitem__)[len(running) - processes :]:
                    seconds, cell = left[name].pop(0)
                    running[pool.submit(run_cell, name, cell, seed=0)] = name, seconds
                    work[name] -= seconds
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    done.result()
                    bar.update(running.pop(done)[1])
        for file in folder.iterdir():
            if file.stat().st_mtime < began - 1:  # of an older version
                file.unlink()
        size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
        yield "ok", f"{size:.0f} MB of kernels made in {time.time() - began:.0f} s in {folder}", ""
        return
    import numpy as np

    from gridtune.batch.replay import simulate
    from gridtune.batch.simulator import ranked
    from gridtune.sweep.journal.disk import check_writable
    from gridtune.workload.workload import Workload

    ones = np.ones(3, dtype=np.int64)
    columns = ("submit_time", "run_time", "requested_time", "requested_processors")
    began = time.perf_counter()
    simulate(Workload(dict.fromkeys(columns, ones)), processors=2, order="fcfs", backfill="easy")
    seconds = time.perf_counter() - began
    used = [kernel.stats for kernel in vars(ranked).values() if hasattr(kernel, "stats")]
    used = [stats for stats in used if stats.cache_hits or stats.cache_misses]
    folder = Path(next((stats.cache_path for stats in used), tempfile.gettempdir()))
    try:
        check_writable(folder)
    except GridtuneError as fault:
        hint = "set NUMBA_CACHE_DIR to a folder that can be written, or every process compiles all kernels"
        yield "warn", f"the cache of compiled kernels is not kept: {fault.message} ({folder})", hint
        return
    how = "compiled now and kept" if any(stats.cache_misses for stats in used) else "from the cache"
    yield "ok", f"batch kernels {how}, first replay {seconds:.1f} s; cache in {folder}", ""


def _ray(full: bool) -> _Findings:
    version = f"Ray {metadata.version('ray')}"
    if address := os.environ.get("RAY_ADDRESS"):
        yield "ok", f"sweeps join the cluster at {address} (RAY_ADDRESS)", ""
    if not full:
        yield "ok", f"{version}; not started", "gridtune doctor --full tries it"
        return
    from gridtune.sweep.execution.cluster import ray_session

    began = time.perf_counter()
    with ray_session(None, workers=1, cpus=1) as workers:
        import ray

        @ray.remote
        def own_number() -> int:
            return os.getpid()

        number = ray.get(own_number.remote())
    text = f"{version} with {workers} worker started, ran a task in process {number} and ended"
    yield "ok", f"{text}, in {time.perf_counter() - began:.0f} s", ""
