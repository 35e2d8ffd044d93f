"""A system for tests of sweeps: quick, and able to fail in every way a cell can. Loaded as a plug-in."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Literal

from gridtune.core.measures import Measure
from gridtune.core.system import Outcome, Streams, System, SystemParameters, WorkloadLoader, register_system

#: Cells of this x and above wait until the file `gate` is there.
GATED = 10

# A machine on which this plug-in cannot be loaded.
if os.environ.get("TOY_UNFIT"):
    raise OSError("the folder of kernels cannot be written")


class ToyParameters(SystemParameters):
    renamed_parameters: ClassVar[Mapping[str, str]] = {"sleep_time": "nap"}
    window_parameter: ClassVar[str] = "part"

    x: float = 0.0
    word: str = "a"
    depth: int | None = None
    rate: float | None = None
    kind: Literal["good", "raises", "dies", "dies-once", "hangs", "hungry", "exits"] = "good"
    nap: float = 0.0
    notebook: str | None = None
    gate: str | None = None
    part: str | None = None
    shake: int = 0
    trace: str | None = None


class ToySystem(System):
    """Measures (x - 3)² plus noise, and writes each run into a notebook."""

    name: ClassVar[str] = "toy"
    version: ClassVar[str] = "1"
    Parameters: ClassVar[type[SystemParameters]] = ToyParameters
    metrics: ClassVar[Mapping[str, Measure]] = {
        "loss": Measure("s", "min", "(x − 3)² + noise", source="gridtune"),
        "gain": Measure("1", "max", "−loss", source="gridtune"),
        "size": Measure("jobs", "none", "jobs of the log", source="gridtune"),
    }

    def traces(self, parameters: ToyParameters) -> Iterable[str]:
        return () if parameters.trace is None else (parameters.trace,)

    def run(
        self, parameters: ToyParameters, *, streams: Streams, load: WorkloadLoader, tables: bool
    ) -> Outcome:
        runs_before = 0
        if parameters.notebook is not None:
            runs_before = note_run(Path(parameters.notebook), parameters)
        time.sleep(parameters.nap)
        while parameters.gate is not None and parameters.x >= GATED and not Path(parameters.gate).exists():
            time.sleep(0.01)
        misbehave(parameters, runs_before)
        noise = float(streams("noise").standard_normal())
        size = float(len(load(parameters.trace))) if parameters.trace else float("nan")
        loss = (parameters.x - 3) ** 2 + 0.01 * noise
        return Outcome({"loss": loss, "gain": -loss, "size": size}, {"noise": noise})


def note_run(folder: Path, parameters: ToyParameters) -> int:
    """Append a line to the notebook of this configuration; return how many there were."""
    page = folder / f"{parameters.x:g}-{parameters.word}-{parameters.kind}-{parameters.part}".replace(
        "/", "of"
    )
    before = len(page.read_text().splitlines()) if page.exists() else 0
    with page.open("a") as file:
        file.write(f"{time.time()} {os.getpid()}\n")
    return before


def misbehave(parameters: ToyParameters, runs_before: int) -> None:
    if parameters.kind == "raises" and not Path(f"{parameters.notebook}.mended").exists():
        raise ArithmeticError("the toy is broken")
    if parameters.kind == "dies" or (parameters.kind == "dies-once" and runs_before == 0):
        os.kill(os.getpid(), signal.SIGKILL)
    if parameters.kind == "hangs":
        time.sleep(600)
    if parameters.kind == "exits":
        sys.exit("the toy has no licence")
    if parameters.kind == "hungry":
        bytearray(4 * 2**30)


register_system(ToySystem())
