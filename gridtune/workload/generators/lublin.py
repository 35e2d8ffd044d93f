"""The Lublin–Feitelson model of rigid parallel jobs.

References
----------
U. Lublin, D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of
rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003, doi 10.1016/S0743-7315(03)00108-4,
and the values of the authors' own program in the Parallel Workloads Archive.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from math import floor, log2
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError
from gridtune.types import FloatArray, IntArray
from gridtune.workload.generators import generator
from gridtune.workload.generators.draws import (
    DAY,
    Cycle,
    check_range,
    draw_estimates,
    fit_scale,
    stream,
    zipf,
)

#: Natural logarithms of the longest run time (45 h) and the longest gap in even time (5 days), seconds.
MAX_LOG_RUN_TIME = 12.0
MAX_LOG_GAP = 13.0

_SLOT = 1800
#: The half-hour (counted from 1 at midnight) at which the model's day begins: 05:00 to 05:30.
_FIRST_SLOT = 11


@dataclass(frozen=True)
class _Population:
    """The published parameters of one kind of jobs.

    Attributes
    ----------
    serial, power_of_two
        Shares of all jobs with one processor, and with a power of two of them.
    low, medium_below_high, high_below_machine, first_uniform
        log2 of a parallel job's size is uniform in [low, medium] with probability `first_uniform`, else in
        [medium, high]; high = log2(machine) − `high_below_machine`, medium = high − `medium_below_high`.
    run_time_shapes, run_time_scales
        The two gamma distributions of the logarithm of the run time.
    mix_slope, mix_base
        Probability of the first of them: slope · size + base, kept within [0, 1].
    gap_shape, gap_scale, rush_to_all
        Gamma distribution of the logarithm of the gaps at rush hour; the shape times `rush_to_all`
        holds for all hours.
    day_shape, day_scale
        Gamma distribution, in half-hours, of the arrivals over the day.
    """

    serial: float
    power_of_two: float
    low: float
    medium_below_high: float
    high_below_machine: float
    first_uniform: float
    run_time_shapes: tuple[float, float]
    run_time_scales: tuple[float, float]
    mix_slope: float
    mix_base: float
    gap_shape: float
    gap_scale: float
    rush_to_all: float
    day_shape: float
    day_scale: float

    def day(self) -> Cycle:
        """Return the daily cycle of arrivals."""
        from scipy.special import gammainc  # noqa: PLC0415 - scipy costs more to import than to use

        slots = np.arange(_FIRST_SLOT, _FIRST_SLOT + DAY // _SLOT)
        edges = np.stack([slots - 0.5, slots + 0.5]) / self.day_scale
        share = np.diff(gammainc(self.day_shape, edges), axis=0)[0]
        # Slot 1 of the model is the half-hour from midnight.
        return Cycle(np.roll(share, _FIRST_SLOT - 1), _SLOT)

    def sizes(self, processors: int, count: int, rng: np.random.Generator) -> IntArray:
        """Return processors per job: serial, a power of two, or any number, by a two-stage uniform law."""
        high = log2(processors) - self.high_below_machine
        medium = high - self.medium_below_high
        kind, stage, place = rng.random(count), rng.random(count), rng.random(count)
        bottom = np.where(stage <= self.first_uniform, self.low, medium)
        top = np.where(stage <= self.first_uniform, medium, high)
        exponent = bottom + place * (top - bottom)
        # On a machine whose size is no power of two, rounding up may overshoot it.
        power = np.minimum(np.floor(exponent + 0.5), floor(log2(processors)))
        exponent = np.where(kind <= self.serial + self.power_of_two, power, exponent)
        parallel = np.floor(np.exp2(exponent) + 0.5).astype(np.int64)
        return np.where(kind <= self.serial, 1, np.minimum(parallel, processors))


_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
#: Batch and interactive jobs as fitted apart, and all jobs as fitted together (machine of 128 processors).
POPULATIONS = MappingProxyType({name: _Population(**own) for name, own in _DECLARED.items()})


@generator("lublin")
def _lublin(
    *,
    jobs: int,
    seed: int,
    processors: int = 256,
    load: float | None = None,
    population: str = "batch",
    users: int = 64,
    user_skew: float = 1.2,
    estimates: str = "modal",
    estimate_factor: float = 3.0,
) -> dict[str, IntArray]:
    """Lublin–Feitelson 2003: rigid parallel jobs of a supercomputer, with its daily cycle.

    Parameters
    ----------
    jobs, seed
        See `generate_workload`.
    processors
        The machine's size; 16 or more (64 or more with interactive jobs).
    load
        Offered load, Σ processors · run time / (machine size · (last − first submission)), reached by
        scaling the gaps before the daily cycle is applied; None leaves the model's own rate.
    population
        `batch`, `interactive`, `all` (fitted to both together) or `mixed` (the two streams merged;
        queue 0 is interactive, 1 batch).
    users, user_skew
        Number of users, and the exponent of the Zipf law by which jobs are theirs. Not of the model.
    estimates, estimate_factor
        Model of the requested times: `modal`, `factor` or `exact`; see `draw_estimates`.
    """
    if population not in {*POPULATIONS, "mixed"}:
        hint = f"one of {', '.join(POPULATIONS)}, mixed"
        raise WorkloadError(f"no population is named {population!r}", field="population", hint=hint)
    check_range("processors", processors, 64 if population in {"interactive", "mixed"} else 16, 2**24)
    check_range("load", load, high=100.0, above=0.0)
    check_range("users", users, 1, 10**6)
    check_range("user_skew", user_skew, 0.0, 10.0)
    check_range("estimate_factor", estimate_factor, 0.0, 1e6)
    kinds = ("interactive", "batch") if population == "mixed" else (population,)
    queue, even, cycles = _arrivals(jobs, seed, kinds)
    size = np.empty(jobs, dtype=np.int64)
    run_time = np.empty(jobs, dtype=np.int64)
    for number, kind in enumerate(kinds):
        index = np.flatnonzero(queue == number)
        model, rng = POPULATIONS[kind], stream(seed, f"run time {kind}")
        size[index] = model.sizes(processors, len(index), stream(seed, f"size {kind}"))
        # e to a hyper-gamma number whose mixture depends on the size.
        first = np.clip(model.mix_slope * size[index] + model.mix_base, 0.0, 1.0)
        shapes, scales = model.run_time_shapes, model.run_time_scales
        run_time[index] = np.exp(_hyper_gamma(rng, first, shapes, scales, MAX_LOG_RUN_TIME)).astype(np.int64)
    span = None if load is None else float((size * run_time).sum()) / (processors * load)
    submit = _clock_times(even, queue, cycles, span)
    order = np.argsort(submit, kind="stable")
    size, run_time, queue = size[order], run_time[order], queue[order]
    requested = draw_estimates(
        estimates, stream(seed, "estimate"), run_time, maximum=48 * 3600, factor=estimate_factor
    )
    return {
        "submit_time": submit[order],
        "run_time": run_time,
        "allocated_processors": size,
        "requested_processors": size,
        "requested_time": requested,
        "status": np.ones(jobs, dtype=np.int64),
        "user": zipf(stream(seed, "user"), jobs, users, user_skew),
        "queue": queue if population == "mixed" else np.full(jobs, int(population != "interactive")),
    }


def _arrivals(jobs: int, seed: int, kinds: tuple[str, ...]) -> tuple[IntArray, FloatArray, tuple[Cycle, ...]]:
    """Return each job's kind (by number) and even time, and each kind's daily cycle."""
    even = []
    for kind in kinds:
        model = POPULATIONS[kind]
        shape = model.gap_shape * model.rush_to_all
        rng, first = stream(seed, f"gap {kind}"), np.ones(jobs)
        gaps = _hyper_gamma(rng, first, (shape, shape), (model.gap_scale, model.gap_scale), MAX_LOG_GAP)
        even.append(np.cumsum(np.exp(gaps)))
    cycles = tuple(POPULATIONS[kind].day() for kind in kinds)
    clock = np.concatenate([cycle.clock_time(times) for cycle, times in zip(cycles, even, strict=True)])
    number = np.repeat(np.arange(len(kinds)), jobs)
    first = np.sort(np.argsort(clock, kind="stable")[:jobs])
    return number[first], np.concatenate(even)[first], cycles


def _hyper_gamma(
    rng: np.random.Generator,
    first: FloatArray,
    shapes: tuple[float, float],
    scales: tuple[float, float],
    limit: float,
) -> FloatArray:
    """Return hyper-gamma values: values above `limit` are drawn again, with a new component.

    Parameters
    ----------
    rng
        Source of the random numbers.
    first
        Shape (n,): probability of the first component for each value.
    shapes, scales
        Of the two gamma components.
    limit
        The largest value.
    """
    values = np.full(len(first), np.inf)
    left = np.arange(len(first))
    while len(left):
        component = rng.random(len(left)) <= first[left]
        values[left] = rng.gamma(np.where(component, *shapes), np.where(component, *scales))
        left = left[values[left] > limit]
    return values


def _clock_times(
    even: FloatArray, queue: IntArray, cycles: tuple[Cycle, ...], span: float | None
) -> IntArray:
    """Return submit times, with even time scaled so that they spread over `span` seconds if given."""

    def place(scale: float, index: npt.NDArray[np.intp]) -> FloatArray:
        times = np.empty(len(index))
        for number, cycle in enumerate(cycles):
            mine = queue[index] == number
            times[mine] = cycle.clock_time(scale * even[index][mine])
        return times

    scale = 1.0
    if span is not None:
        # Each stream keeps its order under scaling: its ends alone decide the span.
        streams = (np.flatnonzero(queue == number) for number in range(len(cycles)))
        ends = np.concatenate([mine[[0, -1]] for mine in streams if len(mine)])
        scale = fit_scale(lambda factor: float(np.ptp(place(factor, ends))), span)
    return np.floor(place(scale, np.arange(len(even)))).astype(np.int64)
