"""The errors of gridtune.

Every error gridtune raises on purpose is a `GridtuneError`. It says what is wrong, where (file, line,
field) and what to do about it, and the command line prints just that, without a traceback.
"""

from __future__ import annotations

import importlib.util
import re
from functools import partial
from pathlib import Path

__all__ = [
    "GridtuneError",
    "GridtuneWarning",
    "MetricError",
    "MissingExtraError",
    "PolicyError",
    "ScheduleError",
    "SimulationError",
    "SpaceError",
    "StorageError",
    "SweepError",
    "TraceError",
    "TrackingError",
    "UnknownNameError",
    "WorkloadError",
    "printable",
    "require_module",
    "without_secrets",
]

#: What stands before the host of a URI: a user and a password, or a token alone.
_PASSWORD = re.compile(r"(\w://[^\s/:@?#]*:)[^\s/?#]+@")
_TOKEN = re.compile(r"(\b(?:https?|s3|gs|gcs|abfss?)://)[^\s/:@?#]+@", re.IGNORECASE)
#: Values in a URI's query whose names say that they are secret, such as `X-Amz-Signature` and `sslkey`.
_QUERY = re.compile(
    r"([?&;](?:[\w.-]*(?:password|passwd|pwd|token|secret|sig|signature|credential|credentials|key|auth))=)"
    r"[^\s&;#'\"]*[^\s&;#'\",:.)]",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Return a text with the passwords and tokens in its URIs replaced by stars."""
    if "://" not in text:
        return text
    text = _TOKEN.sub(r"\1***@", _PASSWORD.sub(r"\1***@", text))
    return _QUERY.sub(r"\1***", text)


#: Characters that a terminal obeys, and those that turn the direction of writing.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return a text with control characters as escapes: a terminal would obey them."""
    return CONTROL.sub(lambda one: repr(one[0])[1:-1], text)


class GridtuneError(Exception):
    """The base of every error gridtune raises on purpose.

    Parameters
    ----------
    message
        The fault, with the value that was found.
    path, line, field
        Where: the file (a path or a URL), its line (1-based) and the field or key, as far as they are known.
    hint
        The remedy.

    Notes
    -----
    As a text it shows no password and no token of a URI, and control characters as escapes.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        # As a path, `s3://bucket` would lose a slash.
        is_url = isinstance(path, str) and "://" in path
        self.path: Path | str | None = path if path is None or is_url else Path(path)
        self.line = line
        self.field = field
        self.hint = hint
        super().__init__(message, path, line, field, hint)

    def __str__(self) -> str:
        place = "" if self.path is None else str(self.path)
        if self.line is not None:
            place = f"{place}:{self.line}" if place else f"line {self.line}"
        if self.field is not None:
            place = f"{place}, field {self.field}" if place else f"field {self.field}"
        text = f"{place}: {self.message}" if place else self.message
        return printable(without_secrets(f"{text}\n  hint: {self.hint}" if self.hint else text))

    @property
    def in_one_line(self) -> str:
        """The fault and the remedy, for another error that says where."""
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between Ray processes; keyword-only arguments need their own way back.
        again = partial(type(self), path=self.path, line=self.line, field=self.field, hint=self.hint)
        return again, (self.message,)


class WorkloadError(GridtuneError):
    """A workload file or its content cannot be used."""


class TraceError(GridtuneError):
    """A catalogued trace cannot be found, fetched or verified."""


class PolicyError(GridtuneError):
    """A policy's name is unknown, or its function cannot be compiled."""


class SimulationError(GridtuneError):
    """A simulation cannot be run with these inputs."""


class UnknownNameError(GridtuneError, KeyError):
    """No value has this name."""


class ScheduleError(GridtuneError):
    """A schedule breaks a rule that every schedule must keep."""


class MetricError(GridtuneError):
    """A metric is unknown or cannot be computed."""


class SpaceError(GridtuneError):
    """A search space is malformed; `line` and `field` say where."""


class SweepError(GridtuneError):
    """A sweep cannot start or go on."""


class StorageError(GridtuneError):
    """A place at a URL cannot be read or written."""


class TrackingError(GridtuneError):
    """The tracking store cannot be used."""


class GridtuneWarning(UserWarning):
    """Something works, but not as a careful reader might expect."""


class MissingExtraError(SweepError):
    """Something needs a package that is not installed."""


def require_module(module: str, *, user: str, extra: str) -> None:
    """Raise an error if a module is not installed; it is not imported.

    Parameters
    ----------
    module
        Its name, such as "torch".
    user
        What needs it, as the message begins: "policy=ppo".
    extra
        The extra of gridtune that brings it, such as "agents".

    Raises
    ------
    MissingExtraError
        If it is missing.
    """
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(
            f"{user} needs {module}, which is not installed", hint=f"pip install 'gridtune[{extra}]'"
        )
