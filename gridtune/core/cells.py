"""Cells, the units of a sweep, with ids that are hashes of everything that determines a cell's result.

A cell is one run of a system: its parameters, its replicate's seed and the traces it reads. Its id is the
SHA-256 of exactly that, so the same cell has the same id in every sweep, on every machine and in any
order, and a result found under an id never has to be computed again.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import ValidationError

from gridtune.core.system import Streams, System, SystemParameters, WorkloadLoader
from gridtune.errors import SweepError
from gridtune.registry import nearest_name

CellState = Literal["done", "failed", "timed_out", "lost"]

#: Part of every id: raise it when the way ids are made changes.
_ID_SCHEME = "gridtune-cell-1"
#: Hexadecimal digits of an id that are kept: 80 bits, no collision in a lifetime of sweeps.
_ID_DIGITS = 20


@dataclass(frozen=True)
class Replicate:
    """One repetition of every configuration.

    Attributes
    ----------
    label
        Its name in tables, such as `window 3/10` or `seed 4`.
    seed
        Seed of the replicate's random numbers; the same for every configuration.
    parameters
        Parameters that the replicate adds to a configuration's (its window, its shaking).
    """

    label: str
    seed: int
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """One run of a system, fully determined.

    Attributes
    ----------
    cell_id
        Hash of everything that determines the result.
    configuration_id
        Hash of the same without the replicate.
    workload
        Label of the workload (the stratum that tables are split by).
    configuration
        The parameters without the replicate's.
    replicate
        The repetition.
    traces
        SHA-256 of each trace the cell reads, by its reference.
    identity
        The text that `cell_id` is a hash of: everything that determines the result, as canonical JSON.
    """

    cell_id: str
    configuration_id: str
    workload: str
    configuration: Mapping[str, Any]
    replicate: Replicate
    traces: Mapping[str, str]
    identity: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters of the run."""
        return {**self.configuration, **self.replicate.parameters}

    @property
    def seed(self) -> int:
        """The replicate's seed."""
        return self.replicate.seed

    def _description(self) -> dict[str, Any]:
        """Return the attributes of a result that describe its cell, as the search space spells it."""
        return {
            "configuration_id": self.configuration_id,
            "workload": self.workload,
            "configuration": dict(self.configuration),
            "replicate": self.replicate.label,
            "traces": dict(self.traces),
            "parameters": self.parameters,
        }


@dataclass(frozen=True)
class CellResult:
    """The result of one cell: a row of `results.parquet`, a line of the journal.

    Attributes
    ----------
    cell_id, configuration_id, workload, configuration, replicate, seed, traces
        As of the `Cell`; `replicate` is its label.
    parameters
        All parameters, the replicate's included: with `seed`, what `run_cell` needs to run it again.
    state
        `done`; `failed` (it raised); `timed_out`; `lost` (its worker died with it, again and again).
    metrics, notes
        As of the `Outcome`; empty unless done.
    error
        The error, with the end of the traceback, or None.
    seconds
        Wall-clock seconds it took.
    worker
        `host:pid` of the process that ran it.
    identity
        As of the `Cell`; empty in results of an earlier gridtune, which did not keep it.
    """

    cell_id: str
    configuration_id: str
    workload: str
    configuration: Mapping[str, Any]
    replicate: str
    seed: int
    traces: Mapping[str, str]
    parameters: Mapping[str, Any]
    state: CellState
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    seconds: float = math.nan
    worker: str = ""
    identity: str = ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return metrics that are still in the columns of a segment, and keep them as an attribute."""
            if name != "metrics" or "_columns" not in self.__dict__:
                return super().__getattribute__(name)
            columns, row = self.__dict__["_columns"]
            return self.__dict__.setdefault(name, {key: column.item(row) for key, column in columns.items()})

    @property
    def own_parameters(self) -> dict[str, Any]:
        """The parameters that are not those of the configuration."""
        given = self.configuration
        return {name: value for name, value in self.parameters.items() if given.get(name, self) != value}

    @property
    def trace(self) -> str:
        """The traces' references, as one text."""
        return ", ".join(self.traces)

    @classmethod
    def of(cls, cell: Cell, state: CellState, **outcome: Any) -> CellResult:
        """Return the result of a cell in this state."""
        return cls(
            cell_id=cell.cell_id,
            seed=cell.seed,
            state=state,
            identity=cell.identity,
            **cell._description(),
            **outcome,
        )

    def of_cell(self, cell: Cell) -> CellResult:
        """Return the same result described as its cell is now.

        A result outlives the search space that it was made for. Another space may spell the same
        run otherwise, by leaving out a default or by the path to a log.
        """
        return replace(self, **cell._description())

    def adds_to(self, earlier: CellResult | None) -> bool:
        """Return whether this result, from elsewhere, adds to what a journal has of its cell."""
        return earlier is None or (earlier.state != "done" and self.state == "done")

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CellResult:
        """Return the result with attributes as JSON holds them: NaN is null, infinities are words."""
        values = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        values["metrics"] = {name: _number(value) for name, value in record.get("metrics", {}).items()}
        values["seconds"] = _number(record.get("seconds"))
        if len(values) < len(cls.__dataclass_fields__):
            return cls(**values)
        # A journal of 100,000 cells is read in half the time without the calls that set each attribute.
        result = object.__new__(cls)
        result.__dict__.update(values)
        return result


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def finite_json(value: Any) -> Any:
    """Return `value` in standard JSON's types: NaN becomes None, an infinity the word for it."""
    if isinstance(value, Mapping):
        return {str(key): finite_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [
            finite_json(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)
        ]
    if isinstance(value, np.generic):
        return finite_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return str(value) if isinstance(value, Path) else value


def canonical_json(value: Any) -> str:
    """Return the canonical text of `value`: sorted keys, no spaces, shortest exact numbers."""
    return json.dumps(
        finite_json(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def content_id(value: Any) -> str:
    """Return the id of `value`: the start of the SHA-256 of its canonical JSON."""
    return id_of_identity(canonical_json(value))


def id_of_identity(identity: str) -> str:
    """Return the id that is a hash of an identity, which is canonical JSON."""
    return hashlib.sha256(f'["{_ID_SCHEME}",{identity}]'.encode()).hexdigest()[:_ID_DIGITS]


def validated(system: System, parameters: Mapping[str, Any]) -> SystemParameters:
    """Return the parameters as the system knows them.

    Raises
    ------
    SweepError
        If a name is unknown or a value refused; the message names each of them.
    """
    try:
        return system.Parameters.model_validate(dict(parameters))
    except ValidationError as refused:
        reasons, hint = [], None
        for fault in refused.errors():
            # An error about several parameters together has no location.
            place, value = ".".join(map(str, fault["loc"])), fault["input"]
            reasons.append(": ".join(filter(None, (place, refusal_text(fault, value)))))
            unknown = fault["type"] == "extra_forbidden"
            hint = hint or (system.parameter_hint(place) if unknown else refusal_hint(fault, value))
        message = f"system {system.name!r} refuses its parameters: {'; '.join(reasons)}"
        raise SweepError(message, hint=hint) from None


def environment_parameters(system: System, options: Mapping[str, Any]) -> SystemParameters:
    """Return the parameters that an environment of the system was given as keywords.

    Raises
    ------
    TypeError
        If the system has no parameter of that name: libraries that try an option (Stable-Baselines3 gives
        `render_mode`) go on without it then.
    SweepError
        If a value is refused.
    """
    for name in options:
        if name not in system.Parameters.model_fields:
            hint = system.parameter_hint(name)
            raise TypeError(f"the environment has no option {name!r}" + (f"; {hint}" if hint else ""))
    return validated(system, options)


def identity_of(
    system: System,
    parameters: SystemParameters,
    seed: int | None,
    traces: Mapping[str, str],
    load: WorkloadLoader,
) -> str:
    """Return everything that determines the result of a cell, as canonical JSON: its id is a hash of it.

    Without a seed it is the identity of a configuration. A parameter at its default is left out: saying it
    or not saying it is the same run, and a parameter added to a system later does not rename the cells that
    do without it. Traces count by their content. Values that a log decides count as they are decided.
    """
    from gridtune.core.user_code.checksums import code_of  # noqa: PLC0415 (a run by itself has no identity)

    set_parameters = parameters.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    if "trace" in set_parameters:
        set_parameters["trace"] = "content"
    decided = system.values_from_log(parameters, load)
    set_parameters = {name: value for name, value in set_parameters.items() if name not in decided}
    set_parameters |= {name: value for name, value in decided.items() if value is not None}
    identity = {
        "system": system.name,
        "version": system.version,
        "code": code_of(system, parameters),
        "parameters": set_parameters,
        "traces": sorted(traces.values()),
    }
    return canonical_json(identity if seed is None else {**identity, "seed": seed})


def replicate_streams(seed: int, traces: Mapping[str, str]) -> Streams:
    """Return the streams of random numbers of one replicate on these traces.

    They derive from the replicate's seed, the traces' content and the purpose, and from nothing else:
    every configuration of a replicate meets the same noise and the same shaking (common random numbers),
    whichever worker runs it and whatever ran before.
    """

    def stream(purpose: str) -> np.random.Generator:
        text = canonical_json([_ID_SCHEME, seed, sorted(traces.values()), purpose])
        words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(word) for word in words])))

    return stream


#: Characters of a refused value that a message shows.
_SHOWN = 60
#: What pydantic's types of error say, in plain words; {…} is a limit from the error itself.
_REASONS = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "too_short": "needs at least {min_length} value",
    "too_long": "may have at most {max_length} values",
    "string_type": "must be a word",
    "path_type": "must be a path",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "must be a mapping of keys to values"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
}


def refusal_text(error: Mapping[str, Any], value: Any) -> str:
    """Return why pydantic refused a value, in plain words and with the value.

    Parameters
    ----------
    error
        One of `ValidationError.errors()`.
    value
        The given value.
    """
    kind, message = error["type"], str(error["msg"]).removeprefix("Value error, ")
    if kind in {"value_error", "extra_forbidden", "missing"}:
        return message
    limits = (error.get("ctx") or {}).items()
    context = {name: f"{limit:g}" if isinstance(limit, float) else limit for name, limit in limits}
    if isinstance(value, float) and math.isnan(value):
        reason = _REASONS["finite_number"]
    elif kind == "literal_error":
        reason = f"must be {context['expected']}"
    elif kind in _REASONS:
        reason = _REASONS[kind].format(**context)
    else:
        reason = f"{message[:1].lower()}{message[1:]}"
    shown = repr(value)
    return f"{reason}, but got {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + ' …'}"


def refusal_hint(error: Mapping[str, Any], value: Any) -> str | None:
    """Return a hint for a value that pydantic refused, where its error allows one."""
    if error["type"] not in {"literal_error", "string_type"}:
        return None
    if isinstance(value, bool):
        return f"YAML reads a bare `{'yes' if value else 'no'}` as {str(value).lower()}: quote it"
    if isinstance(value, datetime.date):
        return f'YAML reads {value} as a date: quote it, as in "{value}"'
    if isinstance(value, int | float):
        return f'YAML reads {value} as a number: quote it, as in "{value}"'
    choices = re.findall(r"'([^']*)'", error.get("ctx", {}).get("expected", ""))
    near = nearest_name(str(value), choices)
    return None if near is None else f"did you mean {near!r}?"
