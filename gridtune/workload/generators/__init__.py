"""Synthetic workloads from seeded, published models.

>>> from gridtune.workload.generators import generate_workload, generator_names
>>> generator_names()
('lublin', 'poisson', 'sessions')
>>> generate_workload("lublin", jobs=1000, seed=1, processors=256, load=0.85)
Workload('lublin-256', 1,000 jobs, 256 processors)
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import Any

import numpy as np
import numpy.typing as npt

from gridtune.errors import WorkloadError
from gridtune.registry import Registry, nearest_name
from gridtune.workload.workload import Workload

__all__ = [
    "GENERATORS",
    "generate_workload",
    "generator",
    "generator_names",
    "parse_parameters",
]

Columns = Mapping[str, npt.NDArray[Any]]

#: Second 0 of every generated workload: Monday 2024-01-01 00:00 UTC, so that weekdays mean something.
UNIX_START_TIME = 1_704_067_200


@dataclass(frozen=True)
class _WorkloadGenerator:
    """A registered generator.

    Attributes
    ----------
    name
        Its name in `generate_workload` and on the command line.
    make
        Called with `jobs`, `seed` and the parameters; returns SWF columns in order of submission.
    parameters
        Parameter names to their types (without None).
    defaults
        Parameter names to their default values.
    """

    name: str
    make: Callable[..., Columns]
    parameters: Mapping[str, type]
    defaults: Mapping[str, Any]

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters in their types, or say which one does not fit."""
        values: dict[str, Any] = {}
        for key, value in parameters.items():
            kind = self.parameters.get(key)
            if kind is None:
                raise _unknown_parameter(self.name, key, self.parameters)
            if value is None and self.defaults[key] is None:
                values[key] = None
            elif kind is int:
                values[key] = _whole(key, value, at_least=None)
            elif kind is float and isinstance(value, int | float | np.number) and not isinstance(value, bool):
                values[key] = float(value)
            elif kind is str and isinstance(value, str):
                values[key] = value
            else:
                raise WorkloadError(f"must be of type {kind.__name__}, got {value!r}", field=key)
        return values


#: All generators by name; those that packages announce are imported when they are asked for.
GENERATORS: Registry[_WorkloadGenerator] = Registry(
    "generator", "gridtune.generators", WorkloadError, code=lambda item: item.make
)


def generator(name: str) -> Callable[[Callable[..., Columns]], Callable[..., Columns]]:
    """Register a function `make(*, jobs, seed, processors=..., ...) -> columns` under a name.

    A package announces its generators by entry points of the group `gridtune.generators`.

    Every parameter but `jobs` and `seed` needs a type (`int`, `float` or `str`, each perhaps with
    `| None`) and a default. `processors`, the machine's size, must be among them.

    Raises
    ------
    WorkloadError
        If the name is taken or the signature does not fit.
    """

    def register(make: Callable[..., Columns]) -> Callable[..., Columns]:
        signature = inspect.signature(make)
        hints = typing.get_type_hints(make)
        own = {key: value for key, value in signature.parameters.items() if key not in {"jobs", "seed"}}
        parameters = {key: _plain_type(name, key, hints.get(key)) for key in own}
        missing = [key for key, value in own.items() if value.default is inspect.Parameter.empty]
        if missing or "processors" not in own or not {"jobs", "seed"} <= set(signature.parameters):
            raise WorkloadError(
                f"generator {name!r} does not fit: its signature is {signature}",
                hint="it takes jobs, seed, processors and parameters that all have defaults",
            )
        defaults = {key: value.default for key, value in own.items()}
        item = _WorkloadGenerator(name, make, MappingProxyType(parameters), MappingProxyType(defaults))
        GENERATORS.register(name, item)
        return make

    return register


def _plain_type(name: str, parameter: str, hint: Any) -> type:
    """Return int, float or str for a hint such as `float | None`."""
    kinds = [hint]
    if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union:
        kinds = [kind for kind in typing.get_args(hint) if kind is not NoneType]
    if len(kinds) != 1 or kinds[0] not in {int, float, str}:
        raise WorkloadError(f"generator {name!r}: {parameter} must be int, float or str, not {hint}")
    plain: type = kinds[0]
    return plain


def generator_names() -> tuple[str, ...]:
    """Return the names of all generators, sorted."""
    return tuple(GENERATORS.names())


def generate_workload(name: str, *, jobs: int, seed: int, **parameters: Any) -> Workload:
    """Return a synthetic workload.

    The same arguments give the same workload, bit for bit. Each aspect (sizes, run times, arrivals,
    users, estimates) draws from its own stream, so that changing, say, `load` moves the arrivals and
    nothing else.

    Parameters
    ----------
    name
        One of `generator_names()`.
    jobs
        Number of jobs, at least 1.
    seed
        Any non-negative integer.
    **parameters
        The model's own, see its documentation; `processors` is the machine's size.

    Returns
    -------
    Workload
        Ordered by submission; second 0 is a Monday, 00:00 UTC. Its header holds the command that
        regenerates it.

    Raises
    ------
    WorkloadError
        If the generator or a parameter is unknown, of the wrong type or out of range.
    """
    model = GENERATORS.find(name)
    values = {**model.defaults, **model.checked(parameters)}
    count = _whole("jobs", jobs, at_least=1)
    start = _whole("seed", seed, at_least=0)
    columns = dict(model.make(jobs=count, seed=start, **values))
    columns["job_id"] = np.arange(1, count + 1)
    processors = int(values["processors"])
    return Workload(
        columns,
        name=f"{name}-{processors}",
        machine_processors=processors,
        header=_header(name, count, start, processors, values),
    )


def parse_parameters(name: str, texts: Iterable[str]) -> dict[str, Any]:
    """Turn `key=value` texts from a command line into a generator's parameters (and jobs, seed).

    Raises
    ------
    WorkloadError
        If a text has no `=`, repeats a key, names no parameter or does not read as its type.
    """
    model = GENERATORS.find(name)
    kinds = {"jobs": int, "seed": int, **model.parameters}
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise WorkloadError(f"{text!r} is not of the form key=value", hint="such as jobs=5000")
        if key not in kinds:
            raise _unknown_parameter(name, key, kinds)
        if key in values:
            raise WorkloadError("given twice", field=key)
        try:
            values[key] = kinds[key](value)
        except ValueError:
            raise WorkloadError(f"{value!r} is not of type {kinds[key].__name__}", field=key) from None
    return values


def _whole(field: str, value: Any, *, at_least: int | None) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise WorkloadError(f"must be a whole number, got {value!r}", field=field)
    if at_least is not None and value < at_least:
        raise WorkloadError(f"must be at least {at_least}, got {value}", field=field)
    return int(value)


def _unknown_parameter(name: str, key: str, parameters: Iterable[str]) -> WorkloadError:
    near = nearest_name(key, parameters)
    hint = f"did you mean {near!r}? " if near else ""
    hint += f"its parameters are {', '.join(parameters)}"
    return WorkloadError(f"generator {name!r} has no parameter {key!r}", hint=hint)


def _header(
    name: str, jobs: int, seed: int, processors: int, values: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    parameters = " ".join(f"{key}={value}" for key, value in values.items() if value is not None)
    return {
        "Version": ("2.2",),
        "Computer": ("synthetic",),
        "Installation": (f"gridtune generator {name}",),
        "MaxJobs": (str(jobs),),
        "MaxRecords": (str(jobs),),
        "Preemption": ("No",),
        "UnixStartTime": (str(UNIX_START_TIME),),
        "TimeZone": ("0",),
        "TimeZoneString": ("UTC",),
        "MaxNodes": (str(processors),),
        "MaxProcs": (str(processors),),
        "Note": (f"gridtune traces generate {name} OUT jobs={jobs} seed={seed} {parameters}",),
    }
