"""The inputs of a network: which of the site's features, and which of them all candidates share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.arrays import ReservoirArrays
from gridtune.systems.responsive.learners.loop import DecisionLog, LearnerState
from gridtune.systems.responsive.learners.relative import relative_count
from gridtune.systems.responsive.learners.settings import Inputs
from gridtune.systems.responsive.simulator.site import SiteModel
from gridtune.types import BoolArray

__all__ = ["new_learner_state", "new_log", "observed_model", "shared_inputs"]

#: Additional columns of the extended set that describe the site, and the candidate.
_EXTENDED_OF_SITE, _EXTENDED_OF_CANDIDATE = 5, 5


def observed_model(model: SiteModel, inputs: Inputs) -> SiteModel:
    """Return the site with the set of features that a network with these inputs needs."""
    if model.autoscaler is not None and model.autoscaler.rule == "agent":
        raise PolicyError("this learner chooses jobs only: a rule must size the pool", field="autoscaler")
    return replace(model, features="paper" if inputs == "paper" else "extended")


def shared_inputs(organisations: int, elastic: bool, inputs: Inputs) -> BoolArray:
    """Return whether all candidates of a decision share an input, for each input: shape (d,)."""
    shared = [True] * (4 + organisations) + [False] * (organisations + 1 + elastic)
    if inputs != "paper":
        shared += [True] * _EXTENDED_OF_SITE + [False] * _EXTENDED_OF_CANDIDATE
    if inputs == "relative":
        shared += [False] * relative_count(elastic)
    return np.array(shared)


def new_learner_state(arrays: ReservoirArrays, organisations: int, inputs: Inputs) -> LearnerState:
    """Return the state of a learner before its first decision."""
    scratch = np.zeros((2, arrays.bias.shape[1]))
    relative = np.array([int(inputs == "relative")])
    return LearnerState(arrays, arrays.rest(), scratch, relative)


def new_log(decisions: int, arrays: ReservoirArrays) -> DecisionLog:
    """Return an empty log of this many decisions; with 0, nothing is logged."""
    candidate, choices = np.zeros(decisions, np.int64), np.zeros(decisions, np.int64)
    rows = np.zeros((decisions, arrays.columns.size))
    return DecisionLog(candidate, choices, rows, np.zeros((decisions, *arrays.readout.shape)))
