"""Fitting a simulated cluster to a log: calibrated on its first part, judged on the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from gridtune.batch.replay import simulate
from gridtune.core.system import default_system
from gridtune.errors import SweepError
from gridtune.slurm.cluster import Node, Partition, SlurmCluster
from gridtune.slurm.comparison import (
    Agreement,
    JobClass,
    LoggedJobs,
    Trust,
    diagnoses,
    known_at,
    logged_jobs,
    replayed_waits,
    utilisation,
)
from gridtune.slurm.configuration import read_cluster
from gridtune.slurm.effective import Effective
from gridtune.slurm.study import FOLDER, SYSTEM
from gridtune.sweep.run import run_space
from gridtune.sweep.space.plan import plan_space
from gridtune.types import FloatArray, IntArray
from gridtune.workload.files import write_workload
from gridtune.workload.workload import Workload

__all__ = ["FIT_FILE", "Fit", "fit"]

#: The settings that were fitted, in the folder of a fit.
FIT_FILE = "fit.yaml"
OBJECTIVE = "recorded_misfit"
#: Replays of each configuration tried: draws of the clocks' phases.
_REPLICATES = 3
#: A setting is kept if it lowers the misfit by so much at least, and by twice the standard error.
_LEAST_GAIN = 0.02
_FEWEST = 50
_WEEK = 7 * 86_400


@dataclass(frozen=True)
class Fit:
    """A fit.

    Attributes
    ----------
    name
        The log's.
    machine
        "slurm.conf" or "pool".
    settings
        What was fitted; as the machine is described where nothing else fits better.
    tried
        Configurations tried, and the misfit of the description and of the settings on the first part.
    misfit
        On the first part, of the machine as described and as fitted.
    jobs
        The jobs that were replayed.
    cut
        Seconds of the log's clock at which the first part ends.
    described, fitted
        Replayed waits of all jobs, shape (draws, jobs).
    judged
        Which jobs were judged: submitted from the cut on, shape (judged,).
    used
        The share of the processors that the log's jobs had.
    reasons
        Why the log and the machine may not belong together.
    not_modelled
        Settings of the slurm.conf that are not modelled.
    """

    name: str
    machine: str
    settings: Mapping[str, Any]
    tried: int
    misfit: tuple[float, float]
    jobs: LoggedJobs
    cut: int
    described: FloatArray
    fitted: FloatArray
    judged: IntArray
    used: float
    reasons: Sequence[str]
    not_modelled: Sequence[str]

    def agreement(self, waits: FloatArray, members: IntArray | None = None) -> Agreement:
        """Compare waits of the judged jobs, or of some of them, with the recorded ones."""
        rows = self.judged if members is None else np.intersect1d(self.judged, members)
        return Agreement.of(self.jobs.recorded[rows], waits[:, rows])

    def classes(self) -> list[tuple[JobClass, Agreement]]:
        """Return each class of jobs with ten or more that are judged."""
        rows = [(one, self.agreement(self.fitted, one.members)) for one in self.jobs.classes()]
        return [(one, agreement) for one, agreement in rows if agreement.jobs >= min(10, len(self.judged))]

    @property
    def trust(self) -> Trust:
        """Whether advice on this log can be trusted."""
        return self.agreement(self.fitted).trust

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON's types."""
        return {
            "log": self.name,
            "machine": self.machine,
            "settings": dict(self.settings),
            "trust": self.trust,
            "tried": self.tried,
            "misfit": {"described": self.misfit[0], "fitted": self.misfit[1]},
            "jobs": {"calibrated": len(self.jobs.requests) - len(self.judged), "judged": len(self.judged)},
            "left_out": self.jobs.left_out,
            "utilisation": None if math.isnan(self.used) else self.used,
            "reasons": list(self.reasons),
            "described": self.agreement(self.described).as_dict(),
            "fitted": self.agreement(self.fitted).as_dict(),
            "classes": {one.name: agreement.as_dict() for one, agreement in self.classes()},
            "not_modelled": list(self.not_modelled),
        }

    def write(self, folder: Path) -> Path:
        """Write the settings, to be used by other commands, and return the file."""
        path = folder / FIT_FILE
        text = yaml.safe_dump({"settings": dict(self.settings), "trust": self.trust}, sort_keys=False)
        path.write_text(f"# What `gridtune fit` found for {self.name}\n{text}", encoding="utf-8")
        return path


def fit(
    log: Workload,
    slurm: Path | None,
    folder: Path,
    *,
    share: float,
    trials: int,
    draws: int,
    seed: int,
    say: Callable[[str], None],
    **options: Any,
) -> Fit:
    """Calibrate what a log does not say on its first part, and judge the replay on the rest.

    Parameters
    ----------
    log
        With recorded waits.
    slurm
        The folder of the slurm.conf; None for one pool of processors.
    folder
        Where the sweep and the settings are kept.
    share
        The share of the jobs that are calibrated on; the rest is not looked at before it is judged.
    trials
        Configurations that the sweep tries.
    draws, seed
        Replays with phases of the clocks drawn anew, and the seed of all draws.
    say
        Is told what is being done.
    options
        As of `run_space`: workers, executor, address.

    Raises
    ------
    SweepError
        If the log has too few jobs with recorded waits.
    """
    machine = _Pool(log) if slurm is None else _Cluster(slurm, log)
    jobs = machine.jobs
    submit = np.array([request.submit for request in jobs.requests])
    if np.count_nonzero(jobs.recorded >= 0) < _FEWEST:
        raise SweepError(
            f"{np.count_nonzero(jobs.recorded >= 0)} jobs with a recorded wait are too few to fit",
            path=log.source,
            hint=f"it takes {_FEWEST}; `sacct -a -P -o ALL` gives submissions and starts",
        )
    cut = _cut(submit, share)
    judged = np.flatnonzero(submit >= cut)
    if not 0 < len(judged) < len(submit):
        raise SweepError("no jobs are left to be judged", path=log.source, hint="give another --share")
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / "first_part.parquet"
    write_workload(known_at(log, cut), first)
    say(f"calibrating on the first {len(submit) - len(judged):,} jobs, judging on the other {len(judged):,}")
    settings, tried, misfit = _search(machine, first, folder, trials, seed, options)
    described = machine.waits(machine.described, draws, seed)
    fitted = described if settings == machine.described else machine.waits(settings, draws, seed)
    result = Fit(
        log.name,
        machine.name,
        settings,
        tried,
        misfit,
        jobs,
        cut,
        described,
        fitted,
        judged,
        utilisation(jobs, machine.processors),
        list(diagnoses(log, jobs, machine.processors, described, partial=slurm is None)),
        machine.not_modelled,
    )
    result.write(folder)
    return result


def _cut(submit: IntArray, share: float) -> int:
    """Return the instant that ends the first part: at a week's end in a log of six weeks and more."""
    cut = int(np.quantile(submit, share))
    begin, weeks = int(submit.min()), (int(submit.max()) - int(submit.min())) // _WEEK
    if weeks >= 6:
        cut = begin + _WEEK * max(1, round((cut - begin) / _WEEK))
    return cut


def _search(
    machine: _Machine, first: Path, folder: Path, trials: int, seed: int, options: Mapping[str, Any]
) -> tuple[Mapping[str, Any], int, tuple[float, float]]:
    """Search the settings on the first part; return the best, the number tried, and both misfits."""
    space = {
        "name": "fit",
        "description": "What the log does not say of its cluster",
        "system": machine.system,
        "fixed": {**machine.fixed, "trace": str(first.resolve())},
        "dimensions": machine.dimensions,
        "replicates": {"seeds": _REPLICATES},
        "objective": {"metric": OBJECTIVE, "direction": "min"},
        "baseline": {name: machine.described[name] for name in machine.dimensions},
        "strategy": {"optuna": {"trials": trials, "seed": seed, "sampler": "tpe"}},
    }
    results = run_space(plan_space(space), directory=folder / "sweep", **options).results
    by_configuration: dict[str, list[float]] = {}
    values: dict[str, Mapping[str, Any]] = {}
    for result in results:
        if result.state == "done":
            by_configuration.setdefault(result.configuration_id, []).append(result.metrics[OBJECTIVE])
            values[result.configuration_id] = result.configuration
    full = {key: np.array(errors) for key, errors in by_configuration.items() if len(errors) == _REPLICATES}
    described = [key for key in full if machine.settings(values[key]) == machine.described]
    if not described:
        error = next((result.error for result in results if result.error), "no result")
        raise SweepError(f"the log could not be replayed: {error}", path=folder)
    base = full[described[0]]
    best = min(full, key=lambda key: float(full[key].mean()))
    gain = base - full[best]
    spread = float(gain.std(ddof=1) / math.sqrt(len(gain)))
    chosen = best if gain.mean() > max(_LEAST_GAIN * base.mean(), 2 * spread) else described[0]
    return machine.settings(values[chosen]), len(full), (float(base.mean()), float(full[chosen].mean()))


class _Machine:
    """A simulated machine that is fitted."""

    name: str
    system: str
    processors: int
    jobs: LoggedJobs
    not_modelled: Sequence[str] = ()
    fixed: Mapping[str, Any]
    dimensions: Mapping[str, Any]
    described: Mapping[str, Any]

    def settings(self, configuration: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fitted settings among a configuration's."""
        return {name: configuration.get(name, value) for name, value in self.described.items()}

    def waits(self, settings: Mapping[str, Any], draws: int, seed: int) -> FloatArray:
        """Replay all jobs; waits of shape (draws, jobs)."""
        raise NotImplementedError


class _Cluster(_Machine):
    name, system = "slurm.conf", SYSTEM

    def __init__(self, folder: Path, log: Workload) -> None:
        self.cluster = read_cluster(folder)
        self.jobs = logged_jobs(log, self.cluster)
        self.processors, self.not_modelled = self.cluster.cpus, self.cluster.not_modelled
        self.fixed = {FOLDER: str(folder.resolve())}
        self.dimensions: dict[str, Any] = {
            "nodes_in_service": {"uniform": [0.5, 1.0]},
            "release_delay": {"integer": [0, 120]},
        }
        if len({request.user for request in self.jobs.requests}) > 1:
            self.dimensions["user_share"] = {"choice": [1.0, 0.5, 0.3, 0.2, 0.1]}
        self.described = Effective().settings

    def waits(self, settings: Mapping[str, Any], draws: int, seed: int) -> FloatArray:
        cluster, requests = Effective.of(settings).applied(self.cluster, self.jobs.requests)
        return replayed_waits(cluster, requests, draws, seed)


class _Pool(_Machine):
    """The processors of a log without a slurm.conf: as many as were busy at a time, at most."""

    name = "pool"

    def __init__(self, log: Workload) -> None:
        columns = (
            *("submit_time", "wait_time", "run_time", "requested_time", "user", "account", "partition"),
            *("job_id", "qos", "eligible_time"),
        )
        kept = {name: log.columns[name] for name in columns if name in log.columns}
        plain = Workload(
            {**kept, "requested_processors": log.processors}, log.name, log.source, names=log.names
        )
        names = [*log.names.get("partition", {}).values()] or ["pool"]
        node = Node("pool", int(log.processors.max()), 1, {}, frozenset(), 1)
        cluster = SlurmCluster((node,), {name: Partition(name, (0,)) for name in names})
        jobs = logged_jobs(plain, cluster)
        left_out = {why: count for why, count in jobs.left_out.items() if "partition" not in why}
        self.jobs = replace(jobs, left_out=left_out)
        self.log = plain.take(jobs.rows)
        self.processors = _busiest(self.log)
        self.system = default_system().name
        self.fixed = {"order": "fcfs"}
        # Not many fewer than were busy at a time: queues without end take long to replay, and say nothing.
        least = max(int(self.log.processors.max()), int(0.8 * self.processors))
        self.dimensions = {
            "processors": {"integer": [least, max(int(1.5 * self.processors), least)]},
            "backfill": {"choice": ["none", "easy"]},
        }
        self.described = {"processors": self.processors, "backfill": "easy"}

    def waits(self, settings: Mapping[str, Any], draws: int, seed: int) -> FloatArray:
        schedule = simulate(self.log, order="fcfs", **settings)
        return schedule.wait_time[None, :].astype(np.float64)


def _busiest(log: Workload) -> int:
    """Return the processors that were busy at a time by the record, at most."""
    ran = (log.wait_time >= 0) & (log.run_time > 0)
    start = (log.submit_time + log.wait_time)[ran]
    times = np.concatenate([start + log.run_time[ran], start])
    change = np.concatenate([-log.processors[ran], log.processors[ran]])
    order = np.argsort(times, kind="stable")
    return max(int(log.processors.max()), int(np.cumsum(change[order]).max(initial=1)))
