"""What a network is shown: which of the site's features, and which of them all candidates share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.loop import Diary, Mind
from gridtune.systems.responsive.learners.relative import RELATIVE_NAMES, new_lore, relative_count
from gridtune.systems.responsive.learners.settings import Inputs
from gridtune.systems.responsive.simulator.features import feature_names
from gridtune.systems.responsive.simulator.site import SiteModel

__all__ = ["as_seen", "input_names", "new_diary", "new_mind", "shared_inputs"]

#: Of the site's extended set, the columns that describe the site and stand behind the candidate's.
_EXTENDED_OF_SITE, _EXTENDED_OF_CANDIDATE = 5, 5


def as_seen(model: SiteModel, inputs: Inputs) -> SiteModel:
    """Return a site that tells what a network with these inputs is shown."""
    return replace(model, features="paper" if inputs == "paper" else "extended")


def input_names(organisations: int, elastic: bool, inputs: Inputs) -> list[str]:
    """Return what each input is, in order."""
    names = feature_names(organisations, elastic=elastic, extended=inputs != "paper")
    return names + list(RELATIVE_NAMES[: relative_count(elastic)] if inputs == "relative" else ())


def shared_inputs(organisations: int, elastic: bool, inputs: Inputs) -> npt.NDArray[np.bool_]:
    """Return, of each input, whether all candidates of a decision share it: shape (d,)."""
    shared = [True] * (4 + organisations) + [False] * (organisations + 1 + elastic)
    if inputs != "paper":
        shared += [True] * _EXTENDED_OF_SITE + [False] * _EXTENDED_OF_CANDIDATE
    if inputs == "relative":
        shared += [False] * relative_count(elastic)
    return np.array(shared)


def new_mind(arrays: ReservoirArrays, organisations: int, inputs: Inputs) -> Mind:
    """Return a scheduler before its first decision."""
    scratch = np.zeros((2, arrays.bias.shape[1]))
    relative = np.array([int(inputs == "relative")])
    return Mind(arrays, new_lore(organisations), arrays.rest(), scratch, relative)


def new_diary(decisions: int, arrays: ReservoirArrays) -> Diary:
    """Return an empty diary for so many decisions; for none, one that nothing is written into."""
    candidate, choices = np.zeros(decisions, np.int64), np.zeros(decisions, np.int64)
    rows = np.zeros((decisions, arrays.columns.size))
    return Diary(candidate, choices, rows, np.zeros((decisions, *arrays.readout.shape)))
