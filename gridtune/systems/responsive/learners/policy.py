"""Learned values as a policy: the networks, and the kind of site that they are for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gridtune.core.array_files import read_arrays, write_arrays
from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.settings import LearnerSettings

__all__ = ["WHAT", "QPolicy", "load_policy"]

#: What the file of a policy holds, for messages.
WHAT = "policy of candidate values"


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
    arrays, about = read_arrays(path, WHAT, error=PolicyError)
    try:
        networks = ReservoirArrays(**{name: arrays[name] for name in ReservoirArrays._fields})
        settings = LearnerSettings.from_dict(about["settings"])
        return QPolicy(networks, settings, about["organisations"], about["elastic"], about["weight"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PolicyError(f"holds no {WHAT}", path=path) from error
