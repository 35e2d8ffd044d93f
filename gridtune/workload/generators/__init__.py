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
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

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
#: The types of the arguments that every generator has, and their values on the command line.
_LENGTH_AND_SEED: dict[str, Any] = {
    "jobs": (Annotated[int, Field(ge=1)], 10_000),
    "seed": (Annotated[int, Field(ge=0)], 1),
}

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
    model
        The arguments of `make`, with types and defaults.
    """

    name: str
    make: Callable[..., Columns]
    model: type[BaseModel]

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of the parameters that are not given, without `jobs` and `seed`."""
        fields = self.model.model_fields.items()
        return {key: field.default for key, field in fields if key not in _LENGTH_AND_SEED}

    def checked(self, given: Mapping[str, Any], read: Callable[[Any], BaseModel]) -> BaseModel:
        """Return arguments in their types as one of the model's methods reads them, or refuse one."""
        parameters = self.model.model_fields
        for key in given.keys() - parameters.keys():
            near = nearest_name(key, parameters)
            hint = f"did you mean {near!r}? " if near else ""
            hint += f"its parameters are {', '.join(parameters)}"
            raise WorkloadError(f"generator {self.name!r} has no parameter {key!r}", hint=hint)
        try:
            return read(dict(given))
        except ValidationError as fault:
            error = fault.errors()[0]
            reason = error["msg"].replace("Input should be", "must be")
            raise WorkloadError(f"{reason}, got {error['input']!r}", field=str(error["loc"][0])) from None


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
        own = {key: one.default for key, one in inspect.signature(make).parameters.items()}
        missing = [key for key in own.keys() - _LENGTH_AND_SEED if own[key] is inspect.Parameter.empty]
        if missing or not {"processors", *_LENGTH_AND_SEED} <= own.keys():
            raise WorkloadError(
                f"generator {name!r} does not fit: its signature is {inspect.signature(make)}",
                hint="it takes jobs, seed, processors and parameters that all have defaults",
            )
        hints = typing.get_type_hints(make)
        fields: dict[str, Any] = {key: (hints.get(key, Any), default) for key, default in own.items()}
        model = create_model(name, __config__=ConfigDict(strict=True), **fields | _LENGTH_AND_SEED)
        GENERATORS.register(name, _WorkloadGenerator(name, make, model))
        return make

    return register


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
    given = {"jobs": jobs, "seed": seed, **parameters}
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in given.items()}
    values = dict(model.checked(plain, model.model.model_validate))
    columns = dict(model.make(**values))
    count, start = values.pop("jobs"), values.pop("seed")
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
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise WorkloadError(f"{text!r} is not of the form key=value", hint="such as jobs=5000")
        if key in values:
            raise WorkloadError("given twice", field=key)
        values[key] = value
    model = GENERATORS.find(name)
    return model.checked(values, model.model.model_validate_strings).model_dump(exclude_unset=True)


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
