"""A training for tests of sweeps that takes no time: what it learns is a sum. Loaded as a plug-in."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from gridtune.core.measures import Measure
from gridtune.core.system import Outcome, System, SystemParameters, register_system
from gridtune.training.system import Training, TrainingParameters


class ToyTrainingParameters(TrainingParameters):
    rate: float = Field(0.1, description="learned in an iteration")
    network: str = Field("plain", description="cannot change")


class ToyPPO(Training):
    """Its score is the sum of the rates of all iterations, whatever they were before."""

    name = "toytrained/ppo"
    version = "1"
    Parameters: ClassVar[type[SystemParameters]] = ToyTrainingParameters
    metrics: ClassVar = {"score": Measure("1", "max", "Σ rates", source="gridtune")}
    objective = "score"
    changeable = ("rate",)
    needs_ray = False

    def config(self, parameters, *, seed, load):
        raise NotImplementedError

    def evaluate(self, parameters, algorithm, *, rng, load):
        raise NotImplementedError

    def write_policy(self, parameters, algorithm, path, notes):
        raise NotImplementedError

    def preflight(self, parameters, load):
        """Nothing is needed."""

    def run(self, parameters, *, streams, load, tables):
        return Outcome({"score": _score(parameters)})


def _score(parameters: ToyTrainingParameters) -> float:
    before, done = 0.0, 0
    if parameters.history is not None:
        earlier = parameters.earlier()
        before, done = _score(earlier), earlier.iterations
    return before + parameters.rate * (parameters.iterations - done)


class ToyTrained(System):
    """A system that is trained."""

    name = "toytrained"
    version = "1"
    Parameters: ClassVar[type[SystemParameters]] = SystemParameters
    metrics: ClassVar = {"score": Measure("1", "max", "none", source="gridtune")}
    trainings: ClassVar = {"ppo": f"{__name__}:ToyPPO"}

    def run(self, parameters, *, streams, load, tables):
        return Outcome({"score": 0.0})


register_system(ToyTrained())
