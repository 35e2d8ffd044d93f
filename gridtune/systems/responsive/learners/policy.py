"""Learned values as a policy: the networks, and the kind of site that they are for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.settings import LearnerSettings

__all__ = ["QPolicy", "load_policy", "read_arrays", "write_arrays"]

_FORMAT = 1
_ABOUT = "about"


@dataclass(frozen=True)
class QPolicy:
    """A policy that starts the candidate of the highest value.

    Attributes
    ----------
    arrays
        The networks.
    settings
        Their settings, and those of the training.
    organisations
        Number of virtual organisations of the site.
    elastic
        Whether its pool may change.
    weight
        λ of the reward that was learned.
    """

    arrays: ReservoirArrays
    settings: LearnerSettings
    organisations: int
    elastic: bool
    weight: float

    def save(self, path: str | Path) -> None:
        """Write the policy to a file, atomically."""
        about = {
            "settings": self.settings.to_dict(),
            "organisations": self.organisations,
            "elastic": self.elastic,
            "weight": self.weight,
        }
        write_arrays(path, self.arrays._asdict(), about)


def load_policy(path: str | Path) -> QPolicy:
    """Return a policy that was saved."""
    arrays, about = read_arrays(path)
    try:
        networks = ReservoirArrays(**{name: arrays[name] for name in ReservoirArrays._fields})
        settings = LearnerSettings.from_dict(about["settings"])
        return QPolicy(networks, settings, about["organisations"], about["elastic"], about["weight"])
    except (KeyError, TypeError) as error:
        raise PolicyError("holds no policy of candidate values", path=path) from error


def write_arrays(path: str | Path, arrays: dict[str, Any], about: dict[str, Any]) -> None:
    """Write arrays by name and a description to one file, atomically."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as file:
        np.savez(file, **{**arrays, _ABOUT: np.array(json.dumps({"format": _FORMAT, **about}))})
    partial.replace(target)


def read_arrays(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read arrays and their description; nothing in the file is executed."""
    file = Path(path)
    try:
        with np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        about = json.loads(str(arrays.pop(_ABOUT)))
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}", path=file) from error
    except (ValueError, KeyError, BadZipFile, EOFError) as error:
        raise PolicyError("holds no policy of candidate values", path=file) from error
    if about.get("format") != _FORMAT:
        raise PolicyError(f"must be of format {_FORMAT}, but got {about.get('format')!r}", path=file)
    return arrays, about
