"""Trainings as cells of a sweep: a cell goes on from the checkpoint of an earlier one with fewer iterations.

Checkpoints are kept in `GRIDTUNE_TRAININGS`, by default in the user's cache: one at the end of each cell, and
the last one of a training that is going on. The random numbers of an iteration follow from the seed and the
iteration's number, so a result does not depend on where a training continued.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from gridtune.core.cells import content_id
from gridtune.core.system import Outcome, WorkloadLoader
from gridtune.training.contract import TRAININGS_VARIABLE, TrainingContract, TrainingParameters
from gridtune.training.run import Point, TrainingRun, is_complete, read_state, training_identity

__all__ = ["train_cell"]


def train_cell(
    training: TrainingContract, parameters: TrainingParameters, *, seed: int, load: WorkloadLoader
) -> Outcome:
    """Train up to the last iteration, or read what an earlier cell has found."""
    done = _trained(training, parameters, seed, load)
    curve: list[Point] = read_state(done)["curve"]
    last = {**curve[-1], "iterations": len(curve)}
    metrics = {name: math.nan if last.get(name) is None else float(last[name]) for name in training.metrics}
    names = sorted({name for point in curve for name in point})
    columns = {name: [point.get(name) for point in curve] for name in names}
    return Outcome(metrics, {"learning_curve": columns})


def _trained(
    training: TrainingContract, parameters: TrainingParameters, seed: int, load: WorkloadLoader
) -> Path:
    """Return the checkpoint of a training at its last iteration, which is trained unless it is there."""
    folder = _folder(training, parameters, seed, load)
    done = folder / f"{parameters.iterations:06d}"
    if not is_complete(done):
        below = [place for place in _checkpoints(folder) if int(place.name) < parameters.iterations]
        begin = below[-1] if below else None
        if begin is None and parameters.history is not None:
            # With other parameters it is the training of another configuration, which has been here before.
            begin = _trained(training, parameters.earlier(), seed, load)
        with _own_random_numbers():
            _train(training, parameters, seed, load, folder, begin)
    return done


def _train(
    training: TrainingContract,
    parameters: TrainingParameters,
    seed: int,
    load: WorkloadLoader,
    folder: Path,
    begin: Path | None,
) -> None:
    run = TrainingRun(training, parameters, seed=seed, load=load)
    try:
        if begin is not None:
            run.restore(begin)
        passing: Path | None = None
        while run.iteration < parameters.iterations:
            run.step()
            last = run.iteration == parameters.iterations
            if last:
                run.evaluate()
            if last or run.iteration % parameters.validate_every == 0:
                place = _save(run, folder)
                if passing is not None:
                    shutil.rmtree(passing, ignore_errors=True)
                passing = place
    finally:
        run.close()


@contextlib.contextmanager
def _own_random_numbers() -> Iterator[None]:
    """Leave the global generators as they were: algorithms seed them."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def _save(run: TrainingRun, folder: Path) -> Path:
    partial = folder / f".{uuid.uuid4().hex}"
    partial.mkdir(parents=True)
    run.save(partial)
    place = folder / f"{run.iteration:06d}"
    shutil.rmtree(place, ignore_errors=True)
    partial.rename(place)
    return place


def _checkpoints(folder: Path) -> list[Path]:
    """Return the training's checkpoints by iteration."""
    return sorted(place for place in folder.glob("[0-9]*") if is_complete(place))


def _folder(
    training: TrainingContract, parameters: TrainingParameters, seed: int, load: WorkloadLoader
) -> Path:
    """Return the folder of the training's checkpoints: the same for every number of iterations."""
    name = content_id(training_identity(training, parameters, seed, load))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    trainings = Path(os.environ.get(TRAININGS_VARIABLE) or cache / "gridtune" / "trainings")
    return trainings / name
